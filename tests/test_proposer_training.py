"""Training the proposer: targets, losses, the loop, and what it may be trained on."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import shapes_on_noise, write_picture
from safetensors.torch import load_file

import panorama.models.proposer_training.batches as making
import panorama.models.proposer_training.loop as loop
from panorama.content import content_dir
from panorama.errors import ModelError, UsageError
from panorama.models.interrupts import CHECKPOINT
from panorama.models.proposer import load_proposer
from panorama.models.proposer_net import grid
from panorama.models.proposer_training.batches import padded
from panorama.models.proposer_training.export import export_average
from panorama.models.proposer_training.loop import train, train_step
from panorama.models.proposer_training.plan import batch_at, check_plan, last_step, share_at
from panorama.models.proposer_training.run import (
    START,
    facts_at,
    load_checkpoint,
    save_checkpoint,
    start,
)
from panorama.models.proposer_training.sources import (
    Packed,
    Store,
    may_train_on,
    open_store,
    permitted,
    refuse_absent,
)
from panorama.models.proposer_training.targets import assign, detection_loss, giou_loss, silence
from panorama.models.proposer_training.teachers import TAP_WIDTHS
from panorama.models.training.begun import read_metadata
from panorama.models.weights import read_recipe
from panorama.training import TrainingOptions, train_recipe

# Targets


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


# Training


STORE = {"seed": 0, "scene_side": 64, "cutout_side": 48, "frames_a_clip": 1, "garments": 1, "objects": 1}
STORE |= {"scenes": {"backdrop": 1, "caltech101": 1, "grocery": 1, "clothing": 1}}

NOTHING = Packed(np.empty(0, np.uint8), np.empty(0, np.int64), np.empty((0, 3), np.int32))
EMPTY = Store(NOTHING, [], {}, NOTHING, {})


def tiny_recipe() -> dict[str, Any]:
    training: dict[str, Any] = {"seed": 0, "parts": 0, "rate": 2e-3, "matrix_rate": 0.02, "warm_up": 2}
    training |= {"cycles": [{"to_step": 40, "rate": 1.0, "fall": 4}]}
    training |= {"weight_decay": 0.01, "clip": 5.0, "average": 0.99}
    weights = {"score": 1.0, "box": 2.0, "hint": 1.0, "silent": 0.25}
    chances = dict.fromkeys(("mosaic", "paste", "warp", "blend"), 0.5)
    drawn = {"scenes": {"drawn": 1.0}, "things": {"drawn": 1.0}}
    phases = [{"from_step": 0, "canvases": [[64, 64]], "weights": weights, **chances, **drawn}]
    return {
        "phase": phases,
        "network": {"widths": [8, 8, 16, 16, 16], "depths": [1, 1, 1, 1], "pyramid": 16},
        "training": training,
    }


def tiny_batch(seed: int) -> dict[str, Any]:
    """Two pictures of shapes with a teacher that sees nothing and whose features are noise."""
    pairs = [shapes_on_noise(seed * 2 + i, 96, 128) for i in range(2)]
    boxes, real = padded([boxes for _, boxes in pairs])
    shapes, make = [(12, 16), (6, 8), (3, 4)], torch.Generator().manual_seed(seed)
    points = sum(h * w for h, w in shapes)
    return {
        "images": torch.from_numpy(np.stack([image for image, _ in pairs])),
        "boxes": boxes,
        "real": real,
        "silent": torch.zeros(2, 1, 4),
        "teacher_scores": torch.zeros(2, points),
        "teacher_boxes": torch.zeros(2, points, 4),
        "features": [
            torch.randn(2, c, *shapes[i % 3], generator=make).half() for i, c in enumerate(TAP_WIDTHS)
        ],
    }


def test_training_lowers_the_loss_on_what_it_sees() -> None:
    recipe = tiny_recipe()
    run, batch = start(recipe), tiny_batch(0)
    run.net.train()
    losses = [train_step(run, batch, recipe) for _ in range(25)]
    before, after = (sum(step["score"] + step["box"] for step in part) for part in (losses[:3], losses[-3:]))
    assert after < 0.7 * before


def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    unbroken = start(recipe)
    for number in range(2):
        train_step(unbroken, tiny_batch(number), recipe)
    save_checkpoint(unbroken, tmp_path / "checkpoint.safetensors")
    resumed = start(recipe)
    load_checkpoint(resumed, tmp_path / "checkpoint.safetensors")
    assert resumed.step == 2
    for run in (unbroken, resumed):
        train_step(run, tiny_batch(2), recipe)
    for name, value in unbroken.net.state_dict().items():
        torch.testing.assert_close(resumed.net.state_dict()[name], value, msg=name)


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    save_checkpoint(start(tiny_recipe()), tmp_path / "checkpoint.safetensors")
    wider = tiny_recipe()
    wider["network"]["pyramid"] = 24
    with pytest.raises(ModelError, match="another network"):
        load_checkpoint(start(wider), tmp_path / "checkpoint.safetensors")


def test_an_exported_run_loads_and_proposes(tmp_path: Path) -> None:
    run = start(tiny_recipe())
    save_checkpoint(run, tmp_path / "checkpoint.safetensors")
    network = "widths = [8, 8, 16, 16, 16]\ndepths = [1, 1, 1, 1]\npyramid = 16\n"
    inference = "side = 96\nfloor = 0.0\nmax_iou = 0.6\nlimit = 5\n"
    (tmp_path / "recipe.toml").write_text(
        f'name = "tiny"\nkind = "proposer"\n\n[network]\n{network}\n[inference]\n{inference}'
    )
    export_average(tmp_path / "checkpoint.safetensors", tmp_path)
    tiny = load_proposer(str(tmp_path))
    assert tiny.name == "tiny"
    assert 1 <= len(tiny.propose([shapes_on_noise(0, 96, 128)[0]])[0]) <= 5


def test_a_training_made_longer_goes_through_the_same_rates_and_rises_once_more() -> None:
    short = {"warm_up": 2, "cycles": [{"to_step": 40, "rate": 1.0, "fall": 20}]}
    longer = {**short, "cycles": [*short["cycles"], {"to_step": 60, "rate": 0.5, "fall": 20}]}
    assert [share_at(short, step) for step in (0, 1, 19, 30, 40)] == [0.5, 1.0, 1.0, 0.5, 0.0]
    assert [share_at(longer, step) for step in range(40)] == [share_at(short, step) for step in range(40)]
    assert [share_at(longer, step) for step in (40, 41, 50, 60)] == [0.25, 0.475, 0.25, 0.0]
    assert (last_step(short), last_step(longer)) == (40, 60)


def test_a_cycle_may_end_above_nothing_and_have_a_batch_of_its_own() -> None:
    """Begun in large batches on a GPU, ended in small ones at a lower rate on a processor."""
    first = {"to_step": 40, "rate": 1.0, "fall": 20, "end": 0.5}
    training = {
        "warm_up": 2,
        "batch": 320,
        "cycles": [first, {"to_step": 60, "rate": 0.2, "fall": 20, "batch": 32}],
    }
    shares = [share_at(training, step) for step in (0, 19, 20, 30, 39, 40, 41, 50, 60)]
    assert shares == pytest.approx([0.5, 1.0, 1.0, 0.75, 0.525, 0.1, 0.19, 0.1, 0.0])
    assert [batch_at(training, step) for step in (0, 39, 40, 59, 60)] == [320, 320, 32, 32, 32]


@pytest.mark.parametrize(
    ("table", "changes", "told"),
    [
        (
            "network",
            {"pyramid": [16, 16]},
            r"the recipe has widths .* and pyramid \[16, 16\]: a proposer has",
        ),
        ("training", {"cycles": []}, "the recipe lacks a cycle of its training"),
        ("training", {"cycles": [{"to_step": 4, "rate": 1.0}]}, "lacks fall in cycle 1 of its training"),
        (
            "training",
            {"cycles": [{"to_step": n, "rate": 1.0, "fall": 1} for n in (4, 3)]},
            "ends cycle 2 of its training at step 3; it begins at 4",
        ),
        (
            "training",
            {"cycles": [{"to_step": "4", "rate": 1.0, "fall": 1}]},
            "to_step in cycle 1 of the training of the recipe is a whole number, got '4'",
        ),
        (
            "training",
            {"cycles": {"to_step": 4}},
            r"the recipe has \[\[training.cycles\]\] as a list of",
        ),
    ],
)
def test_a_recipe_that_no_training_could_follow_is_refused_before_any_work(
    tmp_path: Path, table: str, changes: dict[str, Any], told: str
) -> None:
    recipe = short_recipe()
    recipe[table] |= changes
    with pytest.raises(ModelError, match=told):
        train(recipe, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([{"from_step": 10}], r"from_step in phase 1 of the recipe is 0, as that of the first, got 10"),
        ([{}, {"from_step": 0}], r"from_step in phase 2 of the recipe is a whole number from 1 on, got 0"),
        ([{}, {"from_step": "3"}], r"from_step in phase 2 .* whole number from 1 on, got '3'"),
    ],
)
def test_phases_that_no_training_could_follow_are_refused_before_any_work(
    tmp_path: Path, changes: list[dict[str, Any]], told: str
) -> None:
    """A first phase after step 0 was accepted, and ended in an IndexError called a defect in Panorama."""
    recipe = short_recipe()
    recipe["phase"] = [{**recipe["phase"][0], **change} for change in changes]
    with pytest.raises(ModelError, match=told):
        train(recipe, tmp_path, tmp_path / "out")
    del recipe["phase"][0]["weights"]
    with pytest.raises(ModelError, match="the recipe lacks weights in phase 1"):
        train(recipe, tmp_path, tmp_path / "out")
    recipe["phase"] = {"from_step": 0}
    with pytest.raises(ModelError, match=r"has \[\[phase\]\] as a list of tables"):
        train(recipe, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("where", "value", "told"),
    [
        (
            ("phase", 0, "weights"),
            {"score": 1.0},
            "weights in phase 1 of the recipe is a table with a number",
        ),
        (("phase", 0, "weights", "box"), "much", "weights in phase 1 of the recipe is a table with"),
        (("phase", 0, "canvases"), [[64, 70]], r"canvases in phase 1 of the recipe is a list of .* of 32"),
        (("phase", 1, "things"), {"drawn": 0}, "things in phase 2 of the recipe is a table of shares, one"),
        (("phase", 1, "blend"), 1.5, "blend in phase 2 of the recipe is a number from 0 to 1, got"),
        (("training", "batch"), 0, r"batch in \[training\] of the recipe is a whole number from 1 to"),
        (("training", "clip"), float("nan"), r"clip in \[training\] of the recipe is a number above 0"),
        (("training", "seed"), 10**400, r"seed in \[training\] of the recipe .* got 1000.*\.\.\."),
        (
            ("training", "cycles", 0, "batch"),
            True,
            "batch in cycle 1 of the training of the recipe is a whole",
        ),
        (("store", "scene_side"), 0, r"scene_side in \[store\] of the recipe is a whole number from 1 to"),
        (("store", "scenes"), {"grocery": 1}, r"scenes in \[store\] of the recipe is a table with a whole"),
        (("store",), {"seed": 0}, r"the recipe lacks scene_side, .* in its table store"),
    ],
)
def test_values_that_no_training_could_use_are_refused_before_any_work(
    tmp_path: Path, where: tuple[str | int, ...], value: object, told: str
) -> None:
    """They were errors of Python's own, some of them in the process that makes batches, hours later."""
    recipe = json.loads(json.dumps(short_recipe()))
    table: Any = recipe
    for name in where[:-1]:
        table = table[name]
    table[where[-1]] = value
    with pytest.raises(ModelError, match=told):
        train(recipe, tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["proposer", "proposer-wide"])
