"""Margins of one colour are cut off pictures that are given: with them a thing is found and not accepted."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from fakes import thing_picture, write_picture

import panorama
from panorama.album.given_pictures import read_picture
from panorama.album.given_remarks import SMALL_SIDE
from panorama.album.margins import LEAST, inside_margin

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


def test_a_margin_is_cut_off_from_its_share_of_the_picture_on():
    inside = round(100 * (1 - LEAST))
    assert inside_margin(framed(100, 100, (0, 1, 100, inside + 1))) == (0, 1, 100, inside + 1)
    assert inside_margin(framed(100, 100, (0, 1, 100, inside + 2))) is None


@pytest.mark.parametrize("box", [(8, 0, 92, 100), (0, 8, 100, 92), (12, 10, 88, 100)])
def test_bars_and_margins_on_some_sides_are_margins(box):
    """Bars beside a picture hold less of its border than the picture does."""
    assert inside_margin(framed(100, 100, box, 0)) == box


def test_a_thing_that_touches_all_sides_has_no_margin():
    cross = np.minimum(framed(100, 100, (0, 30, 100, 40)), framed(100, 100, (40, 0, 50, 100)))
    assert inside_margin(cross) is None


def test_a_part_of_one_colour_is_no_margin_unless_it_lies_on_opposite_sides():
    """Of a flag, of a car with a plain roof."""
    assert inside_margin(framed(100, 100, (0, 0, 100, 60))) is None
    assert inside_margin(framed(100, 100, (0, 20, 70, 100))) is None


def test_a_picture_whose_border_is_not_one_colour_has_no_margin():
    noise = np.random.default_rng(0).integers(0, 255, (120, 90, 3), dtype=np.uint8)
    assert inside_margin(noise) is None


def shot_of(thing: np.ndarray) -> np.ndarray:
    """A screenshot that shows a thing of 40 x 40 pixels in the middle of nothing."""
    shot = np.full((100, 200, 3), 245, np.uint8)
    shot[20:60, 30:70] = thing
    return shot


THING_40 = cv2.resize(thing_picture("red"), (40, 40))


@pytest.fixture
def library(tmp_path, fake_proposer, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with panorama.open("library", create=True) as library:
        library.put_setting("embedder", "color-bands")
        yield library


def test_a_margin_is_cut_off_what_is_registered_and_that_is_told(library, tmp_path):
    """A product on white ranked as high as cut from it, and was not accepted; a screenshot found nothing."""
    write_picture(tmp_path / "shot.png", shot_of(THING_40))
    [told, _] = library.register("red", "shot.png").warnings
    assert told == (
        "1 picture has a margin of one colour, which was cut off: shot.png to 30,20,70,60; "
        "for another part, give --box x1,y1,x2,y2"
    )
    [example] = library.exemplars("red")
    assert (example.height, example.width) == (40, 40)
    with_box = library.register("whole", "shot.png", box="0,0,200,100")
    [whole] = library.exemplars("whole")
    assert (whole.height, whole.width) == (100, 200)
    assert with_box.warnings == ()


def test_it_is_cut_off_in_an_album_off_look_alikes_and_in_questions(library, tmp_path):
    write_picture(tmp_path / "album" / "red" / "shot.png", shot_of(cv2.resize(THING_40, (40, 40))))
    write_picture(
        tmp_path / "album" / "red" / "not" / "blue.png", shot_of(cv2.resize(thing_picture("blue"), (40, 40)))
    )
    [entity] = library.register_album("album")
    assert [line.split(",")[0] for line in entity.warnings[:2]] == [
        "1 picture has a margin of one colour"
    ] * 2
    assert [(e.height, e.width) for e in library.exemplars("red")] == [(40, 40)] * 2
    write_picture(tmp_path / "cut.png", THING_40)
    shot, cut = (library.verify(name, "cut.png").score for name in ("album/red/shot.png", "cut.png"))
    assert shot == cut


def test_another_part_of_a_look_alike_can_be_taken_as_it_is_told(library, tmp_path):
    """It was told as of an example: a box was refused, "0 were given", and other things accepted for it."""
    write_picture(tmp_path / "other.png", shot_of(cv2.resize(thing_picture("blue"), (40, 40))))
    told = library.register("red", [shot_of(THING_40)], unlike="other.png").warnings
    assert told[0].endswith("array 1 to 30,20,70,60; for another part, give --box x1,y1,x2,y2")
    assert told[1].endswith("give it without examples, --not IMAGE --box x1,y1,x2,y2")
    assert told[2].startswith("so small that other things may be accepted for it: array 1")
    assert told[3].startswith("so small that it tells little of the look-alike: other.png (40x40 pixels);")
    library.register("red", unlike="other.png", box="20,10,80,70")
    *_, boxed = library.exemplars("red")
    assert (boxed.kind, boxed.width, boxed.height) == ("look-alike", 60, 60)


def test_of_many_pictures_the_first_are_named(library, tmp_path):
    for number in range(5):
        write_picture(tmp_path / "many" / f"{number}.png", shot_of(THING_40))
    [told, _] = library.register("red", "many").warnings
    assert "many/2.png to 30,20,70,60 and 2 more;" in told and "3.png" not in told


def test_neither_a_speck_nor_a_stripe_is_what_a_picture_is_of(tmp_path):
    speck = np.full((60, 60, 3), 245, np.uint8)
    speck[30:36, 10:50:2] = 0
    assert read_picture(write_picture(tmp_path / "speck.png", speck)).rgb.shape == (60, 60, 3)
    flag = np.full((60, 60, 3), 245, np.uint8)
    flag[20:40] = 200, 30, 30
    assert read_picture(write_picture(tmp_path / "flag.png", flag)).rgb.shape == (60, 60, 3)


def test_the_part_counts_transparent_margins_that_were_cut_off(library, tmp_path):
    """The box was told without them, but cuts the picture as given: it named a place beside the thing."""
    card = np.zeros((140, 260, 4), np.uint8)
    card[25:125, 40:240, :3] = shot_of(THING_40)
    card[25:125, 40:240, 3] = 255
    cv2.imwrite(str(tmp_path / "card.png"), cv2.cvtColor(card, cv2.COLOR_RGBA2BGRA))
    for given in (tmp_path / "card.png", card):
        assert " to 70,45,110,85;" in library.register("red", given).warnings[0]


def test_a_small_example_is_told_however_it_is_given(library, tmp_path):
    """Of 24 pixels it was registered without a word, and other things were accepted for it."""
    thing = cv2.resize(thing_picture("red"), (SMALL_SIDE - 1, 30))
    write_picture(tmp_path / "small.png", thing)
    write_picture(tmp_path / "other.png", cv2.resize(thing_picture("blue"), (24, 30)))
    write_picture(tmp_path / "large.png", cv2.resize(thing, (SMALL_SIDE, 30)))
    [told] = library.register("red", "small.png").warnings
    assert told.startswith(
        "so small that other things may be accepted for it: small.png (47x30 pixels); use a picture"
    )
    assert library.register("red", "large.png").warnings == ()
    assert len(library.register("red", "large.png", box="0,0,40,30").warnings) == 1
    assert len(library.register("red", "large.png", unlike="other.png").warnings) == 1
