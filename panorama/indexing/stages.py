"""Jobs enter, videos to be indexed; their tracks with crops and vectors leave, in parcels and in order."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from typing import Any

from panorama.crops import decode_picture, encode_jpeg
from panorama.errors import ModelError
from panorama.indexing.parcels import Batch, End, Job, Parcel, batched, guard
from panorama.indexing.pipeline import Line, Stage
from panorama.indexing.settings import IngestSettings, Work, check_depth
from panorama.models.base import Embedder, Proposer, network_facts
from panorama.regions import Regions, suppress
from panorama.tracking.sampling import Sample, Sampler, small_size
from panorama.tracking.segmenting import FinishedTrack, FrameSeconds, SegmentBuilder
from panorama.tracking.splitting import split_tracks
from panorama.video import PassedFrame, VideoFrame, VideoReader

PARCEL_FRAMES = 16
PARCEL_BYTES = 24 << 20
"""What decoding hands to the gate at once: enough to hide the handing over, few enough to be held."""

DECODED_AHEAD = 4
"""Parcels that wait for the gate: decoding goes on while the thread behind it is busy with another stage."""

CORES_TO_PART = 4
"""From so many cores on each stage has a thread of its own. On fewer, threads that hand the interpreter to
each other around calls of microseconds cost more than they gain; decoding hardly needs it and stays apart."""

KEPT_BYTES = 192 << 20
"""Of samples that wait until the proposer is loaded, so that decoding and the gate need not."""

LOOK_SECONDS = 0.05
"""How often who waits for a network to be loaded looks whether anybody still wants it."""


class Indexer:
    """The stages: decode, gate, propose, track, crop, embed.

    Args:
        embedder, proposer: the models.
        settings: what to look at.
        work: how the machine is used.

    Attributes:
        away_seconds: processor time by stage, outside of the threads of `line`.
    """

    def __init__(
        self, embedder: Embedder, proposer: Proposer, settings: IngestSettings, work: Work | None = None
    ) -> None:
        self.embedder = embedder
        self.proposer = settings.of(proposer)
        self.settings = settings
        self.work = work or Work()
        self.away_seconds: dict[str, float] = {}
        self._loading: dict[Proposer | Embedder, threading.Thread] = {}
        self._given_up = threading.Event()

    @property
    def settings_hash(self) -> str:
        """What segments are known by that it makes."""
        return self.settings.hash(self.proposer.hash)

    def looking(self, settings: IngestSettings) -> Indexer:
        """Itself where it looks so, else one that does, with the same networks and to the same depth."""
        settings = replace(settings, depth=self.settings.depth)
        return (
            self if settings == self.settings else Indexer(self.embedder, self.proposer, settings, self.work)
        )

    @property
    def depth(self) -> int:
        """How many exits crops are taken to.

        Raises:
            UsageError: more are asked for than there are.
        """
        check_depth(self.settings.depth, self.embedder)
        return self.settings.depth or self.embedder.exits

    def hold(self, held: bool) -> None:
        """Have networks that run elsewhere stand still, or go on."""
        self.proposer.hold(held)
        self.embedder.hold(held)

    @property
    def networks(self) -> dict[str, dict[str, str]]:
        """What the networks run in, by stage; for a model without one nothing. It loads them."""
        told = {"propose": network_facts(self.proposer), "embed": network_facts(self.embedder)}
        return {stage: facts for stage, facts in told.items() if facts is not None}

    def line(
        self, jobs: Iterable[Any], side_by_side: bool = True, wait: Callable[[], None] = lambda: None
    ) -> Line:
        """The stages in a row. Jobs leave as parcels; what else is among them is handed through in order."""
        together = self.work.threads.cores < CORES_TO_PART
        stages = (
            Stage("decode", self._decode),
            Stage("gate", self._gate, DECODED_AHEAD),
            Stage("propose", self._propose, joins=together),
            Stage("track", self._track, 2, joins=together),
            Stage("crop", self._crop, joins=together),
            Stage("embed", self._embed, 8, joins=together),
        )
        return Line(jobs, stages, side_by_side, wait, self._give_up)

    def _give_up(self) -> None:
        """Nothing that was begun is wanted any more, nor what is still being loaded."""
        self._given_up.set()
        self.proposer.give_up()
        self.embedder.give_up()

    def _away(self, stage: str, seconds: float) -> float:
        """Count what a stage's network spent outside of the stage's thread."""
        self.away_seconds[stage] = self.away_seconds.get(stage, 0.0) + seconds
        return seconds

    def _begin_loading(self) -> None:
        """Load the networks beside the first frames that are decoded; where nothing is to be done, never."""
        before = None
        for model in () if self._loading else (self.proposer, self.embedder):
            # Not a daemon: Python waits for it at its end, where half-loaded libraries crash.
            thread = threading.Thread(target=_load, args=(model, before), name=f"panorama {model.name}")
            self._loading[model] = before = thread
            thread.start()

    def _ready(self, parcels: Iterator[Any], model: Proposer | Embedder, batch: Batch) -> Iterator[Any]:
        """The parcels, once the model is loaded; until then some are kept, so that those before go on.

        Args:
            batch: tells what a parcel holds for the model. The first that holds anything waits; the time is
                told as a stage, 'load'.
        """
        kept: list[Any] = []
        held, needy = 0, None
        ready = False
        for parcel in parcels:
            kept.append(parcel)
            if not ready:
                more = batch.weight(parcel) if isinstance(parcel, Parcel) else 0
                held, needy = held + more, needy or (parcel if more else None)
                if self._is_loading(model) and held < KEPT_BYTES:
                    continue
                ready = self._wait_for(model, needy)
            yield from kept
            kept = []
        if not ready:
            self._wait_for(model, needy)
        yield from kept

    def _is_loading(self, model: Proposer | Embedder) -> bool:
        return model in self._loading and self._loading[model].is_alive()

    def _wait_for(self, model: Proposer | Embedder, parcel: Parcel | None) -> bool:
        """Wait for a model where there is a parcel that needs it."""
        if parcel is None:
            return False
        with parcel.job.progress.stage("load"):
            while self._is_loading(model) and not self._given_up.is_set():
                self._loading[model].join(LOOK_SECONDS)
            if self._given_up.is_set():
                raise ModelError("stopped waiting for the networks")
            model.load()
            model.use_threads(self.work.threads.apply().network)
        return True

    def _decode(self, jobs: Iterator[Any]) -> Generator[Any, None, None]:
        for job in jobs:
            if not isinstance(job, Job):
                yield job
                continue
            self._begin_loading()
            job.unneeded = self.settings.rate.of(job.reader.info).unneeded
            decoder = _Decoder(job, self.settings.keyframes_only)
            while not decoder.over and job.error is None:
                parcel = Parcel(job)
                with guard(parcel, "decode"):
                    decoder.fill(parcel)
                yield parcel
            yield Parcel(job, last=True)

    def _gate(self, parcels: Iterator[Any]) -> Generator[Any, None, None]:
        samplers: dict[Job, Sampler] = {}
        for parcel in parcels:
            if isinstance(parcel, Parcel):
                job, settings = parcel.job, self.settings
                with guard(parcel, "gate"):
                    if job not in samplers:
                        look = settings.rate.of(job.reader.info), settings.picture_side
                        samplers[job] = Sampler(job.reader.info, *look, job.unneeded, job.reader.again)
                    parcel.events = [e for frame in parcel.frames for e in samplers[job].look(frame)]
                    job.progress.samples += len(parcel.events)
                    job.progress.unchanged += len(parcel.events) - len(parcel.samples)
                    if parcel.last:
                        samplers[job].end()
                        parcel.ends = samplers[job].ends()
                        job.reader.check_reached()  # it was looked into again since it was decoded
                    parcel.cuts = samplers[job].cuts()
                parcel.frames = []
                if parcel.last:
                    samplers.pop(job, None)
                    job.reader.close()  # not before: it may be looked into again, for where a shot begins
            yield parcel

    def _propose(self, parcels: Iterator[Any]) -> Generator[Any, None, None]:
        def propose(some: list[Parcel]) -> End:
            later = self.proposer.propose_later([s.small for p in some for s in p.samples])

            def end() -> float:
                found = iter(later.result())
                for parcel in some:
                    parcel.regions = [next(found) for _ in parcel.samples]
                return self._away("propose", later.away_seconds)

            return end

        batch = Batch(self.work.proposal_batch, lambda p: len(p.samples), _sampled_bytes)
        yield from batched(self._ready(parcels, self.proposer, batch), "propose", propose, batch)

    def _track(self, parcels: Iterator[Any]) -> Generator[Any, None, None]:
        followers: dict[Job, _Follower] = {}
        for parcel in parcels:
            if isinstance(parcel, Parcel):
                job = parcel.job
                with guard(parcel, "track"):
                    if job not in followers:
                        followers[job] = _Follower(job.reader, self.settings)
                    followers[job].follow(parcel)
                parcel.events, parcel.regions = [], []
                if parcel.last:
                    followers.pop(job, None)
            yield parcel

    def _crop(self, parcels: Iterator[Any]) -> Generator[Any, None, None]:
        for parcel in parcels:
            if isinstance(parcel, Parcel):
                with guard(parcel, "crop"):
                    parcel.jpegs = [encode_jpeg(v.picture) for t in parcel.tracks for v in t.views]
                    # From the stored JPEG, not from the frame: what a later query computes must not differ.
                    parcel.pictures = [decode_picture(jpeg) for jpeg in parcel.jpegs]
            yield parcel

    def _embed(self, parcels: Iterator[Any]) -> Generator[Any, None, None]:
        cohort = self.embedder.cohort()[0]

        def embed(some: list[Parcel]) -> End:
            later = self.embedder.embed_to_later([x for p in some for x in p.pictures], self.depth)

            def end() -> float:
                vectors = later.result()  # (depth, B, dim)
                stop = 0
                for parcel in some:
                    start, stop = stop, stop + len(parcel.pictures)
                    parcel.vectors, parcel.pictures = vectors[:, start:stop], []
                    parcel.tracks = split_tracks(parcel.tracks, parcel.vectors[0], cohort)
                return self._away("embed", later.away_seconds)

            return end

        batch = Batch(self.work.embed_batch, lambda p: len(p.pictures), _picture_bytes)
        yield from batched(self._ready(parcels, self.embedder, batch), "embed", embed, batch)


def _load(model: Proposer | Embedder, before: threading.Thread | None) -> None:
    """Load a model after another, which is needed sooner."""
    if before is not None:
        before.join()
    with contextlib.suppress(Exception):  # the stage that needs the model meets it again
        model.load()


def _sampled_bytes(parcel: Parcel) -> int:
    """Of the pictures that the proposer waits for, and of the frames that crops will be cut from."""
    return sum(sample.small.nbytes + sample.frame.nbytes for sample in parcel.samples)


def _picture_bytes(parcel: Parcel) -> int:
    return sum(picture.nbytes for picture in parcel.pictures)


class _Decoder:
    """Fills parcels with the frames of one video."""

    def __init__(self, job: Job, keyframes_only: bool) -> None:
        self.over = False
        self._job = job
        self._keyframes_only = keyframes_only
        self._frames: Iterator[VideoFrame | PassedFrame] | None = None

    def fill(self, parcel: Parcel) -> None:
        """Decode the next frames; `over` where there are no more."""
        reader, progress = self._job.reader, self._job.progress
        if self._frames is None:
            if self._keyframes_only:
                # Frames between keyframes are not decoded but can be asked for: a packet scan counts them.
                times = reader.times()
                parcel.rows = list(
                    zip(range(len(times)), times.pts.tolist(), times.seconds.tolist(), strict=True)
                )
            unneeded = self._job.unneeded
            self._frames = (
                reader.frames(keyframes_only=self._keyframes_only)
                if unneeded is None
                else reader.frames_but(unneeded)
            )
        held = 0
        for frame in self._frames:
            parcel.frames.append(frame)
            held += frame.nbytes
            if len(parcel.frames) == PARCEL_FRAMES or held + frame.nbytes > PARCEL_BYTES:
                break
        else:
            self.over = True
        if not self._keyframes_only:
            parcel.rows = [(frame.index, frame.pts, frame.time_seconds) for frame in parcel.frames]
        # Before the next pass finds the drive back and less of the file than there is.
        reader.check_reached()
        progress.frames += len(parcel.rows)
        if parcel.frames:
            progress.time_seconds = parcel.frames[-1].time_seconds


class _Follower:
    """The tracks of one video."""

    def __init__(self, reader: VideoReader, settings: IngestSettings) -> None:
        info = reader.info
        self._settings = settings
        self._size = (info.width, info.height)
        small = small_size(info, settings.picture_side)
        self._scale = (info.width / small[0], info.height / small[1])
        self._seen_at = FrameSeconds(1 / (info.average_rate or 25.0))
        self._builder = SegmentBuilder(self._seen_at, settings.crops_per_track, self._size)

    def follow(self, parcel: Parcel) -> None:
        """Track what was proposed in a parcel's frames."""
        for _, _, seconds in parcel.rows:
            self._seen_at.add(seconds)
        regions = iter(parcel.regions)
        for event in parcel.events:
            if isinstance(event, Sample):
                if event.cut_at is not None:
                    parcel.tracks += self._builder.cut(event.cut_at)
                parcel.tracks += self._sample(event, next(regions))
            else:
                self._builder.hold(event.frame, event.time_seconds)
        if parcel.last and len(self._seen_at):
            parcel.tracks += self._builder.finish()
            parcel.job.progress.end_seconds = self._seen_at.seconds_at(len(self._seen_at))

    def _sample(self, sample: Sample, detected: Regions) -> Iterator[FinishedTrack]:
        """Detections, in pixels of the small picture, and motion together, in pixels of the video."""
        both = Regions.concat([detected.scaled(*self._scale), sample.motion])
        whole = both.clipped(*self._size, self._settings.min_side)
        limit = self._settings.max_regions * self._settings.zoom
        regions = suppress(whole, max_iou=0.6, limit=limit)
        yield from self._builder.sample(sample.frame, regions, sample.small)