def test_the_shipped_recipes_can_be_trained_by(name: str) -> None:
    check_plan(read_recipe(content_dir("embeddings") / name / "recipe.toml"), name)


def test_resuming_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    recipe["training"] |= {"threads": 1, "batch": 2, "log_every": 1, "save_every": 1}
    recipe["store"] = STORE
    with pytest.raises(ModelError, match="nothing to resume"):
        train(recipe, tmp_path, tmp_path / "out", resume=True)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the recipe's last step, without footage and without a process beside."""

    def batches(
        recipe: dict[str, Any], data: Path, cache: Path, first: int, device: str
    ) -> Iterator[dict[str, Any]]:
        return (tiny_batch(number) for number in range(first, last_step(recipe["training"])))

    monkeypatch.setattr(loop, "load", batches)
    monkeypatch.setattr(loop, "open_store", lambda *given: EMPTY)


def short_recipe() -> dict[str, Any]:
    """Of four steps, in two phases, the second of which begins when they are over."""
    recipe = {**tiny_recipe(), "store": {**STORE}}
    recipe["training"] |= {"cycles": [{"to_step": 4, "rate": 1.0, "fall": 2}]}
    recipe["training"] |= {"threads": 1, "batch": 2, "log_every": 2, "save_every": 2}
    recipe["phase"].append({**recipe["phase"][0], "from_step": 4})
    return recipe


