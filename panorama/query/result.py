"""What a query returns: an Arrow table enters, rows, data frames, files and printed tables leave."""

from __future__ import annotations

import datetime
import decimal
import gc
import html
import json
import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from panorama.errors import MissingExtra, UsageError
from panorama.lines import cells, counted, one_line, padded
from panorama.store.layout import whole_file

SHOWN_ROWS = 20
SHOWN_CHARACTERS = 40
WRITTEN_DIGITS = 6
"""Decimals of a number in text that differs from it only by what computing with floats left: microseconds."""
FLOAT_NOISE = 1e-10
"""Sums and differences of some times are this near to what they stand for."""
BOXED = frozenset(("x1", "y1", "x2", "y2"))
"""Columns whose numbers are measured with 24 bits, whatever computes on with more."""
LARGEST_PIXEL = 1 << 17
"""A number beyond it in a column of such a name is somebody's own."""


class Row(tuple[Any, ...]):
    """A tuple whose values can also be read by column name: row['video'], row.video."""

    __slots__ = ()
    _columns: tuple[str, ...] = ()

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self._columns.index(key))
            except ValueError:
                raise KeyError(f"no column {key!r}; there are {', '.join(self._columns)}") from None
        return tuple.__getitem__(self, key)

    def __getattr__(self, name: str) -> Any:
        try:
            return tuple.__getitem__(self, self._columns.index(name))
        except ValueError:
            raise AttributeError(f"no column {name!r}; there are {', '.join(self._columns)}") from None

    def keys(self) -> tuple[str, ...]:
        """Column names; with them, dict(row) works."""
        return self._columns

    def __reduce__(self) -> tuple[Any, ...]:
        # The class is made for the columns and has no name that another process could find.
        return _row_again, (self._columns, tuple(self))


@lru_cache(maxsize=256)
def _row_kind(columns: tuple[str, ...]) -> type[Row]:
    """The class of rows with these columns."""
    # Python looks for an attribute in the class first: there every tuple has a `count` and an `index`.
    hidden: dict[str, Any] = {
        name: property(itemgetter(name)) for name in ("count", "index") if name in columns
    }
    return type("Row", (Row,), {"_columns": columns, "__slots__": (), **hidden})


def _row_again(columns: tuple[str, ...], values: tuple[Any, ...]) -> Row:
    """A row as another process, or a copy, has it."""
    return _row_kind(columns)(values)


