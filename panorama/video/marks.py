"""A path comes in; what the file system says of the file there goes out, to tell later if it is the same."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from panorama.errors import VideoError
from panorama.lines import natural_key
from panorama.video.pictures import picture_states


@dataclass(frozen=True, slots=True)
class FileMark:
    """A file or folder of pictures as it was at one moment.

    Attributes:
        size: bytes; for a folder, of all its pictures.
        mtime_ns: modification time, wrapped into 64 bits; for a folder, a 63-bit digest of the names and
            times of its pictures. The latest time would not do, because swapping two pictures changes neither
            it nor the sum.
        node: device, inode and time of the last change of a file; None for a folder.
        pictures: name, size and modification time in ns of each picture of a folder, by name; else empty.
    """

    path: Path
    size: int
    mtime_ns: int
    node: tuple[int, int, int] | None
    pictures: tuple[tuple[bytes, int, int], ...] = ()

    @classmethod
    def of(cls, path: Path) -> FileMark:
        """The mark of what is there now.

        Raises:
            VideoError: it cannot be read, or is neither a folder nor a regular file (a pipe, a device).
        """
        try:
            if path.is_dir():
                # The folder's own time does not change when a picture is overwritten.
                pictures = tuple(picture_states(path))
                times = digest_of(b"%b\0%d\0" % (name, mtime_ns) for name, _, mtime_ns in pictures)
                total, time = sum(size for _, size, _ in pictures), int.from_bytes(times[:8], "big") >> 1
                return cls(path, total, time, None, pictures)
            found = path.stat()
        except OSError as exc:
            raise VideoError(f"{path} cannot be read: {exc.strerror or exc}") from exc
        if not stat.S_ISREG(found.st_mode):
            raise VideoError(f"{path} is not a regular file; a video is a file or a folder of pictures")
        node = (found.st_dev, found.st_ino, found.st_ctime_ns)
        # The catalog's integers end in 2262. It is only compared, and wrapped times differ if the times do.
        mtime_ns = (found.st_mtime_ns + (1 << 63)) % (1 << 64) - (1 << 63)
        return cls(path, found.st_size, mtime_ns, node)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of pictures."""
        return self.node is None

    def in_order(self) -> list[Path]:
        """The pictures of a folder in the order in which a reader takes them."""
        return [self.path / os.fsdecode(name) for name, *_ in _in_order(self.pictures)]

    @property
    def state(self) -> tuple[int, int]:
        """Size and time, as the catalog keeps them."""
        return self.size, self.mtime_ns

    def has_grown_to(self, now: FileMark) -> bool:
        """Whether this is the same file and longer now, or more pictures follow those that were there."""
        if self.node is None or now.node is None:
            return self.node == now.node and _in_order(now.pictures)[: len(self.pictures)] == _in_order(
                self.pictures
            )
        return self.node[:2] == now.node[:2] and self.size < now.size

    def has_no_other_pictures(self, now: FileMark) -> bool:
        """Whether this is a folder, and each of its pictures is as it was or was deleted."""
        there = {name: state for name, *state in now.pictures}
        return self.is_folder and all(there.get(name, state) == state for name, *state in self.pictures)


def _in_order(pictures: Iterable[tuple[bytes, int, int]]) -> list[tuple[bytes, int, int]]:
    """In the order in which a reader takes them."""
    return sorted(pictures, key=lambda one: natural_key(os.fsdecode(one[0])))


def file_state(path: Path) -> tuple[int, int]:
    """Size of a file, and its modification time in ns; for a folder of pictures, see `FileMark`.

    Raises:
        VideoError: it cannot be read, or is neither a folder nor a regular file (a pipe, a device).
    """
    return FileMark.of(path).state


def digest_of(parts: Iterable[bytes]) -> bytes:
    """(16 bytes) BLAKE2b of the parts, one after the other."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.digest()
