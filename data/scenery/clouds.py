"""Shapes and textures enter, coloured points with normals leave: everything that moves is such a cloud.

Lengths are metres, z is up, the front of a shape faces -y. A texture is an RGB triple or an RGB(A)
picture; it lies on a surface as seen from outside, its bottom edge at v = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from scenery.vectors import length

Floats = NDArray[np.float32]
Picture = NDArray[np.uint8]
Texture = Picture | tuple[int, int, int]
Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Cloud:
    """Points of a surface.

    Attributes:
        points, normals: (3, N) float32: rows x, y, z, which is twice as fast as columns.
        colours: (N, 3) float32 RGB, 0 to 255.
        shine: (N,) float32, strength of the highlight, 0 for matt.
    """

    points: Floats
    normals: Floats
    colours: Floats
    shine: Floats

    def turned(self, degrees: float, axis: str = "z", about: Triple = (0, 0, 0)) -> Cloud:
        """The cloud rotated about an axis through `about`."""
        pivot = np.asarray(about, np.float32)[:, None]
        points = turned(self.points - pivot, degrees, axis) + pivot
        return Cloud(points, turned(self.normals, degrees, axis), self.colours, self.shine)

    def moved(self, offset: Sequence[float], scale: float = 1.0) -> Cloud:
        """The cloud scaled about the origin, then shifted."""
        points = self.points * np.float32(scale) + np.asarray(offset, np.float32)[:, None]
        return Cloud(points, self.normals, self.colours, self.shine)

    def part(self, index: NDArray[np.integer]) -> Cloud:
        """The points of these numbers."""
        return Cloud(
            self.points.take(index, axis=1),
            self.normals.take(index, axis=1),
            self.colours.take(index, axis=0),
            self.shine.take(index),
        )

    def both_sides(self) -> Cloud:
        """The cloud as thin cloth: visible from behind as well, a little darker there."""
        behind = Cloud(self.points, -self.normals, self.colours * np.float32(0.7), self.shine)
        return join([self, behind])


def join(clouds: Sequence[Cloud]) -> Cloud:
    """One cloud of several."""
    return Cloud(
        np.concatenate([c.points for c in clouds], axis=1),
        np.concatenate([c.normals for c in clouds], axis=1),
        np.concatenate([c.colours for c in clouds]),
        np.concatenate([c.shine for c in clouds]),
    )


def turned(vectors: Floats, degrees: float, axis: str = "z") -> Floats:
    """(3, ...) vectors rotated counter-clockwise, seen against the axis."""
    cosine, sine = np.float32(np.cos(np.radians(degrees))), np.float32(np.sin(np.radians(degrees)))
    first, second = {"x": (1, 2), "y": (2, 0), "z": (0, 1)}[axis]
    result = np.array(vectors, np.float32)
    result[first] = cosine * vectors[first] - sine * vectors[second]
    result[second] = sine * vectors[first] + cosine * vectors[second]
    return result


def surface(
    shape: Callable[[Floats, Floats], tuple[Floats, Floats, Floats]],
    width: float,
    height: float,
    texture: Texture,
    spacing: float,
    shine: float = 0.0,
) -> Cloud:
    """A parametric surface sampled evenly: `shape(u, v)` gives x, y, z; `width`, `height`: its longest sides.

    Texture pixels with alpha below one half leave holes.
    """
    columns, rows = max(2, int(np.ceil(width / spacing))), max(2, int(np.ceil(height / spacing)))
    u, v = np.meshgrid(
        (np.arange(columns, dtype=np.float32) + 0.5) / columns,
        (np.arange(rows, dtype=np.float32) + 0.5) / rows,
    )
    grid = np.stack(np.broadcast_arrays(*shape(u, v)), axis=-1).astype(np.float32)  # (rows, columns, 3)
    normals = _normals(grid)
    picture = np.full((1, 1, 3), texture, np.uint8) if isinstance(texture, tuple) else texture
    shrink = picture.shape[1] > columns or picture.shape[0] > rows
    picture = cv2.resize(
        picture, (columns, rows), interpolation=cv2.INTER_AREA if shrink else cv2.INTER_LINEAR
    )
    colours = picture[::-1].reshape(rows * columns, -1).astype(np.float32)
    keep = colours[:, 3] >= 128 if colours.shape[1] == 4 else np.ones(len(colours), bool)
    return Cloud(
        np.ascontiguousarray(grid.reshape(-1, 3)[keep].T),
        np.ascontiguousarray(normals.reshape(-1, 3)[keep].T, np.float32),
        colours[keep, :3],
        np.full(int(keep.sum()), shine, np.float32),
    )


def _normals(grid: Floats) -> Floats:
    """(rows, columns, 3) unit normals of a grid of points: the cross product of its slopes along u and v."""
    along_u, along_v = np.empty_like(grid), np.empty_like(grid)
    along_u[:, 1:-1] = grid[:, 2:] - grid[:, :-2]
    along_v[1:-1] = grid[2:] - grid[:-2]
    along_u[:, 0], along_u[:, -1] = grid[:, 1] - grid[:, 0], grid[:, -1] - grid[:, -2]
    along_v[0], along_v[-1] = grid[1] - grid[0], grid[-1] - grid[-2]
    (ux, uy, uz), (vx, vy, vz) = np.moveaxis(along_u, -1, 0), np.moveaxis(along_v, -1, 0)
    x, y, z = uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx
    lengths = np.maximum(np.sqrt(x * x + y * y + z * z), np.float32(1e-12))
    return np.stack([x, y, z], axis=-1) / lengths[..., None]


def patch(corners: Sequence[Triple], texture: Texture, spacing: float, shine: float = 0.0) -> Cloud:
    """A four-sided face: corners bottom left, bottom right, top right, top left as seen from outside."""
    a, b, c, d = (np.asarray(corner, np.float32) for corner in corners)

    def shape(u: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
        u, v = u[..., None], v[..., None]
        grid = (1 - u) * (1 - v) * a + u * (1 - v) * b + u * v * c + (1 - u) * v * d
        return grid[..., 0], grid[..., 1], grid[..., 2]

    width = max(length(b - a), length(c - d))
    height = max(length(d - a), length(c - b))
    return surface(shape, width, height, texture, spacing, shine)


def box(
    low: Triple, high: Triple, texture: Texture, spacing: float, shine: float = 0.0, **faces: Texture
) -> Cloud:
    """A box; `faces` gives front, back, left, right, top or bottom a texture of its own."""
    (x0, y0, z0), (x1, y1, z1) = low, high
    corners = {
        "front": [(x0, y0, z0), (x1, y0, z0), (x1, y0, z1), (x0, y0, z1)],
        "right": [(x1, y0, z0), (x1, y1, z0), (x1, y1, z1), (x1, y0, z1)],
        "back": [(x1, y1, z0), (x0, y1, z0), (x0, y1, z1), (x1, y1, z1)],
        "left": [(x0, y1, z0), (x0, y0, z0), (x0, y0, z1), (x0, y1, z1)],
        "top": [(x0, y0, z1), (x1, y0, z1), (x1, y1, z1), (x0, y1, z1)],
        "bottom": [(x0, y1, z0), (x1, y1, z0), (x1, y0, z0), (x0, y0, z0)],
    }
    return join([patch(c, faces.get(name, texture), spacing, shine) for name, c in corners.items()])


def ellipsoid(
    centre: Triple, radii: Triple, texture: Texture, spacing: float, shine: float = 0.0, low: float = -1.0
) -> Cloud:
    """An ellipsoid, or its cap above the relative height `low`; the texture's middle column faces -y."""
    start = np.arcsin(np.clip(low, -1, 1))

    def shape(u: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
        around, up = (u - 0.5) * (2 * np.pi), start + v * (np.pi / 2 - start)
        return (
            centre[0] + radii[0] * np.sin(around) * np.cos(up),
            centre[1] - radii[1] * np.cos(around) * np.cos(up),
            centre[2] + radii[2] * np.sin(up),
        )

    return surface(
        shape, 2 * np.pi * max(radii[:2]), (np.pi / 2 - start) * max(radii), texture, spacing, shine
    )


def lathe(
    bottom: Triple,
    top: Triple,
    radii: Sequence[float],
    texture: Texture,
    spacing: float,
    shine: float = 0.0,
    flatten: float = 1.0,
) -> Cloud:
    """A turned body from `bottom` to `top` with evenly spaced radii; `flatten` squeezes it front to back."""
    a, b = np.asarray(bottom, np.float32), np.asarray(top, np.float32)
    height = length(b - a)
    axis = (b - a) / height
    side = np.cross([0, 1, 0], axis) if abs(axis[1]) < 0.9 else np.array([1.0, 0, 0])
    side = side / length(side)
    back = np.cross(axis, side)
    stops = np.linspace(0, 1, len(radii))

    def shape(u: Floats, v: Floats) -> tuple[Floats, Floats, Floats]:
        around = (u - 0.5) * (2 * np.pi)
        radius = np.interp(v, stops, radii)
        grid = (
            a
            + v[..., None] * (b - a)
            + (radius * np.sin(around))[..., None] * side
            - (radius * np.cos(around) * flatten)[..., None] * back
        )
        return grid[..., 0], grid[..., 1], grid[..., 2]

    return surface(shape, 2 * np.pi * max(radii), height, texture, spacing, shine)


def disc(centre: Triple, radius: float, texture: Texture, spacing: float, shine: float = 0.0) -> Cloud:
    """A flat round plate facing -y; the texture's inscribed circle is used."""
    x, y, z = centre
    picture = np.full((64, 64, 3), texture, np.uint8) if isinstance(texture, tuple) else texture
    side = min(picture.shape[:2])
    mask = np.zeros(picture.shape[:2], np.uint8)
    cv2.circle(mask, (picture.shape[1] // 2, picture.shape[0] // 2), side // 2, 255, -1)
    cut = np.dstack([picture[..., :3], mask])
    corners = [
        (x - radius, y, z - radius),
        (x + radius, y, z - radius),
        (x + radius, y, z + radius),
        (x - radius, y, z + radius),
    ]
    return patch(corners, cut, spacing, shine)
