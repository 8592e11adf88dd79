"""A library's own tracks come in as pairs of same and stranger; a calibration for every exit goes out.

No labels are needed. A track shows one thing. One of its crops serves as the example, with the same views as
a registered image; the crops of the track that are at least a second away from it should be accepted.
Strangers are the tracks of other videos or, in a library with a single video, tracks visible at the same time
elsewhere in the picture. A query is not decided by the typical stranger but by the best one in the whole
library, so the bands follow from the distribution of each example's best stranger.

The same person or car may appear in two videos, and then its best "stranger" is itself. If a stranger fits
better than half of the sure pairs do, the example counts as recurring: its true best stranger is unknown,
because whatever fits a little less is mostly the same thing again, in other light or in part. Recurring
examples are counted and say nothing about strangers. Half of the things that recur fit less well than that
and go unnoticed, so about as many further examples have themselves as best stranger. If these alone exceed
the share that may err, they would set the threshold in place of strangers. Then the previous bands stay; they
also stay if new ones would lose most of what is accepted for the registered entities.
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
from panorama.lines import counted
from panorama.query.matching.decide import POOL_QUANTILE, Calibration, levels_together, normalise, pool
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, MatchRequest
from panorama.query.matching.promises import CONFIDENCE, LEAST_STEP, Evidence, supported
from panorama.query.matching.promises import SETTING as EVIDENCE
from panorama.query.matching.scoring import SCAN_ROWS, TrackGroups, with_mean
from panorama.store.files.schema import segment_of

if TYPE_CHECKING:
    from panorama.library import Library

PRECISION = 0.95
MOST_EXAMPLES = 600
LEAST_EXAMPLES = 20
APART_SECONDS = 1.0
ROUNDING = 1e-9
"""Tolerance for rounding errors in a product of shares and counts that should be an integer."""

KEPT_AT_LEAST = 0.5
"""New bands are refused if they accept less than this share of the registered entities' accepted tracks."""

BLOCK = 32
"""Examples compared with all crops at a time, so that memory stays at a few rows for each of them."""

