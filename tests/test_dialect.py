"""What is an extension and what is not, and what the rules make of one, as fixtures.

After a change that is meant, `python tests/test_dialect.py` writes the expected parts anew; read the diff.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from query_samples import ENTITIES, make_library

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.explain import query_lines
from panorama.query.handed.relations import Limits, connect
from panorama.query.shorthands.branches import MAX_BRANCHES
from panorama.query.shorthands.space import PREDICATES
from panorama.query.sql.rewrite import Rewriter
from panorama.query.sql.rewritten import Rewritten
from panorama.query.text.extensions import find_extensions
from panorama.query.text.tokens import tokenize

FIXTURES = Path(__file__).parent / "fixtures"
REWRITTEN = sorted(
    path.name for path in FIXTURES.glob("*.sql") if path.read_text("utf-8").startswith("-- What DuckDB gets")
)
"""Fixtures that hold what DuckDB gets; one for every predicate of space."""
_BLOCK = re.compile(r"^-- input\n(.*?)\n-- expected\n(.*?)\n(?=\n-- input|\Z)", re.DOTALL | re.MULTILINE)


def blocks(name: str) -> list[tuple[str, str]]:
    return _BLOCK.findall((FIXTURES / name).read_text("utf-8"))


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    made = connect(make_library(tmp_path_factory.mktemp("library")), Limits(threads=1))
    yield made
    made.close()


def rewrite(sql: str, connection: duckdb.DuckDBPyConnection) -> Rewritten:
    names = tuple(sorted(ENTITIES))
    return Rewriter(sql, tokenize(sql), None, names, connection, lambda *_: None).rewrite()


def planned(sql: str, connection: duckdb.DuckDBPyConnection) -> str:
    return "\n".join(line for query in rewrite(sql, connection).queries for line in query_lines(query))


def spaced(sql: str, connection: duckdb.DuckDBPyConnection) -> str:
    """The rewritten text, a line for every step of its WITH."""
    return re.sub(
        r"(, _p\d+_\w+ AS |\(WITH )", lambda m: m[1].replace(", ", ",\n  ", 1), rewrite(sql, connection).text
    )


@pytest.mark.parametrize(("sql", "expected"), blocks("rules.sql"))
def test_the_rules_make_this_plan(connection: duckdb.DuckDBPyConnection, sql: str, expected: str) -> None:
    assert planned(sql, connection) == expected


@pytest.mark.parametrize(("sql", "expected"), [block for name in REWRITTEN for block in blocks(name)])
def test_the_rewritten_text_is_this(connection: duckdb.DuckDBPyConnection, sql: str, expected: str) -> None:
    assert spaced(sql, connection) == expected


@pytest.mark.parametrize("sql", [sql for name in ("rules.sql", *REWRITTEN) for sql, _ in blocks(name)])
def test_every_fixture_can_be_executed(engine: Engine, sql: str) -> None:
    result = engine.query(sql)
    assert len(result.columns) == len(result.types) > 0


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT frames", ["SELECT frames"]),
        ("SELECT frames;", ["SELECT frames"]),
        ("SELECT frames FROM videos", []),
        ("SELECT frames, video FROM videos", []),
        ("SELECT frames.video FROM frames", []),
        ("SELECT frames + 1 FROM videos", []),
        ("SELECT frames, band", ["SELECT frames, band"]),
        ("SELECT frames, band, clock WHERE 1;", ["SELECT frames, band, clock WHERE 1"]),
        ("SELECT frames, band UNION SELECT tracks, band", ["SELECT frames, band", "SELECT tracks, band"]),
        ("SELECT * FROM (SELECT frames, band)", ["SELECT frames, band"]),
        ("SELECT (SELECT frames, camera) FROM videos", []),
        ("SELECT frames, band + 1 FROM videos", []),
        ("SELECT frames, band FROM videos WHERE 1", []),
        ("SELECT frames, FROM videos", []),
        ("SELECT frames, 1 WHERE a IS DISTINCT FROM b", ["SELECT frames, 1 WHERE a IS DISTINCT FROM b"]),
        ("SELECT frames, (SELECT 1 FROM t) FROM videos", []),
        ("SELECT 1 WHERE EXISTS (SELECT frames, 1 AS a WHERE 1)", []),
        ('SELECT "frames" WHERE 1', []),
        ("FROM videos SELECT frames WHERE duration > 1", []),
        ("FROM (VALUES (1)) t(frames) SELECT frames ORDER BY 1", []),
        ("SELECT (SELECT frames) FROM videos", []),
        ("SELECT * FROM (SELECT frames)", ["SELECT frames"]),
        ("SELECT 1 FROM videos v, (SELECT frames) f", ["SELECT frames"]),  # was a column of v
        ("SELECT 1 FROM (SELECT crops), ((SELECT frames))", ["SELECT crops", "SELECT frames"]),
        ("SELECT 1 FROM a JOIN b ON (a.x = b.x), (SELECT frames, band), c", ["SELECT frames, band"]),
        ("FROM videos v, (SELECT frames) f SELECT 1", ["SELECT frames"]),
        ("SELECT (SELECT 1 FROM a, (SELECT frames)), (SELECT frames) FROM videos", ["SELECT frames"]),
        ("SELECT 1, (SELECT frames) FROM videos", []),
        ("SELECT a IS DISTINCT FROM b, (SELECT frames) FROM videos", []),
        ("SELECT 1 FROM videos WHERE x IN (1, (SELECT frames))", []),
        ("SELECT 1 FROM videos ORDER BY 1, (SELECT frames)", []),
        ("SELECT 1 FROM videos GROUP BY 1, (SELECT frames)", []),
        ("(SELECT frames)", ["SELECT frames"]),
        ("SELECT 1; ((SELECT frames, band));", ["SELECT frames, band"]),
        ("EXPLAIN ANALYZE (SELECT frames)", ["SELECT frames"]),
        ("DESCRIBE (SELECT frames)", ["SELECT frames"]),
        ("SUMMARIZE (SELECT frames)", ["SELECT frames"]),
        ("WITH a AS (SELECT 1) (SELECT frames)", ["SELECT frames"]),
        ("WITH a AS NOT MATERIALIZED (SELECT frames) SELECT 1 FROM a", ["SELECT frames"]),
        ("SELECT 1 UNION ALL (SELECT moments)", ["SELECT moments"]),
        ("(SELECT frames) EXCEPT ((SELECT tracks))", ["SELECT frames", "SELECT tracks"]),
        ("SELECT 1 FROM ((SELECT frames) UNION BY NAME (SELECT crops))", ["SELECT frames", "SELECT crops"]),
        ("SELECT ((SELECT frames)) FROM videos", []),
        ("SELECT ((SELECT frames) UNION (SELECT 1)) FROM videos", []),
        ("SELECT 1 FROM videos WHERE 3 IN (SELECT 1 UNION (SELECT frames))", []),
        ("SELECT 1 FROM videos WHERE duration > (SELECT frames) UNION SELECT 2", []),
        ("SELECT [(SELECT frames)], f((SELECT frames)) FROM videos", []),
        ("SELECT 'SELECT frames WHERE 1'", []),
        ("SELECT $$ SELECT frames WHERE 1 $$", []),
        ("SELECT 1 -- SELECT frames WHERE 1", []),
        ("SELECT 1 /* SELECT frames WHERE 1 */", []),
        ("WITH a AS (SELECT tracks LIMIT 2) SELECT * FROM a", ["SELECT tracks LIMIT 2"]),
        ("WITH a AS (SELECT 1) SELECT crops ORDER BY 1", ["SELECT crops ORDER BY 1"]),
        (
            "SELECT frames WHERE 1 UNION SELECT frames WHERE 2 ORDER BY 1",
            ["SELECT frames WHERE 1", "SELECT frames WHERE 2"],
        ),
        ("SELECT 1 UNION ALL BY NAME SELECT moments ORDER BY 1", ["SELECT moments"]),
        ("(SELECT frames LIMIT 1) UNION ALL SELECT moments", ["SELECT frames LIMIT 1", "SELECT moments"]),
        ("SELECT similarity FROM t", []),
        ("SELECT a.similarity(1) FROM t", []),
        ("SELECT similarity('a') FROM t", ["similarity('a')"]),
        ("SELECT verify ( 'a' , 'b' )", ["verify ( 'a' , 'b' )"]),
        ("SELECT near FROM t", []),
        ("WITH near(a) AS (SELECT 1) SELECT a FROM near", []),
        ("SELECT 1 FROM t inside(a), u AS near(b)", []),
        ("SELECT 1 FROM t WHERE NOT near(a, b, 3)", ["near(a, b, 3)"]),
    ],
)
def test_only_extensions_are_taken_for_extensions(sql: str, found: list[str]) -> None:
    assert [sql[e.start : e.stop] for e in find_extensions(tokenize(sql))] == found


def test_every_predicate_of_space_has_its_fixture() -> None:
    assert {f"{name}.sql" for name in PREDICATES} < set(REWRITTEN)


def test_text_around_an_extension_is_kept_to_the_character(connection: duckdb.DuckDBPyConnection) -> None:
    before, after = "SELECT  /* a */ Count( * )\nFROM (", ') AS  "x y" -- the end'
    inner = "SELECT frames WHERE entity = 'dog'"
    rewritten = rewrite(before + inner + after, connection)
    assert rewritten.text.startswith(before)
    assert rewritten.text.endswith(after)
    at = rewritten.text.index(after) + 5
    assert rewritten.original(at) == len(before + inner) + 5


def test_predicates_keep_their_text(connection: duckdb.DuckDBPyConnection) -> None:
    odd = "time  BETWEEN /* ! */ 1_0 AND 2e1"
    assert odd in rewrite(f"SELECT frames WHERE entity = 'dog' AND {odd}", connection).text


def test_a_condition_of_very_many_alternatives_is_refused(connection: duckdb.DuckDBPyConnection) -> None:
    pair = "(entity = 'dog' AND entity = 'red-van' OR entity = 'blue-van' AND time < {})"
    with pytest.raises(QueryError, match=f"more than {MAX_BRANCHES} alternatives"):
        rewrite("SELECT frames WHERE " + " AND ".join(pair.format(i) for i in range(9)), connection)


def test_a_long_condition_is_no_trouble_and_a_deep_one_is_refused(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    long = " AND ".join(f"frame <> {i}" for i in range(3000))
    assert len(rewrite(f"SELECT frames WHERE {long}", connection).queries[0].branches[0].where) == 3000
    deep = "(" * 3000 + "time < 1" + ")" * 3000
    with pytest.raises(QueryError, match="nested too deeply"):
        rewrite(f"SELECT frames WHERE {deep}", connection)


def _write_expected() -> None:
    with tempfile.TemporaryDirectory() as folder:
        connection = connect(make_library(Path(folder)), Limits(threads=1))
        for name, make in {"rules.sql": planned, **dict.fromkeys(REWRITTEN, spaced)}.items():
            text = (FIXTURES / name).read_text("utf-8")
            head = text[: text.index("-- input\n")]
            inputs = re.findall(r"^-- input\n(.*?)\n-- expected\n", text, re.DOTALL | re.MULTILINE)
            parts = [f"-- input\n{sql}\n-- expected\n{make(sql, connection)}\n" for sql in inputs]
            (FIXTURES / name).write_text(head + "\n".join(parts), "utf-8")
        connection.close()


if __name__ == "__main__":
    _write_expected()
