"""Values of DuckDB that Python has no type for: every answer has them as text, or says which column it is."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from panorama.errors import QueryError, UsageError
from panorama.query.engine import Engine

DAY = datetime.date(2026, 3, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("(SELECT coalesce(max(start_clock), 'infinity'::TIMESTAMP) FROM videos WHERE false)", "infinity"),
        ("'-infinity'::TIMESTAMPTZ", "-infinity"),
        ("'infinity'::TIMESTAMP_NS", "infinity"),
        ("'290000-01-01'::DATE", "290000-01-01"),
        ("'290000-01-01 10:00'::TIMESTAMP", "290000-01-01 10:00:00"),
        ("'0044-03-15 (BC)'::DATE", "0044-03-15 (BC)"),
        ("INTERVAL '2147483647 days'", "2147483647 days"),
        ("TIME '24:00:00'", "24:00:00"),
    ],
)
def test_what_python_has_no_value_for_is_the_text_that_duckdb_writes(
    engine: Engine, value: str, text: str
) -> None:
    """They ended in a raw OverflowError, and 24:00:00 and the last nanosecond were other times."""
    result = engine.query(f"SELECT {value} AS v")
    assert result.fetchall() == [(text,)]
    assert json.loads(result.to_json()) == [{"v": text}]
    assert result.to_csv() == f"v\n{text}\n"
    assert text in result.to_table()


def test_values_beside_them_and_around_them_stay_what_they_are(engine: Engine) -> None:
    days = f"'infinity'::DATE, NULL, '{DAY}'::DATE"
    assert [row.v for row in engine.query(f"SELECT unnest([{days}]) AS v")] == ["infinity", None, DAY]
    asked = f"SELECT [{days}] AS l, [{days}]::DATE[3] AS f, {{'a': 'infinity'::DATE, 'b': 1}} AS s"
    row = engine.query(f"{asked}, MAP {{'{DAY}'::DATE: 'infinity'::DATE}} AS m, row({days}) AS t")[0]
    found = ["infinity", None, DAY]
    assert tuple(row) == (found, tuple(found), {"a": "infinity", "b": 1}, {DAY: "infinity"}, tuple(found))


def test_files_and_data_frames_say_which_column_they_cannot_hold(engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    early = engine.query("SELECT 1 AS n, '0044-03-15 (BC)'::DATE AS ides")
    with pytest.raises(QueryError, match=r"column 'ides' holds .* CAST\(ides AS VARCHAR\)"):
        early.df()
    for days in ("200000000", "2147483647"):  # a duration of Python may be longer than one of Arrow
        long = engine.query(f"SELECT 1 AS n, INTERVAL '{days} days' AS span")
        for make in (long.df, lambda: long.write(tmp_path / "spans.parquet")):  # noqa: B023
            with pytest.raises(QueryError, match=r"column 'span' holds .* CAST\(span AS VARCHAR\)"):
                make()
    assert not list(tmp_path.iterdir())
    written = pq.read_table(early.write(tmp_path / "early.parquet"))
    assert written.schema == early.arrow().schema


@pytest.mark.parametrize("sql", ["SELECT ? AS v", "SELECT frames WHERE time < ?", "SELECT 1 IN ? AS v"])
@pytest.mark.parametrize("value", [10**400, 1 << 128, -(1 << 127) - 1, 1 << 20_000], ids="abcd")
def test_a_whole_number_that_duckdb_has_not_is_refused(engine: Engine, sql: str, value: int) -> None:
    given: Any = [value] if " IN " in sql else value
    with pytest.raises(UsageError, match=r"parameter number 1 is a whole number of \d+ bits"):
        engine.query(sql, [given])


def test_the_largest_whole_numbers_are_what_they_are(engine: Engine) -> None:
    """The larger half of UHUGEINT was read as negative."""
    ends = [(1 << 128) - 1, 1 << 127, (1 << 127) - 1, -(1 << 127)]
    assert [engine.query("SELECT ? AS v", [end])[0].v for end in ends] == ends


def test_a_time_of_numpy_that_python_has_not_is_refused(engine: Engine) -> None:
    """It came as a number of microseconds."""
    for given in (np.datetime64("290000-01-01"), np.array(["2026-03-01", "-0044-03-15"], "M8[D]")):
        with pytest.raises(UsageError, match="which Python has no time for; give it as text"):
            engine.query("SELECT ? AS v", [given])
    assert engine.query("SELECT ? AS v", [np.datetime64("NaT")])[0].v is None
