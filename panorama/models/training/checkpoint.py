"""The tensors of a training come in and go into its checkpoint, whole and finite; they come out again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from panorama.errors import ModelError
from panorama.models.training.begun import damaged
from panorama.whole_files import write_whole


def write_checkpoint(
    path: Path, tensors: Mapping[str, Tensor], step: int, rates: str, facts: dict[str, str] | None
) -> None:
    """Replace a checkpoint; it is on the disk before the last one goes.

    Args:
        tensors: from any device; `step` is added to them.
        rates: as in `refuse_lost`.
        facts: from `metadata`.

    Raises:
        ModelError: a value is infinite or NaN; the last checkpoint stays.
        OSError: it cannot be written; the last checkpoint stays.
    """
    for name, values in tensors.items():
        if values.is_floating_point() and not bool(torch.isfinite(values).all()):
            raise ModelError(f"{name} has values that are not numbers at step {step}; lower {rates}")
    whole = {name: values.detach().contiguous().clone() for name, values in tensors.items()}
    # Under one name: a killed training leaves a file as large as the checkpoint, which the next one takes
    # away. Nobody else writes here, since one training holds the folder.
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    write_whole(path, save({**whole, "step": torch.tensor(step)}, facts), part=part)


def read_checkpoint(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint on the CPU, `step` among them.

    Raises:
        ModelError: it is damaged or cannot be read.
    """
    try:
        return load(path.read_bytes())
    except (OSError, SafetensorError) as exc:
        raise damaged(path, exc) from exc
