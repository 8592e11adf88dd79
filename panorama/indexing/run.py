"""Found videos enter; each is committed, skipped or failed, in order; an account of all leaves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from panorama.errors import VideoError
from panorama.indexing.outcomes import (
    FAILED,
    INDEXED,
    OWN_CLIP,
    SKIPPED,
    UNCHANGED,
    FileOutcome,
    Hooks,
    IndexReport,
    forgotten,
)
from panorama.indexing.parcels import DEFECTS, Job, Parcel
from panorama.indexing.pipeline import Line
from panorama.indexing.renames import follow_renames, row_of
from panorama.indexing.rows import SegmentRows
from panorama.indexing.settings import Kept
from panorama.indexing.stages import Indexer
from panorama.indexing.stored_crops import embed_missing, unread_examples
from panorama.lines import composed, counted
from panorama.models.base import Embedder
from panorama.recording import BY_HAND
from panorama.store import Claims, KnownFile, PauseGate, Recorded, SegmentWriter, Store, VideoRow
from panorama.threads import products_alone
from panorama.video import (
    Found,
    FoundVideo,
    VideoReader,
    check_name,
    content_hash,
    content_sample,
    file_state,
    goes_on,
    open_video,
)
from panorama.video.own_clips import is_own_clip

TELL_SECONDS = 0.25
UPKEEP = "upkeep"
"""Name of the work that one process at a time does; see `panorama.store.claims`."""
KNOWN_CONTENT = "the same content is indexed already"
COMPACT_FILES = 64
"""`index` merges the files of a table when there are so many small ones."""


@dataclass(frozen=True, slots=True)
class _Ticket:
    """What is known of a file before it is decoded, and when work on it began."""

    number: int
    video: FoundVideo
    row: VideoRow
    started: float


@dataclass(frozen=True, slots=True)
class _Copy:
    """A file whose content the library holds, or will hold when what is before it in the line is done.

    Attributes:
        held: whether the library held it when it was asked.
    """

    ticket: _Ticket
    settings_hash: str
    held: bool


def index_paths(
    store: Store,
    indexer: Indexer,
    found: Found,
    hooks: Hooks | None = None,
    side_by_side: bool = True,
    kept: Kept | None = None,
) -> IndexReport:
    """Index what `find_videos` found; each video is committed when it and those before it are done.

    An interrupt keeps the videos committed before it and leaves no trace of those at work.

    Args:
        side_by_side: a thread for each stage; the segments are the same, byte for byte, without.
        kept: which videos stay as they are; None for those of the indexer's settings alone.
    """
    hooks = hooks or Hooks()
    nothing = IndexReport.of_nothing(found)
    for outcome in nothing.files:
        hooks.on_file(outcome)
    with (
        closing(store.marks()) as marks,
        PauseGate(marks, hold=indexer.hold) as gate,
        store.claims() as claims,
        indexer.work.threads.lent(),
        products_alone(),
    ):
        run = _Run(store, indexer, found, hooks, gate, claims, kept or Kept())
        embed = partial(embed_missing, store, indexer.embedder, gate.wait, indexer.depth, hooks)
        # First what needs no decoding: until then no question finds what is stored.
        embedded = embed() if len(store.snapshot().unembedded(indexer.embedder.hash)) else 0
        outcomes = run.run(side_by_side)
        embedded += embed()
    files, told = (*nothing.files, *outcomes), unread_examples(store, indexer.embedder)
    told = (*nothing.warnings, *_clip_remarks(outcomes), *told, *forgotten(store, run.by_hand))
    return replace(nothing, files=files, embedded=embedded, warnings=told)


def _clip_remarks(outcomes: Sequence[FileOutcome]) -> tuple[str, ...]:
    """One line about the clips of Panorama's own that were found in folders: hits are no footage."""
    clips = [outcome.path for outcome in outcomes if outcome.note == OWN_CLIP]
    if not clips:
        return ()
    which = f"{clips[0]}{', ...' if clips[1:] else ''}"
    many = counted(len(clips), "clip that Panorama wrote was", "clips that Panorama wrote were")
    return (f"{many} passed over, {which}: to index one, name the file itself",)


def finish(store: Store, embedder: Embedder, hooks: Hooks | None = None) -> None:
    """What ends an indexing: merge small files, and make what queries read; it stands back for them, too."""
    from panorama.source import SnapshotVectors

    told = hooks or Hooks()
    with (
        store.claims() as claims,
        claims.alone(UPKEEP, lambda: told.on_wait("another process is making the library ready for queries")),
        closing(store.marks()) as marks,
        PauseGate(marks) as gate,
    ):
        store.compact(least_files=COMPACT_FILES, wait=gate.wait)
        # Large libraries search through an index: made here, so that no query has to wait for it.
        snapshot = store.snapshot()
        SnapshotVectors(store, snapshot, embedder).prepare(gate.wait)
        store.drop_outdated(snapshot)


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """A file whose content another process was at, and the claim that it had; or which is looked at again."""

    number: int
    video: FoundVideo
    claim: str


