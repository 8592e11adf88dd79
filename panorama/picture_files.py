"""Pictures enter; files for users leave, each whole or not at all, in the format that its suffix says."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import UsageError
from panorama.store.layout import whole_file

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")


def check_picture_suffix(out: Path) -> None:
    """Raise UsageError where no picture format goes with the file's suffix."""
    if out.suffix.lower() not in SUFFIXES:
        raise UsageError(f"a picture is written as {', '.join(SUFFIXES)}, got {out.name!r}")


def write_picture(rgb: NDArray[np.uint8], out: Path) -> None:
    """Write a picture (H, W, 3), whole or not at all; the file's suffix says the format.

    Raises:
        LibraryWriteError: the file cannot be written.
    """
    _, data = cv2.imencode(out.suffix.lower(), rgb[:, :, ::-1])
    with whole_file(out) as partial:
        partial.write_bytes(data.tobytes())