@pytest.mark.parametrize(
    ("where", "key", "value", "told"),
    [
        (("training",), "rate", 1e-3, r"rate in \[training\] = 0.002, and 0.001 is asked for now"),
        (("training",), "seed", 3, r"seed in \[training\] = 0, and 3"),
        (("store",), "seed", 3, r"seed in \[store\] = 0, and 3"),
        (("network",), "pyramid", 24, r"pyramid in \[network\] = 16, and 24"),
        (("phase", 0, "weights"), "hint", 0.5, r"hint in \[phase 1.weights\] = 1.0, and 0.5"),
        (("phase", 1), "from_step", 2, r"from_step in \[phase 2\] = null, and 2"),
        (("training", "cycles", 0), "rate", 0.5, r"rate in \[training.cycles 1\] = 1.0, and 0.5"),
        (("training", "cycles", 0), "to_step", 6, r"to_step in \[training.cycles 1\] = 4, and 6"),
        (("training", "cycles", 0), "fall", 1, r"fall in \[training.cycles 1\] = 2, and 1"),
        (("training", "cycles", 0), "end", 0.1, r"end in \[training.cycles 1\] = 0.0, and 0.1"),
        (("training", "cycles", 0), "batch", 4, r"batch in \[training.cycles 1\] = 2, and 4"),
    ],
)
def test_a_training_does_not_go_on_by_another_recipe(
    small_batches: None, tmp_path: Path, where: tuple[str | int, ...], key: str, value: object, told: str
) -> None:
    """Shapes alone were compared: the weights were of two recipes, and recipe.toml told of the last."""
    train(short_recipe(), tmp_path, tmp_path / "out")
    before = (tmp_path / "out" / CHECKPOINT).read_bytes()
    other = short_recipe()
    table: Any = other
    for name in where:
        table = table[name]
    table[key] = value
    with pytest.raises(UsageError, match=told):
        train(other, tmp_path, tmp_path / "out", resume=True)
    assert (tmp_path / "out" / CHECKPOINT).read_bytes() == before


