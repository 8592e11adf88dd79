"""Time and bytes per hour of video from 1 to 100 hours, straight lines through them, and what settings save.

    python tests/bench/growth.py ../shared/footage --work /tmp/bench-work --part time
    python tests/bench/growth.py ../shared/footage --work /tmp/bench-work --part bytes
    python tests/bench/growth.py ../shared/footage --work /tmp/bench-work --part settings

`time`: a fixed-camera clip looped to `--minutes` and really indexed by the command line, each length into a
library of its own; the line is through seconds over hours.

`bytes`: an hour of the same clip is really indexed. The other hours are not: what the library holds of that
hour is written again by the store's own writer (the same code that indexing writes with), as another video,
every presentation time shifted by the hours before. So bytes, catalog, compaction and queries up to `--hours`
are real, and decoding is not repeated; that its time is a straight line is what `time` shows. Queries are for
an entity of the clip, the library opened anew for each; they have more hits with every hour.

`settings`: the fixed-camera clips, looped to `--settings-minutes`, indexed at the default settings and with
one of them changed; bytes an hour by file kind. Depth: what the vectors of each exit take.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
from footage import fixed_clips, looped
from measure import Checkpoint, index, machine, model_words, say, spread, straight_line, table

import panorama
from panorama.ingest import IngestSettings
from panorama.store import SegmentWriter, Store, VideoRow

KINDS = ("frames", "tracks", "boxes", "crops", "embeddings", "index", "catalog")
QUERIES = {
    "frames": "SELECT frames WHERE entity = ?",
    "moments": "SELECT moments WHERE entity = ?",
    "an hour's frames": "SELECT frames WHERE entity = ? AND video LIKE 'hour-001%'",
}
ENTITIES = {"people-one-by-one": "grey-cardigan", "cars-from-above": "white-hatchback"}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "2.5 samples a second": {"samples_per_second": 2.5},
    "1 sample a second": {"samples_per_second": 1.0},
    "2 crops a track": {"crops_per_track": 2},
    "1 crop a track": {"crops_per_track": 1},
    "keyframes only": {"keyframes_only": True},
}


class Hour:
    """What a library holds of its one video, to be written again as other videos."""

    def __init__(self, library: Path) -> None:
        with Store.open(library) as store:
            snapshot = store.snapshot()
            (self.video,) = snapshot.videos.to_pylist()
            self.tables: dict[str, dict[str, Any]] = {}
            with duckdb.connect() as con:
                for name in ("frames", "tracks", "boxes", "crops"):
                    paths = [str(path) for path in (library / "data" / name).glob("*.parquet")]
                    self.tables[name] = _columns(con, paths)
                self.vectors = {
                    key: _columns(con, [file.path for file in files])
                    for key, files in snapshot.embeddings.items()
                }
        frames = self.tables["frames"]
        self._ticks = float(np.ptp(frames["pts"])) / max(float(frames["time"][-1]), 1e-9)

    def write(self, writer: SegmentWriter, hours: int) -> None:
        """All rows into another segment, shifted by so many times this video's length."""
        shift = hours * float(self.video["duration"])
        for name, columns in self.tables.items():
            moved = {key: values for key, values in columns.items() if key != "segment"}
            for key in ("track_id", "crop_id"):
                if key in moved:
                    moved[key] = writer.pack(moved[key] & 0xFFFFFFFF)
            if name == "frames":
                # A file's own times begin at 0; the shift is in its stamps and in its wall-clock time.
                writer.add_frames(moved["frame"], moved["pts"] + round(shift * self._ticks), moved["time"])
            else:
                {"tracks": writer.add_tracks, "boxes": writer.add_boxes, "crops": writer.add_crops}[name](
                    moved
                )
        for (model, exit_number), columns in self.vectors.items():
            ids = [writer.pack(columns[key] & 0xFFFFFFFF) for key in ("crop_id", "track_id")]
            writer.add_embeddings(model, exit_number, *ids, columns["vector"])

    def row(self, number: int, digest: str) -> VideoRow:
        """The catalog's row of hour `number`."""
        facts = {key: self.video[key] for key in ("width", "height", "duration", "frames", "camera")}
        start = number * float(self.video["duration"])
        name = f"hour-{number:03d}.mp4"
        uri = str(Path(self.video["uri"]).with_name(name))
        return VideoRow(
            name=name,
            uri=uri,
            root=str(Path(uri).parent),
            content_hash=digest,
            size=1,
            mtime_ns=1,
            start_time_unix=start,
            **facts,
        )


