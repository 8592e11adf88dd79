"""What teaches and what judges, and fine-tuning on one's own pictures and videos."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fakes import COLORS, ColoredThings, Thing, coloured_things, thing_picture, write_film, write_picture

import panorama
from panorama.content import content_dir
from panorama.errors import BadImage, LibraryWriteError, ModelError, UsageError
from panorama.models.registry import load_embedder
from panorama.models.retrieval import retrieval_scores
from panorama.models.training.heldout import held_out_pictures
from panorama.models.training.sources import gather, read_picture
from panorama.models.training.split import CHOOSE, JUDGE, LEARN
from panorama.models.weights import read_recipe
from panorama.own_training import RECIPE_NAME, OwnData, fine_tune, recipe_text
from panorama.own_training.pictures import from_folders, from_library, passed_over
from panorama.own_training.split import UNUSED, Picture, divided, write_table
from panorama.training import TrainingOptions


def clip_pictures(spec: dict[str, list[str]], guessed: bool = False) -> list[Picture]:
    """Two pictures for each (identity, clip), of one track each."""
    return [
        Picture(f"{name}-{clip}-{i}.png", name, guessed, clip, f"{name}-{clip}-{i}" if clip else "")
        for name, clips in spec.items()
        for clip in clips
        for i in (0, 1)
    ]


EIGHT_CLIPS = {
    **{f"thing-{i}": [f"clip-{i % 8}"] for i in range(24)},
    "everywhere": [f"clip-{i}" for i in range(8)],
}


@pytest.mark.parametrize("seed", range(6))
def test_no_thing_and_no_clip_is_in_two_parts(seed: int) -> None:
    pictures = clip_pictures(EIGHT_CLIPS)
    parts = divided(pictures, seed)
    for of in (lambda p: p.identity, lambda p: p.clip):
        seen = [
            {of(p) for p, part in zip(pictures, parts, strict=True) if part == wanted}
            for wanted in (LEARN, CHOOSE, JUDGE)
        ]
        assert all(seen)
        assert not seen[0] & seen[1] and not seen[1] & seen[2] and not seen[0] & seen[2]
    # What is seen in every clip judges in the judging ones, and is used nowhere else.
    everywhere = {part for p, part in zip(pictures, parts, strict=True) if p.identity == "everywhere"}
    assert everywhere == {JUDGE, UNUSED}


def test_without_clips_a_quarter_of_the_things_judges_and_a_quarter_chooses() -> None:
    pictures = clip_pictures({f"thing{i}": [""] for i in range(12)})
    parts = divided(pictures, 0)
    assert [parts.count(part) for part in (LEARN, CHOOSE, JUDGE)] == [12, 6, 6]  # two pictures of each
    assert parts == divided(pictures, 0)
    assert parts != divided(pictures, 1)


def test_what_is_like_nothing_else_judges_by_its_track_and_teaches_nothing() -> None:
    pictures = [
        Picture(f"{clip}-{track}-{i}.png", name, True, clip, f"{clip}#{track}", 0.0, 1.0)
        for clip in ("a", "b", "c", "d")
        for track, name in enumerate([f"thing-{clip}", f"other-{clip}", "", ""])
        for i in (0, 1)
    ]
    parts = divided(pictures, 0)
    lone = {part for p, part in zip(pictures, parts, strict=True) if not p.identity}
    assert lone == {JUDGE, CHOOSE, UNUSED}


def test_videos_that_had_to_be_divided_are_counted(tmp_path: Path) -> None:
    two = {f"thing-{i}": [f"clip-{i % 2}"] for i in range(12)}
    assert write_table(clip_pictures(two), tmp_path / "two", 0).shared_clips == 2
    assert write_table(clip_pictures(EIGHT_CLIPS), tmp_path / "eight", 0).shared_clips == 0


def test_too_few_things_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"3 identities are too few.*add footage"):
        divided(clip_pictures({"a": ["x"], "b": ["x"], "c": ["y"]}), 0)
    once = [Picture(f"{i}.png", f"thing{i}") for i in range(9)]
    with pytest.raises(UsageError, match=r"0 to learn from, 0 to choose by, 0 to judge by") as refused:
        divided(once, 0)
    # That every folder had a single picture, and what is needed instead, it did not say.
    assert "6 with two pictures or more; 9 of 9 folders have only one picture" in str(refused.value)
    with pytest.raises(UsageError, match="9 of 12 folders have only one picture"):
        divided([*once, *(Picture(f"{i}-{n}.png", f"twice{i}") for i in range(3) for n in range(2))], 0)


def test_things_with_one_picture_take_nothing_from_what_could_teach() -> None:
    """Nine folders of four pictures were refused beside eight of one: one was left to learn from."""
    several = [Picture(f"{i}-{n}.png", f"thing{i}") for i in range(9) for n in range(4)]
    for lone in (0, 8, 60):
        pictures = [*several, *(Picture(f"lone{i}.png", f"lone{i}") for i in range(lone))]
        parts = divided(pictures, 0)
        counts = [parts[: len(several)].count(part) for part in (LEARN, CHOOSE, JUDGE)]
        assert counts == [20, 8, 8]


def test_the_table_is_what_training_reads_and_what_is_held_back_is_not_in_it(tmp_path: Path) -> None:
    for i in range(8):
        for n in range(3):
            write_picture(tmp_path / "zoo" / f"animal{i}" / f"{n}.jpg", thing_picture("red", 32 + i))
    found = write_table(from_folders([tmp_path / "zoo"]), tmp_path / "out", seed=0)
    assert (found.pictures, found.learning, found.choosing, found.judging) == (24, 4, 2, 2)
    source = {"name": "own", "kind": "labelled-csv", "data": "own", "csv": "pictures.csv"}
    taught = {item.label for item in gather([source], {"own": tmp_path / "out"})}
    held = set(held_out_pictures([source], {"own": tmp_path / "out"}).labels)
    assert len(taught) == 4 and len(held) == 4
    assert not taught & held


def test_a_folder_without_folders_says_what_is_expected(tmp_path: Path) -> None:
    write_picture(tmp_path / "flat" / "a.jpg", thing_picture("red"))
    with pytest.raises(UsageError, match="IDENTITY"):
        from_folders([tmp_path / "flat"])
    with pytest.raises(UsageError, match="no folder"):
        from_folders([tmp_path / "absent"])


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six clips; every colour comes twice in each, one after the other."""
    folder = tmp_path_factory.mktemp("films")
    for number in range(6):
        things = [
            Thing(color, start=20 * i, stop=20 * i + 18, left=10 + 5 * number)
            for i, color in enumerate([*COLORS, *COLORS])
        ]
        write_film(folder / f"film{number}.mp4", things, frames=20 * len(things))
    return folder


