"""Training the proposer: the loop, going on with it, and its model."""

from __future__ import annotations

import copy
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from fakes import Thing, shapes_on_noise, write_film
from safetensors.torch import load_file

import panorama.models.proposer_training.batches as making
import panorama.models.proposer_training.loop as loop
from panorama.content import content_dir
from panorama.errors import ModelError, UsageError
from panorama.models.interrupts import CHECKPOINT
from panorama.models.proposer import PanoramaProposer, load_proposer
from panorama.models.proposer_floats import KINDS
from panorama.models.proposer_training.batches import padded
from panorama.models.proposer_training.evaluate import report
from panorama.models.proposer_training.export import export_average, measure_ranges
from panorama.models.proposer_training.loop import train, train_step
from panorama.models.proposer_training.plan import batch_at, last_step, share_at
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
    read_rgb,
)
from panorama.models.proposer_training.teachers import TAP_WIDTHS
from panorama.models.ranges import RANGES, measure, read_ranges
from panorama.models.training.begun import read_metadata
from panorama.models.weights import open_model
from panorama.regions import Regions
from panorama.training import TrainingOptions, train_recipe

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
        "inference": {"side": 64, "floor": 0.05, "max_iou": 0.5, "limit": 32},
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


def exported(folder: Path, inference: str = "floor = 0.0") -> Path:
    """The folder of a tiny proposer that has learnt nothing."""
    folder.mkdir(exist_ok=True)
    save_checkpoint(start(tiny_recipe()), folder / "checkpoint.safetensors")
    network = "widths = [8, 8, 16, 16, 16]\ndepths = [1, 1, 1, 1]\npyramid = 16\n"
    inference = f"side = 96\nmax_iou = 0.6\nlimit = 5\n{inference}\n"
    (folder / "recipe.toml").write_text(
        f'name = "tiny"\nkind = "proposer"\n\n[network]\n{network}\n[inference]\n{inference}'
    )
    export_average(folder / "checkpoint.safetensors", folder)
    return folder


def test_an_exported_run_loads_and_proposes(tmp_path: Path) -> None:
    tiny = load_proposer(str(exported(tmp_path / "tiny")))
    assert tiny.name == "tiny"
    assert 1 <= len(tiny.propose([shapes_on_noise(0, 96, 128)[0]])[0]) <= 5


def labelled(data: Path, count: int) -> None:
    """Pictures of shapes below `data`, with a table of boxes: `count` to train on, and one that judges."""
    files = [f"boxes/coco/train2017_{number}.png" for number in range(count)]
    files.append("boxes/coco/val2017_0.png")
    for number, file in enumerate(files):
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(data / file), shapes_on_noise(number, 96, 128)[0])
    rows = [f"{file},1,1,40,40,thing" for file in files]
    (data / "boxes" / "boxes.csv").write_text("\n".join(["file,x1,y1,x2,y2,class", *rows]) + "\n")


