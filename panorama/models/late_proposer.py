"""A proposer's folder enters; a proposer leaves that loads its network when told to, or for a picture.

What indexing asks first, whether a video is to be indexed at all, needs the model's hash and no network.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from panorama.errors import ModelError
from panorama.models.base import Image, Proposer
from panorama.models.late import Late, LateNet
from panorama.models.weights import ModelFolder, is_finite
from panorama.models.zooming import CUT_SHARE, PART_WEIGHT, SPAN
from panorama.regions import Regions

if TYPE_CHECKING:
    from panorama.models.proposer import PanoramaProposer

CODE_VERSION = 1
"""Raised when the code gives other regions for the same weights; part of the hash."""

GREY = 114
"""What fills the canvas beside the picture; the network's zero."""

MAX_ENLARGE = 4.0
"""A picture smaller than a quarter of the input is not enlarged further: there is nothing more to see."""

CANDIDATES = 160
"""Points kept before suppression, a few for each region that can come out."""


@dataclass(frozen=True, slots=True)
class ProposalSettings:
    """What the recipe's [inference] table says.

    Attributes:
        side: long side of the network's input in pixels, a multiple of 32.
        floor: least objectness of a region.
        max_iou: overlap above which the weaker of two regions is dropped.
        limit: most regions a picture.
        zoom: from 2, zoom x zoom overlapping parts of each picture are looked at besides the whole, and there
            may be `zoom` times as many regions.
    """

    side: int
    floor: float
    max_iou: float
    limit: int
    zoom: int = field(default=1, repr=False)  # so that the hash of 1 is what it was before there was another

    def __post_init__(self) -> None:
        if self.side < 32 or self.side % 32:
            raise ModelError(f"the proposer's side is a multiple of 32, got {self.side}")
        if not (0 <= self.floor < 1 and 0 < self.max_iou <= 1):
            raise ModelError(f"floor is in [0, 1) and max_iou in (0, 1], got {self.floor} and {self.max_iou}")
        if self.limit < 1:
            raise ModelError(f"limit is at least 1, got {self.limit}")
        if self.zoom < 1:
            raise ModelError(f"zoom is at least 1, got {self.zoom}")

    @classmethod
    def of(cls, folder: ModelFolder) -> ProposalSettings:
        """Those of a recipe.

        Raises:
            ModelError: it lacks one, or one is no such number.
        """
        try:
            given = folder.recipe["inference"]
            found = {name: given[name] for name in ("side", "floor", "max_iou", "limit")}
        except KeyError as exc:
            raise ModelError(f"the recipe of {folder.path} lacks {exc}, which a proposer needs") from exc
        except TypeError as exc:
            raise ModelError(
                f"inference in the recipe of {folder.path} is a table, got {given!r}; see"
                " embeddings/proposer/recipe.toml"
            ) from exc
        for name, value in found.items():
            whole = name in ("side", "limit")
            if not is_finite(value) or (whole and value != int(value)):
                raise ModelError(
                    f"{name} in [inference] of the recipe of {folder.path} is a {'whole ' * whole}number, got"
                    f" {value!r}; see embeddings/proposer/recipe.toml"
                )
        return cls(int(found["side"]), float(found["floor"]), float(found["max_iou"]), int(found["limit"]))

    def at_side(self, side: int, zoom: int = 1) -> ProposalSettings:
        """The same for pictures or parts of that longest side, rounded up to a multiple of 32."""
        return replace(self, side=-(-side // 32) * 32, zoom=zoom)

    def hash(self, folder: ModelFolder) -> str:
        """Hex digest of all that changes the regions of a model with these settings.

        The format that it runs in is no part: processors differ by rounding only, and a library moves
        between them.
        """
        facts: tuple[object, ...] = (CODE_VERSION, folder.sha256(), self, GREY, MAX_ENLARGE, CANDIDATES)
        if self.zoom > 1:
            facts += (self.zoom, SPAN, CUT_SHARE, PART_WEIGHT)
        return hashlib.sha256(repr(facts).encode()).hexdigest()


class LateProposer(LateNet["PanoramaProposer"], Proposer):  # type: ignore[override]
    """PanoramaProposer, loaded on first use; what its files say can be had before.

    Args:
        folder: a model folder of kind 'proposer'.
        settings: None for those of its recipe.
        whole: what loads it with the recipe's settings, where others share the network.
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
        """The network, loaded and checked; ModelError where its weights are not those of the recipe."""
        return self._late().at_side(self.settings.side, self.settings.zoom)

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        """Regions of each picture in its own pixels; see PanoramaProposer."""
        return self.net.propose(images)

    def at_side(self, side: int, zoom: int = 1) -> LateProposer:
        """The proposer with an input of that side; one network serves all sides."""
        other = self.settings.at_side(side, zoom)
        return self if other == self.settings else LateProposer(self._folder, other, self._late)
