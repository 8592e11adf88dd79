"""Video files enter; committed segments of a library leave, with an account of time spent and frames lost."""

from __future__ import annotations

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from panorama.crops import decode_picture, encode_jpeg
from panorama.errors import UsageError
from panorama.models.base import Embedder, Proposer
from panorama.regions import Regions, suppress
from panorama.segmenting import FinishedTrack, FrameClock, SegmentBuilder
from panorama.store import SegmentWriter
from panorama.video import ChangeGate, MotionProposer, VideoFrame, VideoReader

PROPOSAL_BATCH = 8
EMBED_BATCH = 64
ONE_STEP = 0.5
"""Share of the change between two samples that must happen from one frame to the next to be a shot change."""

CODE_VERSION = "2"
"""Part of the settings' hash: raise it when the same settings give other rows."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """What indexing looks at. All of it is part of a segment's key.

    Attributes:
        samples_per_second: how often regions are looked for; between samples boxes are interpolated.
        every: look at every so many frames instead; None for the rate.
        crops_per_track: pictures kept of each track.
        proposal_side: longest side in pixels of the picture that the proposer sees.
        max_regions: boxes kept in one frame.
        min_side: boxes with a shorter side, in pixels of the video, are dropped.
        keyframes_only: look at keyframes alone; quick, and coarse.
    """

    samples_per_second: float = 5.0
    every: int | None = None
    crops_per_track: int = 4
    proposal_side: int = 416
    max_regions: int = 20
    min_side: int = 12
    keyframes_only: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.samples_per_second <= 1000:
            raise UsageError(f"--fps is between 0 and 1000 samples a second, got {self.samples_per_second}")
        if self.every is not None and self.every < 1:
            raise UsageError(f"--every is a whole number of frames from 1, got {self.every}")
        if self.crops_per_track < 1:
            raise UsageError(f"crops per track is at least 1, got {self.crops_per_track}")

    def hash(self, proposer_hash: str) -> str:
        """Hex digest of all that changes a segment's tracks and crops."""
        key = {**asdict(self), "proposer": proposer_hash, "code": CODE_VERSION}
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(slots=True)
class Progress:
    """How far one video is; handed to the caller's hook a few times a second.

    Attributes:
        frames: frames of the video so far; samples of them were looked at, unchanged of those gated out.
        tracks, crops: written so far.
        time_seconds: presentation time reached.
        end_seconds: end of the last frame, set when the video is over.
        stage_seconds: wall time by stage.
    """

    frames: int = 0
    samples: int = 0
    unchanged: int = 0
    tracks: int = 0
    crops: int = 0
    time_seconds: float = 0.0
    end_seconds: float = 0.0
    stage_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the wall time of a block under a stage's name."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.stage_seconds[name] += time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class _Sample:
    """A sampled frame that changed, with what moved in it; `cut_at` is the first frame of a new shot."""

    frame: VideoFrame
    motion: Regions
    cut_at: int | None


@dataclass(frozen=True, slots=True)
class _Hold:
    """A sampled frame in which nothing changed."""

    frame: int
    time_seconds: float


