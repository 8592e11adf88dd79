"""Statements can read the library's data and change nothing; any text gives an answer or a clear error."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import fuzz
import pytest
from query_samples import make_engine, make_library

from panorama.errors import QueryError, QueryTimeout
from panorama.query.engine import Engine
from panorama.query.text.calls import TABLE_FUNCTIONS, refuse_calls
from panorama.query.text.tokens import tokenize


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
        "SELECT * FROM query('SELECT * FROM read_text(''{folder}/secret.csv'')')",
        "SELECT * FROM sniff_csv('{folder}/secret.csv')",
        "SELECT * FROM read_json('{folder}/secret.csv')",
        "SELECT * FROM read_duckdb('{folder}/secret.csv')",
        "SELECT getenv('HOME')",
        "SELECT * FROM duckdb_secrets()",
        "SELECT * FROM duckdb_settings()",
        "SELECT * FROM pg_settings",
        "SELECT setting FROM pg_catalog.PG_Settings WHERE name = 'secret_directory'",
        "FROM duckdb_logs",
        "SELECT * FROM query('SELECT * FROM duckdb_settings()')",
        "SELECT * FROM query('SELECT * FROM query(''FROM duckdb_secrets()'')')",
        "SELECT * FROM query('SELECT * FROM ' || 'duckdb_settings()')",
        "SELECT * FROM query('SELECT * FROM duckdb_'\n'settings()')",
        "SELECT * FROM query(E'SELECT * FROM duckdb_\\x73ettings()')",
        "SELECT * FROM query($$SELECT * FROM duckdb_settings()$$)",
        "SELECT * FROM query_table('pg_settings')",
        "SELECT * FROM query_table(['videos', 'pg_settings'])",
        "SELECT * FROM query_table('pg_' || 'settings')",
        "SELECT * FROM query_table(list_value('pg_settings'))",
        "SELECT current_setting('allowed_directories')",
        "SELECT current_setting('secret_' || 'directory')",
        "SELECT current_setting('threads'[1:0] || 'secret_directory')",
        "SELECT current_setting('threads' || '', 'secret_directory')",
        "SELECT current_setting(if('threads' = '', 'threads', 'secret_directory'))",
        "SELECT current_setting('secret_directory'.replace('threads', ''))",
        "SELECT ('secret_directory').current_setting()",
        "SELECT current_setting(",
        "SELECT frames WHERE write_log(video) IS NULL",
        "SELECT \"write_log\" ('x')",
        "SELECT * FROM system.main.checkpoint()",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
        "SELECT * FROM register_external_resource_type('a', 'b', 'c', 'd', 'e', 'f', 'g')",
        "SELECT * FROM truncate_duckdb_logs()",
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


def _is_refused(engine: Engine, name: str) -> bool:
    try:
        engine.query(f"SELECT * FROM {name}()")
    except QueryError as error:
        return str(error).startswith(f"{name} is refused")
    return False


def test_table_functions_of_duckdb_that_nobody_has_looked_at_are_refused(engine: Engine) -> None:
    """A new DuckDB brings new ones: they are refused until somebody looks at them and lists them."""
    found = engine.query(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type LIKE 'table%'"
    )
    there = {name for (name,) in found.fetchall()}
    assert {name for name in there if _is_refused(engine, name)} == there - TABLE_FUNCTIONS
    assert {"checkpoint", "read_duckdb", "duckdb_secrets", "python_map_function"} < there
    assert {"read_csv", "range", "duckdb_columns", "unnest"} < there & TABLE_FUNCTIONS


def test_a_function_that_a_new_duckdb_brings_is_refused_wherever_it_is_called() -> None:
    new = partial(refuse_calls, table_functions=lambda: frozenset({"change_grammar", "range"}))
    for sql in (
        "SELECT * FROM change_grammar('x')",
        "SELECT * FROM videos, main.Change_Grammar ('x')",
        'SELECT frames WHERE video IN (FROM "change_grammar"())',
    ):
        with pytest.raises(QueryError, match="change_grammar is refused") as caught:
            new(tokenize(sql), sql)
        assert caught.value.position == re.search(r'"?change_grammar', sql.lower()).start()  # type: ignore[union-attr]
    for sql in (
        "SELECT change_grammar FROM range(3)",
        "SELECT 'change_grammar' AS x, count(*) FROM range(3)",
    ):
        new(tokenize(sql), sql)


def test_what_nests_too_deeply_is_told_the_limit_to_raise(folder: Path) -> None:
    """DuckDB's advice was to SET what Panorama refuses."""
    deep = f"SELECT {'1 + ' * 90}1"
    with pytest.raises(QueryError, match=r"beyond a depth of 60: .*Limits\(expressions=120\)$") as caught:
        make_engine(make_library(folder), expressions=60)[0].query(deep)
    assert "SET" not in str(caught.value.args[0])
    assert make_engine(make_library(folder), expressions=120)[0].query(deep)[0][0] == 91


