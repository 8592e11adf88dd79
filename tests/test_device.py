"""Where networks run: what is chosen and refused, and that a GPU gives what the processor gives."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from test_quantized import scenes

from panorama.errors import ModelError
from panorama.models import device as device_module
from panorama.models import precision as precision_module
from panorama.models.device import ENVIRONMENT, choose_device, send
from panorama.models.embedder import BATCH, PanoramaNet
from panorama.models.precision import choose
from panorama.models.proposer import PanoramaProposer
from panorama.models.registry import late_embedder, late_proposer
from panorama.models.weights import open_model
from panorama.regions import iou
from panorama.worker.client import beside


@pytest.fixture(autouse=True)
def no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    monkeypatch.delenv(precision_module.ENVIRONMENT, raising=False)


def crops(count: int) -> list[np.ndarray]:
    """Small pictures, each of other colours."""
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, (40 + i % 7, 30, 3)).astype(np.uint8) for i in range(count)]


def gpus(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(device_module, "driver_here", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 0)
    assert choose_device() == "cpu"
    gpus(monkeypatch, 2)
    assert choose_device() == "cuda"
    assert choose_device("cpu") == "cpu"
    monkeypatch.setenv(ENVIRONMENT, "cuda:1")
    assert choose_device() == "cuda:1"


@pytest.mark.parametrize("count, name", [(0, "cuda"), (2, "cuda:2"), (2, "gpu"), (0, "tpu")])
def test_a_device_that_is_not_here_is_refused_with_those_that_are(
    monkeypatch: pytest.MonkeyPatch, count: int, name: str
) -> None:
    gpus(monkeypatch, count)
    with pytest.raises(ModelError, match=f"a device is auto, cpu.*got '{name}'") as refused:
        choose_device(name)
    assert ("no CUDA GPU" in str(refused.value)) == (count == 0)
    assert ("cuda:1" in str(refused.value)) == (count == 2)


def test_the_models_tell_of_a_device_that_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    gpus(monkeypatch, 0)
    monkeypatch.setenv(ENVIRONMENT, "cuda")
    with pytest.raises(ModelError, match="no CUDA GPU"):
        PanoramaNet(open_model("panoramanet", "embedder"))
    with pytest.raises(ModelError, match="no CUDA GPU"):
        PanoramaProposer(open_model("proposer", "proposer"))


def test_a_gpu_counts_in_floating_point(monkeypatch: pytest.MonkeyPatch) -> None:
    for able, name in ((True, "bfloat16"), (False, "float32")):
        monkeypatch.setattr(precision_module, "gpu_bfloat16", lambda able=able: able)
        chosen = choose(None, lambda: "", "cuda:1")
        assert chosen.name == name and "only on the processor" in chosen.why
    with pytest.raises(ModelError, match=r"no int8 here: .*this is cuda"):
        choose("int8", lambda: "", "cuda")


def test_without_a_driver_torch_is_not_even_asked_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "driver_here", lambda: False)
    monkeypatch.setitem(sys.modules, "torch", None)  # to import it is an error
    assert choose_device() == "cpu"
    with pytest.raises(ModelError, match="a device is auto, cpu; got 'cuda'; torch finds no CUDA GPU here"):
        choose_device("cuda")


def test_several_batches_are_each_in_their_place() -> None:
    net = PanoramaNet(open_model("panoramanet", "embedder"), device="cpu")
    pictures = crops(BATCH + 5)
    whole = net.embed_all(pictures)
    assert whole.shape == (3, BATCH + 5, net.dim)
    one_by_one = np.concatenate([net.embed_all([picture]) for picture in pictures[-6:]], axis=1)
    assert np.abs(whole[:, -6:] - one_by_one).max() < 1e-3


def test_sending_to_the_processor_copies_nothing() -> None:
    batch = torch.zeros(2, 3)
    assert send(batch, "cpu") is batch


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here")
def test_a_gpu_gives_what_the_processor_gives() -> None:
    pictures = crops(BATCH + 5)
    folder = open_model("panoramanet", "embedder")
    here = PanoramaNet(folder, "float32", "cpu").embed_all(pictures)
    there = PanoramaNet(folder, device="cuda").embed_all(pictures)
    assert (here * there).sum(axis=2).min() > 0.99
    proposer = open_model("proposer", "proposer")
    ours = PanoramaProposer(proposer, precision="float32", device="cpu").propose(scenes(8))
    theirs = PanoramaProposer(proposer, device="cuda").propose(scenes(8))
    strong = [regions[regions.scores >= 0.3] for regions in ours]
    assert sum(map(len, strong)) >= 8
    for a, b in zip(strong, theirs, strict=True):
        assert not len(a) or (iou(a.boxes_xyxy, b.boxes_xyxy).max(axis=1) >= 0.7).mean() > 0.8


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA GPU here")
def test_the_process_of_the_networks_tells_of_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "cuda")
    macs = PanoramaNet(open_model("panoramanet", "embedder"), "float32", "cpu").macs
    with beside(late_proposer(), late_embedder()) as (proposer, embedder):
        assert proposer.propose(scenes(2))[0].scores.size
        assert (proposer.device, embedder.device, embedder.macs) == ("cuda", "cuda", macs)
