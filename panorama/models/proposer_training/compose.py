"""A random generator and a store come in; one training picture with its boxes goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.models.proposer_training.degrade import degrade, jitter_colour
from panorama.models.proposer_training.shapes import backdrop, random_thing
from panorama.models.proposer_training.sources import DRAWN, LABELLED, Store

Picture = NDArray[Any]
"""Pixels, uint8; OpenCV's stubs promise no element type."""
Boxes = NDArray[np.float32]

MIN_VISIBLE = 0.35
"""Least visible share of a pasted thing that keeps its box; with less, its area turns silent."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One training picture.

    Attributes:
        image: (H, W, 3) uint8 RGB.
        boxes: (G, 4) float32 pixels, things that must be found.
        silent: (U, 4) float32 pixels, areas where a missing box means little.
    """

    image: Picture
    boxes: Boxes
    silent: Boxes


def compose(rng: np.random.Generator, store: Store, height: int, width: int, mix: dict[str, Any]) -> Sample:
    """One picture of the given size: scenes side by side, things pasted on, degraded as cameras do.

    Sometimes two such pictures are blended, and only the teacher's answer is the target there. Imitating it
    on pictures that nobody took keeps the network from memorising the few that were taken (Beyer et al.,
    2022).
    """
    sample = arrange(rng, store, height, width, mix)
    if rng.random() < mix["blend"]:
        share = np.float32(rng.uniform(0.5, 0.9))
        other = arrange(rng, store, height, width, mix).image
        blended = (sample.image * share + other * (1 - share)).astype(np.uint8)
        sample = Sample(blended, np.zeros((0, 4), np.float32), np.array([[0, 0, width, height]], np.float32))
    return Sample(degrade(rng, sample.image), sample.boxes, sample.silent)


def arrange(rng: np.random.Generator, store: Store, height: int, width: int, mix: dict[str, Any]) -> Sample:
    """Scenes side by side with things pasted on, not yet degraded."""
    image = np.empty((height, width, 3), np.uint8)
    boxes: list[Boxes] = []
    silent: list[Boxes] = []
    for x1, y1, x2, y2 in tiles(rng, height, width, mix["mosaic"]):
        scene = take_scene(rng, store, y2 - y1, x2 - x1, mix)
        image[y1:y2, x1:x2] = scene.image
        shift = np.array([x1, y1, x1, y1], np.float32)
        boxes.append(scene.boxes + shift)
        silent.append(scene.silent + shift)
    sample = Sample(image, np.concatenate(boxes), np.concatenate(silent))
    if rng.random() < mix["paste"]:
        sample = paste_things(rng, store, sample, mix)
    return flip(sample) if rng.random() < 0.5 else sample


def tiles(
    rng: np.random.Generator, height: int, width: int, chance: float
) -> list[tuple[int, int, int, int]]:
    """The whole picture, or two or four parts of it, as x1, y1, x2, y2."""
    if rng.random() >= chance:
        return [(0, 0, width, height)]
    x, y = int(width * rng.uniform(0.3, 0.7)), int(height * rng.uniform(0.3, 0.7))
    kind = rng.integers(3)
    if kind == 0:
        return [(0, 0, x, height), (x, 0, width, height)]
    if kind == 1:
        return [(0, 0, width, y), (0, y, width, height)]
    return [(0, 0, x, y), (x, 0, width, y), (0, y, x, height), (x, y, width, height)]


def take_scene(
    rng: np.random.Generator, store: Store, height: int, width: int, mix: dict[str, Any]
) -> Sample:
    """A random part of a cached picture of a random kind, or a drawn ground, filling height x width."""
    kinds = list(mix["scenes"])
    weights = np.array([mix["scenes"][kind] for kind in kinds])
    kind = kinds[rng.choice(len(kinds), p=weights / weights.sum())]
    if kind == DRAWN:
        return Sample(
            backdrop(rng, height, width), np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32)
        )
    indices, state = store.groups[kind]
    index = indices[rng.integers(len(indices))]
    if rng.random() < mix["warp"]:
        everywhere = np.array([[0, 0, width, height]], np.float32)
        return Sample(warp(rng, store.scenes[index], height, width), np.zeros((0, 4), np.float32), everywhere)
    whole = Sample(store.scenes[index], store.boxes[index], np.zeros((0, 4), np.float32))
    part = crop_to(rng, whole, height, width, smallest=0.35 if state == LABELLED else 0.5)
    if state == LABELLED:
        return part
    return Sample(part.image, part.boxes, np.array([[0, 0, width, height]], np.float32))


