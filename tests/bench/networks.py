"""Print the speed and accuracy of each shipped network on all cores, beside known ones in the same run.

    python tests/bench/networks.py ../shared/footage

Proposals: recall on COCO's val2017 pictures (at most 20 boxes per picture, overlap 0.5, classes ignored), the
entities of eval/ with an example that is found in its frame, and frames per second with resizing and
suppression; for the shipped proposers, and for FastestDet and YOLOX-nano, both trained on all of COCO.
Embedding: crops per second to each exit with resizing and colour, and for MobileNetV3-small without these.
Speeds are medians over turns, in each of which every network runs once. Needs
`pip install onnx onnxruntime`.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from measure import cores, machine, say, spread, table
from rival_detectors import FastestDet, YoloxNano

from panorama.models.cores import set_num_threads
from panorama.models.embedder import PanoramaNet
from panorama.models.precision import native_bfloat16
from panorama.models.proposals import proposal_recall
from panorama.models.proposer import load_proposer
from panorama.models.proposer_training.evaluate import Propose, exemplar_hits, judging_pictures
from panorama.models.proposer_training.sources import read_frames
from panorama.models.registry import DEFAULT_EMBEDDER, proposer_names
from panorama.models.weights import open_model

CROPS = 64
CROP_SIZE = (160, 120)


def per_second(work: Mapping[str, Callable[[], object]], count: int, turns: int) -> dict[str, list[float]]:
    """How many things a second each piece of work does, in every turn; a first go is not counted."""
    for call in work.values():
        call()
    found: dict[str, list[float]] = defaultdict(list)
    for _ in range(turns):
        for name, call in work.items():
            began = time.perf_counter()
            call()
            found[name].append(count / (time.perf_counter() - began))
    return found


def print_proposers(footage: Path, turns: int) -> None:
    """Recall, examples found and speed of the proposers that ship and of two others."""
    shipped = [load_proposer(name) for name in proposer_names()]
    proposers: dict[str, Propose] = {
        **{f"{one.name}, {one.precision.name}": one.propose for one in shipped},
        "FastestDet, float32": FastestDet(footage / "teachers", cores()).propose,
        "YOLOX-nano, float32": YoloxNano(footage / "teachers", cores()).propose,
    }
    judging = judging_pictures(footage)
    frames = read_frames(footage / "video" / "people-one-by-one.mp4", 32)[:32]
    say(
        f"{len(judging.pictures)} pictures, {len(frames)} frames of {frames[0].shape[1]}x{frames[0].shape[0]}"
    )
    speed = per_second({name: partial(call, frames) for name, call in proposers.items()}, len(frames), turns)
    rows = []
    for name, propose in proposers.items():
        say(name)
        recall = proposal_recall(
            judging.boxes, [propose([picture])[0] for picture in judging.pictures], judging.sizes
        )
        hits = exemplar_hits(footage, propose)
        found = f"{sum(overlap >= 0.5 for overlap in hits.values())} of {len(hits)}"
        rows.append((name, recall.of_large, recall.overall, found, spread(speed[name])))
    head = ("network", "recall, boxes of 1 % and more", "recall, all boxes", "examples found", "frames/s")
    table("Proposals", head, rows)


def print_embedders(turns: int) -> None:
    """Crops a second to each exit, and of a known network."""
    from torchvision.models import mobilenet_v3_small

    net = PanoramaNet(open_model(DEFAULT_EMBEDDER, "embedder"))
    crops = list(np.random.default_rng(0).integers(0, 256, (CROPS, *CROP_SIZE, 3)).astype(np.uint8))
    work: dict[str, Callable[[], object]] = {
        f"PanoramaNet to exit {number}, {net.precision.name}": partial(net.embed, crops, number)
        for number in range(1, net.exits + 1)
    }
    x = torch.randn(CROPS, 3, 128, 128).contiguous(memory_format=torch.channels_last)
    for kind in (torch.float32, *([torch.bfloat16] if native_bfloat16() else [])):
        other = mobilenet_v3_small(weights=None).eval().to(kind).to(memory_format=torch.channels_last)
        work[f"MobileNetV3-small, network alone, {str(kind).split('.')[1]}"] = partial(other, x.to(kind))
    with torch.inference_mode():
        speed = per_second(work, CROPS, turns)
    table("Embedding, 128 px", ("network", "crops/s"), [(name, spread(speed[name])) for name in work])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(cores())
    set_num_threads(cores())
    cv2.setNumThreads(cores())
    print(machine())
    print_proposers(given.footage, given.turns)
    print_embedders(given.turns)


if __name__ == "__main__":
    main()
