"""The Python API: what `panorama.open` gives, how answers are read, which mistakes are told."""

from __future__ import annotations

import builtins
import hashlib
import inspect
import pickle
import shutil
import subprocess
import sys
from fractions import Fraction

import pytest
from fakes import Thing, thing_picture, write_album, write_film, write_picture

import panorama
from panorama.api.path import library_path
from panorama.errors import (
    BadImage,
    EntityError,
    LibraryClosed,
    LibraryNotFound,
    MissingExtra,
    ModelError,
    QueryError,
    UnknownEntity,
    UnknownVideo,
    UsageError,
)


@pytest.fixture
def library(tmp_path, fake_proposer, monkeypatch):
    """A library with one film in which red is to be seen, and red registered."""
    monkeypatch.chdir(tmp_path)
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)])
    with panorama.open(tmp_path / "library") as library:
        library.index("a.mp4", model="color-bands")
        library.register("red", thing_picture("red"))
        yield library


def test_every_public_name_is_there():
    assert [name for name in panorama.__all__ if not hasattr(panorama, name)] == []
    assert set(panorama._LAZY) == set(panorama.__all__) - {"PanoramaError"}


def test_every_public_name_is_offered_before_it_is_used():
    """In a notebook, Tab after `panorama.` offered neither `open` nor `Library`."""
    program = "import panorama; print(*dir(panorama))"
    offered = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {*panorama.__all__, "__version__"} <= set(offered.stdout.split())


def test_a_report_is_short_and_names_what_is_wrong(library):
    """As the last line of a notebook's cell it filled pages; of a path that is not there it said nothing."""
    report = library.index(["a.mp4", "nonexistent"])
    assert repr(report).startswith("IndexReport(indexed=0, skipped=1, ") and len(repr(report)) < 200
    assert "failed=0, missing=<nonexistent>" in repr(report)
    assert "missing" not in repr(library.index("a.mp4"))
    assert len(repr(library.index([f"none-{number}.mp4" for number in range(100)]))) < 200


def test_the_first_index_makes_the_library_and_all_else_waits_for_it(tmp_path, fake_proposer):
    library = panorama.open(tmp_path / "library")
    assert not library.exists
    for ask in (library.entities, library.videos, library.info, lambda: library.query("SELECT 1")):
        with pytest.raises(LibraryNotFound):
            ask()
    with pytest.raises(LibraryNotFound):
        panorama.open(tmp_path / "library", create=False)
    report = library.index(write_film(tmp_path / "a.mp4", [Thing("red", 0, 30)]), model="color-bands")
    assert report.complete and library.exists
    assert [row["video"] for row in library.query("SELECT video FROM videos")] == ["a.mp4"]
    assert panorama.open(tmp_path / "other", create=True).entities() == []


def test_the_path_is_the_argument_else_the_environment_else_the_default(monkeypatch):
    monkeypatch.delenv("PANORAMA_LIBRARY", raising=False)
    assert str(library_path()) == "panorama-library"
    monkeypatch.setenv("PANORAMA_LIBRARY", "/archive/one")
    assert str(library_path()) == "/archive/one"
    assert str(library_path("two")) == "two"


def test_a_result_is_read_as_rows_frames_and_a_table(library):
    result = library.query("SELECT frames WHERE entity = 'red' ORDER BY frame")
    rows = result.fetchall()
    assert len(rows) == len(result) == len(list(result)) >= 28
    assert rows[0].video == rows[0]["video"] == rows[0][0] == "a.mp4"
    assert result.arrow().num_rows == len(result.df()) == len(result.pl()) == len(rows)
    assert list(result.df().columns) == result.columns
    assert repr(result).splitlines()[0].split()[:3] == ["video", "frame", "time"]
    assert repr(result).endswith(f"({len(rows)} rows, 20 shown)")


def test_a_column_asked_of_a_result_is_told_where_it_is_read(library):
    """It ended in a TypeError about the indices of a list."""
    result = library.query("SELECT frames WHERE entity = 'red'")
    with pytest.raises(UsageError, match=r"indexed by row: \[row\['video'\] for row in result\]"):
        result["video"]
    assert len(result[:2]) == 2


