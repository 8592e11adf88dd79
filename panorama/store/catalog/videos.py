"""What indexing knows of a file comes in; its row of `videos`, with name and live segment, goes out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from panorama.commands import command
from panorama.errors import UnknownVideo, unknown
from panorama.folders import has_moved
from panorama.frames import PICTURES_PER_SECOND
from panorama.store.catalog import seen
from panorama.store.catalog.database import Transaction
from panorama.store.catalog.picture_offsets import lengthened
from panorama.store.catalog.recorded import OFFSETS


@dataclass(frozen=True, slots=True)
class VideoRow:
    """One video as indexing found it.

    Attributes:
        name: path relative to the indexed folder, with forward slashes; the store makes it unique.
        uri: absolute path or address.
        root: the folder that `name` is relative to; its name is put in front if names collide.
        content_hash: of the file's bytes; copies of a file have the same hash and share a segment.
        size, mtime_ns: of the file; it is not hashed again while these and the sample stay. For a folder of
            pictures, mtime_ns is a number that changes with the pictures' times and names. Both fit into 64
            bits.
        content_sample: digest of some of the file's bytes, or of the names and sizes of a folder's pictures;
            None if none was taken.
        camera: name of the camera, '' if unknown.
        width, height: of the displayed frame in pixels; 0 for `attach_video`, which looks them up.
        duration: seconds from the start of the first frame to the end of the last.
        frames: number of decodable frames.
        start_time_unix: wall-clock time of the first frame, None if unknown.
        time_zone: IANA name of the time zone of the camera's clock, None if the time is unknown.
        time_from: source of the time, see `panorama.cameras.recording_rule`; None if the time is unknown.
        decode_note: what was not decoded (damage, further streams) or assumed (times), None for nothing.
        continues: content hash of the file's earlier contents if the file has only grown; the earlier time,
            camera and answers about places then still hold.
        was: content hash of a folder of pictures before some of them were deleted or came in between.
        moved: those of its pictures that are still there, and about which there are answers.
        camera_from: the patterns that gave the camera, None if none did.
        picture_offsets: when each picture of a folder was taken, see `recorded.Recorded`.
        is_known: whether the library had the file when it was examined; see `was_removed`.
    """

    name: str
    uri: str
    root: str
    content_hash: str
    size: int
    mtime_ns: int
    camera: str = ""
    width: int = 0
    height: int = 0
    duration: float = 0.0
    frames: int = 0
    start_time_unix: float | None = None
    decode_note: str | None = None
    time_zone: str | None = None
    time_from: str | None = None
    content_sample: str | None = None
    continues: str | None = None
    was: str | None = None
    moved: tuple[seen.MovedPicture, ...] = ()
    camera_from: str | None = None
    picture_offsets: bytes | None = None
    is_known: bool = False

    def __post_init__(self) -> None:
        if not self.name or not self.uri or not self.content_hash:
            raise ValueError(f"a video has a name, a uri and a content hash, got {self!r}")


@dataclass(frozen=True, slots=True)
class KnownFile:
    """What the library knows about a file that was indexed before.

    Attributes:
        settings_hash: of the settings that it was indexed with.
        indexed_at_unix: when it was stored.
        is_older: whether an earlier version indexed it that stored less per video (no `ends`).
        names_pictures: whether the names of a folder's pictures are stored; always False for a film.
    """

    name: str
    size: int
    mtime_ns: int
    content_hash: str
    segment: int
    settings_hash: str
    decode_note: str | None = None
    content_sample: str | None = None
    indexed_at_unix: float = field(default=0.0, compare=False)
    is_older: bool = False
    names_pictures: bool = False

    def has_state(self, state: tuple[int, int]) -> bool:
        """Whether the file had this (size, mtime_ns) when it was indexed."""
        return (self.size, self.mtime_ns) == state


_ALL_KNOWN = """
SELECT v.name, v.size, v.mtime_ns, v.content_hash, v.segment_id, s.settings_hash, v.decode_note,
       v.content_sample, v.indexed_at, s.ends IS NULL,
       EXISTS (SELECT 1 FROM file_segments fs JOIN files f ON f.file_id = fs.file_id
               WHERE fs.segment_id = s.segment_id AND f.table_name = 'pictures'),
       v.uri
