"""`panorama index` and `videos`: what is found, kept, skipped, replaced and told."""

from __future__ import annotations

import os
import re
import shutil
import sys

import av
import pytest
from clips import cut_off, write_audio, write_video
from fakes import Thing, thing_picture, write_film, write_picture

from panorama.content import content_dir
from panorama.models.color import ColorEmbedder

FILM = [Thing("red", 5, 35)]


def index(run, *words):
    return run("index", *words, "--model", "color-bands")


def videos(run):
    return [row["video"] for row in run("videos", "--json").json]


def test_index_makes_the_library_and_says_what_it_did(run, tmp_path):
    write_film(tmp_path / "archive" / "gate" / "a.mp4", FILM)
    (tmp_path / "archive" / "notes.txt").write_text("not a video")
    done = index(run, "archive")
    assert done.status == 0
    assert done.out == ""
    assert "indexed  gate/a.mp4: 40 frames, 1 track," in done.err
    assert "1 indexed, 0 skipped, 0 failed" in done.err
    assert "ignored in folders: 1 .txt" in done.err
    assert (tmp_path / "panorama-library" / "catalog.sqlite").is_file()
    listed = run("videos", "--json").json
    assert [(row["video"], row["camera"], row["frames"]) for row in listed] == [("gate/a.mp4", "gate", 40)]


def test_json_prints_one_object_per_file_and_nothing_else(run, tmp_path):
    write_film(tmp_path / "a.mp4", FILM)
    (tmp_path / "b.mp4").write_text("no video")
    done = index(run, "a.mp4", "b.mp4", "c.mp4", "--json")
    assert done.status == 3
    assert [(row["path"], row["status"]) for row in done.json_lines] == [
        ("a.mp4", "indexed"),
        ("b.mp4", "failed"),
        ("c.mp4", "failed"),
    ]
    assert done.json_lines[0]["frames"] == 40 and done.json_lines[0]["stage_seconds"]["decode"] > 0


def test_what_gives_no_segment_is_listed_at_the_end_with_status_3(run, tmp_path):
    write_film(tmp_path / "a.mp4", FILM)
    (tmp_path / "text.mp4").write_text("this is no video")
    (tmp_path / "empty.mp4").touch()
    write_audio(tmp_path / "sound.mp4")
    done = index(run, "text.mp4", "empty.mp4", "sound.mp4", "nosuch.mp4", "a.mp4")
    assert done.status == 3
    tail = done.err[done.err.index("1 indexed, 0 skipped, 4 failed") :]
    for name in ("text.mp4", "empty.mp4", "sound.mp4", "nosuch.mp4"):
        assert name in tail
    assert videos(run) == ["a.mp4"]


def test_a_partly_decodable_file_is_listed_with_status_0(run, tmp_path):
    whole = write_video(tmp_path / "whole.mkv", "libx264", frames=200)
    cut_off(whole.path, tmp_path / "cut.mkv", 0.6)
    done = index(run, "cut.mkv")
    assert done.status == 0
    assert "read, with losses or assumptions:\n  cut.mkv: partly damaged" in done.err
    again = index(run, "cut.mkv")
    assert again.status == 0
    assert "1 skipped" in again.err and "cut.mkv" not in again.err
    assert "\nindexed earlier with losses or assumptions: 1 file, which -v lists\n" in again.err
    assert "read, with losses or assumptions:\n  cut.mkv: partly" in index(run, "cut.mkv", "-v").err
    row = run("videos", "--json").json[0]
    assert 0 < row["frames"] < 200 and "partly damaged" in row["decode_note"]


def test_of_several_video_streams_it_is_told_that_one_was_read(run, tmp_path):
    """The rear picture of a car's camera was left out without a word."""
    film = write_film(tmp_path / "front.mp4", FILM)
    with (
        av.open(str(film)) as front,
        av.open(str(film)) as rear,
        av.open(str(tmp_path / "car.mp4"), "w") as car,
    ):
        packets = [list(source.demux(video=0)) for source in (front, rear)]
        streams = [car.add_stream_from_template(source.streams.video[0]) for source in (front, rear)]
        for packet, stream in ((p, s) for pair, s in zip(packets, streams, strict=True) for p in pair):
            if packet.dts is not None:
                packet.stream = stream
                car.mux(packet)
    done = index(run, "car.mp4")
    told = "car.mp4: one of 2 video streams was read; extract the others with ffmpeg -map"
    assert done.status == 0 and f"read, with losses or assumptions:\n  {told}" in done.err
    assert told.endswith(run("videos", "--json").json[0]["decode_note"])


