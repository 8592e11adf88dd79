"""Files of one camera: which of them are one scene, and that answers do not depend on where they were cut."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import cv2
import numpy as np
import pytest
from fakes import Thing, scene, street, thing_picture, write_film, write_picture, write_street
from numpy.typing import NDArray

import panorama
from panorama.answering.calibration import SETTING, measured_with
from panorama.indexing.settings import IngestSettings
from panorama.library import Library
from panorama.query.matching.decide import Calibration
from panorama.store.files.schema import LOCAL_BITS
from panorama.store.scenes.scenes import TURNS, Scenes, find_scenes

EVERY = IngestSettings(samples_per_second=10)


def still(number: int, count: int = 12, level: int = 0) -> list[NDArray[np.uint8]]:
    return [np.clip(street(number).astype(int) + level, 0, 255).astype(np.uint8)] * count


@pytest.fixture
def scenes(tmp_path: Path, fake_proposer: None) -> Callable[..., tuple[dict[str, int], Scenes]]:
    """Indexes videos by name; of each the number of its scene (or site), and all that is known."""

    def indexed(sites: bool = False, **videos: Sequence[NDArray[np.uint8]]) -> tuple[dict[str, int], Scenes]:
        for number, (name, frames) in enumerate(videos.items()):
            # Files of the same bytes would be one video.
            own = [frame.copy() for frame in frames]
            own[len(own) // 2][-8:, -8:] = 3 * number
            write_street(tmp_path / "archive" / f"{name}.mp4", own)
        with panorama.open(tmp_path / "library", create=True) as library:
            library.index(tmp_path / "archive", settings=EVERY, model="color-bands")
            snapshot = library.snapshot()
        found = find_scenes(snapshot)
        segments = snapshot.videos.column("segment").to_numpy().astype(np.int64)
        names = [name.removesuffix(".mp4") for name in snapshot.videos.column("video").to_pylist()]
        of = found.of(segments << LOCAL_BITS)
        if sites:
            of = found.sites_of(of)
        return dict(zip(names, (of >> LOCAL_BITS).tolist(), strict=True)), found

    return indexed


def grouped(scene_of: dict[str, int]) -> list[list[str]]:
    groups: dict[int, list[str]] = {}
    for name, number in scene_of.items():
        groups.setdefault(number, []).append(name)
    return sorted(groups.values())


def test_files_that_begin_as_another_ended_are_one_scene(scenes) -> None:
    of, _ = scenes(a1=still(1), a2=still(1), b1=still(2), b2=still(2))
    assert grouped(of) == [["a1", "a2"], ["b1", "b2"]]


def test_files_of_cameras_may_lie_between_each_other(scenes) -> None:
    of, found = scenes(t1a=still(1), t1b=still(2), t2a=still(1), t2b=still(2), t10a=still(1))
    assert grouped(of) == [["t10a", "t1a", "t2a"], ["t1b", "t2b"]]
    # In order of the numbers in the names, each goes on with the one before it: 10 comes behind 2.
    assert sorted(found.seconds.round(1).tolist()) == [1.2, 1.2, 2.4]


def test_another_light_is_another_scene(scenes) -> None:
    of, _ = scenes(a=still(1), b=still(1, level=-60))
    assert grouped(of) == [["a"], ["b"]]


def lit(number: int, gain: float, level: int) -> list[NDArray[np.uint8]]:
    return [np.clip(street(number).astype(float) * gain + level, 0, 255).astype(np.uint8)] * 12


def test_a_site_is_known_in_any_light(scenes) -> None:
    """A camera at noon and at dusk: what was seen at one hour says what little is too little at the other."""
    films = {"a": still(1), "b": lit(1, 0.5, 10), "c": still(2), "d": lit(2, 0.7, 60), "e": lit(1, 0.6, 70)}
    assert grouped(scenes(**films)[0]) == [["a"], ["b"], ["c"], ["d"], ["e"]]
    assert grouped(scenes(sites=True, **films)[0]) == [["a", "b", "e"], ["c", "d"]]


def test_who_stands_before_the_camera_hides_no_site(scenes) -> None:
    """The first file of a morning begins with somebody before the camera, the second one does not."""
    leaving = [frame.copy() for frame in lit(1, 0.5, 10)]
    for number, frame in enumerate(leaving):
        frame[:, 20 + 9 * number : 120] = 128
    films = {"a1": still(1), "a2": still(1), "b1": leaving, "b2": lit(1, 0.5, 10)}
    assert grouped(scenes(sites=True, **films)[0]) == [["a1", "a2", "b1", "b2"]]


def test_each_day_is_a_scene_of_its_site(scenes, tmp_path: Path) -> None:
    """One camera by day folders, as recorders write them: by the clock, where it is known."""
    days = {f"{day}/{n}": still(1) for day in ("24", "25") for n in (1, 2)}
    of, found = scenes(**days)
    assert grouped(of) == [["24/1", "24/2"], ["25/1", "25/2"]]
    assert len(found.segments) == 2  # nothing goes on from one day to the next
    assert len(grouped(scenes(sites=True, **days)[0])) == 1
    with panorama.open(tmp_path / "library") as library:
        names = library.videos().column("video").to_pylist()
        for number, name in enumerate(names):
            library.date([name], start=f"2026-03-01 10:0{number}:00", zone="UTC")
        assert len(set(find_scenes(library.snapshot()).numbers.tolist())) == 1
        library.date([names[-1]], start="2026-03-01 23:30:00", zone="America/New_York")
        assert len(set(find_scenes(library.snapshot()).numbers.tolist())) == 1
        library.date([names[-1]], start="2026-03-02 00:30:00", zone="Europe/Berlin")
        assert len(set(find_scenes(library.snapshot()).numbers.tolist())) == 2


def test_files_of_one_day_that_lie_apart_are_one_scene(scenes) -> None:
    """Cameras may write the files of a day by turns with those of another day, as by number."""
    of, _ = scenes(**{"x/1": still(1), "y/1": still(1), "x/2": still(1), "y/2": still(1)})
    assert grouped(of) == [["x/1", "x/2"], ["y/1", "y/2"]]


def test_a_camera_that_exposes_anew_is_the_same(scenes) -> None:
    """Somebody in black stands before it: all of the rest is brighter."""
    dark = [frame.copy() for frame in still(1, level=12)]
    for frame in dark:
        frame[40:, 20:50] = 60
    of, found = scenes(a=still(1), b=dark, c=still(1))
    assert grouped(of) == [["a", "b", "c"]] and not len(found.segments)


def test_light_that_changes_from_file_to_file_is_followed(scenes) -> None:
    films = {f"n{k}": still(1, level=-5 * k) for k in range(6)}
    assert grouped(scenes(**films)[0]) == [sorted(films)]


def test_black_pictures_tell_of_no_scene(scenes) -> None:
    black = [np.full((90, 160), 16, np.uint8)]
    of, _ = scenes(a=[*black * 4, *still(1)], b=[*black * 4, *still(2)], c=black * 12, d=black * 12)
    assert grouped(of) == [["a"], ["b"], ["c"], ["d"]]


def test_who_stands_before_a_part_of_the_picture_does_not_change_the_scene(scenes) -> None:
    def with_someone(number: int) -> NDArray[np.uint8]:
        picture = street(number).copy()
        picture[20:, 10:50] = 128
        return picture

    of, found = scenes(a=still(1), b=[with_someone(1)] * 12, c=[with_someone(2)] * 12)
    assert grouped(of) == [["a", "b"], ["c"]]
    assert not len(found.segments)  # nobody stood there when the first one ended: it does not go on


def test_only_the_shots_at_the_ends_of_a_film_touch_other_files(scenes) -> None:
    of, found = scenes(a=still(1), b=[*still(1), *still(2)], c=still(2), d=still(1))
    assert grouped(of) == [["a", "b", "d"], ["c"]]
    assert len(found.shots) == 5
    second = int(found.shots[found.shots & 1 == 1][0])  # of b
    assert of["c"] == found.of(np.array([second]))[0] >> LOCAL_BITS
    assert found.begun(np.array([second])).tolist() == [second]  # it began in its own file
    assert (found.goes_on == second).sum() == 2  # and c goes on with it


def test_one_video_at_most_goes_on_with_another(scenes) -> None:
    """Two would show what was seen at different times as at once."""
    of, found = scenes(a=still(1), b=[*still(1), *still(2)], c=still(1))
    assert grouped(of) == [["a", "b", "c"]]
    assert len(found.segments) == 1


def test_cameras_whose_hours_follow_each_other_are_met_again(scenes) -> None:
    """Frigate's folders: the files of all others lie between two hours of one camera."""
    films = {
        f"{hour}-{cam}-{n}": still(cam + 1, 4)
        for hour in (0, 1)
        for cam in (0, 1)
        for n in range(TURNS[-1][-1] + 1)
    }
    of, _ = scenes(**films)
    assert len(grouped(of)) == 2


