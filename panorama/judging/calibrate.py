"""A library's own tracks come in as pairs of same and stranger; a calibration for every exit goes out.

No labels are needed, see `own_pairs`. A query is not decided by the typical stranger but by the best one in
the whole library, so the bands follow from the distribution of each example's best stranger.

About as many examples as are known to recur have themselves as best stranger, unnoticed. If these alone
exceed the share that may err, they would set the threshold in place of strangers. Then the previous bands
stay; they also stay if new ones would lose most of what the model's bands accept for the registered entities:
the verdict on a measurement must not depend on what was calibrated before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.album.examples import embed_examples
from panorama.answering.calibration import (
    SETTING,
    check_calibration,
    has_bands,
    measured_with,
    rules_for,
    write_calibration,
)
from panorama.arguments import checked
from panorama.commands import command
from panorama.errors import LibraryWriteError, ModelError, UsageError
from panorama.judging.own_pairs import LEAST_EXAMPLES, OwnCrops, Pairs, examples_of, pairs_of
from panorama.lines import counted
from panorama.query.matching.decide import Calibration
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, MatchRequest
from panorama.query.matching.promises import CONFIDENCE, LEAST_STEP, Evidence, segments_in, supported
from panorama.query.matching.promises import SETTING as EVIDENCE

if TYPE_CHECKING:
    from panorama.library import Library

PRECISION = 0.95
ROUNDING = 1e-9
"""Tolerance for rounding errors in a product of shares and counts that should be an integer."""

KEPT_AT_LEAST = 0.5
"""New bands are refused if they accept less than this share of what the model's accept for the entities, or
with slack less than this share of the own tracks that they accept without."""


@dataclass(frozen=True, slots=True)
class ExitReport:
    """What the bands of one exit follow from.

    Attributes:
        exit: number of the exit, from 1.
        calibration: its new calibration.
        border: normalised similarity from which a track is accepted; None at an exit that only passes crops
            on.
        examples: number of crops that served as examples.
        recurring: how many of them probably show a thing that is also in other videos.
        same, stranger: medians of the normalised similarity of sure pairs and of best strangers. `stranger`
            is None if no stranger is known: every example recurs, or nothing else is visible beside it.
        accepted: share of the sure pairs that reach the border.
        false_accepted: share of the best strangers that reach it; None if none is known.
        evidence: all measured values, for WITH PRECISION and WITH RECALL.
        doubts: reasons against these bands: that no border for this target follows from the measurement, or
            that no example's own track reaches it, or that slack loses most of those.
        warnings: remarks: that there are too few examples for the target, or that slack misses it.
    """

    exit: int
    calibration: Calibration
    border: float | None
    examples: int
    recurring: int
    same: float
    stranger: float | None
    accepted: float
    false_accepted: float | None
    evidence: Evidence = field(repr=False)  # thousands of numbers, which a notebook would print
    doubts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EntityChange:
    """Tracks accepted for a registered entity: `before` by the previous bands, `after` by the new ones."""

    entity: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What a library's own tracks say, and whether the library keeps it.

    Attributes:
        exits: the measurements with the resulting bands, shallowest exit first.
        changes: the effect on each registered entity; empty if there were no bands before.
        doubts: reasons against the new bands; empty if there are none.
        taken: whether the library keeps the new bands; if not, the previous ones stay.
    """

    exits: tuple[ExitReport, ...]
    changes: tuple[EntityChange, ...]
    doubts: tuple[str, ...]
    taken: bool