class Indexer:
    """Reads videos into segments: decode, gate, propose, track, crop, embed, write.

    Args:
        embedder, proposer: the models; every crop is embedded at every exit.
        settings: what to look at.
    """

    def __init__(self, embedder: Embedder, proposer: Proposer, settings: IngestSettings) -> None:
        self.embedder = embedder
        self.proposer = proposer
        self.settings = settings

    def run(
        self,
        reader: VideoReader,
        writer: SegmentWriter,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> Progress:
        """Index one open video into one open segment, which the caller commits.

        Args:
            on_progress: called about four times a second, and once at the end.
        """
        one = _Pass(self, reader, writer, on_progress)
        one.run()
        return one.progress


class _Pass:
    """One video on its way into one segment."""

    def __init__(
        self,
        indexer: Indexer,
        reader: VideoReader,
        writer: SegmentWriter,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.progress = Progress()
        self._settings = indexer.settings
        self._proposer = indexer.proposer
        self._reader = reader
        self._on_progress = on_progress
        self._clock = FrameClock(1 / (reader.info.average_rate or 25.0))
        self._builder = SegmentBuilder(self._clock, indexer.settings.crops_per_track)
        self._frames = _FrameRows(writer)
        self._rows = _SegmentRows(writer, indexer.embedder, self.progress)
        info = reader.info
        factor = min(1.0, indexer.settings.proposal_side / max(info.width, info.height))
        self._small_size = max(1, round(info.width * factor)), max(1, round(info.height * factor))

    def run(self) -> None:
        batch: list[_Sample | _Hold] = []
        waiting = 0
        for event in self._events():
            batch.append(event)
            waiting += isinstance(event, _Sample)
            if waiting == PROPOSAL_BATCH or len(batch) >= 256:
                self._follow(batch)
                batch, waiting = [], 0
        self._follow(batch)
        for track in self._builder.finish():
            self._rows.add(track)
        self._rows.flush()
        self._frames.flush()
        if len(self._clock):
            self.progress.end_seconds = self._clock.seconds_at(len(self._clock))
        self._on_progress(self.progress)

    def _events(self) -> Iterator[_Sample | _Hold]:
        """Every sampled frame, gated; the frame rows are written on the way."""
        gate = ChangeGate()
        info = self._reader.info
        motion = MotionProposer(info.width, info.height, info.rotation)
        schedule = _Schedule(self._settings)
        shots = _ShotFinder()
        told = time.perf_counter()
        for frame in self._decoded():
            with self.progress.stage("gate"):
                luma = frame.luma()
                shots.add(frame.index, luma)
                event = self._gate(frame, luma, gate, motion, shots) if schedule.due(frame) else None
            if event is not None:
                self.progress.samples += 1
                self.progress.unchanged += isinstance(event, _Hold)
                yield event
            if time.perf_counter() - told > 0.25:
                told = time.perf_counter()
                self._on_progress(self.progress)

    def _decoded(self) -> Iterator[VideoFrame]:
        """The frames to look at; all frames' times go to the clock and the segment."""
        keyframes_only = self._settings.keyframes_only
        if keyframes_only:
            # Frames between keyframes are not decoded but can be asked for: a packet scan counts them.
            times = self._reader.times()
            for index, (pts, seconds) in enumerate(zip(times.pts, times.seconds, strict=True)):
                self._note_frame(index, int(pts), float(seconds))
        frames = self._reader.frames(keyframes_only=keyframes_only)
        while True:
            with self.progress.stage("decode"):
                frame = next(frames, None)
            if frame is None:
                return
            if not keyframes_only:
                self._note_frame(frame.index, frame.pts, frame.time_seconds)
            self.progress.time_seconds = frame.time_seconds
            yield frame

    def _note_frame(self, index: int, pts: int, time_seconds: float) -> None:
        self._clock.add(time_seconds)
        self._frames.add(index, pts, time_seconds)
        self.progress.frames += 1

    @staticmethod
    def _gate(
        frame: VideoFrame,
        luma: NDArray[np.uint8],
        gate: ChangeGate,
        motion: MotionProposer,
        shots: _ShotFinder,
    ) -> _Sample | _Hold:
        seen = gate.update(luma)
        cut_at = shots.first_frame() if seen.cut else None
        shots.clear()
        if cut_at is not None:
            motion.reset()
        moving = motion.update(luma)
        if not seen.changed:
            return _Hold(frame.index, frame.time_seconds)
        return _Sample(frame, moving, cut_at)

    def _follow(self, batch: list[_Sample | _Hold]) -> None:
        """Propose regions for all samples of a batch at once, then track them in order."""
        with self.progress.stage("propose"):
            pictures = [e.frame.rgb(*self._small_size) for e in batch if isinstance(e, _Sample)]
            proposed = iter(self._proposer.propose(pictures) if pictures else [])
        for event in batch:
            if isinstance(event, _Hold):
                self._builder.hold(event.frame, event.time_seconds)
                continue
            with self.progress.stage("track"):
                regions = self._merge(next(proposed), event.motion)
                finished = list(self._builder.cut(event.cut_at)) if event.cut_at is not None else []
                rgb = event.frame.rgb()
                finished += self._builder.sample(event.frame.index, event.frame.time_seconds, regions, rgb)
            for track in finished:
                self._rows.add(track)

    def _merge(self, detected: Regions, moving: Regions) -> Regions:
        """Detections, in pixels of the small picture, and motion together, in pixels of the video."""
        info = self._reader.info
        scaled = detected.scaled(info.width / self._small_size[0], info.height / self._small_size[1])
        both = Regions.concat([scaled, moving]).clipped(info.width, info.height, self._settings.min_side)
        return suppress(both, max_iou=0.6, limit=self._settings.max_regions)


class _Schedule:
    """Which frames are looked at: every so many, or the first at or after each tick of the rate."""

    def __init__(self, settings: IngestSettings) -> None:
        self._every = settings.every
        self._all = settings.keyframes_only
        self._interval = 1 / settings.samples_per_second
        self._next_seconds = 0.0

    def due(self, frame: VideoFrame) -> bool:
        if self._all:
            return True
        if self._every is not None:
            return frame.index % self._every == 0
        # Half a millisecond of grace: times are rounded to the container's time base.
        if frame.time_seconds < self._next_seconds - 5e-4:
            return False
        ticks = int((frame.time_seconds + 5e-4) / self._interval) + 1
        self._next_seconds = ticks * self._interval
        return True


class _ShotFinder:
    """Small pictures of the frames since the last sample, to find on which of them a shot change fell."""

    def __init__(self) -> None:
        self._frames: list[int] = []
        self._grids: list[NDArray[np.int16]] = []

    def add(self, frame: int, luma: NDArray[np.uint8]) -> None:
        self._frames.append(frame)
        self._grids.append(self._grid(luma))

    def clear(self) -> None:
        """The newest frame has been sampled: only it stays, to compare the next with."""
        self._frames = self._frames[-1:]
        self._grids = self._grids[-1:]

    def first_frame(self) -> int | None:
        """The frame that differs most from the one before it; None where the change came little by little.

        A camera that pans between two samples changes as much as a shot change does, but in many steps.
        """
        if len(self._grids) < 2:
            return self._frames[-1]
        steps = [_difference(a, b) for a, b in zip(self._grids, self._grids[1:], strict=False)]
        largest = int(np.argmax(steps))
        if steps[largest] < ONE_STEP * _difference(self._grids[0], self._grids[-1]):
            return None
        return self._frames[1 + largest]

    @staticmethod
    def _grid(luma: NDArray[np.uint8]) -> NDArray[np.int16]:
        step_y, step_x = max(1, luma.shape[0] // 18), max(1, luma.shape[1] // 32)
        return luma[::step_y, ::step_x].astype(np.int16)


def _difference(a: NDArray[np.int16], b: NDArray[np.int16]) -> float:
    """Mean difference of two small pictures; a change of the picture's size is the largest there is."""
    return float(np.abs(b - a).mean()) if a.shape == b.shape else np.inf


class _FrameRows:
    """Frame numbers and times on their way to the segment, a few thousand at a time."""

    def __init__(self, writer: SegmentWriter) -> None:
        self._writer = writer
        self._rows: list[tuple[int, int, float]] = []

    def add(self, frame: int, pts: int, time_seconds: float) -> None:
        self._rows.append((frame, pts, time_seconds))
        if len(self._rows) == 8192:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            index, pts, seconds = zip(*self._rows, strict=True)
            self._writer.add_frames(np.array(index), np.array(pts), np.array(seconds))
            self._rows.clear()


class _SegmentRows:
    """Finished tracks on their way to the segment, in batches that embed well."""

    def __init__(self, writer: SegmentWriter, embedder: Embedder, progress: Progress) -> None:
        self._writer = writer
        self._embedder = embedder
        self._progress = progress
        self._waiting: list[FinishedTrack] = []
        self._waiting_crops = 0
        self._next_crop = 1

    def add(self, track: FinishedTrack) -> None:
        self._waiting.append(track)
        self._waiting_crops += len(track.views)
        if self._waiting_crops >= EMBED_BATCH:
            self.flush()

    def flush(self) -> None:
        if not self._waiting:
            return
        tracks, self._waiting, self._waiting_crops = self._waiting, [], 0
        views = [view for track in tracks for view in track.views]
        owners = self._writer.pack([track.local_id for track in tracks for _ in track.views])
        crop_ids = self._writer.pack(np.arange(self._next_crop, self._next_crop + len(views)))
        self._next_crop += len(views)
        with self._progress.stage("crop"):
            jpegs = [encode_jpeg(v.picture) for v in views]
            # From the stored JPEG, not from the frame: what a later query computes must not differ.
            pictures = [decode_picture(jpeg) for jpeg in jpegs]
        with self._progress.stage("embed"):
            vectors = self._embedder.embed_all(pictures)  # (exits, B, dim)
        with self._progress.stage("write"):
            self._write_tracks(tracks)
            self._writer.add_crops(
                {
                    "crop_id": crop_ids,
                    "track_id": owners,
                    "frame": np.array([v.frame for v in views]),
                    "time": np.array([v.time_seconds for v in views]),
                    **_corners(np.stack([v.box_xyxy for v in views])),
                    "quality": np.array([v.quality for v in views], np.float32),
                    "jpeg": jpegs,
                }
            )
            for exit_number, at_exit in enumerate(vectors, start=1):
                self._writer.add_embeddings(self._embedder.hash, exit_number, crop_ids, owners, at_exit)
        self._progress.tracks += len(tracks)
        self._progress.crops += len(views)

    def _write_tracks(self, tracks: list[FinishedTrack]) -> None:
        ids = self._writer.pack([track.local_id for track in tracks])
        samples = np.array([len(track.frames) for track in tracks])
        self._writer.add_tracks(
            {
                "track_id": ids,
                "start_frame": np.array([t.start_frame for t in tracks]),
                "end_frame": np.array([t.end_frame for t in tracks]),
                "start_time": np.array([t.start_seconds for t in tracks]),
                "end_time": np.array([t.end_seconds for t in tracks]),
                "samples": samples,
            }
        )
        self._writer.add_boxes(
            {
                "track_id": np.repeat(ids, samples),
                "frame": np.concatenate([t.frames for t in tracks]),
                "time": np.concatenate([t.times for t in tracks]),
                **_corners(np.concatenate([t.boxes_xyxy for t in tracks])),
                "score": np.concatenate([t.scores for t in tracks]),
            }
        )


def _corners(boxes_xyxy: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    return {name: boxes_xyxy[:, i] for i, name in enumerate(("x1", "y1", "x2", "y2"))}
