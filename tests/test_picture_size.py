"""The size that a picture's header tells, of every kind that is read, and what is refused by it."""

from __future__ import annotations

import io
import struct
from datetime import datetime

import cv2
import numpy as np
import pytest

from panorama.errors import BadImage
from panorama.pictures.exif import exif_of, exif_orientation, taken_at
from panorama.pictures.picture_size import MOST_PIXELS, told_size
from panorama.pictures.pixels import read_pixels

PICTURE = np.random.default_rng(0).integers(0, 255, (20, 30, 3)).astype(np.uint8)


def written(suffix: str, *how: int) -> bytes:
    return cv2.imencode(suffix, PICTURE, how)[1].tobytes()


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".gif", ".bmp", ".tif"])
def test_the_header_tells_the_size_of_the_pixels(suffix: str) -> None:
    data = written(suffix)
    assert told_size(data) == (30, 20)
    assert read_pixels(data).shape[:2] == (20, 30)


def test_a_header_of_every_make_tells_the_size() -> None:
    image = pytest.importorskip("PIL.Image").fromarray(PICTURE)

    def saved(form: str, **how: object) -> bytes:
        file = io.BytesIO()
        image.save(file, form, **how)
        return file.getvalue()

    for data in (
        saved("JPEG", progressive=True, comment=b"\xff\xc0 no frame", exif=b"Exif\0\0" + bytes(300)),
        saved("TIFF", compression="tiff_deflate"),
        saved("TIFF", compression="tiff_lzw", big_tiff=False),
        written(".jpg", cv2.IMWRITE_JPEG_RST_INTERVAL, 1),
        saved("PNG", optimize=True),
        saved("GIF"),
    ):
        assert told_size(data) == (30, 20)
    pytest.importorskip("pillow_heif").register_heif_opener()
    assert told_size(saved("HEIF")) in ((30, 20), (64, 64))  # as it is coded, or as it is shown


def test_bytes_that_fill_up_a_jpeg_hide_neither_its_size_nor_its_exif() -> None:
    """T.81 allows them before every marker: a picture with some was shown upright, and had no time."""
    image, file = pytest.importorskip("PIL.Image").fromarray(PICTURE), io.BytesIO()
    says = pytest.importorskip("PIL.Image").Exif()
    says[0x0112] = 6
    says.get_ifd(0x8769)[0x9003] = "2026:03:01 10:00:00"
    image.save(file, "JPEG", exif=says)
    data = file.getvalue()
    filled = data.replace(b"\xff\xe1", b"\xff\xff\xff\xe1").replace(b"\xff\xc0", b"\xff\xff\xc0")
    assert len(filled) == len(data) + 3
    assert told_size(filled) == told_size(data) == (30, 20)
    assert exif_orientation(exif_of(filled)) == exif_orientation(exif_of(data)) == 6
    assert taken_at(filled) == taken_at(data) == datetime(2026, 3, 1, 10)


def test_what_tells_no_size_is_left_to_who_reads_it() -> None:
    assert told_size(written(".webp")[:18]) is None
    assert told_size(b"no picture") is told_size(b"") is None
    for suffix in (".png", ".jpg", ".gif", ".bmp", ".tif"):
        data = written(suffix)
        for stop in range(min(len(data), 700)):
            assert told_size(data[:stop]) in (None, (30, 20))


@pytest.mark.parametrize(
    ("suffix", "form", "place", "sides"),
    [
        (".png", ">II", 16, (30_000, 30_000)),
        (".gif", "<HH", 6, (60_000, 5_000)),
        (".bmp", "<ii", 18, (30_000, -30_000)),
        (".jpg", ">HH", -1, (20_000, 60_000)),
    ],
)
def test_what_takes_too_much_memory_is_refused_by_its_header(
    suffix: str, form: str, place: int, sides: tuple[int, int]
) -> None:
    """A PNG of 2.6 MB with 30,000 x 30,000 pixels of few colours took 5.4 GB."""
    data = bytearray(written(suffix))
    if place < 0:
        place = data.index(b"\xff\xc0") + 5
    data[place : place + struct.calcsize(form)] = struct.pack(form, *sides)
    width, height = (abs(side) for side in (sides if suffix != ".jpg" else sides[::-1]))
    with pytest.raises(BadImage, match=f"big is {width}x{height} pixels, more than .*; save it smaller"):
        read_pixels(bytes(data), "big")


def test_the_largest_that_cameras_and_scanners_make_are_read() -> None:
    """Decision 47 tells of one of 12,000 x 9,000; the header alone decides here, pixels are not made."""
    for sides in ((12_000, 9_000), (16_384, 16_384)):
        assert sides[0] * sides[1] <= MOST_PIXELS
        data = bytearray(written(".png"))
        data[16:24] = struct.pack(">II", *sides)
        assert told_size(bytes(data)) == sides


def test_a_head_of_blanks_takes_no_time_and_a_width_of_many_digits_is_none() -> None:
    """A file of 50 bytes would have been looked at for hours."""
    assert told_size(b"P5" + b" " * 60_000 + b"x") is None
    assert told_size(b"P5 " + b"9" * 5000 + b" 1\n") is None
    assert told_size(b"P6 # a camera\n# of 2026\n 30\t20\n255\n") == (30, 20)
