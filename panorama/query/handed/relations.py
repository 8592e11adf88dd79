"""File lists of one snapshot come in; a DuckDB goes out that holds its relations and reads nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import duckdb
import pyarrow as pa

from panorama.arguments import take_fields
from panorama.errors import LibraryDamaged, UsageError
from panorama.query.handed.clocks import list_clocks, list_spans
from panorama.query.handed.lending import lent
from panorama.query.handed.shapes import Shape, add_shapes
from panorama.query.shorthands.clock_sql import instants, instants_of_films, spans, spans_of_films
from panorama.query.text.quoting import quote_text
from panorama.store.files.lost import check_readable

RELATIONS = (
    *("videos", "frames", "tracks", "detections", "crops", "entities", "zones", "sightings", "moments"),
)
_SPAN = {"start_time": "DOUBLE", "end_time": "DOUBLE"}
_CLOCKS = {"start_clock": "TIMESTAMP", "end_clock": "TIMESTAMP"}
_INSTANTS = {"start_utc": "TIMESTAMP", "end_utc": "TIMESTAMP"}
_SCORED = {"score": "DOUBLE", "track_id": "BIGINT"}
MATCHED_COLUMNS = {
    "sightings": {
        **{"entity": "VARCHAR", "video": "VARCHAR", "track_id": "BIGINT", "score": "DOUBLE"},
        **_SPAN,
        **_CLOCKS,
        **_INSTANTS,
    },
    "moments": {
        **{"video": "VARCHAR", **_SPAN, "entity": "VARCHAR", **_SCORED, "frame": "BIGINT"},
        **{"x1": "DOUBLE", "y1": "DOUBLE", "x2": "DOUBLE", "y2": "DOUBLE"},
        **_CLOCKS,
        **_INSTANTS,
    },
}
"""Relations that exist only after matching: the engine creates them when a statement names one."""

_BOXED = ("x1", "y1", "x2", "y2")
RELATION_COLUMNS: dict[str, frozenset[str]] = {
    "videos": frozenset(
        (
            *("video", "uri", "camera", "duration", "width", "height", "frames"),
            *("start_clock", "time_zone", "start_utc", "indexed_at"),
        )
    ),
    "frames": frozenset(("video", "frame", "time", "pts", "picture", "clock")),
    "tracks": frozenset(("video", "track_id", "start_frame", "end_frame", "samples", *_SPAN, *_CLOCKS)),
    "detections": frozenset(("video", "frame", "time", "track_id", *_BOXED, "score", "clock")),
    "crops": frozenset(("crop_id", "video", "track_id", "frame", "time", *_BOXED, "quality", "clock")),
    "entities": frozenset(("entity", "exemplars", "negatives", "category")),
    "zones": frozenset(("zone", "camera", "kind", "points")),
    **{name: frozenset(columns) for name, columns in MATCHED_COLUMNS.items()},
}
"""The columns of each relation; a test holds the views below to it."""

SCHEMA = "_panorama"
"""Schema of the tables as stored. Rewritten SQL uses them; people use the relations over them."""


class SnapshotLike(Protocol):
    """What the engine reads from a snapshot (see panorama.store.Snapshot).

    `videos` has the columns of the relation and `segment`; `files` maps each table to its absolute Parquet
    paths (none for a table without rows); `entities` has the columns of the relation; `zones` are shapes of
    cameras; `picture_clocks` are the times of pictures that have their own, `picture_spans` those of several
    that are not in order of time.
    """

    @property
    def videos(self) -> pa.Table: ...
    @property
    def files(self) -> Mapping[str, list[str]]: ...
    @property
    def entities(self) -> pa.Table: ...
    @property
    def zones(self) -> Sequence[Shape]: ...
    @property
    def picture_clocks(self) -> pa.Table: ...
    @property
    def picture_spans(self) -> pa.Table: ...


LEAST_MEMORY = 10_000_000
MOST_MEMORY = 10**15
_MEMORY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?b|b)\s*", re.IGNORECASE)
_UNITS = {"b": 1} | {f"{unit}b": 1000**n for n, unit in enumerate("kmgt", 1)}
_UNITS |= {f"{unit}ib": 1024**n for n, unit in enumerate("kmgt", 1)}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one query may use.

    Attributes:
        seconds: wall time; None for no limit.
        memory: of DuckDB, for example '4GB' or '500 MiB'; None for DuckDB's default.
        threads: of DuckDB; None for one per core that the process may use.
        expressions: how deep expressions may nest; DuckDB's default overflows small stacks.
    """

    seconds: float | None = None
    memory: str | None = None
    threads: int | None = None
    expressions: int = 500

    def __post_init__(self) -> None:
        take_fields(self)
        if self.memory is not None and self.memory_bytes < LEAST_MEMORY:
            raise UsageError(f"a query needs at least {LEAST_MEMORY // 1_000_000}MB, got {self.memory!r}")
        if self.memory is not None and self.memory_bytes > MOST_MEMORY:
            raise UsageError(f"memory is at most {MOST_MEMORY // 10**12}TB, got {self.memory!r:.40}")

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        found = _MEMORY.fullmatch(self.memory or "")
        if found is None:
            raise UsageError(f"memory is written like '500MB', '4GB' or '1.5GiB', got {self.memory!r}")
        return int(min(float(found[1]) * _UNITS[found[2].lower()], MOST_MEMORY + 1))


