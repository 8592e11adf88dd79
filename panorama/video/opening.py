"""A path enters; the reader that fits it leaves."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from panorama.errors import VideoOpenError
from panorama.video.pictures import DEFAULT_RATE, PictureFolderReader
from panorama.video.reader import VideoReader


def open_video(path: Path | str, *, threads: int = 0, rate: Fraction = DEFAULT_RATE) -> VideoReader:
    """Opens a video file, or a folder of pictures as one video; use it in a `with` statement.

    Args:
        path: a local file or folder.
        threads: of the decoder, 0 for as many as there are cores; small pictures get one.
        rate: pictures per second of a folder, which does not say so itself.

    Raises:
        VideoOpenError: it is missing, may not be read, is empty, or is not a video.
    """
    path = Path(path)
    try:
        if path.is_dir():
            return PictureFolderReader(path, rate)
    except OSError as exc:
        raise VideoOpenError(f"{path} cannot be read: {exc.strerror}; check its permissions") from exc
    from panorama.video.container import (
        ContainerReader,
    )  # loaded here, with PyAV: most commands open no video

    return ContainerReader(path, threads)
