"""What happens around the engine: kills, interrupts, other processes, full disks, missing rights, damage."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from fakes import TESTS, Thing, start_panorama, thing_picture, write_film, write_picture

import panorama

FILMS = 6
SQL = "SELECT frames WHERE entity = 'red'"


@pytest.fixture
def archive(tmp_path, fake_proposer):
    return fill(tmp_path)


def fill(place):
    """Six films in which red is to be seen, each a little later than in the one before."""
    for number in range(FILMS):
        write_film(place / "v" / f"{number}.mp4", [Thing("red", number, 30 + number)])
    write_picture(place / "red.png", thing_picture("red"))
    return place


def index_words(archive):
    return ("index", "v", "--model", "color-bands", "--json")


def answered(place):
    """Videos and the videos of the hits, read anew."""
    with panorama.open(place / "panorama-library") as library:
        listed = library.videos().column("video").to_pylist()
        if "red" not in [e.name for e in library.entities()]:
            library.register("red", place / "red.png")
        return listed, sorted({row["video"] for row in library.query(SQL)})


def test_a_kill_at_any_time_keeps_what_was_committed_and_the_next_run_completes_it(archive):
    draw = random.Random(7)
    committed = set()
    for _ in range(4):
        child = start_panorama(*index_words(archive), cwd=archive)
        assert child.stdout is not None
        seen = [child.stdout.readline()]  # once it works; the interpreter takes a second to get there
        time.sleep(draw.uniform(0, 0.3))
        child.send_signal(signal.SIGKILL)
        seen += child.communicate()[0].splitlines()
        committed |= {line.split('"video": "')[1].split('"')[0] for line in seen if '"indexed"' in line}
        listed, hits = answered(archive)
        assert committed <= set(listed)
        assert listed == hits
    assert start_panorama(*index_words(archive), cwd=archive).wait() == 0
    listed, hits = answered(archive)
    assert listed == hits == [f"{n}.mp4" for n in range(FILMS)]
    assert not [p for p in (archive / "panorama-library" / "data").rglob("*") if ".tmp" in p.name]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)])
def test_an_interrupt_keeps_finished_videos_and_leaves_with_its_status(archive, number, status):
    for one in range(1, FILMS):  # long ones: else all are done a tenth of a second after the first
        write_film(archive / "v" / f"{one}.mp4", [Thing("red", one, 30 + one)], frames=2000)
    child = start_panorama(*index_words(archive), cwd=archive)
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(number)
    err = child.communicate()[1]
    assert child.returncode == status
    assert "done and kept" in err and "Traceback" not in err
    assert ("panorama: interrupted" in err) == (number == signal.SIGINT)  # shells say "Terminated"
    listed, hits = answered(archive)
    assert 1 <= len(listed) < FILMS and listed == hits
    assert not list((archive / "panorama-library" / "locks").glob("writer-*"))


def test_others_read_while_indexing_goes_on_and_an_open_library_blocks_nobody(archive):
    with panorama.open(archive / "panorama-library", create=True) as notebook:
        child = start_panorama(*index_words(archive), cwd=archive)
        assert child.stdout is not None
        child.stdout.readline()
        notebook.use_model("color-bands")
        notebook.register("red", archive / "red.png")
        early = notebook.query(SQL)
        assert len({row["video"] for row in early}) >= 1
        # An answer held open, and this library with it, stop neither the writer nor another reader.
        asked = start_panorama("query", "SELECT count(*) AS n FROM videos", "--format", "csv", cwd=archive)
        assert int(asked.communicate(timeout=60)[0].split()[1]) >= 1
        child.communicate(timeout=60)
        assert child.returncode == 0
        assert len({row["video"] for row in notebook.query(SQL)}) == FILMS
        assert len({row["video"] for row in early.fetchall()}) >= 1


def piped(archive, words, behind):
    """Exit status, and what comes out of the pipe behind a command line."""
    ours = shlex.join([sys.executable, str(TESTS / "fakes.py"), *words])
    command = f"{ours} {behind}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=archive, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "behind", "expected"),
    [((), "2>&1 | head -1", 0), (("--json",), "2>/dev/null | head -1", 141)],
)
def test_indexing_goes_on_when_nobody_reads_its_progress_any_more(archive, words, behind, expected):
    """It ended within the second of the videos, and with status 0."""
    status, out, err = piped(archive, ["index", "v", "--model", "color-bands", *words], behind)
    assert (status, out.count("\n"), err) == (expected, 1, "")
    assert answered(archive)[0] == [f"{n}.mp4" for n in range(FILMS)]


@pytest.mark.parametrize("buffered", [True, False])
def test_a_reader_that_leaves_early_is_told_by_the_status_alone(archive, buffered, monkeypatch):
    """Unbuffered, Python forgets the rest of a write that the pipe took in part: no error, and status 0."""
    answer_of(archive)
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    words = ["query", "SELECT f.*, g.* FROM frames f, frames g", "--format", "csv"]
    status, out, err = piped(archive, words, "| head -1")
    assert (status, err) == (141, "") and out.startswith("video,frame")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_output_that_finds_no_room_is_an_error_of_the_disk_and_not_a_defect(archive):
    answer_of(archive)
    for words in (("videos",), ("query", "SELECT frames", "--format", "csv")):
        with Path("/dev/full").open("w") as full:
            child = start_panorama(*words, cwd=archive, stdout=full)
            told = child.communicate(timeout=60)[1]
        assert (child.returncode, told.count("\n")) == (1, 1)
        assert told.startswith("OSError: the output cannot be written: No space left on device; free")


@contextlib.contextmanager
def files_at_most(count_bytes):
    """No file may grow past so many bytes: to the program it looks like a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def noise(seed):
    """A colourful picture that no format makes small."""
    return np.random.default_rng(seed).integers(0, 255, (256, 256, 3)).astype(np.uint8)