@pytest.fixture(scope="module")
def library(films: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[panorama.Library]:
    """The films, indexed with the coloured things for regions; to be read only."""
    with panorama.open(tmp_path_factory.mktemp("own") / "library", create=True) as made:
        with coloured_things():
            made.index(films)
        yield made


def colour_of(file: str) -> str:
    picture = cv2.imread(file)
    assert picture is not None
    rgb = picture[..., ::-1][picture.shape[0] * 3 // 5 :].reshape(-1, 3).mean(axis=0)
    return min(COLORS, key=lambda name: float(np.abs(np.array(COLORS[name]) - rgb).sum()))


def test_pseudo_identities_of_a_library_each_show_one_thing(
    library: panorama.Library, tmp_path: Path
) -> None:
    found = from_library(library, tmp_path / "out")
    shown: dict[str, set[str]] = {}
    for picture in found:
        assert picture.guessed and picture.end_seconds > picture.start_seconds
        if picture.identity:
            shown.setdefault(picture.identity, set()).add(colour_of(picture.file))
    assert len(shown) >= len(COLORS)
    assert all(len(colours) == 1 for colours in shown.values())
    assert set.union(*shown.values()) == set(COLORS)


def test_a_query_chooses_the_crops_and_may_name_them(library: panorama.Library, tmp_path: Path) -> None:
    some = from_library(library, tmp_path / "a", "SELECT crop_id FROM crops WHERE video <> 'film0.mp4'")
    assert {p.clip for p in some} == {f"film{i}.mp4" for i in range(1, 6)}
    named = from_library(library, tmp_path / "b", "SELECT crop_id, 'thing of ' || video AS entity FROM crops")
    assert {p.identity for p in named} == {f"thing of film{i}.mp4" for i in range(6)}
    assert not any(p.guessed for p in named)
    with pytest.raises(UsageError, match=r"must return crop_id.*returns video"):
        from_library(library, tmp_path / "c", "SELECT video FROM crops")
    with pytest.raises(UsageError, match="12 is not a crop_id"):
        from_library(library, tmp_path / "c", "SELECT 12 AS crop_id")


def tuned(own: OwnData, out: Path, library: panorama.Library | None, **options: Any) -> dict[str, Any]:
    def none() -> panorama.Library:
        assert library is not None
        return library

    return fine_tune(
        own,
        out,
        TrainingOptions(device="cpu", threads=1, **options),
        start="panoramanet",
        library=none,
        scratch=lambda folder: panorama.open(folder, create=True),
        say=lambda line: None,
    )


def tinted(number: int, view: int) -> np.ndarray:
    """A thing's own texture, in light of another colour at every view."""
    texture = np.random.default_rng((number, 7)).integers(60, 200, (4, 4, 3)).astype(np.uint8)
    picture = cv2.resize(texture, (64, 64), interpolation=cv2.INTER_CUBIC).astype(np.float32)
    light = np.random.default_rng((number, view)).uniform(0.35, 1.6, 3)
    return np.asarray(np.clip(picture * light, 0, 255), np.uint8)


@pytest.fixture(scope="module")
def tinted_things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Things that differ from themselves in one way only, which can be learned."""
    folder = tmp_path_factory.mktemp("tinted") / "things"
    for number in range(32):
        for view in range(6):
            write_picture(folder / f"thing{number}" / f"{view}.png", tinted(number, view))
    return folder


@pytest.fixture(scope="module")
def alike_things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Things that are found without fail as it is: nothing can be gained."""
    folder = tmp_path_factory.mktemp("alike") / "things"
    for number, color in enumerate([*COLORS, *COLORS]):
        for view in range(3):
            side = 40 if number < len(COLORS) else 60
            picture = thing_picture(color, side + view)
            picture = picture if number < len(COLORS) else np.ascontiguousarray(picture[:, :, ::-1] // 3)
            write_picture(folder / f"thing{number}" / f"{view}.png", picture)
    return folder


def test_what_helps_is_written_and_reported_and_answers(tinted_things: Path, tmp_path: Path) -> None:
    out = tmp_path / "my-net"
    result = tuned(OwnData(folders=(tinted_things,)), out, None)
    assert result["share"] > 0 and result["model"] == str(out)
    assert result["after_map_exit_3"] > result["before_map_exit_3"] + 0.03
    assert [row["share"] for row in result["tried"]] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert json.loads((out / "result.json").read_text()) == result
    assert cv2.imread(str(out / "training.png")).shape[2] == 3
    with (out / "pictures.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["held"] for row in rows} == {LEARN, CHOOSE, JUDGE}
    # What was reported is what the model on disk does.
    mine, start = load_embedder(str(out)), load_embedder("panoramanet")
    assert mine.name == "my-net" and mine.hash != start.hash
    judged = [row for row in rows if row["held"] == JUDGE]
    pictures = [read_picture(Path(row["file"])) for row in judged]
    for net, when in ((start, "before"), (mine, "after")):
        found = retrieval_scores(net.embed(pictures), [row["class"] for row in judged])
        assert found[0] == pytest.approx(result[f"{when}_map_exit_3"], abs=0.01)
    library = panorama.open(tmp_path / "library", create=True)
    film = write_film(tmp_path / "film.mp4", [Thing("red", 0, 30)])
    with coloured_things():
        library.index(film, model=str(out))
    library.register("red", [write_picture(tmp_path / "red.png", thing_picture("red"))])
    assert len(library.query("SELECT moments WHERE entity = 'red'")) > 0
    (out / "model.safetensors").unlink()
    again = tuned(OwnData(folders=(tinted_things,)), out, None, resume=True)
    assert (out / "model.safetensors").is_file()
    assert again["after_map_exit_3"] == pytest.approx(result["after_map_exit_3"], abs=1e-6)


def test_what_does_not_help_leaves_no_model_and_says_so(alike_things: Path, tmp_path: Path, run: Any) -> None:
    told = run("train", "--folders", alike_things, "--out", tmp_path / "my-net", "--threads", 1)
    assert told.status == 3
    assert "this data did not help, so no model was written and yours is unchanged" in told.err
    result = json.loads(told.out)
    assert result["share"] == 0 and result["model"] is None
    assert result["after_map_exit_3"] == result["before_map_exit_3"]
    assert not {"model.safetensors", "recipe.toml"} & {path.name for path in (tmp_path / "my-net").iterdir()}
    # Resumed where an earlier training left a model, it said that none was written, and one was there.
    assert "still holds" not in told.err
    (tmp_path / "my-net" / "model.safetensors").write_bytes(b"of before")
    again = run("train", "--out", tmp_path / "my-net", "--resume", "--threads", 1)
    assert (again.status, json.loads(again.out)["model"]) == (3, None)
    assert "my-net still holds the model of an earlier training; this one did not change it" in again.err
    (tmp_path / "my-net" / "model.safetensors").unlink()
    # It was "no embedder 'my-net'", as of a folder that is not there.
    write_film(tmp_path / "film.mp4", [Thing("red", 0, 5)], frames=5)
    used = run("index", tmp_path / "film.mp4", "--model", tmp_path / "my-net")
    assert used.status == 1 and not Path("panorama-library").exists()
    assert used.err.startswith(f"ModelError: {tmp_path / 'my-net'} holds no model: the training data did not")
    assert "Keep using the model that you have, or train in a new folder" in used.err
    with pytest.raises(ModelError, match="no embedder"):
        load_embedder(str(tmp_path))


def test_videos_are_learned_from_and_judged_by_their_tracks(
    films: Path, tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    out = tmp_path / "my-net"
    result = tuned(OwnData(videos=(films,)), out, None)
    assert {"before_map_exit_3", "after_map_exit_3"} <= set(result)
    assert [row["share"] for row in result["tried"]] == [0.0, 0.25, 0.5]  # nobody has named these things
    with (out / "pictures.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    held = [row for row in rows if row["held"] in (CHOOSE, JUDGE)]
    assert held and all(row["class"] == row["moment"] and row["clip"] and row["end"] for row in held)
    assert any(row["held"] == LEARN and "thing-" in row["class"] for row in rows)
    # Broken off before the table was written: what is indexed is not indexed again.
    (out / RECIPE_NAME).unlink()
    assert tuned(OwnData(videos=(films,)), out, None, resume=True)["share"] == result["share"]


def test_the_command_says_what_goes_with_what(run: Any, tmp_path: Path) -> None:
    assert "say what to learn from" in run("train", "--out", tmp_path / "n").err
    both = run("train", "recipe.toml", "--folders", tmp_path, "--out", tmp_path / "n")
    assert both.status == 2 and "a recipe names its own pictures" in both.err
    assert "--data needs a recipe" in run("train", "--data", f"a={tmp_path}", "--out", "n").err
    lost = run("train", "--folders", tmp_path / "none", "--out", tmp_path / "n")
    assert lost.status != 0 and "no folder" in lost.err
    unseen = run("train", "--videos", tmp_path / "none", "--out", tmp_path / "m")
    assert unseen.status == 2 and "--videos: there is no video at" in unseen.err
    assert "nothing to resume" in run("train", "--folders", tmp_path, "--resume", "--out", tmp_path / "n").err


def test_what_fails_at_once_leaves_no_empty_folder_behind(run: Any, tmp_path: Path) -> None:
    write_picture(tmp_path / "flat" / "a.png", thing_picture("red"))
    (tmp_path / "kept").mkdir()
    recipe = content_dir("embeddings") / "panoramanet" / "recipe.toml"
    for words in (["--folders", "flat"], ["--folders", "flat", "--start", "color-bands"], [recipe]):
        for out in ("new", "a/b/c", "kept"):
            assert run("train", *words, "--out", out).status in (1, 2), words
        assert sorted(path.name for path in tmp_path.iterdir()) == ["flat", "kept"], words
    (tmp_path / "kept" / "notes.txt").write_text("mine")
    assert run("train", "--folders", "flat", "--out", "kept/more").status == 2
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["notes.txt"]


def test_a_start_that_cannot_be_trained_is_told_before_anything_is_read(run: Any) -> None:
    told = run("train", "--folders", "absent", "--start", "color-bands", "--out", "new")
    assert told.status != 0 and "color-bands" in told.err and "absent" not in told.err


def test_a_fine_tuning_recipe_can_be_run_again_by_name(tinted_things: Path, tmp_path: Path, run: Any) -> None:
    first = run("train", "--folders", tinted_things, "--out", tmp_path / "net", "--threads", 1)
    assert first.status == 0, first.err
    assert "held back to judge" in first.err and "are found better" in first.err
    words = ("train", tmp_path / "net" / RECIPE_NAME, "--data", f"own={tmp_path / 'net'}", "--threads", 1)
    again = run(*words, "--out", tmp_path / "net2")
    assert again.status == 0, again.err
    before, after = json.loads(first.out), json.loads(again.out)
    assert after["share"] == before["share"] and after["tried"] == before["tried"]
    names = {"model.safetensors", "cohort.safetensors", "ranges.json", "calibration.json"}
    assert names <= {path.name for path in (tmp_path / "net2").iterdir()}
    refused = run(*words, "--out", tmp_path / "net3", "--steps", 4)
    assert refused.status != 0 and "computed in one go" in refused.err
    assert "computed in one go" in run("train", "--folders", tinted_things, "--steps", 4, "--out", "n").err


def test_a_file_that_two_folders_bring_counts_once(tmp_path: Path) -> None:
    for i in range(2):
        write_picture(tmp_path / "zoo" / f"animal{i}" / "0.png", thing_picture("red", 32 + i))
    assert from_folders([tmp_path / "zoo", tmp_path / "zoo"]) == from_folders([tmp_path / "zoo"])


def test_a_picture_whose_name_is_no_text_is_told(tmp_path: Path) -> None:
    """The whole table was told as its name."""
    for i in range(2):
        write_picture(tmp_path / "zoo" / f"animal{i}" / "0.png", thing_picture("red", 32 + i))
    odd = os.fsdecode(b"caf\xe9.png")
    try:
        (tmp_path / "zoo" / "animal1" / "0.png").rename(tmp_path / "zoo" / "animal1" / odd)
    except OSError:
        pytest.skip("this file system takes no such names")
    with pytest.raises(UsageError) as refused:
        from_folders([tmp_path / "zoo"])
    assert str(refused.value).startswith(f"{tmp_path / 'zoo' / 'animal1' / odd} is not UTF-8 text")


def test_folders_of_one_name_hold_different_things(tmp_path: Path) -> None:
    """Both were cats of `photos`: two animals became one to learn from."""
    for owner in ("ann", "bob"):
        write_picture(tmp_path / owner / "photos" / "cat" / "0.png", thing_picture("red"))
    both = from_folders([tmp_path / "ann" / "photos", tmp_path / "bob" / "photos"])
    assert [p.identity for p in both] == ["ann/photos/cat", "bob/photos/cat"]
    inner = tmp_path / "ann" / "photos" / "ann" / "photos"
    write_picture(inner / "cat" / "1.png", thing_picture("blue"))
    nested = from_folders([inner, tmp_path / "ann" / "photos"])
    assert nested[0].identity == "photos/ann/photos/cat" and len({p.identity for p in nested}) == 2
    assert from_folders([tmp_path / "bob" / "photos"])[0].identity == "photos/cat"


def test_what_is_left_out_of_folders_to_learn_from_is_said(tmp_path: Path) -> None:
    write_picture(tmp_path / "zoo" / "cat" / "0.png", thing_picture("red"))
    write_picture(tmp_path / "zoo" / "loose.png", thing_picture("red"))
    for name in ("1.dng", "2.dng", "._0.png"):
        (tmp_path / "zoo" / "cat" / name).write_bytes(b"nothing that is read")
    assert len(from_folders([tmp_path / "zoo"])) == 1
    assert passed_over([tmp_path / "zoo"]) == [
        f"left out of {tmp_path / 'zoo'}: 2 .dng (cannot be read: save as JPEG or PNG)",
        f"left out of {tmp_path / 'zoo'}: 1 picture in none of its folders, as loose.png",
    ]


def test_crops_of_a_query_and_of_videos_do_not_overwrite_each_other(
    library: panorama.Library, tmp_path: Path
) -> None:
    asked = from_library(library, tmp_path, "SELECT crop_id FROM crops")
    files = {p.file for p in asked}
    assert files.isdisjoint(p.file for p in from_library(library, tmp_path))


def test_a_crop_that_cannot_be_written_is_told(library: panorama.Library, tmp_path: Path) -> None:
    """On a full disk its file was missing, nothing was said, and reading the pictures failed later."""
    first = Path(from_library(library, tmp_path, "SELECT crop_id FROM crops")[0].file)
    first.unlink()
    first.mkdir()
    with pytest.raises(LibraryWriteError, match=f"{first.name} cannot be written"):
        from_library(library, tmp_path, "SELECT crop_id FROM crops")


def test_a_video_that_the_query_brings_too_is_refused(
    library: panorama.Library, films: Path, tmp_path: Path
) -> None:
    own = OwnData(videos=(films / "film1.mp4",), query="SELECT crop_id FROM crops")
    with pytest.raises(UsageError, match=r"film1\.mp4 comes with --videos and with --query"):
        tuned(own, tmp_path / "net", library)
    other = "SELECT crop_id FROM crops WHERE video = 'film0.mp4' LIMIT 1"
    apart = OwnData(videos=(films / "film1.mp4",), query=other)
    with coloured_things():
        assert "share" in tuned(apart, tmp_path / "net2", library)


def test_a_tree_of_kinds_is_told_to_count_as_one_thing_each(tmp_path: Path) -> None:
    """Fruit/Apple, Fruit/Kiwi and so on were all learned as one thing, 'Fruit', without a word."""
    for place in (
        "fruit/apple/1",
        "fruit/kiwi/1",
        "fruit/pear/1",
        "milk/1",
        "juice/first/1",
        "rest/a/1",
        "rest/b/1",
    ):
        path = tmp_path / "own" / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.zeros((8, 8, 3), np.uint8))
    own = tmp_path / "own"
    [told] = passed_over([own])
    assert told.startswith(f"all pictures in {own / 'fruit'} count as one thing, 'fruit'")
    assert "(apple, kiwi, ...), as in 1 more;" in told and told.endswith(f"--folders {own / 'fruit'}")
    assert passed_over([own / "fruit"]) == []


def test_a_folder_that_holds_a_model_is_not_written_into(alike_things: Path, tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "model.safetensors").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"already holds a model.*new folder"):
        tuned(OwnData(folders=(alike_things,)), tmp_path / "net", None)
    assert [path.name for path in (tmp_path / "net").iterdir()] == ["model.safetensors"]


def test_a_picture_that_cannot_be_read_says_how_to_go_on(alike_things: Path, tmp_path: Path) -> None:
    folder = tmp_path / "things"
    shutil.copytree(alike_things, folder)
    for path in folder.glob("*/1.png"):
        path.write_bytes(b"nothing")
    with pytest.raises(BadImage, match=r"1\.png cannot be read.*without --resume"):
        tuned(OwnData(folders=(folder,)), tmp_path / "net", None)
    for path in folder.glob("*/1.png"):
        path.unlink()
    assert tuned(OwnData(folders=(folder,)), tmp_path / "net", None)["model"] is None


@pytest.mark.parametrize("name", ["plain", "Käfer 😀", 'a "b" \\c'])
def test_whatever_a_folder_is_called_its_recipe_can_be_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / RECIPE_NAME
    path.write_text(recipe_text(name, "panoramanet"), encoding="utf-8")
    assert read_recipe(path)["name"] == name


@pytest.mark.parametrize("left", ["checkpoint.safetensors", "model.safetensors"])
def test_a_recipe_begins_nothing_where_a_training_lies(left: str, tmp_path: Path, run: Any) -> None:
    """Without --resume a training began anew over hours of another, and wrote over its model."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / left).write_bytes(b"hours of work")
    recipe = content_dir("embeddings") / "panoramanet" / "recipe.toml"
    done = run("train", str(recipe), "--data", f"footage={tmp_path}", "--out", "out", "--steps", "2")
    assert done.status == 2 and left in done.err and "continue it with --resume" in done.err
    assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"hours of work"]
