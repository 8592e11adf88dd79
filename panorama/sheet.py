"""Rows of a query result enter; a contact sheet of the hits, or one clip per stretch of hits, leaves."""

from __future__ import annotations

import itertools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, overload

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import LibraryWriteError, QueryError, UnknownVideo, UsageError, VideoError
from panorama.hit_frames import NoFrame, Stamps, file_of_hit, frames_of
from panorama.lines import clock, counted, one_line
from panorama.store.layout import whole_file
from panorama.track_boxes import Box, TrackBoxes

TILE_WIDTH, TILE_HEIGHT, CAPTION_HEIGHT = 320, 200, 34
SHEET_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff")
CLIP_MARGIN_SECONDS = 0.5
MERGE_GAP_SECONDS = 2.0
LONGEST_SECONDS = 1e9
"""No video is as long; 32 years. Computing with larger numbers loses parts of a second."""
FARTHEST_PIXELS = 1e6
NAME_BYTES = 240
"""Of a clip's name; file systems take 255, and while it is written its name is longer."""
_PAPER, _INK, _DIM, _BOX = (24, 24, 27), (240, 240, 240), (160, 160, 165), (80, 220, 120)


@dataclass(frozen=True, slots=True)
class Hit:
    """One place to show: a moment of a video, with the box of what was found there if there is one."""

    video: str
    time_seconds: float
    entity: str
    score: float | None
    box_xyxy: Box | None
    end_seconds: float | None = None
    track_id: int | None = None
    frame: int | None = None
    similarity: float | None = None
    band: str = ""
    crop_id: int | None = None

    @property
    def last_seconds(self) -> float:
        """Its end, or its one instant."""
        return self.time_seconds if self.end_seconds is None else self.end_seconds

    def untimed(self) -> str:
        """Why it is at no time that a video could have, in the row's own numbers; '' where it may be."""
        if math.isnan(self.time_seconds):
            return f"{self.video}: the row has no time"
        if all(abs(seconds) < LONGEST_SECONDS for seconds in (self.time_seconds, self.last_seconds)):
            return ""
        return f"{self.video}: no video has the time of the row, {self._span()}"

    def uncuttable(self) -> str:
        """Why no clip can be cut at it; '' where one may be."""
        if self.last_seconds < self.time_seconds:
            return f"{self.video}: the row ends before it begins, {self._span()}"
        if self.last_seconds + CLIP_MARGIN_SECONDS <= 0:
            return f"{self.video}: the row is before the beginning of the video, {self._span()}"
        return self.untimed()

    def _span(self) -> str:
        end = "" if self.end_seconds is None else f" to {self.end_seconds:g}"
        return f"{self.time_seconds:g}{end} seconds"

    def told(self) -> str:
        """What it is and how sure, in a line."""
        return "  ".join(part for part in (self.entity, self.sure()) if part)

    def sure(self) -> str:
        """How sure it is: score, band and similarity, those that there are."""
        parts = [] if self.score is None else [f"{self.score:.2f}"]
        parts += [self.band] if self.band else []
        parts += [] if self.similarity is None else [f"similarity {self.similarity:.2f}"]
        return "  ".join(parts)


def hits_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[Hit]:
    """The places that result rows name; they need a video and a time or start_time.

    Raises:
        QueryError: the result has no such columns, or what is no number of seconds in them.
    """
    start = "time" if "time" in columns else "start_time"
    if "video" not in columns or start not in columns:
        raise QueryError(
            f"pictures need the columns video and time (or start_time), the result has {', '.join(columns)}; "
            "try SELECT frames WHERE entity = '...' or SELECT moments WHERE entity = '...'"
        )
    hits = []
    for row in rows:
        hits.append(
            Hit(
                str(row["video"]),
                _seconds(row, start, math.nan),
                str(row.get("entity") or ""),
                None if row.get("score") is None else float(row["score"]),
                _box(row),
                _seconds(row, "end_time", None),
                row.get("track_id"),
                row.get("frame"),
                None if row.get("similarity") is None else float(row["similarity"]),
                str(row.get("band") or ""),
                row.get("crop_id"),
            )
        )
    return hits


