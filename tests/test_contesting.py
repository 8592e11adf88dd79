"""A scene whose best track does not stand out from one that looks different shows the thing in no track."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from test_carrying import Dressed, Mirror, Timed, ids_of
from test_kinship import ELSEWHERE, HERE, Seen, Where
from test_matching import Remembered, TwoExits, by_track

import panorama
from panorama.answering.calibration import SETTING, measured_with
from panorama.indexing.settings import IngestSettings
from panorama.library import Library
from panorama.query.matching.decide import Calibration, bands
from panorama.query.matching.kinship import SceneBests, Settled, settle
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, UNCERTAIN, MatchRequest

RULE = Calibration(
    0.4, 10.0, 0.1, 0.5, near_best=0.6, near_in_video=0.8, carried=0.65, alike=0.5, distance_ratio=0.85
)
ONE = Dressed(0.6, like=0.4, kind=1)
OTHER = Dressed(0.55, start=10, end=12, like=0.4, kind=2)


def settled(
    tracks: Sequence[Dressed],
    rows: Sequence[int] | None = None,
    known: SceneBests | None = None,
    said: Sequence[int] = (),
    rule: Calibration = RULE,
    one_scene: tuple[int, ...] = (),
    unaided: dict[int, float] | None = None,
) -> Settled:
    """Some of the tracks, or all, with what is known of the others; the best of all is known."""
    ids = ids_of(tracks)
    mine = np.arange(len(tracks)) if rows is None else np.array(rows, np.intp)
    value = np.array([t.value for t in tracks], np.float32)
    order = np.argsort(ids)
    mirror = Mirror([tracks[row] for row in order], ids[order])
    measure = np.array([(unaided or {}).get(row, t.value) for row, t in enumerate(tracks)])
    best = float(value.max())
    return settle(
        ids[mine], rule.score(value[mine]), bands(value[mine], rule, best), rule,
        Where(tracks, ids, one_scene=one_scene), best, rule.score(measure[mine]), known,
        np.isin(mine, said), looks=mirror,
    )  # fmt: skip


def accepted(*tracks: Dressed, **more: object) -> list[int]:
    return np.flatnonzero(settled(tracks, **more).band == ACCEPTED).tolist()  # type: ignore[arg-type]


def test_of_two_that_fit_as_well_and_look_different_none_is_accepted() -> None:
    assert accepted(ONE) == [0] and accepted(OTHER) == [0]
    found = settled([ONE, OTHER])
    assert found.band.tolist() == [UNCERTAIN, UNCERTAIN]
    assert found.score[1] < found.score[0] < RULE.high
    assert not found.bests.shown.any()
    assert found.bests.contest.tolist() == [ids_of([ONE, OTHER]).tolist()]
    assert accepted(ONE, OTHER, rule=replace(RULE, distance_ratio=1.0)) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (ONE, replace(OTHER, kind=1), [0, 1]),
        (replace(ONE, value=0.72), replace(OTHER, value=0.7), [0, 1]),
        (ONE, replace(OTHER, value=0.52), [0, 1]),
        (ONE, replace(OTHER, value=0.45), [0]),
        (ONE, replace(OTHER, start=1.9), [0, 1]),
        (ONE, replace(OTHER, start=0.2, end=0.9, box=ELSEWHERE), [0, 1]),
        (ONE, replace(OTHER, video=2), [0, 1]),
    ],
    ids=["alike", "sure", "stands out", "stands far out", "soon after", "beside it", "another video"],
)
def test_nothing_else_contests_the_best(one: Dressed, other: Dressed, wanted: list[int]) -> None:
    """At 0.6 the other one has to reach 1 - 0.4 / 0.85, which is 0.529."""
    assert accepted(one, other) == wanted


def test_what_goes_on_from_the_best_one_is_the_thing_that_turns() -> None:
    """A camera went around a sculpture, whose other side contested the first."""
    between = Dressed(0.42, start=0.8, end=9.7, like=0.4)
    assert accepted(ONE, between, OTHER) == [0, 1, 2]
    assert accepted(ONE, replace(between, end=9.0), OTHER) == [], "nobody knows what was there meanwhile"
    assert accepted(ONE, replace(between, box=ELSEWHERE), OTHER) == []


def test_files_of_one_scene_contest_each_other() -> None:
    assert accepted(ONE, replace(OTHER, video=2, start=0, end=1), one_scene=(1, 2)) == []


def test_all_of_a_contested_scene_is_open_and_nothing_is_carried_there() -> None:
    goes_on = Dressed(0.5, start=1.2, end=2, like=0.4)
    assert accepted(ONE, goes_on) == [0, 1]
    assert accepted(ONE, goes_on, OTHER) == []
    assert accepted(ONE, goes_on, OTHER, replace(ONE, video=2)) == [3], "another scene is not in doubt"


def test_a_word_decides_a_contest() -> None:
    assert accepted(ONE, OTHER, said=[1]) == [1]
    assert accepted(ONE, OTHER, said=[0, 1]) == [0, 1]


def test_what_stands_out_from_a_confirmed_track_is_not_in_doubt() -> None:
    """A yes to an odd pose takes away none of what was accepted."""
    assert accepted(ONE, replace(OTHER, value=0.45), said=[1]) == [0, 1]


def test_what_looks_like_one_of_several_confirmed_tracks_is_not_in_doubt() -> None:
    third = replace(OTHER, start=20, end=21)
    assert accepted(ONE, OTHER, third, said=[0]) == [0]
    assert accepted(ONE, OTHER, third, said=[0, 1]) == [0, 1, 2]


def test_a_track_that_an_example_was_cut_from_is_no_stranger() -> None:
    """Its own example says nothing of how like the thing it is; the best one is sure by its own."""
    assert accepted(ONE, OTHER, unaided={1: 0.45}) == [0, 1]
    assert accepted(replace(ONE, value=0.95), replace(OTHER, value=0.9), unaided={0: 0.6}) == [0, 1]


PASSING = st.builds(
    Dressed,
    value=st.sampled_from([0.2, 0.42, 0.45, 0.5, 0.55, 0.6, 0.65, 0.75]),
    video=st.integers(1, 3),
    start=st.sampled_from([0.0, 1.0, 2.5, 6.0]),
    end=st.sampled_from([0.5, 1.0, 3.0]),
    box=st.sampled_from([HERE, ELSEWHERE]),
    like=st.sampled_from([0.3, 0.6]),
    kind=st.integers(1, 3),
).map(lambda t: replace(t, end=t.start + t.end))


def contested_by_words(tracks: Sequence[Dressed]) -> bool:
    """Whether the one scene of tracks is contested; the best of several that fit equally is any of them."""
    open_ = [t for t in tracks if RULE.score(np.array(t.value)) >= RULE.low]
    best = max((t.value for t in open_), default=0.0)

    def contests(one: Dressed, other: Dressed) -> bool:
        apart = one.video != other.video or max(one.start, other.start) - min(one.end, other.end) >= 1
        like = float(vector_of(one) @ vector_of(other))
        return apart and like < 0.45 and 1 - one.value > RULE.distance_ratio * (1 - other.value)

    def continues(one: Dressed, other: Dressed) -> bool:
        gap = max(one.start, other.start) - min(one.end, other.end)
        return one.video == other.video and one.box == other.box and gap < 0.5

    top = next(t for t in open_ if t.value == best) if open_ else None
    thing = [top]
    for one in thing:
        thing += [t for t in open_ if t not in thing and one and continues(one, t)]
    return top is not None and best < 0.7 and any(contests(top, t) for t in open_ if t not in thing)


def vector_of(one: Dressed) -> NDArray[np.float32]:
    return np.array([one.like, *(np.sqrt(1 - one.like**2) * (one.kind == k) for k in (1, 2, 3))], np.float32)


@given(st.lists(PASSING, min_size=1, max_size=8, unique_by=lambda t: t.value))
@settings(max_examples=300, deadline=None)
def test_scenes_are_contested_as_the_rule_says_in_words(tracks: list[Dressed]) -> None:
    found = settled(tracks, one_scene=(1, 2, 3))
    with_none = settled(tracks, one_scene=(1, 2, 3), rule=replace(RULE, distance_ratio=1.0))
    if (with_none.band == ACCEPTED).any() and contested_by_words(tracks):
        assert not (found.band == ACCEPTED).any() and found.bests.contest.all()
    else:
        assert (
            found.band.tolist() == with_none.band.tolist()
            and found.score.tolist() == with_none.score.tolist()
        )
        assert not found.bests.contest.any()


@given(st.lists(PASSING, min_size=2, max_size=8), st.integers(1, 7))
@settings(max_examples=300, deadline=None)
def test_what_is_known_of_scenes_stands_for_their_tracks(tracks: list[Dressed], first: int) -> None:
    """Where others leave it unchanged, tracks one part after the other are decided as all at once."""
    scenes = (1, 2)
    best = max(t.value for t in tracks)
    early, late = list(range(len(tracks)))[:first], list(range(len(tracks)))[first:]
    if best not in [tracks[row].value for row in early] or not late:
        return  # a better best track: everything is looked at again
    # Files that are added continue none that are known: a place is compared within a video.
    tracks = [replace(t, video=t.video + 10 * (row in late)) for row, t in enumerate(tracks)]
    joined = tuple(video + shift for video in scenes for shift in (0, 10))
    whole = settled(tracks, one_scene=joined)
    old = settled(tracks, early, one_scene=joined)
    new = settled(tracks, late, old.bests, one_scene=joined)
    if old.bests.unchanged_by(
        new.bests, Where(tracks, ids_of(tracks), one_scene=joined), RULE.distance_ratio
    ):
        assert [*old.band, *new.band] == whole.band.tolist()
        both = old.bests.with_others(new.bests)
        assert (both.contest > 0).tolist() == (whole.bests.contest > 0).tolist()


# With exits, examples and a cache.

FIRST, SECOND = 1 << 32, 2 << 32


def library(tracks: dict[int, tuple[float, float, Seen]], **more: object) -> Timed:
    """Tracks of one crop each: by latitude and longitude, in degrees, from the example."""
    up, round_ = np.radians([[row[n] for row in tracks.values()] for n in (0, 1)])
    crops = np.stack([np.cos(up), np.sin(up) * np.cos(round_), np.sin(up) * np.sin(round_)], axis=1)
    vectors = np.stack([crops] * 2).astype(np.float32)
    examples = np.array([[[1, 0, 0]]] * 2, np.float32)
    at = {track: row[2] for track, row in tracks.items()}
    return Timed(vectors, np.array(list(tracks), np.int64), examples, 2, at=at, **more)  # type: ignore[arg-type]


TWO = {FIRST: (52, 0, Seen(0)), FIRST + 1: (55, 180, Seen(0, start=9, end=10))}


def matcher(source: Timed, known: Remembered | None = None) -> AlbumMatcher:
    return AlbumMatcher(source, TwoExits(), (replace(RULE, high=1.0), RULE), known)


def test_a_contest_is_found_among_the_vectors_of_the_library() -> None:
    found = matcher(library(TWO))
    assert by_track(found.match(MatchRequest())) == {FIRST: UNCERTAIN, FIRST + 1: UNCERTAIN}
    name = found.source.album(2).entities[0]
    assert found.contest(name, FIRST) == found.contest(name, FIRST + 1) == (FIRST, FIRST + 1)
    alone = matcher(library({FIRST: TWO[FIRST]}))
    assert by_track(alone.match(MatchRequest())) == {FIRST: ACCEPTED} and alone.contest(name, FIRST) == ()


# From a film to an answer.

EVERY = IngestSettings(samples_per_second=10)
LIBRARY_RULE = Calibration(
    0.2, 10.0, 0.05, 0.5, near_best=0.1, near_in_video=0.5, carried=0.9, distance_ratio=0.85
)
FILM = [
    Thing("red", 3, 17), Thing("blue", 3, 17, left=42, side=20),
    Thing("red", 33, 47), Thing("yellow", 33, 47, left=42, side=20),
]  # fmt: skip


@pytest.fixture
def indexed(tmp_path: Path, fake_proposer: None) -> Callable[[], Library]:
    """Makes a library of one film with two things, each half as like `red`."""

    def make() -> Library:
        library = panorama.open(tmp_path / "library", create=True)
        library.index(write_film(tmp_path / "film.mp4", FILM, 50), settings=EVERY, model="color-bands")
        library.register("red", thing_picture("red"))
        library.put_setting(SETTING + measured_with(library.embedder), [LIBRARY_RULE.as_dict()])
        return library

    return make


SQL = "SELECT tracks, band WHERE entity = 'red' AND score >= 0 ORDER BY start_time"


def test_why_names_the_track_that_contests(indexed: Callable[[], Library]) -> None:
    with indexed() as library:
        one, other = library.query(SQL).fetchall()
        assert one["band"] == other["band"] == "uncertain" and not library.query(
            "SELECT frames WHERE entity = 'red'"
        )
        why = library.why("red", track_id=one["track_id"])
        assert [rival.track_id for rival in why.rivals] == [other["track_id"]]
        assert why.alone >= LIBRARY_RULE.high > why.score
        assert f"but track {other['track_id']}, from 0:03.3 on (score" in why.reason
        assert "which of them is 'red', if any, is not clear" in why.reason
        assert why.as_dict()["rivals"][0]["track_id"] == other["track_id"]
        library.register_seen("red", track_ids=[other["track_id"]])
        bands = [row["band"] for row in library.query(SQL)]
        assert bands == ["uncertain", "accepted"]
        told = library.why("red", track_id=one["track_id"]).reason
        assert (
            f"looks different from track {other['track_id']}, from 0:03.3 on" in told and "confirmed" in told
        )
        assert not library.why("red", track_id=other["track_id"]).rivals


def test_why_names_both_of_a_scene_that_others_contest(indexed: Callable[[], Library]) -> None:
    with indexed() as library:
        one, other = (row["track_id"] for row in library.query(SQL))
        why = library.why("red", track_id=one)
        other_two = replace(why.rivals[0], track_id=7, video="b.mp4"), *why.rivals
        told = replace(why, rivals=other_two).reason
        assert f"of its scene track 7 in b.mp4, from 0:03.3 on (score {why.rivals[0].score:.3f}) and" in told
        assert f" and track {other}, from" in told
        assert "fit about equally well and look different" in told
