"""What is said of the tracks that go with a thing, and of the uncertain ones that stay."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import Ran
from fakes import thing_picture, write_picture
from store_samples import full_after

from panorama.album.forgetting import SHOWN_TRACKS, Seen, seen_of
from panorama.lines import shell_line
from panorama.opening import open_library
from panorama.store import Store, segment_of
from panorama.store.upkeep import rewrite


@pytest.fixture
def doubtful(run: Callable[..., Ran], asked: Path) -> list[int]:
    """An entity "Erika's car", mostly red with a green stripe: what is red is like it, but not for sure."""
    mixed = thing_picture("red")
    mixed[:, 51:] = thing_picture("green")[:, 51:]
    run("register", "Erika's car", write_picture(asked / "mixed.png", mixed))
    rows = run("query", "SELECT tracks WHERE entity = 'Erika''s car' AND band = 'uncertain'", "--json").json
    return [row["track_id"] for row in sorted(rows, key=lambda row: -row["score"])]


def said_query(text: str) -> str:
    """The SQL of the one command that a text names."""
    (command,) = re.findall(r"panorama query .*? --sheet uncertain\.jpg", text)
    return shlex.split(command)[2]


def test_forget_says_which_tracks_stay_and_how_they_are_seen(run, asked, doubtful, monkeypatch) -> None:
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    before = run("forget", "Erika's car", "--with-sightings")
    count = len(doubtful)
    assert before.status == 1 and "the stored pictures of 0 tracks are erased with it" in before.err
    assert f"{count} tracks are uncertain and keep their pictures" in before.err
    command = shell_line(["panorama", "register", "Erika's car", "--track"])
    assert f"{command} ID, and its pictures are erased, too" in before.err
    shown = run("query", said_query(before.err), "--json").json
    assert sorted(row["track_id"] for row in shown) == sorted(doubtful)

    run("register", "Erika's car", "--track", doubtful[0])
    done = run("forget", "Erika's car", "--with-sightings", "--yes")
    sure = re.search(r"forgot Erika's car, and the stored pictures of (\d) tracks?\n", done.err)
    assert done.status == 0 and sure is not None and int(sure[1]) >= 1
    crops = run("query", f"SELECT count(*) AS n FROM crops WHERE track_id = {doubtful[0]}", "--json").json
    assert crops == [{"n": 0}]


def test_afterwards_the_tracks_that_stay_are_asked_for_by_number(run, asked, doubtful) -> None:
    done = run("forget", "Erika's car", "--with-sightings", "--yes")
    assert "forgot Erika's car, and the stored pictures of 0 tracks\n" in done.err
    shown = run("query", said_query(done.err), "--json").json
    assert sorted(row["track_id"] for row in shown) == sorted(doubtful)
    assert "panorama remove VIDEO" in done.err
    assert run("query", said_query(done.err), "--sheet", "uncertain.jpg").status == 0
    assert (asked / "uncertain.jpg").exists()


def test_forgetting_without_sightings_speaks_of_no_track(run, asked, doubtful) -> None:
    assert run("forget", "Erika's car", "--yes").err == "forgot Erika's car\n"


def test_the_statement_and_the_library_say_it_too(run, asked, doubtful) -> None:
    with open_library(asked / "panorama-library") as library:
        told = library.query("FORGET ENTITY 'Erika''s car' WITH SIGHTINGS").warnings
        assert len(told) == 1 and f"{len(doubtful)} tracks are uncertain" in told[0]
        seen = library.forget("red", with_sightings=True)
        assert seen is not None and len(seen.accepted) > 0
        assert library.forget("blue") is None


def test_tracks_of_a_video_and_its_copy_count_once(run, asked, doubtful) -> None:
    """Each was counted as often as its video has copies, and named so often."""
    shutil.copytree(asked / "v", asked / "copies")
    run("index", "copies", "--model", "color-bands", "--fps", "10")
    with open_library(asked / "panorama-library") as library:
        sure = library.query("SELECT track_id FROM sightings WHERE entity = 'red'").fetchall()
        found = seen_of(library, "red").accepted.tolist()
        assert 2 * len(found) == len(sure) > 0 and set(found) == {track for (track,) in sure}
        assert seen_of(library, "Erika's car").uncertain.tolist() == doubtful


@pytest.fixture
def half(asked: Path) -> list[int]:
    """The tracks of yard/b.mp4, whose vectors are of another model, as if `index` had broken off."""
    with open_library(asked / "panorama-library") as library:
        tracks = library.query("SELECT track_id FROM tracks WHERE video = 'yard/b.mp4'").fetchall()
    with Store.open(asked / "panorama-library") as store, store._place.catalog.write() as tx:
        tx.run(
            "UPDATE files SET model_hash = :other WHERE table_name = 'embeddings' AND file_id IN"
            " (SELECT file_id FROM file_segments WHERE segment_id = :segment)",
            other="0" * 64,
            segment=int(segment_of(tracks[0][0])),
        )
        tx.run("UPDATE counters SET value = value + 1")
    return [track for (track,) in tracks]


def test_videos_that_could_not_be_searched_are_told_before_and_afterwards(
    run, asked, half, monkeypatch
) -> None:
    """Their tracks stayed, and nothing was said of them."""
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    told = "may {} their pictures.*: 1 video is not searched: indexed with another model"
    assert re.search(told.format("keep"), run("forget", "red", "--with-sightings").err)
    assert re.search(told.format("keep"), run("query", "FORGET ENTITY 'red' WITH SIGHTINGS").err)
    with open_library(asked / "panorama-library") as library:
        (warned,) = library.query("FORGET ENTITY 'blue' WITH SIGHTINGS").warnings
        assert re.search(told.format("have kept"), warned)
    done = run("forget", "red", "--with-sightings", "--yes")
    assert done.status == 0 and re.search(told.format("have kept"), done.err)


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_registered_track_goes_though_its_video_cannot_be_searched(run, asked, half, is_lost) -> None:
    """It was not matched without vectors, and its pictures stayed."""
    with open_library(asked / "panorama-library") as library:
        library.register_seen("somebody", track_ids=half[:1])
        library.register_seen("nobody", track_ids=half[1:2])
        library.register_seen("nobody", track_ids=half[1:2], look_alike=True)
        if is_lost:  # the vectors of its picture, and the picture that they are computed from
            library.exemplars("somebody")[0].picture.unlink()
    if is_lost:
        with Store.open(asked / "panorama-library") as store, store._place.catalog.write() as tx:
            tx.run("DELETE FROM exemplar_vectors")
            tx.run("UPDATE counters SET value = value + 1")
    with open_library(asked / "panorama-library") as library:
        assert seen_of(library, "nobody").accepted.tolist() == [], "it was denied since"
        seen = library.forget("somebody", with_sightings=True)
        assert seen is not None and half[0] in seen.accepted.tolist()
        crops = library.query("SELECT DISTINCT track_id FROM crops WHERE video = 'yard/b.mp4'").fetchall()
        assert half[0] not in [track for (track,) in crops]


def test_of_many_tracks_the_likeliest_are_named() -> None:
    seen = Seen("cat", np.zeros(0, np.int64), np.arange(100, 100 + SHOWN_TRACKS + 5))
    (text,) = seen.after()
    assert text.startswith(
        f"25 tracks are uncertain and keep their pictures; see, the {SHOWN_TRACKS} most alike:"
    )
    assert said_query(text).endswith("118, 119)")
    (one,) = Seen("cat", np.zeros(0, np.int64), np.array([7])).after()
    assert one.startswith("1 track is uncertain and keeps its pictures; see: panorama query")
    assert Seen("cat", np.arange(3), np.zeros(0, np.int64)).after() == []


def after_their_vectors(library: Path) -> None:
    """Writes the crops anew: forgetting goes through the files in the order in which they were written."""
    with Store.open(library) as store:
        crops = [source for source in rewrite._sources(store._place) if source.table == "crops"]
        assert rewrite._swap(store._place, crops, None, erase=False)


@pytest.mark.parametrize("written", [1, 2])
@pytest.mark.parametrize("flag", [["--with-sightings"], []])
def test_forgetting_that_broke_off_goes_on_with_what_matches_no_more(
    run, asked, monkeypatch, written, flag
) -> None:
    """A track without its vectors is matched to nothing: its pictures stayed, and 0 tracks were told."""
    library = asked / "panorama-library"
    after_their_vectors(library)
    with open_library(library) as opened:
        red = seen_of(opened, "red").accepted.tolist()
    with full_after(written):
        assert run("forget", "red", "--with-sightings", "--yes").status == 1

    assert run("rename", "red", "rouge").status == 0
    assert run("index", "v").status == 0  # it embeds the crops that lost their vectors
    told = f"the stored pictures of {len(red)} tracks"
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    assert told in run("forget", "rouge", *flag).err
    with_its = "WITH SIGHTINGS" if flag else ""
    assert told in run("query", f"FORGET ENTITY 'rouge' {with_its}").err
    done = run("forget", "rouge", *flag, "--yes")
    assert done.status == 0 and told in done.err
    with Store.open(library) as store:
        snapshot = store.snapshot()
        vectors = [file.path for files in snapshot.embeddings.values() for file in files]
        for path in (*snapshot.files["crops"], *vectors):
            tracks = pq.read_table(path)["track_id"].to_pylist()
            assert tracks and not set(tracks) & set(red)
    with Store.open(library) as store, store._place.catalog.read() as tx:
        assert tx.scalar("SELECT count(*) FROM meta WHERE key LIKE 'forgetting%'") == 0
