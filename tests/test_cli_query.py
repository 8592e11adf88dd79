"""`panorama query` and `verify`: formats, files, errors; what goes to stdout and what to stderr."""

from __future__ import annotations

import csv
import io
import json
import os
import sys

import pyarrow.parquet as pq
import pytest
from conftest import Ran
from fakes import Thing, thing_picture, write_picture

from panorama.query.result.result import Result

RED = "SELECT frames WHERE entity = 'red'"
COLUMNS = ["video", "frame", "time", "entity", "score", "track_id", "x1", "y1", "x2", "y2"]


def rows(run, sql, *words):
    done = run("query", sql, "--format", "json", *words)
    assert done.status == 0, done.err
    return done.json


def test_frames_come_in_the_promised_columns_at_the_right_places(run, asked):
    found = rows(run, RED)
    assert list(found[0]) == COLUMNS
    at = {row["frame"]: row for row in found if row["video"] == "gate/a.mp4"}
    assert set(range(6, 34)) <= set(at) <= set(range(4, 37))
    x1, y1, x2, y2 = Thing("red", 5, 35).box(20)
    assert at[20]["time"] == pytest.approx(2.0)
    assert [at[20][k] for k in ("x1", "y1", "x2", "y2")] == pytest.approx([x1, y1, x2, y2], abs=3)
    assert 0 <= at[20]["score"] <= 1


def test_predicates_restrict_and_two_entities_meet(run, asked):
    assert {r["video"] for r in rows(run, f"{RED} AND video = 'yard/b.mp4'")} == {"yard/b.mp4"}
    assert {r["video"] for r in rows(run, f"{RED} AND video LIKE 'gate/%'")} == {"gate/a.mp4"}
    assert {r["frame"] for r in rows(run, f"{RED} AND video LIKE 'gate/%' AND time BETWEEN 1 AND 1.5")} == {
        *range(10, 16)
    }
    both = rows(run, f"{RED} AND entity = 'blue'")
    assert {r["entity"] for r in both} == {"red", "blue"}
    assert {r["video"] for r in both} == {"yard/b.mp4"} and min(r["frame"] for r in both) >= 18
    assert len(rows(run, f"{RED} ORDER BY time DESC LIMIT 3")) == 3
    every = rows(run, "SELECT DISTINCT track_id FROM (SELECT frames WHERE entity = 'red' AND score >= 0)")
    assert len(every) == len(rows(run, "SELECT track_id FROM tracks"))
    one = rows(run, "SELECT moments WHERE entity = 'red' AND video = 'gate/a.mp4'")
    assert len(one) == 1
    assert one[0]["start_time"] == pytest.approx(0.5, abs=0.15)
    assert one[0]["end_time"] == pytest.approx(3.5, abs=0.15)


def test_plain_sql_reaches_every_relation(run, asked):
    for relation in ("videos", "frames", "tracks", "detections", "crops", "entities", "sightings", "moments"):
        (row,) = rows(run, f"SELECT count(*) AS n FROM {relation}")
        assert row["n"] > 0, relation


def test_no_rows_print_an_empty_array_and_status_0(run, asked):
    done = run("query", "SELECT frames WHERE entity = 'green'", "--format", "json")
    assert (done.status, json.loads(done.out)) == (0, [])
    assert done.out.strip() == "[]"


def test_a_script_may_ask_for_a_status_of_its_own_where_nothing_was_found(run, asked):
    """Nothing but reading the output told a job whether anything had been found."""
    none, some = "SELECT frames WHERE entity = 'red' AND time > 99", "SELECT frames WHERE entity = 'red'"
    assert run("query", none, "--fail-if-empty", "--json") == Ran(4, "[]\n", run("query", none, "--json").err)
    assert run("query", none).status == 0
    assert run("query", some, "--fail-if-empty").status == 0
    for name, sql in (("none.sql", none), ("some.sql", some)):
        (asked / name).write_text(sql)
    assert run("query", "-f", "none.sql", "-f", "some.sql", "--fail-if-empty").status == 0
    assert run("query", "-f", "none.sql", "-f", "none.sql", "--fail-if-empty").status == 4
    assert run("query", none, "--fail-if-empty", "--out", "rows.csv").status == 4
    assert (asked / "rows.csv").exists(), "what was asked for is written all the same"
    asks_nothing = run("query", "CREATE ENTITY 'it' FROM 'album/red/*.png'", "--fail-if-empty")
    assert asks_nothing.status == 0, asks_nothing.err