def test_a_repaired_clock_is_no_lost_packet(run, tmp_path):
    """Of files joined end to end it was told: 0 packets lost."""
    part = write_video(tmp_path / "part.ts", "libx264", frames=60).path.read_bytes()
    (tmp_path / "joined.ts").write_bytes(part * 3)
    done = index(run, "joined.ts")
    assert "partly damaged: 2 presentation times were missing or repeated and were filled in" in done.err


def test_a_video_whose_file_is_gone_is_marked_until_it_is_found_again(run, tmp_path):
    for name in ("a", "b"):
        write_film(tmp_path / "v" / f"{name}.mp4", [Thing("red", 2, 12, left=40 * (name == "b"))], frames=12)
    run("index", "v", "--model", "color-bands")
    assert run("videos").err == "" and "missing" not in run("videos").out.split("\n", 1)[1]
    (tmp_path / "v" / "b.mp4").rename(tmp_path / "b.mp4")
    marked = run("videos", "--json")
    assert [(row["video"], row["missing"]) for row in marked.json] == [("a.mp4", False), ("b.mp4", True)]
    assert marked.err.startswith("1 file is missing: ") and marked.err.count("\n") == 1
    assert [line.endswith("  missing") for line in run("videos").out.splitlines()] == [True, False, True]
    run("index", "b.mp4", "--model", "color-bands")
    assert [row["missing"] for row in run("videos", "--json").json] == [False, False]


def test_index_tells_of_videos_that_are_gone_from_the_folder(run, tmp_path, monkeypatch):
    """`index` of a folder said nothing of them; only `videos` did."""
    for number in range(7):
        write_film(tmp_path / "[v]" / f"{number}.mp4", [Thing("red", 2, 12, left=9 * number)], frames=12)
    write_film(tmp_path / "other" / "x.mp4", [Thing("blue", 2, 12)], frames=12)
    monkeypatch.chdir(tmp_path / "[v]")  # that brackets make no pattern of what stands before one
    run("index", ".", tmp_path / "other", "--model", "color-bands")
    (tmp_path / "other" / "x.mp4").unlink()
    (tmp_path / "[v]" / "6.mp4").rename(tmp_path / "[v]" / "six.mp4")
    moved = run("index", tmp_path / "[v]")
    assert moved.status == 0 and "missing" not in moved.err
    (tmp_path / "[v]" / "1.mp4").unlink()
    for words in ((".",), ("*.mp4",), (tmp_path,), (tmp_path / "[v]", "--json")):
        told = run("index", *words).err
        others = "2 videos that were indexed there are missing now, 1.mp4, x.mp4"
        one = "1 video that was indexed there is missing now, 1.mp4"
        assert f"{others if words == (tmp_path,) else one}: queries answer as before" in told
        assert (
            told.count(" missing now, ") == 1
            and "index a moved file where it is now, or remove the video: `panorama remove --missing`" in told
        )
    assert "missing" not in run("index", "2.mp4").err
    for number in (0, 2, 3, 4, 5):
        (tmp_path / "[v]" / f"{number}.mp4").unlink()
    told = run("index", tmp_path / "[v]").err
    assert (
        "6 videos that were indexed there are missing now, 0.mp4, 1.mp4, 2.mp4, 3.mp4, 4.mp4 and 1 more"
        in told
    )
    assert len(run("videos", "--json").json) == 8  # nothing is removed by itself
    (tmp_path / "other").rmdir()
    assert f"{one.replace('1.mp4', 'x.mp4')}: queries" in run("index", tmp_path / "other").err


def test_a_video_that_was_replaced_is_told_where_its_pictures_are_shown(run, tmp_path):
    """Sheets and clips drew the boxes of the old file on pictures of the new one, without a word."""
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 2, 12)], frames=12)
    write_film(tmp_path / "v" / "b.mp4", [Thing("red", 2, 12, left=40)], frames=12)
    run("index", "v", "--model", "color-bands")
    write_picture(tmp_path / "red.png", thing_picture("red"))
    run("register", "red", "red.png")
    show = ("query", "SELECT moments WHERE entity = 'red' AND score >= 0", "--sheet", "hits.png")
    told = "the file of a.mp4 has changed since it was indexed"
    assert "changed" not in run(*show).err
    write_film(tmp_path / "v" / "a.mp4", [Thing("blue", 1, 30, top=60)], frames=30)
    assert run(*show).err.count(told) == 1 and "b.mp4" not in run(*show).err
    assert run("videos", "--json").err.startswith(told)
    run("index", "v")
    assert "changed" not in run(*show).err + run("videos").err