FROM videos v JOIN segments s ON s.segment_id = v.segment_id
"""
_KNOWN = f"{_ALL_KNOWN} WHERE v.uri = :uri"
_KNOWN_CONTENT = f"""
{_ALL_KNOWN} WHERE s.content_hash = :content_hash AND s.state = 'live' ORDER BY s.segment_id DESC LIMIT 1
"""
_BY_URI = "SELECT video_id, name FROM videos WHERE uri = :uri"
_TIMES = """
SELECT start_time_unix, time_zone, time_from, camera, camera_from, picture_offsets, segment_id FROM videos
WHERE video_id = :video_id AND content_hash IN (:content_hash, :continues)
"""
_SEGMENT_TIMES = """
SELECT start_time_unix, time_zone, time_from, picture_offsets, segment_id FROM videos
WHERE segment_id = :segment ORDER BY video_id LIMIT 1
"""
_SAME_CONTENT = (
    "SELECT video_id, name, uri, indexed_at FROM videos WHERE content_hash = :content_hash ORDER BY video_id"
)
_NAME_TAKEN = "SELECT 1 FROM videos WHERE name = :name AND video_id <> :video_id"
_LIVE_SEGMENT = """
SELECT segment_id FROM segments
WHERE content_hash = :content_hash AND settings_hash = :settings_hash AND state = 'live'
"""
_FACTS = """
SELECT width, height, duration, frames, decode_note, camera FROM videos WHERE segment_id = :segment
ORDER BY video_id LIMIT 1
"""
_COLUMNS = (
    "name, uri, root, camera, content_hash, size, mtime_ns, segment_id, width, height, duration, frames, "
    "start_time_unix, decode_note, time_zone, time_from, content_sample, camera_from, indexed_at, "
    "picture_offsets"
)
_VALUES = ", ".join(f":{column}" for column in _COLUMNS.split(", "))
_INSERT = f"INSERT INTO videos ({_COLUMNS}) VALUES ({_VALUES})"
_UPDATE = f"UPDATE videos SET ({_COLUMNS}) = ({_VALUES}) WHERE video_id = :video_id"
_MOVE_COPIES = """
UPDATE videos SET segment_id = :segment, width = :width, height = :height, duration = :duration,
       frames = :frames, decode_note = :decode_note
WHERE content_hash = :content_hash
"""
_RETIRE_UNUSED = """
UPDATE segments SET state = 'retired'
WHERE state = 'live' AND segment_id NOT IN (SELECT segment_id FROM videos)
"""
_RETIRE_FILES = """
UPDATE files SET retired_version = :version, retired_at = :now
WHERE retired_version IS NULL AND file_id NOT IN (
    SELECT fs.file_id FROM file_segments fs JOIN segments s ON s.segment_id = fs.segment_id
    WHERE s.state = 'live')
"""
_ASIDE = "UPDATE videos SET name = :aside, uri = :aside WHERE uri = :uri"
_MOVE = """
UPDATE videos SET name = :name, uri = :uri, root = :root, size = :size, mtime_ns = :mtime_ns,
       content_sample = :content_sample,
       camera = CASE WHEN :camera = '' OR camera_from IS NOT NULL THEN camera ELSE :camera END
