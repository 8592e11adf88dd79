"""A catalog of any older version comes in; one of the current version goes out, upgraded step by step.

Never change a released step; append a new one. All steps that a catalog lacks run in one transaction.
"""

from __future__ import annotations

CORE = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL)",
    """CREATE TABLE segments (
        segment_id INTEGER PRIMARY KEY AUTOINCREMENT,
        content_hash TEXT NOT NULL,
        settings_hash TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('writing', 'live', 'retired')),
        created_at REAL NOT NULL,
        frames INTEGER NOT NULL DEFAULT 0,
        tracks INTEGER NOT NULL DEFAULT 0,
        boxes INTEGER NOT NULL DEFAULT 0,
        crops INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX segments_by_content ON segments (content_hash, state)",
    """CREATE TABLE videos (
        video_id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        uri TEXT NOT NULL UNIQUE,
        root TEXT NOT NULL,
        camera TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        size INTEGER NOT NULL,
        mtime_ns INTEGER NOT NULL,
        segment_id INTEGER NOT NULL REFERENCES segments (segment_id),
        width INTEGER NOT NULL,
        height INTEGER NOT NULL,
        duration REAL NOT NULL,
        frames INTEGER NOT NULL,
        start_time_unix REAL,
        decode_note TEXT,
        indexed_at REAL NOT NULL
    )""",
    "CREATE INDEX videos_by_segment ON videos (segment_id)",
    "CREATE INDEX videos_by_content ON videos (content_hash)",
    """CREATE TABLE files (
        file_id INTEGER PRIMARY KEY AUTOINCREMENT,
        table_name TEXT NOT NULL,
        path TEXT NOT NULL UNIQUE,
        model_hash TEXT,
        exit INTEGER,
        dim INTEGER,
        row_count INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        retired_version INTEGER,
        retired_at REAL
    )""",
    "CREATE INDEX files_by_retirement ON files (retired_version)",
    """CREATE TABLE file_segments (
        file_id INTEGER NOT NULL REFERENCES files (file_id) ON DELETE CASCADE,
        segment_id INTEGER NOT NULL REFERENCES segments (segment_id),
        row_count INTEGER NOT NULL,
        PRIMARY KEY (file_id, segment_id)
    )""",
    "CREATE INDEX file_segments_by_segment ON file_segments (segment_id)",
    """CREATE TABLE entities (
        entity_id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL UNIQUE,
        created_at REAL NOT NULL
    )""",
    """CREATE TABLE exemplars (
        exemplar_id INTEGER PRIMARY KEY AUTOINCREMENT,
        entity_id INTEGER NOT NULL REFERENCES entities (entity_id) ON DELETE CASCADE,
        negative INTEGER NOT NULL CHECK (negative IN (0, 1)),
        source TEXT NOT NULL,
        picture TEXT NOT NULL,
        sha256 TEXT NOT NULL,
        width INTEGER NOT NULL,
        height INTEGER NOT NULL,
        created_at REAL NOT NULL,
        UNIQUE (entity_id, sha256)
    )""",
    """CREATE TABLE exemplar_vectors (
        exemplar_id INTEGER NOT NULL REFERENCES exemplars (exemplar_id) ON DELETE CASCADE,
        model_hash TEXT NOT NULL,
        exit INTEGER NOT NULL,
        vector BLOB NOT NULL,
        PRIMARY KEY (exemplar_id, model_hash, exit)
    )""",
    """CREATE TABLE models (
        hash TEXT PRIMARY KEY,
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        dim INTEGER NOT NULL,
        exits INTEGER NOT NULL
    )""",
    "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL, version INTEGER NOT NULL)",
    """CREATE TABLE sightings_cache (
        key TEXT PRIMARY KEY,
        value BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        used_at REAL NOT NULL
    )""",
    """CREATE TABLE audit (
        audit_id INTEGER PRIMARY KEY AUTOINCREMENT,
        at REAL NOT NULL,
        action TEXT NOT NULL,
        subject_hash TEXT NOT NULL,
        detail TEXT NOT NULL
    )""",
    """CREATE TABLE jobs (
        job_id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        state TEXT NOT NULL,
        detail TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL
    )""",
    "INSERT INTO counters (name, value) VALUES ('data', 0), ('album', 0), ('settings', 0)",
)

ZONES = (
    """CREATE TABLE zones (
        camera TEXT NOT NULL,
        name TEXT NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('zone', 'line')),
        points TEXT NOT NULL,
        PRIMARY KEY (camera, name)
    )""",
)

CLOCK = (
    "ALTER TABLE videos ADD COLUMN time_zone TEXT",
    "ALTER TABLE videos ADD COLUMN time_from TEXT",
)

SIGHTINGS = (
    "DROP TABLE sightings_cache",
    """CREATE TABLE sightings_cache (
        entity_id INTEGER NOT NULL REFERENCES entities (entity_id) ON DELETE CASCADE,
        key TEXT NOT NULL,
        value BLOB NOT NULL,
        bytes INTEGER NOT NULL,
        used_at REAL NOT NULL,
        PRIMARY KEY (entity_id, key)
    )""",
)

SAMPLES = ("ALTER TABLE videos ADD COLUMN content_sample TEXT",)

VIEWS = (
    # Before, only the mean of an exemplar's views was kept. It serves as one view until all are computed.
    "ALTER TABLE exemplar_vectors RENAME TO exemplar_means",
    """CREATE TABLE exemplar_vectors (
        exemplar_id INTEGER NOT NULL REFERENCES exemplars (exemplar_id) ON DELETE CASCADE,
        model_hash TEXT NOT NULL,
        exit INTEGER NOT NULL,
        views INTEGER NOT NULL CHECK (views > 0),
        vectors BLOB NOT NULL,
        PRIMARY KEY (exemplar_id, model_hash, exit)
    )""",
    """INSERT INTO exemplar_vectors (exemplar_id, model_hash, exit, views, vectors)
    SELECT exemplar_id, model_hash, exit, 1, vector FROM exemplar_means""",
    "DROP TABLE exemplar_means",
    # A library's own calibration was measured on single vectors: it would now promise too much.
    "DELETE FROM settings WHERE key LIKE 'calibration:%' OR key LIKE 'evidence:%'",
    "UPDATE counters SET value = value + 1 WHERE name = 'settings'",
)

DENIED = (
    "ALTER TABLE exemplars ADD COLUMN denied INTEGER NOT NULL DEFAULT 0 CHECK (denied IN (0, negative))",
)

CATEGORY = (
    "ALTER TABLE entities ADD COLUMN category INTEGER NOT NULL DEFAULT 0 CHECK (category IN (0, 1))",
    # Folders of pictures have another frame rate since this version. A video without a sample is a folder, or
    # older than samples: the next indexing compares the bytes, and sees folders as changed.
    "UPDATE videos SET mtime_ns = 0 WHERE content_sample IS NULL",
)

SEEN = (
    # Keyed by content, so that it holds for every copy of a video and survives indexing again.
    """CREATE TABLE seen (
        exemplar_id INTEGER NOT NULL REFERENCES exemplars (exemplar_id) ON DELETE CASCADE,
        content_hash TEXT NOT NULL,
        frame INTEGER NOT NULL,
        time REAL NOT NULL,
        x1 REAL NOT NULL, y1 REAL NOT NULL, x2 REAL NOT NULL, y2 REAL NOT NULL,
        PRIMARY KEY (exemplar_id, content_hash, frame)
    )""",
    "CREATE INDEX seen_by_content ON seen (content_hash)",
)

CUTS = (
    # Numbers of the frames that begin a new shot, ascending, as little-endian 32-bit integers. Null if there
    # are none, or if the segment was indexed before this version.
    "ALTER TABLE segments ADD COLUMN cuts BLOB",
)

ENDS = (
    # Brightness of the first and the last sampled picture, 2 x 9 x 16 bytes (schema.ENDS_SHAPE). Null if the
    # segment was indexed before this version.
    "ALTER TABLE segments ADD COLUMN ends BLOB",
)

PICTURES: tuple[str, ...] = ()
"""No change of the schema, but the catalog may list files of a table that earlier versions do not know."""

CAMERA_FROM = (
    # The patterns that gave a video's camera; null if none did.
    "ALTER TABLE videos ADD COLUMN camera_from TEXT",
    # Nobody knows which cameras came from the stored rule and which from an earlier one: assume the stored.
    """UPDATE videos SET camera_from = (
        SELECT nullif(trim(
            CASE WHEN instr(json_extract(value, '$.camera_from'), '{camera}')
                THEN trim(json_extract(value, '$.camera_from')) ELSE '' END || ' ' ||
            CASE WHEN instr(json_extract(value, '$.time_from'), '{camera}')
                THEN trim(json_extract(value, '$.time_from')) ELSE '' END), '')
        FROM settings WHERE key = 'recording')""",
)

PICTURE_TIMES = (
    # When each picture of a folder was taken, see `recorded.Recorded`. Null if nobody looked yet.
    "ALTER TABLE videos ADD COLUMN picture_offsets BLOB",
)

OWN_RULES = (
    # What somebody named for this video alone, see `recorded.OwnRule`. Null where the library's rule holds.
    "ALTER TABLE videos ADD COLUMN own_time_from TEXT",
    "ALTER TABLE videos ADD COLUMN own_time_zone TEXT",
    "ALTER TABLE videos ADD COLUMN own_camera_from TEXT",
)


def _is_refused(kept: str) -> str:
    """SQL that tells whether a kept pattern is refused now because nothing known stands before its first **.

    It was kept by a version in which ** meant what * does.
    """
    before = f"replace(substr({kept}, 1, max(instr('/' || {kept} || '/', '/**/') - 2, 0)), '{{camera}}', '')"
    return (
        f"instr('/' || {kept} || '/', '/**/') AND {before} NOT GLOB '*[0-9A-Za-z_]*'"
        f" AND {before} NOT GLOB '*[^ -~]*'"
    )


def _one_folder(kept: str) -> str:
    """SQL of a pattern with * for each **."""
    slashed = f"replace(replace('/' || {kept} || '/', '/**/', '/*/'), '/**/', '/*/')"  # twice: they overlap
    return f"substr({slashed}, 2, length({slashed}) - 2)"


def _naming(*kept: str) -> str:
    """SQL of `videos.camera_from` by the patterns of cameras and of times: those with a camera."""
    named = (f"CASE WHEN instr({one}, '{{camera}}') THEN trim({one}) ELSE '' END" for one in kept)
    both = " || ' ' || ".join(named)
    return f"trim({both})"


def _kept_for(part: str) -> str:
    """SQL of a part of the rule for a video."""
    kept = f"SELECT json_extract(value, '$.{part}') FROM settings WHERE key = 'recording'"
    return f"coalesce(own_{part}, ({kept})) AS {part}"


def _meant(kept: str) -> str:
    return f"CASE WHEN {_is_refused(kept)} THEN {_one_folder(kept)} ELSE {kept} END"


FOLDERS = (
    # First, as it needs the others as they were: this column may hold two patterns with a blank between them.
    f"""UPDATE videos SET camera_from = named.meant FROM (
        SELECT name, {_naming("camera_from", "time_from")} AS kept,
            {_naming(_meant("camera_from"), _meant("time_from"))} AS meant
        FROM (SELECT name, {_kept_for("camera_from")}, {_kept_for("time_from")} FROM videos)) AS named
    WHERE named.name = videos.name AND named.kept = videos.camera_from AND named.meant <> named.kept""",
    *(
        f"UPDATE settings SET value = json_set(value, '$.{part}', {_one_folder(kept)})"
        f" WHERE key = 'recording' AND {_is_refused(kept)}"
        for part in ("time_from", "camera_from")
        for kept in (f"json_extract(value, '$.{part}')",)
    ),
    *(
        f"UPDATE videos SET {column} = {_one_folder(column)} WHERE {_is_refused(column)}"
        for column in ("time_from", "camera_from", "own_time_from", "own_camera_from")
    ),
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    CORE, ZONES, CLOCK, SIGHTINGS, SAMPLES, VIEWS, DENIED, CATEGORY, SEEN, CUTS, ENDS,
    PICTURES, CAMERA_FROM, PICTURE_TIMES, OWN_RULES, FOLDERS,
)  # fmt: skip
"""Step i (from 0) upgrades version i to version i + 1."""

SCHEMA_VERSION = len(MIGRATIONS)
