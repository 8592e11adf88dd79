"""A point spacing enters, the cloud of a car or a van leaves: nose towards +x, standing on z = 0.

A body is a side outline given a width. The panels are painted: glass, doors, lamps, lettering.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import cv2
import numpy as np

from scenery.clouds import Cloud, Picture, box, disc, join, lathe, patch
from scenery.textures import Colour, as_mask, clouds, tinted, word

PIXELS_PER_METRE = 110
GLASS: Colour = (38, 46, 56)


@dataclass(frozen=True)
class Vehicle:
    """What tells one vehicle from another.

    Attributes:
        paint, roof: colours of body and roof.
        hood, screen, rear, tail: x of the windscreen's foot, its top, the rear window's top and its foot.
        length, width, belt, height: metres; `belt` is the lower edge of the windows.
        rim: colour of the wheels.
        marks: what is painted or mounted on it: 'courier-emblem', 'stripe', 'band', 'lettering', 'ladder',
            'stripes-on-hood', 'side-stripes', 'sunroof', 'roof-box'.
    """

    paint: Colour
    roof: Colour
    hood: float
    screen: float
    rear: float
    tail: float
    length: float = 4.2
    width: float = 1.75
    belt: float = 0.92
    height: float = 1.46
    rim: Colour = (176, 180, 186)
    van: bool = False
    marks: tuple[str, ...] = ()

    def __call__(self, spacing: float, phase: float) -> Cloud:
        """The whole vehicle; `phase` is not used, wheels look the same in every position."""
        parts = [
            *_body(self, spacing),
            *_cabin(self, spacing),
            *_wheels(self, spacing),
            *_lamps(self, spacing),
        ]
        return join([*parts, *_extras(self, spacing)])


def _lacquer(colour: Colour, rows: int, columns: int, seed: int) -> Picture:
    """Paint with a soft reflection of the surroundings: light above, dark along the sill."""
    down = np.linspace(0, 1, rows, dtype=np.float32)[:, None]
    reflection = 0.16 * np.cos(down * 5.0) - 0.25 * np.clip(down - 0.72, 0, 1)
    return tinted(colour, reflection + 0.05 * clouds(rows, columns, seed, 40, 3), 1.0)


def _glass(rows: int, columns: int, seed: int) -> Picture:
    """Dark glass with a slanting reflection."""
    picture = tinted(GLASS, clouds(rows, columns, seed, 60, 3), 0.35)
    band = np.array(
        [[columns * 0.25, 0], [columns * 0.45, 0], [columns * 0.25, rows], [columns * 0.05, rows]]
    )
    bright = picture.copy()
    cv2.fillPoly(bright, [band.astype(np.int32)], (128, 146, 160))
    return cv2.addWeighted(picture, 0.6, bright, 0.4, 0)


def _outline(car: Vehicle) -> list[tuple[float, float]]:
    """Side outline of the lower body, nose right, from the rear sill upwards and around."""
    back, front = -car.length / 2, car.length / 2
    drop = 0.04 if car.van else 0.2
    return [
        (back + 0.06, 0.26),
        (back, 0.45),
        (back + 0.03, car.belt - 0.04),
        (car.tail, car.belt),
        (car.hood, car.belt),
        (front - 0.25, car.belt - drop),
        (front - 0.04, car.belt - drop - 0.14),
        (front, 0.45),
        (front - 0.08, 0.24),
    ]


def _side_picture(car: Vehicle, seed: int) -> Picture:
    """The painted side panel as RGBA, nose right; transparent outside the outline and in the wheel arches."""
    scale, columns = PIXELS_PER_METRE, int(car.length * PIXELS_PER_METRE)
    rows = int(car.belt * scale)
    picture = _lacquer(car.paint, rows, columns, seed)

    def pixel(x: float, z: float) -> tuple[int, int]:
        return int((x + car.length / 2) * scale), int((car.belt - z) * scale)

    seam = tuple(int(c * 0.45) for c in car.paint)
    for x in (car.hood - 0.12, (car.hood + car.tail) / 2 - 0.1, car.tail + (1.2 if car.van else 0.45)):
        cv2.line(picture, pixel(x, car.belt), pixel(x - 0.04, 0.3), seam, 2, cv2.LINE_AA)
        cv2.rectangle(picture, pixel(x - 0.36, car.belt - 0.13), pixel(x - 0.16, car.belt - 0.18), seam, -1)
    cv2.rectangle(picture, pixel(-9, 0.34), pixel(9, 0.2), (34, 34, 36), -1)
    if "stripe" in car.marks:
        cv2.rectangle(picture, pixel(-9, car.belt - 0.2), pixel(9, car.belt - 0.36), (236, 236, 230), -1)
    if "band" in car.marks:
        cv2.rectangle(picture, pixel(-9, car.belt - 0.16), pixel(9, car.belt - 0.34), (44, 84, 160), -1)
    if "side-stripes" in car.marks:
        for z in (0.52, 0.43):
            cv2.line(picture, pixel(-9, z), pixel(9, z), (238, 236, 228), 5)
    mask = np.zeros((rows, columns), np.uint8)
    cv2.fillPoly(mask, [np.array([pixel(x, z) for x, z in _outline(car)], np.int32)], 1)
    for x in _axles(car):
        cv2.circle(mask, pixel(x, 0.32), int(0.37 * scale), 0, -1)
    return as_mask(mask > 0, picture)


def _axles(car: Vehicle) -> tuple[float, float]:
    return -car.length / 2 + 0.78, car.length / 2 - 0.82


def _body(car: Vehicle, spacing: float) -> list[Cloud]:
    """The lower body: two sides and a strip around the outline."""
    half, long = car.width / 2, car.length / 2
    side = _side_picture(car, 3)
    right = [(-long, -half, 0.0), (long, -half, 0.0), (long, -half, car.belt), (-long, -half, car.belt)]
    left = [(long, half, 0.0), (-long, half, 0.0), (-long, half, car.belt), (long, half, car.belt)]
    parts = [patch(right, side, spacing, 0.35), patch(left, side[:, ::-1], spacing, 0.35)]
    hood = _lacquer(car.paint, 90, 90, 5)
    if "stripes-on-hood" in car.marks:
        hood[:, 30:40] = hood[:, 50:60] = (238, 236, 228)
    points = _outline(car)
    for (x0, z0), (x1, z1) in pairwise(points):
        strip = [(x0, half, z0), (x0, -half, z0), (x1, -half, z1), (x1, half, z1)]
        level = abs(x1 - x0) > abs(z1 - z0)
        parts.append(patch(strip, hood if level else car.paint, spacing, 0.5))
    parts.append(
        box((-long + 0.2, -half + 0.1, 0.2), (long - 0.2, half - 0.1, 0.5), (24, 24, 26), spacing * 2)
    )
    return parts


def _cabin(car: Vehicle, spacing: float) -> list[Cloud]:
    """Windows and roof, leaning inwards."""
    half, top = car.width / 2 - 0.02, car.width / 2 - (0.09 if car.van else 0.2)
    belt, height = car.belt - 0.01, car.height
    rows, columns = 70, int(abs(car.hood - car.tail) * PIXELS_PER_METRE)
    side = _lacquer(car.paint, rows, columns, 11)
    glass = _glass(rows, columns, 13)
    whole, split = ((0.62, 0.97),), ((0.07, 0.46), (0.51, 0.95))
    for begin, end in whole if car.van else split:
        window = slice(8, rows - 2), slice(int(columns * begin), int(columns * end))
        side[window] = glass[window]
    if "courier-emblem" in car.marks:
        middle = (int(columns * 0.33), rows // 2)
        cv2.circle(side, middle, 31, (240, 196, 40), -1, cv2.LINE_AA)
        cv2.circle(side, middle, 24, (250, 246, 232), -1, cv2.LINE_AA)
        arrow = np.array([[-16, -6], [4, -6], [4, -15], [20, 0], [4, 15], [4, 6], [-16, 6]]) + middle
        cv2.fillPoly(side, [arrow.astype(np.int32)], (200, 40, 34), cv2.LINE_AA)
    mirrored = side[:, ::-1].copy()
    if "lettering" in car.marks:
        for face in (side, mirrored):
            start = 0.08 if face is side else 0.5
            word(face, "LINEN", (int(columns * start), 46), 1.1, (60, 90, 150), 3)
    right = [
        (car.tail, -half, belt),
        (car.hood, -half, belt),
        (car.screen, -top, height),
        (car.rear, -top, height),
    ]
    left = [
        (car.hood, half, belt),
        (car.tail, half, belt),
        (car.rear, top, height),
        (car.screen, top, height),
    ]
    front = [
        (car.hood, -half, belt),
        (car.hood, half, belt),
        (car.screen, top, height),
        (car.screen, -top, height),
    ]
    back = [
        (car.tail, half, belt),
        (car.tail, -half, belt),
        (car.rear, -top, height),
        (car.rear, top, height),
    ]
    roof = [
        (car.rear, -top, height),
        (car.screen, -top, height),
        (car.screen, top, height),
        (car.rear, top, height),
    ]
    screen, window = _framed(car.paint, 17), _framed(car.paint, 19)
    if car.van:
        window = cv2.resize(_lacquer(car.paint, 90, 90, 19), (90, 90))
        cv2.rectangle(window, (14, 8), (40, 50), GLASS, -1)
        cv2.rectangle(window, (50, 8), (76, 50), GLASS, -1)
    return [
        patch(right, side, spacing, 0.5),
        patch(left, mirrored, spacing, 0.5),
        patch(front, screen, spacing, 0.9),
        patch(back, window, spacing, 0.7),
        patch(roof, _roof(car), spacing, 0.5),
    ]


def _framed(paint: Colour, seed: int) -> Picture:
    picture = _glass(90, 90, seed)
    cv2.rectangle(picture, (0, 0), (89, 89), tuple(int(c * 0.8) for c in paint), 5)
    return picture


def _roof(car: Vehicle) -> Picture:
    """The roof from above, nose right."""
    picture = _lacquer(car.roof, 120, 200, 23)
    if "courier-emblem" in car.marks:
        cv2.circle(picture, (70, 60), 42, (240, 196, 40), -1, cv2.LINE_AA)
        cv2.circle(picture, (70, 60), 32, (250, 246, 232), -1, cv2.LINE_AA)
        cv2.arrowedLine(picture, (46, 60), (94, 60), (200, 40, 34), 9, cv2.LINE_AA, tipLength=0.45)
    if "stripes-on-hood" in car.marks:
        picture[42:54] = picture[66:78] = (238, 236, 228)
    if "sunroof" in car.marks:
        cv2.rectangle(picture, (90, 25), (160, 95), GLASS, -1)
    return picture


def _wheels(car: Vehicle, spacing: float) -> list[Cloud]:
    hub = np.full((96, 96, 3), 22, np.uint8)
    cv2.circle(hub, (48, 48), 32, tuple(int(c) for c in car.rim), -1, cv2.LINE_AA)
    for angle in np.arange(5) * 72 + 18:
        cv2.ellipse(hub, (48, 48), (30, 30), 0, angle, angle + 34, (44, 44, 48), -1, cv2.LINE_AA)
    cv2.circle(hub, (48, 48), 9, tuple(int(c) for c in car.rim), -1, cv2.LINE_AA)
    parts = []
    for x in _axles(car):
        for side in (-1, 1):
            edge = side * (car.width / 2 + 0.01)
            tyre = lathe((x, edge - side * 0.2, 0.32), (x, edge, 0.32), (0.32, 0.32), (26, 26, 28), spacing)
            face = disc((x, -car.width / 2 - 0.02, 0.32), 0.32, hub, spacing, 0.2)
            parts += [tyre, face if side < 0 else face.turned(180, about=(x, 0, 0))]
    return parts


def _lamps(car: Vehicle, spacing: float) -> list[Cloud]:
    """Head and tail lamps, bumpers, number plates."""
    front, back, parts = car.length / 2, -car.length / 2, []
    for side in (-1, 1):
        y0, y1 = sorted((side * car.width * 0.30, side * car.width * 0.49))
        parts.append(box((front - 0.16, y0, 0.52), (front + 0.015, y1, 0.67), (236, 238, 226), spacing, 1.0))
        high = car.belt if car.van else car.belt - 0.1
        parts.append(
            box((back - 0.015, y0, high - 0.26), (back + 0.1, y1, high - 0.06), (170, 20, 24), spacing, 0.6)
        )
    width = car.width * 0.5
    parts.append(box((front - 0.1, -width, 0.27), (front + 0.04, width, 0.4), (40, 40, 44), spacing))
    parts.append(box((back - 0.04, -width, 0.27), (back + 0.1, width, 0.42), (40, 40, 44), spacing))
    parts.append(box((front, -0.45, 0.42), (front + 0.02, 0.45, 0.5), (22, 22, 24), spacing, 0.4))
    parts.append(box((front, -0.25, 0.29), (front + 0.05, 0.25, 0.38), (232, 232, 226), spacing))
    parts.append(box((back - 0.05, -0.25, 0.5), (back, 0.25, 0.6), (232, 222, 120), spacing))
    return parts


def _extras(car: Vehicle, spacing: float) -> list[Cloud]:
    """Mirrors, and what is carried on the roof."""
    parts = []
    for side in (-1, 1):
        y0, y1 = sorted((side * car.width / 2, side * (car.width / 2 + 0.17)))
        low = (car.hood - 0.3, y0, car.belt + 0.02)
        parts.append(box(low, (car.hood - 0.18, y1, car.belt + 0.16), car.paint, spacing, 0.3))
    if "ladder" in car.marks:
        z = car.height + 0.12
        for y in (-0.5, -0.15):
            parts.append(box((-1.7, y, z), (1.0, y + 0.06, z + 0.06), (206, 208, 210), spacing, 0.4))
        for x in np.arange(-1.6, 1.0, 0.3):
            parts.append(box((x, -0.5, z), (x + 0.05, -0.1, z + 0.05), (190, 192, 196), spacing, 0.4))
    if "roof-box" in car.marks:
        z = car.height + 0.05
        parts.append(box((-0.9, -0.36, z), (0.55, 0.36, z + 0.28), (32, 34, 38), spacing, 0.5))
    return parts


def _van(paint: Colour, roof: Colour, *marks: str) -> Vehicle:
    return Vehicle(paint, roof, 1.75, 1.25, -2.36, -2.42, 4.9, 1.95, 1.08, 2.15, (150, 152, 156), True, marks)


def _hatchback(paint: Colour, roof: Colour, *marks: str, rim: Colour = (176, 180, 186)) -> Vehicle:
    return Vehicle(paint, roof, 0.98, 0.35, -1.45, -1.86, length=3.9, rim=rim, marks=marks)


def _saloon(paint: Colour, *marks: str) -> Vehicle:
    return Vehicle(paint, paint, 1.02, 0.3, -0.95, -1.5, length=4.6, marks=marks)


BLUE_VAN = _van((34, 78, 158), (34, 78, 158), "courier-emblem", "stripe")
WHITE_VAN = _van((222, 222, 216), (228, 228, 224), "band", "lettering", "ladder")
PLAIN_BLUE_VAN = _van((40, 84, 150), (214, 216, 220), "ladder")
BLUE_CAR = _hatchback((36, 82, 160), (36, 82, 160), "sunroof")
RED_HATCHBACK = _hatchback((178, 28, 34), (30, 30, 34), "stripes-on-hood", "side-stripes", rim=(60, 62, 66))
RED_SALOON = _saloon((172, 30, 36))
RED_ESTATE = Vehicle((184, 34, 30), (184, 34, 30), 1.02, 0.35, -1.95, -2.2, length=4.5, marks=("roof-box",))
SILVER_SALOON = _saloon((168, 172, 178), "sunroof")
GREEN_HATCHBACK = _hatchback((58, 104, 76), (58, 104, 76))
