"""A library survives kill -9 anywhere, a full disk, and writers and readers that come at the same time."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from store_samples import check_whole, data_files, index

from panorama.errors import LibraryDamaged, LibraryWriteError
from panorama.store import Store
from panorama.store.catalog import connections, leftover

TESTS = Path(__file__).parent


def run_child(script: str, *arguments: object) -> list[dict]:
    """Run a Python program beside the tests' helpers; the JSON lines that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# Every place where one step of a commit ends and the next begins. The program forks a child for each, which
# kills itself there, in the middle of replacing a.mp4 by a changed a.mp4.
STAGES = (
    "segment begun",
    "frames added",
    "all added",
    "first file renamed",
    "all files renamed",
    "in transaction, files listed",
    "in transaction, video placed",
    "in transaction, old files retired",
    "committed",
)

KILLED = """
import os, signal, sys
from pathlib import Path
from store_samples import fill, video_row
from panorama.store.files import segments
from panorama.store.catalog import videos
from panorama.store import Store
from panorama.store.files.tablefile import TableFile

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def die_after(owner, name, times=1):
    whole, count = getattr(owner, name), [0]
    def wrapped(*args, **kwargs):
        result = whole(*args, **kwargs)
        count[0] += 1
        if count[0] == times:
            die()
        return result
    setattr(owner, name, wrapped)

ARM = {
    "segment begun": lambda: die_after(segments.FileSet, "__init__"),
    "frames added": lambda: die_after(segments.SegmentWriter, "add_frames"),
    "all added": lambda: die_after(segments.SegmentWriter, "add_embeddings"),
    "first file renamed": lambda: die_after(TableFile, "finish"),
    "all files renamed": lambda: die_after(segments.FileSet, "finish"),
    "in transaction, files listed": lambda: die_after(segments, "list_files"),
    "in transaction, video placed": lambda: die_after(videos, "place_video"),
    "in transaction, old files retired": lambda: die_after(videos, "retire_unused"),
    "committed": lambda: setattr(segments.FileSet, "release", lambda self: die()),
}
for number, stage in enumerate(sys.argv[2:]):
    child = os.fork()
    if not child:
        ARM[stage]()
        with Store.open(Path(sys.argv[1]) / str(number)) as store, store.begin_segment("new", "s") as writer:
            fill(writer, seed=2)
            writer.commit(video_row("a.mp4", "new"))
        os._exit(1)
    died = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(died) and os.WTERMSIG(died) == signal.SIGKILL, (stage, died)
"""


