"""Found videos come in; each is committed, skipped or failed, in order; a report of all goes out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial

from panorama import waits
from panorama.errors import PanoramaError, VideoError
from panorama.indexing.changed_folders import LostTime, former_names, lost_places, moved, places_of
from panorama.indexing.intake import Copy, Elsewhere, Intake, Ticket
from panorama.indexing.outcomes import (
    FAILED,
    INDEXED,
    SKIPPED,
    FileOutcome,
    Hooks,
    IndexReport,
    Reason,
    failed,
    forgotten,
    removed,
)
from panorama.indexing.overwritten import Overwritten
from panorama.indexing.parcels import Flush, Job, Parcel
from panorama.indexing.pipeline import Line
from panorama.indexing.publishing import Finished, Publisher
from panorama.indexing.renames import follow_renames, known_of
from panorama.indexing.rows import SegmentRows
from panorama.indexing.settings import Kept
from panorama.indexing.stages import Indexer
from panorama.indexing.stored_crops import embed_missing, unread_examples
from panorama.lines import counted, one_line
from panorama.models.base import Embedder
from panorama.stopping import uninterrupted
from panorama.store import Claims, PauseGate, SegmentWriter, Store, VideoRow
from panorama.threads import products_alone
from panorama.video import (
    Found,
    FoundVideo,
    VideoReader,
)

TELL_SECONDS = 0.25
UPKEEP = "upkeep"
"""Name of work that only one process at a time does; see `panorama.store.claims`."""
COMPACT_FILES = 64
"""`index` merges the files of a table if it has at least this many small ones."""


def index_paths(
    store: Store,
    indexer: Indexer,
    found: Found,
    hooks: Hooks | None = None,
    kept: Kept | None = None,
    on_commit: Callable[[Sequence[str]], None] = lambda _: None,
) -> IndexReport:
    """Index what `find_videos` found; a video is committed when it and those before it are done.

    An interrupt keeps the videos committed so far and leaves no trace of unfinished ones.

    Args:
        kept: which videos stay as they are; None for only those with the indexer's settings.
        on_commit: called with the names of videos once the library holds them, before hooks are.
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
        waits.told_to(hooks.on_wait),
    ):
        run = _Run(store, indexer, found, hooks, gate, claims, kept or Kept(), on_commit)
        embed = partial(embed_missing, store, indexer.embedder, gate.wait, indexer.depth)
        damaged: list[PanoramaError] = []
        # First embed stored crops, which needs no decoding: until then no query finds them.
        embedded = 0
        if len(store.snapshot().unembedded(indexer.embedder.hash)):
            embedded = embed(on_damage=damaged.append)
        outcomes = run.run()
        damaged.clear()  # the run may have made some of these crops again; tell what is left
        embedded += embed(on_damage=damaged.append)
    files, told = (*nothing.files, *outcomes), unread_examples(store, indexer.embedder)
    told = (*nothing.warnings, *_clip_remarks(outcomes), *told, *forgotten(store, run.by_hand))
    told += (*lost_places(run.lost_places), *run.overwritten.remarks())
    lost = tuple(str(error) for error in damaged)
    return replace(nothing, files=files, embedded=embedded, warnings=told, damaged=lost)


def _clip_remarks(outcomes: Sequence[FileOutcome]) -> tuple[str, ...]:
    """One line about Panorama's own clips that were found in folders and skipped; none if there are none."""
    clips = [outcome.path for outcome in outcomes if outcome.reason is Reason.OWN_CLIP]
    if not clips:
        return ()
    which = f"{clips[0]}{', ...' if clips[1:] else ''}"
    many = counted(len(clips), "clip that Panorama wrote was", "clips that Panorama wrote were")
    return (f"{many} skipped: {which}; to index one, name the file itself",)


