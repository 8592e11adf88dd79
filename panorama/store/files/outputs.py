"""Where a user wants a file written enters; a place for it leaves, unless something else would be lost there.

Every file for users goes this way: sheets, clips, pages, pictures, rows, shapes, calibrations.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from panorama.errors import LibraryWriteError, UsageError
from panorama.store.files.layout import own_files

JSON = (".json", "")
"""What shapes and calibrations are called; '' also for what is no file, as /dev/stdout."""

OTHERS = frozenset(
    [
        ".3g2", ".3gp", ".asf", ".avi", ".dav", ".divx", ".dv", ".f4v", ".flv", ".gif", ".h264", ".264",
        ".h265", ".265", ".hevc", ".ivf", ".m1v", ".m2p", ".m2ts", ".m2v", ".m4v", ".mjpeg", ".mkv", ".mov",
        ".mp4", ".mpe", ".mpeg", ".mpg", ".mts", ".mxf", ".nut", ".obu", ".ogv", ".qt", ".rm", ".rmvb",
        ".tod", ".tp", ".trp", ".ts", ".webm", ".wmv", ".wtv", ".y4m", ".avif", ".bmp", ".heic", ".heif",
        ".hif", ".jfif", ".jp2", ".jpe", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
        ".vob",
        ".htm", ".html", ".safetensors", ".sqlite", ".toml",
    ]
)  # fmt: skip
"""What no table of rows is called, in whatever format: videos, pictures, pages, models, catalogs."""


def check_output(
    out: Path, suffixes: Collection[str] | None = None, *, what: str = "it", videos: Collection[str] = ()
) -> None:
    """Refuse a file for users whose place or name is that of something else; one of its kind is replaced.

    Args:
        suffixes: those that it may have, in lower case, '' for none; None for any of no other kind.
        what: it is, as in 'a sheet'.
        videos: uris of the library's videos, folders of pictures among them.

    Raises:
        UsageError: it is one of a library's own files or a video, or its suffix is that of another kind.
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
    """UsageError where a file, or a folder for files, lies among what a library consists of."""
    real = _real(out)
    for inner, root in zip((real, *real.parents), real.parents, strict=False):
        if inner.name in own_files(root):
            raise UsageError(
                f"{out} is one of the library's own files" if inner == real else
                f"{out} lies among the own files of the library {root}"
            )  # fmt: skip


def _real(path: Path) -> Path:
    """Where links lead; a name that no file can have leads nowhere, and is told when it is written."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


@contextmanager
def whole_file(out: Path) -> Iterator[Path]:
    """Where to write what becomes `out`, a file for users; until all of it is there what was there stays.

    Its folder is made. Nobody waits for the disk. What is written lies under a name that nobody can foresee,
    in a file that is made for it: where others may write, no link of theirs is followed.

    Raises:
        UsageError: it is one of a library's own files.
        LibraryWriteError: the file cannot be written.
        BrokenPipeError: it is a pipe whose reader has left.
    """
    if out.name == "":
        raise LibraryWriteError(f"{out} cannot be written: it is a folder; name a file in it")
    refuse_own_files(out)
    with _told(out):
        is_stream = out.exists() and not (out.is_file() or out.is_dir())
    if is_stream:
        with _told(out):
            # A device or a pipe: a file in its place would be the end of it. By the name given: the links
            # /dev/stdout and /dev/fd/63 can be opened, what they say of where they lead can not.
            yield out
        return
    with _told(out):
        if out.is_symlink():
            out = out.resolve()  # as the shell does: what the link leads to is written, and the link stays
    partial = out.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with _told(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            partial.touch(exist_ok=False)
            yield partial
            partial.replace(out)
    finally:
        with suppress(OSError):  # the folder may be none
            partial.unlink(missing_ok=True)


@contextmanager
def _told(out: Path) -> Iterator[None]:
    """What the system says while a file for users is written, as one LibraryWriteError."""
    try:
        yield
    except BrokenPipeError:
        raise  # who reads has enough: no error of ours
    except OSError as exc:
        raise LibraryWriteError(f"{out} cannot be written: {exc.strerror or exc}") from exc