def test_what_begins_as_another_one_began_is_another_scene(scenes) -> None:
    """A camera in the same place at another hour: the light in which the other one ended may be another."""
    of, _ = scenes(a=[*still(1, 6), *still(1, 12, level=-60)], b=still(1))
    assert grouped(of) == [["a"], ["b"]]


def test_a_camera_that_records_in_two_sizes_is_two(scenes, tmp_path: Path) -> None:
    write_street(tmp_path / "archive" / "a2.mp4", [cv2.resize(frame, (320, 180)) for frame in still(1)])
    assert grouped(scenes(a1=still(1), a3=still(1))[0]) == [["a1", "a3"], ["a2"]]


def forget_ends(library: Library) -> None:
    """As in a library of before."""
    with library._store._place.catalog.write() as tx:
        tx.run("UPDATE segments SET ends = NULL")
        tx.bump("data")


def test_a_video_without_ends_is_alone(scenes, tmp_path: Path) -> None:
    scenes(a=still(1), b=still(1))
    with panorama.open(tmp_path / "library") as library:
        forget_ends(library)
        snapshot = library.snapshot()
        assert not snapshot.ends.any() and len(snapshot.ends) == 2
        assert not len(find_scenes(snapshot).shots)


def test_what_an_earlier_version_indexed_is_indexed_anew_where_somebody_wants_it(
    scenes, tmp_path: Path
) -> None:
    scenes(a=still(1), b=still(1))
    archive = tmp_path / "archive"
    shutil.copy(archive / "b.mp4", archive / "copy.mp4")
    with panorama.open(tmp_path / "library") as library:
        library.index(archive, settings=EVERY)
        forget_ends(library)
        left = library.index(archive, settings=EVERY)
        assert [file.status for file in left.files] == ["skipped"] * 3
        assert all("by an earlier version; --redo" in str(file.note) for file in left.files)
        anew = library.index(archive, settings=EVERY, redo=True)
        assert [file.status for file in anew.files][:2] == ["indexed", "indexed"]
        snapshot = library.snapshot()
        assert snapshot.videos.num_rows == 3 and len(snapshot.live_segments) == 2
        assert snapshot.ends.any(axis=(1, 2, 3)).all()
        assert len(find_scenes(snapshot).shots) == 2
        again = library.index(archive, settings=EVERY, redo=True)
        assert [file.status for file in again.files] == ["skipped"] * 3
        assert "earlier version" not in str(again.files[0].note)


