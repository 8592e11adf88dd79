"""A picture file's bytes, or an image of another package, come in; upright RGB or RGBA pixels go out."""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadImage
from panorama.folders import IMAGE_SUFFIXES
from panorama.pictures.exif import ORIENTATION, exif_of_chunks, exif_orientation
from panorama.pictures.heif import heif_picture, is_iso_media
from panorama.pictures.levels import own_eight_bits
from panorama.pictures.picture_size import MOST_PIXELS, bmp_has_alpha, box_orientation, told_size

PICTURE_SUFFIXES = IMAGE_SUFFIXES | {".gif"}
"""Suffixes of files that count as pictures in a folder."""


EXPECTED = "JPEG, PNG, HEIC, WebP, BMP, TIFF or GIF"

_BEGINNINGS = (b"\xff\xd8", b"\x89PNG", b"RIFF", b"BM", b"II*\0", b"MM\0*", b"GIF8")
_ROUNDING = 1e-3
"""Floats may exceed 0 to 1 by this much: scaling or filtering may turn white into 1.0000001."""
_ONE_AT_A_TIME = threading.Lock()

Pixel = TypeVar("Pixel", bound=np.generic)

ARRAYS = "a picture is (height, width, 3) RGB, or 4 with transparency, as uint8 or as floats from 0 to 1"


def read_pixels(data: bytes, name: str = "picture") -> NDArray[np.uint8]:
    """Decode JPEG, PNG, WebP, ... bytes to (H, W, 3) uint8 RGB, or (H, W, 4) RGBA with transparency.

    The picture is turned upright. If the file is animated, it is the first one.

    Args:
        name: names the picture in errors.

    Raises:
        BadImage: no bytes, damaged, too large, or not a picture that OpenCV or libheif reads.
    """
    picture = unscaled_pixels(data, name)
    if picture is not None:
        return _rgb(own_eight_bits(picture, name))
    damaged = data.startswith(_BEGINNINGS)
    trouble = "is damaged or incomplete, and cannot be read as a picture" if damaged else "is not a picture"
    raise BadImage(f"{name} {trouble}: expected {EXPECTED}")


def unscaled_pixels(data: bytes, name: str = "picture") -> NDArray[Any] | None:
    """Pixels of any depth, upright, (H, W) or (H, W, C) in BGR order; None if it is not a picture.

    Raises:
        BadImage: no bytes, damaged or too large, or the package that reads HEIC is missing.
    """
    if not data:
        raise BadImage(f"{name} is empty (0 bytes)")
    width, height = told_size(data) or (0, 0)
    if width * height > MOST_PIXELS:
        raise BadImage(
            f"{name} is {width}x{height} pixels, more than the limit of 2^28 (16384x16384);"
            " save it smaller, or cut out the entity"
        )
    picture = _read_by_opencv(data, name)
    if picture is not None:
        return turned(picture, file_orientation(data))
    if not is_iso_media(data):
        return None
    # The HEIC decoder has turned the picture upright already.
    heic = _pil_pixels(heif_picture(data, name), name)
    return np.asarray(cv2.cvtColor(heic, cv2.COLOR_RGBA2BGRA if heic.shape[2] == 4 else cv2.COLOR_RGB2BGR))


def _read_by_opencv(data: bytes, name: str) -> NDArray[Any] | None:
    """Pixels of any depth, (H, W) or (H, W, C) in BGR order; None if OpenCV cannot read them.

    Raises:
        BadImage: damaged or too large.
    """
    # OpenCV applies the orientation only if it may drop transparency, which a JPEG does not have; for TIFF it
    # always does.
    is_jpeg, is_bmp = data[:2] == b"\xff\xd8", data[:2] == b"BM"
    # It also takes unused bytes of a BMP for transparency.
    opaque = is_jpeg or (is_bmp and not bmp_has_alpha(data))
    try:
        with nullcontext() if is_jpeg else _quiet():
            how = cv2.IMREAD_COLOR if opaque else cv2.IMREAD_UNCHANGED
            picture = cv2.imdecode(np.frombuffer(data, np.uint8), how)
    except (cv2.error, MemoryError) as exc:
        raise BadImage(f"{name} is damaged, or larger than 2^30 pixels; save it smaller") from exc
    # Programs that draw without transparency leave zeros there, even if the header declares it.
    if picture is None or not is_bmp or opaque or picture[:, :, 3].any():
        return picture
    return picture[:, :, :3]


