"""Paths as a user types them come in; the videos there go out, with their names and what was skipped."""

from __future__ import annotations

import glob
import re
import stat
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path, PurePath

from panorama.errors import VideoOpenError
from panorama.folders import FolderSearch, is_gone
from panorama.video.pictures import (
    IMAGE_SUFFIXES,
    picture_names,
    pictures_in,
)

VIDEO_SUFFIXES = frozenset(
    {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".flv", ".gif"}
    | {".ts", ".mts", ".m2ts", ".tp", ".trp", ".wmv", ".asf", ".3gp", ".3g2", ".ogv", ".vob", ".f4v", ".qt"}
    | {".mxf", ".dv", ".divx", ".rm", ".rmvb", ".wtv", ".tod", ".dav", ".m2p", ".mpe", ".nut"}
    | {".ivf", ".obu", ".y4m", ".m1v"}
    | {".h264", ".264", ".h265", ".265", ".hevc", ".mjpeg", ".mjpg", ".m2v"}  # streams without a container
)
_ALBUM_DIGITS = 2
"""People, not cameras, name pictures with numbers of at most this many digits and nothing else. A folder of
such pictures that was not named itself may be an album.
"""
_FINE_TUNING = "fine-tune.toml"
"""A file in every folder of a fine-tuning. Beside it, `crops` holds pictures of footage, which earlier
versions named by numbers alone.
"""