def test_clocks_say_that_a_video_does_not_go_on(scenes, tmp_path: Path) -> None:
    _, found = scenes(a=still(1), b=still(1))
    assert len(found.segments) == 1
    with panorama.open(tmp_path / "library") as library:
        for start, goes_on in (("10:00:01", 1), ("10:00:05", 0)):
            library.date(["a.mp4"], start="2026-03-01 10:00:00", zone="UTC")
            library.date(["b.mp4"], start=f"2026-03-01 {start}", zone="UTC")
            found = find_scenes(library.snapshot())
            assert (len(found.segments), len(found.shots)) == (goes_on, 2)


RULE = Calibration(0.2, 10.0, 0.05, 0.5, near_best=0.1, near_in_video=0.95, carried=0.3)
RED = Thing("red", 3, 20)
ALIKE = [Thing("red", 3, 17, left=90), Thing("blue", 3, 17, left=122, side=20)]
"""Red beside something, so that both are one thing, half as like the example."""


@pytest.fixture
def cut(tmp_path: Path, fake_proposer: None) -> Callable[..., Library]:
    """Makes a library of films of one ground, twenty frames each, with `red` registered."""

    counter = count()

    def make(*films: Sequence[Thing], named: str = "{}.mp4") -> Library:
        library = panorama.open(tmp_path / f"library-{next(counter)}", create=True)
        for number, things in enumerate(films):
            film = tmp_path / named.format(number)
            if film.suffix == ".png":
                for frame in range(20):
                    write_picture(film.with_stem(f"{film.stem}{frame:02d}"), scene(frame, things, (0,)))
                film = film.parent
            else:
                write_film(film, things, 20, cuts=(0,))
            library.index(film, settings=EVERY, model="color-bands")
            if not number:
                library.register("red", thing_picture("red"))
                library.put_setting(SETTING + measured_with(library.embedder), [RULE.as_dict()])
            bands(library)  # so that the next film is added to what is known
        return library

    return make