def test_a_training_may_be_made_longer_with_phases_that_had_not_begun(
    small_batches: None, tmp_path: Path
) -> None:
    train(short_recipe(), tmp_path, tmp_path / "out")
    longer = short_recipe()
    longer["training"]["cycles"].append({"to_step": 6, "rate": 0.5, "fall": 2})
    longer["training"] |= {"threads": 2, "log_every": 1, "save_every": 1}
    longer["phase"][1]["weights"] = {**longer["phase"][1]["weights"], "hint": 0.5}
    longer["phase"].append({**longer["phase"][1], "from_step": 5})
    assert train(longer, tmp_path, tmp_path / "out", resume=True).step == 6
    with pytest.raises(UsageError, match=r"hint in \[phase 2.weights\] = 0.5, and 1.0"):
        train(short_recipe(), tmp_path, tmp_path / "out", resume=True)


def test_a_training_that_does_not_fall_yet_may_be_made_longer_in_its_cycle(
    small_batches: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = short_recipe()
    recipe["training"]["cycles"] = [{"to_step": 40, "rate": 1.0, "fall": 2}]
    made = start(recipe)
    (tmp_path / "out").mkdir()
    for number in range(2):
        train_step(made, tiny_batch(number), recipe)
    save_checkpoint(made, tmp_path / "out" / CHECKPOINT, facts_at(recipe, 2, ""))
    for cycle in ({"to_step": 4, "fall": 2}, {"to_step": 6, "fall": 3}):
        recipe["training"]["cycles"] = [{"rate": 1.0, **cycle}]
        if cycle["to_step"] == 4:
            assert train(recipe, tmp_path, tmp_path / "out", resume=True).step == 4
        else:  # now it has fallen
            with pytest.raises(UsageError, match=r"to_step in \[training.cycles 1\] = 4, and 6 is asked"):
                train(recipe, tmp_path, tmp_path / "out", resume=True)


def test_a_checkpoint_that_does_not_tell_its_cycles_goes_on_with_a_remark(
    small_batches: None, tmp_path: Path
) -> None:
    recipe, said = short_recipe(), list[str]()
    (tmp_path / "out").mkdir()
    facts = {name: fact for name, fact in facts_at(recipe, 2, "").items() if "cycles" not in name}
    made = start(recipe)
    made.step = 2
    save_checkpoint(made, tmp_path / "out" / CHECKPOINT, facts)
    assert train(recipe, tmp_path, tmp_path / "out", resume=True, say=said.append).step == 4
    (line,) = said
    assert line.endswith(", of an earlier version, does not say by which cycles it was trained")


def test_a_loss_that_is_lost_ends_a_training_at_its_step(
    small_batches: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on to the next step that is logged or saved: for 500 steps, which take an hour."""
    recipe = short_recipe()
    recipe["training"] |= {"log_every": 4, "save_every": 4}
    step = loop.train_step

    def lost(run: Any, batch: dict[str, Any], recipe: dict[str, Any]) -> dict[str, torch.Tensor]:
        losses = step(run, batch, recipe)
        return {**losses, "norm": losses["norm"] * (float("nan") if run.step == 2 else 1.0)}

    monkeypatch.setattr(loop, "train_step", lost)
    with pytest.raises(ModelError, match="the norm of the gradients is nan at step 2"):
        train(recipe, tmp_path, tmp_path / "out", device="cpu")


def test_a_training_goes_on_with_the_model_that_it_began_with(
    small_batches: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "begin_from", lambda run, name: name)
    recipe = short_recipe()
    train(recipe, tmp_path, tmp_path / "out", start_from="abc")
    with pytest.raises(UsageError, match='the digest of --start = "abc", and "def" is asked for now'):
        train(recipe, tmp_path, tmp_path / "out", resume=True, start_from="def")
    for end in (6, 8):  # need not be named again, and is not forgotten
        recipe["training"]["cycles"].append({"to_step": end, "rate": 1.0, "fall": 2})
        train(recipe, tmp_path, tmp_path / "out", resume=True)
    made, _ = read_metadata(tmp_path / "out" / CHECKPOINT)
    assert made is not None and made[START] == "abc"


def test_a_checkpoint_of_an_earlier_version_goes_on_with_a_remark(
    small_batches: None, tmp_path: Path
) -> None:
    recipe, said = short_recipe(), list[str]()
    (tmp_path / "out").mkdir()
    save_checkpoint(start(recipe), tmp_path / "out" / CHECKPOINT)
    assert train(recipe, tmp_path, tmp_path / "out", resume=True, say=said.append).step == 4
    (line,) = said
    assert "does not say what its training began with" in line and "bank" not in line


def test_who_interrupts_a_training_is_told_what_is_kept_and_how_to_go_on(tmp_path: Path, monkeypatch) -> None:
    """It said "interrupted", and not whether hours of work were lost."""
    recipe = {"name": "tiny", "kind": "proposer", "store": {**STORE}, **tiny_recipe()}
    recipe["training"] |= {"threads": 1, "batch": 2, "log_every": 9, "save_every": 2}
    shipped = content_dir("embeddings") / "proposer" / "recipe.toml"
    monkeypatch.setattr("panorama.training.read_recipe", lambda path: recipe)
    monkeypatch.setattr(loop, "open_store", lambda *given: EMPTY)
    firsts: list[int] = []

    def three(
        recipe: dict[str, Any], data: Path, cache: Path, first: int, device: str
    ) -> Iterator[dict[str, Any]]:
        firsts.append(first)
        yield from (tiny_batch(first + number) for number in range(1 if len(firsts) == 1 else 3))
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "load", three)
    said: list[str] = []
    for resume, told in (
        (False, "no checkpoint yet; the same command starts again"),
        (False, f"{tmp_path} keeps the checkpoint of step 2; to continue, add --resume to the same command"),
        (True, f"{tmp_path} keeps the checkpoint of step 4; to continue, add --resume to the same command"),
    ):
        with pytest.raises(KeyboardInterrupt):
            train_recipe(shipped, {"a": tmp_path}, tmp_path, TrainingOptions(resume=resume), said.append)
        assert said[-1] == told
    assert firsts == [0, 0, 2]


def test_the_model_has_the_recipe_that_its_training_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who edited the recipe for the next training, while this one ran, had a model that told of that one."""
    path, recipe = tmp_path / "recipe.toml", {"kind": "proposer", **short_recipe()}
    path.write_text("# this one\n")

    def edited(recipe: dict[str, Any], *given: object) -> Iterator[dict[str, Any]]:
        path.write_text("# the next one\n")
        return (tiny_batch(number) for number in range(last_step(recipe["training"])))

    monkeypatch.setattr("panorama.training.read_recipe", lambda path: recipe)
    monkeypatch.setattr(loop, "open_store", lambda *given: EMPTY)
    monkeypatch.setattr(loop, "load", edited)
    monkeypatch.setattr("panorama.models.proposer.load_proposer", lambda name: tiny_batch)
    monkeypatch.setattr(tiny_batch, "propose", None, raising=False)
    monkeypatch.setattr("panorama.models.proposer_training.evaluate.report", lambda *given: {"recall": 1})
    assert train_recipe(path, {"a": tmp_path}, tmp_path / "out", TrainingOptions()) == {"recall": 1.0}
    assert (tmp_path / "out/model/recipe.toml").read_text().startswith("# this one\n")


def test_a_training_whose_loss_is_lost_ends_and_keeps_its_checkpoint(tmp_path: Path, monkeypatch) -> None:
    """It went on to its last step, hours of it, and what it exported found nothing."""
    recipe = {"name": "tiny", "kind": "proposer", "store": {**STORE}, **tiny_recipe()}
    recipe["training"] |= {"threads": 1, "batch": 2, "log_every": 3, "save_every": 2}
    recipe["training"]["cycles"] = [{"to_step": 2, "rate": 1.0, "fall": 1, "end": 1.0}]
    recipe["training"]["cycles"] += [{"to_step": 40, "rate": 1e30, "fall": 4}]
    monkeypatch.setattr(loop, "open_store", lambda *given: EMPTY)
    monkeypatch.setattr(loop, "load", lambda *given: (tiny_batch(number) for number in range(40)))
    with pytest.raises(ModelError, match=r"is (nan|inf) at step \d; lower rate or matrix_rate in the recipe"):
        train(recipe, tmp_path, tmp_path / "out")
    kept = load_file(tmp_path / "out" / "checkpoint.safetensors")
    assert kept["step"] == 2
    assert all(bool(value.isfinite().all()) for value in kept.values())


class Dispositions(torch.utils.data.Dataset[bool]):
    """In the place of `Batches`: whether no interrupt reaches the process that makes them."""

    def __init__(self, *given: object) -> None:
        pass

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> bool:
        return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_what_makes_batches_leaves_an_interrupt_to_the_training(monkeypatch) -> None:
    """Ctrl-C reaches both; its traceback, and that of the loader about it, hid what was said."""
    monkeypatch.setattr(making, "Batches", Dispositions)
    mine = signal.getsignal(signal.SIGINT)
    assert list(making.load({"training": {"cycles": [{"to_step": 1}]}}, Path(), Path(), 0)) == [True]
    assert signal.getsignal(signal.SIGINT) == mine
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def proposer_data(folder: Path) -> Path:
    """A data folder with one picture of each kind, and no clip."""
    for name in ("boxes/coco", "images/x", "video"):
        (folder / name).mkdir(parents=True)
    rows = ["file,source,class,identity"]
    for source, identity in (("bg", "background"), ("ic", "iconic"), ("grocery", "class")):
        write_picture(folder / f"images/x/{source}.png", shapes_on_noise(1, 96, 128)[0])
        rows.append(f"images/x/{source}.png,{source},c,{identity}")
    for source in ("caltech101", "clothing"):
        rows.append(f"images/x/grocery.png,{source},c,class")
    (folder / "images/labels.csv").write_text("\n".join(rows) + "\n")
    write_picture(folder / "boxes/coco/1.png", shapes_on_noise(2, 96, 128)[0])
    (folder / "boxes/boxes.csv").write_text("file,x1,y1,x2,y2\nboxes/coco/1.png,1,1,30,30\n")
    outline = "0.1 0.1 0.9 0.1 0.9 0.9"
    (folder / "boxes/polygons.csv").write_text(f"file,polygon_xy_normalised\nboxes/coco/1.png,{outline}\n")
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("index.json", b""),
        ("index.json", b'{"settings": {"seed": 0, '),
        ("index.json", b"[]"),
        ("index.json", b'{"settings": {}, "boxes": [], "groups": {}, "cutout_groups": {}}'),
        ("scenes.npz", b"PK"),
        ("scenes.npz", None),
        ("scenes.bin", b""),
        ("cutouts.bin", b"cut off"),
        ("cutouts.bin", None),
    ],
)
def test_a_damaged_cache_is_told_with_what_to_delete(
    name: str, content: bytes | None, tmp_path: Path
) -> None:
    """It ended in a JSONDecodeError, or amid the training in a process that makes batches."""
    data, cache = proposer_data(tmp_path / "data"), tmp_path / "cache"
    made = open_store(data, cache, STORE, lambda line: None)
    assert len(made.scenes) == len(made.boxes) == 5
    again = open_store(data, cache, STORE, lambda line: None)
    assert all(np.array_equal(made.scenes[i], again.scenes[i]) for i in range(5))
    if content is None:
        (cache / name).unlink()
    else:
        (cache / name).write_bytes(content)
    with pytest.raises(ModelError, match=r"cache cannot be read \(.*\); delete it to build it again"):
        open_store(data, cache, STORE, lambda line: None)


