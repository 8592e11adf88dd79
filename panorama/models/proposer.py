"""RGB pictures of any size come in; class-agnostic regions of each, best first, go out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.content import DEFAULT_PROPOSER
from panorama.errors import BadImage, ModelError
from panorama.models.base import Image, Proposer
from panorama.models.device import choose_device
from panorama.models.folded import Tensors
from panorama.models.fusing import LEAST_SCORE, MOST_BOXES, propose_fused
from panorama.models.late_proposer import CANDIDATES, GREY, MAX_ENLARGE, ProposalSettings
from panorama.models.points import boxes_at
from panorama.models.precision import Precision, choose, why_no_int8
from panorama.models.proposer_shape import Shape
from panorama.models.ranges import Ranges, in_batches, measure, ranges_for
from panorama.models.weights import WEIGHTS, ModelFolder, open_model
from panorama.models.zooming import propose_zoomed
from panorama.regions import DETECTOR, Regions, suppress

BATCH = 15
"""Most frames in one batch of the network: as many as indexing gathers, because every further batch costs
another call. With 16 or more, torch sums the last floating-point products in another order.
"""


class Network(Protocol):
    """The network, whichever format it runs in."""

    def __call__(self, pictures: NDArray[np.uint8]) -> NDArray[np.float32]:
        """From (B, H, W, 3) bytes, with H and W multiples of 32, to (B, N, 5); see `points`."""

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function that it calls while it computes, as often as possible."""


class PanoramaProposer(Proposer):
    """The one-shot detector of a model folder: gives objectness and a box, whatever the thing is.

    Args:
        folder: a model folder of kind 'proposer'.
        side, floor, limit: replace the recipe's; see `ProposalSettings`. They are part of the hash.
        precision: 'int8', 'bfloat16', 'float32'; 'auto' for the fastest here; None for $PANORAMA_PRECISION.
        device: 'cpu', 'cuda', 'cuda:1'; 'auto' for a GPU if there is one; None for $PANORAMA_DEVICE.

    Attributes:
        precision: the number format of the network, and why not int8.
        device: where it runs.
        network: the network.

    Raises:
        ModelError: the recipe or the weights are not a proposer's.
    """

    precision: Precision
    device: str

    def __init__(
        self,
        folder: ModelFolder,
        side: int | None = None,
        floor: float | None = None,
        limit: int | None = None,
        precision: str | None = None,
        device: str | None = None,
    ) -> None:
        given = {"side": side, "floor": floor, "limit": limit}
        changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self.settings = replace(ProposalSettings.of(folder), **changed)
        self.name = folder.name
        self._folder = folder
        self.device = choose_device(device)
        ranges, lacking = ranges_for(folder, precision)
        self.precision = choose(precision, lambda: lacking or why_no_int8(), self.device)
        self.network = _network(folder, self.precision, self.device, ranges)
        self.hash = self.settings.hash(folder)

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of each picture in its own pixels, best first, overlaps removed.

        At most `settings.limit` regions per picture, times the zoom.

        Raises:
            BadImage: a picture is not (H, W, 3) uint8 or is empty.
        """
        settings = self.settings
        if settings.zoom == 1:
            return self._whole(images)
        limit = settings.limit * settings.zoom
        return propose_zoomed(self._whole, images, settings.zoom, settings.max_iou, limit)

    def _whole(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of whole pictures, from all looks."""
        settings = self.settings
        if settings.looks == 1:
            return self._look(images, settings)

        def look(pictures: Sequence[Image], side: int) -> list[Regions]:
            return self._look(pictures, replace(settings, side=side, floor=LEAST_SCORE, limit=MOST_BOXES))

        return propose_fused(
            look,
            images,
            settings.side,
            settings.looks,
            floor=settings.floor,
            max_iou=settings.max_iou,
            limit=settings.limit,
        )

    def _look(self, images: Sequence[Image], settings: ProposalSettings) -> list[Regions]:
        """Regions of whole pictures from one look; pictures with canvases of one size share batches."""
        found: list[Regions] = [Regions.empty()] * len(images)
        by_canvas: dict[tuple[int, int], list[int]] = {}
        fits = [fit(image, settings.side) for image in images]
        for number, (_, _, canvas) in enumerate(fits):
            by_canvas.setdefault(canvas, []).append(number)
        for (height, width), numbers in by_canvas.items():
            for first in range(0, len(numbers), BATCH):
                some = numbers[first : first + BATCH]
                batch = np.full((len(some), height, width, 3), GREY, np.uint8)
                for row, number in enumerate(some):
                    inner_height, inner_width, _ = fits[number]
                    batch[row, :inner_height, :inner_width] = resize(
                        images[number], inner_height, inner_width
                    )
                said = self.network(batch)
                for row, number in enumerate(some):
                    inner_height, inner_width, _ = fits[number]
                    true_height, true_width = images[number].shape[:2]
                    regions = _select(said[row], height, width, settings)
                    regions = regions.scaled(true_width / inner_width, true_height / inner_height)
                    found[number] = regions.clipped(true_width, true_height)
        return found

    def at_side(self, side: int, zoom: int = 1) -> PanoramaProposer:
        """The proposer with this input side, rounded up to a multiple of 32; itself if nothing changes."""
        settings = self.settings.at_side(side, zoom)
        if settings == self.settings:
            return self
        other = copy.copy(self)  # shares the network, whose weights fit pictures of any size
        other.settings, other.hash = settings, settings.hash(self._folder)
        return other

    def rest_by(self, rest: Callable[[], None]) -> None:
        """Set a function to call between layers or, in 8 bits, between a few pictures."""
        self.network.rest_by(rest)

    def ranges(self, images: Iterable[Image]) -> Ranges:
        """The range of each layer, see `measure`, over all looks at pictures; needs floating point."""
        from panorama.models.proposer_floats import KINDS, ProposerInFloats

        assert isinstance(self.network, ProposerInFloats)
        return measure(
            self.network.net, KINDS, lambda: [self.propose(some) for some in in_batches(images, BATCH)]
        )


