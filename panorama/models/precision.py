"""What number format the networks run in on this processor."""

from __future__ import annotations

import torch


def native_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16 itself; emulated, it is slower than float32."""
    # Private in torch, and absent from some builds: then float32 is the safe answer.
    check = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(check and check())
