"""Which library a command means: made, named, moved, not there; `remove`, and `info` about its models."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from fakes import Thing, thing_picture, write_film, write_picture

import panorama
from panorama.content import content_dir
from panorama.models.color import ColorEmbedder

FILM = [Thing("red", 5, 35)]


def index(run, *words):
    return run("index", *words, "--model", "color-bands")


def videos(run):
    return [row["video"] for row in run("videos", "--json").json]


@pytest.mark.parametrize(
    ("words", "work"),
    [
        (("tune", "a.mp4"), "panorama.cli.tuning.tune"),
        (("calibrate",), "panorama.judging.calibrate.OwnCrops.read"),
    ],
    ids=["tune", "calibrate"],
)
def test_a_library_for_reading_only_is_told_before_long_work(run, tmp_path, monkeypatch, words, work):
    write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4")
    monkeypatch.setattr(work, lambda *_, **__: pytest.fail("measured for minutes first"))
    monkeypatch.setattr("panorama.store.opening._can_write", lambda root: False)
    told = run(*words)
    assert told.status == 1 and "LibraryWriteError" in told.err and "open for reading only" in told.err


def test_who_may_only_read_sees_the_examples(run, tmp_path, monkeypatch):
    write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4")
    write_picture(tmp_path / "red.png", thing_picture("red"))
    assert run("register", "red", "red.png").status == 0
    monkeypatch.setattr("panorama.store.opening._can_write", lambda root: False)
    assert len(run("exemplars", "red", "--json").json) == 1
    assert run("exemplars", "red", "--sheet", "red-sheet.png").status == 0
    (row,) = run("exemplars", "red", "--json").json
    assert "open for reading only" in run("exemplars", "red", "--remove", row["exemplar"]).err


def test_info_says_with_which_embedder_the_library_is_searched(run, tmp_path):
    write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4")
    told = run("info", "--json").json["embedder"]
    assert told == {"name": "color-bands", "hash": ColorEmbedder().hash[:12], "folder": None}
    assert "\nembedder: color-bands\n" in run("info").out
    facts = run("info", "--json").json
    assert facts["total"] == sum(facts["bytes"].values()) > 0
    mine = tmp_path / "mine"
    shutil.copytree(content_dir("embeddings") / "panoramanet", mine)
    with panorama.open("panorama-library") as library:
        library.put_setting("embedder", str(mine))  # as `index --model mine` does, without its vectors
        assert library.embedder_folder == mine
    told = run("info", "--json").json["embedder"]
    assert (told["name"], told["folder"]) == ("panoramanet", str(mine))
    assert f"\nembedder: panoramanet in {mine}\n" in run("info").out
    shutil.rmtree(mine)
    told = run("info", "--json").json["embedder"]
    assert told == {"name": None, "hash": None, "folder": str(mine)}
    assert f"\nembedder: unknown in {mine}\ncalibration: unknown: no embedder" in run("info").out


def test_info_tells_models_of_one_name_apart(run, tmp_path):
    """Two trainings' models are both called after their folder."""
    index(run, write_film(tmp_path / "a.mp4", FILM).name)
    with panorama.open("panorama-library") as library:
        (model,) = library.info().models
        library._store.put_model(replace(model, hash="f" * 40))
    told = run("info", "--json").json["models"]
    assert told == [{"name": "color-bands", "hash": h} for h in (model.hash[:12], "f" * 12)]
    assert f"\nmodels: color-bands {model.hash[:12]}, color-bands ffffffffffff\n" in run("info").out


def test_remove_takes_names_or_paths_all_or_none(run, tmp_path):
    write_film(tmp_path / "x" / "a.mp4", FILM)
    write_film(tmp_path / "x" / "b.mp4", [Thing("blue", 0, 30)])
    index(run, "x")
    wrong = run("remove", "a.mp4", "bb.mp4")
    assert wrong.status == 1
    assert "UnknownVideo: no video 'bb.mp4'. Did you mean 'b.mp4'" in wrong.err
    assert videos(run) == ["a.mp4", "b.mp4"]
    assert run("remove", "x/a.mp4").status == 0
    assert videos(run) == ["b.mp4"]
    assert (tmp_path / "x" / "a.mp4").exists()


def test_after_a_removal_the_folder_is_indexed_for_that_file_only(run, tmp_path):
    for name, colour in {"a.mp4": "red", "b.mp4": "blue", "c.mp4": "green"}.items():
        write_film(tmp_path / "x" / name, [Thing(colour, 0, 30)])
    index(run, "x")
    tracks = "SELECT video, track_id FROM tracks ORDER BY ALL"
    before = run("query", tracks, "--format", "json").json
    assert run("remove", "b.mp4").status == 0
    assert "1 indexed, 2 skipped" in index(run, "x").err
    assert videos(run) == ["a.mp4", "b.mp4", "c.mp4"]
    after = run("query", tracks, "--format", "json").json
    kept = [row for row in before if row["video"] != "b.mp4"]
    assert [row for row in after if row["video"] != "b.mp4"] == kept
    assert len(after) == len(before)
    assert "0 indexed, 3 skipped" in index(run, "x").err


@pytest.mark.parametrize(
    "words",
    [
        ["videos"],
        ["info"],
        ["entities"],
        ["exemplars", "x"],
        ["remove", "a.mp4"],
        ["compact"],
        ["query", "SELECT 1"],
        ["register", "x", "a.png"],
        ["rename", "x", "y"],
        ["drop", "x"],
        ["forget", "x", "--yes"],
        ["verify", "a.png", "a.png"],
    ],
)
def test_commands_refuse_where_there_is_no_library(run, tmp_path, words):
    done = run(*words)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("LibraryNotFound: no library at")
    assert "index VIDEO" in done.err
    assert not (tmp_path / "panorama-library").exists()


def test_the_library_is_named_before_or_behind_the_command_or_by_the_environment(run, tmp_path, monkeypatch):
    write_film(tmp_path / "a.mp4", FILM)
    assert index(run, "a.mp4", "--library", "one").status == 0
    assert run("--library", "two", "index", "a.mp4", "--model", "color-bands").status == 0
    assert run("remove", "a.mp4", "--library", "two").status == 0
    counts = {name: len(run("videos", "--json", "--library", name).json) for name in ("one", "two")}
    assert counts == {"one": 1, "two": 0}
    assert run("--library", "two", "videos", "--json", "--library", "one").json
    monkeypatch.setenv("PANORAMA_LIBRARY", str(tmp_path / "one"))
    assert len(run("videos", "--json").json) == 1


def test_a_path_that_is_no_library_is_refused_in_one_line(run, tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine.txt").write_text("x")
    write_film(tmp_path / "a.mp4", FILM)
    for place in ("file", "folder"):
        done = index(run, "a.mp4", "--library", place)
        assert done.status in (1, 2) and "is not a library" in done.err
        assert "Traceback" not in done.err
    assert sorted(p.name for p in (tmp_path / "folder").iterdir()) == ["mine.txt"]
