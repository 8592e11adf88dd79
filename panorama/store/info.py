"""A library's place comes in; counts of what it holds, sizes, models and erasures go out."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from panorama.store.catalog import settings
from panorama.store.catalog.connections import CATALOG_NAME
from panorama.store.catalog.migrations import SCHEMA_VERSION
from panorama.store.catalog.settings import AuditRow, ModelRow
from panorama.store.files.layout import Place

_COUNTS = """
SELECT (SELECT count(*) FROM videos) AS videos, count(*) AS segments, coalesce(sum(frames), 0) AS frames,
       coalesce(sum(tracks), 0) AS tracks, coalesce(sum(boxes), 0) AS boxes, coalesce(sum(crops), 0) AS crops,
       (SELECT count(*) FROM entities) AS entities, (SELECT count(*) FROM exemplars) AS exemplars
FROM segments WHERE state = 'live'
"""
_TABLE_BYTES = """
SELECT table_name, count(*) AS files, sum(bytes) AS bytes FROM files
WHERE retired_version IS NULL GROUP BY table_name ORDER BY table_name
"""
_EMBEDDED = """
SELECT model_hash, exit, sum(row_count) AS row_count FROM files
WHERE retired_version IS NULL AND table_name = 'embeddings'
GROUP BY model_hash, exit ORDER BY model_hash, exit
"""


@dataclass(frozen=True, slots=True)
class LibraryInfo:
    """What a library holds.

    Attributes:
        path: its directory.
        schema_version: of its catalog.
        counts: videos, segments, frames, tracks, boxes, crops, entities, exemplars.
        files, bytes: by table; `bytes` also of 'catalog', 'album' and 'index'.
        embeddings: number of vectors by (model hash, exit).
        models: the models used.
        erased: what was erased for good and when, oldest first.
    """

    path: Path
    schema_version: int
    counts: Mapping[str, int]
    files: Mapping[str, int]
    bytes: Mapping[str, int]
    embeddings: Mapping[tuple[str, int], int]
    models: tuple[ModelRow, ...]
    erased: tuple[AuditRow, ...]


def read_info(place: Place) -> LibraryInfo:
    """Read counts, sizes, models and erasures of a library."""
    with place.catalog.read() as tx:
        counts = tx.row(_COUNTS)
        tables = tx.rows(_TABLE_BYTES)
        embedded = tx.rows(_EMBEDDED)
        models = settings.models(tx)
        erased = settings.audit_rows(tx)
    assert counts is not None
    sizes = {row.table_name: int(row.bytes) for row in tables}
    sizes["catalog"] = sum(_bytes(path) for path in place.root.glob(CATALOG_NAME + "*"))
    sizes["album"], sizes["index"] = _folder_bytes(place.album), _folder_bytes(place.index)
    return LibraryInfo(
        place.root,
        SCHEMA_VERSION,
        {name: int(value) for name, value in counts._mapping.items()},
        {row.table_name: int(row.files) for row in tables},
        sizes,
        {(row.model_hash, row.exit): int(row.row_count) for row in embedded},
        tuple(models),
        tuple(erased),
    )


def _folder_bytes(folder: Path) -> int:
    # Not rglob, which fails if another process deletes a folder meanwhile.
    return sum(_bytes(Path(here, name)) for here, _, names in os.walk(folder) for name in names)


def _bytes(path: Path) -> int:
    """The size of a regular file, 0 for anything else and if another process has deleted it meanwhile."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0
