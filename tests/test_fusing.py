"""Several looks at a picture: where they look, what becomes of their boxes, and what a recipe may say."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import replace

import cv2
import numpy as np
import pytest

from panorama.errors import ModelError
from panorama.models.base import Image
from panorama.models.fusing import COUNTS, LEAST_SCORE, LOOKS, SAME_IOU, fuse, propose_fused
from panorama.models.late_proposer import CANDIDATES, CODE_VERSION, GREY, MAX_ENLARGE
from panorama.models.proposer import PanoramaProposer, ProposalSettings, load_proposer
from panorama.models.weights import open_model
from panorama.regions import DETECTOR, Regions, iou


def regions(*rows: tuple[float, float, float, float, float]) -> Regions:
    """Regions from rows of x1, y1, x2, y2 and score."""
    table = np.array(rows, np.float32).reshape(-1, 5)
    return Regions.of(table[:, :4], table[:, 4], DETECTOR)


def test_boxes_of_one_thing_become_their_mean_weighted_by_score() -> None:
    fused = fuse([regions((0, 0, 100, 40, 0.6)), regions((10, 0, 110, 44, 0.2))], 0.1)
    np.testing.assert_allclose(fused.boxes_xyxy, [[2.5, 0, 102.5, 41]], atol=1e-4)
    assert fused.scores.tolist() == pytest.approx([0.4])


def test_a_look_that_sees_nothing_counts_as_zero_and_what_is_too_faint_then_is_left_out() -> None:
    several = [regions((0, 0, 50, 50, 0.8), (200, 0, 250, 50, 0.3)), regions(), regions(), regions()]
    assert fuse(several, 0.1).scores.tolist() == pytest.approx([0.2])
    assert fuse(several, 0.05).scores.tolist() == pytest.approx([0.2, 0.075])
    assert len(fuse(several, 0.21)) == 0 == len(fuse([regions(), regions()], 0.0))


def test_of_one_look_only_its_best_box_counts_and_the_others_go_with_it() -> None:
    near = ((0, 0, 100, 100, 0.9), (5, 0, 105, 100, 0.5), (0, 5, 100, 105, 0.4))
    fused = fuse([regions(*near), regions((0, 0, 100, 100, 0.5))], 0.05)
    assert fused.scores.tolist() == pytest.approx([0.7])
    np.testing.assert_allclose(fused.boxes_xyxy, [[0, 0, 100, 100]], atol=1e-4)


def test_boxes_that_overlap_less_stay_two_things() -> None:
    first = (0.0, 0.0, 100.0, 100.0)
    for shift, together in ((30.0, False), (28.0, True)):
        second = (shift, 0.0, shift + 100, 100.0)
        assert (iou(np.array([first]), np.array([second]))[0, 0] >= SAME_IOU) == together
        fused = fuse([regions((*first, 0.9)), regions((*second, 0.8))], 0.05)
        assert fused.scores.tolist() == pytest.approx([0.85] if together else [0.45, 0.4])


def propose_bright(images: Sequence[Image], side: int) -> list[Regions]:
    """The bright rectangle of each picture; the score is a thousandth of the side."""
    found = []
    for image in images:
        x, y, width, height = cv2.boundingRect(image[:, :, 0])
        found.append(regions((x, y, x + width, y + height, side / 1000)))
    return found


def bright(height: int, width: int, box: tuple[int, int, int, int]) -> Image:
    image = np.zeros((height, width, 3), np.uint8)
    image[box[1] : box[3], box[0] : box[2]] = 255
    return image


@pytest.mark.parametrize("count", COUNTS)
def test_every_look_is_placed_back_in_the_picture_as_it_is(count: int) -> None:
    boxes = [(10, 20, 60, 90), (300, 5, 380, 40)]
    pictures = [bright(120, 400, box) for box in boxes]
    found = propose_fused(propose_bright, pictures, 416, count, floor=0.1, max_iou=0.5, limit=5)
    mean = 0.416 if count < 4 else (0.416 + 0.512) / 2
    for one, box in zip(found, boxes, strict=True):
        np.testing.assert_allclose(one.boxes_xyxy, [box], atol=1e-4)
        assert one.scores.tolist() == pytest.approx([mean])


def test_looks_are_at_sides_that_a_network_takes() -> None:
    asked: list[int] = []

    def note(images: Sequence[Image], side: int) -> list[Regions]:
        asked.append(side)
        return [regions() for _ in images]

    for side in (416, 320, 64):
        found = propose_fused(note, [np.zeros((9, 9, 3), np.uint8)], side, 4, floor=0, max_iou=1, limit=1)
        assert len(found) == 1 and not len(found[0])
    assert asked == [416, 416, 512, 512, 320, 320, 384, 384, 64, 64, 64, 64]


def test_overlaps_go_and_the_limit_holds_after_fusing() -> None:
    def propose(images: Sequence[Image], side: int) -> list[Regions]:
        rows = [(0, 0, 100, 100, 0.9), (35, 0, 135, 100, 0.8), (300, 0, 400, 100, 0.7)]
        return [regions(*rows) for _ in images]

    picture = np.zeros((100, 500, 3), np.uint8)
    (some,) = propose_fused(propose, [picture], 416, 1, floor=0.1, max_iou=0.4, limit=9)
    assert some.boxes_xyxy[:, 0].tolist() == [0, 300]
    (one,) = propose_fused(propose, [picture], 416, 1, floor=0.1, max_iou=0.4, limit=1)
    assert one.boxes_xyxy[:, 0].tolist() == [0]


# Recipes and the shipped networks


def test_the_wide_proposer_looks_four_times_and_the_default_once() -> None:
    assert load_proposer("proposer-wide").settings.looks == len(LOOKS) == 4
    assert load_proposer().settings.looks == 1


def test_one_look_keeps_the_hash_from_before_and_several_have_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = open_model("proposer", "proposer")
    settings = ProposalSettings.of(folder)
    shown = f"ProposalSettings(side={settings.side}, floor={settings.floor}, max_iou={settings.max_iou}, "
    facts = (CODE_VERSION, folder.sha256(), shown + f"limit={settings.limit})", GREY, MAX_ENLARGE, CANDIDATES)
    before = hashlib.sha256(repr(facts).replace(repr(facts[2]), facts[2]).encode()).hexdigest()
    hashes = [replace(settings, looks=count).hash(folder) for count in COUNTS]
    assert hashes[0] == before and len(set(hashes)) == len(COUNTS)
    for name in ("SAME_IOU", "LEAST_SCORE", "MOST_BOXES"):
        with monkeypatch.context() as changed:
            changed.setattr(f"panorama.models.late_proposer.{name}", 0.7)
            now = [replace(settings, looks=count).hash(folder) for count in COUNTS]
        assert [one == other for one, other in zip(now, hashes, strict=True)] == [True, False, False]


@pytest.mark.parametrize(("looks", "told"), [(3, "looks are 1, 2 or 4"), (2.5, "looks .* whole number")])
def test_other_numbers_of_looks_are_refused_with_the_choices(looks: float, told: str) -> None:
    folder = open_model("proposer-wide", "proposer")
    inference = {**folder.recipe["inference"], "looks": looks}
    with pytest.raises(ModelError, match=told):
        ProposalSettings.of(replace(folder, recipe={**folder.recipe, "inference": inference}))


def test_what_the_wide_proposer_finds_is_the_same_in_a_mirror() -> None:
    """Its looks come in pairs, so that nothing depends on left and right but rounding."""
    wide = load_proposer("proposer-wide")
    rng = np.random.default_rng(5)
    image = rng.normal(120, 3, (256, 416, 3)).clip(0, 255).astype(np.uint8)
    cv2.rectangle(image, (60, 60), (140, 200), (200, 40, 30), -1)
    cv2.circle(image, (300, 120), 40, (30, 60, 190), -1)
    (plain,), (mirrored,) = wide.propose([image]), wide.propose([np.ascontiguousarray(image[:, ::-1])])
    back = mirrored.boxes_xyxy.copy()
    back[:, [0, 2]] = 416 - mirrored.boxes_xyxy[:, [2, 0]]
    clear = plain.scores > 0.3
    assert clear.any() and (iou(plain.boxes_xyxy[clear], back).max(1) > 0.99).all()


class TwoBoxes:
    """A network that sees the whole picture and a strip at its bottom, which are the same in a mirror.

    Attributes:
        usual, larger: scores of the two in pictures with a long side of 416 pixels, and in others.
        sides: long side of every picture that it saw.
    """

    def __init__(self, usual: tuple[float, float], larger: tuple[float, float]) -> None:
        self.usual, self.larger = usual, larger
        self.sides: list[int] = []

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        side = max(pictures.shape[1:3])
        self.sides += [side] * len(pictures)
        points = sum((pictures.shape[1] // step) * (pictures.shape[2] // step) for step in (8, 16, 32))
        said = np.zeros((len(pictures), points, 5), np.float32)
        said[:, :, 0] = -80
        scores = np.array(self.usual if side == 416 else self.larger)
        said[:, -2:, 0] = np.log(scores / (1 - scores))
        far = np.log(50)  # in strides of 32 pixels, beyond every edge
        said[:, -2, 1:] = far
        said[:, -1, 1:] = far, 0, far, 0  # one stride up and down from the centre of the lowest row
        return said


def wide_with(network: TwoBoxes, limit: int = 32) -> PanoramaProposer:
    wide = copy.copy(load_proposer("proposer-wide"))
    wide.settings = replace(wide.settings, limit=limit)
    wide.network = network  # type: ignore[assignment]
    return wide


def test_what_one_look_hardly_sees_counts_in_the_mean() -> None:
    wide = wide_with(TwoBoxes((0.03, 0.01), (0.5, 0.01)))
    assert 0.01 < LEAST_SCORE < 0.03 < wide.settings.floor
    (found,) = wide.propose([np.zeros((416, 416, 3), np.uint8)])
    assert found.scores.tolist() == pytest.approx([(0.03 + 0.5) / 2])
    np.testing.assert_allclose(found.boxes_xyxy, [[0, 0, 416, 416]], atol=1e-3)


def test_the_limit_holds_for_what_the_looks_agree_on_not_for_each_of_them() -> None:
    """Each look has another best box."""
    wide = wide_with(TwoBoxes((0.6, 0.5), (0.1, 0.9)), limit=1)
    (found,) = wide.propose([np.zeros((416, 416, 3), np.uint8)])
    assert found.scores.tolist() == pytest.approx([0.7]) and found.boxes_xyxy[0, 1] > 350


@pytest.mark.parametrize("zoom", [1, 2])
def test_other_sides_and_parts_are_looked_at_as_often(zoom: int) -> None:
    network = TwoBoxes((0.5, 0.4), (0.5, 0.4))
    other = wide_with(network).at_side(320, zoom)
    assert other.settings.looks == 4
    other.propose([np.zeros((640, 640, 3), np.uint8)])
    pictures = 1 if zoom == 1 else 1 + zoom * zoom
    assert sorted(network.sides) == [320] * 2 * pictures + [384] * 2 * pictures
