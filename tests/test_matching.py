"""Matching an album against tracks, through exits, within a scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from panorama.models.base import Embedder, Image
from panorama.query.matching.decide import Calibration
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN, Matches, MatchRequest, side_by_side
from panorama.query.matching.meeting import Places
from panorama.query.matching.said import Said
from panorama.query.matching.scoring import DENIED, SAME_PICTURE, Sought, score_tracks
from panorama.query.matching.track_rows import TrackRows
from panorama.query.matching.whole import Recalled, Whole

SHALLOW = Calibration(0.5, 20.0, 0.2, 0.9, 0.0)
DEEP = Calibration(0.5, 20.0, 0.4, 0.6, 0.0)


class TwoExits(Embedder):
    """Exit 1 sees a picture's mean red, exit 2 red and green: vectors a person can compute."""

    name, hash, dim, exits, macs = "two", "two", 3, 2, (1, 2)

    def embed_all(self, images: Sequence[Image]) -> NDArray[np.float32]:
        mean = np.array([i.reshape(-1, 3).mean(axis=0) for i in images], np.float32).reshape(-1, 3) / 255
        shallow = mean * (1, 0, 0) + (0, 0, 0.5)
        deep = mean * (1, 1, 0) + (0, 0, 0.5)
        both = np.stack([shallow, deep]).astype(np.float32)
        return both / np.linalg.norm(both, axis=2, keepdims=True)

    def cohort(self) -> NDArray[np.float32]:
        return np.zeros((2, 0, 3), np.float32)


@dataclass
class Table:
    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    vectors: NDArray[np.float32]


@dataclass
class FakeAlbum:
    entities: tuple[str, ...]
    entity_index: NDArray[np.int32]
    exemplar_ids: NDArray[np.int64]
    negative: NDArray[np.bool_]
    vectors: NDArray[np.float32]
    no: tuple[int, ...] = ()  # exemplars that were denied
    categories: frozenset[str] = frozenset()

    @property
    def denied(self) -> NDArray[np.bool_]:
        return np.isin(self.exemplar_ids, self.no)


