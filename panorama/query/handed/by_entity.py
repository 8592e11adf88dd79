"""The entities that a statement names come in; tables of their matches go out, which its SQL joins."""

from __future__ import annotations

import time
from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.errors import AccuracyError
from panorama.query.explain import Step
from panorama.query.handed.following import Videos, worth_following
from panorama.query.handed.handing import (
    MOMENTS,
    SIGHTINGS,
    hand_over,
    hand_over_followed,
    places_of,
    tracks_of,
)
from panorama.query.handed.relations import SnapshotLike
from panorama.query.matching.ledger import noting
from panorama.query.matching.matches import ACCEPTED, Matcher, Matches, MatchRequest
from panorama.query.matching.needs import (
    count_tracks,
    counted_undecided,
    match_request,
    narrowed,
    possible,
    segments_of,
)
from panorama.query.run import Run
from panorama.query.shorthands.plan import Branch, Query, Seen
from panorama.query.shorthands.rules import asks_whole_moments, needed_videos
from panorama.query.shorthands.terms import Budget
from panorama.query.sql.compile import compile_query
from panorama.query.sql.places_sql import follows_known, places_from_files, tracks_to_follow
from panorama.query.sql.plain import plain_entities, plain_videos
from panorama.query.sql.plain_scope import Need
from panorama.query.sql.rewrite import Rewriter
from panorama.query.sql.tracks_sql import Names
from panorama.query.stopping import check_stopped
from panorama.query.text.remarks import check_clock, remark_entities, remark_examples, remark_videos


