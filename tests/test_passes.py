"""Which way a pass is made, and that every way gives the same answer: exact, index, shared, restricted."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from panorama.models.base import Embedder, Image
from panorama.query.matching import nearest, scoring
from panorama.query.matching.cost import COSTS, Costs, Work, choose
from panorama.query.matching.decide import COHORT_NEIGHBOURS, POOL_QUANTILE, Calibration
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import Matches, MatchRequest
from panorama.query.matching.meeting import Places
from panorama.query.matching.said import Said
from panorama.query.matching.scoring import DENIED, SAME_PICTURE
from panorama.query.matching.track_rows import TrackRows
from panorama.store import Album
from panorama.store.vectors.index import VectorIndex
from panorama.store.vectors.vector_cache import prints_of
from panorama.store.vectors.vector_table import VectorTable

DIM = 16
BANDS = Calibration(0.6, 20.0, 0.2, 0.5, near_best=0.8)
INDEX_ALWAYS = Costs(pass_=0, row=1, pair=1, code=0, probe=0, cached=0, cached_row=0)
INDEX_NEVER = Costs(code=1e9)


class OneExit(Embedder):
    """Nothing is ever embedded: all vectors are given."""

    name, hash, dim, exits, macs = "one", "one", DIM, 1, (1,)

    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        raise AssertionError("a picture was embedded")

    def cohort(self) -> NDArray[np.float32]:
        return np.zeros((1, 0, DIM), np.float32)


@dataclass
class Library:
    """Vectors in memory, searched by the store's own index."""

    index: VectorIndex
    exemplars: Album
    searches: int = 0

    def album(self, exit: int) -> Album:
        return self.exemplars

    def stored(self, exit: int) -> VectorTable:
        return self.index.table

    def said(self, name: str) -> Said:
        return Said.none()

    def counts(self) -> tuple[int, list[int]]:
        return len(self.index.table), [len(self.index.table)]

    def crops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self.index.table.crop_ids, self.index.table.track_ids

    def codes(self, exit: int, least: float) -> int | None:
        return self.index.codes(least)

    def near(self, exit, queries, least, rows=None):
        self.searches += 1
        return self.index.near(queries, least, rows)

    def nearest(self, exit, query, count, rows):
        self.searches += 1
        return self.index.nearest(query, count, rows)

    def places(self, track_ids: NDArray[np.int64]) -> Places:
        """Nowhere: what is tested here is each track by itself."""
        nothing = np.zeros(0)
        return Places(
            np.zeros(0, np.int64), nothing, nothing, np.zeros((0, 1)), np.zeros((0, 1, 4), np.float32)
        )

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return track_ids >> 32

    scenes = shots

    def sites(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        return scenes

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        return segments[:0]

    def deepen(self, crop_ids: NDArray[np.int64], exit: int) -> VectorTable:
        rows = self.index.table.rows_of(crop_ids)
        table = self.index.table
        return VectorTable("one", 1, crop_ids, table.track_ids[rows], table.prints[rows], table.vectors[rows])


def unit(vectors: NDArray) -> NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def make(seed: int, tracks: int, shuffled: bool = False, flat: bool = False) -> Library:
    """Tracks of one to five crops around thirty things, in twenty segments, and three entities."""
    rng = np.random.default_rng(seed)
    things = unit(rng.normal(size=(30, DIM)))
    counts = rng.integers(1, 6, tracks)
    local = np.arange(tracks)
    track_ids = np.sort(((local % 20 + 1) << 32) | local)
    seen = unit(things[rng.integers(0, 30, tracks)] + 0.1 * rng.normal(size=(tracks, DIM)))
    owners = np.repeat(track_ids, counts)
    vectors = unit(np.repeat(seen, counts, axis=0) + 0.06 * rng.normal(size=(len(owners), DIM)))
    crop_ids = ((owners >> 32) << 32) | np.arange(len(owners))
    if shuffled:
        order = rng.permutation(len(owners))
        owners, vectors, crop_ids = owners[order], vectors[order], crop_ids[order]
    table = VectorTable("one", 1, crop_ids, owners, prints_of(vectors), vectors)
    exemplars = unit(np.repeat(things[:4], 2, axis=0) + 0.05 * rng.normal(size=(8, DIM)))
    exemplars[7] = unit(things[1:2] + 0.1 * rng.normal(size=(1, DIM)))[0]  # denied, and near to what b is
    album = Album(
        ("a", "b", "c"),
        np.array([0, 0, 1, 1, 2, 2, 0, 1], np.int32),
        np.arange(8, dtype=np.int64),
        np.array([False] * 6 + [True] * 2),
        np.array([False] * 7 + [True]),
        exemplars,
    )
    index = VectorIndex(table, flat_rows=10**9 if flat else 100, exact_rows=0, build=not flat)
    return Library(index, album)


@pytest.fixture(scope="module")
def large() -> Library:
    return make(1, 4000)


class AmongStrangers(OneExit):
    """The same with a cohort: of several exemplars, levels are raised together."""

    def cohort(self) -> NDArray[np.float32]:
        return unit(np.random.default_rng(3).normal(size=(1, 60, DIM)))


def matcher(
    library: Library, costs: Costs = COSTS, embedder: Embedder | None = None, threads: int = 1
) -> AlbumMatcher:
    return AlbumMatcher(library, embedder or OneExit(), [BANDS], costs=costs, threads=threads)


def rows(matches: Matches) -> dict[tuple[str, int], tuple]:
    return {
        (matches.entities[int(e)], int(t)): (round(float(s), 5), int(b), int(c), int(x))
        for e, t, s, b, c, x in zip(
            matches.entity_index, matches.track_id, matches.score, matches.band, matches.crop_id,
            matches.exemplar_id, strict=True,
        )
    }  # fmt: skip


def every_seventh(start: int) -> NDArray[np.int64]:
    """Some tracks, and some ids that no track has."""
    local = np.arange(start, 4000, 7)
    return ((local % 20 + 1) << 32) | local


requests = st.builds(
    MatchRequest,
    entities=st.sampled_from([None, ("a",), ("c", "b"), ()]),
    segments=st.none() | st.lists(st.integers(1, 22), unique=True).map(lambda s: np.array(s, np.int32)),
    tracks=st.none() | st.integers(0, 9).map(every_seventh),
    keep=st.sampled_from(["accepted", "undecided", "all"]),
    min_score=st.none() | st.floats(0.05, 0.99),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests)
def test_the_index_finds_what_comparing_everything_finds(large: Library, request: MatchRequest) -> None:
    exact = rows(matcher(large, INDEX_NEVER).match(request))
    found = rows(matcher(large, INDEX_ALWAYS).match(request))
    # An index may miss, and says nothing else: every track that it finds is the same to the last digit.
    assert {key: value for key, value in found.items() if exact.get(key) != value} == {}
    assert len(found) >= 0.99 * len(exact)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=requests)
