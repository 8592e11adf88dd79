"""Whether accepted tracks should be cut where their crops stop matching: the sample archive, judged by boxes.

    python data/render.py SAMPLE
    python tests/bench/trimming.py SAMPLE --work WORK

The archive is indexed at several rates, and its album registered with the look-alikes. An end of an accepted
track is a run of first or last crops that resemble the entity no more than strangers do (a normalised value
of 0 or less), beside a crop that clearly resembles it more. If the run is long enough, it is left out, up to
half-way to that crop. A sample shows the entity if its box overlaps the drawn one by 0.3, or shares half of
the smaller one; frames that the truth ignores do not count. F1 and AP are of frames, as in
`panorama evaluate`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from measure import sample_arguments, say, table
from numpy.typing import NDArray

import panorama
from panorama.indexing.settings import IngestSettings
from panorama.judging.evaluate import ENTITY_FRAMES, Frames, average_precision, read_truth
from panorama.library import Library
from panorama.query.matching.decide import crop_scores, normalise
from panorama.query.matching.scoring import Sought
from panorama.regions import iou, shared

RATES = (4.3, 4.5, 4.7, 5.0, 5.2, 5.4, 5.7, 6.0, 6.5)
STRANGERS = 0.0
BESIDE = 0.3
RUNS = (1, 2)
"""Crops that an end has at least, of the rules compared."""

Span = tuple[float, float]
RANKED = "SELECT frames WHERE entity = ? AND score >= 0"
CROPS = "SELECT crop_id, track_id, frame FROM crops ORDER BY track_id, crop_id"
SAMPLES = "SELECT track_id, video, frame, x1, y1, x2, y2 FROM detections ORDER BY track_id, frame"


@dataclass(slots=True)
class Counts:
    """Accepted tracks of all entities, and their samples.

    Attributes:
        tracks, mixed, cut: all; those that show the entity and, in two samples or more, not; those cut.
        right, wrong: samples that show the entity, and that do not.
        right_left, wrong_left: those of them that are left out.
    """

    tracks: int = 0
    mixed: int = 0
    cut: int = 0
    right: int = 0
    wrong: int = 0
    right_left: int = 0
    wrong_left: int = 0

    def add(self, other: Counts) -> None:
        for one in fields(self):
            setattr(self, one.name, getattr(self, one.name) + getattr(other, one.name))


@dataclass(slots=True)
class Outcome:
    """What one rule does at one rate: its counts, and AP and F1 of each entity."""

    counts: Counts = field(default_factory=Counts)
    scores: list[tuple[float, float]] = field(default_factory=list)


def matching_part(values: NDArray[np.float32], least: float, run: int) -> tuple[int, int]:
    """The crops [first, stop) of a track, by their values in order of time, that are not an end.

    Args:
        least: the value from which its best crop has to be; otherwise nothing is an end.
        run: crops that an end has at least; 0 for no ends.
    """
    like = np.flatnonzero(values > STRANGERS)
    if not run or not len(like) or values.max() < least:
        return 0, len(values)
    first, stop = int(like[0]), int(like[-1]) + 1
    first = first if first >= run and values[first] >= BESIDE else 0
    stop = stop if len(values) - stop >= run and values[stop - 1] >= BESIDE else len(values)
    return first, stop


def kept_span(frames: NDArray[np.int64], first: int, stop: int) -> Span:
    """The frames [from, to) of a part of a track's crops, half-way to those beside it."""
    low = (frames[first - 1] + frames[first] + 1) // 2 if first else -np.inf
    high = (frames[stop - 1] + frames[stop] + 1) // 2 if stop < len(frames) else np.inf
    return float(low), float(high)


