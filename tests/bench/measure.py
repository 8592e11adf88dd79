"""Commands and functions come in; wall times, peak memory and markdown tables of medians go out.

The benches share this module; it is not a command.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

PANORAMA = (sys.executable, "-m", "panorama")
"""The command line that is measured: that of the working directory where it is a checkout."""

DECODE_CHILD = """
import json, sys, time
import av
frames, started, used = 0, time.perf_counter(), time.process_time()
for path in sys.argv[2:]:
    with av.open(path) as source:
        video = source.streams.video[0]
        video.thread_type = "AUTO"
        video.codec_context.thread_count = int(sys.argv[1])
        frames += sum(1 for _ in source.decode(video))
seconds, core_seconds = time.perf_counter() - started, time.process_time() - used
print(json.dumps({"frames": frames, "seconds": seconds, "core_seconds": core_seconds}))
"""


def cores() -> int:
    """Cores that this process, and what it starts, may use."""
    return len(os.sched_getaffinity(0))


def say(text: str) -> None:
    """Progress, on stderr: stdout holds the tables alone."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def sample_arguments(description: str | None, rates: Sequence[float], **flags: str) -> argparse.Namespace:
    """What a bench over the drawn sample archive is given: sample, work, model and rates.

    Args:
        flags: what else may be said, by name, with its help.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sample", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="keeps a library for each rate")
    parser.add_argument("--model", default=None)
    parser.add_argument("--rates", type=float, nargs="+", default=rates, help="samples a second")
    for name, told in flags.items():
        parser.add_argument(f"--{name}", action="store_true", help=told)
    return parser.parse_args()


def machine() -> str:
    """One line about where this ran."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((ln.split(":", 1)[1].strip() for ln in lines if ln.startswith("model name")), model)
    load = os.getloadavg()[0]
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    facts = f"Python {platform.python_version()}, OMP_NUM_THREADS {threads}, load {load:.1f} at the start"
    return f"{cores()} cores ({model}), {facts}"


@dataclass(frozen=True, slots=True)
class Indexed:
    """What one `panorama index` did.

    Attributes:
        seconds: wall time of the whole command: interpreter, models, commit and compaction included.
        outcomes: its JSON lines of files that were indexed.
        core_seconds: time of all cores that it took; other work on the machine hardly changes it.
        peak_mib: most memory that it and its children held at once; 0 where it was not watched.
    """

    seconds: float
    outcomes: tuple[Mapping[str, Any], ...]
    core_seconds: float = 0.0
    peak_mib: float = 0.0

    @property
    def frames(self) -> int:
        return sum(int(o["frames"]) for o in self.outcomes)

    @property
    def video_seconds(self) -> float:
        return sum(float(o["video_seconds"]) for o in self.outcomes)

    @property
    def stage_seconds(self) -> dict[str, float]:
        """Time by stage over all files; where stages overlap, the sum is more than the wall time."""
        out: defaultdict[str, float] = defaultdict(float)
        for outcome in self.outcomes:
            for name, seconds in outcome["stage_seconds"].items():
                out[name] += float(seconds)
        return dict(out)


def model_words(model: str | None) -> list[str]:
    """The words of `panorama index` that name an embedder; none for the default one."""
    return [] if model is None else ["--model", model]


def panorama(*words: object, library: Path) -> list[str]:
    """A command line of this checkout."""
    return [*PANORAMA, "--library", str(library), *map(str, words)]


def index(
    videos: Sequence[Path], library: Path, options: Sequence[str] = (), watch_memory: bool = False
) -> Indexed:
    """Run `panorama index` as a user would, and read what it tells."""
    command = panorama("index", *options, "--json", *videos, library=library)
    before, started = children_seconds(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        peak = 0.0
        while watch_memory and child.poll() is None:
            peak = max(peak, tree_mib(child.pid))
            time.sleep(0.1)
        out, err = child.communicate()
    seconds = time.perf_counter() - started
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}:\n{err}")
    lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    outcomes = tuple(line for line in lines if line.get("status") == "indexed")
    if len(outcomes) != len(videos):
        raise RuntimeError(f"{len(videos)} videos were to be indexed, {len(outcomes)} were:\n{out}\n{err}")
    return Indexed(seconds, outcomes, children_seconds() - before, peak)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What decoding alone took: wall time, and time of all cores."""

    frames: int
    seconds: float
    core_seconds: float


def decode_only(videos: Sequence[Path], threads: int) -> Decoded:
    """Decode files with PyAV, one after the other, in a process of its own whose start is not counted."""
    command = [sys.executable, "-c", DECODE_CHILD, str(threads), *map(str, videos)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Decoded(**json.loads(done.stdout))


def children_seconds() -> float:
    """Time of all cores that the processes started from here, and ended, have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_mib(pid: int) -> float:
    """Resident memory of a process, and of its descendants what they do not share with it."""
    total, waiting = 0, [pid]
    while waiting:
        at = waiting.pop()
        with contextlib.suppress(OSError, ValueError):
            for task in Path(f"/proc/{at}/task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())
            for line in Path(f"/proc/{at}/smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Rss:" if at == pid else "Private_"):
                    total += int(line.split()[1])
    return total / 1024


def table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a markdown table."""
    print(f"\n{title}\n")
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(_shown(cell) for cell in row) + " |", flush=True)


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
    return str(cell)


def spread(values: Sequence[float]) -> str:
    """The median, and the least and the greatest where there are several."""
    middle = _shown(float(median(values)))
    return middle if len(values) == 1 else f"{middle} ({_shown(min(values))} to {_shown(max(values))})"


def percentiles(values: Sequence[float]) -> tuple[float, float]:
    """The 50th and the 99th."""
    p50, p99 = np.percentile(np.array(values), [50, 99])
    return float(p50), float(p99)


def straight_line(x: Sequence[float], y: Sequence[float]) -> tuple[float, float, float]:
    """Slope, intercept and R2 of the least-squares line."""
    slope, intercept = np.polyfit(x, y, 1)
    rest = np.array(y) - (slope * np.array(x) + intercept)
    about_mean = np.array(y) - np.mean(y)
    total = float(about_mean @ about_mean)
    return float(slope), float(intercept), 1 - float(rest @ rest) / total if total else 1.0


@dataclass
class Checkpoint:
    """Results of long parts, in a file of JSON lines: a run that was stopped goes on where it was.

    Args:
        path: the file; None keeps nothing.
        settings: what the results depend on; a file made with others is begun anew.
    """

    path: Path | None
    settings: Mapping[str, Any]
    _known: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is None:
            return
        settings = json.loads(json.dumps(self.settings))
        if self.path.exists():
            lines = [json.loads(line) for line in self.path.read_text(encoding="utf-8").splitlines()]
            if lines and lines[0] == settings:
                self._known = {line["part"]: line["result"] for line in lines[1:]}
                say(f"{len(self._known)} parts are taken from {self.path}")
                return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(settings) + "\n", encoding="utf-8")

    def known(self, part: str) -> Any:
        """The result of a part, None where it has to be made."""
        return self._known.get(part)

    def keep(self, part: str, result: Any) -> Any:
        """Remember a result (JSON), and return it."""
        self._known[part] = result
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"part": part, "result": result}) + "\n")
        return result


@contextlib.contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Append the wall time of a block."""
    started = time.perf_counter()
    yield
    into.append(time.perf_counter() - started)
