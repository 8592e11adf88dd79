"""Gradients come in; new weights go out, by orthogonalised momentum or AdamW, and their running average."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from panorama.errors import ModelError
from panorama.models.precision import training_dtype


def orthogonal(matrices: Tensor, steps: int = 3) -> Tensor:
    """Approximately the nearest matrices (..., m, n) with orthonormal rows or columns, by Newton-Schulz.

    The quintic's coefficients are those of K. Jordan's Muon (2024), chosen for speed near zero. Singular
    values end between 0.7 and 1.2.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrices.to(training_dtype(matrices.device.type))
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Momentum with an orthogonalised update, for weights of two or more dimensions (output first)."""

    def __init__(
        self, params: Iterable[Tensor], lr: float, momentum: float = 0.95, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """Update every weight that has a gradient once."""
        for group in self.param_groups:
            for alike in _by_shape(group["params"]):
                self._update(alike, group)

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        """Update weights of one shape together: on a GPU, launching a small product is most of its cost."""
        for weight in weights:
            if "momentum" not in self.state[weight]:
                self.state[weight]["momentum"] = torch.zeros_like(weight)
        grads = [weight.grad for weight in weights if weight.grad is not None]
        momenta = [self.state[weight]["momentum"] for weight in weights]
        torch._foreach_lerp_(momenta, grads, 1 - group["momentum"])
        blends = torch._foreach_lerp(grads, momenta, group["momentum"])
        updates = orthogonal(torch.stack([blend.flatten(1) for blend in blends]))
        scale = max(1.0, updates.shape[-2] / updates.shape[-1]) ** 0.5
        updates = updates * (-group["lr"] * scale)
        torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        shaped = [update.view(weight.shape) for update, weight in zip(updates, weights, strict=True)]
        torch._foreach_add_(weights, shaped)


def _by_shape(weights: Iterable[Tensor]) -> list[list[Tensor]]:
    """The weights that have a gradient, in lists of one shape."""
    found: dict[torch.Size, list[Tensor]] = {}
    for weight in weights:
        if weight.grad is not None:
            found.setdefault(weight.shape, []).append(weight)
    return list(found.values())


def make_optimisers(
    network: nn.Module, scaffold: nn.Module, learning_rate: float, matrix_rate: float, weight_decay: float
) -> list[torch.optim.Optimizer]:
    """Muon for the network's convolutions after the stem, AdamW for the rest; the given rates are maxima.

    Of a network on a GPU, the rates lie there, too, where a CUDA graph can read them.
    """
    matrices, decayed, plain = [], [], []
    for parameter in network.parameters():
        if parameter.ndim == 4 and parameter.shape[1] > 3:
            matrices.append(parameter)
        elif parameter.ndim > 1:
            decayed.append(parameter)
        else:
            plain.append(parameter)
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": [*plain, *scaffold.parameters()], "weight_decay": 0.0},
    ]
    device = next(network.parameters()).device
    gpu = device.type == "cuda"
    optimisers: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, lr=learning_rate, capturable=gpu)]
    if matrix_rate > 0:
        optimisers.append(Muon(matrices, matrix_rate, weight_decay=weight_decay))
    else:
        optimisers[0].add_param_group({"params": matrices, "weight_decay": weight_decay})
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            group["highest"] = group["lr"]
            if gpu:
                group["lr"] = torch.tensor(group["lr"], device=device)
    return optimisers


def set_share(optimisers: Iterable[torch.optim.Optimizer], share: float) -> None:
    """Set every rate to this share of its highest."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            rate = group["highest"] * share
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate


def rate_at(step: int, steps: int, warmup: int, decay: int) -> float:
    """Share of the highest rate: a linear rise, a plateau whatever `steps` is, and a linear fall to 0."""
    return max(0.0, min(1.0, (step + 1) / max(1, warmup), (steps - step) / max(1, decay)))


def refuse_lost(step: int, rates: str, *, loss: Tensor | float, norm: Tensor | float = 0.0) -> None:
    """Raise if a step's loss or gradient is not finite; reading them waits for a GPU.

    Args:
        rates: the settings to lower, for the error message.
        norm: of the gradients, if known. Gradients come after the loss and may have spoilt the weights for
            the next one.

    Raises:
        ModelError: one of them is infinite or NaN.
    """
    for what, value in (("the loss", float(loss)), ("the norm of the gradients", float(norm))):
        if not math.isfinite(value):
            raise ModelError(f"{what} is {value} at step {step}; lower {rates}")


@torch.no_grad()
def move_average(average: nn.Module, network: nn.Module, most: float, steps: int) -> None:
    """Move the running average of all weights and statistics towards the network's.

    Args:
        most: share of itself that the average keeps; less while `steps` is small, to forget the start.
    """
    keep = min(most, (steps + 1) / (steps + 10))
    pairs = list(zip(average.state_dict().values(), network.state_dict().values(), strict=True))
    floats = [(mine, new) for mine, new in pairs if mine.is_floating_point()]
    counters = [(mine, new) for mine, new in pairs if not mine.is_floating_point()]
    # All at once: hundreds of small weights one by one cost a GPU more than the step that changed them.
    torch._foreach_lerp_([mine for mine, _ in floats], [new for _, new in floats], 1 - keep)
    if counters:
        torch._foreach_copy_([mine for mine, _ in counters], [new for _, new in counters])


def state_tensors(optimisers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """The whole state of the optimisers as named tensors, for a checkpoint."""
    out = {}
    for number, optimiser in enumerate(optimisers):
        for index, state in optimiser.state_dict()["state"].items():
            for key, value in state.items():
                out[f"optimiser.{number}.{index}.{key}"] = torch.as_tensor(value).contiguous()
    return out


def restore_state(optimisers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    """The inverse of `state_tensors`, for optimisers made in the same way."""
    for number, optimiser in enumerate(optimisers):
        whole = optimiser.state_dict()
        prefix = f"optimiser.{number}."
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith(prefix):
                index, key = name[len(prefix) :].split(".")
                state.setdefault(int(index), {})[key] = value
        optimiser.load_state_dict({"state": state, "param_groups": whole["param_groups"]})
