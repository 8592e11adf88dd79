"""What became of each file that was indexed; stored crops and examples enter, a model's vectors leave."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.crops import decode_picture
from panorama.errors import UnknownVideo, VideoError, VideoOpenError, near, unknown
from panorama.examples import embed_exemplars
from panorama.indexing.parcels import Progress
from panorama.indexing.stages import EMBED_BATCH
from panorama.lines import counted
from panorama.models.base import Embedder
from panorama.recording import RecordingReport, RecordingRule, apply_rule, bare_folders
from panorama.store import EmbeddingsWriter, Snapshot, Store
from panorama.store.schema import segment_of
from panorama.store.vectors import VectorTable
from panorama.video import (
    Found,
    FoundVideo,
    VideoReader,
    pictures_in,
)

INDEXED, SKIPPED, FAILED = "indexed", "skipped", "failed"

EMBEDDING = "embedding"
"""Name of the work that one process at a time does; see `panorama.store.claims`."""

KEPT_CROPS = 16_384
"""Stored crops that are embedded before their vectors are committed: what an interrupt may cost."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file.

    Attributes:
        path: the file as found.
        video: its name in the library, '' where it failed.
        status: 'indexed', 'skipped' (nothing had changed) or 'failed'.
        frames, tracks, crops: counts of the new segment.
        video_seconds, seconds: length of the video and time spent on it.
        stage_seconds: time at work on it by stage; stages work at the same time.
        line: of each stage since the file before was settled: seconds busy, starved (waiting for the stage
            before) and blocked (waiting for the one behind), and the mean length of its queue.
        paused_seconds: how long indexing stood back for queries.
        unchanged: sampled frames that the change gate passed over.
        networks: by stage, the model and the format and device it runs in, and why not in a faster one.
        note: what was lost, or why it failed or was skipped.
        damage: what could not be decoded of a file that the library holds, None where nothing was lost.
    """

    path: str
    video: str
    status: str
    frames: int = 0
    tracks: int = 0
    crops: int = 0
    samples: int = 0
    unchanged: int = 0
    video_seconds: float = 0.0
    seconds: float = 0.0
    # A notebook shows a report by its repr: what each stage did is a page for every file.
    stage_seconds: dict[str, float] = field(default_factory=dict, repr=False)
    line: dict[str, dict[str, float]] = field(default_factory=dict, repr=False)
    paused_seconds: float = 0.0
    networks: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    note: str | None = None
    damage: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; times are rounded to milliseconds."""
        out = asdict(self)
        out["stage_seconds"] = {name: round(value, 3) for name, value in self.stage_seconds.items()}
        out["line"] = {
            stage: {name: round(value, 3) for name, value in told.items()}
            for stage, told in self.line.items()
        }
        for name in ("video_seconds", "seconds", "paused_seconds"):
            out[name] = round(out[name], 3)
        return out


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What became of all paths.

    Attributes:
        files: one outcome per video found, in order; those that another process was at come last.
        ignored: files of unknown suffix in folders, counted by suffix.
        missing: paths and patterns that matched nothing.
        empty: folders that were named and hold no video.
        embedded: stored crops that got vectors of this model without decoding their video again.
        recording: what was found out about wall-clock times and cameras, None where nothing was asked.
    """

    files: tuple[FileOutcome, ...]
    ignored: dict[str, int]
    missing: tuple[str, ...]
    empty: tuple[str, ...] = ()
    embedded: int = 0
    recording: RecordingReport | None = None

    @classmethod
    def of_nothing(cls, found: Found) -> IndexReport:
        """Nothing was found to index."""
        unreadable = tuple(FileOutcome(path, "", FAILED, note=note) for path, note in found.unreadable)
        return cls(unreadable, found.ignored, tuple(found.missing), tuple(found.empty))

    def of(self, status: str) -> tuple[FileOutcome, ...]:
        """The outcomes with one status."""
        return tuple(f for f in self.files if f.status == status)

    @property
    def networks(self) -> dict[str, dict[str, str]]:
        """What the networks of what was indexed ran in; nothing where none ran."""
        return next((file.networks for file in self.files if file.networks), {})

    @property
    def complete(self) -> bool:
        """Whether every path gave a segment."""
        return not self.missing and not self.empty and not self.of(FAILED)


@dataclass(slots=True)
class Hooks:
    """What the caller wants to hear while indexing runs.

    Attributes:
        on_start: file number from 0, number of files, the file and what its container claims.
        on_progress: a few times a second for the file at work.
        on_file: each outcome, once the library holds it.
        on_wait: what is waited for, where another process is at the same work.
    """

    on_start: Callable[[int, int, FoundVideo, VideoReader], None] = lambda *_: None
    on_progress: Callable[[Progress], None] = lambda *_: None
    on_file: Callable[[FileOutcome], None] = lambda *_: None
    on_wait: Callable[[str], None] = lambda *_: None


def dating(store: Store, rule: RecordingRule, hooks: Hooks | None) -> Hooks:
    """The hooks; before a file is told, the library learns when and by which camera it was recorded."""
    told = hooks or Hooks()
    bare = bare_folders(store, rule)  # once: every file that is indexed now gets its camera at once

    def on_file(outcome: FileOutcome) -> None:
        if outcome.video:
            apply_rule(store, rule, {outcome.video}, bare=bare)
        told.on_file(outcome)

    return replace(told, on_file=on_file)


def names_of(videos: Sequence[str | Path] | str | Path, listed: pa.Table) -> list[str]:
    """The names in the library of one or several videos given by name or by path, each once.

    Args:
        listed: the columns video and uri of all videos.

    Raises:
        UnknownVideo: the library holds one of them not.
    """
    names = listed.column("video").to_pylist()
    by_uri = dict(zip(listed.column("uri").to_pylist(), names, strict=True))
    found: dict[str, None] = {}
    for given in [videos] if isinstance(videos, (str, os.PathLike)) else videos:
        video = os.fspath(given)
        name = video if video in names else by_uri.get(str(Path(video).resolve()))
        if name is None:
            raise UnknownVideo(unknown("video", video, names, "panorama videos"))
        found[name] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class Meant:
    """What one word on the command line means.

    Attributes:
        given: the word.
        names: of the videos that it means, at least one, as the library lists them.
        several: whether it is a folder or a pattern: nobody named these videos one by one.
    """

    given: str
    names: tuple[str, ...]
    several: bool


def meant(videos: Sequence[str], listed: pa.Table) -> list[Meant]:
    """What names, paths, folders and patterns mean, each the first of these that it can be.

    A folder means all below it. In a pattern `*`, `?` and `[a-z]` stay within one part, `**` is any number of
    folders, as where `index` is given one. Folders and patterns are tried on names, then on paths.

    Args:
        listed: the columns video and uri of all videos.

    Raises:
        UnknownVideo: one of them means no video.
    """
    names = listed.column("video").to_pylist()
    uris = listed.column("uri").to_pylist()
    known, by_uri = set(names), dict(zip(uris, names, strict=True))
    found = []
    for given in videos:
        name = given if given in known else by_uri.get(str(Path(given).resolve()))
        if name is not None:
            found.append(Meant(given, (name,), several=False))
            continue
        of_several = _of_several(given, names, uris) if given else ()
        if not of_several:
            raise UnknownVideo(_unmet(given, names))
        found.append(Meant(given, of_several, several=True))
    return found


def _of_several(given: str, names: Sequence[str], uris: Sequence[str]) -> tuple[str, ...]:
    """The names of the videos that a folder or a pattern means."""
    is_folder = not glob.has_magic(given) or given.endswith("/")
    below = ("**", "*") if is_folder else ()
    for pattern, texts in ((PurePath(given), names), (Path(given).resolve(), uris)):
        parts = (*pattern.parts, *below)
        fits = (_fits(PurePath(text).parts, parts) for text in texts)
        if fitting := tuple(name for name, does in zip(names, fits, strict=True) if does):
            return fitting
    return ()


def _fits(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether the parts of a path fit a pattern's."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_fits(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _fits(parts[1:], pattern[1:])


def _unmet(given: str, names: Sequence[str]) -> str:
    """The message for a name, folder or pattern that means no video."""
    if not glob.has_magic(given):
        folders = {f"{folder}/" for name in names for folder in PurePath(name).parents if folder.name}
        return unknown("video", given, [*names, *sorted(folders)], "panorama videos")
    deeper = f"**/{given}"
    if below := _of_several(deeper, names, names):
        many = counted(len(below), "video")
        return f"no video fits {given!r}: * stays within one folder; {deeper!r} means {many}"
    return f"no video fits {given!r}.{near(given, names)} See: panorama videos"


def file_of(video: str | Path, videos: Callable[[], pa.Table]) -> Path:
    """The file of a video given by path or by name.

    Args:
        videos: gives the columns video and uri of all videos of the library.

    Raises:
        VideoOpenError: there is neither such a file nor a video of that name.
    """
    if Path(video).exists():
        return Path(video)
    listed = videos()
    by_name = dict(zip(*(listed.column(name).to_pylist() for name in ("video", "uri")), strict=True))
    if str(video) not in by_name:
        like = near(str(video), by_name)
        raise VideoOpenError(
            f"there is no file {video}, and no video of that name.{like} See: panorama videos"
        )
    return Path(by_name[str(video)])


def missing(videos: pa.Table) -> list[bool]:
    """Of every video whether its file is not where it was indexed; answers need it no more, pictures do.

    Args:
        videos: with the column uri.
    """
    return [not Path(uri).exists() for uri in videos.column("uri").to_pylist()]


def replaced(videos: pa.Table) -> list[bool]:
    """Of every video whether its file is there and has another size than when it was indexed.

    Boxes drawn on its frames may then be of what is no more there.

    Args:
        videos: with the columns uri and size.
    """
    found = []
    for uri, size in zip(*(videos.column(name).to_pylist() for name in ("uri", "size")), strict=True):
        try:
            found.append(file_state(Path(uri))[0] != size)
        except VideoError:  # missing, or not to be read: told by itself
            found.append(False)
    return found


def file_state(path: Path) -> tuple[int, int]:
    """Size and time of change in ns of a file; of a folder of pictures, the sum and the latest of theirs.

    Raises:
        VideoError: it cannot be read, or is no file that ends (a pipe, a device).
    """
    try:
        if path.is_dir():
            # Pictures that are written over do not change their folder's own time.
            states = [picture.stat() for picture in pictures_in(path)]
            return sum(s.st_size for s in states), max((s.st_mtime_ns for s in states), default=0)
        state = path.stat()
    except OSError as exc:
        raise VideoError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    if not stat.S_ISREG(state.st_mode):
        raise VideoError(f"{path} is not a regular file; a video is a file or a folder of numbered pictures")
    return state.st_size, state.st_mtime_ns


def lost(reader: VideoReader) -> str | None:
    report = reader.report
    if report.complete:
        return None
    packets = counted(report.lost_packets, "packet")
    return f"partly damaged: {packets} lost; {'; '.join(report.errors)}".rstrip("; ")


def embed_missing(
    store: Store,
    embedder: Embedder,
    wait: Callable[[], None] = lambda: None,
    depth: int | None = None,
    hooks: Hooks | None = None,
) -> int:
    """Vectors of this model for all stored crops and examples without; one process at a time does that.

    Args:
        wait, depth: as for `embed_stored_crops`.

    Returns:
        how many crops got vectors.
    """
    told = hooks or Hooks()
    with (
        store.claims() as claims,
        claims.alone(EMBEDDING, lambda: told.on_wait("another process is embedding stored crops")),
    ):
        embedded = embed_stored_crops(store, embedder, wait, depth)
        embed_exemplars(store, embedder)
    return embedded


def embed_stored_crops(
    store: Store, embedder: Embedder, wait: Callable[[], None] = lambda: None, depth: int | None = None
) -> int:
    """Vectors of this model for crops that were stored without: from their JPEGs, no video is decoded.

    Args:
        wait: called before each batch: where work pauses for others.
        depth: the exits that all crops are to have; None for all.

    Returns:
        how many crops got vectors at one exit or more.
    """
    # By what is there, not by counts of rows: two processes may have taken the same crops deeper at once.
    snapshot = store.snapshot()
    exits = range(1, (depth or embedder.exits) + 1)
    there = {e: VectorTable.load(snapshot, embedder.hash, e).crop_ids for e in exits}
    lacking = {e: set(_short_of(snapshot, ids)) for e, ids in there.items()}
    segments = sorted(set().union(*lacking.values()))
    if not segments:
        return 0
    done = waiting = 0
    writers = _Writers(store, embedder.hash, [e for e, missing in lacking.items() if missing])
    try:
        for crops in store.read_crops(segments=np.array(segments), batch_size=EMBED_BATCH):
            need = {e: np.isin(segment_of(crops.crop_ids), list(lacking[e])) for e in writers.exits}
            need = {e: pick & ~np.isin(crops.crop_ids, there[e]) for e, pick in need.items()}
            some = np.logical_or.reduce(list(need.values()))
            if not some.any():
                continue
            wait()
            pictures = [decode_picture(crops.jpegs[row]) for row in np.flatnonzero(some)]
            vectors = embedder.embed_to(pictures, max(e for e, pick in need.items() if pick.any()))
            for exit_number, pick in need.items():
                if pick.any():
                    at_exit = vectors[exit_number - 1][pick[some]]
                    writers.add(exit_number, crops.crop_ids[pick], crops.track_ids[pick], at_exit)
            done, waiting = done + len(pictures), waiting + len(pictures)
            if waiting >= KEPT_CROPS:
                writers.commit()
                waiting = 0
        writers.commit()
    finally:
        writers.abort()
    return done


class _Writers:
    """Writers of vectors, one for each exit; a commit keeps what there is and begins anew."""

    def __init__(self, store: Store, model_hash: str, exits: Sequence[int]) -> None:
        self.exits = exits
        self._begin: Callable[[int], EmbeddingsWriter] = lambda exit: store.append_embeddings(
            model_hash, exit
        )
        self._writers: dict[int, EmbeddingsWriter] = {}

    def add(
        self,
        exit: int,
        crop_ids: NDArray[np.int64],
        track_ids: NDArray[np.int64],
        vectors: NDArray[np.float32],
    ) -> None:
        if exit not in self._writers:
            self._writers[exit] = self._begin(exit)
        self._writers[exit].add(crop_ids, track_ids, vectors)

    def commit(self) -> None:
        for writer in self._writers.values():
            writer.commit()
        self._writers = {}

    def abort(self) -> None:
        for writer in self._writers.values():
            writer.abort()


def _short_of(snapshot: Snapshot, crop_ids: NDArray[np.int64]) -> list[int]:
    """Live segments that have crops besides these."""
    crops = snapshot.crops()
    found = np.bincount(segment_of(crop_ids), minlength=int(crops.segments.max(initial=0)) + 1)
    return [int(s) for s in crops.segments[crops.rows > found[crops.segments]]]