def bands(library: Library) -> list[str]:
    """Of the best track of each film; motion finds parts of the things besides."""
    sql = "SELECT tracks, band WHERE entity = 'red' AND score >= 0 ORDER BY video, score DESC"
    rows = library.query(sql)
    return list({row["video"]: row["band"] for row in reversed(list(rows))}.values())[::-1]


def test_in_the_next_file_of_a_camera_a_track_is_held_to_the_best_one_before(cut) -> None:
    with cut([RED], ALIKE) as library:
        assert bands(library) == ["accepted", "uncertain"]
        why = library.why("red", "1.mp4", seconds=1.0)
        assert why.beside is not None and why.beside.video == "0.mp4"
        assert "best track of its scene, in 0.mp4 from 0:00" in why.reason
        assert library.why("red", "0.mp4", seconds=1.0).track_id == why.beside.track_id
    with cut([RED], ALIKE, [Thing("red", 3, 17, left=90)]) as library:
        assert bands(library) == ["accepted", "uncertain", "accepted"]


def test_a_border_from_a_file_that_is_of_another_day_by_its_name_says_how_to_read_the_name(cut) -> None:
    """One who came back the next day was compared as if it were one day, and nobody said why."""
    told = "By their names these videos are of different days"
    with cut([RED], ALIKE, named="dock_2026031{}-080000.mp4") as library:
        assert bands(library) == ["accepted", "uncertain"]
        why = library.why("red", "dock_20260311-080000.mp4", seconds=1.0)
        assert told in why.reason and why.reason.endswith("clock --time-from name")
        library.date(recording=panorama.RecordingRule("name", "UTC"))
        assert told not in library.why("red", "dock_20260311-080000.mp4", seconds=1.0).reason
    with cut([RED], ALIKE, named="dock_20260301-0{}0000.mp4") as library:
        assert told not in library.why("red", "dock_20260301-010000.mp4", seconds=1.0).reason
    with cut([RED], ALIKE, named="dock_2026031{}-090000.mp4") as library:
        for video in library.videos().column("video").to_pylist():
            library.date([video], start="2026-03-01 08:00", zone="UTC")
        assert told not in library.why("red", "dock_20260311-090000.mp4", seconds=1.0).reason


