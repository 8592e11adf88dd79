"""Pictures with wide margins are told when they are registered: a screenshot of a thing finds nothing."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from fakes import thing_picture

import panorama
from panorama.margins import WIDE, inside_margin

THING = (30, 20, 70, 60)


def framed(height: int, width: int, box: tuple[int, int, int, int], colour: int = 245) -> np.ndarray:
    """Stripes in a box on a plain ground."""
    picture = np.full((height, width, 3), colour, np.uint8)
    x1, y1, x2, y2 = box
    picture[y1:y2, x1:x2] = 200
    picture[y1:y2:4, x1:x2] = 20
    picture[y2 - 1, x1:x2] = 20
    return picture


@pytest.mark.parametrize("colour", [0, 128, 245])
def test_what_lies_inside_of_a_margin_is_found_to_the_pixel(colour):
    assert inside_margin(framed(100, 200, THING, colour)) == THING


def test_specks_and_what_jpeg_makes_of_a_margin_do_not_hide_it():
    picture = framed(400, 600, (200, 120, 320, 240))
    picture[5, 7] = 0
    _, data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 60])
    x1, y1, x2, y2 = inside_margin(cv2.imdecode(data, cv2.IMREAD_COLOR))
    assert abs(np.array([x1, y1, x2, y2]) - [200, 120, 320, 240]).max() <= 8


def test_a_margin_is_told_from_its_share_of_the_picture_on():
    side = 100
    inside = round(side * side * (1 - WIDE) / side)
    assert inside_margin(framed(side, side, (0, 0, side, inside))) == (0, 0, side, inside)
    assert inside_margin(framed(side, side, (0, 0, side, inside + 1))) is None


def test_a_product_shot_on_white_is_not_told():
    """A carton that fills the picture from top to bottom found more than what was cut from it."""
    assert inside_margin(framed(100, 100, (31, 2, 69, 98))) is None


def test_a_picture_whose_border_is_not_one_colour_has_no_margin():
    noise = np.random.default_rng(0).integers(0, 255, (120, 90, 3), dtype=np.uint8)
    assert inside_margin(noise) is None


def test_registering_tells_of_a_wide_margin_and_how_to_cut_it(tmp_path, fake_proposer, monkeypatch):
    """A screenshot was registered without a word, and scored 0.000 on footage full of the thing."""
    monkeypatch.chdir(tmp_path)
    shot = framed(100, 200, THING)
    shot[20:60, 30:70] = cv2.resize(thing_picture("red"), (40, 40))
    cv2.imwrite("shot.png", cv2.cvtColor(shot, cv2.COLOR_RGB2BGR))
    (tmp_path / "album" / "red").mkdir(parents=True)
    (tmp_path / "album" / "red" / "shot.png").write_bytes((tmp_path / "shot.png").read_bytes())
    with panorama.open("library", create=True) as library:
        library.put_setting("embedder", "color-bands")
        [told] = library.register("red", "shot.png").warnings
        assert told.startswith("shot.png: 92% of it is one colour") and "--box 30,20,70,60 or --find" in told
        assert library.register("cut", "shot.png", box="30,20,70,60").warnings == ()
        assert [len(entity.warnings) for entity in library.register_album("album")] == [1]


def test_the_box_that_is_told_counts_transparent_margins_that_were_cut_off(tmp_path, fake_proposer):
    """The box was told without them, but cuts the picture as given: it named a place beside the thing."""
    card = np.zeros((140, 260, 4), np.uint8)
    card[25:125, 40:240, :3] = framed(100, 200, THING)
    card[45:85, 70:110, :3] = cv2.resize(thing_picture("red"), (40, 40))
    card[25:125, 40:240, 3] = 255
    cv2.imwrite(str(tmp_path / "card.png"), cv2.cvtColor(card, cv2.COLOR_RGBA2BGRA))
    with panorama.open(tmp_path / "library", create=True) as library:
        library.put_setting("embedder", "color-bands")
        for given in (tmp_path / "card.png", card):
            [told] = library.register("red", given).warnings
            assert "--box 70,45,110,85 or --find" in told
