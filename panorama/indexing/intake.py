"""Found files come in, one after the other; what to do about each goes out, which may be nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from panorama.cameras.naming import BY_HAND
from panorama.errors import VideoError
from panorama.indexing.changed_folders import LostTime, former_names, time_now
from panorama.indexing.outcomes import (
    KNOWN_CONTENT,
    NOT_BEGUN,
    OWN_CLIP,
    SKIPPED,
    UNCHANGED,
    FileOutcome,
    Reason,
    failed,
)
from panorama.indexing.parcels import DEFECTS, Flush, Job
from panorama.indexing.renames import row_of
from panorama.indexing.settings import Kept
from panorama.indexing.stages import Indexer
from panorama.lines import composed
from panorama.store import Claims, KnownFile, Store, VideoRow
from panorama.video import (
    FileMark,
    FoundVideo,
    VideoReader,
    check_name,
    check_same,
    content_hash,
    content_sample,
    goes_on,
    open_video,
)
from panorama.video.faults import was_unreachable
from panorama.video.own_clips import is_own_clip

NEW_SECONDS = 600
"""For so long an empty file counts as one in which a recording is about to begin."""

LONG_BYTES = 64 << 20
"""Videos before a file of this size are finished before it is hashed, which may take a minute."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What is known about a file before decoding.

    Attributes:
        number: its place among the found files, from 0.
        mark: what the file system said of it before it was hashed.
        row: its row for the catalog, still without the facts that decoding finds.
        was: what the library knew of a file that holds something else now, and does not go on; else None.
        started: when work on it began, by `time.perf_counter`.
    """

    number: int
    video: FoundVideo
    mark: FileMark
    row: VideoRow
    was: KnownFile | None
    started: float

    def check_same(self, is_decoded: bool, wait: Callable[[], None] = lambda: None) -> None:
        """Check that the file holds what was hashed; raises VideoError (see `panorama.video.check_same`)."""
        check_same(self.mark, self.row.content_hash, is_decoded, wait)


@dataclass(frozen=True, slots=True)
class Copy:
    """A file whose content is in the library, or will be once the files before it in the line are done.

    Attributes:
        settings_hash: of the segment with this content.
        held: whether the library already had it when the file was examined.
        note: the note for the outcome.
    """

    ticket: Ticket
    settings_hash: str
    held: bool
    note: str = KNOWN_CONTENT


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A file to examine again: another process was indexing its content, or the library no longer has it.

    Attributes:
        claim: the claim on its content; wait until it is free.
    """

    number: int
    video: FoundVideo
    claim: str


