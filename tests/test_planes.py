"""RGB of parts of a frame: the same colours and places as the whole frame's, in every layout of planes."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from clips import write_video

from panorama.frames import VideoInfo
from panorama.video import open_video
from panorama.video.container import PlanarPicture
from panorama.video.pictures import ArrayPicture
from panorama.video.planes import cut_frame, scaled
from panorama.video.reader import stored_box


def landscape(height: int = 120, width: int = 160) -> np.ndarray:
    """Smooth colours, so that chroma at half the resolution loses little."""
    coarse = np.random.default_rng(3).integers(30, 225, (4, 5, 3)).astype(np.uint8)
    return cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)


def picture(
    pixel_format: str, rotation: int = 0, stored: tuple[int, int] = (160, 120), mirrored: bool = False
) -> PlanarPicture:
    """A picture of 160 x 120 when displayed, upright or turned, of a frame stored at another size."""
    frame = av.VideoFrame.from_ndarray(landscape(*stored[::-1]), format="rgb24").reformat(format=pixel_format)
    width, height = (120, 160) if rotation in (90, 270) else (160, 120)
    info = VideoInfo("x", "raw", width, height, rotation, 1, mirrored=mirrored)
    return PlanarPicture(frame, info, av.video.reformatter.VideoReformatter())


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize(
    "layout", ["yuv420p", "yuv422p", "yuv444p", "yuvj420p", "nv12", "rgb24", "yuv420p10le"]
)
def test_a_part_is_what_the_whole_frame_shows_there(layout: str, rotation: int) -> None:
    shown = picture(layout, rotation)
    whole = shown.rgb(None, None).astype(int)
    for x1, y1, x2, y2 in ((0, 0, 120, 120), (33, 41, 94, 88), (119, 119, 120, 120)):
        part = shown.part((x1, y1, x2, y2), 256)
        assert part.shape == (y2 - y1, x2 - x1, 3)
        assert np.abs(part - whole[y1:y2, x1:x2]).max() <= 1


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("stored", [(120, 120), (160, 60)])
@pytest.mark.parametrize("layout", ["yuv420p", "nv12"])
def test_a_part_of_pixels_that_are_not_square_is_what_the_whole_frame_shows_there(
    layout: str, stored: tuple[int, int], rotation: int, mirrored: bool
) -> None:
    shown = picture(layout, rotation, stored, mirrored)
    whole = shown.rgb(None, None).astype(int)
    assert sorted(whole.shape[:2]) == [120, 160]
    for x1, y1, x2, y2 in ((0, 0, 120, 120), (33, 41, 94, 88), (119, 119, 120, 120)):
        part = shown.part((x1, y1, x2, y2), 256)
        assert part.shape == (y2 - y1, x2 - x1, 3)
        assert np.abs(part - whole[y1:y2, x1:x2]).mean() < 3
        luma = shown.luma_part((x1, y1, x2, y2))
        grey = cv2.cvtColor(part, cv2.COLOR_RGB2GRAY)
        assert abs(float(luma.mean() - 16) / 219 * 255 - float(grey.mean())) < 6


@pytest.mark.parametrize("rotation", [0, 90])
def test_a_large_part_is_shrunk_and_keeps_its_shape(rotation: int) -> None:
    shown = picture("yuv420p", rotation)
    part = shown.part((10, 20, 110, 70), 40)
    assert part.shape == (20, 40, 3)
    whole = shown.rgb(None, None)[20:70, 10:110]
    # As often as it goes two pixels become one; what is left, less than a half, lies between two of these.
    halves = cv2.resize(whole, (50, 25), interpolation=cv2.INTER_AREA)
    expected = cv2.resize(halves, (40, 20), interpolation=cv2.INTER_LINEAR).astype(int)
    assert np.abs(part - expected).max() <= 1


@pytest.mark.parametrize("layout", ["yuv420p", "yuvj420p", "nv12", "gray", "yuv420p10le"])
def test_a_smaller_picture_has_the_colours_of_the_whole(layout: str) -> None:
    shown = picture(layout)
    whole = cv2.resize(shown.rgb(None, None), (60, 45), interpolation=cv2.INTER_AREA).astype(int)
    # Chroma lies at half the resolution, beside its pixels; red in place of blue would differ by 43 levels.
    assert np.abs(shown.rgb(60, 45) - whole).mean(axis=(0, 1)).max() < 5


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_brightness_of_a_part_is_that_of_the_part(rotation: int) -> None:
    shown = picture("yuvj420p", rotation)
    box = (20, 30, 60, 100)
    luma = shown.luma_part(box)
    grey = cv2.cvtColor(shown.rgb(None, None)[30:100, 20:60], cv2.COLOR_RGB2GRAY)
    assert sorted(luma.shape) == [40, 70]
    assert abs(float(luma.mean()) - float(grey.mean())) < 3


@pytest.mark.parametrize("colorspace", [1, 5, 9])
@pytest.mark.parametrize("color_range", [1, 2])
def test_a_part_has_the_matrix_and_the_range_of_its_frame(colorspace: int, color_range: int) -> None:
    frame = av.VideoFrame.from_ndarray(landscape(), format="rgb24").reformat(format="yuv420p")
    frame.colorspace, frame.color_range = colorspace, color_range
    shown = PlanarPicture(
        frame, VideoInfo("x", "raw", 160, 120, 0, 1), av.video.reformatter.VideoReformatter()
    )
    whole = shown.rgb(None, None).astype(int)
    assert np.abs(shown.part((33, 41, 94, 88), 256) - whole[41:88, 33:94]).max() <= 1


@pytest.mark.parametrize("size", [(160, 120), (161, 120), (160, 121), (161, 121), (33, 17)])
def test_a_part_of_a_noisy_frame_of_any_size_is_the_same_to_the_pixel(size: tuple[int, int]) -> None:
    width, height = size
    noise = np.random.default_rng(5).integers(0, 256, (height, width, 3)).astype(np.uint8)
    frame = av.VideoFrame.from_ndarray(noise, format="rgb24").reformat(format="yuv420p")
    shown = PlanarPicture(
        frame, VideoInfo("x", "raw", width, height, 0, 1), av.video.reformatter.VideoReformatter()
    )
    whole = shown.rgb(None, None).astype(int)
    for x1, y1, x2, y2 in ((0, 0, width, height), (7, 3, 20, 16), (width - 1, height - 1, width, height)):
        assert np.abs(shown.part((x1, y1, x2, y2), 256) - whole[y1:y2, x1:x2]).max() <= 1


DEEP = ["yuv420p10le", "yuv422p10le", "yuv444p12le", "yuv420p16le"]


def noisy(layout: str, width: int, height: int) -> PlanarPicture:
    """Samples of any value."""
    frame = av.VideoFrame(width, height, layout)
    for plane in frame.planes:
        raw = np.frombuffer(memoryview(plane), "<u2")
        top = 1 << frame.format.components[0].bits
        raw[:] = np.random.default_rng(plane.width).integers(0, top, len(raw), np.uint16, endpoint=False)
    info = VideoInfo("x", "raw", width, height, 0, 1)
    return PlanarPicture(frame, info, av.video.reformatter.VideoReformatter())


@pytest.mark.parametrize("size", [(160, 120), (162, 118), (161, 120), (160, 121)])
@pytest.mark.parametrize("layout", DEEP)
def test_a_part_of_samples_of_two_bytes_is_the_same_to_the_bit(layout: str, size: tuple[int, int]) -> None:
    width, height = size
    shown = noisy(layout, width, height)
    whole = shown.rgb(None, None)
    boxes = ((0, 0, width, height), (7, 3, 20, 16), (31, 40, 90, 99), (width - 1, height - 1, width, height))
    for x1, y1, x2, y2 in boxes:
        np.testing.assert_array_equal(shown.part((x1, y1, x2, y2), 256), whole[y1:y2, x1:x2])


def write_interlaced(path: Path, codec: str, layout: str, height: int) -> Path:
    """Three frames, 162 pixels wide, of two fields each; their colours change at every other row."""
    with av.open(str(path), "w") as written:
        stream = written.add_stream(codec, rate=25, options={"flags": "+ilme+ildct"})
        stream.width, stream.height, stream.pix_fmt = 162, height, layout
        stream.codec_context.bit_rate = 20_000_000
        for number in range(3):
            coarse = np.random.default_rng(number).integers(0, 256, (height // 2, 27, 3)).astype(np.uint8)
            drawn = av.VideoFrame.from_ndarray(np.kron(coarse, np.ones((2, 6, 1), np.uint8)))
            drawn.pts = number
            written.mux(stream.encode(drawn.reformat(format=layout)))
        written.mux(stream.encode(None))
    return path


@pytest.mark.parametrize(
    ("codec", "layout", "height"),
    [
        ("libx264", "yuv420p", 120),
        ("libx264", "yuvj420p", 124),
        ("libx264", "yuv420p10le", 120),
        ("libx264", "yuv422p", 118),
        ("mpeg2video", "yuv420p", 120),
        ("mpeg2video", "yuv420p", 118),
        ("mpeg4", "yuv420p", 124),
    ],
)
def test_a_part_of_a_frame_of_two_fields_is_the_same_to_the_bit(
    tmp_path: Path, codec: str, layout: str, height: int
) -> None:
    """Chroma of every other row belongs to the other field: parts had that of the row beside."""
    with open_video(write_interlaced(tmp_path / "fields.mkv", codec, layout, height)) as reader:
        for frame in reader.frames():
            whole = frame.rgb()
            for x1, y1, x2, y2 in (
                (0, 0, 162, height),
                (7, 3, 20, 16),
                (31, 41, 90, 98),
                (161, 117, 162, 118),
            ):
                np.testing.assert_array_equal(frame.part((x1, y1, x2, y2), 256), whole[y1:y2, x1:x2])


@pytest.mark.parametrize("layout", [*DEEP, "yuv420p"])
def test_a_part_takes_no_more_of_the_frame_than_itself(layout: str) -> None:
    frame = av.VideoFrame(3840, 2160, layout)
    found = cut_frame(frame, (1001, 501, 1100, 600))
    assert found is not None
    part, left, top = found
    assert (part.width, part.height) <= (104, 104)
    assert (part.width - left, part.height - top) >= (99, 99)


@pytest.mark.parametrize("layout", DEEP)
def test_brightness_of_deep_samples_is_their_highest_bits(layout: str) -> None:
    shown = noisy(layout, 64, 36)
    frame = shown._frame
    samples = np.frombuffer(memoryview(frame.planes[0]), "<u2").reshape(-1, frame.planes[0].line_size // 2)
    bits = frame.format.components[0].bits
    np.testing.assert_array_equal(shown.luma(), samples[:36, :64] >> (bits - 8))
    assert shown.nbytes == sum(plane.buffer_size for plane in frame.planes) > 64 * 36 * 2


@pytest.mark.parametrize("layout", ["yuv420p", "yuv420p10le", "gray", "gray10le", "rgb24", "yuyv422", "nv12"])
def test_some_rows_and_columns_of_brightness_are_those_of_all(layout: str) -> None:
    first, second = picture(layout), picture(layout)
    box = (33, 41, 94, 88)
    few, inside = first.thinned_luma(18, 32), first.luma_part(box)  # of the planes themselves
    np.testing.assert_array_equal(few, second.luma()[::6, ::5])
    np.testing.assert_array_equal(inside, second.luma()[41:88, 33:94])
    np.testing.assert_array_equal(second.thinned_luma(18, 32), few)
    shown = ArrayPicture(landscape(), 160, 120)
    np.testing.assert_array_equal(shown.thinned_luma(18, 32), shown.luma()[::6, ::5])
    assert shown.thinned_luma(500, 500).shape == (120, 160)
    assert shown.nbytes == 160 * 120 * 3


def test_shrinking_in_steps_is_averaging() -> None:
    grey = landscape(400, 640)[:, :, 1]
    exact = cv2.resize(grey, (100, 62), interpolation=cv2.INTER_AREA).astype(int)
    assert np.abs(scaled(grey, 100, 62) - exact).mean() < 2
    assert scaled(grey[:1], 7, 1).shape == (1, 7)


def test_a_displayed_box_is_found_in_the_stored_picture() -> None:
    stored = np.arange(6 * 4).reshape(4, 6)  # 6 wide, 4 high
    for rotation, mirrored in product((0, 90, 180, 270), (False, True)):
        shown = np.rot90(stored, -(rotation // 90))[:, :: -1 if mirrored else 1]
        height, width = shown.shape
        box = (1, 2, 3, 4)
        x1, y1, x2, y2 = stored_box(box, rotation, mirrored, width, height)
        assert sorted(stored[y1:y2, x1:x2].ravel()) == sorted(shown[2:4, 1:3].ravel())


def test_parts_of_a_decoded_video_and_of_a_folder_of_pictures(tmp_path: Path) -> None:
    clip = write_video(tmp_path / "a.mp4", "libx264", frames=3)
    with open_video(clip.path) as reader:
        frame = next(reader.frames())
        whole = frame.rgb().astype(int)
        assert np.abs(frame.part((20, 60, 101, 77), 256) - whole[60:77, 20:101]).max() <= 1
        assert frame.luma_part((20, 60, 101, 77)).shape == (17, 81)
    shown = ArrayPicture(landscape()[:, :, ::-1].copy(), 80, 60)
    assert np.abs(shown.part((8, 8, 48, 28), 256).astype(int) - shown.rgb(80, 60)[8:28, 8:48]).mean() < 4
    assert shown.luma_part((8, 8, 48, 28)).shape == (20, 40)
