"""The parts of a rewritten statement come in; its text for DuckDB and the typed positions go out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from panorama.query.shorthands.plan import Query
from panorama.query.sql.plain_scope import Need
from panorama.query.text.parameters import GivenPicture, Parameters

Named: TypeAlias = str | GivenPicture
"""A picture in a statement: its path as written, or one passed as a parameter."""

Verify: TypeAlias = Callable[[str, Named, Named, int], bool | float | int | str | None]
"""Returns the result of one of VERDICTS for two pictures; the last argument is the position of the call."""


LOOKUP = "SELECT max(s._similarity) FROM {table} s WHERE s._{column} = "
"""The value of a call of similarity, up to the id that it is looked up by.

The inner columns have names that no relation has, so that the outer columns stay visible.
"""

LOOKS_UP = re.compile(r" s WHERE s\._(crop|track) = $")
"""The end of LOOKUP at the end of a text."""

NO_SIMILARITY = (
    "only crops and tracks have a similarity: use it on crops, tracks, detections, sightings or moments"
)


@dataclass(frozen=True, slots=True)
class SimilarityCall:
    """similarity(...) in a statement.

    Attributes:
        table: the table of similarities that the engine creates for it.
        picture: as named, or the id of a crop.
        start: its position in the statement.
        needs: one per call with this picture in plain SQL; None for a call in a shorthand.
    """

    table: str
    picture: Named | int
    start: int
    needs: tuple[Need | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A replaced part of the statement: [start, stop) became [new_start, new_stop)."""

    start: int
    stop: int
    new_start: int
    new_stop: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A statement ready for DuckDB.

    Attributes:
        text: the SQL for DuckDB.
        parameters: those that remain in the text.
        queries: its shorthands.
        similarities: its calls of similarity.
        pieces: the replaced parts, in order.
    """

    text: str
    parameters: Parameters
    queries: tuple[Query, ...]
    similarities: tuple[SimilarityCall, ...]
    pieces: tuple[Piece, ...]

    def original(self, position: int) -> int:
        """The position in the statement as typed that a position in `text` comes from."""
        shift = 0
        for piece in self.pieces:
            if position < piece.new_start:
                break
            if position < piece.new_stop:
                return piece.start
            shift = piece.stop - piece.new_stop
        return position + shift

    def typed(self, position: int | None) -> int | None:
        """As `original`, for errors; inside a shorthand, the condition or clause that the text comes from."""
        if position is None:
            return None
        leaf = leaf_place(self.queries, self.text, position)
        return self.original(position) if leaf is None else leaf


def leaf_place(queries: Sequence[Query], text: str, position: int) -> int | None:
    """The typed position of the predicate or clause that a position in `text` comes from; None for none."""
    for query in queries:
        for leaf in query.every_leaf():
            typed = query.sql[leaf.start : leaf.stop]
            skipped = len(typed) - len(typed.lstrip())
            at = text.rfind(leaf.text, 0, position + len(leaf.text)) if leaf.text.strip() else -1
            if 0 <= at <= position < at + len(leaf.text):
                same = typed.strip() == leaf.text.strip()
                return leaf.start + skipped + (position - at if same else 0)
        for rendered, start in query.clause_at:
            # A similarity that is shown as a column is ordered by its name.
            named = rendered.replace(query.similarity, "similarity") if query.similarity else rendered
            for clause in dict.fromkeys((rendered, named)):
                # The clause comes after the rows that it orders or limits, so take the last occurrence.
                at = text.rfind(clause, 0, position + len(clause))
                if clause and 0 <= at <= position < at + len(clause):
                    same = query.sql.startswith(clause, start)
                    return start + (
                        position - at if same else _word_place(query.sql[start:], text[position:])
                    )
    return None


def _word_place(clause: str, text: str) -> int:
    """The position in a typed clause of the word that `text` begins with; 0 if it is not found."""
    word = re.match(r'"[^"]*"|\w+', text)
    typed = re.sub(r"'[^']*'", lambda quoted: " " * len(quoted[0]), clause)
    found = re.search(rf"(?<![\w.]){re.escape(word[0])}(?!\w)", typed) if word else None
    return found.start() if found else 0
