"""Time and bytes per hour of video from 1 to 100 hours, with fitted lines, and what settings save.

    python tests/bench/growth.py ../shared/footage --work /tmp/bench-work --part time
    python tests/bench/growth.py ../shared/footage --work /tmp/bench-work --part bytes
    python tests/bench/growth.py ../shared/footage --work /tmp/bench-work --part settings

`time`: a fixed-camera clip is looped to each of `--minutes` and indexed by the command line into a new
library. Lines are fitted to seconds over hours, for the wall time and for the CPU time of all cores, which
other work on the computer disturbs less.

`bytes`: one hour of the same clip is indexed. For the other hours, the store's own writer, which indexing
uses, writes that hour's data again as another video, with every timestamp shifted. Tracks move by up to three
frames, boxes by a fraction of a pixel and vectors by a hundredth, so that no copy is stored more cheaply than
the first. So bytes, catalog, compaction and queries up to `--hours` are real, and only decoding is not
repeated; `time` shows that it is linear. Queries ask for an entity of the clip in a newly opened library;
they have more hits with every hour. 100 hours of a busy place need about 25 GB in --work meanwhile. With
`--checkpoint`, an interrupted run continues from the last of `--hours` that it reached.

`settings`: the fixed-camera clips, looped to `--settings-minutes`, indexed at the default settings and with
one of them changed; bytes per hour by file kind. Depth: the size of the vectors of each exit.
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

from footage import fixed_clips, looped
from hours import Hour
from measure import Checkpoint, index, machine, model_words, say, spread, straight_line, table

import panorama
from panorama.indexing.settings import IngestSettings
from panorama.store import Store

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
    took: dict[float, list[tuple[float, float]]] = {m: [] for m in minutes}
    for number in range(rounds):
        for m in minutes:
            part = f"clock and cores of {m:g} min, round {number}"
            known = kept.known(part)
            if known is None:
                path = looped(clip, work, m)
                with folder_in(work) as folder:
                    made = index([path], folder / "library", model_words(model))
                known = kept.keep(part, [made.seconds, made.core_seconds])
                say(f"{part}: {known[0]:.1f} s, {known[1]:.1f} s of processor time")
            took[m].append(tuple(known))
    print_time(clip, took)


def print_time(clip: Path, took: dict[float, list[tuple[float, float]]]) -> None:
    """A row for each length, from its rounds' (seconds on the clock, of processor time), and the lines."""
    rows = []
    for m, rounds in took.items():
        clock, cores = zip(*rounds, strict=True)
        shown = [f"{m:g}", spread(clock), median(clock) / m * 60, m * 60 / median(clock)]
        rows.append([*shown, spread(cores), median(cores) / m * 60])
    head = ["minutes", "seconds", "seconds an hour", "x real time", "processor s", "processor s an hour"]
    table(f"Indexing {clip.name} looped", head, rows)
    for column, kind in enumerate(("on the clock", "of processor time")) if len(took) > 1 else ():
        middle = [median(r[column] for r in rounds) for rounds in took.values()]
        slope, start, r2 = straight_line([m / 60 for m in took], middle)
        print(f"\nStraight line {kind}: {start:.1f} s and {slope:.1f} s for each hour of video, R2 {r2:.5f}")


def bytes_part(
    clip: Path,
    footage: Path,
    work: Path,
    hours: list[int],
    minutes: float,
    kept: Checkpoint,
    model: str | None,
) -> None:
    """One real hour, written again and again; sizes, queries and commits at each of `hours`."""
    album, entity = footage / "eval" / "album", ENTITIES.get(clip.stem)
    name = f"growth-{clip.stem}-{minutes:g}-min"
    one, growing = work / name / "one", work / name / "growing"
    parts = [f"bytes of {n} videos of {minutes:g} min" for n in hours]
    if kept.path is None or not any(kept.known(part) for part in parts):
        shutil.rmtree(work / name, ignore_errors=True)
    path = looped(clip, work, minutes)
    if not growing.exists():
        index([path], one, model_words(model))
        if entity:
            with panorama.open(one) as opened:
                opened.register(entity, album / entity)
        shutil.copytree(one, growing.with_suffix(".part"))
        growing.with_suffix(".part").rename(growing)
    hour = Hour(one)
    results = []
    for wanted, part in zip(hours, parts, strict=True):
        known = kept.known(part) or kept.keep(part, grown(growing, hour, wanted, path, entity))
        results.append(known)
        say(f"{part}: {sum(known['bytes']) / 1e9:.2f} GB")
    shutil.rmtree(work / name)
    print_bytes(clip, hour, results, entity)


