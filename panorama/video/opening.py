"""A path comes in; a reader for what is there goes out."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from panorama.errors import VideoOpenError
from panorama.video.pictures import DEFAULT_RATE, PictureFolderReader
from panorama.video.reader import VideoReader


def open_video(path: Path | str, *, threads: int = 0, rate: Fraction = DEFAULT_RATE) -> VideoReader:
    """Open a video file, or a folder of pictures as one video; use the reader in a `with` statement.

    Args:
        path: a local file or folder.
        threads: decoder threads; 0 for one per core. Small pictures are decoded by one.
        rate: pictures per second of a folder, which has no rate of its own.

    Raises:
        VideoOpenError: it is missing, cannot be read, is empty, or is not a video.
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
