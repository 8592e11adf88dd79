"""Quoted texts, `$` and invisible characters are read as DuckDB reads them: else a call hides in a text."""

from __future__ import annotations

import pytest

from panorama.errors import QueryError, UnknownEntity
from panorama.query.engine import Engine
from panorama.query.text.statements import DropEntity

SECRET = "current_setting('secret_directory')"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT $a,$b", [("dog", "red-van")]),
        ("SELECT [$a,$b] AS both,$a||$b", [(["dog", "red-van"], "dogred-van")]),
        ("SELECT $t$ $a,$b $t$,$a,$b", [(" $a,$b ", "dog", "red-van")]),
        (
            "SELECT DISTINCT entity FROM (SELECT frames WHERE entity IN ($a,$b)) ORDER BY 1",
            [("dog",), ("red-van",)],
        ),
        ("SELECT count(*) FROM sightings WHERE entity IN ($a,$b) OR entity IN ($a,$b)", [(8,)]),
        ("SELECT count(*) FROM (SELECT moments WHERE entity = $a),(SELECT $a,$b)", [(1,)]),
    ],
)
def test_parameters_need_no_blank_between_them(engine: Engine, sql: str, rows: list[tuple]) -> None:
    """`$a,$` was taken for the tag of a dollar-quoted text."""
    assert engine.query(sql, {"a": "dog", "b": "red-van"}).fetchall() == rows


def test_numbered_parameters_need_no_blank_either(engine: Engine) -> None:
    assert engine.query("SELECT $1,$2", [1, 2]).fetchall() == [(1, 2)]


@pytest.mark.parametrize("quoted", ["$${}$$", "$t${}$t$", "$T${}$T$", r"e'\x64{}'", r"E'\144{}'", "n'{}'"])
def test_every_kind_of_quotes_holds_a_text(engine: Engine, quoted: str) -> None:
    """An entity in dollar signs was not looked up: a wrong name gave no rows and no error."""
    right, wrong = (quoted.format(name[quoted[0] in "eE" :]) for name in ("dog", "dgo"))
    assert len(engine.query(f"SELECT moments WHERE entity = {right}")) == 1
    with pytest.raises(UnknownEntity, match=r"'dgo'\. Did you mean 'dog'"):
        engine.query(f"SELECT moments WHERE entity = {wrong}")
    plain = engine.query(f"SELECT count(*) FROM sightings WHERE entity = {wrong}")
    assert plain.fetchall() == [(0,)] and "Did you mean 'dog'" in plain.warnings[0]
    assert engine.parse(f"DROP ENTITY {right}") == DropEntity("dog")


def test_dollar_quoted_texts_are_kept_to_the_character(engine: Engine) -> None:
    sql = "SELECT $$it's$$, $$it''s$$, $t$a$$b$t$, $T$ $t$ $T$, a$b$c, $$\n$$ FROM (SELECT 1 AS a$b$c)"
    assert engine.query(sql).fetchall() == [("it's", "it''s", "a$$b", " $t$ ", 1, "\n")]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (f"SELECT $a x, $a-b$,{SECRET},$a-b$ FROM (SELECT 1 AS b$)", {"a": 1}),
        (f"SELECT $é$'$é$,{SECRET},$é$'$é$", None),
        (f'SELECT x\u2028$a$,{SECRET}/*$a$*/ FROM (SELECT 1 AS "x\u2028$a$")', None),
        (f'SELECT a$$\xa0$a$,{SECRET}/*$a$*/ FROM (SELECT 1 AS "a$$\xa0$a$")', None),
        (f"SELECT 1e$x$,{SECRET}/*$x$*/", None),
        (f"SELECT \ufeff{SECRET}", None),
        ("SELECT * FROM\u200bduckdb_settings()", None),
        ("SELECT * FROM \u2060duckdb_settings()", None),
    ],
)
def test_no_call_hides_behind_dollar_signs_or_invisible_characters(
    engine: Engine, sql: str, parameters: dict[str, int] | None
) -> None:
    """DuckDB answered the first, the third and the last three."""
    with pytest.raises(QueryError, match=r"refused|dollar signs|is not a number"):
        engine.query(sql, parameters)


@pytest.mark.parametrize("mark", ["\ufeff", "\u200b", "\u2060"])
def test_invisible_characters_are_blanks_outside_quotes(engine: Engine, mark: str) -> None:
    """They come along with text from web pages; the relation was not seen, and nothing was matched for it."""
    assert engine.query(f"{mark}SELECT count(*) FROM{mark}sightings").fetchall() == [(12,)]
    assert len(engine.query(f"{mark}SELECT{mark}frames WHERE entity{mark}= 'dog'")) == 20
    assert engine.query(f"SELECT 'a{mark}b' AS \"c{mark}\"").columns == [f"c{mark}"]
    assert engine.query(f"SELECT 'a{mark}b'").fetchall() == [(f"a{mark}b",)]


def test_a_dollar_quoted_text_that_does_not_end_is_pointed_at(engine: Engine) -> None:
    with pytest.raises(QueryError, match="that begins here does not end") as caught:
        engine.query("SELECT 'a', $t$ it's")
    assert caught.value.position == 12