class _Run:
    """One call of `index_paths`."""

    def __init__(
        self,
        store: Store,
        indexer: Indexer,
        found: Found,
        hooks: Hooks,
        gate: PauseGate,
        claims: Claims,
        kept: Kept,
    ) -> None:
        self._store = store
        self._found = found
        self._hooks = hooks
        self._gate = gate
        self._claims = claims
        self._kept = kept
        self._threads = indexer.work.threads
        self._by(indexer)
        by = {settings: indexer.looking(settings) for settings in kept.anew.values()}
        self._anew = {former: by[settings] for former, settings in kept.anew.items()}
        self._later: dict[Indexer, list[tuple[int, FoundVideo]]] = {}
        self._outcomes: list[FileOutcome] = []
        self._settled = time.perf_counter()
        self._told = self._settled
        self._line: Line | None = None
        self._before: dict[str, tuple[float, float, float]] = {}
        self._paused_before = 0.0
        self._writer: SegmentWriter | None = None
        self._rows: SegmentRows | None = None
        self._under_way: set[str] = set()
        self._lost = store.lost_contents()
        self._elsewhere: list[_Elsewhere] = []
        self._moved: frozenset[str] = frozenset()
        self.by_hand: dict[str, Recorded] = {}

    def run(self, side_by_side: bool) -> list[FileOutcome]:
        """Everything, in the order in which it was found.

        What other processes were at comes last, and behind it what has settings of its own.
        """
        self._moved = follow_renames(self._store, self._found)
        self._tell_anew()
        self._rounds(list(enumerate(self._found.videos)), side_by_side)
        while self._later:
            indexer, left = self._later.popitem()
            self._by(indexer)
            self._rounds(left, side_by_side)
        return self._outcomes

    def _by(self, indexer: Indexer) -> None:
        """Index with these settings from now on."""
        self._indexer, self._settings_hash = indexer, indexer.settings_hash

    def _tell_anew(self) -> None:
        """Say how many of the files an earlier version indexed otherwise."""
        if not self._anew:
            return
        uris = {str(video.path.resolve()) for video in self._found.videos}
        looks = [file.settings_hash for uri, file in self._store.known_files().items() if uri in uris]
        by = [self._anew[look] for look in looks if look in self._anew]
        if by:
            self._hooks.on_anew(len(by), sum(indexer is not self._indexer for indexer in by))

    def _rounds(self, left: list[tuple[int, FoundVideo]], side_by_side: bool) -> None:
        while left:
            self._pass(left, side_by_side)
            left = [(one.number, one.video) for one in self._elsewhere]
            # Nothing is claimed here now, so that nobody waits for us.
            self._claims.wait_for([one.claim for one in self._elsewhere], self._tell_of_others)

    def _pass(self, files: list[tuple[int, FoundVideo]], side_by_side: bool) -> None:
        self._elsewhere, self._before = [], {}
        self._line = self._indexer.line(self._entries(files), side_by_side, self._gate.wait)
        try:
            with closing(iter(self._line)) as items:
                for item in items:
                    self._gate.wait()
                    self._take(item)
        finally:
            self._abort()

    def _tell_of_others(self) -> None:
        self._hooks.on_wait(f"another process is indexing {len(self._elsewhere)} of these videos")

    # In the thread of the first stage

    def _entries(self, files: list[tuple[int, FoundVideo]]) -> Iterator[Job | _Copy | FileOutcome]:
        """What is to be done about each file."""
        for number, video in files:
            started = time.perf_counter()
            try:
                entry = self._entry(number, video, started)
            except (VideoError, *DEFECTS) as exc:
                yield _failed(video, exc)
            else:
                if isinstance(entry, _Elsewhere):
                    self._elsewhere.append(entry)
                elif isinstance(entry, Indexer):
                    self._later.setdefault(entry, []).append((number, video))
                else:
                    yield entry

    def _entry(
        self, number: int, video: FoundVideo, started: float
    ) -> Job | _Copy | FileOutcome | _Elsewhere | Indexer:
        own = video.path.resolve()
        check_name(own)
        uri = str(own)
        state = file_state(video.path)
        known = self._store.known_file(uri)
        sample = content_sample(video.path)
        if known is not None and self._is_unchanged(known, state, sample):
            older = _is_older(known, video)
            deeper = self._indexer.settings.keyframes_only and known.settings_hash != self._settings_hash
            if deeper or self._kept.holds(known.settings_hash, self._settings_hash, older):
                note = KNOWN_CONTENT if uri in self._moved else UNCHANGED
                if deeper:
                    note = "indexed already; --quick replaces nothing"
                elif known.settings_hash != self._settings_hash:
                    note = f"{note} with other settings; --redo indexes it with those of now"
                elif older:
                    note = f"{note} by an earlier version; --redo indexes it with this one"
                if composed(video.name).endswith(f"/{known.name}"):
                    # Questions about the folder, as video LIKE 'gate/%', would miss it.
                    note = f"{note}; it keeps that name, and is not called {composed(video.name)}"
                return FileOutcome(str(video.path), known.name, SKIPPED, note=note, damage=known.decode_note)
            if (other := self._other(known)) is not None:
                return other
        if known is None and not video.named and is_own_clip(video.path):
            return FileOutcome(str(video.path), "", SKIPPED, note=OWN_CLIP)
        row = row_of(video, state, sample, content_hash(video.path))
        if known is not None and known.content_hash != row.content_hash:
            row = self._going_on(row, video, known)
        if (other := self._other(self._store.known_content(row.content_hash))) is not None:
            return other
        ticket = _Ticket(number, video, row, started)
        if row.content_hash in self._under_way:
            return _Copy(ticket, self._settings_hash, held=False)
        if not self._claims.take(row.content_hash):
            return _Elsewhere(number, video, row.content_hash)
        # Asked for only now: who had the claim before may have committed it.
        held, reader = self._held(row.content_hash, video), None
        try:
            if held is not None:
                return _Copy(ticket, held, held=True)
            reader = open_video(video.path, threads=self._threads.decode)
        finally:
            if reader is None:
                self._claims.drop(row.content_hash)
        self._under_way.add(row.content_hash)
        return Job(reader, ticket)

    def _is_unchanged(self, known: KnownFile, state: tuple[int, int], sample: str | None) -> bool:
        """Whether a file is the one that was indexed, and its rows are there."""
        # Of what was indexed before samples were taken, size and time have to do.
        same = known.content_sample in (None, sample)
        return same and known.has_state(state) and known.content_hash not in self._lost

    def _going_on(self, row: VideoRow, video: FoundVideo, known: KnownFile) -> VideoRow:
        """The row of a file that holds something else, whose time holds where that is more of the same."""
        for before in self._store.recorded([known.name]):
            if before.recorded.time_from is None:
                continue
            if goes_on(video.path, known.size, known.content_hash):
                row = replace(row, continues=known.content_hash)
            elif before.recorded.time_from == BY_HAND:
                self.by_hand[known.name] = before.recorded
        return row

    def _other(self, known: KnownFile | None) -> Indexer | None:
        """Who indexes a content anew that an earlier version indexed, where it is not the one at work."""
        other = self._indexer if known is None else self._anew.get(known.settings_hash, self._indexer)
        return None if other is self._indexer else other

    def _held(self, content: str, video: FoundVideo) -> str | None:
        """The settings under which the library holds a content, where there is nothing to do about it."""
        if content in self._lost:
            # Another process may have made its rows anew since, or have erased the file that was missed.
            self._lost = self._store.lost_contents()
        if content in self._lost:
            return None
        known = self._store.known_content(content)
        if known is None:
            return None
        stays = self._indexer.settings.keyframes_only  # a quick look replaces nothing
        older = _is_older(known, video)
        stays = stays or self._kept.holds(known.settings_hash, self._settings_hash, older)
        return known.settings_hash if stays else None

    # In the caller's thread

    def _take(self, item: Parcel | _Copy | FileOutcome) -> None:
        if isinstance(item, FileOutcome):
            self._settle(item, item.seconds)
        elif isinstance(item, _Copy):
            outcome = self._attach(item)
            if outcome is not None:
                self._settle(outcome, self._since(item.ticket))
        else:
            self._write(item)

    def _attach(self, copy: _Copy) -> FileOutcome | None:
        """List a copy; None where it is to be looked at again."""
        ticket, path = copy.ticket, str(copy.ticket.video.path)
        name = self._store.attach_video(ticket.row, copy.settings_hash)
        if name is None and copy.held:
            # The only file that held this content has another by now, as one before it in the line.
            self._elsewhere.append(_Elsewhere(ticket.number, ticket.video, ticket.row.content_hash))
            return None
        if name is None:
            note = f"{path} has the same content as a file before it, which gave nothing"
            return FileOutcome(path, "", FAILED, note=note)
        return FileOutcome(path, name, SKIPPED, note=KNOWN_CONTENT)

    def _write(self, parcel: Parcel) -> None:
        job, ticket = parcel.job, parcel.job.note
        if self._rows is None and job.error is None:
            self._hooks.on_start(ticket.number, len(self._found.videos), ticket.video, job.reader)
            self._writer = self._store.begin_segment(
                content_hash=ticket.row.content_hash, settings_hash=self._settings_hash
            )
            pictures = job.reader.pictures
            self._rows = SegmentRows(self._writer, self._indexer.embedder.hash, job.progress, pictures)
        if self._rows is not None and job.error is None:
            self._rows.add(parcel)
            self._tell(job)
        if parcel.last:
            outcome = self._finish(job, ticket)
            self._claims.drop(ticket.row.content_hash)
            self._settle(outcome, self._since(ticket))

    def _tell(self, job: Job) -> None:
        now = time.perf_counter()
        if now - self._told > TELL_SECONDS:
            self._told = now
            self._hooks.on_progress(job.progress.copy())

    def _finish(self, job: Job, ticket: _Ticket) -> FileOutcome:
        """Commit the video whose last parcel has come, or say why it gives nothing."""
        progress, damage = job.progress, _reservations(job.reader)
        if job.error is None and not progress.frames:
            job.error = VideoError(
                f"{job.reader.info.path}: no frame could be decoded; {damage or 'it is empty'}"
            )
        if job.error is not None or self._writer is None:
            self._abort()
            return _failed(ticket.video, job.error or VideoError(f"{ticket.video.path} was not read"))
        self._hooks.on_progress(progress.copy())
        row = replace(
            ticket.row,
            width=job.reader.info.width,
            height=job.reader.info.height,
            duration=progress.end_seconds,
            frames=progress.frames,
            decode_note=damage,
        )
        with progress.stage("write"):
            name = self._writer.commit(row)
        self._writer, self._rows = None, None
        return FileOutcome(
            job.reader.info.path,
            name,
            INDEXED,
            frames=progress.frames,
            tracks=progress.tracks,
            crops=progress.crops,
            samples=progress.samples,
            unchanged=progress.unchanged,
            video_seconds=progress.end_seconds,
            stage_seconds=dict(progress.stage_seconds),
            networks=self._indexer.networks,
            note=damage,
            damage=damage,
        )

    def _since(self, ticket: _Ticket) -> float:
        """Seconds for one file: the next one's decoding begins before this one is written."""
        return time.perf_counter() - max(ticket.started, self._settled)

    def _settle(self, outcome: FileOutcome, seconds: float) -> None:
        outcome = replace(
            outcome, seconds=seconds, line=self._line_since(), paused_seconds=self._paused_since()
        )
        self._settled = time.perf_counter()
        self._outcomes.append(outcome)
        self._hooks.on_file(outcome)

    def _line_since(self) -> dict[str, dict[str, float]]:
        """What each stage did since the last file was settled."""
        if self._line is None:
            return {}
        told = {}
        for meter in self._line.meters:
            now = (meter.busy, meter.starved, meter.blocked)
            before = self._before.get(meter.name, (0.0, 0.0, 0.0))
            busy, starved, blocked = (a - b for a, b in zip(now, before, strict=True))
            told[meter.name] = {"busy": busy, "starved": starved, "blocked": blocked, "queue": meter.depth}
            self._before[meter.name] = now
        return told

    def _paused_since(self) -> float:
        before, self._paused_before = self._paused_before, self._gate.paused_seconds
        return self._paused_before - before

    def _abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()
        self._writer, self._rows = None, None