class Result:
    """The answer to one statement.

    Of columns with one name, as a join has, the second is called name_1 in rows, data frames and files, which
    have no room for a name twice. `columns` and what is printed have the names as they are.

    Attributes:
        uncertain: tracks that the calibrated bands left undecided; they are not among the rows.
        warnings: what else the asker should know.
        seconds: how long it took.
        complete: False where WITHIN n SECONDS ended the search before everything was looked at.
        types: DuckDB's names of the column types.
        sql: the statement, as it was asked.
    """

    def __init__(
        self,
        table: pa.Table,
        types: Sequence[str],
        *,
        uncertain: int = 0,
        warnings: Sequence[str] = (),
        seconds: float = 0.0,
        complete: bool = True,
        sql: str = "",
    ) -> None:
        if len(types) != table.num_columns:
            raise ValueError(f"{table.num_columns} columns, but {len(types)} types")
        self._names = list(table.column_names)
        self._table = table.rename_columns(_told_apart(self._names))
        self._rows: list[Row] | None = None
        self._position = 0
        self.types = list(types)
        self.uncertain = uncertain
        self.warnings = tuple(warnings)
        self.seconds = seconds
        self.complete = complete
        self.sql = sql

    @property
    def columns(self) -> list[str]:
        """Column names, in order, as DuckDB has them."""
        return list(self._names)

    def fetchall(self) -> list[Row]:
        """Every row not fetched yet."""
        rows = self._all()[self._position :]
        self._position = len(self._table)
        return rows

    def fetchone(self) -> Row | None:
        """The next row, None after the last."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next rows, at most `size`."""
        rows = self._all()[self._position : self._position + size]
        self._position += len(rows)
        return rows

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._table

    def df(self) -> Any:
        """The rows as a pandas DataFrame.

        Raises:
            MissingExtra: pandas is not installed.
        """
        try:
            import pandas  # noqa: F401
        except ImportError as exc:
            raise MissingExtra("df() needs pandas: pip install 'panorama-video[pandas]'") from exc
        return _with_durations(self._table).to_pandas()

    def pl(self) -> Any:
        """The rows as a polars DataFrame.

        Raises:
            MissingExtra: polars is not installed.
        """
        try:
            import polars
        except ImportError as exc:
            raise MissingExtra("pl() needs polars: pip install 'panorama-video[polars]'") from exc
        return polars.from_arrow(_with_durations(self._table))

    def to_json(self) -> str:
        """An array of objects, one a line; what JSON has no number for is null.

        Of numbers what computing with floats left is taken off, as in CSV: 6.74, not 6.739999999999999. Boxes
        and numbers of type FLOAT have the digits of 32 bits: 141.33333, not 141.3333282470703.
        """
        names = self._table.column_names
        lines = [
            json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
            for row in self._plain_rows()
        ]
        return "[" + ",\n ".join(lines) + "]"

    def write(self, path: str | Path, form: str | None = None) -> Path:
        """Write the rows to a file; one that is there is replaced once all is written, else kept.

        Args:
            path: its suffix says the format: .csv, .json or .parquet.
            form: the format instead of that: csv, json, parquet, or table for text as it is printed.

        Raises:
            UsageError: another suffix or format, or no such folder.
            LibraryWriteError: the disk is full, or it may not be written there.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise UsageError(f"{path} cannot be written: there is no folder {path.parent}")
        writers = {"csv": self._write_csv, "json": self._write_json, "parquet": self._write_parquet}
        suffix = path.suffix.lower().removeprefix(".")
        if form is None and suffix not in writers:
            raise UsageError(f"a result is written as .{', .'.join(writers)}, got {path.name!r}")
        writer = (writers | {"table": self._write_table}).get(form or suffix)
        if writer is None:
            raise UsageError(f"a result is written as {', '.join(writers)} or table, got {form!r}")
        with whole_file(path) as partial:
            writer(partial)
        return path

    def _write_csv(self, path: Path) -> None:
        path.write_text(self.to_csv(), encoding="utf-8", newline="")

    def _write_json(self, path: Path) -> None:
        path.write_text(self.to_json() + "\n", encoding="utf-8")

    def _write_table(self, path: Path) -> None:
        path.write_text(self.to_table(None) + "\n", encoding="utf-8")

    def _write_parquet(self, path: Path) -> None:
        pyarrow.parquet.write_table(_with_durations(self._table), path)

    def to_csv(self) -> str:
        """Comma-separated text with a header; NULL is an empty field, text is quoted where it must be."""
        lines = [",".join(_csv_field(name) for name in self._table.column_names)]
        lines += [",".join(_csv_field(value) for value in row) for row in self._plain_rows()]
        return "\n".join(lines) + "\n"

    def _plain_rows(self) -> Iterator[list[Any]]:
        """Every row as JSON can hold it."""
        kinds = zip(self._names, self.types, strict=True)
        short = [
            _shortest if kind == "FLOAT" else _pixel if _is_box(name, kind) else None for name, kind in kinds
        ]
        for row in self._all():
            yield [
                _plain(value if fix is None or value is None else fix(value))
                for value, fix in zip(row, short, strict=True)
            ]

    def __getstate__(self) -> dict[str, Any]:
        # The table holds all that its rows do: these are made again where they are asked for.
        return self.__dict__ | {"_rows": None}

    def __iter__(self) -> Iterator[Row]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, index: int) -> Row:
        if isinstance(index, str):
            raise UsageError(
                f"a result is read by rows: [row[{index!r}] for row in result]; "
                f"a whole column: result.arrow()[{index!r}], or of result.df()"
            )
        return self._all()[index]

    def __repr__(self) -> str:
        return self.to_table()

    def to_table(self, rows: int | None = SHOWN_ROWS) -> str:
        """Aligned text for people; more than `rows` rows are shown as the first and the last of them."""
        shown, cut = self._shown(rows)
        names = self.columns
        width = SHOWN_CHARACTERS if len(names) > 1 else None
        texts = [[_shown_text(value, width) for value in row] for row in shown]
        widths = [
            max([cells(name), *(cells(line[i]) for line in texts)]) if texts else cells(name)
            for i, name in enumerate(names)
        ]
        right = [_is_number(kind) for kind in self.types]
        lines = ["  ".join(padded(n, w, r) for n, w, r in zip(names, widths, right, strict=True)).rstrip()]
        lines.append("  ".join("-" * width for width in widths))
        for i, line in enumerate(texts):
            if i == cut:
                lines.append(
                    "  ".join(padded("...", w, r) for w, r in zip(widths, right, strict=True)).rstrip()
                )
            lines.append(
                "  ".join(padded(t, w, r) for t, w, r in zip(line, widths, right, strict=True)).rstrip()
            )
        left_out = "" if cut < 0 else f", {len(texts)} shown"
        lines.append(f"({counted(len(self), 'row')}{left_out})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        shown, cut = self._shown(SHOWN_ROWS)
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = ""
        for i, row in enumerate(shown):
            if i == cut:
                body += f"<tr><td colspan='{len(self.columns)}'>…</td></tr>"
            body += "<tr>" + "".join(f"<td>{html.escape(_shown_text(v))}</td>" for v in row) + "</tr>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{table}<p>{counted(len(self), 'row')}</p>"

    def _shown(self, rows: int | None) -> tuple[list[Row], int]:
        """Rows to print, and where among them some are left out (-1: nowhere)."""
        if rows is None or len(self) <= rows:
            return self._all(), -1
        head = (rows + 1) // 2
        picked = pa.concat_tables([self._table.slice(0, head), self._table.slice(len(self) - (rows - head))])
        return _rows(picked, self.types), head

    def _all(self) -> list[Row]:
        if self._rows is None:
            self._rows = _rows(self._table, self.types)
        return self._rows


class Plan(Result):
    """What EXPLAIN returns: shown whole, line by line, however many there are."""

    def to_table(self, rows: int | None = SHOWN_ROWS) -> str:
        """The text of the plan."""
        return "\n".join(str(row[-1]).rstrip("\n") for row in self)


def _told_apart(names: Sequence[str]) -> list[str]:
    """The names, those that come again with a number that none of them has, as DuckDB's data frames have."""
    taken = set(names)
    told: list[str] = []
    for name in names:
        new, number = name, 0
        while new in told or (number and new in taken):
            number += 1
            new = f"{name}_{number}"
        told.append(new)
    return told


