"""Locks keep their holders apart, whatever is deleted beside them and whoever made their files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from store_samples import MODEL, exemplar, index

from panorama import waits
from panorama.errors import LibraryDamaged, LibraryNotFound, LibraryWriteError, PanoramaError
from panorama.store import Store
from panorama.store.files.locks import FileLock
from panorama.store.vectors import index_files
from panorama.store.vectors.vector_table import VectorTable


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "x") as made:
        index(made, "a.mp4")
        yield made


def test_who_waits_for_a_lock_of_the_index_while_it_is_cleared_gets_the_one_lock(store: Store) -> None:
    """Forgetting deleted the lock files: two processes wrote one cache, and queries read wrong rows in it."""
    folder = VectorTable.load(store.snapshot(), MODEL, 1).folder
    assert folder is not None
    for name in ("lock", "ivf.lock"):
        (folder / name).touch()
        waiting = os.open(folder / name, os.O_RDWR)
        index_files.clear(store._place)
        folder.mkdir(exist_ok=True)  # as a query does that has vectors to keep
        fcntl.flock(waiting, fcntl.LOCK_EX)
        assert FileLock.take_if_free(folder / name) is None
        os.close(waiting)


def test_a_folder_of_the_index_that_goes_meanwhile_is_no_error(store: Store, monkeypatch) -> None:
    """Its lock could not be made: `index` ended in FileNotFoundError beside `forget`."""
    monkeypatch.setattr(index_files, "index_folders", lambda path: [path / "gone-e1"])
    index_files.clear(store._place)
    index_files.drop_gone(store._place)


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.compact(),
        lambda store: store.remove_videos(["a.mp4"]),
        lambda store: store.forget_entity("cat", np.zeros(0, np.int64)),
    ],
)
def test_who_waits_for_another_that_merges_files_says_so(store: Store, monkeypatch, change) -> None:
    """Merging takes minutes in a large library; until then `forget` looked as if it hung."""
    monkeypatch.setattr(waits, "TELL_SECONDS", 0.05)
    store.add_exemplars("cat", [exemplar()])
    theirs, told = FileLock.take(store.path / "locks" / "maintenance.lock"), list[str]()

    def listener(what: str) -> None:
        told.append(what)
        threading.Timer(0.1, theirs.release).start()

    with waits.told_to(listener):
        change(store)
        assert told == ["another process is merging or erasing data files"]
        store.compact()
        assert len(told) == 1


def test_a_lock_whose_file_a_user_deleted_leaves_that_of_the_next_holder(tmp_path: Path) -> None:
    """It deleted whatever had its name, and a third process took "the same" lock on yet another file."""
    first = FileLock.take(tmp_path / "lock")
    (tmp_path / "lock").unlink()
    second = FileLock.take(tmp_path / "lock")
    first.release()
    assert FileLock.take_if_free(tmp_path / "lock") is None
    second.release()
    assert not (tmp_path / "lock").exists()


@contextlib.contextmanager
def another_user() -> Iterator[None]:
    """What the block does is done by a user without rights of its own; only root can change users."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A library that all may write; its locks, of the user who made it, may only be read."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        Path(folder).chmod(0o755)
        root = Path(folder) / "x"
        with Store.create(root) as made:
            for name in ("a.mp4", "b.mp4"):
                index(made, name)
            made.add_exemplars("van", [exemplar()])
            with made.asking():
                pass
            made.compact()
        (root / "locks" / "reader-1-0.lock").touch()
        for path in [root, *root.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o444 if path.suffix == ".lock" else 0o666)
        yield root


def test_who_shares_a_library_changes_it_beside_locks_of_another_user(shared: Path) -> None:
    """They were opened to be written: videos were removed, then "Permission denied"; queries set no mark."""
    with another_user(), Store.open(shared) as store:
        with contextlib.closing(store.marks()) as marks:
            assert not marks.is_asked()
            with store.asking():
                assert marks.is_asked()
        store.remove_videos(["a.mp4"])
        store.compact()
        store.forget_entity("van", np.zeros(0, np.int64))
        assert store.snapshot().videos["video"].to_pylist() == ["b.mp4"]
    assert not (shared / "locks" / "reader-1-0.lock").exists()


def test_a_claim_that_another_user_left_is_renewed_by_the_next(shared: Path) -> None:
    """Its time stayed as it was: others took its holder for silent and did the same work again."""
    (shared / "locks" / "claim-work.lock").touch(0o444)
    os.utime(shared / "locks" / "claim-work.lock", (1, 1))
    with another_user(), Store.open(shared) as store, store.claims() as claims:
        assert claims.take("work")
        lock = claims._held["work"]
        assert lock is not None
        lock.renew()
        assert (shared / "locks" / "claim-work.lock").stat().st_mtime > 1


