"""Clouds and textured planes in the world enter, pictures of them with soft edges leave.

A point becomes a 2x2 dab in a picture of twice the size, nearest last; shrinking it gives smooth edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from scenery.clouds import Cloud, Floats, Picture, Triple, turned
from scenery.vectors import last_row_of_inverse, length, product

OVERSAMPLING = 2
SUN = (-0.45, -0.55, 0.7)


@dataclass(frozen=True)
class Camera:
    """A pinhole camera.

    Attributes:
        position, target: where it stands and what is in the middle of the picture, metres.
        angle_degrees: horizontal angle of view.
        width, height: pixels.
    """

    position: Triple
    target: Triple
    angle_degrees: float
    width: int
    height: int

    @cached_property
    def focal_pixels(self) -> float:
        return self.width / 2 / float(np.tan(np.radians(self.angle_degrees) / 2))

    @cached_property
    def axes(self) -> Floats:
        """(3, 3): rows are the directions right, down and forward."""
        forward = np.subtract(self.target, self.position)
        forward = forward / length(forward)
        right = np.cross(forward, [0, 0, 1])
        right /= length(right)
        return np.stack([right, np.cross(forward, right), forward]).astype(np.float32)

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """(3, 3): from camera axes to depth * (x, y, 1)."""
        f = self.focal_pixels
        return np.array([[f, 0, self.width / 2], [0, f, self.height / 2], [0, 0, 1]])

    def seen_from(self, heading_degrees: float, place: Triple) -> Camera:
        """The same camera as an actor sees it who stands at `place` and looks along `heading_degrees`."""
        position = turned(np.subtract(self.position, place), -heading_degrees)
        target = turned(np.subtract(self.target, place), -heading_degrees)
        return replace(self, position=tuple(position.tolist()), target=tuple(target.tolist()))

    def project(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """x and y in pixels and the depth in metres of points (3, N)."""
        offset = -_dot(self.axes.T, self.position)
        right, down, depth = (
            axis[0] * points[0] + axis[1] * points[1] + axis[2] * points[2] + shift
            for axis, shift in zip(self.axes, offset, strict=True)
        )
        scale = np.float32(self.focal_pixels) / np.maximum(depth, np.float32(1e-3))
        return right * scale + np.float32(self.width / 2), down * scale + np.float32(self.height / 2), depth


@dataclass(frozen=True, slots=True)
class Plane:
    """A textured rectangle: `corner` + s * `across` + t * `up`, its texture's bottom row at t = 0."""

    corner: Triple
    across: Triple
    up: Triple
    texture: Picture


@dataclass(frozen=True, slots=True)
class Sprite:
    """One drawn actor.

    Attributes:
        left, top: where its upper left pixel lies in the frame; may be negative.
        colours: (H, W, 3) float32, already multiplied by alpha.
        alpha: (H, W) float32 in [0, 1].
    """

    left: int
    top: int
    colours: Floats
    alpha: Floats

    def windows(self, width: int, height: int) -> tuple[tuple[slice, slice], tuple[slice, slice]]:
        """The part inside a frame: its slices in the frame and in the sprite."""
        y0, y1 = max(0, self.top), min(height, self.top + self.alpha.shape[0])
        x0, x1 = max(0, self.left), min(width, self.left + self.alpha.shape[1])
        y1, x1 = max(y0, y1), max(x0, x1)
        return (slice(y0, y1), slice(x0, x1)), (
            slice(y0 - self.top, y1 - self.top),
            slice(x0 - self.left, x1 - self.left),
        )


def _dot(vectors: Floats, other: Sequence[float] | Floats) -> Floats:
    """(N,) inner products of (3, N) vectors with one vector or with others."""
    x, y, z = (np.asarray(part, np.float32) for part in other)
    return vectors[0] * x + vectors[1] * y + vectors[2] * z


def shade(
    cloud: Cloud,
    index: NDArray[np.intp],
    camera_position: Sequence[float],
    sun: Triple = SUN,
    sunlight: float = 0.75,
) -> Floats:
    """(N, 3) RGB of the N points at `index`: sky light from above, sun, highlights."""
    towards_sun = np.asarray(sun, np.float32) / np.float32(length(sun))
    normals = cloud.normals.take(index, axis=1)
    sky = 0.42 + 0.16 * normals[2]
    colours = cloud.colours.take(index, axis=0)
    colours *= (sky + sunlight * np.maximum(_dot(normals, towards_sun), 0))[:, None]
    shiny = np.flatnonzero(cloud.shine.take(index) > 0)
    if len(shiny):
        glossy = cloud.part(index[shiny])
        view = np.asarray(camera_position, np.float32)[:, None] - glossy.points
        half = view / np.sqrt(_dot(view, view)) + towards_sun[:, None]
        glint = np.maximum(_dot(half, glossy.normals), 0) ** 2 / _dot(half, half)
        glint = (glint * glint) ** 2  # the cosine to the 8th
        colours[shiny] += (glint**2 * glint * glossy.shine * 255 * sunlight)[:, None]
    return np.clip(colours, 0, 255, out=colours)