@checked
def calibrate(
    library: Library,
    precision: float = PRECISION,
    slack: float = 0.0,
    recall: float | None = None,
    anyway: bool = False,
    out: str | Path | None = None,
) -> Calibrated:
    """Set the bands of every exit from the library's own tracks, and keep them in the library.

    The library always keeps the measurement, for WITH PRECISION and WITH RECALL. It keeps the new bands if
    nothing speaks against them, or if there were none before.

    Args:
        precision: target: among entities that do not occur in a library like this one, the share for which
            nothing at all is accepted.
        slack: widens the uncertain band on both sides, in units of score.
        recall: target in place of `precision`: the share of examples by which their own track is accepted.
        anyway: keep the bands, whatever speaks against them.
        out: a file to write the bands to, in the form that models ship, if the library keeps them. If it
            cannot be written, the library stays as it was.

    Raises:
        UsageError: a target is out of range, two targets are given, there are too few tracks to learn from,
            or the file is not one for a calibration.
        ModelError: the model ships with a malformed calibration.
        LibraryWriteError: the library or the file cannot be written.
    """
    _check_aims(precision, slack, recall)
    if out is not None:
        check_calibration(Path(out), library.videos().column("uri").to_pylist())
    library.check_writable()  # now, not after the measuring
    rules = rules_for(library.embedder)
    crops = OwnCrops.read(library)
    examples = examples_of(crops)
    if len(examples) < LEAST_EXAMPLES:
        raise UsageError(
            f"only {len(examples)} tracks are long enough to learn from; at least {LEAST_EXAMPLES} are "
            "needed: index more footage, or keep the calibration that ships with the model"
        )
    pictures = [library.crop(int(crop_id)) for crop_id in crops.crop_ids[examples]]
    views = embed_examples(pictures, library.embedder)  # (exits, E, V, dim)
    exits = []
    for exit, rule in enumerate(rules, start=1):
        vectors = library.vectors_of(crops.crop_ids, exit)
        cohort = library.embedder.cohorts()[exit - 1]
        pairs = pairs_of(crops, vectors, examples, views[exit - 1], cohort)
        if recall is None:
            _check_strangers(pairs)
        exits.append(_report(exit, pairs, rule, precision, slack, recall))
    instead = has_bands(library.embedder, library.snapshot().settings)
    changes, losses = _changes(library, [r.calibration for r in exits]) if instead else ((), ())
    doubts = (*dict.fromkeys(line for r in exits for line in r.doubts), *losses)
    taken = anyway or not instead or not doubts
    measured = measured_with(library.embedder)
    found = {EVIDENCE + measured: [r.evidence.as_dict() for r in exits]}
    if taken:
        found[SETTING + measured] = [r.calibration.as_dict() for r in exits]
    if taken and out is not None:
        _write_first(Path(out), [r.calibration for r in exits])
    library.change_settings(lambda kept: found)
    return Calibrated(tuple(exits), changes, doubts, taken)


def _write_first(out: Path, calibrations: Sequence[Calibration]) -> None:
    """Write the file before the library takes the bands, so that an error means that nothing has changed."""
    try:
        write_calibration(out, calibrations)
    except LibraryWriteError as exc:
        raise LibraryWriteError(f"{exc}; the bands of the library are unchanged. Name another file") from exc


def _check_aims(precision: float, slack: float, recall: float | None) -> None:
    """Refuse impossible targets; see `calibrate`."""
    if recall is not None and precision != PRECISION:
        raise UsageError(
            f"give one target, a precision or a recall, got precision={precision:g} and recall={recall:g}"
        )
    for name, aim in (("precision", precision), ("recall", recall)):
        if aim is not None and not 0.5 <= aim < 1:
            meant = f"; {aim:g} % is written {aim / 100:g}" if 50 <= aim < 100 else ""
            raise UsageError(f"a target {name} is between 0.5 and 1, got {aim}{meant}")
    if not 0 <= slack <= 0.5:
        raise UsageError(f"slack is between 0 and 0.5, got {slack}")


def _check_strangers(pairs: Pairs) -> None:
    """Refuse to aim at a precision where there is nothing to measure it by; see `calibrate`."""
    if not len(pairs.stranger) and not pairs.recurring:
        raise UsageError(
            "a precision is measured by strangers, but no two tracks are certain to show different things;"
            f" index more footage, or aim at a recall: {command('calibrate', '--recall', '0.9')}"
        )