def _is_older(known: KnownFile, video: FoundVideo) -> bool:
    """Whether an earlier version indexed a file, that kept less of it."""
    return known.is_older or (video.path.is_dir() and not known.names_pictures)


def _reservations(reader: VideoReader) -> str | None:
    """What of a video was not decoded, or had to be assumed, in words; None where nothing was."""
    report, info = reader.report, reader.info
    part = "picture" if info.is_pictures else "packet"
    packets = [f"{counted(report.lost_packets, part)} lost"] if report.lost_packets else []
    told = [f"partly damaged: {'; '.join((*packets, *report.errors))}"] if not report.complete else []
    if report.fitted:
        told.append(
            f"{counted(report.fitted, 'picture has', 'pictures have')} another size and"
            f" {'was' if report.fitted == 1 else 'were'} fitted into {info.width}x{info.height}"
        )
    if info.streams > 1:
        told.append(f"one of {info.streams} video streams was read; ffmpeg -map takes the others out")
    if info.assumed_rate:
        told.append(
            f"it stores no times, {info.average_rate:g} frames a second were assumed; "
            "ffmpeg -framerate N -i ... -c copy makes a file of another rate"
        )
    return "; ".join(told) or None


def _failed(video: FoundVideo, error: Exception) -> FileOutcome:
    note = str(error)
    if not isinstance(error, VideoError):
        # A defect of ours that one odd file brings out must not cost the user all the others.
        kind = type(error).__name__
        note = f"{video.path}: unexpected {kind}: {error}. This is a defect; please report it"
    return FileOutcome(str(video.path), "", FAILED, note=note)
