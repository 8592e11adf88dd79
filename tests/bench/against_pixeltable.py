"""Compare Panorama's index with Pixeltable, sampling at the same rate with the same networks as UDFs.

    python -m venv /tmp/pxt && /tmp/pxt/bin/pip install pixeltable
    python tests/bench/against_pixeltable.py ../shared/footage --pixeltable /tmp/pxt/bin/python --work WORK

Panorama, timed from the start of its interpreter to its end: read every frame, gate, propose regions in the
sampled frames (5 per second), track them, keep crops, embed these at all exits, write and commit.

Pixeltable, timed for one `insert` call, with its interpreter, database, tables and networks ready before:
decode the videos, take 5 frames per second and store the following for each in its own PostgreSQL. `nothing`:
a vector that costs nothing. `frame`: the deepest exit's vector of the whole frame, in batches of 64.
`regions`: boxes of the same proposer and the deepest exit's vector of each, in batches of 8. It does not
track, and its tables cannot answer where an entity is without more work. Both may use all cores.

Pixeltable starts PostgreSQL itself; as root it creates a system user `pgserver` for it. The server is stopped
at the end. Its files are below --work.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import site
import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from footage import fixed_clips, moving_clips
from measure import index, machine, say, spread, table

HERE = Path(__file__).resolve().parent
RATE = "5"


def pixeltable(python: Path, home: Path, work: str, clips: list[Path]) -> dict[str, Any]:
    """One insert; what the other side told."""
    # Appended, not put in front: what Pixeltable brings is used as it is.
    late = [str(HERE), str(HERE.parent.parent), *site.getsitepackages()]
    # Pixeltable refuses UDFs of __main__: the other side is imported.
    code = f"import sys; sys.path += {late!r}; import pixeltable_side; pixeltable_side.main()"
    environment = {**os.environ, "PIXELTABLE_HOME": str(home)}
    environment.pop("PYTHONPATH", None)
    command = [str(python), "-c", code, work, RATE, *map(str, clips)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"Pixeltable's side failed:\n{done.stdout}\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def stop_server(home: Path) -> None:
    """Stop the PostgreSQL that Pixeltable started for this home; it would go on for ever."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        os.kill(int((home / "pgdata" / "postmaster.pid").read_text().splitlines()[0]), signal.SIGTERM)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--pixeltable", type=Path, required=True, help="interpreter of its environment")
    parser.add_argument("--work", type=Path, required=True, help="folder for its store; kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clips", choices=("fixed", "moving", "all"), default="fixed")
    parser.add_argument("--does", nargs="+", choices=("nothing", "frame", "regions"), default=None)
    given = parser.parse_args()
    clips = {"fixed": fixed_clips, "moving": moving_clips}.get(given.clips, all_clips)(given.footage)
    does = given.does or ["nothing", "frame", "regions"]
    home = given.work.resolve() / "pixeltable"
    home.mkdir(parents=True, exist_ok=True)
    version = [str(given.pixeltable), "-c", "import importlib.metadata as m; print(m.version('pixeltable'))"]
    release = subprocess.run(version, capture_output=True, text=True, check=True).stdout.strip()
    print(f"{machine()}; Pixeltable {release}; {given.rounds} rounds, all sides in turn; {given.clips} clips")
    took: dict[str, list[float]] = {name: [] for name in ["panorama", *does]}
    notes: dict[str, str] = {}
    frames = 0
    try:
        for number in range(given.rounds):
            with tempfile.TemporaryDirectory() as folder:
                made = index(clips, Path(folder) / "library", ["--fps", RATE])
            frames = made.frames
            took["panorama"].append(made.seconds)
            crops = sum(int(o["crops"]) for o in made.outcomes)
            tracks = sum(int(o["tracks"]) for o in made.outcomes)
            notes["panorama"] = f"{tracks} tracks, {crops} crops, all exits"
            for name in does:
                told = pixeltable(given.pixeltable, home, name, clips)
                took[name].append(told["seconds"])
                notes[name] = f"{told['rows']} frames stored"
            say(f"round {number}: " + ", ".join(f"{name} {took[name][-1]:.1f} s" for name in took))
    finally:
        stop_server(home)
    ours = took["panorama"]
    rows = [
        [
            "Panorama, whole command" if name == "panorama" else f"Pixeltable, insert alone, {name}",
            frames,
            spread(seconds),
            frames / median(seconds),
            spread([b / a for a, b in zip(ours, seconds, strict=True)]),
            notes[name],
        ]
        for name, seconds in took.items()
    ]
    head = ["what", "source frames", "seconds", "source frames/s", "its seconds / Panorama's", "stored"]
    table("Panorama and Pixeltable on the same clips", head, rows)


def all_clips(footage: Path) -> list[Path]:
    return fixed_clips(footage) + moving_clips(footage)


if __name__ == "__main__":
    main()