def finish(store: Store, embedder: Embedder, hooks: Hooks | None = None) -> None:
    """Finish indexing: merge small data files and prepare what queries read; pauses while queries run."""
    from panorama.answering.source import SnapshotVectors

    with (
        store.claims() as claims,
        waits.told_to(hooks.on_wait if hooks else None),
        claims.alone(UPKEEP, "another process is making the library ready for queries"),
        closing(store.marks()) as marks,
        PauseGate(marks) as gate,
    ):
        store.compact(least_files=COMPACT_FILES, wait=gate.wait)
        # Large libraries are searched through an index; build it here, so that no query waits for it.
        SnapshotVectors(store, store.snapshot(), embedder).prepare(gate.wait)


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
        on_commit: Callable[[Sequence[str]], None],
    ) -> None:
        self._store = store
        self._committed = on_commit
        self._found = found
        self._hooks = hooks
        self._gate = gate
        self._claims = claims
        self._indexer = indexer
        others = {**kept.partial, **kept.anew}
        by = {settings: indexer.looking(settings) for settings in others.values()}
        self._anew = {former: by[settings] for former, settings in kept.anew.items()}
        looks = {look: by[of] for look, of in others.items()}
        self._intake = Intake(store, claims, kept, looks, indexer, self._rest)
        self._changed: set[str] = set()  # contents whose first file changed before it was decoded
        self._outcomes: list[FileOutcome] = []
        self._settled = time.perf_counter()
        self._told = self._settled
        self._line: Line | None = None
        self._before: dict[str, tuple[float, float, float]] = {}
        self._paused_before = 0.0
        self._writer: SegmentWriter | None = None
        self._rows: SegmentRows | None = None
        self._publisher = Publisher(gate, claims)
        self.lost_places: dict[str, int] = {}
        self.overwritten = Overwritten(store)

    @property
    def by_hand(self) -> Mapping[str, LostTime]:
        """By name, the recording times set by hand of videos whose files now hold something else."""
        return self._intake.by_hand

    def run(self) -> list[FileOutcome]:
        """Index everything in the order found.

        Files on which other processes were working come later, and after these the files that are indexed
        again with other settings.
        """
        self._intake.moved = follow_renames(self._store, self._found)
        self._tell_anew()
        self._rounds(list(enumerate(self._found.videos)))
        while self._intake.later:
            self._indexer, left = self._intake.later.popitem()
            self._intake.by(self._indexer)
            self._rounds(left)
        return self._outcomes

    def _tell_anew(self) -> None:
        """Report how many files are indexed again because an earlier version or proposer indexed them."""
        if not self._anew:
            return
        looks = [file.settings_hash for file in known_of(self._found, self._store.known_files())]
        by = [self._anew[look] for look in looks if look in self._anew]
        if by:
            self._hooks.on_anew(len(by), sum(indexer is not self._indexer for indexer in by))

    def _rounds(self, left: list[tuple[int, FoundVideo]]) -> None:
        while left:
            self._pass(left)
            left = [(one.number, one.video) for one in self._intake.elsewhere]
            # This process holds no claim now, so no process waits for it in turn.
            others = f"another process is indexing {len(self._intake.elsewhere)} of these videos"
            self._claims.wait_for([one.claim for one in self._intake.elsewhere], others)

    def _pass(self, files: list[tuple[int, FoundVideo]]) -> None:
        self._before = {}
        self._line = self._indexer.line(self._intake.begin(files), self._gate.wait)
        try:
            with closing(iter(self._line)) as items:
                for item in items:
                    self._gate.wait()
                    if not isinstance(item, Parcel):
                        self._publish()  # outcomes are told in order, and a copy needs what it is a copy of
                    self._take(item)
                    if self._publisher.is_due():
                        self._publish()
        finally:
            self._end()

    def _rest(self) -> None:
        """Let queries go first while a file is read to be hashed, and end that if the line is stopped."""
        if self._line is not None:
            self._line.rest()

    def _publish(self) -> None:
        """Commit what is finished, and tell."""
        outcomes: list[FileOutcome] = []
        try:
            with uninterrupted():
                outcomes = self._publisher.publish()
        finally:  # after an interrupt, too: what is told is what is in the library
            self._told_of(outcomes)

    def _end(self) -> None:
        """Withdraw what is unfinished and commit what is finished; an interrupt or an error may have come."""
        outcomes, error = list[FileOutcome](), None
        try:
            with uninterrupted():
                try:
                    self._abort()  # first: on a full disk it makes room
                finally:
                    outcomes, error = self._publisher.end()
        finally:
            self._told_of(outcomes)
        if error is not None:
            raise error

    def _take(self, item: Parcel | Copy | FileOutcome | Flush) -> None:
        if isinstance(item, FileOutcome):
            self._settle(item, item.seconds)
        elif isinstance(item, Copy):
            outcome = self._attach(item)
            if outcome is not None:
                self._settle(outcome, self._since(item.ticket))
        elif isinstance(item, Parcel):
            self._write(item)

    def _attach(self, copy: Copy) -> FileOutcome | None:
        """Add the file of a copy to the library; None if it must be examined again."""
        ticket, path = copy.ticket, str(copy.ticket.video.path)
        row = ticket.row
        self._note_time(ticket)
        if row.was is not None and (known := self._store.known_content(row.content_hash)) is not None:
            row = self._with_moved(ticket, places_of(former_names(self._store, known)))
        self.overwritten.add(ticket.was, ticket.mark.is_folder)
        former = self._store.moved_from(row)
        name = self._store.attach_video(row, copy.settings_hash)
        if name is None and row.is_known and self._store.known_file(row.uri) is None:
            return removed(path)
        if name is None and row.content_hash in self._publisher.removed:
            self._intake.gave_nothing(row.content_hash)
            self._intake.again(copy)
            return None
        if name is None and copy.held:
            # The only file with this content has changed meanwhile, for example one before it in the line.
            self._intake.elsewhere.append(Elsewhere(ticket.number, ticket.video, ticket.row.content_hash))
            return None
        if name is None and ticket.row.content_hash in self._changed:
            self._intake.again(copy)
            return None
        if name is None:
            note = f"{path} has the same content as an earlier file, which could not be indexed"
            return FileOutcome(path, "", FAILED, note=note)
        note = copy.note if former is None else f"{copy.note}; it is {one_line(former)}, which was moved"
        return FileOutcome(path, name, SKIPPED, note=note, reason=Reason.KNOWN_CONTENT)

    def _write(self, parcel: Parcel) -> None:
        job, ticket = parcel.job, parcel.job.note
        if self._rows is None and job.error is None:
            self._hooks.on_start(ticket.number, len(self._found.videos), ticket.video, job.reader)
            with uninterrupted():
                self._writer = self._store.begin_segment(
                    content_hash=ticket.row.content_hash, settings_hash=self._indexer.settings_hash
                )
            pictures = job.reader.pictures
            self._rows = SegmentRows(self._writer, self._indexer.embedder.hash, job.progress, pictures)
        if self._rows is not None and job.error is None:
            self._rows.add(parcel)
            self._tell(job)
        if parcel.last:
            self._finish(job, ticket)

    def _tell(self, job: Job) -> None:
        now = time.perf_counter()
        if now - self._told > TELL_SECONDS:
            self._told = now
            self._hooks.on_progress(job.progress.copy())

    def _finish(self, job: Job, ticket: Ticket) -> None:
        """Complete the video whose last parcel has come, for the next commit; or settle why it failed."""
        progress, damage = job.progress, _reservations(job.reader)
        if job.error is None and not progress.frames:
            job.error = VideoError(
                f"{job.reader.info.path}: no frame could be decoded; {damage or 'it is empty'}"
            )
        if job.error is None:
            try:
                ticket.check_same(is_decoded=True)
            except VideoError as exc:
                job.error = exc
                self._changed.add(ticket.row.content_hash)
        if job.error is not None or self._writer is None:
            error = job.error or VideoError(f"{ticket.video.path} was not read")
            outcome = self._timed(failed(ticket.video, error), self._since(ticket))
            self._abort()
            self._claims.drop(ticket.row.content_hash)
            if ticket.row.content_hash in self._changed:
                self._intake.gave_nothing(ticket.row.content_hash)  # not before the claim is free
            self._publish()
            self._told_of([outcome])
            return
        self._hooks.on_progress(progress.copy())
        self._note_time(ticket)
        self.overwritten.add(ticket.was, ticket.mark.is_folder)
        row = replace(
            self._with_moved(ticket, {} if self._rows is None else self._rows.at),
            width=job.reader.info.width,
            height=job.reader.info.height,
            duration=progress.end_seconds,
            frames=progress.frames,
            decode_note=damage,
        )
        with uninterrupted():
            with progress.stage("write"):
                self._writer.finish()
            outcome = FileOutcome(
                job.reader.info.path,
                "",
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
            outcome = self._timed(outcome, self._since(ticket))
            self._publisher.add(Finished(self._writer, row, outcome))
            self._writer, self._rows = None, None

    def _with_moved(self, ticket: Ticket, now: Mapping[str, tuple[int, float]]) -> VideoRow:
        """The row with the pictures that a folder had before and has still.

        Args:
            now: frame and seconds of its pictures, by name.
        """
        if ticket.was is None or ticket.row.was is None:
            return ticket.row
        found = moved(self._store, ticket.was, ticket.video.path, now)
        self.lost_places[ticket.was.name] = found.lost
        return replace(ticket.row, moved=found.pictures)

    def _note_time(self, ticket: Ticket) -> None:
        """Look again for a time set by hand that will not hold: it may have come since the first look."""
        if ticket.was is not None:
            self._intake.note_time(ticket.was, ticket.mark)

    def _since(self, ticket: Ticket) -> float:
        """Seconds spent on a file, since its work began or the previous file was settled, if later."""
        return time.perf_counter() - max(ticket.started, self._settled)

    def _settle(self, outcome: FileOutcome, seconds: float) -> None:
        self._told_of([self._timed(outcome, seconds)])

    def _timed(self, outcome: FileOutcome, seconds: float) -> FileOutcome:
        self._settled = time.perf_counter()
        return replace(outcome, seconds=seconds, line=self._line_since(), paused_seconds=self._paused_since())

    def _told_of(self, outcomes: Sequence[FileOutcome]) -> None:
        self._outcomes += outcomes
        self._committed([outcome.video for outcome in outcomes if outcome.video])
        for outcome in outcomes:
            self._hooks.on_file(outcome)

    def _line_since(self) -> dict[str, dict[str, float]]:
        """What each stage did since the previous file was settled."""
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
        with uninterrupted():
            if self._writer is not None:
                self._writer.abort()
            self._writer, self._rows = None, None


def _reservations(reader: VideoReader) -> str | None:
    """What could not be decoded or had to be assumed, in words; None for nothing."""
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
        told.append(f"one of {info.streams} video streams was read; extract the others with ffmpeg -map")
    if info.assumed_rate:
        told.append(
            f"it stores no timestamps, so {info.average_rate:g} frames a second were assumed; "
            "for another frame rate, convert it with ffmpeg -framerate N -i ... -c copy"
        )
    return "; ".join(told) or None
