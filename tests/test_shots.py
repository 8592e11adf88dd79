"""Shots of a video: where they begin is kept, and tracks are compared with the best one of their own shot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film

import panorama
from panorama.answering.calibration import SETTING, measured_with
from panorama.indexing.settings import IngestSettings
from panorama.library import Library
from panorama.query.matching.decide import Calibration
from panorama.tracking.shots import ShotFinder
from panorama.video.pictures import ArrayPicture
from panorama.video.reader import VideoFrame

RULE = Calibration(0.2, 10.0, 0.05, 0.5, near_best=0.1, near_in_video=0.95, carried=0.9)
EVERY = IngestSettings(samples_per_second=10)
FILM = [
    Thing("red", 3, 17),
    Thing("red", 23, 37),  # beside something, so that both are one thing, half as like the example
    Thing("blue", 23, 37, left=42, side=20),
]


@pytest.fixture
def indexed(tmp_path: Path, fake_proposer: None) -> Callable[..., Library]:
    """Makes a library of one film, with cuts or without, and `red` registered."""

    def make(*cuts: int) -> Library:
        name = "-".join(map(str, cuts)) or "whole"
        library = panorama.open(tmp_path / f"library-{name}", create=True)
        library.index(
            write_film(tmp_path / f"{name}.mp4", FILM, cuts=cuts), settings=EVERY, model="color-bands"
        )
        library.register("red", thing_picture("red"))
        library.put_setting(SETTING + measured_with(library.embedder), [RULE.as_dict()])
        return library

    return make


def bands(library: Library) -> list[str]:
    """Of the tracks that are longer than a second, one in each half."""
    sql = "SELECT tracks, band WHERE entity = 'red' AND score >= 0 AND end_time - start_time > 1"
    return [row["band"] for row in library.query(f"{sql} ORDER BY start_time")]


@pytest.mark.parametrize("cuts", [(), (20,), (20, 30)])
def test_the_frames_that_begin_a_shot_are_kept(
    cuts: tuple[int, ...], indexed: Callable[..., Library]
) -> None:
    with indexed(*cuts) as library:
        assert (library.snapshot().cuts & 0xFFFFFFFF).tolist() == list(cuts)
        path = library.path
    with panorama.open(path) as again:
        again.compact()
        assert (again.snapshot().cuts & 0xFFFFFFFF).tolist() == list(cuts)
        again.remove_videos(path.name.removeprefix("library-") + ".mp4")
        assert not len(again.snapshot().cuts)


def grey(number: int, level: int) -> VideoFrame:
    picture = ArrayPicture(np.full((90, 160, 3), level, np.uint8), 160, 90)
    return VideoFrame(number, number, number / 25, False, picture)


@pytest.mark.parametrize(
    ("levels", "first"),
    [
        ((0, 0, 0, 200, 200), 3),
        ((0, 30, 60, 160, 200), 3),  # half of the change in one step
        ((0, 50, 100, 150, 200), None),  # a camera that pans, or light that is turned up
    ],
)
def test_a_change_in_many_steps_begins_no_shot(levels: tuple[int, ...], first: int | None) -> None:
    finder = ShotFinder(lambda start, stop: iter(()))
    for number, level in enumerate(levels):
        finder.add(grey(number, level))
    assert finder.first_frame() == first


@pytest.mark.parametrize(("readable", "first"), [(5, 2), (3, 4)])
def test_frames_passed_over_tell_where_a_shot_begins_if_they_can_all_be_read(
    readable: int, first: int
) -> None:
    """Of frames that break off before the second look, none would be the one."""
    film = [grey(number, 0 if number < 2 else 200) for number in range(5)]
    read: list[tuple[int, int]] = []

    def again(start: int, stop: int) -> Iterator[VideoFrame]:
        read.append((start, stop))
        return iter(film[start : min(stop, readable)])

    finder = ShotFinder(again)
    finder.add(film[0])
    finder.pass_over()
    finder.add(film[4])
    assert (finder.first_frame(), read) == (first, [(0, 5)])
    finder.clear()
    finder.add(grey(5, 0))
    assert (finder.first_frame(), len(read)) == (5, 1), "nothing was passed over since"


def test_behind_a_cut_a_track_is_not_held_to_the_best_one_before_it(indexed: Callable[..., Library]) -> None:
    with indexed() as whole, indexed(20) as cut:
        assert bands(whole) == ["accepted", "uncertain"]
        assert bands(cut) == ["accepted", "accepted"]


def test_why_names_the_track_of_its_shot_that_another_stands_back_behind(
    indexed: Callable[..., Library],
) -> None:
    with indexed() as library:
        best = library.why("red", "whole.mp4", seconds=1.0)
        why = library.why("red", "whole.mp4", seconds=3.0)
        assert (best.band, why.band) == ("accepted", "uncertain")
        assert why.beside is not None and why.beside.track_id == best.track_id
        assert RULE.high < why.alone < why.beside.floor < why.beside.score
        assert why.score < RULE.high
        assert why.steps[-1].floor == why.beside.floor
        assert "would be accepted" in why.reason and "best track of its scene, from 0:00" in why.reason
        assert f"scores {why.beside.score:.3f}" in why.reason
    with indexed(20) as library:
        why = library.why("red", "20.mp4", seconds=3.0)
        assert why.band == "accepted" and why.beside is not None and why.beside.track_id == why.track_id