def test_nothing_to_index_makes_no_library(run, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.txt").touch()
    for words, reason in (
        (["nosuch"], "no such file"),
        (["photos"], "holds no video"),
        (["*.avi"], "no such"),
    ):
        done = index(run, *words)
        assert done.status == 3
        assert words[0] in done.err and reason in done.err
    write_film(tmp_path / "a.mp4", FILM)
    wrong = run("index", "a.mp4", "--model", "color-band")
    assert wrong.status == 1 and "Did you mean 'color-bands'" in wrong.err
    assert not (tmp_path / "panorama-library").exists()


def test_indexing_again_skips_and_a_changed_file_is_replaced(run, tmp_path):
    film = write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4")
    again = index(run, "a.mp4", "-v").err
    assert "skipped  a.mp4: unchanged since it was indexed\n" in again
    assert "0 indexed, 1 skipped" in again and "real time" not in again
    write_film(film, FILM, frames=25)
    assert "1 indexed, 0 skipped" in index(run, "a.mp4").err
    assert [(r["video"], r["frames"]) for r in run("videos", "--json").json] == [("a.mp4", 25)]
    assert run("query", "SELECT count(*) AS n FROM frames", "--format", "json").json == [{"n": 25}]


def test_control_characters_in_a_name_are_shown_as_escapes(run, tmp_path):
    write_film(tmp_path / "archive" / "two\nlines \x1b[2J.mp4", FILM)
    (tmp_path / "archive" / "no\nfilm.mp4").write_text("no video")
    done = index(run, "archive")
    assert "indexed  two\\nlines \\x1b[2J.mp4: 40 frames" in done.err
    assert "archive/no\\nfilm.mp4 is not a video" in done.err and "\x1b" not in done.err
    assert run("videos").out.splitlines()[1].startswith("two\\nlines \\x1b[2J.mp4  ")
    assert videos(run) == ["two\nlines \x1b[2J.mp4"]
    table = run("query", "SELECT video FROM videos").out
    assert "two\\nlines \\x1b[2J.mp4" in table
    lost = run("why", "x", "archive\x1b.mp4", "--at", "1")
    assert lost.status == 1 and "\x1b" not in lost.err


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
def test_a_name_that_is_no_text_is_reported_and_the_others_are_indexed(run, tmp_path):
    film = write_film(tmp_path / "v" / "a.mp4", FILM)
    shutil.copy(film, os.fsdecode(os.fsencode(tmp_path / "v") + b"/bad\xff.mp4"))
    done = index(run, "v")
    assert done.status == 3 and "defect" not in done.err
    assert "bad\\udcff.mp4 has a name that is not UTF-8 text; rename the file" in done.err
    assert videos(run) == ["a.mp4"]


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
def test_a_link_whose_name_is_no_text_is_reported_and_the_others_are_indexed(run, tmp_path):
    """What it leads to has a good name, so it got as far as the catalog, and the run ended there."""
    for frames, name in enumerate(("v/a.mp4", "disk/x.mp4", "v/z.mp4"), 40):
        write_film(tmp_path / name, FILM, frames=frames)
    (tmp_path / "v" / os.fsdecode(b"k\xf6")).symlink_to(tmp_path / "disk")
    for status, count in (("indexed", 2), ("skipped", 0)):
        done = index(run, "v", "-v")
        assert done.status == 3 and "defect" not in done.err
        assert [line.split()[0] for line in done.err.splitlines()[:3]] == [status, "failed", status]
        assert "v/k\\udcf6/x.mp4 has a name that is not UTF-8 text; rename the file" in done.err
        assert f"{count} indexed, " in done.err and videos(run) == ["a.mp4", "z.mp4"]


def test_speed_is_told_of_all_files_together(run, tmp_path):
    for name, color in (("a", "red"), ("b", "blue")):
        write_film(tmp_path / f"{name}.mp4", [Thing(color, 5, 35)])
    told = index(run, "a.mp4", "b.mp4").err.splitlines()
    assert [line.split(":")[0] for line in told] == [
        "indexed  a.mp4", "indexed  b.mp4", "2 indexed, 0 skipped, 0 failed", told[-1].split(":")[0]
    ]  # fmt: skip
    found = re.fullmatch(r"80 frames in (\S+) s: (\d+) frames/s, (\S+)x real time", told[-1])
    assert found and float(found[1]) > 0 and float(found[3]) > 0


def test_files_that_stay_as_they_are_are_counted_and_others_told_each(run, tmp_path):
    """A cron job that indexes an archive every night wrote a line for each of its thousands of files."""
    for name, color in (("a", "red"), ("b", "blue"), ("c", "green")):
        write_film(tmp_path / "v" / f"{name}.mp4", [Thing(color, 5, 35)])
    index(run, "v")
    again = "0 indexed, 3 skipped, 0 failed\nunchanged since they were indexed: 3 files, which -v lists\n"
    assert index(run, "v").err == again
    assert index(run, "v", "-v").err.count("skipped  ") == 3
    assert len(index(run, "v", "--json").out.splitlines()) == 3
    index(run, "v/b.mp4", "--fps", "9")
    shutil.copy(tmp_path / "v" / "a.mp4", tmp_path / "v" / "d.mp4")
    told = index(run, "v").err
    assert told == (
        "skipped  d.mp4: the same content is indexed already\n0 indexed, 4 skipped, 0 failed\n"
        "unchanged since they were indexed: 2 files, which -v lists\n"
        "unchanged since they were indexed with other settings: 1 file, which -v lists; --redo indexes them"
        " with the current settings\n"
    )
    assert (
        "skipped  b.mp4: unchanged since it was indexed with other settings; --redo indexes it with the"
        " current settings\n"
    ) in index(run, "v", "-v").err
    reasons = {row["video"]: row["reason"] for row in index(run, "v", "--json").json_lines}
    same = dict.fromkeys(("a.mp4", "c.mp4", "d.mp4"), "unchanged")
    assert reasons == {**same, "b.mp4": "other_settings"}
    quick = index(run, "v", "--quick").err
    assert quick.endswith("indexed already, and --quick replaces nothing: 4 files, which -v lists\n")
    (tmp_path / "v" / "c.mp4").write_bytes(b"no film")
    assert "failed   " in index(run, "v").err


def test_a_file_that_was_indexed_without_its_folder_is_told_to_keep_its_name(run, tmp_path):
    """video LIKE 'gate/%' found the others, and nobody had said why not this one."""
    write_film(tmp_path / "archive" / "gate" / "a.mp4", FILM)
    write_film(tmp_path / "archive" / "gate" / "b.mp4", [Thing("blue", 5, 35)])
    index(run, "archive/gate/a.mp4")
    told = index(run, "archive").err
    assert "1 file keeps its name, which -v lists: a.mp4 is not renamed to gate/a.mp4\n" in told
    told = index(run, "archive", "-v").err
    assert (
        "a.mp4: unchanged since it was indexed; it keeps its name and is not renamed to gate/a.mp4\n" in told
    )
    assert videos(run) == ["a.mp4", "gate/b.mp4"]
    assert "its name" not in index(run, "archive/gate").err  # gate/b.mp4 says more than b.mp4
    run("remove", "a.mp4")
    index(run, "archive")  # as the documentation says
    assert videos(run) == ["gate/a.mp4", "gate/b.mp4"]


def test_what_settings_a_known_content_has_is_told_at_once(run, tmp_path):
    """Of a file whose time alone had changed, as after an upgrade, --redo was named one `index` later."""
    film = write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4", "--fps", "9")
    os.utime(film, (0, 0))
    assert index(run, "a.mp4").err.startswith(
        "skipped  a.mp4: the same content is indexed already with other settings; --redo indexes it with"
        " the current settings\n"
    )


def test_a_renamed_file_keeps_its_segment_and_a_copy_gets_a_row(run, tmp_path):
    film = write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4")
    film.rename(tmp_path / "b.mp4")
    assert "1 skipped" in index(run, "b.mp4").err
    assert videos(run) == ["b.mp4"]
    shutil.copy(tmp_path / "b.mp4", tmp_path / "c.mp4")
    assert "the same content is indexed already" in index(run, ".").err
    assert videos(run) == ["b.mp4", "c.mp4"]
    info = run("info", "--json").json
    assert info["calibration"] == "the model's"
    assert (info["counts"]["videos"], info["counts"]["segments"]) == (2, 1)


def test_a_second_root_with_the_same_relative_name_gets_its_folder_in_front(run, tmp_path):
    write_film(tmp_path / "monday" / "gate.mp4", FILM)
    write_film(tmp_path / "tuesday" / "gate.mp4", [Thing("blue", 0, 30)])
    index(run, "monday")
    index(run, "tuesday")
    assert videos(run) == ["gate.mp4", "tuesday/gate.mp4"]


def test_another_rate_replaces_a_video_atomically(run, tmp_path):
    write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4", "--fps", "5")
    count = "SELECT count(*) AS n FROM detections"
    few = run("query", count, "--format", "json").json[0]["n"]
    assert "1 indexed" in index(run, "a.mp4", "--fps", "10").err
    many = run("query", count, "--format", "json").json[0]["n"]
    assert many > 1.5 * few > 0
    assert "1 indexed" in index(run, "a.mp4", "--every", "20").err
    assert videos(run) == ["a.mp4"]


def test_another_model_embeds_stored_crops_though_the_video_is_gone(run, tmp_path, monkeypatch):
    from panorama.models import registry

    class Other(ColorEmbedder):
        name = "other-bands"

        def __init__(self):
            super().__init__()
            self.hash = "0ther" * 8

    film = write_film(tmp_path / "a.mp4", FILM)
    index(run, "a.mp4")
    film.unlink()
    write_picture(tmp_path / "red.png", thing_picture("red"))
    assert run("register", "red", "red.png").status == 0
    (picture,) = tmp_path.rglob("album/*/*.jpg")
    picture.unlink()
    load = registry.load_embedder
    monkeypatch.setattr(
        "panorama.api.models.late_embedder", lambda n: Other() if n == "other-bands" else load(n)
    )
    monkeypatch.setattr(
        "panorama.api.models.load_embedder", lambda n=None: Other() if n == "other-bands" else load(n)
    )
    write_film(tmp_path / "b.mp4", [Thing("blue", 5, 35)])
    done = run("index", "b.mp4", "--model", "other-bands")
    assert done.status == 0
    assert "crops embedded without decoding" in done.err
    assert f"{picture}, registered for red from red.png, is missing: it has no vectors of " in done.err
    embeddings = run("info", "--json").json["embeddings"]
    assert embeddings["0ther0ther0t exit 1"] > max(n for key, n in embeddings.items() if "0ther" not in key)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("cohort.safetensors", "panorama index ARCHIVE --model NAME"),
        ("calibration.json", "repair or remove it"),
    ],
)
def test_a_model_that_no_query_could_use_is_refused_and_not_kept(run, tmp_path, file, told):
    """The library kept it, and no query about an entity and no `index` worked any more."""
    write_film(tmp_path / "a.mp4", FILM)
    mine = tmp_path / "mine"
    shutil.copytree(content_dir("embeddings") / "panoramanet", mine)
    (mine / file).unlink()
    if file == "calibration.json":
        (mine / file).write_text("broken")
    refused = run("index", "a.mp4", "--model", "mine")
    assert refused.status == 1 and file in refused.err and told in refused.err
    assert not (tmp_path / "panorama-library").exists()
    index(run, "a.mp4")
    write_picture(tmp_path / "red.png", thing_picture("red"))
    run("register", "red", "red.png")
    asked = ("query", "SELECT tracks WHERE entity = 'red'", "--json")
    before = run(*asked).json
    refused = run("index", "a.mp4", "--model", "mine")
    assert refused.status == 1 and told in refused.err
    assert run("info", "--json").json["embedder"]["name"] == "color-bands"
    assert run(*asked).json == before != []
    assert run("index", "a.mp4").status == 0