class Intake:
    """Decides about each file before it is decoded, in the thread of the first stage.

    Args:
        kept: which videos stay as they are.
        anew: settings hash -> indexer, for videos with this hash that must be indexed again: an earlier
            version or another proposer indexed them, or indexed them in part, or they lost a data file.
        indexer: the indexer at work.
        wait: called after each block that is read of a file; what it raises ends the work.

    Attributes:
        moved: uris to which rows have just followed their files; set before the first file.
        elsewhere: files to examine again, since `begin`.
        later: files, with their numbers, by the indexer that is responsible if it is not the one at work.
        by_hand: by name, the recording times set by hand of videos whose files now hold something else.
    """

    def __init__(
        self,
        store: Store,
        claims: Claims,
        kept: Kept,
        anew: Mapping[str, Indexer],
        indexer: Indexer,
        wait: Callable[[], None],
    ) -> None:
        self._store = store
        self._claims = claims
        self._kept = kept
        self._anew = anew
        self._wait = wait
        self._under_way: set[str] = set()
        self._lost = store.lost_contents()
        self.moved: frozenset[str] = frozenset()
        self.elsewhere: list[Elsewhere] = []
        self.later: dict[Indexer, list[tuple[int, FoundVideo]]] = {}
        self.by_hand: dict[str, LostTime] = {}
        self.by(indexer)

    def by(self, indexer: Indexer) -> None:
        """Decide for this indexer from now on."""
        self._indexer, self._settings_hash = indexer, indexer.settings_hash

    def begin(self, files: Sequence[tuple[int, FoundVideo]]) -> Iterator[Job | Copy | FileOutcome | Flush]:
        """What to do about each file; files to deal with later go to `elsewhere` and `later` instead.

        Before a file that takes long to hash comes a Flush.
        """
        self.elsewhere = []
        return self._entries(files)

    def _entries(self, files: Sequence[tuple[int, FoundVideo]]) -> Iterator[Job | Copy | FileOutcome | Flush]:
        for number, video in files:
            started = time.perf_counter()
            try:
                entry = yield from self._entry(number, video, started)
            except (VideoError, *DEFECTS) as exc:
                yield failed(video, exc)
            else:
                if isinstance(entry, Elsewhere):
                    self.elsewhere.append(entry)
                elif isinstance(entry, Indexer):
                    self.later.setdefault(entry, []).append((number, video))
                else:
                    yield entry

    def _entry(
        self, number: int, video: FoundVideo, started: float
    ) -> Generator[Flush, None, Job | Copy | FileOutcome | Elsewhere | Indexer]:
        check_name(video.path)  # a row has the name of a link and the path of what it leads to
        own = video.path.resolve()
        check_name(own)
        uri = str(own)
        mark = FileMark.of(video.path)
        if not video.named and _is_not_begun(mark):
            return FileOutcome(str(video.path), "", SKIPPED, note=NOT_BEGUN, reason=Reason.NOT_BEGUN)
        known = self._store.known_file(uri)
        sample = content_sample(mark)
        if known is not None and self._is_unchanged(known, mark.state, sample):
            if self._keeps(known, video):
                return self._kept_as_it_is(known, video, uri)
            if (other := self._other(known)) is not None:
                return other
        if known is None and not video.named and is_own_clip(video.path):
            return FileOutcome(str(video.path), "", SKIPPED, note=OWN_CLIP, reason=Reason.OWN_CLIP)
        if mark.size >= LONG_BYTES:
            yield Flush()
        # Of what grows, no more than its row says: later this tells whether it went on.
        row = row_of(video, mark.state, sample, content_hash(mark, self._wait))
        row = replace(row, is_known=known is not None)
        was = None
        if known is not None and known.content_hash != row.content_hash:
            row = self._going_on(row, mark, known)
            was = known if row.continues is None else None
        if (other := self._other(self._store.known_content(row.content_hash))) is not None:
            return other
        return self._claimed(Ticket(number, video, mark, row, was, started))

    def _claimed(self, ticket: Ticket) -> Job | Copy | Elsewhere:
        """Claim the content of a file and open the file, unless its content is being indexed or is there."""
        content, video = ticket.row.content_hash, ticket.video
        if content in self._under_way:
            return Copy(ticket, self._settings_hash, held=False)
        if not self._claims.take(content):
            return Elsewhere(ticket.number, video, content)
        # Look only now: the process that had the claim before may have committed the content.
        held, reader = self._held(content, video), None
        try:
            if held is not None:
                _, note = self._why_kept(held, video, KNOWN_CONTENT)
                return Copy(ticket, held.settings_hash, held=True, note=note)
            reader = self._opened(ticket)
        finally:
            if reader is None:
                self._claims.drop(content)
        self._under_way.add(content)
        return Job(reader, ticket)

    def _opened(self, ticket: Ticket) -> VideoReader:
        reader = open_video(ticket.video.path, threads=self._indexer.work.threads.decode)
        try:
            ticket.check_same(is_decoded=False, wait=self._wait)
        except BaseException:  # also what ends the work
            reader.close()
            raise
        return reader

    def gave_nothing(self, content: str) -> None:
        """The file with this content that was under way is not indexed: the next one with it is examined."""
        self._under_way.discard(content)

    def again(self, copy: Copy) -> None:
        """Examine a file once more, because the one before it with its content gave nothing."""
        ticket = copy.ticket
        self.elsewhere.append(Elsewhere(ticket.number, ticket.video, ticket.row.content_hash))

    def _is_unchanged(self, known: KnownFile, state: tuple[int, int], sample: str | None) -> bool:
        """Whether a file still is the one that was indexed, and its rows are complete."""
        # Files indexed before samples were taken have only size and time.
        same = known.content_sample in (None, sample)
        return same and known.has_state(state) and known.content_hash not in self._lost

    def _kept_as_it_is(self, known: KnownFile, video: FoundVideo, uri: str) -> FileOutcome:
        """The outcome of a file that has not changed."""
        reason, note = self._why_kept(known, video, KNOWN_CONTENT if uri in self.moved else UNCHANGED)
        found_as = ""
        if composed(video.name).endswith(f"/{known.name}"):
            # The user may query the folder, as in video LIKE 'gate/%', which misses this name.
            found_as = composed(video.name)
            note = f"{note}; it keeps its name and is not renamed to {found_as}"
        return FileOutcome(
            str(video.path),
            known.name,
            SKIPPED,
            note=note,
            damage=known.decode_note,
            reason=Reason.KNOWN_CONTENT if uri in self.moved else reason,
            found_as=found_as,
        )

    def _why_kept(self, known: KnownFile, video: FoundVideo, what: str) -> tuple[Reason, str]:
        """Why rows stay as they are, also in words, with the option that would index the video again.

        Args:
            what: the beginning of the note: what is the same.
        """
        if self._is_deeper(known):
            return Reason.DEEPER, "indexed already; --quick replaces nothing"
        if known.settings_hash != self._settings_hash:
            note = f"{what} with other settings; --redo indexes it with the current settings"
            return Reason.OTHER_SETTINGS, note
        if _is_older(known, video):
            return (
                Reason.EARLIER_VERSION,
                f"{what} by an earlier version; --redo indexes it with this version",
            )
        return Reason.UNCHANGED, what

    def _going_on(self, row: VideoRow, mark: FileMark, known: KnownFile) -> VideoRow:
        """The row of a file whose content has changed.

        If it only grew, the row says which content it continues, so that its recording time and reviewed
        answers stay valid. These may still come while the file is decoded, so it is read in any case.
        """
        if goes_on(mark, known.size, known.content_hash, self._wait):
            return replace(row, continues=known.content_hash)
        self.note_time(known, mark)
        return replace(row, was=known.content_hash) if known.names_pictures and mark.is_folder else row

    def note_time(self, was: KnownFile, mark: FileMark) -> None:
        """Put the time set by hand of a file that holds something else now into `by_hand`, if it has one."""
        for row in self._store.recorded([was.name]):
            if row.recorded.time_from == BY_HAND:
                self.by_hand[was.name] = time_now(row.recorded, former_names(self._store, was), mark)

    def _other(self, known: KnownFile | None) -> Indexer | None:
        """The indexer for a content that must be indexed again; None if it is the one at work or none."""
        if known is None:
            return None
        lost = known.content_hash in self._lost  # lost data files: index it with the settings it had
        anew = lost or known.settings_hash in self._kept.anew or was_unreachable(known.decode_note)
        other = self._anew.get(known.settings_hash) if anew else None
        return None if other is self._indexer else other

    def _held(self, content: str, video: FoundVideo) -> KnownFile | None:
        """What the library knows of a content, if it has that and it stays as it is; else None."""
        if content in self._lost:
            # Meanwhile another process may have indexed it again, or erased the file that was missed.
            self._lost = self._store.lost_contents()
        if content in self._lost:
            return None
        known = self._store.known_content(content)
        return known if known is not None and self._keeps(known, video) else None

    def _keeps(self, known: KnownFile, video: FoundVideo) -> bool:
        """Whether the rows of a content in the library stay as they are."""
        if self._is_deeper(known):
            return True
        holds = self._kept.holds(known.settings_hash, self._settings_hash, _is_older(known, video))
        completes = self._kept.completes(known.settings_hash, self._settings_hash)
        return holds and not (completes and was_unreachable(known.decode_note))

    def _is_deeper(self, known: KnownFile) -> bool:
        """Whether this is a quick look, which replaces nothing, and the content has other settings."""
        return self._indexer.settings.keyframes_only and known.settings_hash != self._settings_hash


def _is_not_begun(mark: FileMark) -> bool:
    """Whether a file is empty and new: a recorder creates its next file some time before it writes."""
    age_seconds = abs(time.time() - mark.mtime_ns / 1e9)
    return mark.node is not None and not mark.size and age_seconds < NEW_SECONDS


def _is_older(known: KnownFile, video: FoundVideo) -> bool:
    """Whether an earlier version indexed a file and stored less about it."""
    return known.is_older or (video.path.is_dir() and not known.names_pictures)
