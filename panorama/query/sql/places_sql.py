"""The tracks looked for come in; SQL of their boxes in every frame goes out."""

from __future__ import annotations

from panorama.query.handed.handing import places_of
from panorama.query.handed.relations import SCHEMA
from panorama.query.shorthands.plan import Query, Seen
from panorama.query.sql.space_sql import frame_by_frame
from panorama.query.sql.tracks_sql import Names, track_steps, with_steps


def follows_known(query: Query) -> bool:
    """Whether matched tracks, and no others, are followed through every frame."""
    followed = [item for item in query.every_seen() if frame_by_frame(query, item)]
    return bool(followed) and all(item.source == "known" for item in followed)


def tracks_to_follow(query: Query) -> str:
    """SQL of the ids of the tracks that a shorthand follows through every frame, possibly of more.

    It is a statement of its own, as is `places_from_files`; see `track_steps`.
    """
    names = Names(query.number)
    picks = " UNION ".join(
        f"SELECT track_id FROM {names.tracks(j)}"
        for j, item in enumerate(query.every_seen())
        if frame_by_frame(query, item)
    )
    return with_steps(track_steps(query, names, apart=True), picks)


def places_from_files(query: Query) -> str:
    """SQL of the boxes for a shorthand that follows known tracks, if these are too many to hand over."""
    names = Names(query.number)
    return with_steps(track_steps(query, names, apart=True), every_place(query, query.every_seen(), names))


def places_in(query: Query) -> str:
    """The name of the table with a box for every frame; for known tracks, the one that was handed over."""
    names = Names(query.number)
    return places_of(names.matches) if follows_known(query) else names.places


def every_place(query: Query, seen: tuple[Seen, ...], names: Names) -> str:
    """SQL of a box for every frame of the tracks looked for; a sample's box holds until the next sample.

    Between two samples the box moves linearly in time; before the first and after the last it stands still.
    """
    picks = " UNION ".join(
        f"SELECT segment, track_id, start_frame, least(end_frame, video_frames) AS end_frame"
        f" FROM {names.tracks(j)} t{_beside(query, seen, j, names)}"
        for j, item in enumerate(seen)
        if frame_by_frame(query, item)
    )
    following = ", ".join(
        f"lead(b.{c}) OVER w AS next_{c}" for c in ("frame", "time", "x1", "y1", "x2", "y2")
    )
    samples = (
        f"SELECT b.segment, b.track_id, b.frame, b.time, b.x1, b.y1, b.x2, b.y2, {following},"
        " lag(b.frame) OVER w IS NULL AS is_first, p.start_frame, p.end_frame"
        f" FROM {SCHEMA}.boxes b JOIN ({picks}) p ON p.track_id = b.track_id AND p.segment = b.segment"
        " WINDOW w AS (PARTITION BY b.track_id ORDER BY b.frame)"
    )
    spread = (
        "SELECT *, unnest(range(CASE WHEN is_first THEN least(start_frame, frame) ELSE frame END,"
        f" coalesce(next_frame, greatest(end_frame, frame + 1)))) AS at_frame FROM ({samples})"
    )
    moved = ", ".join(
        f"(s.{c} + share * (coalesce(s.next_{c}, s.{c}) - s.{c}))::DOUBLE AS {c}"
        for c in ("x1", "y1", "x2", "y2")
    )
    share = (
        "CASE WHEN s.next_time IS NULL OR f.time <= s.time THEN 0.0::DOUBLE"
        " ELSE least(1.0, (f.time - s.time) / (s.next_time - s.time)) END AS share"
    )
    return (
        f"SELECT track_id, at_frame AS frame, at_time AS time, {moved} FROM (SELECT s.*, f.time AS at_time,"
        f" {share} FROM ({spread}) s JOIN {SCHEMA}.frames f"
        " ON f.segment = s.segment AND f.frame = s.at_frame) s"
    )


def _beside(query: Query, seen: tuple[Seen, ...], j: int, names: Names) -> str:
    """A condition that excludes tracks that overlap no track of what must be seen beside them."""
    if len(query.branches) != 1 or query.target != "frames":
        return ""
    others = [seen.index(item) for item in query.branches[0].seen if item != seen[j]]
    tests = [
        f"EXISTS (FROM {names.tracks(k)} o WHERE o.segment = t.segment"
        " AND o.start_frame < t.end_frame AND t.start_frame < o.end_frame)"
        for k in others
    ]
    return f" WHERE {' AND '.join(tests)}" if tests else ""
