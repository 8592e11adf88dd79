"""Crops that indexing takes to the first exit: queries take some deeper, a later `index` all."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import Ran
from fakes import COLORS, ColoredThings, Thing, thing_picture, write_film
from numpy.typing import NDArray
from store_samples import embed_again

import panorama
from panorama.answering.source import SnapshotVectors
from panorama.errors import LibraryWriteError, UsageError
from panorama.indexing.profile import Profile, remember
from panorama.indexing.settings import IngestSettings
from panorama.indexing.stages import Indexer
from panorama.indexing.stored_crops import _Writers, embed_stored_crops
from panorama.library import Library
from panorama.models.color import ColorEmbedder
from panorama.models.registry import load_embedder
from panorama.store import Store
from panorama.store.catalog.database import Catalog
from panorama.store.vectors.vector_table import VectorTable

Run = Callable[..., Ran]
SHALLOW = IngestSettings(samples_per_second=10, depth=1)
WHOLE = IngestSettings(samples_per_second=10)


@pytest.fixture(scope="module")
def shallow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A library of many things, embedded at the first exit, with one of each colour registered."""
    folder = tmp_path_factory.mktemp("depth")
    for number in range(3):
        things = [Thing(color, 40 * i, 40 * i + 30, left=number) for i, color in enumerate(COLORS)]
        write_film(folder / f"{number}.mp4", things, frames=200)
    with pytest.MonkeyPatch.context() as patch, panorama.open(folder / "library") as library:
        patch.setattr(Library, "proposer", property(lambda self: ColoredThings()))
        library.index([folder / f"{n}.mp4" for n in range(3)], settings=SHALLOW)
        for color in COLORS:
            library.register(color, thing_picture(color))
    yield folder


def vectors(library: Library) -> list[int]:
    snapshot = library.snapshot()
    return [snapshot.vectors(library.embedder.hash, exit).total for exit in (1, 2, 3)]


def test_crops_have_vectors_of_the_first_exit_alone_and_queries_add_what_they_need(
    shallow: Path, tmp_path: Path
) -> None:
    with panorama.open(shutil.copytree(shallow / "library", tmp_path / "library")) as library:
        crops = library.snapshot().crops().total
        assert crops > 20 and vectors(library) == [crops, 0, 0]
        asked = "SELECT video, track_id, score FROM sightings WHERE entity = 'red' ORDER BY ALL"
        found = library.query(asked).fetchall()
        deep = vectors(library)
        assert deep[0] == crops and deep[1] == 0 and 0 < deep[2] < crops
        assert library.query(asked).fetchall() == found and vectors(library) == deep, "kept for the next"


def test_indexing_again_deeper_starts_from_the_stored_crops(
    shallow: Path, tmp_path: Path, fake_proposer: ColoredThings, monkeypatch: pytest.MonkeyPatch
) -> None:
    films = [shallow / f"{n}.mp4" for n in range(3)]
    whole = panorama.open(tmp_path / "whole")
    whole.index(films, settings=WHOLE)
    with panorama.open(shutil.copytree(shallow / "library", tmp_path / "library")) as library:
        library.query("SELECT frames WHERE entity = 'red'")  # takes some crops deeper
        crops = library.snapshot().crops().total
        with monkeypatch.context() as patch:
            again = lambda *_, **__: pytest.fail("decoded again")  # noqa: E731
            patch.setattr("panorama.indexing.intake.open_video", again)
            report = library.index(films, settings=WHOLE)
        assert {f.status for f in report.files} == {"skipped"} and report.embedded == crops
        assert vectors(library) == [crops] * 3
        for exit in (1, 2, 3):
            tables = [
                VectorTable.load(each.snapshot(), each.embedder.hash, exit) for each in (library, whole)
            ]
            rows = [np.argsort(table.crop_ids) for table in tables]
            assert len(np.unique(tables[0].crop_ids)) == crops
            a, b = (table.vectors[row] for table, row in zip(tables, rows, strict=True))
            np.testing.assert_allclose(a, b, atol=2e-3)
        again = library.index(films, settings=SHALLOW)
        assert again.embedded == 0 and vectors(library) == [crops] * 3, "what is there stays"
    whole.close()


