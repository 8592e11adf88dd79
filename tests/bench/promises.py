"""Whether WITH PRECISION and WITH RECALL keep their promise: the sample archive comes in, a table goes out.

    python tests/bench/promises.py FOLDER

The library in FOLDER is made if it does not exist, and calibrated. The table has the precision and recall of
frames, each a mean over the entities, and what the clauses promise: the number of entities whose answer holds
nothing else, and how many of the tracks that show an entity are in its answer. An empty answer has precision
1. Refused promises are listed and do not count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from questions import sample_library

import panorama
from panorama.errors import AccuracyError
from panorama.judging.calibrate import calibrate
from panorama.library import Library

SAME = 0.5
"""Overlap of a crop's box and the thing's, from which the crop is of the thing."""

TERMS = (
    *("", "WITH PRECISION >= 0.8", "WITH PRECISION >= 0.9", "WITH PRECISION >= 0.95"),
    *("WITH RECALL >= 0.5", "WITH RECALL >= 0.8", "WITH RECALL >= 0.9"),
)


def frames_of(spans: Mapping[str, list[list[int]]]) -> set[tuple[str, int]]:
    """The frames of inclusive intervals by video."""
    return {(video, frame) for video, some in spans.items() for a, b in some for frame in range(a, b + 1)}


def shown_tracks(library: Library, boxes: Mapping[str, Mapping[str, Sequence[float]]]) -> set[int]:
    """Tracks whose crops are mostly of the thing: their box and its box overlap by half."""
    hits: dict[int, list[bool]] = {}
    for crop in library.query("SELECT video, track_id, frame, x1, y1, x2, y2 FROM crops"):
        wanted = boxes.get(crop["video"], {}).get(str(crop["frame"]))
        mine = [crop[side] for side in ("x1", "y1", "x2", "y2")]
        same = wanted is not None and overlap(mine, wanted) >= SAME
        hits.setdefault(crop["track_id"], []).append(same)
    return {track for track, some in hits.items() if np.mean(some) > 0.5}


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Intersection over union of two boxes (x1, y1, x2, y2)."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    both = max(width, 0) * max(height, 0)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return both / (sum(areas) - both)


@dataclass
class Kept:
    """What was found of every entity under one promise."""

    precision: list[float] = field(default_factory=list)
    recall: list[float] = field(default_factory=list)
    alone: list[bool] = field(default_factory=list)
    found: int = 0
    shown: int = 0
    refused: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        if not self.precision:
            return f"refused of all {len(self.refused)}"
        told = (
            f"precision {np.mean(self.precision):.3f}  recall {np.mean(self.recall):.3f}  "
            f"nothing else {sum(self.alone)} of {len(self.alone)}  tracks {self.found} of {self.shown}"
        )
        return told + (f"  refused of {', '.join(self.refused)}" if self.refused else "")


def ask(library: Library, terms: str, truth: Mapping[str, Any]) -> Kept:
    """All entities under one promise."""
    kept = Kept()
    for entity, facts in truth.items():
        try:
            rows = library.query(f"SELECT frames WHERE entity = ? {terms}", [entity]).arrow().to_pylist()
        except AccuracyError:
            kept.refused.append(entity)
            continue
        found = {(row["video"], row["frame"]) for row in rows} - frames_of(facts["ignore"])
        visible, shown = frames_of(facts["visible"]), shown_tracks(library, facts["boxes"])
        kept.precision.append(len(found & visible) / len(found) if found else 1.0)
        kept.recall.append(len(found & visible) / len(visible))
        kept.alone.append(found <= visible)
        kept.found += len({row["track_id"] for row in rows} & shown)
        kept.shown += len(shown)
    return kept


def main() -> None:
    folder = Path(sys.argv[1])
    if not (folder / "library").exists():
        sample_library(folder).close()
    truth = json.loads((folder / "sample" / "truth.json").read_text())
    with panorama.open(folder / "library") as library:
        print("examples", *(report.examples for report in calibrate(library).exits))
        for terms in TERMS:
            print(f"{terms or 'calibrated':24} {ask(library, terms, truth)}")


if __name__ == "__main__":
    main()
