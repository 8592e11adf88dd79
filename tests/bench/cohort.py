"""Make the cohort of the shipped embedder again: training pictures come in, their vectors go out.

    python tests/bench/cohort.py --footage FOLDER [--out MODEL]

Training writes the cohort, too (`panorama.models.training.cohort`); this bench leaves the weights unchanged.
Run `calibration.py` afterwards. Prints how close the new vectors are to the previous ones.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from panorama.content import content_dir
from panorama.models.late import cohort_of
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.training.cohort import cohort_pictures, write_cohort
from panorama.models.training.sources import gather
from panorama.models.weights import RECIPE, open_model, read_recipe
from panorama.training import frames_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=content_dir("embeddings") / DEFAULT_EMBEDDER)
    given = parser.parse_args()
    before = cohort_of(open_model(str(given.out), "embedder"))
    sources = read_recipe(given.out / RECIPE)["source"]
    write_cohort(given.out, cohort_pictures(gather(sources, {"footage": given.footage}, frames_of)))
    after = cohort_of(open_model(str(given.out), "embedder"))
    assert after is not None
    print(f"{after.shape[1]} vectors at each of {after.shape[0]} exits")
    if before is not None:
        common = min(before.shape[1], after.shape[1])
        alike = (before[:, :common] * after[:, :common]).sum(axis=-1)
        print(f"the first {common} and those of before: least cosine {np.min(alike):.4f}")


if __name__ == "__main__":
    main()