def _columns(con: duckdb.DuckDBPyConnection, paths: list[str]) -> dict[str, Any]:
    """All rows of some Parquet files as arrays; JPEGs as a list, vectors as (N, dim)."""
    rows = con.sql(f"SELECT * FROM read_parquet({paths!r})").to_arrow_table()
    out: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if name == "jpeg":
            out[name] = column.to_pylist()
        elif name == "vector":
            flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
            out[name] = flat.reshape(len(rows), -1)
        else:
            out[name] = column.to_numpy()
    return out


@contextmanager
def folder_in(work: Path) -> Iterator[Path]:
    """A folder on the same disk that goes again: 100 hours may take tens of gigabytes."""
    work.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=work))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def time_part(
    clip: Path, work: Path, minutes: list[float], rounds: int, kept: Checkpoint, model: str | None
) -> None:
    """Index each length really, the lengths in turn."""
    seconds: dict[float, list[float]] = {m: [] for m in minutes}
    for number in range(rounds):
        for m in minutes:
            part = f"time {m:g} min, round {number}"
            known = kept.known(part)
            if known is None:
                path = looped(clip, work, m)
                with folder_in(work) as folder:
                    made = index([path], folder / "library", model_words(model))
                known = kept.keep(part, made.seconds)
                say(f"{part}: {known:.1f} s")
            seconds[m].append(known)
    rows = [[f"{m:g}", spread(s), median(s) / m * 60, m * 60 / median(s)] for m, s in seconds.items()]
    table(f"Indexing {clip.name} looped", ["minutes", "seconds", "seconds an hour", "x real time"], rows)
    if len(minutes) > 1:
        slope, start, r2 = straight_line([m / 60 for m in minutes], [median(s) for s in seconds.values()])
        print(f"\nStraight line: {start:.1f} s and {slope:.1f} s for each hour of video, R2 {r2:.5f}")


def bytes_part(
    clip: Path, album: Path, work: Path, hours: list[int], minutes: float, model: str | None
) -> None:
    """One real hour, written again and again; sizes, queries and commits at each of `hours`."""
    rows, queries, sums = [], [], []
    entity = ENTITIES.get(clip.stem)
    with folder_in(work) as folder:
        library = folder / "library"
        path = looped(clip, work, minutes)
        index([path], library, model_words(model))
        hour = Hour(library)
        length = float(hour.video["duration"]) / 3600
        written: list[float] = []
        with panorama.open(library) as opened:
            if entity:
                opened.register(entity, album / entity)
        done = 1
        for wanted in hours:
            for number in range(done, wanted):
                written.append(write_hour(library, hour, number))
            done = max(done, wanted)
            # What the end of every `panorama index` does: sweep, merge small files, make the search index.
            with panorama.open(library) as opened:
                began = time.perf_counter()
                opened.index(path)
                upkeep = time.perf_counter() - began
                opened._store.sweep(grace_seconds=0)
                sizes = opened.info().bytes
            kinds = [sizes.get(kind, 0) for kind in KINDS]
            one = median(written) if written else 0.0
            sums.append((done * length, [*kinds, sum(kinds)]))
            shown = [f"{k / 1e6:.2f}" for k in (*kinds, sum(kinds))]
            rows.append([done, f"{done * length:.3g}", *shown, one, upkeep])
            if entity:
                queries.append([done, *(query_seconds(library, sql, entity) for sql in QUERIES.values())])
            say(f"{done} hours: {sum(kinds) / 1e9:.2f} GB")
    head = ["videos", "hours", *(f"{kind} MB" for kind in (*KINDS, "all"))]
    table(
        f"Bytes of {clip.name}: one video of {length:.3g} hours indexed, the others written again, shifted",
        [*head, "s to write one", "s for the upkeep"],
        rows,
    )
    if len(rows) > 1:
        table("Straight lines through them", ["kind", "MB an hour", "MB at none", "R2"], fits(sums))
    if queries:
        table(
            f"Seconds of a query for {entity!r}, library opened anew, median of 5",
            ["videos", *QUERIES],
            queries,
        )


def fits(sums: list[tuple[float, list[int]]]) -> Iterator[list[object]]:
    """A row for each kind: the line through its bytes over hours."""
    hours = [h for h, _ in sums]
    for column, kind in enumerate((*KINDS, "all")):
        slope, start, r2 = straight_line(hours, [kinds[column] / 1e6 for _, kinds in sums])
        yield [kind, f"{slope:.3f}", f"{start:.3f}", f"{r2:.5f}"]


