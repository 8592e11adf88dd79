"""Arithmetic of 8 bits: what one layer gives, how near whole networks stay, and what happens without it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.models import precision as precision_module
from panorama.models.embedder import PanoramaNet
from panorama.models.precision import ENVIRONMENT, choose, why_no_int8
from panorama.models.proposer import PanoramaProposer
from panorama.models.proposer8 import _pooled
from panorama.models.quantized import FLOAT, Conv8, Stem8, largest_weight
from panorama.models.ranges import RANGES, main, measure, read_ranges, write_ranges
from panorama.models.weights import ModelFolder, open_model
from panorama.regions import iou

CPU = torch.device("cpu")

int8_only = pytest.mark.skipif(bool(why_no_int8()), reason=why_no_int8() or "has it")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def no_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENVIRONMENT, raising=False)


@pytest.fixture
def copied(tmp_path: Path) -> ModelFolder:
    """A copy of the embedder's folder, to be damaged."""
    shutil.copytree(content_dir("embeddings") / "panoramanet", tmp_path / "mine")
    return open_model(str(tmp_path / "mine"), "embedder")


def scenes(count: int) -> list[np.ndarray]:
    """Smooth backgrounds with a few bright boxes."""
    rng = np.random.default_rng(3)
    out = []
    for _ in range(count):
        canvas = cv2.resize(rng.integers(0, 200, (5, 8, 3)).astype(np.uint8), (416, 256))
        for _ in range(4):
            x, y = rng.integers(0, 330), rng.integers(0, 180)
            colour = rng.integers(0, 256, 3).tolist()
            cv2.rectangle(canvas, (int(x), int(y)), (int(x + 70), int(y + 60)), colour, -1)
        out.append(canvas)
    return out


@int8_only
def test_a_layer_multiplies_bytes_as_a_person_would() -> None:
    conv = nn.Conv2d(1, 1, 1)
    conv.weight.data.fill_(0.5)
    assert conv.bias is not None
    conv.bias.data.fill_(1.0)
    x = torch.tensor([0, 10, 200, 255], dtype=torch.uint8).reshape(1, 1, 2, 2)
    x = x.contiguous(memory_format=torch.channels_last)
    # A byte of the input stands for 0.1: 0, 1, 20, 25.5, times 0.5 plus 1; one of the output for 0.25.
    exact = torch.tensor([1.0, 1.5, 11.0, 13.75]).reshape(1, 1, 2, 2)
    torch.testing.assert_close(Conv8(conv, 0.1, FLOAT)(x), exact, atol=1e-4, rtol=0)
    found = Conv8(conv, 0.1, 0.25)(x)
    assert found.dtype == torch.uint8
    assert found.flatten().tolist() == [4, 6, 44, 55]
    conv.bias.data.fill_(-100.0)
    assert Conv8(conv, 0.1, 0.25)(x).flatten().tolist() == [0, 0, 0, 0]


@int8_only
def test_a_residual_adds_its_input_before_the_relu() -> None:
    conv = nn.Conv2d(1, 1, 1)
    conv.weight.data.fill_(-1.0)
    assert conv.bias is not None
    conv.bias.data.zero_()
    x = torch.full((1, 1, 2, 2), 20, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    shortcut = torch.full_like(x, 50)
    # 50 * 2 - 20 * 1 = 80; without the shortcut, nothing.
    assert Conv8(conv, 1.0, 1.0).onto(x, shortcut, 2.0).flatten().tolist() == [80] * 4
    assert Conv8(conv, 1.0, 1.0)(x).flatten().tolist() == [0] * 4
    assert shortcut.flatten().tolist() == [50] * 4


@int8_only
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_the_stem_takes_the_normalisation_into_its_weights(padding: int) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 8, 3, 2, padding)
    zero, spread = torch.tensor([120.0, 110.0, 100.0]), torch.tensor([64.0, 60.0, 50.0])
    pictures = np.random.default_rng(0).integers(0, 256, (2, 16, 20, 3)).astype(np.uint8)
    x = (torch.from_numpy(pictures).permute(0, 3, 1, 2).float() - zero[:, None, None]) / spread[:, None, None]
    exact = conv(x).relu().detach()
    scale = float(exact.max()) / 255
    found = Stem8(conv, zero, spread, scale)(pictures).float() * scale
    assert (found - exact).abs().max() < 0.02 * float(exact.max())


@int8_only
def test_sums_do_not_overflow_with_the_largest_weights_that_are_used() -> None:
    conv = nn.Conv2d(64, 4, 3)
    conv.weight.data.fill_(1.0)
    assert conv.bias is not None
    conv.bias.data.zero_()
    x = torch.full((1, 64, 6, 6), 255, dtype=torch.uint8).contiguous(memory_format=torch.channels_last)
    assert largest_weight() in (63, 127)
    exact = torch.full((1, 4, 4, 4), 64 * 9 * 255.0)
    torch.testing.assert_close(Conv8(conv, 1.0, FLOAT)(x), exact, rtol=1e-4, atol=0)


