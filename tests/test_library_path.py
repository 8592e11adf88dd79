"""Paths that no library and no file can have are told in one line, whatever command they are given to."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import Thing, thing_picture, write_film, write_picture

import panorama
from panorama.errors import PanoramaError, UsageError

COMMANDS = (["info"], ["index", "v"], ["register", "x", "a.png"], ["query", "SELECT frames"], ["tune", "v"])
TOLD = {
    "~nouser/x": "is in the home of an unknown user; write the whole path, or './~nouser/x'",
    "x" * 300: "File name too long; name another folder",
    os.fsdecode(b"\xff"): "is not UTF-8 text; choose another folder",
    "/".join(["x" * 100] * 6): "bytes; choose a folder of at most 489",
    "loop": "Too many levels of symbolic links; name another folder",
    "dangling": "is a broken link; name another folder",
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize("path", TOLD, ids=lambda path: ascii(path[:12]))
def test_a_path_that_no_library_can_have_is_told(
    run: Callable[..., Any], tmp_path: Path, path: str, command: list[str]
) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nowhere")
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 12)], frames=12)
    write_picture(tmp_path / "a.png", thing_picture("red"))
    done = run("--library", path, *command)
    assert done.status in (1, 2) and TOLD[path] in done.err and "defect" not in done.err
    with pytest.raises(PanoramaError):
        panorama.open(path, create=True)


@pytest.mark.parametrize(
    "name", ["x" * 300, os.fsdecode(b"\xff.png"), "loop"], ids=["long", "no text", "loop"]
)
@pytest.mark.parametrize(
    "words",
    [
        ("index", "{}"),
        ("register", "red", "{}"),
        ("register", "red", "--video", "{}", "--at", "1", "--box", "1,1,50,50"),
        ("register", "--album", "{}"),
        ("clock", "{}"),
        ("train", "--folders", "{}", "--out", "o"),
        ("train", "--folders", "v", "--out", "v/a.mp4/{}"),
        ("train", "r.toml", "--data", "a={}", "--out", "o"),
    ],
    ids=" ".join,
)
def test_a_name_that_no_file_can_have_is_no_defect(
    run: Callable[..., Any], tmp_path: Path, words: tuple[str, ...], name: str
) -> None:
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 12)], frames=12)
    assert run("index", "v", "--model", "color-bands").status == 0
    (tmp_path / "loop").symlink_to("loop")
    write_picture(tmp_path / "red.png", thing_picture("red"))
    (tmp_path / "red.png").rename(tmp_path / os.fsdecode(b"\xff.png"))
    done = run(*(word.format(name) for word in words))
    assert done.status in (1, 2, 3) and "defect" not in done.err and "Traceback" not in done.err


def test_tune_passes_over_the_own_files_of_another_library(run: Callable[..., Any], tmp_path: Path) -> None:
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 12)], frames=12)
    assert run("index", "v", "--model", "color-bands").status == 0
    write_picture(tmp_path / "red.png", thing_picture("red"))
    assert run("register", "red", "red.png").status == 0
    done = run("--library", "other", "tune", "panorama-library")
    assert done.status == 1 and "no video to try settings on" in done.err
    assert "panorama-library is a Panorama library, not footage" in done.err


def test_tune_passes_over_a_video_whose_name_is_no_text(run: Callable[..., Any], tmp_path: Path) -> None:
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 12)], frames=12)
    assert run("index", "v", "--model", "color-bands").status == 0
    (tmp_path / "v" / "a.mp4").rename(tmp_path / "v" / os.fsdecode(b"\xff.mp4"))
    done = run("tune", "v")
    assert done.status == 1 and "defect" not in done.err
    assert "none of the videos can be read" in done.err and "not UTF-8 text; rename the file" in done.err


def test_training_passes_over_the_own_files_of_a_library(run: Callable[..., Any], tmp_path: Path) -> None:
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 12)], frames=12)
    assert run("index", "v", "--model", "color-bands").status == 0
    write_picture(tmp_path / "red.png", thing_picture("red"))
    assert run("register", "red", "red.png").status == 0
    done = run("train", "--videos", "panorama-library", "--out", "o")
    assert done.status == 2 and "there is no video at panorama-library" in done.err
    assert "panorama-library is a Panorama library, not footage" in done.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    "words", [("--folders", "album"), ("--query", "SELECT crop_id FROM crops")], ids=" ".join
)
def test_a_model_is_not_written_to_a_folder_that_is_no_text(
    run: Callable[..., Any], asked: Path, words: tuple[str, str]
) -> None:
    """A query's pictures were written there until the process broke off without a word."""
    done = run("train", *words, "--out", os.fsdecode(b"o\xff"))
    assert done.status == 2 and "is not UTF-8 text; name another folder" in done.err
    assert not [path for path in asked.iterdir() if path.name.startswith("o")]