def warp(rng: np.random.Generator, picture: Picture, height: int, width: int) -> Picture:
    """A turned, stretched part of a picture, filling height x width, without boxes: they would not fit."""
    full_height, full_width = picture.shape[:2]
    factor = max(height / full_height, width / full_width) * np.exp(rng.uniform(-0.4, 0.5))
    turn, stretch = np.deg2rad(rng.normal(0, 15)), float(np.exp(rng.normal(0, 0.2)))
    matrix = np.array([[np.cos(turn), -np.sin(turn) + rng.normal(0, 0.1)], [np.sin(turn), np.cos(turn)]])
    matrix = matrix @ np.diag([factor * stretch, factor / stretch])
    middle = np.array([full_width, full_height]) * rng.uniform(0.25, 0.75, 2)
    affine = np.column_stack([matrix, np.array([width, height]) / 2 - matrix @ middle])
    return cv2.warpAffine(
        picture, affine, (width, height), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101
    )


def crop_to(rng: np.random.Generator, whole: Sample, height: int, width: int, smallest: float) -> Sample:
    """A window of about the target's aspect, resized to it; things cut off by more than half turn silent."""
    full_height, full_width = whole.image.shape[:2]
    aspect = np.clip(width / height * np.exp(rng.normal(0, 0.15)), 0.2, 5.0)
    largest = min(full_width, full_height * aspect)
    window_width = max(8.0, largest * (1.0 if rng.random() < 0.4 else rng.uniform(smallest, 1.0)))
    window_height = min(float(full_height), max(8.0, window_width / aspect))
    x1 = int(rng.uniform(0, max(0.0, full_width - window_width) + 1e-6))
    y1 = int(rng.uniform(0, max(0.0, full_height - window_height) + 1e-6))
    x2, y2 = min(full_width, x1 + round(window_width)), min(full_height, y1 + round(window_height))
    image = cv2.resize(whole.image[y1:y2, x1:x2], (width, height), interpolation=cv2.INTER_LINEAR)
    factors = np.array([width / (x2 - x1), height / (y2 - y1)] * 2, np.float32)
    moved = (whole.boxes - np.array([x1, y1, x1, y1], np.float32)) * factors
    clipped = np.clip(moved, 0, [width, height, width, height]).astype(np.float32)
    kept = areas(clipped) / np.maximum(areas(moved), 1e-6)
    good = (kept >= 0.5) & ((clipped[:, 2:] - clipped[:, :2]).min(1, initial=1e9) >= 4)
    return Sample(image, clipped[good], clipped[~good & (kept > 0)])


def areas(boxes: Boxes) -> Boxes:
    """(N,) areas of (N, 4) boxes, 0 for empty ones."""
    sides = np.clip(boxes[:, 2:] - boxes[:, :2], 0, None)
    return sides[:, 0] * sides[:, 1]


def flip(sample: Sample) -> Sample:
    """The sample mirrored left to right."""
    width = sample.image.shape[1]

    def mirrored(boxes: Boxes) -> Boxes:
        return np.stack([width - boxes[:, 2], boxes[:, 1], width - boxes[:, 0], boxes[:, 3]], 1)

    return Sample(
        np.ascontiguousarray(sample.image[:, ::-1]), mirrored(sample.boxes), mirrored(sample.silent)
    )


def paste_things(rng: np.random.Generator, store: Store, sample: Sample, mix: dict[str, Any]) -> Sample:
    """The sample with two to twelve cut-outs pasted on it, some repeated; later ones cover earlier ones."""
    image = sample.image.copy()
    height, width = image.shape[:2]
    owner = np.zeros((height, width), np.uint8)  # number of the cut-out at each pixel, 0 for none
    sizes: list[int] = []
    for _ in range(min(12, 1 + int(rng.geometric(0.3)))):
        thing = take_thing(rng, store, mix)
        # Log-uniform: as many small things as large ones.
        longest = max(height, width) * float(np.exp(rng.uniform(np.log(0.04), np.log(0.7))))
        copies = int(rng.integers(2, 5)) if longest < 0.3 * width and rng.random() < 0.15 else 1
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        for copy in range(copies):
            if len(sizes) == 24:
                break
            posed = pose(rng, thing, longest * rng.uniform(0.9, 1.1))
            spot = (x + copy * longest * 1.05, y + rng.normal(0, 0.05) * longest)
            covered = put(rng, image, posed, spot)
            if covered is None:
                continue
            sizes.append(int((posed[..., 3] > 127).sum()))
            window, mask = covered
            owner[window][mask] = len(sizes)
    return Sample(image, *_visible(sample, owner, sizes))


def take_thing(rng: np.random.Generator, store: Store, mix: dict[str, Any]) -> Picture:
    """An RGBA thing of a random kind: a cached cut-out, or a drawn shape textured from a cached scene."""
    kinds = list(mix["things"])
    weights = np.array([mix["things"][kind] for kind in kinds])
    kind = kinds[rng.choice(len(kinds), p=weights / weights.sum())]
    if kind == DRAWN:
        return random_thing(rng, store.scenes[int(rng.integers(len(store.scenes)))])
    indices = store.cutout_groups[kind]
    thing = store.cutouts[indices[rng.integers(len(indices))]]
    if kind == "logos" and rng.random() < 0.6:
        thing = on_card(rng, thing)
    return thing


