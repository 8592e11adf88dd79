"""Whether answers depend on where a recorder cuts its files: the footage's fixed cameras in short files.

    python tests/bench/cut_up.py FOOTAGE --work WORK --seconds 0 60 20 10

The clips of fixed cameras are encoded again, in files of this many seconds (0: one file), and indexed.
Entities of FOOTAGE/eval that appear in these clips only are registered from their album. `--missing` removes
a share of the files, drawn by `--seed`, as if the camera recorded only during motion.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from footage import fixed_clips
from measure import machine, say, table
from numpy.typing import NDArray

import panorama
from panorama.judging.evaluate import EntityScore, Truth, read_truth, score_entities

Spans = Sequence[tuple[int, int]]


Look = Callable[[NDArray[np.uint8]], NDArray[np.uint8]]


def cut_up(clip: Path, folder: Path, seconds: float, look: Look | None = None) -> list[int]:
    """Write a clip as files 000.mp4, 001.mp4 and so on; how many frames each has.

    Args:
        look: what becomes of each picture, RGB.
    """
    counts: list[int] = []
    folder.mkdir(parents=True, exist_ok=True)
    with av.open(str(clip)) as source:
        video = source.streams.video[0]
        rate = Fraction(video.average_rate or 25)
        most = round(seconds * rate) or 1 << 62
        frames = source.decode(video)
        frame = next(frames, None)
        while frame is not None:
            counts.append(0)
            with av.open(str(folder / f"{len(counts) - 1:03d}.mp4"), "w") as target:
                how = {"crf": "16", "preset": "fast"}
                stream = target.add_stream("libx264", rate=rate, options=how)
                stream.width, stream.height, stream.pix_fmt = video.width, video.height, "yuv420p"
                while frame is not None and counts[-1] < most:
                    if look is not None:
                        frame = av.VideoFrame.from_ndarray(look(frame.to_ndarray(format="rgb24")))
                    picture = frame.reformat(format="yuv420p")
                    picture.pts, picture.time_base = counts[-1], 1 / rate
                    target.mux(stream.encode(picture))
                    counts[-1] += 1
                    frame = next(frames, None)
                target.mux(stream.encode(None))
    return counts


def in_files(spans: Mapping[str, Spans], files: Mapping[str, Sequence[int]]) -> dict[str, Spans]:
    """Intervals of frames of whole clips, by clip, as intervals of their files."""
    found: dict[str, Spans] = {}
    for clip, intervals in spans.items():
        stem, first = Path(clip).stem, 0
        for number, count in enumerate(files.get(stem, ())):
            some = [(max(a, first) - first, min(b, first + count - 1) - first) for a, b in intervals]
            some = [(a, b) for a, b in some if a <= b]
            if some:
                found[f"{stem}/{number:03d}.mp4"] = some
            first += count
    return found


def judged(
    footage: Path, work: Path, seconds: float, missing: float, seed: int, model: str | None
) -> list[EntityScore]:
    """The score of each entity in a library of files of so many seconds."""
    archive = work / f"files-{seconds:g}-{missing:g}-{seed}"
    shutil.rmtree(archive, ignore_errors=True)
    say(f"cutting {archive}")
    files = {clip.stem: cut_up(clip, archive / clip.stem, seconds) for clip in fixed_clips(footage)}
    draw = random.Random(seed)
    gone = {path for path in sorted(archive.rglob("*.mp4")) if draw.random() < missing}
    for path in gone:
        path.unlink()
    names = {path.relative_to(archive).as_posix() for path in gone}
    truths: dict[str, Truth] = {}
    for name, truth in read_truth(footage / "eval" / "truth.json").items():
        if {Path(clip).stem for clip in truth.visible} <= set(files):
            kinds = (in_files(spans, files) for spans in (truth.visible, truth.ignore))
            visible, ignore = ({k: v for k, v in spans.items() if k not in names} for spans in kinds)
            if visible:
                truths[name] = Truth(visible, ignore)
    library_path = work / f"library-{archive.name}"
    shutil.rmtree(library_path, ignore_errors=True)
    with panorama.open(library_path, create=True) as library:
        library.index(archive, model=model)
        for name in truths:
            library.register(name, footage / "eval" / "album" / name)
        return score_entities(library, truths)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="for the files and their libraries")
    parser.add_argument("--seconds", type=float, nargs="+", default=[0, 60, 20, 10])
    parser.add_argument("--missing", type=float, default=0.0, help="share of the files that is not there")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default=None)
    arguments = parser.parse_args()
    rows = []
    for seconds in arguments.seconds:
        drawn = arguments.missing, arguments.seed, arguments.model
        scores = judged(arguments.footage, arguments.work, seconds, *drawn)
        columns = [
            np.mean([getattr(s, name) or 0 for s in scores])
            for name in ("average_precision", "f1", "precision", "recall")
        ]
        silent = sum(not s.false_frames for s in scores)
        rows.append(
            [
                f"{seconds:g} s" if seconds else "the whole",
                *(f"{value:.3f}" for value in columns),
                f"{np.mean([s.false_rate or 0 for s in scores]):.2%}",
                f"{silent} of {len(scores)}",
            ]
        )
    head = ["files of", "AP", "F1", "precision", "recall", "false frames", "entities without"]
    print(machine())
    table(f"{arguments.missing:.0%} of the files missing, seed {arguments.seed}", head, rows)


if __name__ == "__main__":
    main()
