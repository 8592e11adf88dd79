"""Vectors of a batch and their targets come in; the loss to minimise goes out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class LossWeights:
    """Weights of the loss terms; each term is summed over the exits.

    Attributes:
        imitate: 1 - cosine to the teacher's whitened feature of the same view.
        relate: divergence between the batch's similarities and the teacher's, as distributions.
        identify: cross entropy over one proxy per class or instance.
        local: 1 - cosine to the teacher's 4 x 4 map, at every stage.
        deep: share of the deepest exit's own vector in the target of shallower exits.
        shallow: weight of each exit before the deepest, which has 1; 0 leaves them untrained.
    """

    imitate: float = 4.0
    relate: float = 1.0
    identify: float = 0.3
    local: float = 1.0
    deep: float = 0.3
    shallow: float = 1.0


class Scaffold(nn.Module):
    """Parameters for training only: proxies of identities, and projections of maps to the teacher's."""

    def __init__(self, proxies: Tensor, channels: tuple[int, ...], axes: int) -> None:
        super().__init__()
        self.proxies = nn.Parameter(proxies.clone())
        self.local = nn.ModuleList([nn.Conv2d(c, axes, 1) for c in channels])


def imitation(vectors: Tensor, target: Tensor) -> Tensor:
    """Mean of 1 - cosine; both (B, dim) of unit length."""
    return 1 - (vectors * target).sum(dim=1).mean()


def relation(vectors: Tensor, target: Tensor, temperature: float = 0.1) -> Tensor:
    """Divergence of each row's similarities to the rest of the batch from the target's; both (B, dim)."""
    self_out = torch.full((len(vectors),), -1e4, device=vectors.device).diag()
    wanted = F.softmax(target @ target.T / temperature + self_out, dim=1)
    got = F.log_softmax(vectors @ vectors.T / temperature + self_out, dim=1)
    return F.kl_div(got, wanted, reduction="batchmean")


@dataclass(frozen=True, slots=True)
class Rivals:
    """The proxies to tell a batch apart from; drawn on the CPU, as a GPU would be waited for to count them.

    Attributes:
        chosen: for each exit, indices of proxies, those of the batch's own identities first.
        right: (B,) position in `chosen` of each view's own proxy.
    """

    chosen: tuple[Tensor, ...]
    right: Tensor

    @classmethod
    def draw(
        cls, identities: NDArray[np.int64], count: int, exits: int, rng: torch.Generator, others: int = 1024
    ) -> Rivals:
        """The batch's identities and up to `others` random ones of all `count`: all would cost too much."""
        present, right = np.unique(identities, return_inverse=True)
        chosen = []
        for _ in range(exits):
            drawn = torch.randint(count, (others,), generator=rng).numpy()
            chosen.append(torch.from_numpy(np.concatenate([present, drawn[~np.isin(drawn, present)]])))
        return cls(tuple(chosen), torch.from_numpy(right))


def identity(
    vectors: Tensor, proxies: Tensor, chosen: Tensor, right: Tensor, temperature: float = 0.08
) -> Tensor:
    """Cross entropy of each vector's similarities to the chosen proxies, with its own as the target."""
    return F.cross_entropy(vectors @ F.normalize(proxies[chosen], dim=1).T / temperature, right)


def locality(stage_map: Tensor, project: nn.Module, grid: Tensor) -> Tensor:
    """Mean of 1 - cosine of a stage's map (B, C, H, W), pooled to 4 x 4, to the teacher's (B, 16, axes)."""
    cells = project(F.adaptive_avg_pool2d(stage_map.float(), 4)).flatten(2).transpose(1, 2)  # (B, 16, axes)
    return 1 - F.cosine_similarity(cells, grid, dim=2).mean()


def total_loss(
    exits: list[tuple[Tensor, Tensor]],
    scaffold: Scaffold,
    target: Tensor,
    grid: Tensor,
    rivals: Rivals,
    weights: LossWeights,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum over all exits, and its unweighted parts at the deepest exit, for the log."""
    deepest = exits[-1][0].detach()
    total = target.new_zeros(())
    parts: dict[str, Tensor] = {}
    for number, (vectors, stage_map) in enumerate(exits):
        last = number == len(exits) - 1
        aim = target if last else F.normalize((1 - weights.deep) * target + weights.deep * deepest, dim=1)
        parts = {
            "imitate": imitation(vectors, aim),
            "relate": relation(vectors, aim),
            "identify": identity(vectors, scaffold.proxies, rivals.chosen[number], rivals.right),
            "local": locality(stage_map, scaffold.local[number], grid),
        }
        for name, value in parts.items():
            total = total + (1.0 if last else weights.shallow) * getattr(weights, name) * value
    return total, {name: value.detach() for name, value in parts.items()}