@pytest.fixture(scope="module")
def killed_libraries(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("killed")
    with Store.create(root / "0") as store:
        index(store, "a.mp4", content="old", seed=1)
        index(store, "b.mp4")
    for number in range(1, len(STAGES)):
        shutil.copytree(root / "0", root / str(number))
    run_child(KILLED, root, *STAGES)
    return root


@pytest.mark.parametrize("stage", STAGES)
def test_a_kill_leaves_the_library_as_before_or_complete(killed_libraries, stage):
    with Store.open(killed_libraries / str(STAGES.index(stage))) as store:
        snapshot = store.snapshot()
        assert snapshot.videos["video"].to_pylist() == ["a.mp4", "b.mp4"]
        check_whole(snapshot)
        known = store.known_file("/archive/a.mp4")
        assert known is not None and known.content_hash == ("new" if stage == "committed" else "old")
        listed = sorted(Path(path) for paths in snapshot.files.values() for path in paths)
        del snapshot
        store.sweep(grace_seconds=0)
        assert data_files(store) == listed
        assert list((store.path / "locks").glob("writer-*")) == []
        index(store, "a.mp4", content="new", seed=2)
        check_whole(store.snapshot())


KILLED_AT_RANDOM = """
import json, os, random, signal, sys, time
from store_samples import index
from panorama.store import Store

random.seed(4)
for turn in range(20):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        with Store.open(sys.argv[1]) as store:
            for number in range(1000):
                name = f"{turn}-{number}.mp4"
                index(store, name)
                index(store, "always.mp4", content=f"{turn}-{number}")
                os.write(write, (name + "\\n").encode())
        os._exit(1)
    os.close(write)
    time.sleep(random.uniform(0.005, 0.25))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read) as done:
        print(json.dumps(done.read().split()))
"""


def test_twenty_kills_at_random_lose_nothing_that_was_committed(tmp_path):
    with Store.create(tmp_path / "x") as store:
        index(store, "always.mp4", content="first")
    committed = {name for names in run_child(KILLED_AT_RANDOM, tmp_path / "x") for name in names}
    with Store.open(tmp_path / "x") as store:
        snapshot = store.snapshot()
        videos = set(snapshot.videos["video"].to_pylist())
        assert committed | {"always.mp4"} <= videos
        assert len(videos - committed) <= 1 + 20  # each turn, one may be committed and not yet reported
        check_whole(snapshot)
        listed = sorted(Path(path) for paths in snapshot.files.values() for path in paths)
        del snapshot
        store.sweep(grace_seconds=0)
        assert data_files(store) == listed


WRITES = """
import sys
from store_samples import index
from panorama.store import Store
with Store.open(sys.argv[1]) as store:
    for number in range(5):
        index(store, f"{sys.argv[2]}-{number}.mp4")
        index(store, f"{sys.argv[2]}-again.mp4", content=f"{sys.argv[2]}{number}")
"""


def test_two_writers_and_a_reader_work_at_the_same_time(tmp_path):
    Store.create(tmp_path / "x").close()
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITES, str(tmp_path / "x"), name], cwd=TESTS)
        for name in ("left", "right")
    ]
    counts = []
    with Store.open(tmp_path / "x") as store:
        while any(writer.poll() is None for writer in writers):
            snapshot = store.snapshot()
            check_whole(snapshot)
            counts.append(snapshot.videos.num_rows)
            store.sweep(grace_seconds=0)
        assert [writer.returncode for writer in writers] == [0, 0]
        snapshot = store.snapshot()
        assert snapshot.videos.num_rows == 2 * 6 and counts == sorted(counts)
        assert len(set(snapshot.videos["segment"].to_pylist())) == 2 * 6
        check_whole(snapshot)


def test_a_snapshot_held_open_blocks_no_writer(tmp_path):
    with Store.create(tmp_path / "x") as reader:
        index(reader, "a.mp4")
        held = reader.snapshot()
        files = [pq.ParquetFile(path) for path in held.files["frames"]]
        run_child(WRITES, tmp_path / "x", "other")
        assert held.videos.num_rows == 1 and files[0].read().num_rows == 12
        assert reader.snapshot().videos.num_rows == 7


FILLS_THE_DISK = """
import json, os, resource, sys
import numpy as np
from store_samples import fill, index, video_row
from panorama.errors import LibraryDamaged, LibraryWriteError
from panorama.store import Store, NewExemplar

with Store.open(sys.argv[1]) as store:
    catalog = os.path.getsize(store.path / "catalog.sqlite")
    wal = os.path.getsize(store.path / "catalog.sqlite-wal")
    # No file may grow beyond this: what a write to a full disk does, without filling one.
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(catalog, wal) + 40_000, resource.RLIM_INFINITY))
    said = []
    big = np.random.default_rng(0).integers(0, 255, 1_000_000, np.uint8).tobytes()
    def segment():
        with store.begin_segment("big", "s") as writer:
            fill(writer)
            ids = writer.pack(np.arange(100, 103))
            column = np.zeros(3)
            box = {name: column for name in ("x1", "y1", "x2", "y2", "quality", "frame", "time")}
            writer.add_crops({"crop_id": ids, "track_id": ids, **box, "jpeg": [big] * 3})
            writer.commit(video_row("big.mp4", "big"))
    def catalog():
        for number in range(10_000):
            store.put_setting(f"key {number}", "x" * 5000)
    def picture():
        store.add_exemplars("huge", [NewExemplar(big, "huge.jpg")])
    for change in (segment, picture, catalog):
        try:
            change()
            said.append("no error")
        except LibraryWriteError as exc:
            said.append(str(exc))
    print(json.dumps({"said": said}))
"""


def test_a_full_disk_gives_one_clear_error_and_a_whole_library(tmp_path):
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
        (outcome,) = run_child(FILLS_THE_DISK, tmp_path / "x")
        assert len(outcome["said"]) == 3
        for message in outcome["said"]:
            assert message.startswith("cannot write") and "free some space" in message, outcome
    with Store.open(tmp_path / "x") as store:
        snapshot = store.snapshot()
        assert snapshot.videos["video"].to_pylist() == ["a.mp4"] and snapshot.entity_names == ()
        check_whole(snapshot)
        listed = sorted(Path(path) for paths in snapshot.files.values() for path in paths)
        assert data_files(store) == listed, "what a failed commit wrote is removed at once"
        assert list((store.path / "album").rglob("*.jpg")) == []
        index(store, "b.mp4")


