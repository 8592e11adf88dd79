"""Measure the figures that DECISIONS.md cites; takes no arguments and prints one line per decision.

python tests/bench/decisions.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cv2
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot

from panorama.cli.demo import renderer
from panorama.crops import decode_picture, encode_jpeg
from panorama.models.registry import embedder_names, load_embedder

SMALL_FILES = 5000
LARGE_FILES = 20
STATEMENTS = (
    "SELECT date '2020-01-01' + 3", "SELECT 10 % 3 ** 2", "SELECT interval 3 days", "SELECT 5 // 2",
    "SELECT 2 ** 3 ** 2", "SELECT x'ab'", "SELECT 5!", "SELECT 12::HUGEINT", "SELECT @(-3)", "SELECT 1 + 1",
    "SELECT substr('abc', 2)", "SELECT instr('abc', 'b')", "SELECT current_date IS NOT NULL", "FROM range(2)",
    "SELECT 'abc'[2]", "SELECT [1, 2, 3][2:]", "SELECT 7 / 2", "SELECT unnest({'a': 1, 'b': 2})",
    "SELECT sum(range) FILTER (range > 1) FROM range(3)", "SELECT epoch_ms(5)", "SELECT $$a$$", "SELECT ~5",
)  # fmt: skip


def lock(folder: Path) -> str:
    """What a reader gets while another process has a DuckDB file open for writing."""
    path = folder / "catalog.duckdb"
    with duckdb.connect(str(path)) as writer:
        writer.execute("CREATE TABLE videos (video VARCHAR)")
        code = f"import duckdb; duckdb.connect({str(path)!r}, read_only=True)"
        reader = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return reader.stderr.strip().splitlines()[-1][:90] if reader.returncode else "reads"


def best_of_three(run: Callable[[], object]) -> float:
    """Seconds of the quickest of three runs."""
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def listing(folder: Path) -> str:
    """A filter over many small files found by a glob, and over few larger ones that are listed."""
    small, large = folder / "small", folder / "large"
    small.mkdir()
    large.mkdir()
    pq.write_table(pa.table({"video": [1], "x": [1]}), folder / "one.parquet")
    one = (folder / "one.parquet").read_bytes()
    for number in range(SMALL_FILES):
        (small / f"{number}.parquet").write_bytes(one)
    for number in range(LARGE_FILES):
        rows = SMALL_FILES // LARGE_FILES
        pq.write_table(pa.table({"video": [number] * rows, "x": range(rows)}), large / f"{number}.parquet")
    listed = [str(path) for path in sorted(large.iterdir())]
    with duckdb.connect() as con:
        times = [
            best_of_three(con.sql(f"SELECT count(*) FROM read_parquet({files}) WHERE video = 1").fetchall)
            for files in (f"'{small}/*.parquet'", repr(listed))
        ]
    return f"{SMALL_FILES} globbed {times[0] * 1000:.0f} ms, {LARGE_FILES} listed {times[1] * 1000:.0f} ms"


def round_trips() -> str:
    """How many valid statements do not come back from sqlglot as what they were."""
    unparsed, renamed, other = [], [], []
    for sql in STATEMENTS:
        before = duckdb.sql(sql)
        try:
            after = duckdb.sql(sqlglot.parse_one(sql, read="duckdb").sql("duckdb"))
        except sqlglot.errors.SqlglotError:
            unparsed.append(sql)
            continue
        if before.fetchall() != after.fetchall():
            other.append(sql)
        elif before.columns != after.columns:
            renamed.append(sql)
    return (
        f"{len(STATEMENTS)} statements: {len(unparsed)} not parsed, {len(other)} with other rows, "
        f"{len(renamed)} with other column names, for example {renamed[-1]}"
    )


def drift(folder: Path) -> str:
    """How far a crop's vector lies from that of the JPEG which is stored of it."""
    render = renderer()
    render._render_album(folder, "striped-cat")
    render._render_album(folder, "blue-van")
    pictures = []
    for path in sorted(folder.glob("album/*/*.jpg")):
        picture = np.asarray(cv2.imread(str(path))[:, :, ::-1], np.uint8)
        # Half the size: without the traces of the JPEG from which it was read.
        pictures.append(
            np.ascontiguousarray(cv2.resize(picture, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA))
        )
    embedder = load_embedder(embedder_names()[0])
    stored = [decode_picture(encode_jpeg(picture)) for picture in pictures]
    apart = 1 - (embedder.embed(pictures) * embedder.embed(stored)).sum(axis=1)  # (B,)
    return (
        f"{embedder.name}, {len(pictures)} crops: 1 - cosine is {apart.mean():.4f}, at most {apart.max():.4f}"
    )


def main() -> None:
    """Print every figure."""
    print(f"duckdb {duckdb.__version__}, sqlglot {sqlglot.__version__}")
    for measure in (lock, listing, drift):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{measure.__name__}: {measure(Path(folder))}")
    print(f"round_trips: {round_trips()}")


if __name__ == "__main__":
    main()
