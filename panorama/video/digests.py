"""A path with its mark comes in; a digest of what it holds goes out, and whether it still holds that."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from panorama.errors import VideoError
from panorama.frames import PICTURES_PER_SECOND
from panorama.pictures.picture_size import is_plain
from panorama.video.faults import about, reachable
from panorama.video.marks import FileMark, digest_of
from panorama.video.pictures import (
    SIZED_PICTURES,
    spread,
    was_deleted,
)

_BLOCK_BYTES = 1 << 20
_SAMPLES = 8
_SAMPLE_BYTES = 8192
_BY_LEVELS = b"by levels, flat"
"""Mark for digests of folders whose pictures are not all plain: earlier versions decoded these otherwise."""


def content_sample(mark: FileMark) -> str:
    """Hex digest of eight samples of a file's bytes, which reveals another file of the same size and time.

    For a folder of pictures: of their names and sizes in order, and of how they are decoded. It reveals other
    pictures, and stays the same for a copy of the folder.

    Args:
        mark: the file as it is now, or the folder at the moment that counts.

    Raises:
        VideoOpenError: the file cannot be read.
    """
    with reachable(mark.path):
        if mark.is_folder:
            parts = [b"%b\0%d\0" % (name, size) for name, size, _ in mark.pictures]
            return digest_of([*parts, _read_by(mark.path, [name for name, *_ in mark.pictures])]).hex()
        digest = hashlib.blake2b(digest_size=16)
        with mark.path.open("rb", buffering=0) as file:
            last = max(0, file.seek(0, os.SEEK_END) - _SAMPLE_BYTES)
            for piece in range(_SAMPLES):
                file.seek(last * piece // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def content_hash(mark: FileMark, wait: Callable[[], None] = lambda: None) -> str:
    """SHA-256 hex digest of a file's bytes, as many as it had when it was marked.

    For a folder of pictures: of their rate, of the names, sizes and bytes of the marked ones in order, and of
    how they are decoded. So the hash belongs to the marked size also if the file or folder grows meanwhile.

    Args:
        wait: called after each block that is read; what it raises ends the reading.

    Raises:
        VideoOpenError: the file cannot be read.
    """
    with reachable(mark.path):
        digest, read = next(_beginnings(mark, None if mark.is_folder else mark.size, wait))
        digest.update(_read_by(mark.path, sorted(read)))
    return digest.hexdigest()


def _beginnings(
    mark: FileMark, size: int | None, wait: Callable[[], None]
) -> Iterator[tuple[hashlib._Hash, list[bytes]]]:
    """The digest of the first `size` bytes, without how pictures are decoded, and the names of its pictures.

    If empty pictures of a folder follow, each of them makes another beginning of that size. The digests are
    copies; the list of names is one and the same, and grows.

    Args:
        size: for a folder, the total of its first pictures; None for all.
        wait: called after each block.
    """
    digest = hashlib.sha256()
    left = sys.maxsize if size is None else size
    read: list[bytes] = []
    is_folder = mark.is_folder
    if is_folder:
        digest.update(f"{PICTURES_PER_SECOND} pictures a second\0".encode())  # another rate gives other rows
    for part in mark.in_order() if is_folder else [mark.path]:
        file = _opened(part) if is_folder else part.open("rb")
        if file is None:
            continue
        with file, about(part):
            if is_folder:
                length = file.seek(0, os.SEEK_END)
                if not left:
                    yield digest.copy(), read
                    if length:
                        return
                read.append(os.fsencode(part.name))
                digest.update(b"%b\0%d\0" % (read[-1], length))
                file.seek(0)
            while block := file.read(min(_BLOCK_BYTES, left)):
                digest.update(block)
                left -= len(block)
                wait()
    yield digest.copy(), read


def _opened(picture: Path) -> BinaryIO | None:
    """Open a picture of a folder; an empty stream for a dead link, None if it was deleted meanwhile."""
    if picture.is_symlink() and not picture.exists():
        return io.BytesIO()
    try:
        return picture.open("rb")
    except FileNotFoundError as exc:
        if was_deleted(picture, exc):
            return None
        raise


def _read_by(folder: Path, names: Sequence[bytes]) -> bytes:
    """_BY_LEVELS, or b"" if all pictures are plain."""
    some = spread(names, SIZED_PICTURES)
    return b"" if all(is_plain(folder / os.fsdecode(name)) for name in some) else _BY_LEVELS


def goes_on(mark: FileMark, size: int, content: str, wait: Callable[[], None] = lambda: None) -> bool:
    """Whether a file has only grown: it begins with its former content, so it is the same recording.

    For a folder of pictures, whether new ones follow the former ones. A file whose beginning was rewritten,
    as in a Matroska file when recording ends, looks like another recording.

    Args:
        mark: what is there now.
        size, content: the former size and hash, from a former mark and `content_hash`.
        wait: as in `content_hash`.

    Raises:
        VideoError: the file cannot be read.
    """
    more = mark.size - size
    # A folder of the same size may hold the same pictures, which are decoded in another way now.
    if more < 0 or (not more and not mark.is_folder):
        return False
    with reachable(mark.path):
        for digest, read in _beginnings(mark, size, wait):
            if digest.hexdigest() == content:  # decoded plainly, or indexed by an earlier version
                return True
            digest.update(_BY_LEVELS)
            if digest.hexdigest() == content:
                return _read_by(mark.path, sorted(read)) == _BY_LEVELS
    return False


def check_same(
    mark: FileMark, content: str, is_decoded: bool, wait: Callable[[], None] = lambda: None
) -> None:
    """Check that what was or will be decoded is what was hashed: a camera may rotate its files meanwhile.

    A file may grow, as one that a recorder writes: then the hash is that of its beginning. More pictures may
    follow in a folder. Once decoded, a file may be gone, and pictures may be deleted.

    Args:
        mark: from before the hash.
        content: the hash of the mark, by `content_hash`.
        is_decoded: whether it is decoded already; otherwise it was just opened.
        wait: as in `content_hash`.

    Raises:
        VideoError: it holds something else now, or cannot be read.
    """
    path = mark.path
    try:
        now = FileMark.of(path)
    except VideoError:
        if is_decoded:
            return  # deleted meanwhile, or its drive is gone: nothing took its place
        raise
    if now == mark or (is_decoded and mark.has_no_other_pictures(now)):
        return
    # What grew is read once more only when it is decoded. A folder tells enough by its pictures.
    if mark.has_grown_to(now) and not is_decoded:
        return
    # Of a folder, all that is there now: what joined the marked pictures is decoded, too.
    if content_hash(now if mark.is_folder else mark, wait) != content:
        raise VideoError(f"{path} changed while it was being indexed; run the same command again")
