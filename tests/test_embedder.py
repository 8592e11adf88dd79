"""PanoramaNet: loading with checks, the exits' contract, and what the shipped weights are worth."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.models.embedder import BATCH, PanoramaNet, squash
from panorama.models.late import LateEmbedder
from panorama.models.network import EXITS, Trunk, macs_per_exit
from panorama.models.registry import DEFAULT_EMBEDDER, embedder_names, late_embedder, load_embedder
from panorama.models.retrieval import at_most_per_label, retrieval_scores
from panorama.models.weights import WEIGHTS, ModelFolder, open_model, read_recipe, record_hashes


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def net() -> PanoramaNet:
    return PanoramaNet(open_model(DEFAULT_EMBEDDER, "embedder"))


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    shutil.copytree(content_dir("embeddings") / DEFAULT_EMBEDDER, folder)
    return folder


def pictures(count: int, seed: int = 0) -> list[np.ndarray]:
    """Coloured shapes on noise, of various sizes."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        size = rng.integers(20, 200, 2)
        canvas = cv2.resize(rng.integers(0, 256, (4, 4, 3)).astype(np.uint8), (int(size[0]), int(size[1])))
        center = (int(size[0] // 2), int(size[1] // 2))
        cv2.circle(canvas, center, int(size.min() // 3), rng.integers(0, 256, 3).tolist(), -1)
        out.append(canvas)
    return out


def test_every_exit_gives_unit_vectors_of_the_stated_size(net: PanoramaNet) -> None:
    vectors = net.embed_all(pictures(5))
    assert vectors.shape == (EXITS, 5, net.dim)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=2), 1, atol=1e-3)


def test_one_exit_alone_is_that_exit_of_all(net: PanoramaNet) -> None:
    some = pictures(4)
    whole = net.embed_all(some)
    for number in range(1, EXITS + 1):
        np.testing.assert_allclose(net.embed(some, exit=number), whole[number - 1], atol=1e-6)
    np.testing.assert_allclose(net.embed(some), whole[-1], atol=1e-6)


def test_a_picture_has_the_same_vector_alone_and_in_more_than_a_batch(net: PanoramaNet) -> None:
    many = pictures(BATCH + 3)
    together = net.embed_all(many)
    for i in (0, BATCH - 1, BATCH + 2):
        alone = net.embed_all([many[i]])[:, 0]
        assert ((alone * together[:, i]).sum(axis=1) > 1 - 1e-2).all()


def test_embedding_twice_gives_identical_vectors(net: PanoramaNet) -> None:
    some = pictures(3)
    np.testing.assert_array_equal(net.embed_all(some), net.embed_all(some))


@pytest.mark.parametrize("size", [(1, 1), (1, 300), (2, 3), (900, 5)])
def test_any_size_of_picture_works(net: PanoramaNet, size: tuple[int, int]) -> None:
    vectors = net.embed_all([np.full((*size, 3), 77, np.uint8)])
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=2), 1, atol=1e-3)


def test_no_pictures_give_no_vectors(net: PanoramaNet) -> None:
    assert net.embed_all([]).shape == (EXITS, 0, net.dim)
    assert net.embed([], exit=1).shape == (0, net.dim)


def test_exits_cost_more_the_deeper_they_are_and_the_first_at_most_a_quarter(net: PanoramaNet) -> None:
    assert net.macs[0] < net.macs[1] < net.macs[2]
    assert net.macs[0] <= 0.25 * net.macs[2]
    with pytest.raises(ValueError, match="exits 1 to 3, got 4"):
        net.embed(pictures(1), exit=4)


def test_macs_of_a_first_exit_can_be_counted_by_hand() -> None:
    stem, residual, down = 16 * 16 * 3 * 32 * 49, 16 * 16 * 32 * 32 * 9, 8 * 8 * 32 * 64 * 9
    inner, head = 8 * 8 * 64 * 64 * 9, 4 * 4 * 64 * 96 * 9 + 4 * 4 * 96 * 256 + 256 * 8
    assert macs_per_exit(Trunk(8), 64)[0] == stem + residual + down + inner + head


def test_macs_are_counted_where_the_trunk_lies() -> None:
    """Counted on the processor, indexing with a GPU ended there."""
    trunk, seen = Trunk(8), list[torch.device]()
    here = macs_per_exit(trunk, 64)
    trunk.stages[0].register_forward_pre_hook(lambda _, given: seen.append(given[0].device))
    assert macs_per_exit(trunk.to("meta"), 64) == here
    assert seen == [torch.device("meta")]


