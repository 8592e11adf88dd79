"""What a training is given and cannot be made from: told before any work; and copies, which would leak."""

from __future__ import annotations

import shutil
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film, write_picture
from numpy.typing import NDArray

import panorama
from panorama.content import content_dir
from panorama.errors import BadImage, ModelError, UsageError
from panorama.models.embedder import PanoramaNet
from panorama.models.training.adapt import read_parts
from panorama.models.training.cohort import cohort_pictures
from panorama.models.training.heldout import HeldOut, held_out_pictures
from panorama.models.training.sources import gather
from panorama.models.training.train import train
from panorama.models.weights import open_model
from panorama.own_training import OwnData, fine_tune
from panorama.own_training.pictures import from_folders, without_copies
from panorama.own_training.split import Picture, write_table
from panorama.training import TrainingOptions, train_recipe

RECIPE = """
name = "small"
kind = "embedder"
[preprocess]
side = 32
mean = [0.5, 0.5, 0.5]
std = [0.25, 0.25, 0.25]
[network]
learned_dim = 192
color_dim = 64
[teacher]
data = "d"
path = "no-teacher.tflite"
[bank]
rounds = 1
[training]
steps = 2
batch = 4
sides = [[0, 32]]
[training.loss]
imitate = 4.0
[[source]]
name = "zoo"
kind = "labelled-csv"
data = "d"
csv = "labels.csv"
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    rows = ["file,source,class,identity"]
    for number in range(4):
        write_picture(folder / f"{number}.png", thing_picture("red", 32 + number))
        rows.append(f"{number}.png,zoo,{number},instance")
    (folder / "labels.csv").write_text("\n".join(rows) + "\n")
    return folder


@pytest.mark.parametrize(
    ("before", "after", "error", "told"),
    [
        ("steps = 2", 'steps = "two"', UsageError, r"steps in \[training\] is a whole number.*'two'"),
        ("steps = 2", "steps = 0", UsageError, r"steps in \[training\] is a whole number from 1 on, got 0"),
        ("batch = 4", "batch = 4.5", UsageError, r"batch in \[training\] is a whole number.*4\.5"),
        ("batch = 4", "learning_rate = nan", UsageError, r"learning_rate in \[training\].*nan"),
        ("imitate", "imitat", UsageError, r"\[training\.loss\] has no setting 'imitat'; it has imitate"),
        ("rounds", "round", UsageError, r"\[bank\] has no setting 'round'; it has side, rounds"),
        ("[[0, 32]]", "[[5, 32]]", UsageError, r"sides in \[training\].*the first of step 0"),
        ("[[0, 32]]", "32", UsageError, r"sides in \[training\]"),
        ("learned_dim", "learned_dims", ModelError, r"\[network\] in the recipe .* lacks learned_dim"),
        ("side = 32", "side = 1280000000", ModelError, r"side in \[preprocess\] .* to 1024, got 1280000000"),
        ("rounds = 1", "side = 5000", ModelError, r"side in \[bank\] of .* from 1 to 1024, got 5000"),
        ("std", "stds", ModelError, r"\[preprocess\] in the recipe .* lacks std"),
        ("mean = [", "mean = [0.5, ", ModelError, r"mean in \[preprocess\] of .* is three numbers, got \["),
        ("std = [", 'std = ["x", ', ModelError, r"std in \[preprocess\] of .* is three numbers above 0"),
        ("color_dim = 64", "color_dim = true", ModelError, r"color_dim in \[network\] of .* from 1 to"),
        ("color_dim = 64", "color_dim = 1" + "0" * 400, ModelError, r"color_dim in \[network\] of .*\.\.\."),
        ("color_dim = 64", "color_dim = 1" + "0" * 5000, ModelError, r"recipe\.toml is not valid TOML"),
        (
            "color_dim = 64",
            "color_dim = 0x1" + "0" * 5000,
            ModelError,
            r"got a number of thousands of digits",
        ),
        ("batch = 4", "batch = 1" + "0" * 400, UsageError, r"batch in \[training\] is a whole number from 0"),
        (
            "[teacher]\n",
            "[teacher]\nshrinkage = 'x'\n",
            ModelError,
            r"shrinkage in \[teacher\] of .* number from 0",
        ),
        ('[teacher]\ndata = "d"', "[teacher]", ModelError, r"\[teacher\] in the recipe .* lacks data"),
        ("[teacher]", "[start]\n[teacher]", ModelError, r"\[start\] in the recipe .* lacks model"),
        ('csv = "labels.csv"', "csv = 3", ModelError, r"csv in \[\[source\]\] 1 of .* is text, got 3"),
        ('data = "d"', 'data = ["d"]', ModelError, r"data in \[teacher\] of .* is text, got \['d'\]"),
        ("csv =", "csw =", ModelError, r"\[\[source\]\] 'zoo' in the recipe .* lacks csv"),
        ("labels.csv", "label.csv", UsageError, r"'zoo' needs .*label\.csv, which is not there"),
        ('"zoo"', '"zo"', UsageError, r"'zo' finds no pictures .*labels\.csv has pictures of zoo"),
    ],
)
def test_what_is_wrong_in_a_recipe_is_told_before_any_view_is_made(
    data: Path, tmp_path: Path, before: str, after: str, error: type[Exception], told: str
) -> None:
    """Some was an error of Python's own, after the half hour that views of many pictures take."""
    assert before in RECIPE
    (tmp_path / "recipe.toml").write_text(RECIPE.replace(before, after))
    with pytest.raises(error, match=told):
        train(tmp_path / "recipe.toml", {"d": data}, tmp_path / "out")
    assert not (tmp_path / "out" / "bank").exists()


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        ("labelled-csv", "file,class\na.jpg,cup\n", r"lacks the column source, identity, which source 'zoo'"),
        ("labelled-csv", "", r"lacks .*; its first line names nothing"),
        ("labelled-csv", "file,source,class,identity\na.jpg,zoo\n", r"line 2 has no class and no identity"),
        ("labelled-csv", "file,source,class,identity\na.jpg,zoo,,class\n", r"line 2 has no class; complete"),
        ("labelled-csv", "file,source\xff", r"t\.csv cannot be read as CSV in UTF-8"),
        ("boxes-csv", "file,x1,y1,x2,y2\n", r"lacks the column class"),
        (
            "boxes-csv",
            "file,class,x1,y1,x2,y2\na.jpg,cup,1,2,wide,4\n",
            r"box of a\.jpg is four .*'wide'",
        ),
        (
            "boxes-csv",
            "file,class,x1,y1,x2,y2\na.jpg,cup,1,2,1,4\n",
            r"box of a\.jpg has no area: x1 = '1', .*must hold",
        ),
    ],
)
def test_a_table_of_pictures_that_lacks_something_is_told(
    kind: str, text: str, told: str, tmp_path: Path
) -> None:
    """A KeyError was shown as a defect in Panorama."""
    (tmp_path / "t.csv").write_text(text, encoding="latin-1")
    table = {"name": "zoo", "kind": kind, "data": "d", "csv": "t.csv"}
    with pytest.raises(UsageError, match=told):
        gather([table], {"d": tmp_path})
    if kind == "labelled-csv":
        with pytest.raises(UsageError, match=told):
            held_out_pictures([table], {"d": tmp_path})