def test_a_report_is_shown_by_what_became_of_the_files(library):
    """A notebook showed 1,500 characters for each file, nearly all of them times of stages."""
    write_film(library.path.parent / "b.mp4", [Thing("blue", 5, 35)])
    (told,) = library.index("b.mp4").files
    assert told.stage_seconds and told.line and told.as_dict()["line"]
    shown = repr(told)
    assert "video='b.mp4', status='indexed'" in shown
    assert not any(word in shown for word in ("starved", "stage_seconds", "precision"))


def test_a_library_and_its_methods_are_sent_to_another_process(library):
    """`multiprocessing` and joblib ended in "Can't pickle local object" of a package below."""
    sql = "SELECT frames WHERE entity = 'red'"
    expected = library.query(sql).fetchall()
    query = pickle.loads(pickle.dumps(library.query))
    assert query(sql).fetchall() == expected
    query.__self__.close()
    assert library.query(sql).fetchall() == expected


@pytest.mark.parametrize("ends", ["at its end", "closed"])
def test_a_forked_process_opens_its_libraries_anew(library, ends):
    """Its first question waited for ever for threads of the other process, and its end was a crash."""
    expected = library.query("SELECT frames WHERE entity = 'red'").fetchall()
    program = f"""
import os, sys, panorama
library = panorama.open({str(library.path)!r})
sql = "SELECT frames WHERE entity = 'red'"
before = library.query(sql).fetchall()
child = os.fork()
if not child:
    if {ends == "closed"}:
        library.close()
    else:
        assert library.query(sql).fetchall() == before
        library.rename("red", "rot")
    sys.exit()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
library.query(sql.replace("red", {"red" if ends == "closed" else "rot"!r}))
print(before)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, str(expected)), done.stderr


def test_what_a_forked_process_writes_stays_when_the_other_lets_go(library):
    """SQLite took the locks that it had inherited for its own: the log went, with a rename."""
    library.close()
    program = f"""
import os, panorama
library = panorama.open({str(library.path)!r})
library.entities()
(told, telling), (asked, asking) = os.pipe(), os.pipe()
child = os.fork()
if not child:
    library.rename("red", "rot")
    os.write(telling, b".")
    os.read(asked, 1)
    library.rename("rot", "rouge")
    os._exit(0)
os.read(told, 1)
library.close()
with panorama.open(library.path) as other:
    other.entities()
os.write(asking, b".")
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with panorama.open(library.path) as other:
    print([entity.name for entity in other.entities()])
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "['rouge']"), done.stderr


def test_what_was_seen_is_confirmed_or_denied_by_its_row(library):
    (row,) = library.query("SELECT moments WHERE entity = 'red'")
    assert library.register_seen("van", track_ids=[row.track_id]) == panorama.Entity("van", 1, 0)
    box = (row.x1, row.y1, row.x2, row.y2)
    assert library.register_from_video("bus", row.video, row.frame / 10, box).exemplars == 1
    crops = library.query("SELECT crop_id FROM crops WHERE track_id = ?", [row.track_id]).df()["crop_id"]
    library.register("bus", thing_picture("blue"))
    library.remove_exemplar(library.exemplars("bus")[0].exemplar_id)
    denied = library.register_seen("bus", crop_ids=crops[:1], look_alike=True)
    assert (denied.exemplars, denied.negatives, denied.denied) == (1, 1, 1)
    assert denied in library.entities() and repr(denied).endswith("negatives=1, denied=1)")
    for wrong, told in (
        ({}, "name a track_id or a crop_id"),
        ({"track_ids": [5]}, "no track 5 with a stored crop"),
        ({"crop_ids": [5]}, "no crop 5"),
        ({"track_ids": row.track_id}, "track_ids is a list of whole numbers"),
        ({"track_ids": [row.track_id], "look_alike": True}, "give an example of it"),
    ):
        with pytest.raises(UsageError, match=told):
            library.register_seen("new", **wrong)
    assert "new" not in [entity.name for entity in library.entities()]