@pytest.mark.parametrize("option", ["--videos", "--folders"])
def test_an_empty_name_of_training_data_is_not_the_working_directory(
    run: Callable[..., Any], tmp_path: Path, option: str
) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 12)], frames=12)
    done = run("train", option, "", "--out", "o")
    assert done.status == 2 and f"'{option}': it is empty" in done.err
    of_recipe = run("train", "r.toml", "--data", "footage=", "--out", "o")
    assert of_recipe.status == 2 and "with an existing folder, got 'footage='" in of_recipe.err


def test_a_picture_that_never_ends_is_told(run: Callable[..., Any], asked: Path) -> None:
    """/dev/zero was read until the memory was full."""
    (asked / "endless.png").symlink_to("/dev/zero")
    done = run("register", "endless", "endless.png")
    assert done.status == 1 and "endless.png is larger than 1024 MiB" in done.err


def test_a_pipe_that_rows_are_written_to_stays_one(run: Callable[..., Any], asked: Path) -> None:
    os.mkfifo("pipe")
    reading = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    done = run("query", "SELECT video FROM videos", "--format", "csv", "--out", "pipe")
    assert done.status == 0 and Path("pipe").is_fifo()
    assert os.read(reading, 100).decode().splitlines() == ["video", "gate/a.mp4", "yard/b.mp4"]
    os.close(reading)
    empty = run("query", "SELECT video FROM videos", "--out", "")
    assert empty.status == 2 and "defect" not in empty.err


def test_a_link_that_rows_are_written_to_stays_one(run: Callable[..., Any], asked: Path) -> None:
    (asked / "there").mkdir()
    (asked / "link.csv").symlink_to("there/rows.csv")
    for _ in range(2):  # where nothing is yet, and over what is there
        assert run("query", "SELECT video FROM videos", "--out", "link.csv").status == 0
        assert (asked / "link.csv").is_symlink()
        rows = (asked / "there" / "rows.csv").read_text().splitlines()
        assert rows == ["video", "gate/a.mp4", "yard/b.mp4"]
    assert sorted(path.name for path in (asked / "there").iterdir()) == ["rows.csv"]


def test_sql_that_is_no_text_is_told_where(run: Callable[..., Any], asked: Path) -> None:
    done = run("query", "SELECT '" + os.fsdecode(b"\xff") + "'")
    assert done.status == 1 and "not UTF-8 text\n  line 1, column 9" in done.err


def test_a_working_directory_that_was_deleted_is_asked_for_only_where_a_path_begins_there(
    run: Callable[..., Any], asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every query ended as a defect in Panorama, `SELECT 1` too."""
    where = asked / "panorama-library"
    (asked / "gone").mkdir()
    monkeypatch.chdir(asked / "gone")
    (asked / "gone").rmdir()
    done = run("--library", where, "query", "SELECT video FROM videos ORDER BY video", "--format", "csv")
    assert done.status == 0 and done.out.splitlines() == ["video", "gate/a.mp4", "yard/b.mp4"]
    near = run("--library", where, "query", "SELECT frames WHERE entity = 'reed'")
    assert near.err.endswith(f"See: panorama --library {where} entities\n")
    told = "the working directory has been deleted: go to another one, or give whole paths"
    for words in (
        ("query", "SELECT 1"),  # of the library that lies there
        ("--library", where, "query", "SELECT tracks ORDER BY similarity('a.png')"),
        ("--library", where, "query", "CREATE ENTITY 'new' FROM 'a.png'"),
    ):
        refused = run(*words)
        assert (refused.status, refused.err) == (2, f"UsageError: {told}\n")
    with panorama.open(where) as library:
        picture = f"SELECT tracks ORDER BY similarity('{asked}/album/red/one.png')"
        assert len(library.query(picture, picture_root=asked)) > 0
        assert len(library.query_many(["SELECT 1"])) == 1
        with pytest.raises(UsageError, match=told):
            library.query_many(["SELECT verify('a.png', 'b.png')"])
        assert library.reviewed("gate/a.mp4") == []
        assert library.why("red", "gate/a.mp4", seconds=2.0).band == "accepted"
        assert library.remove_videos(asked / "v" / "gate" / "a.mp4") == ["gate/a.mp4"]


def test_a_picture_root_from_the_working_directory_is_the_one_of_now(
    asked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stayed the one of the first query that named it so."""
    write_picture(asked / "other" / "album" / "new.png", thing_picture("blue"))
    with panorama.open("panorama-library") as library:
        sql = "SELECT tracks ORDER BY similarity('{}') DESC LIMIT 1"
        assert len(library.query(sql.format("red/one.png"), picture_root="album")) == 1
        monkeypatch.chdir(asked / "other")
        assert len(library.query(sql.format("new.png"), picture_root="album")) == 1
