"""Footage enters; the cheapest settings of indexing that find what the densest find, and their cost, leave.

A short sample is indexed twice, densely and sparsely. From the times of the stages a cost model says what
every other setting would take. The settings are then tried in the order of their cost, by halving: each try
indexes the sample, and is compared with the densest by the frames in which pseudo-entities are found, which
are things that the densest saw for long.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from panorama.errors import UsageError, VideoError
from panorama.ingest import IngestSettings
from panorama.models.base import Proposer
from panorama.profile import Profile
from panorama.video import find_videos, open_video, write_excerpt

if TYPE_CHECKING:
    from panorama.library import Library

RATES = (1.0, 2.0, 3.0, 5.0, 8.0)
SIDES = (256, 320, 416)
CROPS = (2, 4)
DENSEST = IngestSettings(samples_per_second=10.0)
SPARSEST = IngestSettings(samples_per_second=1.0)
PSEUDO_ENTITIES = 12
TURNS = 2
"""Every run is made so often and its best times count: something else may be running."""

LONGEST_TRACKS = """
SELECT t.track_id, min(c.crop_id) AS crop_id
FROM tracks t JOIN crops c ON c.track_id = t.track_id
GROUP BY t.track_id, t.start_time, t.end_time
ORDER BY t.end_time - t.start_time DESC, t.track_id LIMIT ?
"""
FOUND_FRAMES = "SELECT DISTINCT video, frame FROM (SELECT frames WHERE entity = ?)"


@dataclass(frozen=True, slots=True)
class Observation:
    """One run over the sample.

    Attributes:
        settings: what was looked at.
        frames: of the sample.
        changed: samples that passed the change gate.
        crops: kept.
        seconds: from the first file to the committed library, models loaded before.
        stage_seconds: by stage.
    """

    settings: IngestSettings
    frames: int
    changed: int
    crops: int
    seconds: float
    stage_seconds: Mapping[str, float]

    def __post_init__(self) -> None:
        if self.frames < 1 or self.seconds <= 0:
            raise UsageError(f"a run has frames and takes time, got {self.frames} in {self.seconds} s")

    def better(self, other: Observation) -> Observation:
        """The same run with the lesser times of both."""
        stages = {
            name: min(self.stage_seconds.get(name, 0.0), other.stage_seconds.get(name, 0.0))
            for name in {*self.stage_seconds, *other.stage_seconds}
        }
        return replace(self, seconds=min(self.seconds, other.seconds), stage_seconds=stages)


@dataclass(frozen=True, slots=True)
class CostModel:
    """What a setting costs on this machine and this footage.

    Attributes:
        dense, sparse: the two runs that it rests on; they differ in their rate.
        picture_seconds: side in pixels -> seconds that the proposer takes for a picture of the sample.
    """

    dense: Observation
    sparse: Observation
    picture_seconds: Mapping[int, float]

    def __post_init__(self) -> None:
        if self.dense.settings.samples_per_second <= self.sparse.settings.samples_per_second:
            raise UsageError(
                "the dense run looks more often than the sparse one, got "
                f"{self.dense.settings.samples_per_second} and {self.sparse.settings.samples_per_second}"
            )

    def between(self, dense: float, sparse: float, rate: float) -> float:
        """A quantity at a rate that was not run: a power of the rate through both runs."""
        if min(dense, sparse) <= 0:
            return dense
        high, low = self.dense.settings.samples_per_second, self.sparse.settings.samples_per_second
        power = log(dense / sparse) / log(high / low)
        return float(sparse * (rate / low) ** power)

    def stages(self, settings: IngestSettings) -> dict[str, float]:
        """Seconds by stage for the sample."""
        rate, dense, sparse = settings.samples_per_second, self.dense, self.sparse
        changed = self.between(dense.changed, sparse.changed, rate)
        kept = settings.crops_per_track / dense.settings.crops_per_track
        crops = self.between(dense.crops, sparse.crops, rate) * kept
        side = self.picture_seconds[settings.proposal_side] / self.picture_seconds[DENSEST.proposal_side]
        # What a stage's time grows with; decode, gate and write go with the frames, always the same.
        measure = {
            "propose": changed * side / max(dense.changed, 1),
            "track": changed / max(dense.changed, 1),
            "crop": crops / max(dense.crops, 1),
            "embed": crops / max(dense.crops, 1),
        }
        return {name: cost * measure.get(name, 1.0) for name, cost in dense.stage_seconds.items()}

    def seconds(self, settings: IngestSettings) -> float:
        """What indexing the sample takes: the stages, as far as they do not run side by side."""
        rate = settings.samples_per_second
        runs = (self.dense, self.sparse)
        shares = [run.seconds / max(sum(run.stage_seconds.values()), 1e-9) for run in runs]
        stages = self.stages(settings)
        return max(*stages.values(), sum(stages.values()) * self.between(shares[0], shares[1], rate))

    def frames_per_second(self, settings: IngestSettings) -> float:
        """Throughput on the sample."""
        return self.dense.frames / self.seconds(settings)


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting: what the model said, what it took, and how much of the densest's answers it kept."""

    settings: IngestSettings
    predicted: float
    measured: float
    agreement: float