def test_globs_are_expanded_where_the_shell_did_not(run, tmp_path):
    for name in ("a1.mp4", "a2.mp4", "b1.mp4"):
        write_film(tmp_path / name, [Thing("red", 0, 5 + int(name[1]))], frames=12)
    assert "2 indexed" in index(run, "a*.mp4").err
    assert videos(run) == ["a1.mp4", "a2.mp4"]


def test_usage_errors_have_status_2(run, tmp_path):
    write_film(tmp_path / "a.mp4", FILM)
    for words in (
        ["a.mp4", "--fps", "0"],
        ["a.mp4", "--every", "0"],
        ["a.mp4", "--fps", "2", "--every", "3"],
        [],
    ):
        done = run("index", *words)
        assert (done.status, done.out) == (2, "")
        assert done.err and "Traceback" not in done.err
    assert run("indx", "a.mp4").status == 2
    assert "Did you mean 'index'" in run("indx", "a.mp4").err


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("export", ["query --out"]),
        ("list", ["videos", "entities"]),
        ("status", ["info"]),
        ("delete", ["remove", "drop", "forget"]),
        ("serve", []),
        ("watch", []),
        ("remov", ["'remove'"]),
        ("Forgett", ["'forget'"]),
        ("registr", ["'register'"]),
    ],
)
def test_an_unknown_command_leads_to_what_does_that_and_not_to_what_deletes(run, typed, told):
    """`export` led to `forget`, `serve` to `remove`, `list` to `register`, `watch` to `why`."""
    done = run(typed, "a")
    assert done.status == 2 and f"No command '{typed}'." in done.err and "panorama --help" in done.err
    assert all(word in done.err for word in told)
    others = {"remove", "drop", "forget", "why", "register", "query"} - {word.strip("'") for word in told}
    others -= {"query"} if typed == "export" else set()
    said = done.err.partition("No command")[2]
    assert not [word for word in others if re.search(rf"(panorama |'){word}\b", said)], done.err