@dataclass
class FakeSource:
    """Crops given by one unit vector per exit; exits above `stored_exits` must be computed."""

    crop_vectors: NDArray[np.float32]  # (exits, N, dim)
    owners: NDArray[np.int64]
    exemplar_vectors: NDArray[np.float32]  # (exits, M, dim)
    stored_exits: int = 2
    negative: tuple[bool, ...] = (False,)
    deepened: list[int] = field(default_factory=list)
    searched: list[int] | None = None  # sizes of searches in its index, None where it has none
    no: tuple[int, ...] = ()
    categories: frozenset[str] = frozenset()
    one_scene: tuple[int, ...] = ()
    one_site: tuple[int, ...] = ()
    linked: tuple[int, ...] = ()  # videos that go on one with the next
    told: Said = field(default_factory=Said.none)

    def album(self, exit: int) -> FakeAlbum:
        count = len(self.negative)
        return FakeAlbum(
            ("thing",),
            np.zeros(count, np.int32),
            np.arange(count) + 100,
            np.array(self.negative),
            self.exemplar_vectors[exit - 1],
            self.no,
            self.categories,
        )

    def stored(self, exit: int) -> Table:
        count = len(self.owners) if exit <= self.stored_exits else 0
        return Table(np.arange(count), self.owners[:count], self.crop_vectors[exit - 1][:count])

    def crops(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.arange(len(self.owners)), self.owners

    def said(self, name: str) -> Said:
        return self.told

    def counts(self) -> tuple[int, list[int]]:
        return len(self.owners), [len(self.stored(exit).crop_ids) for exit in (1, 2)]

    def codes(self, exit: int, least: float) -> int | None:
        return None if self.searched is None else 0

    def near(
        self, exit: int, queries: NDArray, least: NDArray, rows: NDArray | None = None
    ) -> list[NDArray[np.intp]] | None:
        if self.searched is None:
            return None
        self.searched.append(len(queries))
        similarity = queries @ self.stored(exit).vectors.T
        found = [np.flatnonzero(row >= low) for row, low in zip(similarity, least, strict=True)]
        return found if rows is None else [np.intersect1d(some, rows) for some in found]

    def nearest(self, exit: int, query: NDArray, count: int, rows: NDArray | None) -> NDArray[np.intp] | None:
        if self.searched is None:
            return None
        among = np.arange(len(self.owners)) if rows is None else rows
        return among[np.argsort(-(self.stored(exit).vectors[among] @ query))[:count]]

    def places(self, track_ids: NDArray[np.int64]) -> Places:
        """Every track stands at the same place for the first second of its video."""
        count = len(track_ids)
        seconds, boxes = np.full((count, 1), 0.5), np.tile(np.float32([0, 0, 9, 9]), (count, 1, 1))
        return Places(track_ids, np.zeros(count), np.ones(count), seconds, boxes)

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        videos = track_ids >> 32
        return np.where(np.isin(videos, self.linked), -1, videos)

    def scenes(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which videos are one scene, `one_scene` says."""
        videos = track_ids >> 32
        return np.where(np.isin(videos, self.one_scene), -1, videos)

    def sites(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which of the scenes that are videos are of one site, `one_site` says."""
        return np.where(np.isin(scenes, self.one_site), -2, scenes)

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        pairs = zip(self.linked, self.linked[1:], strict=False)
        beside = [b if a in segments else a for a, b in pairs if (a in segments) != (b in segments)]
        return np.array(beside, np.int32)

    def deepen(self, crop_ids: NDArray[np.int64], exit: int) -> Table:
        self.deepened += crop_ids.tolist()
        return Table(crop_ids, self.owners[crop_ids], self.crop_vectors[exit - 1][crop_ids])


def unit(cosine: float) -> list[float]:
    """A unit vector whose inner product with [1, 0, 0] is `cosine`."""
    return [cosine, float(np.sqrt(1 - cosine**2)), 0.0]


def source(
    shallow: Sequence[float], deep: Sequence[float], owners: Sequence[int], stored: int = 2, **more: Any
) -> FakeSource:
    crops = np.array([[unit(c) for c in shallow], [unit(c) for c in deep]], np.float32)
    exemplar = np.array([[[1, 0, 0]], [[1, 0, 0]]], np.float32)
    return FakeSource(crops, np.array(owners, np.int64), exemplar, stored, **more)


def confirmed(*exemplars: Sequence[float], crops: Mapping[int, Sequence[float]]) -> FakeSource:
    """Tracks of one crop each, and exemplars, by unit vectors that all exits see."""
    both = [np.array([list(some)] * 2, np.float32) for some in (crops.values(), exemplars)]
    return FakeSource(both[0], np.array(list(crops), np.int64), both[1], negative=(False,) * len(exemplars))


def by_track(matches: object) -> dict[int, int]:
    return dict(zip(matches.track_id.tolist(), matches.band.tolist(), strict=True))  # type: ignore[attr-defined]


def test_tracks_are_accepted_left_open_and_rejected() -> None:
    deep = [0.9, 0.5, 0.1]
    matcher = AlbumMatcher(source(deep, deep, [7, 8, 9]), TwoExits(), (SHALLOW, DEEP))
    assert by_track(matcher.match(MatchRequest())) == {7: ACCEPTED, 8: UNCERTAIN}
    everything = matcher.match(MatchRequest(keep="all"))
    assert by_track(everything) == {7: ACCEPTED, 8: UNCERTAIN, 9: REJECTED}


def test_only_undecided_tracks_go_deeper() -> None:
    fake = source([0.9, 0.5, 0.1], [0.9, 0.8, 0.1], [7, 8, 9], stored=1)
    matches = AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP)).match(MatchRequest())
    assert fake.deepened == [1]
    matcher = AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP))
    assert matcher.best("thing") == {1: pytest.approx(0.9), 2: pytest.approx(0.8)}
    assert by_track(matches) == {7: ACCEPTED, 8: ACCEPTED}
    assert dict(zip(matches.track_id.tolist(), matches.exit.tolist(), strict=True)) == {7: 1, 8: 2}


