"""What `index` does about cameras and lost files, besides indexing, in a library with very many videos.

The library is a catalog with rows and empty data files, so it cannot be queried. Times are CPU time.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from measure import machine, table

from panorama.indexing.outcomes import Dating
from panorama.store import Store, VideoRow
from panorama.store.catalog.database import Transaction
from panorama.store.files.schema import TABLES

PER_FOLDER = 100
"""Videos that lie in one folder, which is their camera."""
MERGED = 500
"""Videos whose rows lie in one data file, where files were made one of many."""

_SEGMENT = """
INSERT INTO segments (segment_id, content_hash, settings_hash, state, created_at)
VALUES (:n, :content, 'settings', 'live', 0)
"""
_VIDEO = """
INSERT INTO videos (name, uri, root, camera, content_hash, size, mtime_ns, segment_id, width, height,
                    duration, frames, indexed_at)
VALUES (:name, :uri, '/archive', :camera, :content, 1, 1, :n, 640, 480, 60.0, 1500, 0)
"""
_FILE = "INSERT INTO files (file_id, table_name, path, row_count, bytes) VALUES (:id, :table, :path, 1, 0)"
_HOLDS = "INSERT INTO file_segments (file_id, segment_id, row_count) VALUES (:id, :n, 1)"


def main() -> None:
    """Print milliseconds of processor time for libraries of several sizes."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--videos", type=int, nargs="+", default=[1_000, 20_000], help="in the library")
    parser.add_argument("--rounds", type=int, default=15, help="of each measurement; medians are printed")
    args = parser.parse_args()
    print(machine())
    columns = [dict(measured(count, args.rounds)) for count in args.videos]
    rows = [(what, *(column[what] for column in columns)) for what in columns[0]]
    table("Milliseconds of processor time", ["", *(f"{count:,} videos" for count in args.videos)], rows)


def measured(videos: int, rounds: int) -> Iterator[tuple[str, float]]:
    """What was measured, and its median in milliseconds."""
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "one") as store:
        _fill(store, videos, merged=1)
        dating = Dating(store)
        new, old = iter(range(rounds)), iter(range(rounds))
        yield "a video was indexed", _median(lambda: dating.date([_name(next(new))]), rounds)
        yield "a video was there already", _median(lambda: dating.date([_name(next(old))]), rounds)
        copies = (_copy(n) for n in range(rounds))
        yield "a copy is listed", _median(lambda: store.attach_video(next(copies), "settings"), rounds)
        yield "a run begins", _median(lambda: Dating(store), rounds)
        for number in range(videos):
            dating.date([_name(number)])
        yield "a run ends, one is new", _median(lambda: dating.report({_name(1)}), rounds)
        yield "a run ends, all were there", _median(lambda: dating.report(()), rounds)
        yield "lost files, one for each video", _median(store.lost_contents, rounds)
    with tempfile.TemporaryDirectory() as folder, Store.create(Path(folder) / "one") as store:
        _fill(store, videos, merged=MERGED)
        yield f"lost files, one for {MERGED} videos", _median(store.lost_contents, rounds)


def _median(work: Callable[[], object], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        taken.append((time.process_time() - started) * 1000)
    return median(taken)


def _name(number: int) -> str:
    return f"cam{number // PER_FOLDER}/{number:06d}.mp4"


def _copy(number: int) -> VideoRow:
    return VideoRow(f"copy/{number}.mp4", f"/archive/copy/{number}.mp4", "/archive", f"c{number}", 1, 1)


def _fill(store: Store, videos: int, merged: int) -> None:
    """Rows of videos and segments, and empty data files that hold `merged` segments each."""
    with store._place.catalog.write() as tx:
        numbers = range(videos)
        tx.run_many(_SEGMENT, [{"n": n + 1, "content": f"c{n}"} for n in numbers])
        tx.run_many(
            _VIDEO,
            [
                {
                    "n": n + 1,
                    "content": f"c{n}",
                    "name": _name(n),
                    "uri": f"/archive/{_name(n)}",
                    "camera": f"cam{n // PER_FOLDER}",
                }
                for n in numbers
            ],
        )
        for t, name in enumerate(TABLES):
            _list_files(tx, store.path, name, t * videos, videos, merged)


def _list_files(tx: Transaction, root: Path, name: str, first: int, videos: int, merged: int) -> None:
    files = []
    for number in range(0, videos, merged):
        path = f"data/{name}/s{number:08d}.parquet"
        (root / path).touch()
        files.append({"id": first + number + 1, "table": name, "path": path})
    tx.run_many(_FILE, files)
    tx.run_many(_HOLDS, [{"id": first + n - n % merged + 1, "n": n + 1} for n in range(videos)])


if __name__ == "__main__":
    main()
