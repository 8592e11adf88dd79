"""What indexing an idle fixed camera costs, without and with a clock that the recorder writes into it.

    python tests/bench/idle.py ../shared/footage --work /tmp/bench-work --rounds 2

The first picture of each fixed-camera clip, with sensor noise, is encoded to `--minutes` at 25 frames a
second, once as it is and once with date and time in its upper left corner, in letters of a twentieth of its
height. The real command line indexes each into an empty library. With a clock, every second changes the
picture, but nothing happens: all that is looked at, stored or spent beyond what the camera without one takes
is waste.
"""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from statistics import median

import av
import cv2
import numpy as np
from footage import fixed_clips
from measure import index, machine, say, spread, table

import panorama
from panorama.video import open_video

RATE = 25
NOISE = 3.0
"""Grey levels, standard deviation."""

BEGIN = datetime(2024, 2, 29, 21, 57, 30, tzinfo=UTC)


def idle(clip: Path, out: Path, minutes: float, *, clock: bool) -> Path:
    """The first picture of a clip, with new noise in each frame, and the time if `clock`."""
    if out.exists():
        return out
    say(f"encoding {out}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with open_video(clip) as video:
        still = next(iter(video.frames())).rgb()
    rng = np.random.default_rng(0)
    noises = [NOISE * rng.standard_normal(still.shape[:2], np.float32) for _ in range(16)]
    part = out.with_suffix(".part.mp4")
    with av.open(str(part), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"crf": "26", "preset": "veryfast"})
        stream.height, stream.width = still.shape[0] // 2 * 2, still.shape[1] // 2 * 2
        stream.pix_fmt = "yuv420p"
        for number in range(round(minutes * 60 * RATE)):
            noise = noises[int(rng.integers(len(noises)))][..., None]
            picture = np.clip(still + noise, 0, 255).astype(np.uint8)
            if clock:
                stamp(picture, BEGIN + timedelta(seconds=number // RATE))
            frame = av.VideoFrame.from_ndarray(picture)
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    part.rename(out)
    return out


def stamp(picture: np.ndarray, now: datetime) -> None:
    """Write the time into a picture (H, W, 3), white with a black border, as recorders do."""
    height = picture.shape[0]
    scale = cv2.getFontScaleFromHeight(cv2.FONT_HERSHEY_SIMPLEX, round(height / 20 * 0.75), 1)
    where = (round(0.02 * picture.shape[1]), round(0.08 * height))
    for colour, width in (((0, 0, 0), 5), ((255, 255, 255), 2)):
        cv2.putText(
            picture, f"{now:%Y-%m-%d %H:%M:%S}", where, cv2.FONT_HERSHEY_SIMPLEX, scale, colour, width,
            cv2.LINE_AA,
        )  # fmt: skip


def measured(file: Path, library: Path) -> dict[str, float]:
    """Index a file into an empty library; JSON."""
    made = index([file], library)
    with panorama.open(library) as opened:
        boxes = opened.query("SELECT count(*) AS boxes FROM detections").fetchall()[0]["boxes"]
    [outcome] = made.outcomes
    return {
        "samples looked at": outcome["samples"] - outcome["unchanged"],
        "boxes": boxes,
        "crops": outcome["crops"],
        "MB": sum(path.stat().st_size for path in library.rglob("*") if path.is_file()) / 1e6,
        "seconds": made.seconds,
        "core seconds": made.core_seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="keeps the videos")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    made_in = given.work / f"idle-{given.minutes:g}-min"
    files = {
        (clip.stem, name): idle(clip, made_in / name / clip.name, given.minutes, clock=name == "clock")
        for clip in fixed_clips(given.footage)
        for name in ("plain", "clock")
    }
    print(f"{machine()}; {given.rounds} rounds, files in turn")
    runs: dict[tuple[str, str], list[dict[str, float]]] = {key: [] for key in files}
    for number in range(given.rounds):
        for key, file in files.items():
            with tempfile.TemporaryDirectory() as folder:
                runs[key].append(measured(file, Path(folder) / "library"))
            say(f"round {number}: {file}, {runs[key][-1]['seconds']:.1f} s")
    columns = list(runs[next(iter(files))][0])
    table(
        f"An idle camera, {given.minutes:g} minutes",
        ["camera", "picture", *columns],
        [
            [*key, *(spread([run[column] for run in each]) for column in columns)]
            for key, each in runs.items()
        ],
    )
    ratios = [
        [name, *(f"{_ratio(runs[name, 'clock'], runs[name, 'plain'], column):.3g}" for column in columns)]
        for name in dict.fromkeys(name for name, _ in files)
    ]
    table("With a clock, as a multiple of without", ["camera", *columns], ratios)


def _ratio(some: list[dict[str, float]], others: list[dict[str, float]], column: str) -> float:
    return median([run[column] for run in some]) / median([run[column] for run in others])


if __name__ == "__main__":
    main()
