"""Arguments of a wrong kind: every parameter of the Python API says what it may be, before any work."""

from __future__ import annotations

import enum
import inspect
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes import Thing, coloured_things, thing_picture, write_film, write_picture

import panorama
from panorama.album.seen_pictures import picture_digest
from panorama.arguments import KINDS, TELL_THEMSELVES
from panorama.cameras.recording_rule import RecordingRule
from panorama.errors import BadBox, BadImage, EntityError, PanoramaError, QueryError, UnknownVideo, UsageError
from panorama.indexing.outcomes import Hooks
from panorama.indexing.profile import check_rate
from panorama.indexing.settings import IngestSettings, Work
from panorama.judging.calibrate import calibrate, reset_calibration
from panorama.judging.evaluate import score_entities
from panorama.library import Library
from panorama.own_training import OwnData, fine_tune
from panorama.query.handed.relations import Limits
from panorama.training import TrainingOptions, train_recipe
from panorama.tune import tune
from panorama.zones import Zones

CHECKED = (Library, Zones)
FUNCTIONS = (panorama.open, calibrate, score_entities, tune, fine_tune, train_recipe, reset_calibration)


def parameters() -> Iterator[tuple[Callable[..., object], str]]:
    """Every parameter of every public function of the API."""
    for api in CHECKED:
        for name, method in inspect.getmembers(api, inspect.isfunction):
            if not name.startswith("_"):
                yield from (
                    (method, parameter) for parameter in list(inspect.signature(method).parameters)[1:]
                )
    for function in FUNCTIONS:
        yield from ((function, parameter) for parameter in inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("method", "name"), list(parameters()), ids=lambda value: getattr(value, "__name__", value)
)
def test_a_value_of_no_kind_at_all_is_refused_by_name(method: Callable[..., object], name: str) -> None:
    if name in TELL_THEMSELVES:
        pytest.skip("checked where it is read; see test_library_api")
    called = "panorama.open" if method is panorama.open else method.__name__
    with pytest.raises(PanoramaError, match=rf"^{called}\({name}=\.\.\.\): .*, got object <object"):
        method(**{name: object()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A film and a picture of red, and a library that holds both."""
    folder = tmp_path_factory.mktemp("arguments")
    write_picture(folder / "red.png", thing_picture("red"))
    with coloured_things(), panorama.open(folder / "library") as library:
        library.index(write_film(folder / "a.mp4", [Thing("red", 5, 35)]), model="color-bands")
        library.register("red", folder / "red.png")
    return folder


@pytest.fixture
def library(folder: Path) -> Iterator[Library]:
    with panorama.open(folder / "library") as library:
        yield library


BEYOND = np.array([2**64 - 7], np.uint64)
"""An id that no BIGINT is; converted, it would be -7."""
PICTURE = thing_picture("red")


@pytest.mark.parametrize(
    ("error", "message", "act"),
    [
        (UsageError, r"verify\(first=...\): a picture is a file or an RGB array .* got int 5",
         lambda lib: lib.verify(5, PICTURE)),
        (UsageError, "got None", lambda lib: lib.verify(PICTURE, None)),
        (UsageError, "got ''", lambda lib: lib.verify("", PICTURE)),
        (BadImage, r"the array is \(3, 3\) float64", lambda lib: lib.verify(np.zeros((3, 3)), PICTURE)),
        (UsageError, r"query\(limits=...\): .* Limits\(seconds=10, memory='2GB'\), got int 5",
         lambda lib: lib.query("SELECT 1", limits=5)),
        (UsageError, "seconds above 0, got str '10'", lambda lib: Limits(seconds="10")),
        (UsageError, "'4GB' .* got int 5", lambda lib: Limits(memory=5)),
        (UsageError, r"\(at most 1000000000, .* above 0, got 1e\+300",
         lambda lib: Limits(seconds=1e300)),
        (UsageError, "memory is at most 1000TB, got '9999999999GB'",
         lambda lib: Limits(memory="9999999999GB")),
        (UsageError, "memory is at most 1000TB, got '999", lambda lib: Limits(memory="9" * 400 + "GB")),
        (UsageError, "threads is a whole number from 1 to 1024, got float 1.5",
         lambda lib: Limits(threads=1.5)),
        (UsageError, "threads is a whole number from 1 to 1024, got 1000000000",
         lambda lib: Limits(threads=10**9)),
        (UsageError, "expressions is a whole number from 60 to 1000000, got 12",
         lambda lib: Limits(expressions=12)),
        (UsageError, "expressions is a whole number from 60 to 1000000, got 1000",
         lambda lib: Limits(expressions=10**30)),
        (UsageError, "min_side is a whole number from 0 to 1000000, got -3",
         lambda lib: IngestSettings(min_side=-3)),
        (UsageError, "min_side is a whole number from 0 .* got 1000",
         lambda lib: IngestSettings(min_side=10**400)),
        (UsageError, "on_file is a function, such as print; leave it out to be told nothing, got int 3",
         lambda lib: Hooks(on_file=3)),
        (UsageError, "on_progress is a function, .* got None", lambda lib: Hooks(on_progress=None)),
        (UsageError, "time_from is text: .* or a pattern, got int 3", lambda lib: RecordingRule(time_from=3)),
        (UsageError, "camera_from is text: .* got None", lambda lib: RecordingRule(camera_from=None)),
        (UsageError, "IANA name as text, 'Europe/Berlin', .* got int 3", lambda lib: RecordingRule(zone=3)),
        (UsageError, "a number above 0, .* got str '2'", lambda lib: IngestSettings(samples_per_second="2")),
        (UsageError, "crops_per_track is a whole number from 1, got None",
         lambda lib: IngestSettings(crops_per_track=None)),
        (UsageError, "max_regions is a whole number from 1, got 0",
         lambda lib: IngestSettings(max_regions=0)),
        (UsageError, r"every \(--every\), in frames, is a whole number from 1, got 0$",
         lambda lib: IngestSettings(every=np.int64(0))),
        (UsageError, r"\(--fps\) is a number above 0, at most 1000, got nan$",
         lambda lib: IngestSettings(samples_per_second=np.float64("nan"))),
        (UsageError, "every .* from 1, got str '2'", lambda lib: IngestSettings(every="2")),
        (UsageError, "above 0, at most 1000, got 0", lambda lib: IngestSettings(samples_per_second=0)),
        (UsageError, "in exits, is a whole number from 1, got 0", lambda lib: IngestSettings(depth=0)),
        (UsageError, "network_threads is a whole number from 1 to 1024, got 0",
         lambda lib: Work(network_threads=0)),
        (UsageError, "a frame is a whole number, .* got 10.5",
         lambda lib: lib.why("red", "a.mp4", frame=10.5)),
        (UsageError, "finite number of seconds, got sNaN",
         lambda lib: lib.why("red", "a.mp4", seconds=Decimal("sNaN"))),
        (BadImage, r"the array is \(64, 64, 3\) float64 from .* floats from 0 to 1",
         lambda lib: lib.query("SELECT tracks ORDER BY similarity(?)", [PICTURE.astype(float)])),
        (BadImage, r"the array is \(3, 3\) float64; a picture is",
         lambda lib: lib.query("SELECT tracks ORDER BY similarity(?)", [np.zeros((3, 3))])),
        (QueryError, "similarity takes one picture",
         lambda lib: lib.query("SELECT tracks ORDER BY similarity(?)", [np.zeros(3)])),
        (UsageError, "parameter number 1 is an array of .*; only similarity.* take a picture",
         lambda lib: lib.query("SELECT * FROM tracks WHERE video = ?", [PICTURE])),
        (UsageError, "parameter \\$a is an array of .*; only similarity.* take a picture",
         lambda lib: lib.query("SELECT $a FROM tracks ORDER BY similarity('red.png')", {"a": PICTURE})),
        (QueryError, "parameter is an array of .*; only similarity.* take a picture",
         lambda lib: lib.query("SELECT tracks WHERE video = ?", [PICTURE])),
        (UsageError, "a list of them, got None", lambda lib: lib.index(None)),
        (UsageError, "a list of them, got list .*5", lambda lib: lib.index(["a.mp4", 5])),
        (UsageError, "IngestSettings.* got dict", lambda lib: lib.index("a.mp4", settings={"every": 5})),
        (UsageError, "number of exits, got str '2'", lambda lib: lib.index("a.mp4", depth="2")),
        (UsageError, "queries are a list.*got str 'SELECT 1'", lambda lib: lib.query_many("SELECT 1")),
        (UsageError, "queries are a list", lambda lib: lib.query_many([("SELECT 1",)])),
        (UsageError, "True or False, got str 'no'", lambda lib: lib.forget("red", with_sightings="no")),
        (UsageError, "got ''", lambda lib: lib.register_album("")),
        (UsageError, r"file, folder, pattern .*, got ''", lambda lib: lib.register("x", "")),
        (UsageError, "finite number of seconds, got nan",
         lambda lib: lib.register_from_video("x", "a.mp4", float("nan"), "0,0,9,9")),
        (BadBox, "four numbers, .*got int 5", lambda lib: lib.register("x", PICTURE, box=5)),
        (BadBox, "four numbers", lambda lib: lib.register("x", PICTURE, box=(1, 2, 3))),
        (EntityError, "an entity's name is text, got list", lambda lib: lib.register(["x"], PICTURE)),
        (EntityError, "an entity's name is text, got int 5", lambda lib: lib.register(5, PICTURE)),
        (UnknownVideo, "no video 'b.mp4'", lambda lib: lib.remove_videos("b.mp4")),
        (UsageError, "finite number of seconds, got 1000",
         lambda lib: lib.why("red", "a.mp4", seconds=10**400)),
        (UsageError, "whole numbers, .* got an array of .* float64",
         lambda lib: lib.vectors_of(np.zeros(2), 1)),
        (UsageError, "a list of them, got an array of .* int64", lambda lib: lib.index(np.array([5]))),
        (UsageError, r"index\(paths=...\): .* a list of them, got None",
         lambda lib: lib.index(pa.array(["a.mp4", None] * 90))),
        (UsageError, r"remove_videos\(videos=...\): .* a list of them, got None",
         lambda lib: lib.remove_videos(pa.chunked_array([["a.mp4"], [None]]))),
        (UsageError, r"date\(videos=...\): .* a list of them, got Row \('a.mp4',\)",
         lambda lib: lib.date(lib.query("SELECT video FROM videos"))),
        (UsageError, r"a list of them, got 'a\\x00b'", lambda lib: lib.index("a\0b")),
        (UsageError, r"a list of them, got 'a\\x00b'", lambda lib: lib.index({"a\0b"})),
        (UsageError, "pairs of shares", lambda lib: lib.zones.add("x", iter([(0.1, 0.2, 0.3)]))),
        (UsageError, "pairs of shares", lambda lib: lib.zones.add("x", pa.table({"x": [0.1]}))),
        (UsageError, r"two whole numbers \(width, height\), from 1 to 1000000, got tuple \(0, 9\)",
         lambda lib: lib.zones.add("x", "1,1 9,1 9,9", size=(0, 9))),
        (UnknownVideo, "no video 'c.mp4'", lambda lib: lib.zones.draw("z.png", video=Path("c.mp4"))),
        (UsageError, "an id is a whole number", lambda lib: lib.crop("1")),
        (UsageError, "no crop 5", lambda lib: lib.vectors_of([5], 1)),
        (UsageError, "exits 1 to 1, got 9", lambda lib: lib.vectors_of([5], 9)),
        (UsageError, "a value that JSON can hold", lambda lib: lib.put_setting("x", {1, 2})),
        (UsageError, "values to keep by key, .* got None; return {}",
         lambda lib: lib.change_settings(lambda kept: None)),
        (UsageError, "as JSON can hold them, got dict",
         lambda lib: lib.change_settings(lambda kept: {"x": {1}})),
        (UsageError, "crop_ids is a list of whole numbers, .* uint64", lambda lib: lib.stored_crops(BEYOND)),
        (UsageError, "crop_ids is a list of whole numbers, .* uint64", lambda lib: lib.vectors_of(BEYOND, 1)),
        (UsageError, "track_ids is a list of whole numbers, .* uint64", lambda lib: lib.overlapping(BEYOND)),
        (UsageError, "exemplar_ids is a list of whole numbers .* uint64",
         lambda lib: lib.remove_exemplars(BEYOND)),
        (UsageError, "pairs of shares", lambda lib: lib.zones.add("lawn", [(0.1, 0.2, 0.3)])),
        (UsageError, "not empty, got ''", lambda lib: panorama.open("")),
        (UsageError, r"^panorama\.open\(path=...\): .* not empty, got int 5", lambda lib: panorama.open(5)),
        (UsageError, r"calibrate\(precision=...\): .* between 0.5 and 1, got str '0.9'",
         lambda lib: calibrate(lib, precision="0.9")),
        (UsageError, r"calibrate\(precision=...\): .*, got None", lambda lib: calibrate(lib, precision=None)),
        (UsageError, "between 0.5 and 1, got nan", lambda lib: calibrate(lib, precision=np.float32("nan"))),
        (UsageError, r"calibrate\(library=...\): .* panorama.open\('panorama-library'\), got str 'library'",
         lambda lib: calibrate("library")),
        (UsageError, r"tune\(paths=...\): what to index is .* got None", lambda lib: tune(lib, None)),
        (UsageError, r"tune\(tell=...\): .* as print, got None", lambda lib: tune(lib, "a.mp4", tell=None)),
        (UsageError, r"score_entities\(truths=...\): .* reads a file, got dict",
         lambda lib: score_entities(lib, {"red": {"visible": {"a.mp4": [[0, 9]]}}})),
        (UsageError, r"fine_tune\(library=...\): expected a function .* got Library",
         lambda lib: fine_tune(OwnData(folders=("x",)), "net", TrainingOptions(), start="panoramanet",
                               library=lib, scratch=panorama.open)),
        (UsageError, "no folder x; --folders takes one",
         lambda lib: fine_tune(OwnData(folders=("x",)), "net", TrainingOptions(), start="panoramanet",
                               library=panorama.open, scratch=panorama.open)),
        (UsageError, "folders are paths, .* got tuple \\(5,\\)", lambda lib: OwnData(folders=(5,))),
        (UsageError, "videos are paths, .* got ''", lambda lib: OwnData(videos="")),
        (UsageError, "SQL as text, got int 5", lambda lib: OwnData(query=5)),
        (UsageError, "steps is a whole number, got str '5'", lambda lib: TrainingOptions(steps="5")),
        (UsageError, "minutes is a number above 0, got str '5'", lambda lib: TrainingOptions(minutes="5")),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_the_value_and_what_it_may_be(
    library: Library, error: type[Exception], message: str, act: Callable[[Library], object]
) -> None:
    with pytest.raises(error, match=message):
        act(library)


def test_what_is_meant_well_is_taken(library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    # Arrays, files and Paths are pictures alike.
    verdicts = [library.verify(a, b) for a, b in ((PICTURE, "red.png"), (Path("red.png"), PICTURE))]
    assert verdicts[0] == verdicts[1] and verdicts[0].score > 0.9
    assert library.query("SELECT verify('red.png', 'red.png')", picture_root=str(folder))[0][0] is True
    crops = library.query("SELECT crop_id FROM crops").fetchall()
    ids = [row.crop_id for row in crops]
    assert library.vectors_of(ids, np.int64(1)).shape[0] == len(ids)  # type: ignore[arg-type]
    assert (library.crop(np.int64(ids[0])) == library.crop(ids[0])).all()  # type: ignore[arg-type]
    why = library.why("red", Path("a.mp4"), seconds=np.float32(2))  # type: ignore[arg-type]
    assert why.video == "a.mp4"
    # As a column of a data frame with gaps has frames, and as a database has seconds.
    frame = library.query("SELECT crop_id, frame FROM crops WHERE crop_id = ?", [why.crop_id])[0]["frame"]
    assert library.why("red", "a.mp4", frame=float(frame)).track_id == why.track_id  # type: ignore[arg-type]
    assert library.why("red", "a.mp4", seconds=Decimal("2.0")).track_id == why.track_id  # type: ignore[arg-type]
    with coloured_things():
        assert library.index(folder / "a.mp4", redo=None).complete  # type: ignore[arg-type]
    assert library.date(folder / "a.mp4", start="2026-03-01 10:00:00", zone="UTC").changed == 1
    assert library.use_model(Path("color-bands")) == 0
    assert inspect.signature(library.verify).parameters.keys() == {"first", "second"}


def test_columns_arrays_and_generators_are_taken_where_several_are_meant(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    ids = [row.crop_id for row in library.query("SELECT crop_id FROM crops").fetchall()]
    wanted = library.vectors_of(ids, 1)
    for column in (np.array(ids), np.array(ids, object), pandas.Series(ids), polars.Series(ids)):
        np.testing.assert_array_equal(library.vectors_of(column, 1), wanted)
    seen = [f"{ids[0]}:{picture_digest(library.stored_crops(ids)[ids[0]])}", str(ids[1])]
    for column in (np.array(seen), pandas.Series(seen), polars.Series(seen)):
        assert library.register_seen("seen", crop_ids=column).exemplars == 2
        library.drop("seen")
    dated = {"start": "2026-03-01 10:00:00", "zone": "UTC"}
    (entry,) = (e for e in os.scandir() if e.name == "a.mp4")
    for videos in (np.array(["a.mp4"]), pandas.Series(["a.mp4"]), (v for v in ["a.mp4"]), entry, [entry]):
        library.date("a.mp4", start="")
        assert library.date(videos, **dated).changed == 1
    corners = [(0.25, 0.25), (0.5, 0.25), (0.5, 0.5)]
    across, down = zip(*corners, strict=True)
    decimals = [(Decimal(x), Decimal(y)) for x, y in corners]
    fractions = [(Fraction(x), y) for x, y in corners]
    for points in (zip(across, down, strict=True), np.array(corners), fractions, decimals):
        assert library.zones.add("lawn", points).points_xy == tuple(corners)
    library.zones.drop("lawn")
    assert len(library.query_many(np.array(["SELECT 1", "SELECT 2"]))) == 2


def test_a_box_is_taken_as_a_row_of_a_data_frame_or_of_a_detector_has_it(library: Library) -> None:
    """Such a row was told to be no four numbers, in an error of several lines."""
    pandas, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    row = pandas.DataFrame({"video": ["a.mp4"], "x1": [1], "y1": [2.0], "x2": [30], "y2": [40]}).iloc[0]
    corners = row[["x1", "y1", "x2", "y2"]]
    for box in (corners, torch.tensor([1.0, 2.0, 30.0, 40.0]), np.array([1, 2, 30, 40], np.float32)):
        library.register("boxed", PICTURE, box=box)
        (only,) = library.exemplars("boxed")
        assert (only.width, only.height) == (29, 38)
        library.drop("boxed")
    with pytest.raises(BadBox) as told:
        library.register("boxed", PICTURE, box=row)
    assert "four numbers" in str(told.value) and "\n" not in str(told.value)


def test_paths_of_own_pictures_are_text_or_paths_one_or_several() -> None:
    wanted = OwnData(folders=(Path("a"), Path("b")))
    for given in (["a", Path("b")], ("a", "b"), np.array(["a", "b"])):
        assert OwnData(folders=given) == wanted
    assert OwnData(videos="a").videos == (Path("a"),)


def test_settings_and_limits_of_numpy_are_those_of_python(library: Library) -> None:
    given = IngestSettings(
        samples_per_second=np.float32(4),
        every=np.int64(2),
        keyframes_only=np.bool_(False),  # type: ignore[arg-type]
        max_regions=np.uint8(9),  # type: ignore[arg-type]
    )
    same = IngestSettings(samples_per_second=Decimal(4), every=2, max_regions=9)  # type: ignore[arg-type]
    assert json.dumps(asdict(given)) == json.dumps(asdict(same))
    assert type(Limits(seconds=np.float32(5)).seconds) is float  # type: ignore[arg-type]


def test_a_number_of_numpy_is_handed_on_as_one_of_python() -> None:
    """An exit and a depth stayed as they were, and what was stored of them was no JSON."""
    given = (np.int64(1), np.uint8(1), np.float32(1), np.bool_(True), Decimal(1), Fraction(1))
    plain = (bool, int, float)
    taken = {
        (name, type(value)): kind.taken(value)
        for name, kind in KINDS.items()
        for value in given
        if kind.fits(value)
    }
    assert ("exit", np.int64) in taken and ("depth", np.int64) in taken
    assert {key: value for key, value in taken.items() if type(value) not in plain} == {}
    assert list(map(type, KINDS["size"].taken((np.int64(4), np.int64(3))))) == [int, int]


def test_an_exit_of_numpy_is_kept_with_the_vectors(library: Library) -> None:
    """TypeError: Object of type int64 is not JSON serializable, wherever the cache of vectors had to grow."""
    ids = [row.crop_id for row in library.query("SELECT crop_id FROM crops").fetchall()]
    for cached in library.path.glob("index/*-e1"):
        shutil.rmtree(cached)
    with panorama.open(library.path) as again:
        assert len(again.vectors_of(ids, np.int64(1))) == len(ids)  # type: ignore[arg-type]


def test_a_day_of_numpy_is_a_date(library: Library) -> None:
    """It was midnight, so `time <= ?` left out the day that a `datetime.date` includes."""
    day = np.datetime64("2026-03-01")
    row = library.query("SELECT ? AS a, ? AS b, typeof(?) AS c", [day, np.array([day, day]), day])[0]
    assert (row.a, row.b, row.c) == (date(2026, 3, 1), [date(2026, 3, 1)] * 2, "DATE")


@pytest.mark.parametrize("unit", ["h", "s", "us", "ns"])
def test_times_of_numpy_are_times_whatever_they_count(library: Library, unit: str) -> None:
    day, step = np.datetime64("2026-03-01", unit), np.timedelta64(np.timedelta64(2, "D"), unit)
    row = library.query("SELECT ? AS a, ? AS b, ? AS c", [day, np.array([day]), step])[0]
    wanted = datetime(2026, 3, 1)
    assert (row.a, row.b, row.c) == (wanted, [wanted], timedelta(days=2))


class Named(str, enum.Enum):  # noqa: UP042  other text than a StrEnum
    """As web frameworks read the choices of a parameter; its text is Named.RED."""

    RED = "red"


class Counted(int, enum.Enum):
    ONE = 1


def test_what_is_missing_from_a_data_frame_is_null(library: Library) -> None:
    """In a shorthand NaT was an entity of that name, and NA was refused."""
    pandas = pytest.importorskip("pandas")
    for missing in (pandas.NaT, pandas.NA, np.datetime64("NaT"), None):
        assert not len(library.query("SELECT tracks WHERE entity = 'red' AND start_time < ?", [missing]))
        assert library.query("SELECT ? IS NULL AS missing", [missing])[0].missing


@pytest.mark.parametrize("gap", [None, float("nan")])
def test_what_is_missing_among_text_is_null(library: Library, gap: object) -> None:
    """Columns of text have NaN for it, and a list made it the text 'nan'."""
    pandas = pytest.importorskip("pandas")
    columns = [
        pandas.Series(["a", gap], dtype="str"),
        pandas.Series(["a", gap], dtype="string"),
        pandas.Series(["a", gap], dtype=object),
        pandas.Series(["a", gap], dtype=object).to_numpy(),
        pandas.Series(["a", gap], dtype="string[pyarrow]"),
        ["a", gap],
    ]
    for column in columns:
        assert library.query("SELECT ? AS texts", [column])[0].texts == ["a", None]
    nothing = pandas.Series([gap], dtype="str")
    assert library.query("SELECT ? AS texts", [nothing])[0].texts == [None]
    assert np.isnan(library.query("SELECT ? AS numbers", [[1.5, float("nan")]])[0].numbers[1])


def test_what_is_of_numpy_within_a_struct_is_taken(library: Library) -> None:
    given = {"n": np.int64(1), "of": {"b": np.array([True])}}
    assert library.query("SELECT ? AS s", [given])[0].s == {"n": 1, "of": {"b": [True]}}


@pytest.mark.parametrize("sql", ["SELECT tracks WHERE video = ?", "SELECT ? AS text"])
def test_text_that_utf_8_has_not_is_a_query_error(library: Library, sql: str) -> None:
    """Within a shorthand it was a TypeError of DuckDB's functions."""
    with pytest.raises(QueryError, match=r"UTF-8"):
        library.query(sql, [os.fsdecode(b"caf\xe9.mp4")])


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT track_id FROM tracks WHERE track_id = ?", "id"),
        ("SELECT tracks WHERE track_id = ?", "id"),
        ("SELECT tracks WHERE track_id IN ?", "ids"),
        ("SELECT tracks WHERE track_id IN ?", "list"),
        ("SELECT tracks WHERE start_time < ? AND entity = 'red'", np.float32(2)),
        ("SELECT track_id FROM tracks WHERE start_time < $start", {"start": np.float64(2)}),
        ("SELECT tracks WHERE start_time < ? AND entity = 'red'", np.array(2.0)),
        ("SELECT tracks WHERE entity = ? AND start_time < 2", Named.RED),
        ("SELECT tracks WHERE entity IN $names AND start_time < 2", {"names": [Named.RED]}),
        ("SELECT track_id FROM sightings WHERE entity = ? AND start_time < 2", Named.RED),
        ("SELECT tracks WHERE entity = 'red' LIMIT ?", Counted.ONE),
        ("SELECT tracks WHERE video = ? AND entity = 'red'", np.str_("a.mp4")),
        ("SELECT tracks ORDER BY similarity(?) DESC LIMIT 1", Path("red.png")),
        ("SELECT tracks ORDER BY similarity(?) DESC LIMIT 1", PICTURE),
        ("SELECT tracks WHERE similarity($a) > 0.9 ORDER BY similarity($a) DESC LIMIT 1", {"a": PICTURE}),
        ("SELECT track_id, similarity(?) AS how FROM tracks ORDER BY how DESC LIMIT 1", PICTURE),
        ("SELECT track_id FROM tracks WHERE verify(?, 'red.png') LIMIT 1", PICTURE),
    ],
)
def test_values_of_arrays_and_data_frames_are_parameters(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch, sql: str, value: object
) -> None:
    monkeypatch.chdir(folder)
    track_id = library.query("SELECT track_id FROM sightings")[0][0]
    ids = {"id": np.int64(track_id), "ids": np.array([track_id]), "list": [np.int64(track_id)]}
    given = ids.get(value, value) if isinstance(value, str) else value
    assert library.query(sql, given if isinstance(given, dict) else [given])[0].track_id == track_id


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT tracks ORDER BY similarity(?) DESC LIMIT 1",
        "SELECT max(similarity(?)) FROM tracks",
        "SELECT verify(?, 'red.png')",
    ],
)
@pytest.mark.parametrize("shape", [(50, 60), (2, 50, 60, 3), (50, 60, 1)])
def test_an_array_that_is_no_picture_is_told_by_its_shape(
    library: Library, folder: Path, monkeypatch: pytest.MonkeyPatch, sql: str, shape: tuple[int, ...]
) -> None:
    """A grey one and a batch were told that a picture stands in single quotes."""
    monkeypatch.chdir(folder)
    with pytest.raises(BadImage, match=rf"the array is {re.escape(str(shape))} uint8; a picture is \(height"):
        library.query(sql, [np.zeros(shape, np.uint8)])
    rows = np.arange(4).reshape(2, 2)  # elsewhere an array of two dimensions is a list of lists
    assert library.query("SELECT ? AS v", [rows])[0].v == [[0, 1], [2, 3]]


