"""A proposer and the data folder come in; its recall on judging pictures, its clutter and speed go out."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Image
from panorama.models.proposals import Recall, proposal_recall
from panorama.models.proposer_training.sources import (
    BOXES,
    PERMITTED_CLIPS,
    WHO,
    read_frames,
    read_numbered,
    read_rgb,
)
from panorama.models.training.tables import boxes_of
from panorama.regions import Regions, iou

TRUTH = "eval/truth.json"
Propose = Callable[[Sequence[Image]], list[Regions]]


@dataclass(frozen=True, slots=True)
class Judging:
    """Pictures of COCO val2017 with their boxes; they are never trained on."""

    pictures: list[Image]
    boxes: list[NDArray[np.float32]]

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Width and height of every picture."""
        return [(p.shape[1], p.shape[0]) for p in self.pictures]


def judging_pictures(data: Path) -> Judging:
    """The val2017 pictures in boxes/, with their boxes; unreadable ones are left out."""
    found = boxes_of(data / BOXES, WHO)
    pictures = {file: read_rgb(data / file) for file in sorted(found) if "val2017" in file}
    kept = {file: picture for file, picture in pictures.items() if picture is not None}
    return Judging(list(kept.values()), [np.array(found[file], np.float32) for file in kept])


def exemplar_hits(data: Path, propose: Propose, limit: int = 20) -> dict[str, float]:
    """Best overlap of any of the `limit` best regions with each entity's exemplar box, in its frame."""
    truth = json.loads((data / TRUTH).read_text(encoding="utf-8"))
    wanted = [(e, x["video"], x["frame"], x["box"]) for e, facts in truth.items() for x in facts["exemplars"]]
    frames = {
        video: read_numbered(data / "video" / video, [n for _, v, n, _ in wanted if v == video])
        for video in sorted({video for _, video, _, _ in wanted})
    }
    hits: dict[str, float] = {}
    for entity, video, number, box in wanted:
        boxes = propose([frames[video][number]])[0][:limit].boxes_xyxy
        overlap = iou(np.array([box], np.float32), boxes)
        hits[entity] = max(hits.get(entity, 0.0), float(overlap.max(initial=0.0)))
    return hits


def clutter(data: Path, propose: Propose, frames_a_clip: int = 8) -> dict[str, float]:
    """Mean number of regions per frame, for each clip in video/ that may be trained on."""
    counts: dict[str, float] = {}
    for clip in PERMITTED_CLIPS:
        if frames := read_frames(data / "video" / f"{clip}.mp4", frames_a_clip)[:frames_a_clip]:
            counts[clip] = float(np.mean([len(regions) for regions in propose(frames)]))
    return counts


def milliseconds(propose: Propose, frames: Sequence[Image], rounds: int = 5) -> float:
    """Wall time per frame, from the fastest of several rounds over all frames, after one to warm up."""
    propose(frames)
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        propose(frames)
        best = min(best, time.perf_counter() - began)
    return best / len(frames) * 1e3


def report(data: Path, propose: Propose) -> dict[str, Any]:
    """The figures of one proposer as plain values, of what the data folder holds to judge by."""
    figures: dict[str, Any] = {}
    judging = judging_pictures(data)
    if judging.pictures:
        regions = [propose([picture])[0] for picture in judging.pictures]
        recall: Recall = proposal_recall(judging.boxes, regions, judging.sizes)
        figures["recall_overall"] = round(recall.overall, 3)
        figures["recall_large"] = round(recall.of_large, 3)
        figures["regions_a_picture"] = round(recall.proposals / recall.pictures, 1)
    if (data / TRUTH).is_file():
        hits = exemplar_hits(data, propose)
        figures["exemplars_found"] = sum(overlap >= 0.5 for overlap in hits.values())
        figures["exemplars"] = {entity: round(overlap, 2) for entity, overlap in hits.items()}
    if counts := clutter(data, propose):
        figures["regions_a_frame"] = {clip: round(count, 1) for clip, count in counts.items()}
    if frames := read_frames(data / "video" / "bottles.mp4", 16)[:16]:
        figures["milliseconds_a_frame"] = round(milliseconds(propose, frames), 1)
    return figures
