"""The codes of an inverted file: queries enter, the places of near codes leave, compared as whole numbers.

FAISS keeps a number of 8 bits for each part of a vector, which stands for `least + (number + 0.5) / 255 *
span` of that part. Read so, a code of 256 parts takes 23 ns to compare; read as signed whole numbers, 6. An
inner product with the one is, but for scale and offset, an inner product with the other, so scale and offset
go into the query and the distances to the lists: the codes on disk stay as they are. The query is rounded to
8 bits, too, since FAISS takes it so; `rounding` tells what that may cost.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

_LARGEST = 127.0
_SMALLEST = 1e-20
"""Parts of a query below this are none: of vectors that are all the same, codes have no span."""
_SIGMAS = 4.0
_FARTHEST = 2**0.5
"""A unit vector lies no farther from the centre of its list, if that is a unit vector on its side."""


class Codes:
    """The lists of one FAISS index, which belongs to it from then on; nothing can be added any more.

    Attributes:
        kind: of index.
        nlist, ntotal: lists and codes.
    """

    def __init__(self, index: Any) -> None:
        self._index = index
        self.kind = type(index).__name__
        self.nlist, self.ntotal = int(index.nlist), int(index.ntotal)
        self._signed = False
        quantizer = faiss.ScalarQuantizer
        if not isinstance(index, faiss.IndexIVFScalarQuantizer):
            return
        if index.sq.qtype != quantizer.QT_8bit or not index.by_residual:
            return
        least, span = faiss.vector_to_array(index.sq.trained).reshape(2, index.d)
        self._signed = True
        self._unit = np.asarray(span / 255, np.float32)  # (dim,)
        self._zero = np.asarray(least + 128.5 * self._unit, np.float32)  # (dim,)
        index.sq.qtype = quantizer.QT_8bit_direct_signed

    def rounding(self, queries: NDArray[np.float32]) -> float:
        """How far rounding queries (Q, dim) may move a similarity, but for one in some ten thousand."""
        if not self._signed or not len(queries):
            return 0.0
        whole, scale = self._whole(queries)
        # Of a part of the vector, by how much the query's part is wrong.
        wrong = np.where(self._unit > 0, whole / scale - queries * self._unit, 0)
        wrong /= np.maximum(self._unit, np.finfo(np.float32).tiny)
        spread = float(np.linalg.norm(wrong, axis=1).max()) * _FARTHEST / queries.shape[1] ** 0.5
        return _SIGMAS * spread

    def search(
        self, queries: NDArray[np.float32], k: int, params: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Similarities and places (Q, k) of the most similar codes in the nearest lists; -1 where none is."""
        if not self._signed:
            similarity, places = self._index.search(queries, k, params=params)
            return similarity, places
        whole, near, lists, scale = self._asked(queries, params)
        found = np.empty((len(queries), k), np.float32)
        places = np.empty((len(queries), k), np.int64)
        at = faiss.swig_ptr
        self._index.search_preassigned_c(
            len(queries), at(whole), k, at(lists), at(near), at(found), at(places), False, params
        )
        return np.asarray(found / scale, np.float32), places

    def range_search(
        self, queries: NDArray[np.float32], least: float, params: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
        """Codes in the nearest lists at least so similar, as FAISS returns them.

        (Q + 1,) where the codes of each query begin, their similarities and their places.
        """
        if not self._signed:
            found: tuple[Any, Any, Any] = self._index.range_search(queries, least, params=params)
            return found
        whole, near, lists, scale = self._asked(queries, params)
        result, at = faiss.RangeSearchResult(len(queries)), faiss.swig_ptr
        self._index.range_search_preassigned_c(
            len(queries), at(whole), float(least * scale), at(lists), at(near), result, False, params
        )
        limits = faiss.rev_swig_ptr(result.lims, len(queries) + 1).copy()
        count = int(limits[-1])
        similarity = faiss.rev_swig_ptr(result.distances, count).copy() / scale
        return limits, np.asarray(similarity, np.float32), faiss.rev_swig_ptr(result.labels, count).copy()

    def _whole(self, queries: NDArray[np.float32]) -> tuple[NDArray[np.float32], np.float32]:
        """Queries (Q, dim) in units of the codes, as whole numbers of 8 bits, and their one scale."""
        parts = queries * self._unit
        scale = np.float32(_LARGEST / max(float(np.abs(parts).max()), _SMALLEST))
        return np.ascontiguousarray(np.rint(parts * scale)), scale

    def _asked(
        self, queries: NDArray[np.float32], params: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], np.float32]:
        """Queries for FAISS, what the codes of their nearest lists begin with, those lists, the scale."""
        whole, scale = self._whole(queries)
        near, lists = self._index.quantizer.search(queries, params.nprobe)  # each (Q, lists)
        near = scale * (near + (queries @ self._zero)[:, None])
        return whole, np.ascontiguousarray(near, np.float32), np.ascontiguousarray(lists), scale
