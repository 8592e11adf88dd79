"""A decoded frame's planes come in; a rectangle of them as a frame, or a plane at another size, goes out."""

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
"""Formats with three planes, of one byte per sample or, if deeper, two."""

PACKED_YUV = frozenset({"yuyv422", "yvyu422", "uyvy422", "uyyvyy411"})


def cut_frame(frame: av.VideoFrame, box: tuple[int, int, int, int]) -> tuple[av.VideoFrame, int, int] | None:
    """Cut the box x1, y1, x2, y2 out of a frame; the part may be a little larger, for whole chroma samples.

    Converted to RGB at its own size, the part has exactly the pixels of the converted frame.

    Returns:
        The part, and where the box begins in it (x, y). None if the frame does not have three planes or has
        an odd height, also in one of two fields, or samples deeper than a byte and an odd width: the scaler
        converts these in another way, with other colours.
    """
    name = frame.format.name
    layout = PLANAR.fullmatch(name)
    # The scaler converts the two fields of an interlaced frame separately: every other row, in all planes.
    fields = 2 if frame.interlaced_frame else 1
    if layout is None or frame.height % (2 * fields) or (layout["deep"] and frame.width % 2):
        return None
    steps, deep = CHROMA_STEPS[layout["chroma"]], layout["deep"] is not None
    x1, y1, x2, y2 = box
    # Chroma of deeper samples is interpolated with its neighbour.
    beside = 2 if deep else 0
    left, right = _widened(x1, x2, beside, 2, frame.width)
    top, bottom = _widened(y1, y2, beside * fields, 2 * fields, frame.height)
    part = _frame_like(frame, right - left, bottom - top, deep)
    for number, (source, target) in enumerate(zip(frame.planes, part.planes, strict=True)):
        across, down = steps if number else (1, 1)
        window = np.s_[top // down : -(-bottom // down), left // across : -(-right // across)]
        pixels = _plane(source, deep)[window]
        _plane(target, deep)[: pixels.shape[0], : pixels.shape[1]] = pixels
    return part, x1 - left, y1 - top


def _widened(first: int, last: int, beside: int, step: int, end: int) -> tuple[int, int]:
    """A range and `beside` on either side, widened to multiples of `step`, within [0, end)."""
    return max(first - beside, 0) // step * step, min(-(-(last + beside) // step) * step, end)


def _frame_like(frame: av.VideoFrame, width: int, height: int, deep: bool) -> av.VideoFrame:
    """A frame of another size with the same format and matrix; its pixels are arbitrary."""
    if deep or frame.interlaced_frame:
        # Deeper samples need the location of chroma between the pixels, and fields the flag that there are
        # two; only the scaler copies these.
        from av.video.reformatter import VideoReformatter

        return VideoReformatter().reformat(frame, width, height, interpolation="POINT", threads=1)
    part = type(frame)(width, height, frame.format.name)
    part.colorspace, part.color_range = frame.colorspace, frame.color_range
    return part


def luma_plane(frame: av.VideoFrame) -> tuple[NDArray[np.uint8] | NDArray[np.uint16], int] | None:
    """The brightness samples (H, W) of plane 0, as a view, and the number of bits of each.

    Returns:
        None if plane 0 contains anything else, or big-endian samples.
    """
    name, bits = frame.format.name, frame.format.components[0].bits
    if name in PACKED_YUV or not name.startswith(("yuv", "nv", "gray")):
        return None
    if bits != 8 and not (name.startswith(("yuv", "gray")) and name.endswith("le")):
        return None
    return _plane(frame.planes[0], bits > 8)[: frame.height, : frame.width], bits


def in_bytes(samples: NDArray[np.uint8] | NDArray[np.uint16], bits: int) -> NDArray[np.uint8]:
    """The highest 8 of `bits` bits of each sample."""
    if samples.dtype == np.uint8:
        return np.asarray(samples, np.uint8)
    return np.right_shift(samples, bits - 8, dtype=np.uint16).astype(np.uint8)


def thinned(luma: NDArray, rows: int, columns: int) -> NDArray:
    """Keep every n-th row and m-th column, so that at least `rows` and `columns` are left; a view."""
    return luma[:: max(1, luma.shape[0] // rows), :: max(1, luma.shape[1] // columns)]


def _plane(plane: Any, deep: bool) -> NDArray:
    kind = np.dtype("<u2") if deep else np.dtype(np.uint8)
    return np.frombuffer(memoryview(plane), kind).reshape(-1, plane.line_size // kind.itemsize)


def strided(luma: NDArray[np.uint8], along: int) -> NDArray[np.uint8]:
    """Keep every n-th pixel, about `along` of them along the longer side and at least one along the other."""
    step = max(1, max(luma.shape) // along)
    rows, columns = (np.s_[min(step // 2, side - 1) :: step] for side in luma.shape)
    return luma[rows, columns]


def halved(picture: NDArray[_Sample], width: int, height: int) -> NDArray[_Sample]:
    """A plane or picture halved by averaging, as often as at least (width, height) remains."""
    while picture.shape[0] >= 2 * height and picture.shape[1] >= 2 * width and min(picture.shape[:2]) > 1:
        half = (picture.shape[1] // 2, picture.shape[0] // 2)
        even = picture[: 2 * half[1], : 2 * half[0]]
        picture = np.asarray(cv2.resize(even, half, interpolation=cv2.INTER_AREA), picture.dtype)
    return picture


def scaled(picture: NDArray[_Sample], width: int, height: int) -> NDArray[_Sample]:
    """A plane or picture at another size.

    Averaging is fast only for halving, so it is halved as long as it is large enough; the remaining factor,
    below two, is interpolated. That takes a fifth of the time of averaging.
    """
    picture = halved(picture, width, height)
    if picture.shape[:2] == (height, width):
        return picture
    made = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LINEAR)
    return np.asarray(made, picture.dtype)
