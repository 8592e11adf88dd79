"""Index an archive, register its album, and print F1 and AP per entity.

    python tests/bench/eval_archive.py ../shared/footage

The folder holds `video/*.mp4`, `eval/album/<entity>/*.jpg` and `eval/truth.json`. With `--library` the
indexed library is kept and used again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import panorama
from panorama.judging.evaluate import read_truth, score_entities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--library", type=Path, default=None)
    parser.add_argument("--model", default=None)
    arguments = parser.parse_args()
    where = arguments.library or Path(tempfile.mkdtemp()) / "library"
    with panorama.open(where, create=True) as library:
        started = time.perf_counter()
        videos = sorted((arguments.footage / "video").glob("*.mp4"))
        report = library.index(videos, model=arguments.model)
        print(f"indexed {len(report.files)} videos in {time.perf_counter() - started:.1f} s")
        for outcome in report.files:
            stages = "  ".join(f"{k} {v:.1f}" for k, v in outcome.stage_seconds.items())
            speed = outcome.frames / max(outcome.seconds, 1e-9)
            print(
                f"  {outcome.video or outcome.path:28s} {outcome.status:8s} {outcome.frames:6d} frames "
                f"{outcome.tracks:5d} tracks {outcome.crops:5d} crops {speed:7.0f} frames/s  {stages}"
            )
        library.register_album(arguments.footage / "eval" / "album")
        started = time.perf_counter()
        scores = score_entities(library, read_truth(arguments.footage / "eval" / "truth.json"))
        print(f"{'entity':18s}     AP      F1  precision  recall  false frames")
        for s in scores:
            figures = (s.average_precision, s.f1, s.precision, s.recall, s.false_rate)
            ap, f1, precision, recall, false = (value or 0 for value in figures)
            print(
                f"{s.entity:18s} {ap:6.3f}  {f1:6.3f}     {precision:6.3f}"
                f"  {recall:6.3f}  {s.false_frames:6d} ({false:.2%})"
            )
        means = [
            float(np.mean([value for s in scores if (value := getattr(s, k)) is not None]))
            for k in ("average_precision", "f1", "false_rate")
        ]
        print(f"{'mean':18s} {means[0]:6.3f}  {means[1]:6.3f}  false-positive rate {means[2]:.3%}")
        print(f"queries took {time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
