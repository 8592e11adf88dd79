"""Models judged on labelled pictures: the shipped split, pictures of one's own, and what was learned from."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import Ran
from fakes import COLORS, ColoredThings, Thing, thing_picture, write_film, write_picture
from numpy.typing import NDArray

from panorama.crops import MAX_SIDE
from panorama.errors import BadImage, UsageError
from panorama.judging.model_scores import (
    BATCH,
    BOXES,
    LABELS,
    Judged,
    judged_pictures,
    proposals,
    retrieval,
    stranger_pictures,
)
from panorama.models.base import Image
from panorama.models.color import ColorEmbedder
from panorama.models.training.seen import SeenInTraining
from panorama.models.training.split import held_out
from panorama.own_training import recipe_text

KEPT = [label for label in map("label{}".format, range(40)) if held_out("grocery", label)]
TAUGHT = [label for label in map("label{}".format, range(40)) if not held_out("grocery", label)]


def labelled(data: Path, rows: Sequence[Sequence[str]], columns: str = "file,source,class,identity") -> Path:
    """A data folder whose pictures are of one colour for each class."""
    at = columns.split(",").index("class")
    colour = dict(zip(dict.fromkeys(row[at] for row in rows), [*COLORS, *COLORS, *COLORS], strict=False))
    for number, row in enumerate(rows):
        write_picture(data / row[0], thing_picture(colour[row[at]], 30 + number))
    table = data / LABELS
    table.parent.mkdir(parents=True, exist_ok=True)
    with table.open("w", newline="", encoding="utf-8") as lines:
        csv.writer(lines).writerows([columns.split(","), *rows])
    return data


def boxed(data: Path, names: Sequence[str]) -> Path:
    """A data folder of pictures with a red thing at (20, 20, 60, 60)."""
    rows = ["file,x1,y1,x2,y2"]
    for name in names:
        picture = thing_picture("blue", 100)
        picture[:] = 0
        picture[20:60, 20:60] = COLORS["red"]
        write_picture(data / name, picture)
        rows.append(f"{name},20,20,60,60")
    (data / BOXES).parent.mkdir(parents=True, exist_ok=True)
    (data / BOXES).write_text("\n".join(rows) + "\n")
    return data


def tuned_on(folder: Path, rows: Sequence[tuple[str, str, str]]) -> ColorEmbedder:
    """An embedder in a folder that says what it was fine-tuned on: file, class, held."""
    folder.mkdir(exist_ok=True)
    (folder / "recipe.toml").write_text(recipe_text("mine", "panoramanet"), encoding="utf-8")
    with (folder / "pictures.csv").open("w", newline="") as lines:
        csv.writer(lines).writerows([("file", "class", "held"), *rows])
    embedder = ColorEmbedder()
    embedder.folder = folder
    return embedder


def test_of_the_shipped_sources_only_held_out_classes_judge_and_of_others_all(tmp_path: Path) -> None:
    """Of labels of one's own a hash chose three classes of ten."""
    own = [f"animal{i}" for i in range(4)]
    rows = [
        (f"images/{source}-{label}-{i}.png", source, label, "class")
        for source, labels in (("grocery", [*KEPT[:3], *TAUGHT[:3]]), ("zoo", own))
        for label in labels
        for i in range(2)
    ]
    data = labelled(tmp_path, [*rows, ("images/none.png", "zoo", "nothing", "background")])
    judged = judged_pictures(ColorEmbedder(), data)
    wanted = {f"grocery/{label}" for label in KEPT[:3]} | {f"zoo/{label}" for label in own}
    assert set(judged.labels) == wanted and judged.unseen and judged.remarks == ()
    assert [file.name for file in judged.files] == [
        Path(row[0]).name for row in rows if f"{row[1]}/{row[2]}" in wanted
    ]


