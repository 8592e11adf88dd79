"""Arithmetic of 8 bits: what one layer gives, how near whole networks stay, and what happens without it."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import nn

from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.models import precision as precision_module
from panorama.models.device import CPU
from panorama.models.embedder import PanoramaNet
from panorama.models.precision import ENVIRONMENT, choose, why_no_int8
from panorama.models.proposer import PanoramaProposer
from panorama.models.ranges import RANGES, main, measure, read_ranges, spread_evenly, write_ranges
from panorama.models.weights import ModelFolder, open_model, record_hashes
from panorama.regions import iou
from panorama.threads import NETWORKS, lent

int8_only = pytest.mark.skipif(bool(why_no_int8()), reason=why_no_int8() or "has it")
if not why_no_int8():
    from panorama.models import graph8
    from panorama.models.graph8 import (
        Build,
        Layers,
        Network8,
        Node,
        doubled,
        joined,
        largest_weight,
        mean_of,
        overflow,
        pooled,
        residual,
    )


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


def told(build: Build, picture: np.ndarray, ranges: dict[str, float] | None = None) -> np.ndarray:
    """What a network of a few layers makes of pictures (B, H, W, 3)."""
    network = Network8(build, ranges or {}, np.zeros(3, np.uint8), 0, 2)
    return network(picture)[0]


def first_channel(layers: Layers, pictures: Node) -> Node:
    """The first channel of pictures as bytes, for which a byte stands for 1."""
    weight = np.array([1, 0, 0], np.float32).reshape(1, 3, 1, 1)
    x = layers.stem(pictures, weight, np.zeros(1, np.float32), 1, np.zeros(3), np.ones(3))
    return layers.to_bytes(x, "bytes")


def a_row(*values: int) -> np.ndarray:
    """A picture with these values as its first channel, (1, 1, n, 3)."""
    picture = np.zeros((1, 1, len(values), 3), np.uint8)
    picture[0, 0, :, 0] = values
    return picture


def weights(value: float) -> np.ndarray:
    return np.full((1, 1, 1, 1), value, np.float32)


BYTES = {"bytes": 255.0}


@int8_only
def test_a_layer_multiplies_bytes_as_a_person_would() -> None:
    def build(bias: float, rounded: bool) -> Build:
        def layer(layers: Layers, pictures: Node) -> list[Node]:
            x = layers.conv(first_channel(layers, pictures), weights(0.5), np.array([bias], np.float32))
            return [layers.to_bytes(x, "out") if rounded else x]

        return layer

    row, ranges = a_row(0, 10, 200, 255), {**BYTES, "out": 63.75}  # a byte of the output stands for 0.25
    exact = [1.0, 6.0, 101.0, 128.5]
    np.testing.assert_allclose(told(build(1.0, False), row, ranges).ravel(), exact, atol=1e-3)
    assert told(build(1.0, True), row, ranges).ravel().tolist() == [1.0, 6.0, 63.75, 63.75]
    assert told(build(1.1, True), row, ranges).ravel().tolist()[:2] == [1.0, 6.0]  # to a quarter
    assert told(build(-500.0, True), row, ranges).ravel().tolist() == [0] * 4


@int8_only
def test_a_residual_adds_its_input_before_the_relu() -> None:
    def build(layers: Layers, pictures: Node) -> list[Node]:
        x = first_channel(layers, pictures)
        change = layers.conv(x, weights(-0.75), np.array([-10.0], np.float32), relu=False)
        return [residual(x, change)]

    # 80 - 60 - 10 = 10; what falls below zero is nothing; the change alone would always be.
    found = told(build, a_row(80, 20, 0), BYTES).ravel()
    np.testing.assert_allclose(found, [10, 0, 0], atol=0.3)


@int8_only
@pytest.mark.parametrize("padding", [0, 1, 2])
def test_the_stem_takes_the_normalisation_into_its_weights(padding: int) -> None:
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 8, 3, 2, padding)
    assert conv.bias is not None
    weight, bias = conv.weight.detach().numpy(), conv.bias.detach().numpy()
    zero, spread = np.array([120.0, 110.0, 100.0], np.float32), np.array([64.0, 60.0, 50.0], np.float32)
    pictures = np.random.default_rng(0).integers(0, 256, (3, 16, 20, 3)).astype(np.uint8)
    x = torch.from_numpy(((pictures - zero) / spread).transpose(0, 3, 1, 2))
    exact = conv(x).relu().detach().numpy()

    def build(layers: Layers, x: Node) -> list[Node]:
        return [layers.to_bytes(layers.stem(x, weight, bias, 2, zero, spread), "out")]

    border = zero.round().astype(np.uint8)
    network = Network8(build, {"out": float(exact.max())}, border, padding, 2)
    assert np.abs(network(pictures)[0] - exact).max() < 0.02 * float(exact.max())


@int8_only
def test_sums_do_not_overflow_with_the_largest_weights_that_are_used() -> None:
    assert largest_weight() in (63, 127)
    assert overflow(largest_weight()) < 1e-4


@int8_only
def test_maps_are_doubled_pooled_and_joined_as_torch_does_it() -> None:
    def build(layers: Layers, pictures: Node) -> list[Node]:
        x = first_channel(layers, pictures)
        return [joined([doubled(x), doubled(pooled(x))]), mean_of(x)]

    picture = np.zeros((1, 7, 9, 3), np.uint8)
    picture[..., 0] = np.random.default_rng(1).integers(0, 256, (7, 9))
    maps, mean = Network8(build, BYTES, np.zeros(3, np.uint8), 0, 2)(picture)
    x = torch.from_numpy(picture[..., 0].astype(np.float32))
    both = torch.cat([x, nn.functional.max_pool2d(x, 5, 1, 2)])
    wanted = nn.functional.interpolate(both[None], scale_factor=2.0)
    np.testing.assert_allclose(maps, wanted.numpy(), atol=1e-3)
    np.testing.assert_allclose(mean, [[picture[..., 0].mean()]], rtol=1e-3)


@int8_only
def test_pieces_and_their_rests_answer_as_one_picture_does_and_others_may_have_the_processor_between() -> (
    None
):
    def build(layers: Layers, pictures: Node) -> list[Node]:
        return [first_channel(layers, pictures)]

    network = Network8(build, BYTES, np.zeros(3, np.uint8), 0, 4)
    rested: list[int] = []
    network.rest = lambda: rested.append(1)
    pictures = np.random.default_rng(2).integers(0, 256, (11, 4, 6, 3)).astype(np.uint8)
    found = network(pictures)[0]
    assert len(rested) == 3
    np.testing.assert_array_equal(found[:, 0], pictures[..., 0].astype(np.float32))


class Made:
    """Layers that tell how often, and for which pictures, they were made."""

    def __init__(self) -> None:
        self.shapes: list[str] = []

    def __call__(self, layers: Layers, pictures: Node) -> list[Node]:
        self.shapes.append(str(pictures.get_output_partial_shape(0)))
        return [first_channel(layers, pictures)]


def answers(network: Network8, count: int, width: int) -> bool:
    """Whether a network gives back what it was shown."""
    pictures = np.random.default_rng(width).integers(0, 256, (count, 3, width, 3)).astype(np.uint8)
    return bool((network(pictures)[0][:, 0] == pictures[..., 0]).all())


@int8_only
def test_pictures_of_many_sizes_are_answered_by_a_network_that_is_compiled_once() -> None:
    made = Made()
    network = Network8(made, BYTES, np.zeros(3, np.uint8), 0, 2, own_after=1)
    assert all(answers(network, count, width) for width in (4, 5, 4, 6, 7) for count in (1, 2))
    assert made.shapes[:1] == ["[?,3,?,?]"]
    assert made.shapes[1:] == ["[2,3,3,4]"]  # the one size that came twice


@int8_only
def test_a_network_for_any_size_is_made_anew_before_it_has_kept_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph8, "MOST_SHAPES", 3)
    made = Made()
    network = Network8(made, BYTES, np.zeros(3, np.uint8), 0, 2)
    for width, times in ((4, 1), (5, 1), (6, 1), (4, 1), (7, 2), (6, 2)):
        assert answers(network, 1, width) and len(made.shapes) == times


@int8_only
def test_few_usual_sizes_have_a_network_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph8, "MOST_KEPT", 2)
    made = Made()
    network = Network8(made, BYTES, np.zeros(3, np.uint8), 0, 2)
    for width in (4, 5, 4, 6, 4, 5):
        assert answers(network, 2, width)
    # 5 had not been asked for as long as 4 when 6 came
    assert made.shapes == [f"[2,3,3,{width}]" for width in (4, 5, 6, 5)]


@int8_only
@pytest.mark.parametrize("first", ["", "try: import openvino_telemetry\nexcept ImportError: pass\n"])
def test_networks_run_without_a_word_to_the_makers_of_what_runs_them(tmp_path: Path, first: str) -> None:
    code = (
        "import os, socket, sys\n"
        "def refused(*_): raise SystemExit('something was to be sent')\n"
        "os.fork = socket.socket.connect = refused\n"
        f"{first}before = set(sys.modules)\n"
        "from panorama.models.registry import load_embedder\n"
        "import numpy as np\n"
        "net = load_embedder()\n"
        "net.embed([np.zeros((9, 9, 3), np.uint8)])\n"
        "new = [name for name in set(sys.modules) - before if name.startswith('openvino_telemetry')]\n"
        "print(net.precision.name, new)"
    )
    home = {**os.environ, "HOME": str(tmp_path), "PANORAMA_DEVICE": "cpu"}
    ran = subprocess.run([sys.executable, "-c", code], env=home, capture_output=True, text=True, timeout=120)
    assert ran.stdout == "int8 []\n", ran.stderr
    assert list(tmp_path.iterdir()) == []


@int8_only
def test_a_network_takes_the_threads_that_are_told() -> None:
    def build(layers: Layers, pictures: Node) -> list[Node]:
        return [first_channel(layers, pictures)]

    network = Network8(build, BYTES, np.zeros(3, np.uint8), 0, 2)
    picture = a_row(1, 2, 3)
    with lent(**{NETWORKS: 1}):
        network(picture)
    with lent(**{NETWORKS: 2}):
        network(picture)
    kept = network._compiled
    assert [key[-1] for key in kept] == [1, 2]
    assert [int(one._model.get_property("INFERENCE_NUM_THREADS")) for one in kept.values()] == [1, 2]


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


@pytest.mark.parametrize(
    "text", ["", "[]", '{"weights": 1}', '{"weights": "a", "largest": {"x": "y"}}', "[" * 200_000]
)
def test_a_malformed_file_of_ranges_is_refused(copied: ModelFolder, text: str) -> None:
    (copied.path / RANGES).write_text(text)
    with pytest.raises(ModelError, match=r"not a file of ranges"):
        read_ranges(copied)


def test_damaged_ranges_can_be_measured_anew_as_their_error_says(copied: ModelFolder, tmp_path: Path) -> None:
    """The command that every such error names read the damaged file first and ended with the same error."""
    empty = {"weights": copied.sha256(), "largest": {}}
    (copied.path / RANGES).write_text(json.dumps(empty))
    with pytest.raises(ModelError, match=r"holds no ranges; `python -m panorama\.models\.ranges embedder"):
        read_ranges(copied)
    cv2.imwrite(str(tmp_path / "a.png"), scenes(1)[0])
    for text in (json.dumps(empty), ""):
        (copied.path / RANGES).write_text(text)
        main(["embedder", str(copied.path), str(tmp_path / "a.png")])
        assert len(read_ranges(copied)[0]) > 20


@int8_only
def test_ranges_that_lack_a_layer_are_refused_by_its_name(copied: ModelFolder) -> None:
    ranges, _ = read_ranges(copied)
    del ranges["stages.1.0"]
    write_ranges(copied, ranges)
    with pytest.raises(ModelError, match=r"lack the layer 'stages\.1\.0'"):
        PanoramaNet(copied)


def test_the_environment_chooses_and_a_wrong_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENVIRONMENT, "float32")
    assert choose(None, lambda: "", CPU).name == "float32"
    assert choose("bfloat16", lambda: "", CPU).name == "bfloat16"
    monkeypatch.setenv(ENVIRONMENT, "int4")
    with pytest.raises(ModelError, match="int4"):
        choose(None, lambda: "", CPU)


def test_without_openvino_networks_run_in_floating_point_and_say_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(precision_module, "native_bfloat16", lambda: False)
    monkeypatch.setitem(sys.modules, "panorama.models.graph8", None)  # as where its import fails
    net = PanoramaNet(open_model("panoramanet", "embedder"), device=CPU)
    assert (net.precision.name, net.precision.dtype) == ("float32", torch.float32)
    assert "OpenVINO, which runs networks in 8 bits, cannot be loaded" in net.precision.why
    assert net.embed_all(scenes(1)).shape == (3, 1, net.dim)
    with pytest.raises(ModelError, match="no int8 here: OpenVINO"):
        PanoramaNet(open_model("panoramanet", "embedder"), "int8", CPU)


@int8_only
def test_a_processor_without_fast_products_of_bytes_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        def get_property(self, _device: str, _name: str) -> list[str]:
            return ["FP32"]

    monkeypatch.setattr(graph8, "_core", Old)
    assert why_no_int8() == "this processor has no fast 8-bit products (FP32)"


def test_a_range_covers_the_largest_values_of_nearly_all_pictures_however_they_are_batched() -> None:
    net = nn.Sequential(nn.ReLU(), nn.ReLU())
    pictures = torch.tensor([[number, -9.0, number / 2] for number in range(1, 20)] + [[1000.0, 0.0, 0.0]])
    for size in (1, 7, 20):
        found = measure(net, (nn.ReLU,), lambda size=size: [net(batch) for batch in pictures.split(size)])
        assert set(found) == {"0", "0:in", "1", "1:in"}
        # 19 of 20 pictures lie at or below 19; the odd one does not set the range.
        assert list(found.values()) == pytest.approx([19 + 0.05 * (1000 - 19)] * 4)


def test_of_a_picture_the_range_leaves_out_its_few_largest_values() -> None:
    values = torch.arange(1.0, 40_001.0)[None]
    net = nn.Sequential(nn.ReLU())
    # The four largest make up a share of 1e-4; the smallest of these is the range.
    assert measure(net, (nn.ReLU,), lambda: net(values)) == {"0": 39_997.0, "0:in": 39_997.0}


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_values_that_are_not_finite_give_no_range(lost: float) -> None:
    net = nn.Sequential(nn.ReLU())
    pictures = torch.tensor([[1.0], [lost], *[[1.0]] * 30])
    with pytest.raises(ModelError, match="0 gives infinite values or NaN: these weights are no use"):
        measure(net, (nn.ReLU,), lambda: net(pictures))


def test_pictures_to_measure_are_spread_over_all() -> None:
    assert list(spread_evenly(range(9), 4)) == [0, 3, 6]
    assert list(spread_evenly(range(400))) == list(range(400))
    assert list(spread_evenly(range(689))) == list(range(0, 689, 2))


@pytest.mark.slow
def test_the_command_measures_pictures_and_writes_the_file(copied: ModelFolder, tmp_path: Path) -> None:
    (copied.path / RANGES).unlink()
    for number, scene in enumerate(scenes(3)):
        cv2.imwrite(str(tmp_path / f"{number}.png"), scene)
    main(["embedder", str(copied.path), str(tmp_path)])
    ranges, lacking = read_ranges(copied)
    assert not lacking
    assert set(ranges) == set(read_ranges(open_model("panoramanet", "embedder"))[0])


def test_pictures_that_cannot_be_read_leave_the_ranges_as_they_are(
    copied: ModelFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty table replaced a good one, and the model did not load any more."""
    before = (copied.path / RANGES).read_bytes()
    (pictures := tmp_path / "pictures").mkdir()
    (pictures / "a.jpg").write_bytes(b"no picture")
    with pytest.raises(SystemExit, match="2"):
        main(["embedder", str(copied.path), str(pictures)])
    assert "none of 1 pictures can be read, the first is" in capsys.readouterr().err
    with pytest.raises(ModelError, match="no range was measured"):
        write_ranges(copied, {})
    assert (copied.path / RANGES).read_bytes() == before


def test_ranges_that_cannot_be_written_to_the_end_leave_those_of_before(
    copied: ModelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk or a kill in the middle left a file of which nothing could be read."""
    before = {path.name: path.read_bytes() for path in copied.path.iterdir()}

    def full(_: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_ranges(copied, {"stem": 1.0})
    with pytest.raises(OSError, match="no space"):
        record_hashes(copied.path)
    assert {path.name: path.read_bytes() for path in copied.path.iterdir()} == before


@int8_only
def test_an_openvino_that_cannot_use_the_processor_is_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking() -> None:
        raise RuntimeError('Device with "CPU" name is not registered in the OpenVINO Runtime')

    monkeypatch.setattr(graph8, "_core", lacking)
    assert "not registered" in why_no_int8()
