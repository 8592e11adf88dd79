"""Names, paths and patterns come in; the library's videos that they mean go out, and missing files."""

from __future__ import annotations

import glob
import os
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import takewhile
from pathlib import Path, PurePath

import pyarrow as pa

from panorama.commands import command
from panorama.errors import UnknownVideo, VideoError, VideoOpenError, near, unknown
from panorama.folders import emptied_folders, video_is_gone
from panorama.lines import composed, counted, some
from panorama.video import FileMark, content_sample

BELOW = ("**", "*")
"""Parts to append to a folder's parts to match all files in it at any depth."""


def names_of(videos: Sequence[str | Path] | str | Path, listed: pa.Table) -> list[str]:
    """The names in the library of one or several videos, given by name or path, each once.

    Args:
        listed: the columns video and uri of all videos.

    Raises:
        UnknownVideo: the library does not have one of them.
    """
    names = listed.column("video").to_pylist()
    known, by_uri = set(names), dict(zip(listed.column("uri").to_pylist(), names, strict=True))
    found: dict[str, None] = {}
    for given in [videos] if isinstance(videos, (str, os.PathLike)) else videos:
        video = os.fspath(given)
        name = composed(video) if composed(video) in known else by_uri.get(real_path(video))
        if name is None:
            raise UnknownVideo(unknown("video", video, names, command("videos")))
        found[name] = None
    return list(found)


def real_path(video: str | Path) -> str:
    """The path of a video, links followed; as it is, which may be a name, without a working directory."""
    try:
        return str(Path(video).resolve())
    except FileNotFoundError:
        return str(video)


def uri_of(video: str | Path, listed: pa.Table) -> str:
    """The path at which a video, given by name or path, was indexed.

    Args:
        listed: the columns video and uri of all videos.

    Raises:
        UnknownVideo: the library does not have it.
    """
    (name,) = names_of(video, listed)
    return str(listed.column("uri")[listed.column("video").to_pylist().index(name)].as_py())


@dataclass(frozen=True, slots=True)
class Meant:
    """What one word on the command line means.

    Attributes:
        given: the word.
        names: of the videos that it means, at least one, as the library lists them.
        several: whether it is a folder or a pattern, so that nobody named these videos one by one.
    """

    given: str
    names: tuple[str, ...]
    several: bool


def meant(videos: Sequence[str], listed: pa.Table) -> list[Meant]:
    """What names, paths, folders and patterns mean; each is taken as the first of these that fits.

    A folder means everything below it, and itself if its pictures are a video, whether it is given by name or
    by path. In a pattern, `*`, `?` and `[a-z]` stay within one part and `**` means any number of folders, as
    for `index`. Folders and patterns are compared with names first, then with paths. A pattern that fits no
    video means the folders that it fits.

    Args:
        listed: the columns video and uri of all videos.

    Raises:
        UnknownVideo: one of them means no video.
    """
    names = listed.column("video").to_pylist()
    uris = listed.column("uri").to_pylist()
    by_name, by_uri = _Places(names), _Places(uris)
    found = []
    for given in videos:
        name = _named(given, by_name, by_uri, uris)
        if name is not None:  # a folder of pictures is a video, but may also contain clips
            place = by_name.of[name]
            places = {place, *by_name.below(name), *by_uri.below(uris[place])}
        elif (real := os.path.realpath(given)) in by_uri.of:
            places = {by_uri.of[real], *by_uri.below(real)}
        else:
            of_several = _of_several(given, names, uris) if given else ()
            if not of_several:
                raise UnknownVideo(_unmet(given, names))
            found.append(Meant(given, of_several, several=True))
            continue
        found.append(Meant(given, tuple(names[place] for place in sorted(places)), several=len(places) > 1))
    return found


