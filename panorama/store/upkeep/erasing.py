"""A library in which something was forgotten enters; what forgetting leaves of it on the disk goes.

Tracks that are to go with an entity are noted before the first file without them is written: what is left
of them matches it no more. Rows go with the transaction that forgets, pictures and the bytes of rows after
it. A mark in the catalog, set by that transaction, says that they are to go, whatever ends this process in
between.
"""

from __future__ import annotations

import contextlib

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command
from panorama.errors import LibraryWriteError
from panorama.store.catalog import album
from panorama.store.catalog.database import left_by
from panorama.store.files.layout import Place
from panorama.store.files.own_names import pictures_in
from panorama.store.upkeep import rewrite


def erase_with(place: Place, entity: str, track_ids: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """Erase what is stored of tracks that go with an entity, see `rewrite.erase_tracks`; which they were.

    Args:
        track_ids: None for none but those of an erasure that broke off; None is returned where there is none.

    Raises:
        UnknownEntity: there is no such entity; nothing is erased.
        LibraryDamaged, LibraryWriteError: a file cannot be read or written; the same call again goes on.
    """
    with place.catalog.read() as tx:
        begun = album.noted_tracks(tx, entity)
    if track_ids is None and not len(begun):
        return None
    tracks = np.union1d(begun, begun[:0] if track_ids is None else track_ids)
    album.note_tracks(place, entity, tracks)
    rewrite.erase_tracks(place, tracks)
    return tracks


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
        album.remove_unlisted(place, pictures_in(place.album), wait_seconds)
        place.catalog.scrub(wait_seconds)
    except LibraryWriteError as exc:
        raise LibraryWriteError(f"{_left(place, exc)}, then: {command('compact')}") from exc


def _left(place: Place, exc: LibraryWriteError) -> str:
    """What is wrong, and what to do about it."""
    told = left_by(exc)
    return told if exc.__cause__ is None else f"{place.root} still holds bytes of what was deleted: {told}"


def try_to_finish(place: Place) -> None:
    """The same before another change, which it does not hinder: who reads is not waited for."""
    if place.catalog.writable:
        with contextlib.suppress(LibraryWriteError):
            finish(place, wait_seconds=0)
