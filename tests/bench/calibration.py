"""Make the calibration of the shipped embedder: data and seeds come in, calibration.json goes out.

    python tests/bench/calibration.py --footage FOLDER --work WORK [--out FILE]

Everything is measured on the judges of `deciding_judges.py` except `eval`, all with the same weight:

- The floor of the deepest exit is the lowest that keeps silent about a share SILENT of the things that are
  absent, registered with one example or with several.
- The curve of the score, and its fall behind the best track, have the greatest likelihood for what is visible
  in each frame (or track, or picture), given its best track.
- A straight line puts values of shallower exits on the scale of the deepest. These exits accept nothing, and
  reject what hardly ever becomes an accepted track.

The rules for tracks within one video are those of `SHIPPED` in `deciding.py`, which compares them with
others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from deciding import EVAL, SHIPPED, Study, floor_for, loudest
from deciding_judges import Sets, make_sets
from deciding_sets import Thing
from numpy.typing import NDArray
from scipy.optimize import minimize

from panorama.answering.calibration import SHIPPED as SHIPPED_FILE
from panorama.answering.calibration import write_calibration
from panorama.content import content_dir
from panorama.judging.deciding import expected_error
from panorama.models.registry import DEFAULT_EMBEDDER
from panorama.query.matching.decide import Calibration, bands
from panorama.query.matching.kinship import settle, standing
from panorama.query.matching.matches import ACCEPTED, UNCERTAIN

SILENT = 0.96
OPEN = 0.65
"""From so much of the floor on, a track is uncertain rather than rejected: what `near_best` still accepts."""

SEEN = 0.45
"""From so much of the floor on, scores are fitted: below lies what is far from anything."""

LOST = 0.005
"""Share of the tracks that the deepest exit accepts, which the first may reject."""

LEAST_BESIDE = 0.02
"""Of what is open beside the thing itself hardly anything is right; so much of its score keeps its order."""

STARTS = ((20, 1, 0.2), (10, 0.5, 0.05), (10, 2, 0.5))
"""Slope, `fade` and `beside` that the search begins at: the likelihood is flat, and one may stop early."""

START = Calibration(
    0.44,
    20.0,
    0.044,
    0.5,
    SHIPPED.near_best,
    SHIPPED.near_in_video,
    SHIPPED.carried,
    near_on_site=SHIPPED.near_on_site,
    alike=SHIPPED.alike,
    distance_ratio=SHIPPED.distance_ratio,
)


@dataclass(frozen=True, slots=True)
class Observed:
    """Units of things that are there, each with the track that decided it: columns (N,).

    Attributes:
        value: of the track; of_best: by that of the thing's best.
        band: of the track; shown: whether its video shows the thing in another one.
        true: whether the thing is to be seen.
        weight: so that every judge counts the same.
    """

    value: NDArray[np.float64]
    of_best: NDArray[np.float64]
    band: NDArray[np.uint8]
    shown: NDArray[np.bool_]
    true: NDArray[np.bool_]
    weight: NDArray[np.float64]

    def scores(self, calibration: Calibration) -> NDArray[np.float64]:
        """As queries would give them; what is carried by a neighbour aside."""
        plain = calibration.score(self.value)
        out = np.where(self.band == UNCERTAIN, standing(plain, self.of_best, self.shown, calibration), plain)
        return np.where(self.band == ACCEPTED, np.maximum(out, calibration.high), out)


def kind(judge: str) -> str:
    """The ways of registering the drawn album are one judge."""
    return judge.split()[0]


def observe(study: Study, things: Sequence[Thing], calibration: Calibration) -> Observed:
    """What is decided about every counted unit, and the truth."""
    parts: list[list[NDArray]] = []
    for thing in things:
        archive, values = study.values(thing)
        asked = np.flatnonzero(np.isfinite(values))
        value = values[asked].astype(np.float64)
        ids = archive.groups.track_ids[asked]
        before = bands(values[asked], calibration)
        looks = study.looks(thing)
        settled = settle(ids, calibration.score(value), before, calibration, archive.where, looks=looks)
        score, band = settled.score, settled.band
        scenes = archive.where.scenes(ids)
        shown = np.isin(scenes, scenes[band == ACCEPTED])
        owner = np.full(archive.units, -1)
        for place in np.argsort(score, kind="stable"):
            owner[slice(*archive.spans[asked[place]])] = place
        units = thing.counted & (owner >= 0)
        mine = owner[units]
        weight = np.full(len(mine), 1 / sum(kind(one.judge) == kind(thing.judge) for one in things))
        keep = value[mine] >= SEEN * calibration.centre
        columns = (value, value / max(value.max(), 1e-6), band, shown)
        share = weight[keep] / max(int(keep.sum()), 1)
        parts.append([*(c[mine][keep] for c in columns), thing.shown[units][keep], share])
    return Observed(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def fitted(floor: float, slope: float, fade: float, beside: float) -> Calibration:
    """Bands with the border of acceptance at a value."""
    curve = replace(START, centre=floor, slope=slope, fade=fade, beside=beside, low=0.0)
    return replace(curve, low=float(curve.score(np.array(OPEN * floor))))


def fit_scores(seen: Observed, floor: float) -> Calibration:
    """The curve of greatest likelihood."""

    def curve(logarithms: NDArray[np.float64]) -> Calibration:
        slope, fade, beside = np.exp(logarithms)
        return fitted(floor, float(slope), float(fade), float(np.clip(beside, LEAST_BESIDE, 1)))

    def loss(logarithms: NDArray[np.float64]) -> float:
        scores = np.clip(seen.scores(curve(logarithms)), 1e-3, 1 - 1e-3)
        return float(-(seen.weight * np.log(np.where(seen.true, scores, 1 - scores))).sum())

    found = [
        minimize(loss, np.log(start), method="Nelder-Mead", options={"maxiter": 2000}) for start in STARTS
    ]
    return curve(min(found, key=lambda one: float(one.fun)).x)


def shallower(deepest: Calibration, values: NDArray[np.float32], at_exit: NDArray[np.float32]) -> Calibration:
    """Of an exit that accepts nothing: tracks' values (N,) there and at the deepest exit tell its scale."""
    near = values >= SEEN * deepest.centre
    slope, shift = np.polyfit(at_exit[near], values[near], 1)
    lasting = slope * at_exit[values >= deepest.centre] + shift
    reject = min(float(np.quantile(lasting, LOST)), OPEN * deepest.centre)
    return replace(
        deepest,
        centre=float((deepest.centre - shift) / slope),
        slope=float(deepest.slope * slope),
        low=float(deepest.score(np.array(reject))),
        high=1.0,
    )