def test_a_cache_without_cut_outs_is_one(tmp_path: Path) -> None:
    """An empty file cannot be mapped into memory; a source without pictures was a KeyError."""
    data = proposer_data(tmp_path / "data")
    (data / "boxes/polygons.csv").write_text("file,polygon_xy_normalised\n")
    (data / "images/labels.csv").write_text("file,source,identity\nimages/x/bg.png,bg,background\n")
    store = open_store(data, tmp_path / "cache", STORE, lambda line: None)
    assert (len(store.scenes), len(store.cutouts)) == (2, 0)
    refuse_absent(store, [{"scenes": {"backdrop": 1, "coco": 1, "drawn": 1}, "things": {"drawn": 1}}], data)
    refuse_absent(store, [{"scenes": {"grocery": 0.0}}], data)
    with pytest.raises(ModelError, match=r"phase 2 of the recipe takes things of iconic, logos, and .*none"):
        refuse_absent(store, [{}, {"things": {"iconic": 0.5, "drawn": 0.1, "logos": 0.4}}], data)


def test_a_data_folder_without_its_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"boxes/boxes\.csv"):
        open_store(tmp_path, tmp_path / "cache", {"seed": 0}, print)


# Data


def test_judging_pictures_and_clips_are_never_trained_on() -> None:
    listing = [
        "boxes/coco/train2017_000000000009.jpg",
        "boxes/coco/val2017_000000000139.jpg",
        "boxes/raccoon/raccoon-1.jpg",
        "video/bottles.mp4",
        "video/toy-elf.mp4",
        "video/toy-rabbit-small.mp4",
        "video/cars-from-above.mp4",
        "video/people-one-by-one.mp4",
        "video/dog.mp4",
        "video/coffee.mp4",
        "video/classroom.gif",
        "eval/album/elf/elf-0.jpg",
        "teachers/coco.names",
    ]
    assert permitted(reversed(listing)) == [
        "boxes/coco/train2017_000000000009.jpg",
        "boxes/raccoon/raccoon-1.jpg",
        "video/bottles.mp4",
        "video/classroom.gif",
    ]


