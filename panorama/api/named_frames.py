"""A video with a time or a frame, or a picture of a folder, comes in; the file and the time go out."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panorama.arguments import File
from panorama.cameras.listed_pictures import FramePlace, Query, frame_place, picture_place
from panorama.cameras.listed_videos import file_of, names_of, uri_of
from panorama.errors import UnknownVideo, UsageError
from panorama.lines import composed
from panorama.store import Store
from panorama.video import open_video

_PICTURE = "SELECT picture FROM frames WHERE video = ? AND frame = ?"

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
        seconds, frame: one of them, for a video; a frame's number is that of the library if it has it.

    Raises:
        UsageError: it is no picture, and there is no time, or there are two; it is a picture, and there is a
            time; there is no such frame.
        UnknownVideo: a frame is given, and there is neither such a file nor a video of that name.
    """
    if seconds is not None and frame is not None:
        raise UsageError("give either a time or a frame, not both")
    if seconds is not None:
        named = file_of(video, library.videos)
        if (picture := _picture_in(library, video)) is not None:
            raise UsageError(
                f"{video} is a picture in {picture.video}, a video of the library, which needs no time: leave"
                f" out --at {seconds:g}"
            )
        return named, seconds
    if frame is not None and (file := _file_beside(library, video)) is not None:
        return file, _seconds_of(file, frame)
    if frame is None and not Store.is_at(library.path):
        raise UsageError(NO_TIME)
    given, listed, query = os.fspath(video), library.videos(), _asking(library)
    place = picture_place(given, listed, query) if frame is None else frame_place(given, frame, listed, query)
    if place is None:
        raise UsageError(NO_TIME)
    file = Path(uri_of(place.video, listed))
    for (name,) in query(_PICTURE, [place.video, place.frame]):
        if name is not None:
            return file, _seconds_now(file, name)
    return file, place.seconds


def _asking(library: Library) -> Query:
    def query(sql: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        return library.query(sql, values).fetchall()

    return query


def _picture_in(library: Library, video: File) -> FramePlace | None:
    """The place of a picture in an indexed folder; None for any other file."""
    if not Store.is_at(library.path):
        return None
    with suppress(UsageError):  # a video that lies beside the pictures
        return picture_place(os.fspath(video), library.videos(), _asking(library))
    return None


def _seconds_now(folder: Path, name: str) -> float:
    """The time of a picture in a folder as it is: since it was indexed, others may have gone or come.

    Raises:
        UsageError: it is not there any more.
    """
    with open_video(folder) as reader:
        times = reader.times()
        names = [composed(reader.pictures[pts]) for pts in times.pts.tolist()] if reader.pictures else []
    if composed(name) not in names:
        raise UsageError(f"{name} can be read in {folder} no longer; index the folder again")
    return float(times.seconds[names.index(composed(name))])


def _file_beside(library: Library, video: File) -> Path | None:
    """The file of a video that the library does not hold; None if it holds it or there is no such file."""
    try:
        names_of([os.fspath(video)], library.videos())
    except UnknownVideo:
        # Not Path.exists, which raises if the name is too long to be that of a file.
        return Path(video) if os.path.exists(video) else None  # noqa: PTH110
    return None


def _seconds_of(file: Path, frame: int) -> float:
    """The time of a frame of a file; UsageError if it has no such frame."""
    with open_video(file) as reader:
        seconds = reader.times().seconds
    if not 0 <= frame < len(seconds):
        raise UsageError(f"{file} has no frame {frame}; it has {len(seconds)}, counted from 0")
    return float(seconds[frame])