def test_the_networks_first_exits_are_those_of_all() -> None:
    embedder = load_embedder()
    rng = np.random.default_rng(0)
    shown = [rng.integers(0, 255, (60, 80, 3), np.uint8) for _ in range(3)]
    whole = embedder.embed_all(shown)
    for last in (1, 2, 3):
        np.testing.assert_array_equal(embedder.embed_to(shown, last), whole[:last])
    with pytest.raises(ValueError, match="exits 1 to 3, got 4"):
        embedder.embed_to(shown, 4)


def test_a_depth_is_no_part_of_what_was_looked_at() -> None:
    assert SHALLOW.hash("p") == WHOLE.hash("p") != IngestSettings().hash("p")


def test_a_depth_that_is_not_there_is_refused(tmp_path: Path, run: Run, fake_proposer: ColoredThings) -> None:
    with pytest.raises(UsageError, match="from 1, got 0"):
        IngestSettings(depth=0)
    with pytest.raises(UsageError, match="at most 1 with color-bands, got 2"):
        Indexer(ColorEmbedder(), fake_proposer, IngestSettings(depth=2)).depth  # noqa: B018
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 15)], frames=20)
    refused = run("index", "a.mp4", "--depth", 4)
    assert refused.status == 2 and "--depth is at most 3 with panoramanet, got 4" in refused.err
    assert not (tmp_path / "panorama-library").exists(), "it is refused before anything is made"
    assert run("index", "a.mp4", "--depth", 0).status == 2
    assert run("index", "a.mp4", "--depth", 1).status == 0
    refused = run("index", "a.mp4", "--depth", 2, "--model", "color-bands")
    assert refused.status == 2 and "at most 1 with color-bands" in refused.err
    with panorama.open(tmp_path / "panorama-library") as library:
        assert library.embedder.name == "panoramanet", "nothing was switched"


def test_a_depth_indexes_no_video_again(
    tmp_path: Path, fake_proposer: ColoredThings, monkeypatch: pytest.MonkeyPatch
) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)], frames=40)
    with panorama.open(tmp_path / "library") as library:
        library.index(film, settings=IngestSettings(samples_per_second=10))
        remember(library, Profile(IngestSettings(samples_per_second=2)))
        # The profile of now is another than the one that the film was indexed with.
        remember(library, Profile(IngestSettings(3.0)))
        library.index(film, redo=True)
        remember(library, Profile(IngestSettings(4.0)))
        assert [f.status for f in library.index(film, depth=3).files] == ["skipped"]
        assert [f.status for f in library.index(film, depth=1, redo=True).files] == ["indexed"]
        crops = library.snapshot().crops().total
        assert crops and vectors(library) == [crops, 0, 0]


def test_a_rate_named_with_a_depth_is_completed_without_decoding(
    tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)], frames=40)
    with panorama.open(tmp_path / "library") as library:
        library.index(film, settings=IngestSettings(samples_per_second=2.0), depth=1)
        crops = library.snapshot().crops().total
        assert vectors(library) == [crops, 0, 0]
        report = library.index(film)
        assert [f.status for f in report.files] == ["skipped"]
        assert report.embedded == crops and vectors(library) == [crops] * 3


