"""Who may only read a library sees what others write into it, also without a file to tell each other by."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from store_samples import index
from test_crash_safety import INDEXED_ELSEWHERE, run_child

from panorama.errors import PanoramaError
from panorama.store import Store
from panorama.store.catalog import connections
from panorama.store.catalog.database import Catalog


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library that this process may not write, as another user's."""
    with Store.create(tmp_path / "x") as store:
        index(store, "a.mp4")
    monkeypatch.setattr(connections.os, "access", lambda path, mode: mode != os.W_OK)
    return tmp_path / "x"


def test_who_may_only_read_sees_what_is_committed_later(root: Path) -> None:
    """SQLite was told that the file does not change: it was asked as it was when it was opened, for ever."""
    with Store.open(root, write=False) as reader:
        assert reader.snapshot().videos.num_rows == 1
        assert not (root / "catalog.sqlite-wal").exists()  # else locks would tell, and nothing is tested
        for count, name in enumerate(("b.mp4", "c.mp4"), start=2):
            run_child(INDEXED_ELSEWHERE, root, name)
            assert reader.snapshot().videos.num_rows == count


@pytest.mark.parametrize("says", ["SELECT count(*) FROM videos", "SELECT * FROM nowhere"])
def test_what_is_written_while_it_is_read_is_not_half_old(root: Path, says: str) -> None:
    catalog = Catalog(root, writable=False)
    message = r"catalog.sqlite was written while it was read; ask again"
    with pytest.raises(PanoramaError, match=message), catalog.read() as tx:
        assert tx.scalar("SELECT count(*) FROM videos") == 1
        run_child(INDEXED_ELSEWHERE, root, "b.mp4")
        tx.rows(says)  # the next question meets pages of before and of after, or an error of theirs
    with catalog.read() as tx:
        assert tx.scalar("SELECT count(*) FROM videos") == 2
    catalog.close()
