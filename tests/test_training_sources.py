"""What a training may see: the classes, files and clips by which it is judged stay out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from places import FOOTAGE, NO_FOOTAGE
from test_training import MEAN, STD, solid, write_labelled

from panorama.content import content_dir
from panorama.errors import BadImage, UsageError
from panorama.models.training.heldout import held_out_pictures, make_measure
from panorama.models.training.sources import clips, gather
from panorama.models.training.split import held_out
from panorama.models.weights import read_recipe


def test_held_out_classes_are_a_fixed_quarter_or_more_of_the_footage_classes() -> None:
    names = ("accordion", "airplanes", "anchor", "ant", "bass", "camera", "elephant")
    # What ships has not seen these; another hash would judge it on what it learnt.
    assert [name for name in names if held_out("caltech101", name)] == ["ant", "bass", "camera", "elephant"]
    shares = [np.mean([held_out("caltech101", f"class{i}") for i in range(2000)])]
    assert 0.25 <= shares[0] <= 0.35


def test_classes_of_one_family_are_held_out_together() -> None:
    for a, b in (("Faces", "Faces_easy"), ("cougar_body", "cougar_face"), ("flamingo", "flamingo_head")):
        assert held_out("caltech101", a) == held_out("caltech101", b)


def test_no_picture_of_a_held_out_class_reaches_training(tmp_path: Path) -> None:
    classes = [f"animal{i}" for i in range(12)]
    write_labelled(tmp_path, classes)
    table = {"name": "zoo", "kind": "labelled-csv", "data": "here", "csv": "labels.csv"}
    seen = {item.label.split("/")[1] for item in gather([table], {"here": tmp_path})}
    judged = {label.split("/")[1] for label in held_out_pictures([table], {"here": tmp_path}).labels}
    assert seen and judged
    assert not seen & judged
    assert seen | judged == set(classes)


def test_a_copy_of_a_judged_picture_does_not_judge(tmp_path: Path) -> None:
    """Each copy found its original, and retrieval came out as if nothing were left to learn."""
    write_labelled(tmp_path, [f"animal{i}" for i in range(12)], each=1)
    table = {"name": "zoo", "kind": "folders", "data": "here", "labels": True}
    for path in sorted(tmp_path.glob("*.jpg")):
        for name in ("one.jpg", "copy-of-one.jpg"):
            (folder := tmp_path / path.stem).mkdir(exist_ok=True)
            (folder / name).write_bytes(path.read_bytes())
    held = held_out_pictures([table], {"here": tmp_path})
    assert len(held.paths) == len(set(held.labels)) == held.copies > 2
    assert make_measure(held, MEAN, STD, 64) is None  # nothing has another one to find


def test_a_judged_clip_in_the_recipe_is_refused(tmp_path: Path) -> None:
    table = {"name": "clips", "files": ["a.mp4", "b.mp4"], "judged": ["b.mp4"]}
    with pytest.raises(UsageError, match=r"b\.mp4"):
        clips(table, tmp_path, lambda path, gap: iter(()))


def test_the_shipped_recipe_names_no_judged_clip_and_no_val2017() -> None:
    recipe = read_recipe(content_dir("embeddings") / "panoramanet" / "recipe.toml")
    entity_clips = {"cars-from-above", "coffee", "dog", "people-one-by-one"}
    for table in recipe["source"]:
        for file in table.get("files", []):
            assert Path(file).stem not in entity_clips
            assert not file.startswith("toy-")
        if table["kind"] == "boxes-csv":
            assert table["without"] == "val2017"


@pytest.mark.footage
def test_no_leak_from_the_footage_into_training() -> None:
    if not FOOTAGE.is_dir():
        pytest.skip(NO_FOOTAGE)
    recipe = read_recipe(content_dir("embeddings") / "panoramanet" / "recipe.toml")
    tables = [t for t in recipe["source"] if t["kind"] != "clips"]
    truth = json.loads((FOOTAGE / "eval" / "truth.json").read_text())
    judged_clips = {Path(video).name for entity in truth.values() for video in entity["visible"]}
    for table in recipe["source"]:
        assert not judged_clips & set(table.get("files", []))
    seen = [t for t in tables if t["kind"] in ("labelled-csv", "folders")]
    training = gather(seen, {"footage": FOOTAGE})
    held = held_out_pictures(recipe["source"], {"footage": FOOTAGE}, limit=10**6)
    assert not {str(i.path) for i in training} & {str(p) for p in held.paths}
    assert not {i.label for i in training if i.label} & set(held.labels)
    assert not [i for i in training if "val2017" in str(i.path) or "eval" in Path(str(i.path)).parts]
    for source in ("caltech101", "grocery"):
        kept = {label for label in held.labels if label.startswith(source)}
        trained = {i.label for i in training if i.label.startswith(source)}
        assert len(kept) / (len(kept) + len(trained)) >= 0.25


def test_boxes_of_judged_files_and_of_left_out_classes_do_not_reach_training(tmp_path: Path) -> None:
    for name in ("train-1", "val-1"):
        cv2.imwrite(str(tmp_path / f"{name}.png"), cv2.resize(solid(3), (100, 100)))
    lines = ["file,x1,y1,x2,y2,class"]
    lines += [f"{file}.png,10,10,60,60,{name}" for file in ("train-1", "val-1") for name in ("cat", "carrot")]
    lines.append("train-1.png,10,10,13,13,cat")  # too small to learn from
    (tmp_path / "boxes.csv").write_text("\n".join(lines) + "\n")
    table = {"name": "boxes", "kind": "boxes-csv", "data": "d", "csv": "boxes.csv", "without": "val-"}
    (found,) = gather([{**table, "without_classes": ["carrot"]}], {"d": tmp_path})
    assert found.instance == "train-1.png#0"
    assert found.load().shape == (62, 62, 3)
    assert len(gather([table], {"d": tmp_path})) == 2


def test_clips_give_windows_seen_at_several_moments(tmp_path: Path) -> None:
    def frames(path: Path, gap: float) -> Iterator[np.ndarray]:
        yield from (np.full((60, 80, 3), 10 * i, np.uint8) for i in range(4))

    found = clips({"name": "clips", "files": ["a.mp4"], "windows": 5}, tmp_path, frames)
    assert len({i.instance for i in found}) == 5
    assert 5 <= len(found) <= 15
    shown = [i for i in found if i.instance == found[0].instance]
    assert len({i.load().shape for i in shown}) == 1


def test_clips_without_a_reader_name_the_command_that_has_one(tmp_path: Path) -> None:
    table = {"name": "c", "kind": "clips", "data": "here", "files": ["a.mp4"]}
    with pytest.raises(UsageError, match="panorama train"):
        gather([table], {"here": tmp_path})


def test_a_missing_data_folder_is_named() -> None:
    table = {"name": "zoo", "kind": "folders", "data": "zoo"}
    with pytest.raises(UsageError, match="--data zoo=FOLDER"):
        gather([table], {})


def test_a_file_that_is_no_picture_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    (found,) = gather([{"name": "x", "kind": "folders", "data": "d"}], {"d": tmp_path})
    with pytest.raises(BadImage, match=r"broken\.jpg"):
        found.load()