def test_pictures_in_folders_are_of_different_days_by_their_own_names(cut) -> None:
    told = "By their names these videos are of different days"
    with cut([RED], ALIKE, named="v/{0}/2026031{0}-0800.png") as library:
        assert bands(library) == ["accepted", "uncertain"]
        assert told in library.why("red", "1", seconds=1.0).reason
        library.date(recording=panorama.RecordingRule("name", "UTC"))
        assert told not in library.why("red", "1", seconds=1.0).reason
    with cut([RED], ALIKE, named="w/{0}/20260310-080{0}.png") as library:
        assert bands(library) == ["accepted", "uncertain"]
        assert told not in library.why("red", "1", seconds=1.0).reason


def test_a_better_one_in_the_next_file_is_what_those_before_are_held_to(cut) -> None:
    with cut(ALIKE) as library:
        assert bands(library) == ["accepted"]
    with cut(ALIKE, [RED]) as library:
        assert bands(library) == ["uncertain", "accepted"]


def test_a_track_goes_on_in_the_next_file_where_it_ended(cut) -> None:
    left = RED.left + RED.stop - RED.start
    on = [Thing("red", 0, 15, left=left), Thing("blue", 0, 15, left=left + 32, side=20)]
    with cut([RED], on) as library:
        assert bands(library) == ["accepted", "accepted"]
    away = [Thing("red", 0, 15, left=0, top=80), Thing("blue", 0, 15, left=32, top=80, side=20)]
    with cut([RED], away) as library:
        assert bands(library) == ["accepted", "uncertain"]


def test_a_library_without_videos_has_no_scenes(tmp_path: Path) -> None:
    with panorama.open(tmp_path / "library", create=True) as library:
        library.register("red", thing_picture("red"))
        assert not len(find_scenes(library.snapshot()).shots)


def test_beyond_a_short_file_the_next_one_is_a_neighbour_too() -> None:
    """Files 1 to 6 continue each other; 2, 3 and 4 last a second each, the others ten."""
    segments, before = np.arange(2, 7, dtype=np.int32), np.arange(1, 6, dtype=np.int32)
    none = np.zeros(0, np.int64)
    chain = Scenes(none, none, none, none, segments, before, np.array([10.0, 11, 12, 13, 23]))

    def beside(*given: int, seconds: float = 3.0) -> list[int]:
        return sorted(set(chain.neighbours(np.array(given, np.int32), seconds).tolist()))

    assert beside(5) == [1, 2, 3, 4, 6] and beside(5, seconds=2.9) == [2, 3, 4, 6]
    assert beside(1) == [2, 3, 4, 5] and beside(1, seconds=2.9) == [2, 3, 4]
    assert beside(5, seconds=0) == [4, 6] and beside(6) == [5] and beside(7) == beside() == []
    assert beside(2, 5) == [1, 2, 3, 4, 5, 6]  # the given ones may be among them


@pytest.mark.parametrize("first", [0.1, 4.1, 7.3, 10.0])
def test_beyond_a_file_of_just_the_seconds_asked_for_the_next_one_is_a_neighbour_too(first: float) -> None:
    """Tracks at its two ends are still near: what was kept of one was not matched again with the other."""
    segments, before, none = np.array([2, 3], np.int32), np.array([1, 2], np.int32), np.zeros(0, np.int64)
    for seconds, wanted in ((3.0, [1, 2]), (3.01, [2])):
        chain = Scenes(none, none, none, none, segments, before, np.array([first, first + seconds]))
        assert sorted(chain.neighbours(np.array([3], np.int32), 3.0).tolist()) == wanted
        assert sorted(chain.neighbours(np.array([1], np.int32), 3.0).tolist()) == [2, 3][: len(wanted)]
