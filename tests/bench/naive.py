"""Panorama beside the pipelines that a user would write without it: frames per second, and F1 on the eval
archive.

    python tests/bench/naive.py ../shared/footage --rounds 2 --stride 12

**Naive**: an OpenCV loop over every frame; the proposer, then each region cut out and embedded at the deepest
exit, one picture at a time, with the networks' own numbers of threads. **Batched**: the same work on every
frame, in full batches (8 frames, 64 crops), one batch per core at a time; its decoding counts as free.
**Panorama**: the real `panorama index`, timed from the start of its interpreter to its end.

The first two need minutes for each minute of video, so they work on a sample: every `--stride`-th frame of
every clip, other frames in every round. Naive reads all frames; its total time is that of reading plus the
time of the work on sampled frames, scaled up to all frames. Loading the networks does not count for either.

F1: naive has no tracks and decides for each frame alone. Its crops go into a library in which every region of
every frame is a track of one frame. The same queries then decide by the same rule with the same bands; the
only difference is that nothing is pooled over time. Entities are registered from the same album. Both are
scored on the frames that naive saw in any round, and Panorama also on all frames. In naive's favour, writing
its library is not timed.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
from footage import fixed_clips, moving_clips
from measure import cores, index, machine, say, spread, table
from numpy.typing import NDArray

import panorama
from panorama.crops import cut, encode_jpeg
from panorama.judging.evaluate import Truth, read_truth, score_entities
from panorama.models.base import Embedder, Proposer
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.store import SegmentWriter, Store, VideoRow

FRAMES_AT_ONCE, CROPS_AT_ONCE = 8, 64


@dataclass
class Seen:
    """What one frame showed: boxes (N, 4), objectness (N,), pictures and vectors (N, dim) of its regions."""

    frame: int
    boxes_xyxy: NDArray[np.float32]
    scores: NDArray[np.float32]
    jpegs: list[bytes]
    vectors: NDArray[np.float32]


@dataclass
class Clip:
    """A clip, its size in pixels, the times of its frames, and what naive has seen in it so far."""

    path: Path
    width: int = 0
    height: int = 0
    seconds: list[float] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)


def frames_of(clip: Clip, first: int, stride: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Read every frame with OpenCV, as a loop would; those of the sample leave as RGB."""
    source = cv2.VideoCapture(str(clip.path))
    seconds = []
    while True:
        there, bgr = source.read()
        if not there:
            break
        clip.height, clip.width = bgr.shape[:2]
        number = len(seconds)
        seconds.append(source.get(cv2.CAP_PROP_POS_MSEC) / 1000)
        if number % stride == first:
            yield number, cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB)
    source.release()
    clip.seconds = seconds


def clock() -> NDArray[np.float64]:
    """Seconds of wall time, and of all cores that this process used."""
    return np.array([time.perf_counter(), time.process_time()])


def naive_round(
    clips: list[Clip], first: int, stride: int, embedder: Embedder, proposer: Proposer
) -> NDArray[np.float64]:
    """Frames a second of the naive loop, by both clocks; what it saw is added to the clips."""
    reading, working = np.zeros(2), np.zeros(2)
    frames = sampled = 0
    for clip in clips:
        started, busy = clock(), np.zeros(2)
        for number, rgb in frames_of(clip, first, stride):
            began = clock()
            regions = proposer.propose([rgb])[0]
            crops = [cut(rgb, box) for box in regions.boxes_xyxy]
            vectors = [embedder.embed([crop])[0] for crop in crops]
            working += clock() - began
            stored = np.stack(vectors) if vectors else np.zeros((0, embedder.dim), np.float32)
            jpegs = [encode_jpeg(crop) for crop in crops]
            clip.seen.append(Seen(number, regions.boxes_xyxy, regions.scores, jpegs, stored))
            sampled += 1
            busy += clock() - began
        frames += len(clip.seconds)
        reading += clock() - started - busy
        say(f"naive: {clip.path.name}, {sampled} frames in {working[0]:.0f} s")
    return frames / (reading + working * frames / sampled)


