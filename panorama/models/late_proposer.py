"""A proposer's folder comes in; a proposer goes out that loads its network when first needed.

Indexing first decides whether a video needs indexing at all; for that it needs the model's hash, no network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from panorama.errors import ModelError
from panorama.models.base import Image, Proposer
from panorama.models.fusing import COUNTS, LEAST_SCORE, LOOKS, MOST_BOXES, SAME_IOU
from panorama.models.late import Late, LateNet
from panorama.models.weights import ModelFolder
from panorama.models.zooming import CUT_SHARE, PART_WEIGHT, SPAN
from panorama.regions import Regions
from panorama.values import is_finite

if TYPE_CHECKING:
    from panorama.models.proposer import PanoramaProposer

CODE_VERSION = 1
"""Raised when the code finds other regions with the same weights; part of the hash."""

GREY = 114
"""The pixel value that fills the canvas beside the picture; the network's zero."""

MAX_ENLARGE = 4.0
"""Largest enlargement: a picture smaller than a quarter of the input gains nothing from more."""

CANDIDATES = 160
"""Points kept before suppression; of one look, several for each region that may remain."""


@dataclass(frozen=True, slots=True)
class ProposalSettings:
    """The recipe's [inference] table, and the zoom.

    Attributes:
        side: long side of the network's input in pixels, a multiple of 32.
        floor: least objectness of a region.
        max_iou: overlap (IoU) above which the weaker of two regions is dropped.
        limit: most regions per picture.
        looks: how often the network looks at each picture, one of `fusing.COUNTS`; 1 if a recipe has none.
        zoom: from 2 on, the network also sees zoom x zoom overlapping parts of each picture, and a picture
            may have `zoom` times as many regions.
    """

    side: int
    floor: float
    max_iou: float
    limit: int
    # Hidden from repr: 1 keeps the hash from before there were several.
    looks: int = field(default=1, repr=False)
    zoom: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        if self.side < 32 or self.side % 32:
            raise ModelError(f"the proposer's side is a multiple of 32, got {self.side}")
        if not (0 <= self.floor < 1 and 0 < self.max_iou <= 1):
            raise ModelError(f"floor is in [0, 1) and max_iou in (0, 1], got {self.floor} and {self.max_iou}")
        if self.limit < 1:
            raise ModelError(f"limit is at least 1, got {self.limit}")
        if self.looks not in COUNTS:
            choices = ", ".join(map(str, COUNTS[:-1])) + f" or {COUNTS[-1]}"
            raise ModelError(f"looks are {choices} for each picture, got {self.looks}")
        if self.zoom < 1:
            raise ModelError(f"zoom is at least 1, got {self.zoom}")

    @classmethod
    def of(cls, folder: ModelFolder) -> ProposalSettings:
        """The settings of a folder's recipe, at zoom 1; see `read`."""
        return cls.read(folder.recipe, f"the recipe of {folder.path}")

    @classmethod
    def read(cls, recipe: Mapping[str, Any], what: str) -> ProposalSettings:
        """The settings of a recipe, at zoom 1; `what` names it in error messages.

        Raises:
            ModelError: the recipe lacks one, or one is not a number in its range.
        """
        try:
            given = recipe["inference"]
            found = {name: given[name] for name in ("side", "floor", "max_iou", "limit")}
            found["looks"] = given.get("looks", 1)
        except KeyError as exc:
            raise ModelError(f"{what} lacks {exc}, which a proposer needs") from exc
        except TypeError as exc:
            raise ModelError(
                f"inference in {what} is a table, got {given!r}; see embeddings/proposer/recipe.toml"
            ) from exc
        for name, value in found.items():
            is_count = name in ("side", "limit", "looks")
            if not is_finite(value) or (is_count and value != int(value)):
                raise ModelError(
                    f"{name} in [inference] of {what} is a {'whole ' * is_count}number, got {value!r}; see"
                    " embeddings/proposer-wide/recipe.toml"
                )
        counts = {name: int(found[name]) for name in ("side", "limit", "looks")}
        return cls(floor=float(found["floor"]), max_iou=float(found["max_iou"]), **counts)

    def at_side(self, side: int, zoom: int = 1) -> ProposalSettings:
        """The same settings for pictures or parts with this longest side, rounded up to a multiple of 32."""
        return replace(self, side=-(-side // 32) * 32, zoom=zoom)

    def hash(self, folder: ModelFolder) -> str:
        """Hex digest of everything that changes the regions of a model with these settings.

        The number format is not part of it: results hardly differ between formats, and a library may move
        from one processor to another.
        """
        facts: tuple[object, ...] = (CODE_VERSION, folder.sha256(), self, GREY, MAX_ENLARGE, CANDIDATES)
        if self.looks > 1:
            facts += (LOOKS[: self.looks], SAME_IOU, LEAST_SCORE, MOST_BOXES)
        if self.zoom > 1:
            facts += (self.zoom, SPAN, CUT_SHARE, PART_WEIGHT)
        return hashlib.sha256(repr(facts).encode()).hexdigest()


class LateProposer(LateNet["PanoramaProposer"], Proposer):  # type: ignore[override]
    """PanoramaProposer, loaded on first use; its name, settings and hash are known without the network.

    Args:
        folder: a model folder of kind 'proposer'.
        settings: None for those of its recipe.
        whole: loads the proposer with the recipe's settings, shared with others; None makes its own.
    """

    def __init__(
        self,
        folder: ModelFolder,
        settings: ProposalSettings | None = None,
        whole: Late[PanoramaProposer] | None = None,
    ) -> None:
        self._folder = folder
        self._late = whole or Late(self._loaded)
        self.folder = folder.path
        self.name = folder.name
        self.settings = settings or ProposalSettings.of(folder)
        self.hash = self.settings.hash(folder)

    def _loaded(self) -> PanoramaProposer:
        from panorama.models.proposer import PanoramaProposer

        return PanoramaProposer(self._folder)

    @property
    def net(self) -> PanoramaProposer:
        """The proposer with these settings, loaded and checked; ModelError if its weights do not match."""
        return self._late().at_side(self.settings.side, self.settings.zoom)

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of each picture in its own pixels; see PanoramaProposer."""
        return self.net.propose(images)

    def at_side(self, side: int, zoom: int = 1) -> LateProposer:
        """The proposer with this input side, rounded up to a multiple of 32; all sides share one network."""
        other = self.settings.at_side(side, zoom)
        return self if other == self.settings else LateProposer(self._folder, other, self._late)