def test_folding_the_normalisation_changes_nothing() -> None:
    torch.manual_seed(0)
    trunk = Trunk(16)
    trunk.train()
    trunk(torch.randn(8, 3, 64, 64))  # moves the running statistics
    trunk.eval()
    x = torch.randn(4, 3, 64, 64)
    with torch.inference_mode():
        before = trunk(x)
        trunk.fold()
        after = trunk(x)
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_bfloat16_stays_close_to_float32(net: PanoramaNet) -> None:
    folder = open_model(DEFAULT_EMBEDDER, "embedder")
    exact, low = PanoramaNet(folder, precision="float32"), PanoramaNet(folder, precision="bfloat16")
    some = pictures(6)
    cosines = (exact.embed_all(some) * low.embed_all(some)).sum(axis=2)
    assert cosines.min() > 0.99


def test_the_cohort_is_unit_vectors_of_every_exit(net: PanoramaNet) -> None:
    cohort = net.cohort()
    assert cohort.shape[0] == EXITS
    assert cohort.shape[1] >= 256
    assert cohort.shape[2] == net.dim
    np.testing.assert_allclose(np.linalg.norm(cohort, axis=2), 1, atol=5e-3)


def test_damaged_weights_are_refused(copied: Path) -> None:
    data = bytearray((copied / WEIGHTS).read_bytes())
    data[-1] ^= 1
    (copied / WEIGHTS).write_bytes(data)
    with pytest.raises(ModelError, match="SHA-256"):
        load_embedder(str(copied))


def test_weights_that_lack_a_tensor_are_refused_by_name(copied: Path) -> None:
    tensors = load_file(copied / WEIGHTS)
    del tensors["heads.0.project.weight"]
    save_file(tensors, copied / WEIGHTS)
    record_hashes(copied)
    with pytest.raises(ModelError, match="heads\\.0\\.project\\.weight"):
        load_embedder(str(copied))


@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_weights_are_stored_in_any_floating_point_format(copied: Path, precision: str) -> None:
    picture = np.full((40, 30, 3), 90, np.uint8)
    tensors = load_file(copied / WEIGHTS)
    vectors = []
    for dtype in (torch.float32, torch.bfloat16):
        save_file({name: tensor.to(dtype) for name, tensor in tensors.items()}, copied / WEIGHTS)
        record_hashes(copied)
        net = PanoramaNet(open_model(str(copied), "embedder"), precision, "cpu")
        vectors.append(net.embed([picture])[0])
    assert vectors[0] @ vectors[1] > 0.99


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_no_numbers_are_refused_by_name(copied: Path, value: float) -> None:
    tensors = load_file(copied / WEIGHTS)
    tensors["heads.1.project.weight"][3, 4] = value
    save_file(tensors, copied / WEIGHTS)
    record_hashes(copied)
    with pytest.raises(ModelError, match=r"not finite numbers, in heads\.1\.project\.weight"):
        PanoramaNet(open_model(str(copied), "embedder"))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("side = 0", "has side 0"),
        ("side = 'large'", "'large'"),
        ("side = 1280000000", "has side 1280000000.*pixels from 1 to 1024"),
        ("side = inf", "not PanoramaNet's"),
        ("color_weight = -0.5", "color_weight -0.5"),
        ("learned_dim = []", "not PanoramaNet's"),
    ],
)
def test_a_recipe_of_what_cannot_be_is_refused(copied: Path, line: str, says: str) -> None:
    recipe = copied / "recipe.toml"
    name = line.split()[0]
    text, found = re.subn(rf"^{name} = .*$", line, recipe.read_text(), count=1, flags=re.MULTILINE)
    assert found
    recipe.write_text(text)
    for load in (PanoramaNet, LateEmbedder):
        with pytest.raises(ModelError, match=says):
            load(open_model(str(copied), "embedder"))


def test_a_checkpoint_beside_a_model_is_no_part_of_it(copied: Path) -> None:
    (copied / "checkpoint.safetensors").write_bytes(b"still learning")
    assert set(record_hashes(copied)) == {WEIGHTS, "cohort.safetensors"}
    assert "checkpoint" not in (copied / "recipe.toml").read_text()


def test_what_stands_behind_the_digests_of_a_recipe_stays(tmp_path: Path) -> None:
    """A source behind them was trained with, and the recipe of the trained model did not name it."""
    (tmp_path / WEIGHTS).write_bytes(b"weights")
    table, more = f'[sha256]\n"{WEIGHTS}" = "0"\n', '# mine\n[[source]]\nname = "mine"'
    for text in (f'name = "a"\n\n{table}', f'name = "a"\n\n[sha256]  # old\n"{WEIGHTS}" = "0"\n\n{more}'):
        (tmp_path / "recipe.toml").write_text(text)
        digests = record_hashes(tmp_path)
        once = (tmp_path / "recipe.toml").read_text()
        source = {"source": [{"name": "mine"}]} if more in text else {}
        assert read_recipe(tmp_path / "recipe.toml") == {"name": "a", **source, "sha256": digests}
        assert once.startswith('name = "a"\n\n') and ("# mine" in once) == bool(source)
        record_hashes(tmp_path)
        assert (tmp_path / "recipe.toml").read_text() == once
    (tmp_path / "recipe.toml").write_text(f'{table}[start]\nmodel = "b"')
    record_hashes(tmp_path)
    assert read_recipe(tmp_path / "recipe.toml") == {"start": {"model": "b"}, "sha256": digests}


