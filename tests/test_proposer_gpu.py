"""Training the proposer on a GPU: the teacher as torch runs it, batches of several processes, a step."""

from __future__ import annotations

import threading
import tomllib
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fakes import shapes_on_noise
from test_proposer_training import tiny_batch, tiny_recipe

from panorama.errors import ModelError
from panorama.models.proposer_training import loop
from panorama.models.proposer_training.batches import TEACHER, Batches, load
from panorama.models.proposer_training.loop import train_step, update_weights
from panorama.models.proposer_training.replay import Replayed, with_room
from panorama.models.proposer_training.run import load_checkpoint, save_checkpoint, start
from panorama.models.proposer_training.targets import assign, detection_loss
from panorama.models.proposer_training.teacher_graph import Graph, GraphTeacher


def needed_onnx() -> Any:
    return pytest.importorskip("onnx", reason="the teacher needs panorama-video[teachers]")


def graph(nodes: list[Any], constants: dict[str, np.ndarray], wanted: list[str]) -> Any:
    """A model of the nodes, from a picture named 'images'."""
    onnx = needed_onnx()
    made = [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()]
    floats = onnx.TensorProto.FLOAT
    given = [onnx.helper.make_tensor_value_info("images", floats, [1, 3, 8, 8])]
    told = [onnx.helper.make_tensor_value_info(name, floats, None) for name in wanted]
    opset = [onnx.helper.make_opsetid("", 13)]
    whole = onnx.helper.make_graph(nodes, "g", given, told, made)
    return onnx.helper.make_model(whole, opset_imports=opset, ir_version=8)


def detector(seed: int = 0) -> Any:
    """Layers of every kind that the teacher has, in the ways in which it has them, and one nobody needs."""
    make, node = np.random.default_rng(seed), needed_onnx().helper.make_node
    constants: dict[str, np.ndarray] = {
        "w": make.normal(size=(4, 6, 3, 3)).astype(np.float32),
        "b": make.normal(size=4).astype(np.float32),
        "deep": make.normal(size=(4, 1, 3, 3)).astype(np.float32),
        "twice": np.array([1, 1, 2, 2], np.float32),
        "from0": np.array([0]),
        "from1": np.array([1]),
        "end": np.array([2**62]),
        "rows": np.array([2]),
        "two": np.array([2]),
    }
    nodes = [
        node("Slice", ["images", "from0", "end", "rows", "two"], ["even"]),
        node("Slice", ["images", "from1", "end", "rows", "two"], ["odd"]),
        node("Concat", ["even", "odd"], ["both"], axis=1),
        node("Conv", ["both", "w", "b"], ["c"], pads=[1, 1, 1, 1], strides=[1, 2], dilations=[1, 1], group=1),
        node("Sigmoid", ["c"], ["s"]),
        node("Mul", ["c", "s"], ["silu"]),
        node("Conv", ["silu", "deep"], ["d"], pads=[1, 1, 1, 1], strides=[1, 1], group=4),
        node("Add", ["silu", "d"], ["sum"]),
        node("MaxPool", ["sum"], ["pool"], kernel_shape=[5, 5], pads=[2, 2, 2, 2], strides=[1, 1]),
        node("Resize", ["pool", "", "twice"], ["large"], mode="nearest", nearest_mode="floor",
             coordinate_transformation_mode="asymmetric"),
        node("Softmax", ["large"], ["unneeded"]),
        node("Split", ["large"], ["upper", "lower"], axis=2),
    ]  # fmt: skip
    return graph(nodes, constants, ["silu", "large"])


def test_a_graph_is_worked_out_as_onnx_has_it() -> None:
    reference = pytest.importorskip("onnx.reference")
    picture = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    model = detector()
    wanted = reference.ReferenceEvaluator(model).run(["silu", "large"], {"images": picture})
    found = Graph(model, ["silu", "large"], "cpu", torch.float32)({"images": torch.from_numpy(picture)})
    for name, value in zip(["silu", "large"], wanted, strict=True):
        torch.testing.assert_close(found[name], torch.from_numpy(np.array(value)), rtol=1e-4, atol=1e-4)