def test_a_track_whose_crops_lie_apart_in_the_table_is_worth_its_own() -> None:
    worth = []
    for values, owners in (([0.9, 0.2, 0.8, 0.1], [7, 8, 7, 8]), ([0.9, 0.8, 0.2, 0.1], [7, 7, 8, 8])):
        matcher = AlbumMatcher(source(values, values, owners), TwoExits(), (SHALLOW, DEEP))
        found = matcher.match(MatchRequest(keep="all"))
        worth.append(dict(zip(found.track_id.tolist(), found.score.tolist(), strict=True)))
    assert worth[0] == worth[1] and worth[0][7] > 0.9 > 0.1 > worth[0][8]


def test_what_a_deeper_exit_may_lift_over_the_least_score_is_looked_at_there() -> None:
    """The second is rejected by the first exit; by its score it may still be among those asked for."""
    fake = source([0.45, 0.42, 0.3], [0.7, 0.9, 0.9], [7, 8, 9], stored=1)
    matcher = AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP))
    found = matcher.match(MatchRequest(keep="all", min_score=0.45))
    assert found.track_id.tolist() == [7, 8] and found.exit.tolist() == [2, 2] and found.score.min() > 0.9


def test_a_scope_changes_no_band() -> None:
    near = Calibration(0.5, 20.0, 0.2, 0.6, near_best=0.95)
    values = [0.99, 0.8, 0.1]
    matcher = AlbumMatcher(source(values, values, [1 << 32, 2 << 32, 3 << 32]), TwoExits(), (near, near))
    whole = by_track(matcher.match(MatchRequest()))
    part = by_track(matcher.match(MatchRequest(segments=np.array([2], np.int32))))
    assert whole == {1 << 32: ACCEPTED, 2 << 32: UNCERTAIN}
    assert part == {2 << 32: UNCERTAIN}


def test_the_best_crop_and_its_exemplar_are_named() -> None:
    values = [0.7, 0.95, 0.8]
    matches = AlbumMatcher(source(values, values, [5, 5, 5]), TwoExits(), (SHALLOW, DEEP)).match(
        MatchRequest()
    )
    assert matches.crop_id.tolist() == [1] and matches.exemplar_id.tolist() == [100]


def test_an_entity_without_examples_matches_nothing() -> None:
    fake = source([0.9], [0.9], [5])
    fake.negative = (True,)
    assert len(AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP)).match(MatchRequest(keep="all"))) == 0


def test_an_empty_library_matches_nothing() -> None:
    assert (
        len(AlbumMatcher(source([], [], []), TwoExits(), (SHALLOW, DEEP)).match(MatchRequest(keep="all")))
        == 0
    )


def test_a_score_threshold_leaves_lower_tracks_out() -> None:
    values = [0.9, 0.5, 0.1]
    matcher = AlbumMatcher(source(values, values, [7, 8, 9]), TwoExits(), (SHALLOW, DEEP))
    assert set(by_track(matcher.match(MatchRequest(keep="all", min_score=0.4)))) == {7, 8}


def test_verify_is_symmetric_and_sure_of_the_same_picture() -> None:
    matcher = AlbumMatcher(source([], [], []), TwoExits(), (SHALLOW, DEEP))
    red, green = np.full((4, 4, 3), (255, 0, 0), np.uint8), np.full((4, 4, 3), (0, 255, 0), np.uint8)
    score, band, exit = matcher.verify(red, red)
    assert score == pytest.approx(1, abs=1e-3) and band == ACCEPTED and exit == 1
    assert matcher.verify(red, green)[0] == pytest.approx(matcher.verify(green, red)[0])


def test_similarity_to_a_crop_ranks_the_crop_itself_first() -> None:
    values = [0.9, 0.5, 0.1]
    matcher = AlbumMatcher(source(values, values, [7, 8, 9]), TwoExits(), (SHALLOW, DEEP))
    crop_ids, similarity = matcher.similarity(1, MatchRequest())
    assert crop_ids[similarity.argmax()] == 1 and similarity.max() == pytest.approx(1)


