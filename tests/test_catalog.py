"""Statements of the catalog: values, lists of them, rows by name, and what an error leaves behind."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from panorama.errors import LibraryWriteError
from panorama.store.catalog import Catalog

_PUT = "INSERT INTO settings (key, value, version) VALUES (:key, :value, 1)"
_SOME = "SELECT key, value AS told FROM settings WHERE key IN :keys ORDER BY key"
_COUNT = "SELECT count(*) FROM settings"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = Catalog(tmp_path)
    made.migrate()
    with made.write() as tx:
        tx.run_many(_PUT, [{"key": key, "value": key.upper()} for key in "abc"])
    return made


@pytest.mark.parametrize(
    ("keys", "found"), [([], []), (["b"], ["B"]), (["c", "a", "no", "a"], ["A", "C"])], ids=str
)
def test_a_list_is_asked_for_by_its_members(catalog: Catalog, keys: list[str], found: list[str]) -> None:
    with catalog.read() as tx:
        rows = tx.rows(_SOME, keys=keys)
        outside = tx.scalar("SELECT count(*) FROM settings WHERE key NOT IN :keys", keys=keys)
    assert [row.told for row in rows] == found and [row[1] for row in rows] == found
    assert outside == 3 - len(found)


def test_a_name_that_begins_as_that_of_a_list_stays_itself(catalog: Catalog) -> None:
    with catalog.read() as tx:
        row = tx.row("SELECT :keys_too AS own, 'x' IN :keys AS within", keys=["x", "y"], keys_too="z")
    assert row is not None and (row.own, row.within) == ("z", 1)


def test_what_an_error_ended_is_taken_back_and_the_next_transaction_goes_on(catalog: Catalog) -> None:
    with pytest.raises(KeyError), catalog.write() as tx:
        tx.run(_PUT, key="d", value="D")
        raise KeyError
    with catalog.write() as tx:
        assert tx.scalar(_COUNT) == 3
        assert tx.run("UPDATE settings SET value = '' WHERE key IN :keys", keys=["a", "b"]) == 2
    with catalog.read() as tx:
        assert tx.scalar(_COUNT) == 3


def test_a_statement_that_cannot_be_run_is_told_with_the_file(catalog: Catalog) -> None:
    with (
        pytest.raises(LibraryWriteError, match=r"catalog\.sqlite: no such table: nowhere"),
        catalog.write() as tx,
    ):
        tx.run("DELETE FROM nowhere")


def test_a_reader_sees_what_was_there_at_its_first_read(catalog: Catalog) -> None:
    with catalog.read() as before:
        assert before.scalar(_COUNT) == 3
        with catalog.write() as tx:
            tx.run(_PUT, key="d", value="D")
        assert before.scalar(_COUNT) == 3
    with catalog.read() as after:
        assert after.scalar(_COUNT) == 4


def test_a_catalog_holds_no_file_open_once_it_is_closed(catalog: Catalog) -> None:
    with ExitStack() as stack:
        for _ in range(8):
            assert stack.enter_context(catalog.read()).scalar(_COUNT) == 3
        catalog.close()  # those at work end as they come back
    log = catalog.path.with_name(f"{catalog.path.name}-wal")
    assert not log.exists(), "the last connection to be closed takes it away"
    with catalog.write() as tx:
        assert tx.scalar(_COUNT) == 3
    assert log.exists()
    catalog.close()
    assert not log.exists()
