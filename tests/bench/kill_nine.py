"""Kill `panorama index` with SIGKILL at random times, check what it left, and let another run complete it.

    python tests/bench/kill_nine.py ../shared/footage/video/*.mp4 --kills 20

Each round starts or continues one index and kills it after a random time. The library must open, and every
committed video must answer. At the end, one run must complete what is missing. Exit status 1 otherwise.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import panorama

RUN = "from panorama.cli import main; main()"
COUNTS = """
SELECT v.video, v.frames, count(f.frame) AS listed,
       (SELECT count(*) FROM tracks t WHERE t.video = v.video) AS tracks,
       (SELECT count(*) FROM crops c WHERE c.video = v.video) AS crops
FROM videos v LEFT JOIN frames f ON f.video = v.video GROUP BY v.video, v.frames ORDER BY v.video
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("videos", type=Path, nargs="+")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--longest", type=float, default=40.0, help="seconds that a run may live")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="color-bands")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "library"
        words = ["index", *map(str, arguments.videos), "--model", arguments.model, "--library", str(library)]
        command = [sys.executable, "-c", RUN, *words, "--json"]
        print("kill  after s  committed before it  in the library  files left  temporary  answers")
        told: set[str] = set()
        for number in range(1, arguments.kills + 1):
            if library.exists() and len(told) == len(arguments.videos):
                # All is done and nothing would be killed at work: begin anew.
                shutil.rmtree(library)
                told = set()
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            seconds = draw.uniform(0.5, arguments.longest)
            time.sleep(seconds)
            child.send_signal(signal.SIGKILL)
            lines = [json.loads(line) for line in child.communicate()[0].splitlines() if line.endswith("}")]
            told |= {line["video"] for line in lines if line["status"] == "indexed"}
            if not (library / "catalog.sqlite").is_file():
                print(f"{number:4d}  {seconds:7.1f}  {len(told):19d}  no library yet")
                bad += bool(told)
                continue
            listed, whole = inspect(library)
            fine = whole and told <= listed
            bad += not fine
            files = [p for p in (library / "data").rglob("*") if p.is_file()]
            temporary = sum(p.name.startswith(".tmp") for p in files)
            print(
                f"{number:4d}  {seconds:7.1f}  {len(told):19d}  {len(listed):14d}  {len(files):10d}"
                f"  {temporary:9d}  {'all' if fine else 'NOT ALL'}",
                flush=True,
            )
            told = listed
        started = time.perf_counter()
        status = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        listed, whole = inspect(library)
        complete = status == 0 and whole and len(listed) == len(arguments.videos)
        left = [p.name for p in (library / "data").rglob(".tmp*")]
        print(
            f"another index: status {status}, {len(listed)} of {len(arguments.videos)} videos, "
            f"{len(left)} temporary files left, {time.perf_counter() - started:.1f} s"
        )
    if bad or not complete:
        sys.exit(f"{bad} kills left a library that does not answer; complete: {complete}")


def inspect(library: Path) -> tuple[set[str], bool]:
    """The videos that a library lists, and whether each has all its frames, and crops where it has tracks."""
    with panorama.open(library) as opened:
        rows = opened.query(COUNTS).fetchall()
    return {r.video for r in rows}, all(r.frames == r.listed and (r.crops > 0 or not r.tracks) for r in rows)


if __name__ == "__main__":
    main()
