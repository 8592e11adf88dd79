"""Looking at parts of pictures besides the whole: where they lie, what they find, `index --zoom`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from fakes import Thing, write_film

from panorama.errors import UsageError
from panorama.indexing.settings import IngestSettings
from panorama.models.base import Image
from panorama.models.proposer import load_proposer
from panorama.models.zooming import PART_WEIGHT, parts_of, picture_side, propose_zoomed
from panorama.regions import DETECTOR, Regions, iou


@pytest.mark.parametrize(("height", "width", "zoom"), [(390, 693, 2), (585, 1040, 3), (7, 5, 4), (1, 1, 2)])
def test_parts_cover_the_picture_and_share_a_strip(height: int, width: int, zoom: int) -> None:
    image = np.arange(height * width * 3, dtype=np.int64).reshape(height, width, 3).astype(np.uint8)
    seen = np.zeros((height, width), int)
    for left, top, part in parts_of(image, zoom):
        bottom, right = top + part.shape[0], left + part.shape[1]
        np.testing.assert_array_equal(part, image[top:bottom, left:right])
        seen[top:bottom, left:right] += 1
    assert len(parts_of(image, zoom)) == zoom * zoom and seen.min() >= 1
    if min(height, width) > 100:
        sides = {max(part.shape[:2]) for _, _, part in parts_of(image, zoom)}
        assert sides == {416} == {round(picture_side(416, zoom) * 1.2 / zoom)}
        across = np.flatnonzero(seen[height // (2 * zoom)] > 1)
        assert len(across) > 0.1 * width, "what stands on the border of two parts is whole in one of them"


def propose_edges(images: Sequence[Image]) -> list[Regions]:
    """In each picture a box in the upper left corner, and one that touches its right edge."""
    found = []
    for image in images:
        width = image.shape[1]
        boxes = [[0, 0, 20, 10], [width - 30, 40, width, 60]]
        found.append(Regions.of(np.array(boxes, np.float32), np.array([0.9, 0.5], np.float32), DETECTOR))
    return found


def test_regions_of_parts_lie_in_the_picture_and_what_a_part_cuts_is_left_out() -> None:
    image = np.zeros((200, 400, 3), np.uint8)
    (found,) = propose_zoomed(propose_edges, [image], 2, 0.5, 64)
    # Parts are 120 x 240 at (0, 0), (160, 0), (0, 80), (160, 80). A box at the upper left corner of the
    # second touches its inner left edge, one at the right edge of the first its inner right edge.
    boxes, scores = found.boxes_xyxy.tolist(), found.scores.tolist()
    assert boxes == [[0, 0, 20, 10], [370, 40, 400, 60], [370, 120, 400, 140]]
    assert scores == pytest.approx([0.9, 0.5, 0.5 * PART_WEIGHT])
    (few,) = propose_zoomed(propose_edges, [image], 2, 0.5, 1)
    assert few.scores.tolist() == pytest.approx([0.9])


def small_things(height: int, width: int, side: int) -> tuple[Image, np.ndarray]:
    """Twelve coloured squares on grey noise, and their boxes."""
    rng = np.random.default_rng(3)
    image = rng.normal(120, 3, (height, width, 3))
    boxes = []
    for number in range(12):
        x = int((number % 4 + 0.5) * width / 4 + rng.uniform(-0.4, 0.4) * (width / 4 - side)) - side // 2
        y = int((number // 4 + 0.5) * height / 3 + rng.uniform(-0.4, 0.4) * (height / 3 - side)) - side // 2
        image[y : y + side, x : x + side] = rng.choice([[200, 40, 30], [30, 60, 190], [240, 220, 60]])
        boxes.append([x, y, x + side, y + side])
    return np.clip(image, 0, 255).astype(np.uint8), np.array(boxes, np.float32)


def test_what_is_too_small_in_the_whole_picture_is_found_in_its_parts() -> None:
    whole = load_proposer()
    image, boxes = small_things(1080, 1920, 20)
    found = {
        zoom: int((iou(boxes, whole.at_side(416, zoom).propose([image])[0].boxes_xyxy).max(1) >= 0.5).sum())
        for zoom in (1, 3)
    }
    assert found[3] >= 10 > found[1] + 4
    one, other = whole.at_side(416, 3).propose([image[:540], image[540:]])
    np.testing.assert_array_equal(one.boxes_xyxy, whole.at_side(416, 3).propose([image[:540]])[0].boxes_xyxy)
    assert len(other)


def test_zoom_is_part_of_what_a_video_was_looked_at_with_and_1_is_what_it_was() -> None:
    whole = load_proposer()
    assert whole.at_side(416, 2).hash not in (whole.hash, whole.at_side(416, 3).hash)
    assert whole.at_side(416, 2).at_side(416).hash == whole.hash
    plain, close = IngestSettings(), IngestSettings(zoom=2)
    assert plain.hash("p") != close.hash("p")
    assert "zoom" not in repr(whole.settings), "the hash of libraries that know no zoom is kept"
    assert (plain.picture_side, close.picture_side) == (416, 693)


@pytest.mark.parametrize("zoom", [0, 5, 1.5, True, "2"])
def test_a_zoom_that_is_none_is_refused(zoom: object) -> None:
    with pytest.raises(UsageError, match="zoom"):
        IngestSettings(zoom=zoom)  # type: ignore[arg-type]


def test_index_with_a_zoom_stays_when_a_later_index_names_none(run, tmp_path) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)])
    words = ("index", "a.mp4", "--model", "color-bands")
    assert "1 indexed" in run(*words).err
    assert "1 indexed" in run(*words, "--zoom", "2").err
    assert "--redo" in run(*words).err
    assert "1 skipped" in run(*words, "--zoom", "2").err
    assert "1 indexed" in run(*words, "--zoom", "1").err
    refused = run(*words, "--zoom", "9")
    assert refused.status == 2 and "1<=x<=4" in refused.err
