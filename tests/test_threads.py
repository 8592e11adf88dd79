"""How many threads each library gets for the cores that there are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from panorama.errors import UsageError
from panorama.threads import Threads, cores_here


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PANORAMA_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)


def test_few_cores_get_one_thread_a_network() -> None:
    assert [Threads.of(n).torch for n in (1, 2, 4)] == [1, 1, 1]
    assert Threads.of(16).torch > 1
    assert Threads.of(2).decode == 2 and Threads.of(64).decode == 8
    assert Threads.of(4).duckdb == Threads.of(4).faiss == 4


def test_a_process_bound_to_some_cores_uses_those(tmp_path: Path) -> None:
    assert cores_here(tmp_path) == 8


@pytest.mark.parametrize(("content", "cores"), [("150000 100000", 2), ("50000 100000", 1), ("max 100000", 8)])
def test_the_share_of_a_container_is_kept(tmp_path: Path, content: str, cores: int) -> None:
    (tmp_path / "cpu.max").write_text(content + "\n")
    assert cores_here(tmp_path) == cores


def test_the_older_form_of_the_share_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("300000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert cores_here(tmp_path) == 3
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("-1\n")
    assert cores_here(tmp_path) == 8


def test_the_environment_decides_and_nonsense_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PANORAMA_THREADS", "3")
    assert cores_here() == 3
    for wrong in ("0", "many", "-2"):
        monkeypatch.setenv("PANORAMA_THREADS", wrong)
        with pytest.raises(UsageError, match="PANORAMA_THREADS"):
            cores_here()


def test_what_is_loaded_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    import cv2

    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(3)
        Threads.of(8).apply()
        assert cv2.getNumThreads() == 1
    finally:
        cv2.setNumThreads(before)
