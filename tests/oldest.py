"""The oldest packages that pyproject.toml allows enter; whether a sample is indexed by them and asked leaves.

    make test-oldest

They are installed into an environment of their own, which is removed again. PyTorch, which takes minutes and
gigabytes, is taken from the environment that this runs in; its own lower bound is not tried.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
BESIDE = frozenset({"torch"})
"""Packages that are not installed anew."""

DRAW = """
from pathlib import Path
from panorama.cli.demo import renderer
render = renderer()
(scene,) = [s for s in render.QUICK_SCENES if s().video == "gate/evening.mp4"]
render.shoot(scene(), Path("archive/evening.mp4"), "2026-03-02 16:40:00")
render._render_album(Path(), "striped-cat")
"""
"""Draws one film of the sample archive, three seconds of it, and pictures of an entity."""

AS_PNG = "import cv2; cv2.imwrite('cat.png', cv2.imread('album/striped-cat/1.jpg'))"
TOLD = "import importlib.metadata, sys; print(*map(importlib.metadata.version, sys.argv[1:]))"
SQL = "SELECT moments WHERE entity = 'cat' AND score >= 0 ORDER BY score DESC"
COMMANDS = (
    ("index", "archive", "--fps", "3"),
    ("register", "cat", "album/striped-cat", "cat.png"),
    ("query", SQL, "--out", "rows.parquet", "--sheet", "hits.jpg", "--page", "hits.html", "--clips", "clips"),
)


def dependencies() -> list[Requirement]:
    """What pyproject.toml asks for, on this system."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = map(Requirement, project["dependencies"])
    return [one for one in found if one.marker is None or one.marker.evaluate()]


def oldest(asked: Sequence[Requirement]) -> list[str]:
    """Each at its lower bound, as pip takes it; without one, as data has none, it stays free."""
    pinned = []
    for one in asked:
        bounds = [part.version for part in one.specifier if part.operator == ">="]
        pinned += [f"{one.name}=={bounds[0]}" if bounds else one.name] if one.name not in BESIDE else []
    return pinned


def main() -> None:
    """Install, run and say so; what fails ends it with its own message and status."""
    wanted = oldest(dependencies())
    with tempfile.TemporaryDirectory(prefix="panorama-oldest-") as made:
        folder = Path(made)
        python = _installed(folder / "venv", wanted)
        work = folder / "work"
        work.mkdir()
        names = [Requirement(one).name for one in wanted]
        versions = _run(work, python, "-c", TOLD, *names, *sorted(BESIDE)).split()
        print(*map(" ".join, zip([*names, *sorted(BESIDE)], versions, strict=True)), sep=", ")
        _run(work, python, "-c", DRAW)
        _run(work, python, "-c", AS_PNG)
        for words in COMMANDS:
            _run(work, python, "-m", "panorama", *words)
        rows = json.loads(_run(work, python, "-m", "panorama", "query", SQL, "--format", "json"))
        written = [name for name in ("rows.parquet", "hits.jpg", "hits.html") if (work / name).stat().st_size]
        clips = len(list((work / "clips").iterdir()))
        if not rows or not clips:
            sys.exit(f"{len(rows)} rows and {clips} clips, of an animal that is in the film")
    print(f"indexed, registered and asked: {len(rows)} row(s), {clips} clip(s), {', '.join(written)}")


def _installed(venv: Path, wanted: Sequence[str]) -> Path:
    """The interpreter of a new environment with these packages, and with those of this one behind them."""
    _run(venv.parent, Path(sys.executable), "-m", "venv", str(venv))
    python = venv / "bin" / "python"
    pip = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
    # Resolved together: a bound that no other package here agrees with is none.
    _run(venv.parent, python, *pip, "--only-binary", ":all:", *wanted)
    site = Path(
        _run(venv.parent, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (site / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def _run(folder: Path, python: Path, *words: str) -> str:
    """What a process in a folder prints; what it says is shown."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PANORAMA"))}
    done = subprocess.run(
        [python, *words],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"status {done.returncode}: {' '.join(map(str, words))}\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main()
