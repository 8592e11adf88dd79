"""The frames of hits: each the one that its hit names, its file opened once, and words for those without."""

from __future__ import annotations

import random

import av
import cv2
import duckdb
import numpy as np
import pytest
from clips import cut_clip, damage_packet, number_in, write_video

from panorama.shown.hit_frames import GONE, LOST, NEAR, UNKNOWN, UNREAD, NoFrame, frames_of
from panorama.shown.hits import Hit
from panorama.shown.sheet import write_sheet
from panorama.shown.track_boxes import TrackBoxes
from panorama.video import open_video
from panorama.video.clip import BOX_COLOR_RGB

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
    found = dict(frames_of([one for one, _ in wanted], paths, {}))
    assert [number_in(found[n]) for n in range(len(wanted))] == [number for _, number in wanted]


def test_a_hit_without_a_frame_is_shown_at_its_time_beside_one_of_frame_zero(paths):
    """It was shown with frame 0 if another hit of its video named frame 0, whose pts was then known."""
    with open_video(paths["a.mp4"]) as reader:
        stamps = {("a.mp4", 0): int(reader.times().pts[0])}
    found = dict(frames_of([hit("a.mp4", 0), hit("a.mp4", None, 8.0)], paths, stamps))
    assert [number_in(found[n]) for n in range(2)] == [0, 200]


def test_hits_of_one_frame_get_one_array(paths):
    first, other, again = (
        picture for _, picture in frames_of([hit("a.mp4", n) for n in (5, 6, 5)], paths, {})
    )
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
    found = dict(frames_of(hits, known, {}))
    gone, unread, strange, shown = (found[number] for number in range(len(hits)))
    missing = "gate/gone.mp4 is gone; if it was moved, index it where it is now"
    assert gone == NoFrame(GONE, missing)
    assert unread.told == UNREAD and unread.error.startswith("broken.mp4: ")
    assert strange.told == UNKNOWN and strange.error.startswith("no video 'c.mp4'. Did you mean ")
    assert number_in(shown) == 1
    report = write_sheet([*hits, hits[0]], known, tmp_path / "sheet.png")
    assert (report.drawn, report.failed) == (1, [missing, unread.error, strange.error])


@pytest.fixture(
    scope="module",
    params=[("a.mp4", "libx264"), ("a.flv", "libx264"), ("a.avi", "mpeg4"), ("hevc.mp4", "libx265")],
    ids=lambda film: film[0],
)
def damaged(request, tmp_path_factory) -> str:
    """A film in which a keyframe and frames between keyframes are damaged."""
    name, codec = request.param
    folder = tmp_path_factory.mktemp("damaged")
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    path = write_video(
        folder / f"whole-{name}", codec, frames=160, gop=20, b_frames=2, codec_options=options
    ).path
    for packet in (24, 60, 85, 131):
        path = damage_packet(path, folder / f"{packet}-{name}", packet)
    return str(path)


def as_indexed(path: str) -> dict[int, tuple[int, np.ndarray]]:
    """Number -> pts and picture of all frames, in a pass from the beginning."""
    with open_video(path) as reader:
        return {frame.index: (frame.pts, frame.rgb().astype(int)) for frame in reader.frames()}


def test_in_a_damaged_file_the_frame_that_was_indexed_is_shown(damaged):
    """A file that is sought in counted packets, which do not all decode: it showed later frames' neighbours.

    And what a decoder shows where something is damaged depends on what it has shown before.
    """
    indexed = as_indexed(damaged)
    stamps = {("a", number): pts for number, (pts, _) in indexed.items()}
    paths = {"a": damaged}
    numbers = sorted(indexed)
    alone = [(n, picture) for n in numbers for _, picture in frames_of([hit("a", n)], paths, stamps)]
    order = random.Random(2).sample(numbers, len(numbers) // 3)
    together = [
        (order[at], picture) for at, picture in frames_of([hit("a", n) for n in order], paths, stamps)
    ]
    assert len(indexed) > 100 and len(together) == len(order)
    for number, picture in alone + together:
        assert np.abs(picture - indexed[number][1]).mean() < 2, number


@pytest.fixture(scope="module")
def shifted(tmp_path_factory) -> str:
    """A film of which frames are lost: numbers of a whole pass are not those of its packets."""
    folder = tmp_path_factory.mktemp("shifted")
    film = write_video(folder / "whole.mp4", "libx264", frames=160, gop=20, b_frames=2)
    return str(damage_packet(film.path, folder / "a.mp4", 20))


def test_a_frame_that_no_longer_comes_out_is_told_and_no_other_shown(shifted):
    with open_video(shifted) as reader:
        packets = reader.times().pts.tolist()
        decoded = {frame.pts for frame in reader.frames()}
    lost = min(set(packets) - decoded)
    stamps = {("a", 30): max(decoded), ("a", 31): lost, ("a", 65): -1}
    found = dict(frames_of([hit("a", n, 2.0) for n in (30, 31, 65)], {"a": shifted}, stamps))
    assert number_in(found[0]) == 159
    assert found[1] == NoFrame(LOST, "a: frame 31 no longer decodes as it did when it was indexed")
    assert number_in(found[2]) == 65  # of a file that has changed since: it never had this stamp


def test_a_clip_of_a_damaged_film_has_boxes_in_the_frames_that_were_indexed(shifted, tmp_path):
    indexed = as_indexed(shifted)
    pts, picture = indexed[100]
    assert number_in(picture) != 100
    boxes, stamps = {100: [(4, 40, 124, 80)]}, {100: pts}
    cut_clip(shifted, 3.5, 4.8, tmp_path / "clip.mp4", boxes=boxes, stamps=stamps)
    with open_video(tmp_path / "clip.mp4") as reader:
        frames = [frame.rgb().astype(int) for frame in reader.frames()]
    boxed = [f for f in frames if np.abs(f[41, 20:108].mean(axis=0) - BOX_COLOR_RGB).max() < 40]
    assert len(frames) > 30 and [number_in(frame) for frame in boxed] == [number_in(picture)]


def test_the_library_tells_the_stamps_and_times_of_frames():
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE frames AS SELECT v AS video, f AS frame, 512 * f AS pts, f / 25 AS time"
            " FROM (VALUES ('a'), ('b')) AS v(v), range(9) AS f(f)"
        )
        asked = lambda sql, values: connection.sql(sql, params=list(values)).to_arrow_table()  # noqa: E731
        tracks = TrackBoxes(asked)
        assert tracks.stamps([("a", 3), ("b", 4), ("b", 99), ("c", 3)]) == {("a", 3): 1536, ("b", 4): 2048}
        assert tracks.times([("a", 3), ("b", 99)]) == {("a", 3): 0.12}
        assert tracks.stamps([]) == tracks.times([]) == {}
