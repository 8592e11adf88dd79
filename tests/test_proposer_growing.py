"""A proposer's network that grows: it says what it said, learns on, and is told where it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from test_proposer_parts import SHAPE, pictures, random_net
from test_proposer_training import tiny_batch, tiny_recipe

from panorama.errors import ModelError
from panorama.models.proposer_net import Bottleneck, ProposerNet
from panorama.models.proposer_shape import Shape
from panorama.models.proposer_training.export import export_average
from panorama.models.proposer_training.growing import grow
from panorama.models.proposer_training.loop import (
    begin_from,
    check_plan,
    grown,
    load_checkpoint,
    save_checkpoint,
    start,
    step_of,
    train_step,
)

LARGE = Shape((8, 16, 16, 32, 64), (1, 1, 2, 3), (16, 24, 32))


def growing_recipe(at: int) -> dict[str, Any]:
    """A recipe whose network of `tiny_recipe` gives way to a larger one at a step."""
    recipe = tiny_recipe()
    recipe["seedling"] = {**recipe["network"], "to_step": at, "settle": 1}
    recipe["network"] = {"widths": [8, 8, 16, 24, 32], "depths": [1, 1, 1, 2], "pyramid": [16, 16, 24]}
    return recipe


@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_a_network_that_has_grown_says_what_it_said(training: bool) -> None:
    small = random_net(2)
    torch.manual_seed(9)
    large, same = (ProposerNet(shape) for shape in (Shape(LARGE.widths, (0, 1, 2, 3), LARGE.pyramid), SHAPE))
    for net in (large, same):
        grow(small, net)
        net.train(training)
    small.train(training)
    wanted, x = small.said(small.features(pictures())[1]), pictures()
    for net in (large, same):
        torch.testing.assert_close(net.said(net.features(x)[1]), wanted, rtol=1e-4, atol=1e-5)


def test_all_of_what_is_new_learns() -> None:
    small = random_net(2)
    torch.manual_seed(9)
    large = ProposerNet(Shape(LARGE.widths, (0, 1, 2, 3), LARGE.pyramid)).train()
    grow(small, large)
    learning = torch.optim.SGD(large.parameters(), 0.1)
    learns: set[str] = set()
    for _ in range(4):  # nothing listens to what is new at first, so some of it learns later
        learning.zero_grad()
        large.said(large.features(pictures())[1]).square().mean().backward()
        learning.step()
        learns |= {name for name, value in large.named_parameters() if bool(value.grad.abs().max() > 0)}
    assert learns == {name for name, _ in large.named_parameters()}
    block = large.stages[3][1].blocks[2]  # type: ignore[index]
    assert isinstance(block, Bottleneck)
    assert float(block.second.norm.weight.detach().abs().max()) > 0  # type: ignore[arg-type,operator]


def test_a_network_does_not_grow_into_a_smaller_one() -> None:
    with pytest.raises(ValueError, match="does not fit into"):
        grow(random_net(0), ProposerNet(Shape((8, 8, 16, 24, 24), (0, 1, 1, 1), (16, 16, 24))))


def test_a_run_grows_and_its_average_says_what_it_said() -> None:
    recipe = growing_recipe(at=2)
    run = start(recipe)
    run.net.train()
    for number in range(2):
        train_step(run, tiny_batch(number), recipe)
    large = grown(run, recipe)
    assert large.step == 2
    assert large.net.shape == Shape((8, 8, 16, 24, 32), (1, 1, 1, 2), (16, 16, 24))
    with torch.no_grad():
        said = [net.eval().said(net.features(pictures())[1]) for net in (run.average, large.average)]
    torch.testing.assert_close(said[1], said[0], rtol=1e-4, atol=1e-5)


def test_the_first_steps_after_growing_are_for_the_hints_alone() -> None:
    """Maps that know nothing yet must not pull at features; they learn themselves in the meantime."""
    recipe = growing_recipe(at=0)
    recipe["training"]["weight_decay"] = 0.0
    for weight in ("score", "box"):
        recipe["phase"][0]["weights"][weight] = 0.0
    run, batch = start(recipe), tiny_batch(0)
    run.net.train()
    conv, hint = run.net.stem.conv.weight, run.hints.maps[0].weight
    before = conv.detach().clone(), hint.detach().clone()
    train_step(run, batch, recipe)
    assert torch.equal(conv, before[0])
    assert not torch.equal(hint, before[1])
    train_step(run, batch, recipe)
    assert not torch.equal(conv, before[0])


def test_a_run_goes_on_from_a_checkpoint_before_and_after_it_has_grown(tmp_path: Path) -> None:
    recipe, path = growing_recipe(at=2), tmp_path / "checkpoint.safetensors"
    run = start(recipe)
    for _ in range(2):
        save_checkpoint(run, path)
        resumed = start(recipe, step_of(path))
        load_checkpoint(resumed, path)
        assert (resumed.step, resumed.net.shape) == (run.step, run.net.shape)
        run.step = 2
        run = grown(run, recipe)


def test_a_run_begins_with_the_weights_of_its_seedling_or_of_itself(tmp_path: Path) -> None:
    recipe = growing_recipe(at=2)
    for table, shape in (("seedling", start(recipe).net.shape), ("network", start(recipe, 2).net.shape)):
        folder = tmp_path / table
        folder.mkdir()
        run = start(recipe, 0 if table == "seedling" else 2)
        assert run.net.shape == shape
        save_checkpoint(run, folder / "checkpoint.safetensors")
        network = "".join(f"{name} = {recipe[table][name]}\n" for name in ("widths", "depths", "pyramid"))
        (folder / "recipe.toml").write_text(f'name = "tiny"\nkind = "proposer"\n\n[network]\n{network}')
        export_average(folder / "checkpoint.safetensors", folder)
        begun = begin_from(recipe, str(folder))
        assert begun.step == 2
        assert begun.net.shape == start(recipe, 2).net.shape
        with torch.no_grad():
            said = [net.eval().said(net.features(pictures())[1]) for net in (run.net, begun.net)]
        torch.testing.assert_close(said[1], said[0], rtol=0.05, atol=0.02)  # weights are kept in float16


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"pyramid": 64}, "a seedling that is larger than its network"),
        ({"pyramid": [24, 16, 16]}, "seedling in the recipe has .* that do not fall"),
        ({"settle": None}, "lacks settle in its table seedling"),
    ],
)
def test_a_seedling_that_cannot_grow_is_told_before_any_work(change: dict[str, Any], told: str) -> None:
    recipe = growing_recipe(at=2)
    recipe["store"] = {"seed": 0}
    recipe["training"] |= {"batch": 2, "threads": 1, "log_every": 1, "save_every": 1}
    check_plan(recipe, "the recipe")
    recipe["seedling"] = {k: v for k, v in (recipe["seedling"] | change).items() if v is not None}
    with pytest.raises(ModelError, match=told):
        check_plan(recipe, "the recipe")
