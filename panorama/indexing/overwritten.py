"""Indexed films come in as they are now; which of them hold something else goes out, as a line for users."""

from __future__ import annotations

from panorama.lines import counted, some
from panorama.store import KnownFile, Store


class Overwritten:
    """The films of a run whose files held something else when they were indexed before."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._before: dict[str, str] = {}  # name -> content hash

    def add(self, was: KnownFile | None, is_folder: bool) -> None:
        """Note what a file held, if the library knew it and it does not go on; see `Ticket.was`."""
        if was is not None and not is_folder:
            self._before[was.name] = was.content_hash

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