@pytest.mark.footage
def test_no_clip_that_shows_an_entity_may_be_trained_on(footage: Path) -> None:
    truth = json.loads((footage / "eval" / "truth.json").read_text(encoding="utf-8"))
    shown = {clip for facts in truth.values() for clip in facts["visible"]}
    assert shown
    assert not [clip for clip in shown if may_train_on(f"video/{clip}")]


@pytest.mark.footage
@pytest.mark.slow
def test_one_command_builds_the_cache_trains_and_exports(footage: Path, tmp_path: Path) -> None:
    """Once hung: a forked loader waited for OpenCV threads that had built the cache in its parent."""
    for needed in ("onnx", "onnxruntime"):
        pytest.importorskip(needed, reason="the teacher needs panorama-video[teachers]")
    text = (content_dir("embeddings") / "proposer" / "recipe.toml").read_text(encoding="utf-8")
    smaller = {"to_step = 7300": "to_step = 2", "to_step = 13700": "to_step = 3"}
    smaller |= {"parts = 3500": "parts = 1", "batch = 16": "batch = 2"}
    smaller |= {"garments = 1200": "garments = 2"}
    smaller |= {"objects = 3000": "objects = 8", "frames_a_clip = 50": "frames_a_clip = 1"}
    smaller |= {"caltech101 = 6354": "caltech101 = 5", "grocery = 3000": "grocery = 5"}
    smaller |= {"clothing = 1500": "clothing = 2", "backdrop = 467": "backdrop = 2"}
    for old, new in smaller.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "recipe.toml").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "panorama.models.proposer_training", "--data", str(footage)]
    command += ["--out", str(tmp_path / "run"), "--recipe", str(tmp_path / "recipe.toml"), "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert len(load_proposer(str(tmp_path / "run" / "model")).hash) == 64


@pytest.mark.parametrize("given", [{"steps": 5}, {"seed": 1}, {"minutes": 1.0}])
def test_what_only_the_recipe_of_a_proposer_says_is_refused_and_not_passed_over(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_text('name = "p"\nkind = "proposer"\n')
    with pytest.raises(UsageError, match=f"--{next(iter(given))}: for a proposer, set this in the recipe"):
        train_recipe(
            tmp_path / "recipe.toml", {"a": tmp_path}, tmp_path / "out", TrainingOptions(**given), print
        )
