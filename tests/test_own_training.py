"""Pseudo-identities from tracks, what teaches and what judges, and fine-tuning on one's own."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fakes import COLORS, ColoredThings, Thing, coloured_things, thing_picture, write_film, write_picture
from hypothesis import given, settings
from hypothesis import strategies as st

import panorama
from panorama.content import content_dir
from panorama.errors import UsageError
from panorama.models.registry import load_embedder
from panorama.models.training.heldout import held_out_pictures
from panorama.models.training.sources import gather
from panorama.own_pictures import Labelled, from_folders, from_library, held_back, write_table
from panorama.own_training import RECIPE_NAME, OwnData, fine_tune
from panorama.pseudo import NOISE, Tracks, pseudo_identities
from panorama.training import TrainingOptions


def tracks_at(angles: list[float], videos: list[int], starts: list[float]) -> Tracks:
    """Tracks of one second whose vectors lie at these angles (degrees) on a circle."""
    turn = np.deg2rad(angles)
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    begin = np.array(starts, np.float64)
    return Tracks(np.arange(len(angles)), np.array(videos), begin, begin + 1.0, vectors)


def near(tracks: Tracks, degrees: float = 12.0) -> np.ndarray:
    return np.asarray(tracks.vectors @ tracks.vectors.T >= np.cos(np.deg2rad(degrees)))


def test_tracks_that_recur_are_one_identity_and_a_lone_one_is_noise() -> None:
    tracks = tracks_at([0, 2, 4, 90, 91, 93, 200], [0, 1, 2, 0, 1, 2, 0], [0, 0, 0, 5, 5, 5, 9])
    found = pseudo_identities(tracks, near(tracks))
    assert len(set(found[:3])) == 1 and len(set(found[3:6])) == 1
    assert found[0] != found[3]
    assert NOISE not in found[:6] and found[6] == NOISE


def test_two_that_are_visible_at_once_are_never_one_identity() -> None:
    tracks = tracks_at([0, 1, 2, 3, 90, 91, 92], [0, 0, 1, 2, 0, 1, 2], [0, 0.5, 0, 0, 7, 7, 7])
    found = pseudo_identities(tracks, near(tracks))
    assert found[0] == NOISE or found[1] == NOISE or found[0] != found[1]


def test_what_the_decision_does_not_accept_is_not_joined() -> None:
    tracks = tracks_at([0, 30, 60, 90, 120], [0, 1, 2, 3, 4], [0.0] * 5)
    assert set(pseudo_identities(tracks, near(tracks))) == {NOISE}


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_no_identity_holds_two_tracks_of_one_time_and_none_is_alone(data: st.DataObject) -> None:
    count = data.draw(st.integers(3, 24))
    angles = data.draw(st.lists(st.floats(0, 360), min_size=count, max_size=count))
    videos = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    starts = data.draw(st.lists(st.integers(0, 4).map(float), min_size=count, max_size=count))
    tracks = tracks_at(angles, videos, starts)
    found = pseudo_identities(tracks, near(tracks))
    for identity in set(found.tolist()) - {NOISE}:
        members = np.flatnonzero(found == identity)
        assert len(members) >= 2
        assert not tracks.together()[np.ix_(members, members)].any()


def clip_pictures(spec: dict[str, list[str]]) -> Labelled:
    """Two pictures for each (identity, clip)."""
    rows = [
        (f"{name}-{clip}-{i}.png", name, clip)
        for name, clips in spec.items()
        for clip in clips
        for i in (0, 1)
    ]
    return Labelled([r[0] for r in rows], [r[1] for r in rows], [r[2] for r in rows])


def test_neither_a_judging_thing_nor_a_judging_clip_is_learned_from() -> None:
    spec = {
        "a": ["one"], "b": ["one"], "c": ["two"], "d": ["two"], "e": ["three"], "f": ["three"],
        "g": ["four"], "h": ["four"], "everywhere": ["one", "two", "three", "four"],
    }  # fmt: skip
    labelled = clip_pictures(spec)
    for seed in range(6):
        held = held_back(labelled, seed)
        rows = list(zip(held, labelled.identities, labelled.clips, strict=True))
        taught = [(name, clip) for judges, name, clip in rows if judges is False]
        judged = [(name, clip) for judges, name, clip in rows if judges is True]
        assert taught and judged
        assert not {name for name, _ in taught} & {name for name, _ in judged}
        assert not {clip for _, clip in taught} & {clip for _, clip in judged}
        # What is seen in both kinds of clip judges, and teaches nothing.
        assert ("everywhere" in {name for name, _ in judged}) and None in held


def test_without_clips_a_quarter_of_the_identities_judges() -> None:
    labelled = clip_pictures({f"thing{i}": [""] for i in range(12)})
    held = held_back(labelled, 0)
    assert sum(h is True for h in held) == 6  # three identities of two pictures
    assert held == held_back(labelled, 0)
    assert held != held_back(labelled, 1)


def test_too_few_identities_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"3 identities are too few.*add footage"):
        held_back(clip_pictures({"a": ["x"], "b": ["x"], "c": ["y"]}), 0)


def test_the_table_is_what_training_reads_and_what_judges_is_not_in_it(tmp_path: Path) -> None:
    for i in range(8):
        for n in range(3):
            write_picture(tmp_path / "zoo" / f"animal{i}" / f"{n}.jpg", thing_picture("red", 32 + i))
    write_table(from_folders([tmp_path / "zoo"]), tmp_path / "out", seed=0)
    source = {"name": "own", "kind": "labelled-csv", "data": "own", "csv": "pictures.csv"}
    taught = {item.label for item in gather([source], {"own": tmp_path / "out"})}
    judging = set(held_out_pictures([source], {"own": tmp_path / "out"}).labels)
    assert len(taught) == 6 and len(judging) == 2
    assert not taught & judging


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
    assert len(set(found.identities)) >= len(COLORS)
    shown: dict[str, set[str]] = {}
    for file, name in zip(found.files, found.identities, strict=True):
        shown.setdefault(name, set()).add(colour_of(file))
    assert all(len(colours) == 1 for colours in shown.values())
    assert set.union(*shown.values()) == set(COLORS)


def test_a_query_chooses_the_crops_and_may_name_them(library: panorama.Library, tmp_path: Path) -> None:
    some = from_library(library, tmp_path / "a", "SELECT crop_id FROM crops WHERE video <> 'film0.mp4'")
    assert set(some.clips) == {f"film{i}.mp4" for i in range(1, 6)}
    named = from_library(library, tmp_path / "b", "SELECT crop_id, 'thing of ' || video AS entity FROM crops")
    assert set(named.identities) == {f"thing of film{i}.mp4" for i in range(6)}
    with pytest.raises(UsageError, match=r"must return crop_id.*returns video"):
        from_library(library, tmp_path / "c", "SELECT video FROM crops")
    with pytest.raises(UsageError, match="12 is no crop_id"):
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


def test_fine_tuning_on_videos_reports_before_and_after_and_the_model_answers(
    films: Path, tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    out = tmp_path / "my-net"
    result = tuned(OwnData(videos=(films,)), out, None, steps=2)
    assert {"before_map_exit_3", "after_map_exit_3"} <= set(result)
    with (out / "pictures.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["held"] for row in rows} == {"0", "1"}
    assert load_embedder(str(out)).name == "my-net"
    library = panorama.open(tmp_path / "library", create=True)
    library.index(films / "film0.mp4", model=str(out))
    library.register("red", [write_picture(tmp_path / "red.png", thing_picture("red"))])
    assert len(library.query("SELECT moments WHERE entity = 'red'")) > 0
    again = tuned(OwnData(videos=(films,)), out, None, steps=3, resume=True)
    assert again["steps"] == 3


def test_the_command_says_what_goes_with_what(run: Any, tmp_path: Path) -> None:
    assert "say what to learn from" in run("train", "--out", tmp_path / "n").err
    both = run("train", "recipe.toml", "--folders", tmp_path, "--out", tmp_path / "n")
    assert both.status == 2 and "a recipe names its pictures" in both.err
    assert "--data belongs to a recipe" in run("train", "--data", f"a={tmp_path}", "--out", "n").err
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


def test_a_fine_tuning_recipe_can_be_run_again_by_name(tmp_path: Path, run: Any) -> None:
    for i, color in enumerate([*COLORS, "red"]):
        for n in range(2):
            write_picture(tmp_path / "zoo" / f"t{i}" / f"{n}.png", thing_picture(color, 40 + n))
    first = run(
        "train", "--folders", tmp_path / "zoo", "--out", tmp_path / "net", "--steps", 1, "--threads", 1
    )
    assert first.status == 0, first.err
    assert "held back to judge" in first.err
    again = run(
        "train", tmp_path / "net" / RECIPE_NAME, "--data", f"own={tmp_path / 'net'}",
        "--out", tmp_path / "net2", "--threads", 1,
    )  # fmt: skip
    assert again.status == 0, again.err
    assert json.loads(again.out)["steps"] == 1
