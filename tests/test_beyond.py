"""Values of DuckDB that Python has no type for: every answer has them as text, or says which column it is."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

from panorama.errors import QueryError, UsageError
from panorama.query.engine import Engine
from panorama.query.result import beyond

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


@pytest.mark.parametrize("how", ["{}", "[{}]", "{{'a': {}}}", "MAP {{1: {}}}", "[{}]::TIMESTAMP_NS[1]"])
def test_nanoseconds_are_text_and_whole_microseconds_are_times_with_and_without_pandas(
    engine: Engine, how: str
) -> None:
    """With pandas, rows had its Timestamp, and JSON and CSV another text."""
    pytest.importorskip("pandas")

    def one(value: Any) -> Any:
        while isinstance(value, (list, tuple, dict)):
            value = next(iter(value.values() if isinstance(value, dict) else value))
        return value

    fine = "2026-03-01 00:00:00.123456789"
    a, b = (how.format(f"TIMESTAMP_NS '{text}'") for text in (fine, DAY))
    asked = f"SELECT {a} AS a, {b} AS b"
    row = engine.query(asked)[0]
    assert (one(row.a), one(row.b)) == (fine, datetime.datetime(2026, 3, 1))
    assert type(one(row.b)) is datetime.datetime
    assert fine in engine.query(asked).to_json() and fine in engine.query(asked).to_csv()


def test_values_beside_them_and_around_them_stay_what_they_are(engine: Engine) -> None:
    days = f"'infinity'::DATE, NULL, '{DAY}'::DATE"
    assert [row.v for row in engine.query(f"SELECT unnest([{days}]) AS v")] == ["infinity", None, DAY]
    asked = f"SELECT [{days}] AS l, [{days}]::DATE[3] AS f, {{'a': 'infinity'::DATE, 'b': 1}} AS s"
    row = engine.query(f"{asked}, MAP {{'{DAY}'::DATE: 'infinity'::DATE}} AS m, row({days}) AS t")[0]
    assert engine.query("SELECT [TIME '24:00:00', '23:00'] AS v")[0].v == ["24:00:00", datetime.time(23)]
    found = ["infinity", None, DAY]
    assert tuple(row) == (found, tuple(found), {"a": "infinity", "b": 1}, {DAY: "infinity"}, tuple(found))


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        ("MAP([[1]], ['a'])", {"key": [[1]], "value": ["a"]}),
        ("[MAP([{'a': 1}, {'a': 2}], [3, NULL])]", [{"key": [{"a": 1}, {"a": 2}], "value": [3, None]}]),
        ("MAP([[MAP{1: 2::HUGEINT}]], [MAP{'b': INTERVAL 1 DAY}])",
         {"key": [[{1: 2}]], "value": [{"b": datetime.timedelta(days=1)}]}),
        ("MAP([row(1, 2)], [[3.5]::DOUBLE[1]])", {"key": [(1, 2)], "value": [(3.5,)]}),
        ("MAP([]::INT[][], []::INT[])", {"key": [], "value": []}),
    ],
)  # fmt: skip
def test_a_map_whose_keys_python_cannot_look_up_has_keys_and_values_apart(
    engine: Engine, asked: str, value: Any
) -> None:
    """Every form of the answer ended in a TypeError, also that of histogram() over structs."""
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT {asked} AS m").fetchall() == [(value,)]
    result = engine.query(f"SELECT {asked} AS m")
    assert result.fetchall() == [(value,)]
    assert '"key": ' in result.to_json() and "key" in result.to_csv() and "key" in result.to_table()


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


DAYS = datetime.timedelta(days=1)
WIDE = 1 << 63


@pytest.mark.parametrize(
    ("value", "held", "kept"),
    [
        ("[INTERVAL 1 DAY, NULL]", [DAYS, None], [DAYS, None]),
        ("{'a': INTERVAL 1 DAY, 'b': NULL}", {"a": DAYS, "b": None}, {"a": DAYS, "b": None}),
        ("MAP{1: [INTERVAL 1 DAY]}", {1: [DAYS]}, [(1, [DAYS])]),
        ("array_value(INTERVAL 1 DAY, NULL)", (DAYS, None), [DAYS, None]),
        ("row(INTERVAL 1 DAY, 2)", (DAYS, 2), {"element1": DAYS, "element2": 2}),
        ("7::HUGEINT", 7, 7),
        ("[{'n': 7::HUGEINT}]", [{"n": 7}], [{"n": 7}]),
        (f"{WIDE}::HUGEINT", WIDE, decimal.Decimal(WIDE)),
        ("7::UHUGEINT", 7, 7),
        ("[(-300)::BIGNUM, 0::BIGNUM]", [-300, 0], [-300, 0]),
        ("'10101'::BIT", "10101", "10101"),
        ("['10101'::BIT]", ["10101"], ["10101"]),
        ("[0.5::DECIMAL(38, 1)]", [decimal.Decimal("0.5")], [decimal.Decimal("0.5")]),
        ("[MAP{}]", [{}], [[]]),
    ],
)
def test_rows_files_and_data_frames_hold_the_same_wherever_it_lies(
    engine: Engine, tmp_path: Path, value: str, held: Any, kept: Any
) -> None:
    """INTERVALs in lists were three numbers, sums decimals, bits bytes; Parquet ended as by a defect."""
    result = engine.query(f"SELECT unnest([NULL, {value}, NULL]) AS v OFFSET 1")
    assert [row.v for row in result] == [held, None] and type(result[0].v) is type(held)
    written = pq.read_table(result.write(tmp_path / "a.parquet"))["v"].to_pylist()
    assert repr(written) == repr([kept, None])  # 7 is Decimal("7"), too
    assert pickle.loads(pickle.dumps(result)).fetchall() == result.fetchall()
    assert len(pytest.importorskip("pandas").DataFrame(result.df())) == 2
    assert pytest.importorskip("polars").DataFrame(result.pl()).height == 2


def test_a_sum_of_whole_numbers_is_computed_with_in_data_frames(engine: Engine) -> None:
    """It was a Decimal: TypeError."""
    pytest.importorskip("pandas")
    frames = engine.query("SELECT sum(i) AS frames FROM range(5) r(i)").df()["frames"]
    assert (frames * 0.5).tolist() == [5.0]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("340282366920938463463374607431768211455::UHUGEINT", "a whole number of more than the 38 digits"),
        ("[INTERVAL '200000000 days']", "an INTERVAL that is too long for the durations of files"),
        ("union_value(num := 2)", "a UNION, a type that files"),
        ("[union_value(num := 2)]", "a UNION, a type that files"),
    ],
)
def test_what_files_and_data_frames_have_not_is_refused_by_the_name_of_its_column(
    engine: Engine, tmp_path: Path, value: str, told: str
) -> None:
    """The largest whole numbers were -1 there."""
    result = engine.query(f"SELECT 1 AS n, {value} AS w")
    makes = [lambda: result.write(tmp_path / "a.parquet")]
    makes += [make for package, make in (("pandas", result.df), ("polars", result.pl)) if find_spec(package)]
    for make in makes:
        with pytest.raises(QueryError, match=rf"column 'w' holds .*{told}.* CAST\(w AS VARCHAR\)"):
            make()
    assert not list(tmp_path.iterdir())


def test_text_has_every_digit_of_a_decimal_and_no_more_of_a_float(engine: Engine) -> None:
    """Decimals went through a float, and floats in lists had 64 bits."""
    asked = "12345678901234567890.123456789::DECIMAL(38, 9) AS d, [1.50::DECIMAL(9, 2)] AS l"
    result = engine.query(
        f"SELECT {asked}, {{'f': [0.1::FLOAT]}} AS f, MAP{{0.1::FLOAT: 2}} AS m, 5::BIGNUM AS b"
    )
    told = '"d": 12345678901234567890.123456789, "l": [1.50], "f": {"f": [0.1]}, "m": {"0.1": 2}, "b": 5'
    assert result.to_json() == f"[{{{told}}}]"
    assert next(csv.reader(result.to_csv().splitlines()[1:])) == [
        "12345678901234567890.123456789", "[1.50]", '{"f": [0.1]}', '{"0.1": 2}', "5",
    ]  # fmt: skip


def test_a_zone_that_is_left_out_is_told(engine: Engine) -> None:
    result = engine.query("SELECT TIMETZ '10:00:00+02' AS v, TIMESTAMPTZ '2026-03-01 10:00:00+02' AS w")
    assert [warning.split(";")[0] for warning in result.warnings] == [
        "the column 'v' holds TIME WITH TIME ZONE, and its zone is dropped"
    ]


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


@pytest.mark.parametrize("value", ["{}::UHUGEINT", "[NULL, {{'n': {}::UHUGEINT}}]", "MAP{{1: {}::UHUGEINT}}"])
def test_arrow_has_the_largest_whole_numbers_as_they_are_or_refuses_them(engine: Engine, value: str) -> None:
    """They were negative there, too."""
    told = (
        r"column 'v' holds a UHUGEINT of 128 bits, .* negative number; return its text, CAST\(v AS VARCHAR\)"
    )
    for number in (1 << 127, (1 << 128) - 1):
        result = engine.query(f"SELECT unnest([NULL, {value.format(number)}]) AS v")
        with pytest.raises(QueryError, match=told):
            result.arrow()
        assert str(number) in result.to_csv()
    largest = (1 << 127) - 1
    result = engine.query(f"SELECT unnest([NULL, {value.format(largest)}]) AS v")
    assert f"Decimal('{largest}')" in str(result.arrow()["v"].to_pylist())


def test_a_time_of_numpy_that_python_has_not_is_refused(engine: Engine) -> None:
    """It came as a number of microseconds."""
    for given in (np.datetime64("290000-01-01"), np.array(["2026-03-01", "-0044-03-15"], "M8[D]")):
        with pytest.raises(UsageError, match="which Python's times cannot hold; give it as text"):
            engine.query("SELECT ? AS v", [given])
    assert engine.query("SELECT ? AS v", [np.datetime64("NaT")])[0].v is None


def test_a_number_of_more_digits_than_python_writes_is_written_and_refused_in_files(
    engine: Engine, tmp_path: Path
) -> None:
    result = engine.query("SELECT repeat('9', 5000)::BIGNUM AS v")
    digits = "9" * 5000
    assert result.to_csv() == f"v\n{digits}\n" and result.to_json() == f'[{{"v": {digits}}}]'
    with pytest.raises(QueryError, match=r"the column 'v' holds a whole number of more than the 38 digits"):
        result.write(tmp_path / "v.parquet")


def test_times_in_lists_are_looked_at_one_by_one_only_where_python_misreads_one(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every 1,024 rows of such a column asked DuckDB for their text, value by value."""
    monkeypatch.setattr(beyond, "told_values", lambda column: [f"told {len(column)}"])
    sql = "SELECT {how} AS v FROM range(5) t(i)"
    for how in ("[TIME '10:00']", "{'a': TIME '10:00'}", "MAP{1: [TIMESTAMP_NS '2026-01-01']}"):
        assert len(engine.query(sql.replace("{how}", how)).fetchall()) == 5
        late = how.replace("10:00", "24:00").replace("2026-01-01", "infinity")
        assert beyond.python_values(engine.query(sql.replace("{how}", late)).arrow().column(0)) == ["told 5"]
        one = engine.query(f"SELECT IF(i = 4, {late}, {how}) AS v FROM range(5) t(i)").arrow().column(0)
        assert beyond.python_values(one.slice(0, 4)) != ["told 4"]
        assert beyond.python_values(one.slice(4)) == ["told 1"]