def _select(said: NDArray[np.float32], height: int, width: int, settings: ProposalSettings) -> Regions:
    """The best of one picture's points (N, 5) as regions in canvas pixels."""
    scores = 1 / (1 + np.exp(-said[:, 0].clip(-80)))
    good = np.flatnonzero(scores >= settings.floor)
    best = good[np.argsort(-scores[good], kind="stable")[:CANDIDATES]]
    regions = Regions.of(boxes_at(said[best, 1:], best, height, width), scores[best], DETECTOR)
    return suppress(regions, settings.max_iou, settings.limit)


def _network(folder: ModelFolder, precision: Precision, device: str, ranges: Ranges) -> Network:
    """The network of a folder, with its weights loaded and checked."""
    shape = Shape.of(folder.recipe, f"the recipe of {folder.path}")
    tensors, where = folder.arrays(WEIGHTS), f"the weights of {folder.path}"
    # Both variants need a large package: import only the one that runs.
    if precision.name != "int8":
        from panorama.models.proposer_floats import ProposerInFloats
        from panorama.models.proposer_net import ProposerNet

        net = ProposerNet(shape.widths, shape.depths, shape.pyramid)
        return ProposerInFloats(net, tensors, where, precision.dtype, device)
    from panorama.models.proposer8 import Proposer8

    try:
        return Proposer8(shape, Tensors(tensors, where), ranges)
    except KeyError as exc:
        raise ModelError(f"the ranges of {folder.path} lack the layer {exc}") from exc


def load_proposer(name: str | None = None) -> PanoramaProposer:
    """The proposer with this name or folder, loaded and checked now.

    Args:
        name: None for the shipped default.

    Raises:
        ModelError: there is no such proposer, or its weights are missing or do not match the recipe.
    """
    return PanoramaProposer(open_model(DEFAULT_PROPOSER if name is None else name, "proposer"))


def fit(image: Image, side: int) -> tuple[int, int, tuple[int, int]]:
    """Size of the scaled picture inside its canvas, and size of the canvas, whose sides are multiples of 32.

    Returns:
        (height, width, (canvas height, canvas width)) in pixels.

    Raises:
        BadImage: not (H, W, 3) uint8, or empty.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or 0 in image.shape:
        raise BadImage(
            f"a picture is (height, width, 3) uint8 and not empty, got {image.shape} {image.dtype}"
        )
    height, width = image.shape[:2]
    factor = min(MAX_ENLARGE, side / max(height, width))
    inner_height, inner_width = max(1, round(height * factor)), max(1, round(width * factor))
    return inner_height, inner_width, (-(-inner_height // 32) * 32, -(-inner_width // 32) * 32)


def resize(image: Image, height: int, width: int) -> Image:
    """The picture at another size; averages areas when shrinking, so that small things do not alias away."""
    if image.shape[:2] == (height, width):
        return image
    shrinking = height < image.shape[0]
    way = cv2.INTER_AREA if shrinking else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (width, height), interpolation=way), np.uint8)
