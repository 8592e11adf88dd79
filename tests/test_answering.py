"""Engines and matchers are kept for as long as the library stays the same, and by several threads."""

from __future__ import annotations

import gc
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from fakes import Thing, library_of_red, thing_picture, write_film

import panorama
from panorama.answering.answerer import Answering
from panorama.errors import LibraryClosed, LibraryDamaged, ModelError, QueryError, UsageError
from panorama.models import registry
from panorama.models.color import ColorEmbedder
from panorama.query.engine import Engine
from panorama.query.handed import relations
from panorama.query.handed.relations import Limits, Tables
from panorama.store.snapshot import Snapshots

RED = "SELECT frames WHERE entity = 'red'"


@pytest.fixture
def library(tmp_path, monkeypatch, fake_proposer):
    monkeypatch.chdir(tmp_path)
    with library_of_red(tmp_path) as made:
        yield made


@pytest.fixture
def opened(monkeypatch):
    """The tables that were connected, in order."""
    found: list[Tables] = []
    of = Tables.of

    def noticed(self, snapshot):
        before = self._connection
        connection = of(self, snapshot)
        if connection is not before:
            found.append(self)
        return connection

    monkeypatch.setattr(Tables, "of", noticed)
    return found


def test_one_engine_serves_while_the_library_stays_the_same(library, opened):
    engines: list[Engine] = []
    assert library.query(RED).arrow().equals(library.query(RED).arrow())
    with pytest.raises(QueryError):
        library.query("SELECT nothing FROM frames")
    engines += [kept.engine for kept in library._answerer._idle]
    library.query("SELECT count(*) FROM tracks")
    assert len(opened) == len(engines) == 1
    assert [kept.engine for kept in library._answerer._idle] == engines


def test_a_connection_serves_the_library_as_it_grows_and_holds_nothing_of_what_was(library, opened, tmp_path):
    counted = (
        "SELECT (SELECT count(*) FROM videos), (SELECT count(*) FROM entities), count(*) > 0 FROM tracks"
    )
    seen = "SELECT DISTINCT video FROM sightings ORDER BY video"
    assert library.query(counted).fetchall() == [(1, 1, True)]
    assert library.query(seen).fetchall() == [("a.mp4",)]
    library.register("green", thing_picture("green"))
    write_film(tmp_path / "b.mp4", [Thing("red", 0, 20), Thing("blue", 5, 25, left=90)])
    with panorama.open(tmp_path / "library") as other:
        other.index(["b.mp4"])
    assert library.query(counted).fetchall() == [(2, 2, True)]
    assert library.query(seen).fetchall() == [("a.mp4",), ("b.mp4",)]
    assert {row["video"] for row in library.query(RED)} == {"a.mp4", "b.mp4"}
    with panorama.open(tmp_path / "library") as other:
        other.remove_videos("a.mp4")
    assert library.query(counted).fetchall() == [(1, 2, True)]
    assert library.query(seen).fetchall() == [("b.mp4",)]
    assert len(opened) == 1
    gc.collect()
    assert len(list((tmp_path / "library" / "locks").glob("reader-*.lock"))) == 1


def test_a_new_place_gets_a_new_connection(library, opened):
    library.query(RED)
    library.zones.add("yard", [(0, 0), (1, 0), (1, 1)])
    assert library.query("SELECT count(*) FROM zones").fetchall() == [(1,)]
    assert len(opened) == 2


def test_a_file_that_is_gone_leaves_no_half_of_two_states(library, tmp_path):
    library.query(RED)
    write_film(tmp_path / "b.mp4", [Thing("blue", 5, 25)])
    with panorama.open(tmp_path / "library") as other:
        other.index(["b.mp4"])
    for file in (tmp_path / "library" / "data" / "crops").iterdir():
        file.unlink()
    for _ in range(2):
        with pytest.raises(LibraryDamaged):
            library.query("SELECT count(*) FROM crops")