def _with_durations(table: pa.Table) -> pa.Table:
    """The table with INTERVALs, as of one clock less another, as durations; nothing else knows the former."""
    for i, field in enumerate(table.schema):
        if pa.types.is_interval(field.type):
            spans = [None if value is None else _interval(value) for value in table.column(i).to_pylist()]
            table = table.set_column(i, field.name, pa.array(spans, pa.duration("us")))
    return table


def _rows(table: pa.Table, types: Sequence[str]) -> list[Row]:
    """Rows of Python values, as DuckDB's own fetchall gives them."""
    kind = _row_kind(tuple(table.column_names))
    with _nothing_collected():
        columns = [_values(table.column(i), types[i]) for i in range(table.num_columns)]
        if not columns:
            return [kind() for _ in range(len(table))]
        return [kind(values) for values in zip(*columns, strict=True)]


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Within it nobody looks for garbage: rows in the making are none, and looking took most of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _values(column: pa.ChunkedArray, duckdb_type: str) -> list[Any]:
    values = column.to_pylist()
    fix = _fixer(column.type, duckdb_type)
    return values if fix is None else [None if value is None else fix(value) for value in values]


def _fixer(kind: pa.DataType, duckdb_type: str) -> Any:
    """How to undo what Arrow does to values that it has no type for; None where nothing is to be done."""
    if duckdb_type in ("HUGEINT", "UHUGEINT"):
        return int
    if duckdb_type == "UUID":
        return lambda value: uuid.UUID(value) if isinstance(value, str) else value
    if duckdb_type == "INTERVAL":
        return _interval
    if duckdb_type == "BIT":
        return _bits
    return _nested_fixer(kind, named="element1" in duckdb_type)


