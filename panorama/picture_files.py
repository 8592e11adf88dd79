"""Pictures come in; files for users go out, complete or not at all, in the format that the suffix names."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.store.files.outputs import check_output, whole_file

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")


def check_picture(out: Path, videos: Collection[str] = ()) -> None:
    """Raise UsageError if the suffix names no picture format or the path must not be written to.

    Args:
        videos: uris of the library's videos.
    """
    check_output(out, SUFFIXES, what="a picture", videos=videos)


def write_picture(rgb: NDArray[np.uint8], out: Path) -> None:
    """Write an RGB picture (H, W, 3), complete or not at all; the file's suffix sets the format.

    Raises:
        LibraryWriteError: the file cannot be written.
    """
    _, data = cv2.imencode(out.suffix.lower(), rgb[:, :, ::-1])
    with whole_file(out) as partial:
        partial.write_bytes(data.tobytes())