def draw(cloud: Cloud, camera: Camera, sun: Triple = SUN, sunlight: float = 0.75) -> Sprite | None:
    """The cloud as the camera sees it; None where it lies behind the camera or outside the picture."""
    if not _in_view(cloud, camera):
        return None
    position = np.asarray(camera.position, np.float32)
    facing = np.flatnonzero(_dot(cloud.normals, position) > _dot(cloud.normals, cloud.points))
    if not len(facing):
        return None
    x, y, depth = camera.project(cloud.points.take(facing, axis=1))
    if float(depth.min()) < 0.2:
        return None
    left, top = int(np.floor(x.min())) - 1, int(np.floor(y.min())) - 1
    right, bottom = int(np.ceil(x.max())) + 2, int(np.ceil(y.max())) + 2
    if right <= 0 or bottom <= 0 or left >= camera.width or top >= camera.height:
        return None
    columns, rows = (right - left) * OVERSAMPLING, (bottom - top) * OVERSAMPLING
    flat = ((y - top) * OVERSAMPLING).astype(np.int32) * columns + ((x - left) * OVERSAMPLING).astype(
        np.int32
    )
    winner = _nearest(flat, depth, rows * columns, (0, 1, columns, columns + 1))
    shown = np.flatnonzero(winner >= 0)
    index = facing[winner[shown]]
    paint = np.zeros((rows * columns, 4), np.float32)
    paint[shown, :3] = shade(cloud, index, camera.position, sun, sunlight)
    paint[shown, 3] = 1
    size = (right - left, bottom - top)
    small = cv2.resize(paint.reshape(rows, columns, 4), size, interpolation=cv2.INTER_AREA)
    return Sprite(left, top, small[..., :3], small[..., 3])


def _in_view(cloud: Cloud, camera: Camera) -> bool:
    """Whether the cloud may be in the picture, judged by few of its points and a wide margin."""
    x, y, depth = camera.project(cloud.points[:, :: max(1, cloud.points.shape[1] // 500)])
    if float(depth.max()) < 0.2:
        return False
    margin_x, margin_y = 0.2 * float(np.ptp(x)) + 4, 0.2 * float(np.ptp(y)) + 4
    beside = float(x.max()) < -margin_x or float(x.min()) > camera.width + margin_x
    return not (beside or float(y.max()) < -margin_y or float(y.min()) > camera.height + margin_y)


def _nearest(flat: NDArray[np.int32], depth: Floats, pixels: int, dab: Sequence[int]) -> NDArray[np.int32]:
    """(pixels,) index of the nearest point whose dab covers a pixel, -1 where there is none."""
    span = max(float(np.ptp(depth)), 1e-6)
    far = ((float(depth.max()) - depth) * np.float32(65535 / span)).astype(np.uint16)
    order = np.argsort(far, kind="stable").astype(np.int32)  # far to near; a radix sort on 16 bits
    first = np.full(pixels, -1, np.int32)
    first[flat[order]] = np.arange(len(order), dtype=np.int32)  # the last, that is the nearest, stays
    winner = np.full(pixels, -1, np.int32)
    for step in dab:
        np.maximum(winner[step:], first[: pixels - step], out=winner[step:])
    return np.where(winner >= 0, order[winner], -1)


def shadow(cloud: Cloud, camera: Camera, sun: Triple = SUN) -> Floats | None:
    """(height, width) float32 darkness in [0, 1] that the cloud throws on the ground it stands on."""
    points = cloud.points[:, :: max(1, cloud.points.shape[1] // 12000)]
    along = points[2] / np.float32(sun[2])
    x, y, depth = camera.project(points - along * np.asarray(sun, np.float32)[:, None])
    half_width, half_height = camera.width // 2, camera.height // 2
    inside = (depth > 0.2) & (x >= 0) & (y >= 0) & (x < 2 * half_width) & (y < 2 * half_height)
    if not inside.any():
        return None
    mask = np.zeros((half_height, half_width), np.float32)
    mask[(y[inside] / 2).astype(np.int32), (x[inside] / 2).astype(np.int32)] = 1
    mask = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((5, 5), np.uint8))
    mask = cv2.GaussianBlur(mask, (0, 0), 1.6)
    return cv2.resize(mask, (camera.width, camera.height), interpolation=cv2.INTER_LINEAR)


def paint_plane(frame: Floats, camera: Camera, plane: Plane) -> None:
    """Draw a plane over `frame` (H, W, 3) float32, in place."""
    rows, columns = plane.texture.shape[:2]
    offset = np.subtract(plane.corner, camera.position)
    basis = np.stack([plane.across, plane.up, offset], axis=1)  # columns: s, t, 1
    from_texture = np.array([[1 / columns, 0, 0], [0, -1 / rows, 1], [0, 0, 1]])
    to_frame = product(camera.matrix, camera.axes.astype(np.float64), basis, from_texture)
    size = (frame.shape[1], frame.shape[0])
    warped = cv2.warpPerspective(plane.texture, to_frame, size, flags=cv2.INTER_LINEAR)
    cover = np.full((rows, columns), 255, np.uint8) if plane.texture.shape[2] == 3 else plane.texture[..., 3]
    alpha = cv2.warpPerspective(cover, to_frame, size, flags=cv2.INTER_LINEAR)
    # 1 / depth: negative behind the camera, beyond the horizon.
    by_x, by_y, constant = last_row_of_inverse(to_frame)
    x, y = np.arange(size[0]), np.arange(size[1])[:, None]
    in_front = by_x * x + by_y * y + constant > 0
    weight = (alpha * in_front).astype(np.float32)[..., None] * np.float32(1 / 255)
    frame += (warped[..., :3].astype(np.float32) - frame) * weight
