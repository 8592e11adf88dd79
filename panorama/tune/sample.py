"""Videos come in; short stretches of a few of them go out, and what indexing these really costs and finds."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.album.given_pictures import Picture
from panorama.album.recurring import LEAST_SIDE, MOST_OF_FRAME, VIEWS
from panorama.album.registering import exemplars
from panorama.answering.answerer import Answering
from panorama.crops import decode_picture
from panorama.errors import UsageError, VideoError
from panorama.indexing.parcels import Job, Parcel
from panorama.indexing.rows import SegmentRows
from panorama.indexing.stages import Indexer
from panorama.judging.evaluate import ENTITY_FRAMES, RANKED_FRAMES, average_precision
from panorama.lines import counted
from panorama.models.base import Embedder, Image
from panorama.query.handed.relations import Limits
from panorama.store import ModelRow, NewExemplar, Reviewed, Store, VideoRow
from panorama.store.files.schema import BEST_FIRST
from panorama.tracking.sampling import small_size
from panorama.tune.choice import Timed
from panorama.tune.reviewed import Mark, Review, moments_together, start_around
from panorama.video import Found, FoundVideo, StretchReader, VideoFrame, check_name, open_video

MOST_FILES = 4
"""Number of files sampled, evenly spread over those found."""

SCANNED_BYTES = 1 << 30
"""To start in the middle of a file, its packets are read once; larger files are sampled at the beginning."""

LEAST_SECONDS = 2
"""Shortest sample. In a shorter one, the lowest rate samples once and loses nothing against other rates."""

AFTER_SECONDS = 1.0
"""A stretch goes on for this long after its last reviewed answer: the lowest rate looks once more by then."""

MOST_SHARES = 2
"""A stretch may take this many times its share of the sample to get from a keyframe to its answers."""

PICTURES = 16
"""Frames kept to time the networks on."""

EXAMPLES = 12
"""Things found by the densest run that every other run is asked for."""

# The best view of each track: first things that move, then those longest in sight.
_EXAMPLES = f"""{VIEWS.format(order=BEST_FIRST)}
SELECT crop_id FROM views WHERE place = 1 AND share <= {MOST_OF_FRAME} AND side >= {LEAST_SIDE}
ORDER BY motion DESC, end_time - start_time DESC, crop_id LIMIT ?
"""

Frame = tuple[str, int]
"""A video and a frame number."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a library of the sample answers about some entities.

    Attributes:
        found: by entity, the frames in which it was accepted.
        scores: by entity, the best score of every frame that has any.
        otherwise: share of reviewed answers that it contradicts; None if there are too few.
    """

    found: Mapping[str, frozenset[Frame]]
    scores: Mapping[str, Mapping[Frame, float]]
    otherwise: float | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some seconds of one video.

    Attributes:
        name: in the scratch library.
        path: of the video.
        start_seconds, seconds: start, at a keyframe, and length.
        first_frame: number of the first frame in the video.
        marks: reviewed answers in it.
    """

    name: str
    path: Path
    start_seconds: float
    seconds: float
    first_frame: int = 0
    marks: tuple[Mark, ...] = ()

    @property
    def end_seconds(self) -> float:
        """The end in the video, exclusive."""
        return self.start_seconds + self.seconds

    def overlaps(self, other: Stretch) -> bool:
        """Whether both have frames in common."""
        apart = other.end_seconds <= self.start_seconds or self.end_seconds <= other.start_seconds
        return self.path == other.path and not apart

    def open(self, threads: int) -> StretchReader:
        """A reader of this stretch alone."""
        return StretchReader(open_video(self.path, threads=threads), self.start_seconds, self.seconds)