def test_formats_and_files_agree(run, asked, tmp_path):
    expected = rows(run, RED)
    table = run("query", RED)
    assert table.out.splitlines()[0].split() == COLUMNS
    as_csv = list(csv.DictReader(io.StringIO(run("query", RED, "--format", "csv").out)))
    assert [int(row["frame"]) for row in as_csv] == [row["frame"] for row in expected]
    for name in ("x.json", "x.csv", "x.parquet", "x.txt"):
        done = run("query", RED, "--out", name)
        assert (done.status, done.out) == (0, "")
        assert f"{len(expected)} rows written to {name}" in done.err
    assert json.loads((tmp_path / "x.json").read_text()) == expected
    exact = pq.read_table(tmp_path / "x.parquet")
    assert json.loads(Result(exact, ["DOUBLE"] * exact.num_columns).to_json()) == expected
    assert len((tmp_path / "x.txt").read_text().splitlines()) == len(expected) + 3
    assert run("query", RED, "--format", "parquet").status == 2
    assert run("query", RED, "--format", "parquet", "--out", "y.bin").status == 0
    assert pq.read_table(tmp_path / "y.bin").num_rows == len(expected)
    unknown = run("query", RED, "--out", "x.xlsx")
    assert unknown.status == 2 and "ends in .csv, .json, .parquet or .txt, got 'x.xlsx'" in unknown.err
    assert not (tmp_path / "x.xlsx").exists()
    pdf = run("why", "red", "a.mp4", "--at", "1", "--out", "x.pdf")
    assert pdf.err.startswith("UsageError: a picture is written as .jpg")
    (tmp_path / "file").touch()
    for option, name in (("--out", "file/x.csv"), ("--sheet", "file/x.jpg"), ("--clips", "file/x")):
        barred = run("query", RED, option, name)
        assert barred.status == 1 and "LibraryWriteError: file/x" in barred.err
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".x")]


def test_json_is_asked_for_as_of_other_commands(run, asked):
    sql = "SELECT video FROM videos"
    assert run("query", sql, "--json").out == run("query", sql, "--format", "json").out
    both = run("query", sql, "--json", "--format", "csv")
    assert both.status == 2 and "--json and --format csv contradict each other" in both.err


def test_a_name_that_contradicts_the_format_is_refused_before_anything_is_written(run, asked, tmp_path):
    """JSON was written under the name of a Parquet file."""
    sql = "SELECT video FROM videos"
    wrong = [("x.parquet", "--json"), ("x.CSV", "--format", "json"), ("x.csv", "--format", "table")]
    for name, *form in [*wrong, ("x.json", "--format", "parquet"), ("x.txt", "--format", "parquet")]:
        done = run("query", sql, "--out", name, *form)
        assert done.status == 2 and not (tmp_path / name).exists()
        asks = f"the format {form[-1].removeprefix('--')} does not fit the file name {name!r}; leave out"
        assert asks in done.err and "leave out the format" in done.err
        assert ("choose a name that ends in" in done.err) == (form[-1] != "table")
    right = [("x.JSON", "--json"), ("x.parquet", "--format", "parquet"), ("x.txt", "--json"), ("x", "--json")]
    for name, *form in [*right, ("rows.2026", "--format", "csv"), ("x.csv.part", "--format", "csv")]:
        assert run("query", sql, "--out", name, *form).status == 0 and (tmp_path / name).exists()


