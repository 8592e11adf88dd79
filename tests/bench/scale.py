"""How fast a large library answers: a size comes in, a table of medians goes out.

    python tests/bench/scale.py /tmp/scale --videos 1000        1,000,000 crops, 100 hours
    python tests/bench/scale.py /tmp/scale --videos 10000       10,000,000 crops

The synthetic library (see scale_library.py) is written once and used again. Queries run in this process,
warm. 'cache off' means that neither memory nor the catalog holds the entity's matches. The bare rival
searches the same FAISS file for the same exemplars and joins the same Parquet files in DuckDB, hand-written,
without bands, boxes between samples or checks. Vectors are written for the deepest exit only, the one that is
searched. Beside the wall time is the CPU time of all threads, which a busy computer changes less.
"""

from __future__ import annotations

import argparse
import math
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import duckdb
import faiss
import numpy as np
import pyarrow as pa
from scale_library import Size, Things, build, register

import panorama
from panorama.answering.source import SnapshotVectors
from panorama.library import Library
from panorama.models.base import Embedder
from panorama.models.registry import late_embedder
from panorama.query.matching.decide import cohort_level, least_similarity
from panorama.store import Store
from panorama.store.vectors.vector_cache import ROW

RUNS = 15
RANKS = {"rare": 5000, "usual": 500, "common": 0, "nobody": None}
"""Entities by how often they are seen; nobody is registered and never there."""

QUERIES = {
    "frames of 'usual', LIMIT 100": "SELECT frames WHERE entity = 'usual' LIMIT 100",
    "frames of 'common', LIMIT 100": "SELECT frames WHERE entity = 'common' LIMIT 100",
    "frames of 'nobody', LIMIT 100": "SELECT frames WHERE entity = 'nobody' LIMIT 100",
    "1 % of the videos": "SELECT frames WHERE entity = 'common' AND video LIKE '%07.mp4' LIMIT 100",
    "1 % of the time": "SELECT frames WHERE entity = 'common' AND time < 3.6 LIMIT 100",
    "best 100 by score": "SELECT frames WHERE entity = 'usual' ORDER BY score DESC LIMIT 100",
    "sightings by camera": "SELECT video, count(*) FROM sightings WHERE entity = 'usual' GROUP BY ALL",
    "moments": "SELECT moments WHERE entity = 'usual' LIMIT 100",
}
OPEN = """
import sys, time
started = time.perf_counter()
import panorama
with panorama.open(sys.argv[1], create=False) as library:
    library.query("SELECT count(*) FROM videos").fetchall()
    opened = time.perf_counter()
    library.query("SELECT frames WHERE entity = 'usual' LIMIT 100").fetchall()
    print(opened - started, time.perf_counter() - opened, time.process_time())
"""


def timed(run: Callable[[], object], before: Callable[[], object] = lambda: None) -> str:
    """Median milliseconds of some runs, after one that is not counted, and of processor time."""
    wall, busy = [], []
    for _ in range(RUNS + 1):
        before()
        started, worked = time.perf_counter(), time.process_time()
        run()
        wall.append(time.perf_counter() - started)
        busy.append(time.process_time() - worked)
    return f"{1000 * statistics.median(wall[1:]):8.1f} ({1000 * statistics.median(busy[1:]):6.1f})"


def prepared(folder: Path, embedder: Embedder, size: Size, seconds: float) -> Path | None:
    """The library, written unless it is there; None where `seconds` did not suffice."""
    path, started = folder / f"library-{size.videos}", time.perf_counter()
    things = build(path, embedder, size, (embedder.exits,), lambda text: print(text, flush=True), seconds)
    if things is None:
        return None
    written = time.perf_counter()
    with Store.open(path) as store:
        rng, known = np.random.default_rng(99), store.entities()
        for name, rank in RANKS.items():
            centre = things.draw(rng, 1) if rank is None else things.centres[rank : rank + 1]
            if name not in known:
                register(store, embedder, name, things, rng, centre)
        SnapshotVectors(store, store.snapshot(), embedder).prepare()
    print(f"written in {written - started:.0f} s, indexed in {time.perf_counter() - written:.0f} s")
    return path


def forgetful(library: Library) -> Callable[[], None]:
    """What makes the next query match again."""

    def forget() -> None:
        library._answering.matcher()._wholes.clear()
        library._answering._known.clear()
        with library._store._place.catalog.write() as tx:
            tx.run("DELETE FROM sightings_cache")

    return forget