def test_a_recipe_without_digests_is_refused(copied: Path) -> None:
    recipe = (copied / "recipe.toml").read_text().split("\n[sha256]")[0]
    (copied / "recipe.toml").write_text(recipe)
    with pytest.raises(ModelError, match="states no SHA-256"):
        load_embedder(str(copied))


def test_a_folder_is_loaded_by_its_path_and_its_hash_follows_the_settings(
    copied: Path, net: PanoramaNet
) -> None:
    mine = load_embedder(str(copied))
    assert mine.hash == net.hash
    folder = open_model(str(copied), "embedder")
    changed = {**folder.recipe, "network": {**folder.recipe["network"], "color_weight": 0.11}}
    assert PanoramaNet(ModelFolder(folder.path, changed)).hash != net.hash


def test_an_embedder_is_not_opened_as_a_proposer() -> None:
    with pytest.raises(ModelError, match="kind 'embedder', wanted 'proposer'"):
        open_model(DEFAULT_EMBEDDER, "proposer")


def test_the_default_is_the_shipped_network_and_the_weights_are_small() -> None:
    assert load_embedder().name == DEFAULT_EMBEDDER
    assert DEFAULT_EMBEDDER in embedder_names()
    assert (content_dir("embeddings") / DEFAULT_EMBEDDER / WEIGHTS).stat().st_size <= 15e6


def test_the_learned_and_the_colour_part_have_their_shares(net: PanoramaNet) -> None:
    vector = net.embed(pictures(1))[0]
    share = float((vector[net.learned_dim :] ** 2).sum())
    weight = open_model(DEFAULT_EMBEDDER, "embedder").recipe["network"]["color_weight"]
    assert share == pytest.approx(weight, abs=1e-3)


def test_a_wider_view_of_a_thing_is_nearer_than_other_things(net: PanoramaNet) -> None:
    things = pictures(12, seed=3)
    views = [cv2.GaussianBlur(np.ascontiguousarray(p[:, : int(p.shape[1] * 0.9)]), (0, 0), 1) for p in things]
    for vectors, views_at in zip(net.embed_all(things), net.embed_all(views), strict=True):
        assert (np.argmax(vectors @ views_at.T, axis=1) == np.arange(12)).mean() >= 0.9


def test_squash_keeps_no_shape() -> None:
    assert squash(np.zeros((10, 400, 3), np.uint8), 64).shape == (64, 64, 3)


def test_retrieval_scores_of_a_ranking_computed_by_hand() -> None:
    vectors = np.array([[1.0, 0.0], [0.8, 0.6], [0.9, 0.436], [0.0, 1.0]])
    # a asks: nearest is b (wrong), then a's mate: precision 1/2. Its mate asks: b again first, then a: 1/2.
    mean_precision, first = retrieval_scores(vectors, ["a", "a", "b", "c"])
    assert mean_precision == pytest.approx(0.5)
    assert first == 0


def test_retrieval_scores_of_perfect_clusters_are_one() -> None:
    assert retrieval_scores(np.repeat(np.eye(3), 4, axis=0), list("aaaabbbbcccc")) == (1.0, 1.0)


def test_retrieval_needs_a_pair() -> None:
    with pytest.raises(ValueError, match="at least twice"):
        retrieval_scores(np.eye(2), ["a", "b"])


def test_at_most_per_label_keeps_small_labels_whole() -> None:
    labels = ["a"] * 10 + ["b"] * 2
    chosen = at_most_per_label(labels, 3, seed=1)
    assert [labels[i] for i in chosen] == ["a"] * 3 + ["b"] * 2
    np.testing.assert_array_equal(chosen, at_most_per_label(labels, 3, seed=1))


def test_an_embedder_that_loads_late_is_the_same_embedder(net: PanoramaNet) -> None:
    late = late_embedder()
    assert (late.name, late.hash, late.dim, late.exits) == (net.name, net.hash, net.dim, net.exits)
    assert np.array_equal(late.cohort(), net.cohort())
    picture = np.random.default_rng(0).integers(0, 255, (40, 30, 3)).astype(np.uint8)
    assert np.array_equal(late.embed_all([picture]), net.embed_all([picture]))
    assert late.macs == net.macs
