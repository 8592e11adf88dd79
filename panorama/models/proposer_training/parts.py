"""A network and the teacher's inner maps come in; what each part alone makes of those maps goes out.

A part that learns behind untrained parts learns from noise. So each part of the trunk is given the teacher's
features at its depth, translated into the network's own channels, and learns to produce the teacher's
features at the next depth. All parts learn at once, each from good inputs, as in block-wise distillation
(Wang et al. 2018; Li et al. 2020). Afterwards each part takes its input from the one before it, and the
translations are thrown away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from panorama.models.proposer_net import ProposerNet
from panorama.models.proposer_training.teachers import TAP_WIDTHS

CLAMP = 6.0
"""Standard deviations at which the teacher's features are clipped: few values hold most of the variance."""


class Translation(nn.Module):
    """Maps the teacher's trunk at strides 8, 16 and 32 to the network's channels, as its own parts would.

    Args:
        widths: channels of the network's trunk at these strides.
    """

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        pairs = list(zip(TAP_WIDTHS, widths, strict=False))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b, affine=False, momentum=0.01) for b, _ in pairs)
        self.maps = nn.ModuleList(nn.Conv2d(b, a, 1) for b, a in pairs)

    def forward(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Maps (B, width, h, w), at least 0, from the teacher's (B, C, h, w), one per level."""
        return [
            change(norm(level.float()).clamp(-CLAMP, CLAMP)).relu()
            for norm, change, level in zip(self.norms, self.maps, theirs, strict=False)
        ]


def alone(
    net: ProposerNet, pictures: Tensor, translated: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """The output of each part of the trunk given a good input, and of the pyramid given a good trunk.

    Args:
        pictures: (B, 3, H, W) from `prepare`.
        translated: maps of three levels, from `Translation`.
    """
    inputs = [pictures, *translated[:-1]]
    trunk = [net.part(level, x) for level, x in enumerate(inputs)]
    return trunk, net.pyramid(translated)


def difference(mine: Tensor, wanted: Tensor, weight: Tensor) -> Tensor:
    """Mean squared difference of maps (B, C, h, w), weighted per place by (B, 1, h, w).

    The gradient reaches `mine` alone.
    """
    value: Tensor = _Difference.apply(mine, wanted, weight)
    return value


class _Difference(torch.autograd.Function):
    """`difference` with one pass over the maps forward and one backward; autograd would make six."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, wanted: Tensor, weight: Tensor) -> Tensor:
        off = mine - wanted.float()
        share = weight / (weight.sum() * off.shape[1])
        ctx.save_for_backward(off, share)
        ctx.dtype = mine.dtype
        return (torch.linalg.vector_norm(off, dim=1, keepdim=True).square() * share).sum()

    @staticmethod
    def backward(ctx: Any, *gradient: Tensor) -> tuple[Tensor, None, None]:
        off, share = ctx.saved_tensors
        return (off * (share * (2 * gradient[0]))).to(ctx.dtype), None, None


def match_loss(trunk: Sequence[Tensor], translated: Sequence[Tensor], attention: Sequence[Tensor]) -> Tensor:
    """Squared difference of each part's output from the next part's given input, relative to its variance.

    No gradient reaches the translations: they would shrink to whatever is easily matched.

    Args:
        trunk, translated: maps (B, C, h, w) of each level.
        attention: weights (B, 1, h, w) of each level.
    """
    losses = []
    for mine, wanted, weight in zip(trunk, translated, attention, strict=True):
        wanted = wanted.detach().float()
        losses.append(difference(mine, wanted, weight) / wanted.var().clamp_min(1e-3))
    return torch.stack(losses).mean()
