"""Print what a GPU gains: the networks and the whole index on it, beside the CPU in the same run.

    python tests/bench/gpu.py FOOTAGE --work WORK
    python tests/bench/gpu.py FOOTAGE --work WORK --clips FOOTAGE/video/dog.mp4 --rounds 1 --only networks

Networks: crops and frames per second by batch size; on the CPU in the format that Panorama chooses there (8
bits if OpenVINO is available), on the GPU in the one chosen there and in float32. `whole` is what indexing
calls, including resizing, colour, boxes and suppression, which stay on the CPU; `network` is the network with
the transfers. Agreement: regions and vectors compared with the CPU's in float32. On a GPU, float32
convolutions round to TF32 unless torch is configured otherwise. Index: `panorama index` of the clips with
each device, each time into a new library. If FOOTAGE has eval/truth.json, F1 and AP of its album in the last
library, as `panorama evaluate --truth` computes them, without entities that the clips do not show. With
`--device cpu` the CPU is compared with itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from measure import Indexed, cores, index, machine, say, spread, table
from measure import panorama as command
from networks import per_second
from numpy.typing import NDArray

import panorama
from panorama.judging.evaluate import EntityScore, read_truth, score_entities
from panorama.models import device as devices
from panorama.models.base import Image
from panorama.models.cores import set_num_threads
from panorama.models.embedder import PanoramaNet, squash
from panorama.models.proposer import PanoramaProposer, fit, resize
from panorama.models.proposer_training.sources import read_frames
from panorama.models.registry import DEFAULT_EMBEDDER, DEFAULT_PROPOSER
from panorama.models.weights import open_model
from panorama.regions import Regions, iou

PARTS = ("agreement", "networks", "index")
MATCHED = 0.9
"""Overlap from which a region counts as the same."""

NO_GPU = (
    "torch finds no CUDA GPU here: run this where there is one (`python -c 'import torch; "
    "print(torch.cuda.is_available())'` says True), or with --device cpu to see what the bench prints\n"
)


class Side:
    """Both networks on one device in one format."""

    def __init__(self, device: str, precision: str | None) -> None:
        self.embedder = PanoramaNet(open_model(DEFAULT_EMBEDDER, "embedder"), precision, device)
        self.proposer = PanoramaProposer(
            open_model(DEFAULT_PROPOSER, "proposer"), precision=precision, device=device
        )

    @property
    def name(self) -> str:
        """Device and format, of both networks."""
        formats = dict.fromkeys((self.embedder.precision.name, self.proposer.precision.name))
        return f"{self.embedder.device}, {' and '.join(formats)}"


def as_it_runs(device: str) -> dict[str, Side]:
    """The processor and the device in the formats taken there, and the device in float32; by name."""
    sides = (Side("cpu", None), Side(device, None), Side(device, "float32"))
    return {side.name: side for side in sides}


def frames_of(clips: Sequence[Path], wanted: int) -> list[Image]:
    """About so many frames, of all clips in turn."""
    each = -(-wanted // len(clips))
    read = [read_frames(clip, each)[:each] for clip in clips]
    return [found[at] for at in range(each) for found in read if at < len(found)][:wanted]


def crops_of(frames: Sequence[Image], regions: Sequence[Regions], wanted: int) -> list[Image]:
    """The regions of the frames as pictures, again and again up to so many.

    Raises:
        SystemExit: there is none.
    """
    found = []
    for frame, some in zip(frames, regions, strict=True):
        for x1, y1, x2, y2 in some.boxes_xyxy.round().astype(int):
            if x2 - x1 >= 8 and y2 - y1 >= 8:
                found.append(np.ascontiguousarray(frame[y1:y2, x1:x2]))
    if not found:
        raise SystemExit("the proposer finds nothing in these clips; give others by --clips")
    return list(islice(cycle(found), wanted))


def canvases(frames: Sequence[Image], side: int) -> NDArray[np.uint8]:
    """The frames as the proposer's network sees the first of them: (B, H, W, 3)."""
    _, _, (height, width) = fit(frames[0], side)
    return np.stack([resize(frame, height, width) for frame in frames])


def print_networks(sides: Mapping[str, Side], frames: list[Image], given: argparse.Namespace) -> None:
    """Crops and frames a second, by how many are given at once."""
    base = sides[next(iter(sides))].proposer
    regions = base.propose(frames)
    for size in given.sizes:
        rows: list[tuple[str, str, str]] = []
        crops, some = crops_of(frames, regions, size), list(islice(cycle(frames), size))
        squares = np.stack([squash(crop, 128) for crop in crops])
        pictures = canvases(some, base.settings.side)
        calls: dict[str, Callable[[Side], object]] = {
            "embedder, whole, crops": lambda side, crops=crops: side.embedder.embed_all(crops),
            "embedder, network, crops": lambda side, squares=squares: vectors_of(side.embedder, squares),
            "proposer, whole, frames": lambda side, some=some: side.proposer.propose(some),
            "proposer, network, frames": lambda side, pictures=pictures: side.proposer.network(pictures),
        }
        for title, call in calls.items():
            say(f"{title}, {size} at once")
            work = {name: partial(call, side) for name, side in sides.items()}
            found = per_second(work, size, given.turns)
            rows += [(title, name, spread(speeds)) for name, speeds in found.items()]
        table(f"Networks, {size} pictures at once, in turn", ("what", "where", "a second"), rows)


