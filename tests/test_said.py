"""What was pointed at in a video is in the answer, what was denied there is not, whatever they look like."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import Thing, scene, thing_picture, write_film, write_picture
from numpy.typing import NDArray
from test_kinship import RULE, Seen, Where
from test_matching import DEEP, NEAR, SHALLOW, FakeSource, TwoExits, by_track, source, unit

import panorama
from panorama.errors import AccuracyError
from panorama.indexing.settings import IngestSettings
from panorama.query.matching.decide import Calibration, bands
from panorama.query.matching.kinship import settle
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN, MatchRequest
from panorama.query.matching.on_terms import match_on_terms
from panorama.query.matching.promises import Evidence
from panorama.query.matching.said import Said
from panorama.query.matching.scoring import DENIED, Sought, score_tracks
from panorama.query.matching.track_rows import TrackRows
from panorama.query.shorthands.terms import Contract
from panorama.store.catalog.seen import SeenPlaces
from panorama.store.files.sorted_rows import BOX, SPAN
from panorama.store.scenes import seen_tracks
from panorama.store.scenes.seen_tracks import tracks_at

EXAMPLE = 100
"""The number of the first exemplar of a FakeSource; the next one has the next."""


def ids(*numbers: int) -> NDArray[np.int64]:
    return np.array(numbers, np.int64)


def pointed_at(*tracks: int) -> Said:
    """The first exemplar was cut from each of some tracks."""
    return Said.of(ids(*[EXAMPLE] * len(tracks)), ids(*tracks), ids(EXAMPLE), ids())


# What holds of a track.


@pytest.mark.parametrize(
    ("words", "accepted", "denied"),
    [
        ([(1, 7)], [7], []),
        ([(1, 7), (2, 7)], [], [7]),
        ([(2, 7), (1, 7)], [7], []),
        ([(1, 7), (3, 7)], [], []),
        ([(1, 7), (2, 8), (1, 9)], [7, 9], [8]),
        ([], [], []),
    ],
    ids=["a yes", "a no after it", "a yes after a no", "a look-alike after it", "of several", "nothing"],
)
def test_of_one_track_the_last_word_counts(
    words: Sequence[tuple[int, int]], accepted: list[int], denied: list[int]
) -> None:
    exemplars, tracks = (ids(*(word[column] for word in words)) for column in (0, 1))
    said = Said.of(exemplars, tracks, examples=ids(1), denied=ids(2))
    assert (said.accepted.tolist(), said.denied.tolist()) == (accepted, denied)
    for track in {7, 8, 9} - set(tracks.tolist()):
        assert said.last_of(track) is None
    if words:
        assert said.last_of(words[-1][1]) == words[-1][0]


def test_which_pictures_were_cut_from_which_tracks_in_whatever_order_both_are_given() -> None:
    said = Said.of(ids(5, 3, 5, 9), ids(70, 50, 60, 70), examples=ids(3, 5, 9), denied=ids())
    found = said.cut_from(ids(5, 3, 4), ids(60, 80, 70, 50))
    assert found is not None and found.tolist() == [
        [True, False, True, False],
        [False, False, False, True],
        [False, False, False, False],
    ]
    assert said.cut_from(ids(4), ids(60, 70)) is None and said.cut_from(ids(5), ids(80)) is None


# Matching.


@pytest.mark.parametrize("stored", [1, 2], ids=["from the first exit on", "at the deepest exit"])
@pytest.mark.parametrize("searched", [None, []], ids=["all compared", "an index"])
@pytest.mark.parametrize("keep", ["accepted", "all"])
def test_what_was_pointed_at_is_accepted_however_it_is_looked_for(
    stored: int, searched: list[int] | None, keep: str
) -> None:
    fake = source([0.95, 0.0, 0.0], [0.95, 0.0, 0.0], [1, 2, 3], stored, searched=searched)
    for told, expected in ((Said.none(), {}), (pointed_at(2), {2: ACCEPTED})):
        fake.told = told
        found = AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP)).match(MatchRequest(keep=keep, min_score=0.3))
        assert by_track(found) == {1: ACCEPTED, **expected}
        assert found.score.min() >= DEEP.high


def test_it_is_seen_at_the_deepest_exit_and_outside_a_scope_it_is_not_returned() -> None:
    fake = source(
        [0.95, 0.0], [0.95, 0.0], [1 << 32, 2 << 32], stored=1, searched=[], told=pointed_at(2 << 32)
    )
    matcher = AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP))
    found = matcher.match(MatchRequest())
    assert found.exit.tolist() == [1, 2]
    for keep in ("accepted", "all"):
        request = MatchRequest(keep=keep, segments=np.array([1], np.int32), min_score=0.3)
        assert by_track(matcher.match(request)) == {1 << 32: ACCEPTED}


def test_seen_deeper_for_that_alone_it_changes_no_score_of_others() -> None:
    """The second is uncertain by how far it stays behind the first, not behind what was pointed at."""
    rule = Calibration(0.5, 10.0, 0.2, 0.6, near_best=0.0, near_in_video=0.95, fade=4.0)
    tracks, values = [(1 << 32) + number for number in range(3)], [0.9, 0.8, 0.1]
    fake = source(values, values, tracks, stored=1)
    scores = []
    for told, third in ((Said.none(), None), (pointed_at(tracks[2]), ACCEPTED)):
        fake.told = told
        found = AlbumMatcher(fake, TwoExits(), (rule, rule)).match(MatchRequest())
        band = by_track(found)
        assert (band[tracks[0]], band[tracks[1]], band.get(tracks[2])) == (ACCEPTED, UNCERTAIN, third)
        scores.append(found.score[:2].tolist())
    assert scores[0] == scores[1]


def test_of_a_category_it_is_accepted_as_well() -> None:
    fake = source([0.0], [0.0], [5], categories=frozenset({"thing"}), told=pointed_at(5))
    assert by_track(AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP)).match(MatchRequest())) == {5: ACCEPTED}


def test_the_last_word_decides_and_no_picture_of_another_track_keeps_it_out() -> None:
    crops = np.array([[unit(0.6)] * 2] * 2, np.float32)
    exemplars = np.array([[unit(1.0), unit(0.6)]] * 2, np.float32)  # the second one was denied
    fake = FakeSource(crops, ids(1, 2), exemplars, negative=(False, True), no=(EXAMPLE + 1,))
    matched = {
        "by looks": Said.none(),
        "yes": pointed_at(1),
        "yes, then no": Said.of(ids(EXAMPLE, EXAMPLE + 1), ids(1, 1), ids(EXAMPLE), ids(EXAMPLE + 1)),
        "no, then yes": Said.of(ids(EXAMPLE + 1, EXAMPLE), ids(1, 1), ids(EXAMPLE), ids(EXAMPLE + 1)),
    }
    found = {}
    for name, told in matched.items():
        fake.told = told
        found[name] = by_track(AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP)).match(MatchRequest()))
    assert found == {"by looks": {}, "yes": {1: ACCEPTED}, "yes, then no": {}, "no, then yes": {1: ACCEPTED}}


def test_what_was_denied_is_kept_out_also_where_it_looks_like_nothing_that_was_denied() -> None:
    crops = np.array([[unit(1.0)]] * 2, np.float32)
    exemplars = np.array([[unit(1.0), unit(0.0)]] * 2, np.float32)
    fake = FakeSource(crops, ids(1), exemplars, negative=(False, True), no=(EXAMPLE + 1,))
    sought = Sought.of(fake.album(2), "thing", np.zeros((0, 3), np.float32))
    told = Said.of(ids(EXAMPLE + 1), ids(1), ids(EXAMPLE), ids(EXAMPLE + 1))
    for said, value in ((Said.none(), 1.0), (told, DENIED)):
        rows = TrackRows.of(fake.owners)
        (scored,) = score_tracks([replace(sought, said=said)], fake.stored(2), rows, np.arange(1), None)
        assert scored.normalised.tolist() == pytest.approx([value])


def test_an_example_of_a_track_is_no_measure_for_others_however_little_it_looks_like_it() -> None:
    """The first track looks 0.8 like the picture cut from it, which is too little to be told by looks."""
    tracks = {1 << 32: unit(0.6), 2 << 32: [0.0, 0.0, 1.0]}
    exemplars = np.array([[unit(0.0), [0.0, 0.6, 0.8]]] * 2, np.float32)
    fake = FakeSource(
        np.array([list(tracks.values())] * 2, np.float32), ids(*tracks), exemplars, negative=(False,) * 2
    )
    values = {}
    for name, told in (
        ("by looks", Said.none()),
        ("said", Said.of(ids(101), ids(2 << 32), ids(100, 101), ids())),
    ):
        fake.told = told
        matcher = AlbumMatcher(fake, TwoExits(), (NEAR, NEAR))
        (scored,) = (matcher.second_look("thing", 2, ids(2 << 32)),)
        values[name] = (float(scored.normalised[0]), float(scored.unaided[0]))
    assert values["by looks"] == pytest.approx((0.8, 0.8))
    assert values["said"] == pytest.approx((0.8, 0.0))


# Beside others.


@pytest.mark.parametrize("keep", ["accepted", "all"])
def test_what_was_pointed_at_and_is_unlike_lowers_no_best_track_by_going_deeper_alone(keep: str) -> None:
    """Tracks of a scene, both alike enough at exit 1, and one of another video that was pointed at."""
    rule = {"near_in_video": 0.95, "carried": 0.9, "fade": 1.0}
    calibrations = replace(SHALLOW, near_best=0.0, **rule), replace(DEEP, **rule)
    best, other, elsewhere = (1 << 32) + 1, (1 << 32) + 2, 3 << 32
    scores = []
    for told in (Said.none(), pointed_at(elsewhere)):
        fake = source([0.99, 0.65, 0.0], [0.99, 0.65, 0.05], [best, other, elsewhere], stored=1, told=told)
        matcher = AlbumMatcher(fake, TwoExits(), calibrations)
        found = matcher.match(MatchRequest(("thing",), keep=keep))
        assert (by_track(found).get(elsewhere) == ACCEPTED) is bool(len(told.accepted))
        assert matcher.best("thing") == pytest.approx({1: 0.99})
        scores.append(dict(zip(found.track_id.tolist(), found.score.tolist(), strict=True)))
    for track in (best, other):
        assert scores[0][track] == pytest.approx(scores[1][track])


def settled(
    *tracks: Seen, said: Sequence[int], rule: Calibration = RULE
) -> tuple[list[int], list[float], float]:
    """Bands and scores of tracks of one video, some of which were pointed at, and the best of their scene."""
    numbers = ids(*((1 << 32) + number for number in range(len(tracks))))
    value = np.array([track.value for track in tracks], np.float32)
    where, marked = Where(tracks, numbers), np.isin(np.arange(len(tracks)), said)
    found = settle(numbers, rule.score(value), bands(value, rule), rule, where, said=marked)
    return found.band.tolist(), found.score.tolist(), float(found.bests.best.max(initial=-np.inf))


def test_beside_a_better_one_it_is_accepted_and_carries_what_continues_it_and_the_better_one_stays() -> None:
    best, said, goes_on, elsewhere = (
        Seen(0.9),
        Seen(0.7, start=10, end=12),
        Seen(0.7, start=12, end=14),
        Seen(0.7, start=20, end=22),
    )
    tracks = best, said, goes_on, elsewhere
    assert settled(*tracks, said=())[0] == [ACCEPTED, UNCERTAIN, UNCERTAIN, UNCERTAIN]
    band, score, top = settled(*tracks, said=(1,))
    assert band == [ACCEPTED, ACCEPTED, ACCEPTED, UNCERTAIN]
    assert min(score[:3]) >= RULE.high > score[3]
    assert top == pytest.approx(0.9, abs=1e-6)


def test_what_is_rejected_by_itself_raises_no_best_track_and_what_is_far_is_not_carried() -> None:
    band, score, top = settled(Seen(0.05), Seen(0.02, start=2, end=4), Seen(0.7, start=20, end=22), said=(0,))
    assert band == [ACCEPTED, REJECTED, ACCEPTED] and score[0] >= RULE.high
    assert top == pytest.approx(0.7, abs=1e-6)


def test_a_recall_is_not_promised_by_what_was_pointed_at_alone() -> None:
    evidence = Evidence(tuple(np.linspace(0.6, 0.99, 200)), tuple(np.linspace(0.0, 0.5, 200)), 2)
    recall = Contract("recall", 0.9)

    def answer(looks: float, other: float | None = None) -> dict[int, int]:
        examples = [unit(looks)] if other is None else [unit(looks), [other, 0.0, np.sqrt(1 - other**2)]]
        crops = np.array([[unit(1.0), [0.0, 0.0, -1.0]]] * 2, np.float32)
        signs = (False,) * len(examples)
        fake = FakeSource(crops, ids(1, 2), np.array([examples] * 2, np.float32), negative=signs)
        fake.told = pointed_at(1)
        matcher = AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP))
        return by_track(match_on_terms(matcher, MatchRequest(("thing",), contract=recall), [evidence] * 2))

    # The picture fits what it was cut from as nothing else can, also where it was cut exactly.
    for looks in (0.3, 0.95, 1.0):
        with pytest.raises(AccuracyError, match="the only accepted tracks are those that its examples"):
            answer(looks)
    # Another example that finds it says how the thing is met again; one that does not says nothing.
    assert answer(1.0, other=0.95) == {1: ACCEPTED}
    with pytest.raises(AccuracyError, match="the only accepted tracks are those that its examples"):
        answer(1.0, other=0.3)


# In a library.

UNLIKE = (20, 50, 52, 82)
"""A box of the red thing in frame 10 that colour bands take for another thing: it is ten pixels too low."""


@pytest.fixture
def library(tmp_path: Path, fake_proposer):
    """A red and a blue thing in one film; what is in a box of the red one is registered as `it`."""
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 40), Thing("blue", 0, 40, top=84)])
    with panorama.open(tmp_path / "library", create=True) as made:
        made.index(tmp_path / "v", model="color-bands")
        made.register_from_video("it", "a.mp4", 1.0, UNLIKE)
        yield made


def frames_of(library) -> set[int]:
    rows = library.query("SELECT frames WHERE entity = 'it'").arrow().to_pylist()
    assert {(row["y1"], row["y2"]) for row in rows} <= {(40.0, 72.0)}, "the red thing alone"
    return {row["frame"] for row in rows}


def track_of(library, top: int = 40) -> int:
    """The track of the red thing, or of that which is so far below the top."""
    sql = "SELECT track_id FROM detections WHERE y1 = ? GROUP BY track_id ORDER BY count(*) DESC"
    return int(library.query(sql, [top]).fetchall()[0][0])


def test_what_a_box_was_drawn_around_is_in_the_answer_and_why_says_so(library) -> None:
    assert 10 in frames_of(library)
    why = library.why("it", track_id=track_of(library))
    assert why.band == "accepted" and why.alone < why.steps[-1].low
    assert why.pointed_at is not None and "a.mp4 at 1.000 s [20,50,52,82]" in why.pointed_at.source
    told = f"Accepted at exit 1 of 1: an example was cut from this track, {why.pointed_at.source}; the score"
    assert why.reason.startswith(told)
    library.register("it", thing_picture("red"))
    alike = library.why("it", track_id=track_of(library))
    assert alike.reason.endswith(f"An example was cut from it, {why.pointed_at.source}.")
    library.remove_exemplar(library.exemplars("it")[-1].exemplar_id)
    assert json.loads(json.dumps(why.as_dict()))["pointed_at"]["entity"] == "it"
    # Of the others nothing was said.
    assert library.why("it", track_id=track_of(library, top=84)).pointed_at is None
    every = library.query("SELECT tracks, band WHERE entity = 'it' AND score >= 0").arrow().to_pylist()
    assert [row["track_id"] for row in every if row["band"] == "accepted"] == [track_of(library)]


def test_a_box_that_no_track_fills_by_half_changes_nothing(library) -> None:
    library.drop("it")
    film, nothing = library.path.parent / "v" / "a.mp4", "the picture is an example, but no track is accepted"

    def told(box: tuple[int, ...], video: Path = film, **more: bool) -> list[str]:
        warnings = library.register_from_video("it", video, 1.0, box, **more).warnings
        return [line for line in warnings if "pixels" not in line and "has no example" not in line]

    assert told((20, 60, 52, 92)) == [f"no track was at this box at that time: {nothing} by its place"]
    assert frames_of(library) == set()
    assert told((20, 60, 52, 92), look_alike=True) == [] == told(UNLIKE)
    other = write_film(film.with_name("other.mp4"), [Thing("red", 0, 40)])
    assert told(UNLIKE, other) == [], "the library does not hold it"
    other.replace(film)
    (line,) = told(UNLIKE)
    assert line.startswith(
        f"a.mp4 has changed since it was indexed: {nothing} by its place; index the file again, then"
        " register the place once more: panorama "
    )


def test_a_place_in_a_film_written_over_with_one_of_the_same_size_and_time_accepts_no_track(library) -> None:
    """The old film's track there was bound to what the new one shows."""
    film = library.path.parent / "v" / "a.mp4"
    before = film.stat()
    write_film(film, [Thing("blue", 0, 20)])
    assert film.stat().st_size < before.st_size
    os.truncate(film, before.st_size)
    os.utime(film, ns=(before.st_atime_ns, before.st_mtime_ns))
    told = library.register_from_video("other", film, 0.5, UNLIKE).warnings
    assert any(line.startswith("a.mp4 has changed since it was indexed: the picture is an") for line in told)
    assert len(library.snapshot().seen.exemplar_ids) == 1, "that of `it` alone"