class Bare:
    """The same files, searched by hand."""

    def __init__(self, library: Library, name: str) -> None:
        snapshot, embedder = library.snapshot(), library.embedder
        exit = embedder.exits
        album = snapshot.album(embedder.hash, exit)
        self._queries = np.ascontiguousarray(album.vectors[album.entity_index == album.entities.index(name)])
        source = library._answering.matcher().source
        self._table = source.stored(exit)
        calibration = library.calibrations[exit - 1]
        level = cohort_level(self._queries, embedder.cohorts()[exit - 1])
        self._least = float(least_similarity(calibration.normalised(calibration.low), level).min())
        (path,) = self._table.folder.glob("i*.faiss")
        self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
        self._ids = np.fromfile(path.with_suffix(".rows"), ROW)["crop_id"]
        codes = source.codes(exit, self._least)
        self._probes = self._index.nlist if codes is None else codes * self._index.nlist // self._index.ntotal
        self._connection = duckdb.connect()
        for table in ("tracks", "boxes", "frames"):
            self._connection.execute(
                f"CREATE VIEW {table} AS SELECT * FROM read_parquet({snapshot.files[table]!r})"
            )
        self._connection.register("videos", snapshot.videos)

    def answer(self) -> int:
        """Search, score the crops that are near, and join the first hundred boxes."""
        kind = faiss.SearchParametersIVF
        _, _, slots = self._index.range_search(self._queries, self._least, params=kind(nprobe=self._probes))
        rows = self._table.rows_of(np.unique(self._ids[slots]))
        score = (self._table.vectors[rows] @ self._queries.T).max(axis=1)
        self._connection.register("hits", pa.table({"track_id": self._table.track_ids[rows], "score": score}))
        return len(
            self._connection.execute(
                "SELECT v.video, b.frame, f.time, h.score, b.x1, b.y1, b.x2, b.y2"
                " FROM (SELECT track_id, max(score) AS score FROM hits GROUP BY ALL) h"
                " JOIN tracks t ON t.track_id = h.track_id JOIN videos v ON v.segment = t.segment"
                " JOIN boxes b ON b.track_id = t.track_id AND b.segment = t.segment"
                " JOIN frames f ON f.segment = b.segment AND f.frame = b.frame"
                " ORDER BY v.video, b.frame LIMIT 100"
            ).fetchall()
        )


def measure(path: Path, embedder: Embedder, size: Size) -> None:
    """Print every figure."""
    held: dict[str, int] = defaultdict(int)
    for file in path.rglob("*"):
        if file.is_file():
            held[file.relative_to(path).parts[0]] += file.stat().st_size
    print("disk: " + ", ".join(f"{name} {count / 1e9:.2f} GB" for name, count in sorted(held.items())))
    with panorama.open(path, create=False) as library:
        matcher = library._answering.matcher
        matcher()
        forget = forgetful(library)
        print(f"{'query':32s} {'cache off':>17s} {'cache on':>17s}   ms (processor), median of {RUNS}")
        for title, sql in QUERIES.items():

            def ask(sql: str = sql) -> None:
                library.query(sql).fetchall()

            print(f"{title:32s} {timed(ask, forget):>17s} {timed(ask):>17s}", flush=True)
        for name in ("usual", "common"):
            bare = Bare(library, name)
            print(f"{'bare FAISS and DuckDB, ' + name:32s} {timed(bare.answer):>17s}", flush=True)
        crop = int(matcher().source.stored(embedder.exits).crop_ids[7])
        nearest = f"SELECT tracks ORDER BY similarity({crop}) DESC LIMIT 20"
        print(f"{'20 tracks like a crop':32s} {timed(lambda: library.query(nearest)):>17s}", flush=True)
        costs(library)
        first_answer(library, embedder, size)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory {peak:.2f} GB, mapped files included")
    done = subprocess.run([sys.executable, "-c", OPEN, str(path)], capture_output=True, text=True, check=True)
    opened, answered, busy = map(float, done.stdout.split())
    print(
        f"new process: opened in {opened:.2f} s, first answer {answered:.2f} s later ({busy:.2f} s processor)"
    )


def costs(library: Library) -> None:
    """What the cost model's two ways take, beside what it says."""
    from panorama.query.matching.cost import Costs
    from panorama.query.matching.matcher import AlbumMatcher
    from panorama.query.matching.matches import MatchRequest

    kept = library._answering.matcher()
    request = MatchRequest(("usual",))
    kept._wholes.clear()
    for way, dear in (("index", Costs(row=1.0)), ("exact", Costs(code=1.0))):
        matcher = AlbumMatcher(kept.source, kept.embedder, kept.calibrations, costs=dear)
        matcher.match(request)
        taken = timed(lambda m=matcher: m.match(request), matcher._wholes.clear)  # type: ignore[misc]
        plain = AlbumMatcher(kept.source, kept.embedder, kept.calibrations)
        said = 1000 * plain.choices(request)["usual"].estimates.get(way, float("nan"))  # type: ignore[call-overload]
        print(f"{'matching one entity, ' + way:32s} {taken:>17s}   the cost model says {said:.1f}")


def first_answer(library: Library, embedder: Embedder, size: Size) -> None:
    """From the registration of a new entity to its first answer."""
    things = Things(embedder.cohort()[-1], size)
    if "new" in {entity.name for entity in library.entities()}:
        library.drop("new")
    register(library._store, embedder, "new", things, np.random.default_rng(5), things.centres[40:41])
    started, worked = time.perf_counter(), time.process_time()
    rows = len(library.query("SELECT frames WHERE entity = 'new' LIMIT 100"))
    wall, busy = 1000 * (time.perf_counter() - started), 1000 * (time.process_time() - worked)
    print(f"{'first answer for a new entity':32s} {wall:8.1f} ({busy:6.1f}), {rows} rows")
    library.drop("new")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the library is written, and found the next time")
    parser.add_argument("--videos", type=int, default=1000, help="of 1,000 crops each (default 1000)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="to write for; the next run goes on (no limit)"
    )
    options = parser.parse_args()
    embedder, size = late_embedder(), Size(videos=options.videos)
    options.folder.mkdir(parents=True, exist_ok=True)
    print(f"{size.rows:,} crops of {size.videos:,} videos, {size.videos * size.seconds / 3600:.0f} hours")
    path = prepared(options.folder, embedder, size, 60 * options.minutes)
    if path is None:
        print("not all videos are written: run this again")
        return
    measure(path, embedder, size)


if __name__ == "__main__":
    main()