def test_a_column_says_what_is_held_out_and_two_columns_are_enough(tmp_path: Path) -> None:
    rows = [(f"images/{i}.png", f"animal{i // 2}", str(i // 2 % 2)) for i in range(8)]
    judged = judged_pictures(ColorEmbedder(), labelled(tmp_path / "a", rows, "file,class,held"))
    assert set(judged.labels) == {"animal1", "animal3"}
    data = labelled(tmp_path / "b", [row[:2] for row in rows], "file,class")
    judged = judged_pictures(ColorEmbedder(), data)
    assert len(set(judged.labels)) == 4
    (score,) = retrieval(ColorEmbedder(), judged)
    assert (score.pictures, score.classes, score.mean_average_precision) == (8, 4, 1.0)
    assert len(stranger_pictures(judged, count=3)) == 3


def test_each_picture_judges_once_whatever_the_table_and_its_copies_say(tmp_path: Path) -> None:
    """A file that was listed twice, or lay there as a copy, found itself: R@1 was 1.000."""
    rows = [(f"images/{i}.png", f"animal{i // 2}") for i in range(8)]
    data = labelled(tmp_path, rows, "file,class")
    once = judged_pictures(ColorEmbedder(), data)
    assert once.remarks == ()
    copied = [(f"images/copy-of-{i}.png", label) for i, (_, label) in enumerate(rows)]
    for (file, _), (copy, _) in zip(rows, copied, strict=True):
        shutil.copyfile(data / file, data / copy)
    more = [*rows, ("images/../images/0.png", "animal0"), *copied, ("images/1.png", "another")]
    with (data / LABELS).open("w", newline="") as lines:
        csv.writer(lines).writerows([("file", "class"), *more])
    judged = judged_pictures(ColorEmbedder(), data)
    assert (judged.files, judged.labels) == (once.files, once.labels)
    assert judged.remarks == (
        "left out: 10 rows of images/labels.csv whose picture repeats an earlier row's",
    )


def test_classes_that_a_model_was_fine_tuned_on_are_left_out_and_told(tmp_path: Path) -> None:
    """They were told as unseen: the model that knew them best looked best."""
    rows = [(f"images/{label}-{i}.png", "grocery", label, "class") for label in KEPT[:6] for i in range(2)]
    others = ("pets/cat", "dog")
    rows += [(f"images/{name}-{i}.png", "zoo", name, "class") for name in others for i in range(2)]
    data = labelled(tmp_path / "data", rows)
    copy = shutil.copyfile(data / rows[2][0], tmp_path / "copied.png")
    taught = [
        ("absent.png", f"0/photos/{KEPT[0]}", "0"),  # by its name
        (str(copy), "0/photos/something", "0"),  # by a copy of a picture
        (str(data / rows[4][0]), "0/photos/else", "2"),  # by a picture that chose
        (str(data / rows[6][0]), "0/photos/other", "1"),  # it judged: neither learned from nor chosen by
        ("absent.png", "1/own/Pets/CAT", "0"),
    ]
    judged = judged_pictures(tuned_on(tmp_path / "net", taught), data)
    assert set(judged.labels) == {*(f"grocery/{label}" for label in KEPT[3:6]), "zoo/dog"}
    (told,) = judged.remarks
    assert told.startswith("left out: 4 classes (label") and told.endswith("pictures.csv") and judged.unseen
    every = [("absent.png", f"0/{row[2]}", "0") for row in rows]
    with pytest.raises(UsageError, match=r"no class to judge color-bands by; left out: 8 classes"):
        judged_pictures(tuned_on(tmp_path / "net", every), data)


@pytest.mark.parametrize(
    "table",
    [
        "file,held,class\na.png,0,dog\nb.png,0\n",
        "file,class,held\n" + "a" * 200_000 + ",dog,0\n",
        "file,class,held\n",
    ],
)
def test_a_broken_table_of_what_was_learned_leaves_it_unknown(table: str, tmp_path: Path) -> None:
    """A row that was cut off ended in an AttributeError, a long one in csv.Error."""
    embedder = tuned_on(tmp_path / "mine", [])
    (tmp_path / "mine" / "pictures.csv").write_text(table)
    data = labelled(tmp_path, [(f"images/{i}.png", f"animal{i // 2}") for i in range(4)], "file,class")
    judged = judged_pictures(embedder, data)
    assert not judged.unseen and len(judged.files) == 4
    assert judged.remarks == (
        f"whether color-bands has seen these classes is not known: {tmp_path / 'mine'} does not say",
    )


@pytest.mark.parametrize(("old", "new"), [("[[source]]", "[source]"), ('"pictures.csv"', '"a\\u0000b"')])
def test_a_recipe_without_a_list_of_sources_leaves_unknown_what_was_learned(
    old: str, new: str, tmp_path: Path
) -> None:
    embedder = tuned_on(tmp_path / "mine", [("a.png", "dog", "0")])
    recipe = tmp_path / "mine" / "recipe.toml"
    assert old in recipe.read_text()
    recipe.write_text(recipe.read_text().replace(old, new))
    seen = SeenInTraining.by(embedder.folder)
    assert seen.unknown == [tmp_path / "mine"] and not seen.names


def test_a_picture_that_no_file_can_be_called_is_passed_over(tmp_path: Path) -> None:
    embedder = tuned_on(tmp_path / "mine", [("a" * 3000 + ".png", "dog", "0"), ("b\0.png", "cat", "0")])
    seen = SeenInTraining.by(embedder.folder)
    assert (seen.names, seen.files, seen.unknown) == ({"dog", "cat"}, {}, [])
    assert seen.has_learned("", "Dog", [tmp_path / "none.png"])
    assert not seen.has_learned("", "cow", [tmp_path / ("a" * 3000 + ".png")])


def test_of_a_source_that_kept_no_class_back_none_is_called_unseen(tmp_path: Path) -> None:
    """All of its classes were learned, and those with a certain hash still judged as unseen."""
    embedder = tuned_on(tmp_path, [])
    source = '[[source]]\nname = "mine"\nkind = "folders"\ndata = "own"\nlabels = true\n'
    kept = {}
    for line in ("", "hold_out = false\n"):
        (tmp_path / "recipe.toml").write_text(f'name = "n"\nkind = "embedder"\n{source}{line}')
        seen = SeenInTraining.by(embedder.folder)
        kept[line] = [i for i in range(40) if seen.keeps("mine", f"label{i}")]
    assert kept[""] and kept["hold_out = false\n"] == []


def test_where_a_model_does_not_tell_what_it_learned_nothing_is_called_unseen(tmp_path: Path) -> None:
    data = labelled(tmp_path / "data", [(f"{i}.png", f"animal{i // 2}") for i in range(8)], "file,class")
    first, second = tuned_on(tmp_path / "first", []), tuned_on(tmp_path / "second", [("a.png", "0/b", "0")])
    (tmp_path / "first" / "pictures.csv").unlink()
    assert (told := judged_pictures(first, data)).unseen is False
    assert f"not known: {tmp_path / 'first'} does not say" in told.remarks[0]
    # What it began with counts, too.
    recipe = tmp_path / "second" / "recipe.toml"
    text = recipe.read_text().replace('model = "panoramanet"', f'model = "{tmp_path / "first"}"')
    recipe.write_text(text)
    assert judged_pictures(second, data).unseen is False
    shutil.rmtree(tmp_path / "first")
    assert judged_pictures(second, data).unseen is False


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([("a.png", "cat")], "two classes and two pictures of one, got 1 picture of 1 class"),
        ([("a.png", "cat"), ("b.png", "dog")], "got 2 pictures of 2 classes"),
        ([("a.png", "cat"), ("b.png", "cat")], "got 2 pictures of 1 class"),
    ],
)
def test_too_few_labels_for_retrieval_are_told(
    rows: list[tuple[str, str]], told: str, tmp_path: Path
) -> None:
    judged = judged_pictures(ColorEmbedder(), labelled(tmp_path, rows, "file,class"))
    with pytest.raises(UsageError, match=told):
        retrieval(ColorEmbedder(), judged)


def test_few_photographs_are_in_memory_at_a_time(tmp_path: Path) -> None:
    """All were held at their full size, and of each stranger every view of that size."""
    most = []

    class Counting(ColorEmbedder):
        def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
            most.append(len(images))
            return super().embed_all(images)

    count = 2 * BATCH + 2
    judged = judged_pictures(
        ColorEmbedder(),
        labelled(tmp_path, [(f"{i}.png", f"animal{i % 3}") for i in range(count)], "file,class"),
    )
    (score,) = retrieval(Counting(), judged)
    assert (score.pictures, score.mean_average_precision, most) == (count, 1.0, [BATCH, BATCH, 2])
    large = write_picture(tmp_path / "large.png", thing_picture("red", 1000))
    (stored,) = stranger_pictures(Judged((large,), ("a",), True, ()))
    assert max(stored.shape) == MAX_SIDE


def test_all_boxes_judge_where_none_is_of_the_pictures_that_the_proposer_is_judged_by(tmp_path: Path) -> None:
    """`names no picture of val2017` was all that was said of boxes of one's own."""
    mixed = proposals(ColoredThings(), boxed(tmp_path / "a", ["train2017_1.png", "val2017_2.png"]))
    assert (mixed.pictures, mixed.recall.overall) == (1, 1.0)
    own = proposals(ColoredThings(), boxed(tmp_path / "b", ["one.png", "two.png"]))
    assert (own.pictures, own.recall.overall) == (2, 1.0)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            "one.png,1,2,x,4",
            r"a box of one.png is four numbers of pixels, got x1 = '1', y1 = '2', x2 = 'x', y2 = '4'",
        ),
        ("one.png,9,2,3,4", r"a box of one.png has no area"),
        ("one.png,1,2,nan,4", r"a box of one.png is four numbers of pixels, got .*'nan'"),
        ("one.png,1,2,,4", r"line 3 has no x2"),
        ("one.png,1,2", r"line 3 has no x2 and no y2"),
    ],
)
def test_a_box_that_is_none_is_told(row: str, told: str, tmp_path: Path) -> None:
    data = boxed(tmp_path, ["one.png"])
    (data / BOXES).write_text((data / BOXES).read_text() + row + "\n")
    with pytest.raises(UsageError, match=told):
        proposals(ColoredThings(), data)


