"""A path comes in; a reader for what is there goes out."""

from __future__ import annotations

from pathlib import Path

from panorama.video.faults import reachable
from panorama.video.pictures import PictureFolderReader
from panorama.video.reader import VideoReader


def open_video(path: Path | str, *, threads: int = 0) -> VideoReader:
    """Open a video file, or a folder of pictures as one video; use the reader in a `with` statement.

    Args:
        path: a local file or folder.
        threads: decoder threads; 0 for one per core. Small pictures are decoded by one.

    Raises:
        VideoOpenError: it is missing, cannot be read, is empty, or is not a video.
    """
    path = Path(path)
    with reachable(path):
        if path.is_dir():
            return PictureFolderReader(path)
    from panorama.video.container import ContainerReader  # loads PyAV: most commands open no video

    return ContainerReader(path, threads)
