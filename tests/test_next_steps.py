"""Mistakes of newcomers: the error, or the remark beside an empty answer, says what to write instead."""

from __future__ import annotations

import re

import pytest

from panorama.errors import QueryError
from panorama.query.engine import Engine


@pytest.mark.parametrize(
    ("sql", "told", "pointed"),
    [
        ("SELECT frames WHERE dog", r"no column 'dog'; .*write entity = 'dog'$", "dog"),
        ("SELECT frames WHERE NOT (dog) AND time < 3", r"write entity = 'dog'$", "dog"),
        (
            "SELECT frames WHERE entity = 'dog' OR 'it''s'",
            r"compare a column with it: entity = 'it''s'$",
            "'it",
        ),
        ("SELECT * FROM sightings WHERE entity = 'dog' OR 'x'", r"entity = 'x'$", "'x'"),
        ("SELECT CAST('x' AS BOOLEAN)", r"to BOOL$", ""),
        ("SELECT frames WHERE entity IS 'dog'", r"compare a text with =$", ""),
        ("SELECT * FROM sightings WHERE entity IS NOT 'dog'", r"compare a text with <>$", "'dog'"),
        (
            "SELECT video FROM sightings WHERE count(*) > 2",
            r"GROUP BY video HAVING count\(\*\) > 2$",
            "count",
        ),
        ("SELECT FROM videos", r"write \* for all: SELECT \* FROM \.\.\.$", ""),
        ("SELECT frames WHERE entity = 'dog' LIMIT ten", r"LIMIT takes a whole number$", "ten"),
        ("SELECT * FROM videos LIMIT 3 OFFSET ten", r"OFFSET takes a whole number$", "ten"),
        ("SELECT frames WERE entity = 'dog'", r"'WERE' is no keyword\. Did you mean 'WHERE'\?$", "entity"),
        ("SELECT * FRM videos", r"'FRM' is no keyword\. Did you mean 'FROM'\?$", "videos"),
        ("SELECT * FROM videos oder BY video", r"'oder' is no keyword\. Did you mean 'ORDER'\?$", "BY"),
        ("SELECT * FROM videos WHERE video video", r'at or near "video"$', "video"),
    ],
)
def test_an_error_says_what_to_write_instead(engine: Engine, sql: str, told: str, pointed: str) -> None:
    with pytest.raises(QueryError) as caught:
        engine.query(sql)
    assert re.search(told, caught.value.args[0])
    if pointed:
        assert caught.value.position is not None
        assert sql[caught.value.position :].startswith(pointed)


@pytest.mark.parametrize(
    ("sql", "parameters", "told"),
    [
        ("SELECT frames WHERE entity = NULL", None, ["entity = NULL is never true: write entity IS NULL"]),
        ("SELECT frames WHERE entity = null", None, ["entity = NULL is never true: write entity IS NULL"]),
        ("SELECT frames WHERE entity = ?", [None], ["entity = NULL is never true: write entity IS NULL"]),
        (
            "SELECT * FROM sightings s WHERE s.video <> NULL",
            None,
            ["video <> NULL is never true: write video IS NOT NULL"],
        ),
        ("SELECT frames WHERE entity IS NULL AND NOT time < 9", None, []),
        ("SELECT 1 AS entity FROM videos HAVING entity = NULL", None, []),
    ],
)
def test_a_comparison_with_null_is_remarked_on(
    engine: Engine, sql: str, parameters: list[None] | None, told: list[str]
) -> None:
    """It gave no rows, and nothing said why."""
    answer = engine.query(sql, parameters)
    assert list(answer.warnings) == told and len(answer) == 0