@int8_only
def test_the_shipped_embedder_gives_nearly_the_vectors_of_float32() -> None:
    folder = open_model("panoramanet", "embedder")
    exact, quick = PanoramaNet(folder, "float32"), PanoramaNet(folder, "int8")
    pictures = [scene[20 : 20 + 40 + 9 * i, 30:150] for i, scene in enumerate(scenes(12))]
    cosines = (exact.embed_all(pictures) * quick.embed_all(pictures)).sum(axis=2)
    assert cosines.min() > 0.985
    assert cosines.mean() > 0.994  # a crop loses as much when it is stored as JPEG
    assert exact.hash == quick.hash
    np.testing.assert_allclose(np.linalg.norm(quick.embed(pictures, 2), axis=1), 1, atol=1e-3)
    alone = quick.embed(pictures[:1], 1)
    np.testing.assert_allclose(alone, quick.embed_all(pictures)[0, :1], atol=2e-3)


@int8_only
def test_the_shipped_proposer_finds_nearly_the_regions_of_float32() -> None:
    folder = open_model("proposer", "proposer")
    exact, quick = (PanoramaProposer(folder, precision=p) for p in ("float32", "int8"))
    found = total = 0
    frames = [*scenes(6), scenes(1)[0][:, :256]]
    for a, b in zip(exact.propose(frames), quick.propose(frames), strict=True):
        strong = a[a.scores >= 0.3]
        total += len(strong)
        if len(strong) and len(b):
            found += int((iou(strong.boxes_xyxy, b.boxes_xyxy) >= 0.7).any(axis=1).sum())
    assert total >= 10
    assert found / total > 0.9
    assert exact.hash == quick.hash


def test_every_shipped_model_has_the_ranges_of_its_weights() -> None:
    for name, kind in (("panoramanet", "embedder"), ("proposer", "proposer")):
        ranges, lacking = read_ranges(open_model(name, kind))
        assert ranges and not lacking


def test_without_ranges_the_network_runs_in_floating_point_and_says_why(copied: ModelFolder) -> None:
    (copied.path / RANGES).unlink()
    net = PanoramaNet(copied)
    assert net.precision.name in ("bfloat16", "float32")
    assert net.precision.why
    with pytest.raises(ModelError, match="no int8 here"):
        PanoramaNet(copied, "int8")


def test_ranges_of_other_weights_are_not_used(copied: ModelFolder) -> None:
    data = json.loads((copied.path / RANGES).read_text())
    (copied.path / RANGES).write_text(json.dumps({**data, "weights": "0" * 64}))
    assert "other weights" in read_ranges(copied)[1]
    assert PanoramaNet(copied).precision.name != "int8"


@pytest.mark.parametrize("text", ["", "[]", '{"weights": 1}', '{"weights": "a", "largest": {"x": "y"}}'])
def test_a_malformed_file_of_ranges_is_refused(copied: ModelFolder, text: str) -> None:
    (copied.path / RANGES).write_text(text)
    with pytest.raises(ModelError, match=r"not a file of ranges"):
        read_ranges(copied)


@int8_only
def test_ranges_that_lack_a_layer_are_refused_by_its_name(copied: ModelFolder) -> None:
    ranges, _ = read_ranges(copied)
    del ranges["stages.1.0"]
    write_ranges(copied, ranges)
    with pytest.raises(ModelError, match=r"lack the layer 'stages\.1\.0'"):
        PanoramaNet(copied)


def test_the_environment_chooses_and_a_wrong_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "float32")
    assert choose(None, "", CPU).name == "float32"
    assert choose("bfloat16", "", CPU).name == "bfloat16"
    monkeypatch.setenv(ENVIRONMENT, "int4")
    with pytest.raises(ModelError, match="int4"):
        choose(None, "", CPU)


def test_maps_of_bytes_are_pooled_as_floats_are() -> None:
    x = torch.randint(0, 256, (2, 5, 7, 9), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    parts = [x.float()]
    for _ in range(3):
        parts.append(nn.functional.max_pool2d(parts[-1], 5, 1, 2))
    found = _pooled(x.contiguous(memory_format=torch.channels_last))
    assert found.dtype == torch.uint8 and found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.float(), torch.cat(parts, 1), rtol=0, atol=0)


def test_a_torch_without_such_convolutions_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_module, "native_bfloat16", lambda: False)
    chosen = choose("auto", "torch is built without them", CPU)
    assert (chosen.name, chosen.dtype) == ("float32", torch.float32)
    assert chosen.why == "torch is built without them"


def test_measuring_keeps_the_largest_value_of_all_batches() -> None:
    net = nn.Sequential(nn.ReLU(), nn.ReLU())
    batches = [torch.tensor([[1.0, -9.0]]), torch.tensor([[7.0, 2.0]]), torch.tensor([[3.0, 0.0]])]
    found = measure(net, (nn.ReLU,), lambda: [net(batch) for batch in batches])
    assert found == {"0": 7.0, "0:in": 7.0, "1": 7.0, "1:in": 7.0}


@pytest.mark.slow
def test_the_command_measures_pictures_and_writes_the_file(copied: ModelFolder, tmp_path: Path) -> None:
    (copied.path / RANGES).unlink()
    for number, scene in enumerate(scenes(3)):
        cv2.imwrite(str(tmp_path / f"{number}.png"), scene)
    main(["embedder", str(copied.path), str(tmp_path)])
    ranges, lacking = read_ranges(copied)
    assert not lacking
    assert set(ranges) == set(read_ranges(open_model("panoramanet", "embedder"))[0])
