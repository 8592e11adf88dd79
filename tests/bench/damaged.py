"""Whether pictures of hits in damaged files show the frames that were indexed.

    python tests/bench/damaged.py CLIP...

Each clip is damaged in two copies: four stretches between 15 and 85 % of the file, each from 300 bytes to a
thirtieth of the file, become zeros in one copy and random bytes in the other. Each copy is indexed. Then the
frame of every crop is read from the file again, for some crops one at a time, as sheets and pages do: by its
timestamp and, for comparison, by its number. It is wrong if the content of the crop's box differs from the
stored crop by more than 8 of 255 on average: it is another frame, or the same one if the decoder leaves
arbitrary memory in damaged parts.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from measure import say, table

import panorama
from panorama.crops import cut, decode_picture
from panorama.shown.hit_frames import NoFrame, Stamps, frames_of, stamps_of
from panorama.shown.hits import Hit, hits_of
from panorama.shown.track_boxes import TrackBoxes

STRETCHES = 4
UNLIKE = 8
ALONE = 60
"""So many crops are looked for one at a time, evenly spread."""


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("clips", type=Path, nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="panoramanet")
    args = parser.parse_args()
    head = [
        "file",
        "crops",
        "wrong by number",
        "wrong by time stamp",
        "one at a time: crops",
        "wrong by number",
    ]
    rows = []
    for clip in args.clips:
        for kind in ("zeros", "random"):
            say(f"{kind} in {clip.name}")
            with tempfile.TemporaryDirectory() as folder:
                film = damaged(clip, Path(folder) / f"{kind}-{clip.name}", kind, args.seed)
                rows.append([film.name, *judged(film, args.model)])
    table("Pictures of crops that are not what was indexed", [*head, "wrong by time stamp", "told"], rows)


def damaged(clip: Path, out: Path, kind: str, seed: int) -> Path:
    """A damaged copy."""
    data, chance = bytearray(clip.read_bytes()), random.Random(seed)
    for _ in range(STRETCHES):
        start = chance.randrange(int(len(data) * 0.15), int(len(data) * 0.85))
        length = chance.choice([300, 3000, len(data) // 100, len(data) // 30])
        length = min(length, len(data) - start)
        data[start : start + length] = bytes(length) if kind == "zeros" else chance.randbytes(length)
    out.write_bytes(data)
    return out


def judged(film: Path, model: str) -> list[Any]:
    """Crops, and how many are shown wrongly: read on from one another and one at a time; and those told."""
    with panorama.open(film.parent / "library", create=True) as library:
        library.index(film, model=model)
        found = library.query("SELECT crops")
        hits = hits_of(found.columns, found.arrow().to_pylist())
        stamps = stamps_of(hits, TrackBoxes.of(library))
        stored = library.stored_crops([hit.crop_id for hit in hits if hit.crop_id is not None])
    some = hits[:: max(1, len(hits) // ALONE)]
    row: list[Any] = []
    told = 0
    for groups in ([hits], [[hit] for hit in some]):
        by_stamp, lost = wrong(groups, film, stamps, stored)
        row += [sum(map(len, groups)), wrong(groups, film, {}, stored)[0], by_stamp]
        told += lost
    return [*row, told]


def wrong(
    groups: Sequence[Sequence[Hit]], film: Path, stamps: Stamps, stored: dict[int, bytes]
) -> tuple[int, int]:
    """How many crops are shown wrongly, each group by itself; and of how many it is told that none can be."""
    count = told = 0
    for hits in groups:
        for number, shown in frames_of(hits, {film.name: str(film)}, stamps):
            hit = hits[number]
            if isinstance(shown, NoFrame):
                told += 1
                continue
            crop = decode_picture(stored[hit.crop_id or 0])
            part = np.ascontiguousarray(cut(shown, np.array(hit.box_xyxy, np.float32)))
            part = np.asarray(cv2.resize(part, crop.shape[1::-1], interpolation=cv2.INTER_AREA))
            count += bool(np.abs(part.astype(int) - crop).mean() > UNLIKE)
    return count, told


if __name__ == "__main__":
    main()
