"""Where numbers stand in an array that ascends, and what stands there."""

from __future__ import annotations

import numpy as np

from panorama.store.ascending import looked_up, rows_in

KNOWN, WANTED = np.array([2, 5, 9]), np.array([9, 1, 2, 10, 5, 6])


def test_a_number_has_its_row_or_none() -> None:
    assert rows_in(KNOWN, WANTED).tolist() == [2, -1, 0, -1, 1, -1]
    assert rows_in(KNOWN[:0], WANTED).tolist() == [-1] * 6
    assert rows_in(KNOWN, WANTED[:0]).tolist() == []


def test_what_is_not_there_has_what_is_said_for_it() -> None:
    values = np.array([0.2, 0.5, 0.9])
    assert looked_up(KNOWN, values, WANTED, -np.inf).tolist() == [0.9, -np.inf, 0.2, -np.inf, 0.5, -np.inf]
    assert looked_up(KNOWN, KNOWN * 10, WANTED, WANTED).tolist() == [90, 1, 20, 10, 50, 6]


def test_where_nothing_is_known_everything_is_missing() -> None:
    found = looked_up(KNOWN[:0], np.zeros(0, np.bool_), WANTED, False)
    assert found.tolist() == [False] * 6 and found.dtype == np.bool_
    own = looked_up(KNOWN[:0], KNOWN[:0], WANTED, WANTED)
    assert own.tolist() == WANTED.tolist()
    own[0] = 7  # the caller's own array
    assert WANTED[0] == 9
