"""A library and an entity to forget come in; the library without any byte of the entity goes out.

First what goes is noted in the catalog: once its crops are gone, no query could find them again
after an interruption. The transaction that forgets the entity deletes its rows; its pictures and the bytes of
the rows follow. That transaction also sets a mark in the catalog, so that this work is finished later even if
the process dies in between.
"""

from __future__ import annotations

import contextlib

from panorama.commands import command
from panorama.errors import LibraryWriteError
from panorama.lines import counted
from panorama.store.catalog import album, erasures
from panorama.store.catalog.database import left_by
from panorama.store.catalog.erasures import Going
from panorama.store.files.layout import Place
from panorama.store.files.own_names import pictures_in
from panorama.store.files.permissions import check_folder, check_rewritable
from panorama.store.upkeep import rewrite


def erase_with(place: Place, entity: str, going: Going | None) -> Going | None:
    """Erase the pictures that go with an entity, see `rewrite.erase_pictures`; return whose they are.

    Args:
        going: in addition to those of an interrupted erasure. If it is None and there was no such erasure,
            nothing is erased and None is returned.

    Raises:
        UnknownEntity: there is no such entity; nothing is erased.
        LibraryWriteError: the permissions of a folder do not allow it; nothing is erased.
        LibraryDamaged, LibraryWriteError: a file cannot be read or written; the same call continues.
    """
    with place.catalog.read() as tx:
        begun = erasures.noted(tx, album.id_of(tx, entity))
        pictures = album.exemplars(tx, place.root, entity)
    if going is None and not begun:
        return None
    going = begun if going is None else begun.with_others(going)
    check_rewritable(place)
    for folder in {exemplar.picture.parent for exemplar in pictures}:
        check_folder(place.root, folder)
    with place.catalog.write() as tx:
        erasures.note(tx, album.id_of(tx, entity), going)
    rewrite.erase_pictures(place, going)
    return going


def told(erased: Going | None) -> str:
    """What went with an entity, in words; None for what `erase_with` returned if nothing did."""
    if erased is None:
        return "exemplars"
    others = f", {counted(len(erased.crop_ids), 'crop')} of other tracks" if len(erased.crop_ids) else ""
    return f"exemplars, the crops of {counted(len(erased.track_ids), 'track')}{others}"


def finish(place: Place, wait_seconds: float | None = None) -> None:
    """If the mark is set, delete unlisted pictures and the bytes of deleted rows.

    Args:
        wait_seconds: how long to wait for readers and writers; None for BUSY_SECONDS.

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
    """What went wrong and what to do about it."""
    told = left_by(exc)
    return told if exc.__cause__ is None else f"{place.root} still holds bytes of what was deleted: {told}"


def try_to_finish(place: Place) -> None:
    """Finish erasing before another change without delaying it: wait for nobody and ignore failures."""
    if place.catalog.writable:
        with contextlib.suppress(LibraryWriteError):
            finish(place, wait_seconds=0)
