"""A picture's path, or a frame's number, comes in; its video and its time in the video go out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from panorama.cameras.listed_videos import names_of
from panorama.errors import UnknownVideo, UsageError
from panorama.lines import composed

Query = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]
"""Rows of a SELECT with parameters."""

_OF_PICTURE = "SELECT frame, time FROM frames WHERE video = ? AND picture = ?"
_OF_FRAME = "SELECT frame, time FROM frames WHERE video = ? AND frame = ?"


@dataclass(frozen=True, slots=True)
class FramePlace:
    """One frame of a video of the library: the video's name, the frame's number, and its time in seconds."""

    video: str
    frame: int
    seconds: float


def picture_place(given: str, listed: pa.Table, query: Query) -> FramePlace | None:
    """The picture that a path names, in a folder of pictures that is a video; None for other paths.

    Args:
        given: the folder, by its name in the library or its path, and the picture's name.
        listed: the columns video and uri of all videos.

    Raises:
        UsageError: the folder is a video, but no picture of that name was indexed in it.
    """
    path = PurePath(given)
    try:
        names_of([given], listed)
    except UnknownVideo:
        pass
    else:
        return None  # a video's own name, or path
    try:
        (video,) = names_of([str(path.parent)], listed)
    except UnknownVideo:
        return None
    name = composed(os.fsencode(path.name).decode(errors="replace"))
    for frame, seconds in query(_OF_PICTURE, [video, name]):
        return FramePlace(video, int(frame), float(seconds))
    raise UsageError(
        f"no picture {path.name!r} was indexed in {video}; SELECT video, picture FROM frames lists them"
    )


def frame_place(given: str, frame: int, listed: pa.Table, query: Query) -> FramePlace:
    """A frame of a video by its number.

    Args:
        given: the video, by its name in the library or its path.
        listed: the columns video and uri of all videos.

    Raises:
        UnknownVideo: the library does not have the video.
        UsageError: it has no such frame.
    """
    (video,) = names_of([given], listed)
    for number, seconds in query(_OF_FRAME, [video, frame]):
        return FramePlace(video, int(number), float(seconds))
    raise UsageError(f"{video} has no frame {frame}; frames are counted from 0")
