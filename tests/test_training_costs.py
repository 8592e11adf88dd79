"""What a training of the proposer costs: freed memory, waiting threads, pieces for the teacher, passes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from fakes import shapes_on_noise

from panorama.content import content_dir
from panorama.models.proposer_training.batches import TEACHER
from panorama.models.proposer_training.parts import difference
from panorama.models.proposer_training.teachers import PIECE, Teacher
from panorama.models.training.own_process import keep_freed_memory

WAITING = """
import os, sys

class Seen:
    def find_spec(self, name, path, target=None):
        if name == "torch":
            print(os.environ["OMP_WAIT_POLICY"], flush=True)
            os._exit(0)

sys.meta_path.insert(0, Seen())
from panorama.__main__ import main
main()
"""

FAULTS = """
import resource, sys
from panorama.models.training.own_process import keep_freed_memory
if sys.argv[1] == "kept" and not keep_freed_memory():
    raise SystemExit("this system can keep it and did not")
bytearray(80_000_000)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    bytearray(80_000_000)[::4096] = bytes(19532)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    """Pages that the system filled for five blocks of 80 MB, one freed before the next."""
    made = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True, timeout=120
    )
    return int(made.stdout)


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"),
    reason="not glibc",
)
def test_freed_memory_is_used_again() -> None:
    assert faults("kept") * 20 < faults("as it is")


@pytest.mark.parametrize(("given", "taken"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_sleep_while_they_wait(tmp_path: Path, given: dict[str, str], taken: str) -> None:
    """What OpenMP reads is set before torch brings it, and what the caller has set stays."""
    recipe = str(content_dir("embeddings") / "proposer" / "recipe.toml")
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | given
    made = subprocess.run(
        [
            sys.executable,
            "-c",
            WAITING,
            "train",
            recipe,
            "--data",
            f"x={tmp_path}",
            "--out",
            str(tmp_path / "o"),
        ],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert (made.stdout.strip(), made.stderr) == (taken, "")


def test_another_allocator_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not keep_freed_memory()


@pytest.mark.footage
def test_the_teacher_says_of_many_pictures_what_it_says_of_each(footage: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the teacher needs panorama-video[teachers]")
    pictures = np.stack([shapes_on_noise(seed, 96, 128)[0] for seed in range(PIECE + 1)])
    teacher = Teacher(footage / TEACHER)
    whole, each = teacher(pictures), [teacher(pictures[i : i + 1]) for i in range(len(pictures))]
    np.testing.assert_allclose(whole.scores, np.concatenate([one.scores for one in each]), atol=1e-5)
    np.testing.assert_allclose(whole.boxes, np.concatenate([one.boxes for one in each]), atol=1e-2)
    for maps, alone in zip(whole.features, zip(*(one.features for one in each), strict=True), strict=True):
        np.testing.assert_allclose(maps, np.concatenate(alone), atol=1e-2)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_the_difference_of_maps_and_its_gradient_are_those_of_the_formula(kind: torch.dtype) -> None:
    torch.manual_seed(0)
    mine, wanted, weight = torch.randn(3, 8, 5, 7).to(kind), torch.randn(3, 8, 5, 7), torch.rand(3, 1, 5, 7)
    values, slopes = [], []
    for how in (difference, by_formula):
        given = mine.clone().requires_grad_()
        values.append(how(given, wanted, weight))
        (3 * values[-1]).backward()
        slopes.append(given.grad)
    torch.testing.assert_close(*values)
    torch.testing.assert_close(*slopes)
    assert slopes[0] is not None and slopes[0].dtype == kind


def by_formula(mine: torch.Tensor, wanted: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    squared = (mine.float() - wanted).square().mean(1, keepdim=True)
    return (squared * weight).sum() / weight.sum()
