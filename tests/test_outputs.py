"""What is written for users replaces no library, no video and no file of another kind, by no link either."""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from clips import cut_clip
from conftest import Ran
from fakes import Thing, write_film

from panorama.answering.calibration import write_calibration
from panorama.errors import LibraryWriteError, UsageError
from panorama.opening import open_library
from panorama.pictures.pixels import PICTURE_SUFFIXES
from panorama.store.files.outputs import OTHERS, check_output, whole_file
from panorama.video import VIDEO_SUFFIXES

FRAMES = "SELECT frames WHERE entity = 'red' LIMIT 2"
OUTPUTS = {
    "zones": lambda out: ("zones", "export", out),
    "shown": lambda out: ("zones", "show", "--video", "gate/a.mp4", "--out", out),
    "calibration": lambda out: ("calibrate", "--out", out),
    "csv": lambda out: ("query", FRAMES, "--out", out, "--format", "csv"),
    "json": lambda out: ("query", FRAMES, "--out", out, "--format", "json"),
    "parquet": lambda out: ("query", FRAMES, "--out", out, "--format", "parquet"),
    "sheet": lambda out: ("query", FRAMES, "--sheet", out),
    "page": lambda out: ("query", FRAMES, "--page", out),
    "why": lambda out: ("why", "red", "gate/a.mp4", "--at", "2", "--out", out),
}
RIGHT = {
    "zones": "x.json", "shown": "x.png", "calibration": "x.json", "csv": "x.csv", "json": "x.json",
    "parquet": "x.parquet", "sheet": "x.jpg", "page": "x.html", "why": "x.png",
}  # fmt: skip
OWN = ["catalog.sqlite", "data/x.json", "data/crops/x.csv", "album/x.png", "index/x.html", "locks/x.parquet"]


@pytest.fixture
def library(run: Callable[..., Ran], asked: Path) -> Path:
    """A library of two films, one beside it that is in none."""
    write_film(asked / "other.mp4", [Thing("red", 5, 35)])
    run("zones", "add", "lawn", "--points", "0%,60% 100%,60% 100%,100%")
    return asked


def contents(folder: Path) -> dict[str, bytes]:
    """All that is in a folder, but for what queries and locks leave in a library."""
    left = ("index", "locks", "catalog")
    found = (path for path in folder.rglob("*") if path.is_file())
    names = {str(path.relative_to(folder)): path for path in found}
    return {
        name: path.read_bytes()
        for name, path in names.items()
        if not name.removeprefix("panorama-library/").startswith(left)
    }


@pytest.mark.parametrize("kind", OUTPUTS)
def test_nothing_of_a_library_and_no_video_is_replaced(run, library: Path, kind: str) -> None:
    before = contents(library)
    catalog = (library / "panorama-library" / "catalog.sqlite").stat().st_ino
    places = [f"panorama-library/{own}" for own in OWN]
    suffix = Path(RIGHT[kind]).suffix
    places += ["v/gate/a.mp4", "other.mp4", f"panorama-library/data/new/{RIGHT[kind]}"]
    (library / f"link{suffix}").symlink_to(library / "v" / "gate" / "a.mp4")
    (library / f"inner{suffix}").symlink_to(library / "panorama-library" / "catalog.sqlite")
    for place in [*places, f"link{suffix}", f"inner{suffix}"]:
        done = run(*OUTPUTS[kind](place))
        assert done.status == 2 and Path(place).name in done.err, (place, done.err)
    for name in ("link", "inner"):
        (library / f"{name}{suffix}").unlink()
    assert contents(library) == before
    assert (library / "panorama-library" / "catalog.sqlite").stat().st_ino == catalog
    assert run("info").status == 0


@pytest.mark.parametrize("kind", sorted(set(OUTPUTS) - {"calibration"}))
def test_what_is_of_its_kind_is_replaced_as_before(run, library: Path, kind: str) -> None:
    (library / "panorama-library" / RIGHT[kind]).write_text("in the library's folder, none of its files")
    for place in (RIGHT[kind], f"deep/{RIGHT[kind]}", f"panorama-library/{RIGHT[kind]}"):
        for _ in range(2):
            assert run(*OUTPUTS[kind](place)).status == 0, place
        assert (library / place).stat().st_size > 45
    assert not list(library.rglob("*.part"))