def test_a_library_whose_folders_cannot_be_written_says_so(tmp_path):
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
        crops = store.path / "data" / "crops"
        crops.rename(store.path / "data" / "elsewhere")
        crops.write_text("a file in the place of the folder")
        with pytest.raises(LibraryWriteError, match=r"cannot write .*: Not a directory"):
            index(store, "b.mp4")
        crops.unlink()
        (store.path / "data" / "elsewhere").rename(crops)
        assert store.snapshot().videos.num_rows == 1
        index(store, "b.mp4")


LEFT_OPEN = """
import os, sys
from store_samples import index
from panorama.store import Store

store = Store.open(sys.argv[1])
for name in sys.argv[2:]:
    index(store, name)
os._exit(0)  # nothing is closed, so the log stays as of a killed process
"""


@pytest.mark.parametrize("keeps_time", [True, False])
def test_a_backup_put_beside_the_log_of_a_killed_process_is_not_mixed_with_it(
    tmp_path: Path, keeps_time: bool
) -> None:
    """SQLite wrote the log's pages into it: rows of both, or a malformed file, and the backup was gone."""
    root, backup = tmp_path / "x", tmp_path / "backup"
    catalog, log = root / "catalog.sqlite", root / "catalog.sqlite-wal"
    with Store.create(root) as store:
        index(store, "a.mp4")
    shutil.copyfile(catalog, backup)
    with Store.open(root) as store:
        for number in range(20):
            index(store, f"b{number}.mp4")
    run_child(LEFT_OPEN, root, "c.mp4", "d.mp4")
    shutil.copyfile(backup, catalog)  # as `cp` does it
    if keeps_time:
        os.utime(catalog, (1e9, 1e9))  # as `tar -x`
    kept = (catalog.read_bytes(), log.read_bytes())
    with pytest.raises(LibraryDamaged, match=r"delete .*catalog.sqlite-wal and catalog.sqlite-shm"):
        Store.open(root)
    assert (catalog.read_bytes(), log.read_bytes()) == kept
    log.unlink()
    (root / "catalog.sqlite-shm").unlink(missing_ok=True)
    with Store.open(root) as store:
        assert store.info().counts["videos"] == 1
        index(store, "c.mp4")


@pytest.mark.parametrize("seconds", [1e9, None])
@pytest.mark.parametrize("in_catalog", [False, True])
def test_a_log_is_read_with_its_own_catalog_also_where_that_was_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float | None, in_catalog: bool
) -> None:
    catalog = tmp_path / "x" / "catalog.sqlite"
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    run_child(LEFT_OPEN, tmp_path / "x", "b.mp4")
    if in_catalog:  # as when a process is killed behind a checkpoint, or while it is being done
        with closing(sqlite3.connect(catalog)) as connection:
            connection.execute("PRAGMA wal_checkpoint").fetchall()
            shutil.copytree(tmp_path / "x", tmp_path / "y")
        monkeypatch.setattr(leftover, "_fit", lambda *_: pytest.fail("copied and checked as a whole"))
        catalog = tmp_path / "y" / "catalog.sqlite"
    if not in_catalog or seconds is None:
        os.utime(catalog, None if seconds is None else (seconds, seconds))
    with Store.open(catalog.parent) as store:
        assert store.info().counts["videos"] == 2


INDEXED_ELSEWHERE = """
import json, sys
from store_samples import index
from panorama.store import Store

with Store.open(sys.argv[1]) as store:
    index(store, sys.argv[2])
    print(json.dumps(sorted(store.snapshot().videos["video"].to_pylist())))
"""


