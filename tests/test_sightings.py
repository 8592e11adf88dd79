"""Cached sightings: taken up by the next process, dropped exactly when what changes them has changed."""

from __future__ import annotations

import importlib
import py_compile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fakes import Thing, thing_picture, write_film

import panorama
from panorama.answering import sightings
from panorama.answering.calibration import SETTING, measured_with
from panorama.crops import encode_jpeg
from panorama.errors import QueryTimeout
from panorama.query.matching.passes import Passes
from panorama.query.stopping import QueryStopped
from panorama.store import Store

RED = "SELECT tracks WHERE entity = 'red'"
BLUE_CROP = "SELECT crop_id FROM crops JOIN sightings USING (track_id) WHERE entity = 'blue' LIMIT 1"


@pytest.fixture
def library(tmp_path, monkeypatch, fake_proposer):
    monkeypatch.chdir(tmp_path)
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 30), Thing("blue", 5, 35, top=80)])
    with panorama.open(tmp_path / "library") as made:
        made.index(["a.mp4"], model="color-bands")
        made.register("red", thing_picture("red"))
        made.register("blue", thing_picture("blue"))
        yield made


@pytest.fixture
def passes(monkeypatch):
    """The first passes that are made: names and segments looked at (None: all)."""
    made: list[tuple[tuple[str, ...], list[int] | None]] = []
    first = Passes.first

    def noticed(self, names, exit, scope, least):
        if names:
            tracks = None if scope is None else self.groups(exit).track_ids[scope.tracks]
            made.append((tuple(names), None if tracks is None else sorted(set((tracks >> 32).tolist()))))
        return first(self, names, exit, scope, least)

    monkeypatch.setattr(Passes, "first", noticed)
    return made


def catalog_bytes(folder):
    return b"".join(path.read_bytes() for path in sorted(folder.glob("catalog.sqlite*")))


def again(library, sql=RED):
    """The answer of another process."""
    with panorama.open(library.path) as other:
        return other.query(sql).fetchall()


def test_the_next_process_finds_it_done(library, passes):
    found = library.query(RED).fetchall()
    assert found and len(passes) == 1
    assert again(library) == found
    assert len(passes) == 1


def test_what_changes_the_answer_makes_it_anew(library, passes, tmp_path):
    def other_bands():
        rows = [{**c.as_dict(), "low": 0.2} for c in library.calibrations]
        library.put_setting(SETTING + measured_with(library.embedder), rows)

    (blue_crop,) = library.query(BLUE_CROP).fetchall()[0]
    changes = {
        "an example": lambda: library.register("red", thing_picture("purple")),
        "a look-alike": lambda: library.register("red", unlike=thing_picture("yellow")),
        "a denied crop": lambda: library.register_seen("red", crop_ids=[blue_crop], look_alike=True),
        "one example less": lambda: library.remove_exemplar(library.exemplars("red")[1].exemplar_id),
        "the calibration": other_bands,
        "its kind": lambda: library.set_category("red"),
        "a video less": lambda: library.remove_videos("b.mp4"),
    }
    write_film(tmp_path / "b.mp4", [Thing("green", 0, 20)])
    library.index(["b.mp4"])
    again(library)
    for name, change in changes.items():
        change()
        before = len(passes)
        again(library)
        assert passes[before:] == [(("red",), None)], name
        again(library)
        assert len(passes) == before + 1, name


def test_another_model_makes_it_anew_and_the_first_one_finds_its_own(library, passes, monkeypatch):
    again(library)
    other = type(library.embedder)()
    other.hash = "other" * 8
    for loading in ("api.models.load_embedder", "api.models.late_embedder"):
        monkeypatch.setattr(f"panorama.{loading}", lambda name: other)
    with panorama.open(library.path) as second:
        second.use_model("color-bands")
        second.query(RED)
        assert len(passes) == 2
    monkeypatch.undo()


def test_what_changes_no_answer_keeps_it(library, passes, tmp_path):
    found = again(library)
    keeps = {
        "another entity": lambda: library.register("green", thing_picture("green")),
        "another entity gone": lambda: library.drop("green"),
        "another setting": lambda: library.put_setting("colour", "red"),
        "a zone": lambda: library._store.put_setting("zones", 1),
        "compaction": library.compact,
        "another name": lambda: library.rename("blue", "navy"),
    }
    for name, change in keeps.items():
        change()
        assert again(library) == found, name
        assert len(passes) == 1, name
    library.rename("red", "crimson")
    renamed = again(library, "SELECT tracks WHERE entity = 'crimson'")
    assert [row.track_id for row in renamed] == [row.track_id for row in found]
    assert len(passes) == 1