def batched_round(
    clips: list[Clip], first: int, stride: int, embedder: Embedder, proposer: Proposer
) -> NDArray[np.float64]:
    """Frames a second of proposing and embedding in full batches, decoding left out, by both clocks."""
    working, sampled = np.zeros(2), 0
    waiting: list[NDArray[np.uint8]] = []
    crops: list[NDArray[np.uint8]] = []

    def propose(pictures: list[NDArray[np.uint8]]) -> list[NDArray[np.uint8]]:
        found = proposer.propose(pictures)
        return [cut(p, box) for p, regions in zip(pictures, found, strict=True) for box in regions.boxes_xyxy]

    def work(pool: ThreadPoolExecutor, everything: bool) -> NDArray[np.float64]:
        nonlocal crops
        began = clock()
        crops += [crop for some in pool.map(propose, batches(waiting, FRAMES_AT_ONCE)) for crop in some]
        waiting.clear()
        full = len(crops) if everything else len(crops) // CROPS_AT_ONCE * CROPS_AT_ONCE
        list(pool.map(embedder.embed, batches(crops[:full], CROPS_AT_ONCE)))
        crops = crops[full:]
        return clock() - began

    with ThreadPoolExecutor(cores()) as pool:
        for clip in clips:
            for _, rgb in frames_of(clip, first, stride):
                waiting.append(rgb)
                sampled += 1
                if len(waiting) == FRAMES_AT_ONCE * cores():
                    working += work(pool, everything=False)
        working += work(pool, everything=True)
    return sampled / working