def test_a_pipe_that_never_ends_is_no_video(run, tmp_path):
    os.mkfifo(tmp_path / "pipe.mp4")
    done = index(run, "pipe.mp4")
    assert done.status == 3 and "not a regular file" in done.err


def test_a_link_whose_name_tells_a_time_is_told_as_one(run, tmp_path):
    """The file's own name counts; the message showed the link's, which fits."""
    write_film(tmp_path / "disk" / "clip7.mp4", FILM)
    (tmp_path / "gate").mkdir()
    (tmp_path / "gate" / "cam-20260301_100000.mp4").symlink_to(tmp_path / "disk" / "clip7.mp4")
    done = index(run, "gate", "--time-from", "name")
    assert done.status == 2
    assert re.search(r"gate/cam-20260301_100000\.mp4 \(a link to .*disk/clip7\.mp4\)", done.err)


def test_quietly_only_what_went_wrong_is_said(run, tmp_path):
    """A job that runs every hour sent a mail every hour."""
    write_film(tmp_path / "v" / "dock_20260301-080000.mp4", FILM)
    (tmp_path / "v" / "notes.txt").write_text("not a video")
    done = index(run, "v", "--quiet")
    assert (done.status, done.out, done.err) == (0, "", "")
    assert run("index", "v", "-q").err == ""
    (tmp_path / "v" / "bad.mp4").write_bytes(b"no video")
    cut_off(write_film(tmp_path / "whole.mkv", FILM, frames=60), tmp_path / "v" / "half.mkv", 0.6)
    done = run("index", "v", "none.mp4", "-q")
    title, half, other, bad, missing = done.err.splitlines()
    assert done.status == 3 and (title, other) == ("read, with losses or assumptions:", "not indexed:")
    assert "half.mkv" in half and "bad.mp4" in bad and missing.startswith("  none.mp4: no such file")
    again = run("index", "v", "-q").err
    assert "bad.mp4" in again and "losses" not in again, "those were told when it was indexed"
    assert [row["status"] for row in run("index", "v", "-q", "--json").json_lines].count("skipped") == 2
    assert run("index", "v", "-q", "-v").status == 2


def test_an_empty_file_is_no_failure_as_long_as_a_recorder_may_have_just_begun_it(run, tmp_path):
    """Each run that met a recorder creating its next file ended with status 3."""
    write_film(tmp_path / "v" / "a.mp4", FILM)
    new = tmp_path / "v" / "b.mp4"
    new.touch()
    done = index(run, "v")
    assert done.status == 0 and "1 indexed, 1 skipped, 0 failed" in done.err
    assert "empty, and so new that a recorder may have just begun them: 1 file, which -v lists" in done.err
    (told,) = (row for row in run("index", "v", "--json").json_lines if row["path"].endswith("b.mp4"))
    assert (told["status"], told["reason"]) == ("skipped", "not_begun")
    named = run("index", "v/b.mp4")
    assert named.status == 3 and "b.mp4 is empty (0 bytes)" in named.err
    os.utime(new, (new.stat().st_mtime - 601,) * 2)
    assert run("index", "v").status == 3
    write_film(new, FILM, frames=30)
    assert "1 indexed, 1 skipped, 0 failed" in run("index", "v").err