def _rgb(even: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert what OpenCV read to (H, W, 3) RGB or (H, W, 4) RGBA."""
    if even.ndim == 2:
        return np.asarray(cv2.cvtColor(even, cv2.COLOR_GRAY2RGB), np.uint8)
    code = cv2.COLOR_BGRA2RGBA if even.shape[2] == 4 else cv2.COLOR_BGR2RGB
    return np.asarray(cv2.cvtColor(even, code), np.uint8)


@cache
def _tell_of_forks() -> None:
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    """Runs in a forked process, where nobody releases a lock that another thread held."""
    global _ONE_AT_A_TIME
    _ONE_AT_A_TIME = threading.Lock()


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence OpenCV, which prints its own remarks on damaged files to stderr beside our error."""
    _tell_of_forks()
    with _ONE_AT_A_TIME:  # the log level is global: of two blocks at once, the second would restore silence
        before = cv2.utils.logging.getLogLevel()
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
        try:
            yield
        finally:
            cv2.utils.logging.setLogLevel(before)


def turned(picture: NDArray[Pixel], orientation: int) -> NDArray[Pixel]:
    """Turn a picture (H, W, ...) upright by its EXIF orientation, 1 to 8; other values change nothing."""
    if orientation in (5, 6, 7, 8):
        picture = picture.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        picture = picture[:, ::-1]
    if orientation in (3, 4, 7, 8):
        picture = picture[::-1]
    return np.ascontiguousarray(picture)


def file_orientation(data: bytes) -> int:
    """EXIF orientation of a PNG, WebP, HEIC or AVIF; 1 if it does not say, and for other files."""
    if is_iso_media(data):
        return box_orientation(data)
    try:
        return exif_orientation(exif_of_chunks(data))
    except struct.error:  # cut off
        return 1


MID_GREY = 128


def laid_flat(picture: NDArray[np.uint8], ground: int = MID_GREY) -> NDArray[np.uint8]:
    """(H, W, 3) RGB of an RGB or RGBA picture; transparency is laid over a grey of this level."""
    if picture.shape[2] == 3:
        return picture
    alpha = picture[:, :, 3:].astype(np.float32) / 255
    return np.asarray(picture[:, :, :3] * alpha + ground * (1 - alpha)).astype(np.uint8)


def seen_box(picture: NDArray[np.uint8]) -> tuple[int, int, int, int]:
    """Box x1, y1, x2, y2 of a picture without its transparent margins; the whole if all is transparent."""
    height, width, channels = picture.shape
    if channels == 3 or not picture[:, :, 3].any():
        return 0, 0, width, height
    x, y, wide, high = cv2.boundingRect((picture[:, :, 3] > 0).astype(np.uint8))
    return x, y, x + wide, y + high


def transparent_share(picture: NDArray[np.uint8]) -> float:
    """Share of a picture's pixels that are more transparent than not."""
    return 0.0 if picture.shape[2] == 3 else float((picture[:, :, 3] < MID_GREY).mean())


def given_pixels(given: Any, source: str) -> NDArray[np.uint8]:
    """The pixels of an array, torch tensor or PIL image as uint8: (H, W, 3) RGB or (H, W, 4) RGBA.

    Arrays and tensors may have their channels first, (3, H, W). A PIL image is turned upright, as a file is.

    Args:
        source: names the picture in errors.

    Raises:
        BadImage: the shape, type or range is another.
    """
    if hasattr(given, "getbands") and hasattr(given, "convert"):
        return _pil_pixels(given, source)
    try:
        array = np.asarray(given.detach().cpu() if hasattr(given, "detach") else given)
    except (TypeError, ValueError, RuntimeError) as exc:
        raise BadImage(f"{source} cannot be read as an array ({exc}); {ARRAYS}") from exc
    shape = array.shape
    # With 3 or 4 first, these are channels: a picture that is only 3 or 4 pixels high would be refused.
    if array.ndim == 3 and shape[0] in (3, 4) and shape[2] not in (3, 4):
        array = array.transpose(1, 2, 0)
    if array.ndim != 3 or array.shape[2] not in (3, 4) or 0 in shape:
        grey = array.ndim == 2 or (array.ndim == 3 and array.shape[2] == 1)
        how = "; convert a grey one: numpy.dstack([grey] * 3)" if grey else ""
        raise BadImage(f"{source} is {shape} {array.dtype}; {ARRAYS}{how}")
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind not in "biuf":  # such as Python's objects, which have no least one
        raise BadImage(f"{source} is {shape} {array.dtype}; {ARRAYS}")
    low, high = float(array.min()), float(array.max())
    if array.dtype.kind != "f" or not -_ROUNDING <= low <= high <= 1 + _ROUNDING:
        how = "; convert one from 0 to 255: array.astype('uint8')" if low >= 0 and 2 <= high <= 255 else ""
        raise BadImage(f"{source} is {shape} {array.dtype} from {low:g} to {high:g}; {ARRAYS}{how}")
    array = array.clip(0, 1)
    return np.ascontiguousarray(own_eight_bits(array, source))


def _pil_pixels(given: Any, source: str) -> NDArray[np.uint8]:
    """The pixels of a PIL image, recognised by its methods, so that PIL itself need not be imported."""
    try:
        if given.mode.startswith(("I", "F")):  # PIL cuts these off at 255
            grey = own_eight_bits(np.asarray(given), source)
            pixels = np.repeat(grey[:, :, None], 3, axis=2)
        else:
            pixels = np.asarray(given if given.mode == "RGB" else given.convert("RGBA"), np.uint8)
        orientation = given.getexif().get(ORIENTATION, 1) if hasattr(given, "getexif") else 1
    except (OSError, ValueError, TypeError, SyntaxError) as exc:
        raise BadImage(f"{source}, a picture of PIL, cannot be read: {exc}") from exc
    return turned(pixels, orientation)
