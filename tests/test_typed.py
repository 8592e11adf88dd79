"""The types that others' checkers see: a program that uses the API as it may be used passes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = '''
"""Everything here runs, whatever a checker says of it."""

from pathlib import Path

import numpy as np

import panorama
from panorama.judging.calibrate import calibrate, reset_calibration
from panorama.own_training import OwnData, fine_tune
from panorama.training import TrainingOptions, train_recipe
from panorama.zones import Zone



def best(result: panorama.Result) -> panorama.Row:
    return result[0]


def whole(report: panorama.IndexReport) -> bool:
    return report.complete


def misspelt() -> None:
    panorama.opn("library")  # type: ignore[attr-defined]


with panorama.open("library") as library:
    library.index(["a", Path("b")])
    library.index(path for path in [Path("a")])
    zones: list[Zone] = list(library.zones)
    library.register("cat", ["cat.jpg"])
    library.register("cat", "cat.jpg", box=np.array([1, 2, 30, 40]))
    result = library.query("SELECT tracks WHERE entity = ?", ["cat"])
    first: float = result[0].score
    some: list[int] = [row["track_id"] for row in result[0:2]]
    vectors = library.vectors_of([1, 2], 3) + library.vectors_of(np.array(some), 3)
    library.register_seen("cat", track_ids=np.array(some), crop_ids=[1])
    entity: panorama.Entity = library.entity("cat")
    for exit in calibrate(library, recall=0.9, anyway=True).exits:
        print(exit.exit, exit.warnings)
    reset_calibration(library)

own = OwnData(folders=["x"], videos="a.mp4", query="SELECT crop_id FROM crops")
folders: tuple[Path, ...] = own.folders
told = fine_tune(own, "my-net", TrainingOptions(), library=panorama.open, scratch=panorama.open)
train_recipe("recipe.toml", {"own": "my-net"}, Path("other-net"), TrainingOptions(seed=None))
'''


@pytest.mark.slow
def test_a_typed_program_passes_a_strict_checker(tmp_path: Path) -> None:
    """Lists and arrays of ids, text for a folder and a slice of an answer were all told to be wrong.

    A name that is not there was told of none: everything that `panorama` has on first use was taken for any
    type, and an answer had no type that a program could name.
    """
    (tmp_path / "program.py").write_text(PROGRAM)
    # As an installed package its own lines are not the program's business.
    words = ["--strict", "--follow-imports=silent", "--no-error-summary", "--config-file="]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *words, "--cache-dir", ROOT / ".mypy_cache" / "strict", "program.py"],
        cwd=tmp_path, env={**os.environ, "MYPYPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "panorama" / "py.typed").is_file()  # without it a checker looks into no installed package