VIDEO_COLUMNS = {
    "video": "VARCHAR",
    "uri": "VARCHAR",
    "camera": "VARCHAR",
    "duration": "DOUBLE",
    "width": "INTEGER",
    "height": "INTEGER",
    "frames": "BIGINT",
    "segment": "INTEGER",
    "start_clock": "TIMESTAMP",
    "time_zone": "VARCHAR",
    "start_utc": "TIMESTAMP",
    "indexed_at": "TIMESTAMP",
    "clock_key": "BIGINT",
    "first_clock": "TIMESTAMP",
    "last_clock": "TIMESTAMP",
    "undated_pictures": "BIGINT",
}
ENTITY_COLUMNS = {"entity": "VARCHAR", "exemplars": "BIGINT", "negatives": "BIGINT", "category": "BOOLEAN"}
_ARROW = {
    "VARCHAR": pa.string(),
    "DOUBLE": pa.float64(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "BOOLEAN": pa.bool_(),
    "TIMESTAMP": pa.timestamp("us"),
}
_BOX = {"x1": "FLOAT", "y1": "FLOAT", "x2": "FLOAT", "y2": "FLOAT"}
STORED_COLUMNS = {
    "frames": {"segment": "INTEGER", "frame": "BIGINT", "pts": "BIGINT", "time": "DOUBLE"},
    "tracks": {
        "segment": "INTEGER",
        "track_id": "BIGINT",
        "start_frame": "BIGINT",
        "end_frame": "BIGINT",
        "start_time": "DOUBLE",
        "end_time": "DOUBLE",
        "samples": "INTEGER",
    },
    "boxes": {
        "segment": "INTEGER",
        "track_id": "BIGINT",
        "frame": "BIGINT",
        "time": "DOUBLE",
        **_BOX,
        "score": "FLOAT",
    },
    "crops": {
        "segment": "INTEGER",
        "crop_id": "BIGINT",
        "track_id": "BIGINT",
        "frame": "BIGINT",
        "time": "DOUBLE",
        **_BOX,
        "quality": "FLOAT",
        "jpeg": "BLOB",
    },
    "pictures": {"segment": "INTEGER", "frame": "BIGINT", "picture": "VARCHAR"},
}

# A Mac writes names of files with letters and accents apart; statements, and names of videos, are composed.
_PICTURE = "nfc_normalize(n.picture)"
_VIEWS = (
    "CREATE VIEW videos AS SELECT video, uri, camera, duration, width, height, frames, start_clock,"
    " time_zone, start_utc, indexed_at FROM _panorama.videos",
    "CREATE VIEW entities AS SELECT entity, exemplars, negatives, category FROM _panorama.entities",
    "CREATE VIEW _panorama.named_pictures AS"
    f" SELECT v.video AS _video, n.frame AS _frame, {_PICTURE} AS _picture"
    " FROM _panorama.pictures n JOIN _panorama.videos v ON v.segment = n.segment",
)
# The joins drop rows of segments that belong to no video any more; files may still hold such rows.
_TRACKS = (
    "v.video, t.track_id, t.start_time, t.end_time, t.start_frame, t.end_frame, t.samples",
    "_panorama.tracks t JOIN _panorama.videos v ON v.segment = t.segment",
    *("t.start_time", "t.end_time"),
)
_DETECTIONS = (
    "v.video, b.frame, b.time, b.track_id, b.x1::DOUBLE AS x1, b.y1::DOUBLE AS y1, b.x2::DOUBLE AS x2,"
    " b.y2::DOUBLE AS y2, b.score::DOUBLE AS score",
    "_panorama.boxes b JOIN _panorama.videos v ON v.segment = b.segment",
    "b.time",
)
_CROPS = (
    "c.crop_id, v.video, c.track_id, c.frame, c.time, c.x1::DOUBLE AS x1, c.y1::DOUBLE AS y1,"
    " c.x2::DOUBLE AS x2, c.y2::DOUBLE AS y2, c.quality::DOUBLE AS quality",
    "_panorama.crops c JOIN _panorama.videos v ON v.segment = c.segment",
    "c.time",
)
_FRAMES = (
    "v.video, f.frame, f.time, f.pts, CAST(NULL AS VARCHAR) AS picture",
    "_panorama.frames f JOIN _panorama.videos v ON v.segment = f.segment",
    "f.time",
)
_FRAMES_WITH_PICTURES = (
    f"v.video, f.frame, f.time, f.pts, {_PICTURE} AS picture",
    f"{_FRAMES[1]} LEFT JOIN _panorama.pictures n ON n.segment = f.segment AND n.frame = f.frame",
    "f.time",
)

# A macro names the files: DuckDB plans it only when a statement reads the table, and most read none.
_FILES = f"CREATE OR REPLACE MACRO {SCHEMA}.{{table}}_files() AS {{files}}"
_TABLE_FUNCTIONS = """
    SELECT DISTINCT lower(function_name) FROM duckdb_functions()
    WHERE function_type LIKE 'table%' AND internal
"""
_PLACEHOLDER = "CREATE VIEW {name} AS SELECT {columns} FROM (SELECT error({message}) AS nothing)"


def connect(
    snapshot: SnapshotLike, limits: Limits, listed: dict[str, object] | None = None
) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with the relations of the snapshot, locked: it reads no file outside the lists.

    `sightings` and `moments` are listed, but hold nothing until the engine fills them for one statement.

    Args:
        listed: receives what the tables were made from.
    """
    connection = duckdb.connect(":memory:")
    _lock(connection, snapshot, limits)
    connection.execute(f"CREATE SCHEMA {SCHEMA}")
    _list(connection, snapshot, {} if listed is None else listed)
    for table, columns in STORED_COLUMNS.items():
        _show_stored(connection, table, columns, snapshot.files.get(table, []))
    for view in (*_VIEWS, *_clocked_views(snapshot)):
        connection.execute(view)
    add_shapes(connection, snapshot.zones)
    for name, columns in MATCHED_COLUMNS.items():
        picks = ", ".join(f"CAST(nothing AS {kind}) AS {column}" for column, kind in columns.items())
        message = quote_text(f"write {name} without a schema before it")
        connection.execute(_PLACEHOLDER.format(name=name, columns=picks, message=message))
    return connection


def _clocked_views(snapshot: SnapshotLike) -> Iterator[str]:
    """The relations whose rows have clocks.

    They are joined with the names and the times of pictures only if a library has some, so that these cost
    libraries of video files nothing.
    """
    instant, span = (instants, spans) if len(snapshot.picture_clocks) else (instants_of_films, spans_of_films)
    yield f"CREATE VIEW tracks AS {span(*_TRACKS)}"
    yield f"CREATE VIEW detections AS {instant(*_DETECTIONS)}"
    yield f"CREATE VIEW crops AS {instant(*_CROPS)}"
    frames = _FRAMES_WITH_PICTURES if snapshot.files.get("pictures") else _FRAMES
    yield f"CREATE VIEW frames AS {instant(*frames)}"


class Tables:
    """A connection that outlives changes of the library: a new snapshot replaces the previous one in it.

    Listing its files and copying its videos takes a tenth of the time of a new connection with its views.

    Args:
        limits: for every statement.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._lasting: object = None
        self._listed: dict[str, object] = {}
        self._shown: SnapshotLike | None = None
        self._functions: frozenset[str] | None = None

    def of(self, snapshot: SnapshotLike) -> duckdb.DuckDBPyConnection:
        """The connection, with the relations of a snapshot; no statement of an earlier one may still run."""
        if self._connection is not None and self._shown is not snapshot:
            if self._lasting != _lasting(snapshot):
                self.close()
            else:
                self._shown = None
                try:
                    _list(self._connection, snapshot, self._listed)
                except BaseException:
                    self.close()  # some of its tables still belong to the previous snapshot
                    raise
        if self._connection is None:
            self._listed, self._lasting = {}, _lasting(snapshot)
            self._connection = connect(snapshot, self.limits, self._listed)
        self._shown = snapshot
        return self._connection

    def functions(self, cursor: duckdb.DuckDBPyConnection) -> frozenset[str]:
        """The names of all built-in table functions of DuckDB."""
        if self._functions is None:  # takes a hundredth of a second, so ask once
            self._functions = frozenset(name for (name,) in cursor.execute(_TABLE_FUNCTIONS).fetchall())
        return self._functions

    def leave(self) -> None:
        """Release the snapshot, but keep the connection."""
        self._shown = None

    def close(self) -> None:
        """Close the connection; the next snapshot gets a new one."""
        connection = self._connection
        self.drop()  # first, so that an interrupt leaves no closed connection behind
        if connection is not None:
            connection.close()

    def drop(self) -> None:
        """Use a new connection from now on, without closing this one."""
        self._connection, self._shown = None, None


def _lasting(snapshot: SnapshotLike) -> tuple[object, ...]:
    """What a connection cannot change: the folders, which tables have rows, and the macros of shapes."""
    stored = [table for table in STORED_COLUMNS if snapshot.files.get(table)]
    clocks = bool(len(snapshot.picture_clocks)), bool(len(snapshot.picture_spans))
    return _folders(snapshot), stored, tuple(snapshot.zones), clocks


def _folders(snapshot: SnapshotLike) -> list[str]:
    return sorted({f"{file.rpartition('/')[0]}/" for files in snapshot.files.values() for file in files})


def _list(connection: duckdb.DuckDBPyConnection, snapshot: SnapshotLike, listed: dict[str, object]) -> None:
    """Fill the schema's tables, which all views read, in place of those of an earlier snapshot.

    Args:
        listed: what the current tables were made from, by name; tables with the same source stay.
    """
    for name, rows, columns in (
        ("videos", snapshot.videos, VIDEO_COLUMNS),
        ("entities", snapshot.entities, ENTITY_COLUMNS),
    ):
        if listed.get(name) is not rows:  # snapshots share tables that did not change
            _copy_table(connection, name, rows, columns)
            listed[name] = rows
    if listed.get("picture_clocks") is not snapshot.picture_clocks:
        list_clocks(connection, snapshot.picture_clocks)
        list_spans(connection, snapshot.picture_spans)
        listed["picture_clocks"] = snapshot.picture_clocks
    files = {table: snapshot.files.get(table, []) for table in STORED_COLUMNS}
    if listed.get("files") != files:
        connection.execute(";".join(_FILES.format(table=t, files=_sql_list(f)) for t, f in files.items()))
        listed["files"] = files


def relation_with(name: str, target: str) -> str:
    """A hint if a target lacks a column that the relation of the same name has; '' otherwise."""
    has = name in RELATION_COLUMNS.get(target, ())
    return f" The relation has it: SELECT {name} FROM {target}" if has else ""


def _lock(connection: duckdb.DuckDBPyConnection, snapshot: SnapshotLike, limits: Limits) -> None:
    """Apply settings that no statement can undo: the configuration is locked last."""
    settings = {
        "allowed_directories": _sql_list(_folders(snapshot)),
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        # Otherwise a name in SQL could refer to a variable of the calling Python program.
        "python_enable_replacements": "false",
        "temp_directory": "''",
        "max_expression_depth": str(limits.expressions),
        # Files never change: read their footers, which are megabytes at a million crops, only once.
        "parquet_metadata_cache": "true",
        # Lets a join with the matched tracks skip row groups that contain none of them.
        "dynamic_or_filter_threshold": "4096",
    }
    if limits.memory is not None:
        settings["memory_limit"] = quote_text(f"{limits.memory_bytes}B")
    if limits.threads is not None:
        settings["threads"] = str(int(limits.threads))
    for name, value in settings.items():
        connection.execute(f"SET GLOBAL {name} = {value}")  # for every cursor
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _copy_table(
    connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table, columns: Mapping[str, str]
) -> None:
    """Copy a small catalog table, so that every cursor sees it."""
    kinds = pa.schema({column: _ARROW[kind] for column, kind in columns.items()})
    # Cast to the table's types here: Arrow does it for free if they match, while DuckDB plans every cast.
    typed = [
        rows.column(kind.name).cast(kind.type)
        if kind.name in rows.column_names
        else pa.nulls(rows.num_rows, kind.type)
        for kind in kinds
    ]
    with lent(connection, "_panorama_copy", pa.table(typed, schema=kinds)):
        connection.execute(f"CREATE OR REPLACE TABLE {SCHEMA}.{name} AS FROM _panorama_copy")


def _show_stored(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Mapping[str, str], files: list[str]
) -> None:
    """Create the view of one stored table: over the files listed at query time, or empty with typed columns.

    A connection does not outlive a change between having files and having none: see `_lasting`.
    """
    shown = f"{', '.join(columns)} FROM read_parquet({SCHEMA}.{table}_files())"
    if not files:
        empty = ", ".join(f"CAST(NULL AS {kind}) AS {column}" for column, kind in columns.items())
        shown = f"{empty} WHERE false"
    try:
        connection.execute(f"CREATE VIEW {SCHEMA}.{table} AS SELECT {shown}")
    except duckdb.Error as exc:
        check_readable(files)
        said = str(exc).split("\n")[0]
        raise LibraryDamaged(f"a file of the table {table} cannot be read: {said}") from exc


def _sql_list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(quote_text, values))}]"


def check_files(snapshot: SnapshotLike) -> None:
    """Raise LibraryDamaged for the first file of the snapshot that cannot be opened."""
    for table in STORED_COLUMNS:
        check_readable(snapshot.files.get(table, []))
