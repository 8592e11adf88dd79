"""An answer comes in; the tiles of its page go out, one per track (for all its rows) or per crop."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from panorama.album.seen_pictures import crops_taken, picture_digest
from panorama.cameras.listed_videos import unshowable
from panorama.errors import AccuracyError, EntityError
from panorama.query.result.result import Result
from panorama.query.text.tokens import promises_in, texts_in
from panorama.shown.hit_facts import HitFacts
from panorama.shown.hits import Hit, hits_of, sifted
from panorama.shown.track_boxes import TrackBoxes
from panorama.store.catalog.album import check_name

if TYPE_CHECKING:
    from panorama.library import Library

BANDS = ("accepted", "uncertain", "rejected")

_DECIDED = """
SELECT tracks, entity, score, band
WHERE entity IN ({names}) AND score >= 0 AND track_id IN ({tracks})
"""
_PROMISED = "SELECT tracks, entity, score, band WHERE entity = ? AND track_id IN ({tracks}) {promise}"
"""A promise takes no condition on score: it returns what it accepts."""

_NO_TRACK = (
    "The row names no track, so it cannot be marked; the rows of SELECT frames, moments, tracks and crops do."
)
_NO_CROP = "No stored picture of this track is left, so it cannot be an example."
_NO_NAME = "No entity can have this name, so the hit cannot be marked."


_GAP_SECONDS = 0.01
"""Stretches that are less apart follow each other: times are sums of fractions."""

_Thing = tuple[str, int]
"""What rows are about: 'track' or 'crop', and its id."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored crop: its row from `crops_taken`, and its picture as JPEG."""

    row: Mapping[str, Any]
    jpeg: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """What a yes or no on a tile refers to: the `--track` or `--crop` of `panorama register`.

    Attributes:
        digest: of the stored picture that becomes the example; see `panorama.album.seen_pictures`.
    """

    kind: str
    number: int
    digest: str


@dataclass(frozen=True, slots=True)
class Tile:
    """One thing to say yes or no to.

    Attributes:
        hit: the row that is shown: of a track's rows, the one nearest to its best view. Its entity is '' if
            the answer names none. Without a box of its own it has that of the best view. Its time is that of
            its frame, not that of the row, which may be the start of a stretch.
        videos: of all its rows, that of `hit` first: videos with the same content share their tracks.
        rows: number of rows of the answer that it stands for.
        start_seconds, end_seconds: from the start of the first of them to the end of the last.
        stretches: number of stretches of time, apart from each other, that the rows tell of; 1 if they tell
            of single frames.
        pictures: of a folder, the names of the first and the last one at these times; '' for films.
        picture: of a folder, the name of the one that is shown; '' for films.
        clock: these two times on the camera's clock; '' if unknown.
        stored: the picture that a mark registers, as JPEG; None if there is none.
        mark: None if a mark cannot be registered; `unmarkable` says why.
    """

    hit: Hit
    videos: tuple[str, ...]
    rows: int
    start_seconds: float
    end_seconds: float
    stretches: int = 1
    pictures: str = ""
    picture: str = ""
    clock: str = ""
    stored: bytes | None = None
    mark: Mark | None = None
    unmarkable: str = ""


def tiles_of(
    library: Library, result: Result, entity: str | None, most: int, videos: pa.Table
) -> tuple[list[Tile], int, list[str]]:
    """The tiles of an answer, in its order, at most `most`.

    Args:
        entity: for rows that name a track but no entity, and for all rows if the answer has no column
            `entity`; None for the only one that the SQL names.
        videos: of the library, as returned by `Library.videos`.

    Returns:
        The tiles, the total number of tiles, and messages about rows whose time no video has, which get no
        tile.

    Raises:
        QueryError: the answer has no video and time; see `hits_of`.
    """
    album = {known.name for known in library.entities()}
    hits = hits_of(result.columns, result.arrow().to_pylist())
    if entity is None:
        named = album.intersection(texts_in(result.sql)) if result.sql else set()
        entity = named.pop() if len(named) == 1 else ""
    named_by_rows = "entity" in result.columns
    timed, left_out = sifted([_named(hit, entity, named_by_rows) for hit in hits], Hit.untimed)
    groups = _groups(timed)
    shown = groups[:most]
    every = [hit for group in shown for hit in group]
    crops = _crops(library, every)
    decided = _decided(library, every, album, promises_in(result.sql))
    facts = HitFacts.of(library, every)
    copies = {video for group in shown if len(names := _videos(group)) > 1 for video in names}
    lost = unshowable(copies, videos)
    tiles = [_tile(_with_file(group, lost), crops, decided, facts) for group in shown]
    return _at_their_frames(library, tiles), len(groups), left_out


def _at_their_frames(library: Library, tiles: Sequence[Tile]) -> list[Tile]:
    """The tiles, each with the time of the frame that it shows, and the name of a folder's picture."""
    shown = [tile.hit for tile in tiles]
    times = TrackBoxes.of(library).times((hit.video, hit.frame) for hit in shown if hit.frame is not None)
    hits = [_at_its_frame(hit, times) for hit in shown]
    moments = [replace(hit, end_seconds=None) for hit in hits]
    facts = HitFacts.of(library, moments)
    named = ("".join(facts.names([moment])) for moment in moments)
    return [replace(tile, hit=hit, picture=name) for tile, hit, name in zip(tiles, hits, named, strict=True)]


def _at_its_frame(hit: Hit, times: Mapping[tuple[str, int], float]) -> Hit:
    if hit.frame is None:
        return hit
    return replace(hit, time_seconds=times.get((hit.video, hit.frame), hit.time_seconds))


