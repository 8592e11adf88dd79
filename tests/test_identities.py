"""Tracks of a library become pseudo-identities: those that recur, are never visible at once, and match."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from panorama.own_training.identities import NOISE, Tracks, pseudo_identities


def tracks_at(angles: list[float], videos: list[int], starts: list[float]) -> Tracks:
    """Tracks of one second whose vectors lie at these angles (degrees) on a circle."""
    turn = np.deg2rad(angles)
    vectors = np.stack([np.cos(turn), np.sin(turn)], axis=1).astype(np.float32)
    begin = np.array(starts, np.float64)
    return Tracks(np.arange(len(angles)), np.array(videos), begin, begin + 1.0, vectors)


def near(tracks: Tracks, degrees: float = 12.0) -> np.ndarray:
    return np.asarray(tracks.vectors @ tracks.vectors.T >= np.cos(np.deg2rad(degrees)))


def test_tracks_that_recur_are_one_identity_and_a_lone_one_is_noise() -> None:
    tracks = tracks_at([0, 2, 4, 90, 91, 93, 200], [0, 1, 2, 0, 1, 2, 0], [0, 0, 0, 5, 5, 5, 9])
    found = pseudo_identities(tracks, near(tracks))
    assert len(set(found[:3])) == 1 and len(set(found[3:6])) == 1
    assert found[0] != found[3]
    assert NOISE not in found[:6] and found[6] == NOISE


def test_two_that_are_visible_at_once_are_never_one_identity() -> None:
    tracks = tracks_at([0, 1, 2, 3, 90, 91, 92], [0, 0, 1, 2, 0, 1, 2], [0, 0.5, 0, 0, 7, 7, 7])
    found = pseudo_identities(tracks, near(tracks))
    assert found[0] == NOISE or found[1] == NOISE or found[0] != found[1]


def test_what_the_decision_does_not_accept_is_not_joined() -> None:
    tracks = tracks_at([0, 30, 60, 90, 120], [0, 1, 2, 3, 4], [0.0] * 5)
    assert set(pseudo_identities(tracks, near(tracks))) == {NOISE}


def test_no_identity_holds_two_tracks_of_one_time_and_none_is_alone() -> None:
    held = []

    @settings(deadline=None, max_examples=30)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        count = data.draw(st.integers(3, 24))
        angles = data.draw(st.lists(st.floats(0, 360), min_size=count, max_size=count))
        videos = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
        starts = data.draw(st.lists(st.integers(0, 4).map(float), min_size=count, max_size=count))
        tracks = tracks_at(angles, videos, starts)
        found = pseudo_identities(tracks, near(tracks))
        for identity in set(found.tolist()) - {NOISE}:
            members = np.flatnonzero(found == identity)
            assert len(members) >= 2
            assert not tracks.together()[np.ix_(members, members)].any()
            held.append(members)

    check()
    assert held, "no identity was there to look at"
