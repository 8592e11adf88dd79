"""A point spacing enters, the cloud of a thing from a shelf leaves: boxes, bottles, tins, toys; front to -y.

Lengths are decimetres here: a cereal box is 3 high. Scenes of the shop use the same scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from scenery.clouds import Cloud, Picture, box, disc, ellipsoid, join, lathe
from scenery.textures import Colour, clouds, tinted, word


def _card(colour: Colour, seed: int, height: int = 180, width: int = 120) -> Picture:
    return tinted(colour, clouds(height, width, seed, 60, 3), 0.08)


def _sun_front() -> Picture:
    """A yellow front: a red sun with rays over a bowl."""
    picture = _card((240, 196, 44), 1)
    for angle in np.arange(0, 360, 30):
        tip = 60 + 50 * np.cos(np.radians(angle)), 78 + 50 * np.sin(np.radians(angle))
        cv2.line(picture, (60, 78), (int(tip[0]), int(tip[1])), (208, 40, 36), 7, cv2.LINE_AA)
    cv2.circle(picture, (60, 78), 31, (240, 196, 44), -1, cv2.LINE_AA)
    cv2.circle(picture, (60, 78), 27, (208, 40, 36), -1, cv2.LINE_AA)
    cv2.circle(picture, (51, 72), 4, (255, 240, 200), -1, cv2.LINE_AA)
    cv2.circle(picture, (69, 72), 4, (255, 240, 200), -1, cv2.LINE_AA)
    cv2.ellipse(picture, (60, 82), (13, 9), 0, 0, 180, (255, 240, 200), 3, cv2.LINE_AA)
    cv2.ellipse(picture, (60, 142), (44, 30), 0, 0, 180, (250, 248, 240), -1, cv2.LINE_AA)
    cv2.ellipse(picture, (60, 142), (44, 9), 0, 0, 360, (196, 132, 60), -1, cv2.LINE_AA)
    word(picture, "SOLIO", (18, 24), 0.85, (208, 40, 36), 2)
    return picture


def _check_front() -> Picture:
    """The same colours as the sun box, in another arrangement: red checks and a yellow star."""
    picture = _card((240, 196, 44), 2)
    for y in range(0, 180, 30):
        for x in range((y // 30) % 2 * 30, 120, 60):
            picture[y : y + 30, x : x + 30] = (208, 40, 36)
    cv2.rectangle(picture, (14, 60), (106, 122), (250, 248, 240), -1)
    word(picture, "KRIX", (22, 104), 1.0, (208, 40, 36), 3)
    return picture


def _wave_front() -> Picture:
    picture = _card((60, 130, 150), 3)
    for row in range(40, 150, 20):
        line = np.stack([np.arange(120), row + 8 * np.sin(np.arange(120) / 9)], axis=1).astype(np.int32)
        cv2.polylines(picture, [line], False, (236, 240, 236), 5, cv2.LINE_AA)
    word(picture, "MARO", (16, 28), 0.9, (250, 240, 200), 2)
    return picture


def _leaf_front() -> Picture:
    picture = _card((236, 232, 216), 4)
    for angle in (-40, 0, 40):
        cv2.ellipse(picture, (60 + angle // 2, 105), (14, 44), angle, 0, 360, (70, 130, 66), -1, cv2.LINE_AA)
    word(picture, "TEA", (30, 36), 1.0, (60, 96, 58), 2)
    return picture


@dataclass(frozen=True)
class Carton:
    """A box of card: 'sun', 'check', 'wave' or 'leaf' on its front, and its size."""

    design: str
    side: Colour
    width: float = 1.9
    depth: float = 0.65
    height: float = 2.9

    def __call__(self, spacing: float, phase: float) -> Cloud:
        """The box, standing."""
        front = {"sun": _sun_front, "check": _check_front, "wave": _wave_front, "leaf": _leaf_front}[
            self.design
        ]()
        edge = _card(self.side, 5, 180, 50)
        for row in range(40, 160, 12):
            cv2.line(edge, (8, row), (42, row), tuple(int(c * 0.6) for c in self.side), 2)
        x, y = self.width / 2, self.depth / 2
        return box(
            (-x, -y, 0), (x, y, self.height), self.side, spacing, 0.08,
            front=front, back=front, left=edge, right=edge,
        )  # fmt: skip


@dataclass(frozen=True)
class Robot:
    """A toy robot: colour, a square or a round head, a dial or a grille on its chest."""

    colour: Colour
    trim: Colour
    round_head: bool = False

    def __call__(self, spacing: float, phase: float) -> Cloud:
        """The robot, standing."""
        chest = tinted(self.colour, clouds(100, 100, 7, 40, 3), 0.08)
        cv2.rectangle(chest, (4, 4), (95, 95), tuple(int(c * 0.6) for c in self.colour), 2)
        if self.round_head:
            for row in range(25, 80, 11):
                cv2.line(chest, (22, row), (78, row), self.trim, 5)
        else:
            cv2.circle(chest, (34, 40), 20, (244, 240, 226), -1, cv2.LINE_AA)
            cv2.line(chest, (34, 40), (46, 28), (200, 40, 36), 4, cv2.LINE_AA)
            for y, colour in ((26, (214, 52, 44)), (48, (240, 200, 50)), (70, (84, 180, 90))):
                cv2.circle(chest, (76, y), 8, colour, -1, cv2.LINE_AA)
            cv2.rectangle(chest, (16, 72), (58, 86), self.trim, -1)
        parts = [box((-0.6, -0.35, 0.9), (0.6, 0.35, 2.0), self.colour, spacing, 0.4, front=chest)]
        parts += self._round_head(spacing) if self.round_head else self._square_head(spacing)
        for side in (-1, 1):
            x0, x1 = sorted((side * 0.66, side * 0.9))
            parts.append(
                lathe(
                    (side * 0.78, 0, 0.95), (side * 0.74, 0, 1.9), (0.15, 0.15, 0.15), self.trim, spacing, 0.4
                )
            )
            parts.append(box((x0, -0.2, 0.72), (x1, 0.2, 1.0), self.colour, spacing, 0.3))
            x0, x1 = sorted((side * 0.12, side * 0.5))
            parts.append(box((x0, -0.22, 0.15), (x1, 0.22, 0.95), self.trim, spacing, 0.3))
            parts.append(box((x0 - 0.04, -0.42, 0), (x1 + 0.04, 0.3, 0.2), self.colour, spacing, 0.3))
        return join(parts)

    def _square_head(self, spacing: float) -> list[Cloud]:
        face = np.full((60, 80, 3), self.colour, np.uint8)
        for x in (24, 56):
            cv2.circle(face, (x, 24), 12, (250, 236, 150), -1, cv2.LINE_AA)
            cv2.circle(face, (x, 24), 5, (30, 30, 30), -1, cv2.LINE_AA)
        cv2.rectangle(face, (20, 42), (60, 52), (40, 44, 48), -1)
        for x in range(26, 60, 8):
            cv2.line(face, (x, 42), (x, 52), (210, 210, 210), 2)
        antenna = lathe((0, 0, 2.7), (0, 0, 3.05), (0.03, 0.03), (150, 150, 154), spacing)
        return [
            box((-0.42, -0.32, 2.08), (0.42, 0.32, 2.72), self.colour, spacing, 0.4, front=face),
            antenna,
            ellipsoid((0, 0, 3.08), (0.1, 0.1, 0.1), (220, 48, 40), spacing, 0.6),
        ]

    def _round_head(self, spacing: float) -> list[Cloud]:
        face = np.full((60, 120, 3), self.colour, np.uint8)
        face[18:34] = (30, 34, 40)
        for x in (52, 68):
            cv2.circle(face, (x, 26), 4, (240, 80, 60), -1, cv2.LINE_AA)
        return [ellipsoid((0, 0, 2.0), (0.5, 0.42, 0.62), face, spacing, 0.5, low=0.0)]


@dataclass(frozen=True)
class Bottle:
    """A bottle with a label and a cap."""

    glass: Colour
    label: Colour
    cap: Colour

    def __call__(self, spacing: float, phase: float) -> Cloud:
        """The bottle, standing."""
        picture = np.full((150, 120, 3), self.glass, np.uint8)
        picture[60:118] = self.label
        cv2.circle(picture, (60, 88), 18, self.cap, -1, cv2.LINE_AA)
        picture[64:67] = picture[111:114] = self.cap
        radii = (0.4, 0.43, 0.43, 0.43, 0.43, 0.4, 0.2, 0.15, 0.15)
        top = lathe((0, 0, 2.75), (0, 0, 2.98), (0.18, 0.18), self.cap, spacing, 0.3)
        return join([lathe((0, 0, 0), (0, 0, 2.8), radii, picture, spacing, 0.9), top])


@dataclass(frozen=True)
class Tin:
    """A tin with a band around it."""

    colour: Colour
    band: Colour

    def __call__(self, spacing: float, phase: float) -> Cloud:
        """The tin, standing."""
        picture = np.full((90, 160, 3), self.colour, np.uint8)
        picture[26:64] = self.band
        for x in (40, 80, 120):
            cv2.ellipse(picture, (x, 45), (13, 11), 0, 0, 360, self.colour, -1, cv2.LINE_AA)
        picture[:5] = picture[-5:] = (190, 192, 196)
        lid = disc((0, 0, 0), 0.52, (200, 202, 206), spacing, 0.5).turned(-90, "x").moved((0, 0, 1.25))
        return join([lathe((0, 0, 0), (0, 0, 1.25), (0.52, 0.52), picture, spacing, 0.5), lid])


CEREAL_BOX = Carton("sun", (226, 176, 40))
CHECK_BOX = Carton("check", (226, 176, 40))
WAVE_BOX = Carton("wave", (52, 112, 130), 1.7, 0.7, 2.5)
TEA_BOX = Carton("leaf", (210, 206, 190), 1.5, 0.9, 1.9)
TOY_ROBOT = Robot((66, 150, 156), (226, 130, 44))
ROUND_ROBOT = Robot((66, 150, 156), (226, 130, 44), round_head=True)
RED_ROBOT = Robot((178, 58, 52), (150, 154, 160))
GREEN_BOTTLE = Bottle((40, 92, 58), (236, 230, 206), (170, 40, 40))
AMBER_BOTTLE = Bottle((124, 70, 26), (230, 196, 90), (40, 60, 40))
SOUP_TIN = Tin((190, 50, 44), (240, 232, 210))
PEA_TIN = Tin((70, 130, 70), (236, 226, 150))