def choose_stretches(
    found: Found, seconds: float, said: Mapping[Path, Sequence[Reviewed]] | None = None
) -> tuple[list[Stretch], list[str]]:
    """Choose stretches of `seconds` in total from some of the videos; also returns why others cannot be read.

    Decoding begins at a keyframe, so where these are far apart, stretches with reviewed answers are longer.

    Args:
        said: reviewed answers by file. Stretches with most of these come first, several from one file if it
            has several such places; other files contribute their middle.

    Raises:
        VideoError: no video was found, or none of those tried can be read.
    """
    if not found.videos:
        named = ", ".join([*found.missing, *found.empty, *(why for _, why in found.unreadable)])
        raise VideoError(f"no video to try settings on: {named or 'nothing was named'}")
    said = said or {}
    groups = moments_together(said, seconds / MOST_FILES, MOST_FILES)
    by_path = {video.path: video for video in found.videos}
    plain = [video for video in _spread(found.videos) if video.path not in {path for path, _ in groups}]
    asked: list[tuple[FoundVideo, list[float]]] = [(by_path[path], moments) for path, moments in groups]
    asked += [(video, []) for video in plain]
    wanted = min(MOST_FILES, len(asked))
    stretches: list[Stretch] = []
    unread: list[str] = []
    for place, (video, moments) in enumerate(asked):
        if place - len(unread) == wanted or len(unread) >= 2 * MOST_FILES:
            break
        try:
            stretches = _joined(stretches, _stretch(video, seconds / wanted, moments))
        except VideoError as exc:
            unread.append(str(exc))
    if not stretches:
        raise VideoError(f"none of the videos can be read: {unread[0]}")
    stretches = _lengthened(stretches, seconds)
    stretches = [replace(one, name=f"{number}-{one.path.name}") for number, one in enumerate(stretches)]
    stretches = [replace(one, marks=_marks(one, said.get(one.path, ()))) for one in stretches]
    return stretches, [*(why for _, why in found.unreadable), *unread]


def _spread(videos: Sequence[FoundVideo]) -> list[FoundVideo]:
    """Some evenly spread videos first, then the others."""
    count = min(MOST_FILES, len(videos))
    first = [int((i + 0.5) * len(videos) / count) for i in range(count)]
    return [videos[i] for i in first] + [video for i, video in enumerate(videos) if i not in first]


def _stretch(video: FoundVideo, share: float, moments: Sequence[float]) -> Stretch:
    """A stretch around some moments, or in the middle; `share` seconds long, or longer to reach moments."""
    for path in (video.path, video.path.resolve()):
        check_name(path)
    with open_video(video.path, threads=1) as reader:
        next(iter(reader.frames()))  # a video that opens may still fail to decode
        duration = reader.info.duration_seconds
        small = video.path.is_dir() or video.path.stat().st_size <= SCANNED_BYTES
        ends = [min(moment + AFTER_SECONDS, duration or np.inf) for moment in moments]
        starts = [0.0]
        if duration is not None and small:
            starts = [max(0.0, (duration - share) / 2)]
            if moments:
                starts = [start_around(moments, share, duration), min(moments)]
        # In the middle of the stretch if it reaches all moments from the keyframe before; else it begins at
        # the last keyframe that it can.
        for start in starts:
            stretch = StretchReader(reader, start, share)
            if all(end <= stretch.start_seconds + share for end in ends):
                break
        reader.check_reached()
    lengths = [end - stretch.start_seconds for end in ends]
    length = max([share, *(length for length in lengths if length <= MOST_SHARES * share)])
    return Stretch("", video.path, stretch.start_seconds, length, stretch.first_frame)


def _joined(stretches: Sequence[Stretch], new: Stretch) -> list[Stretch]:
    """The stretches and one more; those with frames in common become one."""
    for old in stretches:
        if old.overlaps(new):
            first = min(old, new, key=lambda one: one.start_seconds)
            length = max(old.end_seconds, new.end_seconds) - first.start_seconds
            others = [one for one in stretches if one is not old]
            return _joined(others, replace(first, seconds=length))
    return [*stretches, new]


def _lengthened(stretches: Sequence[Stretch], seconds: float) -> list[Stretch]:
    """The stretches, made longer until they are `seconds` in total, none into the next one of its file."""
    missing = max(0.0, seconds - sum(one.seconds for one in stretches))
    longer = []
    for one in stretches:
        later = [other.start_seconds for other in stretches if other.path == one.path and other is not one]
        stop = min([start for start in later if start >= one.end_seconds], default=np.inf)
        more = min(missing, stop - one.end_seconds)
        missing -= more
        longer.append(replace(one, seconds=one.seconds + more))
    return longer


def _marks(stretch: Stretch, said: Sequence[Reviewed]) -> tuple[Mark, ...]:
    """The reviewed answers that lie in the stretch, with frames counted from its first."""
    first = stretch.first_frame
    inside = [one for one in said if one.frame >= first and one.seconds < stretch.end_seconds]
    return tuple(Mark(stretch.name, one.frame - first, one) for one in inside)


def videos_of(stretches: Sequence[Stretch]) -> str:
    """Number of videos that some stretches are from."""
    return counted(len({stretch.path for stretch in stretches}), "video")


