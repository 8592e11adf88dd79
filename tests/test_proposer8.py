"""The proposer in 8 bits: its cross stages, its pyramid that also hands up, and pauses between pieces."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from test_proposer_parts import BY_LEVEL, FALLING, SHAPE, Dimensions, pictures, random_net

from panorama.errors import ModelError
from panorama.models.folded import Tensors
from panorama.models.points import SPREAD, ZERO, boxes_at
from panorama.models.precision import why_no_int8
from panorama.models.proposer_floats import KINDS
from panorama.models.proposer_net import CrossStage, ProposerNet
from panorama.models.ranges import measure

if why_no_int8():
    pytest.skip(why_no_int8(), allow_module_level=True)

from panorama.models.proposer8 import PIECE, Proposer8


def tensors_of(net: ProposerNet) -> dict[str, NDArray[np.float32]]:
    return {name: value.numpy() for name, value in net.state_dict().items()}


def bytes_of(x: torch.Tensor) -> NDArray[np.uint8]:
    return np.asarray((x * SPREAD + ZERO).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy())


def both(net: ProposerNet) -> tuple[Proposer8, NDArray[np.float32]]:
    """A network in 8 bits, and what it says of `pictures` in floating point."""
    given = {name: value.copy() for name, value in tensors_of(net).items()}
    net.fold().requires_grad_(False)
    x = pictures()
    with torch.inference_mode():
        ranges = measure(net, KINDS, lambda: net(x))
        wanted = net.said(net.features(x)[1]).numpy()
    return Proposer8(net.shape, Tensors(given, "weights"), ranges), wanted


@pytest.mark.parametrize("shape", [SHAPE, BY_LEVEL, FALLING], ids=lambda shape: str(shape[2]))
def test_the_network_in_bytes_says_nearly_what_it_says_in_floating_point(shape: Dimensions) -> None:
    eight, wanted = both(random_net(4, shape))
    found = eight(bytes_of(pictures()))
    assert found.shape == wanted.shape
    apart = np.abs(found - wanted).mean((0, 1)) / wanted.std((0, 1))
    assert apart.max() < 0.15


def test_a_cross_stage_joins_what_went_through_and_around_at_one_scale() -> None:
    net = random_net(3)
    stage = net.stages[2][1]
    assert isinstance(stage, CrossStage)
    with torch.no_grad():  # what goes around is far larger than what goes through: one scale has to bear both
        stage.around.norm.weight.mul_(20.0)
        stage.around.norm.bias.mul_(20.0)
    eight, wanted = both(net)
    found = eight(bytes_of(pictures()))
    assert (np.abs(found - wanted).mean((0, 1)) / wanted.std((0, 1))).max() < 0.15


@torch.inference_mode()
def test_points_are_decoded_as_training_decodes_them() -> None:
    net, x = random_net(5), pictures()
    height, width = x.shape[2:]
    said = net.said(net.features(x)[1]).numpy()
    logits, boxes = net(x)
    np.testing.assert_allclose(said[..., 0], logits.numpy(), atol=1e-5)
    where = np.arange(0, said.shape[1], 7)
    found = boxes_at(said[1, where, 1:], where, height, width)
    np.testing.assert_allclose(found, boxes[1, where].numpy(), rtol=1e-4, atol=1e-3)


def test_it_rests_before_every_few_pictures_and_each_is_answered_as_alone() -> None:
    eight, _ = both(random_net(6))
    rested: list[int] = []
    eight.rest_by(lambda: rested.append(1))
    some = np.concatenate([bytes_of(pictures())] * 5)[: 2 * PIECE + 1]
    whole = eight(some)
    assert len(rested) == 3
    alone = np.concatenate([eight(picture[None]) for picture in some])
    np.testing.assert_allclose(whole, alone, atol=1e-4)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda t: t.pop("settle.conv.weight"), "they lack settle.conv.weight"),
        (
            lambda t: t.update({"stem.conv.weight": np.zeros((4, 3, 3, 3))}),
            r"stem.conv.weight is \(4, 3, 3, 3\)",
        ),
        (lambda t: t.update({"extra.weight": np.zeros(3)}), "it has no place for extra.weight"),
    ],
    ids=["one lacks", "one has another shape", "one too many"],
)
def test_tensors_of_another_network_are_refused_by_name(change: object, says: str) -> None:
    net = random_net(7)
    given = tensors_of(net)
    change(given)  # type: ignore[operator]
    with pytest.raises(ModelError, match=f"weights do not fit the network of its recipe: {says}"):
        Proposer8(net.shape, Tensors(given, "weights"), {})


def test_ranges_that_lack_a_layer_are_refused_when_it_is_made() -> None:
    net = random_net(8)
    with pytest.raises(KeyError, match="stem"):
        Proposer8(net.shape, Tensors(tensors_of(net), "weights"), {})


def test_what_a_level_hands_down_needs_its_weights() -> None:
    net = random_net(9, BY_LEVEL)
    given = tensors_of(net)
    del given["descend.1.conv.weight"]
    with pytest.raises(ModelError, match=r"they lack descend.1.conv.weight"):
        Proposer8(net.shape, Tensors(given, "weights"), {})
