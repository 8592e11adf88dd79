"""Examples that are unlike the others of their entity are told: one wrong picture gives wrong answers."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import thing_picture

import panorama
from panorama.album.vetting import by_chance, odd_ones

X, Y, Z = np.eye(3, dtype=np.float32)
NEAR_X = (X + 0.3 * Y) / np.linalg.norm(X + 0.3 * Y)
ONE, OTHER = (np.array([-1, -1, z], np.float32) / np.sqrt(11, dtype=np.float32) for z in (3, -3))
"""Farther from all of these, and from each other, than at a right angle."""
STRANGERS = np.stack([X, Y, Z, -X])
"""In 0.86 of the pairs of them the inner product is 0 at most."""


@pytest.mark.parametrize(
    ("vectors", "odd"),
    [
        ([X, NEAR_X, -X], [2]),
        ([ONE, X, NEAR_X, X, X], [0]),
        ([X, NEAR_X, X], []),
        ([X, NEAR_X, Z], []),  # as near as strangers are to each other, not farther
        ([X, -X], []),  # of two nothing tells which one is wrong
        ([X, X, ONE, OTHER], []),  # two of four: one thing need not be the right one
        ([X, NEAR_X, X, X, ONE, OTHER], []),  # varied pictures of one thing, rather than two wrong ones
        ([X, NEAR_X, X, X, X, X, ONE, OTHER], [6, 7]),
        ([X, X, -X, -X], []),  # two sides of one thing
    ],
)
def test_what_is_no_nearer_to_any_other_than_strangers_are_is_odd(vectors, odd):
    assert odd_ones(np.stack(vectors), by_chance(STRANGERS)) == odd


def test_without_strangers_nothing_is_odd():
    assert odd_ones(np.stack([X, NEAR_X, -X]), by_chance(STRANGERS[:1])) == []


def test_a_wrong_picture_among_three_is_told_and_kept(tmp_path, fake_proposer):
    """It was told from four on, where three others were surely alike; most things have two or three."""
    with panorama.open(tmp_path / "library", create=True) as library:
        library.put_setting("embedder", "color-bands")
        reds = [thing_picture("red")[:, k:] for k in range(2)]
        assert library.register("red", reds).warnings == ()
        found = library.register("red", thing_picture("blue"))
        wrong = library.exemplars("red")[-1]
        assert found.exemplars == 3 and len(found.warnings) == 1
        assert f"exemplars red --remove {wrong.exemplar_id}" in found.warnings[0]
        library.remove_exemplar(wrong.exemplar_id)
        assert library.register("red", reds[0]).warnings == ()


def test_registering_tells_which_picture_is_unlike_the_others(tmp_path, fake_proposer):
    """One wrong picture among five good ones was taken without a word; what it showed was then accepted."""
    with panorama.open(tmp_path / "library", create=True) as library:
        library.put_setting("embedder", "color-bands")
        reds = [thing_picture("red")[:, k:] for k in range(4)]
        assert library.register("it's red", reds).warnings == ()
        [told] = library.register("it's red", thing_picture("blue")).warnings
        wrong = library.exemplars("it's red")[-1]
        assert told.startswith("array 1 looks unlike the other examples of it's red")
        ours = f"panorama --library {tmp_path}/library"
        quoted = '"it\'s red"'
        assert told.endswith(
            f"{ours} exemplars {quoted} --remove {wrong.exemplar_id}; "
            f"if it's red is a category: {ours} register {quoted} --category"
        )
        library.set_category("it's red")
        assert library.register("it's red", reds[0]).warnings == ()  # of a category others may be unlike
        assert library.register("it's red", reds[0], category=False).warnings == (told,)
        library.remove_exemplar(wrong.exemplar_id)
        assert library.register("it's red", reds[0]).warnings == ()
        look_alike = library.register("it's red", (), unlike=thing_picture("blue"))
        assert (look_alike.negatives, look_alike.warnings) == (1, ())  # it should be unlike them