def _nested_fixer(kind: pa.DataType, named: bool) -> Any:
    """For values in values. Structs without names are tuples; Arrow calls their fields element1, element2."""
    if pa.types.is_map(kind):
        return dict
    if pa.types.is_fixed_size_list(kind):
        inner = _nested_fixer(kind.value_type, named) or _integral(kind.value_type)
        return lambda value: tuple(_each(inner, value))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = _nested_fixer(kind.value_type, named) or _integral(kind.value_type)
        return None if inner is None else lambda value: _each(inner, value)
    if pa.types.is_struct(kind):
        fixes = {
            field.name: fix
            for field in kind
            if (fix := _nested_fixer(field.type, named) or _integral(field.type)) is not None
        }
        if not named and kind.num_fields and kind.field(0).name == "element1":
            return lambda value: tuple(_fields(fixes, value).values())
        return (lambda value: _fields(fixes, value)) if fixes else None
    return None


def _integral(kind: pa.DataType) -> Any:
    """Inside lists and structs, HUGEINT arrives as a decimal of 38 digits without a fraction."""
    return int if pa.types.is_decimal(kind) and kind.precision == 38 and kind.scale == 0 else None


def _each(fix: Any, values: Sequence[Any]) -> list[Any]:
    return [value if fix is None or value is None else fix(value) for value in values]


def _fields(fixes: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    return {k: fixes[k](v) if k in fixes and v is not None else v for k, v in value.items()}


def _interval(value: Any) -> datetime.timedelta:
    months, days, nanoseconds = value
    return datetime.timedelta(days=months * 30 + days, microseconds=nanoseconds // 1000)


def _bits(value: Any) -> Any:
    """DuckDB's BIT: the first byte counts the padding bits."""
    if not isinstance(value, bytes) or not value:
        return value
    return "".join(f"{byte:08b}" for byte in value[1:])[value[0] :]


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return _without_noise(value) if math.isfinite(value) else None
    if isinstance(value, decimal.Decimal):
        return float(value) if value.is_finite() else None
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _without_noise(value: float) -> float:
    """6.74 for 6.739999999999999; a third, a score and whatever else has more decimals stays as it is.

    So what is written can be read back and compared with, and a number next to 0 is not made 0.
    """
    short = round(value, WRITTEN_DIGITS)
    return short if short and abs(value - short) < FLOAT_NOISE else value


def _shortest(value: float) -> float:
    """The number of fewest digits that is the same with 32 bits."""
    return float(str(np.float32(value)))


def _is_box(name: str, kind: str) -> bool:
    return kind == "DOUBLE" and name.lower() in BOXED


def _pixel(value: float) -> float:
    return _shortest(value) if abs(value) <= LARGEST_PIXEL else value


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (dict, list)):
        value = json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, float) else str(value)
    quoted = any(mark in text for mark in ',"\n\r') or text == "" or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if quoted else text


def _shown_text(value: Any, width: int | None = SHOWN_CHARACTERS) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.3f}"
    text = one_line(str(value))
    return text if width is None or len(text) <= width else text[: width - 1] + "…"


def _is_number(kind: str) -> bool:
    return kind.startswith(("DECIMAL", "FLOAT", "DOUBLE")) or kind.endswith("INT") or kind == "INTEGER"
