"""Whether WITH PRECISION and WITH RECALL keep their promise: the sample archive enters, a table leaves.

    python tests/bench/promises.py FOLDER

The library in FOLDER is made if it is not there, and calibrated. Precision of an empty answer counts as 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from questions import sample_library

import panorama
from panorama.calibrate import calibrate

TERMS = (
    *("", "WITH PRECISION >= 0.8", "WITH PRECISION >= 0.9", "WITH PRECISION >= 0.95"),
    *("WITH RECALL >= 0.5", "WITH RECALL >= 0.8", "WITH RECALL >= 0.9"),
)


def frames_of(spans: Mapping[str, list[list[int]]]) -> set[tuple[str, int]]:
    """The frames of inclusive intervals by video."""
    return {(video, frame) for video, some in spans.items() for a, b in some for frame in range(a, b + 1)}


def main() -> None:
    folder = Path(sys.argv[1])
    if not (folder / "library").exists():
        sample_library(folder).close()
    truth = json.loads((folder / "sample" / "truth.json").read_text())
    with panorama.open(folder / "library") as library:
        print("examples", *(report.examples for report in calibrate(library)))
        for terms in TERMS:
            precisions, recalls = [], []
            for entity, facts in truth.items():
                rows = library.query(f"SELECT frames WHERE entity = ? {terms}", [entity])
                found = {(row["video"], row["frame"]) for row in rows} - frames_of(facts["ignore"])
                visible = frames_of(facts["visible"])
                precisions.append(len(found & visible) / len(found) if found else 1.0)
                recalls.append(len(found & visible) / len(visible))
            precision, recall = (sum(values) / len(values) for values in (precisions, recalls))
            print(f"{terms or 'calibrated':24} mean precision {precision:.3f}  mean recall {recall:.3f}")


if __name__ == "__main__":
    main()
