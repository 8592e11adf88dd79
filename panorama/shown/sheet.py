"""Hits come in; a contact sheet goes out that shows each in its frame with its box."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.lettering import lettering_remarks
from panorama.lines import counted
from panorama.picture_files import check_picture, write_picture
from panorama.shown.grid import Line, Tile, check_fits, fitted, grid
from panorama.shown.hit_facts import HitFacts
from panorama.shown.hit_frames import UNKNOWN, NoFrame, frames_of, stamps_of
from panorama.shown.hits import Drawn, Hit, sifted
from panorama.shown.track_boxes import TrackBoxes

MOST = 24
"""Default number of tiles on a sheet."""


def choose(hits: Sequence[Hit], limit: int, is_ordered: bool = False) -> list[Hit]:
    """All hits, or the `limit` most informative ones, in their order.

    If there are more, the middle of every track comes first. Each entity gets an equal share; what it does
    not use goes to the others, and in the end to other parts of the tracks.

    Args:
        is_ordered: the tracks come in the order of the hits; otherwise those with the best scores come first.
    """
    if len(hits) <= limit:
        return list(hits)
    ranked = _tracks(hits)
    if not is_ordered:
        ranked.sort(key=lambda group: -max(hits[n].score or 0.0 for n in group))
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


def _tracks(hits: Sequence[Hit]) -> list[list[int]]:
    """The numbers of the hits of each track and entity, in the order of the first."""
    groups: dict[tuple[str, str, int | None], list[int]] = defaultdict(list)
    for number, hit in enumerate(hits):
        groups[hit.entity, hit.video, hit.track_id].append(number)
    return list(groups.values())


def _choice(hits: Sequence[Hit], limit: int, is_ordered: bool) -> str:
    """Which tracks `choose` takes, for users; '' if it takes some of each."""
    if len(_tracks(hits)) <= limit:
        return ""
    each = " of each entity" if len({hit.entity for hit in hits}) > 1 else ""
    if is_ordered or all(hit.score is None for hit in hits):
        return f"of the first tracks{each} in the answer"
    return f"of the tracks{each} with the best scores; with ORDER BY, of the first ones in the answer"


def write_sheet(
    hits: Sequence[Hit],
    paths: Mapping[str, str],
    out: Path,
    limit: int = MOST,
    tracks: TrackBoxes | None = None,
    facts: HitFacts | None = None,
    stored: Callable[[Hit], NDArray[np.uint8] | None] = lambda hit: None,
    is_ordered: bool = False,
) -> Drawn:
    """Write a picture of the hits, in their order, each in its frame with its box, four in a row.

    Args:
        hits: places to show; if there are more than `limit`, see `choose`.
        paths: video name -> file.
        out: picture file; its suffix sets the format.
        tracks: returns the places of crops and of tracks' best views, for hits without a box, and the
            timestamps that identify frames in damaged files; None to do without.
        facts: what the library knows of the times of the hits; None to do without.
        stored: returns the stored picture of a hit whose frame cannot be read.
        is_ordered: whether somebody asked for the order of the hits; see `choose`.

    Raises:
        UsageError: the suffix is not that of a picture format, or of one that cannot hold a sheet of so many
            hits, or it is a video or a library's own file.
        LibraryWriteError: the file cannot be written.
    """
    check_picture(out, set(paths.values()))
    report = Drawn()
    timed, report.failed = sifted(hits, Hit.untimed)
    report.chosen = _choice(timed, limit, is_ordered)
    shown = _boxed(choose(timed, limit, is_ordered), tracks)
    facts = facts or HitFacts()
    captions = [_lines(hit, facts) for hit in shown]
    check_fits(out, captions, "hits")  # before any frame is read
    frames = frames_of(shown, paths, {} if tracks is None else stamps_of(shown, tracks))
    found = {n: it if isinstance(it, NoFrame) else fitted(it, shown[n].box_xyxy) for n, it in frames}
    drawn = _pictures([(shown[n], found[n]) for n in range(len(shown))], stored, report)
    tiles = [Tile(picture, captions[n]) for n, picture in drawn.items()]
    told = f"none of {counted(len(hits), 'hit')} could be drawn" if hits else "no hits"
    sheet = grid(tiles, told)
    names = [name for n in drawn for name in (shown[n].entity, shown[n].video)]
    report.warnings = lettering_remarks(names)
    write_picture(sheet, out)
    return report


def _pictures(
    made: Sequence[tuple[Hit, NDArray[np.uint8] | NoFrame]],
    stored: Callable[[Hit], NDArray[np.uint8] | None],
    report: Drawn,
) -> dict[int, NDArray[np.uint8]]:
    """The pictures of the tiles, by the number of the hit; a hit without a frame gets its stored picture.

    Hits without any are left out. Fills in the report.
    """
    found = {}
    for number, (hit, one) in enumerate(made):
        kept = stored(hit) if isinstance(one, NoFrame) else None
        if not isinstance(one, NoFrame):
            found[number] = one
        elif kept is not None:
            found[number] = fitted(kept)
            report.without_frame.append(one.error)
        else:
            report.failed.append(one.error)
            report.unread += one.told != UNKNOWN
    report.drawn = len(found)
    report.failed = list(dict.fromkeys(report.failed))
    report.without_frame = list(dict.fromkeys(report.without_frame))
    return found


def _lines(hit: Hit, facts: HitFacts) -> tuple[Line, ...]:
    """The caption of a hit; its id is what `register --track` and `--crop` take."""
    names = facts.names([hit])
    # Two names of pictures leave no room for that of their folder.
    place = (Line(hit.video), Line(files=names)) if len(names) > 1 else (Line(hit.video, facts.place(hit)),)
    return (
        Line(hit.entity, hit.sure(), 1 / 3),
        *place,
        Line("", facts.clock([hit]), right=hit.thing()),
    )


def _boxed(hits: Sequence[Hit], tracks: TrackBoxes | None) -> list[Hit]:
    """The hits; one without a box gets frame and box of its crop, or of its track's best view if it names no
    frame either.
    """
    if tracks is None:
        return list(hits)
    bare = [hit for hit in hits if hit.box_xyxy is None]
    crops = tracks.crops(hit.crop_id for hit in bare if hit.crop_id is not None)
    views = tracks.views(hit.track_id for hit in bare if hit.track_id is not None)
    out = []
    for hit in hits:
        view = None
        if hit.box_xyxy is None and hit.crop_id is not None:
            view = crops.get(hit.crop_id)
        elif hit.box_xyxy is None and hit.frame is None and hit.track_id is not None:
            view = views.get(hit.track_id)
        out.append(hit if view is None else replace(hit, frame=view[0], box_xyxy=view[1]))
    return out
