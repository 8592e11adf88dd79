"""Queries come in; the positions of near codes of an inverted file go out, compared as integers.

FAISS stores an 8-bit number for each component of a vector; it stands for `least + (number + 0.5) / 255 *
span` of that component. Decoded like this, a code of 256 components takes 23 ns to compare; read as signed
integers, 6 ns. Both inner products are equal up to scale and offset. So scale and offset move into the query
and into the distances to the lists, and the codes on disk stay as they are. FAISS rounds the query to 8 bits,
too; `rounding` says how much that may cost.
"""

from __future__ import annotations

from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

_LARGEST = 127.0
_SMALLEST = 1e-20
"""Least divisor for the scale: if all vectors are equal, codes have no span and scaled queries are zero."""
_SIGMAS = 4.0
_FARTHEST = 2**0.5
"""Largest distance of a unit vector from the centre of its list, a unit vector less than 90 degrees away."""


class Codes:
    """The codes of one FAISS index, which this object takes over: add nothing to the index afterwards.

    Attributes:
        kind: name of the index class.
        nlist, ntotal: number of lists and of codes.
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
        """How far rounding queries (Q, dim) may change a similarity, with rare exceptions (_SIGMAS)."""
        if not self._signed or not len(queries):
            return 0.0
        whole, scale = self._whole(queries)
        # Error of each component of the query, in units of the vectors' components.
        wrong = np.where(self._unit > 0, whole / scale - queries * self._unit, 0)
        wrong /= np.maximum(self._unit, np.finfo(np.float32).tiny)
        spread = float(np.linalg.norm(wrong, axis=1).max()) * _FARTHEST / queries.shape[1] ** 0.5
        return _SIGMAS * spread

    def search(
        self, queries: NDArray[np.float32], k: int, params: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Similarities and positions (Q, k) of the most similar codes in the nearest lists; -1 fills up."""
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
        """The codes in the nearest lists that are at least `least` similar, as FAISS returns them.

        (Q + 1,) where the codes of each query begin, then their similarities and their positions.
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
        """Queries (Q, dim) in units of the codes, rounded to 8-bit integers, and their common scale."""
        parts = queries * self._unit
        scale = np.float32(_LARGEST / max(float(np.abs(parts).max()), _SMALLEST))
        return np.ascontiguousarray(np.rint(parts * scale)), scale

    def _asked(
        self, queries: NDArray[np.float32], params: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64], np.float32]:
        """Queries for FAISS, the offsets of their nearest lists, these lists, and the scale."""
        whole, scale = self._whole(queries)
        near, lists = self._index.quantizer.search(queries, params.nprobe)  # each (Q, lists)
        near = scale * (near + (queries @ self._zero)[:, None])
        return whole, np.ascontiguousarray(near, np.float32), np.ascontiguousarray(lists), scale
