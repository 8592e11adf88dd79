"""What the benches of the networks compare: rows that differ from what ships, and from nothing else."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from panorama.content import content_dir
from panorama.models.embedder import PanoramaNet
from panorama.models.proposer import PanoramaProposer
from panorama.models.proposer_net import SPREAD, ZERO
from panorama.models.registry import DEFAULT_EMBEDDER, DEFAULT_PROPOSER
from panorama.models.training.loop import Settings
from panorama.models.weights import open_model, read_recipe

BENCH = Path(__file__).parent / "bench"
RNG = np.random.default_rng(0)


@pytest.fixture
def other_backends(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("other_backends")


def test_every_ablation_changes_what_ships_and_no_two_are_alike(monkeypatch) -> None:
    """A row that took away what the recipe had come to do without would be the first row again."""
    monkeypatch.syspath_prepend(str(BENCH))
    variants = importlib.import_module("ablations").VARIANTS
    training = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")["training"]
    rows = {name: (one.settings(training), one.blank_proxies) for name, one in variants.items()}
    assert rows["all parts"] == (Settings.of(training), False)
    assert len(set(rows.values())) == len(rows)


def test_other_packages_are_given_the_networks_that_ship(other_backends) -> None:
    """Bytes in front of the network are normalised as the product does it."""
    pictures = RNG.integers(0, 256, (2, 128, 128, 3), np.uint8)
    proposer = PanoramaProposer(open_model(DEFAULT_PROPOSER, "proposer"), precision="float32")
    embedder = PanoramaNet(open_model(DEFAULT_EMBEDDER, "embedder"), "float32")
    zero, spread = torch.full((3,), ZERO), torch.full((3,), SPREAD)
    mean, std = (torch.from_numpy(part * 255) for part in (embedder.mean, embedder.std))
    said = other_backends.FromBytes(other_backends.Said(proposer.network.net), zero, spread)
    vectors = other_backends.FromBytes(embedder.network.trunk, mean, std)
    given = torch.from_numpy(pictures)
    with torch.inference_mode():
        np.testing.assert_allclose(proposer.network(pictures), said(given).numpy(), atol=1e-3, rtol=1e-4)
        for ours, theirs in zip(embedder.network.exits_out(pictures, 1, 3), vectors(given), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-3, rtol=1e-4)


def test_what_takes_full_batches_alone_is_given_them(other_backends) -> None:
    asked = []

    def run(pictures: np.ndarray) -> list[np.ndarray]:
        asked.append(len(pictures))
        return [pictures[:, 0, 0, :1].astype(np.float32), pictures.sum((1, 2, 3))]

    pictures = np.arange(5 * 4 * 4 * 3, dtype=np.uint8).reshape(5, 4, 4, 3)
    first, second = other_backends.in_full(run, pictures, 3)
    assert asked == [3, 3]
    assert first[:, 0].tolist() == pictures[:, 0, 0, 0].tolist()
    assert second.tolist() == pictures.sum((1, 2, 3)).tolist()


def test_the_last_products_and_what_follows_them_stay_in_floating_point(other_backends) -> None:
    def node(name: str, kind: str, inputs: str, output: str) -> SimpleNamespace:
        return SimpleNamespace(name=name, op_type=kind, input=inputs.split(), output=[output])

    nodes = [
        node("normalise", "Sub", "pictures", "x"),
        node("trunk", "Conv", "x", "y"),
        node("onto", "Add", "x y", "z"),
        node("score", "Conv", "z", "logits"),
        node("box", "Conv", "z", "distances"),
        node("corner", "Sub", "distances", "corners"),
    ]
    assert sorted(other_backends.past_the_last_products(nodes)) == ["box", "corner", "score"]
