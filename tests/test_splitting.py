"""Tracks that go from one thing to another are split where their crops tell."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from panorama.crops import View
from panorama.models.base import Cohort
from panorama.tracking.segmenting import FinishedTrack
from panorama.tracking.splitting import split_tracks

DIM = 8
A, B, C = np.eye(DIM, dtype=np.float32)[:3]
COHORT = np.eye(DIM, dtype=np.float32)[3:] + 0.3
COHORT /= np.linalg.norm(COHORT, axis=1, keepdims=True)
STRANGERS = Cohort.plain(COHORT)
"""Foreign pictures, each a little like everything."""


def near(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Another picture of the same thing."""
    moved = vector + np.float32(0.2)
    return np.asarray(moved / np.linalg.norm(moved), np.float32)


def track(view_frames: list[int], jump: int | None = None, first: int = 0, count: int = 10) -> FinishedTrack:
    """Samples at every second frame, five a second; the box jumps at a frame."""
    frames = np.arange(first, first + 2 * count, 2)
    boxes = np.tile(np.array([[10, 10, 60, 60]], np.float32), (count, 1))
    if jump is not None:
        boxes[frames >= jump] += 30
    views = tuple(
        View(f, f / 10, boxes[(f - first) // 2], 1.0, lambda: np.zeros((4, 4, 3), np.uint8))
        for f in view_frames
    )
    end = int(frames[-1]) + 1
    return FinishedTrack(
        first, end, first / 10, end / 10, frames, frames / 10, boxes, np.full(count, 0.5, np.float32), views
    )


def test_a_track_of_one_thing_stays_as_it_is() -> None:
    whole = track([0, 4, 12])
    (found,) = split_tracks([whole], np.stack([A, near(A), A]), STRANGERS)
    assert found is whole


def test_what_is_like_a_picture_that_many_resemble_is_judged_by_its_own_strangers() -> None:
    """A blurred crop is like everything: its strangers are nearer to it than the next crop is."""
    blurred = COHORT.mean(axis=0)
    blurred /= np.linalg.norm(blurred)
    assert (COHORT @ A).max() < blurred @ A < (COHORT @ blurred).min()
    whole = track([0, 8, 16])
    (found,) = split_tracks([whole], np.stack([blurred, A, blurred]), STRANGERS)
    assert found is whole


def test_a_track_that_goes_on_with_another_thing_is_cut_where_its_box_jumps() -> None:
    """Its ends, which lie half a gap outside of its samples, stay."""
    whole = track([4, 6, 14, 16], jump=8, first=2, count=9)
    whole.boxes_xyxy[whole.frames >= 10] += 10  # it moves on
    whole = replace(whole, start_frame=1, start_seconds=0.1)
    first, second = split_tracks([whole], np.stack([A, near(A), B, near(B)]), STRANGERS)
    assert (first.start_frame, first.end_frame, second.start_frame, second.end_frame) == (1, 8, 8, 19)
    assert (first.start_seconds, first.end_seconds) == (0.1, 0.8)
    assert (second.start_seconds, second.end_seconds) == (0.8, 1.9)
    assert first.frames.tolist() == [2, 4, 6]
    assert second.frames.tolist() == [8, 10, 12, 14, 16, 18]
    assert [view.frame for view in first.views] == [4, 6]
    assert [view.frame for view in second.views] == [14, 16]
    np.testing.assert_array_equal(second.boxes_xyxy[:, 0], [40, 50, 50, 50, 50, 50])


def test_what_is_alike_between_two_tracks_says_nothing() -> None:
    """The last crop of one and the first of the next are compared with nothing."""
    tracks = [track([0, 4]), track([30, 34], first=30)]
    found = split_tracks(tracks, np.stack([A, A, B, B]), STRANGERS)
    assert [id(part) for part in found] == [id(one) for one in tracks]


def test_three_things_become_three_tracks_and_single_crops_none_more() -> None:
    parts = split_tracks([track([0, 8, 16]), track([40], first=40)], np.stack([A, B, C, A]), STRANGERS)
    assert [len(part.views) for part in parts] == [1, 1, 1, 1]
    assert parts[-1].start_frame == 40


def test_without_foreign_pictures_nothing_is_split() -> None:
    whole = track([0, 8])
    (found,) = split_tracks([whole], np.stack([A, B]), Cohort.plain(COHORT[:0]))
    assert found is whole


def test_no_tracks_are_no_tracks() -> None:
    assert split_tracks([], np.zeros((0, DIM), np.float32), STRANGERS) == []


@settings(deadline=None)  # the first example imports
@given(
    st.lists(st.lists(st.sampled_from("ABC"), min_size=1, max_size=4), min_size=1, max_size=5), st.randoms()
)
def test_parts_hold_every_sample_and_view_once_and_meet_end_to_end(
    shown: list[list[str]], random: object
) -> None:
    kinds = {"A": A, "B": B, "C": C}
    tracks = []
    for number, things in enumerate(shown):
        frames = sorted(random.sample(range(0, 20, 2), len(things)))  # type: ignore[attr-defined]
        tracks.append(track([100 * number + f for f in frames], first=100 * number))
    vectors = np.stack([kinds[thing] for things in shown for thing in things])
    parts = split_tracks(tracks, vectors, STRANGERS)
    assert len(parts) == sum(1 + sum(a != b for a, b in pairwise(t)) for t in shown)
    assert [v.frame for p in parts for v in p.views] == [v.frame for t in tracks for v in t.views]
    np.testing.assert_array_equal(
        np.concatenate([p.frames for p in parts]), np.concatenate([t.frames for t in tracks])
    )
    for before, after in pairwise(parts):
        assert before.start_frame < before.end_frame <= after.start_frame
        assert before.start_frame // 100 != after.start_frame // 100 or before.end_frame == after.start_frame
    for part in parts:
        assert all(part.start_frame <= v.frame < part.end_frame for v in part.views)
        assert part.start_frame <= part.frames[0] and part.frames[-1] < part.end_frame
