"""What a matching pass would have to look at enters; the cheapest way to do it, with every estimate, leaves.

The figures were measured on one machine; what is compared are ratios, which machines share to within a factor
that a choice between ways as far apart as these survives. `tests/bench/scale_costs.py` measures them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Way = Literal["cache", "index", "exact"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one unit of each kind of work, at 256 numbers a vector.

    Attributes:
        pass_: of a pass that looks at next to nothing, bands and places included.
        row: of reading one vector in its place and pooling its track.
        pair: of comparing one vector with one exemplar, exactly.
        gathered: of reading one vector that lies alone.
        code: of comparing one compressed vector with one exemplar in the index, where it is in no cache.
        probe: of finding the nearest lists of one exemplar.
        masked: of telling the index of one row of the table whether it is in scope.
        cached: of reading what was found before; `cached_row` for each match in it.
        crop: of taking one stored crop to a deeper exit.
    """

    pass_: float = 1.4e-3
    row: float = 2.4e-7
    pair: float = 1e-8
    gathered: float = 2.5e-6
    code: float = 2.5e-8
    probe: float = 1.9e-4
    masked: float = 3.5e-9
    cached: float = 1.1e-3
    cached_row: float = 5e-8
    crop: float = 5e-3


COSTS = Costs()


@dataclass(frozen=True, slots=True)
class Work:
    """What is known of a pass before it is made.

    Attributes:
        rows: vectors in scope.
        exemplars: to compare them with.
        codes: vectors that an index would look at for all exemplars together, None without an index.
        near: rows that the index is expected to find.
        cached: matches that a cache holds, None where it holds nothing that can be used.
        added: of `rows`, those that the cache does not know yet.
        table: all rows, where an index is to look at those in scope only; 0 where all are in scope.
    """

    rows: int
    exemplars: int
    codes: int | None = None
    near: int = 0
    cached: int | None = None
    added: int = 0
    table: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The cheapest way and what each possible one was estimated to take, in seconds."""

    way: Way
    seconds: float
    estimates: dict[Way, float] = field(default_factory=dict)


def choose(work: Work, costs: Costs = COSTS) -> Choice:
    """The way with the least estimate; of equal ones the first of cache, index, exact."""
    estimates: dict[Way, float] = {}
    if work.cached is not None:
        estimates["cache"] = costs.cached + work.cached * costs.cached_row + _exact(work.added, work, costs)
    if work.codes is not None:
        found = work.near * (costs.gathered + costs.row + work.exemplars * costs.pair)
        begin = work.exemplars * costs.probe + work.table * costs.masked
        estimates["index"] = costs.pass_ + begin + _in_scope(work) * costs.code + found
    estimates["exact"] = _exact(work.rows, work, costs)
    way = min(estimates, key=lambda w: estimates[w])
    return Choice(way, estimates[way], estimates)


def _in_scope(work: Work) -> float:
    """Codes that an index compares: it passes over those out of scope in the lists that it looks into."""
    return (work.codes or 0) * (work.rows / work.table if work.table else 1.0)


def _exact(rows: int, work: Work, costs: Costs) -> float:
    return costs.pass_ + rows * (costs.row + work.exemplars * costs.pair) if rows else 0.0