def test_with_a_cohort_the_index_finds_what_comparing_everything_finds(
    large: Library, request: MatchRequest
) -> None:
    exact = rows(matcher(large, INDEX_NEVER, AmongStrangers()).match(request))
    found = rows(matcher(large, INDEX_ALWAYS, AmongStrangers()).match(request))
    assert {key: value for key, value in found.items() if exact.get(key) != value} == {}
    assert len(found) >= 0.99 * len(exact)


def test_a_cohort_scales_every_value_by_what_strangers_reach_with_all_exemplars(large: Library) -> None:
    """By hand: the largest ratio to an exemplar, less what it is for the nearest strangers."""
    album, table, strangers = large.exemplars, large.index.table, AmongStrangers().cohort()[0]
    one = large.album(1).entities.index("c")  # it has no look-alike
    good = album.vectors[album.entity_index == one]
    good = np.concatenate([good, unit(good.mean(axis=0, keepdims=True))])
    level = np.sort(good @ strangers.T, axis=1)[:, -COHORT_NEIGHBOURS:].mean(axis=1)

    def ratio(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
        return (1 - (1 - vectors @ good.T) / (1 - level)).max(axis=1)

    excess = np.sort(ratio(strangers))[-COHORT_NEIGHBOURS:].mean()
    assert excess > 0.01
    found = matcher(large, embedder=AmongStrangers()).match(MatchRequest(("c",), keep="all"))
    for track, score, band in zip(found.track_id, found.score, found.band, strict=True):
        values = (ratio(table.vectors[table.track_ids == track]) - excess) / (1 - excess)
        assert score == pytest.approx(BANDS.score(np.quantile(values, POOL_QUANTILE)), abs=2e-5), band


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), tracks=st.integers(1, 300), shuffled=st.booleans(), request=requests)
def test_a_flat_library_gives_what_the_rule_says_whatever_the_order_of_its_rows(
    seed: int, tracks: int, shuffled: bool, request: MatchRequest
) -> None:
    library = make(seed, tracks, shuffled, flat=True)
    together = rows(matcher(library).match(request))
    by_hand: dict = {}
    for name in request.entities if request.entities is not None else ("a", "b", "c"):
        by_hand.update(one_by_one(library, name, request))
    assert together.keys() == by_hand.keys()
    for key, score in by_hand.items():
        assert together[key][0] == pytest.approx(score, abs=2e-5)


