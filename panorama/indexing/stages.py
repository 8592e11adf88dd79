"""Videos to index come in as jobs; their tracks, crops and vectors go out as parcels, in order."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

from panorama.crops import decode_picture, encode_jpeg
from panorama.errors import ModelError
from panorama.indexing.parcels import Batch, End, Flush, Job, Parcel, batched, guard
from panorama.indexing.pipeline import Line, Stage
from panorama.indexing.rest import Rest
from panorama.indexing.settings import IngestSettings, Work, check_depth
from panorama.models.base import Embedder, Proposer, network_facts
from panorama.regions import Regions, suppress
from panorama.tracking.sampling import Break, Hold, Sample, Sampler, small_size
from panorama.tracking.segmenting import FinishedTrack, FrameSeconds, SegmentBuilder
from panorama.tracking.splitting import split_tracks
from panorama.video import PassedFrame, VideoFrame, VideoReader

PARCEL_FRAMES = 16
PARCEL_BYTES = 24 << 20
"""Most frames and bytes in a parcel: enough to make handing it over cheap, few enough to hold in memory."""

DECODED_AHEAD = 4
"""Parcels that may wait for the gate: decoding goes on while the next thread is busy with another stage."""

CORES_TO_PART = 4
"""With at least this many cores, each stage has its own thread. With fewer, threads that pass the interpreter
to each other around calls of microseconds cost more than they gain; only decoding, which hardly needs the
interpreter, has a thread apart from the others.
"""

KEPT_BYTES = 192 << 20
"""Samples kept while a network is loading, so that decoding and the gate need not wait."""

LOOK_SECONDS = 0.05
"""Interval at which a stage that waits for a network checks whether indexing was given up."""


class Indexer:
    """The stages of indexing: decode, gate, propose, track, crop, embed.

    Args:
        embedder, proposer: the models.
        settings: what to look at.
        work: how to use the computer.

    Attributes:
        away_seconds: processor time by stage outside of the threads of `line`.
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
        """Identifies the settings and proposer of the segments that it makes."""
        return self.settings.hash(self.proposer.hash)

    def looking(self, settings: IngestSettings) -> Indexer:
        """An indexer with these settings, the same networks and this depth; itself if nothing differs."""
        settings = replace(settings, depth=self.settings.depth)
        return (
            self if settings == self.settings else Indexer(self.embedder, self.proposer, settings, self.work)
        )

    @property
    def depth(self) -> int:
        """Number of exits at which crops are embedded.

        Raises:
            UsageError: the settings ask for more than the embedder has.
        """
        check_depth(self.settings.depth, self.embedder)
        return self.settings.depth or self.embedder.exits

    def hold(self, held: bool) -> None:
        """Pause networks that run in another process, or let them go on."""
        self.proposer.hold(held)
        self.embedder.hold(held)

    @property
    def networks(self) -> dict[str, dict[str, str]]:
        """Facts of the networks by stage; models without a network are left out. Loads the networks."""
        told = {"propose": network_facts(self.proposer), "embed": network_facts(self.embedder)}
        return {stage: facts for stage, facts in told.items() if facts is not None}

    def line(self, jobs: Iterable[Any], wait: Callable[[], None] = lambda: None) -> Line:
        """The stages in a row: turns jobs into parcels and passes other items through, in order.

        Args:
            wait: called often; returns when a pause ends, and at once if there is none.
        """
        rest = Rest(wait)
        together = self.work.threads.cores < CORES_TO_PART
        stages = (
            Stage("decode", partial(self._decode, rest=rest)),
            Stage("gate", partial(self._gate, rest=rest), DECODED_AHEAD),
            Stage("propose", self._propose, joins=together),
            Stage("track", partial(self._track, rest=rest), 2, joins=together),
            Stage("crop", partial(self._crop, rest=rest), joins=together),
            Stage("embed", self._embed, 8, joins=together),
        )
        return Line(jobs, stages, rest, self._give_up)

    def _give_up(self) -> None:
        """Abandon all work in progress in the networks, including loading them."""
        self._given_up.set()
        self.proposer.give_up()
        self.embedder.give_up()

    def _away(self, stage: str, seconds: float) -> float:
        """Add the processor time of a stage's network outside of the stage's thread; returns it."""
        self.away_seconds[stage] = self.away_seconds.get(stage, 0.0) + seconds
        return seconds

    def _begin_loading(self) -> None:
        """Start loading the networks in threads, once; not called if there is nothing to decode."""
        before = None
        for model in () if self._loading else (self.proposer, self.embedder):
            # Not a daemon: Python must wait for it before exiting, when half-loaded libraries crash.
            thread = threading.Thread(target=_load, args=(model, before), name=f"panorama {model.name}")
            self._loading[model] = before = thread
            thread.start()

    def _ready(self, parcels: Iterator[Any], model: Proposer | Embedder, batch: Batch) -> Iterator[Any]:
        """The parcels, once the model is loaded; keeps some until then, so that earlier stages can go on.

        At a Flush it waits for the model, too.

        Waits for the model only if some parcel needs it; counts the time as stage 'load'.

        Args:
            batch: gives the bytes that a parcel holds for the model, up to KEPT_BYTES in all.
        """
        kept: list[Any] = []
        held, needy = 0, None
        ready = False
        for parcel in parcels:
            kept.append(parcel)
            if not ready:
                more = batch.weight(parcel) if isinstance(parcel, Parcel) else 0
                held, needy = held + more, needy or (parcel if more else None)
                if self._is_loading(model) and held < KEPT_BYTES and not isinstance(parcel, Flush):
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
        """Wait for a model if a parcel needs it; returns whether it is loaded.

        Raises:
            ModelError: indexing was given up, or the network cannot be loaded.
        """
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

    def _decode(self, jobs: Iterator[Any], rest: Rest) -> Generator[Any, None, None]:
        for job in jobs:
            if not isinstance(job, Job):
                yield job
                continue
            self._begin_loading()
            job.unneeded = self.settings.rate.of(job.reader.info).unneeded
            decoder = _Decoder(job, self.settings.keyframes_only)
            while not decoder.over and job.error is None:
                parcel = Parcel(job)
                with guard(parcel, "decode", rest.clock):
                    decoder.fill(parcel, rest)
                yield parcel
            yield Parcel(job, last=True)

    def _gate(self, parcels: Iterator[Any], rest: Rest) -> Generator[Any, None, None]:
        samplers: dict[Job, Sampler] = {}
        for parcel in parcels:
            if isinstance(parcel, Parcel):
                job, settings = parcel.job, self.settings
                with guard(parcel, "gate", rest.clock):
                    if job not in samplers:
                        look = settings.rate.of(job.reader.info), settings.picture_side
                        samplers[job] = Sampler(job.reader.info, *look, job.unneeded, job.reader.again)
                    for frame in parcel.frames:
                        parcel.events += samplers[job].look(frame)
                        rest()
                    if parcel.last:
                        parcel.events += samplers[job].end()
                    unchanged = sum(isinstance(event, Hold) for event in parcel.events)
                    job.progress.samples += len(parcel.samples) + unchanged
                    job.progress.unchanged += unchanged
                    if parcel.last:
                        parcel.ends = samplers[job].ends()
                        job.reader.check_reached()  # the sampler may have read the file again
                    parcel.cuts = samplers[job].cuts()
                parcel.frames = []
                if parcel.last:
                    samplers.pop(job, None)
                    job.reader.close()  # not earlier: the sampler may read it again to find a shot's start
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

    def _track(self, parcels: Iterator[Any], rest: Rest) -> Generator[Any, None, None]:
        followers: dict[Job, _Follower] = {}
        for parcel in parcels:
            if isinstance(parcel, Parcel):
                job = parcel.job
                with guard(parcel, "track", rest.clock):
                    if job not in followers:
                        followers[job] = _Follower(job.reader, self.settings)
                    followers[job].follow(parcel, rest)
                parcel.events, parcel.regions = [], []
                if parcel.last:
                    followers.pop(job, None)
            yield parcel

    def _crop(self, parcels: Iterator[Any], rest: Rest) -> Generator[Any, None, None]:
        for parcel in parcels:
            if isinstance(parcel, Parcel):
                with guard(parcel, "crop", rest.clock):
                    for view in (view for track in parcel.tracks for view in track.views):
                        jpeg = encode_jpeg(view.picture)
                        parcel.jpegs.append(jpeg)
                        # Of the stored JPEG, not the frame, so that a later query computes the same vectors.
                        parcel.pictures.append(decode_picture(jpeg))
                        rest()
            yield parcel

    def _embed(self, parcels: Iterator[Any]) -> Generator[Any, None, None]:
        # Without grey strangers: with them, grey tracks are split where they show one thing.
        cohort = self.embedder.cohorts()[0].without_grey()

        def embed(some: list[Parcel]) -> End:
            later = self.embedder.embed_to_later([x for p in some for x in p.pictures], self.depth)

            def end() -> float:
                vectors = later.result()  # (depth, B, dim)
                ends = accumulate((len(parcel.pictures) for parcel in some), initial=0)
                own = [vectors[:, start:stop] for start, stop in pairwise(ends)]
                split = [split_tracks(p.tracks, v[0], cohort) for p, v in zip(some, own, strict=True)]
                # Only now: if one of them fails, the step is repeated and needs the pictures of all.
                for parcel, at_exits, tracks in zip(some, own, split, strict=True):
                    parcel.vectors, parcel.tracks, parcel.pictures = at_exits, tracks, []
                return self._away("embed", later.away_seconds)

            return end

        batch = Batch(self.work.embed_batch, lambda p: len(p.pictures), _picture_bytes)
        yield from batched(self._ready(parcels, self.embedder, batch), "embed", embed, batch)