def test_a_file_of_a_new_video_that_is_gone_is_told_with_its_video(library, tmp_path):
    library.query(RED)
    old = set((tmp_path / "library" / "data" / "crops").iterdir())
    write_film(tmp_path / "b.mp4", [Thing("blue", 5, 25)])
    with panorama.open(tmp_path / "library") as other:
        other.index(["b.mp4"])
    (new,) = set((tmp_path / "library" / "data" / "crops").iterdir()) - old
    new.unlink()
    with pytest.raises(LibraryDamaged, match=r"a data file of 'b\.mp4', is missing"):
        library.query("SELECT count(*) FROM crops")


def test_only_what_has_changed_is_given_to_a_connection_again(library, tmp_path, monkeypatch):
    given: list[str] = []
    copy = relations._copy_table

    def noticed(connection, name, rows, columns):
        given.append(name)
        copy(connection, name, rows, columns)

    library.query(RED)
    monkeypatch.setattr(relations, "_copy_table", noticed)
    write_film(tmp_path / "b.mp4", [Thing("red", 0, 20)])
    with panorama.open(tmp_path / "library") as other:
        other.index(["b.mp4"])
    assert library.query("SELECT count(*) FROM videos").fetchall() == [(2,)]
    assert given == ["videos"]
    library.register("green", thing_picture("green"))
    assert library.query("SELECT count(*) FROM entities").fetchall() == [(2,)]
    assert given == ["videos", "entities"]


def test_other_limits_have_an_engine_of_their_own(library, opened):
    for seconds in (None, 60.0, None, 60.0):
        library.query(RED, limits=Limits(seconds=seconds))
    assert len(opened) == 2
    for seconds in range(50, 60):
        library.query(RED, limits=Limits(seconds=seconds))
    assert sum(tables._connection is not None for tables in opened) <= 4
    library.register("green", thing_picture("green"))
    for seconds in range(50, 60):
        library.query(RED, limits=Limits(seconds=seconds))
    assert sum(tables._connection is not None for tables in opened) <= 4


def test_threads_get_the_same_answer_each_from_an_engine_of_its_own(library):
    expected = library.query(RED).fetchall()
    answers: list[list] = []
    start = threading.Barrier(4)

    def ask() -> None:
        start.wait()
        for _ in range(5):
            answers.append(library.query(RED).fetchall())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 20
    assert all(answer == expected for answer in answers)


def test_plain_sql_does_not_wait_for_a_model_that_another_query_loads(library):
    """The model was loaded under the lock that every query takes."""
    loading, loaded = threading.Event(), threading.Event()

    def load():
        loading.set()
        assert loaded.wait(60)
        return library.embedder

    answering = Answering(library._store, load)
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(answering.query, RED, None, None)
        try:
            assert loading.wait(60)
            plain = pool.submit(answering.query, "SELECT count(*) FROM videos", None, None)
            assert plain.result(timeout=10).fetchall() == [(1,)]
        finally:
            loaded.set()
        assert asked.result().fetchall() == library.query(RED).fetchall()
    answering.close()


def test_warnings_of_the_program_that_asks_stay_as_they_were(library):
    """Each thread set back the filters that it had found: ever after no UserWarning was shown at all."""
    ours = "panorama.query.engine"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # DuckDB's advice to us is none of the program's
        before = list(warnings.filters)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: library.query(RED), range(60)))
        found = [place for place in warnings.filters if place not in before]
        assert [place[3] and bool(place[3].fullmatch(ours)) for place in found] == [True]
        library.query(RED)
        assert len(warnings.filters) == len(before) + 1
        warnings.simplefilter("error")  # as pytest does anew for each test
        library.query(RED)
        assert len(warnings.filters) == len(before) + 1


def test_closing_lets_go_of_every_connection(library, opened):
    library.query(RED)
    library.close()
    assert [tables._connection for tables in opened] == [None]


def test_what_is_asked_while_the_library_is_closed_is_answered_and_let_go_of(library, opened, monkeypatch):
    """Its connection and its files stayed for as long as anybody had the closed library."""
    counted = "SELECT count(*) FROM videos"
    begun, closed = threading.Event(), threading.Event()
    answer = Engine.query

    def late(self, *asked):
        begun.set()
        assert closed.wait(60)
        return answer(self, *asked)

    monkeypatch.setattr(Engine, "query", late)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(library.query, counted)
        assert begun.wait(60)
        library.close()
        closed.set()
        assert asked.result().fetchall() == [(1,)]
    assert [tables._connection for tables in opened] == [None]
    assert not list((library.path / "locks").glob("reader-*.lock"))


