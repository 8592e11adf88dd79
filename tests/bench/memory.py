"""Peak memory of indexing a clip that is looped to 1, 10 and 60 minutes.

    python tests/bench/memory.py ../shared/footage/video/bottles.mp4 --minutes 1 10 60

The packets are copied repeatedly into a longer file, without encoding. The real command line indexes each
length into a new library. Ten times per second, the resident memory of the command is read, plus the memory
of its children that they do not share with it. With `--rounds` the lengths take turns, and medians are
printed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from footage import copy_packets
from measure import Checkpoint, index, machine, model_words, say, spread, table


def one_index(clip: Path, minutes: float, options: list[str]) -> dict[str, Any]:
    """Index so many minutes of a clip; JSON."""
    with tempfile.TemporaryDirectory() as folder:
        path = copy_packets(clip, Path(folder) / "looped.mp4", minutes * 60)
        made = index([path], Path(folder) / "library", options, watch_memory=True)
    (outcome,) = made.outcomes
    counts = {name: outcome[name] for name in ("frames", "tracks", "crops")}
    return {**counts, "seconds": made.seconds, "peak": made.peak_mib}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("clip", type=Path)
    parser.add_argument("--minutes", type=float, nargs="+", default=[1, 10, 60])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--model", default=None, help="the embedder; the default one otherwise")
    parser.add_argument("--fps", type=float, default=None, help="samples a second, as of `panorama index`")
    parser.add_argument("--checkpoint", type=Path, help="keep results here, and go on from them")
    given = parser.parse_args()
    options = model_words(given.model)
    options += [] if given.fps is None else ["--fps", f"{given.fps:g}"]
    print(f"{machine()}; {given.rounds} rounds; options: {' '.join(options) or 'none'}")
    kept = Checkpoint(given.checkpoint, {"clip": str(given.clip), "options": options})
    rounds: dict[float, list[dict[str, Any]]] = {minutes: [] for minutes in given.minutes}
    for number in range(given.rounds):
        for minutes, results in rounds.items():
            part = f"{minutes:g} minutes, round {number}"
            done = kept.known(part) or kept.keep(part, one_index(given.clip, minutes, options))
            results.append(done)
            say(f"{part}: {done['peak']:.0f} MiB, {done['seconds']:.0f} s")
    rows = [
        [
            f"{minutes:g}",
            *(results[0][name] for name in ("frames", "tracks", "crops")),
            spread([r["seconds"] for r in results]),
            spread([r["peak"] for r in results]),
        ]
        for minutes, results in rounds.items()
    ]
    head = ["minutes", "frames", "tracks", "crops", "seconds", "peak MiB"]
    table(f"Peak memory of indexing {given.clip.name}; wanted: flat, at most 1,536 MiB", head, rows)


if __name__ == "__main__":
    main()
