"""A device name, or none, comes in; the device to run networks on goes out, and a way to send pictures there.

Decoding, tracking and matching stay on the CPU. A GPU receives batches of pictures and returns boxes or
vectors. Between CPUs and GPUs these differ by rounding only, so the device is not part of a model's hash.
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
    """The device with this name; None takes $PANORAMA_DEVICE, and 'auto' takes a GPU if torch has one.

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
    """The number of GPUs that torch can use; without a driver, torch is not even imported."""
    if not driver_here():
        return 0
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@cache
def driver_here() -> bool:
    """Whether a driver is installed, NVIDIA's or the kernel's for AMD; without one torch finds no GPU."""
    if Path("/dev/kfd").exists():
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def send(batch: Tensor, device: str) -> Tensor:
    """The batch on the device; for a GPU it is copied from pinned memory, so that the CPU need not wait."""
    if not device.startswith("cuda"):
        return batch.to(device)
    return batch.pin_memory().to(device, non_blocking=True)


@cache
def gpu_bfloat16() -> bool:
    """Whether the GPU multiplies bfloat16 natively (compute capability 8.0 or higher)."""
    import torch

    return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
