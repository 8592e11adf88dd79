"""Erased or dead data comes in; an index/ folder without files that were made from it goes out.

All files there may be deleted at any time: a process that has mapped them reads on, and one that misses them
makes them again. Caches and inverted files are deleted under the locks of their writers. The empty lock files
stay: if they were deleted, one process could lock the old file and another a new one at the same time. A
process that read vectors before writes no inverted file of them afterwards, see `is_stored`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from panorama.store.files.layout import Place
from panorama.store.files.locks import held
from panorama.store.files.own_names import (
    CACHE_FILE,
    CODES_FILE,
    HALF_CACHE_FILE,
    HALF_CODES_FILE,
    PLACES_FILE,
    files_named,
    index_folders,
)
from panorama.store.files.schema import segment_of
from panorama.store.files.sorted_rows import folder_of, forget_others
from panorama.store.snapshot import Snapshot
from panorama.store.vectors.vector_cache import MANIFEST, ROW, is_made_of

_FILES = "SELECT file_id, table_name, path, retired_version IS NULL FROM files"
_LIVE = "SELECT segment_id FROM segments WHERE state = 'live'"
_CACHE_LOCK, _CODES_LOCK = "lock", "ivf.lock"
_CACHE = re.compile(f"{re.escape(MANIFEST)}|{CACHE_FILE.pattern}")
_CODES = re.compile(rf"ivf\.json|{CODES_FILE.pattern}")


def clear(place: Place) -> None:
    """Delete everything in index/ but the lock files."""
    for folder in index_folders(place.index):
        with _locked(folder, _CACHE_LOCK, _CODES_LOCK):
            _delete(folder, _CACHE, _CODES, HALF_CACHE_FILE, HALF_CODES_FILE)
    places = folder_of(place.root)
    _delete(places, PLACES_FILE)
    with suppress(OSError):  # not empty: a query makes new files, or they are not ours
        places.rmdir()


def drop_gone(place: Place, gone: Collection[int] = (), codes: bool = True) -> None:
    """Delete files that hold data of segments that are not live, or were made from unlisted data files.

    Args:
        gone: ids of data files that count as unlisted.
        codes: False keeps inverted files, which take longest to rebuild.
    """
    with place.catalog.read() as tx:
        files = [row for row in tx.tuples(_FILES) if row[0] not in gone]
        live = np.array([segment for (segment,) in tx.tuples(_LIVE)], np.int32)
    names = {PurePath(path).name for _, _, path, _ in files}
    for folder in index_folders(place.index):
        with _locked(folder, _CACHE_LOCK):
            if not (is_made_of(folder, names) and _all_live(_cached(folder), live)):
                _delete(folder, _CACHE)
            _delete(folder, HALF_CACHE_FILE)
        if not codes:
            continue
        with _locked(folder, _CODES_LOCK):
            _delete(folder, HALF_CODES_FILE, *(() if _all_live(_coded(folder), live) else (_CODES,)))
    forget_others(place.root, [(table, path) for _, table, path, current in files if current])


def is_stored(place: Place, snapshot: Snapshot) -> bool:
    """Whether all crops of a snapshot are still stored, in the same files.

    Erasing tracks replaces the files of their crops. So does merging, after which the answer is False, too.
    """
    with place.catalog.read() as tx:
        live = [segment for (segment,) in tx.tuples(_LIVE)]
        listed = {str(place.root / path) for _, _, path, current in tx.tuples(_FILES) if current}
    return bool(np.isin(snapshot.live_segments, live).all()) and listed.issuperset(snapshot.files["crops"])


@contextmanager
def _locked(folder: Path, *locks: str) -> Iterator[None]:
    """A block under locks of a folder; without them if somebody deletes the folder: nothing is left in it."""
    with ExitStack() as stack:
        with suppress(FileNotFoundError):
            for lock in locks:
                stack.enter_context(held(folder / lock))
        yield


def _cached(folder: Path) -> Iterator[NDArray[np.int64]]:
    """The crops in the files of a cache."""
    for path in files_named(folder, CACHE_FILE):
        if path.suffix == ".crops":
            yield np.fromfile(path, np.int64)


def _coded(folder: Path) -> Iterator[NDArray[np.int64]]:
    """The crops in the files of an inverted file."""
    for path in files_named(folder, CODES_FILE):
        if path.suffix == ".rows":
            yield np.fromfile(path, ROW)["crop_id"]


def _all_live(crop_ids: Iterable[NDArray[np.int64]], live: NDArray[np.int32]) -> bool:
    """Whether all crops are of live segments; False if one of their files is gone: the others say nothing."""
    try:
        return all(bool(np.isin(segment_of(ids), live).all()) for ids in crop_ids)
    except FileNotFoundError:
        return False


def _delete(folder: Path, *names: re.Pattern[str]) -> None:
    for name in names:
        for path in files_named(folder, name):
            path.unlink(missing_ok=True)
