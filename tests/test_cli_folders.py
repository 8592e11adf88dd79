"""`panorama index` of folders: which of pictures are videos, at which rate, and what is told of others."""

from __future__ import annotations

import shutil
import sqlite3

import av
from fakes import Thing, scene, thing_picture, write_film, write_picture

import panorama
from panorama.indexing import intake
from panorama.store.catalog.migrations import CATEGORY
from panorama.tune.search import _without_own_clips
from panorama.video import find_videos
from panorama.video.own_clips import is_own_clip

FILM = [Thing("red", 5, 35)]


def index(run, *words):
    return run("index", *words, "--model", "color-bands")


def videos(run):
    return [row["video"] for row in run("videos", "--json").json]


def test_folders_of_pictures_that_became_videos_are_told(run, tmp_path):
    write_film(tmp_path / "v" / "a.mp4", FILM)
    for name in ("red", "blue"):
        for number in range(3):
            write_picture(tmp_path / "v" / name / f"shot{number}.png", thing_picture(name))
    told = index(run, "v").err
    assert "2 folders of pictures were read as a video each, 5 pictures a second: v/blue, ..." in told
    assert "folders of pictures" not in index(run, "v").err  # nothing is new


def test_pictures_of_a_folder_that_change_names_are_noticed(run, tmp_path):
    """It was unchanged since it was indexed, and boxes were drawn on other pictures than they are of."""
    folder = tmp_path / "v" / "walk"
    for number, color in enumerate(("red", "blue", "green")):
        write_picture(folder / f"shot{number}.png", scene(0, [Thing(color, 0, 9, left=10 + 30 * number)]))
    index(run, "v")
    write_picture(tmp_path / "red.png", thing_picture("red"))
    run("register", "red", "red.png")
    show = ("query", "SELECT moments WHERE entity = 'red' AND score >= 0", "--sheet", "hits.png")
    told = "the file of walk has changed since it was indexed"
    assert "changed" not in run(*show).err
    assert "unchanged since they were indexed: 1 file," in index(run, "v").err
    (folder / "shot0.png").rename(folder / "aside")
    (folder / "shot2.png").rename(folder / "shot0.png")
    (folder / "aside").rename(folder / "shot2.png")
    assert told in run(*show).err and told in run("videos").err
    assert "1 indexed" in index(run, "v").err
    assert "changed" not in run(*show).err + run("videos").err


def test_folders_of_pictures_that_took_each_others_names_are_not_decoded_again(run, tmp_path):
    for count, name in ((2, "a"), (4, "b")):
        for number in range(count):
            write_picture(tmp_path / "v" / name / f"shot{number}.png", scene(number, FILM))
    index(run, "v")
    (tmp_path / "v" / "a").rename(tmp_path / "aside")
    (tmp_path / "v" / "b").rename(tmp_path / "v" / "a")
    (tmp_path / "aside").rename(tmp_path / "v" / "b")
    assert "0 indexed, 2 skipped, 0 failed" in index(run, "v").err
    shown = run("videos", "--json")
    assert {row["video"]: row["frames"] for row in shown.json} == {"a": 4, "b": 2} and not shown.err


def test_a_folder_that_was_indexed_before_names_counted_is_looked_at_once_more(run, tmp_path):
    for number in range(3):
        write_picture(tmp_path / "v" / "walk" / f"shot{number}.png", thing_picture("red"))
    index(run, "v")
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE videos SET mtime_ns = 1700000000000000000, content_sample = NULL")
    assert "changed" not in run("videos").err
    assert "0 indexed, 1 skipped" in (first := index(run, "v").err)
    assert "the same content is indexed already" in first
    assert "unchanged since they were indexed: 1 file," in index(run, "v").err


def test_pictures_that_are_no_video_are_told_what_would_be(run, tmp_path):
    """A folder of 'bild 001 süd.jpg' was counted among what is ignored, and that was all."""
    for number in range(2):
        write_picture(tmp_path / "v" / "red ones" / f"bild {number:03d} süd.jpg", thing_picture("red"))
        write_picture(tmp_path / "w" / f"bild {number:03d}.jpg", thing_picture("red"))
    told = run("index", "v", "--model", "color-bands").err
    assert "have the same name with a number at its end, such as IMG_0001.jpg" in told
    assert "panorama index 'v/red ones'\n" in told
    told = index(run, "w").err
    assert "1 folder of pictures was read as one video, 5 pictures a second: w" in told
    assert "IMG_0001" not in told


