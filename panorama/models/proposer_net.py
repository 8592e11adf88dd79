"""RGB batches enter the proposer's network; an objectness and a box for every grid point leave."""

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
    """Convolution, batch norm, ReLU; the norm folds into the convolution for inference."""

    def __init__(self, inputs: int, outputs: int, size: int = 3, stride: int = 1, relu: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(outputs, momentum=0.03)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        return F.relu(x, inplace=True) if self.relu else x

    def fold(self) -> None:
        """Merge the norm into the convolution; only for a network that is not trained any more."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = nn.utils.fusion.fuse_conv_bn_eval(self.conv.eval(), self.norm.eval())
            self.norm = nn.Identity()


class Bottleneck(nn.Module):
    """A 1x1 and a dense 3x3 convolution around a shortcut: at these widths quicker than depthwise ones."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = ConvUnit(width, width, 1)
        self.second = ConvUnit(width, width, relu=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.second(self.first(x)), inplace=True)


class CrossStage(nn.Module):
    """Half of the channels pass through bottlenecks, half go around them, and both are joined (CSPNet, 2019).

    Many thin layers explain more of a teacher's features than few wide ones of as many products.
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
    """One pyramid level's features to objectness and distances."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score_tower = ConvUnit(width, width)
        self.box_tower = ConvUnit(width, width)
        self.score = nn.Conv2d(width, 1, 1)
        self.box = nn.Conv2d(width, 4, 1)
        # Few points hold a thing: start at about 0.02, with boxes of about three cells.
        for layer, bias in ((self.score, -4.0), (self.box, 0.5)):
            nn.init.normal_(layer.weight, std=0.01)
            layer.bias = nn.Parameter(torch.full((layer.out_channels,), bias))

    def forward(self, x: Tensor) -> Tensor:
        return self.outputs(self.score_tower(x), self.box_tower(x))

    def outputs(self, scores: Tensor, boxes: Tensor) -> Tensor:
        """From both towers' maps (B, width, h, w) to (B, h * w, 5): objectness, then distances."""
        # The last products stay in float32: bfloat16's eight bits would move a wide box by pixels.
        with torch.autocast(scores.device.type, enabled=False):
            both = torch.cat([self.score(scores.float()), self.box(boxes.float())], 1)
        return both.flatten(2).transpose(1, 2)  # (B, h * w, 5)

    def float_outputs(self) -> None:
        """Keep the last products in float32 in a network of lower precision."""
        self.score.float()
        self.box.float()


class ProposerNet(nn.Module):
    """A trunk of cross stages, a feature pyramid at strides 8, 16 and 32, and an anchor-free head a level.

    The pyramid hands down what the deeper levels know and then up again what the finer ones have made of it
    (PANet, Liu et al. 2018); that costs little, as it is on the coarse levels. Where the finer level is
    of another width, a convolution of 1 x 1 gives what is handed down as many channels.

    Args:
        widths: channels at strides 2, 4, 8, 16 and 32.
        depths: bottlenecks at strides 4, 8, 16 and 32; 0 for none of the stage's other layers either.
        pyramid: channels of the pyramid and the heads, of all levels or of strides 8, 16 and 32.
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
        """One part of the trunk: pictures to stride 8 (level 0), that to stride 16, and that to stride 32.

        Args:
            level: 0, 1 or 2.
            x: (B, 3, H, W), prepared by `prepare`, H and W multiples of 32; else what the part before gave.
        """
        if level == 0:
            x = self.stages[0](self.stem(x))  # (B, 32, H/4, W/4)
        x = self.stages[level + 1](x)
        return self.context(x) if level == 2 else x

    def pyramid(self, trunk: Sequence[Tensor]) -> list[Tensor]:
        """Pyramid features at strides 8, 16 and 32, from the trunk's."""
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
            x: (B, 3, H, W), prepared by `prepare`; H and W multiples of 32.
        """
        trunk: list[Tensor] = []
        for level in range(len(STRIDES)):
            trunk.append(self.part(level, trunk[-1] if trunk else x))
        return trunk, self.pyramid(trunk)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Objectness logits (B, N) and boxes in pixels of the input (B, N, 4), N over the three levels."""
        return self.decode(self.features(x)[1])

    def decode(self, pyramid: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """What `forward` returns, from the pyramid features."""
        raw = self.said(pyramid)
        centres, strides = grid([(p.shape[2], p.shape[3]) for p in pyramid], raw.device)
        return raw[..., 0], distances_to_boxes(raw[..., 1:], centres, strides)

    def said(self, pyramid: Sequence[Tensor]) -> Tensor:
        """What the heads say of all points, (B, N, 5): a logit and four log distances; level by level."""
        return torch.cat([head(p) for head, p in zip(self.heads, pyramid, strict=True)], 1)

    def set_precision(self, dtype: torch.dtype) -> None:
        """Turn all but the heads' last products to `dtype`; those stay in float32."""
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
    """A map at twice its height and width."""
    return F.interpolate(x, scale_factor=2.0, mode="nearest")


def prepare(images: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """(B, H, W, 3) uint8 RGB to (B, 3, H, W) around zero, channels last in memory; exact in bfloat16 too."""
    return images.permute(0, 3, 1, 2).to(dtype).sub_(ZERO).div_(SPREAD)


def grid(shapes: Sequence[tuple[int, int]], device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Centres (N, 2) as x, y in input pixels and strides (N,) of all grid points, level by level.

    They are kept, and not to be changed in place: made anew at each batch, a GPU would wait for them.
    """
    return _grid(tuple(shapes), torch.device(device))


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # what inference asked for first may be kept for a backward pass later
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