@pytest.mark.parametrize("frame", ["df", "pl"])
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_S", "TIMESTAMP_NS", "DATE"])
def test_infinity_is_no_date_in_data_frames(engine: Engine, kind: str, frame: str) -> None:
    """pandas gave the year 294247, and polars ended the program when it printed what it had taken."""
    pytest.importorskip({"df": "pandas", "pl": "polars"}[frame])
    day = f"'2026-03-01'::{kind}"
    assert len(getattr(engine.query(f"SELECT {day} AS at, NULL::{kind} AS none, [{day}] AS l"), frame)()) == 1
    for value in ("infinity", "-infinity"):
        for asked in (f"'{value}'::{kind}", f"[{{'a': {day}}}, {{'a': '{value}'::{kind}}}]"):
            with pytest.raises(
                QueryError, match="the column 'at' holds infinity, which data frames cannot hold"
            ):
                getattr(engine.query(f"SELECT 1 AS n, {asked} AS at"), frame)()


@pytest.mark.parametrize("frame", ["df", "pl"])
@pytest.mark.parametrize("kind", ["TIME", "TIME_NS"])
def test_the_end_of_a_day_is_no_time_in_data_frames(engine: Engine, kind: str, frame: str) -> None:
    """polars made it null."""
    pytest.importorskip({"df": "pandas", "pl": "polars"}[frame])
    last = f"'23:59:59.999999'::{kind}"
    assert (
        len(getattr(engine.query(f"SELECT {last} AS at, NULL::{kind} AS none, [{last}] AS l"), frame)()) == 1
    )
    for asked in (f"'24:00:00'::{kind}", f"[{{'a': {last}}}, {{'a': '24:00:00'::{kind}}}]"):
        with pytest.raises(QueryError, match="the column 'at' holds 24:00, which data frames cannot hold"):
            getattr(engine.query(f"SELECT 1 AS n, {asked} AS at"), frame)()
