"""Hits come in; a contact sheet goes out that shows each in its frame with its box."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.lettering import draw_text, lettering_remarks, text_width
from panorama.lines import counted
from panorama.picture_files import MOST_SIDE, check_picture, check_size, write_picture
from panorama.shown.hit_facts import HitFacts
from panorama.shown.hit_frames import NoFrame, frames_of, stamps_of
from panorama.shown.hits import Drawn, Hit, sifted
from panorama.shown.track_boxes import TrackBoxes

TILE_WIDTH, TILE_HEIGHT, CAPTION_HEIGHT = 320, 200, 34
CLOCK_HEIGHT = 15
"""Extra height of captions if the time of day of any hit is known."""
GAP = 6
"""Pixels between two tiles, and around all of them."""
ACROSS = 4
"""Tiles in a row."""
MOST = 24
"""Default number of tiles on a sheet."""
_PAPER, _INK, _DIM, _BOX = (24, 24, 27), (240, 240, 240), (160, 160, 165), (80, 220, 120)


def choose(hits: Sequence[Hit], limit: int) -> list[Hit]:
    """All hits, or the `limit` most informative ones, in their order.

    If there are more, the middle of every track comes first, those with the best scores before others. Each
    entity gets an equal share; what it does not use goes to the others, and in the end to other parts of the
    tracks.
    """
    if len(hits) <= limit:
        return list(hits)
    groups: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
    for number, hit in enumerate(hits):
        groups[hit.entity, hit.video, hit.track_id].append(number)
    ranked = sorted(groups.values(), key=lambda g: -max(hits[n].score or 0.0 for n in g))
    # Go in rounds, first the middle of every track, then other parts: no track twice before each was once.
    chosen = dict.fromkeys(
        group[int(share * (len(group) - 1))] for share in (0.5, 0.15, 0.85, 0.3, 0.7) for group in ranked
    )
    entities = list(dict.fromkeys(hits[n].entity for n in chosen))
    per_entity = max(1, limit // max(1, len(entities)))
    kept = [n for e in entities for n in [c for c in chosen if hits[c].entity == e][:per_entity]]
    kept = list(dict.fromkeys([*kept, *chosen]))[:limit]
    rest = sorted(set(range(len(hits))).difference(kept))
    left = limit - len(kept)
    kept += [rest[(2 * n + 1) * len(rest) // (2 * left)] for n in range(left)]
    return [hits[n] for n in sorted(kept)]


@dataclass(slots=True)
class _Tile:
    hit: Hit
    picture: NDArray[np.uint8]


def write_sheet(
    hits: Sequence[Hit],
    paths: Mapping[str, str],
    out: Path,
    limit: int = MOST,
    tracks: TrackBoxes | None = None,
    facts: HitFacts | None = None,
    stored: Callable[[Hit], NDArray[np.uint8] | None] = lambda hit: None,
) -> Drawn:
    """Write a picture of the hits, in their order, each in its frame with its box, four in a row.

    Args:
        hits: places to show; if there are more than `limit`, see `choose`.
        paths: video name -> file.
        out: picture file; its suffix sets the format.
        tracks: returns the best view of a track, for hits with a track but no box, and the timestamps that
            identify frames in damaged files; None to do without.
        facts: what the library knows of the times of the hits; None to do without.
        stored: returns the stored picture of a hit whose frame cannot be read.

    Raises:
        UsageError: the suffix is not that of a picture format, or of one that cannot hold a sheet of so many
            hits, or it is a video or a library's own file.
        LibraryWriteError: the file cannot be written.
    """
    check_picture(out, set(paths.values()))
    report = Drawn()
    timed, report.failed = sifted(hits, Hit.untimed)
    shown = _boxed(choose(timed, limit), tracks)
    facts = facts or HitFacts()
    _check_fits(out, len(shown), any(facts.clock([hit]) for hit in shown))
    frames = frames_of(shown, paths, {} if tracks is None else stamps_of(shown, tracks))
    found = {n: it if isinstance(it, NoFrame) else _tile(shown[n], it) for n, it in frames}
    tiles = _tiles([(shown[n], found[n]) for n in range(len(shown))], stored, report)
    clocks = [facts.clock([tile.hit]) for tile in tiles]
    cell_height = _cell_height(any(clocks))
    sheet = np.full((*_size(len(tiles), cell_height), 3), _PAPER, np.uint8)
    for i, tile in enumerate(tiles):
        y, x = GAP + (i // ACROSS) * (cell_height + GAP), GAP + (i % ACROSS) * (TILE_WIDTH + GAP)
        sheet[y : y + TILE_HEIGHT, x : x + TILE_WIDTH] = tile.picture
        _caption(sheet, tile.hit, facts.place(tile.hit), clocks[i], x, y + TILE_HEIGHT)
    if not tiles:
        told = f"none of {counted(len(hits), 'hit')} could be drawn" if hits else "no hits"
        draw_text(sheet, told, (20, 60), 0.8, _INK)
    report.warnings = lettering_remarks(name for tile in tiles for name in (tile.hit.entity, tile.hit.video))
    write_picture(sheet, out)
    return report


def _cell_height(has_clock: bool) -> int:
    """Height of a tile with its caption."""
    return TILE_HEIGHT + CAPTION_HEIGHT + (CLOCK_HEIGHT if has_clock else 0)


def _size(count: int, cell_height: int) -> tuple[int, int]:
    """Height and width of a sheet of so many tiles."""
    rows, used = max(1, -(-count // ACROSS)), min(ACROSS, max(1, count))
    return rows * (cell_height + GAP) + GAP, used * (TILE_WIDTH + GAP) + GAP


def _check_fits(out: Path, count: int, has_clock: bool) -> None:
    """Refuse a sheet that is too large for its format, before any frame is read."""
    cell_height = _cell_height(has_clock)
    height, width = _size(count, cell_height)
    rows = (MOST_SIDE.get(out.suffix.lower(), height) - GAP) // (cell_height + GAP)
    check_size(out, width, height, f", or draw at most {rows * ACROSS} of the {count} hits")


def _tiles(
    made: Sequence[tuple[Hit, _Tile | NoFrame]],
    stored: Callable[[Hit], NDArray[np.uint8] | None],
    report: Drawn,
) -> list[_Tile]:
    """The tiles, in order; a hit without a frame gets its stored picture, if any. Fills in the report."""
    tiles = []
    for hit, one in made:
        kept = stored(hit) if isinstance(one, NoFrame) else None
        if isinstance(one, _Tile):
            tiles.append(one)
        elif kept is not None:
            tiles.append(_tile(replace(hit, box_xyxy=None), kept))
            report.without_frame.append(one.error)
        else:
            report.failed.append(one.error)
    report.drawn = len(tiles)
    report.failed = list(dict.fromkeys(report.failed))
    report.without_frame = list(dict.fromkeys(report.without_frame))
    return tiles


def _boxed(hits: Sequence[Hit], tracks: TrackBoxes | None) -> list[Hit]:
    """The hits; a hit of a track without a box gets frame and box of the track's best view."""
    bare = [hit.track_id for hit in hits if hit.box_xyxy is None and hit.track_id is not None]
    views = tracks.views(bare) if tracks is not None else {}
    out = []
    for hit in hits:
        view = None if hit.box_xyxy is not None or hit.track_id is None else views.get(hit.track_id)
        if view is not None:
            hit = replace(hit, frame=view[0], box_xyxy=view[1])
        out.append(hit)
    return out


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


def _caption(sheet: NDArray[np.uint8], hit: Hit, place: str, clock_text: str, x: int, y: int) -> None:
    lines = (
        (hit.entity, hit.sure(), 1 / 3, 14, 0.45, _INK),
        (hit.video, place, 1.0, 29, 0.38, _DIM),
        ("", clock_text, 1.0, 29 + CLOCK_HEIGHT, 0.38, _DIM),
    )
    for name, facts, end_share, down, size, ink in lines:
        text = beside(name, facts, TILE_WIDTH - 8, size, end_share)
        draw_text(sheet, text, (x + 4, y + down), size, ink)


def beside(name: str, facts: str, room: int, size: float, end_share: float = 1 / 3) -> str:
    """A name and facts about it within `room` pixels: the name is shortened, the facts stay.

    Args:
        size: of the letters, as in `draw_text`.
        end_share: how much of the remaining name is its end, which distinguishes `van-1` from `van-2`; 1 for
            paths.
    """
    for kept in range(len(name), -1, -1):
        tail = int(kept * end_share)
        cut = name if kept == len(name) else f"{name[: kept - tail]}...{name[len(name) - tail :]}"
        text = "  ".join(part for part in (cut, facts) if part)
        if text_width(text, size) <= room:
            return text
    return facts
