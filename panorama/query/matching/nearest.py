"""One vector and a scope come in; the crops most similar to it go out, as many as the answer needs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.matches import MatchRequest
from panorama.query.matching.passes import VectorSource
from panorama.query.matching.scoring import SCAN_ROWS, divided, take_rows

CROPS_PER_TRACK = 4
"""Crops to request from an index per track wanted, before it is known how many share a track."""


def most_similar(
    source: VectorSource,
    exit: int,
    query: NDArray[np.float32],
    rows: NDArray[np.intp] | None,
    request: MatchRequest,
    threads: int,
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    """Rows of `stored(exit)` and their cosine to a query (dim,).

    Args:
        rows: the only rows to consider, ascending; None for all.
        request: `first` limits the result to the crops that this many best tracks need; `min_score` limits it
            to crops of at least this similarity.
        threads: for comparing with all vectors.
    """
    least = -1.0 if request.min_score is None else 2 * request.min_score - 1
    if request.first is not None:
        found = _from_index(source, exit, query, rows, request.first)
        if found is not None:
            return _at_least(*found, least)
    if request.min_score is not None:
        near = source.near(exit, query[None], np.array([least - 1e-5], np.float32), rows)
        if near is not None:
            found_rows = np.sort(near[0])
            return _at_least(found_rows, _cosine(source, exit, query, found_rows), least)
    table = source.stored(exit)
    scanned = np.arange(len(table.crop_ids)) if rows is None else rows
    cosine = _cosine(source, exit, query, scanned, threads)
    if request.first is not None:
        cut = _cut(cosine, table.track_ids[scanned], request.first)
        least = max(least, -1.0 if cut is None else cut)
    return _at_least(scanned, cosine, least)


def _from_index(
    source: VectorSource,
    exit: int,
    query: NDArray[np.float32],
    rows: NDArray[np.intp] | None,
    first: int,
) -> tuple[NDArray[np.intp], NDArray[np.float32]] | None:
    """Results of an index that contain the `first` best tracks; None if a scan is faster."""
    owners = source.stored(exit).track_ids
    total = len(owners) if rows is None else len(rows)
    count = max(first, 1) * CROPS_PER_TRACK
    while count < total:
        found = source.nearest(exit, query, count, rows)
        if found is None:
            return None
        found = np.sort(found)
        cosine = _cosine(source, exit, query, found)
        # Crops as similar as the last one returned may be missing, so the cut must lie above it.
        last = (
            np.partition(cosine, len(cosine) - count)[len(cosine) - count] if len(cosine) >= count else -1.0
        )
        cut = _cut(cosine, owners[found], first)
        if cut is not None and cut > last:
            keep = cosine >= cut
            return found[keep], cosine[keep]
        count *= 4
    return None


def _cosine(
    source: VectorSource,
    exit: int,
    query: NDArray[np.float32],
    rows: NDArray[np.intp],
    threads: int = 1,
) -> NDArray[np.float32]:
    """Similarity of rows (N,), ascending, to a query."""
    vectors = source.stored(exit).vectors
    cosine = np.empty(len(rows), np.float32)

    def compare(start: int) -> None:
        part = rows[start : start + SCAN_ROWS]
        cosine[start : start + SCAN_ROWS] = take_rows(vectors, part, ascending=True) @ query

    divided(compare, range(0, len(rows), SCAN_ROWS), threads)
    return cosine


def _cut(cosine: NDArray[np.float32], owners: NDArray[np.int64], first: int) -> float | None:
    """The similarity that the best `first` tracks reach; None if there are fewer tracks."""
    if first <= 0:
        return float(cosine.max(initial=-1.0))
    count = max(first, 1) * CROPS_PER_TRACK
    while True:
        count = min(count, len(cosine))
        best = np.argpartition(-cosine, count - 1)[:count] if count else np.zeros(0, np.intp)
        best = best[np.argsort(-cosine[best], kind="stable")]
        _, places = np.unique(owners[best], return_index=True)
        if len(places) >= first:
            return float(cosine[best[np.sort(places)[first - 1]]])
        if count == len(cosine):
            return None
        count *= 4


def _at_least(
    rows: NDArray[np.intp], cosine: NDArray[np.float32], least: float
) -> tuple[NDArray[np.intp], NDArray[np.float32]]:
    if least <= -1:
        return rows, cosine
    keep = cosine >= least - 1e-5  # tolerance: a similarity is rounded again on its way to SQL
    return rows[keep], cosine[keep]