class Judge:
    """One indexed sample archive."""

    def __init__(self, library: Library, sample: Path) -> None:
        self._library = library
        self._truths = read_truth(sample / "truth.json")
        self._drawn = json.loads((sample / "truth.json").read_text(encoding="utf-8"))
        self._frames = Frames(library)
        crops = library.query(CROPS).fetchall()
        self._crops = _by_track([(track, (crop, frame)) for crop, track, frame in crops])
        self._samples = _by_track([(row[0], row[1:]) for row in library.query(SAMPLES).fetchall()])

    def outcomes(self) -> dict[int, Outcome]:
        """By the run that an end takes; 0 cuts nothing."""
        found = {run: Outcome() for run in (0, *RUNS)}
        for name in self._truths:
            value_of = self._values(name)
            answer = self._library.query(ENTITY_FRAMES, [name]).arrow()
            ranked = self._library.query(RANKED, [name]).arrow()
            for run, outcome in found.items():
                spans = self._spans(np.unique(ranked["track_id"].to_numpy()).tolist(), value_of, run)
                for track in np.unique(answer["track_id"].to_numpy()).tolist():
                    outcome.counts.add(self._counted(name, track, spans.get(track)))
                outcome.scores.append(self._score(name, answer, ranked, spans))
        return found

    def _values(self, name: str) -> dict[int, float]:
        """The normalised value of every crop for an entity, where matching begins."""
        matcher = self._library.matcher()
        exit = matcher.first_exit()
        one = Sought.of(matcher.source.album(exit), name, matcher.embedder.cohorts()[exit - 1])
        stored = matcher.source.stored(exit)
        pictures = np.concatenate([one.positive, one.negative])
        normalised = normalise(pictures @ np.asarray(stored.vectors).T, one.level)
        values = crop_scores(normalised[: len(one.positive)], normalised[len(one.positive) :])
        return dict(zip(np.asarray(stored.crop_ids).tolist(), values.tolist(), strict=True))

    def _spans(self, tracks: list[int], value_of: Mapping[int, float], run: int) -> dict[int, Span]:
        """What is kept of those of the tracks that are cut."""
        calibration = self._library.matcher().calibrations[-1]
        least = calibration.normalised(calibration.high)
        found = {}
        for track in tracks:
            ids, frames = zip(*self._crops[track], strict=True)
            part = matching_part(np.array([value_of[crop] for crop in ids], np.float32), least, run)
            if part != (0, len(ids)):
                found[track] = kept_span(np.array(frames), *part)
        return found

    def _counted(self, name: str, track: int, span: Span | None) -> Counts:
        shown = [(frame, self._shows(name, video, frame, box)) for video, frame, *box in self._samples[track]]
        right = [frame for frame, is_right in shown if is_right]
        wrong = [frame for frame, is_right in shown if is_right is False]

        def left(some: list[int]) -> int:
            return sum(span is not None and not span[0] <= frame < span[1] for frame in some)

        mixed = bool(right) and len(wrong) >= 2
        return Counts(1, mixed, span is not None, len(right), len(wrong), left(right), left(wrong))

    def _shows(self, name: str, video: str, frame: int, box: list[float]) -> bool | None:
        """Whether a box is of an entity; None where the truth leaves the frame out."""
        drawn = self._drawn[name]["boxes"].get(video, {}).get(str(frame))
        if drawn is None:
            ignored = self._truths[name].ignore.get(video, ())
            return None if any(first <= frame <= last for first, last in ignored) else False
        one, other = np.array([box], np.float32), np.array([drawn], np.float32)
        return bool(iou(one, other)[0, 0] >= 0.3 or shared(one, other)[0] >= 0.5)

    def _score(self, name: str, answer: Any, ranked: Any, spans: Mapping[int, Span]) -> tuple[float, float]:
        positive = self._frames.mask(self._truths[name].visible)
        counted = ~self._frames.mask(self._truths[name].ignore)
        returned = np.zeros(self._frames.total, np.bool_)
        returned[self._places(answer, _kept(answer, spans))] = True
        scores = np.full(self._frames.total, -1.0)
        kept = _kept(ranked, spans)
        np.maximum.at(scores, self._places(ranked, kept), ranked["score"].to_numpy()[kept])
        hits = int((returned & positive & counted).sum())
        total = int((returned & counted).sum() + (positive & counted).sum())
        return average_precision(scores[counted], positive[counted]), 2 * hits / max(total, 1)

    def _places(self, rows: Any, kept: NDArray[np.bool_]) -> NDArray[np.intp]:
        videos, frames = (rows[name].to_numpy()[kept] for name in ("video", "frame"))
        return self._frames.places(videos.tolist(), frames.tolist())


def _by_track(rows: list[tuple[int, Any]]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for track, row in rows:
        found.setdefault(track, []).append(row)
    return found


def _kept(rows: Any, spans: Mapping[int, Span]) -> NDArray[np.bool_]:
    """Which rows of an answer lie in what is kept of their track."""
    tracks, frames = rows["track_id"].to_numpy(), rows["frame"].to_numpy()
    kept = np.ones(len(tracks), np.bool_)
    for track, (low, high) in spans.items():
        mine = tracks == track
        kept[mine] = (frames[mine] >= low) & (frames[mine] < high)
    return kept


def indexed(sample: Path, rate: float, where: Path, model: str | None) -> Path:
    """A library of the sample archive at a rate; made if it is not there."""
    if not where.exists():
        say(f"indexing at {rate:g} a second")
        with panorama.open(where, create=True) as library:
            library.index([sample / "archive"], settings=IngestSettings(samples_per_second=rate), model=model)
    with panorama.open(where) as library:
        if not library.entities():
            library.register_album(sample / "album")
            for wrong in sorted((sample / "lookalikes").iterdir()):
                library.register(wrong.name, unlike=sorted(wrong.glob("*.jpg")))
    return where


def lines(outcomes: Mapping[float, Mapping[int, Outcome]]) -> Iterator[list[str]]:
    """A row for each rule and rate, and one over all rates."""
    for run in (0, *RUNS):
        total, means = Counts(), []
        for rate, found in outcomes.items():
            total.add(found[run].counts)
            means.append(np.mean(found[run].scores, axis=0))
            yield [_rule(run), f"{rate:g}", *_cells(found[run].counts, means[-1])]
        yield [_rule(run), "all", *_cells(total, np.mean(means, axis=0))]


def _rule(run: int) -> str:
    return f"ends of {run} or more" if run else "nothing is cut"


def _cells(counts: Counts, means: NDArray[np.float64]) -> list[str]:
    return [
        *(str(counts.tracks), str(counts.mixed), str(counts.cut)),
        *(f"{counts.right_left} of {counts.right}", f"{counts.wrong_left} of {counts.wrong}"),
        *(f"{mean:.4f}" for mean in means),
    ]


def main() -> None:
    arguments = sample_arguments(__doc__, RATES)
    outcomes = {}
    for rate in arguments.rates:
        where = indexed(arguments.sample, rate, arguments.work / f"{rate:g}", arguments.model)
        with panorama.open(where) as library:
            outcomes[rate] = Judge(library, arguments.sample).outcomes()
    head = ["rule", "rate", "tracks accepted", "of two things", "cut", "right samples left out", "wrong ones"]
    table("Accepted tracks and what is left out of them", [*head, "AP", "F1"], lines(outcomes))


if __name__ == "__main__":
    main()
