"""A seed enters, the planes of a place leave, far to near: street, road from above, yard, shop, park."""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from scenery.camera import Plane
from scenery.clouds import Picture
from scenery.textures import (
    Colour,
    as_mask,
    asphalt,
    bricks,
    cloth,
    clouds,
    generator,
    grass,
    leaves,
    sky,
    slabs,
    tinted,
    wood,
    word,
)

Planes = tuple[Plane, ...]


def _ground(texture: Picture, x: tuple[float, float], y: tuple[float, float], z: float = 0.0) -> Plane:
    return Plane((x[0], y[0], z), (x[1] - x[0], 0, 0), (0, y[1] - y[0], 0), texture)


def _upright(texture: Picture, x: tuple[float, float], y: float, z: tuple[float, float]) -> Plane:
    return Plane((x[0], y, z[0]), (x[1] - x[0], 0, 0), (0, 0, z[1] - z[0]), texture)


def _trees(width: int, height: int, seed: int, crowns: int = 9) -> Picture:
    """A row of crowns and trunks, cut out."""
    random = generator(seed)
    picture = leaves(height, width, seed)
    mask = np.zeros((height, width), np.uint8)
    for number in range(crowns):
        x = int((number + random.uniform(0.2, 0.8)) * width / crowns)
        top = int(random.uniform(0.05, 0.3) * height)
        for _ in range(7):
            at = (x + int(random.normal(0, height * 0.13)), top + int(random.uniform(0.12, 0.5) * height))
            cv2.circle(mask, at, int(random.uniform(0.1, 0.18) * height), 1, -1)
        trunk = (x - 5, top + height // 3), (x + 5, height)
        cv2.rectangle(picture, (trunk[0][0], int(height * 0.75)), trunk[1], (74, 58, 44), -1)
        cv2.rectangle(mask, *trunk, 1, -1)
    return as_mask(mask > 0, picture)


def _iron_gate(wall: Picture, left: int, width: int, height: int) -> None:
    """An arched gate of iron bars with a garden behind, painted into a wall, in place."""
    rows = wall.shape[0]
    garden = leaves(rows, width, 77, (96, 128, 70))
    garden[int(rows * 0.72) :] = tinted(
        (186, 172, 140), clouds(rows - int(rows * 0.72), width, 78, 20, 3), 0.1
    )
    top = rows - height
    wall[top:, left : left + width] = garden[top:]
    for x in range(left, left + width + 1, 13):
        cv2.line(wall, (x, top), (x, rows), (28, 30, 34), 3, cv2.LINE_AA)
    for y in (top + 6, top + height // 2, rows - 8):
        cv2.line(wall, (left, y), (left + width, y), (28, 30, 34), 4, cv2.LINE_AA)
    for x in (left - 16, left + width):
        cv2.rectangle(wall, (x, max(0, top - 10)), (x + 16, rows), (176, 168, 154), -1)
        cv2.rectangle(wall, (x, max(0, top - 10)), (x + 16, rows), (120, 112, 100), 1)


def street(seed: int) -> Planes:
    """A street along x: a far pavement, a wall with a gate, trees and sky behind it.

    Road from y = -1.2 to 3.8, pavement to 6.5, wall there.
    """
    scale, x = 42, (-17.0, 17.0)
    columns = int((x[1] - x[0]) * scale)
    road = asphalt(int(11.5 * scale), columns, seed)  # y from -5 to 6.5; the picture's top row is y = 6.5

    def row(y: float) -> int:
        return int((6.5 - y) * scale)

    road[: row(3.95)] = slabs(row(3.95), columns, seed + 1, 30)
    road[row(3.95) : row(3.8)] = tinted(
        (186, 182, 174), clouds(row(3.8) - row(3.95), columns, seed, 20, 2), 0.12
    )
    road[row(-1.2) :] = slabs(road.shape[0] - row(-1.2), columns, seed + 2, 34, (148, 146, 142))
    road[row(-1.05) : row(-1.2)] = (182, 178, 170)
    for left in range(0, columns, 130):
        cv2.rectangle(road, (left, row(1.38)), (left + 70, row(1.26)), (216, 214, 206), -1)
    cv2.circle(road, (int(columns * 0.62), row(2.6)), 14, (62, 62, 64), -1, cv2.LINE_AA)
    wall = bricks(int(2.7 * scale), columns, seed + 3, (20, 7))
    wall[:10] = (170, 164, 152)
    _iron_gate(wall, int(columns * 0.47), 108, 92)
    poster = (int(columns * 0.36), 26)
    cv2.rectangle(wall, poster, (poster[0] + 46, poster[1] + 60), (228, 214, 176), -1)
    cv2.circle(wall, (poster[0] + 23, poster[1] + 24), 14, (60, 110, 120), -1, cv2.LINE_AA)
    word(wall, "FETE", (poster[0] + 4, poster[1] + 54), 0.5, (60, 40, 40), 1)
    ivy = leaves(wall.shape[0], 150, seed + 4, (58, 84, 44))
    edge = clouds(wall.shape[0], 150, seed + 5, 40, 4) + np.linspace(0.7, -0.7, wall.shape[0])[:, None] > 0
    start = int(columns * 0.62)
    wall[:, start : start + 150][edge] = ivy[edge]
    return (
        _upright(sky(300, 400, seed), (-60, 60), 34, (-4, 40)),
        _upright(_trees(1100, 260, seed + 6), (-34, 34), 17, (0, 9)),
        _ground(road, x, (-5, 6.5)),
        _upright(wall, x, 6.5, (0, 2.7)),
    )


def road_from_above(seed: int) -> Planes:
    """Two lanes along x between y = -3.6 and 3.6, verges, a drive and a crossing, to be seen from above."""
    scale, x, y = 30, (-22.0, 22.0), (-12.0, 16.0)
    columns, rows = int((x[1] - x[0]) * scale), int((y[1] - y[0]) * scale)
    picture = grass(rows, columns, seed, (98, 124, 68))

    def at(px: float, py: float) -> tuple[int, int]:
        return int((px - x[0]) * scale), int((y[1] - py) * scale)

    lanes = asphalt(rows, columns, seed + 1, (104, 104, 106))
    drive = slabs(rows, columns, seed + 2, 24, (150, 144, 136))
    band = slice(at(0, 3.6)[1], at(0, -3.6)[1])
    picture[: band.start, at(6, 0)[0] : at(10, 0)[0]] = drive[: band.start, at(6, 0)[0] : at(10, 0)[0]]
    for low, high in ((3.6, 5.2), (-5.2, -3.6)):
        path = slice(at(0, high)[1], at(0, low)[1])
        picture[path] = drive[path]
    picture[band] = lanes[band]
    for left in np.arange(-22, 22, 3.2):
        cv2.rectangle(picture, at(left, 0.08), at(left + 1.7, -0.08), (222, 220, 212), -1)
    for edge in (3.4, -3.4):
        cv2.rectangle(picture, at(-22, edge + 0.06), at(22, edge - 0.06), (206, 204, 198), -1)
    for low in np.arange(-3.2, 3.0, 0.9):
        cv2.rectangle(picture, at(-9.4, low + 0.45), at(-7.0, low), (218, 216, 210), -1)
    random = generator(seed + 3)
    for _ in range(26):
        px, py = (
            random.uniform(-21, 21),
            random.choice([random.uniform(6.6, 15), random.uniform(-11.5, -6.4)]),
        )
        radius = int(random.uniform(0.5, 1.3) * scale)
        bush = leaves(2 * radius, 2 * radius, int(random.integers(1 << 20)), (60, 96, 52))
        left, top = at(px, py)[0] - radius, at(px, py)[1] - radius
        target = picture[max(0, top) : top + 2 * radius, max(0, left) : left + 2 * radius]
        part = bush[-target.shape[0] :, -target.shape[1] :][: target.shape[0], : target.shape[1]]
        round_mask = np.zeros(part.shape[:2], np.uint8)
        cv2.circle(round_mask, (part.shape[1] // 2, part.shape[0] // 2), radius - 1, 1, -1)
        target[round_mask > 0] = part[round_mask > 0]
    return (_ground(picture, x, y),)


def yard(seed: int) -> Planes:
    """Cobbles in front of a rendered house wall with a door and a window, at y = 5."""
    scale, x = 56, (-9.0, 9.0)
    columns = int((x[1] - x[0]) * scale)
    stones = bricks(int(11 * scale), columns, seed, (16, 11), (128, 122, 116))
    wall = tinted((196, 184, 160), clouds(int(4.4 * scale), columns, seed + 1, 120, 5), 0.13)
    rows = wall.shape[0]
    wall[-40:] = bricks(40, columns, seed + 2, (30, 13), (120, 96, 84))
    door = wood(130, 58, seed + 3, (60, 92, 78))
    for left in (8, 24, 40):
        cv2.line(door, (left, 0), (left, 130), (38, 60, 52), 2)
    cv2.circle(door, (50, 70), 4, (210, 190, 110), -1, cv2.LINE_AA)
    wall[rows - 130 :, 660:718] = door
    cv2.rectangle(wall, (654, rows - 136), (724, rows), (232, 226, 212), 6)
    cv2.rectangle(wall, (270, rows - 160), (380, rows - 76), (236, 230, 216), -1)
    cv2.rectangle(wall, (278, rows - 152), (372, rows - 84), (64, 78, 88), -1)
    cv2.line(wall, (278, rows - 96), (340, rows - 152), (130, 146, 154), 9, cv2.LINE_AA)
    cv2.line(wall, (325, rows - 152), (325, rows - 84), (236, 230, 216), 5)
    ivy = leaves(rows, 120, seed + 4, (66, 98, 52))
    edge = clouds(rows, 120, seed + 5, 50, 4) + np.linspace(0.8, -0.5, 120)[None] > 0.1
    wall[:, 450:570][edge] = ivy[edge]
    return _ground(stones, x, (-6, 5)), _upright(wall, x, 5, (0, 4.4))


def counter(seed: int) -> Planes:
    """A shop's conveyor belt along x, decimetres: belt from y = -2 to 2, a poster wall behind."""
    belt = tinted((58, 60, 64), clouds(160, 1000, seed, 14, 3), 0.16)
    steel = np.full((30, 1000, 3), (176, 180, 184), np.uint8)
    steel[4:9] = (214, 216, 220)
    steel = np.clip(steel * (1 + 0.08 * clouds(30, 1000, seed + 1, 60, 3)[..., None]), 0, 255).astype(
        np.uint8
    )
    cabinet = wood(160, 1000, seed + 2, (170, 136, 98))
    wall = tinted((172, 188, 184), clouds(400, 1000, seed + 3, 90, 4), 0.1)
    for left, colour in ((90, (206, 120, 60)), (380, (70, 110, 150)), (690, (150, 80, 110))):
        cv2.rectangle(wall, (left, 90), (left + 190, 300), (240, 238, 230), -1)
        cv2.circle(wall, (left + 95, 180), 58, colour, -1, cv2.LINE_AA)
        cv2.line(wall, (left + 30, 268), (left + 160, 268), colour, 9, cv2.LINE_AA)
    floor = slabs(240, 1000, seed + 4, 40, (196, 190, 180))
    return (
        _ground(floor, (-26, 26), (-10, 12), -5),
        _upright(wall, (-26, 26), 9, (-3, 14)),
        _ground(cabinet, (-26, 26), (2.7, 6), 0),
        _ground(steel, (-26, 26), (2, 2.7), 0.05),
        _ground(belt, (-26, 26), (-2, 2)),
        _ground(steel, (-26, 26), (-2.7, -2), 0.05),
        _upright(cabinet, (-26, 26), -2.7, (-6, 0.05)),
    )


def shelves(seed: int) -> Planes:
    """A shop's shelf along x, decimetres: boards at z = 0 and 4.6, back wall at y = 3, full of boxes."""
    random = generator(seed)
    back = tinted((206, 200, 188), clouds(460, 2000, seed, 80, 3), 0.06)
    hues: tuple[Colour, ...] = (
        (120, 150, 170),
        (170, 140, 110),
        (130, 160, 120),
        (160, 120, 140),
        (190, 180, 120),
    )
    for bottom in (452, 222):
        left = 10
        while left < 1960:
            width, height = int(random.integers(46, 90)), int(random.integers(100, 170))
            colour = hues[int(random.integers(len(hues)))]
            cv2.rectangle(back, (left, bottom - height), (left + width, bottom), colour, -1)
            shade = tuple(int(c * 0.72) for c in colour)
            kind = int(random.integers(3))
            if kind == 0:
                cv2.circle(
                    back, (left + width // 2, bottom - height // 2), width // 4, shade, -1, cv2.LINE_AA
                )
            elif kind == 1:
                cv2.rectangle(
                    back,
                    (left + 6, bottom - height + 14),
                    (left + width - 6, bottom - height + 40),
                    shade,
                    -1,
                )
            else:
                for row in range(bottom - height + 20, bottom - 10, 18):
                    cv2.line(back, (left + 8, row), (left + width - 8, row), shade, 4)
            left += width + int(random.integers(3, 12))
    back = (back * 0.72).astype(np.uint8)
    board = tinted((216, 210, 198), clouds(90, 1000, seed + 1, 60, 3), 0.08)
    edge = np.full((24, 2000, 3), (226, 222, 212), np.uint8)
    for left in range(30, 2000, 150):
        cv2.rectangle(edge, (left, 4), (left + 60, 20), (250, 244, 150), -1)
        cv2.line(edge, (left + 8, 12), (left + 44, 12), (60, 60, 60), 3)
    floor = slabs(400, 1000, seed + 2, 50, (190, 184, 172))
    return (
        _ground(floor, (-40, 40), (-30, 3), -3),
        _upright(wood(40, 1000, seed + 3, (110, 100, 92)), (-40, 40), 0.2, (-3, 0)),
        _upright(back, (-40, 40), 3, (0, 9.2)),
        _ground(board, (-40, 40), (0, 3), 4.6),
        _ground(board, (-40, 40), (0, 3)),
        _upright(edge, (-40, 40), 0, (-0.35, 0)),
        _upright(edge, (-40, 40), 0, (4.25, 4.6)),
    )


def park(seed: int) -> Planes:
    """A lawn with a gravel path along x (y from 0 to 2.4), a hedge at y = 9 and trees behind."""
    scale, x = 34, (-22.0, 22.0)
    columns = int((x[1] - x[0]) * scale)
    lawn = grass(int(16 * scale), columns, seed)  # y from -7 to 9

    def row(y: float) -> int:
        return int((9 - y) * scale)

    gravel = tinted((184, 170, 142), clouds(lawn.shape[0], columns, seed + 1, 10, 3), 0.16)
    waver = 6 * np.sin(np.arange(columns) / 40.0) + 3 * np.sin(np.arange(columns) / 13.0)
    rows = np.arange(lawn.shape[0])[:, None]
    path = (rows > row(2.4) + waver) & (rows < row(0) + waver * 0.6)
    lawn[path] = gravel[path]
    random = generator(seed + 2)
    for _ in range(160):
        at = (
            int(random.uniform(0, columns)),
            int(random.choice([random.uniform(0, row(2.8)), random.uniform(row(-0.4), row(-7))])),
        )
        tone = ((238, 236, 226), (232, 206, 76), (196, 120, 160))[int(random.integers(3))]
        cv2.circle(lawn, at, 2, tone, -1, cv2.LINE_AA)
    hedge = leaves(80, columns, seed + 3, (70, 104, 52))
    return (
        _upright(sky(300, 500, seed + 4), (-90, 90), 50, (-5, 55)),
        _upright(_trees(1400, 300, seed + 5, 11), (-44, 44), 15, (0, 11)),
        _ground(lawn, x, (-7, 9)),
        _upright(hedge, x, 9, (0, 1.7)),
    )


@lru_cache(maxsize=16)
def _photo_textures(kind: str, seed: int) -> tuple[Picture, Picture]:
    """Wall and floor of a place to take photos in."""
    size = (360, 360)
    if kind == "lawn":
        return leaves(*size, seed + 1, (88, 118, 66)), grass(*size, seed, (104, 130, 70))
    if kind == "gravel":
        wall = bricks(*size, seed + 1, (36, 12), (172, 128, 104))
        return wall, tinted((176, 168, 150), clouds(*size, seed, 8, 3), 0.15)
    if kind == "table":
        return tinted((214, 206, 190), clouds(*size, seed + 1, 90, 3), 0.08), wood(
            *size, seed, (182, 142, 100)
        )
    if kind == "asphalt":
        wall = tinted((176, 180, 178), clouds(*size, seed + 1, 120, 4), 0.16)
        return wall, asphalt(*size, seed, (112, 112, 114))
    if kind == "cloth":
        return tinted((120, 104, 96), clouds(*size, seed + 1, 100, 4), 0.14), cloth(
            (150, 160, 176), seed, *size
        )
    raise ValueError(f"a photo is taken on lawn, gravel, table, asphalt or cloth, got {kind!r}")


def photo_backdrop(kind: str, seed: int, reach: float) -> Planes:
    """A simple place for an album photo, `reach` metres around the origin."""
    wall, floor = _photo_textures(kind, seed)
    span = (-3 * reach, 3 * reach)
    return (
        _upright(wall, span, 2.2 * reach, (0, 5 * reach)),
        _ground(floor, span, (-2.5 * reach, 2.2 * reach)),
    )