def test_only_what_was_added_is_looked_at(library, passes, tmp_path):
    again(library)
    old = set(library.snapshot().live_segments.tolist())
    # Small and blurred by the encoder it is less like the example than the one that is known.
    write_film(tmp_path / "b.mp4", [Thing("red", 0, 30, side=16), Thing("green", 0, 30, top=80)])
    library.index(["b.mp4"])
    (new,) = set(library.snapshot().live_segments.tolist()) - old
    found = again(library)
    grown = [segments for names, segments in passes[1:] if segments is not None]
    assert grown == [[new]]
    with library._store._place.catalog.write() as tx:
        tx.run("DELETE FROM sightings_cache")
    assert again(library) == found, "as if everything had been looked at"


def test_a_process_that_knows_does_not_read_it_again(library, passes, tmp_path, monkeypatch):
    library.query(RED)
    old = set(library.snapshot().live_segments.tolist())
    write_film(tmp_path / "b.mp4", [Thing("red", 0, 30, side=16), Thing("green", 0, 30, top=80)])
    with panorama.open(library.path) as other:
        other.index(["b.mp4"])
    read: list[str] = []
    with monkeypatch.context() as noticing:
        noticing.setattr(Store, "cached_sightings", lambda _self, name, _key: read.append(name))
        found = library.query(RED).fetchall()
    (new,) = set(library.snapshot().live_segments.tolist()) - old
    assert not read and [segments for _, segments in passes] == [None, [new]]
    assert again(library) == found
    library.drop("red")
    library.query("SELECT tracks WHERE entity = 'blue'")
    assert list(library._answerer._known) == ["blue"]


def test_a_process_that_knows_looks_again_where_less_is_left(library, passes, tmp_path):
    for name, color in (("b.mp4", "green"), ("c.mp4", "yellow")):
        write_film(tmp_path / name, [Thing(color, 0, 20)])
    library.index(["b.mp4", "c.mp4"])
    library.query(RED)
    changes = {
        "tracks of another entity": lambda other: other.forget("blue", with_sightings=True),
        "a video between others": lambda other: other.remove_videos("b.mp4"),
        "the newest video": lambda other: other.remove_videos("c.mp4"),
    }
    for name, change in changes.items():
        with panorama.open(library.path) as other:
            change(other)
        passes.clear()
        library.query(RED)
        assert passes == [(("red",), None)], name


def test_who_asked_an_empty_library_is_told_of_what_comes(tmp_path, monkeypatch, fake_proposer):
    monkeypatch.chdir(tmp_path)
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 30)])
    with panorama.open(tmp_path / "library", create=True) as library:
        library.use_model("color-bands")
        library.register("red", thing_picture("red"))
        assert library.query(RED).fetchall() == []
        with panorama.open(library.path) as other:
            other.index(["a.mp4"])
        assert videos(library.query(RED)) == {"a.mp4"}


def videos(rows):
    return {row.video for row in rows}


@pytest.fixture
def grown(library, monkeypatch, tmp_path):
    """A second video with red, not looked at yet; a function that runs once in the next pass over it."""
    assert videos(library.query(RED)) == {"a.mp4"}
    write_film(tmp_path / "b.mp4", [Thing("red", 0, 30, side=16), Thing("green", 0, 30, top=80)])
    library.index(["b.mp4"])
    first = Passes.first

    def during_the_pass(do):
        def passing(self, *args):
            monkeypatch.setattr(Passes, "first", first)
            do()
            return first(self, *args)

        monkeypatch.setattr(Passes, "first", passing)

    return during_the_pass


def test_a_query_that_is_stopped_leaves_no_half_result(library, grown):
    """The matches of before were kept as those of the whole library until new videos were added to them."""

    def stop():
        raise QueryStopped

    grown(stop)
    with pytest.raises(QueryTimeout):
        library.query(RED)
    assert videos(library.query(RED)) == videos(again(library)) == {"a.mp4", "b.mp4"}


def test_a_query_beside_one_that_looks_at_new_videos_does_too(library, grown):
    """The second query took the matches of before, which the first one was still adding to."""
    beside = []

    def ask_beside():
        with ThreadPoolExecutor(1) as other:
            beside.extend(other.submit(library.query, RED).result())

    grown(ask_beside)
    assert videos(library.query(RED)) == videos(beside) == {"a.mp4", "b.mp4"}


