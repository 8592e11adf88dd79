"""A trained proposer's network and a larger one enter; the larger one says what the other said.

What a network of few channels has learnt is a good beginning for one of more (Net2Net, Chen et al. 2016).
Every weight of the smaller network keeps its place between the channels that it joined. New channels begin at
random and are not listened to yet, new bottlenecks add nothing yet: the larger one goes on from there.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from panorama.models.proposer_net import Bottleneck, Context, ConvUnit, CrossStage, ProposerNet


@torch.no_grad()
def grow(small: ProposerNet, large: ProposerNet) -> None:
    """Give a fresh network of more channels and bottlenecks what a smaller one knows, in place.

    Args:
        small: trained, its norms not folded.
        large: at least as wide and deep everywhere, with random weights.

    Raises:
        ValueError: it is narrower or shallower somewhere.
    """
    if not large.shape.holds(small.shape):
        raise ValueError(f"a network grows: {small.shape} does not fit into {large.shape}")
    joins = _joins(small)
    theirs = dict(small.named_modules())
    for name, unit in large.named_modules():
        if isinstance(unit, ConvUnit) and name in theirs:
            _place_unit(theirs[name], unit, joins.get(name, 1))
        elif isinstance(unit, nn.Conv2d) and name in theirs and "conv" not in name:
            _place(theirs[name].weight, unit.weight, 1)
            assert unit.bias is not None
            unit.bias.copy_(theirs[name].bias)
        elif isinstance(unit, Bottleneck) and name not in theirs:
            unit.second.norm.get_parameter("weight").zero_()


def _joins(net: ProposerNet) -> dict[str, int]:
    """Units whose input is several maps behind each other -> how many; each map keeps its own place."""
    found = {}
    for name, module in net.named_modules():
        if isinstance(module, CrossStage):
            found[f"{name}.join"] = 2
        elif isinstance(module, Context):
            found[f"{name}.join"] = 4
    return found


def _place_unit(small: nn.Module, large: ConvUnit, maps: int) -> None:
    """A unit's weights and statistics between the channels of a larger one."""
    assert isinstance(small, ConvUnit)
    _place(small.conv.weight, large.conv.weight, maps)
    for name in ("weight", "bias", "running_mean", "running_var"):
        part: Tensor = getattr(small.norm, name)
        getattr(large.norm, name)[: len(part)].copy_(part)


def _place(small: Tensor, large: Tensor, maps: int) -> None:
    """Weights (out, in, k, k) into larger ones: old channels listen to old ones alone, new ones to all.

    Args:
        maps: of how many maps the input consists.
    """
    outputs = len(small)
    large[:outputs] = 0
    old = small.unflatten(1, (maps, -1))
    large.unflatten(1, (maps, -1))[:outputs, :, : old.shape[2]] = old