def test_an_album_beside_the_footage_is_no_video_and_how_to_make_it_one_is_told(run, tmp_path):
    """Its pictures were videos, and the best hits of what they are examples of."""
    write_film(tmp_path / "v" / "a.mp4", FILM)
    for number in (1, 2):
        write_picture(tmp_path / "v" / "album" / "red" / f"{number}.png", thing_picture("red"))
    told = index(run, "v").err
    assert videos(run) == ["a.mp4"] and "read as" not in told
    assert "IMG_0001.jpg or 0001.jpg; one or two digits alone, such as 1.jpg, do not count: that may" in told
    assert "panorama index v/album/red\n" in told
    assert "1 folder of pictures was read as one video" in index(run, "v/album/red").err
    assert "0 indexed, 2 skipped, 0 failed\n" in index(run, "v").err


def test_a_folder_of_pictures_that_is_named_is_a_video_whatever_they_are_called(run, tmp_path):
    """Of a camera trap whose pictures are called by dates nothing could be indexed."""
    for name in ("2026-03-01 07-10", "2026-03-02 19-45", "owl"):
        write_picture(tmp_path / "trap" / f"{name}.jpg", thing_picture("red"))
    told = index(run, "trap").err
    assert "1 folder of pictures was read as one video, 5 pictures a second: trap" in told
    assert "ignored" not in told
    rows = run("query", "SELECT video, frames FROM videos", "--json").json
    assert rows == [{"video": "trap", "frames": 3}]
    assert "0 indexed, 1 skipped, 0 failed" in index(run, "trap").err
    # Once it is a video, it is one where it is found in another folder, too.
    assert "0 indexed, 1 skipped, 0 failed\n" in index(run, ".").err
    write_picture(tmp_path / "trap" / "zebra.jpg", thing_picture("blue"))
    told = index(run, ".").err
    assert "1 indexed" in told and "ignored" not in told
    write_film(tmp_path / "trap" / "a.mp4", FILM)
    told = index(run, ".").err
    assert "indexed  trap/a.mp4" in told and "ignored in folders: 4 .jpg" in told


def test_pictures_beside_videos_are_no_video_and_naming_their_folder_is_not_advised(run, tmp_path):
    write_film(tmp_path / "v" / "a.mp4", FILM)
    for name in ("owl", "fox"):
        write_picture(tmp_path / "v" / f"{name}.jpg", thing_picture("red"))
    told = index(run, "v").err
    assert videos(run) == ["a.mp4"]
    assert "ignored in folders: 2 .jpg" in told and "panorama index" not in told


def test_a_folder_of_numbered_pictures_is_one_video_and_notices_a_changed_picture(run, tmp_path):
    folder = tmp_path / "shots" / "walk"
    for number in range(12):
        write_picture(folder / f"shot{number}.png", scene(number, FILM))
    assert "1 indexed" in index(run, "shots").err
    assert [(r["video"], r["frames"]) for r in run("videos", "--json").json] == [("walk", 12)]
    assert "1 skipped" in index(run, "shots").err
    write_picture(folder / "shot11.png", scene(30, FILM))
    assert "1 indexed" in index(run, "shots").err
    assert videos(run) == ["walk"]


def test_each_picture_of_a_folder_is_looked_at(run, tmp_path):
    """Four of five pictures of a camera trap were passed over, as frames of a video are."""
    for number in range(12):
        things = [Thing("red", 0, 1)] if number == 7 else [Thing("blue", 0, 1, left=number)]
        write_picture(tmp_path / "trap" / f"IMG_{number:04d}.png", scene(0, things))
    index(run, "trap")
    write_picture(tmp_path / "red.png", thing_picture("red"))
    run("register", "fox", "red.png")
    rows = run("query", "SELECT frames WHERE entity = 'fox'", "--format", "json").json
    assert [(row["frame"], round(row["time"], 6)) for row in rows] == [(7, 1.4)]


def test_an_example_from_a_folder_of_pictures_is_called_by_its_picture(run, tmp_path):
    """It was called by the folder and a second that nobody chose."""
    for number in range(4):
        write_picture(tmp_path / "trap" / f"IMG_{number:04d}.png", scene(number, [Thing("red", 0, 9)]))
    index(run, "trap")
    asked = ("x", "--video", "trap", "--at", "0.4", "--box", "0,0,90,60")
    assert run("register", *asked).status == 0
    (example,) = run("exemplars", "x", "--json").json
    assert example["source"] == "trap/IMG_0002.png [0,0,90,60]"


