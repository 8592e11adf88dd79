"""Names on pictures: drawn as they are where there are letters for them, told apart where there are none."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest
from fakes import thing_picture

import panorama
from panorama.lettering import draw_text, drawable, lettering_remarks, text_width
from panorama.shown.grid import TILE_WIDTH, beside
from panorama.shown.why_picture import write_why
from panorama.store import Zone
from panorama.zones import draw_shapes

BLUE_CAR, RED_CAR, GATE = "سيارة زرقاء", "سيارة حمراء", "שער"
BLUE_VAN, RED_VAN = "नीली वैन", "लाल वैन"


def drawn(text: str, size: float = 0.5) -> np.ndarray:
    picture = np.zeros((40, 700, 3), np.uint8)
    draw_text(picture, text, (4, 25), size, (255, 255, 255))
    return picture


@pytest.mark.parametrize(
    "name", ["blue-van", "Ärger é ñ ő", "Tiếng Việt", "Синий", "Μπλε", "红色面包车", "青いバン", "파란 밴"]
)
def test_what_the_font_has_is_drawn_as_it_is(name):
    if int(cv2.__version__.split(".")[0]) < 5 and not name.isascii():
        pytest.skip("the font of OpenCV 4 has ASCII alone")
    expected = np.zeros((40, 700, 3), np.uint8)
    cv2.putText(expected, name, (4, 25), cv2.FONT_HERSHEY_SIMPLEX, 0.5, (255, 255, 255), 1, cv2.LINE_AA)
    np.testing.assert_array_equal(drawn(name), expected)
    assert lettering_remarks([name]) == () and drawable(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (GATE, "<5e9 e2 e8>"),
        ("שער 2 (gate)", "<5e9 e2 e8> 2 (gate)"),
        (BLUE_CAR, "<633 4a 27 31 29> <632 31 42 27 21>"),
        (BLUE_VAN, "<928 40 32 40> <935 48 28>"),
        ("รถ", "<e23 16>"),
        ("😀 van", "<1f600> van"),
        ("שন😀", "<5e9 9a8 1f600>"),
        ("van\u202egnp", "van<202e>gnp"),  # turns what is behind it around
        ("va\u200dn", "va<200d>n"),
        ("a\nשb?", "a\\n<5e9>b?"),
    ],
)
def test_letters_without_a_font_stand_as_their_code_points(name, shown):
    """They were question marks, and what is read from the right was drawn backwards."""
    assert drawable(name) == shown
    np.testing.assert_array_equal(drawn(name), drawn(shown))
    assert text_width(name, 0.5) == text_width(shown, 0.5)


@pytest.mark.parametrize("names", [(BLUE_CAR, RED_CAR), (BLUE_VAN, RED_VAN), ("รถตู้", "รถบัส")])
def test_names_of_one_length_are_told_apart_in_a_caption(names):
    captions = [beside(name, "0.50  uncertain", TILE_WIDTH - 8, 0.45) for name in names]
    assert drawable(captions[0]) != drawable(captions[1])
    assert all(text_width(caption, 0.45) <= TILE_WIDTH - 8 for caption in captions)


def test_it_is_said_once_for_all_names_of_a_picture():
    (told,) = lettering_remarks(["van", GATE, BLUE_VAN, GATE])
    assert told == (
        "2 names have letters that cannot be drawn; pictures show their code points: שער as <5e9 e2 e8>"
    )
    assert lettering_remarks(["van", ""]) == ()


def test_the_name_of_a_zone_is_drawn_so_and_stays_in_the_picture():
    square = ((0.7, 0.2), (0.99, 0.2), (0.99, 0.5))
    names = (GATE, "<5e9 e2 e8>", "a" * 30)
    shapes = [
        draw_shapes(np.zeros((240, 320, 3), np.uint8), [Zone("gate", name, "zone", square)]) for name in names
    ]
    np.testing.assert_array_equal(shapes[0], shapes[1])
    assert shapes[0][:46].any()  # above the shape
    for shape in shapes:
        assert not shape[:46, -1].any()


def test_every_command_that_draws_names_says_which_it_has_no_letters_for(run, asked):
    """Nothing was said."""
    run("register", BLUE_CAR, asked / "album" / "red")
    sql = f"SELECT moments WHERE entity = '{BLUE_CAR}'"
    done = run("query", sql, "--sheet", "s.png")
    told = f"1 name has letters that cannot be drawn; pictures show their code points: {BLUE_CAR} as <633"
    assert done.status == 0 and done.err.count(told) == 1
    done = run("why", BLUE_CAR, "gate/a.mp4", "--at", "2", "--out", "why.png")
    assert done.status == 0 and done.err.count(told) == 1
    run("zones", "add", GATE, "--points", "10%,10% 50%,10% 50%,50%")
    done = run("zones", "show", "--video", "gate/a.mp4", "--out", "z.png")
    assert done.status == 0 and f": {GATE} as <5e9 e2 e8>\n" in done.err
    done = run("query", "SELECT moments WHERE entity = 'red'", "--sheet", "s.png")
    assert done.status == 0 and "letters" not in done.err


def test_a_sheet_of_the_library_has_it_among_its_warnings(asked):
    with panorama.open(next(asked.glob("*panorama*"))) as library:
        library.register(GATE, thing_picture("red"))
        answer = library.query("SELECT moments WHERE entity = ?", [GATE])
        (told,) = library.sheet(answer, asked / "s.png").warnings
        assert told.endswith(f"{GATE} as <5e9 e2 e8>")


def test_the_picture_of_why_tells_of_names_in_its_sentence_too(asked):
    """The example that was cut from the track need not be the one that it fits best."""
    with panorama.open(next(asked.glob("*panorama*"))) as library:
        why = library.why("red", "gate/a.mp4", seconds=1)
        assert write_why(why, asked / "why.png") == ()
        pointed_at = replace(why.exemplar, source=f"v/{GATE}.mp4")
        (told,) = write_why(replace(why, pointed_at=pointed_at), asked / "why.png")
        assert f"{GATE}.mp4 as <5e9 e2 e8>.mp4" in told
