"""What a fine-tuning was made of is written down, and one that is resumed is of the same."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes import COLORS, Thing, coloured_things, thing_picture, write_film, write_picture

import panorama
from panorama.content import content_dir
from panorama.errors import BadImage, ModelError, UsageError
from panorama.models.interrupts import training_in
from panorama.models.training.sources import read_picture
from panorama.models.weights import read_recipe
from panorama.own_training import RECIPE_NAME, OwnData, fine_tune, recipe_text
from panorama.own_training.made_of import recorded, toml_text
from panorama.own_training.split import Picture, write_table
from panorama.training import TrainingOptions, train_recipe


@pytest.fixture(scope="module")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight things, three pictures of each; nothing can be learned from them."""
    folder = tmp_path_factory.mktemp("things") / "things"
    for number, color in enumerate([*COLORS, *COLORS][:8]):
        for view in range(3):
            write_picture(
                folder / f"thing{number}" / f"{view}.png", thing_picture(color, 30 + 8 * number + view)
            )
    return folder


@pytest.fixture(scope="module")
def trained(things: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "net"
    tuned(OwnData(folders=(things,)), out, seed=3)
    return out


def tuned(own: OwnData, out: Path, start: str | None = None, **options: Any) -> list[str]:
    """Fine-tune, and what was said of it."""
    told: list[str] = []
    fine_tune(
        own,
        out,
        TrainingOptions(device="cpu", threads=1, **options),
        start=start,
        library=panorama.open,
        scratch=lambda folder: panorama.open(folder, create=True),
        say=told.append,
    )
    return told


def test_sources_start_and_seed_are_in_the_recipe(things: Path, trained: Path) -> None:
    made = recorded(trained / RECIPE_NAME)
    assert (made.folders, made.videos, made.query) == ((str(things),), (), "")
    assert (made.start, made.seed) == ("panoramanet", 3)
    assert toml_text("a\x7fb") == '"a\\u007fb"'


@pytest.mark.parametrize(
    ("own", "more", "told"),
    [
        (OwnData(folders=(Path("other"),)), {}, r"--folders \S+other: \S+ was made with --folders \S+gs;"),
        (OwnData(videos=(Path("films"),)), {}, r"--videos \S+films: \S+ was made without --videos; leave"),
        (OwnData(query="SELECT crop_id FROM crops"), {}, "--query SELECT .* was made without --query"),
        (OwnData(), {"seed": 99}, "--seed 99: .* was made with --seed 3; leave out --seed"),
        (OwnData(), {"start": "nonsense"}, "--start nonsense: .* with --start panoramanet; .* new folder"),
    ],
)
def test_another_source_start_or_seed_is_refused_with_resume(
    own: OwnData, more: dict[str, Any], told: str, trained: Path
) -> None:
    """All were ignored, and the model that came out was of other data than asked for."""
    with pytest.raises(UsageError, match=told):
        tuned(own, trained, resume=True, **more)


def test_what_is_not_said_again_is_as_it_was(things: Path, trained: Path) -> None:
    shipped = str(content_dir("embeddings") / "panoramanet")
    for own, more in ((OwnData(), {}), (OwnData(folders=(things, things)), {"seed": 3, "start": shipped})):
        (told,) = tuned(own, trained, resume=True, **more)
        assert "this data did not help" in told


def test_a_folder_that_does_not_say_what_it_was_made_of_goes_on_and_says_so(
    things: Path, trained: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(trained, old)
    text = (old / RECIPE_NAME).read_text(encoding="utf-8")
    (old / RECIPE_NAME).write_text(re.sub(r"\n# Where.*seed = 3\n", "\n", text, flags=re.DOTALL))
    unknown, verdict = tuned(OwnData(folders=(things,)), old, resume=True, seed=8, start="panoramanet")
    assert "does not say what it was made of" in unknown and "--folders and --seed cannot be" in unknown
    assert "did not help" in verdict
    assert len(tuned(OwnData(), old, resume=True)) == 1
    with pytest.raises(UsageError, match="made with --start panoramanet"):
        tuned(OwnData(), old, "mine", resume=True)


@pytest.mark.parametrize("wrong", ["seed = '3'", "folders = 'a'", "folders = [3]", "query = 3"])
def test_a_recipe_that_says_it_in_another_form_is_told(wrong: str, tmp_path: Path) -> None:
    (tmp_path / RECIPE_NAME).write_text(f"[made_of]\n{wrong}\n")
    with pytest.raises(ModelError, match=wrong.split()[0]):
        recorded(tmp_path / RECIPE_NAME)


def test_a_start_is_found_from_any_folder(things: Path, tmp_path: Path, run: Any) -> None:
    """`--start mine` was written as it was typed, and the recipe worked in one folder alone."""
    shutil.copytree(content_dir("embeddings") / "panoramanet", "mine")
    done = run("train", "--folders", things, "--start", "mine", "--out", "net", "--threads", 1)
    assert done.status == 3, done.err
    assert read_recipe(Path("net") / RECIPE_NAME)["start"]["model"] == str(Path("mine").resolve())
    assert run("train", "--start", "mine", "--out", "net", "--resume").status == 3


def test_no_model_is_written_into_a_library_or_among_the_pictures(things: Path, tmp_path: Path) -> None:
    """Both were filled without a word, and `training.png` was a picture to learn from the next time."""
    panorama.open(tmp_path / "library", create=True).close()
    for inside, why in (
        (".", "is a library; name a folder of its own"),
        ("data/net", "lies among the own files"),
    ):
        with pytest.raises(UsageError, match=why):
            tuned(OwnData(folders=(things,)), tmp_path / "library" / inside)
        with pytest.raises(UsageError, match=why):
            recipe = content_dir("embeddings") / "proposer" / "recipe.toml"
            train_recipe(recipe, {"footage": tmp_path}, tmp_path / "library" / inside, TrainingOptions())
    before = sorted(things.rglob("*"))
    for inside in (".", "net", "thing0"):
        with pytest.raises(UsageError, match=r"is inside --folders \S+things"):
            tuned(OwnData(folders=(things,)), things / inside)
    assert sorted(things.rglob("*")) == before
    assert len(tuned(OwnData(folders=(things,)), tmp_path / "library" / "net")) == 2


def test_the_baseline_is_told_to_have_nothing_to_train(things: Path, tmp_path: Path) -> None:
    """It was told to be no embedder, though `index` takes it."""
    with pytest.raises(UsageError, match="color-bands cannot be fine-tuned: it has no weights; begin with"):
        tuned(OwnData(folders=(things,)), tmp_path / "net", "color-bands")


def test_a_recipe_goes_without_a_start(tmp_path: Path, run: Any) -> None:
    done = run("train", "recipe.toml", "--start", "mine", "--out", "net")
    assert done.status == 2 and "a recipe names its first model in [start]" in done.err


def test_videos_of_a_run_that_broke_off_are_not_learned_from_unless_they_are_named(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_film(tmp_path / name / "film.mp4", [Thing("red", 0, 10)], frames=12)
    with panorama.open(tmp_path / "net" / "library", create=True) as made, coloured_things():
        made.index(tmp_path / "one")
    with pytest.raises(UsageError, match=r"holds \S+one/film\.mp4, which is not among --videos"):
        tuned(OwnData(videos=(tmp_path / "two",)), tmp_path / "net", resume=True)


def test_a_library_that_only_indexing_makes_is_one_to_index_videos_into(tmp_path: Path) -> None:
    """With `panorama.open`, as the guide has it, the library was asked before there was one."""
    write_film(tmp_path / "film.mp4", [Thing("red", 0, 10)], frames=12)
    with coloured_things(), pytest.raises(UsageError, match="too few"):
        fine_tune(
            OwnData(videos=(tmp_path / "film.mp4",)),
            tmp_path / "net",
            TrainingOptions(device="cpu", threads=1),
            library=panorama.open,
            scratch=panorama.open,
            say=lambda line: None,
        )
    with panorama.open(tmp_path / "net" / "library", create=False) as made:
        assert made.videos()["video"].to_pylist() == ["film.mp4"]


def test_the_crops_of_a_fine_tuning_are_no_footage(tmp_path: Path) -> None:
    """They were named by numbers, as the pictures of a video: the second run learned from them as one."""
    write_film(tmp_path / "gate.mp4", [Thing("red", 0, 30), Thing("blue", 0, 30, top=70)], frames=30)
    net = tmp_path / "net"
    for _ in range(2):
        with coloured_things(), pytest.raises(UsageError, match="too few"):
            fine_tune(
                OwnData(videos=(tmp_path,)),
                net,
                TrainingOptions(device="cpu", threads=1),
                library=panorama.open,
                scratch=panorama.open,
                say=lambda line: None,
            )
        assert len(list((net / "crops" / "videos").iterdir())) >= 2
        with panorama.open(net / "library", create=False) as made:
            assert made.videos()["video"].to_pylist() == ["gate.mp4"]
    # Those of an earlier version still have such names.
    for number, file in enumerate((net / "crops" / "videos").iterdir()):
        file.rename(file.with_name(f"{4294967296 + number}.png"))
    (net / RECIPE_NAME).touch()
    with panorama.open(tmp_path / "library") as library, coloured_things():
        report = library.index(tmp_path)
        assert [file.video for file in report.files] == ["gate.mp4"]


def test_a_folder_takes_one_fine_tuning_at_a_time(trained: Path, tmp_path: Path) -> None:
    """Two gathered into one folder, and one reported the figures of the other."""
    refused: list[str] = []

    def meanwhile() -> panorama.Library:
        """While the first gathers, others are begun in its folder."""
        for begin in (
            lambda: tuned(OwnData(query="SELECT crop_id FROM crops"), tmp_path / "net", seed=8),
            lambda: train_recipe(
                trained / RECIPE_NAME, {"own": trained}, tmp_path / "net", TrainingOptions(), refused.append
            ),
        ):
            with pytest.raises(ModelError, match=r"another process is training in .*net: wait") as told:
                begin()
            refused.append(str(told.value))
        return panorama.open(tmp_path / "library", create=True)

    with pytest.raises(UsageError, match="there are no crops to learn from"):
        fine_tune(
            OwnData(query="SELECT crop_id FROM crops"),
            tmp_path / "net",
            TrainingOptions(device="cpu", threads=1),
            library=meanwhile,
            scratch=panorama.open,
            say=lambda line: None,
        )
    assert len(refused) == 2 and not (tmp_path / "net").exists()
    with training_in(trained, refused.append), pytest.raises(ModelError, match="another process is training"):
        tuned(OwnData(), trained, resume=True)
    assert tuned(OwnData(), trained, resume=True)  # whose folder nobody holds any more


def test_a_checkpoint_of_another_training_is_told_before_pictures_are_gathered(
    things: Path, tmp_path: Path
) -> None:
    """It was told after an hour of indexing."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "checkpoint.safetensors").write_bytes(b"hours of work")
    with pytest.raises(UsageError, match=r"holds a training that can be resumed \(checkpoint"):
        tuned(OwnData(folders=(things,)), tmp_path / "net")
    assert [path.name for path in (tmp_path / "net").iterdir()] == ["checkpoint.safetensors"]


def test_a_folder_is_moved_with_its_crops(things: Path, tmp_path: Path) -> None:
    """Its table named the crops by where they had been, and they were said to be damaged."""
    net, moved = tmp_path / "net", tmp_path / "elsewhere" / "net"
    shutil.copytree(things, net / "crops" / "query")
    pictures = [
        Picture(str(file.resolve()), file.parent.name)
        for folder in (net / "crops" / "query", things)
        for file in sorted(folder.rglob("*.png"))
    ]
    write_table(pictures, net, seed=0)
    (net / RECIPE_NAME).write_text(recipe_text("net", "panoramanet"))
    moved.parent.mkdir()
    net.rename(moved)
    with (moved / "pictures.csv").open(newline="") as lines:
        files = {row["file"] for row in csv.DictReader(lines)}
    assert {"crops/query/thing0/0.png", str(things.resolve() / "thing0" / "0.png")} <= files
    assert tuned(OwnData(), moved, resume=True)
    (moved / "crops" / "query" / "thing0" / "0.png").unlink()
    with pytest.raises(
        BadImage, match=r"thing0/0\.png is not there; put it back, or remove it.*without --res"
    ):
        tuned(OwnData(), moved, resume=True)


def test_a_picture_that_is_not_there_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"nothing")
    for name, told in (
        ("a.png", r"a\.png cannot be read as a picture; remove it"),
        ("none.png", r"none\.png is not there; put it back, or remove it"),
        ("a.png/b.png", r"b\.png is not there"),
        (".", r"cannot be read: Is a directory; remove it"),
        ("a\0.png", r"cannot be read: embedded null byte; remove it"),
    ):
        with pytest.raises(BadImage, match=told):
            read_picture(tmp_path / name)