def test_a_graph_reads_nothing_back_from_its_device() -> None:
    pictures = torch.zeros(1, 3, 8, 8, device="meta")  # a device without values: reading one is an error
    found = Graph(detector(), ["silu", "large"], "meta", torch.float16)({"images": pictures.half()})
    assert found["large"].shape == (1, 4, 8, 8)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"wanted": "unneeded"}, "a layer 'Softmax'; supported are Add, Concat"),
        ({"wanted": "lower"}, "a layer 'Split'; supported are Add, Concat"),
        ({"pads": [0, 0, 1, 1]}, r"padded unevenly, by \[0, 0, 1, 1\]"),
        ({"mode": "linear"}, "twice their size, by nearest"),
    ],
)
def test_a_layer_that_is_not_known_is_refused(changed: dict[str, Any], told: str) -> None:
    model = detector()
    if "mode" in changed:
        (resize,) = (n for n in model.graph.node if n.op_type == "Resize")
        next(a for a in resize.attribute if a.name == "mode").s = changed["mode"].encode()
    if "pads" in changed:
        conv = next(n for n in model.graph.node if n.op_type == "Conv")
        next(a for a in conv.attribute if a.name == "pads").ints[:] = changed["pads"]
    wanted = [changed.get("wanted", "large")]
    with pytest.raises(ModelError, match=told):
        Graph(model, wanted, "cpu", torch.float32)({"images": torch.zeros(1, 3, 8, 8)})