@dataclass(frozen=True, slots=True)
class Decoded:
    """The cost of reading the sample.

    Attributes:
        video_seconds, wall_seconds, frames: of all stretches.
        processor_seconds: of all decoding threads; steadier than wall time on a busy computer.
        pictures: a few whole frames as displayed, (H, W, 3), no larger than the proposer sees.
    """

    video_seconds: float
    wall_seconds: float
    processor_seconds: float
    frames: int
    pictures: tuple[Image, ...] = field(repr=False)


def decode_sample(stretches: Sequence[Stretch], threads: int, side: int) -> Decoded:
    """Read every stretch once, and do nothing else with it.

    Raises:
        VideoError: a stretch has no frame that can be decoded.
        UsageError: the sample is too short for rates to differ.
    """
    frames, video_seconds, wall, processor = 0, 0.0, 0.0, 0.0
    pictures: list[Image] = []
    for stretch in stretches:
        with stretch.open(threads) as reader:
            started, worked = time.perf_counter(), time.process_time()
            last = None
            kept: list[VideoFrame] = []
            for frame in reader.frames():
                last = frame
                if frame.index % 10 == 0 and len(kept) < max(1, PICTURES // len(stretches)):
                    kept.append(frame)
            wall += time.perf_counter() - started
            processor += time.process_time() - worked
            if last is None:
                raise VideoError(f"{stretch.path}: no frame could be decoded")
            reader.check_reached()
            frames += last.index + 1
            video_seconds += last.time_seconds + 1 / (reader.info.average_rate or 25.0)
            pictures += [frame.rgb(*small_size(reader.info, side)) for frame in kept]
    if round(video_seconds) < LEAST_SECONDS:  # round, since stretches end with whole frames
        raise UsageError(
            f"the sample is {video_seconds:.2g} s of video, too short to judge settings by, so they stay as"
            f" they are; name at least {LEAST_SECONDS} s of footage, better a minute with some action"
        )
    return Decoded(video_seconds, wall, processor, frames, tuple(pictures))


@dataclass(frozen=True, slots=True)
class Scratch:
    """A small library of the sample, indexed with some settings."""

    store: Store
    embedder: Embedder
    timed: Timed

    def examples(self) -> list[NDArray[np.uint8]]:
        """Pictures of things that were found here."""
        asked = Answering(self.store, lambda: self.embedder)
        try:
            ids = [row[0] for row in _rows(asked, _EXAMPLES, EXAMPLES)]
        finally:
            asked.forget()
        found: dict[int, bytes] = {}
        if ids:
            for batch in self.store.read_crops(crop_ids=np.array(ids, np.int64)):
                found.update(zip(batch.crop_ids.tolist(), batch.jpegs, strict=True))
        return [decode_picture(found[crop_id]) for crop_id in ids]

    def answers(self, album: Mapping[str, Sequence[NewExemplar]], review: Review | None = None) -> Answers:
        """Register an album here; the frames in which each of its entities is found, and how certainly.

        Args:
            review: also measure how many of these answers this library contradicts.
        """
        registered = {**album, **(review.album if review else {})}
        if registered:
            self.store.add_album(registered)
        for name in review.categories if review else ():
            self.store.set_category(name, True)
        asked = Answering(self.store, lambda: self.embedder)
        try:
            found = {name: _rows(asked, ENTITY_FRAMES, name) for name in album}
            ranked = {name: _rows(asked, RANKED_FRAMES, name) for name in album}
            otherwise = review.otherwise(asked) if review else None
        finally:
            asked.forget()
        return Answers(
            {name: frozenset((row[0], row[1]) for row in rows) for name, rows in found.items()},
            {name: {(video, frame): s for video, frame, s in rows} for name, rows in ranked.items()},
            otherwise,
        )


def _rows(asked: Answering, sql: str, value: str | int) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in asked.query(sql, [value], None, Limits()).fetchall()]


def album_of(pictures: Sequence[NDArray[np.uint8]], embedder: Embedder) -> dict[str, list[NewExemplar]]:
    """An entity for each picture."""
    ready = exemplars([Picture(rgb, f"example {i}") for i, rgb in enumerate(pictures)], embedder)
    return {f"thing-{number}": [exemplar] for number, exemplar in enumerate(ready)}


