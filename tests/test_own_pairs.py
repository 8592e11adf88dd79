"""Which crops of a library serve as examples when it is calibrated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fakes import Thing, write_film

import panorama
from panorama.indexing.settings import IngestSettings
from panorama.judging.own_pairs import OwnCrops, examples_of


def test_writing_at_an_edge_of_the_picture_is_no_example(tmp_path: Path, fake_proposer: None) -> None:
    """It looks the same in every crop, so it would promise that every thing does."""
    film = [
        Thing("red", 0, 40),
        Thing("blue", 0, 40, left=80, top=103, side=16),
        Thing("green", 0, 40, 10, 1, 16),
    ]
    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(
            write_film(tmp_path / "film.mp4", film),
            settings=IngestSettings(samples_per_second=10),
            model="color-bands",
        )
        crops = OwnCrops.read(library)
    top, bottom = crops.boxes_xyxy[:, 1], crops.boxes_xyxy[:, 3]
    assert np.array_equal(crops.at_edge, (bottom <= 18) | (top >= 102))
    assert 0 < crops.at_edge.sum() < len(crops.at_edge)
    examples = examples_of(crops)
    assert len(examples) and not crops.at_edge[examples].any()
    crops.at_edge[:] = False
    assert len(examples_of(crops)) > len(examples)