@pytest.mark.parametrize("kind", ["zones", "calibration"])
def test_shapes_and_calibrations_are_called_json(run, library: Path, kind: str) -> None:
    for name in ("x.csv", "x.MP4", "x.sqlite", "notes.txt"):
        (library / name).write_text("mine")
        done = run(*OUTPUTS[kind](name))
        assert done.status == 2 and f"is written as .json, got '{name}'" in done.err
        assert (library / name).read_text() == "mine"
    # Of three tracks no band can be drawn, which is told later.
    later = {"zones": (0, ""), "calibration": (2, "3 tracks are long enough")}
    for name in ("x.JSON", os.devnull):
        done = run(*OUTPUTS[kind](name))
        assert done.status == later[kind][0] and later[kind][1] in done.err
    for _ in range(2):
        write_calibration(library / "bands.json", [])
        assert json.loads((library / "bands.json").read_text()) == {"exits": []}
    with pytest.raises(UsageError, match=r"a calibration is written as .json, got 'a.mp4'"):
        write_calibration(library / "v" / "gate" / "a.mp4", [])


def test_a_folder_of_pictures_that_is_a_video_keeps_its_pictures(run, library: Path) -> None:
    import cv2

    pictures = library / "pictures"
    pictures.mkdir()
    film = cv2.VideoCapture(str(library / "other.mp4"))
    for number in range(20):
        cv2.imwrite(str(pictures / f"{number:03d}.png"), film.read()[1])
    assert run("index", "pictures", "--fps", "5").status == 0
    before = contents(pictures)
    for name in ("000.png", "more.png"):
        done = run("query", FRAMES, "--sheet", f"pictures/{name}")
        assert done.status == 2 and "a folder of pictures that is a video of the library" in done.err
    assert contents(pictures) == before


def test_clips_and_models_are_not_written_into_a_library(run, library: Path, tmp_path: Path) -> None:
    for words in (
        ("query", FRAMES, "--clips", "panorama-library/data/clips"),
        ("train", "--folders", "album", "--out", "panorama-library/data/my-net"),
    ):
        done = run(*words)
        assert done.status == 2 and "lies among the own files of the library" in done.err
    assert not (library / "panorama-library" / "data" / "clips").exists()
    assert run("query", FRAMES, "--clips", "clips").status == 0
    (clip,) = (library / "clips").glob("*gate*.mp4")
    shutil.move(clip, library / "kept.mp4")
    os.link(library / "kept.mp4", clip)
    assert run("index", clip).status == 0  # in a folder clips of Panorama's own are passed over
    told = run("query", "SELECT frames WHERE entity = 'red' AND video = 'gate/a.mp4'", "--clips", "clips").err
    assert f"not written: {clip.name}: clips/{clip.name} is a video of the library" in told
    assert clip.read_bytes() == (library / "kept.mp4").read_bytes()


def test_the_python_api_refuses_the_same(library: Path) -> None:
    video = library / "v" / "gate" / "a.mp4"
    before = video.read_bytes()
    with open_library(library / "panorama-library") as opened:
        rows = opened.query(FRAMES)
        with pytest.raises(UsageError, match=r"the name 'a.mp4' does not fit rows; choose a"):
            rows.write(video, "csv")
        with pytest.raises(UsageError, match="is one of the library's own files"):
            rows.write(library / "panorama-library" / "catalog.sqlite-wal", "table")
        for write in (opened.sheet, opened.page):
            with pytest.raises(UsageError, match=r"is a video of the library|is written as"):
                write(rows, video)
        with pytest.raises(UsageError, match="own files"):
            opened.clips(rows, library / "panorama-library" / "index")
    assert video.read_bytes() == before


def piped(write: Callable[[str], object]) -> bytes:
    """What a pipe is given that a shell names by a link, as /dev/stdout and >(...) are."""
    reader, writer = os.pipe()
    given: list[bytes] = []

    def read() -> None:
        with os.fdopen(reader, "rb") as end:
            given.append(end.read())

    reading = threading.Thread(target=read)
    reading.start()
    try:
        write(f"/dev/fd/{writer}")
    finally:
        os.close(writer)
        reading.join()
    return given[0]


def logged(write: Callable[[str], object], log: Path) -> bytes:
    """What a log holds that is written before, by and after `write`, as `{ job; } >> log` has it open."""
    log.write_bytes(b"yesterday\n")
    with log.open("ab", buffering=0) as file:
        file.write(b"begins\n")
        write(f"/dev/fd/{file.fileno()}")
        file.write(b"ends\n")
    assert log.read_bytes().startswith(b"yesterday\nbegins\n") and log.read_bytes().endswith(b"ends\n")
    return log.read_bytes()[len("yesterday\nbegins\n") : -len("ends\n")]


@pytest.mark.parametrize("kind", ["zones", "csv", "parquet", "sheet"])
def test_a_log_behind_a_descriptor_is_added_to_and_not_replaced(run, library: Path, kind: str) -> None:
    """--out /dev/stdout put a new file in the place of the log that stdout went to."""
    link = library / f"link{Path(RIGHT[kind]).suffix}"

    def write(out: str) -> None:
        link.symlink_to(out)
        done = run(*OUTPUTS[kind](link))
        assert done.status == 0, done.err

    assert run(*OUTPUTS[kind](RIGHT[kind])).status == 0
    assert logged(write, library / "job.log") == (library / RIGHT[kind]).read_bytes()
    assert link.is_symlink()


