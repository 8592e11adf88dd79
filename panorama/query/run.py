"""Steps, warnings and counts of one statement come in; the account for its Result goes out."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
from sqlglot.tokens import Token

from panorama.query.explain import PictureStep, Step
from panorama.query.matching.matches import UNCERTAIN, Matches
from panorama.query.shorthands.terms import Budget
from panorama.query.text.tokens import words_of_explain


@dataclass(slots=True)
class Run:
    """One statement while it is being answered.

    Attributes:
        cursor: a connection used by this statement only, so that no other sees its temporary tables.
        sql: the statement as typed; positions of errors refer to it.
        tokens: of the statement; empty if only matching for later statements is done.
        started: `time.perf_counter()` at the start; WITHIN a time counts from here.
        before: number of characters of white space and comments before the statement. DuckDB counts positions
            from the first word but shows them in the whole text, so it gets the statement without them.
        prefix: what DuckDB gets instead of these characters, for example EXPLAIN.
        parsed: DuckDB's parsed statement, if it can be executed as it is; None to execute the text.
        explained: whether the statement is an EXPLAIN.
        dry: whether only the plan is wanted: nothing is matched or compared.
        budgets: of the shorthands with a time limit.
        views: names and SQL of views that the statement reads; created once everything they read exists.
        steps, pictures: what was done, for EXPLAIN.
        undecided: pairs of entity and track that no exit decided.
        warnings: for the caller.
    """

    cursor: duckdb.DuckDBPyConnection
    sql: str
    tokens: list[Token]
    started: float
    before: int = field(init=False)
    prefix: str = ""
    parsed: duckdb.Statement | None = None
    explained: bool = field(init=False)
    dry: bool = field(init=False)
    budgets: list[Budget] = field(default_factory=list)
    views: list[tuple[str, str]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    pictures: list[PictureStep] = field(default_factory=list)
    undecided: set[tuple[str, int]] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        words = words_of_explain(self.tokens)
        self.before = self.tokens[0].start if self.tokens else 0
        self.explained, self.dry = words > 0, words == 1

    def count_undecided(self, matches: Matches) -> None:
        """Record the matches that were left undecided."""
        for i in np.flatnonzero(matches.band == UNCERTAIN).tolist():
            name = matches.entities[int(matches.entity_index[i])]
            self.undecided.add((name, int(matches.track_id[i])))

    def account(self) -> dict[str, Any]:
        """The fields of a Result other than its rows, with a warning for each time limit that was hit."""
        told = [
            f"the answer is incomplete after {budget.seconds:g} s: {'; '.join(budget.cut)}"
            for budget in self.budgets
            if budget.cut
        ]
        return {
            "uncertain": len({track for _, track in self.undecided}),
            "uncertain_of": sorted({name for name, _ in self.undecided}),
            "warnings": [*self.warnings, *told],
            "seconds": time.perf_counter() - self.started,
            "complete": not any(budget.cut for budget in self.budgets),
            "sql": self.sql,
        }
