"""Training the proposer: what it may be trained on, and the cache of that."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from fakes import shapes_on_noise, write_picture
from test_proposer_training import STORE

from panorama.errors import ModelError
from panorama.models.proposer_training.sources import (
    may_train_on,
    open_store,
    permitted,
    refuse_absent,
)


def proposer_data(folder: Path) -> Path:
    """A data folder with one picture of each kind, and no clip."""
    for name in ("boxes/coco", "images/x", "video"):
        (folder / name).mkdir(parents=True)
    rows = ["file,source,class,identity"]
    for source, identity in (("bg", "background"), ("ic", "iconic"), ("grocery", "class")):
        write_picture(folder / f"images/x/{source}.png", shapes_on_noise(1, 96, 128)[0])
        rows.append(f"images/x/{source}.png,{source},c,{identity}")
    for source in ("caltech101", "clothing"):
        rows.append(f"images/x/grocery.png,{source},c,class")
    (folder / "images/labels.csv").write_text("\n".join(rows) + "\n")
    write_picture(folder / "boxes/coco/1.png", shapes_on_noise(2, 96, 128)[0])
    (folder / "boxes/boxes.csv").write_text("file,x1,y1,x2,y2\nboxes/coco/1.png,1,1,30,30\n")
    outline = "0.1 0.1 0.9 0.1 0.9 0.9"
    (folder / "boxes/polygons.csv").write_text(f"file,polygon_xy_normalised\nboxes/coco/1.png,{outline}\n")
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("index.json", b""),
        ("index.json", b'{"settings": {"seed": 0, '),
        ("index.json", b"[]"),
        ("index.json", b'{"settings": {}, "boxes": [], "groups": {}, "cutout_groups": {}}'),
        ("scenes.npz", b"PK"),
        ("scenes.npz", None),
        ("scenes.bin", b""),
        ("cutouts.bin", b"cut off"),
        ("cutouts.bin", None),
    ],
)
def test_a_damaged_cache_is_told_with_what_to_delete(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    """It ended in a JSONDecodeError, or amid the training in a process that makes batches."""
    data, cache = proposer_data(tmp_path / "data"), tmp_path / "cache"
    made = open_store(data, cache, STORE, lambda line: None)
    assert len(made.scenes) == len(made.boxes) == 5
    again = open_store(data, cache, STORE, lambda line: None)
    assert all(np.array_equal(made.scenes[i], again.scenes[i]) for i in range(5))
    if content is None:
        (cache / name).unlink()
    else:
        (cache / name).write_bytes(content)
    with pytest.raises(ModelError, match=r"cache cannot be read \(.*\); delete it to build it again"):
        open_store(data, cache, STORE, lambda line: None)


def test_a_cache_without_cut_outs_is_one(tmp_path: Path) -> None:
    """An empty file cannot be mapped into memory; a source without pictures was a KeyError."""
    data = proposer_data(tmp_path / "data")
    (data / "boxes/polygons.csv").write_text("file,polygon_xy_normalised\n")
    (data / "images/labels.csv").write_text("file,source,identity\nimages/x/bg.png,bg,background\n")
    store = open_store(data, tmp_path / "cache", STORE, lambda line: None)
    assert (len(store.scenes), len(store.cutouts)) == (2, 0)
    refuse_absent(store, [{"scenes": {"backdrop": 1, "coco": 1, "drawn": 1}, "things": {"drawn": 1}}], data)
    refuse_absent(store, [{"scenes": {"grocery": 0.0}}], data)
    with pytest.raises(ModelError, match=r"phase 2 of the recipe takes things of iconic, logos, and .*none"):
        refuse_absent(store, [{}, {"things": {"iconic": 0.5, "drawn": 0.1, "logos": 0.4}}], data)


def test_a_data_folder_without_its_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"boxes/boxes\.csv"):
        open_store(tmp_path, tmp_path / "cache", {"seed": 0}, print)


def test_judging_pictures_and_clips_are_never_trained_on() -> None:
    listing = [
        "boxes/coco/train2017_000000000009.jpg",
        "boxes/coco/val2017_000000000139.jpg",
        "boxes/raccoon/raccoon-1.jpg",
        "video/bottles.mp4",
        "video/toy-elf.mp4",
        "video/toy-rabbit-small.mp4",
        "video/cars-from-above.mp4",
        "video/people-one-by-one.mp4",
        "video/dog.mp4",
        "video/coffee.mp4",
        "video/classroom.gif",
        "eval/album/elf/elf-0.jpg",
        "teachers/coco.names",
    ]
    assert permitted(reversed(listing)) == [
        "boxes/coco/train2017_000000000009.jpg",
        "boxes/raccoon/raccoon-1.jpg",
        "video/bottles.mp4",
        "video/classroom.gif",
    ]


@pytest.mark.footage
def test_no_clip_that_shows_an_entity_may_be_trained_on(footage: Path) -> None:
    truth = json.loads((footage / "eval" / "truth.json").read_text(encoding="utf-8"))
    shown = {clip for facts in truth.values() for clip in facts["visible"]}
    assert shown
    assert not [clip for clip in shown if may_train_on(f"video/{clip}")]
