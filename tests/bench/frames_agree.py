"""Compare frame numbers, times and pictures of hits with what the ffmpeg program extracts there.

    python tests/bench/frames_agree.py LIBRARY --entity elf --hits 20

For each hit, `ffmpeg -vf select=eq(n\\,N)` extracts frame N of the file. The picture must be the one that
Panorama reads at that number, and closer to it than to the neighbouring frames. ffprobe's time of the frame,
minus that of the first frame, must be Panorama's. Needs ffmpeg and ffprobe on the path. Exit status 1 if one
disagrees.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import panorama
from panorama.video import open_video


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("--entity", action="append", required=True)
    parser.add_argument("--hits", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with panorama.open(arguments.library, create=False) as library:
        rows = [
            row
            for name in arguments.entity
            for row in library.query("SELECT frames WHERE entity = ?", [name]).fetchall()
        ]
        paths = dict(library.query("SELECT video, uri FROM videos").fetchall())
    draw = np.random.default_rng(arguments.seed)
    chosen = sorted(draw.choice(len(rows), min(arguments.hits, len(rows)), replace=False).tolist())
    print(f"{'video':24s} {'entity':14s} {'frame':>6s} {'time':>9s} {'ffprobe':>9s}  difference to ffmpeg's")
    print(f"{'':66s}  same  before  after")
    wrong = 0
    for row in (rows[i] for i in chosen):
        theirs = extracted(paths[row.video], row.frame)
        time = probed_times(paths[row.video])[row.frame]
        ours = [picture_at(paths[row.video], row.frame + step) for step in (0, -1, 1)]
        apart = [float(np.abs(theirs - o).mean()) if o is not None else np.inf for o in ours]
        # A still picture may equal its neighbours; none may be nearer than the one of that number.
        fine = apart[0] < 3 and apart[0] <= min(apart[1:]) + 0.05 and abs(time - row.time) < 1e-3
        wrong += not fine
        print(
            f"{row.video[-24:]:24s} {row.entity[:14]:14s} {row.frame:6d} {row.time:9.4f} {time:9.4f}"
            f"  {apart[0]:5.2f}  {apart[1]:6.2f}  {apart[2]:5.2f}{'' if fine else '  DISAGREES'}"
        )
    print(f"{len(chosen) - wrong} of {len(chosen)} agree")
    if wrong or not chosen:
        sys.exit(1)


@cache
def probed_times(path: str) -> NDArray[np.float64]:
    """Seconds of every frame since the first, as ffprobe tells them."""
    command = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time"]
    done = subprocess.run([*command, "-of", "csv=p=0", path], capture_output=True, text=True, check=True)
    times = np.array([float(line.strip(",")) for line in done.stdout.split()])
    return times - times[0]


def extracted(path: str, frame: int) -> NDArray[np.float32]:
    """Frame number `frame` from the ffmpeg program, (H, W, 3) RGB."""
    select = ["-vf", f"select=eq(n\\,{frame})", "-fps_mode", "passthrough", "-frames:v", "1"]
    command = ["ffmpeg", "-v", "error", "-i", path, *select, "-f", "image2pipe", "-c:v", "png", "-"]
    data = subprocess.run(command, capture_output=True, check=True).stdout
    bgr = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    return bgr[:, :, ::-1].astype(np.float32)


def picture_at(path: str, index: int) -> NDArray[np.float32] | None:
    """The frame of that number as Panorama reads it."""
    if index < 0:
        return None
    with open_video(path) as reader:
        for frame in reader.frames(start=index):
            return frame.rgb().astype(np.float32)
    return None


if __name__ == "__main__":
    main()
