"""What a Result gives: rows, tables for people, files, data frames."""

from __future__ import annotations

import builtins
import copy
import csv
import datetime
import errno
import gc
import io
import json
import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from panorama.errors import LibraryWriteError, MissingExtra, UsageError
from panorama.query.result.result import Plan, Result, Row, _told_apart


def sample() -> Result:
    table = pa.table(
        {
            "name": ["a", 'say "b", c', None],
            "n": pa.array([1, 2**60, 3], pa.int64()),
            "x": [0.5, float("nan"), float("inf")],
            "l": [[1.5], None, []],
        }
    )
    return Result(table, ["VARCHAR", "BIGINT", "DOUBLE", "DOUBLE[]"], uncertain=2, seconds=0.5)


def test_rows_are_tuples_that_know_their_columns() -> None:
    row = sample().fetchall()[0]
    assert row == ("a", 1, 0.5, [1.5])
    assert (row["name"], row.n, row[2]) == ("a", 1, 0.5)
    assert dict(row)["l"] == [1.5]
    with pytest.raises(KeyError, match="no column 'm'; there are name, n, x, l"):
        assert row["m"]
    with pytest.raises(AttributeError):
        assert row.m


def test_a_column_named_as_a_method_of_tuples_is_read_as_any_other() -> None:
    """`SELECT entity, count(*) AS count` gave a method of tuples for row.count."""
    row = Result(pa.table({"index": [7], "count": [3], "keys": [1]}), ["BIGINT"] * 3)[0]
    assert (row.index, row.count, row["keys"], dict(row)) == (7, 3, 1, {"index": 7, "count": 3, "keys": 1})
    other = sample()[0]
    assert (other.index(0.5), other.count("a")) == (2, 1)


def test_rows_and_results_can_be_copied_and_kept() -> None:
    """The class of a row was made for its result, where pickle found it nowhere."""
    result = sample()
    rows = result.fetchall()
    kept = pickle.loads(pickle.dumps(rows))
    for again in (kept, copy.deepcopy(rows), [copy.copy(row) for row in rows]):
        assert [tuple(row)[:2] for row in again] == [tuple(row)[:2] for row in rows]
        assert (again[0]["name"], again[0].l, again[0].keys()) == ("a", [1.5], rows[0].keys())
    assert type(kept[0]) is type(rows[0])
    told = pickle.loads(pickle.dumps(result))
    assert (told.columns, told.uncertain, told[0], told.fetchall()) == (result.columns, 2, rows[0], [])
    assert len(pickle.dumps(result)) == len(pickle.dumps(sample()))  # its rows are not sent beside its table


def _sample_rows(count: int) -> list[Row]:
    return sample().fetchmany(count)


def test_rows_come_back_from_another_process() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        (rows,) = pool.map(_sample_rows, [1])
    assert (rows[0].name, rows[0]["n"]) == ("a", 1)


@pytest.mark.parametrize("collecting", [True, False])
def test_rows_are_made_without_looking_for_garbage_and_looking_goes_on_as_before(collecting: bool) -> None:
    found: list[int] = []

    def note(phase: str, _: dict[str, int]) -> None:
        found.append(gc.get_count()[0])

    many = Result(pa.table({"n": pa.array(range(50_000))}), ["BIGINT"])
    before = gc.isenabled()
    gc.callbacks.append(note)
    try:
        (gc.enable if collecting else gc.disable)()
        gc.collect()
        found.clear()
        rows = many.fetchall()
        assert len(rows) == 50_000 and len(found) <= 4  # 70 times otherwise, at the least
        assert gc.isenabled() == collecting
    finally:
        gc.callbacks.remove(note)
        (gc.enable if before else gc.disable)()


def test_fetching_goes_on_where_it_stopped() -> None:
    result = sample()
    assert result.fetchone()["n"] == 1
    assert [row["n"] for row in result.fetchmany(1)] == [2**60]
    assert [row["n"] for row in result.fetchall()] == [3]
    assert result.fetchone() is None
    assert len(list(result)) == len(result) == 3  # iterating begins anew