def _changes(
    library: Library, calibrations: Sequence[Calibration]
) -> tuple[tuple[EntityChange, ...], tuple[str, ...]]:
    """Tracks accepted for each registered entity, now and with other calibrations; and the line of `_losses`.

    What would be lost is lost from what the model's bands accept, if it ships with any.
    """
    now = library.matcher()
    before, after = _accepted(now), _accepted(_like(now, calibrations))
    changes = tuple(EntityChange(name, count, after[name]) for name, count in before.items())
    whose, usual = "the bands so far", before
    if has_bands(library.embedder, {}):
        whose, shipped = "the model's bands", rules_for(library.embedder)
        usual = before if shipped == now.calibrations else _accepted(_like(now, shipped))
    return changes, _losses(whose, sum(usual.values()), sum(after.values()))


def _like(matcher: AlbumMatcher, calibrations: Sequence[Calibration]) -> AlbumMatcher:
    return AlbumMatcher(matcher.source, matcher.embedder, calibrations, threads=matcher.threads)


def _accepted(matcher: AlbumMatcher) -> dict[str, int]:
    """Number of accepted tracks of each registered entity."""
    found = matcher.match(MatchRequest())
    counts = np.bincount(found.entity_index[found.band == ACCEPTED], minlength=len(found.entities))
    return dict(zip(found.entities, counts.tolist(), strict=True))


def _losses(whose: str, accepted: int, left: int) -> tuple[str, ...]:
    """A line if most of the tracks that some bands accept for the registered entities would be lost."""
    if left >= KEPT_AT_LEAST * accepted:
        return ()
    return (
        f"of the {counted(accepted, 'track')} that {whose} accept for registered entities, {left} would be"
        " left: the examples look less like them than this library's own tracks look like each other",
    )


def _report(
    exit: int, pairs: Pairs, rules: Calibration, precision: float, slack: float, recall: float | None
) -> ExitReport:
    """The bands of one exit; see `calibrate` and `fit`."""
    fitted = fit(pairs.same, pairs.stranger, precision, rules, recall, pairs.recurring)
    calibration = fitted.widened(slack)
    decides = calibration.high < 1
    # For an exit that only passes crops on, report the shares at the score of 0.5.
    threshold = calibration.normalised(calibration.high) if decides else calibration.centre
    known = len(pairs.stranger) > 0
    accepted = float((pairs.same >= threshold).mean())
    doubts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    if decides:
        drowned = _drowned(pairs, precision) if recall is None else ()
        doubts = (*drowned, *_silenced(pairs, fitted.centre, threshold, slack))
        unsupported = () if doubts else _unsupported(pairs, precision, recall)
        warnings = (*unsupported, *_missed(accepted, recall, slack))
    return ExitReport(
        exit,
        calibration,
        threshold if decides else None,
        len(pairs.same),
        pairs.recurring,
        float(np.median(pairs.same)),
        float(np.median(pairs.stranger)) if known else None,
        accepted,
        float((pairs.stranger >= threshold).mean()) if known else None,
        Evidence(
            tuple(pairs.same.tolist()),
            tuple(pairs.stranger.tolist()),
            len(pairs.crop_ids),
            segments_in(pairs.crop_ids),
        ),
        doubts,
        warnings,
    )


def _drowned(pairs: Pairs, precision: float) -> tuple[str, ...]:
    """A line if recurring things, not strangers, would set the border for a precision."""
    share = pairs.recurring / max(len(pairs.stranger), 1)
    most = math.floor(1000 * (1 - share) + ROUNDING) / 1000
    if precision <= most:
        return ()
    reach = f"a precision of {most:g} at most" if most >= 0.5 else "no precision"
    return (
        f"{pairs.recurring} of {counted(len(pairs.same), 'example')} are seen again in other videos, and"
        " probably about as many more without being recognised, which then count as strangers: this library"
        f" can show {reach}, but the target was {precision:g}",
    )


def _silenced(pairs: Pairs, meant: float, border: float, slack: float) -> tuple[str, ...]:
    """A line if no example's own track would be accepted, or if slack loses most of those that would.

    Args:
        meant, border: the border of the target, and where slack has moved it.
    """
    before, after = (int((pairs.same >= value).sum()) for value in (meant, border))
    if not before:
        return (f"no example's own track reaches the border of {border:.3f}: hardly any would be accepted",)
    if after and after >= KEPT_AT_LEAST * before:
        return ()
    return (
        f"the slack of {slack:g} moves the border from {meant:.3f} to {border:.3f}, which {after} of"
        f" {counted(len(pairs.same), 'example')} reach with their own track, instead of {before}; choose a"
        " smaller slack",
    )


