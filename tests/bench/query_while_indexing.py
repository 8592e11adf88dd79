"""Query times, p50 and p99, on an idle computer and while another process indexes into the same library.

    python tests/bench/query_while_indexing.py ../shared/footage --work /tmp/bench-work --rounds 3

A library of the fixed-camera clips and their entities is queried in three ways: `kept`, in this process,
which keeps the library open; `anew`, in this process, which opens the library for each query; `command`, the
real `panorama query`. Every round has an idle phase and then a busy one. In the busy phase the real `panorama
index` works at its default settings on files of a minute or more from the same cameras. It commits them one
by one, and they are removed afterwards, so that all phases start with the same library. In each phase `kept`
runs for `--seconds`, `anew` for a quarter of that, and `command` `--commands` times. The statements take
turns, with a pause between them, shorter than a person's. The table says how many queries of a busy phase
make up its p99; if only one or two do, the figure means little, and a longer `--seconds` gives more.
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import numpy as np
from footage import copy_packets, fixed_clips
from measure import index, machine, model_words, panorama, percentiles, say, table

import panorama as api

STATEMENTS = {
    "frames": "SELECT frames WHERE entity = '{}'",
    "moments": "SELECT moments WHERE entity = '{}'",
    "counts": "SELECT video, count(DISTINCT track_id) FROM sightings WHERE entity = '{}' GROUP BY video",
}


def statements(names: list[str]) -> Iterator[tuple[str, str]]:
    """Every statement for every entity, in turn, for ever."""
    pairs = [(kind, sql.format(name)) for name in names for kind, sql in STATEMENTS.items()]
    return itertools.cycle(pairs)


def more_files(footage: Path, work: Path, count: int, seconds: float) -> list[Path]:
    """Files for the index to work on, no two the same."""
    out = []
    for number in range(count):
        clip = fixed_clips(footage)[number % 3]
        path = work / "queue" / f"{seconds:g}" / f"{number:03d}-{clip.name}"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part.mp4")
            copy_packets(clip, part, seconds + number, whole_rounds=False).rename(path)
        out.append(path)
    return out


@contextmanager
def indexing(library: Path, files: list[Path]) -> Iterator[subprocess.Popen[str]]:
    """`panorama index` at work; stopped as Ctrl-C does it, and what it committed is taken out again."""
    with api.open(library) as opened:
        before = set(opened.videos().column("video").to_pylist())
    command = panorama("index", *files, "--json", library=library)
    # A job in a shell's background is started with interrupts ignored, and would hand that on to the index.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryFile("w+") as told:
        child = subprocess.Popen(command, stdout=told, stderr=subprocess.DEVNULL, text=True)
        try:
            yield child
        finally:
            early = child.poll()
            child.send_signal(signal.SIGINT)
            child.wait(60)
            with api.open(library) as opened:
                added = [v for v in opened.videos().column("video").to_pylist() if v not in before]
                if added:
                    opened.remove_videos(added)
            told.seek(0)
            work = [json.loads(line) for line in told if line.startswith("{")]
            frames, paused = (sum(w[name] for w in work) for name in ("frames", "paused_seconds"))
            say(f"the index committed {len(work)} files, {frames} frames; it stood back for {paused:.1f} s")
            if early is not None:
                raise RuntimeError(f"the index ended ({early}) before the queries did; give it more --files")


class Phase:
    """Asks for a while, and keeps what each query took: (way, statement) -> seconds."""

    def __init__(self, library: Path, names: list[str], pause: float) -> None:
        self.took: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._library = library
        self._asked = statements(names)
        self._pause = pause

    def ask(self, way: str, query: Callable[[str], object]) -> None:
        kind, sql = next(self._asked)
        started = time.perf_counter()
        query(sql)
        self.took[way, kind].append(time.perf_counter() - started)
        time.sleep(self._pause)

    def run(self, kept: api.Library, seconds: float, commands: int) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.ask("kept", lambda sql: kept.query(sql).fetchall())
        end = time.monotonic() + seconds / 4
        while time.monotonic() < end:
            self.ask("anew", self._anew)
        for _ in range(commands):
            self.ask("command", self._command)

    def _anew(self, sql: str) -> None:
        with api.open(self._library) as opened:
            opened.query(sql).fetchall()

    def _command(self, sql: str) -> None:
        command = panorama("query", sql, "--format", "json", library=self._library)
        subprocess.run(command, capture_output=True, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for files to index; kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0, help="of `kept` in each phase")
    parser.add_argument("--commands", type=int, default=6, help="of `command` in each phase")
    parser.add_argument("--files", type=int, default=60, help="files in the queue of the index")
    parser.add_argument("--file-seconds", type=float, default=60.0, help="length of the shortest of them")
    parser.add_argument("--model", default=None, help="the embedder; the default one otherwise")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between queries")
    given = parser.parse_args()
    print(f"{machine()}; {given.rounds} rounds, idle and busy in turn")
    files = more_files(given.footage, given.work, given.files, given.file_seconds)
    idle: list[Phase] = []
    busy: list[Phase] = []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        clips = fixed_clips(given.footage)
        index(clips, library, model_words(given.model))
        truth = json.loads((given.footage / "eval" / "truth.json").read_text(encoding="utf-8"))
        here = {clip.name for clip in clips}
        names = [name for name, entry in truth.items() if here & set(entry["visible"])]
        with api.open(library) as kept:
            kept.register_album(given.footage / "eval" / "album")
            for number in range(given.rounds):
                for phases, work in ((idle, []), (busy, files)):
                    phase = Phase(library, names, given.pause)
                    kept.query("SELECT frames WHERE entity = ?", [names[0]]).fetchall()
                    if work:
                        with indexing(library, work):
                            phase.run(kept, given.seconds, given.commands)
                    else:
                        phase.run(kept, given.seconds, given.commands)
                    phases.append(phase)
                    asked = sum(map(len, phase.took.values()))
                    say(f"round {number}, {'busy' if work else 'idle'}: {asked} queries")
    print_phases(idle, busy)


def print_phases(idle: list[Phase], busy: list[Phase]) -> None:
    rows = []
    ways = list(dict.fromkeys(way for way, _ in idle[0].took))
    for way in ways:
        for kind in (*STATEMENTS, "all"):
            sides = [[_of(phase, way, kind) for phase in phases] for phases in (idle, busy)]
            if not all(taken for side in sides for taken in side):
                continue
            # The median over the rounds of each round's percentiles.
            quiet, loud = (
                [median(values) for values in zip(*map(percentiles, side), strict=True)] for side in sides
            )
            counts = [sum(map(len, side)) for side in sides]
            shown = [f"{seconds * 1000:.1f}" for seconds in (*quiet, *loud)]
            ratios = [loud[0] / quiet[0], loud[1] / quiet[1]]
            beyond = min(sum(s >= np.percentile(taken, 99) for s in taken) for taken in sides[1])
            rows.append([way, kind, f"{counts[0]} / {counts[1]}", f"{beyond}", *shown, *ratios])
    head = ["asked", "statement", "queries idle / busy", "at p99 or slower", "idle p50 ms", "idle p99 ms"]
    table(
        "Query times; wanted: p99 busy at most twice p99 idle",
        [*head, "busy p50 ms", "busy p99 ms", "p50 ratio", "p99 ratio"],
        rows,
    )


def _of(phase: Phase, way: str, kind: str) -> list[float]:
    """What the queries of one way and statement, or of all statements, took."""
    return [s for (w, k), taken in phase.took.items() if w == way and kind in (k, "all") for s in taken]


if __name__ == "__main__":
    main()
