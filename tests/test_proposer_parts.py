"""The proposer's parts: each learns alone from the teacher's maps, then stands on the one before it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import shapes_on_noise
from test_proposer_training import tiny_batch, tiny_recipe

from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.models.proposer import load_proposer
from panorama.models.proposer_net import ConvUnit, ProposerNet, prepare
from panorama.models.proposer_training.export import export_average
from panorama.models.proposer_training.loop import train_step
from panorama.models.proposer_training.parts import Translation, alone, match_loss
from panorama.models.proposer_training.run import begin_from, save_checkpoint, start
from panorama.models.proposer_training.teachers import TAP_WIDTHS
from panorama.models.weights import RECIPE
from panorama.training import TrainingOptions, train_recipe

Dimensions = tuple[list[int], list[int], int | list[int]]

SHAPE: Dimensions = ([8, 8, 16, 24, 32], [0, 1, 1, 1], 16)
BY_LEVEL: Dimensions = (*SHAPE[:2], [16, 24, 40])
FALLING: Dimensions = (*SHAPE[:2], [24, 24, 16])


def random_net(seed: int, shape: Dimensions = SHAPE) -> ProposerNet:
    """A network whose norms have seen something."""
    torch.manual_seed(seed)
    net = ProposerNet(*shape)
    for module in net.modules():
        if isinstance(module, ConvUnit):
            for name in ("weight", "bias", "running_mean", "running_var"):
                torch.nn.init.uniform_(getattr(module.norm, name), 0.2, 1.0)
    return net.eval()


def pictures() -> torch.Tensor:
    return prepare(torch.from_numpy(np.stack([shapes_on_noise(i, 96, 128)[0] for i in range(2)])))


def test_parts_that_are_given_what_the_parts_before_them_make_are_the_whole() -> None:
    net, x = random_net(0), pictures()
    trunk, pyramid = net.features(x)
    made, levels = alone(net, x, trunk)
    for mine, wanted in zip([*made, *levels], [*trunk, *pyramid], strict=True):
        torch.testing.assert_close(mine, wanted)


def test_no_part_learns_through_another() -> None:
    net, x = random_net(0), pictures()
    good = [torch.rand_like(level) for level in net.features(x)[0]]
    made, _ = alone(net, x, good)
    made[2].sum().backward()
    assert net.stem.conv.weight.grad is None
    assert net.stages[2][0].conv.weight.grad is None
    assert net.stages[3][0].conv.weight.grad is not None


@pytest.mark.parametrize("shape", [SHAPE, BY_LEVEL, FALLING], ids=lambda shape: str(shape[2]))
def test_the_pyramid_hands_down_and_up_again(shape: Dimensions) -> None:
    net = random_net(1, shape)
    trunk = [level.detach() for level in net.features(pictures())[0]]
    before = net.pyramid(trunk)
    for changed, reached in ((0, 2), (2, 0)):
        other = [level + 1.0 if number == changed else level for number, level in enumerate(trunk)]
        assert not torch.allclose(net.pyramid(other)[reached], before[reached])


def test_a_pyramid_has_the_widths_of_its_levels_and_one_number_means_the_same_for_each() -> None:
    net, x = random_net(1, BY_LEVEL), pictures()
    assert [level.shape[1] for level in net.features(x)[1]] == BY_LEVEL[2]
    same = random_net(1, (*SHAPE[:2], [16, 16, 16])).state_dict()
    assert list(same) == list(random_net(1).state_dict())
    assert not any(name.startswith("descend") for name in same)


def test_matching_leaves_the_translations_alone_and_does_not_depend_on_their_scale() -> None:
    torch.manual_seed(0)
    translation = Translation(SHAPE[0][2:])
    theirs = [torch.randn(2, c, 8 >> k, 8 >> k) for k, c in enumerate(TAP_WIDTHS[:3])]
    translated = translation(theirs)
    assert all(float(level.detach().min()) >= 0 for level in translated)
    mine = [torch.rand_like(level).requires_grad_() for level in translated]
    even = [torch.ones_like(level[:, :1]) for level in translated]
    loss = match_loss(mine, translated, even)
    loss.backward()
    assert mine[0].grad is not None
    assert all(p.grad is None for p in translation.parameters())
    ten = match_loss([10 * m for m in mine], [10 * t for t in translated], even)
    torch.testing.assert_close(ten, loss)
    assert float(match_loss(translated, translated, even).detach()) == 0.0


def test_parts_learn_what_they_are_to_hand_on() -> None:
    recipe = tiny_recipe()
    recipe["training"]["parts"] = 40
    run, batch = start(recipe), tiny_batch(0)
    # What a teacher sees is in the picture: noise could not be learnt from it.
    x = prepare(batch["images"]).mean(1, keepdim=True)
    for place, level in enumerate(batch["features"]):
        seen = torch.nn.functional.interpolate(x, level.shape[2:], mode="area")
        signs = torch.ones(level.shape[1]).index_fill(0, torch.arange(0, level.shape[1], 2), -1)
        batch["features"][place] = (seen * signs[:, None, None]).half()
    run.net.train()
    matches = [train_step(run, batch, recipe)["match"] for _ in range(30)]
    assert np.mean(matches[-3:]) < 0.5 * np.mean(matches[:3])


def test_the_whole_learns_once_the_parts_have() -> None:
    recipe = tiny_recipe()
    recipe["training"]["parts"] = 1
    run = start(recipe)
    run.net.train()
    first, second = (train_step(run, tiny_batch(0), recipe) for _ in range(2))
    assert first["match"] > 0
    assert second["match"] == 0


def test_a_run_begins_with_a_proposer_of_its_shape_and_with_no_other(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    save_checkpoint(start(recipe), tmp_path / "checkpoint.safetensors")
    network = "widths = [8, 8, 16, 16, 16]\ndepths = [1, 1, 1, 1]\npyramid = 16\n"
    (tmp_path / "recipe.toml").write_text(f'name = "tiny"\nkind = "proposer"\n\n[network]\n{network}')
    export_average(tmp_path / "checkpoint.safetensors", tmp_path)
    other = tiny_recipe()
    other["training"]["seed"] = 5
    run = start(other)
    begin_from(run, str(tmp_path))
    wanted = start(recipe).net.stem.conv.weight
    for net in (run.net, run.average):
        torch.testing.assert_close(net.stem.conv.weight, wanted, rtol=2e-3, atol=1e-4)
    other["network"]["pyramid"] = 24
    with pytest.raises(ModelError, match="another network than the recipe's"):
        begin_from(start(other), str(tmp_path))


def test_a_run_whose_levels_have_widths_of_their_own_learns_and_is_read_again(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    recipe["network"]["pyramid"] = [8, 16, 24]
    run = start(recipe)
    run.net.train()
    before = run.net.descend[0].conv.weight.detach().clone()  # type: ignore[union-attr]
    train_step(run, tiny_batch(0), recipe)
    assert not torch.equal(run.net.descend[0].conv.weight, before)  # type: ignore[union-attr,arg-type]
    save_checkpoint(run, tmp_path / "checkpoint.safetensors")
    network = "widths = [8, 8, 16, 16, 16]\ndepths = [1, 1, 1, 1]\npyramid = [8, 16, 24]\n"
    inference = "side = 96\nfloor = 0.0\nmax_iou = 0.6\nlimit = 5\n"
    (tmp_path / "recipe.toml").write_text(
        f'name = "tiny"\nkind = "proposer"\n\n[network]\n{network}\n[inference]\n{inference}'
    )
    export_average(tmp_path / "checkpoint.safetensors", tmp_path)
    assert 1 <= len(load_proposer(str(tmp_path)).propose([shapes_on_noise(0, 96, 128)[0]])[0]) <= 5


@pytest.mark.parametrize(
    ("leave_out", "told"),
    [
        (("training",), "the recipe lacks the table training"),
        (("training", "parts"), "the recipe lacks parts in its table training"),
        (("network", "pyramid"), "the recipe lacks pyramid in its table network"),
        (("phase",), "the recipe lacks the table phase"),
    ],
)
def test_a_recipe_that_does_not_say_enough_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leave_out: tuple[str, ...], told: str
) -> None:
    shipped = content_dir("embeddings") / "proposer" / RECIPE
    plan: dict[str, Any] = tomllib.loads(shipped.read_text())
    place = plan
    for name in leave_out[:-1]:
        place = place[name]
    del place[leave_out[-1]]
    monkeypatch.setattr("panorama.training.read_recipe", lambda path: plan)
    with pytest.raises(ModelError, match=told):
        train_recipe(shipped, {"footage": tmp_path}, tmp_path / "out", TrainingOptions(threads=1))
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