def vectors_of(embedder: PanoramaNet, squares: NDArray[np.uint8]) -> list[NDArray[np.float32]]:
    """What the network alone makes of squares, fetched: a GPU is done with them."""
    found = embedder.network.exits_out(squares, 1, embedder.exits)
    return [vectors if isinstance(vectors, np.ndarray) else vectors.cpu().numpy() for vectors in found]


def print_agreement(sides: Mapping[str, Side], frames: list[Image], most_crops: int) -> None:
    """How far regions and vectors are from those of the processor in float32."""
    say("agreement")
    exact = Side("cpu", "float32")
    wanted = exact.proposer.propose(frames)
    crops = crops_of(frames, wanted, most_crops)
    vectors = exact.embedder.embed_all(crops)  # (exits, B, dim)
    regions, embedded = [], []
    for name, side in sides.items():
        regions.append((name, *region_differences(wanted, side.proposer.propose(frames))))
        embedded.append((name, *vector_differences(vectors, side.embedder.embed_all(crops))))
    head = (
        "where",
        "regions",
        f"of {sum(map(len, wanted))} matched at IoU {MATCHED}",
        "of those matched, corners off by pixels: mean",
        "largest",
        "scores off: mean",
        "largest",
    )
    table(f"Regions of {len(frames)} frames, beside the processor in float32", head, regions)
    head = ("where", "numbers off: mean", "largest", "1 - cosine: mean", "largest", "deepest exit's largest")
    table(f"Vectors of {len(crops)} crops, all exits, beside the processor in float32", head, embedded)


def region_differences(wanted: Sequence[Regions], found: Sequence[Regions]) -> tuple[Any, ...]:
    """How many regions there are, the share of the wanted that is matched, and how far those matched are off.

    Each wanted one is compared with the one that overlaps it most.
    """
    corners: list[NDArray[np.float64]] = []
    scores: list[NDArray[np.float64]] = []
    for ours, theirs in zip(wanted, found, strict=True):
        if not len(ours) or not len(theirs):
            continue
        overlap = iou(ours.boxes_xyxy, theirs.boxes_xyxy)
        best = overlap.argmax(axis=1)
        same = overlap.max(axis=1) >= MATCHED
        corners.append(np.abs(ours.boxes_xyxy - theirs.boxes_xyxy[best])[same].astype(np.float64))
        scores.append(np.abs(ours.scores - theirs.scores[best])[same].astype(np.float64))
    off = np.concatenate([np.zeros((0, 4)), *corners])
    off_score = np.concatenate([np.zeros(0), *scores])
    share = len(off) / max(1, sum(map(len, wanted)))
    return (sum(map(len, found)), f"{share:.2%}", *_mean_and_largest(off), *_mean_and_largest(off_score))


def vector_differences(wanted: NDArray[np.float32], found: NDArray[np.float32]) -> tuple[float, ...]:
    """Of vectors (exits, B, dim): differences of their numbers, and 1 - cosine."""
    away = 1 - (wanted.astype(np.float64) * found).sum(axis=2) / (
        np.linalg.norm(wanted.astype(np.float64), axis=2) * np.linalg.norm(found.astype(np.float64), axis=2)
    )
    return (
        *_mean_and_largest(np.abs(wanted - found)),
        *_mean_and_largest(np.abs(away)),
        float(np.abs(away[-1]).max()),
    )


def _mean_and_largest(values: NDArray[Any]) -> tuple[float, float]:
    return (float(values.mean()), float(values.max())) if values.size else (0.0, 0.0)


