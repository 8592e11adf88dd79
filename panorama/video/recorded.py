"""A video comes in; when it was recorded, according to its container or its pictures, goes out."""

from __future__ import annotations

import stat
from contextlib import closing
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from panorama.errors import VideoOpenError
from panorama.pictures.exif import read_head, taken_at
from panorama.video.pictures import pictures_in, read_unscaled

_KEYS = ("com.apple.quicktime.creationdate", "creation_time", "date")
"""In order of trust: the first contains its UTC offset; the second by its standard is UTC if it ends in Z."""

FIRST_YEAR = 1980
"""Clocks that were never set show 1904, 1970 or the like."""


def was_set(moment: datetime) -> bool:
    """Whether a clock that shows this moment was ever set."""
    return moment.year >= FIRST_YEAR


def recorded_at(path: Path, zone: tzinfo = UTC) -> float | None:
    """Start of the recording in seconds since 1970, as the container claims; None if it does not say.

    Reads only the head of the file. For a folder of pictures it is the EXIF time, by the camera's clock, of
    the first picture that can be read.

    Args:
        zone: time zone of the cameras' clocks, for times without an offset, as in most pictures and in AVI.

    Raises:
        VideoOpenError: there is no such file, it cannot be opened, or no picture of the folder can be read,
            so what it claims is unknown.
    """
    if _is_folder(path):
        data = _first_picture(path)
        if data is None:
            raise VideoOpenError(f"{path} holds no picture that can be read")
        return _taken(data, zone)
    import av  # imported here, because few rules need to open files

    from panorama.video.probing import open_container

    try:
        with closing(open_container(path)) as container:
            tags = {key.lower(): value for key, value in container.metadata.items()}
            for stream in container.streams.video:
                for key, value in stream.metadata.items():
                    tags.setdefault(key.lower(), value)
    except (av.FFmpegError, OSError) as exc:
        raise VideoOpenError(f"{path} cannot be opened: {exc.strerror or exc}") from exc
    for key in _KEYS:
        found = _unix(tags.get(key, ""), zone)
        if found is not None:
            return found
    return None


def picture_taken(path: Path, zone: tzinfo = UTC) -> float | None:
    """When a picture was taken, in seconds since 1970, according to its EXIF; None if it does not say.

    Reads only the head of a JPEG, and decodes nothing.

    Args:
        zone: time zone of the camera's clock, for times without an offset.

    Raises:
        OSError: the file cannot be read.
    """
    return _taken(read_head(path), zone)


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder rather than a file.

    Raises:
        VideoOpenError: it is neither, or cannot be looked at.
    """
    try:
        mode = path.stat().st_mode
    except OSError as exc:
        raise VideoOpenError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise VideoOpenError(f"there is no file {path}")
    return stat.S_ISDIR(mode)


def _first_picture(folder: Path) -> bytes | None:
    """Bytes of the first picture that can be read; None if there is none."""
    try:
        pictures = pictures_in(folder)
        return next((path.read_bytes() for path in pictures if read_unscaled(path) is not None), None)
    except OSError:
        return None


def _taken(picture: bytes, zone: tzinfo) -> float | None:
    moment = taken_at(picture)
    if moment is None or not was_set(moment):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()


def _unix(text: str, zone: tzinfo) -> float | None:
    """Seconds since 1970 of an ISO 8601 text; None if it is not one, has no time of day, or was never set."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if not was_set(moment) or len(text.strip()) <= len("2026-03-01"):
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
