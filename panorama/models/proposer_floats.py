"""The proposer's tensors come in; its network in floating point, on the CPU or a GPU, goes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from panorama.models.device import send
from panorama.models.filling import fill
from panorama.models.proposer_net import Bottleneck, ConvUnit, ProposerNet, prepare
from panorama.models.ranges import rest_between

KINDS: tuple[type[nn.Module], ...] = (ConvUnit, Bottleneck)
"""The modules whose ranges are measured."""


class ProposerInFloats:
    """The proposer's network, run by torch: pictures (B, H, W, 3) uint8 to the outputs of its heads.

    Args:
        net: untrained, with the shape given in the recipe.
        tensors: as trained.
        where: their name in error messages.
        dtype, device: the data type and the device to run in.

    Attributes:
        net: the network, with batch norms merged.

    Raises:
        ModelError: the tensors do not belong to such a network.
    """

    def __init__(
        self,
        net: ProposerNet,
        tensors: Mapping[str, NDArray[Any]],
        where: str,
        dtype: torch.dtype,
        device: str,
    ) -> None:
        fill(net, tensors, where)
        net.eval().requires_grad_(False).fold()
        net.set_precision(dtype)
        self.net = net.to(device).to(memory_format=torch.channels_last)
        self._dtype, self._device = dtype, device

    @torch.inference_mode()
    def __call__(self, pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        """(B, N, 5): objectness logit and log distances of all points, finest level first; see `points`."""
        x = prepare(send(torch.from_numpy(pictures), self._device), self._dtype)
        return self.net.said(self.net.features(x)[1]).float().cpu().numpy()

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function to call before each layer."""
        rest_between(self.net, KINDS, rest)