def print_index(clips: Sequence[Path], given: argparse.Namespace) -> None:
    """Wall time of the whole index with each device, the stages, and what the answers are worth."""
    names = ("cpu", given.device) if given.device != "cpu" else ("cpu", "cpu again")
    runs: dict[str, list[Indexed]] = {name: [] for name in names}
    for round_ in range(given.rounds):
        for name in names if round_ % 2 == 0 else names[::-1]:
            library = library_of(given.work, name)
            shutil.rmtree(library, ignore_errors=True)
            say(f"round {round_ + 1}: {len(clips)} clips with {name}")
            with on_device(name):
                runs[name].append(index(clips, library, given.options))
    table(
        f"Index of {len(clips)} clips, {runs['cpu'][0].frames} frames",
        ("device", "seconds", "frames a second", "processor seconds"),
        [
            (
                name,
                spread([run.seconds for run in done]),
                spread([run.frames / run.seconds for run in done]),
                spread([run.core_seconds for run in done]),
            )
            for name, done in runs.items()
        ],
    )
    stages = list(
        dict.fromkeys(stage for done in runs.values() for run in done for stage in run.stage_seconds)
    )
    table(
        "Seconds of each stage; they overlap",
        ("device", *stages),
        [
            (name, *(spread([run.stage_seconds.get(stage, 0.0) for run in done]) for stage in stages))
            for name, done in runs.items()
        ],
    )
    if (given.footage / "eval" / "truth.json").is_file():
        print_answers(given.footage, {name: library_of(given.work, name) for name in names}, clips)


def library_of(work: Path, name: str) -> Path:
    """Where the library of a device lies."""
    return work / f"gpu-{name.replace(' ', '-').replace(':', '-')}"


@contextmanager
def on_device(name: str) -> Iterator[None]:
    """Within it, networks run on that device, here and in what is started."""
    before = os.environ.get(devices.ENVIRONMENT)
    os.environ[devices.ENVIRONMENT] = name.split()[0]
    try:
        yield
    finally:
        if before is None:
            del os.environ[devices.ENVIRONMENT]
        else:
            os.environ[devices.ENVIRONMENT] = before


def print_answers(footage: Path, libraries: Mapping[str, Path], clips: Sequence[Path]) -> None:
    """F1 and AP of the album, by device."""
    there = {clip.name for clip in clips}
    truths = {
        entity: truth
        for entity, truth in read_truth(footage / "eval" / "truth.json").items()
        if there.intersection(truth.own)
    }
    rows = []
    for name, where in libraries.items():
        say(f"answers with {name}")
        with on_device(name):
            with panorama.open(where, create=False) as library:
                library.register_album(footage / "eval" / "album")
                scores = score_entities(library, truths)
            picture = next((footage / "eval" / "album").glob("*/*.jpg"))
            began = time.perf_counter()
            subprocess.run(
                command("register", "again", picture, library=where), capture_output=True, check=True
            )
            seconds = time.perf_counter() - began
        means = (_mean(scores, kind) for kind in ("f1", "average_precision", "false_rate"))
        rows.append((name, *means, seconds))
    head = ("device", "F1", "AP", "false-positive rate", "seconds of `panorama register` of one picture")
    table(f"Answers about {len(truths)} entities, means", head, rows)


def _mean(scores: Sequence[EntityScore], kind: str) -> str:
    told = [value for score in scores if (value := getattr(score, kind)) is not None]
    return f"{np.mean(told):.4f}" if told else "-"


def arguments() -> argparse.Namespace:
    """As typed; ends with status 2 where there is no such device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="for the libraries")
    parser.add_argument("--device", default="cuda", help="what is put beside the processor (default: cuda)")
    parser.add_argument("--clips", type=Path, nargs="+", help="instead of FOOTAGE/video/*.mp4")
    parser.add_argument("--rounds", type=int, default=3, help="of the index")
    parser.add_argument("--turns", type=int, default=7, help="of the networks")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 256], help="pictures at once")
    parser.add_argument("--frames", type=int, default=64, help="frames to compare regions on")
    parser.add_argument("--crops", type=int, default=512, help="crops to compare vectors on")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument(
        "--options", type=str.split, default=[], help="words for `panorama index`, as one text"
    )
    given = parser.parse_args()
    if given.device != "cpu" and not devices.gpus_here():
        parser.exit(2, NO_GPU)
    return given


def main() -> None:
    given = arguments()
    clips = given.clips or sorted((given.footage / "video").glob("*.mp4"))
    if not clips:
        raise SystemExit(f"there is no clip in {given.footage / 'video'}; give some by --clips")
    given.work.mkdir(parents=True, exist_ok=True)
    print(machine())
    if given.device != "cpu":
        print(f"torch {torch.__version__}, {torch.cuda.get_device_name(given.device)}")
    if "networks" in given.only or "agreement" in given.only:
        for tell in (set_num_threads, torch.set_num_threads, cv2.setNumThreads):
            tell(cores())
        sides = as_it_runs(given.device)
        frames = frames_of(clips, given.frames)
        say(f"{len(frames)} frames; {', '.join(sides)}")
        if "agreement" in given.only:
            print_agreement(sides, frames, given.crops)
        if "networks" in given.only:
            print_networks(sides, frames, given)
    if "index" in given.only:
        print_index(clips, given)


if __name__ == "__main__":
    main()
