"""Batches of RGB pictures come in; an objectness and a box for every grid point go out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from panorama.models.points import LEAST_LOG, MOST_LOG, SPREAD, STRIDES, ZERO
from panorama.models.proposer_shape import Shape, by_level


class ConvUnit(nn.Module):
    """Convolution, batch norm and, if wanted, ReLU; for inference, `fold` merges the first two."""

    def __init__(self, inputs: int, outputs: int, size: int = 3, stride: int = 1, relu: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs, momentum=0.03)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        return F.relu(x, inplace=True) if self.relu else x

    def fold(self) -> None:
        """Merge the norm into the convolution; only for a network that is no longer trained."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = nn.utils.fusion.fuse_conv_bn_eval(self.conv.eval(), self.norm.eval())
            self.norm = nn.Identity()


class Bottleneck(nn.Module):
    """A 1x1 and a dense 3x3 convolution with a shortcut; at these widths faster than depthwise ones."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = ConvUnit(width, width, 1)
        self.second = ConvUnit(width, width, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(self.first(x)), inplace=True)


class CrossStage(nn.Module):
    """Half of the channels pass through bottlenecks, half go around them, and both are joined (CSPNet, 2019).

    For the same number of products, many thin layers explain more of a teacher's features than few wide ones.
    """

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        half = width // 2
        self.through = ConvUnit(width, half, 1)
        self.around = ConvUnit(width, half, 1)
        self.blocks = nn.ModuleList(Bottleneck(half) for _ in range(depth))
        self.join = ConvUnit(2 * half, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        inner = self.through(x)
        for block in self.blocks:
            inner = block(inner)
        return self.join(torch.cat([inner, self.around(x)], 1))


class Context(nn.Module):
    """Widens the view of the deepest level by max pooling over growing windows."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.narrow = ConvUnit(width, width // 2, 1)
        self.join = ConvUnit(width // 2 * 4, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.narrow(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.join(torch.cat(parts, 1))


class Head(nn.Module):
    """Turns the features of one pyramid level into objectness and distances."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score_tower = ConvUnit(width, width)
        self.box_tower = ConvUnit(width, width)
        self.score = nn.Conv2d(width, 1, 1)
        self.box = nn.Conv2d(width, 4, 1)
        # Few points hold a thing: start with objectness near 0.02 and boxes about three cells wide.
        for layer, bias in ((self.score, -4.0), (self.box, 0.5)):
            nn.init.normal_(layer.weight, std=0.01)
            layer.bias = nn.Parameter(torch.full((layer.out_channels,), bias))

    def forward(self, x: Tensor) -> Tensor:
        return self.outputs(self.score_tower(x), self.box_tower(x))

    def outputs(self, scores: Tensor, boxes: Tensor) -> Tensor:
        """(B, h * w, 5), objectness then distances, from both towers' maps (B, width, h, w)."""
        # The last products stay in float32: bfloat16's 8 significant bits would move a wide box by pixels.
        with torch.autocast(scores.device.type, enabled=False):
            both = torch.cat([self.score(scores.float()), self.box(boxes.float())], 1)
        return both.flatten(2).transpose(1, 2)  # (B, h * w, 5)

    def float_outputs(self) -> None:
        """Keep the last products in float32 in a network of lower precision."""
        self.score.float()
        self.box.float()


class ProposerNet(nn.Module):
    """A trunk of cross stages, a feature pyramid at strides 8, 16 and 32, and an anchor-free head per level.

    The pyramid passes features from the deeper levels down to the finer ones, and the results up again
    (PANet, Liu et al. 2018). This costs little, since it happens on the coarse levels. If two levels differ
    in width, a 1 x 1 convolution adapts the features that are passed down.

    Args:
        widths: channels at strides 2, 4, 8, 16 and 32.
        depths: bottlenecks at strides 4, 8, 16 and 32; 0 also omits the stage's other layers after the first.
        pyramid: channels of the pyramid and the heads: one number for all levels, or one each for strides 8,
            16 and 32.
    """

    def __init__(self, widths: Sequence[int], depths: Sequence[int], pyramid: int | Sequence[int]) -> None:
        super().__init__()
        self.shape = Shape(tuple(widths), tuple(depths), by_level(pyramid))
        levels = self.shape.pyramid
        stem, *stages = widths
        self.stem = ConvUnit(3, stem, stride=2)
        self.stages = nn.ModuleList()
        before = stem
        for width, depth in zip(stages, depths, strict=True):
            stage: list[nn.Module] = [ConvUnit(before, width, stride=2)]
            if depth:
                stage.append(CrossStage(width, depth))
            self.stages.append(nn.Sequential(*stage))
            before = width
        self.context = Context(before)
        self.laterals = nn.ModuleList(ConvUnit(a, b, 1) for a, b in zip(stages[1:], levels, strict=True))
        self.descend = nn.ModuleList(
            ConvUnit(coarse, fine, 1) if coarse != fine else nn.Identity()
            for fine, coarse in pairwise(levels)
        )
        self.settle = ConvUnit(levels[1], levels[1])
        self.smooth = nn.ModuleList(ConvUnit(level, level) for level in levels)
        self.ascend = nn.ModuleList(ConvUnit(fine, coarse, stride=2) for fine, coarse in pairwise(levels))
        self.heads = nn.ModuleList(Head(level) for level in levels)

    def part(self, level: int, x: Tensor) -> Tensor:
        """One part of the trunk: pictures to stride 8 (level 0), stride 8 to 16, or stride 16 to 32.

        Args:
            level: 0, 1 or 2.
            x: for level 0 pictures (B, 3, H, W) from `prepare`, H and W multiples of 32; else the output of
                the part before.
        """
        if level == 0:
            x = self.stages[0](self.stem(x))  # (B, 32, H/4, W/4)
        x = self.stages[level + 1](x)
        return self.context(x) if level == 2 else x

    def pyramid(self, trunk: Sequence[Tensor]) -> list[Tensor]:
        """Pyramid features at strides 8, 16 and 32, from the trunk's features there."""
        inner = [lateral(t) for lateral, t in zip(self.laterals, trunk, strict=True)]
        inner[1] = self.settle(inner[1] + doubled(self.descend[1](inner[2])))
        inner[0] = inner[0] + doubled(self.descend[0](inner[1]))
        levels = [self.smooth[0](inner[0])]
        for level in (1, 2):
            levels.append(self.smooth[level](inner[level] + self.ascend[level - 1](levels[-1])))
        return levels

    def features(self, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """Trunk features and pyramid features at strides 8, 16 and 32.

        Args:
            x: (B, 3, H, W) from `prepare`; H and W multiples of 32.
        """
        trunk: list[Tensor] = []
        for level in range(len(STRIDES)):
            trunk.append(self.part(level, trunk[-1] if trunk else x))
        return trunk, self.pyramid(trunk)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Objectness logits (B, N) and boxes in pixels of the input (B, N, 4), N over the three levels."""
        return self.decode(self.features(x)[1])

    def decode(self, pyramid: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The output of `forward`, from the pyramid features."""
        raw = self.said(pyramid)
        centres, strides = grid([(p.shape[2], p.shape[3]) for p in pyramid], raw.device)
        return raw[..., 0], distances_to_boxes(raw[..., 1:], centres, strides)

    def said(self, pyramid: Sequence[Tensor]) -> Tensor:
        """The heads' outputs for all points, finest level first: (B, N, 5), logit and four log distances."""
        return torch.cat([head(p) for head, p in zip(self.heads, pyramid, strict=True)], 1)

    def set_precision(self, dtype: torch.dtype) -> None:
        """Convert everything to `dtype` except the heads' last products, which stay in float32."""
        self.to(dtype)
        for module in self.modules():
            if isinstance(module, Head):
                module.float_outputs()

    def fold(self) -> ProposerNet:
        """Merge all norms into their convolutions, in place."""
        for module in self.modules():
            if isinstance(module, ConvUnit):
                module.fold()
        return self


def doubled(x: Tensor) -> Tensor:
    """A map at twice its height and width, each value repeated."""
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def prepare(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """(B, H, W, 3) uint8 RGB to (B, 3, H, W) around zero, channels last in memory; exact in bfloat16, too."""
    return images.permute(0, 3, 1, 2).to(dtype).sub_(ZERO).div_(SPREAD)


def grid(shapes: Sequence[tuple[int, int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Centres (N, 2) as x, y in input pixels and strides (N,) of all grid points, finest level first.

    The tensors are cached and must not be changed in place; creating them per batch would stall a GPU.
    """
    return _grid(tuple(shapes), torch.device(device))


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a tensor first needed for inference may later serve a backward pass
def _grid(shapes: tuple[tuple[int, int], ...], device: torch.device) -> tuple[Tensor, Tensor]:
    centres, strides = [], []
    for (height, width), stride in zip(shapes, STRIDES, strict=True):
        y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        centres.append((torch.stack([x, y], -1).reshape(-1, 2) + 0.5) * stride)
        strides.append(torch.full((height * width,), float(stride)))
    return torch.cat(centres).to(device), torch.cat(strides).to(device)


def distances_to_boxes(raw: Tensor, centres: Tensor, strides: Tensor) -> Tensor:
    """Log distances to left, top, right and bottom, in strides, to x1, y1, x2, y2 in pixels: (..., N, 4)."""
    distances = raw.clamp(LEAST_LOG, MOST_LOG).exp() * strides[:, None]
    return torch.cat([centres - distances[..., :2], centres + distances[..., 2:]], -1)