def test_it_holds_however_the_video_is_indexed_later_and_no_longer_when_the_example_is_gone(library) -> None:
    before = track_of(library)
    library.index(library.path.parent / "v", settings=IngestSettings(samples_per_second=3.0), redo=True)
    after = track_of(library)
    assert after >> 32 != before >> 32 and 10 in frames_of(library)
    assert library.why("it", track_id=after).pointed_at is not None
    library.register("it", thing_picture("green"))
    assert 10 in frames_of(library)
    (box,) = (one.exemplar_id for one in library.exemplars("it") if "a.mp4" in one.source)
    library.remove_exemplar(box)
    assert frames_of(library) == set()


def test_the_last_word_counts_also_where_it_was_said_before(library) -> None:
    track = track_of(library)
    library.register_seen("it", track_ids=[track], look_alike=True)
    assert frames_of(library) == set()
    why = library.why("it", track_id=track)
    assert why.pointed_at is None and why.denied is not None and "crop" in why.denied.source
    library.register_from_video("it", "a.mp4", 1.0, UNLIKE)
    assert 10 in frames_of(library)
    assert library.why("it", track_id=track).denied is None
    assert [(one.negative, one.denied) for one in library.exemplars("it")] == [(False, False), (True, True)]
    # As every process tells it.
    with panorama.open(library.path) as other:
        assert 10 in frames_of(other)


