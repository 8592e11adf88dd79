"""A requested accuracy and the evidence of `calibrate` come in; bands that keep it go out, or a refusal.

Calibration compares crops of one track with each other (`same`) and with the most similar track among all
others of the library (`stranger`). From these values follows a threshold for any accuracy: with 95 %
confidence, at most the allowed share of such strangers reaches it, or of such sure pairs falls below it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command, command_of
from panorama.errors import AccuracyError
from panorama.lines import counted
from panorama.query.matching.decide import Calibration
from panorama.query.shorthands.terms import Contract
from panorama.store.files.schema import segment_of

SETTING = "evidence:"
"""Key of the evidence for a library's calibration, followed by what it was measured with."""

CONFIDENCE = 0.95
LEAST_STEP = 1e-5
"""Resolution of the stored evidence."""

GROWTH = 1.25
"""Growth of the library beyond which a promise expires: the best of more strangers is a better stranger."""

MOST_FOREIGN = 0.25
"""Share of the library's crops, of videos that were not measured, beyond which a promise expires."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one exit's calibration was measured on.

    Attributes:
        same: normalised similarities of sure pairs, one per example; stranger: of each example's best
            stranger.
        crops: number of crops in the library.
        segments: half-open ranges of those that these crops are of, ascending; None if that was not kept, as
            in older libraries. Ranges stay few where the videos are many.
    """

    same: tuple[float, ...]
    stranger: tuple[float, ...]
    crops: int
    segments: tuple[tuple[int, int], ...] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For a setting; five digits are more than the measurement has."""
        rounded = {name: [round(v, 5) for v in getattr(self, name)] for name in ("same", "stranger")}
        return {**rounded, "crops": self.crops, "segments": self.segments}

    def foreign(self, crop_ids: NDArray[np.int64]) -> int:
        """How many of the crops (N,) are of segments that were not measured; 0 if that is not known."""
        if self.segments is None:
            return 0
        first, stop = np.array(self.segments, np.int64).reshape(-1, 2).T
        segments = segment_of(crop_ids)
        # A range holds a segment if more ranges have begun than ended there.
        measured = np.searchsorted(first, segments, "right") > np.searchsorted(stop, segments, "right")
        return int((~measured).sum())


def evidence_for(measured_with: str, settings: Mapping[str, Any]) -> tuple[Evidence, ...]:
    """The evidence of the library's own calibration, by exit; empty if it has none."""
    rows = settings.get(SETTING + measured_with) or []
    return tuple(
        Evidence(tuple(r["same"]), tuple(r["stranger"]), int(r["crops"]), _segments(r.get("segments")))
        for r in rows
    )


def _segments(kept: Sequence[Sequence[int]] | None) -> tuple[tuple[int, int], ...] | None:
    return None if kept is None else tuple((int(first), int(stop)) for first, stop in kept)


