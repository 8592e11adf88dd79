"""What index/ keeps of data files: what is erased or not live any more enters, an index without it leaves.

All of it may be deleted at any time: who has it mapped reads on, who lacks it makes it anew. It goes under
the locks of those that write it, so that nobody adds what was forgotten to what is kept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from panorama.store.layout import Place
from panorama.store.locks import held
from panorama.store.schema import segment_of
from panorama.store.sorted_rows import folder_of, forget_others
from panorama.store.vector_cache import MANIFEST, ROW, is_made_of

_FILES = "SELECT file_id, table_name, path, retired_version IS NULL FROM files"
_LIVE = "SELECT segment_id FROM segments WHERE state = 'live'"
_CACHE_LOCK, _CODES_LOCK = "lock", "ivf.lock"
_CACHE, _CODES, _HALF = (MANIFEST, "g*.*"), ("ivf.json", "i[0-9]*.*"), (".tmp-*",)


def clear(place: Place) -> None:
    """Delete all of it."""
    for folder in _folders(place):
        with held(folder / _CACHE_LOCK), held(folder / _CODES_LOCK):
            _delete(folder, (*_CACHE, *_CODES, *_HALF))
    for path in sorted(place.index.rglob("*"), reverse=True):
        if path.is_dir():
            with contextlib.suppress(OSError):  # a query has begun to make it anew
                path.rmdir()
        else:
            path.unlink(missing_ok=True)


def drop_gone(place: Place, gone: Collection[int] = (), codes: bool = True) -> None:
    """Delete what holds anything of segments that are not live, or of files that are not listed.

    Args:
        gone: ids of files that count as not listed.
        codes: also the codes of an inverted file, which takes longest to be made anew.
    """
    with place.catalog.read() as tx:
        files = [row for row in tx.tuples(_FILES) if row[0] not in gone]
        live = np.array([segment for (segment,) in tx.tuples(_LIVE)], np.int32)
    names = {PurePath(path).name for _, _, path, _ in files}
    for folder in _folders(place):
        with held(folder / _CACHE_LOCK):
            cached = (np.fromfile(path, np.int64) for path in folder.glob("g*.crops"))
            if not (is_made_of(folder, names) and _all_live(cached, live)):
                _delete(folder, _CACHE)
        if not codes:
            continue
        with held(folder / _CODES_LOCK):
            coded = (np.fromfile(path, ROW)["crop_id"] for path in folder.glob("i*.rows"))
            _delete(folder, _HALF if _all_live(coded, live) else (*_CODES, *_HALF))
    forget_others(place.root, [(table, path) for _, table, path, current in files if current])


def drop_outdated(place: Place, segments: NDArray[np.int32]) -> None:
    """Delete what was made of segments that were live when it was begun, where one has gone meanwhile."""
    with place.catalog.read() as tx:
        live = [segment for (segment,) in tx.tuples(_LIVE)]
    if not np.isin(segments, live).all():
        drop_gone(place)


def _folders(place: Place) -> list[Path]:
    """Those of one exit of one model each."""
    places = folder_of(place.root)
    return [path for path in place.index.glob("*") if path.is_dir() and path != places]


def _all_live(crop_ids: Iterable[NDArray[np.int64]], live: NDArray[np.int32]) -> bool:
    return all(bool(np.isin(segment_of(ids), live).all()) for ids in crop_ids)


def _delete(folder: Path, patterns: tuple[str, ...]) -> None:
    for pattern in patterns:
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
