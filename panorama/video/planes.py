"""The planes of a decoded frame enter; RGB of any rectangle leaves, converted at the size wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray

CHROMA_STEPS = {"420": (2, 2), "422": (2, 1), "444": (1, 1)}
FULL_RANGE = 2

# Luma weights of red and blue, by the number that the stream names its matrix with; unnamed is BT.601.
WEIGHTS = {1: (0.2126, 0.0722), 4: (0.30, 0.11), 7: (0.212, 0.087), 9: (0.2627, 0.0593), 10: (0.2627, 0.0593)}
BT601 = (0.299, 0.114)


@dataclass(frozen=True, slots=True)
class Planes:
    """Luma and chroma in one byte a sample, as they lie in the decoded frame, not rotated.

    Attributes:
        luma: (H, W) uint8.
        blue, red: (ceil(H / step_y), ceil(W / step_x)) uint8 colour differences.
        steps: pixels per chroma sample, across and down.
        to_rgb: (3, 4) float32: a pixel's (Y, Cb, Cr, 1) to its (R, G, B).
    """

    luma: NDArray[np.uint8]
    blue: NDArray[np.uint8]
    red: NDArray[np.uint8]
    steps: tuple[int, int]
    to_rgb: NDArray[np.float32]

    def __post_init__(self) -> None:
        height, width = self.luma.shape
        wanted = (-(-height // self.steps[1]), -(-width // self.steps[0]))
        if self.blue.shape != wanted or self.red.shape != wanted:
            raise ValueError(
                f"chroma of {wanted} goes with this luma, got {self.blue.shape}, {self.red.shape}"
            )

    @classmethod
    def of(cls, frame: av.VideoFrame) -> Planes | None:
        """Views of a frame's planes; None where it has not three of one byte a sample."""
        name = frame.format.name
        step = CHROMA_STEPS.get(name.removeprefix("yuvj").removeprefix("yuv").removesuffix("p"))
        if step is None or not name.startswith("yuv"):
            return None
        y, u, v = (_plane(p) for p in frame.planes)
        height, width = -(-frame.height // step[1]), -(-frame.width // step[0])
        matrix = rgb_matrix(int(frame.colorspace), name.startswith("yuvj") or frame.color_range == FULL_RANGE)
        return cls(y[: frame.height, : frame.width], u[:height, :width], v[:height, :width], step, matrix)

    def rgb(self, box: tuple[int, int, int, int], width: int, height: int) -> NDArray[np.uint8]:
        """(height, width, 3) uint8 of the half-open box x1, y1, x2, y2, in pixels of the luma plane.

        Each plane is brought to the size first: a pixel that is not kept is not converted.
        """
        x1, y1, x2, y2 = box
        across, down = self.steps
        if (x2 - x1, y2 - y1) == (width, height):
            return self._as_it_is(box)
        colour = np.s_[y1 // down : -(-y2 // down), x1 // across : -(-x2 // across)]
        parts = [self.luma[y1:y2, x1:x2], self.blue[colour], self.red[colour]]
        return self._converted([scaled(part, width, height) for part in parts])

    def _as_it_is(self, box: tuple[int, int, int, int]) -> NDArray[np.uint8]:
        """RGB without scaling: chroma is spread over whole steps, then what the box leaves out is cut off."""
        x1, y1, x2, y2 = box
        across, down = self.steps
        left, top = x1 // across * across, y1 // down * down
        right = min(-(-x2 // across) * across, self.luma.shape[1])
        bottom = min(-(-y2 // down) * down, self.luma.shape[0])
        colour = np.s_[top // down : -(-bottom // down), left // across : -(-right // across)]
        spread = [cv2.resize(plane[colour], None, fx=across, fy=down) for plane in (self.blue, self.red)]
        spread = [plane[: bottom - top, : right - left] for plane in spread]
        rgb = self._converted([self.luma[top:bottom, left:right], *spread])
        return np.ascontiguousarray(rgb[y1 - top : y2 - top, x1 - left : x2 - left])

    def _converted(self, parts: list[Any]) -> NDArray[np.uint8]:
        return np.asarray(cv2.transform(cv2.merge(parts), self.to_rgb), np.uint8)


def _plane(plane: Any) -> NDArray[np.uint8]:
    return np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)


def rgb_matrix(colorspace: int, full_range: bool) -> NDArray[np.float32]:
    """(3, 4) from (Y, Cb, Cr, 1), each in 0..255, to (R, G, B); ITU-R BT.601 or the matrix that is named."""
    red, blue = WEIGHTS.get(colorspace, BT601)
    green = 1 - red - blue
    light, colour = (1.0, 1.0) if full_range else (255 / 219, 255 / 224)
    to_rgb = np.array(
        [
            [light, 0, 2 * (1 - red) * colour],
            [light, -2 * blue * (1 - blue) / green * colour, -2 * red * (1 - red) / green * colour],
            [light, 2 * (1 - blue) * colour, 0],
        ]
    )
    zero = np.array([0.0 if full_range else 16.0, 128.0, 128.0])
    return np.column_stack([to_rgb, -to_rgb @ zero]).astype(np.float32)


def scaled(plane: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """A plane at another size: by area when it shrinks.

    Halving is the one ratio for which averaging is quick, so it is halved as long as that does not shrink
    too much: a fifth of the time for a frame of 1920 x 1080.
    """
    while plane.shape[0] >= 2 * height and plane.shape[1] >= 2 * width and min(plane.shape) > 1:
        half = (plane.shape[1] // 2, plane.shape[0] // 2)
        even = plane[: 2 * half[1], : 2 * half[0]]
        plane = np.asarray(cv2.resize(even, half, interpolation=cv2.INTER_AREA), np.uint8)
    if plane.shape == (height, width):
        return plane
    shrinks = plane.shape[0] * plane.shape[1] > width * height
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(plane, (width, height), interpolation=how), np.uint8)