def on_card(rng: np.random.Generator, logo: Picture) -> Picture:
    """A logo printed on a plain rectangle, as on a package or a sign."""
    margin = int(max(logo.shape[:2]) * rng.uniform(0.05, 0.4))
    padded = cv2.copyMakeBorder(logo, margin, margin, margin, margin, cv2.BORDER_CONSTANT, value=(0, 0, 0, 0))
    alpha = padded[..., 3:].astype(np.float32) / 255
    colour = rng.integers(0, 256, 3).astype(np.float32)
    rgb = padded[..., :3] * alpha + colour * (1 - alpha)
    return np.dstack([rgb.astype(np.uint8), np.full(padded.shape[:2], 255, np.uint8)])


def pose(rng: np.random.Generator, thing: Picture, longest: float) -> Picture:
    """The thing turned, stretched a little, scaled to about `longest` pixels and cut to its bounds."""
    height, width = thing.shape[:2]
    angle = rng.uniform(0, 360) if rng.random() < 0.35 else rng.normal(0, 8)
    factor = longest / max(height, width)
    stretch = float(np.exp(rng.normal(0, 0.12)))
    flipped = -1.0 if rng.random() < 0.5 else 1.0
    turn = np.deg2rad(angle)
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    matrix = matrix @ np.diag([factor * stretch * flipped, factor / stretch])
    corners = matrix @ (np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]]) * [[width / 2], [height / 2]])
    out_width, out_height = (max(2, int(n)) for n in np.ceil(2 * np.abs(corners).max(1)))
    shift = np.array([out_width / 2, out_height / 2]) - matrix @ [width / 2, height / 2]
    if factor < 0.5:  # shrink by area first: a bilinear warp alone would alias
        small = cv2.resize(
            thing,
            (max(2, round(width * factor * 1.2)), max(2, round(height * factor * 1.2))),
            interpolation=cv2.INTER_AREA,
        )
        matrix = matrix @ np.diag([width / small.shape[1], height / small.shape[0]])
        thing = small
    affine = np.column_stack([matrix, shift])
    posed = cv2.warpAffine(thing, affine, (out_width, out_height), flags=cv2.INTER_LINEAR)
    solid = posed[..., 3] > 127
    rows, columns = np.flatnonzero(solid.any(1)), np.flatnonzero(solid.any(0))
    if len(rows) == 0:
        return posed
    posed = posed[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return np.dstack([jitter_colour(rng, posed[..., :3]), posed[..., 3]])


def put(
    rng: np.random.Generator, image: Picture, thing: Picture, centre: tuple[float, float]
) -> tuple[tuple[slice, slice], NDArray[np.bool_]] | None:
    """Blend the thing into the image in place; returns its window and its solid pixels, None if outside."""
    height, width = image.shape[:2]
    x1, y1 = int(centre[0] - thing.shape[1] / 2), int(centre[1] - thing.shape[0] / 2)
    left, top = max(0, -x1), max(0, -y1)
    right, bottom = min(thing.shape[1], width - x1), min(thing.shape[0], height - y1)
    if right - left < 3 or bottom - top < 3:
        return None
    window = np.s_[y1 + top : y1 + bottom, x1 + left : x1 + right]
    part = thing[top:bottom, left:right]
    alpha = part[..., 3:].astype(np.float32) / 255
    ground = image[window].astype(np.float32)
    if rng.random() < 0.3 and min(part.shape[:2]) > 12:  # a soft shadow, a little to the side
        reach = max(3, min(part.shape[:2]) // 8)
        shadow = cv2.GaussianBlur(np.roll(alpha[..., 0], (reach // 2, reach // 2), (0, 1)), (0, 0), reach / 2)
        ground *= 1 - rng.uniform(0.2, 0.6) * shadow[..., None]
    image[window] = (part[..., :3] * alpha + ground * (1 - alpha)).astype(np.uint8)
    return window, part[..., 3] > 127


def _visible(sample: Sample, owner: NDArray[np.uint8], sizes: list[int]) -> tuple[Boxes, Boxes]:
    """Boxes and silent areas after pasting: the bounds of what remains visible of each thing."""
    boxes: list[list[float]] = []
    silent = sample.silent.tolist()
    for number, size in enumerate(sizes, start=1):
        mask = (owner == number).view(np.uint8)
        x, y, w, h = cv2.boundingRect(mask)
        if min(w, h) < 3:
            continue
        seen = cv2.countNonZero(mask) >= MIN_VISIBLE * size
        (boxes if seen else silent).append([x, y, x + w, y + h])
    free = cv2.integral((owner == 0).view(np.uint8))
    for box in sample.boxes:
        x1, y1, x2, y2 = (round(v) for v in box.tolist())
        left = free[y2, x2] - free[y1, x2] - free[y2, x1] + free[y1, x1]
        share = left / max(1, (x2 - x1) * (y2 - y1))
        if share >= 0.5:
            boxes.append(box.tolist())
        elif share >= 0.2:
            silent.append(box.tolist())
    return np.array(boxes, np.float32).reshape(-1, 4), np.array(silent, np.float32).reshape(-1, 4)
