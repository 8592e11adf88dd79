"""Text of reports: numbers and what they count."""

from __future__ import annotations

import pytest

from panorama.lines import cells, counted, padded


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


def test_columns_stand_below_each_other_whatever_the_script() -> None:
    # 监控 takes four cells of a terminal, and a decomposed é one.
    assert [cells(text) for text in ("gate", "监控", "cafe\u0301", "ﾃﾞ")] == [4, 4, 4, 2]
    assert (padded("监控", 6), padded("监控", 6, right=True)) == ("监控  ", "  监控")
