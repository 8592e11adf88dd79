"""A cut within one framing: all tracks end where a part of the picture was replaced at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film
from numpy.typing import NDArray

import panorama
from panorama.frames import VideoInfo
from panorama.indexing.settings import IngestSettings
from panorama.tracking.sampling import Rate, Sample, Sampler
from panorama.tracking.shots import ShotFinder
from panorama.video.pictures import ArrayPicture
from panorama.video.reader import PassedFrame, VideoFrame

RATE = 25
SIZE = (160, 90)


def person(at: int = 40, level: int = 220, width: int = 60) -> NDArray[np.uint8]:
    """A picture of something large before a wall that stays the same."""
    wall = np.tile(np.linspace(20, 235, SIZE[0]).astype(np.uint8), (SIZE[1], 1))
    wall[20:, at : at + width] = level
    return np.dstack([wall] * 3)


def film(pictures: Sequence[NDArray[np.uint8]], seconds: float = 1 / RATE) -> list[VideoFrame]:
    return [
        VideoFrame(number, number, number * seconds, False, ArrayPicture(picture, *SIZE))
        for number, picture in enumerate(pictures)
    ]


def found(frames: Sequence[VideoFrame], every: int = 5) -> list[int]:
    """The jumps that a finder tells when every fifth frame is sampled."""
    finder = ShotFinder(lambda start, stop: iter(()))
    jumps = []
    for frame in frames:
        finder.add(frame)
        if frame.index % every == 0:
            at = finder.jump()
            jumps += [] if at is None else [at]
            finder.clear(at)
    return jumps


COLORS = ("green", "yellow", "purple")
STILL = [person()] * 17
OTHER = [person(70, 15)] * 18


@pytest.mark.parametrize("first", [16, 17, 18, 19, 20])
def test_a_part_that_is_replaced_at_once_is_a_jump_wherever_the_samples_are(first: int) -> None:
    """The twentieth frame is sampled itself, so nothing is known of what comes after it."""
    assert found(film([person()] * first + OTHER)) == [first]


def test_two_jumps_may_follow_each_other() -> None:
    assert found(film([*STILL, *OTHER, *STILL])) == [17, 35]


@pytest.mark.parametrize(
    "pictures",
    [
        pytest.param([person(level=level) for level in range(220, 20, -5)], id="it changes in many steps"),
        pytest.param([*STILL, *(person(40 + 8 * i) for i in range(8))], id="what stood moves on"),
        pytest.param([*STILL, person(70, 15), *STILL], id="it comes back"),
        pytest.param([*STILL, *[255 - person() // 4] * 2, *STILL], id="a flash"),
        pytest.param([*STILL, *[person() // 2 + 60] * 18], id="other light"),
        pytest.param([person(9 * i) for i in range(10) for _ in range(14)], id="a picture in jerks"),
        pytest.param([*[person()] * 14, *OTHER], id="too little is known of before"),
    ],
)
def test_motion_light_and_flashes_are_none(pictures: list[NDArray[np.uint8]]) -> None:
    assert found(film(pictures)) == []


def test_frames_that_are_far_apart_tell_none() -> None:
    assert found(film([*STILL, *OTHER], seconds=0.2)) == [17]
    assert found(film([*STILL, *OTHER], seconds=0.3)) == []


@pytest.mark.parametrize("first", [21, 22, 23, 24, 25])
def test_frames_passed_over_are_read_again_only_for_a_jump(first: int) -> None:
    frames = film([person(width=30)] * first + [person(level=15, width=30)] * 18)
    read: list[tuple[int, int]] = []

    def again(start: int, stop: int) -> Iterator[VideoFrame]:
        read.append((start, stop))
        return iter(frames[start:stop])

    info = VideoInfo("x", "raw", *SIZE, 0, Fraction(1, RATE), average_rate=RATE)
    sampler = Sampler(info, Rate(5), 160, None, again)
    given = [f if f.index % 5 in (0, 3) else PassedFrame(f.index, f.pts, f.time_seconds) for f in frames]
    events = [event for frame in given for event in sampler.look(frame)] + list(sampler.end())
    cuts = [event.cut_at for event in events if isinstance(event, Sample)]
    assert [at for at in cuts if at is not None] == [first]
    assert read == [(20, 26)]
    assert sampler.cuts() == [], "the camera and the light are the same: it is no other shot"


@pytest.mark.parametrize(
    ("after", "cut_at"),
    [
        pytest.param([person(40, 15, 30)] * 6, 20, id="it was replaced"),
        pytest.param([person(40 + 12 * i, 220, 30) for i in range(1, 7)], None, id="it moves on"),
        pytest.param(
            [person(40 + 25 * (i // 3), 220, 30) for i in range(3, 9)], None, id="it moves on in jerks"
        ),
        pytest.param([person(40, 15, 30)], 20, id="the film ends"),
    ],
)
def test_a_sample_behind_a_jump_waits_until_the_next_one_is_due(
    after: list[NDArray[np.uint8]], cut_at: int | None
) -> None:
    """At a few frames a second, each of which is sampled, whoever comes in would end all tracks."""
    info = VideoInfo("x", "raw", *SIZE, 0, Fraction(1, RATE), average_rate=RATE)
    sampler = Sampler(info, Rate(5), 160)
    events = []
    for frame in film([person(width=30)] * 20 + after):
        events += [(frame.index, event) for event in sampler.look(frame)]
    events += [(None, event) for event in sampler.end()]
    told = [(at, event.frame.index, event.cut_at) for at, event in events if isinstance(event, Sample)]
    assert told[0] == (0, 0, None)
    assert told[1] == (25 if len(after) > 1 else None, 20, cut_at), "in order, and none is lost"
    assert [frame for _, frame, _ in told] == sorted({frame for _, frame, _ in told})


def test_where_all_between_samples_was_passed_over_nothing_is_known_of_before() -> None:
    """120 frames a second, of which every 24th is sampled, and the others were not decoded."""
    finder = ShotFinder(lambda start, stop: iter(()))
    for frame in film([*STILL * 3, *OTHER * 3], seconds=1 / 120)[::24]:
        finder.add(frame)
        assert finder.jump() is None
        finder.clear()
        finder.pass_over()


def test_tracks_end_at_a_jump_and_what_goes_on_is_one_moment(tmp_path: Path, fake_proposer: None) -> None:
    place = {"left": 90, "top": 0, "side": 44}
    film = [
        Thing("green", 0, 40, left=5, top=60, side=24),
        Thing("yellow", 0, 21, **place),
        Thing("purple", 21, 40, **place),
    ]
    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(
            write_film(tmp_path / "film.mp4", film),
            settings=IngestSettings(samples_per_second=10),
            model="color-bands",
        )
        for color in COLORS:
            library.register(color, thing_picture(color))
        spans = {
            color: [
                (row["start_time"], row["end_time"])
                for row in library.query("SELECT tracks WHERE entity = ?", [color]).fetchall()
            ]
            for color in COLORS
        }
        moments = library.query("SELECT moments WHERE entity = 'green'").fetchall()
        assert not len(library.snapshot().cuts), "it is no other shot"
    assert max(end for _, end in spans["yellow"]) == min(start for start, _ in spans["purple"]) == 2.1
    assert spans["green"] and all(end <= 2.1 or start >= 2.1 for start, end in spans["green"])
    assert [(row["start_time"], row["end_time"]) for row in moments] == [(0.0, 4.0)]
