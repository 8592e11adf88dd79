"""Timed runs over a sample come in; predicted times of other settings go out, and the choice among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from panorama.errors import UsageError
from panorama.indexing.settings import IngestSettings

RATES = (1.0, 2.0, 3.0, 5.0, 7.0, 10.0)
SIDES = (256, 320, 416)
CROPS = (2, 4)
"""The grid. The proposer was trained at its largest side; a look at a larger one is slower, not better."""

DENSEST = IngestSettings(max(RATES), crops_per_track=max(CROPS), proposal_side=max(SIDES))
SPARSEST = replace(DENSEST, samples_per_second=min(RATES))
USUAL = IngestSettings()
"""The settings of `index` without tuning; they are in the grid."""

TRIES_FOR_SPEED = 4
"""How many settings that reach the requested speed are tried, slowest first: those look at most."""

PER_CROP = ("crop", "embed", "write")
NETWORKS = ("propose",)
SPREAD = ("decode",)
"""Stages that use many cores at once, and so do not set the pace alone."""

APART = 0.2
"""A prediction holds if it differs from the measured speed by at most this share of it."""


@dataclass(frozen=True, slots=True)
class Timed:
    """One run over the sample.

    Attributes:
        settings: of the run.
        video_seconds, wall_seconds: length of the sample and duration of the run.
        stage_seconds: processor time by stage; on a busy computer, wall time would include waiting for a
            core.
        counts: frames, samples, unchanged (samples that the gate skipped), boxes, tracks, crops.
        views: number of samples of each track, to compute how many crops other settings would keep.
    """

    settings: IngestSettings
    video_seconds: float
    wall_seconds: float
    stage_seconds: Mapping[str, float]
    counts: Mapping[str, int] = field(default_factory=dict)
    views: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.video_seconds <= 0 or self.wall_seconds <= 0:
            raise ValueError(
                f"a run takes time, got {self.wall_seconds} s for {self.video_seconds} s of video"
            )

    def better(self, other: Timed) -> Timed:
        """The same run with the smaller time of both for each stage: the excess came from other processes."""
        stages = {name: min(seconds, _seconds(other, name)) for name, seconds in self.stage_seconds.items()}
        return replace(self, wall_seconds=min(self.wall_seconds, other.wall_seconds), stage_seconds=stages)

    @property
    def speed(self) -> float:
        """Seconds of video per second."""
        return self.video_seconds / self.wall_seconds


@dataclass(frozen=True, slots=True)
class CostModel:
    """Predicts what settings cost, from two runs and the proposer's time at each side.

    The work of a stage per second of video is linear in the sampling rate, through both runs: a part per
    frame and a part per sample that the gate lets through. Stages overlap: the pipeline is as slow as its
    slowest stage, and no faster than all cores together. The threads also slow each other down; that is
    measured as the time by which the two runs exceeded this bound.

    Attributes:
        dense, sparse: runs at the largest and at the smallest rate.
        proposal_seconds: of one picture, by side.
        embed_seconds: of one crop, by the number of exits it is taken to.
        cores: of the computer.
    """

    dense: Timed
    sparse: Timed
    proposal_seconds: Mapping[int, float]
    embed_seconds: Mapping[int, float]
    cores: int

    def stages(self, settings: IngestSettings) -> dict[str, float]:
        """Seconds of work per second of video, by stage."""
        share = self._share(settings)
        side = self.proposal_seconds[settings.proposal_side]
        slower = side / self.proposal_seconds[self.dense.settings.proposal_side]
        crops = self._crops(settings)
        told = {}
        for name in self.dense.stage_seconds:
            most, least = (_rate(run, name) for run in (self.dense, self.sparse))
            seconds = max(0.0, least + share * (most - least))
            told[name] = seconds * (slower if name in NETWORKS else crops if name in PER_CROP else 1.0)
        if "embed" in told and settings.depth is not None:
            told["embed"] *= self.embed_seconds[settings.depth] / self.embed_seconds[max(self.embed_seconds)]
        return told

    def seconds(self, settings: IngestSettings) -> float:
        """Predicted seconds per second of video."""
        share = self._share(settings)
        dense, sparse = (
            run.wall_seconds / run.video_seconds / self._ideal(self.stages(run.settings))
            for run in (self.dense, self.sparse)
        )
        return self._ideal(self.stages(settings)) * (sparse + share * (dense - sparse))

    def speed(self, settings: IngestSettings) -> float:
        """Predicted seconds of video per second."""
        return 1 / self.seconds(settings)

    def _ideal(self, stages: Mapping[str, float]) -> float:
        """Seconds if the stages overlapped without loss."""
        alone = max((seconds for name, seconds in stages.items() if name not in SPREAD), default=0.0)
        return max(alone, sum(stages.values()) / self.cores, 1e-9)

    def _share(self, settings: IngestSettings) -> float:
        """Where the rate lies between those of the two runs, from 0 to 1."""
        most, least = (run.settings.samples_per_second for run in (self.dense, self.sparse))
        return (settings.samples_per_second - least) / (most - least)

    def _crops(self, settings: IngestSettings) -> float:
        """Number of crops kept, as a share of those of the dense run."""
        most = sum(min(self.dense.settings.crops_per_track, n) for n in self.dense.views)
        return sum(min(settings.crops_per_track, n) for n in self.dense.views) / most if most else 1.0


def _rate(run: Timed, stage: str) -> float:
    return _seconds(run, stage) / run.video_seconds


def _seconds(run: Timed, stage: str) -> float:
    return run.stage_seconds.get(stage, 0.0)


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting that was run.

    Attributes:
        settings: the setting.
        predicted_speed: predicted at the time of the runs; None for the runs that the prediction is based on.
        measured_speed: seconds of video per second, in the fastest of its runs.
        loss: share of the densest setting's answers that it lacks, see `sample.loss_between`.
        otherwise: share of reviewed answers that it contradicts; None if there are too few of them.
        runs: how often it was run. Speeds of settings with one run come from different moments.
    """

    settings: IngestSettings
    predicted_speed: float | None
    measured_speed: float
    loss: float
    otherwise: float | None = None
    runs: int = 1

    @property
    def ratio(self) -> float | None:
        """Predicted over measured speed; None for the runs that the prediction is based on."""
        return None if self.predicted_speed is None else self.predicted_speed / self.measured_speed

    @property
    def as_predicted(self) -> bool:
        """Whether the measured speed bears out the prediction."""
        return self.ratio is None or abs(self.ratio - 1) <= APART

    def gains_on(self, other: Trial) -> bool:
        """Whether it measured faster than the other setting, or loses less."""
        return self.measured_speed > other.measured_speed or self.loss < other.loss

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        predicted = None if self.predicted_speed is None else round(self.predicted_speed, 3)
        return {
            "samples_per_second": self.settings.samples_per_second,
            "proposal_side": self.settings.proposal_side,
            "crops_per_track": self.settings.crops_per_track,
            "depth": self.settings.depth,
            "predicted_speed": predicted,
            "measured_speed": round(self.measured_speed, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 4),
            "runs": self.runs,
            "loss": round(self.loss, 4),
            "reviewed_otherwise": None if self.otherwise is None else round(self.otherwise, 4),
        }