def test_a_source_that_finds_nothing_is_refused(tmp_path: Path) -> None:
    """A training went on with the pictures of the others, and nobody knew."""
    with pytest.raises(UsageError, match=r"source 'zoo' finds no pictures to learn from"):
        gather([{"name": "zoo", "kind": "folders", "data": "d"}], {"d": tmp_path})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"seed": -1}, "--seed is a whole number from 0 on, got -1"),
        ({"seed": 1 << 32}, "--seed is at most 4294967295, got 4294967296"),
        ({"threads": 10**9}, "--threads is at most 1024, got 1000000000"),
        ({"steps": 10**30}, "--steps is at most 1000000000, got 1000"),
        ({"threads": 0}, "--threads is a whole number from 1 on, got 0"),
        ({"steps": 0}, "--steps is a whole number from 1 on, got 0"),
        ({"minutes": 0.0}, "--minutes is more than 0, got 0"),
        ({"minutes": float("nan")}, "--minutes is more than 0, got nan"),
    ],
)
def test_numbers_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        TrainingOptions(**given)


def unused(_: Path | None = None) -> panorama.Library:
    raise AssertionError("no library is opened")


def test_a_device_that_is_not_there_is_told_before_pictures_are_gathered(tmp_path: Path) -> None:
    own = OwnData(query="SELECT crop_id FROM crops")
    with pytest.raises(ModelError, match="a device is auto"):
        fine_tune(
            own,
            tmp_path / "net",
            TrainingOptions(device="cuda:99"),
            start="panoramanet",
            library=unused,
            scratch=unused,
        )