def one_by_one(library: Library, name: str, request: MatchRequest) -> dict[tuple[str, int], float]:
    """The rule, track by track, in plain numpy, without a cohort."""
    album, table = library.exemplars, library.index.table
    mine = album.entity_index == album.entities.index(name)
    good = album.vectors[mine & ~album.negative]
    bad, no = album.vectors[mine & album.negative & ~album.denied], album.vectors[mine & album.denied]
    values = {}
    for track in np.unique(table.track_ids):
        crops = table.vectors[table.track_ids == track]
        if len(good) > 1:
            mean = good.mean(axis=0)
            good = np.concatenate([good, mean[None] / np.linalg.norm(mean)])
        best = (crops @ good.T).max(axis=1)
        denied = (crops @ no.T).max(axis=1, initial=-1.0)
        kept = bool(((denied >= SAME_PICTURE) & (denied >= best)).any())
        if len(bad):
            best = best - 2 * np.maximum((crops @ bad.T).max(axis=1) - best, 0)
        values[int(track)] = DENIED if kept else float(np.quantile(best, POOL_QUANTILE))
    out = {}
    for track, value in values.items():
        score = float(BANDS.score(np.array(value)))
        if request.segments is not None and track >> 32 not in request.segments:
            continue
        if request.tracks is not None and track not in request.tracks:
            continue
        least = BANDS.low if request.keep != "all" else (request.min_score or 0.0)
        if score >= least:
            out[name, track] = score
    return out


@pytest.mark.parametrize("restricted", [False, True])
def test_the_most_similar_tracks_are_the_same_by_index_and_by_scan(large: Library, restricted: bool) -> None:
    table = large.index.table
    segments = np.array([3, 4, 5], np.int32) if restricted else None
    for crop in table.crop_ids[::1500].tolist():
        for first in (1, 7, 60):
            some = MatchRequest(segments=segments, keep="all", first=first)
            ids, values = matcher(large).similarity(crop, some)
            every, truth = matcher(large).similarity(crop, MatchRequest(segments=segments, keep="all"))
            owner = dict(zip(table.crop_ids.tolist(), table.track_ids.tolist(), strict=True))
            best: dict[int, float] = {}
            for c, v in zip(every.tolist(), truth.tolist(), strict=True):
                best[owner[c]] = max(best.get(owner[c], 0.0), v)
            wanted = sorted(best.values(), reverse=True)[:first]
            got: dict[int, float] = {}
            for c, v in zip(ids.tolist(), values.tolist(), strict=True):
                got[owner[c]] = max(got.get(owner[c], 0.0), v)
            assert sorted(got.values(), reverse=True)[:first] == pytest.approx(wanted, abs=1e-6)
            assert len(ids) < len(every)


@pytest.mark.parametrize("by_index", [False, True])
def test_the_crops_of_a_least_similarity_are_those_that_have_it(large: Library, by_index: bool) -> None:
    crop = int(large.index.table.crop_ids[900])
    ids, values = matcher(large, INDEX_NEVER).similarity(crop, MatchRequest(keep="all"))
    asked = matcher(large) if by_index else matcher(large, INDEX_NEVER)
    for least in (0.55, 0.7, 0.99):
        found, _ = asked.similarity(crop, MatchRequest(keep="all", min_score=least))
        wanted = set(ids[values >= least].tolist())
        assert set(found.tolist()) == wanted and 0 < len(wanted) < len(ids)