def _load(model: Proposer | Embedder, before: threading.Thread | None) -> None:
    """Load a model, after the one of thread `before`, which is needed sooner; None for none."""
    if before is not None:
        before.join()
    with contextlib.suppress(Exception):  # the stage that needs the model gets the same error
        model.load()


def _sampled_bytes(parcel: Parcel) -> int:
    """Bytes of the pictures for the proposer, and of the frames from which crops will be cut."""
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

    def fill(self, parcel: Parcel, rest: Rest) -> None:
        """Decode the next frames into a parcel, with a rest after each; sets `over` if there are no more."""
        reader, progress = self._job.reader, self._job.progress
        if self._frames is None:
            if self._keyframes_only:
                # Frames between keyframes are not decoded but queries may return them: scan the packets.
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
            rest()
            held += frame.nbytes
            if len(parcel.frames) == PARCEL_FRAMES or held + frame.nbytes > PARCEL_BYTES:
                break
        else:
            self.over = True
        if not self._keyframes_only:
            parcel.rows = [(frame.index, frame.pts, frame.time_seconds) for frame in parcel.frames]
        # Check now: in a later pass the drive may be back, and this part would be taken as complete.
        reader.check_reached()
        progress.frames += len(parcel.rows)
        progress.all_read = self.over
        if parcel.frames:
            progress.time_seconds = parcel.frames[-1].time_seconds


