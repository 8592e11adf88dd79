"""Vectors come in; an empty inverted file with trained lists goes out, made in pieces that allow pauses.

FAISS itself trains in one go, 15 s of one core at 1,000,000 vectors, for which no query should have to wait.
This module does the same in pieces: spherical k-means, then the range of the residuals in each component.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

PIECE_ROWS = 4_096
"""Vectors compared with all lists in one piece: some hundredths of a second at 1,000,000 vectors."""

ROUNDS = 8


def trained(vectors: NDArray[np.float32], lists: int, parts: int | None, wait: Callable[[], None]) -> Any:
    """An empty index with a number of lists, trained on vectors (N, dim).

    Args:
        parts: PQ codes of this many bytes, which FAISS trains in one go; None for one byte per component.
        wait: called before every piece of work.
    """
    dim = vectors.shape[1]
    quantizer = faiss.IndexFlatIP(dim)
    quantizer.add(centres_of(vectors, lists, wait))
    if parts is not None:
        index: Any = faiss.IndexIVFPQ(quantizer, dim, lists, parts, 8, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors)
        return index
    kind = faiss.ScalarQuantizer.QT_8bit
    index = faiss.IndexIVFScalarQuantizer(quantizer, dim, lists, kind, faiss.METRIC_INNER_PRODUCT)
    centres = quantizer.reconstruct_n(0, lists)  # (lists, dim)
    least, most = np.full(dim, np.inf, np.float32), np.full(dim, -np.inf, np.float32)
    for piece, nearest in nearest_lists(quantizer, vectors, wait):
        left = piece - centres[nearest]  # (B, dim)
        least, most = np.minimum(least, left.min(axis=0)), np.maximum(most, left.max(axis=0))
    faiss.copy_array_to_vector(np.concatenate([least, most - least]), index.sq.trained)
    index.is_trained = True
    return index


def centres_of(vectors: NDArray[np.float32], lists: int, wait: Callable[[], None]) -> NDArray[np.float32]:
    """Centres (lists, dim) of unit length, each the mean direction of the vectors (N, dim) nearest to it."""
    rng = np.random.default_rng(0)
    centres = vectors[np.sort(rng.permutation(len(vectors))[:lists])]
    for _ in range(ROUNDS):
        quantizer = faiss.IndexFlatIP(vectors.shape[1])
        quantizer.add(centres)
        sums, counts = np.zeros_like(centres), np.zeros(lists, np.intp)
        for piece, nearest in nearest_lists(quantizer, vectors, wait):
            order = np.argsort(nearest, kind="stable")
            found, starts = np.unique(nearest[order], return_index=True)
            sums[found] += np.add.reduceat(piece[order], starts)
            counts += np.bincount(nearest, minlength=lists)
        empty = np.flatnonzero(counts == 0)
        sums[empty] = vectors[rng.integers(0, len(vectors), len(empty))]
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        centres = np.asarray(sums / np.maximum(norms, np.finfo(np.float32).tiny), np.float32)
    return centres


def nearest_lists(
    quantizer: Any, vectors: NDArray[np.float32], wait: Callable[[], None]
) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
    """Yield vectors in pieces (B, dim), each with the nearest list (B,) of its vectors."""
    for start in range(0, len(vectors), PIECE_ROWS):
        wait()
        piece = np.ascontiguousarray(vectors[start : start + PIECE_ROWS])
        yield piece, quantizer.search(piece, 1)[1][:, 0]