def loss_between(dense: Answers, other: Answers) -> float:
    """How much the other answers lose compared with the dense ones.

    It is 1 - average precision, averaged over the entities that the dense answers find, or, if larger, the
    share of reviewed answers that the other ones contradict beyond those that the dense ones contradict too.
    Reviewed answers alone would miss things that only closer looking finds, because each was found once
    already.

    The frames that the dense answers accept are the truth; the other answers rank frames. Their accepted
    frames are not compared with the dense ones, since a frame near the threshold falls to one side or the
    other by chance.

    Raises:
        UsageError: the dense answers hold nothing to compare with.
    """
    losses = []
    for name, truth in dense.found.items():
        if truth:
            frames = sorted(truth | other.scores[name].keys())
            scores = np.array([other.scores[name].get(frame, -1.0) for frame in frames])
            losses.append(1 - average_precision(scores, np.array([f in truth for f in frames])))
    if not losses:
        raise UsageError(
            "nothing was found in the sample that could be tracked and found again, so settings cannot be "
            "judged and stay as they are; name footage in which something happens, or try --seconds 300"
        )
    beyond = (other.otherwise or 0.0) - (dense.otherwise or 0.0)
    return max(float(np.mean(losses)), beyond)


@dataclass(slots=True)
class _Counts:
    """Sums over the parcels of a run."""

    wall_seconds: float = 0.0
    video_seconds: float = 0.0
    totals: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("frames", "samples", "unchanged", "boxes", "tracks", "crops"), 0
        )
    )
    written_seconds: float = 0.0
    views: list[int] = field(default_factory=list)

    def take(self, parcel: Parcel) -> None:
        samples = [len(track.frames) for track in parcel.tracks]
        self.views += samples
        self.totals["boxes"] += sum(samples)

    def end(self, job: Job) -> None:
        progress = job.progress
        for name in ("frames", "samples", "unchanged", "tracks", "crops"):
            self.totals[name] += getattr(progress, name)
        self.video_seconds += progress.end_seconds
        self.written_seconds += progress.stage_seconds["write"]


def index_sample(
    place: Path, stretches: Sequence[Stretch], indexer: Indexer, kept: Mapping[str, Any]
) -> Scratch:
    """Index every stretch into a new library, as `index` would, with its settings and threads.

    The times of stages include their own threads and the networks' processes; of the decoding threads they
    include only the one that passes frames on.

    Args:
        kept: settings for the new library to keep, by key: the bands of the one that is tuned.

    Raises:
        VideoError: a stretch cannot be read.
    """
    threads = indexer.work.threads.apply()
    store = Store.create(place)
    embedder = indexer.embedder
    store.put_model(ModelRow(embedder.hash, embedder.name, "embedder", embedder.dim, embedder.exits))
    store.change_settings(lambda _: kept)
    counts = _Counts()
    started = time.perf_counter()

    def jobs() -> Iterator[Job]:
        for stretch in stretches:
            yield Job(stretch.open(threads.decode), stretch)

    line = indexer.line(jobs())
    rows = None
    with closing(iter(line)) as parcels:
        for parcel in parcels:
            job = parcel.job
            if job.error is not None:
                raise VideoError(f"{job.note.path} cannot be tried: {job.error}") from job.error
            if rows is None:
                writer = store.begin_segment(_key(job.note), indexer.settings.hash(indexer.proposer.hash))
                rows = SegmentRows(writer, embedder.hash, job.progress)
            counts.take(parcel)
            rows.add(parcel)
            if parcel.last:
                with job.progress.stage("write"):
                    writer.commit(_row(job))
                rows = None
                counts.end(job)
    wall = time.perf_counter() - started
    away = indexer.away_seconds
    stages = {meter.name: meter.processor + away.get(meter.name, 0.0) for meter in line.meters}
    stages["write"] = counts.written_seconds
    timed = Timed(indexer.settings, counts.video_seconds, wall, stages, counts.totals, tuple(counts.views))
    return Scratch(store, embedder, timed)


def _key(stretch: Stretch) -> str:
    return hashlib.sha256(f"{stretch.name} {stretch.start_seconds}".encode()).hexdigest()


def _row(job: Job) -> VideoRow:
    info, stretch = job.reader.info, job.note
    return VideoRow(
        name=stretch.name,
        uri=f"{stretch.path}#{stretch.name}",
        root=str(stretch.path.parent),
        content_hash=_key(stretch),
        size=0,
        mtime_ns=0,
        width=info.width,
        height=info.height,
        duration=job.progress.end_seconds,
        frames=job.progress.frames,
    )