def grid(depth: int | None = None) -> list[IngestSettings]:
    """All settings to choose among, at one depth."""
    return [
        replace(DENSEST, samples_per_second=rate, proposal_side=side, crops_per_track=crops, depth=depth)
        for rate in RATES
        for side in SIDES
        for crops in CROPS
    ]


def cheapest(
    loss_of: Callable[[IngestSettings], float], most_loss: float, start: IngestSettings = DENSEST
) -> IngestSettings:
    """The cheapest setting whose loss is at most `most_loss`; `start` if none that does less is good enough.

    It assumes that less work never answers better, and so needs few runs: first the lowest rate; then, by
    bisection, the lowest rate up to that of `start` that is good enough; then the smallest side at that rate;
    then fewer crops.

    Args:
        loss_of: runs a setting and returns its loss; called for few settings of the grid.
        start: a setting of the grid; settings that do more are not tried.
    """
    rates = [rate for rate in RATES if rate <= start.samples_per_second]

    def loss_at(rate: float) -> float:
        return loss_of(replace(start, samples_per_second=rate))

    # rates[high] is good enough, all below rates[low] are not. Begin with the lowest: it was run already.
    low, high = (0, 0) if loss_at(rates[0]) <= most_loss else (1, len(rates) - 1)
    while low < high:
        middle = (low + high) // 2
        if loss_at(rates[middle]) <= most_loss:
            high = middle
        else:
            low = middle + 1
    chosen = replace(start, samples_per_second=rates[high])
    for side in sorted((side for side in SIDES if side < start.proposal_side), reverse=True):
        if loss_of(replace(chosen, proposal_side=side)) > most_loss:
            break
        chosen = replace(chosen, proposal_side=side)
    for crops in sorted((count for count in CROPS if count < start.crops_per_track), reverse=True):
        if loss_of(replace(chosen, crops_per_track=crops)) > most_loss:
            break
        chosen = replace(chosen, crops_per_track=crops)
    return chosen


def fast_enough(
    speed_of: Callable[[IngestSettings], float],
    loss_of: Callable[[IngestSettings], float],
    least_speed: float,
) -> IngestSettings:
    """The setting that loses least among those predicted to reach a speed.

    Only the slowest of them are tried, because they look at most. If none reaches the speed, crops are
    embedded at the first exit only, which makes queries slower.

    Raises:
        UsageError: no setting reaches the speed.
    """
    for depth in (None, 1):
        by_speed = sorted(grid(depth), key=speed_of)
        reaching = [settings for settings in by_speed if speed_of(settings) >= least_speed]
        if reaching:
            break
    else:
        raise UsageError(
            f"no setting reaches {least_speed:g}x real time here; the fastest is predicted at "
            f"{speed_of(by_speed[-1]):.1f}x. Give a lower --speed"
        )
    return min(reaching[:TRIES_FOR_SPEED], key=loss_of)


def on_the_front(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that no other trial beats in speed without losing more, slowest first."""
    front: list[Trial] = []
    for trial in sorted(trials, key=lambda t: (-t.measured_speed, t.loss)):
        if not front or trial.loss < front[-1].loss:
            front.append(trial)
    return front[::-1]
