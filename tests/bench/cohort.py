"""Make the cohort of the shipped embedder again: training pictures come in, their vectors go out.

    python tests/bench/cohort.py --footage FOLDER [--out MODEL]

Training writes the cohort, too (`panorama.models.training.cohort`); this bench leaves the weights unchanged.
Run `calibration.py` afterwards. Prints how close the new vectors are to the previous ones. If they are of the
same pictures, the previous ones stay, so that scores stay the same to the last bit.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from panorama.content import content_dir
from panorama.models.late import cohorts_of
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.models.training.cohort import cohort_bytes, cohort_pictures, write_cohort
from panorama.models.training.sources import gather
from panorama.models.weights import COHORT, RECIPE, open_model, read_recipe, record_hashes
from panorama.training import frames_of

SAME = 0.999
"""Cosine of two vectors of one picture: number formats and processors differ by less than 0.0003."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=content_dir("embeddings") / DEFAULT_EMBEDDER)
    given = parser.parse_args()
    before = cohorts_of(open_model(str(given.out), "embedder"))
    sources = read_recipe(given.out / RECIPE)["source"]
    write_cohort(given.out, cohort_pictures(gather(sources, {"footage": given.footage}, frames_of)))
    after = cohorts_of(open_model(str(given.out), "embedder"))
    grey = np.stack([cohort.grey for cohort in after])
    print(f"{len(after[0])} vectors and {grey.shape[1]} in grey at each of {len(after)} exits")
    if not before or len(before[0]) != len(after[0]):
        return
    kept = np.stack([cohort.vectors for cohort in before])
    alike = np.einsum("end,end->en", kept, np.stack([cohort.vectors for cohort in after]))
    print(f"least cosine to the previous ones: {alike.min():.4f}")
    if alike.min() > SAME:
        (given.out / COHORT).write_bytes(cohort_bytes(kept, grey, after[0].hues))
        record_hashes(given.out)
        print("of the same pictures: the previous ones stay")


if __name__ == "__main__":
    main()