def write_hour(library: Path, hour: Hour, number: int) -> float:
    """Write the hour again as number `number`; seconds."""
    began = time.perf_counter()
    digest = f"{number:064x}"
    with Store.open(library) as store, store.begin_segment(digest, "growth") as writer:
        hour.write(writer, number)
        writer.commit(hour.row(number, digest))
    return time.perf_counter() - began


def query_seconds(library: Path, sql: str, entity: str) -> float:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        with panorama.open(library) as opened:
            opened.query(sql, [entity]).fetchall()
        took.append(time.perf_counter() - began)
    return median(took)


def settings_part(footage: Path, work: Path, minutes: float, kept: Checkpoint, model: str | None) -> None:
    """Bytes an hour by kind for each variant, over the fixed cameras."""
    rows = []
    depth: list[list[object]] = []
    base = 0.0
    for name, changed in VARIANTS.items():
        part = f"settings {name}, {minutes:g} min"
        known = kept.known(part) or kept.keep(part, one_variant(footage, work, minutes, changed, model))
        hours = known["hours"]
        kinds = [known["bytes"].get(kind, 0) / hours / 1e6 for kind in KINDS]
        total = sum(kinds)
        base = base or total
        rows.append([name, *(round(k, 2) for k in kinds), round(total, 1), f"{1 - total / base:.0%}"])
        if not changed:
            depth = [[exit_name, round(b / hours / 1e6, 2)] for exit_name, b in known["exits"].items()]
        say(f"{name}: {total:.0f} MB an hour, {known['seconds']:.0f} s")
    head = ["settings", *(f"{kind} MB/h" for kind in KINDS), "all MB/h", "saved"]
    table("Bytes an hour of video by kind, mean over the fixed cameras", head, rows)
    table("Vectors of the default settings by depth: an exit left out saves its row", ["exit", "MB/h"], depth)


def one_variant(
    footage: Path, work: Path, minutes: float, changed: dict[str, Any], model: str | None
) -> dict[str, Any]:
    """Index with the settings changed, in this process: the command line does not offer them all. JSON."""
    clips = [looped(clip, work, minutes) for clip in fixed_clips(footage)]
    with folder_in(work) as folder:
        began = time.perf_counter()
        with panorama.open(folder / "library", create=True) as opened:
            report = opened.index(clips, settings=replace(IngestSettings(), **changed), model=model)
            sizes = dict(opened.info().bytes)
        if not report.complete:
            raise RuntimeError(f"not all clips were indexed: {report}")
        exits: dict[str, int] = {}
        for path in sorted((folder / "library" / "data" / "embeddings").glob("*.parquet")):
            name = path.stem.rsplit("-e", 1)[-1]
            exits[name] = exits.get(name, 0) + path.stat().st_size
        hours = sum(f.video_seconds for f in report.files) / 3600
        return {"hours": hours, "bytes": sizes, "exits": exits, "seconds": time.perf_counter() - began}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for clips (kept) and libraries")
    parser.add_argument("--part", choices=("time", "bytes", "settings"), nargs="+", required=True)
    parser.add_argument("--clip", default="people-one-by-one", help="of the fixed cameras")
    parser.add_argument("--rounds", type=int, default=1, help="of `time`")
    parser.add_argument("--minutes", type=float, nargs="+", default=[7.5, 15, 30, 60], help="of `time`")
    parser.add_argument("--hours", type=int, nargs="+", default=[1, 3, 10, 30, 100], help="of `bytes`")
    parser.add_argument("--hour-minutes", type=float, default=60.0, help="length of an hour of `bytes`")
    parser.add_argument("--model", default=None, help="the embedder; the default one otherwise")
    parser.add_argument("--settings-minutes", type=float, default=2.0)
    parser.add_argument("--checkpoint", type=Path, help="keep results here, and go on from them")
    given = parser.parse_args()
    clip = given.footage / "video" / f"{given.clip}.mp4"
    print(machine())
    kept = Checkpoint(given.checkpoint, {"clip": str(clip), "model": given.model})
    if "time" in given.part:
        time_part(clip, given.work, given.minutes, given.rounds, kept, given.model)
    if "bytes" in given.part:
        bytes_part(
            clip, given.footage / "eval" / "album", given.work, given.hours, given.hour_minutes, given.model
        )
    if "settings" in given.part:
        settings_part(given.footage, given.work, given.settings_minutes, kept, given.model)


if __name__ == "__main__":
    main()