@dataclass(frozen=True, slots=True)
class TuneReport:
    """What was tried, in order, and what was chosen."""

    videos: tuple[str, ...]
    frames: int
    densest: Trial
    trials: tuple[Trial, ...]
    chosen: Trial
    stage_seconds: Mapping[str, float]

    @property
    def profile(self) -> Profile:
        """What the library keeps."""
        one = self.chosen
        return Profile(one.settings, one.predicted, one.measured, one.agreement)


def candidates(model: CostModel) -> list[IngestSettings]:
    """All settings but the densest, the cheapest first."""
    every = [
        replace(DENSEST, samples_per_second=rate, proposal_side=side, crops_per_track=crops)
        for rate in RATES
        for side in SIDES
        for crops in CROPS
    ]
    return sorted(every, key=model.seconds)


def search(
    ordered: Sequence[IngestSettings], attempt: Callable[[IngestSettings], Trial], least: float
) -> tuple[list[Trial], Trial | None]:
    """The cheapest of settings in order of cost that agrees well enough, by halving; and all that was tried.

    What costs more finds more, nearly always: where that fails, a setting is found that is good enough and
    not the very cheapest.
    """
    tried: list[Trial] = []
    best: Trial | None = None
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        tried.append(attempt(ordered[middle]))
        if tried[-1].agreement >= least:
            best, high = tried[-1], middle
        else:
            low = middle + 1
    return tried, best


def agreement(dense: Library, other: Library, entities: Sequence[str]) -> float:
    """Mean F1 of the frames in which `other` finds each entity, against those of `dense`; 1 without any."""
    scores = []
    for name in entities:
        wanted, got = (set(lib.query(FOUND_FRAMES, [name]).fetchall()) for lib in (dense, other))
        both = len(wanted & got)
        scores.append(2 * both / (len(wanted) + len(got)) if wanted or got else 1.0)
    return float(np.mean(scores)) if scores else 1.0


def pseudo_entities(dense: Library) -> dict[str, np.ndarray]:
    """Names and one picture each of the things that were longest in sight."""
    rows = dense.query(LONGEST_TRACKS, [PSEUDO_ENTITIES]).fetchall()
    return {f"thing-{number}": dense.crop(int(crop)) for number, (_, crop) in enumerate(rows, 1)}


def sample_footage(paths: Sequence[str | Path], folder: Path, seconds: float, most: int) -> list[Path]:
    """Excerpts of up to `most` videos, spread over all that the paths hold, each from its middle.

    Raises:
        UsageError: the paths hold no video that can be read.
    """
    if seconds <= 0 or most < 1:
        raise UsageError(f"the sample is at least one video of some seconds, got {most} of {seconds}")
    found = find_videos(list(paths)).videos
    spread = [found[round(i)] for i in np.linspace(0, len(found) - 1, min(most, len(found)))]
    out: list[Path] = []
    for video in spread:
        place = folder / f"{len(out):02d}-{video.path.stem}.mkv"
        try:
            with open_video(video.path) as reader:
                length = reader.info.duration_seconds or 0.0
            if video.path.is_dir() or length <= seconds * 1.2:
                out.append(video.path)
                continue
            write_excerpt(video.path, max(0.0, (length - seconds) / 2), seconds, place)
            out.append(place)
        except VideoError:
            # Not every container has what an excerpt needs; the others still say enough.
            continue
    if not out:
        named = ", ".join(map(str, paths))
        raise UsageError(f"{named} holds no video that a sample can be taken of; see: panorama index")
    return out