WHERE uri = :aside
"""
_DELETE_URI = "DELETE FROM videos WHERE uri = :uri"
_DELETE = "DELETE FROM videos WHERE name = :name"
_NAMES = "SELECT name FROM videos ORDER BY name"


def known_file(tx: Transaction, uri: str) -> KnownFile | None:
    """What the library knows about the file at `uri`, None for a new one."""
    row = tx.row(_KNOWN, uri=uri)
    return None if row is None else _known(row)


def known_content(tx: Transaction, content_hash: str) -> KnownFile | None:
    """What the library knows about some file with this content, None if it has none."""
    row = tx.row(_KNOWN_CONTENT, content_hash=content_hash)
    return None if row is None else _known(row)


def known_files(tx: Transaction) -> dict[str, KnownFile]:
    """What the library knows about every file, by uri."""
    return {row[-1]: _known(row) for row in tx.tuples(_ALL_KNOWN)}


def _known(row: Sequence[Any]) -> KnownFile:
    *known, older, named, _ = row
    return replace(KnownFile(*known), is_older=bool(older), names_pictures=bool(named))


def live_segment(tx: Transaction, content_hash: str, settings_hash: str) -> int | None:
    """The live segment made from this content with these settings, or None."""
    found = tx.scalar(_LIVE_SEGMENT, content_hash=content_hash, settings_hash=settings_hash)
    return None if found is None else int(found)


def with_facts(tx: Transaction, video: VideoRow, segment: int) -> VideoRow:
    """The row completed with what decoding found when the segment was made; an unknown camera, too."""
    facts = tx.row(_FACTS, segment=segment)
    if facts is None:
        return video
    return replace(
        video,
        width=facts.width,
        height=facts.height,
        duration=facts.duration,
        frames=facts.frames,
        decode_note=facts.decode_note,
        camera=video.camera or facts.camera,
    )


def _timed(tx: Transaction, video: VideoRow, known: Any, segment: int) -> VideoRow:
    """The row with the known times of the same content, or of its beginning, unless it has its own."""
    if video.start_time_unix is not None:
        return video
    offsets = known.picture_offsets
    if known.segment_id != segment:
        OFFSETS.one(tx, video.name, offsets)
        offsets = lengthened(offsets, round(video.duration * PICTURES_PER_SECOND))
    times = (known.start_time_unix, known.time_zone, known.time_from)
    return replace(
        video,
        start_time_unix=times[0],
        time_zone=times[1],
        time_from=times[2],
        picture_offsets=offsets,
    )


def was_removed(tx: Transaction, video: VideoRow) -> bool:
    """Whether the library had a file when it was examined, and has lost it since; do not place it then.

    Somebody removed it, and was promised that nothing of it is read any more.
    """
    return video.is_known and tx.row(_BY_URI, uri=video.uri) is None


def place_video(tx: Transaction, video: VideoRow, segment: int) -> str:
    """Insert or update the row of one file and return its name in the column `video`.

    The same uri keeps its row and name. Known content whose old file is gone is a rename. Anything else gets
    a new row, even if the content is known: each copy has its own. If the file has grown (`continues`), or
    is a folder that has changed (`was`), copy the answers about its earlier content.
    """
    if video.continues is not None:
        seen.go_on(tx, video.continues, video.content_hash)
    if video.was is not None:
        seen.move(tx, video.was, video.content_hash, video.moved)
    row = tx.row(_BY_URI, uri=video.uri)
    if row is not None:
        video_id, name = row.video_id, row.name
    else:
        video_id = _renamed_from(tx, video)
        name = unique_name(tx, video, -1 if video_id is None else video_id)
    # Indexing again with other settings does not change when the video was recorded; nor does copying it.
    own = {"video_id": -1 if video_id is None else video_id, "content_hash": video.content_hash}
    before = tx.row(_TIMES, **own, continues=video.continues)
    if before is not None and before.camera:
        # A stored camera wins; the code that knows the recording rule updates it.
        video = replace(video, camera=before.camera, camera_from=before.camera_from)
    for known in (before, tx.row(_SEGMENT_TIMES, segment=segment)):
        video = video if known is None else _timed(tx, video, known, segment)
    values: dict[str, Any] = {
        "name": name,
        "uri": video.uri,
        "root": video.root,
        "camera": video.camera,
        "content_hash": video.content_hash,
        "size": video.size,
        "mtime_ns": video.mtime_ns,
        "segment_id": segment,
        "width": video.width,
        "height": video.height,
        "duration": video.duration,
        "frames": video.frames,
        "start_time_unix": video.start_time_unix,
        "decode_note": video.decode_note,
        "time_zone": video.time_zone,
        "time_from": video.time_from,
        "content_sample": video.content_sample,
        "camera_from": video.camera_from,
        "indexed_at": time.time(),
        "picture_offsets": video.picture_offsets,
    }
    if video_id is None:
        tx.run(_INSERT, **values)
    else:
        tx.run(_UPDATE, video_id=video_id, **values)
    return name


def move_videos(tx: Transaction, moves: Mapping[str, VideoRow], known: Mapping[str, KnownFile]) -> bool:
    """Let rows follow files that were renamed, and keep all that is known about their contents; all or none.

    A name stays with its uri: a row that moves to a uri with a name takes that name. If a file was
    overwritten and is itself nowhere else, its row is deleted.

    Args:
        moves: where each file is now, by its former uri.
        known: the state that the moves were computed from, by uri.

    Returns:
        False, with nothing changed, if a file of `known` has another state now.
    """
    if any(known_file(tx, uri) != before for uri, before in known.items()):
        return False
    aside = {uri: f"\0{number}" for number, uri in enumerate(moves)}  # no file can have this uri
    for uri, name in aside.items():
        tx.run(_ASIDE, uri=uri, aside=name)
    for video in moves.values():
        tx.run(_DELETE_URI, uri=video.uri)
    # First the moves that take over a name; then new names are chosen among those still free.
    for uri, video in sorted(moves.items(), key=lambda move: move[1].uri not in known):
        held = known.get(video.uri)
        tx.run(
            _MOVE,
            aside=aside[uri],
            name=unique_name(tx, video, -1) if held is None else held.name,
            uri=video.uri,
            root=video.root,
            size=video.size,
            mtime_ns=video.mtime_ns,
            content_sample=video.content_sample,
            camera=video.camera,
        )
    retire_unused(tx, tx.bump("data"))
    return True


def move_copies(tx: Transaction, video: VideoRow, segment: int) -> None:
    """Point every copy of the same content to the segment just written."""
    tx.run(
        _MOVE_COPIES,
        segment=segment,
        content_hash=video.content_hash,
        width=video.width,
        height=video.height,
        duration=video.duration,
        frames=video.frames,
        decode_note=video.decode_note,
    )


def retire_unused(tx: Transaction, data_version: int) -> None:
    """Retire segments that no video uses any more, and the files that hold rows of no live segment."""
    if tx.run(_RETIRE_UNUSED):
        retire_dead_files(tx, data_version)


def retire_dead_files(tx: Transaction, data_version: int) -> None:
    """Retire files that hold rows of no live segment."""
    tx.run(_RETIRE_FILES, version=data_version, now=time.time())


def delete_video(tx: Transaction, name: str) -> None:
    """Delete the row of a video.

    Raises:
        UnknownVideo: there is no video of that name.
    """
    if not tx.run(_DELETE, name=name):
        names = [row.name for row in tx.rows(_NAMES)]
        raise UnknownVideo(unknown("video", name, names, command("videos")))


def moved_from(tx: Transaction, video: VideoRow) -> str | None:
    """The name so far of a video that `place_video` will take for moved to a new file; None for none."""
    is_known = tx.row(_BY_URI, uri=video.uri) is not None
    row = None if is_known else _moved_row(tx, video)
    return None if row is None else str(row.name)


def _renamed_from(tx: Transaction, video: VideoRow) -> int | None:
    row = _moved_row(tx, video)
    return None if row is None else int(row.video_id)


def _moved_row(tx: Transaction, video: VideoRow) -> Any:
    """The row of a video with this content whose file was moved; one with the file's name comes first."""
    moved = [
        row
        for row in tx.rows(_SAME_CONTENT, content_hash=video.content_hash)
        if has_moved(row.uri, row.indexed_at)
    ]
    base = PurePath(video.uri).name
    return next((row for row in moved if PurePath(row.uri).name == base), moved[0] if moved else None)


def unique_name(tx: Transaction, video: VideoRow, video_id: int) -> str:
    """The first free name: the relative path, then with ever more folders of the root in front, then the uri.

    The row `video_id` does not count; -1 for none.
    """
    for name in _names(video):
        if tx.row(_NAME_TAKEN, name=name, video_id=video_id) is None:
            return name
    raise ValueError(f"another row already has the uri {video.uri!r} as its name")


def _names(video: VideoRow) -> Iterator[str]:
    yield video.name
    name = video.name
    for part in reversed(PurePath(video.root).parts):
        if part.strip("/\\"):
            name = f"{part}/{name}"
            yield name
    yield video.uri
