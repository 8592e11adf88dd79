"""EXPLAIN says what would be done and what it should take; EXPLAIN ANALYZE what was done."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film, write_picture
from query_samples import TRACKS, make_engine, make_library
from test_matching import DEEP, SHALLOW, TwoExits, source

import panorama
from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.matching.ledger import noting
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import MatchRequest


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("explain")
    (folder / "pictures").mkdir()
    for name, brightness in {"a.jpg": 20, "b.jpg": 25}.items():
        (folder / "pictures" / name).write_bytes(bytes([brightness]))
    made, _ = make_engine(make_library(folder), folder / "pictures")
    yield made
    made.close()


def told(engine: Engine, sql: str) -> str:
    return "\n".join(row[0] for row in engine.query(sql))


def test_the_estimate_of_every_way_is_told_before_anything_is_done(engine: Engine) -> None:
    plan = told(engine, "EXPLAIN SELECT frames WHERE entity IN ('dog', 'red-van') AND camera = 'gate'")
    assert "match 2 entities in" in plan
    # A millisecond for each entity, says the fake.
    assert "by exact (2); estimated: exact 2.0 ms" in plan
    assert "rows out" not in plan


def test_rows_in_and_out_of_matching_and_of_duckdb_are_told(engine: Engine) -> None:
    sql = "SELECT frames WHERE entity = 'red-van' AND video = 'gate-2.mp4' LIMIT 4"
    plan = told(engine, f"EXPLAIN ANALYZE {sql}")
    mine = sum(track.segment == 2 for track in TRACKS)
    assert f"{mine} of {len(TRACKS)} tracks in scope" in plan
    assert re.search(r"    1 row out in \d+\.\d ms: 1 accepted, 0 uncertain, 0 rejected", plan)
    assert re.search(r"DuckDB does: 4 rows out in \d+\.\d ms", plan)
    assert len(engine.query(sql)) == 4


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT frames WHERE entity = 'red-van' AND entity = 'blue-van' AND inside('lawn') LIMIT 3",
        "SELECT moments WHERE (entity = 'dog' AND crosses('kerb')) FOLLOWED BY entity = 'red-van'",
        "SELECT entity, count(*) FROM sightings GROUP BY ALL HAVING count(*) > 1 ORDER BY 2 DESC",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 9)"
        " SELECT n FROM t JOIN moments ON true",
        "SELECT similarity('a.jpg', a) FROM crops a LEFT JOIN crops b ON a.time < b.time ORDER BY 1",
    ],
)
def test_a_plan_is_a_list_of_operators_no_wider_than_a_page(engine: Engine, sql: str) -> None:
    for words in ("EXPLAIN", "explain analyze"):
        rows = [row[0] for row in engine.query(f" -- a remark\n{words} {sql};")]
        assert max(map(len, rows)) <= 100
        done = rows[next(i for i, row in enumerate(rows) if row.startswith("DuckDB does")) + 1 :]
        assert done and all(
            re.search(r"\d ms$" if "analyze" in words else r"~\d+ rows?$|\w", r) for r in done
        )
        assert any(re.search(r"rows? +\d+\.\d ms$", row) for row in done) == ("analyze" in words)


def test_the_rows_of_each_operator_are_those_that_it_gave(engine: Engine) -> None:
    plan = told(engine, "EXPLAIN ANALYZE SELECT count(*) FROM crops WHERE video = 'yard.mp4'")
    assert re.search(r"aggregate: count_star\(\) +1 row", plan)
    assert re.search(r"table scan: read_parquet of crops.* \d+ rows", plan)
    assert "DuckDB does: 1 row out" in plan


def test_an_error_in_what_is_explained_points_at_its_place(engine: Engine) -> None:
    sql = "EXPLAIN ANALYZE SELECT nothing FROM crops"
    with pytest.raises(QueryError) as caught:
        engine.query(sql)
    assert (caught.value.sql, caught.value.position) == (sql, sql.index("nothing"))
    with pytest.raises(QueryError, match="expected EXPLAIN or EXPLAIN ANALYZE"):
        engine.query("EXPLAIN (FORMAT json) SELECT 1")


def test_what_plain_sql_pushes_down_is_told(engine: Engine) -> None:
    plan = told(
        engine,
        "EXPLAIN ANALYZE SELECT crop_id FROM crops c JOIN videos v USING (video) WHERE v.camera = 'yard'"
        " AND time < 1.2 AND similarity('a.jpg') > 0.5",
    )
    assert "pushed below comparing: time < 1.2, v.camera = 'yard'" in plan
    assert f"1 of {len(TRACKS)} tracks in scope" in plan
    assert "only similarities of 0.5 or more" in plan
    plan = told(engine, "EXPLAIN SELECT crop_id FROM crops ORDER BY similarity('a.jpg') DESC LIMIT 3")
    assert "pushed below comparing: nothing" in plan and "only what the 3 most similar tracks need" in plan
    plan = told(engine, "EXPLAIN SELECT * FROM moments WHERE entity = 'dog' AND video LIKE 'gate%'")
    assert "pushed below matching: entity dog, video LIKE 'gate%'" in plan
    assert "match 1 entity in 2 segments" in plan


def test_the_matched_relations_similarity_and_verify_are_explained_too(engine: Engine) -> None:
    plan = told(engine, "EXPLAIN ANALYZE SELECT entity, count(*) FROM sightings GROUP BY entity")
    assert "relations sightings, moments" in plan and "match all entities in the whole library" in plan
    plan = told(engine, "EXPLAIN ANALYZE SELECT max(similarity('a.jpg')) FROM crops")
    assert re.search(rf"similarity\('a\.jpg'\): {2 * len(TRACKS)} crops compared in \d", plan)
    plan = told(engine, "EXPLAIN ANALYZE SELECT verify('a.jpg', 'b.jpg')")
    assert re.search(r"verify\('a\.jpg', 'b\.jpg'\): accepted at exit 3, score 0\.980 in \d", plan)
    dry = told(engine, "EXPLAIN SELECT verify('a.jpg', 'b.jpg'), similarity('a.jpg') FROM crops")
    assert "verify('a.jpg', 'b.jpg')\n" in dry and "similarity('a.jpg')\n" in dry


def test_an_explanation_of_plain_sql_is_duckdbs_own(engine: Engine) -> None:
    plain = engine.query("EXPLAIN SELECT count(*) FROM tracks")
    assert plain.columns == ["explain_key", "explain_value"]
    assert plain.to_table() == plain[0]["explain_value"].rstrip("\n")


def test_an_explanation_is_shown_whole(engine: Engine) -> None:
    result = engine.query("EXPLAIN SELECT frames WHERE entity IN ('dog', 'red-van') LIMIT 5")
    assert len(result) > 20
    assert result.to_table().split("\n") == [row["plan"].rstrip("\n") for row in result]


def test_every_exit_notes_what_it_was_given_and_what_it_decided() -> None:
    # Exit 1 leaves the second track open; exit 2 accepts it.
    fake = source([0.9, 0.5, 0.1], [0.9, 0.8, 0.1], [7, 8, 9], stored=1)
    matcher = AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP))
    with noting() as ledger:
        matcher.match(MatchRequest())
    first, second = ledger.exits[1], ledger.exits[2]
    assert (first.entered, first.bands) == (3, [1, 1, 1])
    assert (second.entered, second.bands) == (1, [0, 0, 1])
    assert first.seconds > 0 and second.seconds > 0
    assert ledger.ways == {"exact": 1}
    with noting() as again:
        matcher.match(MatchRequest())
    assert again.ways == {"memory": 1} and not any(note.entered for note in again.exits.values())


def test_the_index_is_named_where_it_was_used() -> None:
    many = [0.9] + [0.1] * 50_000
    fake = source(many, many, range(len(many)))
    fake.searched = []
    with noting() as ledger:
        AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP)).match(MatchRequest())
    assert fake.searched and ledger.ways == {"index": 1}


def test_nothing_is_noted_where_nobody_asked() -> None:
    fake = source([0.9], [0.9], [7])
    with noting() as ledger:
        pass
    AlbumMatcher(fake, TwoExits(), (SHALLOW, DEEP)).match(MatchRequest())
    assert not ledger.exits and not ledger.ways


def test_a_library_notes_vectors_and_prints_its_exits(run, tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)])
    run("index", "a.mp4", "--model", "color-bands")
    run("register", "red", write_picture(tmp_path / "red.png", thing_picture("red")))
    with panorama.open("panorama-library") as library, noting() as ledger:
        crops = np.array([row[0] for row in library.query("SELECT crop_id FROM crops").fetchall()])
        library.vectors_of(crops, 1)
    assert (ledger.exits[1].read, ledger.exits[1].computed) == (len(crops), 0)
    done = run("query", "EXPLAIN ANALYZE SELECT frames WHERE entity = 'red'", "--format", "csv")
    assert done.status == 0, done.err
    assert re.search(r"exit 1: \d+ tracks? in, 1 accepted, 0 uncertain, \d+ rejected in", done.out)
