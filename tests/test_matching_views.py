"""Each view of an example is compared as an example of its own, and left out with its picture."""

from __future__ import annotations

import numpy as np
import pytest
from test_matching import FakeAlbum, Table, unit

from panorama.models.base import Cohort
from panorama.query.matching.scoring import Sought, score_tracks
from panorama.query.matching.track_rows import TrackRows


def seen_twice(*pictures: tuple[list[float], list[float]], negative: tuple[bool, ...]) -> FakeAlbum:
    """Pictures with two views each."""
    ids = np.repeat(np.arange(len(pictures)) + 100, 2)
    vectors = np.array([view for picture in pictures for view in picture], np.float32)
    return FakeAlbum(("thing",), np.zeros(len(ids), np.int32), ids, np.repeat(negative, 2), vectors)


TILTED = [0.8, 0.0, 0.6]


def test_each_view_of_a_picture_is_compared_and_the_picture_is_named() -> None:
    album = seen_twice((unit(0.2), unit(0.1)), (unit(1.0), TILTED), negative=(False, False))
    sought = Sought.of(album, "thing", np.zeros((0, 3), np.float32))
    assert sought.exemplar_ids.tolist() == [100, 100, 101, 101]
    assert (len(sought.positive), len(sought.negative)) == (5, 0)
    table = Table(np.arange(1), np.array([7]), np.array([TILTED], np.float32))
    (found,) = score_tracks([sought], table, TrackRows.of(table.track_ids), np.arange(1), None)
    assert found.normalised[0] == pytest.approx(1.0) and found.exemplar_ids.tolist() == [101]


def test_a_picture_of_the_track_itself_is_left_out_with_all_its_views() -> None:
    """Its second view is nearer to the next track than the other picture is, and counts for that one."""
    album = seen_twice((unit(1.0), TILTED), (unit(0.5), unit(0.4)), negative=(False, False))
    sought = Sought.of(album, "thing", np.zeros((0, 3), np.float32))
    crops = np.array([unit(1.0), [0.6, 0.0, 0.8]], np.float32)
    table = Table(np.arange(2), np.array([7, 8]), crops)
    (found,) = score_tracks([sought], table, TrackRows.of(table.track_ids), np.arange(2), None)
    assert found.unaided.tolist() == pytest.approx([0.5, 0.5 * 0.6])
    assert found.normalised.tolist() == pytest.approx([1.0, 0.48 + 0.48])


def test_a_look_alike_counts_by_the_mean_of_its_views_and_not_by_that_of_several_of_them() -> None:
    pictures = ((unit(1.0), unit(0.9)), (unit(0.1), TILTED), (unit(0.2), unit(0.3)))
    album = seen_twice(*pictures, negative=(False, True, True))
    cohort = np.array([unit(0.3), [0.0, 0.6, 0.8]], np.float32)
    sought = Sought.of(album, "thing", Cohort.plain(cohort))
    means = np.array([np.add(*picture) for picture in pictures[1:]])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert sought.negative == pytest.approx(means, abs=1e-6) and len(sought.positive) == 3
    assert sought.level[3:] == pytest.approx((means @ cohort.T).mean(axis=1), abs=1e-6)
