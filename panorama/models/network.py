"""Normalised pictures come in; one unit vector per exit of PanoramaNet's trunk goes out.

A residual trunk of dense 3 x 3 convolutions (fast in bfloat16 on CPUs) with three exits. At 128 pixels:

    stem, stage 1, exit 1      32 channels at 32 x 32, 64 at 16 x 16
    stage 2, exit 2            128 channels at 8 x 8
    stage 3, exit 3            256 channels at 4 x 4
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from panorama.models.late import EXITS

STAGE_CHANNELS = (64, 128, 256)


class ConvNorm(nn.Sequential):
    """Convolution and batch norm, which `fold` merges into one convolution, and a ReLU if wanted."""

    def __init__(self, inner: int, outer: int, size: int, stride: int = 1, relu: bool = True) -> None:
        conv = nn.Conv2d(inner, outer, size, stride, size // 2, bias=False)
        super().__init__(conv, nn.BatchNorm2d(outer), nn.ReLU(inplace=True) if relu else nn.Identity())

    def fold(self) -> None:
        """Merge the batch norm into the convolution; for inference only."""
        conv, norm = self[0], self[1]
        if not isinstance(norm, nn.BatchNorm2d) or not isinstance(conv, nn.Conv2d):
            return
        assert norm.running_var is not None and norm.running_mean is not None
        scale = norm.weight.data / torch.sqrt(norm.running_var + norm.eps)
        inner, outer, size = conv.in_channels, conv.out_channels, conv.kernel_size[0]
        merged = nn.Conv2d(inner, outer, size, conv.stride[0], size // 2)
        assert merged.bias is not None
        merged.weight.data = conv.weight.data * scale.reshape(-1, 1, 1, 1)
        merged.bias.data = norm.bias.data - norm.running_mean * scale
        self[0], self[1] = merged, nn.Identity()


class Residual(nn.Module):
    """x + f(x), then a ReLU; f is `depth` (one or two) 3 x 3 convolutions."""

    def __init__(self, channels: int, depth: int) -> None:
        super().__init__()
        layers = [ConvNorm(channels, channels, 3, relu=i + 1 < depth) for i in range(depth)]
        nn.init.zeros_(layers[-1][1].weight)  # type: ignore[arg-type]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.layers(x))


class Head(nn.Module):
    """Turns a stage's map into a unit vector: widen, average, project, centre."""

    def __init__(self, inner: int, wide: int, dim: int, down: int | None = None) -> None:
        super().__init__()
        self.down = ConvNorm(inner, down, 3, 2) if down else nn.Identity()
        self.widen = ConvNorm(down or inner, wide, 1)
        self.project = nn.Linear(wide, dim)
        self.center: Tensor
        self.register_buffer("center", torch.zeros(dim))

    def forward(self, x: Tensor) -> Tensor:
        return self.vectors(self.widen(self.down(x)))

    def vectors(self, x: Tensor) -> Tensor:
        """Unit vectors (B, dim) from the widened map, (B, wide, h, w)."""
        pooled = x.float().mean(dim=(2, 3))  # (B, wide)
        y = self.project(pooled.to(self.project.weight.dtype)).float()
        return F.normalize(F.normalize(y, dim=1) - self.center, dim=1)  # (B, dim)


class Trunk(nn.Module):
    """Three stages, each followed by an exit."""

    def __init__(self, dim: int = 192) -> None:
        super().__init__()
        self.dim = dim
        self.stages = nn.ModuleList(
            [
                nn.Sequential(
                    ConvNorm(3, 32, 7, 4), Residual(32, 1), ConvNorm(32, 64, 3, 2), Residual(64, 1)
                ),
                nn.Sequential(Residual(64, 2), ConvNorm(64, 128, 3, 2), Residual(128, 2), Residual(128, 2)),
                nn.Sequential(ConvNorm(128, 256, 3, 2), *(Residual(256, 2) for _ in range(3))),
            ]
        )
        self.heads = nn.ModuleList([Head(64, 256, dim, down=96), Head(128, 384, dim), Head(256, 512, dim)])

    def stages_out(self, x: Tensor, last: int = EXITS) -> Iterator[tuple[Tensor, Tensor]]:
        """For each exit up to `last`, for training: its own unit vectors (B, dim) and the stage's map."""
        for stage, head in zip(self.stages[:last], self.heads, strict=False):
            x = stage(x)
            yield head(x), x

    def exits_out(self, x: Tensor, first: int = 1, last: int = EXITS) -> list[Tensor]:
        """Unit vectors of exits `first` to `last`, (B, dim) float32 each: an exit's own plus all before it.

        Each exit learns separately. They err differently, so their sum retrieves better than the deepest.
        """
        return self.summed((vectors for vectors, _ in self.stages_out(x, last)), first)

    @staticmethod
    def summed(own: Iterable[Tensor], first: int) -> list[Tensor]:
        """The vectors (B, dim) of exits from `first` on: sums of the exits' own vectors, at unit length."""
        found = []
        total: Tensor | float = 0.0
        for number, vectors in enumerate(own, 1):
            total = total + vectors
            if number >= first:
                found.append(F.normalize(total, dim=1))
        return found

    def forward(self, x: Tensor) -> list[Tensor]:
        """Unit vectors of all exits; see `exits_out`."""
        return self.exits_out(x)

    def fold(self) -> None:
        """Merge all batch norms into their convolutions; for inference only."""
        for module in self.modules():
            if isinstance(module, ConvNorm):
                module.fold()


def macs_per_exit(trunk: Trunk, side: int) -> tuple[int, ...]:
    """Multiply-adds of one picture up to and including each exit, with the heads of shallower exits."""
    counts: list[int] = []
    total = 0

    def count(module: nn.Module, _: object, output: Tensor) -> None:
        nonlocal total
        if isinstance(module, nn.Conv2d):
            k1, k2 = module.kernel_size
            total += output.shape[2] * output.shape[3] * module.weight[0].numel() * module.out_channels
            assert k1 == k2
        elif isinstance(module, nn.Linear):
            total += module.in_features * module.out_features

    hooks = [m.register_forward_hook(count) for m in trunk.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    parameter = next(trunk.parameters())
    was_training = trunk.training
    trunk.eval()
    with torch.inference_mode():
        empty = torch.zeros(1, 3, side, side, dtype=parameter.dtype, device=parameter.device)
        for _ in trunk.stages_out(empty):
            counts.append(total)
    trunk.train(was_training)
    for hook in hooks:
        hook.remove()
    return tuple(counts)
