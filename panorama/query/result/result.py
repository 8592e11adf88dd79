"""A query's Arrow table comes in; a `Result` goes out: rows, data frames, files and printed tables."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import pyarrow as pa

from panorama.arguments import checked
from panorama.errors import MissingExtra, UsageError
from panorama.lines import cells, counted, padded
from panorama.query.result.columns import (
    check_signs,
    plain_table,
    to_pandas,
    to_polars,
    with_typed_maps,
    write_parquet,
)
from panorama.query.result.kinds import fixed
from panorama.query.result.rows import Row, rows_of
from panorama.query.result.written import (
    SHOWN_CHARACTERS,
    as_json,
    csv_field,
    json_value,
    shortener,
    shown_text,
)
from panorama.store.files.outputs import check_output, whole_file
from panorama.whole_imports import imports_whole

SHOWN_ROWS = 20
PIECE_ROWS = 1024
"""Rows of CSV and JSON that are made and written at a time."""


class Result:
    """The answer to one statement: iterate over it, index it, or take it as a table, data frame or file.

    If two columns have the same name, as after a join, the second one is called name_1 in rows, data frames
    and files, which allow a name only once. `columns` and printed tables keep the names as they are. Packages
    that read Arrow, such as polars, pyarrow and DuckDB, take a result as it is (`__arrow_c_stream__`).

    Attributes:
        uncertain: number of tracks that the calibrated bands left undecided; they are not among the rows.
        uncertain_of: names of the entities that these tracks may show, in order.
        warnings: remarks for the user.
        seconds: how long the query took.
        complete: False if WITHIN n SECONDS ended the search early, or if bytes of something forgotten are
            still on the disk.
        types: DuckDB's names of the column types.
        sql: the statement as given.
    """

    def __init__(
        self,
        table: pa.Table,
        types: Sequence[str],
        *,
        uncertain: int = 0,
        uncertain_of: Sequence[str] = (),
        warnings: Sequence[str] = (),
        seconds: float = 0.0,
        complete: bool = True,
        sql: str = "",
    ) -> None:
        if len(types) != table.num_columns:
            raise ValueError(f"{table.num_columns} columns, but {len(types)} types")
        self._names = list(table.column_names)
        self._table = with_typed_maps(table.rename_columns(_told_apart(self._names)), types)
        self._rows: list[Row] | None = None
        self._position = 0
        self.types = list(types)
        self.uncertain = uncertain
        self.uncertain_of = tuple(uncertain_of)
        self.warnings = tuple(warnings)
        self.seconds = seconds
        self.complete = complete
        self.sql = sql

    @property
    def columns(self) -> list[str]:
        """Column names in order, as DuckDB returns them; the keys of the rows are `row.keys()`."""
        return list(self._names)

    def fetchall(self) -> list[Row]:
        """All rows not fetched yet."""
        rows = self._all()[self._position :]
        self._position = len(self._table)
        return rows

    def fetchone(self) -> Row | None:
        """The next row; None after the last."""
        rows = self._next(1)
        return rows[0] if rows else None

    @checked
    def fetchmany(self, size: int = 1) -> list[Row]:
        """The next rows, at most `size`."""
        return self._next(size)

    def _next(self, size: int) -> list[Row]:
        rows = self._all()[self._position : self._position + size]
        self._position += len(rows)
        return rows

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table.

        Raises:
            QueryError: a column holds a UHUGEINT of 128 bits, which Arrow would read as a negative number.
        """
        check_signs(self._table, self.types)
        return self._table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows for any package that reads Arrow, in the types that Parquet files have.

        polars ends with a panic if it is handed an INTERVAL.

        Args:
            requested_schema: see the Arrow PyCapsule interface.

        Raises:
            QueryError: a column holds values that data frames have no type for.
        """
        return plain_table(self._table, self.types).__arrow_c_stream__(requested_schema)

    @imports_whole()
    def df(self) -> Any:
        """The rows as a pandas DataFrame.

        Raises:
            MissingExtra: pandas is not installed.
            QueryError: a column holds values that pandas has no type for, such as years BC or infinity.
        """
        try:
            import pandas  # noqa: F401
        except ImportError as exc:
            raise MissingExtra("df() needs pandas: pip install pandas") from exc
        return to_pandas(self._table, self.types)

    @imports_whole()
    def pl(self) -> Any:
        """The rows as a polars DataFrame.

        Raises:
            MissingExtra: polars is not installed.
            QueryError: a column holds values that polars has no type for, such as a long INTERVAL or
                infinity.
        """
        try:
            import polars  # noqa: F401
        except ImportError as exc:
            raise MissingExtra("pl() needs polars: pip install polars") from exc
        return to_polars(self._table, self.types)

    def to_json(self) -> str:
        """The rows as a JSON array of objects, one per line; numbers that JSON cannot hold are null.

        As in CSV, floating-point noise is removed: 6.74, not 6.739999999999999. Boxes and FLOAT numbers have
        the digits of 32 bits: 141.33333, not 141.3333282470703. Decimals keep all their digits.
        """
        return "".join(self.pieces("json"))

    @checked
    def write(self, path: str | Path, form: str | None = None) -> Path:
        """Write the rows to a file, whole or not at all; an existing file is replaced only at the end.

        Args:
            path: its suffix sets the format: .csv, .json or .parquet.
            form: the format, in place of the suffix: csv, json, parquet, or table for text as printed.

        Returns:
            The path.

        Raises:
            UsageError: unknown suffix or format, missing folder, or one of a library's own files.
            LibraryWriteError: the disk is full, or the folder is not writable.
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
        check_output(path, what="rows")
        with whole_file(path) as partial:
            writer(partial)
        return path

    def _write_csv(self, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(self.pieces("csv"))

    def _write_json(self, path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            file.writelines(self.pieces("json"))
            file.write("\n")

    def _write_table(self, path: Path) -> None:
        path.write_text(self.to_table(None) + "\n", encoding="utf-8")

    def _write_parquet(self, path: Path) -> None:
        write_parquet(self._table, self.types, path)

    def to_csv(self) -> str:
        """The rows as CSV text with a header; text is quoted if it must be.

        NULL is an empty field; in a single column it is quoted, because readers skip empty lines. Numbers
        that are not finite are inf, -inf and nan; within a list, struct or map they are null, as in JSON.
        """
        return "".join(self.pieces("csv"))

    def pieces(self, form: Literal["csv", "json"]) -> Iterator[str]:
        """The text of `to_csv` or `to_json` in pieces, so that only a few rows are in memory at a time."""
        names, begun = self._table.column_names, False
        if form == "csv":
            yield ",".join(csv_field(name) for name in names) + "\n"
            empty = '""' if len(names) == 1 else ""
            for rows in self._short_rows():
                yield "".join([(",".join(map(csv_field, row)) or empty) + "\n" for row in rows])
            return
        keys = [f"{as_json(name)}: " for name in names]
        yield "["
        for rows in self._short_rows():
            lines = [
                ", ".join([key + as_json(json_value(v)) for key, v in zip(keys, row, strict=True)])
                for row in rows
            ]
            yield (",\n " if begun else "") + ",\n ".join([f"{{{line}}}" for line in lines])
            begun = True
        yield "]"

    def _short_rows(self) -> Iterator[list[list[Any]]]:
        """All rows without unmeasured digits, some at a time."""
        short = list(map(shortener, self._names, self.types))
        for start in range(0, len(self), PIECE_ROWS):
            yield [
                [fixed(fix, value) for fix, value in zip(short, row, strict=True)]
                for row in self._piece(start)
            ]

    def _piece(self, start: int) -> list[Row]:
        if self._rows is not None:
            return self._rows[start : start + PIECE_ROWS]
        return rows_of(self._table.slice(start, PIECE_ROWS), self.types)

    def __getstate__(self) -> dict[str, Any]:
        # The table holds everything; rows are made again when they are needed.
        return self.__dict__ | {"_rows": None}

    def __iter__(self) -> Iterator[Row]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> Row: ...

    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...

    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, str):
            raise UsageError(
                f"a result is indexed by row: [row[{index!r}] for row in result]; "
                f"for a whole column: result.arrow()[{index!r}] or result.df()[{index!r}]"
            )
        return self._all()[index]

    def __repr__(self) -> str:
        return self.to_table()

    @checked
    def to_table(self, rows: int | None = SHOWN_ROWS) -> str:
        """The rows as aligned text; of more than `rows` rows the first and the last ones. None: all."""
        shown, cut = self._shown(rows)
        names = self.columns
        width = SHOWN_CHARACTERS if len(names) > 1 else None
        texts = [[shown_text(value, width) for value in row] for row in shown]
        widths = [max([cells(name), *(cells(text[i]) for text in texts)]) for i, name in enumerate(names)]
        right = [_is_number(kind) for kind in self.types]

        def line(text: Sequence[str]) -> str:
            return "  ".join(padded(t, w, r) for t, w, r in zip(text, widths, right, strict=True)).rstrip()

        lines = [line(names), "  ".join("-" * width for width in widths), *map(line, texts)]
        if 0 <= cut < len(texts):
            lines.insert(2 + cut, line(["..."] * len(names)))
        left_out = "" if cut < 0 else f", {len(texts)} shown"
        lines.append(f"({counted(len(self), 'row')}{left_out})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        shown, cut = self._shown(SHOWN_ROWS)
        width = SHOWN_CHARACTERS if len(self.columns) > 1 else None
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        body = ""
        for i, row in enumerate(shown):
            if i == cut:
                body += f"<tr><td colspan='{len(self.columns)}'>…</td></tr>"
            body += "<tr>" + "".join(f"<td>{html.escape(shown_text(v, width))}</td>" for v in row) + "</tr>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f"{table}<p>{counted(len(self), 'row')}</p>"

    def _shown(self, rows: int | None) -> tuple[list[Row], int]:
        """Rows to print, and the index among them at which rows are left out (-1: none are)."""
        if rows is None or len(self) <= rows:
            return self._all(), -1
        head = (rows + 1) // 2
        picked = pa.concat_tables([self._table.slice(0, head), self._table.slice(len(self) - (rows - head))])
        return rows_of(picked, self.types), head

    def _all(self) -> list[Row]:
        if self._rows is None:
            self._rows = rows_of(self._table, self.types)
        return self._rows


class Plan(Result):
    """The answer to EXPLAIN, always shown whole."""

    def to_table(self, rows: int | None = SHOWN_ROWS) -> str:
        """The text of the plan."""
        return "\n".join(str(row[-1]).rstrip("\n") for row in self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.to_table())}</pre>"


def _told_apart(names: Sequence[str]) -> list[str]:
    """The names, with a free number added to repeated ones, as in DuckDB's data frames."""
    taken = set(names)
    seen: set[str] = set()
    numbers: dict[str, int] = {}  # the last one given to each name: 400 `*` name a column 400 times
    told: list[str] = []
    for name in names:
        new = name
        if name in seen:
            while new in taken:
                numbers[name] = numbers.get(name, 0) + 1
                new = f"{name}_{numbers[name]}"
            taken.add(new)
        seen.add(name)
        told.append(new)
    return told


def _is_number(kind: str) -> bool:
    return kind.startswith(("DECIMAL", "FLOAT", "DOUBLE")) or kind.endswith("INT") or kind == "INTEGER"
