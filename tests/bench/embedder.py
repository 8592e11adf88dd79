"""Print how good an embedder is: class-disjoint retrieval, and crops per second beside a known network.

    python tests/bench/embedder.py --footage ../shared/footage

Retrieval: at most 40 pictures of every class of caltech101 and grocery that training never saw, each against
all others. Speed: the network alone, and all of `embed`, which also resizes and computes colour, in CPU time
of one thread, the best of several turns; other work on the computer hardly changes it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
from degraded import degraded_pairs
from torchvision.models import mobilenet_v3_small

from panorama.content import content_dir
from panorama.models.color import ColorEmbedder
from panorama.models.cores import set_num_threads
from panorama.models.embedder import PanoramaNet, squash
from panorama.models.precision import native_bfloat16
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.retrieval import retrieval_scores
from panorama.models.training.bank import Basis
from panorama.models.training.heldout import HeldOut, held_out_pictures
from panorama.models.training.teacher import LiteTeacher
from panorama.models.weights import open_model, read_recipe

BATCH = 64


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def instance_share(vectors: np.ndarray) -> float:
    """Share of pictures whose first view has its own second view nearest, of all second views."""
    half = len(vectors) // 2
    return float((np.argmax(vectors[:half] @ vectors[half:].T, axis=1) == np.arange(half)).mean())


def print_retrieval(net: PanoramaNet, held: HeldOut, footage: Path) -> None:
    pictures = list(held.load())
    views = degraded_pairs(pictures[::2], 128)
    sources = np.array([label.split("/")[0] for label in held.labels])
    labels = np.array(held.labels)

    def row(name: str, classes: np.ndarray, instances: np.ndarray | None) -> None:
        parts = [np.ones(len(labels), bool), *(sources == source for source in sorted(set(sources)))]
        scores = [retrieval_scores(classes[part], list(labels[part])) for part in parts]
        text = " | ".join(f"{m:.3f} / {r:.3f}" for m, r in scores)
        same = "" if instances is None else f" | {instance_share(instances):.3f}"
        print(f"| {name} | {text}{same} |", flush=True)

    print(
        f"{len(labels)} pictures of {len(set(labels))} classes;",
        f"mAP / R@1 of all, {', '.join(sorted(set(sources)))};",
    )
    print("then the share of degraded views that find their own picture's other view first")
    whole, seen = net.embed_all(pictures), net.embed_all(views)
    learned = slice(0, net.learned_dim)
    for number in range(net.exits):
        row(f"exit {number + 1}", whole[number], seen[number])
        row(
            f"exit {number + 1}, learned part alone",
            unit(whole[number][:, learned]),
            unit(seen[number][:, learned]),
        )
    row("colour part alone", net.color(pictures), net.color(views))
    row("colour histogram, 120-d", ColorEmbedder().embed(pictures), ColorEmbedder().embed(views))
    teacher = LiteTeacher(footage / "teachers" / "mobilenet_v1_embedding.tflite")
    features = np.stack([teacher.features(p)[0] for p in pictures])
    of_views = np.stack([teacher.features(v)[0] for v in views])
    row("teacher, 1024-d", unit(features), unit(of_views))
    basis = Basis.fit(features)
    white = [unit(basis.whiten(f, net.learned_dim, 2.0)) for f in (features, of_views)]
    row(f"teacher, whitened on these pictures, {net.learned_dim}-d", white[0], white[1])


def crops_per_core_second(work: dict[str, Callable[[], object]], turns: int) -> dict[str, float]:
    best = dict.fromkeys(work, 0.0)
    for _ in range(turns):
        for name, call in work.items():
            began = time.process_time()
            call()
            best[name] = max(best[name], BATCH / (time.process_time() - began))
    return best


def print_speed(net: PanoramaNet, side: int, turns: int) -> None:
    low = torch.bfloat16 if native_bfloat16() else torch.float32
    x = torch.randn(BATCH, 3, side, side).contiguous(memory_format=torch.channels_last)
    other = mobilenet_v3_small(weights=None).eval().to(memory_format=torch.channels_last)
    other_low = mobilenet_v3_small(weights=None).eval().to(low).to(memory_format=torch.channels_last)
    crops = list(np.random.default_rng(0).integers(0, 256, (BATCH, 160, 120, 3)).astype(np.uint8))
    work: dict[str, Callable[[], object]] = {}
    squares = np.stack([squash(crop, side) for crop in crops])
    for n in range(1, net.exits + 1):
        alone = f"PanoramaNet to exit {n}, network alone, {net.precision.name}"
        work[alone] = partial(net.network.exits_out, squares, n, n)
        work[f"PanoramaNet to exit {n}, embed()"] = partial(net.embed, crops, n)
    work["MobileNetV3-small architecture, float32"] = partial(other, x)
    work[f"MobileNetV3-small architecture, {str(low).split('.')[1]}"] = partial(other_low, x.to(low))
    with torch.inference_mode():
        for name, speed in crops_per_core_second(work, turns).items():
            print(f"| {name} | {speed:.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--footage", type=Path, default=Path("../shared/footage"))
    parser.add_argument("--model", default=DEFAULT_EMBEDDER)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--only", choices=("retrieval", "speed"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    set_num_threads(1)
    cv2.setNumThreads(1)
    net = PanoramaNet(open_model(given.model, "embedder"))
    recipe = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")
    if given.only != "speed":
        held = held_out_pictures(recipe["source"], {"footage": given.footage})
        print_retrieval(net, held, given.footage)
    if given.only != "retrieval":
        side = int(recipe["preprocess"]["side"])
        print(f"crops per second of one core's time, batches of {BATCH}, {side} pixels")
        print_speed(net, side, given.turns)


if __name__ == "__main__":
    main()