def _box(row: Mapping[str, Any]) -> Box | None:
    """The box of a row; None where a corner is NULL, no number, NaN or far outside of any picture."""
    corners = [row.get(name) for name in ("x1", "y1", "x2", "y2")]
    x1, y1, x2, y2 = (float(c) if isinstance(c, (int, float, Decimal)) else math.nan for c in corners)
    return (x1, y1, x2, y2) if all(abs(c) < FARTHEST_PIXELS for c in (x1, y1, x2, y2)) else None


@overload
def _seconds(row: Mapping[str, Any], column: str, missing: float) -> float: ...
@overload
def _seconds(row: Mapping[str, Any], column: str, missing: None) -> float | None: ...
def _seconds(row: Mapping[str, Any], column: str, missing: float | None) -> float | None:
    """The time in a column of a row, `missing` where it has none."""
    value = row.get(column)
    try:
        return missing if value is None else float(value)
    except (TypeError, ValueError):
        raise QueryError(
            f"pictures need {column} in seconds from the start of the video, the result has {value!s:.40}"
        ) from None


def sifted(hits: Iterable[Hit], why_not: Callable[[Hit], str]) -> tuple[list[Hit], list[str]]:
    """The hits with nothing against them, and what is told of the others, each thing once."""
    told = [(hit, why_not(hit)) for hit in hits]
    return [hit for hit, why in told if not why], list(dict.fromkeys(why for _, why in told if why))


