"""Videos on their way through the stages of indexing, in parcels: what each stage takes and fills in."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import VideoError
from panorama.regions import Regions
from panorama.tracking.sampling import Hold, Sample, Unneeded
from panorama.tracking.segmenting import FinishedTrack
from panorama.video import PassedFrame, VideoFrame, VideoReader

MOST_BEGUN = 3
"""Batches that are worked on elsewhere, or wait there: who asks and who answers are seldom busy at once."""

BATCH_BYTES = 48 << 20
"""Frames of 4K hold so much that four of them are a batch; where samples are deeper than a byte, two."""

MOST_WAITING = 64
"""Parcels that wait for a batch to fill: a night without motion must not hold up the video before it."""

DEFECTS = (ArithmeticError, LookupError, RuntimeError, ValueError, cv2.error)
"""What an odd file may bring out in our own code: it costs that file, not the others."""


@dataclass(slots=True)
class Progress:
    """How far one video is; the caller's hook gets copies a few times a second.

    Attributes:
        frames: frames read so far.
        samples: how many of them were sampled.
        unchanged: how many of the samples the change gate skipped.
        tracks, crops: written so far.
        time_seconds: presentation time reached.
        end_seconds: end of the last frame, set when the video is over.
        stage_seconds: working time per stage; stages work at the same time.
    """

    frames: int = 0
    samples: int = 0
    unchanged: int = 0
    tracks: int = 0
    crops: int = 0
    time_seconds: float = 0.0
    end_seconds: float = 0.0
    stage_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def copy(self) -> Progress:
        """A copy that does not change while the video goes on."""
        return replace(self, stage_seconds=self.stage_seconds.copy())

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the wall time of a block under a stage's name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.stage_seconds[name] += time.perf_counter() - started


@dataclass(slots=True, eq=False)
class Job:
    """One video on its way through the stages.

    Attributes:
        reader: the open video.
        note: what the caller needs at the end of the line.
        unneeded: tells which frames need not be decoded; None where all are.
        error: why it gives no segment; set by whichever stage fails, heeded by all.
    """

    reader: VideoReader
    note: Any = None
    unneeded: Unneeded | None = None
    progress: Progress = field(default_factory=Progress)
    error: Exception | None = None


End = Callable[[], float]
"""Ends a step that was begun, and gives the processor time that it took outside of this thread."""

FrameRow = tuple[int, int, float]
"""Number, pts and presentation time of one frame."""


@dataclass(slots=True, eq=False)
class Parcel:
    """Some consecutive frames of one video, and what the stages have made of them.

    Attributes:
        frames: decoded or passed over, until the gate has seen them.
        rows: of all frames, also of those that were not decoded.
        events: the sampled ones among them, until they are tracked.
        regions: one for each event that is a sample.
        cuts: the frames among them that begin another shot.
        ends: of the last parcel, how the video begins and ends (see `Sampler.ends`).
        tracks: those that ended here.
        jpegs: of the tracks' crops, in order; `pictures` is what a reader of the JPEGs sees.
        vectors: (depth, crops, dim), of the first exits.
        last: whether the video ends here.
    """

    job: Job
    frames: list[VideoFrame | PassedFrame] = field(default_factory=list)
    rows: list[FrameRow] = field(default_factory=list)
    events: list[Sample | Hold] = field(default_factory=list)
    regions: list[Regions] = field(default_factory=list)
    cuts: list[int] = field(default_factory=list)
    ends: NDArray[np.uint8] | None = None
    tracks: list[FinishedTrack] = field(default_factory=list)
    jpegs: list[bytes] = field(default_factory=list)
    pictures: list[NDArray[np.uint8]] = field(default_factory=list)
    vectors: NDArray[np.float32] | None = None
    last: bool = False

    @property
    def samples(self) -> list[Sample]:
        """The events that need to be looked at."""
        return [event for event in self.events if isinstance(event, Sample)]

    def give_up(self) -> None:
        """Let go of everything: the video gives no segment."""
        self.frames, self.rows, self.events, self.regions = [], [], [], []
        self.cuts, self.tracks, self.jpegs, self.pictures = [], [], [], []
        self.ends = self.vectors = None


@contextmanager
def guard(parcel: Parcel, stage: str) -> Iterator[None]:
    """Time a step of one video's work; where it fails, the video is given up and the others go on."""
    job = parcel.job
    if job.error is not None:
        parcel.give_up()
    with job.progress.stage(stage):
        try:
            yield
        except (VideoError, *DEFECTS) as exc:
            job.error = job.error or exc
            parcel.give_up()


