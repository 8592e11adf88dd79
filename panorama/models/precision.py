"""A number format by name, or none, and what a network has for it enter; the format it runs in here leaves.

'int8' counts in whole numbers of 8 bits, 'bfloat16' and 'float32' are floating point. Which one runs changes
a vector by less than storing its picture as JPEG does, so it is no part of a model's hash: a library moves
between processors, and to a GPU and back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from panorama.errors import ModelError
from panorama.models.device import CPU, gpu_bfloat16

PRECISIONS = ("int8", "bfloat16", "float32")
ENVIRONMENT = "PANORAMA_PRECISION"

# torch takes seconds to import; what a format is called, and why, does not need it.
if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Precision:
    """The format that a network runs in.

    Attributes:
        name: one of `PRECISIONS`.
        why: why it is not int8, the fastest; '' where it is, or where another was asked for.
    """

    name: str
    why: str = ""

    @property
    def dtype(self) -> torch.dtype:
        """What the floating-point part of the network computes in."""
        import torch

        return torch.bfloat16 if self.name == "bfloat16" else torch.float32


def choose(wanted: str | None, why_not_int8: Callable[[], str], device: str) -> Precision:
    """The format asked for; for None that of $PANORAMA_PRECISION; for 'auto' the fastest that there is.

    Args:
        why_not_int8: what keeps this network from int8 here, '' for nothing; asked where it counts.
        device: where the network will run; a GPU counts in floating point.

    Raises:
        ModelError: there is no such format, or int8 was asked for by name and cannot be had.
    """
    name = wanted or os.environ.get(ENVIRONMENT) or "auto"
    if name not in ("auto", *PRECISIONS):
        raise ModelError(f"a precision is auto, {', '.join(PRECISIONS)}; got {name!r}")
    if name not in ("auto", "int8"):
        return Precision(name)
    if device == CPU:
        why = why_not_int8()
    else:
        why = f"8-bit convolutions run only on the processor, and this is {device}"
    if not why:
        return Precision("int8")
    if name == "int8":
        raise ModelError(f"no int8 here: {why}; choose auto, bfloat16 or float32")
    return Precision(str(training_dtype(device.split(":")[0])).removeprefix("torch."), why)


@cache
def native_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 itself; emulated, it is slower than float32."""
    import torch

    # Private in torch, and absent from some builds: then float32 is the safe answer.
    by_processor = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    by_library = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(by_processor and by_processor() and by_library and by_library())


def training_dtype(kind: str) -> torch.dtype:
    """bfloat16 where such a device ('cpu', 'cuda') multiplies it itself, else float32.

    Emulated, a step in bfloat16 takes ten times as long as one in float32.
    """
    import torch

    fast = native_bfloat16() if kind == "cpu" else gpu_bfloat16()
    return torch.bfloat16 if fast else torch.float32


def mixed(kind: str) -> torch.autocast:
    """The context to train and judge in on such a device: `training_dtype` where that is not float32."""
    import torch

    return torch.autocast(kind, torch.bfloat16, enabled=training_dtype(kind) == torch.bfloat16)


def why_no_int8() -> str:
    """Why no network can run in 8 bits here; '' where one can."""
    try:
        from panorama.models.graph8 import why_not_here

        return why_not_here()
    # A system that it is not built for, or another one's libraries; or it was built without the processor.
    except (ImportError, OSError, RuntimeError) as exc:
        return f"OpenVINO, which runs networks in 8 bits, cannot be loaded: {exc}"