def batches(items: list[NDArray[np.uint8]], size: int) -> list[list[NDArray[np.uint8]]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def store_seen(clips: list[Clip], library: Path, embedder: Embedder) -> None:
    """A library in which every region of every frame seen is a track of its own."""
    with panorama.open(library, create=True) as opened:
        opened.use_model(embedder.name)
    with Store.open(library) as store:
        for clip in clips:
            digest = hashlib.sha256(str(clip.path).encode()).hexdigest()
            with store.begin_segment(content_hash=digest, settings_hash="naive") as writer:
                _write_clip(writer, clip, embedder)
                row = VideoRow(
                    name=clip.path.name,
                    uri=str(clip.path),
                    root=str(clip.path.parent),
                    content_hash=digest,
                    size=clip.path.stat().st_size,
                    mtime_ns=clip.path.stat().st_mtime_ns,
                    width=clip.width,
                    height=clip.height,
                    duration=clip.seconds[-1] - clip.seconds[0],
                    frames=len(clip.seconds),
                )
                writer.commit(row)


def _write_clip(writer: SegmentWriter, clip: Clip, embedder: Embedder) -> None:
    times = np.array(clip.seconds)
    times = np.maximum.accumulate(times - times[0])
    writer.add_frames(np.arange(len(times)), np.arange(len(times)), times)
    seen = [s for s in clip.seen if len(s.boxes_xyxy)]
    if not seen:
        return
    counts = np.array([len(s.boxes_xyxy) for s in seen])
    frame = np.repeat([s.frame for s in seen], counts)
    ids = writer.pack(np.arange(1, len(frame) + 1))
    boxes = np.concatenate([s.boxes_xyxy for s in seen]).astype(np.float32)
    corners = {name: boxes[:, i] for i, name in enumerate(("x1", "y1", "x2", "y2"))}
    scores = np.concatenate([s.scores for s in seen]).astype(np.float32)
    end = np.append(times[1:], times[-1] + 0.04)[frame]
    at = {"frame": frame, "time": times[frame], **corners}
    writer.add_tracks(
        {
            "track_id": ids,
            "start_frame": frame,
            "end_frame": frame + 1,
            "start_time": times[frame],
            "end_time": end,
            "samples": np.ones(len(frame), np.int64),
        }
    )
    writer.add_boxes({"track_id": ids, **at, "score": scores})
    jpegs = [jpeg for s in seen for jpeg in s.jpegs]
    writer.add_crops({"crop_id": ids, "track_id": ids, **at, "quality": scores, "jpeg": jpegs})
    vectors = np.concatenate([s.vectors for s in seen])
    writer.add_embeddings(embedder.hash, embedder.exits, ids, ids, vectors)


def only_seen(truths: dict[str, Truth], clips: list[Clip]) -> dict[str, Truth]:
    """The truth with every frame left out that naive did not look at."""
    unseen: dict[str, list[tuple[int, int]]] = {}
    for clip in clips:
        looked = sorted(s.frame for s in clip.seen)
        edges = [-1, *looked, len(clip.seconds)]
        unseen[clip.path.name] = [(a + 1, b - 1) for a, b in pairwise(edges) if b - a > 1]
    out = {}
    for name, truth in truths.items():
        ignore = {
            video: [*truth.ignore.get(video, []), *unseen.get(video, [])]
            for video in {*truth.ignore, *unseen}
        }
        out[name] = replace(truth, ignore=ignore)
    return out


def scores_of(library: Path, footage: Path, truths: dict[str, Truth], register: bool) -> list[float]:
    """Mean F1 and mean AP of an indexed library."""
    with panorama.open(library) as opened:
        if register:
            opened.register_album(footage / "eval" / "album")
        found = score_entities(opened, truths)
    for s in found:
        figures = (("F1", s.f1), ("precision", s.precision), ("recall", s.recall))
        told = " ".join(f"{name} {'-' if value is None else f'{value:.3f}'}" for name, value in figures)
        say(f"{library.name}: {s.entity} {told}")
    # An entity of which no frame was looked at has no average precision.
    known = [s for s in found if s.average_precision is not None]
    return [float(np.mean([getattr(s, name) for s in known])) for name in ("f1", "average_precision")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--stride", type=int, default=12, help="frames from one sampled frame to the next")
    parser.add_argument("--clips", choices=("fixed", "all"), default="all")
    parser.add_argument("--model", default=DEFAULT_EMBEDDER)
    given = parser.parse_args()
    if given.rounds > given.stride:
        parser.error(f"{given.rounds} rounds of other frames need --stride {given.rounds} or more")
    paths = fixed_clips(given.footage) + (moving_clips(given.footage) if given.clips == "all" else [])
    clips = [Clip(path) for path in paths]
    speeds: dict[str, list[NDArray[np.float64]]] = {"Panorama": [], "naive": [], "batched": []}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        with panorama.open(work / "models", create=True) as models:
            models.use_model(given.model)
            embedder, proposer = models.embedder, models.proposer
            embedder.embed([np.zeros((64, 64, 3), np.uint8)])
        print(f"{machine()}; {given.rounds} rounds, sides in turn")
        for number in range(given.rounds):
            made = index(paths, work / f"panorama-{number}", ["--model", given.model])
            speeds["Panorama"].append(made.frames / np.array([made.seconds, made.core_seconds]))
            # Rounds look at frames that lie evenly between each other's.
            first = number * given.stride // given.rounds
            speeds["naive"].append(naive_round(clips, first, given.stride, embedder, proposer))
            speeds["batched"].append(batched_round(clips, first, given.stride, embedder, proposer))
            say(f"round {number}: " + ", ".join(f"{k} {v[-1][0]:.1f} frames/s" for k, v in speeds.items()))
        print_speeds(speeds, clips)
        store_seen(clips, work / "naive", embedder)
        truths = {
            name: truth
            for name, truth in read_truth(given.footage / "eval" / "truth.json").items()
            if given.clips == "all" or set(truth.visible) & {clip.path.name for clip in clips}
        }
        seen = only_seen(truths, clips)
        ours = scores_of(work / "panorama-0", given.footage, seen, register=True)
        everywhere = scores_of(work / "panorama-0", given.footage, truths, register=False)
        theirs = scores_of(work / "naive", given.footage, seen, register=True)
    looked = sum(len(clip.seen) for clip in clips)
    rows = [
        ["Panorama, all frames", *everywhere, ""],
        [f"Panorama, the {looked} frames that naive saw", *ours, ""],
        ["naive, the same frames", *theirs, f"Panorama's F1 is {ours[0] - theirs[0]:+.3f}"],
    ]
    table("Accuracy on eval/, default settings", ["side", "mean F1", "mean AP", "difference"], rows)


def print_speeds(speeds: dict[str, list[NDArray[np.float64]]], clips: list[Clip]) -> None:
    total, looked = sum(len(c.seconds) for c in clips), sum(len(c.seen) for c in clips)
    wanted = {"Panorama": "", "naive": 20, "batched": 5}
    ours = speeds["Panorama"]
    rows = [
        [
            name,
            spread([float(v[0]) for v in values]),
            spread([float(a[0] / b[0]) for a, b in zip(ours, values, strict=True)]),
            wanted[name],
            spread([float(a[1] / b[1]) for a, b in zip(ours, values, strict=True)]),
        ]
        for name, values in speeds.items()
    ]
    table(
        f"Frames a second over {total} frames; naive and batched worked on {looked} of them",
        ["side", "frames/s", "Panorama is x times", "wanted", "by core time"],
        rows,
    )


if __name__ == "__main__":
    main()