@pytest.mark.parametrize(
    "ask",
    [
        lambda result: result.fetchmany(-1),  # it gave the first rows
        lambda result: result.fetchmany("2"),
        lambda result: result.write(io.StringIO()),
        lambda result: result.write(None),
        lambda result: result.write("rows.csv", form=1),
        lambda result: result.to_table("5"),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused(ask: Callable[[Result], object]) -> None:
    with pytest.raises(UsageError, match=r"\(\w+=\.\.\.\): .*, got "):
        ask(sample())


def test_json_has_null_for_what_json_cannot_say() -> None:
    rows = json.loads(sample().to_json())
    assert rows == [
        {"name": "a", "n": 1, "x": 0.5, "l": [1.5]},
        {"name": 'say "b", c', "n": 2**60, "x": None, "l": None},
        {"name": None, "n": 3, "x": None, "l": []},
    ]
    assert json.loads(Result(pa.table({"a": pa.array([], pa.int64())}), ["BIGINT"]).to_json()) == []


def test_text_has_no_float_noise_and_keeps_every_digit_that_means_something() -> None:
    noisy = [48 * (1 / 15), 0.1 + 0.2, 3606.74 - 3600, -(0.1 + 0.2)]
    meant = [1 / 3, 7.333333333333334, 0.8321080377605283, 1.5e-12, 1772356800.123456, 12.3456789]
    values = [*noisy, *meant]
    result = Result(pa.table({"x": values, "l": [[v] for v in values]}), ["DOUBLE", "DOUBLE[]"])
    told = [3.2, 0.3, 6.74, -0.3, *meant]
    assert [row["x"] for row in json.loads(result.to_json())] == told
    assert [row["l"] for row in json.loads(result.to_json())] == [[v] for v in told]
    rows = list(csv.reader(io.StringIO(result.to_csv())))[1:]
    assert [float(row[0]) for row in rows] == told and rows[0] == ["3.2", "[3.2]"]
    # What is computed on with is what queries compare with.
    assert [row.x for row in result] == result.arrow()["x"].to_pylist() == values


def test_boxes_are_written_with_the_digits_of_32_bits(tmp_path: Path) -> None:
    """141.3333282470703 is all that 64 bits say of what 32 know as 141.33333."""
    stored = [float(np.float32(value)) for value in (424 / 3, 16.2, 0.1, -3.7)]
    between = [241.6828358968099, 0.0, float("nan"), 7.0]  # between samples it is computed
    columns = {"x1": stored, "Y2": between, "score": stored, "f": pa.array([0.1] * 4, pa.float32())}
    result = Result(pa.table(columns), ["DOUBLE", "DOUBLE", "DOUBLE", "FLOAT"])
    told = [141.33333, 16.2, 0.1, -3.7]
    for rows in (json.loads(result.to_json()), json.loads(result.write(tmp_path / "a.json").read_text())):
        assert [row["x1"] for row in rows] == told
        assert [row["Y2"] for row in rows] == [241.68283, 0.0, None, 7.0]
        # A score is compared with when it has been read back.
        assert [row["score"] for row in rows] == stored and {row["f"] for row in rows} == {0.1}
    lines = result.write(tmp_path / "a.csv").read_text().splitlines()
    assert lines[1] == f"141.33333,241.68283,{stored[0]!r},0.1" == result.to_csv().splitlines()[1]
    assert (
        [row.x1 for row in result]
        == stored
        == pq.read_table(result.write(tmp_path / "a.parquet"))["x1"].to_pylist()
    )
    assert result.to_table().splitlines()[2].split()[0] == "141.333"


def test_what_is_no_box_keeps_its_digits_whatever_its_name() -> None:
    result = Result(pa.table({"x1": [1772356811.25, 1e300], "y1": [2**30 + 1, 1]}), ["DOUBLE", "BIGINT"])
    assert result.to_csv().splitlines()[1:] == ["1772356811.25,1073741825", "1e+300,1"]


def test_a_file_that_cannot_be_written_whole_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the rows of before were lost, and OSError told of it."""

    class Full(io.StringIO):
        def writelines(self, lines: Iterable[str]) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(path: Path, *_: str, **__: str) -> Full:
        os.truncate(path, 3)
        return Full()

    sample().write(tmp_path / "a.csv")
    before = (tmp_path / "a.csv").read_bytes()
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        for name in ("a.csv", "b.json"):
            with pytest.raises(LibraryWriteError, match=f"{name} cannot be written: No space left on device"):
                sample().write(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_bytes() == before


def test_the_format_may_be_named_beside_the_suffix(tmp_path: Path) -> None:
    assert json.loads(sample().write(tmp_path / "rows", "json").read_text())[0]["name"] == "a"
    assert sample().write(tmp_path / "x.txt", "table").read_text().endswith("(3 rows)\n")
    with pytest.raises(UsageError, match="written as csv, json, parquet or table, got 'xml'"):
        sample().write(tmp_path / "x.csv", "xml")


def test_csv_can_be_read_back() -> None:
    rows = list(csv.reader(io.StringIO(sample().to_csv())))
    assert rows[0] == ["name", "n", "x", "l"]
    assert rows[2][:2] == ['say "b", c', str(2**60)]
    assert rows[3][0] == ""


def test_a_null_in_a_single_column_is_no_empty_line_of_csv(tmp_path: Path) -> None:
    """csv.DictReader and pandas skip empty lines: the row was lost."""
    path = Result(pa.table({"a": ["x", None, "", "y"]}), ["VARCHAR"]).write(tmp_path / "a.csv")
    text = path.read_text()
    assert text == 'a\nx\n""\n""\ny\n'
    assert [row["a"] for row in csv.DictReader(io.StringIO(text))] == ["x", "", "", "y"]
    assert duckdb.read_csv(str(path)).fetchall() == [("x",), (None,), (None,), ("y",)]


def test_an_infinite_number_is_no_null_of_csv(tmp_path: Path) -> None:
    """Infinities and NaN were empty fields."""
    values = [1.5, float("inf"), float("-inf"), float("nan"), None]
    table = pa.table(
        {"x": values, "f": pa.array(values, pa.float32()), "x1": values, "l": [[value] for value in values]}
    )
    result = Result(table, ["DOUBLE", "FLOAT", "DOUBLE", "DOUBLE[]"])
    lines = ["1.5,1.5,1.5,[1.5]", *(f"{v},{v},{v},[null]" for v in ("inf", "-inf", "nan", ""))]
    assert result.to_csv().splitlines()[1:] == lines
    read = [row[:3] for row in duckdb.read_csv(str(result.write(tmp_path / "a.csv"))).fetchall()]
    assert str(read) == str([(v, v, v) for v in values])
    assert [row["x"] for row in json.loads(result.to_json())] == [1.5, None, None, None, None]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_a_result_is_written_by_suffix(tmp_path: Path, suffix: str) -> None:
    path = sample().write(tmp_path / f"rows.{suffix}")
    assert path.stat().st_size > 0
    if suffix == "parquet":
        assert pq.read_table(path).column("n").to_pylist() == [1, 2**60, 3]
    with pytest.raises(UsageError, match=r"\.csv, \.json, \.parquet, got 'rows.xls'"):
        sample().write(tmp_path / "rows.xls")


def test_the_printed_table_is_aligned_and_cut_in_the_middle() -> None:
    table = pa.table({"id": pa.array(range(100), pa.int64()), "text": ["x" * (i % 60) for i in range(100)]})
    lines = repr(Result(table, ["BIGINT", "VARCHAR"])).splitlines()
    assert lines[-1] == "(100 rows, 20 shown)"
    assert len(lines) == 2 + 20 + 1 + 1
    assert lines[2].split()[0] == "0"
    assert "..." in lines[12]
    assert lines[-2].split()[0] == "99"
    assert max(len(line) for line in lines) < 50
    assert len(Result(table, ["BIGINT", "VARCHAR"]).to_table(rows=None).splitlines()) == 103


def test_tables_do_not_read_as_0_what_is_none() -> None:
    """0.0004 and 1e-9 were 0.000, and 1e300 had 305 digits."""
    told = {
        **{0.0: "0.000", 0.5: "0.500", -1.25: "-1.250", 0.0005: "0.001", 1234.5678: "1234.568"},
        **{0.0004: "0.0004", -0.0004: "-0.0004", 1e-9: "1e-09", 1 / 7000: "0.000143"},
        **{1e14: "100000000000000.000", 1e15: "1e+15", -1.23456e300: "-1.23e+300", float("inf"): "inf"},
    }
    result = Result(pa.table({"x": list(told)}), ["DOUBLE"])
    assert [line.strip() for line in result.to_table().splitlines()[2:-1]] == list(told.values())
    for text in told.values():
        assert f"<td>{text}</td>" in result._repr_html_()


def test_notebooks_get_a_table_whose_text_is_escaped() -> None:
    html = Result(pa.table({"<b>": ["<script>"]}), ["VARCHAR"])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "&lt;b&gt;" in html


def test_notebooks_show_a_plan_whole_and_what_stands_alone_too() -> None:
    """Of 30 lines ten were left out, and all behind the 40th character."""
    lines = [f"  {i}: {'x' * 60} < 1" for i in range(30)]
    table = pa.table({"plan": lines})
    shown = "\n".join(lines).replace("<", "&lt;")
    assert Plan(table, ["VARCHAR"])._repr_html_() == f"<pre>{shown}</pre>"
    assert f"{'x' * 60} &lt; 1</td>" in Result(table, ["VARCHAR"])._repr_html_()


def test_data_frames_hold_the_same_rows() -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    assert sample().df()["n"].tolist() == [1, 2**60, 3]
    assert sample().pl()["n"].to_list() == [1, 2**60, 3]
    assert sample().arrow().num_rows == 3


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.int8()])
def test_whole_numbers_beside_nulls_keep_their_digits_in_a_data_frame(kind: pa.DataType) -> None:
    """They became floats: 9007199254740993 was 9007199254740992."""
    pytest.importorskip("pandas")
    most = 2**7 - 1 if kind == pa.int8() else 2**53 + 1
    columns = {"n": pa.array([most, None], kind), "l": pa.array([[most, None], None], pa.list_(kind))}
    types = {pa.int64(): "BIGINT", pa.uint64(): "UBIGINT", pa.int8(): "TINYINT"}[kind]
    result = Result(pa.table({**columns, "w": pa.array([1, 2], kind)}), [types, f"{types}[]", types])
    frame = result.df()
    assert frame.n[0] == most and frame.n.isna().tolist() == [False, True]
    assert str(frame.n.dtype).lower() == str(frame.w.dtype) == str(kind)
    assert list(frame.l[0]) == [most, None]


@pytest.mark.parametrize(("method", "package"), [("df", "pandas"), ("pl", "polars")])
def test_a_missing_package_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, method: str, package: str
) -> None:
    real = builtins.__import__

    def refuse(name: str, *args: object, **kwargs: object) -> object:
        if name == package:
            raise ImportError(name)
        return real(name, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtra, match=rf"needs {package}: pip install {package}$"):
        getattr(sample(), method)()


def test_columns_of_one_name_are_told_apart_everywhere(tmp_path: Path) -> None:
    """SELECT a.entity, b.entity: an object of JSON kept one of the two, and no program read the Parquet."""
    columns = [pa.array(["cat"]), pa.array(["dog"]), pa.array(["ant"]), pa.array([1])]
    table = pa.Table.from_arrays(columns, names=["entity", "entity", "entity_1", "n"])
    result = Result(table, ["VARCHAR"] * 3 + ["INTEGER"])
    told = {"entity": "cat", "entity_2": "dog", "entity_1": "ant", "n": 1}
    assert json.loads(result.to_json()) == [told]
    assert dict(result[0]) == told
    assert result[0]["entity_2"] == "dog"
    assert pq.read_table(result.write(tmp_path / "pairs.parquet")).to_pylist() == [told]
    assert result.columns == ["entity", "entity", "entity_1", "n"]  # as DuckDB has them
    assert result.to_csv().splitlines()[0] == "entity,entity_2,entity_1,n"


class Counted(str):
    """A name that counts how often it is compared with another."""

    compared = 0

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return str.__eq__(self, other)


def test_a_thousand_columns_of_one_name_are_told_apart_in_a_pass() -> None:
    """Each was compared with all before it, for each number tried: 3,000 took a minute, past any limit."""
    names = _told_apart([Counted("1") for _ in range(1000)])
    assert names == ["1", *(f"1_{i}" for i in range(1, 1000))]
    assert Counted.compared < 20_000


def an_hour() -> Result:
    span = pa.array([None, pa.MonthDayNano([0, 0, 3_600_000_000_000])], pa.month_day_nano_interval())
    return Result(pa.table({"gap": span}), ["INTERVAL"])


def test_an_interval_is_a_duration_in_files(tmp_path: Path) -> None:
    """start_clock less the one before it: it could be printed, and not be written."""
    written = pq.read_table(an_hour().write(tmp_path / "gaps.parquet"))
    assert written.column("gap").to_pylist() == [None, datetime.timedelta(hours=1)]


def test_whatever_reads_arrow_takes_a_result_itself() -> None:
    """pyarrow.table(result) was a TypeError, and polars made a column of objects of the rows."""
    result, gap = sample(), an_hour()
    assert pa.table(result).drop(["x"]) == result.arrow().drop(["x"])  # x is not a number once
    (row,) = duckdb.sql("SELECT name, n, l FROM result WHERE n = 1").fetchall()
    assert row == ("a", 1, [1.5])
    assert duckdb.sql("SELECT max(gap) FROM gap").fetchall() == [(datetime.timedelta(hours=1),)]
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(result).equals(result.pl(), null_equal=True)
    assert polars.DataFrame(gap)["gap"][1] == datetime.timedelta(hours=1)


def test_an_interval_is_a_duration_in_data_frames() -> None:
    pytest.importorskip("pandas")
    assert an_hour().df().gap[1] == datetime.timedelta(hours=1)
    polars = pytest.importorskip("polars")
    assert an_hour().pl()["gap"].dtype == polars.Duration


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"rows.csv cannot be written: there is no folder .*nowhere"):
        sample().write(tmp_path / "nowhere" / "rows.csv")
