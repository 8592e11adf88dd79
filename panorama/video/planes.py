"""A decoded frame's planes enter; a rectangle of them as a frame, or a plane at another size, leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import av

CHROMA_STEPS = {"420": (2, 2), "422": (2, 1), "444": (1, 1)}
"""Pixels per chroma sample, across and down."""


def cut_frame(frame: av.VideoFrame, box: tuple[int, int, int, int]) -> tuple[av.VideoFrame, int, int] | None:
    """A frame of the box x1, y1, x2, y2 alone, and where the box begins in it: chroma is cut in whole steps.

    The scaler makes of it, unscaled, exactly the pixels that it makes of the whole frame.

    Returns:
        None where the frame has not three planes of one byte a sample, or an odd height: the scaler takes
        another way for odd heights, with other colours.
    """
    name = frame.format.name
    steps = CHROMA_STEPS.get(name.removeprefix("yuvj").removeprefix("yuv").removesuffix("p"))
    if steps is None or not name.startswith("yuv") or frame.height % 2:
        return None
    x1, y1, x2, y2 = box
    left, top = x1 // 2 * 2, y1 // 2 * 2
    right, bottom = min(-(-x2 // 2) * 2, frame.width), -(-y2 // 2) * 2
    part = type(frame)(right - left, bottom - top, name)
    part.colorspace, part.color_range = frame.colorspace, frame.color_range
    for number, (source, target) in enumerate(zip(frame.planes, part.planes, strict=True)):
        across, down = steps if number else (1, 1)
        window = np.s_[top // down : -(-bottom // down), left // across : -(-right // across)]
        pixels = _plane(source)[window]
        _plane(target)[: pixels.shape[0], : pixels.shape[1]] = pixels
    return part, x1 - left, y1 - top


def _plane(plane: Any) -> NDArray[np.uint8]:
    return np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)


def strided(luma: NDArray[np.uint8], along: int) -> NDArray[np.uint8]:
    """Every so many pixels, about `along` of them along the longer side; at least one along the other."""
    step = max(1, max(luma.shape) // along)
    rows, columns = (np.s_[min(step // 2, side - 1) :: step] for side in luma.shape)
    return luma[rows, columns]


def halved(picture: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """A plane or picture halved by averages, as often as that leaves at least (width, height)."""
    while picture.shape[0] >= 2 * height and picture.shape[1] >= 2 * width and min(picture.shape[:2]) > 1:
        half = (picture.shape[1] // 2, picture.shape[0] // 2)
        even = picture[: 2 * half[1], : 2 * half[0]]
        picture = np.asarray(cv2.resize(even, half, interpolation=cv2.INTER_AREA), np.uint8)
    return picture


def scaled(picture: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """A plane or picture at another size, shrunk by averaging.

    Halving is the one ratio for which averaging is quick, so it is halved as long as that does not shrink
    too much; what is left, less than a half, is interpolated: a fifth of the time that averages take.
    """
    picture = halved(picture, width, height)
    if picture.shape[:2] == (height, width):
        return picture
    return np.asarray(cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR), np.uint8)