@pytest.mark.parametrize("looks", [1, 4])
def test_ranges_are_measured_on_labelled_pictures_that_may_be_trained_on(
    looks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = exported(tmp_path / "tiny", f"floor = 0.0\nlooks = {looks}")
    labelled(tmp_path / "data", 3)
    read: list[str] = []
    monkeypatch.setattr(
        "panorama.models.proposer_training.export.read_rgb", lambda path: read.append(path) or read_rgb(path)
    )
    said: list[str] = []
    made = measure_ranges(tiny, tmp_path / "data", "cpu", said.append)
    assert said == ["measuring the ranges for 8 bits on 3 pictures"]
    assert [path.name for path in read] == ["train2017_0.png", "train2017_1.png", "train2017_2.png"]
    assert made == tiny / RANGES
    ranges, lacking = read_ranges(open_model(str(tiny), "proposer"))
    assert not lacking
    once = copy.copy(PanoramaProposer(open_model(str(tiny), "proposer"), precision="float32"))
    once.settings = replace(once.settings, looks=1)
    looked = measure(once.network.net, KINDS, lambda: once.propose([read_rgb(path) for path in read]))
    assert ranges.keys() == looked.keys()
    same = all(ranges[name] == pytest.approx(looked[name], rel=1e-4) for name in looked)
    assert same == (looks == 1)  # larger looks give other values


def test_without_labelled_pictures_a_model_is_told_to_stay_in_floating_point(tmp_path: Path) -> None:
    """A training whose pictures are all in its cache needs no data folder; it must not fail at its end."""
    tiny = exported(tmp_path / "tiny")
    for data in (tmp_path / "nothing", tmp_path / "judging"):
        if data.name == "judging":
            labelled(data, 0)
        said: list[str] = []
        assert measure_ranges(tiny, data, "cpu", said.append) is None
        assert said == [
            f"{data} has no labelled picture: the model runs in floating point until its ranges are measured"
        ]
    assert not (tiny / RANGES).exists()


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

    def lost(run: Any, *rest: Any) -> dict[str, torch.Tensor]:
        losses = step(run, *rest)
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
    measured: list[tuple[object, ...]] = []
    monkeypatch.setattr(
        "panorama.models.proposer_training.export.measure_ranges", lambda *given: measured.append(given)
    )
    told = TrainingOptions(device="cpu")
    assert train_recipe(path, {"a": tmp_path}, tmp_path / "out", told, print) == {"recall": 1.0}
    assert measured == [(tmp_path / "out" / "model", tmp_path, "cpu", print)]
    assert (tmp_path / "out/model/recipe.toml").read_text().startswith("# this one\n")


def test_a_proposer_is_judged_by_what_the_data_folder_holds(tmp_path: Path) -> None:
    """Without eval/truth.json, or bottles.mp4, a training ended as a defect after its last step."""
    (tmp_path / "boxes").mkdir()
    table = tmp_path / "boxes" / "boxes.csv"
    table.write_text("file,x1,y1,x2,y2\ntrain2017.png,0,0,10,10\n")

    def nothing(images: Sequence[Any]) -> list[Regions]:
        return [Regions.empty() for _ in images]

    assert report(tmp_path, nothing) == {}
    cv2.imwrite(str(tmp_path / "val2017.png"), np.zeros((20, 20, 3), np.uint8))
    table.write_text("file,x1,y1,x2,y2\nval2017.png,0,0,10,10\n")
    assert report(tmp_path, nothing) == {"recall_overall": 0.0, "recall_large": 0.0, "regions_a_picture": 0.0}
    write_film(tmp_path / "video" / "flower.mp4", [Thing("red", 0, 4)], frames=4)
    assert report(tmp_path, nothing)["regions_a_frame"] == {"flower": 0.0}


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
    monkeypatch.setattr(making, "read_teacher", lambda path: None)
    mine = signal.getsignal(signal.SIGINT)
    assert list(making.load({"training": {"cycles": [{"to_step": 1}]}}, Path(), Path(), 0)) == [True]
    assert signal.getsignal(signal.SIGINT) == mine
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


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
    made = open_model(str(tmp_path / "run" / "model"), "proposer")
    assert len(load_proposer(str(made.path)).hash) == 64
    ranges, lacking = read_ranges(made)
    assert not lacking and set(ranges) == set(read_ranges(open_model("proposer", "proposer"))[0])


@pytest.mark.parametrize("given", [{"steps": 5}, {"seed": 1}, {"minutes": 1.0}])
def test_what_only_the_recipe_of_a_proposer_says_is_refused_and_not_passed_over(
    given: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "recipe.toml").write_text('name = "p"\nkind = "proposer"\n')
    with pytest.raises(UsageError, match=f"--{next(iter(given))}: for a proposer, set this in the recipe"):
        train_recipe(
            tmp_path / "recipe.toml", {"a": tmp_path}, tmp_path / "out", TrainingOptions(**given), print
        )