def test_a_view_of_a_library_that_is_closed_meanwhile_is_not_kept(library, monkeypatch):
    read = Snapshots._read

    def closing(self, *given):
        taken = read(self, *given)
        library.close()
        return taken

    with panorama.open(library.path) as other:
        other.rename("red", "rot")
    monkeypatch.setattr(Snapshots, "_read", closing)
    assert library.query("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(LibraryClosed):
        library.videos()
    assert not list((library.path / "locks").glob("reader-*.lock"))


def test_several_queries_share_one_pass_and_one_state_of_the_library(library, monkeypatch):
    from panorama.query.matching.passes import Passes

    passes = []
    first = Passes.first
    monkeypatch.setattr(
        Passes, "first", lambda self, names, *rest: passes.append(names) or first(self, names, *rest)
    )
    library.register("green", thing_picture("green"))
    asked = [
        RED,
        ("SELECT moments WHERE entity = $who", {"who": "green"}),
        ("SELECT count(*) FROM sightings WHERE entity = 'red' AND track_id > ?", [0]),
        "SELECT count(*) FROM videos",
        "SHOW ENTITIES",
    ]
    found = library.query_many(asked)
    assert [sorted(names) for names in passes if names] == [["green", "red"]]
    alone = [library.query(*((query,) if isinstance(query, str) else query)) for query in asked]
    assert [r.fetchall() for r in found] == [r.fetchall() for r in alone]
    assert [r.uncertain for r in found] == [r.uncertain for r in alone]
    assert library.query_many([]) == []


def test_duckdb_has_the_cores_that_the_process_may_use_however_it_is_asked(library, monkeypatch) -> None:
    """Several queries at once, and so the command line, took as many as the machine has."""
    monkeypatch.setattr("panorama.threads.cores_here", lambda: 3)
    sql = "SELECT current_setting('threads')"
    assert library.query(sql).fetchall() == library.query_many([sql])[0].fetchall() == [(3,)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda library: library.query(RED),
        lambda library: list(library.query_each([RED])),
        lambda library: library.query("SELECT tracks ORDER BY similarity(?) DESC", [thing_picture("red")]),
        lambda library: library.verify(thing_picture("red"), thing_picture("blue")),
        lambda library: library.matcher(),
        lambda library: library.vectors_of([1 << 32], 1),
    ],
    ids=["query", "several", "similarity", "verify", "matcher", "vectors"],
)
def test_a_model_that_no_crop_was_embedded_with_is_refused_however_it_is_asked(library, monkeypatch, ask):
    other = type(library.embedder)()
    other.hash = "other" * 8
    monkeypatch.setattr("panorama.api.models.late_embedder", lambda name: other)
    seen = []
    monkeypatch.setattr("panorama.answering.answerer.embed_exemplars", lambda *_: seen.append(1))
    with panorama.open(library.path) as second:
        with pytest.raises(ModelError, match=r"no crop of this library .*color-bands otheroth"):
            ask(second)
        assert not seen, "before any work"


def test_a_model_that_another_process_chose_is_the_one_that_answers_and_indexes(
    library, tmp_path, monkeypatch
):
    """A library that stayed open answered with the model of before, and embedded new videos with it."""

    other, load = ColorEmbedder(), registry.load_embedder
    other.hash = "other" * 8
    for loading in ("api.models.load_embedder", "api.models.late_embedder"):
        monkeypatch.setattr(
            f"panorama.{loading}", lambda name=None: other if name == "other-bands" else load(name)
        )
    assert library.embedder.hash != other.hash and len(library.query(RED))
    with panorama.open(library.path) as second:
        second.use_model("other-bands")
        assert other.hash in {model.hash for model in second.info().models}
    assert library.embedder.hash == other.hash
    assert len(library.query(RED)) and library.matcher().embedder.hash == other.hash
    write_film(tmp_path / "new.mp4", [Thing("red", 5, 15)], frames=20)
    library.index(tmp_path / "new.mp4")
    assert library.query("SELECT frames").warnings == ()
    found = library.query("SELECT tracks WHERE entity = 'red' AND score >= 0")
    assert "new.mp4" in {row["video"] for row in found}


