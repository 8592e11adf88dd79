"""Ids of tracks and crops come in; their stored pictures go out, if they still are those that were seen."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panorama.album.given_pictures import Picture
from panorama.arguments import SeenIds
from panorama.crops import decode_picture
from panorama.errors import BadImage, UsageError
from panorama.store import SeenAt, segment_of
from panorama.store.files.schema import BEST_FIRST
from panorama.values import is_id

if TYPE_CHECKING:
    from panorama.library import Library

_TAKEN = f"""
SELECT crop_id, track_id, video, frame, time, x1, y1, x2, y2 FROM crops WHERE {{column}} IN ({{ids}})
QUALIFY row_number() OVER (PARTITION BY {{column}} ORDER BY {BEST_FIRST}, video) = 1
"""

DIGEST_LENGTH = 8
"""Hexadecimal digits of a picture's digest, 32 bits: enough that no other picture has it by chance."""

_AS_TEXT = re.compile(rf"(-?\d+)(?::([0-9a-f]{{{DIGEST_LENGTH}}}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class SeenId:
    """The id of a track or a crop.

    Attributes:
        number: its id.
        digest: of the stored picture that the user saw; None if not given. Ids are consecutive numbers: a
            library that is created again, or restored from a backup, gives them to other videos.
    """

    number: int
    digest: str | None = None

    @classmethod
    def of(cls, kind: str, given: int | str) -> SeenId:
        """From a number, or from text as in the commands on a page.

        Args:
            kind: 'track' or 'crop'.

        Raises:
            UsageError: the text is neither.
        """
        if not isinstance(given, str):
            return cls(int(given))
        found = _AS_TEXT.fullmatch(given.strip())
        if found is None or not is_id(int(found[1])):
            raise UsageError(
                f"a {kind} is named by its id, 4294967301, or as on a page, with the {DIGEST_LENGTH} digits "
                f"of its picture, 4294967301:09af09af; got {given!r}"
            )
        return cls(int(found[1]), found[2])


def picture_digest(jpeg: bytes) -> str:
    """The digits that distinguish a stored picture from others."""
    return hashlib.sha256(jpeg).hexdigest()[:DIGEST_LENGTH]


@dataclass(frozen=True, slots=True)
class _Named:
    """A named track or crop; `row` is None without a stored picture, `other` if it is not the one seen."""

    kind: str
    number: int
    row: Mapping[str, Any] | None
    other: bool


def seen_pictures(
    library: Library, track_ids: SeenIds, crop_ids: SeenIds, skip_gone: bool = False
) -> tuple[list[Picture], tuple[str, ...]]:
    """The best stored crop of each track, and stored crops, in the order given.

    Args:
        skip_gone: leave out those that the library does not have or has with another picture, unless none
            would remain.

    Returns:
        The pictures, and remarks on what was left out.

    Raises:
        UsageError: no id is given, or some cannot be used: unknown, a track without a crop, or another
            picture than the one that was seen. The message lists all of these.
    """
    if not len(track_ids) and not len(crop_ids):
        raise UsageError("name a track_id or a crop_id, as a query returns them")
    named, jpegs = [], {}
    for kind, ids in (("track", track_ids), ("crop", crop_ids)):
        seen = [SeenId.of(kind, given) for given in ids]
        rows = crops_taken(library, kind, [each.number for each in seen])
        jpegs.update(library.stored_crops([row["crop_id"] for row in rows.values()]))
        named += [_named(kind, each, rows.get(each.number), jpegs) for each in seen]
    chosen = [each.row for each in named if each.row is not None and not each.other]
    gone = [each for each in named if each.row is None or each.other]
    told = _told_of(library, gone)
    if gone and not (skip_gone and chosen):
        some = f"{len(chosen)} of {len(named)}"
        rest = f"; --skip-gone (skip_gone=True) registers the rest, {some}" if chosen else ""
        raise UsageError(told + rest)
    pictures = [
        Picture(
            _decoded(library, row["crop_id"], jpegs[row["crop_id"]]),
            f"{row['video']} at {row['time']:.3f} s, crop {row['crop_id']}",
            seen=_seen_at(row),
        )
        for row in chosen
    ]
    return pictures, ((f"skipped {len(gone)} of {len(named)}: {told}",) if gone else ())


def id_seen(library: Library, kind: str, given: int | str) -> int:
    """The number of a track or a crop ('track', 'crop') named by its id or, as on a page, with its digest.

    Raises:
        UsageError: the text is neither, or the library has no such picture or another one.
    """
    seen = SeenId.of(kind, given)
    if seen.digest is not None:
        seen_pictures(library, *(([given], ()) if kind == "track" else ((), [given])))
    return seen.number


def _decoded(library: Library, crop_id: int, jpeg: bytes) -> NDArray[np.uint8]:
    try:
        return decode_picture(jpeg)
    except BadImage:
        return library.crop(crop_id)  # its error names the data file and says what to do


def _named(kind: str, seen: SeenId, row: Mapping[str, Any] | None, jpegs: Mapping[int, bytes]) -> _Named:
    jpeg = None if row is None else jpegs.get(row["crop_id"])
    if jpeg is None:
        return _Named(kind, seen.number, None, False)
    return _Named(kind, seen.number, row, seen.digest not in (None, picture_digest(jpeg)))


def _told_of(library: Library, gone: Sequence[_Named]) -> str:
    """Lists what cannot be used, and why. Ids on an older page may be of videos indexed again since."""
    live = set(library.snapshot().live_segments.tolist())
    why = defaultdict(list)
    for each in gone:
        is_older = each.row is None and 0 < int(segment_of(each.number)) not in live
        why["other" if each.other else "older" if is_older else "none"].append(each)
    told = []
    if older := why["older"]:
        told.append(f"{_listed(older)}: indexed again or removed since; write the page, or query, again")
    if none := why["none"]:
        told.append(f"{_listed(none)}; a query over crops lists them")
    if other := why["other"]:
        told.append(
            f"{_listed(other, ' with the picture that was seen')}: the library was made again or restored "
            "since, and these numbers now mean others; write the page, or query, again"
        )
    return "; ".join(told)


def _listed(those: Sequence[_Named], lacking: str | None = None) -> str:
    """'no tracks 1, 2 with a stored crop and no crop 3'; `lacking` replaces 'with a stored crop' if given."""
    parts = []
    # Forgetting leaves tracks without crops.
    for kind, stored in (("track", " with a stored crop"), ("crop", "")):
        numbers = [str(each.number) for each in those if each.kind == kind]
        if numbers:
            of = f"no {kind}{'s' if len(numbers) > 1 else ''} {', '.join(numbers)}"
            parts.append(of + (stored if lacking is None else lacking))
    return " and ".join(parts)


def _seen_at(row: Mapping[str, Any]) -> SeenAt:
    box = row["x1"], row["y1"], row["x2"], row["y2"]
    return SeenAt(int(segment_of(row["crop_id"])), row["frame"], row["time"], box)


def crops_taken(library: Library, kind: str, ids: Sequence[int]) -> dict[int, Mapping[str, Any]]:
    """The stored crop for each id; the best one for a track. Ids without a crop are left out.

    Args:
        kind: 'track' or 'crop'.

    Returns:
        By id: crop_id, track_id, video, frame, time and the box x1, y1, x2, y2.
    """
    if not ids:
        return {}
    column = f"{kind}_id"
    sql = _TAKEN.format(column=column, ids=", ".join("?" * len(ids)))
    return {row[column]: row for row in library.query(sql, ids).arrow().to_pylist()}