@pytest.mark.parametrize("model", ["panoramanet", "proposer"])
def test_a_device_that_is_not_there_is_told_before_a_recipe_is_run(model: str, tmp_path: Path) -> None:
    """It ended as a defect, in an error of torch."""
    recipe = content_dir("embeddings") / model / "recipe.toml"
    with pytest.raises(ModelError, match=r"a device is auto, cpu.*got 'cuda:99'"):
        train_recipe(recipe, {"footage": tmp_path}, tmp_path / "out", TrainingOptions(device="cuda:99"))
    assert not (tmp_path / "out").exists()


# ---- copies


def named(count: int, folder: Path) -> Path:
    for number in range(count):
        write_picture(folder / f"animal{number}" / "0.png", thing_picture("red", 32 + number))
    return folder


def test_a_copy_of_a_picture_does_not_count_as_another_thing(tmp_path: Path) -> None:
    """The copy was another thing: learned from while its original judged."""
    zoo = named(3, tmp_path / "zoo")
    shutil.copytree(zoo, tmp_path / "again")
    pictures = from_folders([zoo, tmp_path / "again"])
    assert len(pictures) == 6
    kept, others, same = without_copies([pictures])
    assert (others, same) == (3, 0) and [p.identity for p in kept] == [f"0/zoo/animal{n}" for n in range(3)]
    shutil.copyfile(zoo / "animal0" / "0.png", zoo / "animal1" / "same.png")
    assert without_copies([from_folders([zoo])])[1:] == (1, 0)


def test_a_copy_of_a_picture_of_the_same_thing_counts_once_and_is_told(tmp_path: Path) -> None:
    """Each copy was found by its original: R@1 was 1.000, whatever the model."""
    zoo = tmp_path / "zoo"
    for number in range(8):
        for view in range(2):
            file = zoo / f"animal{number}" / f"{view}.png"
            write_picture(file, thing_picture("red", 32 + 2 * number + view))
            shutil.copyfile(file, file.with_name(f"copy-of-{view}.png"))
    kept, *copies = without_copies([from_folders([zoo])])
    assert copies == [0, 16] and len(kept) == 16
    assert {Path(p.file).name for p in kept} == {"0.png", "1.png"}
    said: list[str] = []
    with pytest.raises(UsageError, match="too few"):  # what is left of them is one picture each
        shutil.rmtree(zoo / "animal0")
        for file in zoo.rglob("*1.png"):
            file.unlink()
        fine_tune(
            OwnData(folders=(zoo,)),
            tmp_path / "net",
            TrainingOptions(),
            start="panoramanet",
            library=unused,
            scratch=unused,
            say=said.append,
        )
    assert said == ["left out: 7 copies of pictures of the same thing"]


def test_crops_of_another_source_count_once_and_those_of_one_library_stay(tmp_path: Path) -> None:
    path = str(write_picture(tmp_path / "0.png", thing_picture("red")))
    shutil.copyfile(path, tmp_path / "1.png")
    crops = [Picture(path, "a", True, "v", "v#1"), Picture(str(tmp_path / "1.png"), "b", True, "v", "v#2")]
    kept, others, same = without_copies([crops, crops])
    assert (others, same) == (2, 0) and [p.track for p in kept] == ["0/v#1", "0/v#2"]


def test_a_picture_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadImage, match=r"gone\.png cannot be read: No such file"):
        without_copies([[Picture(str(tmp_path / "gone.png"), "a")]])


