"""A number format, or none, and what a network supports come in; the format that it runs in here goes out.

'int8' uses whole numbers of 8 bits; 'bfloat16' and 'float32' are floating point. The format changes a vector
by less than storing its picture as JPEG does, so it is not part of a model's hash: a library may move between
processors, and to a GPU and back.
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

# torch takes seconds to import; the name of a format and the reason for it do not need it.
if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Precision:
    """The format that a network runs in.

    Attributes:
        name: one of `PRECISIONS`.
        why: why it is not int8, the fastest; '' if it is, or if another format was requested.
    """

    name: str
    why: str = ""

    @property
    def dtype(self) -> torch.dtype:
        """The data type of the network's floating-point part."""
        import torch

        return torch.bfloat16 if self.name == "bfloat16" else torch.float32


def choose(wanted: str | None, why_not_int8: Callable[[], str], device: str) -> Precision:
    """The requested format; None takes $PANORAMA_PRECISION, and 'auto' takes the fastest one available.

    Args:
        why_not_int8: returns why this network cannot use int8 here, '' if it can; called only if needed.
        device: where the network will run; a GPU computes in floating point only.

    Raises:
        ModelError: the format is unknown, or int8 was requested by name but is not available.
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
    """Whether this CPU multiplies bfloat16 natively; emulated, it is slower than float32."""
    import torch

    # Private in torch and missing from some builds; then float32 is the safe answer.
    by_processor = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    by_library = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return bool(by_processor and by_processor() and by_library and by_library())


def training_dtype(kind: str) -> torch.dtype:
    """bfloat16 if this kind of device ('cpu', 'cuda') multiplies it natively, else float32.

    Emulated, a training step in bfloat16 takes ten times as long as in float32.
    """
    import torch

    fast = native_bfloat16() if kind == "cpu" else gpu_bfloat16()
    return torch.bfloat16 if fast else torch.float32


def mixed(kind: str) -> torch.autocast:
    """The context for training and judging on this kind of device: autocast to bfloat16 if it is native."""
    import torch

    return torch.autocast(kind, torch.bfloat16, enabled=training_dtype(kind) == torch.bfloat16)


def why_no_int8() -> str:
    """Why no network can run in 8 bits here; '' if it can."""
    try:
        from panorama.models.graph8 import why_not_here

        return why_not_here()
    # No build for this system, wrong system libraries, or an OpenVINO built without its CPU plugin.
    except (ImportError, OSError, RuntimeError) as exc:
        return f"OpenVINO, which runs networks in 8 bits, cannot be loaded: {exc}"
