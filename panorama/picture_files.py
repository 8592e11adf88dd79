"""Pictures come in; files for users go out, complete or not at all, in the format that the suffix names."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import LibraryWriteError, UsageError
from panorama.store.files.outputs import check_output, whole_file

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
MOST_SIDE = {".jpg": 65_500, ".jpeg": 65_500, ".png": 1_000_000, ".webp": 16_383}
"""Most pixels of a side in OpenCV's encoders; a picture in .bmp or .tif may have any that memory holds."""
LARGE = (".png", ".tif")
"""Formats that hold larger pictures, the more usual one first."""


def check_picture(out: Path, videos: Collection[str] = ()) -> None:
    """Raise UsageError if the suffix names no picture format or the path must not be written to.

    Args:
        videos: uris of the library's videos.
    """
    check_output(out, SUFFIXES, what="a picture", videos=videos)


def check_size(out: Path, width: int, height: int, instead: str = "") -> None:
    """Raise UsageError if the format that the suffix names cannot hold a picture of this size in pixels.

    Args:
        instead: another way out, for the end of the message, such as ", or draw fewer hits".
    """
    suffix, side = out.suffix.lower(), max(width, height)
    most = MOST_SIDE.get(suffix, side)
    if side > most:
        larger = next(other for other in LARGE if MOST_SIDE.get(other, side) >= side)
        raise UsageError(
            f"{out.name} would be {width}x{height} pixels, and a picture in {suffix} has at most {most} a"
            f" side; name a {larger} file{instead}"
        )


def write_picture(rgb: NDArray[np.uint8], out: Path) -> None:
    """Write an RGB picture (H, W, 3), complete or not at all; the file's suffix sets the format.

    Raises:
        UsageError: the format cannot hold a picture of this size.
        LibraryWriteError: the file cannot be written.
    """
    height, width = rgb.shape[:2]
    check_size(out, width, height)
    done, data = cv2.imencode(out.suffix.lower(), rgb[:, :, ::-1])
    if not done:
        raise LibraryWriteError(
            f"{out} cannot be written: a picture of {width}x{height} pixels could not be encoded; name a file"
            f" of another format ({', '.join(SUFFIXES)})"
        )
    with whole_file(out) as partial:
        partial.write_bytes(data.tobytes())
