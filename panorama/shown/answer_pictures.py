"""An answer of a library comes in; a contact sheet and clips of its hits go out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.album.seen_pictures import crops_taken
from panorama.cameras.listed_videos import replaced_remarks
from panorama.query.result.result import Result
from panorama.query.text.tokens import is_ordered
from panorama.shown.hit_clips import write_clips
from panorama.shown.hit_facts import HitFacts
from panorama.shown.hits import Drawn, Hit, hits_of
from panorama.shown.sheet import MOST, write_sheet
from panorama.shown.track_boxes import TrackBoxes

if TYPE_CHECKING:
    from panorama.library import Library


@dataclass(frozen=True, slots=True)
class AnswerPictures:
    """What pictures of one answer are made from.

    Attributes:
        hits: the places in videos that its rows name.
        warnings: a line for each of its videos whose file is no longer what was indexed.
    """

    hits: list[Hit]
    warnings: tuple[str, ...]
    _paths: Mapping[str, str]
    _tracks: TrackBoxes
    _facts: HitFacts
    _library: Library
    _is_ordered: bool

    @classmethod
    def of(cls, library: Library, result: Result) -> AnswerPictures:
        """The pictures of an answer of this library.

        Raises:
            QueryError: its rows name no video and time.
        """
        hits = hits_of(result.columns, result.arrow().to_pylist())
        videos = library.videos()
        rows = videos.to_pylist()
        paths = {row["video"]: row["uri"] for row in rows}
        changed = replaced_remarks({hit.video for hit in hits}, videos)
        tracks, facts = TrackBoxes.of(library), HitFacts.of(library, hits)
        return cls(hits, changed, paths, tracks, facts, library, is_ordered(result.sql))

    def sheet(self, out: Path, most: int | None = None) -> Drawn:
        """Write a contact sheet; see `panorama.shown.sheet.write_sheet`."""
        limit, known = most or MOST, (self._tracks, self._facts, self._stored)
        return self._told(write_sheet(self.hits, self._paths, out, limit, *known, self._is_ordered))

    def _stored(self, hit: Hit) -> NDArray[np.uint8] | None:
        """The stored crop of a hit, or the best one of its track; None if there is none."""
        for kind, number in (("crop", hit.crop_id), ("track", hit.track_id)):
            if number is not None and (row := crops_taken(self._library, kind, [number]).get(number)):
                return self._library.crop(row["crop_id"])
        return None

    def clips(self, folder: Path) -> Drawn:
        """Write clips; see `panorama.shown.hit_clips.write_clips`."""
        return self._told(write_clips(self.hits, self._paths, folder, self._tracks))

    def _told(self, made: Drawn) -> Drawn:
        return replace(made, warnings=(*self.warnings, *made.warnings))
