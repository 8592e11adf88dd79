"""Training the proposer: what no training could go by is refused before any work."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from test_proposer_training import short_recipe

import panorama.models.proposer_training.loop as loop
from panorama.content import content_dir
from panorama.errors import MissingExtra, ModelError
from panorama.models.proposer_training.loop import train
from panorama.models.proposer_training.plan import check_plan
from panorama.models.weights import read_recipe


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
        ("inference", {"looks": 3}, "looks are 1, 2 or 4 for each picture, got 3"),
        ("inference", {"floor": "low"}, r"floor in \[inference\] of the recipe is a number, got 'low'"),
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


def test_without_a_teacher_a_training_ends_before_it_decodes_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told by a process of the loader, with its traceback, when the cache of pictures was full."""
    decoded: list[object] = []
    monkeypatch.setattr(loop, "open_store", lambda *given: decoded.append(given))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(MissingExtra, match="needs a teacher: pip install onnx onnxruntime"):
        train(short_recipe(), tmp_path, tmp_path / "out")
    monkeypatch.setitem(sys.modules, "onnx", ModuleType("onnx"))
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    with pytest.raises(ModelError, match=r"no teacher .*yolox_nano\.onnx; the data folder holds it as"):
        train(short_recipe(), tmp_path, tmp_path / "out")
    assert not decoded
