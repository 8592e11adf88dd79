"""The measurements of tuning come in; a report goes out, as lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from panorama.commands import command
from panorama.indexing.profile import Profile, describe
from panorama.indexing.settings import Work
from panorama.lines import counted
from panorama.tune.choice import APART, USUAL, CostModel, Trial, on_the_front
from panorama.tune.reviewed import LEAST_REVIEWED, Review
from panorama.tune.sample import Decoded, Stretch, videos_of

HEAD = "   a second  pixels  crops  exits  predicted  measured  runs   loss"
REVIEWED = "  reviewed"
"""One more column, if reviewed answers count."""


@dataclass(frozen=True, slots=True)
class Networks:
    """The times of the two networks on this computer.

    Attributes:
        work: the fastest batches and threads.
        proposal_seconds: of one picture with these, by side.
        embed_seconds: of one crop with these, by the number of exits it is taken to.
    """

    work: Work
    proposal_seconds: dict[int, float]
    embed_seconds: dict[int, float]


@dataclass(frozen=True, slots=True)
class TuneReport:
    """What was measured and chosen.

    Attributes:
        stretches: the sample.
        unread: why some files are not in it.
        decoded: the cost of reading the sample.
        networks: the times of the networks.
        model: the cost model, with the runs it is based on.
        trials: every setting that was run, slowest first.
        things: number of things that the loss is averaged over.
        profile: the choice; its speeds come from runs of its own.
        rejected: the setting that the predictions spoke for, if it is not the choice because it measured no
            faster than the default and loses no less; else None.
        review: the reviewed answers in the sample.
    """

    stretches: tuple[Stretch, ...]
    unread: tuple[str, ...]
    decoded: Decoded
    networks: Networks
    model: CostModel
    trials: tuple[Trial, ...]
    things: int
    profile: Profile
    rejected: Profile | None
    review: Review

    @property
    def ratio(self) -> float:
        """Predicted over measured speed of the choice."""
        return self.profile.predicted_speed / self.profile.measured_speed

    @property
    def doubt(self) -> str | None:
        """A line if measured speeds contradict the predicted ones, and what to do about it; else None.

        Only settings that were timed in turn count: the others were run once, at different moments.
        """
        apart = [t for t in self.trials if t.runs > 1 and not t.as_predicted]
        if not apart:
            return None
        told = "; ".join(f"{describe(t.settings)}: ratio {t.ratio:.2f}" for t in apart)
        return (
            f"predicted and measured speeds are more than {APART:.0%} apart, also when timed once more"
            f" ({told}). Other work on this computer may be why: run {command('tune')} again when it is idle"
        )

    @property
    def usual(self) -> Trial:
        """The settings that `index` uses without a profile."""
        return next(trial for trial in self.trials if trial.settings == USUAL)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        front = on_the_front(self.trials)
        stages = self.model.stages(self.profile.settings)
        return {
            "sample": [
                {"path": str(s.path), "start_seconds": round(s.start_seconds, 3), "seconds": s.seconds}
                for s in self.stretches
            ],
            "unread": list(self.unread),
            "cores": self.model.cores,
            "video_seconds": round(self.decoded.video_seconds, 3),
            "decode_speed": round(self.decoded.video_seconds / self.decoded.wall_seconds, 3),
            "densest_counts": dict(self.model.dense.counts),
            "proposal_seconds": {str(n): round(s, 6) for n, s in self.networks.proposal_seconds.items()},
            "embed_seconds": {str(n): round(s, 6) for n, s in self.networks.embed_seconds.items()},
            "stage_seconds": {name: round(seconds, 6) for name, seconds in stages.items()},
            "things": self.things,
            "reviewed": len(self.review.marks),
            "trials": [{**trial.as_dict(), "front": trial in front} for trial in self.trials],
            "profile": self.profile.as_dict(),
            "ratio": round(self.ratio, 4),
            "default": self.usual.as_dict(),
            "rejected": None if self.rejected is None else self.rejected.as_dict(),
            "doubt": self.doubt,
        }

    def lines(self) -> list[str]:
        """For people."""
        profile = self.profile
        stages = sorted(self.model.stages(profile.settings).items(), key=lambda stage: -stage[1])
        return [
            *self._measured(),
            "",
            HEAD + (REVIEWED if self.review.counts else ""),
            *(_row(trial, trial in on_the_front(self.trials)) for trial in self.trials),
            "",
            f"chosen: {describe(profile.settings)}",
            f"predicted {profile.predicted_speed:.1f}x real time, measured {profile.measured_speed:.1f}x "
            f"(ratio {self.ratio:.2f}), {profile.loss:.1%} of answers lost",
            "work for a second of video, ms: "
            + ", ".join(f"{name} {seconds * 1000:.1f}" for name, seconds in stages),
            self._against_usual(),
            *([] if self.doubt is None else [self.doubt]),
            *self._shallow(),
            *(f"not in the sample: {note}" for note in self.unread),
        ]

    def _against_usual(self) -> str:
        """What the choice gains and loses compared with the default, or why the default is the choice."""
        usual, other = self.usual, self.rejected
        if other is not None:
            return (
                f"this is the default: {describe(other.settings)} was predicted at "
                f"{other.predicted_speed:.1f}x, but measured {other.measured_speed:.1f}x, no faster than the "
                f"default's {usual.measured_speed:.1f}x, and its loss of {other.loss:.1%} is no smaller than "
                f"the default's {usual.loss:.1%}"
            )
        if self.profile.settings == USUAL:
            return "this is the default: no setting that does less work answers as well on this sample"
        predicted = self.model.speed(self.profile.settings) / self.model.speed(USUAL)
        measured = self.profile.measured_speed / usual.measured_speed
        return (
            f"the default ({describe(USUAL)}) loses {usual.loss:.1%}; the choice measured {measured:.2f} "
            f"times as fast, {predicted:.2f} times were predicted"
        )

    def _shallow(self) -> Iterator[str]:
        """What embedding at the first exit alone would save."""
        chosen = self.profile.settings
        shallow = next((t for t in self.trials if t.settings == replace(chosen, depth=1)), None)
        if shallow is None or chosen.depth is not None:
            return
        faster = self.model.speed(shallow.settings) / self.model.speed(chosen)
        yield (
            f"with --depth 1 it would be {faster:.2f} times as fast and lose {shallow.loss:.1%}; the first "
            "query for an entity would then embed the crops that it is not sure of"
        )

    def _measured(self) -> list[str]:
        """The computer and the footage."""
        counts, decoded, networks = self.model.dense.counts, self.decoded, self.networks
        looked = counts["samples"] - counts["unchanged"]
        millis = ", ".join(f"{s * 1000:.1f} at {n} pixels" for n, s in networks.proposal_seconds.items())
        work = networks.work
        deeper = ", ".join(
            f"{s * 1000:.1f} to exit {exit}" for exit, s in sorted(networks.embed_seconds.items())
        )
        return [
            f"sample: {decoded.video_seconds:.0f} s of {videos_of(self.stretches)}, {self.model.cores} cores",
            f"decode alone: {decoded.frames / decoded.wall_seconds:.0f} frames/s, "
            f"{decoded.video_seconds / decoded.wall_seconds:.1f}x real time",
            f"gate: lets {looked / max(counts['samples'], 1):.0%} of {counts['samples']} samples through; "
            f"{counts['boxes'] / max(looked, 1):.1f} boxes in each, "
            f"{counts['crops'] / decoded.video_seconds:.1f} crops a second",
            f"proposer: ms a picture {millis}, in batches of {work.proposal_batch}",
            f"embedder: ms a crop {deeper}, in batches of {work.embed_batch}; "
            f"threads of each network: {work.threads.network}",
            f"loss: 1 - average precision of the frames in which the densest setting finds {self.things} "
            "things"
            + (
                ", or, if larger, the share of reviewed answers decided otherwise beyond that setting's"
                * self.review.counts
            ),
            *self._reviewed(),
        ]

    def _reviewed(self) -> Iterator[str]:
        """The reviewed answers in the sample."""
        marks = self.review.marks
        if not marks:
            return
        yes = sum(mark.said.right for mark in marks)
        things = counted(len({mark.said.entity for mark in marks}), "entity", "entities")
        few = "" if self.review.counts else f": too few to judge by, {LEAST_REVIEWED} are needed"
        yield f"reviewed answers in the sample: {yes} yes and {len(marks) - yes} no, of {things}{few}"


def _row(trial: Trial, is_front: bool) -> str:
    """One line of the table; a star if no other setting is both faster and loses less."""
    settings = trial.settings
    predicted = "" if trial.predicted_speed is None else f"{trial.predicted_speed:.1f}x"
    return (
        f" {'*' if is_front else ' '} {settings.samples_per_second:8g}  {settings.proposal_side:6}"
        f"  {settings.crops_per_track:5}  {settings.depth or 'all':>5}  {predicted:>9}"
        f"  {trial.measured_speed:7.1f}x  {trial.runs:4}  {trial.loss:5.1%}"
        + ("" if trial.otherwise is None else f"  {trial.otherwise:8.1%}")
    )
