"""An untrained torch network and stored tensors come in; the network goes out with these weights."""

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
    """Load tensors into a network, as float32; the counters of its batch norms are not stored.

    From then on, torch computes in one thread in processes that are forked from this one.

    Args:
        where: the name of the tensors in error messages.

    Raises:
        ModelError: the tensors do not belong to such a network.
    """
    watch_forks()
    weights = {name: torch.from_numpy(np.array(value, np.float32)) for name, value in tensors.items()}
    counters = {name: torch.zeros(()) for name in net.state_dict() if name.endswith("num_batches_tracked")}
    try:
        net.load_state_dict({**counters, **weights})
    except RuntimeError as exc:
        raise ModelError(f"{where} do not fit the network of its recipe: {exc}") from exc