_CROPS = """
SELECT c.crop_id, c.track_id, c.time, c.quality, t.start_time, t.end_time, c.x1, c.y1, c.x2, c.y2
FROM crops c JOIN tracks t USING (track_id, video)
ORDER BY c.crop_id
"""


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
            is None if every example recurs.
        accepted: share of the sure pairs that reach the border.
        false_accepted: share of the best strangers that reach it; None if every example recurs.
        evidence: all measured values, for WITH PRECISION and WITH RECALL.
        doubts: reasons why no border for this target follows from the measurement.
        warnings: remarks: that there are too few examples for the target.
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


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Normalised similarities of examples to their own track and to their best stranger.

    Attributes:
        same: (E,); stranger: (E - recurring,), of the examples not known to recur.
        recurring: number of recurring examples. About as many of the strangers may be the example's own
            thing, fitting less well.
        crops: number of crops in the library.
    """

    same: NDArray[np.float32]
    stranger: NDArray[np.float32]
    recurring: int
    crops: int


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
    crops = _Crops.read(library)
    examples = _examples(crops)
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
        cohort = library.embedder.cohort()[exit - 1]
        pairs = _pairs(crops, vectors, examples, views[exit - 1], cohort)
        exits.append(_report(exit, pairs, rule, precision, slack, recall))
    instead = has_bands(library.embedder, library.snapshot().settings)
    changes = _changes(library, [r.calibration for r in exits]) if instead else ()
    doubts = (*dict.fromkeys(line for r in exits for line in r.doubts), *_losses(changes))
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


def _changes(library: Library, calibrations: Sequence[Calibration]) -> tuple[EntityChange, ...]:
    """Tracks accepted for each registered entity, now and with other calibrations."""
    now = library.matcher()
    before = _accepted(now)
    after = _accepted(AlbumMatcher(now.source, now.embedder, calibrations, threads=now.threads))
    return tuple(EntityChange(name, count, after[name]) for name, count in before.items())


def _accepted(matcher: AlbumMatcher) -> dict[str, int]:
    """Number of accepted tracks of each registered entity."""
    found = matcher.match(MatchRequest())
    counts = np.bincount(found.entity_index[found.band == ACCEPTED], minlength=len(found.entities))
    return dict(zip(found.entities, counts.tolist(), strict=True))


def _losses(changes: Sequence[EntityChange]) -> tuple[str, ...]:
    """A line if the registered entities would lose most of their accepted tracks."""
    before, after = sum(one.before for one in changes), sum(one.after for one in changes)
    if after >= KEPT_AT_LEAST * before:
        return ()
    return (
        f"of the {counted(before, 'track')} accepted for registered entities, {after} would be left: the"
        " examples look less like them than this library's own tracks look like each other",
    )


def _report(
    exit: int, pairs: _Pairs, rules: Calibration, precision: float, slack: float, recall: float | None
) -> ExitReport:
    """The bands of one exit; see `calibrate` and `fit`."""
    fitted = fit(pairs.same, pairs.stranger, precision, rules, recall, pairs.recurring)
    calibration = fitted.widened(slack)
    decides = calibration.high < 1
    # For an exit that only passes crops on, report the shares at the score of 0.5.
    threshold = calibration.normalised(calibration.high) if decides else calibration.centre
    known = len(pairs.stranger) > 0
    doubts = _drowned(pairs, precision) if decides and recall is None else ()
    return ExitReport(
        exit,
        calibration,
        threshold if decides else None,
        len(pairs.same),
        pairs.recurring,
        float(np.median(pairs.same)),
        float(np.median(pairs.stranger)) if known else None,
        float((pairs.same >= threshold).mean()),
        float((pairs.stranger >= threshold).mean()) if known else None,
        Evidence(tuple(pairs.same.tolist()), tuple(pairs.stranger.tolist()), pairs.crops),
        doubts,
        _unsupported(pairs, precision, recall) if decides and not doubts else (),
    )


def _drowned(pairs: _Pairs, precision: float) -> tuple[str, ...]:
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


def _unsupported(pairs: _Pairs, precision: float, recall: float | None) -> tuple[str, ...]:
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


@dataclass(frozen=True, slots=True)
class _Crops:
    """All crops of a library, ordered by crop id, with what separates same from stranger.

    All arrays are (N,), boxes (N, 4).
    """

    crop_ids: NDArray[np.int64]
    track_ids: NDArray[np.int64]
    times: NDArray[np.float64]
    quality: NDArray[np.float32]
    starts: NDArray[np.float64]
    ends: NDArray[np.float64]
    boxes_xyxy: NDArray[np.float32]
    groups: TrackGroups

    @classmethod
    def read(cls, library: Library) -> _Crops:
        columns = library.query(_CROPS).arrow()
        crop_ids = columns["crop_id"].to_numpy()
        # If a video was copied, its crops are listed under each name.
        crop_ids, once = np.unique(crop_ids, return_index=True)
        names = ("track_id", "time", "quality", "start_time", "end_time")
        track_ids, times, quality, starts, ends = (columns[name].to_numpy()[once] for name in names)
        boxes = np.stack([columns[side].to_numpy()[once] for side in ("x1", "y1", "x2", "y2")], axis=1)
        return cls(crop_ids, track_ids, times, quality, starts, ends, boxes, TrackGroups.of(track_ids))


def _pairs(
    crops: _Crops,
    vectors: NDArray[np.float32],
    examples: NDArray[np.intp],
    views: NDArray[np.float32],
    cohort: NDArray[np.float32],
) -> _Pairs:
    """The values that examples (E,), rows of the crops (N, dim), reach with their views (E, V, dim).

    Args:
        cohort: (M, dim) foreign vectors to normalise against.

    Raises:
        UsageError: no two tracks are certain to show different things.
    """
    same = [
        float(np.quantile(values_of(seen[None], vectors[_apart(crops, example)], cohort)[0], POOL_QUANTILE))
        for example, seen in zip(examples.tolist(), views, strict=True)
    ]
    limit = float(np.median(same))
    best, recurring = [], 0
    for start in range(0, len(examples), BLOCK):
        values = values_of(views[start : start + BLOCK], vectors, cohort)
        for row, example in zip(values, examples[start : start + BLOCK].tolist(), strict=True):
            foreign = _pooled_strangers(crops, row, example)
            nearest = float(foreign.max(initial=-np.inf))
            recurring += nearest >= limit
            best += [nearest] if -np.inf < nearest < limit else []
    if not best and not recurring:
        raise UsageError("no two tracks are certain to show different things; index more footage")
    return _Pairs(np.array(same, np.float32), np.array(best, np.float32), recurring, len(crops.track_ids))


def values_of(
    views: NDArray[np.float32], vectors: NDArray[np.float32], cohort: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Normalised similarity (E, N) of crops (N, dim) to examples of one image each (E, V, dim)."""
    each = [with_mean(seen) for seen in views]
    level = np.concatenate([levels_together(positive, cohort) for positive in each])
    positive = np.concatenate(each)
    out = np.empty((len(views), len(vectors)), np.float32)
    for start in range(0, len(vectors), SCAN_ROWS):
        near = normalise(positive @ vectors[start : start + SCAN_ROWS].T, level)
        out[:, start : start + SCAN_ROWS] = near.reshape(len(views), -1, near.shape[1]).max(axis=1)
    return out


