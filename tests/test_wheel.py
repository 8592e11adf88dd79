"""The wheel, built from the checkout and installed elsewhere: what travels in it, and that it works there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from oldest import DRAW

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("panorama", "queries", "embeddings", "data")
GENERATED = (
    "data/archive/gate/noon.mp4",
    "data/album/blue-van/1.jpg",
    "data/lookalikes/blue-van/1.jpg",
    "data/truth.json",
    "data/rendered.json",
    "data/__pycache__/render.cpython-311.pyc",
    "panorama/__pycache__/errors.cpython-311.pyc",
    "embeddings/panoramanet/training.log",
)


class Installed(NamedTuple):
    """A wheel installed into a folder of its own: run things there with `run`."""

    site: Path
    work: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run `python COMMAND` in a folder far from the checkout, which is not importable there."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PANORAMA"))}
        # Dependencies come from the environment of the tests, where the checkout is installed as editable,
        # through a .pth file; -S keeps it from being read, and the paths are given by hand instead.
        paths = [self.site, *(path for path in map(Path, sys.path) if path.name == "site-packages")]
        clean |= {"PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-S", "-P", *command],
            cwd=self.work, env=clean, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the checkout in which somebody has rendered the sample and run the code."""
    source = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source)
    for name in GENERATED:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(b"made by a run")
    # hatchling itself rather than `pip wheel`: it needs no network and no second environment.
    out = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)],
        cwd=source, check=True, capture_output=True,
    )  # fmt: skip
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile",
         "--disable-pip-version-check", "--target", str(site), str(wheel)],
        check=True, capture_output=True,
    )  # fmt: skip
    return Installed(site, tmp_path_factory.mktemp("elsewhere"))


def test_content_travels_and_what_was_generated_does_not(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    travelling = {
        "panorama/__main__.py",
        "panorama/py.typed",
        "panorama/_content/data/render.py",
        "panorama/_content/data/scenery/film.py",
        "panorama/_content/queries/01-where-is.sql",
        *(f"panorama/page/page.{kind}" for kind in ("html", "css", "js")),
    }
    for recipe in (ROOT / "embeddings").glob("*/recipe.toml"):
        folder = recipe.parent
        travelling |= {
            f"panorama/_content/embeddings/{folder.name}/{p.name}" for p in folder.glob("*.safetensors")
        }
        travelling.add(f"panorama/_content/embeddings/{folder.name}/recipe.toml")
    assert travelling <= names
    for name in GENERATED:
        assert name not in names
        assert f"panorama/_content/{name}" not in names
    tops = {name.split("/")[0] for name in names}
    assert tops == {"panorama", next(top for top in tops if top.endswith(".dist-info"))}


def test_the_wheel_names_its_licence_and_its_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        files = {name.split("/", 1)[1]: name for name in archive.namelist() if ".dist-info/" in name}
        metadata = archive.read(files["METADATA"]).decode()
        assert "License-Expression: Apache-2.0" in metadata
        assert "Requires-Python: >=3.11" in metadata
        assert b"panorama = panorama.__main__:main" in archive.read(files["entry_points.txt"])
        assert archive.read(files["licenses/LICENSE"]) == (ROOT / "LICENSE").read_bytes()


def test_the_installed_wheel_indexes_registers_and_answers(installed: Installed) -> None:
    where = """
import panorama, panorama.content
from panorama.models.registry import embedder_names
print(panorama.__file__, panorama.content.content_dir("queries"), embedder_names()[0], sep="\\n")
"""
    *places, model = installed.run("-c", where).stdout.splitlines()
    assert len(places) == 2 and all(Path(place).is_relative_to(installed.site) for place in places)

    installed.run("-c", DRAW)
    installed.run("-m", "panorama", "index", "archive", "--fps", "3", "--model", model)
    installed.run("-m", "panorama", "register", "cat", "album/striped-cat")
    sql = "SELECT moments WHERE entity = 'cat' AND score >= 0 ORDER BY score DESC"
    rows = json.loads(installed.run("-m", "panorama", "query", sql, "--format", "json").stdout)
    assert rows and {row["video"] for row in rows} == {"evening.mp4"}
    assert all(0 <= row["start_time"] < row["end_time"] <= 3.1 for row in rows)
    installed.run("-m", "panorama", "query", sql, "--page", "review.html")
    assert (installed.work / "review.html").read_text(encoding="utf-8").count("data:image/jpeg") == 2 * len(
        rows
    )
    counted = installed.run("-m", "panorama", "query", "SELECT frames FROM videos", "--format", "json").stdout
    assert json.loads(counted) == [{"frames": 45}]
