"""Codes compared as whole numbers say what FAISS says of them, but for what rounding the query costs."""

from __future__ import annotations

from pathlib import Path

import faiss
import numpy as np
import pytest

from panorama.store.vectors.inverted_codes import Codes

PROBES = faiss.SearchParametersIVF(nprobe=5)


def unit(rng: np.random.Generator, count: int, dim: int, spread: float = 0.4) -> np.ndarray:
    """Unit vectors in groups, some parts of which are narrow; the first is the same in all."""
    vectors = np.random.default_rng(1).normal(size=(12, dim))[rng.integers(12, size=count)]
    vectors = vectors + spread * rng.normal(size=(count, dim)) * np.linspace(0.01, 2, dim)
    vectors[:, 0] = 0
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def made(vectors: np.ndarray, kind: int, residual: bool = True) -> faiss.Index:
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], 20, kind, faiss.METRIC_INNER_PRODUCT, residual
    )
    index.train(vectors)
    index.add(vectors)
    return index


def similarities(found: tuple[np.ndarray, np.ndarray, np.ndarray]) -> dict[tuple[int, int], float]:
    limits, similarity, places = found
    query = np.repeat(np.arange(len(limits) - 1), np.diff(limits.astype(int)))
    return dict(zip(zip(query.tolist(), places.tolist(), strict=True), similarity.tolist(), strict=True))


@pytest.mark.parametrize("dim", [16, 24, 256])
def test_signed_codes_are_as_similar_as_the_bytes_but_for_rounding(dim: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(dim)
    plain = made(unit(rng, 3000, dim), faiss.ScalarQuantizer.QT_8bit)
    faiss.write_index(plain, str(tmp_path / "index"))
    codes = Codes(faiss.read_index(str(tmp_path / "index"), faiss.IO_FLAG_MMAP))
    queries = unit(rng, 30, dim)
    wrong = codes.rounding(queries)
    assert 0 < wrong < 0.03
    told = similarities(plain.range_search(queries, 0.3, params=PROBES))
    found = similarities(codes.range_search(queries, 0.3 - wrong, params=PROBES))
    assert len(told) > 1000 and told.keys() <= found.keys()
    apart = np.array([found[key] - value for key, value in told.items()])
    assert np.abs(apart).max() <= wrong and np.abs(apart).mean() > 0
    similarity, places = codes.search(queries, 7, PROBES)
    for q in range(len(queries)):
        for place, value in zip(places[q].tolist(), similarity[q].tolist(), strict=True):
            assert value == pytest.approx(found[q, place], abs=1e-6)
    assert (np.diff(similarity, axis=1) <= 0).all()


def test_a_restriction_holds_for_signed_codes(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    codes = Codes(made(unit(rng, 2000, 16), faiss.ScalarQuantizer.QT_8bit))
    bits = np.packbits(np.arange(2000) % 3 == 0, bitorder="little")
    some = faiss.SearchParametersIVF(nprobe=9, sel=faiss.IDSelectorBitmap(2000, faiss.swig_ptr(bits)))
    for places in (
        codes.range_search(unit(rng, 5, 16), 0.3, some)[2],
        codes.search(unit(rng, 5, 16), 9, some)[1].ravel(),
    ):
        assert len(places) > 40 and (places % 3 == 0).all()


def test_codes_without_a_span_are_as_similar_as_their_list() -> None:
    same = np.repeat(unit(np.random.default_rng(5), 1, 16), 2000, axis=0)
    plain = made(same, faiss.ScalarQuantizer.QT_8bit)
    assert not faiss.vector_to_array(plain.sq.trained).reshape(2, 16)[1].any()
    told = plain.search(same[:1], 9, params=PROBES)[0]
    codes = Codes(plain)
    similarity, places = codes.search(same[:1], 9, PROBES)
    np.testing.assert_allclose(similarity, told, atol=1e-6)
    assert (places >= 0).all() and codes.rounding(same[:1]) == 0
    assert len(codes.range_search(same[:1], 0.9, PROBES)[2]) == 2000
    assert len(codes.search(0 * same[:1], 9, PROBES)[1]) == 1


def test_other_kinds_of_codes_are_left_to_faiss() -> None:
    rng = np.random.default_rng(4)
    vectors, queries = unit(rng, 2000, 16), unit(rng, 5, 16)
    for index in (
        made(vectors, faiss.ScalarQuantizer.QT_fp16),
        made(vectors, faiss.ScalarQuantizer.QT_8bit, residual=False),
    ):
        told = [index.search(queries, 9, params=PROBES), index.range_search(queries, 0.5, params=PROBES)]
        codes = Codes(index)
        assert codes.rounding(queries) == 0 and codes.kind == "IndexIVFScalarQuantizer"
        for one, other in zip(
            told, (codes.search(queries, 9, PROBES), codes.range_search(queries, 0.5, PROBES)), strict=True
        ):
            for column, expected in zip(other, one, strict=True):
                np.testing.assert_array_equal(column, expected)
