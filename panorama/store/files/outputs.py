"""The path of a file for users comes in; a path to write goes out, unless another file would be lost there.

Every file for users is written this way: sheets, clips, pages, pictures, rows, shapes, calibrations.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from panorama.errors import LibraryWriteError, UsageError
from panorama.store.files.layout import own_files
from panorama.whole_files import replaced

JSON = (".json", "")
"""Suffixes of shapes and calibrations; '' allows names such as /dev/stdout."""

OTHERS = frozenset(
    [
        ".3g2", ".3gp", ".asf", ".avi", ".dav", ".divx", ".dv", ".f4v", ".flv", ".gif", ".h264", ".264",
        ".h265", ".265", ".hevc", ".ivf", ".m1v", ".m2p", ".m2ts", ".m2v", ".m4v", ".mjpeg", ".mjpg", ".mkv",
        ".mp4", ".mpe", ".mpeg", ".mpg", ".mts", ".mxf", ".nut", ".obu", ".ogv", ".qt", ".rm", ".rmvb",
        ".tod", ".tp", ".trp", ".ts", ".webm", ".wmv", ".wtv", ".y4m", ".avif", ".bmp", ".heic", ".heif",
        ".hif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
        ".vob", ".mov",
        ".htm", ".html", ".safetensors", ".sqlite", ".toml",
    ]
)  # fmt: skip
"""Suffixes that no table of rows may have: those of videos, pictures, pages, models and catalogs."""


def check_output(
    out: Path, suffixes: Collection[str] | None = None, *, what: str = "it", videos: Collection[str] = ()
) -> None:
    """Refuse a path for a user's file if it would replace something of another kind.

    Args:
        suffixes: the allowed suffixes in lower case, '' for none; None allows all but OTHERS.
        what: the kind of file for messages, for example 'a sheet'.
        videos: uris of the library's videos, including folders of pictures.

    Raises:
        UsageError: the path is one of a library's own files or a video, lies in a folder of pictures that is
            a video, or has the suffix of another kind of file.
    """
    refuse_own_files(out)
    real = _real(out)
    if str(real) in videos:
        raise UsageError(f"{out} is a video of the library, which {what} would replace; name another file")
    if str(real.parent) in videos:
        raise UsageError(
            f"{out} lies in a folder of pictures that is a video of the library; name a file elsewhere"
        )
    suffix = out.suffix.lower()
    if suffixes is None and suffix in OTHERS:
        raise UsageError(
            f"the name {out.name!r} does not fit {what};"
            " choose a name that ends in .csv, .json, .parquet or .txt"
        )
    if suffixes is not None and suffix not in suffixes:
        named = ", ".join(filter(None, suffixes))
        raise UsageError(f"{what} is written as {named}, got {out.name!r}")


def refuse_own_files(out: Path) -> None:
    """Raise UsageError if a file, or a folder for files, lies among a library's own files."""
    real = _real(out)
    for inner, root in zip((real, *real.parents), real.parents, strict=False):
        if inner.name in own_files(root):
            raise UsageError(
                f"{out} is one of the library's own files" if inner == real else
                f"{out} lies among the own files of the library {root}"
            )  # fmt: skip


def _real(path: Path) -> Path:
    """The path with links resolved; a name that no file can have stays, and writing will report it."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """A block's path to write; afterwards the file there replaces `out`, a file for users, as a whole.

    If the block fails, the old file stays. The folder of `out` is created. The data is not synced to disk.
    The temporary file is newly created under a random name, so that no link of other users is followed in a
    folder where they may write. Devices and pipes are written directly. What a descriptor of this process has
    open, such as the log behind /dev/stdout, gets the content where it stands; it is not replaced.

    Raises:
        UsageError: `out` is one of a library's own files.
        LibraryWriteError: the file cannot be written.
        BrokenPipeError: `out` is a pipe whose reader has closed it.
    """
    if out.name == "":
        raise LibraryWriteError(f"{out} cannot be written: it is a folder; name a file in it")
    refuse_own_files(out)
    with _told(out):
        descriptor = _descriptor_of(out)
    if descriptor is not None:
        with _told(out), _handed_to(descriptor) as partial:
            yield partial
        return
    with _told(out):
        is_stream = out.exists() and not (out.is_file() or out.is_dir())
    if is_stream:
        with _told(out):
            # A device or a pipe: do not replace it by a file. Use the given name: the links /dev/stdout and
            # /dev/fd/63 can be opened, but the paths that they resolve to cannot.
            yield out
        return
    with _told(out):
        if out.is_symlink():
            out = out.resolve()  # as in the shell: write the link's target, and keep the link
    with _told(out):
        out.parent.mkdir(parents=True, exist_ok=True)
        with replaced(out) as partial:
            yield partial


def _descriptor_of(out: Path) -> int | None:
    """The descriptor of this process that a path names, by itself or by links, and that has a file open.

    None for a pipe or a device, which can be opened by its name, and for any other path.
    """
    folders = {Path(name).resolve() for name in ("/dev/fd", "/proc/self/fd")}
    if not (out.is_file() or out.is_socket()):
        return None
    while out.parent.resolve() not in folders:
        if not out.is_symlink():
            return None
        out = out.parent / out.readlink()
    return int(out.name)


@contextmanager
def _handed_to(descriptor: int) -> Iterator[Path]:
    """A block's path to write; afterwards a descriptor gets the content, if the block does not fail.

    Opening the file behind it again would empty it, or write over what is there already.
    """
    with tempfile.TemporaryDirectory(prefix="panorama-") as folder:
        partial = Path(folder) / "output"
        partial.touch()
        yield partial
        with partial.open("rb") as content, os.fdopen(os.dup(descriptor), "wb") as file:
            shutil.copyfileobj(content, file)


@contextmanager
def _told(out: Path) -> Iterator[None]:
    """Turn errors of the system while a user's file is written into LibraryWriteError."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader has enough: not an error of ours
    except OSError as exc:
        raise LibraryWriteError(f"{out} cannot be written: {exc.strerror or exc}") from exc