def _missed(accepted: float, recall: float | None, slack: float) -> tuple[str, ...]:
    """A line if slack takes back what the target of a recall has given."""
    if recall is None or accepted >= recall - ROUNDING:
        return ()
    return (
        f"the target was a recall of {recall:g}, but with a slack of {slack:g} only {accepted:.3f} of the own"
        " tracks are accepted, and others stay uncertain; choose a smaller slack, or a higher recall",
    )


def _unsupported(pairs: Pairs, precision: float, recall: float | None) -> tuple[str, ...]:
    """A line if there are too few examples to support the target."""
    name, aim, examples = ("precision", precision, len(pairs.stranger))
    if recall is not None:
        name, aim, examples = ("recall", recall, len(pairs.same))
    most = supported(examples)
    if aim <= most:
        return ()
    return (
        f"the target was a {name} of {aim:g}, but {counted(examples, 'example')} of this library support at "
        f"most {most:g}, with {CONFIDENCE:.0%} confidence: the target may well be missed. Index more footage "
        "and calibrate again, or choose a lower target",
    )


@checked
def reset_calibration(library: Library) -> None:
    """Return to the calibration that the library's model ships with, and forget the measurements.

    Raises:
        ModelError: the model ships with no calibration, so queries would be impossible, or with a malformed
            one.
    """
    if not has_bands(library.embedder, {}):
        raise ModelError(
            f"{library.embedder.name} ships with no calibration to go back to; the library keeps its own."
            f" {command('calibrate')} measures it again"
        )
    own = tuple(kind + library.embedder.hash for kind in (SETTING, EVIDENCE))
    library.change_settings(lambda kept: {key: None for key in kept if key.startswith(own)})


def fit(
    same: NDArray[np.float32],
    stranger: NDArray[np.float32],
    precision: float,
    rules: Calibration,
    recall: float | None = None,
    doubtful: int = 0,
) -> Calibration:
    """Bands from sure pairs and best strangers.

    The score is a logistic curve with 0.5 at the border of acceptance. For a precision, the border is the
    value that at most a share 1 - precision of the best strangers reaches; for a recall, the value that at
    least this share of the sure pairs reaches. Tracks below the median of the best strangers are rejected.

    Args:
        same: (E,) normalised similarities of sure pairs.
        stranger: (N,) of best strangers; may be empty.
        rules: the exit's previous calibration, see `rules_for`. Pairs of single tracks say nothing about how
            tracks compare with each other, so its rules about that stay; and an exit that accepts nothing
            still accepts nothing.
        doubtful: how many of the best strangers may not be strangers; they do not count for the rejection
            threshold.
    """
    if recall is not None:
        border = float(np.quantile(same, 1 - recall, method="lower"))
    elif len(stranger):
        may_err = math.floor((1 - precision) * len(stranger) + ROUNDING)
        border = float(np.sort(stranger)[::-1][may_err]) + LEAST_STEP
    else:
        # All better fits counted as the same thing, so there is no known stranger above the median.
        border = float(np.median(same))
    # Values below 0 are less alike than the cohort's strangers: never a reason to accept.
    high = max(border, 0.0)
    surely = np.sort(stranger)[: max(len(stranger) - doubtful, 0)]
    low = min(float(np.median(surely)) if len(surely) else 0.0, high)
    # The tighter the two distributions, the steeper the curve: their mean spread is one logit.
    spread = max(sum(float(np.std(some)) for some in (stranger, same) if len(some)), 0.02) / 2
    curve = replace(rules, centre=high, slope=1 / spread, low=0.0, high=1.0)
    borders = curve.score(np.array([low, high]))
    return replace(curve, low=float(borders[0]), high=1.0 if rules.high >= 1 else float(borders[1]))
