"""The work of a matching pass comes in; the cheapest way to do it goes out, with every estimate.

The constants were measured on one computer. Only ratios are compared; computers share these up to a factor
that does not change a choice between ways as far apart as these. `tests/bench/scale_costs.py` measures them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Way = Literal["cache", "index", "exact"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds per unit of each kind of work, for vectors of 256 numbers.

    Attributes:
        pass_: a pass that looks at almost nothing, including bands and places.
        row: read one vector in sequence and pool its track.
        pair: compare one vector with one exemplar exactly.
        code: compare one compressed vector with one exemplar in the index, outside any cache.
        probe: find the nearest lists of one exemplar.
        masked: tell the index whether one row of the table is in scope.
        cached: read earlier results; `cached_row` for each match in them.
    """

    pass_: float = 1.4e-3
    row: float = 2.4e-7
    pair: float = 1e-8
    code: float = 2.5e-8
    probe: float = 1.9e-4
    masked: float = 3.5e-9
    cached: float = 1.1e-3
    cached_row: float = 5e-8


COSTS = Costs()


@dataclass(frozen=True, slots=True)
class Work:
    """What is known about a pass before it runs.

    Attributes:
        rows: vectors in scope.
        exemplars: number of vectors to compare them with.
        codes: vectors that an index would look at, for all exemplars together; None without an index.
        cached: matches in a usable cache; None without one.
        added: those of `rows` that the cache does not cover.
        table: all rows, if an index must restrict itself to those in scope; 0 if all are in scope.
    """

    rows: int
    exemplars: int
    codes: int | None = None
    cached: int | None = None
    added: int = 0
    table: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """The cheapest way, and the estimate of each possible way in seconds."""

    way: Way
    estimates: dict[Way, float] = field(default_factory=dict)


def choose(work: Work, costs: Costs = COSTS) -> Choice:
    """The way with the smallest estimate; among equal ones the first of cache, index, exact."""
    estimates: dict[Way, float] = {}
    if work.cached is not None:
        estimates["cache"] = costs.cached + work.cached * costs.cached_row + _exact(work.added, work, costs)
    if work.codes is not None:
        begin = work.exemplars * costs.probe + work.table * costs.masked
        estimates["index"] = costs.pass_ + begin + _in_scope(work) * costs.code
    estimates["exact"] = _exact(work.rows, work, costs)
    return Choice(min(estimates, key=lambda w: estimates[w]), estimates)


def _in_scope(work: Work) -> float:
    """Codes that an index compares: in the lists that it visits, it skips those out of scope."""
    return (work.codes or 0) * (work.rows / work.table if work.table else 1.0)


def _exact(rows: int, work: Work, costs: Costs) -> float:
    return costs.pass_ + rows * (costs.row + work.exemplars * costs.pair) if rows else 0.0
