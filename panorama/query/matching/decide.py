"""Similarities of exemplars and crops come in; scores in [0, 1] and bands of every track go out.

This is the decision rule, in the order of application (s is the inner product of two unit vectors):

1. Distance ratio against a cohort. r is the mean of an exemplar's 3 largest similarities to a cohort of
   foreign crops: how similar strangers get to it. n = 1 - (1 - s) / (1 - r) is 1 for the same picture, 0 for
   the nearest strangers and negative for all other strangers. It means the same for every exemplar.
2. Maximum over views. A crop gets the largest n over all views of the entity's exemplars and, if there are
   several, their mean. The more views there are, the closer one of them comes to strangers; so for several
   views the scale is shifted until the largest n of the nearest strangers is 0 again. One threshold then
   keeps equally silent about all entities. If a look-alike (negative exemplar) fits better than the views do,
   the crop loses twice the difference. For an entity that stands for a category, n is computed as in
   `category`.
3. Quantile over crops. A track gets a high quantile over its crops: one lucky crop does not make a match, and
   one or two bad crops do not lose it. A track that could be a picture of something denied counts as
   worthless, see `scoring.denied_values`.
4. Logistic calibration turns n into a score in [0, 1]: the share of such cases that were right in the data
   it was fitted on.
5. Bands: accepted from `high` on, rejected below `low`, uncertain between them. An accepted track must also
   come close to the best track of its entity: if the thing itself is in the library, mere resemblance is not
   enough. The best track is measured without examples cut from that track itself: see
   `scoring.Scored.unaided`. A category has many members, so each of its tracks is decided alone.
6. Scenes. Within a scene, an accepted track must come closer still to the scene's best track, which must
   stand out from tracks that look different (a distance ratio test, see `contesting`); and a track that
   continues an accepted one in time and place, or looks like one near in time and not like strangers beside
   it, is accepted with it. The score of a track that stays uncertain drops with its distance from the best
   one: see `kinship`.

Steps 1 to 5 are monotone in s, so a bound on the score is a bound on s for each exemplar, see
`least_similarity`. Step 6 accepts nothing that step 5 rejects, so tracks below the bound of `low` need not be
looked at; it raises only the scores of the tracks that it accepts.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Cohort
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN

COHORT_NEIGHBOURS = 3
"""Of 1,024 in the shipped cohort. With more, a threshold that silences strangers loses more true matches."""

POOL_QUANTILE = 0.85

RIVAL_WEIGHT = 2.0
"""Weight of a look-alike's lead. Penalising closeness without a lead would lose the thing itself."""

