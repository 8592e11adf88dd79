"""Draw pictures of where the shipped models fail on the sample archive, for their cards.

    python data/render.py SAMPLE
    python tests/bench/failures.py SAMPLE --out embeddings

Writes failures.jpg into OUT/proposer, OUT/proposer-wide and OUT/panoramanet. A tile is a frame, cropped
around its things.

- Proposers: for every entity and clip, frames in which none of the 20 best regions overlaps its visible box
  by 0.5 (every sixth frame is examined). Red is the truth, yellow the closest region.
- Embedder, with the album and its look-alikes and default settings: answers without the entity (yellow), and
  stretches that show the entity but were not returned (red). One tile per stretch, the longest first.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

import panorama
from panorama.library import Library
from panorama.models.base import Image
from panorama.models.proposer import load_proposer
from panorama.models.registry import proposer_names
from panorama.regions import iou
from panorama.video import open_video

EVERY = 6
TILE = (208, 156)
"""Width and height of a tile's picture."""

COLUMNS = 4
MOST = 12
RED, YELLOW = (220, 30, 30), (250, 215, 20)
Box = Sequence[float]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One tile: what to show, of which frame, and how much it weighs."""

    caption: str
    video: str
    frame: int
    truth: Box | None
    found: Box | None
    weight: float


def frames_of(path: Path, numbers: set[int]) -> dict[int, Image]:
    """Some frames of a clip, RGB, by number."""
    with open_video(path) as reader:
        return {frame.index: frame.rgb() for frame in reader.frames() if frame.index in numbers}


def missed_regions(sample: Path, truth: dict[str, Any], name: str) -> tuple[list[Mistake], int]:
    """What a proposer misses: the worst frame of every entity and clip; how many boxes were looked for."""
    proposer = load_proposer(name)
    asked = 0
    worst: dict[tuple[str, str], Mistake] = {}
    wanted: dict[str, list[tuple[str, int, Box]]] = {}
    for entity, facts in truth.items():
        for video, boxes in facts["boxes"].items():
            for number, box in list(boxes.items())[::EVERY]:
                wanted.setdefault(video, []).append((entity, int(number), box))
    for video, boxes in sorted(wanted.items()):
        frames = frames_of(sample / "archive" / video, {number for _, number, _ in boxes})
        regions = {number: proposer.propose([image])[0][:20].boxes_xyxy for number, image in frames.items()}
        for entity, number, box in boxes:
            asked += 1
            overlaps = iou(np.array([box], np.float32), regions[number])[0]
            best = float(overlaps.max(initial=0.0))
            if best >= 0.5:
                continue
            nearest = regions[number][int(overlaps.argmax())].tolist() if best > 0 else None
            tile = Mistake(f"{entity}: overlap {best:.2f}", video, number, box, nearest, 1 - best)
            if (entity, video) not in worst or worst[entity, video].weight < tile.weight:
                worst[entity, video] = tile
    return sorted(worst.values(), key=lambda m: -m.weight), asked


def wrong_answers(library: Library, truth: dict[str, Any]) -> list[Mistake]:
    """False and missing stretches of every entity, the longest first."""
    found: list[Mistake] = []
    for entity, facts in truth.items():
        rows = library.query("SELECT frames WHERE entity = $name", {"name": entity})
        returned = {(row["video"], row["frame"]): row for row in rows}
        spans = {v: _numbers(s) for v, s in facts["visible"].items()}
        unsure = {v: _numbers(s) for v, s in facts.get("ignore", {}).items()}
        false = {
            key for key in returned if key[1] not in spans.get(key[0], set()) | unsure.get(key[0], set())
        }
        missing = {(v, n) for v, numbers in spans.items() for n in numbers if (v, n) not in returned}
        row: Any
        for keys, is_false in ((false, True), (missing, False)):
            for stretch in _stretches(keys):
                video, number = stretch[len(stretch) // 2]
                row = returned.get((video, number), {})
                box = facts["boxes"].get(video, {}).get(str(number))
                place = [row[k] for k in ("x1", "y1", "x2", "y2")] if is_false else None
                word = "wrong" if is_false else "missed"
                caption = f"{entity}: {word}, {len(stretch)} frames"
                found.append(Mistake(caption, video, number, None if is_false else box, place, len(stretch)))
    return sorted(found, key=lambda m: -m.weight)


def _numbers(spans: Sequence[Sequence[int]]) -> set[int]:
    return {number for first, last in spans for number in range(first, last + 1)}


def _stretches(keys: set[tuple[str, int]]) -> list[list[tuple[str, int]]]:
    """Frames of one video without gaps of more than half a second (eight frames)."""
    out: list[list[tuple[str, int]]] = []
    for key in sorted(keys):
        if out and out[-1][-1][0] == key[0] and key[1] - out[-1][-1][1] <= 8:
            out[-1].append(key)
        else:
            out.append([key])
    return out


def draw(mistakes: Sequence[Mistake], sample: Path, out: Path) -> None:
    """The tiles in rows, written as a JPEG; nothing without a mistake."""
    if not mistakes:
        return
    tiles = [tile(m, frames_of(sample / "archive" / m.video, {m.frame})[m.frame]) for m in mistakes[:MOST]]
    blank = np.full_like(tiles[0], 255)
    tiles += [blank] * (-len(tiles) % COLUMNS)
    rows = [np.hstack(tiles[i : i + COLUMNS]) for i in range(0, len(tiles), COLUMNS)]
    sheet = cv2.cvtColor(np.vstack(rows), cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(out), sheet, [cv2.IMWRITE_JPEG_QUALITY, 85])
    print(f"{out}: {len(mistakes[:MOST])} of {len(mistakes)}, {out.stat().st_size / 1024:.0f} KiB")


def tile(mistake: Mistake, image: Image) -> NDArray[np.uint8]:
    """A window around the boxes with its caption below."""
    height, width = image.shape[:2]
    boxes = np.array([b for b in (mistake.truth, mistake.found) if b is not None], np.float32)
    x1, y1, x2, y2 = (*boxes[:, :2].min(0), *boxes[:, 2:].max(0)) if len(boxes) else (0, 0, width, height)
    wide = min(width, max((x2 - x1) * 1.6, (y2 - y1) * 1.6 * TILE[0] / TILE[1], 160))
    tall = min(height, wide * TILE[1] / TILE[0])
    left = int(np.clip((x1 + x2 - wide) / 2, 0, width - wide))
    top = int(np.clip((y1 + y2 - tall) / 2, 0, height - tall))
    part = image[top : top + int(tall), left : left + int(wide)]
    scale = min(TILE[0] / part.shape[1], TILE[1] / part.shape[0])
    small = cv2.resize(
        part, (int(part.shape[1] * scale), int(part.shape[0] * scale)), interpolation=cv2.INTER_AREA
    )
    canvas = np.full((TILE[1] + 34, TILE[0] + 6, 3), 255, np.uint8)
    canvas[: small.shape[0], : small.shape[1]] = small
    for box, colour in ((mistake.found, YELLOW), (mistake.truth, RED)):
        if box is not None:
            corners = ((np.array(box) - [left, top, left, top]) * scale).astype(int)
            corners = np.clip(corners, 0, [small.shape[1] - 1, small.shape[0] - 1] * 2)
            cv2.rectangle(canvas, corners[:2].tolist(), corners[2:].tolist(), colour, 2)
    for line, text in enumerate((mistake.caption, f"{mistake.video} {mistake.frame}")):
        place = (2, TILE[1] + 12 + 14 * line)
        cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, 0.38, (0, 0, 0), 1, cv2.LINE_AA)
    return canvas


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("sample", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    truth = json.loads((arguments.sample / "truth.json").read_text(encoding="utf-8"))
    for name in proposer_names():
        mistakes, asked = missed_regions(arguments.sample, truth, name)
        print(f"{name}: of {asked} boxes, by entity and clip, {len(mistakes)} have frames without a region")
        draw(mistakes, arguments.sample, arguments.out / name / "failures.jpg")
    with (
        tempfile.TemporaryDirectory() as folder,
        panorama.open(Path(folder) / "library", create=True) as library,
    ):
        library.index([arguments.sample / "archive"])
        library.register_album(arguments.sample / "album")
        for wrong in sorted((arguments.sample / "lookalikes").iterdir()):
            library.register(wrong.name, unlike=sorted(wrong.glob("*.jpg")))
        answers = wrong_answers(library, truth)
    draw(answers, arguments.sample, arguments.out / "panoramanet" / "failures.jpg")


if __name__ == "__main__":
    main()
