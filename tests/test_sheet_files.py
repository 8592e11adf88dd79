"""Pictures are written whole or not at all, also where the disk is full; captions fit below their tiles."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from fakes import Thing, write_film
from numpy.typing import NDArray

from panorama.errors import LibraryWriteError
from panorama.sheet import TILE_HEIGHT, TILE_WIDTH, Hit, beside, write_picture, write_sheet

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


def test_of_a_path_the_end_is_kept():
    path = "archive/camera-of-the-main-entrance/2026-03-01/people-one-by-one-in-the-morning.mp4"
    text = beside(path, "0:02.0", TILE_WIDTH - 8, 0.38, 1.0)
    assert re.fullmatch(r"\.\.\..*people-one-by-one-in-the-morning\.mp4  0:02\.0", text)
