"""Predictions, labels and a teacher's answer come in; the target of every grid point and losses go out."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True, slots=True)
class Assignment:
    """The target of every grid point.

    Attributes:
        quality: (B, N) target objectness in [0, 1]: the best overlap of its thing's boxes so far, times the
            point's fit relative to the best point.
        boxes: (B, N, 4) target box where `assigned`.
        assigned: (B, N) bool.
    """

    quality: Tensor
    boxes: Tensor
    assigned: Tensor


def pairwise_iou(a: Tensor, b: Tensor) -> Tensor:
    """IoU of (B, G, 4) with (B, N, 4): (B, G, N)."""
    a, b = a[:, :, None], b[:, None]
    inner = _area(
        (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp_min_(0)
    )
    sizes_a = _area((a[..., 2:] - a[..., :2]).clamp_min(0))
    sizes_b = _area((b[..., 2:] - b[..., :2]).clamp_min(0))
    return inner / (sizes_a + sizes_b - inner).clamp_min(1e-6)


def giou_loss(a: Tensor, b: Tensor) -> Tensor:
    """1 - GIoU of matched boxes (M, 4): (M,), in [0, 2]."""
    inner = _area((torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp_min(0))
    sizes_a, sizes_b = _area(a[:, 2:] - a[:, :2]), _area(b[:, 2:] - b[:, :2])
    union = (sizes_a + sizes_b - inner).clamp_min(1e-6)
    hull = _area(torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).clamp_min(1e-6)
    return 1 - inner / union + (hull - union) / hull


def _area(sides: Tensor) -> Tensor:
    """Products (...) of sides (..., 2); the backward pass of `prod` counts zeros, which waits for a GPU."""
    return sides[..., 0] * sides[..., 1]


@torch.no_grad()
def assign(
    scores: Tensor,
    boxes: Tensor,
    centres: Tensor,
    strides: Tensor,
    true: Tensor,
    real: Tensor,
    most: int = 10,
) -> Assignment:
    """Task-aligned assignment (TOOD, Feng et al. 2021): each thing gets the points that already fit it best.

    Args:
        scores: (B, N) objectness in [0, 1].
        boxes: (B, N, 4) predicted, in pixels.
        centres, strides: (N, 2) and (N,) of the grid.
        true: (B, G, 4) labels, padded to one count.
        real: (B, G) bool, False for padding.
        most: most points per thing.
    """
    overlaps = pairwise_iou(true, boxes)  # (B, G, N)
    # A thing smaller than a cell may contain no centre: widen it until it reaches the nearest one.
    middle, half = (true[..., :2] + true[..., 2:]) / 2, (true[..., 2:] - true[..., :2]) / 2
    reach = torch.maximum(
        half[:, :, None], 0.6 * strides[None, None, :, None] * (strides == strides.min())[:, None]
    )
    inside = ((centres[None, None] - middle[:, :, None]).abs() < reach).all(-1) & real[..., None]
    fit = scores[:, None].clamp_min(1e-4) * overlaps.pow(6) * inside + 1e-12 * inside * overlaps
    count = min(most, fit.shape[-1])
    best, where = fit.topk(count, dim=-1)
    chosen = torch.zeros_like(inside).scatter_(-1, where, best > 0)
    # A point that several things want goes to the one it overlaps most.
    owner = torch.where(chosen, overlaps, -1.0).argmax(1)  # (B, N)
    assigned = chosen.any(1)
    mine = F.one_hot(owner, true.shape[1]).transpose(1, 2).bool() & chosen
    top_fit = torch.where(mine, fit, 0).amax(-1, keepdim=True).clamp_min(1e-12)
    top_overlap = torch.where(mine, overlaps, 0).amax(-1, keepdim=True)
    quality = torch.where(mine, fit / top_fit * top_overlap, 0).amax(1)
    wanted = true.gather(1, owner[..., None].expand(-1, -1, 4))
    return Assignment(quality, wanted, assigned)


def silence(centres: Tensor, areas: Tensor) -> Tensor:
    """(B, N) bool: grid points inside any of the (B, U, 4) areas where a missing box means little."""
    x, y = centres[None, None, :, 0], centres[None, None, :, 1]
    inside = (x >= areas[..., :1]) & (y >= areas[..., 1:2]) & (x < areas[..., 2:3]) & (y < areas[..., 3:])
    return inside.any(1)


def detection_loss(
    logits: Tensor,
    boxes: Tensor,
    found: Assignment,
    teacher_scores: Tensor,
    teacher_boxes: Tensor,
    silent: Tensor,
    silent_weight: float,
) -> tuple[Tensor, Tensor]:
    """Objectness loss (quality focal, Li et al. 2020) and box loss (GIoU), each relative to target quality.

    The target is at least the teacher's score, also where there is no label. Where the teacher sees nothing
    either and the area is silent, the point counts little.
    """
    soft = teacher_scores * (teacher_scores > 0.03)
    wanted = torch.where(found.assigned, torch.maximum(found.quality, soft), soft)
    total = wanted.sum().clamp_min(1.0)
    weight = torch.where(silent & ~found.assigned & (soft < 0.1), silent_weight, 1.0)
    focus = (logits.sigmoid() - wanted).abs().square()
    score_loss = (
        weight * focus * F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    ).sum() / total

    by_teacher = ~found.assigned & (soft > 0.1)
    target = torch.where(found.assigned[..., None], found.boxes, teacher_boxes)
    pick = found.assigned | by_teacher
    # Computed at every point and weighted by 0 where not picked: selecting points would wait for a GPU.
    share = torch.where(found.assigned, found.quality.clamp_min(0.1), soft) * pick
    apart = giou_loss(boxes.flatten(0, 1), target.flatten(0, 1)).view_as(share)
    return score_loss, (apart * share).sum() / share.sum().clamp_min(1.0)