def choose(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """All hits, or at most `limit` that show the most, in their order.

    Of more, the middle of every track goes first, best scores first; each entity has its share.
    """
    if len(hits) <= limit:
        return list(hits)
    groups: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
    for number, hit in enumerate(hits):
        groups[hit.entity, hit.video, hit.track_id].append(number)
    ranked = sorted(groups.values(), key=lambda g: -max(hits[n].score or 0.0 for n in g))
    # Rounds: the middle of every track, then other parts: each track is seen before any is seen twice.
    chosen = dict.fromkeys(
        group[int(share * (len(group) - 1))] for share in (0.5, 0.15, 0.85, 0.3, 0.7) for group in ranked
    )
    entities = list(dict.fromkeys(hits[n].entity for n in chosen))
    per_entity = max(1, limit // max(1, len(entities)))
    kept = [n for e in entities for n in [c for c in chosen if hits[c].entity == e][:per_entity]]
    return [hits[n] for n in sorted(kept[:limit])]


@dataclass(slots=True)
class _Tile:
    hit: Hit
    picture: NDArray[np.uint8]


@dataclass(slots=True)
class SheetReport:
    """How many pictures or clips were made, and what could not be."""

    drawn: int = 0
    failed: list[str] = field(default_factory=list)


def check_sheet_suffix(out: Path) -> None:
    """Raise UsageError where no picture format goes with the file's suffix."""
    if out.suffix.lower() not in SHEET_SUFFIXES:
        raise UsageError(f"a picture is written as {', '.join(SHEET_SUFFIXES)}, got {out.name!r}")


def write_sheet(
    hits: Sequence[Hit],
    paths: Mapping[str, str],
    out: Path,
    limit: int = 24,
    columns: int = 4,
    tracks: TrackBoxes | None = None,
) -> SheetReport:
    """Write a picture of the hits, in their order, each in its frame with its box, four in a row.

    Args:
        hits: places to show; more than `limit` are thinned so that every track is seen.
        paths: video name -> file.
        out: picture file; its suffix says the format.
        tracks: tells the best view of a track, for hits that name one and bring no box, and which frame a
            number means in a damaged file.

    Raises:
        UsageError: its suffix is that of no picture format.
        LibraryWriteError: the file cannot be written.
    """
    check_sheet_suffix(out)
    report = SheetReport()
    timed, report.failed = sifted(hits, Hit.untimed)
    shown = _boxed(choose(timed, limit), tracks)
    frames = frames_of(shown, paths, {} if tracks is None else stamps_of(shown, tracks))
    found = {n: it if isinstance(it, NoFrame) else _tile(shown[n], it) for n, it in frames}
    made = [found[number] for number in range(len(shown))]
    tiles = [tile for tile in made if isinstance(tile, _Tile)]
    report.drawn = len(tiles)
    report.failed += dict.fromkeys(why.error for why in made if isinstance(why, NoFrame))
    rows = max(1, -(-len(tiles) // columns))
    used = min(columns, max(1, len(tiles)))
    gap = 6
    cell_height = TILE_HEIGHT + CAPTION_HEIGHT
    sheet = np.full((rows * (cell_height + gap) + gap, used * (TILE_WIDTH + gap) + gap, 3), _PAPER, np.uint8)
    for i, tile in enumerate(tiles):
        y, x = gap + (i // columns) * (cell_height + gap), gap + (i % columns) * (TILE_WIDTH + gap)
        sheet[y : y + TILE_HEIGHT, x : x + TILE_WIDTH] = tile.picture
        _caption(sheet, tile.hit, x, y + TILE_HEIGHT)
    if not tiles:
        told = f"none of {counted(len(hits), 'hit')} could be drawn" if hits else "no hits"
        cv2.putText(sheet, told, (20, 60), cv2.FONT_HERSHEY_SIMPLEX, 0.8, _INK, 1, cv2.LINE_AA)
    write_picture(sheet, out)
    return report


def write_picture(rgb: NDArray[np.uint8], out: Path) -> None:
    """Write a picture (H, W, 3), whole or not at all; the file's suffix says the format.

    Raises:
        LibraryWriteError: the file cannot be written.
    """
    _, data = cv2.imencode(out.suffix.lower(), rgb[:, :, ::-1])
    with whole_file(out) as partial:
        partial.write_bytes(data.tobytes())


def _boxed(hits: Sequence[Hit], tracks: TrackBoxes | None) -> list[Hit]:
    """The hits; those of a track without a box in the best view of it."""
    bare = [hit.track_id for hit in hits if hit.box_xyxy is None and hit.track_id is not None]
    views = tracks.views(bare) if tracks is not None else {}
    out = []
    for hit in hits:
        view = None if hit.box_xyxy is not None or hit.track_id is None else views.get(hit.track_id)
        if view is not None:
            hit = replace(hit, frame=view[0], box_xyxy=view[1])
        out.append(hit)
    return out


def stamps_of(hits: Sequence[Hit], tracks: TrackBoxes) -> Stamps:
    """Those of the frames that hits name."""
    return tracks.stamps((hit.video, int(hit.frame)) for hit in hits if hit.frame is not None)


def _tile(hit: Hit, rgb: NDArray[np.uint8]) -> _Tile:
    """A hit in its frame (H, W, 3)."""
    height, width = rgb.shape[:2]
    factor = min(TILE_WIDTH / width, TILE_HEIGHT / height)
    size = (max(1, round(width * factor)), max(1, round(height * factor)))
    small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
    if hit.box_xyxy is not None:
        x1, y1, x2, y2 = (round(c * factor) for c in hit.box_xyxy)
        cv2.rectangle(small, (x1, y1), (x2 - 1, y2 - 1), (0, 0, 0), 3, cv2.LINE_AA)
        cv2.rectangle(small, (x1, y1), (x2 - 1, y2 - 1), _BOX, 1, cv2.LINE_AA)
    tile = np.zeros((TILE_HEIGHT, TILE_WIDTH, 3), np.uint8)
    y, x = (TILE_HEIGHT - size[1]) // 2, (TILE_WIDTH - size[0]) // 2
    tile[y : y + size[1], x : x + size[0]] = small
    return _Tile(hit, tile)


def _caption(sheet: NDArray[np.uint8], hit: Hit, x: int, y: int) -> None:
    end = "" if hit.end_seconds is None else f" - {clock(hit.end_seconds)}"
    lines = (
        (hit.entity, hit.sure(), 1 / 3, 14, 0.45, _INK),
        (hit.video, f"{clock(hit.time_seconds)}{end}", 1.0, 29, 0.38, _DIM),
    )
    for name, facts, end_share, down, size, ink in lines:
        text = beside(one_line(name), facts, TILE_WIDTH - 8, size, end_share)
        cv2.putText(sheet, text, (x + 4, y + down), cv2.FONT_HERSHEY_SIMPLEX, size, ink, 1, cv2.LINE_AA)


def beside(name: str, facts: str, room: int, size: float, end_share: float = 1 / 3) -> str:
    """A name and what is told of it in `room` pixels: a part of the name gives way, what is told stays.

    Args:
        size: of the letters, as `cv2.putText` has it.
        end_share: how much of what is kept is the name's end, which tells `van-1` and `van-2` apart; 1 for
            paths.
    """
    for kept in range(len(name), -1, -1):
        tail = int(kept * end_share)
        cut = name if kept == len(name) else f"{name[: kept - tail]}...{name[len(name) - tail :]}"
        text = "  ".join(part for part in (cut, facts) if part)
        if cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, size, 1)[0][0] <= room:
            return text
    return facts


def write_clips(
    hits: Sequence[Hit], paths: Mapping[str, str], folder: Path, tracks: TrackBoxes | None = None
) -> SheetReport:
    """Write one mp4 per video, entity and stretch of hits, half a second longer at both ends, boxes drawn.

    Each has a name of its own. The folder is made; where no clip came of it, it is taken away again.

    Args:
        tracks: tells where a track is in every frame, for hits that are a stretch of one.

    Raises:
        LibraryWriteError: the folder or a clip cannot be written.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise LibraryWriteError(f"{folder} cannot be made: {exc.strerror or exc}") from exc
    try:
        return _clips(hits, paths, folder, tracks)
    finally:
        with suppress(OSError):  # one that is not empty stays, and so those above it
            for place in missing:
                place.rmdir()


def _clips(
    hits: Sequence[Hit], paths: Mapping[str, str], folder: Path, tracks: TrackBoxes | None
) -> SheetReport:
    from panorama.video.clip import write_clip  # loaded here, with PyAV: a contact sheet may do without

    report = SheetReport()
    cuttable, report.failed = sifted(hits, Hit.uncuttable)
    taken: set[str] = set()
    for (video, entity), stretches in _stretches(cuttable).items():
        for stretch in stretches:
            start = max(0.0, stretch[0].time_seconds - CLIP_MARGIN_SECONDS)
            stop = max(h.last_seconds for h in stretch) + CLIP_MARGIN_SECONDS
            name = _clip_name(video, entity, start, taken)
            try:
                path = file_of_hit(video, paths)
                boxes = _boxes_of(stretch, tracks)
                known = tracks.stamps((video, frame) for frame in boxes) if tracks is not None else {}
                stamps = {frame: pts for (_, frame), pts in known.items()}
                write_clip(path, start, stop, folder / name, boxes=boxes, stamps=stamps)
            except (UnknownVideo, VideoError) as exc:
                report.failed.append(f"{name}: {exc}")
            else:
                report.drawn += 1
    return report


def _boxes_of(stretch: Sequence[Hit], tracks: TrackBoxes | None) -> dict[int, list[Box]]:
    """Frame -> boxes: those of the hits, and all of a track of which a hit is more than a frame."""
    whole = {hit.track_id for hit in stretch if hit.end_seconds is not None and hit.track_id is not None}
    boxes: dict[int, list[Box]] = defaultdict(list)
    if tracks is not None:
        boxes.update(tracks.along(whole))
    for hit in stretch:
        followed = tracks is not None and hit.end_seconds is not None and hit.track_id is not None
        if hit.box_xyxy is not None and hit.frame is not None and not followed:
            boxes.setdefault(hit.frame, []).append(hit.box_xyxy)
    return boxes


def _clip_name(video: str, entity: str, start: float, taken: set[str]) -> str:
    """The name of a clip, one that is not taken yet, short enough for a file; it is taken then."""
    thing = _cut(_safe(entity), NAME_BYTES // 3) or "hit"
    for again in itertools.count(1):
        end = f"-{thing}-{start:09.2f}{'' if again == 1 else f'-{again}'}.mp4"
        name = _cut(_safe(video).lstrip("."), NAME_BYTES - len(end.encode())) + end
        if name.casefold() not in taken:
            break
    taken.add(name.casefold())
    return name


def _cut(text: str, most_bytes: int) -> str:
    """The end of a text, in at most so many bytes of UTF-8."""
    return text.encode()[-most_bytes:].decode(errors="ignore")


def _stretches(hits: Sequence[Hit]) -> dict[tuple[str, str], list[list[Hit]]]:
    found: dict[tuple[str, str], list[list[Hit]]] = defaultdict(list)
    for hit in sorted(hits, key=lambda h: (h.video, h.entity, h.time_seconds)):
        group = found[hit.video, hit.entity]
        if group:
            end = max(h.last_seconds for h in group[-1])
            if hit.time_seconds - end <= MERGE_GAP_SECONDS:
                group[-1].append(hit)
                continue
        group.append([hit])
    return dict(found)


def _safe(name: str) -> str:
    """A name without what separates folders or what shells and other systems take for something else."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
