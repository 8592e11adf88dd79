"""Films that go black between two shots, and cameras that go black and come back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import street, write_street
from numpy.typing import NDArray

import panorama
from panorama.indexing.settings import IngestSettings
from panorama.tracking.fades import Fade, FadeFinder

Film = Sequence[NDArray[np.uint8]]
BLACK = [np.full((90, 160), 16, np.uint8)]


def dimmed(number: int, shares: Sequence[float]) -> list[NDArray[np.uint8]]:
    """A street that fades: of full brightness at 1, black at 0."""
    return [
        (16 + (street(number).astype(float) - 16) * share).clip(0, 255).astype(np.uint8) for share in shares
    ]


def steady(number: int, count: int = 15) -> list[NDArray[np.uint8]]:
    return dimmed(number, [1.0] * count)


OUT, IN = [0.8, 0.6, 0.4, 0.2], [0.2, 0.4, 0.6, 0.8]


def cuts(film: Film, path: Path, rate: int = 10, samples: float = 10) -> list[int]:
    """The frames that begin another shot, as indexing keeps them."""
    write_street(path / "film.mp4", film, rate)
    with panorama.open(path / "library", create=True) as library:
        settings = IngestSettings(samples_per_second=samples)
        library.index(path / "film.mp4", settings=settings, model="color-bands")
        return (library.snapshot().cuts & 0xFFFFFFFF).tolist()


@pytest.mark.parametrize("black", [1, 3, 30])
def test_behind_black_another_picture_begins_a_shot(black: int, tmp_path: Path, fake_proposer: None) -> None:
    film = [*steady(1), *dimmed(1, OUT), *BLACK * black, *dimmed(2, IN), *steady(2)]
    assert cuts(film, tmp_path) == [15 + 4 + black]


def test_a_film_that_ends_before_the_second_is_over_is_told_too(tmp_path: Path, fake_proposer: None) -> None:
    film = [*steady(1), *dimmed(1, OUT), *BLACK * 2, *dimmed(2, IN), *steady(2, 2)]
    assert cuts(film, tmp_path) == [21]


def test_two_fades_in_a_row_are_two_shots(tmp_path: Path, fake_proposer: None) -> None:
    fade = [*BLACK * 2, *dimmed(2, IN), *steady(2, 2), *dimmed(2, OUT)]
    film = [*steady(1), *dimmed(1, OUT), *fade, *BLACK * 2, *dimmed(3, IN), *steady(3)]
    assert cuts(film, tmp_path) == [21 - 2 + 2, 21 + 10 + 2]


def test_a_shot_that_fades_out_again_within_a_second_is_one_too(tmp_path: Path, fake_proposer: None) -> None:
    fade = [*BLACK * 2, *dimmed(2, IN), *dimmed(2, OUT)]
    film = [*steady(1), *dimmed(1, OUT), *fade, *BLACK * 2, *dimmed(3, IN), *steady(3)]
    assert cuts(film, tmp_path) == [21, 21 + 8 + 2]


def test_black_that_lies_between_two_looks_is_seen(tmp_path: Path, fake_proposer: None) -> None:
    """Of 25 frames a second five are looked at."""
    film = [*steady(1, 50), *dimmed(1, OUT), *BLACK * 2, *dimmed(2, IN), *steady(2, 60)]
    found = cuts(film, tmp_path, rate=25, samples=5)
    assert len(found) == 1 and 55 <= found[0] <= 57


@pytest.mark.parametrize(
    "film",
    [
        [*steady(1), *dimmed(1, OUT), *BLACK * 5, *dimmed(1, IN), *steady(1)],
        [*steady(1), *dimmed(1, OUT), *BLACK * 5],
        [*steady(1), *dimmed(1, OUT), *dimmed(1, IN), *steady(1)],
    ],
    ids=["the same picture", "black at the end", "never black"],
)
def test_what_is_no_other_shot_begins_none(film: Film, tmp_path: Path, fake_proposer: None) -> None:
    assert cuts(film, tmp_path) == []


def test_a_dark_night_is_not_black(tmp_path: Path, fake_proposer: None) -> None:
    """Its contrast goes up and down about what is black in other films."""
    shares = [0.06, 0.05, 0.04] * 12
    assert 2 < np.std(dimmed(1, [0.04])) < 3 < np.std(dimmed(1, [0.06])) < 4
    seen: list[int | None] = []
    look = FadeFinder.look

    def noted(self: FadeFinder, *given: Any) -> Fade:
        fade = look(self, *given)
        seen.append(fade.lit_at)
        return fade

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FadeFinder, "look", noted)
        assert cuts(dimmed(1, shares), tmp_path) == []
    assert len(seen) == len(shares) and not any(seen)  # no track ended


@pytest.mark.parametrize(("black_seconds", "told"), [(5, True), (12, False)])
def test_what_is_dark_for_long_is_no_fade(black_seconds: int, told: bool) -> None:
    finder = FadeFinder()
    shots: list[int] = []
    pictures = [*steady(1), *BLACK * (10 * black_seconds), *dimmed(2, IN), *steady(2)]
    for number, picture in enumerate(pictures):
        grids = [pictures[n].astype(np.int16) for n in (max(number - 1, 0), number)]
        fade = finder.look(number / 10, picture.astype(np.float32), [number - 1, number], grids)
        assert told or fade.lit_at is None
        shots += [] if fade.shot_at is None else [fade.shot_at]
    assert shots == ([15 + 10 * black_seconds] if told else [])


def test_a_picture_of_another_shape_begins_a_shot_though_it_changed_while_black() -> None:
    """As in a broadcast whose format changes: the two cannot be compared, and it was taken for one shot."""
    finder, wide = FadeFinder(), [picture[:60] for picture in (*BLACK, *dimmed(2, IN), *steady(2))]
    shots: list[int] = []
    pictures = [*steady(1), *BLACK, *wide]
    for number, picture in enumerate(pictures):
        grids = [pictures[n].astype(np.int16) for n in (max(number - 1, 0), number)]
        fade = finder.look(number / 10, picture.astype(np.float32), [number - 1, number], grids)
        shots += [] if fade.shot_at is None else [fade.shot_at]
    assert shots == [15 + 2]


def test_a_night_that_fell_slowly_is_not_black() -> None:
    """It has little of the contrast of the day, which was longer ago than any fade takes."""
    finder = FadeFinder()
    pictures = dimmed(1, [*np.linspace(1, 0.06, 200), *[0.06, 0.05, 0.04] * 12])
    for number, picture in enumerate(pictures):
        grids = [pictures[n].astype(np.int16) for n in (max(number - 1, 0), number)]
        fade = finder.look(number / 10, picture.astype(np.float32), [number - 1, number], grids)
        assert fade == Fade()


def test_a_cut_to_black_and_out_of_it_is_one_shot_that_begins(tmp_path: Path, fake_proposer: None) -> None:
    assert cuts([*steady(1), *BLACK * 2, *steady(2)], tmp_path) == [17]


def test_cuts_are_found_as_before(tmp_path: Path, fake_proposer: None) -> None:
    fade = [*dimmed(2, OUT), *BLACK * 2, *dimmed(3, IN)]
    assert cuts([*steady(1), *steady(2), *fade, *steady(3, 3), *steady(4)], tmp_path) == [15, 36, 43]


def test_a_shot_out_of_black_that_is_soon_cut_back_from_is_one(tmp_path: Path, fake_proposer: None) -> None:
    """After a second the picture would be the one that went black, as if nothing had been between."""
    assert np.std(street(1)) > np.std(street(2))
    film = [*steady(1), *dimmed(1, OUT), *BLACK * 2, *dimmed(2, IN), *steady(2, 3), *steady(1)]
    assert cuts(film, tmp_path) == [21, 28]