def test_a_library_that_is_opened_again_keeps_the_log_that_it_goes_on_in(tmp_path: Path) -> None:
    """The catalog was read to see whether the log fits; closing it dropped all locks of this process.

    The next process that closed the library then deleted the log, under the connections that were still open
    here: they found no database any more, or wrote what nobody else saw.
    """
    root = tmp_path / "x"
    catalog, log = root / "catalog.sqlite", root / "catalog.sqlite-wal"
    with Store.create(root) as store:
        index(store, "a.mp4")
    with Store.open(root) as kept:
        index(kept, "b.mp4")
        before = log.stat()
        os.utime(catalog, ns=(before.st_mtime_ns, before.st_mtime_ns + 1))  # as behind a checkpoint
        Store.open(root).close()
        assert run_child(INDEXED_ELSEWHERE, root, "c.mp4") == [["a.mp4", "b.mp4", "c.mp4"]]
        assert log.stat().st_ino == before.st_ino
        assert kept.snapshot().videos.num_rows == 3
        index(kept, "d.mp4")
        assert len(run_child(INDEXED_ELSEWHERE, root, "e.mp4")[0]) == 5


@pytest.mark.parametrize("is_written", [True, False])
def test_what_others_write_meanwhile_is_no_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    """One opening in 25 read the catalog before a checkpoint and the log behind it, and was refused."""
    catalog, looks = tmp_path / "x" / "catalog.sqlite", []
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
        log = connections.log_of(catalog)

        def looked(*_: Path) -> bool:
            looks.append(log)
            if is_written:
                os.utime(log, ns=(len(looks), len(looks)))
            return is_written or len(looks) == 1  # torn at the first look, or at each

        monkeypatch.setattr(leftover, "_is_of_another", looked)
        leftover.check_log(catalog)
        assert len(looks) == (1 if is_written else 2)
        monkeypatch.setattr(leftover, "_is_of_another", lambda *_: True)
        with pytest.raises(LibraryDamaged, match="of another catalog"):
            leftover.check_log(catalog)


def test_a_checkpoint_that_a_full_disk_cut_short_makes_no_other_catalog_of_it(tmp_path: Path) -> None:
    """It was told to delete the log, in which nearly all of the library lay."""
    with Store.create(tmp_path / "x") as store:
        for number in range(3):
            index(store, f"{number}.mp4")
        for copy in ("cut", "whole"):
            shutil.copytree(store.path, tmp_path / copy)
    with closing(sqlite3.connect(tmp_path / "whole" / "catalog.sqlite")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    whole, cut = ((tmp_path / name / "catalog.sqlite") for name in ("whole", "cut"))
    cut.write_bytes(whole.read_bytes()[:8192])
    (tmp_path / "cut" / "catalog.sqlite-shm").unlink()
    os.utime(cut, ns=(time.time_ns(), connections.log_of(cut).stat().st_mtime_ns + 10**9))
    with Store.open(tmp_path / "cut") as store:
        assert store.snapshot().videos["video"].to_pylist() == ["0.mp4", "1.mp4", "2.mp4"]


def test_a_file_that_is_no_database_beside_a_log_is_not_mixed_with_it(tmp_path: Path) -> None:
    catalog = tmp_path / "x" / "catalog.sqlite"
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    run_child(LEFT_OPEN, tmp_path / "x", "b.mp4")
    catalog.write_bytes(b"something else" * 1000)
    with pytest.raises(LibraryDamaged):
        Store.open(catalog.parent)
    assert catalog.read_bytes() == b"something else" * 1000


WATCHED = """
import json, os, sys
from pathlib import Path

root, opened = Path(sys.argv[1]), []
LOCKED = {str(root / "catalog.sqlite"), str(root / "catalog.sqlite-shm")}


def note(event, values):
    if event == "open" and str(values[0]) in LOCKED:
        opened.append(str(values[0]))


sys.addaudithook(note)
from store_samples import exemplar, index
from panorama.store import Store

with Store.create(root) as store:
    index(store, "a.mp4")
    index(store, "b.mp4")
    store.add_exemplars("van", [exemplar()])
    assert store.snapshot().videos.num_rows == 2 and store.info().counts["videos"] == 2
    os.utime(root / "catalog.sqlite", (2e9, 2e9))
    Store.open(root).close()
    Store.open(root, write=False).close()
    store.remove_videos(["a.mp4"])
    store.forget_entity("van")
    store.compact()
    store.sweep(0)
open(root / "catalog.sqlite", "rb").close()
print(json.dumps(opened))
"""


def test_nothing_but_sqlite_opens_the_catalog(tmp_path: Path) -> None:
    root = tmp_path / "x"
    by_the_last_line_alone = [[str(root / "catalog.sqlite")]]
    assert run_child(WATCHED, root) == by_the_last_line_alone
