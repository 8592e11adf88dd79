"""A narrow proposer begun with the strongest channels of a wide one, and taught by it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import shapes_on_noise

from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.models.proposer_net import ConvUnit, ProposerNet, prepare
from panorama.models.proposer_training.elder import ELDER, Elder, keep_elder
from panorama.models.proposer_training.loop import ancestor, begin_from, start
from panorama.models.proposer_training.slim import slim, strongest
from panorama.models.proposer_training.teachers import Answer
from panorama.models.weights import RECIPE
from panorama.training import TrainingOptions, train_recipe

WIDE: tuple[list[int], list[int], int] = ([8, 12, 16, 24, 32], [1, 2, 2, 1], 16)
NARROW: tuple[list[int], list[int], int] = ([8, 8, 8, 16, 16], [0, 1, 2, 1], 8)
Shape = tuple[list[int], list[int], int]


def random_net(shape: Shape, seed: int) -> ProposerNet:
    """A network whose norms have seen something, so that channels differ."""
    torch.manual_seed(seed)
    net = ProposerNet(*shape)
    for module in net.modules():
        if isinstance(module, ConvUnit):
            for name in ("weight", "bias", "running_mean", "running_var"):
                torch.nn.init.uniform_(getattr(module.norm, name), 0.2, 1.0)
    return net.eval()


def pictures() -> torch.Tensor:
    return prepare(torch.from_numpy(np.stack([shapes_on_noise(i, 96, 128)[0] for i in range(2)])))


def test_a_network_of_the_same_shape_is_copied() -> None:
    wide, net = random_net(WIDE, 0), random_net(WIDE, 1)
    slim(wide, net)
    for mine, its in zip(net(pictures()), wide(pictures()), strict=True):
        torch.testing.assert_close(mine, its)


def silence_all_but(wide: ProposerNet, keep: int, seed: int) -> None:
    """Leave `keep` channels of the last stage's stream alive; nothing is written to the others."""
    dead = torch.from_numpy(np.random.default_rng(seed).permutation(WIDE[0][-1])[keep:])
    stage: Any = wide.stages[-1]
    for unit in (stage[0], stage[1].second):
        unit.norm.weight.data[dead] = 0.0
        unit.norm.bias.data[dead] = 0.0
        unit.norm.running_mean[dead] = 0.0


def test_channels_that_nothing_is_written_to_are_those_that_go() -> None:
    wide = random_net(WIDE, 2)
    silence_all_but(wide, 16, seed=3)
    widths = [*WIDE[0][:-1], 16]
    net = random_net((widths, WIDE[1], WIDE[2]), 4)
    with torch.no_grad():  # the pooled part is narrower, too: let half of it be dead as well
        context: Any = wide.context
        context.narrow.norm.weight[8:] = 0.0
        context.narrow.norm.bias[8:] = 0.0
        context.join.norm.weight[16:] = 0.0
        context.join.norm.bias[16:] = 0.0
    slim(wide, net)
    for mine, its in zip(net(pictures()), wide(pictures()), strict=True):
        torch.testing.assert_close(mine, its, rtol=1e-4, atol=1e-4)


def test_the_channels_kept_are_those_written_and_read_most() -> None:
    unit, reader = ConvUnit(3, 4), torch.nn.Conv2d(4, 2, 1)
    unit.norm.weight.data = torch.tensor([1.0, 4.0, 1.0, 3.0])
    reader.weight.data = torch.tensor([1.0, 0.1, 2.0, 1.0]).view(1, 4, 1, 1).expand(2, 4, 1, 1).clone()
    assert strongest([unit], [(reader, 0)], 2).tolist() == [2, 3]


def test_a_narrow_network_begins_nearer_to_the_wide_one_than_at_random() -> None:
    """Not a promise of quality, which only training gives: that channels and their readers go together."""
    wide = random_net(WIDE, 5)
    torch.nn.init.zeros_(wide.stages[0][1].second.norm.weight)  # type: ignore[index]
    begun, fresh = random_net(NARROW, 6), random_net(NARROW, 6)
    slim(wide, begun)
    wanted = wide(pictures())[0]

    @torch.no_grad()
    def agreement(net: ProposerNet) -> float:
        return float(torch.corrcoef(torch.stack([net(pictures())[0].flatten(), wanted.flatten()]))[0, 1])

    assert agreement(begun) > max(0.3, agreement(fresh) + 0.1)