def test_what_a_video_decides_also_holds_where_every_score_is_asked_for() -> None:
    rule = Calibration(0.5, 20.0, 0.01, 0.6, near_best=0.5, near_in_video=0.95, carried=0.65)
    values, owners = [0.75, 0.5, 0.7, 0.1], [(1 << 32) + 1, (1 << 32) + 2, 2 << 32, 3 << 32]
    matcher = AlbumMatcher(source(values, values, owners), TwoExits(), (rule, rule))
    accepted = matcher.match(MatchRequest())
    assert by_track(accepted) == dict.fromkeys(owners[:3], ACCEPTED)  # the second with the first
    assert accepted.score[1] > 0.6 > rule.score(np.array(0.5))
    every = matcher.match(MatchRequest(keep="all"))
    assert by_track(every) == {**by_track(accepted), owners[3]: REJECTED}
    assert every.score[:3].tolist() == accepted.score.tolist()
    part = MatchRequest(keep="all", segments=np.array([2], np.int32), min_score=0.5)
    assert by_track(matcher.match(part)) == {owners[2]: ACCEPTED}


class Remembered:
    """A cache of what was matched, to which segment 2 is new."""

    whole: Whole | None = None

    def recall(self, name: str) -> Recalled | None:
        return None if self.whole is None else Recalled(self.whole, np.array([2], np.int32))

    def keep(self, name: str, whole: Whole) -> None:
        self.whole = whole


def test_what_a_new_video_adds_gives_the_scores_of_looking_at_everything() -> None:
    first = Calibration(0.5, 5.0, 0.2, 0.75, 0.0)
    rule = Calibration(0.5, 5.0, 0.2, 0.75, 0.0, near_in_video=0.95, fade=2.0)
    # The tracks of the first video are decided at exit 1, where the second stands back; the new one is not.
    shallow, deep, owners = [0.9, 0.8, 0.55], [0.9, 0.8, 0.85], [(1 << 32) + 1, (1 << 32) + 2, 2 << 32]
    known = Remembered()
    old = source(shallow[:2], deep[:2], owners[:2], stored=1)
    AlbumMatcher(old, TwoExits(), (first, rule), known).match(MatchRequest())
    assert known.whole is not None and list(known.whole.best) == [1]
    new = source(shallow, deep, owners, stored=1)
    grown = AlbumMatcher(new, TwoExits(), (first, rule), known).match(MatchRequest())
    fresh = AlbumMatcher(new, TwoExits(), (first, rule)).match(MatchRequest())
    assert (
        by_track(grown) == by_track(fresh) == dict(zip(owners, (ACCEPTED, UNCERTAIN, ACCEPTED), strict=True))
    )
    assert grown.score.tolist() == fresh.score.tolist()


@pytest.mark.parametrize(
    ("new", "again"),
    [((0.7,), False), ((0.97,), True), ((0.1,), False)],
    ids=["stands back", "beats the best of its scene", "is no answer"],
)
def test_a_new_video_of_a_scene_gives_the_scores_of_looking_at_everything(
    new: tuple[float, ...], again: bool
) -> None:
    rule = Calibration(0.5, 5.0, 0.2, 0.6, 0.0, near_in_video=0.95, carried=0.9, fade=2.0, beside=0.5)
    # The best of all is elsewhere, so that no new track beats it.
    old, owners = [0.99, 0.9, 0.7], [3 << 32, (1 << 32) + 1, (1 << 32) + 2]
    values, everyone = [*old, *new], [*owners, *((2 << 32) + n for n in range(len(new)))]
    known = Remembered()
    before = source(old, old, owners, one_scene=(1, 2))
    AlbumMatcher(before, TwoExits(), (rule, rule), known).match(MatchRequest())
    after = source(values, values, everyone, one_scene=(1, 2))
    grown = AlbumMatcher(after, TwoExits(), (rule, rule), known)
    passes: list[int] = []
    first = grown._passes.first

    def counted(names: Sequence[str], *rest: Any) -> Any:
        passes.extend([1] * bool(names))
        return first(names, *rest)

    grown._passes.first = counted  # type: ignore[method-assign]
    fresh = AlbumMatcher(after, TwoExits(), (rule, rule)).match(MatchRequest())
    found = grown.match(MatchRequest())
    assert by_track(found) == by_track(fresh)
    assert found.score.tolist() == pytest.approx(fresh.score.tolist())
    assert len(passes) == 1 + again