def test_uncertain_tracks_are_counted_on_stderr_alone(run, asked):
    # Mostly red with a green stripe: like red, but not surely red.
    mixed = thing_picture("red")
    mixed[:, 51:] = thing_picture("green")[:, 51:]
    write_picture(asked / "mixed.png", mixed)
    run("register", "mixed", "mixed.png")
    done = run("query", "SELECT frames WHERE entity = 'mixed'", "--format", "json")
    count = len(
        rows(
            run, "SELECT DISTINCT track_id FROM (SELECT frames WHERE entity = 'mixed' AND band = 'uncertain')"
        )
    )
    assert json.loads(done.out) == []
    assert count > 0 and done.err == f"{count} tracks are uncertain; see with: AND band = 'uncertain'\n"
    # Behind an OR, what was advised asked the last alternative alone.
    told = run("query", "SELECT *, 'this or that' AS text FROM (SELECT frames WHERE entity = 'mixed')").err
    assert "AND band = 'uncertain'\n" in told
    either = run("query", "SELECT frames WHERE entity = 'mixed' or entity = 'mixed'")
    assert "AND band = 'uncertain', with the OR before it in brackets\n" in either.err
    # Relations have no band, and of what is not there, or of several tracks, AND showed nothing.
    shows = "SELECT tracks WHERE entity = 'mixed' AND band = 'uncertain'"
    for sql in (
        "SELECT entity, count(*) FROM sightings WHERE entity = 'mixed' GROUP BY ALL",
        "SELECT video FROM moments m WHERE m.entity = 'mixed'",
        "SELECT frames WHERE NOT entity = 'mixed'",
        "SELECT moments WHERE entity = 'mixed' FOLLOWED BY entity = 'mixed'",
        "SELECT frames WHERE left_of('mixed', 'mixed')",
    ):
        told = run("query", sql).err
        assert told.endswith(f"uncertain; see with: {shows}\n"), sql
    told = run("query", "SELECT frames WHERE entity = 'mixed' AND NOT time > 90").err
    assert told.endswith("see with: AND band = 'uncertain'\n")
    shown = run("query", shows, "--json").json
    assert [row["entity"] for row in shown] == ["mixed"] * count


def test_a_dash_for_the_rows_is_standard_output(run, asked, tmp_path):
    """It was a file of that name."""
    sql = "SELECT video FROM videos"
    for form in ((), ("--json",), ("--format", "csv")):
        assert run("query", sql, "--out", "-", *form).out == run("query", sql, *form).out
    assert not (tmp_path / "-").exists()
    for to in (("--out", "-"), ()):
        done = run("query", sql, *to, "--format", "parquet")
        assert (done.status, done.out) == (2, "") and "Parquet is binary" in done.err
        assert "--out rows.parquet" in done.err and "None" not in done.err


def test_a_file_may_hold_several_statements(run, asked, tmp_path):
    (tmp_path / "one.sql").write_text("-- how many; really\nSELECT count(*) AS n FROM videos;\n")
    (tmp_path / "two.sql").write_text("SELECT 'a;b' AS text;\n\nSELECT 2 AS two; -- the end\n")
    assert run("query", "-f", "one.sql", "--format", "json").json == [{"n": 2}]
    assert run("query", "-f", "one.sql", "two.sql").out == run("query", "-f", "one.sql", "-f", "two.sql").out
    done = run("query", "-f", "one.sql", "-f", "two.sql", "--format", "csv")
    assert done.out == "n\n2\ntext\na;b\ntwo\n2\n"
    (tmp_path / "wrong.sql").write_text("SELECT 1;\nSELECT nosuch FROM videos;\n")
    wrong = run("query", "-f", "wrong.sql")
    assert wrong.status == 1 and "line 2, column 8" in wrong.err
    assert run("query", "-f", "nosuch.sql").status == 2
    assert run("query").status == 2
    assert run("query", "SELECT 1", "-f", "one.sql").status == 2
    assert run("query", "-f", "two.sql", "--out", "x.csv").status == 2


