"""The proposer in 8 bits: its cross stages, its pyramid that also hands up, and pauses between its layers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from test_proposer_parts import SHAPE, pictures, random_net
from torch import Tensor

from panorama.models.precision import why_no_int8
from panorama.models.proposer8 import KINDS, CrossStage8, Proposer8
from panorama.models.proposer_net import SPREAD, ZERO, CrossStage
from panorama.models.quantized import BYTE, Scales
from panorama.models.ranges import measure

pytestmark = pytest.mark.skipif(bool(why_no_int8()), reason=why_no_int8() or "has it")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def as_bytes(values: Tensor, scale: float) -> Tensor:
    rounded = (values / scale).round().clamp(0, BYTE).to(torch.uint8)
    return rounded.contiguous(memory_format=torch.channels_last)


@torch.inference_mode()
def test_a_cross_stage_joins_what_went_through_and_around_at_one_scale() -> None:
    net = random_net(3)
    stage = net.stages[2][1]
    assert isinstance(stage, CrossStage)
    with torch.no_grad():  # what goes around is far larger than what goes through: one scale has to bear both
        stage.around.norm.weight.mul_(20.0)
    net.fold().requires_grad_(False)
    x = torch.rand(2, SHAPE[0][3], 8, 12)
    ranges = measure(stage, KINDS, lambda: stage(x))
    named = {f"stage.{name}": value for name, value in ranges.items()}
    eight = CrossStage8("stage", stage, 1 / BYTE, Scales(named))
    found = eight(as_bytes(x, 1 / BYTE), lambda: None).float() * eight.scale_out
    wanted = stage(x)
    assert float(wanted.std()) > 0.01
    assert float((found - wanted).abs().mean()) < 0.1 * float(wanted.std())


@torch.inference_mode()
def test_the_network_in_bytes_says_nearly_what_it_says_in_floating_point() -> None:
    net = random_net(4).fold().requires_grad_(False)
    x = pictures()
    images = (x * SPREAD + ZERO).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    ranges = measure(net, KINDS, lambda: net(x))
    logits, boxes = Proposer8(net, ZERO, SPREAD, ranges)(np.asarray(images))
    wanted, wanted_boxes = net(x)
    assert logits.shape == wanted.shape
    assert boxes.shape == wanted_boxes.shape
    apart = (logits - wanted).abs().mean() / wanted.std()
    assert float(apart) < 0.15


@torch.inference_mode()
def test_it_rests_before_every_layer_of_the_trunk_and_within_cross_stages() -> None:
    net = random_net(5).fold().requires_grad_(False)
    x = pictures()
    images = (x * SPREAD + ZERO).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
    eight = Proposer8(net, ZERO, SPREAD, measure(net, KINDS, lambda: net(x)))
    rested: list[int] = []
    eight.rest = lambda: rested.append(1)
    eight(np.asarray(images))
    _, depths, _ = SHAPE
    layers = sum(1 + (1 + depth + 1 if depth else 0) for depth in depths)
    assert len(rested) == layers + len(net.heads)
