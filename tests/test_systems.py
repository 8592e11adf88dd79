"""What is said where Panorama cannot run, by a Python that takes itself for one of Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ON_WINDOWS = """
import sys
sys.platform = "win32"
for lacking in ("fcntl", "resource", "panorama.worker.starting", "panorama.library"):
    sys.modules[lacking] = None
"""
SAID = "UnsupportedSystem: Panorama needs Linux or macOS; on Windows run it in WSL 2: wsl --install"


def on_windows(code: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run code in a folder of its own, by a Python without what that of Windows has not."""
    return subprocess.run(
        [sys.executable, "-c", ON_WINDOWS + code, *words],
        cwd=folder, env=dict(os.environ), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize("words", [("index", "a.mp4"), ("--library", "here", "info"), ("--version",), ()])
def test_the_command_line_says_in_one_line_that_it_does_not_run_on_windows(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """It was "No module named 'fcntl'", a defect to be reported."""
    (tmp_path / "a.mp4").write_bytes(b"")
    done = on_windows("from panorama.__main__ import main; main()", tmp_path, *words)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{SAID}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize("name", ["panorama.open", "panorama.open('x')", "panorama.Library"])
def test_the_python_api_raises_an_error_of_panorama_on_windows(tmp_path: Path, name: str) -> None:
    code = (
        f"import panorama\ntry:\n    {name}\nexcept panorama.PanoramaError as e: print(type(e).__name__, e)"
    )
    done = on_windows(code, tmp_path)
    assert (done.stdout, done.stderr) == (SAID.replace(": ", " ", 1) + "\n", "")
