"""Indexed films come in as they are now; which of them hold something else goes out, as a line for users."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from panorama.errors import VideoError
from panorama.lines import counted, some
from panorama.store import Store, VideoRow
from panorama.video import FileMark, goes_on


class Overwritten:
    """The films of a run whose files held something else when they were indexed before.

    Args:
        wait: called after each block that is read of a file; what it raises ends the work.
    """

    def __init__(self, store: Store, wait: Callable[[], None]) -> None:
        self._store = store
        self._wait = wait
        self._before: dict[str, str] = {}  # name -> content hash

    def look(self, row: VideoRow, mark: FileMark) -> None:
        """Look at a file before its row is stored; of one that is longer now, read what it held again."""
        known = self._store.known_file(row.uri)
        if known is None or known.content_hash == row.content_hash or row.continues is not None:
            return
        with suppress(VideoError):  # it changes once more
            if not mark.is_folder and not goes_on(mark, known.size, known.content_hash, self._wait):
                self._before[known.name] = known.content_hash

    def remarks(self) -> tuple[str, ...]:
        """One line on those whose former content the library has no more; () for none."""
        lost = [name for name, content in self._before.items() if self._store.known_content(content) is None]
        if not lost:
            return ()
        many = counted(len(lost), "file holds", "files hold")
        return (
            f"{many} something else than when last indexed, {some(lost)}: what was found then is no longer in"
            " the library. If cards or disks take turns at one place, index a copy of each from a folder of"
            " its own",
        )