@dataclass(frozen=True, slots=True)
class FoundVideo:
    """One video to index.

    Attributes:
        path: the file, or the folder of pictures.
        root: the folder that was named; for a file named directly, its folder.
        name: path relative to `root`, with '/' as separator.
        named: whether the file itself was named, rather than a folder that contains it.
    """

    path: Path
    root: Path
    name: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What was found under a list of paths.

    Attributes:
        videos: in order, each path once.
        ignored: number of files skipped in folders, by suffix ('' for none).
        missing: paths and patterns that match nothing.
        empty: paths that were named or matched and hold no video.
        unreadable: paths that cannot be read, and why.
        pictures: number of pictures skipped, by folder, in folders that would be a video if named.
        beside: the same for folders that would not be one, because videos lie beside or below the pictures.
        libraries: folders without a video in which the files of a library were skipped.
    """

    videos: list[FoundVideo] = field(default_factory=list)
    ignored: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    pictures: dict[str, int] = field(default_factory=dict)
    beside: dict[str, int] = field(default_factory=dict)
    libraries: list[str] = field(default_factory=list)


def find_videos(
    paths: Sequence[Path | str],
    leave_out: Path | None = None,
    known: Callable[[Path], bool] = lambda folder: False,
    library_parts: Callable[[Path], Collection[str]] = lambda folder: (),
) -> Found:
    """Find the videos in files, folders (searched recursively, sorted) and globs.

    A named file counts whatever its suffix; opening it shows whether it is a video. A folder of numbered
    pictures is a video, even if video files lie beside them, as from cameras that take both. A named folder
    with pictures but no video is a video however they are called. A folder found inside another is not,
    because it may be an album; nor are the crops of a fine-tuning. A file found both directly and through
    links keeps its own name.

    Args:
        leave_out: a folder to skip inside others, such as the library's own.
        known: whether a folder of pictures, whatever their names, already is a video because it was named
            once.
        library_parts: names to skip in a folder because they are a library's files: its album could be
            mistaken for pictures of a camera trap. Footage may lie beside them.
    """
    found = Found()
    out = None if leave_out is None else leave_out.resolve()
    seen: dict[Path, int] = {}
    for given in paths:
        if not str(given):
            found.missing.append("''")  # an unset shell variable; the working directory would be '.'
            continue
        try:
            matches = _expand(Path(given))
        except OSError as exc:
            found.unreadable.append((str(given), _why(given, exc)))
            continue
        if not matches:
            found.missing.append(str(given))
        for path in matches:
            try:
                videos = list(_videos_at(path, found, out, known, library_parts))
            except OSError as exc:
                found.unreadable.append((str(path), _why(path, exc)))
                continue
            if not videos and not any(Path(p).is_relative_to(path) for p, _ in found.unreadable):
                found.empty.append(str(path))
            for video in videos:
                try:
                    own = video.path.resolve()
                except RuntimeError:  # up to Python 3.12; with later versions, opening the file fails
                    found.unreadable.append((str(video.path), f"{video.path} is a link that leads to itself"))
                    continue
                place = seen.setdefault(own, len(found.videos))
                if place == len(found.videos):
                    found.videos.append(video)
                elif _through_link(found.videos[place]) and not _through_link(video):
                    found.videos[place] = video
    holding = {folder for video in found.videos for folder in (video.path, *video.path.parents)}
    beside = {name: count for name, count in found.pictures.items() if Path(name) in holding}
    pictures = {name: count for name, count in found.pictures.items() if name not in beside}
    libraries = [name for name in found.libraries if Path(name) not in holding]
    return replace(found, pictures=pictures, beside=beside, libraries=libraries)


def _through_link(video: FoundVideo) -> bool:
    """Whether the path from the named folder to the video goes through a link."""
    return video.path.resolve() != video.root.resolve() / video.name


def _expand(path: Path) -> list[Path]:
    """The path itself if it exists or is a link, else its matches as a glob.

    As in a shell, a name that begins with a dot is matched only by a part that begins with a dot itself.
    """
    if not is_gone(path) or path.is_symlink():
        return [path]
    if not glob.has_magic(str(path)):
        return []
    anchor, dotted = Path(path.anchor), [part for part in path.parts if part.startswith(".")]
    # Not glob.glob: its ** follows links upwards.
    return sorted(
        match
        for match in anchor.glob(str(path.relative_to(anchor)))
        if all(any(fnmatch(name, part) for part in dotted) for name in match.parts if name.startswith("."))
    )


def _why(path: Path | str, exc: OSError) -> str:
    return f"{path} cannot be read: {exc.strerror or exc}"


def _videos_at(
    path: Path,
    found: Found,
    out: Path | None,
    known: Callable[[Path], bool],
    library_parts: Callable[[Path], Collection[str]],
) -> Iterator[FoundVideo]:
    # Not is_dir(): since Python 3.14 it says False for a folder that it may not look at.
    if is_gone(path) or not stat.S_ISDIR(path.stat().st_mode):
        yield FoundVideo(path, path.parent, path.name, named=True)
        return
    # pathlib says that '.' lies in itself, and 'a/..' in 'a'.
    around = path.parent if path.name not in ("", "..") else path.resolve().parent
    whole = FoundVideo(path, around, path.resolve().name)
    among = Found()
    search = _Search(path, FolderSearch(path.resolve()), among, out, known, library_parts)
    videos = list(search.videos_of(whole))
    if not videos and not among.unreadable and among.pictures.pop(str(path), 0):
        videos = [whole]
        for picture in pictures_in(path):
            among.ignored[picture.suffix.lower()] -= 1
    found.unreadable.extend(among.unreadable)
    found.pictures.update(among.pictures)
    found.libraries.extend(name for name in among.libraries if name not in found.libraries)
    for suffix, count in among.ignored.items():
        if count:
            found.ignored[suffix] = found.ignored.get(suffix, 0) + count
    yield from videos


@dataclass(frozen=True, slots=True)
class _Search:
    """The search of one named folder.

    Attributes:
        root: the folder.
        folders: which of the folders below it to search.
        found: where to count what is skipped.
        out: real path of a folder to skip with everything in it; None for none.
        known: whether a folder of pictures is known to be a video.
        library_parts: names to skip in a folder.
    """

    root: Path
    folders: FolderSearch
    found: Found
    out: Path | None
    known: Callable[[Path], bool]
    library_parts: Callable[[Path], Collection[str]]

    def videos_of(self, whole: FoundVideo) -> Iterator[FoundVideo]:
        """The videos in a folder, named relative to the root; first the folder itself if it is one."""
        try:
            is_named = whole.path == self.root
            pictures = (is_named or not _of_fine_tuning(whole.path)) and (
                is_picture_video(whole.path, is_named)
                or (_holds_pictures_alone(whole.path) and self.known(whole.path))
            )
        except OSError as exc:
            self.found.unreadable.append((str(whole.path), _why(whole.path, exc)))
            return
        if pictures:
            yield whole
        yield from self._videos_below(whole.path, pictures)

    def _videos_below(self, folder: Path, is_video: bool) -> Iterator[FoundVideo]:
        """The videos inside a folder; counts all other files except the pictures of a video."""
        own = self.library_parts(folder)
        if own:
            self.found.libraries.append(str(folder))
        inside = sorted(folder.iterdir())
        read = frozenset(picture_names(folder)) if is_video else ()
        for path in inside:
            if path.name.startswith(".") or path.name in own:
                continue
            video = FoundVideo(path, self.root, path.relative_to(self.root).as_posix())
            try:
                is_folder = path.is_dir()
            except OSError as exc:  # a link to a place that may not be looked at
                self.found.unreadable.append((str(path), _why(path, exc)))
                continue
            if is_folder:
                if self._goes_into(path):
                    yield from self.videos_of(video)
            elif path.suffix.lower() in VIDEO_SUFFIXES:
                yield video
            elif path.name not in read:
                suffix = path.suffix.lower()
                self.found.ignored[suffix] = self.found.ignored.get(suffix, 0) + 1
                if suffix in IMAGE_SUFFIXES and not is_video and path.is_file():
                    self.found.pictures[str(folder)] = self.found.pictures.get(str(folder), 0) + 1

    def _goes_into(self, folder: Path) -> bool:
        """Whether to search a folder: what is to be left out is, unless the root itself lies in it."""
        out = self.out
        if out and folder.resolve().is_relative_to(out) and not self.folders.real.is_relative_to(out):
            return False
        return self.folders.goes_into(folder)


def is_picture_video(folder: Path, is_named: bool) -> bool:
    """Whether the pictures of a folder are one video: two or more, all numbered after the same prefix.

    Video files beside them do not matter in general: cameras that take both number both in one folder.

    Args:
        is_named: whether the user named the folder. If not, or if there are videos beside them, pictures
            named like 1.jpg and 2.jpg are an album.
    """
    prefixes: dict[str, int] = {}
    digits = 0
    for name in picture_names(folder):
        numbered = re.fullmatch(r"(.*?)(\d+)", PurePath(name).stem)
        if numbered is None:
            return False
        prefixes[numbered[1]] = prefixes.get(numbered[1], 0) + 1
        digits = max(digits, len(numbered[2]))
    if prefixes.keys() == {""} and digits <= _ALBUM_DIGITS and not (is_named and not _holds_video(folder)):
        return False
    return len(prefixes) == 1 and sum(prefixes.values()) >= 2


def _of_fine_tuning(folder: Path) -> bool:
    """Whether a folder of pictures is OUT/crops/videos or OUT/crops/query of a fine-tuning."""
    return folder.parent.name == "crops" and (folder.parent.parent / _FINE_TUNING).is_file()


def _holds_pictures_alone(folder: Path) -> bool:
    """Whether a folder holds pictures and no video file."""
    return not _holds_video(folder) and bool(pictures_in(folder))


def _holds_video(folder: Path) -> bool:
    return any(path.suffix.lower() in VIDEO_SUFFIXES and path.is_file() for path in folder.iterdir())


def check_name(path: Path) -> None:
    """Check that a video's path can be stored as text.

    Raises:
        VideoOpenError: it is not valid UTF-8.
    """
    try:
        str(path).encode()
    except UnicodeEncodeError as exc:
        raise VideoOpenError(f"{path} has a name that is not UTF-8 text; rename the file") from exc