HIGHEST_BORDER = 0.99
"""Normalised similarity up to which slack moves the border of acceptance: only the same picture reaches 1."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Turns normalised similarity at one exit into a score and a band.

    Attributes:
        centre, slope: score = 1 / (1 + exp(-slope * (n - centre))).
        low, high: thresholds on the score: rejected below `low`, accepted from `high` on.
        near_best: a track is accepted only if n >= near_best * (n of the entity's best track).
        near_in_video: the same within a scene: a track needs this share of the scene's best track; 0 for no
            such rule. A video without cuts is one shot, and files of one camera and day may be one scene.
        carried: a track that continues an accepted one is accepted with it from this share of the scene's
            best on.
        alike: one that also looks more like it than like strangers beside it is accepted from this share on;
            1 for no such rule.
        fade: an uncertain track's lead over `low` shrinks by (its n / n of the best track) to this power.
        beside: it also shrinks by this factor if its scene shows the entity in another track.
        distance_ratio: the best track of a scene must be at most this times as far from the entity (1 - n) as
            one that looks different and was there at another time, see `contesting`; 1 for no such rule.
        near_on_site: the best track of a scene is the reference for its scene only if it reaches this share
            of the best one at its site; otherwise the site's best is. With 1, the site's best always is.
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
    alike: float = 1.0
    distance_ratio: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.high <= 1:
            raise ValueError(f"a band needs 0 <= low <= high <= 1, got low {self.low} and high {self.high}")
        if self.slope <= 0:
            raise ValueError(f"slope is positive, got {self.slope}")
        if not 0 <= self.fade < np.inf:
            raise ValueError(f"fade is a power from 0 on, got {self.fade}")
        for name in (
            "near_best",
            "near_in_video",
            "near_on_site",
            "carried",
            "alike",
            "beside",
            "distance_ratio",
        ):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share between 0 and 1, got {getattr(self, name)}")

    def score(self, normalised: NDArray[np.floating]) -> NDArray[np.float64]:
        """Scores in [0, 1] of normalised similarities of any shape."""
        return _logistic(self.slope * (np.asarray(normalised, np.float64) - self.centre))

    def normalised(self, score: float) -> float:
        """The normalised similarity that has this score: the inverse of `score`."""
        return float(self.values(np.array(score)))

    def values(self, score: NDArray[np.floating]) -> NDArray[np.float64]:
        """The normalised similarities that have these scores, any shape."""
        return np.asarray(self.centre + _logits(score) / self.slope)

    def widened(self, slack: float) -> Calibration:
        """The same with a wider uncertain band: by `slack` on both sides, measured at a score of 0.5.

        The thresholds move along the logistic curve, and that of acceptance no further than HIGHEST_BORDER:
        no slack makes acceptance or rejection impossible.
        """

        def moved(border: float, logits: float) -> float:
            return float(_logistic(_logits(np.array(border)) + logits))

        low = moved(self.low, -4 * slack) if self.low > 0 else 0.0
        most = float(self.score(np.array(HIGHEST_BORDER)))
        high = max(self.high, min(moved(self.high, 4 * slack), most)) if self.high < 1 else 1.0
        return replace(self, low=low, high=high)

    def alone(self) -> Calibration:
        """The same without the rules that compare tracks: each track is decided by its own value."""
        return replace(self, near_best=0.0, near_in_video=0.0)

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def _logistic(logits: NDArray[np.floating]) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-np.clip(np.asarray(logits, np.float64), -60, 60))))


def _logits(score: NDArray[np.floating]) -> NDArray[np.float64]:
    clipped = np.clip(np.asarray(score, np.float64), 1e-12, 1 - 1e-12)
    return np.asarray(np.log(clipped / (1 - clipped)))


def cohort_level(exemplars: NDArray[np.float32], cohort: Cohort) -> NDArray[np.float32]:
    """r (M,) of exemplars (M, dim): how similar strangers in a cohort get to each; 0 without one."""
    if not len(cohort) or not len(exemplars):
        return np.zeros(len(exemplars), np.float32)
    similarity = cohort.similarity(exemplars)  # (M, N)
    count = min(COHORT_NEIGHBOURS, similarity.shape[1])
    top = np.partition(similarity, -count, axis=1)[:, -count:]
    # If the cohort contains the picture itself, r would be 1 and `normalise` would divide by zero.
    return np.minimum(top.mean(axis=1), 0.95).astype(np.float32)


def levels_together(exemplars: NDArray[np.float32], cohort: Cohort) -> NDArray[np.float32]:
    """Levels (M,) of the exemplars (M, dim) of one entity, whose largest n counts.

    Raises the levels of `cohort_level` until the largest n of the COHORT_NEIGHBOURS nearest strangers has
    mean 0, as it has for a single exemplar.
    """
    level = cohort_level(exemplars, cohort)
    if len(exemplars) < 2 or not len(cohort):
        return level
    largest = normalise(cohort.similarity(exemplars), level).max(axis=0)  # (N,)
    count = min(COHORT_NEIGHBOURS, len(largest))
    excess = float(np.partition(largest, -count)[-count:].mean())
    # Subtract the excess from n = (s - r) / (1 - r) and rescale to 1: this has the same form with another r.
    return np.minimum(level + np.float32(excess) * (1 - level), 0.95).astype(np.float32)


def normalise(similarity: NDArray[np.float32], level: NDArray[np.float32]) -> NDArray[np.float32]:
    """n = 1 - (1 - s) / (1 - r) for similarities (M, N) and cohort levels (M,)."""
    gain = np.asarray(1 / (1 - level), np.float32)[:, None]
    # Multiply, then add in place: the division would take ten times as long.
    out = similarity * gain
    out += 1 - gain
    return np.asarray(out, np.float32)


def least_similarity(normalised: float, level: NDArray[np.float32]) -> NDArray[np.float32]:
    """The least similarity (M,) with which a crop reaches a normalised value, for each of M exemplars."""
    return np.asarray(1 - (1 - normalised) * (1 - level), np.float32)


def crop_scores(positive: NDArray[np.float32], negative: NDArray[np.float32]) -> NDArray[np.float32]:
    """Normalised similarity (N,) of each crop to an entity.

    Args:
        positive: (P, N) normalised similarities to the exemplars.
        negative: (Q, N) normalised similarities to the look-alikes; Q may be 0.
    """
    best = positive.max(axis=0)
    if len(negative):
        best = best - RIVAL_WEIGHT * np.maximum(negative.max(axis=0) - best, 0)
    return np.asarray(best, np.float32)


def pool(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The POOL_QUANTILE over the crops of each track: (T, C) -> (T,); -inf fills up to C crops.

    Linear between order statistics, like numpy.quantile.
    """
    ordered = np.sort(values, axis=1)  # ascending: missing crops come first
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
        calibration: of the exit at which they were computed.
        best: the value of the entity's best track; None for the largest of `normalised`.
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
