"""Similarities of exemplars and crops enter; scores in [0, 1] and bands for every track leave.

The rule, in the order it is applied (s is the inner product of two unit vectors):

1. Distance ratio against a cohort. r is the mean of an exemplar's 3 largest similarities to a cohort of
   foreign crops: how alike strangers get. n = 1 - (1 - s) / (1 - r) is 1 for the same picture, 0 for the
   nearest strangers, negative for all others, and means the same for every exemplar.
2. Over the views of an entity's exemplars, and the mean of all of them as one more, the largest n counts. The
   more there are, the nearer one of them comes to strangers, too: of several, 0 is where the largest n of the
   nearest strangers lies, so that one floor keeps as silent about all entities. The lead of a look-alike
   (negative exemplar) that fits better than they do is taken away twice. Of an entity that stands for a
   category n is another one, see `category`.
3. Over the crops of a track a high quantile counts: one lucky crop does not make a track, a bad crop or two
   do not lose it. What could be a picture of what was denied is worth nothing: see `scoring.denied_values`.
4. Logistic calibration turns n into a score in [0, 1]: as often as it says, what was fitted on was right.
5. Bands: at or above `high` accepted, below `low` rejected, between them uncertain. A track is accepted only
   if it is also near the best track of its entity: with the thing itself in the library, what merely
   resembles it stands back. What an example that is cut from a track itself makes of it does not count for
   the others: see `scoring.Scored.unaided`. A category has many members: each track of it stands alone.
6. Within a video, nearer still to its best track; and what continues an accepted track in time and place is
   accepted with it. The score of what stays uncertain falls with its distance from the best: see `kinship`.

Steps 1 to 5 are monotone in s: a bound on the score bounds s for each exemplar, see `least_similarity`.
Step 6 accepts nothing that step 5 rejects, so what lies below the bound of `low` need not be looked at, and
raises no score but that of what it accepts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN

COHORT_NEIGHBOURS = 3
"""Of 768 in the shipped cohort; with more, a floor that silences strangers silences more of what is there."""

POOL_QUANTILE = 0.85

RIVAL_WEIGHT = 2.0
"""How often a look-alike's lead is taken away. Punishing closeness without a lead loses the thing itself."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What turns normalised similarity at one exit into a score and a band.

    Attributes:
        centre, slope: score = 1 / (1 + exp(-slope * (n - centre))).
        low, high: the band's borders on the score: below `low` rejected, from `high` accepted.
        near_best: a track is accepted only if n >= near_best * (n of the entity's best track).
        near_in_video: and from so much of the best track in its scene on; 0 for no such rule. A video that
            has no cuts is one shot, and files of one camera and day may be one scene.
        carried: from so much of it on, what continues an accepted track is accepted with it.
        fade: an uncertain track's lead over `low` shrinks by (its n / n of the best track) to this power.
        beside: and, in a scene that shows the entity, by this share.
        near_on_site: a scene's best track counts for its scene only if it comes to so much of the best one of
            its site, which counts otherwise; 1 where that always does.
    """

    centre: float
    slope: float
    low: float
    high: float
    near_best: float
    near_in_video: float = 0.0
    carried: float = 1.0
    fade: float = 0.0
    beside: float = 1.0
    near_on_site: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"a band needs 0 <= low <= high <= 1, got low {self.low} and high {self.high}")
        if self.slope <= 0:
            raise ValueError(f"slope is positive, got {self.slope}")
        if not 0 <= self.fade < np.inf:
            raise ValueError(f"fade is a power from 0 on, got {self.fade}")
        for name in ("near_best", "near_in_video", "near_on_site", "carried", "beside"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share between 0 and 1, got {getattr(self, name)}")

    def score(self, normalised: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scores in [0, 1] of normalised similarities, any shape."""
        return _logistic(self.slope * (np.asarray(normalised, np.float64) - self.centre))

    def normalised(self, score: float) -> float:
        """The normalised similarity that has a score: the inverse of `score`."""
        return float(self.values(np.array(score)))

    def values(self, score: NDArray[np.floating]) -> NDArray[np.float64]:
        """The normalised similarities that have these scores, any shape."""
        return np.asarray(self.centre + _logits(score) / self.slope)

    def widened(self, slack: float) -> Calibration:
        """The same with the uncertain band wider on both sides: by `slack` of score at a score of 0.5.

        The borders move along the logistic curve, so that no slack makes acceptance or rejection impossible.
        """

        def moved(border: float, logits: float) -> float:
            return float(_logistic(_logits(np.array(border)) + logits))

        low = moved(self.low, -4 * slack) if self.low > 0 else 0.0
        high = moved(self.high, 4 * slack) if self.high < 1 else 1.0
        return replace(self, low=low, high=high)

    def alone(self) -> Calibration:
        """The same without the rules between tracks: each is decided by its own value."""
        return replace(self, near_best=0.0, near_in_video=0.0)

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def _logistic(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.clip(np.asarray(logits, np.float64), -60, 60))))