def test_what_was_seen_may_be_named_with_its_picture(library):
    (row,) = library.query("SELECT moments WHERE entity = 'red'")
    best = "SELECT crop_id FROM crops WHERE track_id = ? ORDER BY quality DESC, crop_id LIMIT 1"
    (crop,) = library.query(best, [row.track_id]).fetchone()
    digest = hashlib.sha256(library.stored_crops([crop])[crop]).hexdigest()[:8]
    other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    seen = library.register_seen("van", track_ids=[f"{row.track_id}:{digest}"])
    assert seen == library.register_seen("van", crop_ids=[f"{crop}:{digest}", crop])
    assert (seen.exemplars, library.exemplars("van")[0].source.split()[-1]) == (1, str(crop))
    both = [f"{row.track_id}:{other}", row.track_id]
    with pytest.raises(
        UsageError, match=rf"^no track {row.track_id} with the picture that was seen: .*1 of 2"
    ):
        library.register_seen("bus", track_ids=both)
    with pytest.raises(UsageError, match=f"no crop {crop} with the picture that was seen"):
        library.register_seen("bus", crop_ids=[f"{crop}:{other}"], skip_gone=True)
    assert "bus" not in [entity.name for entity in library.entities()]
    warning, small = library.register_seen("bus", track_ids=both, skip_gone=True).warnings
    assert small.startswith("so small that other things may be accepted for it: a.mp4 at ")
    assert warning.startswith(f"skipped 1 of 2: no track {row.track_id} with the picture that was seen")


def test_a_track_whose_crops_are_forgotten_is_told_as_such(library):
    """It was "no track", and a query over tracks lists it."""
    (row,) = library.query("SELECT tracks WHERE entity = 'red'")
    library.forget("red", with_sightings=True)
    assert row.track_id in [track.track_id for track in library.query("SELECT tracks")]
    with pytest.raises(UsageError, match=f"no track {row.track_id} with a stored crop; a query over crops"):
        library.register_seen("new", track_ids=[row.track_id])


@pytest.mark.parametrize("aspect", [Fraction(2), Fraction(1, 2)])
def test_pixels_that_are_not_square_are_shown_and_counted_as_square(library, tmp_path, aspect):
    thing = Thing("red", 5, 35)
    write_film(tmp_path / "dv.mp4", [thing], pixel_aspect=aspect)
    library.index("dv.mp4")
    videos = {row["video"]: (row["width"], row["height"]) for row in library.videos().to_pylist()}
    assert videos["dv.mp4"] == videos["a.mp4"] == (160, 120)
    best = library.query("SELECT crops WHERE entity = 'red' AND video = 'dv.mp4' AND score >= 0 LIMIT 1")[0]
    rows = library.query("SELECT * FROM detections WHERE track_id = ?", [best.track_id]).fetchall()
    assert len(rows) >= 5
    for row in rows:
        box = (row.x1, row.y1, row.x2, row.y2)
        assert box == pytest.approx(thing.box(row.frame), abs=7)  # the fake sees colour half as sharp
    height, width = library.crop(best.crop_id).shape[:2]
    assert abs(height - width) <= 4  # the thing is a square


@pytest.mark.parametrize(
    ("method", "package", "extra"), [("df", "pandas", "pandas"), ("pl", "polars", "polars")]
)
def test_a_missing_package_is_named_with_the_pip_line(library, monkeypatch, method, package, extra):
    result = library.query("SELECT 1 AS one")
    load = builtins.__import__

    def without(name, *args, **kwargs):
        if name == package:
            raise ImportError(name)
        return load(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=rf"needs {extra}: pip install {extra}$"):
        getattr(result, method)()


def test_parameters_are_bound(library):
    assert len(library.query("SELECT frames WHERE entity = ? AND video = ?", ["red", "a.mp4"])) >= 28
    assert len(library.query("SELECT frames WHERE entity = $who", {"who": "red"})) >= 28
    assert library.query("SELECT ? + 1 AS n", [41]).fetchall() == [(42,)]
    with pytest.raises(UnknownEntity):
        library.query("SELECT frames WHERE entity = ?", ["red' OR 'x' = 'x"])
    with pytest.raises(QueryError, match="no parameters"):
        library.query("DROP ENTITY 'red'", ["red"])
    assert [e.name for e in library.entities()] == ["red"]