def grown(library: Path, hour: Hour, videos: int, path: Path, entity: str | None) -> dict[str, Any]:
    """Write the hour again until there are so many videos; what the library then is like. JSON."""
    with panorama.open(library) as opened:
        there = len(opened.videos())
    written = [hour.append_to(library, number) for number in range(there, videos)]
    # What the end of every `panorama index` does: sweep, merge small files, make the search index.
    with panorama.open(library) as opened:
        began = time.perf_counter()
        opened.index(path)
        upkeep = time.perf_counter() - began
    with Store.open(library) as store:
        store.sweep(grace_seconds=0)
        sizes = store.info().bytes
    return {
        "videos": videos,
        "hours": videos * hour.seconds / 3600,
        "bytes": [sizes.get(kind, 0) for kind in KINDS],
        "written": median(written) if written else None,
        "upkeep": upkeep,
        "queries": [query_seconds(library, sql, entity) for sql in QUERIES.values()] if entity else [],
    }


def print_bytes(clip: Path, hour: Hour, results: list[dict[str, Any]], entity: str | None) -> None:
    rows = []
    for r in results:
        shown = [f"{k / 1e6:.2f}" for k in (*r["bytes"], sum(r["bytes"]))]
        one = "" if r["written"] is None else r["written"]
        rows.append([r["videos"], f"{r['hours']:.3g}", *shown, one, r["upkeep"]])
    head = ["videos", "hours", *(f"{kind} MB" for kind in (*KINDS, "all"))]
    table(
        f"Bytes of {clip.name}: {hour.seconds / 3600:.3g} hours indexed, then written again, shifted",
        [*head, "s to write one", "s for the upkeep"],
        rows,
    )
    if len(rows) > 1:
        sums = [(r["hours"], [*r["bytes"], sum(r["bytes"])]) for r in results]
        table("Straight lines through them", ["kind", "MB an hour", "MB at none", "R2"], fits(sums))
    if entity:
        table(
            f"Seconds of a query for {entity!r}, library opened anew, median of 5",
            ["videos", *QUERIES],
            [[r["videos"], *r["queries"]] for r in results],
        )


def fits(sums: list[tuple[float, list[int]]]) -> Iterator[list[object]]:
    """A row for each kind: the line through its bytes over hours."""
    hours = [h for h, _ in sums]
    for column, kind in enumerate((*KINDS, "all")):
        slope, start, r2 = straight_line(hours, [kinds[column] / 1e6 for _, kinds in sums])
        yield [kind, f"{slope:.3f}", f"{start:.3f}", f"{r2:.5f}"]


def query_seconds(library: Path, sql: str, entity: str) -> float:
    took = []
    for _ in range(5):
        began = time.perf_counter()
        with panorama.open(library) as opened:
            opened.query(sql, [entity]).fetchall()
        took.append(time.perf_counter() - began)
    return median(took)


def settings_part(
    footage: Path,
    work: Path,
    minutes: float,
    variants: dict[str, dict[str, Any]],
    kept: Checkpoint,
    model: str | None,
) -> None:
    """Bytes an hour by kind for each variant, over the fixed cameras."""
    rows = []
    depth: list[list[object]] = []
    base = 0.0
    for name, changed in variants.items():
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
    parser.add_argument(
        "--variants", choices=VARIANTS, nargs="+", default=list(VARIANTS), help="of `settings`"
    )
    parser.add_argument("--settings-minutes", type=float, default=2.0)
    parser.add_argument("--checkpoint", type=Path, help="keep results here, and go on from them")
    given = parser.parse_args()
    clip = given.footage / "video" / f"{given.clip}.mp4"
    print(machine())
    kept = Checkpoint(given.checkpoint, {"clip": str(clip), "model": given.model})
    if "time" in given.part:
        time_part(clip, given.work, given.minutes, given.rounds, kept, given.model)
    if "bytes" in given.part:
        bytes_part(clip, given.footage, given.work, given.hours, given.hour_minutes, kept, given.model)
    if "settings" in given.part:
        chosen = {name: VARIANTS[name] for name in ("default", *given.variants)}
        settings_part(given.footage, given.work, given.settings_minutes, chosen, kept, given.model)


if __name__ == "__main__":
    main()
