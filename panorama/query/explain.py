"""A rewritten statement, its matching steps and DuckDB's plan come in; the text of EXPLAIN goes out."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from panorama.lines import counted
from panorama.query.duckdb_plan import WIDTH, Operator, plan_lines, rows_out
from panorama.query.matching.cost import Choice
from panorama.query.matching.ledger import Ledger
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN, Matches, MatchRequest
from panorama.query.shorthands.plan import Branch, PlannedSequence, Query, Seen
from panorama.query.sql.rewritten import Rewritten


@dataclass(frozen=True, slots=True)
class Step:
    """One matching pass.

    Attributes:
        query, request: what to match.
        matches, seconds: what was found, and how long it took.
        tracks_in, tracks_all: number of tracks that the request admits, and in the library.
        choices: by entity, the way chosen to find it, with the estimate of each way.
        ledger: what was done.
        told: the conditions of plain SQL that were pushed down, as typed.
    """

    query: Query
    request: MatchRequest
    matches: Matches
    seconds: float
    tracks_in: int = 0
    tracks_all: int = 0
    choices: Mapping[str, Choice] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PictureStep:
    """One call of similarity or verify.

    Attributes:
        call: as users write it.
        outcome, seconds: the result, and how long it took.
        needs: lines about the crops that were compared.
    """

    call: str
    outcome: str
    seconds: float
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """DuckDB's plan of the statement, and how long planning or, for ANALYZE, executing took."""

    plan: Sequence[Operator]
    seconds: float


def explain_text(
    rewritten: Rewritten, steps: Sequence[Step], pictures: Sequence[PictureStep], done: Done, analyze: bool
) -> str:
    """The text of EXPLAIN; with `analyze` also counts and times."""
    lines: list[str] = []
    for query in rewritten.queries:
        lines += query_lines(query)
        lines += [line for step in steps if step.query is query for line in _step_lines(step, analyze)]
    for step in steps:
        if step.query.number == 0:
            pushed = ", ".join(step.told) or "nothing"
            lines += ["relations sightings, moments", f"  pushed below matching: {pushed}"]
            lines += _step_lines(step, analyze)
    for picture in pictures:
        told = f": {picture.outcome} in {_ms(picture.seconds)}" if analyze else ""
        lines += [f"{picture.call}{told}", *(f"  {line}" for line in picture.needs)]
    lines = [part for line in lines for part in _folded(line)]
    lines.append("DuckDB gets")
    lines += [f"  {line}" for line in _wrapped(rewritten.text)]
    rows = rows_out(done.plan)
    told = f": {counted(rows, 'row')} out in {_ms(done.seconds)}" if analyze and rows is not None else ""
    lines += [f"DuckDB does{told}", *(f"  {line}" for line in plan_lines(done.plan))]
    return "\n".join(lines)


def similarity_lines(
    request: MatchRequest, told: Sequence[str], tracks_in: int, tracks_all: int
) -> tuple[str, ...]:
    """Which crops a similarity is computed for: what was pushed below it, and how many tracks remain."""
    lines = [f"pushed below comparing: {', '.join(told) or 'nothing'}"]
    lines.append(f"{tracks_in} of {counted(tracks_all, 'track')} in scope")
    if request.min_score is not None:
        lines.append(f"only similarities of {request.min_score:g} or more")
    if request.first is not None:
        lines.append(f"only what the {counted(request.first, 'most similar track')} need")
    return tuple(lines)


def _wrapped(sql: str) -> list[str]:
    """A statement in lines of page width."""
    lines = [textwrap.wrap(line, WIDTH, break_on_hyphens=False) for line in sql.split("\n")]
    return [part for parts in lines for part in parts or [""]]


def _folded(line: str) -> list[str]:
    """A line folded to page width, continuation lines indented further."""
    inner = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, WIDTH, subsequent_indent=inner, break_on_hyphens=False) or [line]


def query_lines(query: Query) -> list[str]:
    """What one shorthand looks for and what is pushed below matching."""
    asked = ", ".join((query.target, *(name for name, _ in query.columns)))
    lines = [f"SELECT {asked} ({len(query.branches)} alternative{'s'[: len(query.branches) != 1]})"]
    for branch in query.branches:
        parts = [f"seen: {_seen_text(item)}" for item in branch.seen]
        parts += [f"not seen: {_seen_text(item)}" for item in branch.unseen]
        parts += [_chain_text(chain) for chain in branch.sequences]
        parts += [f"no {_chain_text(chain)}" for chain in branch.unsequenced]
        if branch.rest and not parts:
            parts.append("all time")
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
    if query.contract is not None:
        lines.append(f"  accepted {query.contract}")
    if query.budget_seconds is not None:
        lines.append(f"  matched within {query.budget_seconds:g} s")
    if query.first_rows is not None:
        lines.append(f"  stops after the tracks of the first {counted(query.first_rows, 'row')}")
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
    who = "all entities" if request.entities is None else counted(len(request.entities), "entity")
    if request.tracks is not None:
        where = counted(len(request.tracks), "track")
    elif request.segments is not None:
        where = counted(len(request.segments), "segment")
    else:
        where = "the whole library"
    least = f", score >= {request.min_score:g}" if request.min_score is not None else ""
    lines = [f"  match {who} in {where}, keep {request.keep}{least}"]
    lines.append(f"    {step.tracks_in} of {counted(step.tracks_all, 'track')} in scope")
    lines += _estimate_lines(step.choices)
    if analyze:
        bands = [int(np.count_nonzero(step.matches.band == band)) for band in (ACCEPTED, UNCERTAIN, REJECTED)]
        lines.append(
            f"    {counted(len(step.matches), 'row')} out in {_ms(step.seconds)}:"
            f" {bands[0]} accepted, {bands[1]} uncertain, {bands[2]} rejected"
        )
        lines += _ledger_lines(step)
    return lines


def _estimate_lines(choices: Mapping[str, Choice]) -> list[str]:
    """The ways chosen to find the entities, and the estimate of each way, summed over the entities."""
    if not choices:
        return []
    totals: dict[str, float] = {}
    for choice in choices.values():
        for way, seconds in choice.estimates.items():
            totals[way] = totals.get(way, 0.0) + seconds
    chosen = Counter(choice.way for choice in choices.values())
    ways = ", ".join(f"{way} ({count})" if len(choices) > 1 else way for way, count in chosen.items())
    estimates = ", ".join(f"{way} {_ms(seconds)}" for way, seconds in totals.items())
    return [f"    by {ways}; estimated: {estimates}"]


_WAYS = {
    "memory": "found before in this process",
    "cache": "from the cache of sightings",
    "index": "by index",
    "exact": "by exact comparison",
}


def _ledger_lines(step: Step) -> list[str]:
    ways = [f"{count} {_WAYS[way]}" for way, count in step.ledger.ways.items()]
    lines = [f"    entities: {', '.join(ways)}"] if ways else []
    exits = {number: note for number, note in sorted(step.ledger.exits.items()) if note.entered}
    for number, note in exits.items():
        rejected, uncertain, accepted = note.bands
        lines.append(
            f"    exit {number}: {counted(note.entered, 'track')} in, {accepted} accepted,"
            f" {uncertain} uncertain, {rejected} rejected in {_ms(note.seconds)}"
        )
        if note.read or note.computed:
            lines.append(f"      vectors: {note.read} read, {note.computed} computed from stored pictures")
    if not exits:
        for number in np.unique(step.matches.exit).tolist():
            decided = int(np.count_nonzero(step.matches.exit == number))
            lines.append(f"    exit {number} had decided {decided}")
    return lines


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms"