def test_arrays_boxes_and_files_are_registered_together(library, tmp_path):
    write_album(tmp_path / "album", "blue")
    entity = library.register("van", [thing_picture("green"), "album/blue"], unlike=thing_picture("purple"))
    assert (entity.name, entity.exemplars, entity.negatives) == ("van", 2, 1)
    assert [e.source for e in library.exemplars("van")] == ["album/blue/one.png", "array 1", "array 1"]
    assert library.register("cut", thing_picture("red"), box=(0, 0, 32, 64)).exemplars == 1
    assert library.exemplars("cut")[0].width == 32
    assert library.register_from_video("film", "a.mp4", 2.0, (25, 40, 57, 72)).exemplars == 1


def test_an_example_is_taken_from_a_frame_of_a_file_that_was_not_indexed(library, tmp_path):
    # With seconds any file would do; with a frame, one beside the library was "no video".
    beside = tmp_path / "beside" / "new.mp4"
    write_film(beside, [Thing("blue", 0, 30)], frames=30)
    by_frame = library.register_from_video("film", beside, box=(25, 40, 57, 72), frame=20)
    assert library.register_from_video("film", beside, 2.0, (25, 40, 57, 72)) == by_frame, "the same picture"
    assert library.exemplars("film")[0].source.startswith(f"{beside} at 2.000 s")
    for frame in (30, -1):
        with pytest.raises(UsageError, match=f"new.mp4 has no frame {frame}; it has 30, counted from 0"):
            library.register_from_video("film", beside, box=(25, 40, 57, 72), frame=frame)
    with pytest.raises(UnknownVideo, match=r"no video 'gone\.mp4'"):
        library.register_from_video("film", "gone.mp4", box=(25, 40, 57, 72), frame=1)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda lib: lib.query(5), "SQL as text, got int 5"),
        (lambda lib: lib.query_many([5]), "SQL as text, got int 5"),
        (lambda lib: lib.query("SELECT 1", {"a": 1}), r"no parameter \$a;"),
        (lambda lib: lib.register("x", 5), "RGB array .* got int 5"),
        (lambda lib: lib.register("x", ["red.png", None]), "RGB array .* got None"),
        (lambda lib: lib.register("x", "red.png", unlike=b"red.png"), r"got bytes b'red.png'"),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_what_is_expected(library, tmp_path, act, message):
    write_picture(tmp_path / "red.png", thing_picture("red"))
    with pytest.raises(UsageError, match=message):
        act(library)


@pytest.mark.parametrize(
    ("error", "act"),
    [
        (BadImage, lambda lib: lib.register("x", thing_picture("red").astype(float))),
        (BadImage, lambda lib: lib.register("x", thing_picture("red")[:, :, 0])),
        (BadImage, lambda lib: lib.register("x", "nosuch.png")),
        (UsageError, lambda lib: lib.register("x")),
        (UsageError, lambda lib: lib.register("x", unlike=thing_picture("red"))),
        (EntityError, lambda lib: lib.register("a\nb", thing_picture("red"))),
        (EntityError, lambda lib: lib.register(5, thing_picture("red"))),
        (EntityError, lambda lib: lib.query("CREATE ENTITY 'red' FROM 'red.png'")),
        (UnknownEntity, lambda lib: lib.drop("rad")),
        (UnknownEntity, lambda lib: lib.query("DESCRIBE ENTITY 'rad'")),
        (UnknownVideo, lambda lib: lib.remove_videos("b.mp4")),
        (ModelError, lambda lib: lib.use_model("nosuch")),
        (QueryError, lambda lib: lib.query("SELECT frames WHERE")),
        (QueryError, lambda lib: lib.query("CREATE ENTITY 'x' FROM '../red.png'")),
    ],
)
def test_a_mistake_raises_its_error_and_changes_nothing(library, tmp_path, error, act):
    write_picture(tmp_path / "red.png", thing_picture("red"))
    with pytest.raises(error):
        act(library)
    assert [(e.name, e.exemplars, e.negatives) for e in library.entities()] == [("red", 1, 0)]
    assert library.embedder.name == "color-bands"


def test_where_another_process_took_one_of_several_videos_out_none_goes(library, monkeypatch):
    held = library.videos().column("video").to_pylist()
    monkeypatch.setattr("panorama.library.names_of", lambda *_: [*held, "gone-meanwhile.mp4"])
    with pytest.raises(UnknownVideo, match="gone-meanwhile"):
        library.remove_videos("*")
    assert held and library.videos().column("video").to_pylist() == held


