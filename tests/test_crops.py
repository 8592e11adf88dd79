"""Views of a track: what is kept, how it is stored, and how pictures are read."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from clips import heic

import panorama
from panorama.album.given_pictures import read_picture
from panorama.crops import (
    MAX_SIDE,
    View,
    ViewKeeper,
    appearances,
    cut,
    decode_picture,
    encode_jpeg,
    view_quality,
    whole_boxes,
)
from panorama.errors import BadImage

RNG = np.random.default_rng(0)


def texture(height: int, width: int) -> np.ndarray:
    return RNG.integers(0, 255, (height, width, 3)).astype(np.uint8)


def view(seconds: float, quality: float) -> View:
    return View(int(seconds * 10), seconds, np.zeros(4, np.float32), quality, lambda: texture(4, 4))


def test_a_large_crop_is_shrunk_and_keeps_its_shape() -> None:
    picture = decode_picture(encode_jpeg(texture(1024, 512)))
    assert picture.shape == (MAX_SIDE, MAX_SIDE // 2, 3)


def test_a_one_pixel_crop_survives_storage() -> None:
    assert decode_picture(encode_jpeg(texture(1, 1))).shape == (1, 1, 3)


def test_colours_are_not_swapped_by_storage() -> None:
    red = np.full((40, 40, 3), (250, 10, 10), np.uint8)
    assert np.abs(decode_picture(encode_jpeg(red)).astype(int) - red).max() < 12


def test_transparent_pixels_are_laid_over_grey() -> None:
    rgba = np.zeros((10, 10, 4), np.uint8)
    rgba[:, :5] = (0, 0, 255, 255)  # BGRA: opaque red
    picture = decode_picture(cv2.imencode(".png", rgba)[1].tobytes())
    assert tuple(picture[0, 0]) == (255, 0, 0) and tuple(picture[0, 9]) == (128, 128, 128)


def test_transparent_margins_of_a_picture_that_is_registered_are_cut_off(tmp_path: Path) -> None:
    """A product cut out and saved with much room around it was compared as if the room were the thing."""
    rgba = np.zeros((90, 120, 4), np.uint8)
    rgba[20:50, 30:90, :3] = texture(30, 60)
    rgba[20:50, 30:90, 3] = 255
    rgba[30:40, 50:60, 3] = 0  # a hole in it is none of its margins
    cv2.imwrite(str(tmp_path / "cut-out.png"), rgba)
    shown = read_picture(tmp_path / "cut-out.png").rgb
    assert shown.shape == (30, 60, 3) and tuple(shown[15, 25]) == (128, 128, 128)
    np.testing.assert_array_equal(shown[:10], rgba[20:30, 30:90, 2::-1])
    cv2.imwrite(str(tmp_path / "nothing.png"), np.zeros((30, 30, 4), np.uint8))
    with pytest.raises(BadImage, match="all one colour"):
        read_picture(tmp_path / "nothing.png")


def test_a_box_is_told_in_pixels_of_the_file_with_its_transparent_margins(tmp_path: Path) -> None:
    """Margins were cut off first: another part than the one in the box was registered, or none."""
    rgba = np.zeros((90, 120, 4), np.uint8)
    rgba[20:80, 30:110, :3] = texture(60, 80)
    rgba[20:80, 30:110, 3] = 255
    cv2.imwrite(str(tmp_path / "cut-out.png"), rgba)
    with panorama.open(tmp_path / "library", create=True) as library:
        library.use_model("color-bands")
        library.register("thing", tmp_path / "cut-out.png", box=(60, 40, 100, 70))
        kept = decode_picture(library.exemplars("thing")[0].picture.read_bytes())
    expected = decode_picture(encode_jpeg(rgba[40:70, 60:100, 2::-1]))
    np.testing.assert_array_equal(kept, expected)


def test_a_damaged_picture_of_a_phone_is_not_called_none() -> None:
    with pytest.raises(
        BadImage, match=r"x\.heic is damaged, or in an encoding that is not supported \(.*save it as"
    ):
        decode_picture(b"\0\0\0\x18ftypheic" + bytes(100), "x.heic")
    whole = heic(np.zeros((72, 96, 3), np.uint8))
    place = whole.index(b"hvcC")  # behind the length of its box: of none the file has no picture
    with pytest.raises(BadImage, match=r"y\.heic is damaged"):
        decode_picture(whole[: place - 4] + bytes(4) + whole[place:], "y.heic")


@pytest.mark.parametrize("data", [b"", b"not a picture", b"\xff\xd8\xff"])
def test_what_is_no_picture_is_refused(data: bytes) -> None:
    with pytest.raises(BadImage):
        decode_picture(data, "x.jpg")


def test_a_box_is_cut_half_open_and_stays_inside() -> None:
    picture = texture(20, 30)
    assert np.array_equal(cut(picture, np.array([2, 3, 10, 9])), picture[3:9, 2:10])
    assert cut(picture, np.array([-5, -5, 500, 500])).shape == picture.shape
    assert cut(picture, np.array([29.9, 19.9, 40, 40])).shape == (1, 1, 3)


def test_boxes_are_rounded_outwards_and_kept_inside() -> None:
    boxes = np.array([[1.2, 2.8, 3.0, 4.1], [-5, -5, 500, 500], [29.9, 19.9, 40, 40], [40, 40, 50, 50]])
    assert whole_boxes(boxes, 30, 20) == [(1, 2, 3, 5), (0, 0, 30, 20), (29, 19, 30, 20), (29, 19, 30, 20)]
    assert whole_boxes(np.array([[7.0, 3.0, 7.0, 3.0]]), 30, 20) == [(7, 3, 8, 4)]  # at least one pixel
    assert whole_boxes(np.zeros((0, 4)), 30, 20) == []


def test_a_sharp_whole_large_view_is_better() -> None:
    sharp = texture(100, 100)[:, :, 0]
    blurred = cv2.GaussianBlur(sharp, (0, 0), 5)
    assert view_quality(sharp, False, 0.5) > view_quality(blurred, False, 0.5)
    assert view_quality(sharp, False, 0.5) > view_quality(sharp, True, 0.5)
    assert view_quality(sharp, False, 0.9) > view_quality(sharp, False, 0.1)


def test_appearances_tell_colours_apart_and_not_sizes() -> None:
    picture = np.full((120, 200, 3), (220, 20, 20), np.uint8)
    picture[:, 100:] = (20, 20, 220)
    red, larger, blue = appearances(picture, np.array([[5, 5, 45, 45], [0, 0, 90, 120], [110, 5, 150, 60]]))
    assert red @ larger == pytest.approx(1)
    assert red @ blue == pytest.approx(0)
    assert np.linalg.norm(blue) == pytest.approx(1)


def test_appearances_are_of_the_upper_and_the_lower_half() -> None:
    picture = np.zeros((100, 100, 3), np.uint8)
    picture[50:] = 255
    both, upper = appearances(picture, np.array([[0, 0, 100, 100], [0, 0, 100, 40]]))
    assert both[:32].argmax() == 0 and both[32:].argmax() == 7  # black above, white below
    assert upper[:32].argmax() == upper[32:].argmax() == 0
    assert appearances(picture, np.zeros((0, 4))).shape == (0, 64)


def test_appearances_do_not_depend_on_how_many_there_are() -> None:
    picture = cv2.GaussianBlur(texture(60, 80), (0, 0), 3)
    boxes = RNG.uniform(0, 40, (1500, 4)) + np.array([0, 0, 20, 20])
    boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 3)
    together = appearances(picture, boxes)
    alone = np.concatenate([appearances(picture, boxes[i : i + 1]) for i in (0, 1023, 1024, 1499)])
    assert np.array_equal(together[[0, 1023, 1024, 1499]], alone)


def test_a_view_makes_its_picture_once_and_lets_go_of_what_it_was_made_of() -> None:
    made = []

    def make() -> np.ndarray:
        made.append(1)
        return texture(4, 4)

    one = View(0, 0.0, np.zeros(4, np.float32), 1.0, make)
    assert not made
    assert one.develop().picture is one.picture and len(made) == 1 and one.make is None


def test_a_keeper_spreads_its_views_over_a_long_life() -> None:
    keeper = ViewKeeper(wanted=4)
    for tenth in range(36_000):  # an hour at ten samples a second
        seconds, quality = tenth / 10, 1 + (tenth % 7) / 10
        if keeper.wants(seconds, quality):
            keeper.offer(view(seconds, quality))
        assert len(keeper._best) <= 8
    times = [v.time_seconds for v in keeper.best()]
    assert len(times) == 4
    assert times[0] < 1000 and times[-1] > 2600 and times == sorted(times)


def test_a_keeper_prefers_the_better_view_of_a_moment() -> None:
    keeper = ViewKeeper(wanted=4)
    keeper.offer(view(0.0, 1.0))
    assert not keeper.wants(0.1, 0.5)
    keeper.offer(view(0.1, 2.0))
    assert [v.quality for v in keeper.best()] == [2.0]
