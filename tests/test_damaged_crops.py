"""Stored crops that are damaged on the disk are told with their video and data file; the others go on."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import Ran
from fakes import ColoredThings, Thing, thing_picture, write_film, write_picture
from indexing_samples import SETTINGS

import panorama
from panorama.answering.source import SnapshotVectors
from panorama.errors import LibraryDamaged
from panorama.indexing.outcomes import IndexReport
from panorama.indexing.run import index_paths
from panorama.indexing.stages import Indexer
from panorama.indexing.stored_crops import embed_missing
from panorama.models.color import ColorEmbedder
from panorama.store import Store
from panorama.store.files import lost
from panorama.video import find_videos

Run = Callable[..., Ran]
NEW = ColorEmbedder()
NEW.hash = "of another model"


def films(folder: Path) -> Path:
    for number in range(3):
        write_film(folder / f"{number}.mp4", [Thing("red", 0, 30)], frames=30 + number)
    return folder


def report(library: Path, *paths: Path, embedder: ColorEmbedder | None = None) -> IndexReport:
    indexer = Indexer(embedder or ColorEmbedder(), ColoredThings(), SETTINGS)
    with Store.create(library, exist_ok=True) as store:
        return index_paths(store, indexer, find_videos(list(paths)))


def damage(library: Path) -> tuple[int, Path]:
    """Overwrite the beginning of one stored JPEG; the crop's id, and its data file, which keeps its size."""
    path = sorted((library / "data" / "crops").iterdir())[1]
    crops = pq.read_table(path, columns=["crop_id", "jpeg"])
    start = path.read_bytes().index(crops["jpeg"][1].as_py())
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(4))
    return crops["crop_id"][1].as_py(), path


def lacking(library: Path, model: str) -> int:
    with Store.open(library) as store:
        snapshot = store.snapshot()
        return snapshot.crops().total - snapshot.vectors(model, 1).total


def test_a_damaged_crop_costs_its_own_vector_and_index_goes_on_and_says_what_to_do(tmp_path: Path) -> None:
    """With another embedder `index` ended before any new video: "picture is not a picture", of no file."""
    library, old = tmp_path / "library", films(tmp_path / "old")
    report(library, old)
    crop, path = damage(library)
    fresh = write_film(tmp_path / "new" / "new.mp4", [Thing("blue", 0, 30)], frames=35)
    for _ in range(2):  # as long as it lasts
        told = report(library, fresh, embedder=NEW)
        assert [file.video for file in told.files] == ["new.mp4"] and not told.complete
        (damaged,) = told.damaged
        assert damaged.startswith(f"{path}, a data file of '1.mp4', holds a damaged picture, crop {crop} of")
        assert lacking(library, NEW.hash) == 1
    redo = shlex.split(damaged.partition("delete it and index its video again: ")[2])
    assert redo == ["panorama", "--library", str(library), "index", str(old / "1.mp4")]
    path.unlink()
    told = report(library, Path(redo[-1]), embedder=NEW)
    assert told.complete and [file.status for file in told.files] == ["indexed"]
    assert lacking(library, NEW.hash) == 0


def test_the_command_line_ends_with_status_3(run: Run, tmp_path: Path) -> None:
    films(tmp_path / "v")
    assert run("index", "v", "--model", "color-bands").status == 0
    crop, path = damage(tmp_path / "panorama-library")
    done = run("index", "v", "--model", "panoramanet", "--depth", "1")
    assert done.status == 3 and "3 skipped, 0 failed" in done.err
    assert f"{path.name}, a data file of '1.mp4', holds a damaged picture, crop {crop} of '1.mp4'" in done.err


def test_what_needs_a_damaged_crop_names_it(tmp_path: Path, fake_proposer: ColoredThings) -> None:
    library = tmp_path / "library"
    with panorama.open(library, create=True) as opened:
        opened.index(films(tmp_path / "v"), settings=SETTINGS, model="color-bands")
    crop, path = damage(library)
    message = rf"{path.name}, a data file of '1.mp4', holds a damaged picture, crop {crop} of '1.mp4'; put it"
    with panorama.open(library) as opened, Store.open(library) as store:
        with pytest.raises(LibraryDamaged, match=message):
            opened.crop(crop)
        with pytest.raises(LibraryDamaged, match=message):
            opened.register_seen("red", crop_ids=[crop])
        with pytest.raises(LibraryDamaged, match=message):
            SnapshotVectors(store, store.snapshot(), ColorEmbedder()).deepen(np.array([crop]), 2)
        with pytest.raises(LibraryDamaged, match=message):
            embed_missing(store, NEW)
    assert lacking(library, NEW.hash) == 1, "the others are done"


def test_crops_of_a_lost_data_file_are_made_again_with_another_embedder(tmp_path: Path) -> None:
    """What the message says to run ended with the message: their vectors were asked for before they were."""
    library, old = tmp_path / "library", films(tmp_path / "old")
    report(library, old)
    lost = sorted((library / "data" / "crops").iterdir())[1]
    lost.unlink()
    told = report(library, old / "0.mp4", embedder=NEW)
    assert [file.status for file in told.files] == ["skipped"] and not told.complete
    assert [str(lost) in text and str(old / "1.mp4") in text for text in told.damaged] == [True]
    told = report(library, old / "1.mp4", embedder=NEW)
    assert told.complete and [file.status for file in told.files] == ["indexed"]
    assert lacking(library, NEW.hash) == 0


@pytest.mark.parametrize("left", [None, b"", b"PAR1"])
def test_lost_vectors_are_made_again_from_the_stored_crops(
    run: Run, tmp_path: Path, left: bytes | None
) -> None:
    """`index` of other videos ended with the error, and so did what it said to run, with `--model`."""
    films(tmp_path / "v")
    library = tmp_path / "panorama-library"
    for number in range(3):
        assert run("index", f"v/{number}.mp4", "--model", "color-bands").status == 0
    write_picture(tmp_path / "red.png", thing_picture("red"))
    run("register", "red", "red.png")
    asked = ("query", "SELECT tracks WHERE entity = 'red' ORDER BY ALL", "--format", "json")
    expected = run(*asked).out
    lost = sorted((library / "data" / "embeddings").glob("s00000002*"))
    for path in lost:
        path.unlink()
        if left is not None:
            path.write_bytes(left)
    shutil.rmtree(library / "index")
    assert "; put it back from a backup, or index its video again: panorama " in run(*asked).err
    write_film(tmp_path / "new.mp4", [Thing("blue", 0, 30)], frames=35)
    done = run("index", "new.mp4", "--model", "color-bands")
    assert (done.status, "1 indexed" in done.err) == (0, True), done.err
    assert "missing or cut off, so the stored crops are embedded again: " + str(lost[0]) in done.err
    assert "stored crops embedded without decoding" in done.err
    assert run(*asked).out == expected and run("compact").status == 0
    again = run("index", "v", "--model", "color-bands")
    assert (again.status, "3 skipped" in again.err, "embedded" in again.err) == (0, True, False), again.err


def test_index_looks_once_at_each_data_file(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of vectors were looked at twice: for lost vectors, and again for videos to index anew."""
    films(tmp_path / "v")
    run("index", "v", "--model", "color-bands")
    held = sorted(path for path in (tmp_path / "panorama-library" / "data").rglob("*.parquet"))
    asked: list[Path] = []
    real = lost._size
    monkeypatch.setattr(lost, "_size", lambda path: asked.append(path) or real(path))
    assert run("index", "v").status == 0
    assert sorted(asked) == held
