"""A device by name, or none, enters; where networks run, and a way to send them pictures, leaves.

Decoding, tracking and matching stay on the processor. What goes to a GPU is a batch of pictures, and what
comes back are boxes or vectors; from one processor or GPU to another these differ by rounding only, so the
device is no part of a model's hash.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from panorama.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

ENVIRONMENT = "PANORAMA_DEVICE"

CPU = "cpu"


def choose_device(wanted: str | None = None) -> str:
    """The device asked for; for None that of $PANORAMA_DEVICE; for 'auto' a GPU where torch has one.

    Raises:
        ModelError: there is no such device here.
    """
    name = wanted or os.environ.get(ENVIRONMENT) or "auto"
    if name == CPU:
        return CPU
    gpus = gpus_here()
    if name == "auto":
        return "cuda" if gpus else CPU
    known = [CPU, *(["cuda"] if gpus else []), *(f"cuda:{number}" for number in range(gpus))]
    if name not in known:
        why = "" if gpus else "; torch finds no CUDA GPU here"
        raise ModelError(f"a device is auto, {', '.join(known)}; got {name!r}{why}")
    return name


def gpus_here() -> int:
    """The GPUs that torch could use; where there is no driver for one, torch is not even imported."""
    if not driver_here():
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@cache
def driver_here() -> bool:
    """Whether a driver is installed without which torch finds no GPU: NVIDIA's, or the kernel's for AMD's."""
    if Path("/dev/kfd").exists():
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def send(batch: Tensor, device: str) -> Tensor:
    """The batch on the device; to a GPU from pinned memory, so that the processor need not wait for it."""
    if not device.startswith("cuda"):
        return batch.to(device)
    return batch.pin_memory().to(device, non_blocking=True)


@cache
def gpu_bfloat16() -> bool:
    """Whether the GPU multiplies bfloat16 itself (compute capability 8.0 and more)."""
    import torch

    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