@pytest.mark.parametrize("linked", [(), (1, 2)])
def test_what_a_new_video_continues_is_looked_at_with_it(linked: tuple[int, ...]) -> None:
    """The track of the new video would stand back, but goes on where an accepted one is."""
    rule = Calibration(0.5, 5.0, 0.2, 0.6, 0.0, near_in_video=0.95, carried=0.6)
    values, owners = [0.9, 0.7], [1 << 32, 2 << 32]
    known = Remembered()
    scene = {"one_scene": (1, 2), "linked": linked}
    before = source(values[:1], values[:1], owners[:1], **scene)
    AlbumMatcher(before, TwoExits(), (rule, rule), known).match(MatchRequest())
    after = source(values, values, owners, **scene)
    found = AlbumMatcher(after, TwoExits(), (rule, rule), known).match(MatchRequest())
    assert by_track(found) == {owners[0]: ACCEPTED, owners[1]: ACCEPTED if linked else UNCERTAIN}


KNOWN, SEEN, AGAIN = [1.0, 0.0, 0.0], unit(0.7), [*unit(0.66)[:1], -unit(0.66)[1], 0.0]
"""An example, a track of the same thing that it fits at 0.7, and another, unlike that, at 0.66."""

NEAR = Calibration(0.5, 20.0, 0.2, 0.6, near_best=0.8)
IN_VIDEO = Calibration(0.5, 20.0, 0.2, 0.6, near_best=0.0, near_in_video=0.93)


@pytest.mark.parametrize("rule", [NEAR, IN_VIDEO], ids=["in the library", "in a video"])
def test_who_says_yes_to_a_track_loses_no_other(rule: Calibration) -> None:
    owners = [(1 << 32) + 1, (1 << 32) + 2]
    tracks = dict(zip(owners, (SEEN, AGAIN), strict=True))
    for exemplars in ([KNOWN], [KNOWN, SEEN]):
        fake = confirmed(*exemplars, crops=tracks)
        matches = AlbumMatcher(fake, TwoExits(), (rule, rule)).match(MatchRequest())
        assert by_track(matches) == dict.fromkeys(owners, ACCEPTED)


@pytest.mark.parametrize("rule", [NEAR, IN_VIDEO], ids=["in the library", "in a video"])
def test_a_track_that_only_its_own_pictures_show_is_still_what_others_stand_back_from(
    rule: Calibration,
) -> None:
    owners = [(1 << 32) + 1, (1 << 32) + 2]
    fake = confirmed(KNOWN, unit(0.99), crops=dict(zip(owners, (KNOWN, AGAIN), strict=True)))
    matches = AlbumMatcher(fake, TwoExits(), (rule, rule)).match(MatchRequest())
    assert by_track(matches) == {owners[0]: ACCEPTED, owners[1]: UNCERTAIN}


def test_the_best_track_is_the_best_without_its_own_picture_whatever_is_looked_at_first() -> None:
    tracks = {1 << 32: AGAIN, 2 << 32: SEEN}
    known = Remembered()
    old = confirmed(KNOWN, SEEN, crops={1 << 32: AGAIN})
    AlbumMatcher(old, TwoExits(), (NEAR, NEAR), known).match(MatchRequest())
    for kept in (known, None):
        fake = confirmed(KNOWN, SEEN, crops=tracks)
        fake.searched = [] if kept is None else None
        matcher = AlbumMatcher(fake, TwoExits(), (NEAR, NEAR), kept)
        assert by_track(matcher.match(MatchRequest())) == dict.fromkeys(tracks, ACCEPTED)
        assert matcher.best("thing")[2] == pytest.approx(0.7)
        (scoped,) = matcher.match(MatchRequest(segments=np.array([1], np.int32))).band
        assert scoped == ACCEPTED


