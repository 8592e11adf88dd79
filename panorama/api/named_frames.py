"""A video with a time or a frame, or a picture of a folder, comes in; the file and the time go out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panorama.arguments import File
from panorama.cameras.listed_pictures import frame_place, picture_place
from panorama.cameras.listed_videos import file_of, uri_of
from panorama.errors import UsageError
from panorama.store import Store

if TYPE_CHECKING:
    from panorama.library import Library

NO_TIME = (
    "an example from a video takes a time or a frame in it, and a box: --video FILE --at SECONDS"
    " --box x1,y1,x2,y2; only a picture in an indexed folder of pictures needs no time"
)


def named_frame(
    library: Library, video: File, seconds: float | None, frame: int | None
) -> tuple[Path, float]:
    """The file of a video, or the folder of a picture, and the time of a frame in it.

    Args:
        video: a file, the name of a video in the library, or the path of a picture in a folder that is one.
        seconds, frame: one of them, for a video; a frame's number is that of the library.

    Raises:
        UsageError: it is no picture, and there is no time, or there are two.
        UnknownVideo: a frame is given, and the library does not have the video.
    """
    if seconds is not None and frame is not None:
        raise UsageError("give either a time or a frame, not both")
    if seconds is not None:
        return file_of(video, library.videos), seconds
    if frame is None and not Store.is_at(library.path):
        raise UsageError(NO_TIME)
    given, listed = os.fspath(video), library.videos()

    def query(sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return library.query(sql, values).fetchall()

    place = picture_place(given, listed, query) if frame is None else frame_place(given, frame, listed, query)
    if place is None:
        raise UsageError(NO_TIME)
    return Path(uri_of(place.video, listed)), place.seconds
