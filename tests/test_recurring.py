"""What a demo takes as its example where nobody has cut one out."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import Thing, write_film

import panorama
from panorama.album import recurring
from panorama.album.recurring import most_recurrent


def test_what_comes_most_often_is_the_example_not_what_stays_longest(
    tmp_path: Path, fake_proposer: None
) -> None:
    passing = [Thing("red", start, start + 60, top=80) for start in (0, 90, 180)]
    write_film(tmp_path / "a.mp4", [Thing("blue", 0, 70, top=0), *passing], frames=240)
    with panorama.open(tmp_path / "library", create=True) as library:
        assert most_recurrent(library) is None
        library.index(tmp_path / "a.mp4", model="color-bands")
        found = most_recurrent(library)
        assert found is not None and found.appearances == 3
        assert found.seconds == pytest.approx(18, abs=0.5)
        red, green, blue = library.crop(found.crop_id).mean(axis=(0, 1))
        assert red > 2 * max(green, blue)


def test_what_keeps_to_an_edge_is_writing_unless_there_is_nothing_else(
    tmp_path: Path, fake_proposer: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurring, "LEAST_SIDE", 16)  # a line of writing is low in so small a film
    ticker = [Thing("blue", start, start + 60, top=0, side=20) for start in (0, 90, 180)]
    for name, things in (("both", [*ticker, Thing("red", 0, 70, top=80)]), ("ticker", ticker)):
        write_film(tmp_path / f"{name}.mp4", things, frames=240)
        with panorama.open(tmp_path / name, create=True) as library:
            library.index(tmp_path / f"{name}.mp4", model="color-bands")
            found = most_recurrent(library)
            assert found is not None
            assert found.appearances == (1 if name == "both" else 3)
            red, _, blue = library.crop(found.crop_id).mean(axis=(0, 1))
            assert (red > blue) == (name == "both")


def test_a_short_gap_or_an_overlap_is_no_other_appearance() -> None:
    gap = recurring.APART_SECONDS
    spans = [("a", 8.0, 9.0), ("a", 0.0, 5.0), ("a", 1.0, 2.0), ("a", 5.0 + gap, 8.5)]
    assert recurring._appearances(spans) == (1, 7.0)
    assert recurring._appearances([*spans, ("a", 9.5 + gap, 10.0 + gap)]) == (2, 7.5)
    assert recurring._appearances([("a", 0.0, 5.0), ("b", 5.0, 6.0)]) == (2, 6.0)
