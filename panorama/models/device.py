"""A device by name, or none, enters; where networks run, and a way to send them pictures, leaves.

Decoding, tracking and matching stay on the processor. What goes to a GPU is a batch of pictures, and what
comes back are boxes or vectors; from one processor or GPU to another these differ by rounding only, so the
device is no part of a model's hash.
"""

from __future__ import annotations

import os
from functools import cache

import torch
from torch import Tensor

from panorama.errors import ModelError

ENVIRONMENT = "PANORAMA_DEVICE"


def choose_device(wanted: str | None = None) -> torch.device:
    """The device asked for; for None that of $PANORAMA_DEVICE; for 'auto' a GPU where CUDA has one.

    Raises:
        ModelError: there is no such device here.
    """
    name = wanted or os.environ.get(ENVIRONMENT) or "auto"
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if name == "auto":
        return torch.device("cuda" if gpus else "cpu")
    known = ["cpu", *(["cuda"] if gpus else []), *(f"cuda:{number}" for number in range(gpus))]
    if name not in known:
        why = "" if gpus else "; torch finds no CUDA GPU here"
        raise ModelError(f"a device is auto, {', '.join(known)}; got {name!r}{why}")
    return torch.device(name)


def send(batch: Tensor, device: torch.device) -> Tensor:
    """The batch on the device; to a GPU from pinned memory, so that the processor need not wait for it."""
    if device.type == "cpu":
        return batch
    return batch.pin_memory().to(device, non_blocking=True)


@cache
def gpu_bfloat16() -> bool:
    """Whether the GPU multiplies bfloat16 itself (compute capability 8.0 and more)."""
    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