def _logits(score: NDArray[np.floating]) -> NDArray[np.float64]:
    clipped = np.clip(np.asarray(score, np.float64), 1e-12, 1 - 1e-12)
    return np.asarray(np.log(clipped / (1 - clipped)))


def cohort_level(exemplars: NDArray[np.float32], cohort: NDArray[np.float32]) -> NDArray[np.float32]:
    """r (M,) of exemplars (M, dim): how alike strangers get in a cohort (N, dim); 0 without one."""
    if not len(cohort) or not len(exemplars):
        return np.zeros(len(exemplars), np.float32)
    similarity = exemplars @ cohort.T  # (M, N)
    count = min(COHORT_NEIGHBOURS, similarity.shape[1])
    top = np.partition(similarity, -count, axis=1)[:, -count:]
    # A cohort that holds the very picture would put r at 1 and divide by nothing.
    return np.minimum(top.mean(axis=1), 0.95).astype(np.float32)


def levels_together(exemplars: NDArray[np.float32], cohort: NDArray[np.float32]) -> NDArray[np.float32]:
    """Levels (M,) of the exemplars (M, dim) of one entity, of which the largest n counts.

    Raised from those of `cohort_level` until the largest n of the COHORT_NEIGHBOURS nearest strangers is 0 in
    the mean, as it is for a single exemplar.
    """
    level = cohort_level(exemplars, cohort)
    if len(exemplars) < 2 or not len(cohort):
        return level
    largest = normalise(exemplars @ cohort.T, level).max(axis=0)  # (N,)
    count = min(COHORT_NEIGHBOURS, len(largest))
    excess = float(np.partition(largest, -count)[-count:].mean())
    # n = (s - r) / (1 - r) less the excess, by what is left of it: the same form with another r.
    return np.minimum(level + np.float32(excess) * (1 - level), 0.95).astype(np.float32)


def normalise(similarity: NDArray[np.float32], level: NDArray[np.float32]) -> NDArray[np.float32]:
    """n = 1 - (1 - s) / (1 - r) for similarities (M, N) and cohort levels (M,)."""
    gain = np.asarray(1 / (1 - level), np.float32)[:, None]
    # A product, and a sum in its place: the quotient takes ten times as long.
    out = similarity * gain
    out += 1 - gain
    return np.asarray(out, np.float32)


def least_similarity(normalised: float, level: NDArray[np.float32]) -> NDArray[np.float32]:
    """The similarity (M,) below which no crop can reach a normalised value with any of M exemplars."""
    return np.asarray(1 - (1 - normalised) * (1 - level), np.float32)


def crop_scores(positive: NDArray[np.float32], negative: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normalised similarity (N,) of each crop to an entity.

    Args:
        positive: (P, N) normalised similarities to the exemplars.
        negative: (Q, N) to the look-alikes; Q may be 0.
    """
    best = positive.max(axis=0)
    if len(negative):
        best = best - RIVAL_WEIGHT * np.maximum(negative.max(axis=0) - best, 0)
    return np.asarray(best, np.float32)


def pool(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The POOL_QUANTILE of each track's crops: (T, C) with -inf where a track has fewer than C -> (T,).

    Linear between order statistics, as numpy.quantile does.
    """
    ordered = np.sort(values, axis=1)  # ascending: the missing ones first
    count = np.isfinite(values).sum(axis=1)
    first = values.shape[1] - count
    position = (count - 1) * POOL_QUANTILE
    below = np.floor(position).astype(np.intp)
    above = np.minimum(below + 1, count - 1)
    share = (position - below).astype(np.float32)
    rows = np.arange(len(values))
    return np.asarray(ordered[rows, first + below] * (1 - share) + ordered[rows, first + above] * share)


def bands(
    normalised: NDArray[np.float32], calibration: Calibration, best: float | None = None
) -> NDArray[np.uint8]:
    """The band (T,) of every track of one entity.

    Args:
        normalised: (T,) pooled values.
        calibration: of the exit they were taken at.
        best: the entity's best track, where it is not the largest of `normalised`.
    """
    score = calibration.score(normalised)
    out = np.full(len(normalised), UNCERTAIN, np.uint8)
    out[score >= calibration.high] = ACCEPTED
    out[score < calibration.low] = REJECTED
    if len(normalised):
        top = float(normalised.max()) if best is None else best
        far = (out == ACCEPTED) & (normalised < calibration.near_best * max(top, 0.0))
        out[far] = UNCERTAIN
    return out