@pytest.mark.footage
def test_torch_and_onnx_runtime_say_the_same_of_the_teacher(footage: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the teacher needs panorama-video[teachers]")
    from panorama.models.proposer_training.teachers import Teacher

    pictures = np.stack([shapes_on_noise(seed, 128, 160)[0] for seed in range(3)])
    asked = Teacher(footage / TEACHER)(pictures)
    scores, boxes, features = GraphTeacher(footage / TEACHER, "cpu")(torch.from_numpy(pictures))
    torch.testing.assert_close(scores, torch.from_numpy(asked.scores), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(boxes, torch.from_numpy(asked.boxes), rtol=1e-3, atol=2e-2)
    for mine, theirs in zip(features, asked.features, strict=True):
        torch.testing.assert_close(mine.half(), torch.from_numpy(theirs), rtol=1e-2, atol=1e-2)


def small(recipe_text: str) -> dict[str, Any]:
    """The shipped recipe, of three batches of two pictures from a small store."""
    recipe = tomllib.loads(recipe_text)
    recipe["training"] |= {"batch": 2, "cycles": [{"to_step": 3, "rate": 1.0, "fall": 2}]}
    recipe["store"] |= {"garments": 2, "objects": 120, "frames_a_clip": 1}
    recipe["store"]["scenes"] = {"backdrop": 2, "caltech101": 4, "grocery": 4, "clothing": 2}
    return recipe


def on_device(batch: dict[str, Any], device: str) -> dict[str, Any]:
    return {
        name: [some.to(device) for some in value] if isinstance(value, list) else value.to(device)
        for name, value in batch.items()
    }


@pytest.mark.footage
@pytest.mark.slow
def test_what_a_gpu_learns_from_is_what_a_processor_learns_from(footage: Path, tmp_path: Path) -> None:
    """Several processes make the batches, in the order of one, and the teacher is asked where they are."""
    pytest.importorskip("onnxruntime", reason="the teacher needs panorama-video[teachers]")
    from panorama.content import content_dir

    recipe = small((content_dir("embeddings") / "proposer" / "recipe.toml").read_text(encoding="utf-8"))
    alone = Batches(recipe, footage, tmp_path, 0, 3)
    for number, batch in enumerate(load(recipe, footage, tmp_path, 0, "cpu:0")):
        wanted = alone[number]
        for name in ("images", "boxes", "real", "silent"):
            torch.testing.assert_close(batch[name], wanted[name], rtol=0, atol=0)
        torch.testing.assert_close(batch["teacher_scores"], wanted["teacher_scores"], rtol=1e-3, atol=1e-3)
        assert len(batch["features"]) == len(wanted["features"])
    assert number == 2


@pytest.mark.parametrize("parts", [0, 1])
def test_a_step_waits_for_nothing_on_its_device(parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tensors of the device "meta" have shapes alone: to read one is an error, or to add one of the CPU."""
    monkeypatch.setattr(loop, "mixed", lambda kind: nullcontext())
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())
    recipe = tiny_recipe()
    recipe["training"]["parts"] = parts
    run = start(recipe, "meta")
    run.net.train()
    told = train_step(run, on_device(tiny_batch(0), "meta"), recipe)
    assert {value.device.type for value in told.values()} == {"meta"}
    assert {value.device.type for value in run.average.state_dict().values()} == {"meta"}


def test_no_number_is_fetched_on_the_way_back() -> None:
    """Products of sides by `prod` counted zeros there, which "meta" does not tell: a GPU was waited for."""
    true = torch.tensor([[[0.0, 0, 20, 20]]])
    boxes = torch.tensor([[[0.0, 0, 20, 16], [40, 40, 60, 60]]], requires_grad=True)
    logits, teacher = torch.zeros(1, 2, requires_grad=True), torch.tensor([[0.0, 0.5]])
    centres, strides = torch.tensor([[10.0, 10], [50, 50]]), torch.tensor([8.0, 8])
    real, silent = torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 2, dtype=torch.bool)
    found = assign(logits.detach().sigmoid(), boxes.detach(), centres, strides, true, real)
    with torch.autograd.profiler.profile() as seen:
        sum(detection_loss(logits, boxes, found, teacher, boxes.detach() + 1, silent, 1.0)).backward()
    called = {event.key for event in seen.key_averages()}
    assert "aten::mul" in called and not called & {"aten::item", "aten::nonzero"}
    assert boxes.grad is not None and boxes.grad.abs().sum(-1).min() > 0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here")
def test_a_step_on_a_gpu_is_that_of_the_processor(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    recipe["training"]["parts"] = 1
    losses: dict[str, list[float]] = {}
    for device in ("cpu", "cuda"):
        run = start(recipe, device)
        run.net.train()
        for number in range(2):
            batch = on_device(tiny_batch(number), device)
            losses.setdefault(device, []).append(float(train_step(run, batch, recipe)["loss"]))
        assert {p.device.type for p in run.net.parameters()} == {device}
        save_checkpoint(run, tmp_path / device)
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=0.05)
    elsewhere = start(recipe)
    load_checkpoint(elsewhere, tmp_path / "cuda")
    assert float(train_step(elsewhere, tiny_batch(2), recipe)["loss"]) > 0


def test_room_for_more_boxes_changes_no_loss() -> None:
    """Batches of any number of boxes are replayed by few graphs: lists are padded as far as to the next."""
    recipe, batch = tiny_recipe(), tiny_batch(0)
    longer = with_room(batch)
    assert longer["boxes"].shape == (2, 16, 4) and longer["real"].shape == (2, 16)
    assert longer["silent"].shape == (2, 16, 4)
    many = batch | {"silent": torch.zeros(2, 17, 4)}
    assert with_room(many)["real"].shape == (2, 32)
    losses = []
    for each in (batch, longer):
        run = start(recipe)
        run.net.train()
        losses.append({name: float(value) for name, value in train_step(run, each, recipe).items()})
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here")
def test_replayed_steps_are_those_of_python(tmp_path: Path) -> None:
    """Of two kinds, in turn, each with its first as it is, its second recorded, and others after that.

    Meanwhile another thread pins memory, as a loader of batches does: that spoilt what was being recorded.
    """
    recipe = tiny_recipe()
    recipe["training"]["parts"] = 6
    losses: list[list[float]] = []
    runs, over = [], threading.Event()

    def pin() -> None:
        while not over.wait(0.001):
            torch.zeros(1 << 16).pin_memory()

    beside = threading.Thread(target=pin)
    beside.start()
    try:
        for update in (update_weights, Replayed(update_weights)):
            run = start(recipe, "cuda")
            run.net.train()
            told = []
            for number in range(12):
                batch = on_device(tiny_batch(number), "cuda")
                if number % 2:
                    batch |= {"silent": torch.zeros(2, 20, 4, device="cuda")}
                told.append(float(train_step(run, batch, recipe, update)["loss"]))
            losses.append(told)
            runs.append(run)
    finally:
        over.set()
        beside.join()
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    for mine, theirs in zip(*(run.average.parameters() for run in runs), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0.1, atol=0.02)
    save_checkpoint(runs[1], tmp_path / "replayed")
    again = start(recipe, "cuda")
    load_checkpoint(again, tmp_path / "replayed")
    again.net.train()
    assert np.isfinite(float(train_step(again, batch, recipe, Replayed(update_weights))["loss"]))