def tune(
    library: Library,
    paths: Sequence[str | Path],
    *,
    least: float = 0.9,
    seconds: float = 20.0,
    videos: int = 3,
    on_trial: Callable[[Trial], None] = lambda _: None,
) -> TuneReport:
    """Find the cheapest settings that agree with the densest by `least` on a sample of the paths.

    Args:
        library: indexing uses its models; nothing in it changes.
        least: mean F1 against the densest setting, in (0, 1].
        seconds, videos: of the sample.
        on_trial: called for the densest and after every try.

    Raises:
        UsageError: an argument is out of range, or the paths hold no video.
    """
    if not 0 < least <= 1:
        raise UsageError(f"--agreement is above 0 and at most 1, got {least}")
    with tempfile.TemporaryDirectory(prefix="panorama-tune-") as name:
        bench = _Bench(library, Path(name), sample_footage(paths, Path(name), seconds, videos))
        dense = bench.run(DENSEST)
        sparse = bench.run(SPARSEST)
        model = CostModel(dense, sparse, picture_seconds(library.proposer, bench.pictures()))
        densest = Trial(DENSEST, model.frames_per_second(DENSEST), dense.frames / dense.seconds, 1.0)
        on_trial(densest)

        def attempt(settings: IngestSettings) -> Trial:
            ran = bench.run(settings)
            trial = Trial(
                settings,
                model.frames_per_second(settings),
                ran.frames / ran.seconds,
                bench.agreement(settings),
            )
            on_trial(trial)
            return trial

        tried, best = search(candidates(model), attempt, least)
        videos_used = tuple(path.name for path in bench.files)
        return TuneReport(
            videos_used,
            dense.frames,
            densest,
            tuple(tried),
            best or densest,
            model.stages((best or densest).settings),
        )


def picture_seconds(proposer: Proposer, pictures: Sequence[np.ndarray]) -> dict[int, float]:
    """Seconds that the proposer takes for a picture of each of `SIDES`, in the batches of indexing."""
    import cv2

    best: dict[int, float] = {}
    for _ in range(TURNS + 1):
        for side in SIDES:
            small = []
            for picture in pictures:
                factor = side / max(picture.shape[:2])
                size = tuple(max(1, round(length * factor)) for length in picture.shape[1::-1])
                small.append(np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8))
            began = time.perf_counter()
            proposer.propose(small)
            spent = (time.perf_counter() - began) / len(small)
            best[side] = min(best.get(side, spent), spent)
    return best


class _Bench:
    """The sample, and a library of it for each setting that was run."""

    def __init__(self, library: Library, folder: Path, files: list[Path]) -> None:
        self.files = files
        self._lender = library
        self._folder = folder
        self._entities: dict[str, np.ndarray] | None = None
        self._runs: dict[IngestSettings, Observation] = {}

    def run(self, settings: IngestSettings) -> Observation:
        """Index the sample, once for each setting; the best times of a few turns."""
        if settings in self._runs:
            return self._runs[settings]
        best: Observation | None = None
        for turn in range(TURNS):
            with self._opened(settings, turn) as library:
                began = time.perf_counter()
                report = library.index(self.files, settings=settings)
                seconds = time.perf_counter() - began
            files = report.of("indexed")
            if not files:
                raise UsageError(f"no frame of the sample could be indexed: {report.files[0].note}")
            stages: dict[str, float] = {}
            for file in files:
                for name, spent in file.stage_seconds.items():
                    stages[name] = stages.get(name, 0.0) + spent
            changed = sum(file.samples - file.unchanged for file in files)
            frames, crops = sum(f.frames for f in files), sum(f.crops for f in files)
            ran = Observation(settings, frames, changed, crops, seconds, stages)
            best = ran if best is None else best.better(ran)
        assert best is not None
        self._runs[settings] = best
        return best

    def agreement(self, settings: IngestSettings) -> float:
        """How much of what the densest setting found this one finds."""
        with (
            self._opened(DENSEST) as dense,
            self._opened(settings) as other,
        ):
            if self._entities is None:
                self._entities = pseudo_entities(dense)
                for name, picture in self._entities.items():
                    dense.register(name, picture)
            for name, picture in self._entities.items():
                other.register(name, picture)
            return agreement(dense, other, list(self._entities))

    def pictures(self) -> list[np.ndarray]:
        """A batch of frames of the first file of the sample."""
        with open_video(self.files[0]) as reader:
            frames = reader.frames()
            return [frame.rgb() for frame, _ in zip(frames, range(8), strict=False)]

    def _opened(self, settings: IngestSettings, turn: int = 0) -> Library:
        """The library of one run, with the models loaded."""
        from panorama.library import open_library

        key = f"{settings.samples_per_second:g}-{settings.proposal_side}-{settings.crops_per_track}-{turn}"
        library = open_library(self._folder / key, create=True)
        lent = self._lender.embedder if self._lender.exists else library.embedder
        if lent.hash != library.embedder.hash:
            library.use_model(str(lent.folder or lent.name))
        blank = np.zeros((64, 64, 3), np.uint8)
        library.proposer.propose([blank])
        library.embedder.embed_all([blank])
        return library