@dataclass(frozen=True, slots=True)
class Batch:
    """How much a step is given at once.

    Attributes:
        full: how many pictures make a batch.
        size: how many of them a parcel has.
        weight: bytes that a parcel holds until the step is over; `BATCH_BYTES` of them make a batch, too.
    """

    full: int
    size: Callable[[Parcel], int]
    weight: Callable[[Parcel], int]

    def is_full(self, count: int, held: int) -> bool:
        """Whether so many pictures, which hold so many bytes, are a batch."""
        return count >= self.full or held >= BATCH_BYTES


def batched(
    parcels: Iterator[Any], stage: str, begin: Callable[[list[Parcel]], End], batch: Batch
) -> Generator[Any, None, None]:
    """Parcels in order after a step on many of them at once, whatever their videos.

    While batches are worked on elsewhere the next is gathered and begun; then the first is waited for.

    Args:
        begin: begins the step for parcels that have something for it; what it returns ends it.
        batch: how much makes a batch.
    """
    step = _Step(stage, begin, batch.size)
    waiting: list[Any] = []
    count = held = 0
    begun: deque[tuple[list[Any], Callable[[], None]]] = deque()
    for parcel in parcels:
        waiting.append(parcel)
        if isinstance(parcel, Parcel):
            count, held = count + batch.size(parcel), held + batch.weight(parcel)
        if batch.is_full(count, held) or len(waiting) >= MOST_WAITING:
            begun.append((waiting, step.begin(waiting)))
            waiting, count, held = [], 0, 0
            if len(begun) > MOST_BEGUN:
                some, end = begun.popleft()
                end()
                yield from some
    begun.append((waiting, step.begin(waiting)))
    for some, end in begun:
        end()
        yield from some


class _Step:
    """A step on parcels of many videos at once; where it fails, video by video: only the odd one fails."""

    def __init__(
        self,
        stage: str,
        begin: Callable[[list[Parcel]], End],
        size: Callable[[Parcel], int],
    ) -> None:
        self._stage, self._begin, self._size = stage, begin, size

    def begin(self, items: list[Any]) -> Callable[[], None]:
        """Begin with those that have something for it; what is returned ends it."""
        parcels = [p for p in items if isinstance(p, Parcel) and self._size(p)]
        if not parcels:
            return lambda: None
        sizes = [self._size(p) for p in parcels]
        shares = [(p.job, size / sum(sizes)) for p, size in zip(parcels, sizes, strict=True)]
        started = time.perf_counter()
        end: End | None = None
        with suppress(*DEFECTS):
            end = self._begin(parcels)
        spent = time.perf_counter() - started

        def finish() -> None:
            started = time.perf_counter()
            away = self._end(parcels, end)
            # What took longer than it was waited for was done while this thread did other things.
            total = max(away, spent + time.perf_counter() - started)
            for job, share in shares:
                job.progress.stage_seconds[self._stage] += share * total

        return finish

    def _end(self, parcels: list[Parcel], end: End | None) -> float:
        if end is not None:
            with suppress(*DEFECTS):
                return end()
        for job in {parcel.job: None for parcel in parcels}:
            own = [p for p in parcels if p.job is job]
            try:
                self._begin(own)()
            except DEFECTS as exc:
                job.error = job.error or exc
                for parcel in own:
                    parcel.give_up()
        return 0.0
