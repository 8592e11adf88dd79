"""What one statement gathers on its way to an answer: steps, warnings and counts enter, an account leaves."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np

from panorama.query.explain import PictureStep, Step
from panorama.query.matching.matches import UNCERTAIN, Matches
from panorama.query.shorthands.terms import Budget


@dataclass(slots=True)
class Run:
    """One statement being answered.

    Attributes:
        cursor: a connection of its own, so that what is made for one statement is seen by no other.
        sql: the statement as typed; places of errors are places in it.
        before: how many characters of blanks and comments stand before the statement. DuckDB counts places
            from its first word but shows them in the whole text, so it gets the statement without them.
        prefix: what DuckDB gets in the place of that, EXPLAIN for one.
        parsed: the statement, where DuckDB can execute it as it has read it before.
        explained: whether it is to be told what was done.
        dry: whether it is only to be told what would be done: nothing is matched or compared.
        started: when; what may be searched WITHIN a time counts from here.
        budgets: of the shorthands that ask for one.
        views: names and SQL of tables that the statement reads, made when all that they read is there.
        steps, pictures: what was done.
        undecided: pairs of entity and track that no exit decided.
        warnings: for whoever asked.
    """

    cursor: duckdb.DuckDBPyConnection
    sql: str
    before: int
    prefix: str = ""
    parsed: duckdb.Statement | None = None
    explained: bool = False
    dry: bool = False
    started: float = field(default_factory=time.perf_counter)
    budgets: list[Budget] = field(default_factory=list)
    views: list[tuple[str, str]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    pictures: list[PictureStep] = field(default_factory=list)
    undecided: set[tuple[str, int]] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def count_undecided(self, matches: Matches) -> None:
        """Note what was left undecided."""
        for i in np.flatnonzero(matches.band == UNCERTAIN).tolist():
            name = matches.entities[int(matches.entity_index[i])]
            self.undecided.add((name, int(matches.track_id[i])))

    def account(self, started: float) -> dict[str, Any]:
        """What a Result says beside its rows."""
        for budget in self.budgets:
            if budget.cut:
                self.warnings.append(
                    f"the answer is incomplete after {budget.seconds:g} s: {'; '.join(budget.cut)}"
                )
        return {
            "uncertain": len(self.undecided),
            "uncertain_of": sorted({name for name, _ in self.undecided}),
            "warnings": self.warnings,
            "seconds": time.perf_counter() - started,
            "complete": not any(budget.cut for budget in self.budgets),
            "sql": self.sql,
        }
