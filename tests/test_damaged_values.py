"""A value of the catalog that means nothing is told with its table, its row and what to do."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Ran
from fakes import thing_picture, write_picture
from store_samples import exemplar, index, unit_vectors

from panorama.errors import LibraryDamaged
from panorama.opening import open_library
from panorama.store import EVERY_CAMERA, Store, Zone

BLOB = b"\x01\x02"
_SEEN = """
INSERT INTO seen (exemplar_id, content_hash, frame, time, x1, y1, x2, y2)
SELECT 1, content_hash, {}, {}, 0, 0, {}, 1 FROM segments WHERE segment_id = 2
"""
TRIANGLE = ((0.1, 0.1), (0.9, 0.1), (0.5, 0.9))

CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "points that are none": (
        "UPDATE zones SET points = :v",
        {"v": '[[0,0],[1e308,null],"x"]'},
        r"zones\.points of the zone 'z 2' of every camera holds '\[\[0,0\],\[1e308,null\],\"x\"\]': .*;"
        r" put it back from a backup, or drop it: panorama zones drop --camera= -- 'z 2'$",
    ),
    "no points": ("UPDATE zones SET points = '[]'", {}, r"zones\.points .* 'z 2' has 0 points; "),
    "points that are cut off": ("UPDATE zones SET points = '[[0.1, 0.1], ['", {}, r"zones\.points .*Expect"),
    "points in too many brackets": (
        "UPDATE zones SET points = :v", {"v": "[" * 100_000}, r"zones\.points .* \"?'\[\[\[.*recursion"
    ),
    "a setting that is no JSON": (
        "UPDATE settings SET value = '{profile'", {},
        r"settings\.value of the key 'what is kept' holds '\{profile': .*put_setting\(.*, None\)$",
    ),
    "a cut vector": (
        "UPDATE exemplar_vectors SET vectors = substr(vectors, 1, 6) WHERE exemplar_id = 1", {},
        r"exemplar_vectors\.vectors of the exemplar 1 of 'cat' holds 6 bytes: 1 views? have .*"
        r"panorama exemplars cat --remove 1",
    ),
    "a vector of fewer numbers": (
        "UPDATE exemplar_vectors SET vectors = substr(vectors, 1, 8) WHERE exemplar_id = 1", {},
        r"exemplar_vectors\.vectors of the exemplar 1 of 'cat' holds 8 bytes",
    ),
    "cuts of two bytes": (
        "UPDATE segments SET cuts = :v WHERE segment_id = 2", {"v": BLOB},
        r"segments\.cuts of the segment 2 holds 2 bytes: buffer size .*; put it back from a backup$",
    ),
    "ends of two bytes": (
        "UPDATE segments SET ends = :v WHERE segment_id = 2", {"v": BLOB},
        r"segments\.ends of the segment 2 holds 2 bytes: they are 288; put it back from a backup$",
    ),
    "a start that no calendar has": (
        "UPDATE videos SET start_time_unix = 1e300, time_zone = 'UTC' WHERE name = '1.mp4'", {},
        r"videos\.start_time_unix of the video '1\.mp4' holds 1e\+300: it is beyond all dates",
    ),
    "a start that is text": (
        "UPDATE videos SET start_time_unix = 'noon' WHERE name = '1.mp4'", {},
        r"videos\.start_time_unix of the video '1\.mp4' holds 'noon'",
    ),
    "a duration that is text": (
        "UPDATE videos SET duration = 'long' WHERE name = '1.mp4'", {},
        r"videos\.duration of the video '1\.mp4' holds 'long'",
    ),
    "a width beyond 32 bits": (
        "UPDATE videos SET width = 99999999999 WHERE name = '1.mp4'", {},
        r"videos\.width of the video '1\.mp4' holds 99999999999",
    ),
    "a zone that no machine knows": (
        "UPDATE videos SET start_time_unix = 1e9, time_zone = 'Mars/Base', time_from = 'name'"
        " WHERE name = '1.mp4'", {},
        r"videos\.time_zone of the video '1\.mp4' holds 'Mars/Base': no such time zone is known here; if"
        r" it is a new one: pip install --upgrade tzdata; .*, or .* panorama clock 1\.mp4"
        r" --at '2001-09-09 01:46:40\.000000' --timezone UTC$",
    ),
    "an indexing that no calendar has": (
        "UPDATE videos SET indexed_at = 9e11 WHERE name = '1.mp4'", {},
        r"videos\.indexed_at of the video '1\.mp4' holds 900000000000\.0: it is beyond all dates",
    ),
    "views that are text": (
        "UPDATE exemplar_vectors SET views = 'x' WHERE exemplar_id = 1", {},
        r"exemplar_vectors\.views of the exemplar 1 of 'cat' holds 'x': .* exemplars cat --remove 1",
    ),
    "a vector that is a number": (
        "UPDATE exemplar_vectors SET vectors = 5 WHERE exemplar_id = 1", {},
        r"exemplar_vectors\.vectors of the exemplar 1 of 'cat' holds 5: .* exemplars cat --remove 1",
    ),
    "a place at a corner that is text": (
        _SEEN.format(1, 0, "'x'"), {},
        r"seen\.x2 of the exemplar 1 of 'cat' holds 'x': .* exemplars cat --remove 1",
    ),
    "a place in half a frame": (_SEEN.format(1.5, 0, 1), {}, r"seen\.frame .* 1 of 'cat' holds 1\.5: "),
    "a place at no time": (_SEEN.format(1, "9e999", 1), {}, r"seen\.time .* 1 of 'cat' holds inf: "),
    "a counter that is text": (
        "UPDATE counters SET value = 'x' WHERE name = 'data'", {},
        r"counters\.value of the counter 'data' holds 'x'",
    ),
}  # fmt: skip


def damage(path: Path, sql: str, **values: Any) -> None:
    """Changes a catalog as a failing disk or another program does."""
    with Store.open(path) as store, store._place.catalog.write() as tx:
        assert tx.run(sql, **values)


@pytest.fixture
def damaged(store: Store) -> Callable[[str], Path]:
    """Damages a library of three videos, two exemplars, a zone and a setting; where it is."""
    for number in range(3):
        index(store, f"{number}.mp4", seed=number)
    near, far = unit_vectors(2, 5)
    store.add_exemplars("cat", [exemplar(b"a", vector=near), exemplar(b"b", vector=far)])
    store.put_zones([Zone(EVERY_CAMERA, "z 2", "zone", TRIANGLE)])
    store.put_setting("what is kept", 1)

    def case(name: str) -> Path:
        sql, values, _ = CASES[name]
        damage(store.path, sql, **values)
        return store.path

    return case


@pytest.mark.parametrize("name", CASES)
def test_a_value_that_means_nothing_is_told_with_its_row_and_what_to_do(damaged, name: str) -> None:
    path = damaged(name)
    told = rf"^{re.escape(str(path / 'catalog.sqlite'))} is damaged: {CASES[name][2]}"
    with Store.open(path) as store, pytest.raises(LibraryDamaged, match=told):
        store.snapshot()


def test_a_version_that_is_no_number_is_told_when_the_library_is_opened(damaged) -> None:
    path = damaged("no points")
    damage(path, "UPDATE meta SET value = 'new' WHERE key = 'schema_version'")
    with pytest.raises(LibraryDamaged, match=r"meta\.value of the key 'schema_version' holds 'new'"):
        Store.open(path)


@pytest.mark.parametrize("name", ["a start that no calendar has", "a start that is text"])
def test_the_clock_says_it_too(damaged, name: str) -> None:
    with Store.open(damaged(name)) as store, pytest.raises(LibraryDamaged, match=r"1\.mp4"):
        store.recorded()


def test_what_was_said_of_a_damaged_place_is_told_too(damaged) -> None:
    with Store.open(damaged("a place at a corner that is text")) as store:
        with store._place.catalog.read() as tx:
            content = str(tx.scalar("SELECT content_hash FROM segments WHERE segment_id = 2"))
        with pytest.raises(LibraryDamaged, match=r"seen\.x2 of the exemplar 1 of 'cat'"):
            store.reviewed(content)


def test_what_the_error_of_a_place_says_mends_it(run: Callable[..., Ran], asked: Path) -> None:
    other = write_picture(asked / "more.png", thing_picture("blue"))
    assert run("register", "red", other).status == 0
    damage(asked / "panorama-library", _SEEN.format(1, 0, "'x'"))
    done = run("videos")
    assert done.status == 1 and "LibraryDamaged" in done.err and "defect" not in done.err
    (command,) = re.findall(r"panorama (exemplars .* --remove 1)", done.err)
    assert run(*shlex.split(command)).status == 0
    assert run("videos").status == 0


def test_what_the_error_of_a_zone_says_mends_it(run: Callable[..., Ran], asked: Path) -> None:
    points = ("--points", "0%,60% 100%,60% 100%,100%")
    assert run("zones", "add", "lawn", *points, "--camera", "gate").status == 0
    sql = "UPDATE videos SET start_time_unix = 1e9 + 0.5, time_zone = 'Mars/Base', time_from = 'name'"
    damage(asked / "panorama-library", sql)
    for name in ("gate/a.mp4", "yard/b.mp4"):
        for words in (("videos",), ("clock",), ("query", "SELECT count(*) FROM videos")):
            done = run(*words)
            assert done.status == 1 and "LibraryDamaged" in done.err and f"{name!r} holds" in done.err
        (command,) = re.findall(r"panorama (clock .*)", done.err)
        mended = run(*shlex.split(command))
        assert mended.status == 0 and "1 video changed" in mended.err, mended.err
    assert run("clock").out.count("2001-09-09 01:46:40.500") == 2
    damage(asked / "panorama-library", "UPDATE videos SET time_zone = 'Mars/Base'")
    assert run("remove", "gate/a.mp4").status == 0 and run("remove", "yard/b.mp4").status == 0
    assert run("videos").status == 0


@pytest.mark.parametrize("points", ["[]", '[[0,0],[1e308,null],"x"]', "no JSON"])
def test_a_damaged_zone_is_dropped_as_its_error_says(
    run: Callable[..., Ran], asked: Path, points: str
) -> None:
    for name, camera in (("lawn", "gate"), ("z2", ""), ("z2", "gate")):
        words = ("--camera", camera) if camera else ()
        assert run("zones", "add", name, "--points", "0%,60% 100%,60% 100%,100%", *words).status == 0
    library = asked / "panorama-library"
    damage(library, "UPDATE zones SET points = :v WHERE name = 'z2'", v=points)
    for _ in range(2):  # of every camera, and of one
        for words in (("entities",), ("videos",), ("query", "SELECT count(*) FROM videos"), ("zones",)):
            done = run(*words)
            assert done.status == 1 and "LibraryDamaged" in done.err and "defect" not in done.err, done.err
            assert "zones.points of the zone 'z2' of" in done.err
        (command,) = re.findall(r"panorama (zones drop .*)", done.err)
        missing = run("zones", "drop", "z3")
        assert missing.status == 2 and "no zone or line 'z3'. Did you mean 'z2'?" in missing.err
        assert run(*shlex.split(command)).status == 0
    assert "lawn" in run("zones", "list").out and run("entities").status == 0


def test_a_damaged_zone_does_not_hinder_others_to_be_renamed_and_dropped(run, asked: Path) -> None:
    for name in ("lawn", "z2"):
        run("zones", "add", name, "--points", "0%,60% 100%,60% 100%,100%")
    damage(asked / "panorama-library", "UPDATE zones SET points = '[]' WHERE name = 'z2'")
    assert run("zones", "rename", "lawn", "meadow").status == 0
    assert run("zones", "drop", "meadow").status == 0
    assert run("zones", "drop", "z2").status == 0 and run("entities").status == 0


def test_what_the_error_of_a_vector_says_mends_it(run: Callable[..., Ran], asked: Path) -> None:
    library = asked / "panorama-library"
    other = write_picture(asked / "more.png", thing_picture("blue"))
    assert run("register", "red", other).status == 0
    damage(library, "UPDATE exemplar_vectors SET vectors = substr(vectors, 1, 6) WHERE exemplar_id = 1")
    done = run("entities")
    (command,) = re.findall(r"panorama (exemplars .* --remove 1)", done.err)
    assert done.status == 1 and "LibraryDamaged" in done.err
    assert run(*shlex.split(command)).status == 0
    assert run("entities").status == 0


def test_what_the_error_of_a_setting_says_mends_it(asked: Path) -> None:
    with open_library(asked / "panorama-library") as library:
        library.put_setting("what is kept", 1)
    damage(library.path, "UPDATE settings SET value = '{' WHERE key = 'what is kept'")
    with open_library(library.path) as library:
        with pytest.raises(LibraryDamaged) as told:
            library.entities()
        for ask in (lambda: library.setting("what is kept"), lambda: library.change_settings(dict)):
            with pytest.raises(LibraryDamaged, match=r"settings\.value"):
                ask()
        eval(str(told.value).rpartition("from Python: ")[2], {"library": library})
        assert [entity.name for entity in library.entities()] == ["blue", "green", "red"]