def test_limits_hold_in_the_connection_that_a_statement_gets(folder: Path) -> None:
    """What was set for one connection did not hold for its cursors, and each statement has one."""
    shallow, _ = make_engine(make_library(folder), expressions=60)
    assert shallow.query(f"SELECT {'(' * 20}1{')' * 20}").fetchall() == [(1,)]
    with pytest.raises(QueryError, match="depth"):
        shallow.query(f"SELECT {'- ' * 90}1")
    shallow.close()


def test_settings_that_say_nothing_of_the_machine_are_shown(engine: Engine) -> None:
    assert engine.query("SELECT current_setting('TimeZone') IS NOT NULL").fetchall() == [(True,)]
    assert engine.query("SELECT current_setting ( 'threads' ) > 0").fetchall() == [(True,)]
    with pytest.raises(QueryError, match="refused for anything but one name in quotes; it shows calendar, "):
        engine.query("SELECT current_setting('threads'[1:0] || 'secret_directory')")


def test_an_error_of_duckdb_points_at_its_place_whatever_stands_before(engine: Engine) -> None:
    for before in ("", "\n", "-- why\n", "  /* a /* b */ */ ", "\n\n-- one\n-- two\n  "):
        for sql in (
            "SELECT 1, ! FROM videos",
            "SELECT 1,\n ! FROM videos WHERE video IN (FROM (SELECT frames WHERE entity = 'dog') SELECT 'x')",
            "SELECT video FROM (SELECT frames WHERE entity = 'dog') WHERE ! = 1",
            "EXPLAIN SELECT ! FROM videos",
            "SELECT frames WHERE entity = 'dog' AND frame > 3 AND !(3) = 4 AND x1 > 2",
            "SELECT frames WHERE ! = 4",
        ):
            text = before + sql.replace("!", "nosuch")
            with pytest.raises(QueryError) as caught:
                engine.query(text)
            assert caught.value.position == len(before) + sql.index("!"), text


@pytest.mark.parametrize(
    ("sql", "bracket"),
    [
        ("SELECT !" + "(" * 20_000, "("),  # DuckDB's parser took all memory
        ("SELECT frames WHERE !(entity = 'dog' AND (time < 3)", "("),
        ("SELECT (1, ![2, 3)", "["),
        ("SELECT !{'a': 1", "{"),
        ("EXPLAIN SELECT ') (' FROM videos WHERE !(width > 1 -- )", "("),
    ],
)
def test_a_bracket_that_is_not_closed_is_pointed_at(engine: Engine, sql: str, bracket: str) -> None:
    with pytest.raises(
        QueryError, match=re.escape(f"the {bracket} that begins here is not closed")
    ) as caught:
        engine.query(sql.replace("!", ""))
    assert caught.value.position == sql.index("!")


def test_a_bracket_in_a_name_in_backticks_is_no_open_one(engine: Engine) -> None:
    assert engine.query("SELECT 1 AS `a(b`").columns == ["a(b"]
    with pytest.raises(QueryError, match="is not closed"):
        engine.query("SELECT `a`, " + "(" * 20_000)


def test_a_file_that_may_not_be_read_is_named_in_plain_words(engine: Engine) -> None:
    with pytest.raises(
        QueryError, match="'/etc/passwd' cannot be read: a query reads only the library's relations"
    ):
        engine.query("SELECT * FROM read_text('/etc/passwd')")


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


def test_ctrl_c_stops_a_query_while_threads_of_duckdb_work(tmp_path: Path) -> None:
    """DuckDB often waited for their tasks, which take minutes here, before it looked for signals."""
    engine, _ = make_engine(make_library(tmp_path), seconds=20, threads=2)
    for _ in range(8):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        began = time.monotonic()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            engine.query("SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3")
        assert time.monotonic() - began < 10
        timer.join()
    assert engine.query("SELECT 1").fetchall() == [(1,)]


