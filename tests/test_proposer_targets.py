"""Training the proposer: which points learn what, and the losses."""

from __future__ import annotations

import pytest
import torch

from panorama.models.proposer_net import grid
from panorama.models.proposer_training.targets import assign, detection_loss, giou_loss, silence


def perfect_predictions(true: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Every grid point of a 128 x 128 picture predicts the first true box."""
    centres, strides = grid([(16, 16), (8, 8), (4, 4)])
    return true[:, :1].expand(-1, len(centres), -1).clone(), centres, strides


def test_points_inside_a_thing_are_assigned_to_it_with_full_quality() -> None:
    true, real = torch.tensor([[[20.0, 20, 80, 70]]]), torch.tensor([[True]])
    boxes, centres, strides = perfect_predictions(true)
    found = assign(torch.full((1, len(centres)), 0.5), boxes, centres, strides, true, real)
    assert 1 <= int(found.assigned.sum()) <= 10
    chosen = centres[found.assigned[0]]
    assert bool(((chosen > 20) & (chosen < 80)).all())
    assert float(found.quality.max()) == pytest.approx(1.0, abs=1e-3)
    assert float(found.quality[~found.assigned].abs().max()) == 0.0


def test_a_thing_smaller_than_a_cell_still_gets_a_point() -> None:
    true, real = torch.tensor([[[41.0, 41, 43, 43]]]), torch.tensor([[True]])
    boxes, centres, strides = perfect_predictions(true)
    assert (
        int(assign(torch.full((1, len(centres)), 0.5), boxes, centres, strides, true, real).assigned.sum())
        >= 1
    )


def test_padding_is_never_assigned() -> None:
    true = torch.tensor([[[20.0, 20, 80, 70], [0, 0, 0, 0]]])
    boxes, centres, strides = perfect_predictions(true)
    found = assign(
        torch.full((1, len(centres)), 0.5), boxes, centres, strides, true, torch.tensor([[False, False]])
    )
    assert not bool(found.assigned.any())


def test_a_point_wanted_by_two_things_goes_to_the_one_it_overlaps_most() -> None:
    true, real = torch.tensor([[[20.0, 20, 80, 70], [0, 0, 128, 128]]]), torch.tensor([[True, True]])
    boxes, centres, strides = perfect_predictions(true)
    found = assign(torch.full((1, len(centres)), 0.5), boxes, centres, strides, true, real)
    inner = found.assigned[0] & (found.boxes[0] == true[0, 0]).all(1)
    assert int(inner.sum()) == 10


def test_giou_loss_is_zero_for_equal_boxes_and_grows_with_distance() -> None:
    box = torch.tensor([[0.0, 0, 10, 10]])
    near, far = box + 20, box + 60
    assert float(giou_loss(box, box)) == pytest.approx(0.0, abs=1e-6)
    assert float(giou_loss(box, near)) < float(giou_loss(box, far)) <= 2.0


def test_loss_is_lower_where_scores_follow_the_targets() -> None:
    true, real = torch.tensor([[[20.0, 20, 80, 70]]]), torch.tensor([[True]])
    boxes, centres, strides = perfect_predictions(true)
    found = assign(torch.full((1, len(centres)), 0.5), boxes, centres, strides, true, real)
    nothing, quiet = torch.zeros(1, len(centres)), silence(centres, torch.zeros(1, 1, 4))
    right = torch.where(found.assigned, 4.0, -6.0)
    good = detection_loss(right, boxes, found, nothing, boxes, quiet, 0.25)[0]
    bad = detection_loss(-right, boxes, found, nothing, boxes, quiet, 0.25)[0]
    assert float(good) < 0.2 * float(bad)


def test_a_proposal_in_a_silent_area_costs_less() -> None:
    centres, strides = grid([(16, 16), (8, 8), (4, 4)])
    none = torch.zeros(1, 1, 4)
    nothing, boxes = torch.zeros(1, len(centres)), torch.zeros(1, len(centres), 4)
    found = assign(nothing + 0.5, boxes, centres, strides, none, torch.tensor([[False]]))
    loud = torch.full((1, len(centres)), 1.0)
    everywhere = silence(centres, torch.tensor([[[0.0, 0, 128, 128]]]))
    nowhere = silence(centres, none)
    quiet_cost = detection_loss(loud, boxes, found, nothing, boxes, everywhere, 0.25)[0]
    assert float(quiet_cost) == pytest.approx(
        0.25 * float(detection_loss(loud, boxes, found, nothing, boxes, nowhere, 0.25)[0]), rel=1e-5
    )