class _Places:
    """Places in a list of names or paths: of each one, and of those below one.

    Most names are of films, below which nothing lies. So all are put in order, which takes longer than all
    else, only for the first name or path of a folder.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.of = {text: place for place, text in enumerate(texts)}

    def below(self, path: str) -> list[int]:
        """The places of what lies below a path at any depth."""
        if path not in self._folders:
            return []
        first = bisect_left(self._ordered, f"{path}/")
        last = bisect_left(self._ordered, f"{path}0")  # 0 comes after /
        return [self.of[text] for text in self._ordered[first:last]]

    @cached_property
    def _folders(self) -> set[str]:
        """All folders in which something lies, at any depth."""
        folders: set[str] = set()
        for folder in {text.rpartition("/")[0] for text in self.of}:
            while folder and folder not in folders:
                folders.add(folder)
                folder = folder.rpartition("/")[0]
        return folders

    @cached_property
    def _ordered(self) -> list[str]:
        return sorted(self.of)


def _named(given: str, by_name: _Places, by_uri: _Places, uris: Sequence[str]) -> str | None:
    """The name of the video that a word names, with a / behind it if the video is a folder; None for none."""
    name = composed(given)
    if name in by_name.of:
        return name
    name = name.rstrip("/")
    if name == composed(given) or name not in by_name.of:
        return None
    uri = uris[by_name.of[name]]
    is_folder = by_name.below(name) or by_uri.below(uri) or os.path.isdir(uri)  # noqa: PTH112  may be no path
    return name if is_folder else None


def _of_several(given: str, names: Sequence[str], uris: Sequence[str]) -> tuple[str, ...]:
    """The names of the videos that a folder or a pattern means; () for none."""
    is_folder = not glob.has_magic(given) or given.endswith("/")
    of_names, of_paths = (PurePath(given).parts, names), (_resolved(Path(given), False), uris)
    # PurePath drops the dot that marks a path: "." would mean all names, "./gate" everything in any gate.
    ways = (of_paths,) if given.split("/")[0] == "." else (of_names, of_paths)
    for below in (BELOW,) if is_folder else ((), BELOW):
        for pattern, texts in ways:
            fits = (_fits(PurePath(text).parts, (*pattern, *below)) for text in texts)
            if fitting := tuple(name for name, does in zip(names, fits, strict=True) if does):
                return fitting
    return ()


def _resolved(path: Path, is_folder: bool) -> tuple[str, ...]:
    """The parts of an absolute path or pattern, links resolved; parts without wildcards are escaped."""
    plain = path.parts
    if not is_folder:
        plain = tuple(takewhile(lambda part: not glob.has_magic(part), plain))
    real = Path(os.path.realpath(Path(*plain)))  # also resolves links that form a loop
    return (*map(glob.escape, real.parts), *path.parts[len(plain) :])


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path fit the parts of a pattern."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return (
        bool(parts)
        and fnmatchcase(composed(parts[0]), composed(pattern[0]))
        and _fits(parts[1:], pattern[1:])
    )


def _unmet(given: str, names: Sequence[str]) -> str:
    """The message for a name, folder or pattern that means no video."""
    if not glob.has_magic(given):
        folders = {f"{folder}/" for name in names for folder in PurePath(name).parents if folder.name}
        return unknown("video", given, [*names, *sorted(folders)], command("videos"))
    deeper = f"**/{given}"
    if below := _of_several(deeper, names, names):
        many = counted(len(below), "video")
        return f"no video matches {given!r}: * stays within one folder; {deeper!r} matches {many}"
    return f"no video matches {given!r}.{near(given, names)} See: {command('videos')}"


def file_of(video: str | Path, videos: Callable[[], pa.Table]) -> Path:
    """The file of a video given by path or by name.

    Args:
        videos: returns the columns video and uri of all videos of the library.

    Raises:
        VideoOpenError: there is neither such a file nor a video of that name, or access is denied.
    """
    if os.path.exists(video):  # noqa: PTH110  a name in the library may not be a possible file name
        return Path(video)
    listed = videos()
    by_name = dict(zip(*(listed.column(name).to_pylist() for name in ("video", "uri")), strict=True))
    name = composed(str(video))
    if name not in by_name:
        try:
            Path(video).stat()
        except PermissionError as exc:
            raise VideoOpenError(f"{video} cannot be read: {exc.strerror}") from exc
        except (OSError, ValueError):  # there is no such file, or no file can have this name
            pass
        like = near(str(video), by_name)
        raise VideoOpenError(
            f"there is no file {video}, and no video of that name.{like} See: {command('videos')}"
        )
    return Path(by_name[name])


def what_gone_means() -> str:
    """The consequences of a missing video file, and what to do."""
    return (
        "queries answer as before, clips and sheets do not; index a moved file where it is now, or"
        f" remove the video: `{command('remove', '--missing')}`"
    )


def missing(videos: pa.Table) -> list[bool]:
    """For every video, whether its file is missing; queries do not need the file, pictures do.

    Args:
        videos: with the column uri.
    """
    return [video_is_gone(Path(uri)) for uri in videos.column("uri").to_pylist()]


@dataclass(frozen=True, slots=True)
class GoneRoot:
    """A folder that was indexed and has missing files.

    Attributes:
        root: the folder; for a file indexed by name, its folder; for files behind a link, the link's target.
        gone: the names of the videos whose files are missing, with the path of each file.
        left: number of its other videos.
    """

    root: str
    gone: Mapping[str, str]
    left: int

    @property
    def unmounted(self) -> tuple[str, ...]:
        """Folders in which nothing is left, as if a disk were not mounted.

        Deleted files, in contrast, leave others beside them, or their folder is deleted too.
        """
        return emptied_folders(self.gone.values()) if self.left else (self.root,)


def gone_by_root(videos: pa.Table) -> list[GoneRoot]:
    """The videos whose files are missing, by the folder that was indexed.

    Args:
        videos: with the columns video, uri and root.
    """
    columns = (videos.column(name).to_pylist() for name in ("video", "uri", "root"))
    found: dict[str, tuple[dict[str, str], list[str]]] = {}
    for name, uri, root, absent in zip(*columns, missing(videos), strict=True):
        gone, left = found.setdefault(_root_of(name, uri, root), ({}, []))
        if absent:
            gone[name] = uri
        else:
            left.append(name)
    return [GoneRoot(root, gone, len(left)) for root, (gone, left) in found.items() if gone]


def _root_of(name: str, uri: str, root: str) -> str:
    """The folder that was indexed, or the target of a link in it."""
    path = PurePath(uri)
    if path.is_relative_to(root):
        return root
    parts = zip(reversed(path.parts), reversed(PurePath(name).parts), strict=False)
    told = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], parts))
    return str(path.parents[max(told, 1) - 1])


def gone_from(paths: Sequence[str | Path], videos: pa.Table) -> dict[str, str]:
    """The videos indexed from some folders and patterns whose files are missing there: name -> path.

    Args:
        paths: as passed to `index`; files are ignored, since they are looked up by name.
        videos: with the columns video and uri.
    """
    patterns: list[tuple[str, ...]] = []
    for path in map(Path, paths):
        if not os.path.isfile(path):  # noqa: PTH113  the name may not be a possible file name
            is_folder = not glob.has_magic(str(path)) or os.path.isdir(path)  # noqa: PTH112  as above
            place = _resolved(path, is_folder)
            # `index` also searches the folders that fit a pattern.
            patterns += [(*place, *BELOW)] if is_folder else [place, (*place, *BELOW)]
    named = zip(*(videos.column(name).to_pylist() for name in ("video", "uri")), strict=True)
    return {
        name: uri
        for name, uri in named
        if any(_fits(PurePath(uri).parts, pattern) for pattern in patterns) and video_is_gone(Path(uri))
    }


def gone_remarks(paths: Sequence[str | Path], videos: pa.Table) -> tuple[str, ...]:
    """One line about the videos that are missing where they were indexed; () if there are none."""
    gone = gone_from(paths, videos)
    if not gone:
        return ()
    many = counted(len(gone), "video that was indexed there is", "videos that were indexed there are")
    # Look at these folders only: others may be on disks that respond slowly.
    empty = emptied_folders(gone.values())
    unmounted = f". Nothing is left in {some(empty)}: is its disk mounted?" if empty else ""
    return (f"{many} missing now, {some([*gone])}: {what_gone_means()}{unmounted}",)


def resized(videos: pa.Table) -> list[bool]:
    """For every video, whether its file exists but has another size than when it was indexed.

    For a folder of pictures, whether the pictures' names or sizes differ. Of films nothing is read, so that
    thousands can be listed; `replaced` also notices another film of the same size.

    Args:
        videos: with the columns uri, size and content_sample.
    """
    return _judged(videos, lambda mark: content_sample(mark) if mark.is_folder else None)


def replaced(videos: pa.Table) -> list[bool]:
    """For every video, whether its file exists but no longer is what was indexed.

    Boxes drawn on the frames may then be wrong. Reads 64 kB of each film: recorders write over files of fixed
    size.

    Args:
        videos: as for `resized`.
    """
    return _judged(videos, content_sample)


def _judged(videos: pa.Table, sampled: Callable[[FileMark], str | None]) -> list[bool]:
    """For every video, whether its file has another size or another sample.

    Args:
        sampled: returns the sample of a file as it is now; None if its size must do.
    """
    columns = (videos.column(name).to_pylist() for name in ("uri", "size", "content_sample"))
    found = []
    for uri, size, sample in zip(*columns, strict=True):
        try:
            mark = FileMark.of(Path(uri))
            now = None if sample is None else sampled(mark)  # earlier versions stored none
            is_left = not mark.is_folder or mark.pictures
            found.append(bool(is_left) and (mark.size != size or now not in (None, sample)))
        except VideoError:  # missing or unreadable: reported elsewhere
            found.append(False)
    return found


def unshowable(names: Set[str], videos: pa.Table) -> set[str]:
    """Those of the named videos whose files are missing or no longer what was indexed.

    Args:
        names: of the videos to look at.
        videos: with the column video and those that `replaced` needs.
    """
    listed = _only(names, videos)
    columns = (listed.column(name).to_pylist() for name in ("video", "uri"))
    return {
        name
        for name, uri, other in zip(*columns, replaced(listed), strict=True)
        if other or video_is_gone(Path(uri))
    }


def replaced_remarks(shown: Set[str], videos: pa.Table) -> tuple[str, ...]:
    """A line for each video that pictures are cut from and that is no longer what was indexed.

    Args:
        shown: names of the videos that pictures are cut from.
        videos: with the column video and those that `replaced` needs.
    """
    listed = _only(shown, videos)
    named = zip(listed.column("video").to_pylist(), replaced(listed), strict=True)
    return tuple(
        f"the file of {name} has changed since it was indexed: pictures are cut from the new file at the"
        " old times and boxes; index it again"
        for name, other in named
        if other
    )


def _only(names: Set[str], videos: pa.Table) -> pa.Table:
    """The rows of videos with these names."""
    return videos.filter(pa.array([name in names for name in videos.column("video").to_pylist()], pa.bool_()))
