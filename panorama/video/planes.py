"""A decoded frame's planes enter; a rectangle of them as a frame, or a plane at another size, leaves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import av

_Sample = TypeVar("_Sample", np.uint8, np.uint16)

CHROMA_STEPS = {"420": (2, 2), "422": (2, 1), "444": (1, 1)}
"""Pixels per chroma sample, across and down."""

PLANAR = re.compile(r"yuvj?(?P<chroma>420|422|444)p(?P<deep>(?:9|10|12|14|16)le)?")
"""Formats of three planes, of one byte a sample or, deeper, of two."""

PACKED_YUV = frozenset({"yuyv422", "yvyu422", "uyvy422", "uyyvyy411"})


def cut_frame(frame: av.VideoFrame, box: tuple[int, int, int, int]) -> tuple[av.VideoFrame, int, int] | None:
    """A frame of the box x1, y1, x2, y2 alone, and where the box begins in it: chroma is cut in whole steps.

    The scaler makes of it, unscaled, exactly the pixels that it makes of the whole frame.

    Returns:
        None where the frame has not three planes, or an odd height: the scaler takes another way for odd
        heights, with other colours, and where samples are deeper than a byte for odd widths, too.
    """
    name = frame.format.name
    layout = PLANAR.fullmatch(name)
    if layout is None or frame.height % 2 or (layout["deep"] and frame.width % 2):
        return None
    steps, deep = CHROMA_STEPS[layout["chroma"]], layout["deep"] is not None
    x1, y1, x2, y2 = box
    # Chroma of deeper samples is interpolated from the step beside it.
    beside = 2 if deep else 0
    left, top = (max(first - beside, 0) // 2 * 2 for first in (x1, y1))
    right = min(-(-(x2 + beside) // 2) * 2, frame.width)
    bottom = min(-(-(y2 + beside) // 2) * 2, frame.height)
    part = _frame_like(frame, right - left, bottom - top, deep)
    for number, (source, target) in enumerate(zip(frame.planes, part.planes, strict=True)):
        across, down = steps if number else (1, 1)
        window = np.s_[top // down : -(-bottom // down), left // across : -(-right // across)]
        pixels = _plane(source, deep)[window]
        _plane(target, deep)[: pixels.shape[0], : pixels.shape[1]] = pixels
    return part, x1 - left, y1 - top


def _frame_like(frame: av.VideoFrame, width: int, height: int, deep: bool) -> av.VideoFrame:
    """A frame of another size, of the same format and matrix, with pixels of any kind."""
    if deep:
        # Only the scaler's frames say also where chroma lies between the pixels, and there it counts.
        from av.video.reformatter import VideoReformatter

        return VideoReformatter().reformat(frame, width, height, interpolation="POINT", threads=1)
    part = type(frame)(width, height, frame.format.name)
    part.colorspace, part.color_range = frame.colorspace, frame.color_range
    return part


def luma_plane(frame: av.VideoFrame) -> tuple[NDArray[np.uint8] | NDArray[np.uint16], int] | None:
    """(H, W) the samples of plane 0 where they are brightness, a view, and how many bits each has.

    Returns:
        None where plane 0 holds something else as well, or samples whose bytes are in another order.
    """
    name, bits = frame.format.name, frame.format.components[0].bits
    if name in PACKED_YUV or not name.startswith(("yuv", "nv", "gray")):
        return None
    if bits != 8 and not (name.startswith(("yuv", "gray")) and name.endswith("le")):
        return None
    return _plane(frame.planes[0], bits > 8)[: frame.height, : frame.width], bits


def in_bytes(samples: NDArray[np.uint8] | NDArray[np.uint16], bits: int) -> NDArray[np.uint8]:
    """The highest 8 bits of samples of so many."""
    if samples.dtype == np.uint8:
        return np.asarray(samples, np.uint8)
    return np.right_shift(samples, bits - 8, dtype=np.uint16).astype(np.uint8)


def thinned(luma: NDArray, rows: int, columns: int) -> NDArray:
    """(H, W) as every so many-th row and column, so that at least that many are left; a view."""
    return luma[:: max(1, luma.shape[0] // rows), :: max(1, luma.shape[1] // columns)]


def _plane(plane: Any, deep: bool) -> NDArray:
    kind = np.dtype("<u2") if deep else np.dtype(np.uint8)
    return np.frombuffer(memoryview(plane), kind).reshape(-1, plane.line_size // kind.itemsize)


def strided(luma: NDArray[np.uint8], along: int) -> NDArray[np.uint8]:
    """Every so many pixels, about `along` of them along the longer side; at least one along the other."""
    step = max(1, max(luma.shape) // along)
    rows, columns = (np.s_[min(step // 2, side - 1) :: step] for side in luma.shape)
    return luma[rows, columns]


def halved(picture: NDArray[_Sample], width: int, height: int) -> NDArray[_Sample]:
    """A plane or picture halved by averages, as often as that leaves at least (width, height)."""
    while picture.shape[0] >= 2 * height and picture.shape[1] >= 2 * width and min(picture.shape[:2]) > 1:
        half = (picture.shape[1] // 2, picture.shape[0] // 2)
        even = picture[: 2 * half[1], : 2 * half[0]]
        picture = np.asarray(cv2.resize(even, half, interpolation=cv2.INTER_AREA), picture.dtype)
    return picture


def scaled(picture: NDArray[_Sample], width: int, height: int) -> NDArray[_Sample]:
    """A plane or picture at another size, shrunk by averaging.

    Halving is the one ratio for which averaging is quick, so it is halved as long as that does not shrink
    too much; what is left, less than a half, is interpolated: a fifth of the time that averages take.
    """
    picture = halved(picture, width, height)
    if picture.shape[:2] == (height, width):
        return picture
    made = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(made, picture.dtype)