def test_a_copy_of_a_video_that_the_query_brings_is_refused(tmp_path: Path, fake_proposer: Any) -> None:
    film = write_film(tmp_path / "films" / "one.mp4", [Thing("red", 0, 20)])
    (tmp_path / "other").mkdir()
    shutil.copyfile(film, tmp_path / "other" / "renamed.mp4")
    own = OwnData(videos=(tmp_path / "other",), query="SELECT crop_id FROM crops")
    with panorama.open(tmp_path / "library") as library:
        library.index(film, model="color-bands")
        with pytest.raises(UsageError, match=r"one\.mp4 comes with --videos, as .*renamed\.mp4 and with"):
            fine_tune(
                own,
                tmp_path / "net",
                TrainingOptions(),
                start="panoramanet",
                library=lambda: library,
                scratch=unused,
            )


def test_paths_of_a_recipe_its_data_and_its_model_are_text_or_paths(data: Path, tmp_path: Path) -> None:
    """Text ended in an AttributeError."""
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE.replace("labels.csv", "label.csv"))
    for given in (str, Path):
        with pytest.raises(UsageError, match=r"'zoo' needs .*label\.csv, which is not there"):
            train_recipe(given(recipe), {"d": given(data)}, given(tmp_path / "net"), TrainingOptions())
    with pytest.raises(UsageError, match=r"train_recipe\(data=...\): data folders are a mapping"):
        train_recipe(recipe, [("d", data)], tmp_path / "net", TrainingOptions())  # type: ignore[arg-type]


# ---- transparency


def half_hidden(number: int, view: int, hidden: int) -> NDArray[np.uint8]:
    """(400, 400, 4) RGBA: a texture in the middle; around it are colours that nobody sees, drawn anew."""
    shape = (400, 400, 4)
    picture = np.random.default_rng((number, view, hidden)).integers(0, 256, shape).astype(np.uint8)
    picture[..., 3] = 0
    texture = np.random.default_rng((number, 7)).integers(60, 200, (4, 4, 3)).astype(np.uint8)
    seen = cv2.resize(texture, (250, 250), interpolation=cv2.INTER_CUBIC)
    picture[75:325, 75:325] = np.dstack([seen - np.uint8(8 * view), np.full((250, 250), 255, np.uint8)])
    return picture


def write_rgba(path: Path, rgba: NDArray[np.uint8]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), cv2.cvtColor(rgba, cv2.COLOR_RGBA2BGRA))
    return path


def test_what_is_hidden_under_transparency_teaches_nothing_and_judges_nothing(tmp_path: Path) -> None:
    """The colours that nobody sees were learned from: another program's export gave another model."""
    model = PanoramaNet(open_model("panoramanet", "embedder"), device="cpu")
    source = {"name": "own", "kind": "labelled-csv", "data": "own", "csv": "pictures.csv"}
    parts = []
    for hidden in (1, 2):
        folder = tmp_path / f"{hidden}"
        for number, view in product(range(8), range(2)):
            picture = half_hidden(number, view, hidden)
            write_rgba(folder / "zoo" / f"animal{number}" / f"{view}.png", picture)
        write_table(from_folders([folder / "zoo"]), folder, seed=0)
        learn, choose, judge = read_parts(source, {"own": folder}, model)
        parts.append((learn.own, choose.seen.own, judge.seen.own))
    assert all(np.array_equal(one, other) for one, other in zip(*parts, strict=True))


def test_pictures_held_out_and_strangers_have_no_colours_under_transparency(tmp_path: Path) -> None:
    held, strangers = [], []
    for hidden in (1, 2):
        path = write_rgba(tmp_path / f"{hidden}.png", half_hidden(0, 0, hidden))
        held += HeldOut([path], ["zoo/a"]).load()
        (tmp_path / "boxes.csv").write_text(f"file,class,x1,y1,x2,y2\n{path.name},a,40,40,360,360\n")
        boxes = {"name": "boxes", "kind": "boxes-csv", "data": "d", "csv": "boxes.csv"}
        strangers += cohort_pictures(gather([boxes], {"d": tmp_path}))
    assert held[0].shape == (400, 400, 3) and (held[0][0, 0] == 128).all()
    assert strangers[0].shape == (320, 320, 3)  # of a part 396 pixels wide
    assert np.array_equal(*held) and np.array_equal(*strangers)
