"""An untrained network of torch and tensors as they were stored enter; it leaves with these weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from panorama.errors import ModelError
from panorama.threads import watch_forks


def fill(net: nn.Module, tensors: Mapping[str, NDArray[Any]], where: str) -> None:
    """Give a network its weights, in float32; the counters of its normalisations are not stored.

    From then on, torch computes in one thread in processes that are forked from this one.

    Args:
        where: what an error calls the tensors.

    Raises:
        ModelError: the tensors are not those of such a network.
    """
    watch_forks()
    weights = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in tensors.items()}
    counters = {name: torch.zeros(()) for name in net.state_dict() if name.endswith("num_batches_tracked")}
    try:
        net.load_state_dict({**counters, **weights})
    except RuntimeError as exc:
        raise ModelError(f"{where} do not fit the network of its recipe: {exc}") from exc
