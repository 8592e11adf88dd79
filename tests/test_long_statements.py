"""What is done with the tokens of a statement grows with their number, not with its square.

Programs write lists of 20,000 values. No time limit is checked while Python walks over the tokens.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from sqlglot.tokens import Token

from panorama.query.text import guard
from panorama.query.text.extensions import find_extensions
from panorama.query.text.remarks import least
from panorama.query.text.tokens import tokenize

COUNT = 1_000


class Counted(list[Token]):
    """Tokens that count how often one of them is taken by its index."""

    taken = 0

    def __getitem__(self, index: Any) -> Any:
        self.taken += 1
        return super().__getitem__(index)


def counted(sql: str) -> Counted:
    return Counted(tokenize(sql))


def test_a_misspelled_column_beside_a_long_list_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every comma was followed back to its FROM: a minute for 20,000 values."""
    sql = f"SELECT trck FROM videos, tracks WHERE track_id IN ({', '.join(map(str, range(COUNT)))})"
    tokens = counted(sql)
    monkeypatch.setattr(guard, "tokenize", lambda _: tokens)
    error = duckdb.BinderException('Referenced column "trck" not found in FROM clause!')
    message = str(guard.readable(error, sql))
    assert "videos has" in message and "tracks has" in message
    assert tokens.taken < 10 * len(tokens)


@pytest.mark.parametrize("item", ["CAST({} AS BIGINT)", "{} AS c{}", "(1) c{}"])
def test_many_names_behind_as_are_looked_at_once(item: str) -> None:
    """All tokens before each name were searched for a call of similarity: minutes for 20,000 casts."""
    listed = ", ".join(item.format(n, n) for n in range(COUNT))
    tokens = counted(f"SELECT {listed}, similarity('a.jpg') AS alike FROM tracks WHERE alike > 2")
    assert [found.value.text for found in least(tokens)] == ["2"]
    assert tokens.taken < 20 * len(tokens)


@pytest.mark.parametrize(
    ("one", "between"), [("SELECT frames WHERE entity = 'dog'", " UNION ALL "), ("(SELECT frames) f", ", ")]
)
def test_many_shorthands_are_found_in_one_pass(one: str, between: str) -> None:
    """All that stands before each of them was read again."""
    start = "SELECT * FROM " if between == ", " else ""
    tokens = counted(start + between.join([one] * COUNT))
    assert len(find_extensions(tokens)) == COUNT
    assert tokens.taken < 30 * len(tokens)


def test_a_parenthesis_too_many_is_left_to_the_parser() -> None:
    """A token behind it is in no parenthesis."""
    assert [found.kind for found in find_extensions(tokenize("(SELECT 1)) ; SELECT frames"))] == ["shorthand"]
    assert find_extensions(tokenize("FROM videos) SELECT frames")) == []
