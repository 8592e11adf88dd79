"""A planned shorthand comes in; a MatchRequest goes out that says which matches its answer needs.

Bands are set on the whole library. So if bands decide, a condition on tracks saves no matching: it is checked
on the few tracks found, not on all tracks beforehand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from panorama.query.handed.following import in_time
from panorama.query.handed.handing import give_tracks
from panorama.query.handed.relations import SCHEMA
from panorama.query.handed.shapes import touching
from panorama.query.matching.matches import ACCEPTED, UNCERTAIN, Keep, Matcher, Matches, MatchRequest
from panorama.query.shorthands.clock import MARGIN_SECONDS
from panorama.query.shorthands.clock_sql import VIDEO_CLOCK, joined_pictures, span_of
from panorama.query.shorthands.conditions import Bounds, Leaf, Reach
from panorama.query.shorthands.plan import (
    MATCH_COLUMNS,
    OVERLAP_TARGETS,
    ROW_COLUMNS,
    VIDEO_COLUMNS,
    Branch,
    Query,
    Seen,
    Target,
)
from panorama.query.shorthands.rules import needed_videos, rows_to_limit
from panorama.query.shorthands.shorthand import constant
from panorama.query.sql.compile import compile_query
from panorama.query.sql.plain_scope import Need
from panorama.query.sql.rewritten import Rewritten, SimilarityCall
from panorama.store.files.schema import segment_of

_AMONG = "_panorama_among"
"""Table of the tracks that a condition is checked on, if these are known."""


def match_request(query: Query, cursor: duckdb.DuckDBPyConnection) -> MatchRequest | None:
    """The matches that a shorthand needs; None if it looks for no entity."""
    seen = [item for item in query.every_seen() if item.source != "any"]
    if not seen:
        return None
    entities: tuple[str, ...] | None = tuple(sorted({name for item in seen for name in item.names}))
    if any(item.source == "unknown" for item in seen):
        entities = None if query.entities else ()
    keep, min_score = _keep(seen)
    segments = tracks = None
    videos = needed_videos(query)
    try:
        if keep == "all" and _narrows(query):
            tracks = _tracks_in(query, cursor)
        elif videos is not None:
            segments = _segments_of(videos, cursor)
    except duckdb.Error:
        # Matching everything is correct, too; the statement itself will report the error in its condition.
        pass
    return MatchRequest(entities, segments, tracks, keep, min_score)


def possible(request: MatchRequest) -> bool:
    """Whether anything could match: there is a place to look at and something to look for."""
    for part in (request.segments, request.tracks, request.entities):
        if part is not None and len(part) == 0:
            return False
    return True


def count_tracks(cursor: duckdb.DuckDBPyConnection, request: MatchRequest) -> int:
    """Number of tracks that a request admits."""
    if request.tracks is not None:
        return len(request.tracks)
    sql = f"SELECT count(*) FROM {SCHEMA}.tracks"
    if request.segments is not None:
        sql += " WHERE list_contains(?, segment)"
        return int(cursor.execute(sql, [request.segments.tolist()]).fetchall()[0][0])
    return int(cursor.execute(sql).fetchall()[0][0])


def narrowed(
    query: Query,
    request: MatchRequest,
    matches: Matches,
    tracks: pa.Table | None,
    cursor: duckdb.DuckDBPyConnection,
    matcher: Matcher,
) -> Matches:
    """The matches without tracks that the conditions exclude and that no later step would leave out.

    These are undecided tracks, which are counted, and all tracks far from every shape.

    Args:
        tracks: rows of the matched tracks, ordered by id; None if only the files have them.
    """
    if request.keep == "all" or not _narrows(query):
        return matches
    asked = np.ones(len(matches), np.bool_) if query.shapes else matches.band == UNCERTAIN
    if not asked.any():
        return matches
    by_time = not query.shapes and not query.track_clock_sql()
    if tracks is not None and by_time and (needed_videos(query) is None or request.segments is not None):
        inside = tracks.column("track_id").to_numpy()[in_time(tracks, query.bounds, MARGIN_SECONDS)]
        return matches[~asked | np.isin(matches.track_id, inside)]
    try:
        give_tracks(cursor, _AMONG, np.unique(matches.track_id[asked]), matcher)
        inside = _tracks_in(query, cursor, among=True)
    except duckdb.Error:
        return matches  # the statement itself will report the error in its condition
    return matches[~asked | np.isin(matches.track_id, inside)]


def _narrows(query: Query) -> bool:
    """Whether a condition can exclude single tracks, not only whole videos."""
    return bool(query.bounds != Bounds() or query.shapes or query.track_clock_sql())


def counted_undecided(
    query: Query,
    matches: Matches,
    tracks: pa.Table | None,
    cursor: duckdb.DuckDBPyConnection,
    matcher: Matcher,
) -> Matches:
    """The undecided matches that the bands keep out, restricted by the times and tracks of each alternative.

    If the rows consist of several things in sequence, all undecided matches count. For tracks that match
    nothing, an undecided match of any entity keeps a track out, unless another entity is accepted there,
    which keeps it out for certain.

    Args:
        tracks: rows of the matched tracks, ordered by id; None if only the files have them.
    """
    undecided = matches[matches.band == UNCERTAIN]
    counted = np.zeros(len(undecided), np.bool_)
    for branch in query.branches:
        here = np.zeros(len(undecided), np.bool_)
        for seen in branch.every_seen():
            if seen.calibrated and not here.all():
                here |= _looked_for(seen, undecided, cursor)
        if any(seen.calibrated and seen.source == "unknown" for seen in branch.every_seen()):
            here |= ~np.isin(undecided.track_id, matches.track_id[matches.band == ACCEPTED])
        here &= _of_match(branch.where, here, undecided, cursor)
        if branch.times and here.any():
            if tracks is None:
                give_tracks(cursor, _AMONG, np.unique(undecided.track_id), matcher)
                found = cursor.execute(f"SELECT track_id, start_time, end_time FROM {_AMONG}").fetchnumpy()
                tracks = pa.table(dict(found))
            inside = np.zeros(tracks.num_rows, np.bool_)
            for bounds in branch.times:  # one by one: the hull of two short intervals is not short
                if query.target not in OVERLAP_TARGETS and bounds.empty:
                    continue  # different instants of one interval may satisfy the separate bounds
                inside |= in_time(tracks, bounds, _margin(query.target, bounds))
            here &= np.isin(undecided.track_id, tracks.column("track_id").to_numpy()[inside])
        if (asked := _asked_of_tracks(query, branch)) and here.any():
            with suppress(duckdb.Error):  # the statement itself will report the error in its condition
                give_tracks(cursor, _AMONG, np.unique(undecided.track_id), matcher)
                left = cursor.execute(_LEFT.format(among=_AMONG, asked=asked)).fetchnumpy()["track_id"]
                here &= np.isin(undecided.track_id, left)
        counted |= here
    return undecided[counted]


def _looked_for(seen: Seen, undecided: Matches, cursor: duckdb.DuckDBPyConnection) -> NDArray[np.bool_]:
    """Which undecided matches one thing looked for would accept, by their entity and their video."""
    named = [i for i, name in enumerate(undecided.entities) if name in seen.names]
    found = np.isin(undecided.entity_index, named)
    return found & _of_match(seen.conditions, found, undecided, cursor)


_PAIRS = f"""
SELECT DISTINCT _pair FROM (
    SELECT p.entity, v.video, v.camera, v.uri, v.duration, p._pair
    FROM (SELECT unnest(?) AS entity, unnest(?) AS segment, unnest(?) AS _pair) p
    JOIN {SCHEMA}.videos v ON v.segment = p.segment
) WHERE {{asked}}
"""
_OF_MATCH = VIDEO_COLUMNS | {"entity"}


def _of_match(
    leaves: Sequence[Leaf], among: NDArray[np.bool_], undecided: Matches, cursor: duckdb.DuckDBPyConnection
) -> NDArray[np.bool_]:
    """Which undecided matches satisfy the conditions on their entity and video; others are not asked.

    Args:
        among: the matches that matter.
    """
    texts = [f"({leaf.text})" for leaf in leaves if leaf.columns <= _OF_MATCH and leaf.reach <= Reach.LIBRARY]
    passed = np.ones(len(undecided), np.bool_)
    if not texts or not among.any():
        return passed
    segments = segment_of(undecided.track_id)
    keys = np.stack([undecided.entity_index.astype(np.int64), segments.astype(np.int64)], axis=1)
    pairs, of_match = np.unique(keys, axis=0, return_inverse=True)
    names = [undecided.entities[i] for i in pairs[:, 0]]
    with suppress(duckdb.Error):  # the statement itself will report the error in its condition
        sql = _PAIRS.format(asked=" AND ".join(texts))
        given = [names, pairs[:, 1].tolist(), list(range(len(pairs)))]
        passed = np.isin(of_match.reshape(-1), cursor.execute(sql, given).fetchnumpy()["_pair"])
    return passed


_CLOCKS = span_of("_clock", "v.start_clock", "t.start_time", "t.end_time")
_LEFT = f"""
SELECT track_id FROM (
    SELECT t.*,
    {_CLOCKS[0]} AS start_clock, {_CLOCKS[1]} AS end_clock
    FROM {{among}} t JOIN {SCHEMA}.videos v ON v.segment = t.segment
    {joined_pictures("v.clock_key", "t.start_time", "t.end_time")}
) WHERE {{asked}}
"""
_ENDS = frozenset(("start_time", "end_time", "start_clock", "end_clock"))
_ONE_SIDED = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def _asked_of_tracks(query: Query, branch: Branch) -> str:
    """SQL conditions of a branch that a track itself can be asked: its id, its ends, its clock; '' for none.

    A moment may be longer than any one of its tracks, so there a condition on both ends is left out.
    """
    if branch.sequences or branch.unsequenced:
        return ""
    of_one_track = ROW_COLUMNS["tracks"] if query.target == "tracks" else {"track_id"}
    asked = []
    for leaf in branch.where:
        if leaf.may_select or leaf.times or not leaf.columns:
            continue
        if query.target == "moments":
            of_track = leaf.columns <= _ENDS and len(leaf.columns) == 1
        else:
            of_track = leaf.columns <= of_one_track
        if of_track:
            asked.append(f"({leaf.text})")
        elif leaf.columns == {"clock"} and isinstance(leaf.node, _ONE_SIDED):
            # A one-sided condition holds at some instant of the track if it holds at one of its ends.
            instants = "SELECT unnest([start_clock, end_clock]) AS clock"
            asked.append(f"EXISTS (SELECT 1 FROM ({instants}) WHERE {leaf.text})")
    # Beside what must not be seen, other tracks in the same frames count, too.
    of_one = query.target == "frames" and branch.seen and not branch.unseen
    for leaf in branch.seen[0].conditions if of_one else ():
        of_all = all(leaf in seen.conditions for seen in branch.seen)
        if of_all and leaf.columns == {"track_id"} and not leaf.may_select:
            asked.append(f"({leaf.text})")
    return " AND ".join(asked)


def _margin(target: Target, bounds: Bounds) -> float:
    """Seconds by which a track may miss a time and still be part of a row at that time."""
    # A moment may overlap a short time only in the closed gap between two tracks.
    short = bounds.low is not None and bounds.high is not None and bounds.high - bounds.low < MARGIN_SECONDS
    return MARGIN_SECONDS if target == "moments" and short else 0.0


def similarity_request(
    rewritten: Rewritten, call: SimilarityCall, calls: int, cursor: duckdb.DuckDBPyConnection
) -> MatchRequest:
    """The crops whose similarity a statement needs.

    Args:
        call: the calls about one picture.
        calls: number of `similarity` calls in the statement.
    """
    everything = MatchRequest(keep="all")
    if all(need is not None for need in call.needs):
        return _plain_request([need for need in call.needs if need is not None], cursor)
    queries, table = rewritten.queries, call.table
    if len(queries) != 1:
        return everything
    query = queries[0]
    ordered = query.similarity is not None and query.order in (
        f"{query.similarity} DESC",
        f"{query.similarity} desc",
    )
    least = _least_similarity(query, table)
    if calls != (least is not None) + ordered:
        return everything
    try:
        if least is not None:
            videos = needed_videos(query)
            segments = None if videos is None else _segments_of(videos, cursor)
            return MatchRequest(segments=segments, keep="all", min_score=least)
        return _first_similar(query, cursor) if ordered else everything
    except duckdb.Error:
        return everything  # the statement itself will report the error in its condition


def _plain_request(needs: Sequence[Need], cursor: duckdb.DuckDBPyConnection) -> MatchRequest:
    """What the calls outside of shorthands need together."""
    least = [need.least for need in needs]
    request = MatchRequest(
        keep="all", min_score=None if None in least else min(value for value in least if value is not None)
    )
    if len(set(needs)) == 1:
        request = replace(request, first=needs[0].first)
    try:
        if all(need.videos is not None and need.tracks is None for need in needs):
            return replace(request, segments=segments_of(needs, cursor))
        if all(need.tracks is not None for need in needs):
            sql = " UNION ".join(f"({need.tracks})" for need in needs)
            found = cursor.execute(f"SELECT DISTINCT track_id FROM ({sql}) ORDER BY 1").fetchnumpy()
            return replace(request, tracks=np.asarray(found["track_id"], np.int64))
    except duckdb.Error:
        # Comparing everything is correct, too; the statement itself will report the error in its condition.
        return replace(request, first=None)
    if any(need.videos or need.tracks for need in needs):
        request = replace(request, first=None)
    return request


def segments_of(needs: Sequence[Need], cursor: duckdb.DuckDBPyConnection) -> NDArray[np.int32]:
    """The segments of the videos that plain SQL needs."""
    asked = " UNION ".join(f"(SELECT video FROM {need.videos})" for need in needs)
    return _segments_of(f"video IN ({asked})", cursor)


def _least_similarity(query: Query, table: str) -> float | None:
    """s, if every row must satisfy a condition similarity(...) > s or >= s."""
    if len(query.branches) != 1:
        return None
    branch = query.branches[0]
    lookup = rf"\(SELECT max\(s\._similarity\) FROM {table} s WHERE s\._(?:crop = crop|track = track)_id\)"
    for leaf in (*branch.where, *(leaf for seen in branch.seen for leaf in seen.conditions)):
        found = re.fullmatch(rf"\s*{lookup}\s*>=?\s*(\d*\.?\d+)\s*", leaf.text)
        if found:
            return float(found[1])
    return None


def _first_similar(query: Query, cursor: duckdb.DuckDBPyConnection) -> MatchRequest:
    """What the first rows in order of similarity to one picture need."""
    everything = MatchRequest(keep="all")
    first = rows_to_limit(query)
    if first is None:
        return everything
    if query.branches == (Branch(),):
        videos = needed_videos(query)
        if videos is None and not query.shared:
            return MatchRequest(keep="all", first=first)
        if videos is None:
            return everything
        return MatchRequest(segments=_segments_of(videos, cursor), keep="all", first=first)
    # A condition on crops may exclude the very crops that make a track similar; one on tracks cannot.
    if query.target != "tracks" or not all(leaf.asked_apart for leaf in query.every_leaf()):
        return everything
    plain = replace(query, order=None, limit=None, offset=None, similarity=None, alone=False)
    found = cursor.execute(f"SELECT DISTINCT track_id FROM ({compile_query(plain)})").fetchnumpy()
    return MatchRequest(tracks=np.asarray(found["track_id"], np.int64), keep="all", first=first)


def _segments_of(videos: str, cursor: duckdb.DuckDBPyConnection) -> NDArray[np.int32]:
    rows = cursor.execute(f"SELECT segment FROM {SCHEMA}.videos WHERE {videos}").fetchall()
    return np.array(sorted({row[0] for row in rows}), np.int32)


def _tracks_in(query: Query, cursor: duckdb.DuckDBPyConnection, among: bool = False) -> NDArray[np.int64]:
    """The tracks that can be part of an answer; with `among`, only tracks of the table _AMONG."""
    low = -math.inf if query.bounds.low is None else query.bounds.low - MARGIN_SECONDS
    high = math.inf if query.bounds.high is None else query.bounds.high + MARGIN_SECONDS
    videos = needed_videos(query)
    where = f" WHERE {videos}" if videos else ""
    sql = (
        f"WITH v AS MATERIALIZED (SELECT *, {VIDEO_CLOCK} FROM {SCHEMA}.videos{where})"
        f" SELECT DISTINCT t.track_id FROM {_AMONG if among else f'{SCHEMA}.tracks'} t"
        " JOIN v ON v.segment = t.segment"
        " WHERE t.end_time > ? AND t.start_time <= ?"
    )
    if query.shapes:
        sql += f" AND t.track_id IN ({touching(query.shapes, query.crossed, 'v', _AMONG if among else None)})"
    if clock := query.track_clock_sql():
        sql += f" AND ({clock})"
    sql += " ORDER BY 1"
    found = cursor.execute(sql, [low, high]).fetchnumpy()["track_id"]
    return np.asarray(found, np.int64)


def _keep(seen: list[Seen]) -> tuple[Keep, float | None]:
    """The rows that a matcher must return, and the least score of interest."""
    if all(item.calibrated for item in seen):
        return "accepted", None
    free = [item for item in seen if not item.calibrated]
    if all(_only_decided(item) for item in free):
        return "undecided", None
    least = [_least_score(item) for item in seen]
    return "all", None if None in least else min(value for value in least if value is not None)


def _only_decided(seen: Seen) -> bool:
    """Whether a condition says band = 'uncertain' or 'accepted', so that no rejected row can be an answer."""
    for leaf in seen.conditions:
        node = leaf.node
        if isinstance(node, exp.EQ) and leaf.columns == {"band"}:
            value = constant(node.expression) if isinstance(node.this, exp.Column) else constant(node.this)
            if value in ("uncertain", "accepted"):
                return True
    return False


def _least_score(seen: Seen) -> float | None:
    """s, if every row must satisfy a condition score >= s."""
    for leaf in seen.conditions:
        node = leaf.node
        if leaf.columns != MATCH_COLUMNS & {"score"} or node is None:
            continue
        sides: tuple[exp.Expr, exp.Expr] | None = None
        if isinstance(node, (exp.GT, exp.GTE, exp.EQ)):
            sides = (node.this, node.expression)
        elif isinstance(node, (exp.LT, exp.LTE)):
            sides = (node.expression, node.this)
        elif isinstance(node, exp.Between):
            sides = (node.this, node.args["low"])
        if sides is not None and isinstance(sides[0], exp.Column):
            value = constant(sides[1])
            if isinstance(value, (int, float)):
                return float(value)
    return None