def test_rows_of_python_go_where_a_descriptor_stands(library: Path) -> None:
    with open_library(library / "panorama-library") as opened:
        rows = opened.query("SELECT video FROM videos ORDER BY video")
    given = logged(lambda out: rows.write(out, "csv"), library / "job.log")
    assert given.split() == [b"video", b"gate/a.mp4", b"yard/b.mp4"]
    before = (library / "job.log").read_bytes()
    with (
        (library / "job.log").open("rb") as file,
        pytest.raises(LibraryWriteError, match="cannot be written"),
    ):
        rows.write(f"/dev/fd/{file.fileno()}", "csv")
    assert (library / "job.log").read_bytes() == before


@pytest.mark.parametrize("form", ["csv", "json", "table"])
def test_rows_go_into_a_pipe_as_into_a_file(run, library: Path, form: str) -> None:
    """The pipe was looked for as a file named pipe:[95145]."""

    def query(out: str) -> None:
        done = run("query", "SELECT video FROM videos", "--format", form, "--out", out)
        assert done.status == 0 and "2 rows written to" in done.err, done.err

    query("plain")
    assert piped(query) == (library / "plain").read_bytes() != b""


def test_shapes_calibrations_and_rows_of_python_go_into_a_pipe(run, library: Path) -> None:
    assert json.loads(piped(lambda out: run("zones", "export", out)))["shapes"]
    assert json.loads(piped(lambda out: write_calibration(Path(out), []))) == {"exits": []}
    with open_library(library / "panorama-library") as opened:
        rows = opened.query("SELECT video FROM videos ORDER BY video")
        assert piped(lambda out: rows.write(out, "csv")).split() == [b"video", b"gate/a.mp4", b"yard/b.mp4"]


@pytest.mark.parametrize("kind", ["parquet", "sheet", "page", "why", "shown"])
def test_parquet_pictures_and_pages_go_into_a_pipe_by_a_link(run, library: Path, kind: str) -> None:
    link = library / RIGHT[kind]

    def write(out: str) -> None:
        link.symlink_to(out)
        done = run(*OUTPUTS[kind](link))
        assert done.status == 0, done.err

    given = piped(write)
    assert len(given) > 1000 and link.is_symlink()


def test_a_reader_that_leaves_early_is_no_error_of_the_file(run, library: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run("query", "SELECT video FROM videos", "--format", "csv", "--out", f"/dev/fd/{writer}")
    os.close(writer)
    assert done.status == 141 and done.err == ""


def test_the_names_of_other_kinds_hold_all_that_is_indexed() -> None:
    assert OTHERS >= VIDEO_SUFFIXES | PICTURE_SUFFIXES


def test_no_planted_link_is_followed(tmp_path: Path) -> None:
    """In a folder where others write, a link of the name that an unfinished file has led to its target."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in (".x.csv.part", "x.csv.part", ".part"):
        (tmp_path / name).symlink_to(victim)
    with whole_file(tmp_path / "x.csv") as partial:
        assert partial.is_file() and not partial.is_symlink()
        partial.write_text("rows")
    assert victim.read_text() == "mine" and (tmp_path / "x.csv").read_text() == "rows"
    assert sorted(path.name for path in tmp_path.glob("*part")) == [".part", ".x.csv.part", "x.csv.part"]


def test_no_planted_link_is_followed_by_a_clip(library: Path) -> None:
    victim = library / "victim"
    victim.write_text("mine")
    for name in ("clip.mp4.part", ".clip.mp4.part"):
        (library / name).symlink_to(victim)
    assert cut_clip(library / "other.mp4", 0, 1, library / "clip.mp4") > 0
    assert victim.read_text() == "mine"


def test_a_name_that_is_taken_is_not_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        hex = "known"

    monkeypatch.setattr("panorama.whole_files.uuid.uuid4", lambda: Known)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".known.part").symlink_to(victim)
    with pytest.raises(LibraryWriteError, match="File exists"), whole_file(tmp_path / "x.csv"):
        raise AssertionError("nothing is to be written")
    assert victim.read_text() == "mine"


def test_a_name_that_no_file_can_have_is_told(tmp_path: Path) -> None:
    for name in ("x" * 300 + ".json", "a\0b.json"):
        check_output(tmp_path / name, (".json",))
        with pytest.raises((LibraryWriteError, ValueError)), whole_file(tmp_path / name) as partial:
            partial.write_text("x")
