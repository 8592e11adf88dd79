"""Boxes of one frame: which of them stay."""

from __future__ import annotations

import numpy as np

from panorama.regions import DETECTOR, Regions, iou, suppress


def test_of_overlapping_boxes_the_best_stay_and_what_was_dropped_drops_nothing() -> None:
    rng = np.random.default_rng(0)
    dropped = 0
    for count in (0, 1, 2, 12, 40):
        corners = rng.uniform(0, 100, (count, 2))
        boxes = np.concatenate([corners, corners + rng.uniform(30, 90, (count, 2))], axis=1)
        regions = Regions.of(boxes, rng.uniform(0, 1, count).round(1), DETECTOR)  # scores come twice, too
        kept: list[int] = []
        for one in sorted(range(count), key=lambda i: -regions.scores[i]):
            mine = regions.boxes_xyxy[[one]]
            if all(float(iou(mine, regions.boxes_xyxy[[k]])[0, 0]) <= 0.3 for k in kept):
                kept.append(one)
        for limit in (None, 0, 1, 3, 100):
            found = suppress(regions, 0.3, limit)
            np.testing.assert_array_equal(found.boxes_xyxy, regions.boxes_xyxy[kept][:limit])
            np.testing.assert_array_equal(found.scores, regions.scores[kept][:limit])
        dropped += count - len(kept)
    assert dropped > 20