def _apart(crops: _Crops, example: int) -> NDArray[np.intp]:
    """The crops of an example's own track that are far enough away from it in time."""
    rows = np.flatnonzero(crops.track_ids == crops.track_ids[example])
    return rows[np.abs(crops.times[rows] - crops.times[example]) >= APART_SECONDS]


def _pooled_strangers(crops: _Crops, values: NDArray[np.float32], example: int) -> NDArray[np.float32]:
    """Pooled values (T,) of the tracks that certainly show something other than the example."""
    groups = crops.groups
    foreign = segment_of(groups.track_ids) != segment_of(crops.track_ids[example])
    if not foreign.any():
        first = groups.slots[:, 0]
        beside = (crops.starts[first] < crops.ends[example]) & (crops.ends[first] > crops.starts[example])
        # Overlapping boxes may show one thing, whole and in part.
        own = crops.track_ids == crops.track_ids[example]
        low, high = crops.boxes_xyxy[own, :2].min(axis=0), crops.boxes_xyxy[own, 2:].max(axis=0)
        meets = (crops.boxes_xyxy[:, :2] < high).all(axis=1) & (crops.boxes_xyxy[:, 2:] > low).all(axis=1)
        foreign = beside & ~np.isin(groups.track_ids, crops.track_ids[meets])
    return pool(groups.spread(values, np.flatnonzero(foreign)))


def _examples(crops: _Crops) -> NDArray[np.intp]:
    """The best crops of tracks that a person could choose as examples, at most MOST_EXAMPLES.

    These are tracks with another crop far enough away in time, and of those the third with the best crops:
    nobody registers a blurred patch of lawn, which resembles every other one.
    """
    slots = crops.groups.slots
    there = slots >= 0
    times = np.where(there, crops.times[slots], np.nan)
    quality = np.where(there, crops.quality[slots], -np.inf)  # (T, C)
    best = slots[np.arange(len(slots)), quality.argmax(axis=1)]
    farthest = np.nanmax(np.abs(times - crops.times[best][:, None]), axis=1)
    found = best[farthest >= APART_SECONDS]
    if not len(found):
        return found
    ranked = found[np.argsort(-crops.quality[found], kind="stable")]
    count = min(max(len(found) // 3, LEAST_EXAMPLES), MOST_EXAMPLES)
    return np.sort(ranked[:count])
