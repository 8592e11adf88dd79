"""A library with files of crashed writers and replaced segments comes in; free disk space goes out.

A file is deleted when nobody can need it: an unlisted file when its writer is dead; a retired file after a
grace time, if no living reader holds a snapshot from before it was retired. Erased files are deleted at once.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from panorama.store.catalog import album
from panorama.store.catalog.database import write_errors
from panorama.store.files.layout import Place, token_of
from panorama.store.files.locks import is_held, remove_dead
from panorama.store.files.own_names import DATA_FILE, LOCK_FILE, check_data_files, files_named, pictures_in
from panorama.store.files.schema import TABLES
from panorama.store.vectors import index_files

GRACE_SECONDS = 600.0
ERASED = 0.0
"""Value of `retired_at` for files to delete even under readers."""

# A writer gets the number of its segment a moment before it takes its lock.
_START_SECONDS = 60.0

# A time in the future means that the clock was or is wrong: waiting for it could take a year.
_IS_PAST = "(:now - {0} >= :seconds OR {0} - :now > :seconds)"

_ALL_FILES = "SELECT path FROM files"
_RETIRED = f"""
SELECT file_id, path, retired_version, retired_at = {ERASED} AS is_erased FROM files
WHERE retired_version IS NOT NULL AND (retired_at = {ERASED} OR {_IS_PAST.format("retired_at")})
"""
_UNLIST = "DELETE FROM files WHERE file_id IN :files"
_WRITING = f"SELECT segment_id FROM segments WHERE state = 'writing' AND {_IS_PAST.format('created_at')}"
_GIVE_UP = "UPDATE segments SET state = 'retired' WHERE state = 'writing' AND segment_id IN :segments"
_DROP_SEGMENTS = """
DELETE FROM segments WHERE state = 'retired'
AND segment_id NOT IN (SELECT segment_id FROM file_segments)
AND segment_id NOT IN (SELECT segment_id FROM videos)
"""


@dataclass(frozen=True, slots=True)
class Swept:
    """How much a sweep deleted: unlisted data files, retired data files, pictures without an exemplar."""

    unlisted: int
    retired: int
    pictures: int


def sweep(place: Place, grace_seconds: float = GRACE_SECONDS) -> Swept:
    """Delete what nobody can need any more; see the module for the rules.

    Raises:
        LibraryWriteError: a file cannot be deleted, or the library is open for reading only.
    """
    place.catalog.check_there()  # otherwise a deleted library would look like a failing disk
    place.catalog.check_writable()
    with write_errors(place.root):
        unlisted = _sweep_unlisted(place)
        retired = _sweep_retired(place, grace_seconds)
        _give_up_dead_writers(place)
        pictures = album.remove_unlisted(place, pictures_in(place.album))
        for lock in files_named(place.locks, LOCK_FILE):
            remove_dead(lock)
    return Swept(unlisted, retired, pictures)


def is_due(place: Place) -> bool:
    """Whether a retired file may be due for deletion; cheap enough to check before each change."""
    with place.catalog.read() as tx:
        return tx.row(f"{_RETIRED} LIMIT 1", now=time.time(), seconds=GRACE_SECONDS) is not None


def sweep_retired(place: Place, grace_seconds: float = GRACE_SECONDS) -> int:
    """Delete retired files that no reader can use, and what index/ holds of them; return how many."""
    with write_errors(place.root):
        return _sweep_retired(place, grace_seconds)


def _sweep_unlisted(place: Place) -> int:
    found = [path for table in TABLES for path in files_named(place.data / table, DATA_FILE)]
    # Check the writers before reading the list: a living writer may commit later, but its files are skipped.
    # A dead one cannot, and what it committed before it died is in the list.
    orphaned = [path for path in found if not is_held(place.writer_lock(token_of(path.name)))]
    with place.catalog.read() as tx:
        listed = {row.path for row in tx.rows(_ALL_FILES)}
    gone = [path for path in orphaned if str(path.relative_to(place.root)) not in listed]
    for path in gone:
        path.unlink(missing_ok=True)
    return len(gone)


def _sweep_retired(place: Place, grace_seconds: float) -> int:
    oldest = _oldest_reader(place)
    with place.catalog.read() as tx:
        rows = tx.rows(_RETIRED, now=time.time(), seconds=grace_seconds)
    ready = [row for row in rows if row.is_erased or oldest is None or oldest >= row.retired_version]
    check_data_files(place.root, [row.path for row in ready])  # before deleting the first of them
    for row in ready:
        (place.root / row.path).unlink(missing_ok=True)
    if ready:  # before unlisting them, so that the next sweep repeats this if this one is killed
        # Keep the codes: queries build none, and building them for each video indexed again takes long.
        index_files.drop_gone(place, gone={row.file_id for row in ready}, codes=False)
    with place.catalog.write() as tx:
        if ready:
            tx.run(_UNLIST, files=[row.file_id for row in ready])
        tx.run(_DROP_SEGMENTS)
    return len(ready)


def _oldest_reader(place: Place) -> int | None:
    """The oldest data version that a living reader may use; None without readers."""
    versions = [_leased(path) for path in place.locks.glob("reader-*.lock") if is_held(path)]
    return min(versions, default=None)


def _leased(path: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        return int(path.read_text())
    return 0


def _give_up_dead_writers(place: Place) -> None:
    with place.catalog.read() as tx:
        writing = [row[0] for row in tx.rows(_WRITING, now=time.time(), seconds=_START_SECONDS)]
    dead = [number for number in writing if not is_held(place.writer_lock(f"s{number:08d}"))]
    if dead:
        with place.catalog.write() as tx:
            tx.run(_GIVE_UP, segments=dead)