@pytest.mark.parametrize("first", [False, True], ids=["yes, then no", "no, then yes"])
def test_the_same_crop_is_registered_and_denied_and_the_last_word_counts(library, first: bool) -> None:
    library.register("it", thing_picture("green"))
    (box,) = (one.exemplar_id for one in library.exemplars("it") if "a.mp4" in one.source)
    library.remove_exemplar(box)
    track = track_of(library)
    for look_alike in (first, not first, first):
        library.register_seen("it", track_ids=[track], look_alike=look_alike)
        rows = library.query("SELECT tracks WHERE entity = 'it'").fetchall()
        assert (track in {row.track_id for row in rows}) is not look_alike
        (crop,) = (one for one in library.exemplars("it") if "crop" in one.source)
        assert (crop.negative, crop.denied) == (look_alike, look_alike)
        why = library.why("it", track_id=track)
        assert (why.pointed_at is None, why.denied is None) == (look_alike, not look_alike)
    assert [one.right for one in library.reviewed("a.mp4")] == [not first]


def test_it_holds_for_a_recording_that_grew_and_a_folder_that_got_more_pictures(
    tmp_path: Path, fake_proposer
) -> None:
    whole = write_film(tmp_path / "whole.ts", [Thing("red", 0, 40)], frames=40).read_bytes()
    live, trap = tmp_path / "v" / "live.ts", tmp_path / "v" / "trap"
    for number in range(1000, 1030):
        write_picture(trap / f"IMG_{number}.png", scene(10, [Thing("red", 0, 40)]))
    live.write_bytes(whole[: len(whole) // 188 * 3 // 4 * 188])
    with panorama.open(tmp_path / "library", create=True) as library:

        def found() -> list[str]:
            rows = library.query("SELECT DISTINCT video FROM (SELECT frames WHERE entity = 'it')")
            return sorted(row.video for row in rows.fetchall())

        library.index(tmp_path / "v", model="color-bands")
        for name in ("live.ts", "trap"):
            library.register_from_video("it", name, 1.0, (19, 49, 51, 81))  # nine pixels too low
        assert found() == ["live.ts", "trap"]
        live.write_bytes(whole)
        for number in range(1030, 1040):
            write_picture(trap / f"IMG_{number}.png", scene(10, [Thing("red", 0, 40)]))
        assert [one.status for one in library.index(tmp_path / "v").files] == ["indexed"] * 2
        assert found() == ["live.ts", "trap"]
        # Another recording under that name is another thing.
        things = [Thing("red", 0, 60, left=11)]
        live.write_bytes(write_film(tmp_path / "x.ts", things, frames=60).read_bytes())
        library.index(tmp_path / "v")
        assert found() == ["trap"]


def test_a_copy_of_the_video_shows_it_as_well(library, tmp_path: Path) -> None:
    (tmp_path / "v" / "b.mp4").write_bytes((tmp_path / "v" / "a.mp4").read_bytes())
    library.index(tmp_path / "v")
    videos = library.query("SELECT DISTINCT video FROM (SELECT frames WHERE entity = 'it')").fetchall()
    assert sorted(videos) == [("a.mp4",), ("b.mp4",)]


def test_a_place_is_looked_up_once_whatever_is_indexed_beside_it(library, monkeypatch) -> None:
    looked: list[int] = []

    def counting(tables, seen) -> NDArray[np.int64]:
        looked.append(len(seen))
        return tracks_at(tables, seen)

    monkeypatch.setattr(seen_tracks, "tracks_at", counting)
    film = library.path.parent / "v" / "a.mp4"
    assert 10 in frames_of(library) and looked == [1]
    write_film(film.with_name("b.mp4"), [Thing("green", 0, 40)])
    with panorama.open(library.path) as other:  # as another process, while this one answers
        other.index(film.parent)
        assert 10 in frames_of(library) and looked == [1]
        other.register_from_video("it", "a.mp4", 2.0, (30, 50, 62, 82))
        assert 10 in frames_of(library) and looked == [1, 1]
        other.index(film.parent, settings=IngestSettings(samples_per_second=3.0), redo=True)
    assert 10 in frames_of(library) and looked == [1, 1, 2]


def test_a_track_is_where_it_is_between_its_samples_and_stands_before_and_after_them() -> None:
    owners, count = ids(7, 7, 7, 9), 4
    samples = np.zeros(count, BOX)
    samples["time"], samples["x1"] = [1.0, 2.0, 4.0, 3.0], [10, 20, 60, 5]
    samples["x2"] = samples["x1"] + 1
    tracks, seconds = ids(7, 7, 7, 7, 9, 9, 8, 7), np.array([0.0, 1.5, 3.0, 9.0, 0.0, 9.0, 3.0, 2.0])
    boxes = seen_tracks.boxes_at(seconds, tracks, owners, samples)
    assert boxes[:, 0].tolist() == pytest.approx([10, 15, 40, 60, 5, 5, 0, 20], abs=1e-4)
    assert boxes[6].tolist() == [0, 0, 0, 0], "it has no sample"


@pytest.mark.parametrize(
    ("frame", "box", "found"), [(9, 0, -1), (10, 0, 7), (19, 0, 7), (20, 0, -1), (15, 9, 8)]
)
def test_a_place_is_that_of_the_track_that_was_there_then_and_fits_best(
    frame: int, box: int, found: int
) -> None:
    """The frame of its end is the first without it."""
    tracks = ids(7, 8) + (1 << 32)
    spans, samples = np.zeros(2, SPAN), np.zeros(2, BOX)
    spans["start_frame"], spans["end_frame"] = 10, 20
    samples["x1"], samples["x2"], samples["y2"] = [0, 6], [20, 26], 20
    tables = SimpleNamespace(
        spans_in=lambda segments: (tracks, spans), samples=lambda wanted: (tracks, samples)
    )
    boxes = np.array([[box, 0, box + 20, 20]], np.float32)
    seen = SeenPlaces(ids(1), np.ones(1, np.int32), ids(frame), np.zeros(1), boxes)
    (track,) = tracks_at(tables, seen)
    assert track == (found if found < 0 else tracks[found - 7])