def calibrate(sets: Sets) -> list[Calibration]:
    """One calibration for every exit, shallowest first."""
    present = [thing for thing in sets.present if kind(thing.judge) != EVAL]
    deepest = Study(SHIPPED, sets.cohort)
    floor = float(floor_for(loudest(deepest, sets.absent), SILENT))
    last = fit_scores(observe(deepest, present, fitted(floor, START.slope, 0, 1)), floor)
    values = np.concatenate([deepest.values(thing)[1] for thing in present])
    there = np.isfinite(values)
    found = []
    for exit in range(1, len(sets.cohort)):
        study = Study(replace(SHIPPED, exit=exit), sets.cohort)
        at_exit = np.concatenate([study.values(thing)[1] for thing in present])
        found.append(shallower(last, values[there], at_exit[there]))
    return [_rounded(one) for one in (*found, last)]


def _rounded(one: Calibration) -> Calibration:
    return Calibration(**{name: float(f"{value:.4g}") for name, value in one.as_dict().items()})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    shipped = content_dir("embeddings") / DEFAULT_EMBEDDER / SHIPPED_FILE
    parser.add_argument("--out", type=Path, default=shipped)
    given = parser.parse_args()
    sets = make_sets(given.footage, given.work)
    found = calibrate(sets)
    write_calibration(given.out, found)
    study = Study(SHIPPED, sets.cohort)
    for judge in dict.fromkeys(kind(thing.judge) for thing in sets.present):
        seen = observe(study, [thing for thing in sets.present if kind(thing.judge) == judge], found[-1])
        error = expected_error(seen.scores(found[-1]), seen.true).error
        print(f"{judge}: expected calibration error {error:.3f}")
    print(given.out.read_text(), file=sys.stderr)


if __name__ == "__main__":
    main()