def test_what_is_wider_than_its_elder_is_refused() -> None:
    with pytest.raises(ModelError, match="does not fit into the one it begins with"):
        slim(random_net(NARROW, 0), random_net(WIDE, 0))


@pytest.mark.parametrize(
    ("leave_out", "told"),
    [
        (("elder", "training"), r"the recipe's \[elder\] lacks the table training"),
        (("elder", "training", "seed"), r"the recipe's \[elder\] lacks seed in its table training"),
        (("training",), "the recipe lacks the table training"),
        (("network", "pyramid"), "the recipe lacks pyramid in its table network"),
        (("phase",), "the recipe lacks the table phase"),
    ],
)
def test_a_recipe_that_does_not_say_enough_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave_out: tuple[str, ...], told: str
) -> None:
    """`panorama train` ended in a KeyError where [elder] had no training."""
    plan: dict[str, Any] = tomllib.loads((content_dir("embeddings") / "proposer" / RECIPE).read_text())
    place = plan
    for name in leave_out[:-1]:
        place = place[name]
    del place[leave_out[-1]]
    monkeypatch.setattr("panorama.training.read_recipe", lambda path: plan)
    with pytest.raises(ModelError, match=told):
        train_recipe(tmp_path / RECIPE, {"footage": tmp_path}, tmp_path / "out", TrainingOptions(steps=5))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def recipe_of(shape: Shape) -> dict[str, Any]:
    training = {"seed": 0, "steps": 2, "rate": 2e-3, "matrix_rate": 0.02, "warm_up": 1, "fall": 1}
    training |= {"weight_decay": 0.01, "clip": 5.0, "average": 0.99, "threads": 1}
    return {"network": dict(zip(("widths", "depths", "pyramid"), shape, strict=True)), "training": training}


def test_a_run_begins_with_its_elder_and_so_does_its_average(tmp_path: Path) -> None:
    wide = random_net(WIDE, 0)
    shape = dict(zip(("widths", "depths", "pyramid"), WIDE, strict=True))
    keep_elder(wide.state_dict(), shape, tmp_path / ELDER)
    recipe = recipe_of(NARROW) | {"elder": {"share": 0.8}}
    elder = ancestor(recipe, tmp_path, tmp_path, resume=False, start_from=None)
    assert elder is not None
    run, narrow = start(recipe), random_net(NARROW, 1)
    begin_from(run, elder)
    slim(wide, narrow)
    for net in (run.net, run.average):
        torch.testing.assert_close(net.stem.conv.weight, narrow.stem.conv.weight)
    assert ancestor(recipe_of(NARROW), tmp_path, tmp_path, resume=False, start_from=None) is None


def test_the_elder_speaks_where_it_is_surer_than_the_teacher(tmp_path: Path) -> None:
    wide = random_net(WIDE, 0)
    shape = dict(zip(("widths", "depths", "pyramid"), WIDE, strict=True))
    keep_elder(wide.state_dict(), shape, tmp_path / ELDER)
    images = np.stack([shapes_on_noise(i, 96, 128)[0] for i in range(2)])
    logits, boxes = wide(prepare(torch.from_numpy(images)))
    mine = 0.5 * logits.sigmoid().detach().numpy()
    scores = np.zeros_like(mine)
    scores[:, 1::2] = 0.9
    answer = Answer(scores, np.zeros((*mine.shape, 4), np.float32), [])
    joined = Elder(tmp_path / ELDER).join(answer, images, 0.5)
    assert np.all(joined.scores[:, 1::2] == np.float32(0.9))
    assert not joined.boxes[:, 1::2].any()
    np.testing.assert_allclose(joined.scores[:, ::2], mine[:, ::2], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(joined.boxes[:, ::2], boxes.detach().numpy()[:, ::2], rtol=1e-3, atol=1e-2)


def test_an_elder_of_another_shape_in_the_folder_is_refused(tmp_path: Path) -> None:
    names = ("widths", "depths", "pyramid")
    keep_elder(random_net(NARROW, 0).state_dict(), dict(zip(names, NARROW, strict=True)), tmp_path / ELDER)
    recipe = recipe_of(NARROW) | {"elder": {"share": 0.8, "network": dict(zip(names, WIDE, strict=True))}}
    with pytest.raises(ModelError, match="another network than the recipe's elder; use another --out"):
        ancestor(recipe, tmp_path, tmp_path, resume=False, start_from=None)
