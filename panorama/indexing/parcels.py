"""Parcels of a video come in from the stage before and go out to the next, with what each stage adds."""

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
from panorama.tracking.sampling import Break, Hold, Sample, Unneeded
from panorama.tracking.segmenting import FinishedTrack
from panorama.video import PassedFrame, VideoFrame, VideoReader

MOST_BEGUN = 3
"""Batches in progress or waiting in the networks' process, so that it and this process are both kept busy."""

BATCH_BYTES = 48 << 20
"""A batch is also full with this many bytes: four frames of 4K, or two if samples are deeper than a byte."""

MOST_WAITING = 64
"""Most parcels that wait for a batch to fill, so that a night without motion does not delay others."""

DEFECTS = (ArithmeticError, LookupError, RuntimeError, ValueError, cv2.error)
"""Errors that an odd file may trigger in our own code; they cost that file, not the others."""


@dataclass(slots=True)
class Progress:
    """How far the work on one video is; the caller's hook gets copies a few times a second.

    Attributes:
        frames: frames read so far.
        samples: how many of them were sampled.
        unchanged: how many of the samples the change gate skipped.
        tracks, crops: written so far.
        time_seconds: presentation time reached.
        all_read: whether there are no more frames to read; the other stages may go on.
        end_seconds: end of the last frame, set when the video is over.
        stage_seconds: working time per stage; stages work at the same time.
    """

    frames: int = 0
    samples: int = 0
    unchanged: int = 0
    tracks: int = 0
    crops: int = 0
    time_seconds: float = 0.0
    all_read: bool = False
    end_seconds: float = 0.0
    stage_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def copy(self) -> Progress:
        """A copy that does not change while the video goes on."""
        return replace(self, stage_seconds=self.stage_seconds.copy())

    @contextmanager
    def stage(self, name: str, clock: Callable[[], float] = time.perf_counter) -> Iterator[None]:
        """Count the time of a block under a stage's name."""
        started = clock()
        try:
            yield
        finally:
            self.stage_seconds[name] += clock() - started


@dataclass(slots=True, eq=False)
class Job:
    """One video on its way through the stages.

    Attributes:
        reader: the open video.
        note: anything that the caller needs at the end of the line.
        unneeded: says which frames need not be decoded; None if all must be.
        progress: how far the work is.
        error: why the video gives no segment; the first stage that fails sets it, and all stages check it.
    """

    reader: VideoReader
    note: Any = None
    unneeded: Unneeded | None = None
    progress: Progress = field(default_factory=Progress)
    error: Exception | None = None


class Flush:
    """An item between videos: what is before it does not wait for a batch to fill, as the next takes long."""


End = Callable[[], float]
"""Ends a step that was begun; returns the processor seconds that it took outside of this thread."""

FrameRow = tuple[int, int, float]
"""Number, pts and presentation time of one frame."""


@dataclass(slots=True, eq=False)
class Parcel:
    """Some consecutive frames of one video, and what the stages have made of them.

    Attributes:
        job: the video.
        frames: the frames, decoded or passed over, until the gate has seen them.
        rows: number, pts and time of all frames, including those not decoded.
        events: what the gate made of sampled frames, and breaks before them, until they are tracked.
        regions: the proposed regions of each event that is a Sample.
        cuts: frames that begin a new shot.
        ends: in the last parcel, how the video begins and ends (see `Sampler.ends`); else None.
        tracks: tracks that ended here.
        jpegs: the crops of these tracks, in order.
        pictures: the same, decoded from the JPEGs, until they are embedded.
        vectors: (depth, crops, dim) at the first `depth` exits; None before embedding, or without crops.
        last: whether the video ends here.
    """

    job: Job
    frames: list[VideoFrame | PassedFrame] = field(default_factory=list)
    rows: list[FrameRow] = field(default_factory=list)
    events: list[Sample | Hold | Break] = field(default_factory=list)
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
        """The events that the proposer must look at."""
        return [event for event in self.events if isinstance(event, Sample)]

    def give_up(self) -> None:
        """Drop everything, because the video gives no segment."""
        self.frames, self.rows, self.events, self.regions = [], [], [], []
        self.cuts, self.tracks, self.jpegs, self.pictures = [], [], [], []
        self.ends = self.vectors = None


@contextmanager
def guard(parcel: Parcel, stage: str, clock: Callable[[], float]) -> Iterator[None]:
    """Time a step of one video's work. If it fails, give up this video, while others go on.

    The step runs even if the video failed before, on an emptied parcel.

    Args:
        clock: what to time it by; see `Rest.clock`.
    """
    job = parcel.job
    if job.error is not None:
        parcel.give_up()
    with job.progress.stage(stage, clock):
        try:
            yield
        except (VideoError, *DEFECTS) as exc:
            job.error = job.error or exc
            parcel.give_up()


@dataclass(frozen=True, slots=True)
class Batch:
    """How much a step gets at once.

    Attributes:
        full: number of pictures in a full batch.
        size: returns the number of pictures in a parcel.
        weight: returns the bytes that a parcel holds until the step is over; with `BATCH_BYTES` of them, a
            batch is full, too.
    """

    full: int
    size: Callable[[Parcel], int]
    weight: Callable[[Parcel], int]

    def is_full(self, count: int, held: int) -> bool:
        """Whether `count` pictures that hold `held` bytes are a full batch."""
        return count >= self.full or held >= BATCH_BYTES


def batched(
    parcels: Iterator[Any], stage: str, begin: Callable[[list[Parcel]], End], batch: Batch
) -> Generator[Any, None, None]:
    """Run a step on batches of parcels, from any number of videos; yields the parcels in order.

    While batches are in progress elsewhere, it gathers and begins the next ones, up to MOST_BEGUN; then it
    waits for the first. At a Flush it waits for all.

    Args:
        parcels: parcels; other items are passed through in order.
        stage: name under which to count the time.
        begin: begins the step for parcels that have pictures; the function that it returns ends the step. If
            that fails, it must leave the parcels as they were, because the step is repeated.
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
        flush = isinstance(parcel, Flush)
        if flush or batch.is_full(count, held) or len(waiting) >= MOST_WAITING:
            begun.append((waiting, step.begin(waiting)))
            waiting, count, held = [], 0, 0
            while len(begun) > (0 if flush else MOST_BEGUN):
                some, end = begun.popleft()
                end()
                yield from some
    begun.append((waiting, step.begin(waiting)))
    for some, end in begun:
        end()
        yield from some


class _Step:
    """A step on parcels of many videos at once. If it fails, it is repeated video by video."""

    def __init__(
        self,
        stage: str,
        begin: Callable[[list[Parcel]], End],
        size: Callable[[Parcel], int],
    ) -> None:
        self._stage, self._begin, self._size = stage, begin, size

    def begin(self, items: list[Any]) -> Callable[[], None]:
        """Begin the step for the parcels that have pictures; the returned function ends it."""
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
            # If it took longer elsewhere than this thread waited, this thread did other things meanwhile.
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