def test_several_queries_in_json_are_one_array_a_line_and_tables_stand_apart(run, asked, tmp_path):
    (tmp_path / "one.sql").write_text("SELECT video FROM videos ORDER BY video; SELECT 'a\nb' AS text")
    (tmp_path / "two.sql").write_text("SELECT 1 AS one WHERE false")
    done = run("query", "-f", "one.sql", "two.sql", "--format", "json")
    assert done.json_lines == [[{"video": "gate/a.mp4"}, {"video": "yard/b.mp4"}], [{"text": "a\nb"}], []]
    # The usage shows SQL twice, and nothing said how to ask two questions without a file.
    apart = run("query", "SELECT 1 AS n", "SELECT 2 AS n", "--json")
    assert apart.status == 2 and "several statements have a semicolon between them" in apart.err
    assert run("query", "SELECT 1 AS n; SELECT 2 AS n", "--json").json_lines == [[{"n": 1}], [{"n": 2}]]
    tables = run("query", "-f", "two.sql", "two.sql").out
    assert tables == "one\n---\n(0 rows)\n\none\n---\n(0 rows)\n"


def test_sql_comes_from_standard_input_where_a_dash_is_named(run, asked, tmp_path, monkeypatch):
    (tmp_path / "one.sql").write_text("SELECT 1 AS one")

    def piped(text, *words):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        return run("query", *words, "--format", "csv")

    for words in (["-"], ["-f", "-"], ["--file", "-"]):
        assert piped(b"SELECT 2 AS two;\n", *words).out == "two\n2\n"
    both = piped("\ufeffSELECT 'ä' AS two; SELECT 3 AS three".encode(), "-f", "one.sql", "-")
    assert both.out == "one\n1\ntwo\nä\nthree\n3\n"
    wrong = piped(b"SELECT 1;\nSELECT nosuch FROM videos", "-f", "one.sql", "-")
    assert wrong.status == 1 and "QueryError: standard input: Referenced" in wrong.err
    assert "line 2, column 8" in wrong.err
    assert piped(b"SELECT \xff", "-").err == "QueryError: standard input is not SQL: it is not UTF-8 text\n"
    assert "the statement is empty" in piped(b"", "-").err
    twice = piped(b"SELECT 1", "-f", "-", "-")
    assert twice.status == 2 and "can be read only once" in twice.err
    monkeypatch.setattr(sys, "stdin", None)
    assert run("query", "-").err == "QueryError: standard input is closed; there is no SQL to read\n"


def test_sql_may_begin_with_a_comment_and_a_file_as_sql_is_pointed_out(run, asked, tmp_path):
    assert run("query", "-- how many\nSELECT 1 AS one", "--format", "csv").out == "one\n1\n"
    assert run("query", "--how many\nSELECT 1 AS one", "--format", "csv").out == "one\n1\n"
    (tmp_path / "one.sql").write_text("SELECT 1 AS one")
    named = run("query", "one.sql")
    assert named.status == 2 and "one.sql is a file: panorama query -f one.sql" in named.err
    (tmp_path / "a b$(x).sql").write_text("SELECT 1")
    assert "panorama query -f 'a b$(x).sql'" in run("query", "a b$(x).sql").err
    long = run("query", "-f", "one.sql", "SELECT " + "1, " * 2000)
    assert long.status == 2 and "-f takes files of SQL" in long.err
    assert "No such option '--fromat'" in run("query", "SELECT 1", "--fromat", "csv").err


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT 1;\nSELECT nosuch FROM videos", "QueryError: b.sql: Referenced"),
        ("SELECT frames WHERE entity = 'rad'", "UnknownEntity: b.sql: no entity 'rad'. Did you mean 'red'"),
        ("SELECT verify('absent.png', 'absent.png')", "BadImage: b.sql: there is no picture 'absent.png'"),
        ("DROP ENTITY 'rad'", "UnknownEntity: b.sql: no entity 'rad'"),
        ("SELECT frames WHERE entity = 'red", "QueryError: b.sql: "),
        ("ALTER ENTITY 'red' TO 'x'", "QueryError: b.sql: "),
    ],
)
def test_an_error_names_the_file_that_it_is_in(run, asked, tmp_path, sql, said):
    for name, text in {"a.sql": RED, "b.sql": sql, "c.sql": RED}.items():
        (tmp_path / name).write_text(text)
    done = run("query", "-f", "a.sql", "b.sql", "c.sql")
    assert done.status == 1 and any(line.startswith(said) for line in done.err.splitlines()), done.err
    assert "SELECT 1" not in sql or "line 2, column 8" in done.err