def test_a_mistake_in_one_of_several_queries_is_told(library):
    with pytest.raises(QueryError, match="nosuch"):
        library.query_many([RED, "SELECT frames WHERE nosuch = 1"])
    with pytest.raises(QueryError, match=r"alone, with Library\.query; only SELECTs can run together"):
        library.query_many([RED, "DROP ENTITY 'red'"])
    assert [e.name for e in library.entities()] == ["red"]


@pytest.mark.parametrize(
    ("target", "condition", "early"),
    [
        ("tracks", "", True),
        ("tracks", "WHERE video LIKE '%.mp4' ", True),
        ("tracks", "WHERE start_time < 1 OR video = 'b.mp4' ", True),
        ("crops", "", True),
        ("crops", "WHERE video LIKE '%.mp4' ", True),
        ("crops", "WHERE quality > 0 ", False),
    ],
)
def test_the_most_similar_ones_are_the_first_of_all(library, monkeypatch, target, condition, early):
    from panorama.query.matching.matcher import AlbumMatcher

    asked = []
    similarity = AlbumMatcher.similarity

    def noticed(self, image, request):
        asked.append(request)
        return similarity(self, image, request)

    monkeypatch.setattr(AlbumMatcher, "similarity", noticed)
    write_film(library.path.parent / "b.mp4", [Thing("red", 0, 30), Thing("green", 0, 30, top=80)])
    library.index(["a.mp4", "b.mp4"])
    (crop,) = library.query("SELECT min(crop_id) AS c FROM crops WHERE time > 1").fetchone()
    sql = f"SELECT {target} {condition}ORDER BY similarity({crop}) DESC"
    every = library.query(sql).fetchall()
    assert len(every) > 2 and asked[-1].first is None
    for limit in range(len(every) + 2):
        parts = {f"LIMIT {limit}": every[:limit], f"LIMIT {limit} OFFSET 1": every[1 : limit + 1]}
        for clause, expected in parts.items():
            found = library.query(f"{sql} {clause}").fetchall()
            assert [row[:4] for row in found] == [row[:4] for row in expected]
            assert [row.similarity for row in found] == pytest.approx([row.similarity for row in expected])
    assert asked[-1].first == (len(every) + 2 if early else None)


def test_vectors_come_in_the_order_in_which_their_crops_are_named(library, tmp_path):
    write_film(tmp_path / "b.mp4", [Thing("blue", 0, 30)])
    library.index(["b.mp4"])
    crops = np.array([row[0] for row in library.query("SELECT crop_id FROM crops").fetchall()])
    (first, last) = (library.vectors_of(crops[[place]], 1) for place in (0, -1))
    assert abs(first - last).max() > 0.1
    for order in (crops, crops[::-1]):
        vectors = library.vectors_of(order, 1)
        assert np.array_equal(vectors[[list(order).index(crops[0])]], first)
        assert np.array_equal(vectors[[list(order).index(crops[-1])]], last)
    with pytest.raises(UsageError, match="has exits 1 to 1, got 0"):
        library.vectors_of(crops, 0)


def test_answers_that_are_read_while_the_library_changes_leave_nothing_of_what_was(library, tmp_path):
    counted = "SELECT count(*) FROM videos"
    reading = library.query_each([counted, counted])
    assert next(reading).fetchall() == [(1,)]
    write_film(tmp_path / "b.mp4", [Thing("blue", 0, 30)])
    library.index(["b.mp4"])
    assert library.query(counted).fetchall() == [(2,)]
    assert [answer.fetchall() for answer in reading] == [[(1,)]]
    for _ in range(3):
        assert library.query(counted).fetchall() == [(2,)]