def test_a_signal_whose_handler_raises_nothing_is_heard_amid_a_query_and_stops_none(engine: Engine) -> None:
    heard: list[float] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(time.monotonic()))
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        took = engine.query("SELECT count(*) FROM range(30000000) a(i) WHERE sqrt(a.i) = 3.0")
        ended = time.monotonic()
        timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert took.fetchall() == [(1,)] and len(heard) == 1 and heard[0] < ended


def test_another_thread_can_stop_a_query(engine: Engine) -> None:
    stop = threading.Event()
    timer = threading.Timer(0.3, stop.set)
    timer.start()
    with pytest.raises(QueryTimeout, match=r"told to stop, and ended after 0\.\d s"):
        engine.query("SELECT count(*) FROM range(100000000000) r(i) WHERE i % 7 = 3", stop=stop)
    timer.join()
    with pytest.raises(QueryTimeout, match="told to stop"):
        engine.query("SELECT 1", stop=stop)
    assert engine.query("SELECT 1", stop=threading.Event()).fetchall() == [(1,)]


@pytest.mark.skipif(sys.platform != "linux", reason="inotify and /proc are Linux")
def test_any_text_gives_an_answer_or_a_clear_error() -> None:
    findings = fuzz.run(int(os.environ.get("PANORAMA_FUZZ", "400")))
    assert not findings.found, findings.found[:5]
    assert findings.said["answers"] > findings.tried / 20
    assert findings.tried == sum(findings.said.values())


@pytest.mark.skipif(sys.platform != "linux", reason="inotify and /proc are Linux")
def test_a_run_of_the_fuzzer_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUZZ_LIMIT_SECONDS", "25")  # what is said may not hang on how busy the machine is
    state = tmp_path / "fuzz.json"
    whole = fuzz.run(20, step=10, workers=2, state=state)
    kept = json.loads(state.read_text())
    assert (kept["left"], kept["tried"], whole.tried) == ([], 20, 20)
    # As if it had been interrupted after the first ten.
    first = fuzz.run(10, step=10)
    kept |= {"left": [10], "tried": 10, "said": dict(first.said), "found": []}
    state.write_text(json.dumps(kept))
    again = fuzz.run(20, step=10, state=state)
    assert (again.tried, again.said, again.found) == (20, whole.said, [])
    with pytest.raises(SystemExit, match="is of another run"):
        fuzz.run(20, step=10, seed=2, state=state)


def test_the_fuzzer_sees_a_crash_a_hang_an_open_file_and_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It runs over an engine that does all of that."""
    bad = tmp_path / "bad.py"
    bad.write_text(
        "import os, sys, time\n"
        f"sys.path[:0] = [{str(Path(fuzz.__file__).parent)!r}]\n"
        "import fuzz\n"
        "class Engine:\n"
        "    def query(self, text):\n"
        "        deeds = [lambda: os.kill(os.getpid(), 11), lambda: open(os.environ['CANARY']).read(),\n"
        "                 lambda: time.sleep(60), lambda: 1 / 0, lambda: open('new', 'w').close()]\n"
        "        Engine.number += 1\n"
        "        deeds[int(sys.argv[4]) + Engine.number]()\n"
        "    number = -1\n"
        "    close = query\n"
        "fuzz.make_engine = lambda *a, **k: (Engine(), None)\n"
        "fuzz.main()\n"
    )
    monkeypatch.setattr(fuzz, "__file__", str(bad))
    monkeypatch.setattr(fuzz, "HANG_SECONDS", 3.0)
    monkeypatch.setattr(fuzz.Room, "furnish", _furnish_and_tell(fuzz.Room.furnish, monkeypatch))
    whats = " ".join(found["what"] for found in fuzz.run(5, step=1).found)
    for expected in (
        "ended with -11",
        "the canary's folder was touched",
        "a hang",
        "ZeroDivisionError",
        "new",
    ):
        assert expected in whats, whats


def _furnish_and_tell(
    furnish: Callable[[fuzz.Room], None], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    def told(room: fuzz.Room) -> None:
        furnish(room)
        monkeypatch.setenv("CANARY", str(room.canary))

    return told
