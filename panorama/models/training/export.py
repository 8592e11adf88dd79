"""A trained trunk comes in; a folder for `load_embedder` goes out: recipe, weights, cohort, digests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save
from torch import Tensor

from panorama.models.base import Image
from panorama.models.color import color_bands
from panorama.models.embedder import PanoramaNet
from panorama.models.network import Head, Trunk
from panorama.models.training.cohort import write_cohort
from panorama.models.training.loop import to_input
from panorama.models.weights import RECIPE, WEIGHTS, open_model
from panorama.whole_files import write_whole


@torch.no_grad()
def whiten_heads(
    trunk: Trunk, pictures: NDArray[np.uint8], mean: Tensor, std: Tensor, shrinkage: float
) -> None:
    """Fold a strongly shrunk whitening of each exit's vectors over training pictures into its projection.

    `shrinkage`, in mean eigenvalues, is added to every eigenvalue; the axes stay, so exits remain comparable.
    """
    trunk.eval()
    projections = [cast(Head, head).project for head in trunk.heads]
    found: list[list[Tensor]] = [[] for _ in projections]
    hooks = [
        project.register_forward_hook(lambda _m, _i, output, rows=rows: rows.append(output.float()))
        for project, rows in zip(projections, found, strict=True)
    ]
    for start in range(0, len(pictures), 128):
        trunk(to_input(pictures[start : start + 128], mean, std))
    for hook in hooks:
        hook.remove()
    for project, rows in zip(projections, found, strict=True):
        y = torch.cat(rows).double()
        center = y.mean(dim=0)
        values, axes = torch.linalg.eigh(torch.cov((y - center).T))
        scale = (values.clamp(min=0) + shrinkage * values.mean()).rsqrt()
        whiten = axes @ torch.diag(scale) @ axes.T  # (dim, dim)
        project.weight.copy_(whiten.float() @ project.weight)
        project.bias.copy_((whiten @ (project.bias.double() - center)).float())


def color_axes(pictures: Sequence[Image], dim: int) -> NDArray[np.float32]:
    """(COLOR_DIM, dim): the axes that preserve most of the colour vectors' inner products."""
    vectors = color_bands(pictures).astype(np.float64)
    _, axes = np.linalg.eigh(vectors.T @ vectors)
    return np.ascontiguousarray(axes[:, ::-1][:, :dim], np.float32)


def write_model(
    folder: Path,
    recipe: str,
    trunk: Trunk,
    mean: Tensor,
    std: Tensor,
    axes: NDArray[np.float32],
    cohort: Sequence[Image],
) -> PanoramaNet:
    """Write a recipe's text, weights in half precision and the cohort's vectors; return the loaded model."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / RECIPE, recipe.encode())
    tensors = {k: v for k, v in trunk.state_dict().items() if "num_batches" not in k}
    tensors |= {"input.mean": mean, "input.std": std, "color.axes": torch.from_numpy(axes)}
    half = {k: v.detach().cpu().to(torch.float16).contiguous().clone() for k, v in tensors.items()}
    write_whole(folder / WEIGHTS, save(half))
    write_cohort(folder, cohort)
    return PanoramaNet(open_model(str(folder), "embedder"))