def test_without_its_own_pictures_no_track_is_worth_more() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        crops, pictures = draw.normal(size=(40, 5)), draw.normal(size=(5, 5))
        pictures[1] = crops[3]  # of the first track
        vectors = [np.float32(v / np.linalg.norm(v, axis=1, keepdims=True)) for v in (crops, pictures)]
        album = FakeAlbum(("x",), np.zeros(5, np.int32), np.arange(5), np.arange(5) > 3, vectors[1])
        one = Sought.of(album, "x", np.zeros((0, 5), np.float32))
        owners = np.repeat(np.arange(10), 4)
        table = Table(np.arange(40), owners, vectors[0])
        (found,) = score_tracks([one], table, TrackRows.of(owners), np.arange(10), None)
        own = (vectors[0] @ vectors[1][:4].T >= SAME_PICTURE).reshape(10, 4, 4).any(axis=(1, 2))
        assert own[0] and np.all(found.unaided <= found.normalised)
        assert found.unaided[~own].tolist() == found.normalised[~own].tolist()
        assert found.unaided[0] < found.normalised[0] or found.normalised[0] < SAME_PICTURE


def matches_of(name: str, *tracks: int) -> Matches:
    ids = np.array(tracks, np.int64)
    index, score, band = (
        np.zeros(len(ids), np.int32),
        np.ones(len(ids)),
        np.full(len(ids), ACCEPTED, np.uint8),
    )
    return Matches((name,), index, ids, score, band, ids, ids, np.ones(len(ids), np.int16))


def test_matches_of_single_entities_are_put_side_by_side_under_their_own_names() -> None:
    both = side_by_side(("a", "b", "c"), [matches_of("c", 7), matches_of("a", 5, 6)])
    assert both.to_arrow().select(["entity", "track_id"]).to_pylist() == [
        {"entity": "c", "track_id": 7},
        {"entity": "a", "track_id": 5},
        {"entity": "a", "track_id": 6},
    ]
    assert side_by_side(("a", "b"), []).entities == ("a", "b")


def test_what_was_denied_keeps_out_what_could_be_a_picture_of_it_and_not_what_is_only_near() -> None:
    the_thing, denied = unit(1.0), unit(0.6)
    near = [0.75, float(np.sqrt(1 - 0.75**2)), 0.0]  # 0.98 like the denied, 0.75 like the thing
    between = unit(
        0.9
    )  # 0.89 like the denied: it could be a picture of it, if it were not nearer to the thing
    other = [0.7, 0.5, float(np.sqrt(1 - 0.7**2 - 0.5**2))]  # 0.82 like the denied, and 0.7 like the thing
    crops = np.array([the_thing, denied, other, near, between, other], np.float32)
    owners = np.array([1, 2, 2, 3, 4, 5])
    album = FakeAlbum(
        ("thing",), np.zeros(2, np.int32), np.array([100, 101]), np.array([False, True]),
        np.array([the_thing, denied], np.float32), no=(101,),
    )  # fmt: skip
    nobody = np.zeros((0, 3), np.float32)
    sought = Sought.of(album, "thing", nobody)
    assert (len(sought.negative), sought.denied_ids.tolist()) == (0, [101])
    table = Table(np.arange(6), owners, crops)
    (found,) = score_tracks([sought], table, TrackRows.of(owners), np.arange(5), None)
    alone = Sought.of(replace(album, negative=np.array([False, True]), no=()), "thing", nobody)
    alone = replace(alone, negative=alone.negative[:0], level=alone.level[:1])
    (as_before,) = score_tracks([alone], table, TrackRows.of(owners), np.arange(5), None)
    out = np.isin(found.track_ids, [2, 3])
    assert found.normalised[out].tolist() == found.unaided[out].tolist() == [DENIED, DENIED]
    assert found.normalised[~out].tolist() == as_before.normalised[~out].tolist()
    assert as_before.normalised[out].min() > 0.5


def test_an_exit_that_only_sends_on_denies_nothing() -> None:
    """The first exit takes the track for a picture of what was denied, the deepest one knows better."""
    source = FakeSource(
        np.array([[unit(0.6)], [unit(0.95)]], np.float32), np.array([7]),
        np.array([[unit(1.0), unit(0.6)]] * 2, np.float32), stored_exits=1, negative=(False, True), no=(101,),
    )  # fmt: skip
    for high, band in ((1.0, ACCEPTED), (0.5, REJECTED)):
        calibrations = (replace(SHALLOW, high=high), DEEP)
        found = AlbumMatcher(source, TwoExits(), calibrations).match(MatchRequest(("thing",), keep="all"))
        assert found.band.tolist() == [band], high