def test_vectors_that_cannot_be_given_up_now_are_left_to_a_sweep(
    shallow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error kept the locks of all of them, for as long as the process ran, and so their files."""

    def unread(catalog: Catalog) -> None:
        raise LibraryWriteError("disk I/O error")

    with Store.open(shutil.copytree(shallow / "library", tmp_path / "library")) as store:
        crop_ids = store.snapshot().crops().segments[:1].astype(np.int64) << 32
        writers = _Writers(store, "0" * 16, (1, 2))
        for exit_number in (1, 2):
            writers.add(exit_number, crop_ids, crop_ids, np.ones((1, 4), np.float32))
        with monkeypatch.context() as failing, pytest.raises(LibraryWriteError, match="disk I/O error"):
            failing.setattr(Catalog, "read", unread)
            writers.abort()
        assert store.sweep().unlisted == 2


def test_crops_that_two_processes_took_deeper_at_once_hide_no_others(
    shallow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panorama.indexing.stored_crops.KEPT_CROPS", 8)
    with panorama.open(shutil.copytree(shallow / "library", tmp_path / "library")) as library:
        snapshot, store = library.snapshot(), Store.open(tmp_path / "library")
        crop_ids = VectorTable.load(snapshot, library.embedder.hash, 1).crop_ids
        some = crop_ids[: len(crop_ids) * 2 // 3]
        for _ in range(2):
            SnapshotVectors(store, snapshot, library.embedder).deepen(some, 3)
        crops, deep = len(crop_ids), VectorTable.load(library.snapshot(), library.embedder.hash, 3)
        assert library.snapshot().vectors(library.embedder.hash, 3).total == len(some)
        embed_again(store, 3, deep.crop_ids, deep.vectors, library.embedder.hash)
        assert library.snapshot().vectors(library.embedder.hash, 3).total == 2 * len(some) > crops
        assert SnapshotVectors(store, library.snapshot(), library.embedder).counts() == (
            crops,
            [crops, 0, len(some)],
        )
        assert embed_stored_crops(store, library.embedder) == crops
        for exit in (2, 3):
            table = VectorTable.load(library.snapshot(), library.embedder.hash, exit)
            assert set(table.crop_ids.tolist()) == set(crop_ids.tolist())
        assert embed_stored_crops(store, library.embedder) == 0
        store.close()


def test_which_crops_have_vectors_is_looked_up_for_each_batch(
    shallow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All crops of an exit were gone through for each batch of 64: seconds each, where there are millions."""
    batch = 4
    monkeypatch.setattr("panorama.indexing.stored_crops.EMBED_BATCH", batch)
    isin, most = np.isin, [0]

    def watched(values: NDArray, among: Sequence[int] | NDArray, **options: bool) -> NDArray:
        if np.size(values) <= batch:  # a commit compares all of its crops, once
            most[0] = max(most[0], np.size(among))
        return isin(values, among, **options)

    with panorama.open(shutil.copytree(shallow / "library", tmp_path / "library")) as library:
        store, snapshot = Store.open(tmp_path / "library"), library.snapshot()
        ids = VectorTable.load(snapshot, library.embedder.hash, 1).crop_ids
        held = np.random.default_rng(5).permutation(ids)[: len(ids) * 2 // 3]
        for some in np.array_split(held, 3):  # in files whose ids do not ascend from one to the next
            SnapshotVectors(store, snapshot, library.embedder).deepen(some, 3)
        monkeypatch.setattr(np, "isin", watched)
        assert embed_stored_crops(store, library.embedder) == len(ids)
        assert most[0] < len(held)
        for exit, there in ((2, 0), (3, len(held))):
            added = library.snapshot().vectors(library.embedder.hash, exit).total - there
            assert added == len(ids) - there, "none twice"
        store.close()


def test_an_interrupt_costs_few_of_the_crops_that_are_taken_deeper(
    shallow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("panorama.indexing.stored_crops.KEPT_CROPS", 8)
    monkeypatch.setattr("panorama.indexing.stored_crops.EMBED_BATCH", 8)
    with panorama.open(shutil.copytree(shallow / "library", tmp_path / "library")) as library:
        store, left = Store.open(tmp_path / "library"), [5]

        def wait() -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            embed_stored_crops(store, library.embedder, wait)
        crops = library.snapshot().crops().total
        kept = vectors(library)
        assert kept[0] == crops and 8 <= kept[1] == kept[2] < crops
        assert embed_stored_crops(store, library.embedder) == crops - kept[1]
        assert vectors(library) == [crops] * 3
        store.close()


def test_crops_that_are_forgotten_while_they_are_taken_deeper_get_no_vectors(
    shallow: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`index` had read their pictures: it wrote vectors of them after they were erased, and counted them."""
    monkeypatch.setattr("panorama.indexing.stored_crops.EMBED_BATCH", 8)
    with panorama.open(shutil.copytree(shallow / "library", tmp_path / "library")) as library:
        library.compact()
        store, forgotten = Store.open(tmp_path / "library"), []

        def wait() -> None:
            if not forgotten:
                forgotten.extend(library.forget("red", with_sightings=True).accepted)

        done = embed_stored_crops(store, library.embedder, wait)
        crops = library.snapshot().crops().total
        assert len(forgotten) and vectors(library) == [crops] * 3 and done == crops
        for exit in (2, 3):
            tracks = VectorTable.load(library.snapshot(), library.embedder.hash, exit).track_ids
            assert not np.isin(tracks, forgotten).any()
        store.close()
