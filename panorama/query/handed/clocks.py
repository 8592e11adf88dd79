"""Times of pictures come in; the table by which SQL reads the clock of rows goes out, in DuckDB.

A film's clock runs on from its start. Pictures of a folder may have times of their own. They are found by one
number, `_key`: that of their video (`clock_key` of the stored videos) plus their time in frames. Column names
begin with an underscore, so that no condition on the rows joined with them can mean them.
"""

from __future__ import annotations

import duckdb
import pyarrow as pa

from panorama.query.handed.lending import lent
from panorama.query.shorthands.clock_sql import PICTURE_ALARMS, PICTURE_CLOCKS, PICTURE_SPANS
from panorama.store.catalog.picture_clocks import KEY_BITS

_TABLE = f"""
CREATE OR REPLACE TABLE {PICTURE_CLOCKS} AS
SELECT key AS _key, clock AS _clock, utc AS _utc, alarm AS _alarm FROM _panorama_clocks
"""
_NO_TABLE = f"""
CREATE OR REPLACE VIEW {PICTURE_CLOCKS} AS
SELECT NULL::BIGINT AS _key, NULL::TIMESTAMP AS _clock, NULL::TIMESTAMP AS _utc, NULL::BIGINT AS _alarm
WHERE false
"""
"""DuckDB knows while it plans that nothing is in it."""
_ALARMS = f"""
CREATE OR REPLACE TABLE {PICTURE_ALARMS} AS SELECT min(_key) AS _first, max(_key) AS _last
FROM {PICTURE_CLOCKS} GROUP BY _key >> {KEY_BITS}, _alarm
"""
_NO_ALARMS = f"""
CREATE OR REPLACE VIEW {PICTURE_ALARMS} AS SELECT NULL::BIGINT AS _first, NULL::BIGINT AS _last WHERE false
"""
_SPANS = f"""
CREATE OR REPLACE TABLE {PICTURE_SPANS} AS SELECT key AS _key, key + (1::BIGINT << level) - 1 AS _last_key,
    level AS _level, clock AS _clock, last_clock AS _last_clock, utc AS _utc, last_utc AS _last_utc
FROM _panorama_spans
"""
_NO_SPANS = f"""
CREATE OR REPLACE VIEW {PICTURE_SPANS} AS SELECT NULL::BIGINT AS _key, NULL::BIGINT AS _last_key,
    NULL::BIGINT AS _level, NULL::TIMESTAMP AS _clock, NULL::TIMESTAMP AS _last_clock,
    NULL::TIMESTAMP AS _utc, NULL::TIMESTAMP AS _last_utc WHERE false
"""


def list_clocks(connection: duckdb.DuckDBPyConnection, clocks: pa.Table) -> None:
    """Fill the tables of the clocks and the alarms of pictures, in place of earlier ones.

    A connection does not outlive a change between having rows and having none.
    """
    if not len(clocks):
        connection.execute(_NO_TABLE)
        connection.execute(_NO_ALARMS)
        return
    with lent(connection, "_panorama_clocks", clocks):
        connection.execute(_TABLE)
    connection.execute(_ALARMS)


def list_spans(connection: duckdb.DuckDBPyConnection, spans: pa.Table) -> None:
    """The same for the table of the times of pictures that are not in order."""
    if not len(spans):
        connection.execute(_NO_SPANS)
        return
    with lent(connection, "_panorama_spans", spans):
        connection.execute(_SPANS)