def _named(hit: Hit, entity: str, named_by_rows: bool) -> Hit:
    """Give a hit this entity if it names none, unless its row could name one and names no track either.

    Such rows come from NOT: they tell where the entity is not.
    """
    return hit if hit.entity or (named_by_rows and _thing(hit) is None) else replace(hit, entity=entity)


def _groups(hits: Sequence[Hit]) -> list[list[Hit]]:
    """The rows about the same crop or track and entity together, in the order of their first row."""
    found: dict[Any, list[Hit]] = {}
    for number, hit in enumerate(hits):
        thing = _thing(hit)
        found.setdefault((hit.entity, thing) if thing else number, []).append(hit)
    return list(found.values())


def _videos(group: Sequence[Hit]) -> list[str]:
    """The videos of the rows of a group, each once, in order."""
    return list(dict.fromkeys(hit.video for hit in group))


def _with_file(group: Sequence[Hit], lost: Collection[str]) -> list[Hit]:
    """A group, the rows whose frame can be shown first."""
    return sorted(group, key=lambda hit: hit.video in lost)


def _thing(hit: Hit) -> _Thing | None:
    for kind, number in (("crop", hit.crop_id), ("track", hit.track_id)):
        if number is not None:
            return kind, number
    return None


def _crops(library: Library, hits: Sequence[Hit]) -> dict[_Thing, _Stored]:
    """The stored crop that a mark of each thing would register; things without one are left out."""
    things = {thing for hit in hits if (thing := _thing(hit)) is not None}
    rows = {}
    for kind in ("crop", "track"):
        ids = sorted(number for of, number in things if of == kind)
        rows.update({(kind, number): row for number, row in crops_taken(library, kind, ids).items()})
    jpegs = library.stored_crops([row["crop_id"] for row in rows.values()])
    return {
        thing: _Stored(row, jpegs[row["crop_id"]]) for thing, row in rows.items() if row["crop_id"] in jpegs
    }


def _decided(
    library: Library, hits: Sequence[Hit], album: set[str], promises: Sequence[str]
) -> dict[tuple[str, int], tuple[float, str]]:
    """Score and band of each entity and track, as the library decides, even if the rows do not have them.

    Args:
        promises: the accuracies that the answer keeps, which move the bands; see `promises_in`.
    """
    names = sorted(album.intersection(hit.entity for hit in hits))
    tracks = sorted({hit.track_id for hit in hits if hit.track_id is not None})
    if not names or not tracks:
        return {}
    marks = ", ".join("?" * len(tracks))
    sql = _DECIDED.format(names=", ".join("?" * len(names)), tracks=marks)
    rows = library.query(sql, [*names, *tracks]).arrow().to_pylist()
    for promise in promises:
        sql = _PROMISED.format(tracks=marks, promise=promise)
        for name in names:
            with suppress(AccuracyError):  # the statement names this one elsewhere, without the promise
                rows += library.query(sql, [name, *tracks]).arrow().to_pylist()
    return {(row["entity"], row["track_id"]): (row["score"], row["band"]) for row in rows}


def _tile(
    group: Sequence[Hit],
    crops: Mapping[_Thing, _Stored],
    decided: Mapping[tuple[str, int], tuple[float, str]],
    facts: HitFacts,
) -> Tile:
    thing = _thing(group[0])
    stored = None if thing is None else crops.get(thing)
    crop = None if stored is None else stored.row
    hit = group[0]
    if crop is not None and len(group) > 1:
        mine = [row for row in group if row.video == hit.video]
        hit = min(mine, key=lambda row: abs(row.time_seconds - crop["time"]))
    if crop is not None and hit.box_xyxy is None:
        x1, y1, x2, y2 = (float(crop[name]) for name in ("x1", "y1", "x2", "y2"))
        hit = replace(hit, frame=crop["frame"], box_xyxy=(x1, y1, x2, y2))
    if (hit.entity, hit.track_id) in decided:
        score, band = decided[hit.entity, hit.track_id]  # type: ignore[index]
        hit = replace(hit, band=hit.band or band, score=score if hit.score is None else hit.score)
    why = _NO_TRACK if thing is None else _NO_CROP if stored is None else _bad_name(hit.entity)
    start, end = min(row.time_seconds for row in group), max(row.last_seconds for row in group)
    mine = [row for row in group if row.video == hit.video]
    return Tile(
        hit,
        tuple(_videos(group)),
        len(group),
        start,
        end,
        _stretches(group),
        " - ".join(facts.names(mine)),
        clock=facts.clock(mine),
        stored=None if stored is None else stored.jpeg,
        mark=None if why or thing is None or stored is None else Mark(*thing, picture_digest(stored.jpeg)),
        unmarkable=why,
    )


def _stretches(group: Sequence[Hit]) -> int:
    """Into how many stretches the time of the rows falls; those of single frames leave no gaps."""
    rows = sorted(group, key=lambda hit: hit.time_seconds)
    ends = itertools.accumulate((row.last_seconds for row in rows), max)
    behind = zip(rows[1:], ends, strict=False)
    gaps = (row.time_seconds - end for row, end in behind if row.end_seconds is not None)
    return 1 + sum(gap > _GAP_SECONDS for gap in gaps)


def _bad_name(entity: str) -> str:
    """Why rows with a name made up in plain SQL cannot be registered; '' if they can."""
    try:
        return "" if not entity or check_name(entity) == entity else _NO_NAME
    except EntityError:
        return _NO_NAME
