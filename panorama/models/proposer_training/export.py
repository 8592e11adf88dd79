"""A checkpoint comes in; its averaged weights go out, alone or as a folder that `load_proposer` accepts."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from panorama.models.weights import WEIGHTS, record_hashes


def averaged(checkpoint: Path) -> dict[str, Tensor]:
    """A checkpoint's averaged weights under the network's own names, without the counters of its norms."""
    prefix = "average."
    return {
        name.removeprefix(prefix): value
        for name, value in load_file(checkpoint).items()
        if name.startswith(prefix) and not name.endswith("num_batches_tracked")
    }


def export_average(checkpoint: Path, folder: Path) -> Path:
    """Write a checkpoint's averaged weights into a model folder, and their digest into the recipe there.

    Convolutions are stored in float16, which halves the file and moves scores no more than bfloat16 does.
    """
    weights = averaged(checkpoint).items()
    halved = {name: value.to(torch.float16) if value.ndim == 4 else value for name, value in weights}
    path = folder / WEIGHTS
    save_file({name: value.contiguous() for name, value in halved.items()}, path)
    path.chmod(0o644)  # safetensors makes files readable by their owner only; a shipped file is for everyone
    record_hashes(folder)
    return path