def segments_in(ids: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of the segments of track or crop ids (N,), ascending; at least one id."""
    found = np.unique(segment_of(ids)).astype(np.int64)
    gaps = np.flatnonzero(np.diff(found) > 1)
    first, last = found[np.append(0, gaps + 1)], found[np.append(gaps, len(found) - 1)]
    return tuple(zip(first.tolist(), (last + 1).tolist(), strict=True))


def promised(
    contract: Contract,
    calibrations: Sequence[Calibration],
    evidence: Sequence[Evidence],
    first_exit: int,
    crop_ids: NDArray[np.int64],
) -> tuple[Calibration, ...]:
    """The calibrations with thresholds that keep a contract.

    Args:
        evidence: by exit.
        first_exit: the exit at which matching begins; it and the deeper ones share the allowed errors.
        crop_ids: (N,) of all crops in the library now.

    Raises:
        AccuracyError: the evidence does not support the contract.
    """
    if len(evidence) != len(calibrations):
        raise AccuracyError(
            f"{contract} cannot be promised: the calibration that ships with the model was measured on other"
            f" footage. Run {command('calibrate')} to measure on this library"
        )
    _check_measured(contract, evidence, crop_ids)
    exits = range(first_exit, len(calibrations) + 1)
    allowed = (1 - contract.at_least) / len(exits)
    kept = list(calibrations)
    for exit in exits:
        one, calibration = evidence[exit - 1], calibrations[exit - 1]
        if contract.kind == "precision":
            border = _border(np.array(one.stranger), allowed, contract, len(exits))
            high = float(calibration.score(np.array(max(border + LEAST_STEP, 0.0))))
            kept[exit - 1] = replace(calibration, low=min(calibration.low, high), high=high)
        else:
            border = _border(np.array(one.same), allowed, contract, len(exits))
            low = float(calibration.score(np.array(border)))
            last = exit == len(calibrations)
            high = low if last else max(low, calibration.high)
            # Rules that compare tracks with each other would lose some that the recall promises.
            kept[exit - 1] = replace(calibration.alone(), low=low, high=high)
    return tuple(kept)


def _check_measured(contract: Contract, evidence: Sequence[Evidence], crop_ids: NDArray[np.int64]) -> None:
    """Refuse a promise if the library is no longer the one that was measured; see `promised`."""
    now, measured_on = len(crop_ids), min(one.crops for one in evidence)
    again = f"Run {command('calibrate')} again"
    if now > GROWTH * measured_on:
        raise AccuracyError(
            f"{contract} cannot be promised: the library was calibrated with {measured_on} crops and holds"
            f" {now} now. {again}"
        )
    foreign = evidence[0].foreign(crop_ids)  # all exits are measured together
    if foreign > MOST_FOREIGN * now:
        raise AccuracyError(
            f"{contract} cannot be promised: {foreign} of the {counted(now, 'crop')} in the library are from"
            f" videos that were indexed after it was calibrated. {again}"
        )


def no_category(contract: Contract, name: str) -> AccuracyError:
    """The refusal for a category: how similar its members are was not measured."""
    return AccuracyError(
        f"{contract} cannot be promised: {name!r} is a category, but a library is calibrated on pictures of"
        " one thing each. Ask for it without the promise"
    )


def nothing_found(
    contract: Contract, name: str, best: Mapping[int, float], kept: Sequence[Calibration]
) -> AccuracyError:
    """The refusal of a recall if no track of the library is accepted.

    An empty answer would claim that most of the thing was found. But either it is not in the library, or its
    examples look less like it than crops of one track look like each other, which is all that was measured.

    Args:
        best: the value of the entity's best track, by exit.
        kept: the calibrations from `promised`.
    """
    told = "no track comes near it"
    if best:
        exit = max(best)
        last = kept[exit - 1]
        border = last.high if exit == len(kept) else last.low
        scores = last.score(np.array([best[exit], last.normalised(border)]))
        # Tracks of the thing may have dropped out at an earlier exit, where the promise may lose some, too.
        which = "its best track" if len(best) == 1 else f"the best of the tracks that reached exit {exit}"
        told = f"{which} scores {scores[0]:.3f}, and the promise needs {scores[1]:.3f}"
    example = command_of("register", name, "--video FILE --at SECONDS --box x1,y1,x2,y2")
    return AccuracyError(
        f"{contract} cannot be promised of {name!r}: {told} for things that look as this library's own tracks"
        " do. Either it is not in the library, or its examples look unlike it there. Add an example from a"
        f" video of this library ({example}), or leave out the promise"
    )


def only_pointed_at(contract: Contract, name: str) -> AccuracyError:
    """The refusal of a recall if the only accepted tracks are those that examples were cut from."""
    example = command_of("register", name, "--video FILE --at SECONDS --box x1,y1,x2,y2")
    return AccuracyError(
        f"{contract} cannot be promised of {name!r}: the only accepted tracks are those that its examples"
        " were cut from, and no example finds another one, which would tell how the rest is found. Add an"
        f" example from another of its tracks ({example}), or leave out the promise"
    )


def account(contract: Contract, kept: Sequence[Calibration], evidence: Sequence[Evidence]) -> str:
    """What was applied, for people."""
    is_recall = contract.kind == "recall"
    examples = min(len(one.same if is_recall else one.stranger) for one in evidence)
    alone = "; scores are those of each track by itself, without comparison with other tracks"
    return (
        f"{contract}: accepted from a score of {kept[-1].high:.2f}, by {examples} examples among this"
        f" library's own tracks, with {CONFIDENCE:.0%} confidence for things that look as they do"
        f"{alone if is_recall else ''}"
    )


def allowed_errors(examples: int, share: float) -> int:
    """How many of `examples` may err so that the true share of errors is at most `share`, with CONFIDENCE.

    -1 if even no error would be too little evidence. (Clopper and Pearson's one-sided bound.)
    """
    if not 0 < share < 1:
        return -1
    total, errors = 0.0, -1
    for k in range(examples + 1):
        logarithm = (
            math.lgamma(examples + 1) - math.lgamma(k + 1) - math.lgamma(examples - k + 1)
            + k * math.log(share) + (examples - k) * math.log1p(-share)
        )  # fmt: skip
        total += math.exp(logarithm)
        if total > 1 - CONFIDENCE:
            return errors
        errors = k
    return errors


def supported(examples: int, exits: int = 1) -> float:
    """The highest accuracy that this many examples can promise, if none errs; exits share the errors."""
    if not examples:
        return 0.0
    most = 1 - exits * (1 - (1 - CONFIDENCE) ** (1 / examples))
    return math.floor(max(most, 0) * 1000) / 1000


def _border(values: NDArray[np.float64], allowed: float, contract: Contract, exits: int) -> float:
    """The threshold, coming from the side of the errors, up to which few enough examples err.

    Args:
        values: (N,), in any order.

    Raises:
        AccuracyError: there are too few examples.
    """
    from_above = contract.kind == "precision"
    ordered = np.sort(values)[::-1] if from_above else np.sort(values)
    errors = allowed_errors(len(ordered), allowed)
    if errors < 0:
        told = counted(len(ordered), "example of this library supports", "examples of this library support")
        raise AccuracyError(
            f"{contract} cannot be promised: {told} at most"
            f" {supported(len(ordered), exits):g}. Index more footage and calibrate again"
        )
    return float(ordered[min(errors, len(ordered) - 1)])
