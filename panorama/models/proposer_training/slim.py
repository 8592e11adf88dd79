"""A trained proposer network enters; a narrower one that begins with its strongest channels leaves.

A network that is begun so has most of what the wide one learnt, and a short training mends the rest. Channels
are chosen by what their norms and their readers make of them (Liu et al., 2017; Li et al., 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from panorama.errors import ModelError
from panorama.models.proposer_net import ConvUnit, ProposerNet, Residual


@torch.no_grad()
def slim(wide: ProposerNet, net: ProposerNet) -> None:
    """Fill `net` with the strongest channels and blocks of `wide`; norms must not be folded.

    Raises:
        ModelError: `net` has more channels, blocks or stages than `wide` somewhere.
    """
    try:
        _slim(wide, net)
    except (IndexError, RuntimeError, ValueError) as exc:
        raise ModelError(f"the recipe's network does not fit into the one it begins with: {exc}") from exc


def _slim(wide: Any, net: Any) -> None:
    channels = _copy(wide.stem, net.stem, torch.arange(3), readers=[(wide.stages[0][0].conv, 0)])
    streams = []
    for number, (old, new) in enumerate(zip(wide.stages, net.stages, strict=True)):
        blocks = strongest_blocks(list(old[1:]), len(new) - 1)
        after = wide.stages[number + 1][0] if number + 1 < len(wide.stages) else wide.context.narrow
        readers = [(block.first.conv, 0) for block in blocks] + [(after.conv, 0)]
        if number:
            reader = wide.laterals[number - 1] if number + 1 < len(wide.stages) else wide.context.narrow
            readers.append((reader.conv, 0))
        writers = [old[0], *(block.second for block in blocks)]
        stream = strongest(writers, readers, new[0].conv.out_channels)
        _put(old[0], new[0], stream, channels)
        for block, slimmer in zip(blocks, new[1:], strict=True):
            inner = _copy(block.first, slimmer.first, stream, readers=[(block.second.conv, 0)])
            _put(block.second, slimmer.second, stream, inner)
        streams.append(stream)
        channels = stream
    pooled = wide.context.narrow.conv.out_channels
    parts = [(wide.context.join.conv, part * pooled) for part in range(4)]
    narrow = _copy(wide.context.narrow, net.context.narrow, channels, readers=parts)
    joined = torch.cat([narrow + part * pooled for part in range(4)])
    streams[-1] = _copy(wide.context.join, net.context.join, joined, readers=[(wide.laterals[-1].conv, 0)])
    # What levels add up has the same channels in all of them.
    shared = strongest(
        list(wide.laterals), [(unit.conv, 0) for unit in wide.smooth], net.laterals[0].conv.out_channels
    )
    for level in range(len(wide.laterals)):
        _put(wide.laterals[level], net.laterals[level], shared, streams[level + 1])
        old, new = wide.heads[level], net.heads[level]
        towers = [(old.score_tower.conv, 0), (old.box_tower.conv, 0)]
        smooth = _copy(wide.smooth[level], net.smooth[level], shared, readers=towers)
        for tower, last in (("score_tower", "score"), ("box_tower", "box")):
            ins = _copy(getattr(old, tower), getattr(new, tower), smooth, readers=[(getattr(old, last), 0)])
            getattr(new, last).weight.copy_(getattr(old, last).weight[:, ins])
            getattr(new, last).bias.copy_(getattr(old, last).bias)


def strongest_blocks(blocks: Sequence[Residual], count: int) -> list[Residual]:
    """The `count` blocks that change their stream most, in their own order."""
    if count > len(blocks):
        raise ValueError(f"{count} blocks wanted of {len(blocks)}")
    weight = [float(_gain(block.second).sum()) for block in blocks]
    kept = sorted(sorted(range(len(blocks)), key=weight.__getitem__, reverse=True)[:count])
    return [blocks[place] for place in kept]


def strongest(writers: Sequence[ConvUnit], readers: Sequence[tuple[nn.Conv2d, int]], count: int) -> Tensor:
    """(count,) int64, rising: the channels that are written strongest and read most.

    Args:
        writers: units whose outputs are added up in these channels.
        readers: convolutions that read them, and at which of their inputs the channels begin.
        count: how many are kept.
    """
    written = torch.stack([_gain(unit) for unit in writers]).sum(0)
    read = torch.zeros_like(written)
    for conv, first in readers:
        read += conv.weight[:, first : first + len(written)].square().sum((0, 2, 3)).sqrt()
    if count > len(written):
        raise ValueError(f"{count} channels wanted of {len(written)}")
    return (written * read).topk(count).indices.sort().values


def _gain(unit: ConvUnit) -> Tensor:
    """How far each output channel swings, by its norm."""
    assert isinstance(unit.norm, nn.BatchNorm2d)
    return unit.norm.weight.abs()


def _copy(old: ConvUnit, new: ConvUnit, ins: Tensor, readers: Sequence[tuple[nn.Conv2d, int]]) -> Tensor:
    """Fill one unit from the strongest outputs of another; which these are."""
    outs = strongest([old], readers, new.conv.out_channels)
    _put(old, new, outs, ins)
    return outs


def _put(old: ConvUnit, new: ConvUnit, outs: Tensor, ins: Tensor) -> None:
    """Fill one unit with some outputs and inputs of another."""
    new.conv.weight.copy_(old.conv.weight[outs][:, ins])
    assert isinstance(old.norm, nn.BatchNorm2d)
    assert isinstance(new.norm, nn.BatchNorm2d)
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(new.norm, name).copy_(getattr(old.norm, name)[outs])
