"""Spans of tracks, and their crops."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

from panorama.regions import DETECTOR, Regions
from panorama.tracking.segmenting import (
    HELD_BYTES,
    LEAST_HELD,
    FinishedTrack,
    FrameSeconds,
    SegmentBuilder,
)
from panorama.video.pictures import ArrayPicture
from panorama.video.reader import VideoFrame

SIZE = (200, 100)
PICTURE = np.full((100, 200, 3), 90, np.uint8)
PICTURE[20:60, 30:80] = (200, 30, 30)
BOX = np.array([[30, 20, 80, 60]], np.float32)
SEEN = Regions.of(BOX, np.ones(1, np.float32), DETECTOR)
NOTHING = Regions.empty()


def frame(index: int, seconds: float) -> VideoFrame:
    """The picture as frame `index` of a video."""
    return VideoFrame(index, index, seconds, False, ArrayPicture(PICTURE[:, :, ::-1].copy(), *SIZE))


def spans(
    looks: dict[int, Regions],
    frames: int,
    cuts: tuple[int, ...] = (),
    fps: float = 10,
    keyframes_only: bool = False,
) -> list[tuple[int, int]]:
    """Start and end frames of the tracks that come of looking at some frames."""
    seen_at = FrameSeconds()
    for i in range(frames):
        seen_at.add(i / fps)
    builder = SegmentBuilder(seen_at, 4, SIZE, keyframes_only)
    done: list[FinishedTrack] = []
    for index, regions in looks.items():
        for first in cuts:
            if index >= first and not any(f >= first for f in looks if f < index):
                done += builder.cut(first)
        done += builder.sample(frame(index, index / fps), regions, PICTURE)
    done += builder.finish()
    return sorted((t.start_frame, t.end_frame) for t in done)


def test_a_track_reaches_half_way_to_the_looks_that_did_not_see_it() -> None:
    looks = {0: NOTHING, 6: SEEN, 12: SEEN, 18: NOTHING, 24: NOTHING, 30: NOTHING}
    assert spans(looks, 36) == [(3, 15)]
    assert spans({0: NOTHING, 5: SEEN, 10: NOTHING}, 14) == [(3, 8)], "of an odd gap it gets the middle frame"


def test_uneven_looks_give_each_end_its_own_gap() -> None:
    assert spans({0: NOTHING, 2: SEEN, 4: SEEN, 24: NOTHING, 26: NOTHING}, 30) == [(1, 14)]
    assert spans({0: NOTHING, 10: SEEN, 12: SEEN, 14: NOTHING, 16: NOTHING}, 20) == [(5, 13)]


def test_looks_are_told_apart_where_the_box_is_in_the_small_picture() -> None:
    """The proposer saw half of it across, a quarter down; what changes beside the box is no other thing."""
    seen_at = FrameSeconds()
    for i in range(6):
        seen_at.add(i / 10)
    builder = SegmentBuilder(seen_at, 4, SIZE)
    done: list[FinishedTrack] = []
    for index, (inside, beside) in enumerate([("red", "grey"), ("red", "blue"), ("blue", "blue")]):
        colors = {"red": (200, 30, 30), "blue": (30, 30, 200), "grey": (90, 90, 90)}
        small = np.full((25, 100, 3), colors[beside], np.uint8)
        small[5:15, 15:40] = colors[inside]
        done += builder.sample(frame(2 * index, index / 5), SEEN, small)
    done += builder.finish()
    assert sorted(t.frames.tolist() for t in done) == [[0, 2], [4]]


def test_a_track_does_not_reach_over_a_shot_change_or_the_end() -> None:
    assert spans({0: SEEN, 6: SEEN, 12: NOTHING}, 14, cuts=(8,)) == [(0, 8)]
    assert spans({0: NOTHING, 6: SEEN}, 8) == [(3, 8)]
    assert spans({0: NOTHING, 6: NOTHING, 12: SEEN}, 14, cuts=(11,)) == [(11, 14)]


def test_what_the_last_look_saw_lasts_until_the_next_one_would_have_been() -> None:
    """The last frames of nearly every file were moments without a thing that was there to the end."""
    looks = {0: NOTHING, 30: SEEN, 60: SEEN}
    assert spans(looks, 85) == [(15, 85)] and spans(looks, 91) == [(15, 91)], "samples are due by time"
    assert spans({**looks, 90: NOTHING}, 110) == [(15, 75)]
    assert spans({0: SEEN, 6: SEEN, 15: SEEN}, 17, cuts=(11,)) == [(0, 11), (12, 17)]
    assert spans({0: SEEN, 6: SEEN, 12: SEEN}, 14) == [(0, 14)]


def test_the_only_look_of_a_shot_reaches_half_way_to_the_next_shot_or_the_end() -> None:
    # Keyframes are far apart, and often one a shot: everything in it lasted a single frame.
    def quick(looks: dict[int, Regions], frames: int, cuts: tuple[int, ...] = ()) -> list[tuple[int, int]]:
        return spans(looks, frames, cuts, keyframes_only=True)

    assert quick({0: SEEN, 60: SEEN, 134: SEEN}, 158, (60, 134)) == [(0, 30), (60, 97), (134, 146)]
    assert quick({0: SEEN}, 50) == [(0, 25)]
    assert quick({0: SEEN, 6: SEEN, 12: SEEN}, 14) == [(0, 14)], "the gap between looks, where that is more"
    assert quick({0: SEEN, 250: SEEN, 500: SEEN}, 740) == [(0, 125), (125, 375), (375, 625)]


def over_a_hold(before: Regions, after: Regions) -> FinishedTrack:
    """The one track of 60 frames, ten a second: frames 0 and 50 are looked at, 10 to 40 are unchanged."""
    seen_at = FrameSeconds()
    for i in range(60):
        seen_at.add(i / 10)
    builder = SegmentBuilder(seen_at, 4, SIZE)
    done = list(builder.sample(frame(0, 0.0), before, PICTURE))
    for index in (10, 20, 30, 40):
        builder.hold(index, index / 10)
    done += builder.sample(frame(50, 5.0), after, PICTURE)
    (track,) = [*done, *builder.finish()]
    return track


def test_a_hold_carries_a_track_to_the_last_unchanged_frame() -> None:
    track = over_a_hold(SEEN, NOTHING)
    assert (track.start_frame, track.end_frame) == (0, 45)
    assert track.frames.tolist() == [0, 40]


def test_what_comes_after_unchanged_frames_was_not_there_in_them() -> None:
    track = over_a_hold(NOTHING, SEEN)
    assert (track.start_frame, track.end_frame) == (45, 60)


def test_the_only_frame_of_a_video_lasts_as_long_as_a_frame() -> None:
    seen_at = FrameSeconds(frame_seconds=0.5)
    seen_at.add(0.0)
    builder = SegmentBuilder(seen_at, 4, SIZE)
    (track,) = [*builder.sample(frame(0, 0.0), SEEN, PICTURE), *builder.finish()]
    assert (track.start_seconds, track.end_seconds) == (0.0, 0.5)


def test_crops_are_cut_at_the_box() -> None:
    seen_at = FrameSeconds()
    seen_at.add(0.0)
    builder = SegmentBuilder(seen_at, 4, SIZE)
    (track,) = [*builder.sample(frame(0, 0.0), SEEN, PICTURE), *builder.finish()]
    assert track.views[0].picture.shape == (40, 50, 3)
    assert (track.views[0].picture == (200, 30, 30)).all()


@pytest.mark.parametrize("side", range(4))
@pytest.mark.parametrize(("margin", "shown"), [(2, 1), (3, 0)])
def test_of_what_comes_into_the_picture_the_crop_shows_the_whole(side: int, margin: int, shown: int) -> None:
    """Even if what the border cut off was seen more clearly."""
    at_border, inside = np.array([[[60, 30, 140, 70]] * 2], np.float32).reshape(2, 1, 4)
    at_border[:, side % 2 :: 2] += (margin - 60, margin - 30, 60 - margin, 30 - margin)[side]
    plain = ArrayPicture(np.full((100, 200, 3), 90, np.uint8), *SIZE)
    seen_at = FrameSeconds()
    builder = SegmentBuilder(seen_at, 1, SIZE)
    done: list[FinishedTrack] = []
    for index, (box, score) in enumerate([(at_border, 0.9), (inside, 0.6)]):
        seen_at.add(index / 10)
        found = Regions.of(box, np.array([score], np.float32), DETECTOR)
        shot = VideoFrame(index, index, index / 10, False, plain)
        done += builder.sample(shot, found, plain.rgb(*SIZE))
    (track,) = [*done, *builder.finish()]
    assert [view.frame for view in track.views] == [shown]


def paused(times: list[float], looks: dict[int, Regions]) -> list[tuple[int, int, float, float]]:
    """Frames and seconds of the tracks of a video with these frame times."""
    seen_at = FrameSeconds()
    for seconds in times:
        seen_at.add(seconds)
    builder = SegmentBuilder(seen_at, 4, SIZE)
    done: list[FinishedTrack] = []
    for index, regions in looks.items():
        done += builder.sample(frame(index, times[index]), regions, PICTURE)
    done += builder.finish()
    return sorted((t.start_frame, t.end_frame, t.start_seconds, t.end_seconds) for t in done)


def test_no_track_goes_on_over_a_pause_of_the_recording() -> None:
    """As of a camera that records while something moves."""
    times = [*range(4), *range(3600, 3604)]
    assert paused(times, dict.fromkeys(range(8), SEEN)) == [(0, 4, 0, 4), (4, 8, 3600, 3604)]
    # Seen on one side alone, it reaches to the pause, not half-way over it.
    assert paused(times, {0: SEEN, 3: SEEN, 4: NOTHING, 6: NOTHING}) == [(0, 4, 0, 4)]
    assert paused(times, {0: NOTHING, 2: NOTHING, 5: SEEN, 6: SEEN}) == [(5, 8, 3601, 3604)]
    # Looked at rarely, over two pauses.
    assert paused([0, 1, 100, 101, 200, 201], {0: SEEN, 4: SEEN}) == [(0, 2, 0, 2), (4, 6, 200, 202)]


class Heavy(ArrayPicture):
    """A picture that says how much memory it takes."""

    weight = 0

    @property
    def nbytes(self) -> int:
        return self.weight


@pytest.mark.parametrize(("share", "held"), [(1, LEAST_HELD), (6, 6), (1000, 20)])
def test_frames_that_hold_much_are_let_go_of_sooner(share: int, held: int) -> None:
    seen_at, alive = FrameSeconds(), weakref.WeakSet[ArrayPicture]()
    builder = SegmentBuilder(seen_at, 4, SIZE)

    def look(second: int) -> None:
        seen_at.add(second)
        shown = Heavy(PICTURE[:, :, ::-1].copy(), *SIZE)
        shown.weight = HELD_BYTES // share
        alive.add(shown)
        better = Regions.of(BOX, np.array([0.5 + second / 50], np.float32), DETECTOR)
        list(builder.sample(VideoFrame(second, second, second, False, shown), better, PICTURE))

    for second in range(20):
        look(second)
    assert len(alive) == held
    (track,) = builder.finish()
    assert [(view.picture == (200, 30, 30)).all() for view in track.views] == [True] * 4


@pytest.mark.parametrize("behind", [[3600.0], [3600.0, 3600.1], [3600.0, 3600.1, 7200.0]])
def test_nothing_is_known_behind_a_pause_that_comes_after_the_last_look(behind: list[float]) -> None:
    """Of frames 0, 100, ... or of keyframes alone: what was seen at the last look was there an hour later."""
    times = [number / 10 for number in range(20)] + behind
    (found,) = paused(times, {0: SEEN, 10: SEEN})
    np.testing.assert_allclose(found, (0, 20, 0, 2))


def test_what_did_not_change_over_a_pause_stood_there() -> None:
    seen_at = FrameSeconds()
    for seconds in (0, 1, 2, 3600, 3601):
        seen_at.add(seconds)
    builder = SegmentBuilder(seen_at, 4, SIZE)
    done = list(builder.sample(frame(0, 0.0), SEEN, PICTURE))
    for index, seconds in ((1, 1.0), (2, 2.0), (3, 3600.0), (4, 3601.0)):
        builder.hold(index, seconds)
    (track,) = [*done, *builder.finish()]
    assert (track.start_frame, track.end_frame, track.end_seconds) == (0, 5, 3602)


STEADY = [number / 25 for number in range(50)]


@pytest.mark.parametrize(
    ("behind", "ends"),
    [
        ([60.0], [60.04]),
        ([60.0, 120.0, 120.04], [60.04, 120.08]),
        ([60.0, 3600.0, 3600.04, 3600.08], [60.04, 3600.12]),
        ([60.0, 60.04, 3600.0], [60.08, 3600.04]),
    ],
)
def test_a_lone_frame_after_a_pause_lasts_as_long_as_a_frame(behind: list[float], ends: list[float]) -> None:
    times = STEADY + behind
    found = paused(times, dict.fromkeys(range(len(times)), SEEN))
    assert [track[3] for track in found] == pytest.approx([2.0, *ends])
    seen_at = FrameSeconds()
    for seconds in times:
        seen_at.add(seconds)
    assert seen_at.seconds_at(len(times)) == pytest.approx(times[-1] + 0.04)


def test_a_frame_after_a_pause_lasts_as_long_as_the_one_before_the_last_before_it() -> None:
    """The rate had become lower before."""
    found = paused([0, 1, 2, 4, 6, 9, 100], dict.fromkeys(range(7), SEEN))
    assert [track[2:] for track in found] == [(0, 12), (100, 103)]


def test_a_rate_that_became_low_is_no_row_of_pauses() -> None:
    times = STEADY + [60.0 * minute for minute in range(1, 7)]
    found = paused(times, dict.fromkeys(range(len(times)), SEEN))
    minutes = [(60 * minute, 60 * minute + 60) for minute in range(2, 7)]
    np.testing.assert_allclose([track[2:] for track in found], [(0, 2), (60, 60.04), *minutes])
    times = [*STEADY, 20.0, 3600.0, 7200.0, 10800.0]
    found = paused(times, dict.fromkeys(range(len(times)), SEEN))
    hours = [(3600 * hour, 3600 * hour + 3600) for hour in range(1, 4)]
    np.testing.assert_allclose([track[2:] for track in found], [(0, 2), (20, 20.04), *hours])


def test_rare_frames_are_no_pauses() -> None:
    times = [60.0 * i for i in range(6)]
    assert [found[2:] for found in paused(times, dict.fromkeys(range(6), SEEN))] == [
        (60.0 * i, 60.0 * i + 60) for i in range(6)
    ]
