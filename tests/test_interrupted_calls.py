"""Ctrl-C inside a call of the Python API: a KeyboardInterrupt comes out, and nothing of the call is left."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

from panorama.store.catalog import CATALOG_NAME


def interruptions(call: Callable[[], object], module: str) -> Iterator[KeyboardInterrupt]:
    """Make a call again and again, interrupted where it enters the first function of a module, the second ...

    Yields what came out, which whoever asked keeps meanwhile, as a notebook does.
    """
    number = 0
    while True:
        number += 1
        left = [number]

        def interrupt(frame: FrameType, event: str, _: object, left: list[int] = left) -> None:
            if event == "call" and frame.f_globals.get("__name__", "").startswith(module):
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            call()
        except KeyboardInterrupt as exc:
            yield exc
        else:
            return  # it was over before
        finally:
            sys.setprofile(None)


def is_free(catalog: Path) -> bool:
    """Whether another process could write the catalog now."""
    other = sqlite3.connect(catalog, timeout=0, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        return False
    finally:
        other.close()
    return True


def test_an_interrupted_change_leaves_nobody_locked_out(store, tmp_path):
    """Closed with its transaction begun, the connection lived on in the traceback, and so did its lock."""
    stopped, value = 0, 0

    def change() -> None:
        nonlocal value
        value += 1
        store.put_setting("number", value)

    for _ in interruptions(change, "sqlalchemy"):
        stopped += 1
        assert is_free(tmp_path / "library" / CATALOG_NAME), stopped
    assert stopped > 20 and store.setting("number") == value
