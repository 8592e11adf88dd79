"""A library comes in; a crop of what recurs most often goes out, an example that nobody had to cut out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.query.matching.decide import cohort_level, normalise
from panorama.store.files.schema import BEST_FIRST

if TYPE_CHECKING:
    from panorama.library import Library

MOST_TRACKS = 2000
"""Every track is compared with every other; if there are more, the longest are taken."""

LEAST_SIDE = 24
"""Pixels; nobody would choose a smaller crop as an example."""

MOST_OF_FRAME = 0.5
"""A box that covers a larger share of the frame shows the scene rather than a thing in it."""

EDGE = 0.15
"""Share of the picture's height at its top and at its bottom. What never leaves it is mostly writing: the
time, the name of a camera or a station, a ticker."""

APART_SECONDS = 2.0
"""Sightings further apart than this are separate appearances."""

VIEWS = f"""
WITH views AS (
  SELECT t.track_id, t.video, t.start_time, t.end_time, c.crop_id, c.quality,
         (c.x2 - c.x1) * (c.y2 - c.y1) / (v.width * v.height) AS share,
         least(c.x2 - c.x1, c.y2 - c.y1) AS side,
         greatest(max(c.x1 + c.x2) OVER one - min(c.x1 + c.x2) OVER one,
                  max(c.y1 + c.y2) OVER one - min(c.y1 + c.y2) OVER one) / 2 AS path,
         greatest(max(c.x1) OVER one - min(c.x2) OVER one, max(c.y1) OVER one - min(c.y2) OVER one) AS apart,
         max(c.y2) OVER one <= {EDGE} * v.height OR min(c.y1) OVER one >= {1 - EDGE} * v.height AS is_edge,
         CASE WHEN is_edge THEN 0 WHEN apart >= 0 THEN 3 WHEN path >= side THEN 2 ELSE 1 END AS motion,
         row_number() OVER (one ORDER BY {{order}}) AS place
  FROM tracks t JOIN crops c USING (track_id, video) JOIN videos v ON v.video = t.video
  WINDOW one AS (PARTITION BY t.track_id, t.video))
"""
"""The crops of every track in an order, each with its share of the frame and shorter side.

`motion` is the track's: 3 if two of its boxes do not overlap, 2 if its centre moves by its own size, 1 if it
stands still, and 0 if it keeps to an edge. Boxes around writing grow and shrink, so that their centres
wander, but they overlap.
"""

# Use the crop nearest to the middle of a track: things are more often fully visible there than at its ends.
_TRACKS = f"""{VIEWS.format(order=f"abs(c.time - (t.start_time + t.end_time) / 2), {BEST_FIRST}")}
SELECT crop_id, video, start_time, end_time, quality, share, side, motion FROM views WHERE place = 1
ORDER BY end_time - start_time DESC, crop_id LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Recurrent:
    """What recurs most often.

    Attributes:
        crop_id: the example.
        appearances: number of separate times it was seen.
        seconds: total duration.
    """

    crop_id: int
    appearances: int
    seconds: float


def most_recurrent(library: Library) -> Recurrent | None:
    """The best example of what appears most often; None if nothing was tracked."""
    rows = library.query(_TRACKS, [MOST_TRACKS]).fetchall()
    things = [row for row in rows if row["share"] <= MOST_OF_FRAME and row["side"] >= LEAST_SIDE]
    # What moves is a thing; what stands still is furniture, and only the second choice.
    most = max((row["motion"] for row in things), default=0)
    rows = [row for row in things if row["motion"] == most] or rows
    if not rows:
        return None
    # Of legs, bags and people, a user would cut out the people: take the quarter with the best views.
    least = float(np.quantile([row["quality"] for row in rows], 0.75))
    rows = [row for row in rows if row["quality"] >= least]
    crop_ids = np.array([row["crop_id"] for row in rows], np.int64)
    places = [(row["video"], float(row["start_time"]), float(row["end_time"])) for row in rows]
    alike = _alike(library, crop_ids)  # (T, T)
    counted = [_appearances([places[j] for j in np.flatnonzero(like)]) for like in alike]
    best = max(range(len(rows)), key=lambda i: (*counted[i], -i))
    return Recurrent(int(crop_ids[best]), *counted[best])


def _alike(library: Library, crop_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(T, T) whether crop i, as an example, would accept crop j, by the decision rule for single crops."""
    exit = library.embedder.exits
    vectors = library.vectors_of(crop_ids, exit)  # (T, dim)
    level = cohort_level(vectors, library.embedder.cohorts()[exit - 1])
    calibration = library.calibrations[exit - 1]
    return np.asarray(calibration.score(normalise(vectors @ vectors.T, level)) >= calibration.high)


def _appearances(places: list[tuple[str, float, float]]) -> tuple[int, float]:
    """Number of separate appearances and total seconds of some spans (video, start, end)."""
    count, seconds = 0, 0.0
    video, end = "", -np.inf
    for name, start, stop in sorted(places):
        if name != video or start > end + APART_SECONDS:
            count, video, end = count + 1, name, start
        seconds += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return count, seconds