class ByEntity:
    """Answers `entity = 'X'` in a shorthand, and the relations `sightings` and `moments`.

    Args:
        snapshot: the videos.
        matcher: matches the album.
        entities: all names, sorted.
    """

    def __init__(self, snapshot: SnapshotLike, matcher: Matcher, entities: tuple[str, ...]) -> None:
        self._snapshot = snapshot
        self._matcher = matcher
        self._entities = entities
        self._videos: Videos | None = None
        counts = (snapshot.entities.column(name).to_pylist() for name in ("entity", "exemplars"))
        self._without = frozenset(name for name, count in zip(*counts, strict=True) if not count)

    def shorthand(self, query: Query, run: Run) -> None:
        """Match what a shorthand looks for, and give DuckDB the result under the shorthand's own names."""
        if query.clock_at is not None:
            check_clock(query, run)
        name = Names(query.number).matches
        request = match_request(query, run.cursor)
        videos = self._snapshot.videos.num_rows
        if not run.explained:
            if videos:  # without one, that alone is why nothing is found
                remark_entities(query, run)
            if not videos or request is None or not possible(request):
                remark_videos(query, run, videos)
        if request is None:
            return
        self._remark(request, run)
        if query.budget_seconds is not None:
            run.budgets.append(Budget(query.budget_seconds, run.started))
            request = replace(request, budget=run.budgets[-1])
        request = replace(request, contract=query.contract)
        try:
            matches = self._step(query, request, run, run.dry or not possible(request))
        except AccuracyError as exc:
            place = query.contract.start if query.contract is not None else query.start
            raise AccuracyError(exc.args[0], query.sql, place) from exc
        run.warnings += request.remarks
        if request.budget is not None and request.budget.cut and asks_whole_moments(query):
            run.warnings.append(
                "some of these moments may not be in the complete answer: what was not reached may prolong"
                " them, so that they no longer satisfy a condition on their order, ends or box"
            )
        tracks = tracks_of(matches, self._matcher)
        matches = narrowed(query, request, matches, tracks, run.cursor, self._matcher)
        unknown = any(seen.source == "unknown" for seen in query.every_seen())
        views = query.target == "moments"
        hand_over(run.cursor, name, matches, tracks, self._matcher, alone=unknown, views=views)
        if follows_known(query):
            self._follow(query, request, matches, tracks, run)
        run.count_undecided(counted_undecided(query, matches, tracks, run.cursor, self._matcher))

    def _remark(self, request: MatchRequest, run: Run) -> None:
        """Warn about named entities that cannot be found because they have no example images."""
        if not run.explained and request.entities is not None:
            remark_examples(request.entities, self._without, run)

    def _follow(
        self, query: Query, request: MatchRequest, matches: Matches, tracks: pa.Table | None, run: Run
    ) -> None:
        """Give DuckDB the boxes of the tracks that a shorthand follows through every frame."""
        if self._videos is None:
            self._videos = Videos.of(self._snapshot.videos)
        if all(seen.calibrated for seen in query.every_seen()):
            matches = matches[matches.band == ACCEPTED]
        if tracks is None:
            ids = np.unique(matches.track_id)
        else:
            whole = request.segments is not None or needed_videos(query) is None
            whole = whole and not any(leaf.may_select for leaf in query.shared)
            ids = worth_following(query, matches, tracks, self._videos, whole)
        name, followed = Names(query.number).matches, tracks_to_follow(query)
        if not hand_over_followed(run.cursor, name, ids, self._matcher, self._videos, followed):
            run.views.append((places_of(name), places_from_files(query)))

    def _step(self, query: Query, request: MatchRequest, run: Run, skipped: bool) -> Matches:
        """Run one matching pass; record it if the statement is an EXPLAIN."""
        check_stopped()
        if not run.explained:
            return Matches.empty() if skipped else self._matcher.match(request)
        within, everything = (count_tracks(run.cursor, asked) for asked in (request, MatchRequest()))
        choices = self._matcher.choices(request) if within and request.entities != () else {}
        started = time.perf_counter()
        with noting() as ledger:
            matches = Matches.empty() if skipped else self._matcher.match(request)
        seconds = time.perf_counter() - started
        run.steps.append(Step(query, request, matches, seconds, within, everything, choices, ledger))
        return matches

    def relations(self, wanted: set[str], rewriter: Rewriter, run: Run) -> None:
        """Create the relations `sightings` and `moments`, for this statement only."""
        names = plain_entities(run.sql, rewriter.plain, wanted, self._entities)
        needs = plain_videos(run.sql, rewriter.plain, wanted, rewriter.select)
        request = MatchRequest(entities=names, segments=_segments(needs, run), keep="accepted")
        self._remark(request, run)
        everything = _every_moment(run.sql, self._entities)
        if (
            names is None and not run.explained and self._snapshot.videos.num_rows
        ):  # names that are not there are told by themselves
            remark_entities(everything, run)
        skipped = run.dry or not self._entities or not possible(request)
        matches = self._step(everything, request, run, skipped)
        if run.explained:
            told = [f"entity {', '.join(names)}"] if names is not None else []
            told += dict.fromkeys(text for need in needs for text in need.told)
            run.steps[-1] = replace(run.steps[-1], told=tuple(told))
        run.count_undecided(matches)
        accepted = matches[matches.band == ACCEPTED]
        tracks = tracks_of(accepted, self._matcher)
        hand_over(
            run.cursor,
            Names(everything.number).matches,
            accepted,
            tracks,
            self._matcher,
            views="moments" in wanted,
        )
        if "sightings" in wanted:
            run.cursor.execute(SIGHTINGS)
        if "moments" in wanted:
            run.cursor.execute(MOMENTS.format(moments=compile_query(everything)))


def _segments(needs: list[Need], run: Run) -> NDArray[np.int32] | None:
    """The segments whose rows of `sightings` and `moments` are needed; None for all."""
    try:
        return segments_of(needs, run.cursor) if needs else None
    except duckdb.Error:
        return None  # the statement itself will report the error in its condition


def _every_moment(sql: str, entities: tuple[str, ...]) -> Query:
    """The planned `SELECT moments` of all entities; `sightings` and `moments` are built from it."""
    every = (Branch(seen=(Seen("known", entities),)),)
    return Query("moments", 0, sql, 0, None, entities=entities, branches=every)
