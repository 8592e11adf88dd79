"""Puts a plan into words: rewritten statement, matching steps and DuckDB's plan enter, text leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from panorama.query.matches import ACCEPTED, REJECTED, UNCERTAIN, Matches, MatchRequest
from panorama.query.plan import Branch, PlannedSequence, Query, Seen
from panorama.query.rewrite import Rewritten


@dataclass(frozen=True, slots=True)
class Step:
    """One matching pass."""

    query: Query
    request: MatchRequest
    matches: Matches
    seconds: float


def explain_text(rewritten: Rewritten, steps: Sequence[Step], duckdb_plan: str, analyze: bool) -> str:
    """The plan, with what was counted and timed where it was executed."""
    lines: list[str] = []
    for query in rewritten.queries:
        lines += query_lines(query)
        lines += [line for step in steps if step.query is query for line in _step_lines(step, analyze)]
    for step in steps:
        if step.query.number == 0:
            lines += ["relations sightings, moments", *_step_lines(step, analyze)]
    lines += ["DuckDB gets", *(f"  {line}" for line in rewritten.text.split("\n"))]
    lines += ["DuckDB does", *(f"  {line}" for line in duckdb_plan.rstrip().split("\n"))]
    return "\n".join(lines)


def query_lines(query: Query) -> list[str]:
    """What one shorthand looks for and what is pushed below matching."""
    lines = [f"SELECT {query.target} ({len(query.branches)} alternative{'s'[: len(query.branches) != 1]})"]
    for branch in query.branches:
        parts = [f"seen: {_seen_text(item)}" for item in branch.seen]
        parts += [f"not seen: {_seen_text(item)}" for item in branch.unseen]
        parts += [_chain_text(chain) for chain in branch.sequences]
        parts += [f"no {_chain_text(chain)}" for chain in branch.unsequenced]
        parts += [f"where: {leaf.text}" for leaf in branch.where]
        lines.append(f"  {'; '.join(parts) or 'every row'}")
    pushed = [leaf.text for leaf in query.shared]
    if query.bounds.low is not None:
        pushed.append(f"time from {query.bounds.low:g} s")
    if query.bounds.high is not None:
        pushed.append(f"time to {query.bounds.high:g} s")
    if query.shapes:
        pushed.append(f"tracks near {', '.join(query.shapes)}")
    if query.clocks:
        branches = [" and ".join(str(test) for test in tests) for tests in query.clocks]
        pushed.append(f"wall clock {' or '.join(branches)}")
    lines.append(f"  pushed below matching: {', '.join(pushed) or 'nothing'}")
    if query.first_rows is not None:
        lines.append(f"  stops after the tracks of the first {query.first_rows} rows")
    return lines


def _chain_text(chain: PlannedSequence) -> str:
    sides = [" or ".join(_side_text(branch) for branch in side) for side in chain.sides]
    text = sides[0]
    for kind, within, side in zip(chain.kinds, chain.within_seconds, sides[1:], strict=True):
        text += f" {kind} {side}" + ("" if within is None else f" within {within:g} s")
    return text


def _side_text(branch: Branch) -> str:
    parts = [_seen_text(item) for item in branch.seen] + [f"no {_seen_text(item)}" for item in branch.unseen]
    parts += [f"({_chain_text(chain)})" for chain in branch.sequences]
    parts += [f"no ({_chain_text(chain)})" for chain in branch.unsequenced]
    return " and ".join([*parts, *(leaf.text for leaf in branch.where)])


def _seen_text(seen: Seen) -> str:
    what = {"unknown": "unknown tracks", "any": "any track"}.get(
        seen.source, ", ".join(seen.names) or "nothing"
    )
    conditions = [leaf.text for leaf in (*seen.conditions, *seen.finals)]
    if seen.pair is not None:
        conditions.insert(0, f"a {seen.pair.left}, b {seen.pair.right}: {seen.pair.text}")
    return f"{what} with {' and '.join(conditions)}" if conditions else what


def _step_lines(step: Step, analyze: bool) -> list[str]:
    request = step.request
    who = "all entities" if request.entities is None else f"{len(request.entities)} entities"
    if request.tracks is not None:
        where = f"{len(request.tracks)} tracks"
    elif request.segments is not None:
        where = f"{len(request.segments)} segments"
    else:
        where = "the whole library"
    least = f", score >= {request.min_score:g}" if request.min_score is not None else ""
    lines = [f"  match {who} in {where}, keep {request.keep}{least}"]
    if analyze:
        bands = [int(np.count_nonzero(step.matches.band == band)) for band in (ACCEPTED, UNCERTAIN, REJECTED)]
        lines.append(
            f"    {len(step.matches)} rows in {step.seconds * 1000:.1f} ms:"
            f" {bands[0]} accepted, {bands[1]} uncertain, {bands[2]} rejected"
        )
        for number in np.unique(step.matches.exit).tolist():
            decided = int(np.count_nonzero(step.matches.exit == number))
            lines.append(f"    exit {number} decided {decided}")
    return lines