def test_a_picture_that_is_not_there_is_told(tmp_path: Path) -> None:
    """It ended as a defect."""
    data = boxed(tmp_path, ["one.png"])
    (data / "one.png").unlink()
    with pytest.raises(BadImage, match=r"one\.png cannot be read: No such file.*correct the table"):
        proposals(ColoredThings(), data)


@pytest.mark.parametrize(
    ("of_a_class", "classes", "drawn"),
    [(40, 3, (False, False)), (41, 3, (True, False)), (10, 15, (False, False)), (10, 16, (False, True))],
)
def test_pictures_are_drawn_where_there_are_more_than_are_taken(
    of_a_class: int, classes: int, drawn: tuple[bool, bool]
) -> None:
    labels = tuple(f"class {number}" for number in range(classes)) * of_a_class
    judged = Judged(tuple(map(Path, labels)), labels, True, ())
    assert (judged.retrieval_is_drawn, judged.strangers_are_drawn) == drawn


def test_labels_or_boxes_alone_are_measured(run: Callable[..., Ran], tmp_path: Path) -> None:
    """Both tables had to be there."""
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=12)
    assert run("index", "a.mp4", "--model", "color-bands").status == 0
    (tmp_path / "none").mkdir()
    done = run("evaluate", "--data", "none")
    assert done.status == 2 and "images/labels.csv (file, class) or boxes/boxes.csv (file, x1, " in done.err
    labelled(tmp_path / "l", [(f"{i}.png", f"animal{i // 2}") for i in range(8)], "file,class")
    done = run("evaluate", "--data", "l", "--seeds", "1")
    assert "retrieval, 8 pictures of 4 unseen classes" in done.out and "proposals" not in done.out
    # All pictures are taken with every seed: a spread of zero looked like a certain figure.
    done = run("evaluate", "--data", "l")
    assert "silent about strangers: " in done.out and "\u00b1" not in done.out
    # It was told as a defect.
    done = run("evaluate", "--data", "l", "--seed", "-1")
    assert done.status == 2 and "-1 is not in the range x>=0" in done.err
    boxed(tmp_path / "b", ["one.png"])
    done = run("evaluate", "--data", "b")
    assert "proposals on 1 picture: recall 1.000" in done.out and "retrieval" not in done.out
