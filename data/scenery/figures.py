"""A point spacing and a step of the gait enter, the cloud of a person or a cat leaves, facing +x on z = 0."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from scenery.clouds import Cloud, Picture, Triple, box, ellipsoid, join, lathe, surface
from scenery.textures import Colour, cloth, clouds, generator, tinted

SKIN: Colour = (206, 160, 130)


@dataclass(frozen=True)
class Person:
    """What tells one person from another.

    Attributes:
        top, trousers, hair, shoes, skin: colours.
        vest: colour of a sleeveless vest with two reflecting bands, over the top.
        cap: colour of a cap, or None.
        carries: 'parcel', 'bag', 'umbrella-dots', 'umbrella-plain', 'umbrella-stripes' or None.
        skirt: whether the trousers' cloth is worn as a long skirt.
        stripes: colour of stripes across the top, or None.
    """

    top: Colour
    trousers: Colour
    hair: Colour = (54, 40, 32)
    shoes: Colour = (40, 36, 34)
    skin: Colour = SKIN
    vest: Colour | None = None
    cap: Colour | None = None
    carries: str | None = None
    skirt: bool = False
    stripes: Colour | None = None
    height: float = 1.76

    def __call__(self, spacing: float, phase: float) -> Cloud:
        """The person at `phase` (0 to 1) of a double step."""
        scale = self.height / 1.76
        fine = spacing / scale
        swing = np.sin(2 * np.pi * phase)
        bob = 0.02 * abs(np.cos(2 * np.pi * phase))
        parts = [_torso(self, fine), _head(self, fine)]
        for side, forward in ((-1, swing), (1, -swing)):
            parts.append(_leg(self, fine, side, forward, phase + (0.0 if side < 0 else 0.5)))
            parts.append(_arm(self, fine, side, -forward))
        if self.skirt:
            hem = lathe(
                (0, 0, 0.38), (0, 0, 0.98), (0.27, 0.22, 0.16), cloth(self.trousers, 5), fine, flatten=0.8
            )
            parts.append(hem.both_sides())
        if self.carries:
            parts.append(_load(self.carries, fine))
        # Parts are modelled facing -y; figures face +x.
        return join(parts).turned(90).moved((0, 0, bob), scale)


def _torso(person: Person, spacing: float) -> Cloud:
    """Chest and hips, its clothes wrapped around; the middle of the picture is the front."""
    picture = cloth(person.vest or person.top, 21, 160, 240)
    if person.stripes:
        for row in range(12, 150, 26):
            picture[row : row + 11] = (picture[row : row + 11] * 0.2 + np.array(person.stripes) * 0.8).astype(
                np.uint8
            )
    if person.vest:
        for row in (78, 112):
            picture[row : row + 13] = (206, 210, 208)
        for column in (92, 140, 20, 212):
            picture[:112, column : column + 9] = (206, 210, 208)
        cv2.line(picture, (120, 0), (120, 160), (120, 66, 20), 2)
        collar = np.array([[104, 0], [136, 0], [120, 40]], np.int32)
        cv2.fillPoly(picture, [collar], person.top)
    else:
        cv2.ellipse(picture, (120, 0), (15, 12), 0, 0, 360, person.skin, -1)
        cv2.line(picture, (120, 14), (120, 160), tuple(int(c * 0.75) for c in person.top), 1)
    radii = (0.165, 0.16, 0.165, 0.185, 0.205, 0.2, 0.13, 0.07)
    return lathe((0, 0, 0.9), (0, 0, 1.5), radii, picture, spacing, flatten=0.62)


def _head(person: Person, spacing: float) -> Cloud:
    """Neck, face, hair, and a cap with its peak to the front."""
    face = tinted(person.skin, clouds(96, 128, 31, 20, 2), 0.06)
    face[:, :34] = face[:, 94:] = person.hair
    face[:38] = person.hair
    for x in (54, 74):
        cv2.circle(face, (x, 48), 3, (40, 30, 28), -1, cv2.LINE_AA)
        cv2.line(face, (x - 4, 42), (x + 4, 42), person.hair, 1)
    cv2.line(face, (58, 68), (70, 68), (150, 80, 76), 2, cv2.LINE_AA)
    cv2.ellipse(face, (64, 57), (3, 5), 0, 0, 360, tuple(int(c * 0.85) for c in person.skin), -1)
    parts = [
        lathe((0, 0, 1.46), (0, -0.01, 1.58), (0.055, 0.055), person.skin, spacing),
        ellipsoid((0, -0.015, 1.64), (0.088, 0.1, 0.122), face, spacing),
    ]
    if person.cap:
        parts.append(ellipsoid((0, -0.01, 1.665), (0.099, 0.112, 0.115), person.cap, spacing, low=0.1))
        parts.append(box((-0.07, -0.2, 1.675), (0.07, -0.09, 1.69), person.cap, spacing))
    else:
        parts.append(ellipsoid((0, 0.01, 1.655), (0.098, 0.108, 0.122), person.hair, spacing, low=0.25))
    return join(parts)


def _leg(person: Person, spacing: float, side: int, forward: float, phase: float) -> Cloud:
    """One leg with its shoe; `forward` in [-1, 1] is where it swings, the knee bends when it is lifted."""
    hip = np.array([0.09 * side, 0.0, 0.92])
    thigh = np.radians(26) * forward
    bend = np.radians(42) * max(0.0, float(np.cos(2 * np.pi * phase)))
    knee = hip + 0.43 * np.array([0, -np.sin(thigh), -np.cos(thigh)])
    ankle = knee + 0.42 * np.array([0, -np.sin(thigh - bend), -np.cos(thigh - bend)])
    fabric = cloth(person.trousers, 41 + side) if not person.skirt else person.skin
    toe = ankle + np.array([0, -0.13, -0.035])
    return join(
        [
            lathe(tuple(knee), tuple(hip), (0.062, 0.075, 0.092), fabric, spacing),
            lathe(tuple(ankle), tuple(knee), (0.052, 0.056, 0.064), fabric, spacing),
            lathe(
                tuple(ankle + np.array([0, 0.05, -0.035])),
                tuple(toe),
                (0.04, 0.05, 0.035),
                person.shoes,
                spacing,
            ),
        ]
    )


def _arm(person: Person, spacing: float, side: int, forward: float) -> Cloud:
    """One arm: swinging, bent under a parcel, or raised to hold an umbrella."""
    shoulder = np.array([0.2 * side, 0.0, 1.41])
    if person.carries == "parcel":
        elbow, hand = shoulder + np.array([0.03 * side, 0.04, -0.27]), np.array([0.13 * side, -0.26, 1.12])
    elif person.carries and person.carries.startswith("umbrella") and side > 0:
        elbow, hand = shoulder + np.array([0.02, -0.06, -0.25]), np.array([0.14, -0.2, 1.3])
    else:
        angle = np.radians(24) * forward
        elbow = shoulder + 0.28 * np.array([0.1 * side, -np.sin(angle), -np.cos(angle)])
        hand = elbow + 0.25 * np.array([0, -np.sin(angle + 0.35), -np.cos(angle + 0.35)])
    sleeve = cloth(person.top, 51 + side)
    return join(
        [
            lathe(tuple(elbow), tuple(shoulder), (0.046, 0.055, 0.066), sleeve, spacing),
            lathe(tuple(hand), tuple(elbow), (0.034, 0.045), sleeve, spacing),
            ellipsoid(tuple(hand), (0.042, 0.042, 0.05), person.skin, spacing),
        ]
    )


def _load(name: str, spacing: float) -> Cloud:
    """What a person carries."""
    if name == "parcel":
        card = tinted((176, 132, 84), clouds(80, 100, 61, 30, 3), 0.1)
        card[:, 44:56] = (214, 190, 140)
        label = card.copy()
        cv2.rectangle(label, (8, 20), (38, 52), (240, 238, 230), -1)
        for row in (28, 35, 42):
            cv2.line(label, (12, row), (32, row), (60, 60, 60), 1)
        return box(
            (-0.21, -0.52, 1.0), (0.21, -0.2, 1.3), card, spacing, front=label, left=label, right=label
        )
    if name == "bag":
        leather = tinted((104, 62, 40), clouds(60, 60, 63, 20, 3), 0.2)
        strap = lathe((0.25, 0.02, 0.86), (0.2, 0.0, 1.42), (0.012, 0.012), (70, 42, 28), spacing)
        return join([box((0.22, -0.14, 0.62), (0.32, 0.14, 0.88), leather, spacing, 0.2), strap])
    return _umbrella(name.removeprefix("umbrella-"), spacing)


def _umbrella(pattern: str, spacing: float) -> Cloud:
    """An open umbrella of eight panels over the right shoulder."""
    picture = cloth((196, 38, 52), 71, 160, 480)
    if pattern == "dots":
        for row, shift in ((36, 0), (76, 15), (118, 0)):
            size = 6 + row // 16
            for column in range(shift, 480, 30):
                cv2.ellipse(
                    picture,
                    (column + 8, row),
                    (size * 2 // 3, size),
                    0,
                    0,
                    360,
                    (246, 242, 234),
                    -1,
                    cv2.LINE_AA,
                )
    elif pattern == "stripes":
        for column in range(0, 480, 60):
            picture[:, column : column + 30] = (240, 236, 226)
    for column in range(0, 480, 60):
        cv2.line(picture, (column, 0), (column, 160), (120, 20, 34), 2)

    def shape(u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        around, up = (u - 0.5) * (2 * np.pi), v * (np.pi / 2)
        radius = 0.58 * np.cos(up) * (1 - 0.05 * np.abs(np.sin(4 * around)) * (1 - v))
        return (
            radius * np.sin(around),
            -radius * np.cos(around),
            0.3 * np.sin(up) - 0.03 * np.cos(4 * around) ** 2 * (1 - v),
        )

    canopy = surface(shape, 3.64, 0.75, picture, spacing).both_sides().moved((0.14, -0.1, 1.78))
    stick = lathe((0.14, -0.2, 1.2), (0.14, -0.1, 2.16), (0.012, 0.012), (50, 40, 36), spacing)
    return join([canopy, stick])


@dataclass(frozen=True)
class Cat:
    """A cat: the colours of its fur, of its stripes (or None), of belly and paws."""

    fur: Colour
    stripes: Colour | None
    belly: Colour
    size: float = 1.0

    def __call__(self, spacing: float, phase: float) -> Cloud:
        """The cat at `phase` (0 to 1) of a step."""
        fine = spacing / self.size
        turn = 2 * np.pi * phase
        coat, face = self._coat(), self._face()
        # The body lies along x: its picture runs along the spine, the belly at three quarters of its width.
        parts = [
            lathe(
                (-0.2, 0, 0.27), (0.19, 0, 0.29), (0.03, 0.088, 0.095, 0.085, 0.085, 0.08, 0.035), coat, fine
            ),
            ellipsoid((0, 0, 0), (0.067, 0.06, 0.06), face, fine).turned(90).moved((0.25, 0, 0.345)),
        ]
        for side in (-1, 1):
            parts.append(
                lathe((0.235, side * 0.04, 0.385), (0.23, side * 0.047, 0.44), (0.026, 0.004), self.fur, fine)
            )
            for x, lag in ((0.13, 0.0), (-0.14, 0.5)):
                swing = 0.05 * np.sin(turn + np.pi * (lag * 2 + (side > 0)))
                foot = (x + swing, side * 0.045, 0.02)
                parts.append(
                    lathe(foot, (x, side * 0.045, 0.24), (0.022, 0.022, 0.032, 0.04), self._leg(), fine)
                )
        sway = 0.03 * np.sin(turn)
        bones: list[Triple] = [
            (-0.19, 0, 0.29),
            (-0.28, sway, 0.33),
            (-0.33, 2 * sway, 0.43),
            (-0.31, 2 * sway, 0.53),
        ]
        for index, (start, stop) in enumerate(pairwise(bones)):
            ringed = self.stripes if self.stripes and index % 2 else self.fur
            parts.append(lathe(start, stop, (0.026, 0.024), ringed, fine))
        return join(parts).moved((0, 0, 0), self.size)

    def _coat(self) -> Picture:
        picture = tinted(self.fur, clouds(180, 120, 81, 10, 3), 0.22)
        if self.stripes:
            random = generator(83)
            for row in range(10, 180, 15):
                wave = row + 3 * np.sin(np.linspace(0, 9, 40) + random.uniform(0, 6))
                line = np.stack([np.linspace(0, 119, 40), wave], axis=1).astype(np.int32)
                cv2.polylines(picture, [line], False, self.stripes, int(random.integers(5, 8)), cv2.LINE_AA)
        picture[:, 80:100] = (picture[:, 80:100] * 0.2 + np.array(self.belly) * 0.8).astype(np.uint8)
        return picture

    def _face(self) -> Picture:
        picture = tinted(self.fur, clouds(80, 120, 85, 10, 3), 0.18)
        if self.stripes:
            for x in (48, 56, 64, 72):
                cv2.line(picture, (x, 4), (60 + (x - 60) // 2, 30), self.stripes, 3, cv2.LINE_AA)
            for x in (20, 32, 88, 100):
                cv2.line(picture, (x, 20), (x, 60), self.stripes, 4, cv2.LINE_AA)
        cv2.ellipse(picture, (60, 56), (11, 12), 0, 0, 360, self.belly, -1, cv2.LINE_AA)
        for x in (50, 70):
            cv2.ellipse(picture, (x, 37), (5, 4), 0, 0, 360, (180, 200, 80), -1, cv2.LINE_AA)
            cv2.line(picture, (x, 33), (x, 41), (20, 20, 20), 2)
        cv2.circle(picture, (60, 48), 3, (200, 110, 110), -1, cv2.LINE_AA)
        return picture

    def _leg(self) -> Picture:
        picture = tinted(self.fur, clouds(60, 30, 87, 8, 2), 0.2)
        if self.stripes:
            picture[8:14] = picture[22:28] = self.stripes
        picture[44:] = self.belly
        return picture


COURIER = Person((44, 52, 74), (38, 46, 70), vest=(238, 116, 28), cap=(34, 62, 120), carries="parcel")
ORANGE_SHIRT = Person((232, 118, 38), (70, 94, 136), hair=(34, 28, 26), height=1.8)
ROAD_WORKER = Person((206, 210, 60), (60, 64, 60), vest=(224, 214, 40), cap=(240, 240, 236))
DOTTED_UMBRELLA = Person(
    (52, 88, 92), (44, 44, 60), hair=(96, 60, 36), carries="umbrella-dots", skirt=True, height=1.68
)
PLAIN_UMBRELLA = Person((60, 84, 96), (48, 48, 60), hair=(60, 44, 36), carries="umbrella-plain", height=1.7)
STRIPED_UMBRELLA = Person((120, 110, 96), (58, 60, 84), carries="umbrella-stripes", height=1.72)
GREEN_JUMPER = Person((62, 108, 70), (116, 104, 84), hair=(150, 104, 54), skin=(226, 186, 160))
SAILOR_SHIRT = Person((232, 230, 224), (52, 66, 104), stripes=(40, 52, 96), height=1.7)

STRIPED_CAT = Cat((206, 136, 66), (96, 52, 24), (244, 234, 216), 1.15)
GREY_CAT = Cat((126, 128, 134), None, (214, 214, 212), 1.1)
GINGER_CAT = Cat((208, 138, 70), None, (226, 186, 136), 1.15)