def test_a_file_of_sql_that_is_not_there_or_no_text_is_told_in_words(run, asked, tmp_path):
    done = run("query", "-f", "nope.sql")
    assert (done.status, done.err) == (
        2,
        "UsageError: there is no file 'nope.sql'; -f takes files of SQL\n",
    )
    (tmp_path / "x.sql").write_bytes(b"SELECT \xff")
    assert run("query", "-f", "x.sql").err == "QueryError: x.sql is not SQL: it is not UTF-8 text\n"
    assert "album cannot be read: Is a directory" in run("query", "-f", "album").err


def test_a_reader_that_leaves_early_ends_a_query_as_its_signal_would(run, asked, monkeypatch):
    """EXPLAIN, printed in one piece, left with status 1, what was printed in several with 0."""
    for sql in (f"EXPLAIN ANALYZE {RED}", RED, "SELECT range FROM range(200000)"):
        for form in ("table", "json"):
            reading, writing = os.pipe()
            os.close(reading)
            with monkeypatch.context() as output, os.fdopen(writing, "w") as unread:
                output.setattr(sys, "stdout", unread)
                done = run("query", sql, "--format", form)
            assert (done.status, done.err) == (141, ""), (sql, form)


def test_what_a_file_erases_is_asked_before_anything_of_it_is_done(run, asked, tmp_path, monkeypatch):
    """An entity was erased, and not a word was said."""
    (tmp_path / "evil.sql").write_text(
        "SELECT 1; DROP ENTITY 'blue'; forget entity 'red' WITH SIGHTINGS; FORGET ENTITY 'red'"
    )
    names = [row["entity"] for row in run("entities", "--json").json]
    questions = []

    def nobody(text):
        questions.append(text)
        raise EOFError

    monkeypatch.setattr("click.termui.visible_prompt_func", nobody)
    alone = run("query", "-f", "evil.sql")
    assert (alone.status, alone.out) == (130, "") and "nothing was done; --yes erases without" in alone.err
    assert questions and questions[0].startswith("Erase red for good?")
    # As `panorama forget` says it; once, since the second one erases no sightings.
    assert alone.err.count("the stored pictures of 3 tracks are erased with it") == 1
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    refused = run("query", "FORGET ENTITY 'red'")
    assert (refused.status, refused.out, refused.err) == (1, "", "nothing was done\n")
    assert [row["entity"] for row in run("entities", "--json").json] == names
    dropped = run("query", "DROP ENTITY 'blue'")  # as `panorama drop`
    assert dropped.status == 0
    monkeypatch.setattr("click.termui.visible_prompt_func", nobody)
    assert run("query", "FORGET ENTITY 'red'", "--yes").status == 0
    assert [row["entity"] for row in run("entities", "--json").json] == sorted({*names} - {"red", "blue"})


def test_statements_about_entities_run_from_the_command_line(run, asked):
    sql = "CREATE ENTITY 'van' FROM 'album/red/*.png' NOT FROM 'album/blue/one.png'"
    assert rows(run, sql) == [{"action": "created", "entity": "van"}]
    told = rows(run, "DESCRIBE ENTITY 'van'")[0]
    assert (told["entity"], told["exemplars"], told["negatives"], told["nearest"]) == ("van", 1, 1, "red")
    assert rows(run, "ALTER ENTITY 'van' RENAME TO 'lorry'")[0]["entity"] == "lorry"
    assert "lorry" in [r["entity"] for r in rows(run, "SHOW ENTITIES")]
    assert run("query", "CREATE ENTITY 'x' FROM '/etc/*.png'").status == 1
    assert run("query", "CREATE ENTITY 'x' FROM 'album/../../*.png'").status == 1
    assert run("query", sql.replace("van", "lorry")).status == 1
    rows(run, "DROP ENTITY 'lorry'")
    assert "lorry" not in [r["entity"] for r in rows(run, "SHOW ENTITIES")]