def test_a_tensor_is_no_picture_of_pil(library: Library) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(
        UsageError, match=r"number 1 is a tensor of \(3, 20, 30\) torch.float32; only similarity"
    ):
        library.query("SELECT ? AS v", [torch.zeros((3, 20, 30))])


def test_settings_do_not_name_two_rates(folder: Path, library: Library) -> None:
    """`index` took the frames and let the rate be, which the command line refuses."""
    both = IngestSettings(samples_per_second=2, every=3)
    with pytest.raises(UsageError, match=r"one of samples_per_second and every, .*second=2, every=3\)"):
        library.index(folder / "a.mp4", settings=both)
    new = panorama.open(folder / "not-there")
    with pytest.raises(UsageError, match="give one of"):
        new.index(folder / "a.mp4", settings=both)
    assert not new.exists
    for one in (IngestSettings(every=3), IngestSettings(samples_per_second=2)):
        check_rate(one, None)


def test_columns_of_tables_name_videos_and_points(library: Library, tmp_path: Path) -> None:
    """A column of Arrow ended in a TypeError, points in a data frame in a ValueError."""
    pandas = pytest.importorskip("pandas")
    uris, names = (library.videos()[column] for column in ("uri", "video"))
    for column in (uris, pandas.Series(uris.to_pylist())):
        assert len(library.index(column).files) == 1
    points = pandas.DataFrame({"x": [0.0, 0.5, 0.5], "y": [0.0, 0.0, 0.5]})
    corners = ((0.0, 0.0), (0.5, 0.0), (0.5, 0.5))
    assert library.zones.add("lawn", points).points_xy == corners
    assert library.zones.add("lawn", iter(corners)).points_xy == corners
    for video in (uris[0].as_py(), Path(uris[0].as_py()), names[0].as_py(), Path(names[0].as_py())):
        assert [zone.name for zone in library.zones.draw(tmp_path / "zones.png", video=video)] == ["lawn"]
    library.date(names, start="")
    library.zones.drop("lawn")