def test_what_is_found_does_not_depend_on_threads(large: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "SCAN_ROWS", 500)
    monkeypatch.setattr(nearest, "SCAN_ROWS", 500)
    every = MatchRequest(keep="all")
    alone, used = matcher(large, INDEX_NEVER), set()
    matches, similar = alone.match(every), alone.similarity(int(large.index.table.crop_ids[9]), every)
    taken = scoring.take_rows

    def noting(*given: Any, **named: Any) -> NDArray[np.float32]:
        used.add(threading.current_thread().name)
        return taken(*given, **named)

    monkeypatch.setattr(scoring, "take_rows", noting)
    several = matcher(large, INDEX_NEVER, threads=3)
    assert rows(several.match(every)) == rows(matches)
    assert used and all(name.startswith("panorama-scan") for name in used)
    for mine, theirs in zip(
        several.similarity(int(large.index.table.crop_ids[9]), every), similar, strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_rows_of_a_track_that_lie_apart_belong_together() -> None:
    groups = TrackRows.of(np.array([5, 3, 5, 9, 3, 3], np.int64))
    numbers = [np.array([i]) for i in range(len(groups))]
    found = {int(groups.track_ids[n[0]]): sorted(groups.rows(n).tolist()) for n in numbers}
    assert found == {3: [1, 4, 5], 5: [0, 2], 9: [3]}
    assert groups.track_ids[groups.of_ids(np.array([9, 4, 3], np.int64))].tolist() == [3, 9]
    together = TrackRows.of(np.array([7, 7, 2, 4, 4], np.int64))
    assert together.order is None and together.track_ids.tolist() == [7, 2, 4]
    owners = np.array([7, 7, 2, 4, 4], np.int64)
    assert together.of_rows(np.array([4, 1]), owners).tolist() == [0, 2]
    assert len(TrackRows.of(np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize(
    ("work", "way"),
    [
        (Work(rows=1_000, exemplars=3), "exact"),
        (Work(rows=1_000_000, exemplars=3), "exact"),  # there is no index
        (Work(rows=1_000_000, exemplars=3, codes=150_000), "index"),
        (Work(rows=10_000_000, exemplars=3, codes=600_000), "index"),
        (Work(rows=2_000, exemplars=3, codes=150_000), "exact"),  # a small scope
        (Work(rows=1_000, exemplars=12, codes=204_000, table=1_000_000), "exact"),
        # Codes were taken for three times too dear, and what a scope spares of them was not known.
        (Work(rows=30_000, exemplars=3, codes=166_500, table=1_000_000), "index"),
        (Work(rows=100_000, exemplars=12, codes=666_000, table=1_000_000), "index"),
        (Work(rows=30_000, exemplars=3, codes=1_665_000, table=10_000_000), "exact"),
        (Work(rows=1_000_000, exemplars=3, codes=400_000_000), "exact"),  # nearly every list would be read
        (Work(rows=1_000_000, exemplars=3, codes=150_000, cached=500), "cache"),
        (Work(rows=1_000_000, exemplars=3, codes=150_000, cached=500, added=1_000), "cache"),
        (Work(rows=1_000_000, exemplars=3, codes=150_000, cached=500, added=900_000), "index"),
        (Work(rows=200, exemplars=1, cached=200), "cache"),
    ],
)
def test_the_cheapest_way_is_chosen(work: Work, way: str) -> None:
    choice = choose(work)
    assert choice.way == way, choice.estimates
    assert choice.estimates[way] == min(choice.estimates.values())


def test_the_choice_is_what_is_done(large: Library) -> None:
    before = large.searches
    one = matcher(large, INDEX_NEVER)
    assert {c.way for c in one.choices(MatchRequest()).values()} == {"exact"}
    one.match(MatchRequest())
    assert large.searches == before
    other = matcher(large, INDEX_ALWAYS)
    assert {c.way for c in other.choices(MatchRequest()).values()} == {"index"}
    other.match(MatchRequest())
    assert large.searches == before + 1, "one search for all entities"
    assert {c.way for c in other.choices(MatchRequest()).values()} == {"cache"}
