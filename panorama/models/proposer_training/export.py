"""A trained run enters; a model folder that `load_proposer` accepts leaves."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from panorama.models.weights import WEIGHTS, record_hashes


def export_average(checkpoint: Path, folder: Path) -> Path:
    """Write a checkpoint's averaged weights into a model folder, and their digest into the recipe there.

    Convolutions are stored in float16, which halves the file and moves no score by more than bfloat16 does.
    """
    prefix = "average."
    tensors: dict[str, Tensor] = {}
    for name, value in load_file(checkpoint).items():
        if not name.startswith(prefix) or name.endswith("num_batches_tracked"):
            continue
        kept = value.to(torch.float16) if value.ndim == 4 else value
        tensors[name.removeprefix(prefix)] = kept.contiguous()
    path = folder / WEIGHTS
    save_file(tensors, path)
    path.chmod(0o644)  # safetensors writes for the owner only; a shipped file is for everyone
    record_hashes(folder)
    return path