@pytest.mark.parametrize("folder", ["data/crops", "index", "locks", "album/1"])
def test_a_folder_of_another_user_is_told_before_anything_is_changed(shared: Path, folder: str) -> None:
    """Half was done by then: videos were gone and their rows were not, an entity's tracks and not itself."""
    (shared / folder).chmod(0o555)
    with another_user(), Store.open(shared) as store:
        before = store.snapshot()
        told = rf"cannot write {shared / folder}: it belongs to the user .*; nothing was changed\. Run the"
        if folder == "album/1":
            with pytest.raises(LibraryWriteError, match=told):
                store.drop_entity("van")
            with pytest.raises(LibraryWriteError, match=told):
                store.remove_exemplars([1])
        else:
            with pytest.raises(LibraryWriteError, match=told):
                store.remove_videos(["a.mp4"])
        with pytest.raises(LibraryWriteError, match=told):
            store.forget_entity("van", before.videos["segment"].to_numpy().astype(np.int64) << 32)
        assert store.snapshot().version == before.version and store.entities() == ["van"]
        assert not store.being_forgotten("van")
    (shared / folder).chmod(0o777)


def test_a_data_file_that_only_its_owner_may_read_is_told_with_the_owner(shared: Path) -> None:
    """As `umask 077` leaves them: it was told as a defect of the program, to be reported."""
    for path in (shared / "data" / "crops").iterdir():
        path.chmod(0)
    told = rf"cannot read {shared}/data/crops/\S+: it belongs to the user .*Run the command as the user"
    with another_user(), Store.open(shared) as store, pytest.raises(PanoramaError, match=told) as caught:
        list(store.read_crops(store.snapshot().videos["segment"].to_numpy().astype(np.int64) << 32))
    assert not isinstance(caught.value, LibraryDamaged), "nothing is lost"


def test_a_log_that_only_its_owner_may_read_is_named_and_not_the_catalog(shared: Path) -> None:
    with Store.open(shared) as store:
        store.entities()
        (shared / "catalog.sqlite-wal").chmod(0)
        with another_user(), pytest.raises(LibraryNotFound, match=r"cannot read \S+/catalog.sqlite-wal: "):
            Store.open(shared)


CHANGES = """
import sys
from panorama.errors import LibraryWriteError
from panorama.store import Store

with Store.open(sys.argv[1]) as store:
    for change in (lambda: store.remove_videos(["a.mp4"]), store.compact):
        try:
            change()
        except LibraryWriteError as exc:
            print(exc)
    print(store.snapshot().videos["video"].to_pylist())
"""
MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"'


def _with_read_only(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command that alone sees a folder as one on a disk mounted for reading only."""
    apart = ["unshare", "--map-root-user", "--mount", "sh", "-c", f'{MOUNTED} && shift && "$@"', "sh"]
    return subprocess.run([*apart, str(folder), *words], capture_output=True, text=True)


def test_data_on_a_disk_that_is_mounted_for_reading_only_is_told_as_that(tmp_path: Path) -> None:
    """Removing blamed the owner of the folder, and merging the permissions: there was nothing to change."""
    with Store.create(tmp_path / "x") as made:
        for name in ("a.mp4", "b.mp4"):
            index(made, name)
    data = tmp_path / "x" / "data"
    try:
        can_mount = _with_read_only(data, ["true"]).returncode == 0
    except FileNotFoundError:
        can_mount = False
    if not can_mount:
        pytest.skip("needs to mount a folder for one process")
    told = _with_read_only(data, [sys.executable, "-c", CHANGES, str(tmp_path / "x")])
    assert told.returncode == 0, told.stderr
    removing, merging, videos = told.stdout.splitlines()
    step = ": Read-only file system; mount its disk for writing, and run the same command again"
    assert removing == f"cannot write {data / 'frames'}{step}"
    assert merging.startswith(f"cannot write {data / 'frames'}{os.sep}") and merging.endswith(step)
    assert videos == "['a.mp4', 'b.mp4']"


def test_what_a_library_holds_is_told_while_others_delete(store: Store, monkeypatch) -> None:
    """`info` ended in FileNotFoundError if a file went between listing its folder and its size."""
    store.add_exemplars("van", [exemplar()])
    VectorTable.load(store.snapshot(), MODEL, 1)
    whole = store.info()
    stat = Path.stat
    gone = {"manifest.json", store.exemplars("van")[0].picture.name, "catalog.sqlite-shm"}

    def deleted(path: Path, **options: bool) -> os.stat_result:
        if path.name in gone:
            raise FileNotFoundError(path)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", deleted)
    told = store.info()
    assert told.counts == whole.counts and told.bytes["album"] == 0
    assert 0 < told.bytes["index"] < whole.bytes["index"] and told.bytes["catalog"] < whole.bytes["catalog"]