def test_plain_sql_needs_no_model(library, monkeypatch):
    def fail(name=None):
        raise AssertionError("a model was loaded")

    monkeypatch.setattr("panorama.api.models.late_embedder", fail)
    with panorama.open(library.path) as other:
        assert other.query("SELECT count(*) AS n FROM tracks").fetchall()[0].n >= 1
        with pytest.raises(AssertionError):
            other.query("SELECT frames WHERE entity = 'red'")


def test_videos_of_another_model_are_told_not_left_out_silently(library, tmp_path, fake_proposer):
    from panorama.indexing.run import index_paths
    from panorama.indexing.settings import IngestSettings
    from panorama.indexing.stages import Indexer
    from panorama.models.color import ColorEmbedder
    from panorama.store import Store
    from panorama.video import find_videos

    class Other(ColorEmbedder):
        def __init__(self):
            super().__init__()
            self.hash = "other" * 8

    # Another process, which still uses another model, adds a video.
    write_film(tmp_path / "b.mp4", [Thing("red", 0, 30)])
    with Store.open(library.path) as store:
        index_paths(
            store, Indexer(Other(), fake_proposer, IngestSettings()), find_videos([tmp_path / "b.mp4"])
        )
    result = library.query("SELECT frames WHERE entity = 'red'")
    assert {row.video for row in result} == {"a.mp4"}
    assert any("1 video is not searched" in warning for warning in result.warnings)
    library.index(["a.mp4", "b.mp4"])
    result = library.query("SELECT frames WHERE entity = 'red'")
    assert {row.video for row in result} == {"a.mp4", "b.mp4"}
    assert result.warnings == ()


def test_a_library_that_is_gone_or_another_is_told_to_who_has_it_open(library, tmp_path):
    """What was registered went into a file that nobody sees, and answers came from one."""
    for act in (
        lambda: library.query("SELECT moments WHERE entity = 'red'"),
        lambda: library.register("new", thing_picture("blue")),
        library.compact,
    ):
        act()
        shutil.copytree(library.path, tmp_path / "other")
        library.path.rename(tmp_path / "away")
        with pytest.raises(LibraryNotFound, match=r"no longer a library at .*library: "):
            act()
        assert not library.exists
        with pytest.raises(LibraryNotFound):  # and makes no other in its place
            library.index(["a.mp4"])
        (tmp_path / "other").rename(library.path)
        with pytest.raises(
            LibraryNotFound, match=r"the library that was opened at .* was replaced by another; open it again"
        ):
            act()
        with panorama.open(library.path) as again:
            assert len(again.query("SELECT moments WHERE entity = 'red'")) == 1
        shutil.rmtree(library.path)
        (tmp_path / "away").rename(library.path)
        act()


def test_a_closed_library_answers_nothing_of_what_it_offers(library):
    """It answered some calls as if nothing had been, and opened its files again for it."""
    zones, answers = library.zones, library.query_each(["SELECT video FROM videos"])
    begun = library.query_each(["SELECT video FROM videos"] * 2)
    next(begun)
    numbers = ("exemplar_id", "crop_id", "exit", "seconds")
    lists = ("crop_ids", "track_ids", "exemplar_ids", "queries")
    given = {
        "result": library.query("SELECT 1"),
        **dict.fromkeys(numbers, 1),
        **dict.fromkeys(lists, ()),
        "change": dict,
    }
    with library as opened:
        opened.close()
    library.close()
    told = rf"the library at .* is closed; open it again: panorama\.open\('{library.path}'\)"
    offered = [name for name in dir(type(library)) if not name.startswith("_")]
    assert len(offered) > 40
    for name in set(offered) - {"close", "path", "proposer"}:  # the last is the fixture's
        with pytest.raises(LibraryClosed, match=told):
            member = getattr(library, name)
            taken = inspect.signature(member).parameters.values()
            member(**{one.name: given.get(one.name, "x") for one in taken if one.default is one.empty})
    with pytest.raises(LibraryClosed, match=told):
        library.__enter__()
    for kept in (lambda: list(zones), lambda: list(answers), lambda: list(begun), lambda: zones.drop("door")):
        with pytest.raises(LibraryClosed, match="is closed; open it again"):
            kept()
    assert repr(library) == f"Library({str(library.path)!r})"
    with panorama.open(library.path) as again:
        assert again.videos().num_rows == 1
