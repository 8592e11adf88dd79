"""What a caller asks of indexing enters; what it looks at, how it uses the machine, and their key leave."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from panorama.arguments import take_fields
from panorama.errors import UsageError
from panorama.models.base import Embedder, Proposer
from panorama.models.zooming import picture_side
from panorama.threads import Threads
from panorama.tracking.sampling import Rate

PROPOSAL_BATCH = 8
"""Pictures that the proposer sees at once."""

EMBED_BATCH = 64
"""Crops that are embedded at once."""

CODE_VERSION = "7"
"""Part of the settings' hash: raise it when the same settings give other rows."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """What indexing looks at. All of it is part of a segment's key.

    Attributes:
        samples_per_second: how often regions are looked for; between samples boxes are interpolated.
        every: look at every so many frames instead of a rate; `index` refuses both.
        crops_per_track: pictures kept of each track.
        proposal_side: longest side in pixels of the picture that the proposer sees.
        zoom: from 2, the proposer looks at zoom x zoom overlapping parts of each picture besides the whole.
        max_regions: boxes kept in one frame, times the zoom.
        min_side: boxes with a shorter side, in pixels of the video, are dropped.
        keyframes_only: look at keyframes alone; quick, and coarse.
        depth: exits of the embedder that crops are taken to, None for all. A query takes those that it has to
            know more of deeper. It changes no track and no crop, so it is not part of the key.
    """

    samples_per_second: float = 5.0
    every: int | None = None
    crops_per_track: int = 4
    proposal_side: int = 416
    zoom: int = 1
    max_regions: int = 20
    min_side: int = 12
    keyframes_only: bool = False
    depth: int | None = None

    def __post_init__(self) -> None:
        take_fields(self)

    @property
    def rate(self) -> Rate:
        """Which decoded frames are looked at."""
        return Rate(self.samples_per_second, self.every, self.keyframes_only)

    @property
    def picture_side(self) -> int:
        """Longest side in pixels of the picture that the proposer is given; no video is enlarged for it."""
        return picture_side(self.proposal_side, self.zoom)

    def of(self, proposer: Proposer) -> Proposer:
        """The proposer as these settings want it."""
        return proposer.at_side(self.proposal_side, self.zoom)

    def hash(self, proposer_hash: str) -> str:
        """Hex digest of all that changes a segment's tracks and crops."""
        looks = {name: value for name, value in asdict(self).items() if name != "depth"}
        if self.zoom == 1:
            del looks["zoom"]  # as it was before there was another: those videos stay as they are
        key = {**looks, "proposer": proposer_hash, "code": CODE_VERSION}
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Work:
    """How the machine is used: it changes how long indexing takes, not what is found.

    Attributes:
        proposal_batch: pictures that the proposer sees at once.
        embed_batch: crops that are embedded at once.
        network_threads: of each network, None for what suits the number of cores.
    """

    proposal_batch: int = PROPOSAL_BATCH
    embed_batch: int = EMBED_BATCH
    network_threads: int | None = None

    def __post_init__(self) -> None:
        take_fields(self)

    @property
    def threads(self) -> Threads:
        """The threads of all libraries."""
        here = Threads.here()
        return here if self.network_threads is None else replace(here, network=self.network_threads)


@dataclass(frozen=True, slots=True)
class Kept:
    """Which videos an `index` leaves as they are.

    Attributes:
        hashes: of settings other than its own; what was indexed with these stays.
        older: whether what an earlier version indexed stays, which kept less of it.
        anew: settings with which is indexed anew what an earlier version or another proposer indexed, by the
            hash that it has.
        partial: the same for what would otherwise stay, but lost a data file, or was indexed in part by an
            earlier version, since its drive did not answer. Where nobody knows what a hash stands for, such a
            part does stay.
    """

    hashes: frozenset[str] = frozenset()
    older: bool = True
    anew: Mapping[str, IngestSettings] = field(default_factory=dict)
    partial: Mapping[str, IngestSettings] = field(default_factory=dict)

    def holds(self, settings_hash: str, own_hash: str, is_older: bool) -> bool:
        """Whether a video stays that was indexed with these settings, where an `index` has its own."""
        return settings_hash in self.hashes or (settings_hash == own_hash and (self.older or not is_older))

    def completes(self, settings_hash: str, own_hash: str) -> bool:
        """Whether a video that would stay does not, as it was indexed in part: with these it can be again."""
        return settings_hash == own_hash or settings_hash in self.partial


def check_depth(depth: int | None, embedder: Embedder) -> None:
    """Refuse a depth that an embedder does not have.

    Raises:
        UsageError: more are asked for than there are.
    """
    if depth is not None and depth > embedder.exits:
        raise UsageError(f"--depth is at most {embedder.exits} with {embedder.name}, got {depth}")
