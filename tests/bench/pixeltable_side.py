"""Pixeltable's side of against_pixeltable.py: clips come in, frames with vectors go into its store.

That bench runs it with the interpreter of Pixeltable's own environment; a UDF must be in a named module,
which this is. Packages that this environment lacks (torch, OpenCV, panorama) come from the bench's
environment.
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
import PIL.Image
import pixeltable as pxt
from pixeltable.func import Batch
from pixeltable.functions.video import frame_iterator

from panorama.crops import cut
from panorama.models.proposer import load_proposer
from panorama.models.registry import load_embedder

EMBEDDER = load_embedder("panoramanet")
PROPOSER = load_proposer()
DIM = EMBEDDER.dim
SIDE = 416


def arrays(images: list[PIL.Image.Image]) -> list[np.ndarray]:
    return [np.asarray(image.convert("RGB")) for image in images]


@pxt.udf(batch_size=64)
def nothing(images: Batch[PIL.Image.Image]) -> Batch[pxt.Array[(3,), pxt.Float]]:
    """A vector that costs nothing."""
    return [np.zeros(3, np.float32) for _ in images]


@pxt.udf(batch_size=64)
def frame_vector(images: Batch[PIL.Image.Image]) -> Batch[pxt.Array[(DIM,), pxt.Float]]:
    """The deepest exit's vector of each whole frame."""
    return list(EMBEDDER.embed(arrays(images)))


@pxt.udf(batch_size=8)
def region_vectors(images: Batch[PIL.Image.Image]) -> Batch[pxt.Json]:
    """The deepest exit's vector of each region of each frame, and its box."""
    pictures = arrays(images)
    found = []
    for picture, regions in zip(pictures, PROPOSER.propose(pictures), strict=True):
        crops = [cut(picture, box) for box in regions.boxes_xyxy]
        vectors = EMBEDDER.embed(crops) if crops else np.zeros((0, DIM), np.float32)
        found.append({"boxes": regions.boxes_xyxy.tolist(), "vectors": vectors.tolist()})
    return found


WORK = {"nothing": nothing, "frame": frame_vector, "regions": region_vectors}


def main() -> None:
    work, rate, *clips = sys.argv[1:]
    # Everything is warm before the clock starts: networks, database, tables.
    PROPOSER.propose([np.zeros((288, SIDE, 3), np.uint8)])
    EMBEDDER.embed([np.zeros((64, 64, 3), np.uint8)])
    pxt.drop_dir("bench", force=True, if_not_exists="ignore")
    pxt.create_dir("bench")
    videos = pxt.create_table("bench/videos", {"video": pxt.Video})
    frames = pxt.create_view("bench/frames", videos, iterator=frame_iterator(videos.video, fps=float(rate)))
    frames.add_computed_column(found=WORK[work](frames.frame))
    started, used = time.perf_counter(), time.process_time()
    videos.insert([{"video": clip} for clip in clips])
    seconds, core_seconds = time.perf_counter() - started, time.process_time() - used
    told = {"seconds": seconds, "core_seconds": core_seconds, "rows": frames.count()}
    print("\n" + json.dumps(told), flush=True)