class _Follower:
    """Builds the tracks of one video."""

    def __init__(self, reader: VideoReader, settings: IngestSettings) -> None:
        info = reader.info
        self._settings = settings
        self._size = (info.width, info.height)
        small = small_size(info, settings.picture_side)
        self._scale = (info.width / small[0], info.height / small[1])
        self._seen_at = FrameSeconds(1 / (info.average_rate or 25.0))
        self._builder = SegmentBuilder(
            self._seen_at, settings.crops_per_track, self._size, settings.keyframes_only
        )

    def follow(self, parcel: Parcel, rest: Rest) -> None:
        """Track the regions of a parcel's frames; adds the tracks that ended to the parcel.

        Args:
            rest: called after each frame.
        """
        for _, _, seconds in parcel.rows:
            self._seen_at.add(seconds)
        regions = iter(parcel.regions)
        for event in parcel.events:
            if isinstance(event, Sample):
                if event.cut_at is not None:
                    parcel.tracks += self._builder.cut(event.cut_at)
                parcel.tracks += self._sample(event, next(regions))
            elif isinstance(event, Break):
                parcel.tracks += self._builder.cut(event.frame)
            else:
                self._builder.hold(event.frame, event.time_seconds)
            rest()
        if parcel.last and len(self._seen_at):
            parcel.tracks += self._builder.finish()
            parcel.job.progress.end_seconds = self._seen_at.seconds_at(len(self._seen_at))

    def _sample(self, sample: Sample, detected: Regions) -> Iterator[FinishedTrack]:
        """Track the detections and moving regions of one sample.

        Args:
            detected: in pixels of the small picture.
        """
        both = Regions.concat([detected.scaled(*self._scale), sample.motion])
        whole = both.clipped(*self._size, self._settings.min_side)
        limit = self._settings.max_regions * self._settings.zoom
        regions = suppress(whole, max_iou=0.6, limit=limit)
        yield from self._builder.sample(sample.frame, regions, sample.small)