def test_a_better_track_than_the_best_of_old_makes_it_anew(library, passes, tmp_path):
    library.register("thing", thing_picture("purple"))
    sql = "SELECT tracks WHERE entity = 'thing' AND band <> 'rejected'"
    again(library, "SELECT tracks WHERE entity = 'thing'")
    write_film(tmp_path / "b.mp4", [Thing("purple", 0, 30)])
    library.index(["b.mp4"])
    found = again(library, sql)
    assert {row.video for row in found} == {"b.mp4"}
    with library._store._place.catalog.write() as tx:
        tx.run("DELETE FROM sightings_cache")
    assert again(library, sql) == found


@pytest.mark.parametrize(
    ("changed", "anew"),
    [
        ("query/matching/kinship.py", True),
        ("answering/source.py", True),
        ("store/vectors/inverted.py", True),  # finds nearly all
        ("query/text/dialect.py", False),
        ("shown/sheet.py", False),
    ],
)
def test_other_code_makes_it_anew_where_it_decides(library, passes, monkeypatch, changed, anew):
    """Wording of the language made it anew, and what the index finds did not."""
    again(library)
    path, read = Path(panorama.__file__).parent / changed, Path.read_bytes
    assert path.exists()
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + b"\n" * (self == path))
    sightings._rule.cache_clear()
    try:
        again(library)
    finally:
        sightings._rule.cache_clear()
    assert len(passes) == 1 + anew


def test_code_without_its_source_is_told_apart(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    source, codes = tmp_path / "no_source_here.py", []
    for text in ("HIGH = 0.5", "HIGH = 0.6"):
        source.write_text(text)
        py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")))
        source.unlink()
        importlib.invalidate_caches()
        codes.append(sightings.code_of([source.stem]))
    assert codes[0] != codes[1]
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        sightings.code_of(["no_such_module"])


def test_forgetting_erases_the_bytes_and_leaves_those_of_others(library):
    again(library)
    again(library, "SELECT tracks WHERE entity = 'blue'")
    with library._store._place.catalog.read() as tx:
        rows = tx.rows("SELECT e.name, c.value FROM sightings_cache c JOIN entities e USING (entity_id)")
        values = {row.name: bytes(row.value) for row in rows}
    pieces = [values["red"][i : i + 16] for i in range(0, len(values["red"]), 16)]
    telling = [piece for piece in pieces if len(set(piece)) > 8 and piece not in values["blue"]]
    assert telling and any(piece in catalog_bytes(library.path) for piece in telling)
    library.forget("red")
    library.close()
    assert not any(piece in catalog_bytes(library.path) for piece in telling)
    with panorama.open(library.path) as other, other._store._place.catalog.read() as tx:
        assert [bytes(row.value) for row in tx.rows("SELECT value FROM sightings_cache")] == [values["blue"]]


def test_a_damaged_value_is_no_answer(library, passes):
    found = again(library)
    with library._store._place.catalog.write() as tx:
        tx.run("UPDATE sightings_cache SET value = :value", value=b"PK\x03\x04 damaged")
    assert again(library) == found
    assert len(passes) == 2


def test_when_the_newest_video_is_removed_the_others_are_answered(library, tmp_path):
    found = library.query(RED).fetchall()
    write_film(tmp_path / "b.mp4", [Thing("red", 0, 20)])
    library.index(["b.mp4"])
    assert len(library.query(RED).fetchall()) > len(found)
    library.remove_videos("b.mp4")
    assert library.query(RED).fetchall() == again(library) == found


def test_what_videos_showed_before_they_were_written_over_is_not_searched_again(library, tmp_path):
    """They show nothing now, so no vectors came: what was searched before is still the same file."""
    for name, side in (("b.mp4", 60), ("c.mp4", 50)):
        write_film(tmp_path / name, [Thing("red", 0, 20, side=side)])
    library.index(["b.mp4", "c.mp4"])
    library.compact()
    (tmp_path / "red.jpg").write_bytes(encode_jpeg(thing_picture("red")))
    nearest = "SELECT tracks ORDER BY similarity('red.jpg') DESC LIMIT 1"
    merged = [file.path for files in library.snapshot().embeddings.values() for file in files]
    for name, next_best in (("b.mp4", "c.mp4"), ("c.mp4", "a.mp4")):
        assert videos(library.query(nearest)) == {name}
        write_film(tmp_path / name, [], frames=20)
        with panorama.open(library.path) as other:
            other.index([name])
        assert [file.path for files in library.snapshot().embeddings.values() for file in files] == merged
        found = library.query(nearest).fetchall()
        assert videos(found) == {next_best} and found == again(library, nearest)
