"""The frames of hits: each the one that its hit names, its file opened once, and words for those without."""

from __future__ import annotations

import random

import av
import cv2
import numpy as np
import pytest
from clips import number_in, write_video

from panorama.hit_frames import GONE, NEAR, UNKNOWN, UNREAD, NoFrame, frames_of
from panorama.sheet import Hit, write_sheet

FRAMES = 300


def hit(video: str, frame: int | None, seconds: float = 0.0) -> Hit:
    return Hit(video, seconds, "thing", None, None, frame=frame)


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("films")
    films = {
        name: write_video(folder / name, "libx264", frames=FRAMES, gop=50, b_frames=2)
        for name in ("a.mp4", "b.mp4")
    }
    return {name: str(film.path) for name, film in films.items()}


def test_each_hit_has_its_own_frame_whatever_order_they_come_in(paths):
    numbers = [0, 3, 3, 7, 40, 40 + NEAR, 42 + 2 * NEAR, FRAMES - 1]
    wanted = [(hit(name, n), n) for name in paths for n in numbers]
    wanted += [(hit(name, None, n / 25), n) for name in paths for n in (0, 41, 290)]
    wanted += [(hit("a.mp4", FRAMES + 9, 1.0), 25)]  # no such frame: the time tells
    random.Random(1).shuffle(wanted)
    found = dict(frames_of([one for one, _ in wanted], paths))
    assert [number_in(found[n]) for n in range(len(wanted))] == [number for _, number in wanted]


def test_hits_of_one_frame_get_one_array(paths):
    first, other, again = (picture for _, picture in frames_of([hit("a.mp4", n) for n in (5, 6, 5)], paths))
    assert first is other and number_in(first) == 5 and number_in(again) == 6


def test_a_sheet_opens_a_file_once_however_many_hits_it_shows(paths, tmp_path, monkeypatch):
    """It was opened and sought in anew for each of them."""
    opened = []
    real = av.open
    monkeypatch.setattr(av, "open", lambda *args, **named: opened.append(args) or real(*args, **named))

    def opens(*numbers):
        opened.clear()
        hits = [hit("a.mp4", number) for number in numbers]
        assert write_sheet(hits, paths, tmp_path / "sheet.png").drawn == len(hits)
        return len(opened)

    assert opens(8, 2, 6, 4) == opens(2) > 0


def test_the_tiles_of_a_sheet_stand_in_the_order_of_its_hits(paths, tmp_path):
    order = [("b.mp4", 90), ("a.mp4", 200), ("b.mp4", 10), ("a.mp4", 20)]
    write_sheet([hit(*one) for one in order], paths, tmp_path / "all.png")
    alone = []
    for one in order:
        write_sheet([hit(*one)], paths, tmp_path / "one.png")
        alone.append(cv2.imread(str(tmp_path / "one.png"))[:, 6:])
    together = cv2.imread(str(tmp_path / "all.png"))[:, 6:]
    np.testing.assert_array_equal(together, np.concatenate(alone, axis=1))


def test_what_cannot_be_shown_is_named_as_the_library_names_it(paths, tmp_path):
    """A sheet showed the path of a missing file before its name, a page worded it in its own way."""
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no film")
    known = {**paths, "gate/gone.mp4": str(tmp_path / "gone.mp4"), "broken.mp4": str(broken)}
    hits = [hit("gate/gone.mp4", 1), hit("broken.mp4", 1), hit("c.mp4", 1), hit("a.mp4", 1)]
    found = dict(frames_of(hits, known))
    gone, unread, strange, shown = (found[number] for number in range(len(hits)))
    missing = "gate/gone.mp4 is gone; if it was moved, index it where it is now"
    assert gone == NoFrame(GONE, missing)
    assert unread.told == UNREAD and unread.error.startswith("broken.mp4: ")
    assert strange.told == UNKNOWN and strange.error.startswith("no video 'c.mp4'. Did you mean ")
    assert number_in(shown) == 1
    report = write_sheet([*hits, hits[0]], known, tmp_path / "sheet.png")
    assert (report.drawn, report.failed) == (1, [missing, unread.error, strange.error])