def test_a_full_disk_while_indexing_is_one_message_and_loses_nothing(archive, run):
    run("index", "v/0.mp4", "--model", "color-bands")
    for number in range(8):
        write_picture(archive / "w" / f"{number}.png", noise(number))
    with files_at_most(60_000):
        done = run("index", "w", "v", "--model", "color-bands")
    assert done.status == 1
    assert "LibraryWriteError: cannot write" in done.err
    assert "Traceback" not in done.err and "defect" not in done.err
    assert not [p for p in (archive / "panorama-library" / "data").rglob("*") if p.name.startswith(".tmp")]
    assert run("query", "SELECT video FROM videos", "--format", "json").json == [{"video": "0.mp4"}]
    assert run("index", "v", "--model", "color-bands").status == 0
    assert len(answered(archive)[1]) == FILMS


def test_a_full_disk_registers_nothing_and_writes_no_half_answer(archive, run):
    run("index", "v/0.mp4", "--model", "color-bands")
    for number in range(8):
        write_picture(archive / "w" / "thing" / f"{number}.png", noise(number))
    many = "SELECT f.* FROM frames f, frames g, frames h"
    commands = [
        ("register", "--album", "w"),
        ("query", many, "--out", "x.csv"),
        ("query", many, "--out", "x.json"),
        (
            "query",
            "SELECT md5((f.frame * 1000 + g.frame * 40 + h.frame)::VARCHAR) AS m " + many[10:],
            "--out",
            "x.parquet",
        ),
        ("query", "SELECT * FROM frames", "--sheet", "x.bmp"),
    ]
    for words in commands:
        with files_at_most(50_000):
            done = run(*words)
        assert (done.status, done.out[:9]) in ((1, ""), (1, "video  fr")), words
        assert "cannot be written" in done.err or "cannot write" in done.err
        assert "Traceback" not in done.err and "defect" not in done.err
    with files_at_most(1000):
        done = run("query", "SELECT * FROM frames LIMIT 20", "--format", "csv", "--clips", "clips")
    assert done.status == 1
    assert not [p for p in archive.iterdir() if p.name.lstrip(".").startswith("x.")]
    assert not list((archive / "clips").glob("*"))
    assert run("entities", "--json").json == []
    assert list((archive / "panorama-library" / "album").rglob("*.jpg")) == []