def test_unknown_names_and_typos_point_at_the_place(run, asked):
    unknown = run("query", "SELECT frames WHERE entity = 'rad'")
    assert (unknown.status, unknown.out) == (1, "")
    assert unknown.err.startswith("UnknownEntity: no entity 'rad'. Did you mean 'red'")
    typo = run("query", "SELECT frames WHER entity = 'red'", "--format", "json")
    assert (typo.status, typo.out) == (1, "")
    assert typo.err.startswith("QueryError: ") and "line 1, column" in typo.err and "^" in typo.err
    unclosed = run("query", "SELECT frames WHERE entity = 'red")
    assert unclosed.status == 1 and "line 1, column 30" in unclosed.err
    for sql in ("", "DROP TABLE videos", "COPY videos TO 'x.csv'", "ATTACH 'x.db'"):
        done = run("query", sql)
        assert done.status == 1 and "Traceback" not in done.err


def test_debug_shows_the_traceback_and_nothing_else_does(run, asked):
    for words in (["--debug", "query", "SELECT nosuch"], ["query", "SELECT nosuch", "--debug"]):
        done = run(*words)
        assert done.status == 1 and "Traceback (most recent call last)" in done.err
    assert "Traceback" not in run("query", "SELECT '--debug', nosuch").err


def test_verify_says_same_or_not(run, asked):
    same = run("verify", "album/red/one.png", "album/red/one.png", "--json").json
    assert same["band"] == "accepted" and same["score"] > 0.9
    assert run("verify", "album/red/one.png", "album/blue/one.png", "--json").json["band"] == "rejected"
    assert run("verify", "album/red/one.png", "nosuch.png").status == 1


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, ("query", "SELECT frames WHERE video = 'nosuch.mp4' AND entity = 'red'")),
        (0, ("query", "SELECT * FROM sightings WHERE entity = 'nosuch'")),
        (1, ("query", "SELECT frames WHERE entity = 'nosuch'")),
        (1, ("query", "SELECT nosuch FROM videos")),
        (1, ("query", "SELECT tracks WHERE similarity('nosuch.png') > 0.5")),
        (2, ("query", "-f", "nosuch.sql")),
        (1, ("register", "red", "--video", "nosuch.mp4", "--at", "1", "--box", "1,1,9,9")),
        (1, ("index", "v", "--model", "nosuch")),
        (2, ("register", "--album", "nosuch")),
        (2, ("register", "red", "album/red/one.png", "--box", "1,2,3")),
        (2, ("register", "red", "album/red/one.png", "--box", "0,0,999,999")),
        (2, ("register", "red", "--video", "v/gate/a.mp4", "--at", "1", "--box", "0,0,999,9")),
        (2, ("register", "red", "album/red/one.png", "--category", "--instance")),
        (2, ("zones", "import", "nosuch.json")),
        (2, ("train", "--folders", "nosuch", "--out", "x")),
        (1, ("why", "red", "nosuch.mp4", "--at", "1")),
        (1, ("remove", "nosuch.mp4", "--yes")),
        (1, ("register", "red", "nosuch.png")),
        (1, ("--library", "nosuch", "videos")),
        (2, ("nosuch",)),
        (2, ("query", "SELECT 1", "--nosuch")),
        (2, ("query", "SELECT 1", "--json", "--format", "csv")),
        (2, ("query", "SELECT 1", "--timeout", "0")),
        (2, ("register", "red", "--track", "99")),
        (2, ("register", "red", "--video", "v/gate/a.mp4", "--at", "99", "--box", "1,1,50,50")),
        (2, ("zones", "drop", "nosuch")),
        (2, ("evaluate", "--truth", "nosuch.json")),
        (3, ("index", "nosuch.mp4")),
    ],
)
def test_every_exit_status_is_the_one_that_the_page_tells(run, asked, status, words):
    """docs/getting-started.md, "When something is wrong"; a no, nobody and `train` are tested elsewhere."""
    done = run(*words)
    assert done.status == status, done.err
    assert any(word in done.err for word in ("nosuch", "Error: ", "BadBox: "))
