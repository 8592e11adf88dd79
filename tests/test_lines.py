"""Text of reports: numbers and what they count."""

from __future__ import annotations

import pytest

from panorama.lines import counted


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (0, ("clip",), "0 clips"),
        (1, ("clip",), "1 clip"),
        (2, ("clip",), "2 clips"),
        (1, ("entity",), "1 entity"),
        (3, ("entity",), "3 entities"),
        (1, ("video has", "videos have"), "1 video has"),
        (2, ("video has", "videos have"), "2 videos have"),
    ],
)
def test_one_thing_is_not_several(number: int, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told
