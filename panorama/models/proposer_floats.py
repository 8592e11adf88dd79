"""The proposer's tensors enter; its network in floating point, on the processor or a GPU, leaves."""

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
"""The layers whose ranges are measured."""


class ProposerInFloats:
    """The proposer's network as torch runs it: pictures (B, H, W, 3) of bytes to what its heads say.

    Args:
        net: untrained, of the recipe's shape.
        tensors: as it was trained.
        where: what an error calls them.
        dtype, device: what it runs in, and where.

    Attributes:
        net: folded.

    Raises:
        ModelError: the tensors are not those of such a network.
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
        """(B, N, 5): objectness as a logit and log distances of all points, level by level; see `points`."""
        x = prepare(send(torch.from_numpy(pictures), self._device), self._dtype)
        return self.net.said(self.net.features(x)[1]).float().cpu().numpy()

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Call this between the layers."""
        rest_between(self.net, KINDS, rest)