def test_a_disk_without_a_free_byte_still_answers_and_says_why_it_keeps_nothing(archive, run):
    run("index", "v", "--model", "color-bands")
    run("register", "red", "red.png")
    moments = SQL.replace("frames", "moments")
    answer = run("query", moments, "--format", "csv").out
    with files_at_most(8_000):
        asked = run("query", moments, "--format", "csv")
        kept = run("register", "thing", "red.png")
    assert (asked.status, asked.out) == (0, answer) and answer.count("\n") > 1
    assert kept.status == 1 and "the disk is full; free some space" in kept.err
    assert run("register", "thing", "red.png").status == 0


@pytest.fixture
def shared(fake_proposer):
    """An archive where anybody may read; pytest's own folders are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield fill(Path(folder))


def as_nobody(place, *words):
    """Status and outputs of a command line run by somebody who owns nothing."""
    child = start_panorama("--as-nobody", *words, cwd=place)
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")


@needs_root
def test_videos_in_a_folder_that_was_closed_are_not_told_as_gone(shared):
    closed = shared / "v" / "closed"
    closed.mkdir()
    shutil.move(shared / "v" / "0.mp4", closed / "0.mp4")
    library = shared / "panorama-library"
    library.mkdir()
    os.chown(library, 65534, 65534)
    assert as_nobody(shared, "index", "v", "--model", "color-bands")[0] == 0
    closed.chmod(0o700)
    status, _, err = as_nobody(shared, "index", "v", "--model", "color-bands")
    assert status == 3 and "closed cannot be read: Permission denied" in err
    assert "defect" not in err and "missing" not in err, err
    status, listed, err = as_nobody(shared, "videos", "--json")
    assert (status, err) == (0, "")
    assert [row["missing"] for row in json.loads(listed) if row["video"] == "closed/0.mp4"] == [False]
    status, _, err = as_nobody(shared, "query", "SELECT frames", "--sheet", library / "sheet.jpg")
    assert "defect" not in err and "Permission denied" in err, err


@needs_root
def test_a_path_in_a_folder_that_may_not_be_entered_is_told_as_such_and_stops_nothing_else(shared):
    closed = shared / "v" / "closed"
    closed.mkdir()
    shutil.move(shared / "v" / "0.mp4", closed / "0.mp4")
    shutil.copy(shared / "red.png", closed / "red.png")
    library = shared / "panorama-library"
    library.mkdir()
    os.chown(library, 65534, 65534)
    mine = shared / "mine"
    mine.mkdir()
    os.chown(mine, 65534, 65534)
    others = ("v/1.mp4", "--model", "color-bands")
    assert as_nobody(shared, "index", "v/closed", *others)[0] == 0
    begun = as_nobody(shared, "clock", "0.mp4", "--at", "2026-03-01 10:00", "--timezone", "UTC")
    assert begun[0] == 0, begun
    closed.chmod(0o700)
    denied = "cannot be read: Permission denied"
    for given in ("v/closed/0.mp4", "v/closed/*.mp4"):
        status, out, err = as_nobody(shared, "index", "--json", given, *others)
        assert status == 3 and f"{given} {denied}" in err, err
        assert [json.loads(line)["status"] for line in out.splitlines()] == ["failed", "skipped"]
    status, _, err = as_nobody(shared, "clock", "--time-from", "metadata", "--timezone", "UTC")
    assert status == 0 and "defect" not in err, err
    assert "2026-03-01 10:00:00" in as_nobody(shared, "clock")[1]
    picture, video = "v/closed/red.png", "v/closed/0.mp4"
    alike = f"SELECT tracks ORDER BY similarity('{picture}') DESC LIMIT 1"
    for words, told in (
        (("query", alike), f"BadImage: {picture} {denied}"),
        (("query", "SELECT tracks LIMIT 1", "--clips", "v/closed/x"), "LibraryWriteError: v/closed/x cannot"),
        (("register", "x", "--video", video, "--at", "0", "--box", "1,1,9,9"), f"{video} {denied}"),
        (("tune", video), f"{video} {denied}"),
        (("tune", "v/closed"), f"v/closed {denied}"),
        (("index", "v", "--model", "v/closed/net"), f"ModelError: the model v/closed/net {denied}"),
        (("train", "--videos", video, "--out", "mine/net"), f"failed: {video} {denied}"),
        (("train", "--folders", ".", "--out", "v/closed/net"), "ClosedPath: v/closed cannot"),
        (("train", "--folders", "v/closed", "--out", "mine/net"), "ClosedPath: v/closed cannot"),
        (("demo", video, "--folder", "mine"), f"{video} {denied}"),
    ):
        status, out, err = as_nobody(shared, *words)
        assert status in (1, 2) and told in out + err and "defect" not in err, (words, out, err)


@needs_root
def test_missing_rights_are_told_in_one_message(shared):
    hidden = shared / "v" / "hidden"
    hidden.mkdir(mode=0o700)
    shutil.move(shared / "v" / "0.mp4", hidden / "0.mp4")
    (shared / "v" / "1.mp4").chmod(0o600)
    (shared / "red.png").chmod(0o600)
    library = shared / "panorama-library"
    library.mkdir()
    os.chown(library, 65534, 65534)
    status, _, err = as_nobody(shared, "index", "v", "--model", "color-bands")
    assert status == 3, err
    assert "4 indexed, 0 skipped, 2 failed" in err
    assert "v/hidden cannot be read: Permission denied" in err and "1.mp4" in err
    status, _, err = as_nobody(shared, "register", "red", "red.png")
    assert (status, err) == (1, "BadImage: red.png cannot be read: Permission denied\n")
    status, _, err = as_nobody(shared, "index", "v", "--model", "color-bands", "--library", "other")
    assert status == 1 and err.startswith("LibraryWriteError: cannot write")
    assert err.count("\n") == 1


@needs_root
def test_a_library_that_may_only_be_read_answers_and_refuses_changes(shared):
    assert answer_of(shared)
    for words in (("drop", "red"), ("register", "x", "red.png"), ("index", "v")):
        status, out, err = as_nobody(shared, *words)
        assert (status, out, err.count("\n")) == (1, "", 1), err
        assert err.startswith("LibraryWriteError: ")
    status, out, err = as_nobody(shared, "query", SQL, "--format", "json")
    assert status == 0, err
    assert out.count('"frame"') > 20


def answer_of(archive):
    """A finished library; the number of its hits."""
    with panorama.open(archive / "panorama-library") as library:
        library.index(archive / "v", model="color-bands")
        library.register("red", archive / "red.png")
        return len(library.query(SQL))


@pytest.mark.parametrize("table", ["frames", "tracks", "boxes", "crops", "embeddings"])
def test_a_damaged_or_missing_data_file_is_one_message(archive, run, table):
    run("index", "v/0.mp4", "--model", "color-bands")
    run("register", "red", "red.png")
    (path,) = (archive / "panorama-library" / "data" / table).glob("*.parquet")
    whole = path.read_bytes()
    for left in (b"", whole[: len(whole) // 2], None):
        path.unlink()
        if left is not None:
            path.write_bytes(left)
        shutil.rmtree(archive / "panorama-library" / "index")  # it may hold what the file held
        done = run("query", SQL, "--format", "json")
        assert (done.status, done.out) == (1, "")
        wrong = "is missing" if left is None else "cannot be read"
        assert done.err.startswith(f"LibraryDamaged: {path}, a data file of '0.mp4', {wrong}"), done.err
        path.write_bytes(whole)
    assert run("query", SQL).status == 0


@pytest.mark.parametrize("table", ["frames", "tracks", "boxes", "crops", "embeddings"])
def test_what_a_lost_data_file_held_comes_back_by_the_command_that_is_told(archive, run, table):
    run("index", "v/0.mp4", "--model", "color-bands")
    (path,) = (archive / "panorama-library" / "data" / table).glob("*.parquet")
    run("index", "v/1.mp4", "--model", "color-bands")
    run("register", "red", "red.png")
    expected = run("query", SQL, "--format", "json").out
    path.unlink()
    shutil.rmtree(archive / "panorama-library" / "index")
    told = run("query", SQL).err
    command = shlex.split(told.partition("again: panorama ")[2])
    assert command[-1] == str(archive / "v" / "0.mp4")
    assert run(*command).status == 0
    assert len(json.loads(run("query", SQL, "--format", "json").out)) == len(json.loads(expected))
    assert run("compact").status == 0


def test_what_was_lost_is_made_with_the_settings_that_it_had(archive, run):
    """A video that had been looked at ten times a second came back with five, and nothing said so."""

    def boxes():
        return run("query", "SELECT video, count(*) AS n FROM detections GROUP BY ALL ORDER BY ALL").out

    run("index", "v/0.mp4", "--model", "color-bands", "--fps", "10")
    run("index", "v/1.mp4")
    expected = boxes()
    for path in (archive / "panorama-library" / "data" / "crops").glob("*.parquet"):
        path.unlink()
    assert run("query", "SELECT count(*) FROM crops").status == 1
    again = run("index", "v/0.mp4", "v/1.mp4")
    assert again.status == 0 and "2 indexed" in again.err
    assert boxes() == expected


def test_of_several_lost_data_files_one_command_makes_all_anew(archive, run):
    """The command that was told made the first video anew, and ended with the error of the next."""
    for number in (0, 1, 2):
        run("index", f"v/{number}.mp4", "--model", "color-bands")
    run("register", "red", "red.png")
    expected = run("query", SQL, "--format", "json").out
    crops, tracks = (archive / "panorama-library" / "data" / table for table in ("crops", "tracks"))
    of_video = dict(zip(sorted(f"{n}.mp4" for n in (0, 1, 2)), sorted(crops.glob("*.parquet")), strict=True))
    for path in list(of_video.values())[:2]:
        path.unlink()
    cut = max(tracks.glob("*.parquet"))
    cut.write_bytes(cut.read_bytes()[:40])
    shutil.rmtree(archive / "panorama-library" / "index")
    assert [run(*w).status for w in (("videos",), ("entities",), ("register", "x", "red.png"))] == [0, 0, 0]
    done = run("query", "SELECT count(*) FROM crops WHERE video = '2.mp4'")
    assert done.status == 1 and "is missing, and 2 more are missing or cut off; " in done.err
    command = shlex.split(done.err.partition(": panorama ")[2])
    assert command[-3:] == [str(archive / "v" / f"{number}.mp4") for number in (0, 1, 2)]
    again = run(*command)
    assert (again.status, "3 indexed" in again.err) == (0, True), again.err
    assert len(json.loads(run("query", SQL, "--format", "json").out)) == len(json.loads(expected))


def test_of_lost_data_files_those_of_videos_that_are_gone_are_told_to_be_removed(archive, run):
    """What was told was to index a file that was not there, for ever, and no query was answered."""
    for number in (0, 1):
        run("index", f"v/{number}.mp4", "--model", "color-bands")
    expected = run("query", "SELECT video, crop_id FROM crops WHERE video = '1.mp4' ORDER BY ALL").out
    library, count = archive / "panorama-library", "SELECT count(*) AS n FROM crops"
    (archive / "v" / "0.mp4").unlink()
    first, second = sorted((library / "data" / "crops").iterdir())
    first.unlink()
    told = run("query", count).err
    assert "is missing; put it back from a backup, or remove its video, whose file is gone, unless" in told
    assert told.endswith(" remove -- 0.mp4\n")
    second.unlink()
    for path in (library / "data" / "embeddings").iterdir():
        path.unlink()  # of these alone, no video would be removed
    told = run("query", count).err
    remove, index = re.findall(r": (panorama --library .*?)(?:; and |$)", told.strip())
    assert shlex.split(index)[3:] == ["index", str(archive / "v" / "1.mp4")]
    assert shlex.split(remove)[3:] == ["remove", "--", "0.mp4"]
    assert "these videos again, '1.mp4': " in told and "these videos, '0.mp4', whose file is gone" in told
    assert run(*shlex.split(remove)[1:]).status == run(*shlex.split(index)[1:]).status == 0
    found = run("query", "SELECT video, crop_id FROM crops ORDER BY ALL")
    assert found.status == 0 and len(found.out.splitlines()) == len(expected.splitlines())


def test_what_compares_nothing_is_answered_without_a_file_of_vectors(archive, run):
    for number in (0, 1):
        run("index", f"v/{number}.mp4", "--model", "color-bands")
    run("register", "red", "red.png")
    for path in (archive / "panorama-library" / "data" / "embeddings").glob("*.parquet"):
        path.unlink()
    shutil.rmtree(archive / "panorama-library" / "index")
    assert run("query", "SELECT tracks WHERE video = '1.mp4'").status == 0
    assert run("query", SQL).err.startswith("LibraryDamaged: ")


@pytest.mark.parametrize("damage", ["end", "footer", "rows"])
def test_what_a_data_file_of_its_size_held_comes_back_by_what_is_told(archive, run, damage):
    """The command that was told skipped its video, or the file was a defect of the program."""
    run("index", "v/0.mp4", "--model", "color-bands")
    run("register", "red", "red.png")
    expected = run("query", SQL, "--format", "json").out
    (path,) = (archive / "panorama-library" / "data" / "tracks").glob("*.parquet")
    held = bytearray(path.read_bytes())
    footer = len(held) - 8 - int.from_bytes(held[-8:-4], "little")
    spoilt = {
        "end": range(footer, len(held)),
        "footer": range(footer, footer + 60, 3),
        "rows": range(4, footer),
    }
    for at in spoilt[damage]:
        held[at] ^= 0xFF
    path.write_bytes(held)
    shutil.rmtree(archive / "panorama-library" / "index")
    done = run("query", SQL)
    assert done.err.startswith(f"LibraryDamaged: {path}, a data file of '0.mp4', cannot be read: "), done.err
    first, _, command = done.err.partition("again: panorama ")
    assert first.endswith("delete it and index its video ")
    path.unlink()
    assert run(*shlex.split(command)).status == 0
    assert len(json.loads(run("query", SQL, "--format", "json").out)) == len(json.loads(expected))


@pytest.mark.parametrize("left", [b"no catalog at all" * 100, b""])
def test_a_damaged_catalog_is_one_message(archive, run, left):
    run("index", "v/0.mp4", "--model", "color-bands")
    catalog = archive / "panorama-library" / "catalog.sqlite"
    for extra in catalog.parent.glob("catalog.sqlite-*"):
        extra.unlink()
    catalog.write_bytes(left)
    for words in (["query", SQL], ["videos"], ["entities"]):
        done = run(*words)
        assert (done.status, done.out, done.err.count("\n")) == (1, "", 1), done.err
        assert "catalog" in done.err and "defect" not in done.err


def test_the_index_folder_may_be_deleted_at_any_time(archive, run):
    run("index", "v", "--model", "color-bands")
    run("register", "red", "red.png")
    before = run("query", SQL, "--format", "json").out
    shutil.rmtree(archive / "panorama-library" / "index")
    assert run("query", SQL, "--format", "json").out == before
    assert before.count("frame") > 100