def test_a_folder_that_was_read_at_another_rate_is_indexed_anew(run, tmp_path):
    for number in range(3):
        write_picture(tmp_path / "trap" / f"shot{number}.png", scene(number, FILM))
    write_film(tmp_path / "film.mp4", FILM)
    index(run, "trap", "film.mp4")
    with sqlite3.connect(tmp_path / "panorama-library" / "catalog.sqlite") as catalog:
        catalog.execute("UPDATE videos SET content_hash = 'at 25 a second', content_sample = NULL"
                        " WHERE name = 'trap'")  # fmt: skip
        catalog.execute("UPDATE segments SET content_hash = 'at 25 a second' WHERE content_hash NOT IN"
                        " (SELECT content_hash FROM videos)")  # fmt: skip
        catalog.execute(CATEGORY[-1])
    assert "1 indexed, 1 skipped" in index(run, "trap", "film.mp4").err
    assert "0 indexed, 2 skipped" in index(run, "trap", "film.mp4").err


def test_another_library_in_a_folder_is_called_what_it_is(run, tmp_path):
    write_film(tmp_path / "a.mp4", FILM)
    write_picture(tmp_path / "red.png", thing_picture("red"))
    for words in (("index", "a.mp4", "--model", "color-bands"), ("register", "red", "red.png")):
        assert run("--library", "old/other lib", *words).status == 0
    for named in ("old", "old/other lib"):
        done = index(run, named)
        assert done.status == 3 and "album" not in done.err and "ignored" not in done.err
        assert "old/other lib is a Panorama library, not footage; " in done.err
        assert "panorama --library 'old/other lib' query" in done.err
        assert not (tmp_path / "panorama-library").exists()
    shutil.copytree(tmp_path / "old" / "other lib", tmp_path / "old" / "third")
    write_film(tmp_path / "old" / "b.mp4", [Thing("blue", 0, 20)])
    assert "old/other lib is a Panorama library (like 1 more)" in index(run, "old").err
    assert videos(run) == ["b.mp4"]
    shutil.rmtree(tmp_path / "old")
    assert "Panorama library" not in index(run, ".").err  # its own lies there


def test_clips_that_were_cut_out_of_footage_are_no_footage(run, asked, monkeypatch):
    """Hits of a hit were found, at the camera 'hits' and at times that no camera had recorded."""
    sql = "SELECT moments WHERE entity = 'red'"
    told = run("query", sql, "--clips", "v/hits").err
    clips = sorted(path.relative_to(asked).as_posix() for path in (asked / "v" / "hits").iterdir())
    assert f"{len(clips)} clips written" in told and len(clips) == 2
    with av.open(str(asked / clips[0])) as clip, av.open("v/hits/again.mp4", "w") as copy:
        copy.metadata.update(clip.metadata)
        stream = copy.add_stream_from_template(clip.streams.video[0])
        for packet in clip.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                copy.mux(packet)
    opened = []
    monkeypatch.setattr(intake, "is_own_clip", lambda path: opened.append(path) or is_own_clip(path))
    done = index(run, "v")
    assert "0 indexed, 5 skipped, 0 failed" in done.err and done.status == 0
    assert "3 clips that Panorama wrote were skipped: v/hits/again.mp4, ...; to index one, name" in done.err
    # What is known is not opened for it.
    assert {path.parent.name for path in opened} == {"hits"}
    with panorama.open("panorama-library") as library:
        found = _without_own_clips(find_videos(["v"]), library)
        assert [video.name for video in found.videos] == ["gate/a.mp4", "yard/b.mp4"]
        assert len(_without_own_clips(find_videos([clips[0]]), library).videos) == 1
    assert {row["camera"] for row in run("videos", "--json").json} == {"gate", "yard"}
    # A file that is named is meant, and stays when its folder is searched.
    assert "1 indexed, 0 skipped" in index(run, clips[0]).err
    assert "2 clips that Panorama wrote" in index(run, "v").err
    assert len(run("videos", "--json").json) == 3
    # Also where it is written anew, so that no row is left of a file that is no more.
    run("query", sql.replace("red", "blue"), "--clips", "v/other")
    (written,) = (asked / "v" / "other").iterdir()
    written.replace(asked / clips[0])
    assert "1 indexed" in index(run, "v").err and not run("videos").err
