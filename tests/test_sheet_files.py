"""Pictures are written whole or not at all, also on a full disk; what is told beside them and of rows."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import cv2
import numpy as np
import pytest
from fakes import Thing, write_film
from numpy.typing import NDArray

from panorama.errors import LibraryWriteError, QueryError, UsageError
from panorama.lettering import ends, text_width
from panorama.picture_files import write_picture
from panorama.shown.grid import TILE_HEIGHT, TILE_WIDTH, beside
from panorama.shown.hit_clips import NAME_BYTES, _clip_name, _stretches, write_clips
from panorama.shown.hit_facts import HitFacts, SeenPicture
from panorama.shown.hits import Hit, hits_of
from panorama.shown.sheet import choose, write_sheet

resource = pytest.importorskip("resource", reason="limits of a process are those of Unix")


def test_a_picture_that_cannot_be_finished_leaves_the_one_before(tmp_path):
    """`why --out` on a full disk left the first 16 kB of a picture under its name."""
    before = np.zeros((8, 8, 3), np.uint8)
    write_picture(before, tmp_path / "why.png")
    kept = (tmp_path / "why.png").read_bytes()
    noise = np.random.default_rng(0).integers(0, 255, (100, 100, 3), dtype=np.uint8)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(LibraryWriteError, match=r"why.png cannot be written"):
            write_picture(noise, tmp_path / "why.png")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "why.png").read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["why.png"]


@pytest.mark.parametrize(
    ("name", "most", "larger"),
    [("a.webp", 16_383, ".png"), ("a.JPG", 65_500, ".png"), ("a.png", 1_000_000, ".tif")],
)
def test_a_picture_too_large_for_its_format_is_refused_with_one_that_holds_it(
    tmp_path, capfd, name, most, larger
):
    """What OpenCV returns when it cannot encode a picture was not looked at: 'tuple' has no 'tobytes'."""
    write_picture(np.zeros((most, 1, 3), np.uint8), tmp_path / name)
    kept = (tmp_path / name).read_bytes()
    for shape in ((most + 1, 1, 3), (1, most + 1, 3)):
        told = f"{name} would be {shape[1]}x{shape[0]} pixels, and a picture in .* has at most {most} a side"
        with pytest.raises(UsageError, match=f"^{told}; name a {larger} file$"):
            write_picture(np.zeros(shape, np.uint8), tmp_path / name)
    assert (tmp_path / name).read_bytes() == kept
    assert capfd.readouterr() == ("", "")
    write_picture(np.zeros((most + 1, 1, 3), np.uint8), tmp_path / f"a{larger}")


LONG = "the white delivery van of the bakery on the corner, with a roof rack, number 2"


def caption(folder: Path, entity: str, band: str, tile: int = 0) -> NDArray[np.uint8]:
    """The pixels below one of two tiles of a sheet; the second is always the same hit."""
    film = folder / "a.mp4"
    if not film.exists():
        write_film(film, [Thing("red", 0, 5)], frames=5)
    hits = [
        Hit("a.mp4", 0.0, entity, 0.51, None, band=band),
        Hit("a.mp4", 0.2, "dog", 0.9, None, band="accepted"),
    ]
    write_sheet(hits, {"a.mp4": str(film)}, folder / "sheet.png")
    rows = slice(6 + TILE_HEIGHT, None)
    left = 6 + tile * (TILE_WIDTH + 6)
    return np.asarray(cv2.imread(str(folder / "sheet.png"))[rows, left : left + TILE_WIDTH])


def test_a_long_name_leaves_the_band_and_score_readable_and_the_next_tile_alone(tmp_path):
    """The line was cut after 38 characters, so that `band` was asked for in vain."""
    accepted, rejected = (caption(tmp_path, LONG, band) for band in ("accepted", "rejected"))
    assert (accepted != rejected).any()
    short, long = (caption(tmp_path, name, "rejected", tile=1) for name in ("van", "W" * 60))
    np.testing.assert_array_equal(short, long)


@pytest.mark.parametrize("end_seconds", [None, 0.4])
def test_long_names_of_pictures_keep_their_ends_and_leave_the_next_tile_alone(tmp_path, end_seconds):
    """The first and the last name of a stretch were written over the next caption and off the sheet."""
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 5)], frames=5)
    first = Hit("a.mp4", 0.0, "red", None, None, end_seconds=end_seconds)
    hits = [first, Hit("a.mp4", 0.8, "dog", None, None)]

    def captions(*names: str) -> NDArray[np.uint8]:
        seen = {("a.mp4", number): SeenPicture(name, None) for number, name in enumerate(names)}
        sheet = tmp_path / "sheet.png"
        write_sheet(hits, {"a.mp4": str(film)}, sheet, facts=HitFacts(pictures=seen))
        return cv2.imread(str(sheet))[6 + TILE_HEIGHT :]

    day = "north-gate-2024-05-01_12-33-21-" * (1 if end_seconds else 2)
    shown = captions(f"{day}0001.jpg", f"{day}0002.jpg")
    others = (captions(f"{day}0007.jpg", f"{day}0002.jpg"), captions(f"{day}0001.jpg", f"{day}0007.jpg"))
    short = captions("1.jpg", "2.jpg")
    tile = slice(6, 6 + TILE_WIDTH)
    for other, is_shown in zip(others, (True, end_seconds is not None), strict=True):
        assert (shown[:, tile] != other[:, tile]).any() == is_shown
    beyond = slice(6 + TILE_WIDTH, None)
    np.testing.assert_array_equal(shown[:, beyond], short[:, beyond])


def test_names_that_are_too_long_lose_their_beginnings_alike() -> None:
    names = ["2024-05-01_12-33-21_gate.jpg", "2024-05-01_12-44-55_gate.jpg"]
    assert ends(names, 1000, 0.38) == " - ".join(names)
    cut = ends(names, TILE_WIDTH - 8, 0.38)
    found = re.fullmatch(r"\.\.\.(.*_12-33-21_gate\.jpg) - \.\.\.(.*_12-44-55_gate\.jpg)", cut)
    assert found and len(found[1]) == len(found[2]) and text_width(cut, 0.38) <= TILE_WIDTH - 8
    assert ends(["1.jpg", "x" * 90 + "2.jpg"], 200, 0.38).startswith("1.jpg - ...x")
    assert (ends([], 100, 0.38), ends(["name"], 0, 0.38)) == ("", "")


def test_a_line_end_in_a_name_is_drawn_as_an_escape(tmp_path):
    """What stood behind it was drawn below the caption, into the next row."""
    np.testing.assert_array_equal(*(caption(tmp_path, name, "") for name in ("a\nb", "a\\nb")))


@pytest.mark.parametrize(
    ("name", "facts", "shown"),
    [
        ("dog", "0.93  accepted", "dog  0.93  accepted"),
        ("", "0.93", "0.93"),
        ("dog", "", "dog"),
        (LONG, "0.51  uncertain", r"the white .*\.\.\..*number 2  0\.51  uncertain"),
        ("W" * 200, "0.51  rejected  similarity 0.80", r"W+\.\.\.W+  0\.51  rejected  similarity 0\.80"),
        ("x" * 80, "", r"x+\.\.\.x+"),
    ],
)
def test_the_middle_of_a_name_gives_way_to_what_is_told_of_it(name, facts, shown):
    text = beside(name, facts, TILE_WIDTH - 8, 0.45)
    assert re.fullmatch(shown, text)
    assert cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, 0.45, 1)[0][0] <= TILE_WIDTH - 8
    assert text == f"{name}  {facts}".strip() or len(text) > 25  # no more is cut than has to be


NAN, ENDLESS = float("nan"), float("inf")
NO_TIME = [
    (NAN, None, "the row has no time"),
    (None, 2.0, "the row has no time"),
    (1.5, ENDLESS, "no video has the time of the row, 1.5 to inf seconds"),
    (1.5, NAN, "no video has the time of the row, 1.5 to nan seconds"),
    (-ENDLESS, 0.5, "no video has the time of the row, -inf to 0.5 seconds"),
    (1e300, None, "no video has the time of the row, 1e+300 seconds"),
]
NO_STRETCH = [
    (4.5, 1.5, "the row ends before it begins, 4.5 to 1.5 seconds"),
    (-5.0, -3.0, "the row is before the beginning of the video, -5 to -3 seconds"),
    (-3.0, None, "the row is before the beginning of the video, -3 seconds"),
]


def hits_at(times) -> list[Hit]:
    rows = [{"video": "a.mp4", "start_time": start, "end_time": end} for start, end, *_ in times]
    return hits_of(["video", "start_time", "end_time"], rows)


def test_rows_at_no_time_of_a_video_are_told_and_the_others_shown(tmp_path):
    """NaN was told as a defect of the program; one row that ends before it begins ended a command."""
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=10)
    paths = {"a.mp4": str(tmp_path / "a.mp4")}
    hits = hits_at([*NO_TIME, (0.2, 0.4), *NO_STRETCH, (-0.2, 0.0)])
    sheet = write_sheet(hits, paths, tmp_path / "sheet.png")
    assert sheet.drawn == len(hits) - len(NO_TIME)
    assert sheet.failed == list(dict.fromkeys(f"a.mp4: {told}" for *_, told in NO_TIME))
    clips = write_clips(hits, paths, tmp_path / "clips")
    assert sorted(clips.failed) == sorted({f"a.mp4: {told}" for *_, told in [*NO_TIME, *NO_STRETCH]})
    assert clips.drawn == 1 == len(list((tmp_path / "clips").iterdir()))


def test_a_sheet_of_more_hits_than_fit_is_full_and_shows_every_track():
    """Of 25 rows of one track or of none it had five; what one thing left of its share stayed empty."""

    def hits(entity: str, track: int | None, count: int) -> list[Hit]:
        return [Hit("a.mp4", float(n), entity, 0.5, None, track_id=track) for n in range(count)]

    for track in (None, 7):
        shown = choose(hits("red", track, 300), 24)
        times = [hit.time_seconds for hit in shown]
        assert len(shown) == 24 and times == sorted(set(times))
        assert times[0] < 30 and times[-1] > 270
    one, many = hits("red", 1, 1), [hit for track in range(100) for hit in hits("blue", track, 3)]
    shown = choose([*one, *many], 24)
    assert len({hit.track_id for hit in shown if hit.entity == "blue"}) == 23 and shown[0] == one[0]
    seven = [hit for name in "abcdefg" for track in range(10) for hit in hits(name, track, 2)]
    named = [hit.entity for hit in choose(seven, 24)]
    assert len(named) == 24 and min(named.count(name) for name in "abcdefg") == 3


def test_a_sheet_of_more_tracks_than_fit_shows_the_first_of_an_order_and_else_the_best():
    """`ORDER BY score` for the worst drew the best of them, at the end of the answer."""
    rising = [Hit("a.mp4", float(n), "red", n / 100, None, track_id=n) for n in range(100)]
    assert choose(rising, 24, is_ordered=True) == rising[:24]
    assert choose(rising, 24) == rising[-24:]
    both = [replace(hit, entity=name) for hit in rising for name in ("red", "blue")]
    assert choose(both, 24, is_ordered=True) == both[:24]


@pytest.mark.parametrize("corner", [NAN, ENDLESS, 1e300, "left", None])
def test_a_row_without_a_box_that_can_be_is_shown_without_one(tmp_path, corner):
    """NaN was told as a defect of the program."""
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=10)
    row = {"video": "a.mp4", "time": 0.2, "x1": corner, "y1": 2, "x2": Decimal(9), "y2": 9.5}
    (hit,) = hits_of(list(row), [row])
    assert hit.box_xyxy is None
    assert write_sheet([hit], {"a.mp4": str(tmp_path / "a.mp4")}, tmp_path / "sheet.png").drawn == 1
    (boxed,) = hits_of(list(row), [row | {"x1": 1}])
    assert boxed.box_xyxy == (1, 2, 9, 9.5)


@pytest.mark.parametrize("value", ["abc", NAN, ENDLESS, 1e300, -5, 7.5, None])
@pytest.mark.parametrize("column", ["frame", "track_id", "crop_id"])
def test_a_row_without_an_id_that_can_be_is_shown_by_its_time(column, value):
    """Text was told as a defect of the program, or ended the sheet; frame -5 was the fifth from behind."""
    row = {"video": "a.mp4", "time": 0.2, column: value}
    (hit,) = hits_of(list(row), [row])
    assert getattr(hit, column) is None
    for right in ((1 << 53) + 1, 7.0, Decimal(7), 0):
        (hit,) = hits_of(list(row), [row | {column: right}])
        assert getattr(hit, column) == right and isinstance(getattr(hit, column), int)


def test_a_score_that_is_no_number_is_none():
    row = {"video": "a.mp4", "time": 0.2, "score": "high", "similarity": Decimal("0.5")}
    (hit,) = hits_of(list(row), [row])
    assert (hit.score, hit.similarity) == (None, 0.5)


@pytest.mark.parametrize("value", ["abc", datetime.datetime(2026, 3, 1)])
def test_a_time_that_is_no_number_is_refused(value):
    with pytest.raises(QueryError, match=r"pictures need start_time in seconds .* the result has"):
        hits_at([(value, 1.0)])


def test_of_a_path_the_end_is_kept():
    path = "archive/camera-of-the-main-entrance/2026-03-01/people-one-by-one-in-the-morning.mp4"
    text = beside(path, "0:02.0", TILE_WIDTH - 8, 0.38, 1.0)
    assert re.fullmatch(r"\.\.\..*people-one-by-one-in-the-morning\.mp4  0:02\.0", text)


def test_what_stretches_of_hits_take_grows_with_their_number(monkeypatch):
    """Every end was looked at again for every hit: rows of half an hour of frames took minutes to cut."""
    looked, end = [], Hit.last_seconds.fget
    monkeypatch.setattr(Hit, "last_seconds", property(lambda hit: looked.append(hit) or end(hit)))
    frames = [Hit("a.mp4", second / 25, "red", 1.0, None) for second in range(2000)]
    later = [Hit("a.mp4", 82.5, "red", 1.0, None, 90.0), Hit("a.mp4", 91.9, "red", 1.0, None)]
    last = Hit("a.mp4", 94.0, "red", 1.0, None)
    other = Hit("a.mp4", 10.0, "blue", 1.0, None)
    found = _stretches([last, *later, *frames, other], {})
    assert found == {("a.mp4", "red"): [frames, later, [last]], ("a.mp4", "blue"): [[other]]}
    assert len(looked) <= 2 * (len(frames) + 4)


@pytest.mark.parametrize("first", ["-", "."])
def test_a_clip_of_a_long_name_is_neither_hidden_nor_an_option(first: str) -> None:
    """Where the beginning of the video's name was cut off, the clip could begin with a dash or a dot."""
    end = "-frog-000001.00.mp4"
    kept = "y" * (NAME_BYTES - len(end) - 1)
    assert _clip_name(f"x{first}{kept}", "frog", 1.0, set()) == f"{kept}{end}"
