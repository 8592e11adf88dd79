"""A picture with transparent parts, such as a logo or a product cut out, is an example on several grounds."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

import panorama
from panorama.album.given_pictures import array_picture, read_picture, with_grounds
from panorama.crops import decode_picture
from panorama.errors import BadImage
from panorama.library import Library


def ring(colour: tuple[int, int, int], alpha: int = 255) -> NDArray[np.uint8]:
    """(60, 60, 4) RGBA: a ring with nothing behind it."""
    rgba = np.zeros((60, 60, 4), np.uint8)
    cv2.circle(rgba, (30, 30), 22, (*colour, alpha), 8)
    return rgba


def corner(rgb: NDArray[np.uint8]) -> int:
    """The level of what lies behind the ring."""
    assert np.ptp(rgb[0, 0]) == 0
    return int(rgb[0, 0, 0])


@pytest.fixture
def library(tmp_path: Path):
    with panorama.open(tmp_path / "library", create=True) as made:
        made.use_model("color-bands")
        yield made


def test_a_logo_is_laid_over_grey_white_and_black(tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "ring.png"), cv2.cvtColor(ring((200, 30, 30)), cv2.COLOR_RGBA2BGRA))
    for picture in (read_picture(tmp_path / "ring.png"), array_picture(ring((200, 30, 30)), "ring.png")):
        one, *others = with_grounds([picture])
        assert [corner(part.rgb) for part in (one, *others)] == [128, 255, 0]
        named = [Path(part.source).name for part in (one, *others)]
        assert named == ["ring.png", "ring.png on white", "ring.png on black"]
        assert all(
            part.rgb.shape == one.rgb.shape and part.rgb[30, 8].tolist() == [200, 30, 30] for part in others
        )


@pytest.mark.parametrize(
    ("level", "grounds"), [(255, [128, 0]), (0, [128, 255]), (128, [255, 0])], ids=["white", "black", "grey"]
)
def test_what_has_the_colour_of_a_ground_is_not_laid_over_it(level: int, grounds: list[int]) -> None:
    """A grey logo was refused: on grey it shows nothing."""
    picture = array_picture(ring((level,) * 3), "ring")
    assert [corner(part.rgb) for part in with_grounds([picture])] == grounds and picture.source == "ring"


def test_pictures_with_hardly_anything_transparent_are_one_example() -> None:
    whole = np.full((60, 60, 4), 255, np.uint8)
    whole[:, :, :3] = np.random.default_rng(0).integers(0, 255, (60, 60, 3))
    rounded = whole.copy()
    rounded[10:25, 10:25, 3] = 0  # 6 of 100
    for given in (whole, rounded, whole[:, :, :3]):
        assert not array_picture(given, "icon").grounds
    rounded[5:30, 5:30, 3] = 0  # 17
    assert len(array_picture(rounded, "icon").grounds) == 2


def test_nothing_at_all_is_refused_as_before() -> None:
    with pytest.raises(BadImage, match="all one colour"):
        array_picture(np.zeros((30, 30, 4), np.uint8), "nothing")


def test_margins_are_cut_off_on_every_ground() -> None:
    """Bars of one colour within the picture: what is left is the same part on each ground."""
    card = np.zeros((60, 100, 4), np.uint8)
    card[:, :] = (20, 20, 90, 255)
    card[:, 30:70] = ring((200, 30, 30))[:, 10:50]
    one, *others = with_grounds([array_picture(card, "card")])
    assert one.inside_xyxy is not None
    assert {part.inside_xyxy for part in others} == {one.inside_xyxy}
    assert {part.rgb.shape for part in others} == {one.rgb.shape}


def test_each_ground_is_an_example_of_its_own_and_is_told(library: Library, tmp_path: Path) -> None:
    logo = ring((200, 30, 30))
    cv2.imwrite(str(tmp_path / "ring.png"), cv2.cvtColor(logo, cv2.COLOR_RGBA2BGRA))
    [told, *_] = library.register("ring", tmp_path / "ring.png").warnings
    assert told.startswith("1 picture is transparent in part: ") and "grey, white and black ground" in told
    known = library.exemplars("ring")
    kept = [decode_picture(example.picture.read_bytes()) for example in known]
    assert [round(float(rgb[:3, :3].mean()), -1) for rgb in kept] == [130, 250, 0]
    library.register("ring", tmp_path / "ring.png")
    assert len(library.exemplars("ring")) == 3, "the same pictures are there once"


def test_a_picture_is_removed_by_its_name_with_its_grounds_and_a_ground_by_its_number(
    library: Library, tmp_path: Path
) -> None:
    for name, colour in (("ring", (200, 30, 30)), ("other", (30, 30, 200))):
        cv2.imwrite(str(tmp_path / f"{name}.png"), ring(colour))
        library.register("ring", tmp_path / f"{name}.png")
    library.query("ALTER ENTITY 'ring' REMOVE 'ring.png'")
    left = library.exemplars("ring")
    assert [Path(example.source).name for example in left] == [
        "other.png", "other.png on white", "other.png on black",
    ]  # fmt: skip
    library.query(f"ALTER ENTITY 'ring' REMOVE '{left[0].exemplar_id}'")
    assert len(library.exemplars("ring")) == 2
    library.query("ALTER ENTITY 'ring' REMOVE 'other.png on black'")
    assert [Path(example.source).name for example in library.exemplars("ring")] == ["other.png on white"]


def test_look_alikes_and_albums_have_grounds_too(library: Library, tmp_path: Path) -> None:
    for place in ("album/ring/ring.png", "album/ring/not/other.png"):
        file = tmp_path / place
        file.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(file), ring((200, 30, 30) if file.stem == "ring" else (30, 30, 200)))
    library.register_album(tmp_path / "album")
    assert [example.negative for example in library.exemplars("ring")] == [False] * 3 + [True] * 3


def test_remarks_on_examples_name_the_right_numbers(library: Library) -> None:
    """Other grounds are stored behind all pictures that were given, so that these keep their numbers."""
    small = np.full((30, 30, 3), 90, np.uint8)
    small[:, ::3] = 200, 90, 40
    found = library.register("ring", [ring((200, 30, 30)), small])
    sources = [example.source for example in library.exemplars("ring")]
    assert sources == ["array 1", "array 2", "array 1 on white", "array 1 on black"]
    assert any("array 2 (30x30 pixels)" in line for line in found.warnings)


def test_a_box_is_cut_from_the_picture_on_grey(library: Library) -> None:
    library.register("ring", ring((200, 30, 30)), box=(4, 4, 40, 40))
    [example] = library.exemplars("ring")
    assert round(float(decode_picture(example.picture.read_bytes())[:3, :3].mean()), -1) == 130
