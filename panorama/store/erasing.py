"""A library in which something was forgotten enters; what forgetting leaves of it on the disk goes.

Rows go with the transaction that forgets, pictures and the bytes of rows after it. A mark in the catalog, set
by that transaction, says that they are to go, whatever ends this process in between.
"""

from __future__ import annotations

import contextlib

from panorama.commands import command
from panorama.errors import LibraryWriteError
from panorama.store import album
from panorama.store.layout import Place
from panorama.store.own_names import pictures_in


def finish(place: Place, wait_seconds: float | None = None) -> None:
    """Delete the pictures that are not listed and the bytes of deleted rows, where the mark says so.

    Args:
        wait_seconds: for who reads or writes; None for as long as a writer waits.

    Raises:
        LibraryWriteError: a file cannot be deleted or written; the mark stays. It names `panorama compact`.
    """
    if not place.catalog.is_erasing:
        return
    try:
        album.remove_unlisted(place, pictures_in(place.album))
        place.catalog.scrub(wait_seconds)
    except LibraryWriteError as exc:
        raise LibraryWriteError(f"{exc}, then: {command('compact')}") from exc


def try_to_finish(place: Place) -> None:
    """The same before another change, which it does not hinder: who reads is not waited for."""
    if place.catalog.writable:
        with contextlib.suppress(LibraryWriteError):
            finish(place, wait_seconds=0)
