"""Statements can read the library's data and change nothing; any text gives an answer or a clear error."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from query_samples import make_engine, make_library

from panorama.errors import PanoramaError, QueryError
from panorama.query.engine import Engine

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("library")


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    pictures = folder / "pictures"
    pictures.mkdir()
    (pictures / "a.jpg").write_bytes(b"\x14")
    (folder / "secret.csv").write_text("a,b\n1,2\n")
    made, _ = make_engine(make_library(folder), pictures, seconds=3, memory="500MB")
    yield made
    made.close()


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{data}/out.csv'",
        "COPY tracks FROM '{folder}/secret.csv'",
        "ATTACH '{data}/x.duckdb'",
        "DETACH memory",
        "INSTALL httpfs",
        "LOAD httpfs",
        "PRAGMA database_list",
        "SET threads = 4",
        "RESET threads",
        "CREATE TABLE t (a INTEGER)",
        "CREATE OR REPLACE VIEW videos AS SELECT 1",
        "DROP VIEW videos",
        "ALTER TABLE videos RENAME TO v",
        "INSERT INTO _panorama.videos SELECT * FROM _panorama.videos",
        "UPDATE _panorama.videos SET video = ''",
        "DELETE FROM _panorama.videos",
        "TRUNCATE _panorama.videos",
        "MERGE INTO _panorama.videos USING videos ON true WHEN MATCHED THEN DELETE",
        "CALL pragma_version()",
        "EXPORT DATABASE '{data}'",
        "IMPORT DATABASE '{data}'",
        "CHECKPOINT",
        "VACUUM",
        "BEGIN",
        "COMMIT",
        "USE main",
        "PREPARE q AS SELECT 1",
        "EXECUTE q",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{data}/out.csv'",
        "explain insert into _panorama.videos select * from _panorama.videos",
    ],
)
def test_what_changes_anything_is_refused_by_name(engine: Engine, folder: Path, sql: str) -> None:
    text = sql.format(data=folder / "data" / "frames", folder=folder)
    word = next(word for word in text.upper().split() if word not in ("EXPLAIN", "ANALYZE"))
    with pytest.raises(QueryError, match=f"{word} is refused"):
        engine.query(text)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (INSERT INTO _panorama.videos FROM _panorama.videos RETURNING video) SELECT * FROM x",
        "WITH x AS (DELETE FROM _panorama.videos RETURNING video) SELECT * FROM x",
        "WITH x AS (UPDATE _panorama.videos SET video = '' RETURNING video) SELECT * FROM x",
        "SELECT 1; DROP VIEW videos",
        "SELECT 1; SELECT 2",
        "SELECT frames WHERE entity = 'dog'; DROP VIEW videos",
        "SELECT frames WHERE video IN (WITH x AS (DELETE FROM _panorama.videos RETURNING video) FROM x)",
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM read_text('{data}/../../secret.csv')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_blob('/etc/passwd')",
        "SELECT * FROM parquet_metadata('{folder}/secret.csv')",
        "SELECT frames WHERE video IN (SELECT content FROM read_text('/etc/passwd'))",
        "SELECT * FROM read_csv('http://localhost/x.csv')",
        "SELECT * FROM query('DROP VIEW videos')",
        "SELECT * FROM enable_logging(storage := 'file', storage_path := '{data}')",
        "SELECT * FROM enable_profiling(save_location := '{data}/p.json')",
        "SELECT * FROM folder",
        "",
        ";;",
        "-- nothing",
        "SELECT 1\x00",
    ],
)
def test_no_statement_writes_or_reads_outside_of_the_library(engine: Engine, folder: Path, sql: str) -> None:
    before = sorted(path for path in folder.rglob("*"))
    videos = engine.query("SELECT * FROM videos").fetchall()
    with pytest.raises(QueryError):
        engine.query(sql.format(data=folder / "data" / "frames", folder=folder))
    assert sorted(path for path in folder.rglob("*")) == before
    assert engine.query("SELECT * FROM videos").fetchall() == videos


def test_sightings_with_a_schema_before_them_are_the_same(engine: Engine) -> None:
    rows = engine.query("SELECT count(*) FROM main.sightings").fetchall()
    assert rows == engine.query("SELECT count(*) FROM sightings").fetchall() == [(12,)]


def test_one_statement_sees_nothing_that_another_made(engine: Engine) -> None:
    engine.query("SELECT frames WHERE entity = 'dog'")
    with pytest.raises(QueryError, match="_p1_matches"):
        engine.query("SELECT * FROM _p1_matches")


def test_ctrl_c_stops_a_query_and_the_engine_lives_on(engine: Engine) -> None:
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.query("SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3")
    timer.join()
    assert engine.query("SELECT 1").fetchall() == [(1,)]


def test_another_thread_can_interrupt(engine: Engine) -> None:
    timer = threading.Timer(0.3, engine.interrupt)
    timer.start()
    with pytest.raises(QueryError, match="interrupted"):
        engine.query("SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3")
    timer.join()


SEEDS = [
    "SELECT frames WHERE entity = 'dog' AND (entity = 'red-van' OR NOT score >= 0.5) LIMIT 3",
    "SELECT moments WHERE entity = 'dog' FOLLOWED BY entity = 'dog' WITHIN INTERVAL 9 HOURS AND x1 < 9",
    "SELECT tracks WHERE camera LIKE 'g%' ORDER BY similarity('a.jpg') DESC, track_id LIMIT 5 OFFSET 1",
    "SELECT count(*) FROM (SELECT frames WHERE entity IN ('dog', NULL) AND time BETWEEN 1 AND 2) WHERE x1>3",
    "WITH a AS (SELECT crops WHERE area > 10) SELECT video, max(x1) FROM a GROUP BY 1 HAVING count(*) > 1",
    "SELECT moments WHERE (entity = 'dog' AND band = 'uncertain') OR NOT (entity LIKE 'r%' AND end_time > 4)",
    "SELECT verify('a.jpg', 'a.jpg'), similarity('a.jpg') FROM crops UNION ALL SELECT true, 1.0",
    "EXPLAIN SELECT frames WHERE entity IS NULL UNION SELECT frames WHERE width * 2 > height",
    "CREATE ENTITY 'x' FROM 'a' NOT FROM 'b'",
]
PIECES = [
    *(
        "SELECT",
        "frames",
        "moments",
        "WHERE",
        "AND",
        "OR",
        "NOT",
        "(",
        ")",
        ",",
        ";",
        "'",
        '"',
        "--",
        "/*",
        "*/",
    ),
    *(
        "entity",
        "score",
        "time",
        "=",
        "<",
        "'dog'",
        "NULL",
        "IN",
        "BETWEEN",
        "FOLLOWED BY",
        "WITHIN",
        "INTERVAL",
    ),
    *(
        "$$",
        "?",
        "$a",
        "1e999",
        "-1",
        "0x",
        "é",
        "\\",
        "\n",
        "similarity(",
        "verify(",
        "CASE",
        "END",
        "ORDER BY",
    ),
    *(
        "LIMIT",
        "FROM",
        "UNION",
        "WITH",
        "AS",
        "::",
        "[",
        "]",
        "{",
        "}",
        "lambda x:",
        "\t",
        "ALL",
        "*",
        "EXISTS (",
    ),
]


SWAPS = [
    ["frames", "moments", "tracks", "crops", "detections", "sightings", "videos", "entities"],
    [
        "entity",
        "score",
        "time",
        "video",
        "camera",
        "frame",
        "x1",
        "band",
        "area",
        "start_time",
        "track_id",
        "quality",
    ],
    ["'dog'", "'red-van'", "'blue-van'", "'uncertain'", "'gate-1.mp4'", "NULL", "''"],
    ["=", "<", ">=", "<>", "IS NOT DISTINCT FROM", "LIKE", "~"],
    ["AND", "OR", "AND NOT", "OR NOT", "FOLLOWED BY", "DURING", "OVERLAPS", "BEFORE"],
    ["0", "1", "0.5", "3", "9", "30", "1e30"],
    ["DESC", "ASC", "NULLS FIRST"],
    ["UNION", "UNION ALL", "EXCEPT", "INTERSECT"],
]


def swap(rng: random.Random, text: str) -> str:
    """Words replaced by others of their kind, so that most of what comes out can be parsed."""
    words = re.split(r"('[^']*'|[\w.]+|[<>=]+)", text)
    for _ in range(rng.randint(1, 6)):
        i = rng.randrange(len(words))
        for group in SWAPS:
            if words[i] in group:
                words[i] = rng.choice(group)
    return "".join(words)


def mutate(rng: random.Random, texts: list[str]) -> str:
    text = swap(rng, rng.choice(texts))
    if rng.random() < 0.5:
        return text
    for _ in range(rng.randint(1, 2)):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            text = text[:at] + text[at + rng.randint(1, 8) :]
        elif kind == 1:
            text = f"{text[:at]} {rng.choice(PIECES)} {text[at:]}"
        elif kind == 2:
            words = text.split(" ")
            rng.shuffle(words) if rng.random() < 0.1 else words.insert(
                rng.randrange(len(words)), rng.choice(PIECES)
            )
            text = " ".join(words)
        elif kind == 3:
            other = rng.choice(texts)
            text = text[:at] + other[rng.randrange(len(other)) :]
        else:
            text = text[:at] + rng.choice("()',;=<>*$?\"\\ 0\u00e9") + text[at + 1 :]
    return text


@pytest.mark.parametrize("seed", range(4))
def test_any_text_gives_an_answer_or_a_clear_error(engine: Engine, folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    plain = (FIXTURES / "plain_selects.sql").read_text("utf-8").splitlines()[1:]
    before = sorted(path for path in folder.rglob("*"))
    answers = 0
    for _ in range(int(os.environ.get("PANORAMA_FUZZ", "100"))):
        text = mutate(rng, SEEDS if rng.random() < 0.7 else plain)
        try:
            engine.query(text)
            answers += 1
        except PanoramaError as error:
            assert str(error).strip(), text
        except BaseException as error:
            raise AssertionError(f"{text!r} raised {type(error).__name__}: {error}") from error
    assert answers > 0
    assert sorted(path for path in folder.rglob("*")) == before
