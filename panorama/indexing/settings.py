"""Options of indexing come in; what it looks at, how it uses the computer, and their hash go out."""

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
"""Pictures in one batch of the proposer."""

EMBED_BATCH = 64
"""Crops in one batch of the embedder."""

CODE_VERSION = "9"
"""Part of the settings' hash: raise it when the same settings produce different rows."""


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """What indexing looks at. All fields but `depth` decide whether a video must be indexed again.

    Attributes:
        samples_per_second: how often to look for regions; boxes are interpolated between samples.
        every: look at every n-th frame, in place of a rate; `index` refuses it beside a rate that is neither
            the default nor that of the library's profile.
        crops_per_track: number of crops kept of each track.
        proposal_side: longest side, in pixels, of the picture that the proposer sees.
        zoom: from 2 on, the proposer sees zoom x zoom overlapping parts of each picture as well as the whole.
        max_regions: most boxes kept in one frame, times the zoom.
        min_side: drop boxes whose shorter side, in pixels of the video, is below this.
        keyframes_only: look only at keyframes: fast, and coarse.
        depth: how many exits of the embedder to take crops to; None for all. A query takes crops deeper if it
            needs to. Depth changes no track and no crop, so it is not part of the hash.
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
        """Which decoded frames are sampled."""
        return Rate(self.samples_per_second, self.every, self.keyframes_only)

    @property
    def picture_side(self) -> int:
        """Longest side, in pixels, of the picture given to the proposer; smaller videos are not enlarged."""
        return picture_side(self.proposal_side, self.zoom)

    def of(self, proposer: Proposer) -> Proposer:
        """The proposer, set to these settings' picture size and zoom."""
        return proposer.at_side(self.proposal_side, self.zoom)

    def hash(self, proposer_hash: str) -> str:
        """Hex digest of everything that changes the tracks and crops of a segment."""
        looks = {name: value for name, value in asdict(self).items() if name != "depth"}
        if self.zoom == 1:
            del looks["zoom"]  # older versions had no zoom: videos that they indexed keep their hash
        key = {**looks, "proposer": proposer_hash, "code": CODE_VERSION}
        return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Work:
    """How indexing uses the computer: changes its duration, not its results.

    Attributes:
        proposal_batch: pictures in one batch of the proposer.
        embed_batch: crops in one batch of the embedder.
        network_threads: threads of each network; None chooses by the number of cores.
    """

    proposal_batch: int = PROPOSAL_BATCH
    embed_batch: int = EMBED_BATCH
    network_threads: int | None = None

    def __post_init__(self) -> None:
        take_fields(self)

    @property
    def threads(self) -> Threads:
        """The thread counts of all libraries."""
        here = Threads.here()
        return here if self.network_threads is None else replace(here, network=self.network_threads)


@dataclass(frozen=True, slots=True)
class Kept:
    """Which videos an `index` leaves as they are.

    Attributes:
        hashes: hashes of other settings; videos indexed with these stay.
        older: whether videos indexed by an earlier version stay, although that version stored less.
        anew: for videos that an earlier version or another proposer indexed: their hash -> the settings to
            index them again with.
        partial: the same for videos that would otherwise stay, but lost a data file, or were indexed in part
            by an earlier version because their drive did not respond. If the settings behind a hash are
            unknown, such a part stays.
    """

    hashes: frozenset[str] = frozenset()
    older: bool = True
    anew: Mapping[str, IngestSettings] = field(default_factory=dict)
    partial: Mapping[str, IngestSettings] = field(default_factory=dict)

    def holds(self, settings_hash: str, own_hash: str, is_older: bool) -> bool:
        """Whether a video with this settings hash stays.

        Args:
            own_hash: the hash of the settings of this `index`.
            is_older: whether an earlier version indexed the video.
        """
        return settings_hash in self.hashes or (settings_hash == own_hash and (self.older or not is_older))

    def completes(self, settings_hash: str, own_hash: str) -> bool:
        """Whether a partly indexed video with this hash can be indexed again, so that it does not stay."""
        return settings_hash == own_hash or settings_hash in self.partial


def check_depth(depth: int | None, embedder: Embedder) -> None:
    """Refuse a depth that the embedder does not have.

    Raises:
        UsageError: the depth exceeds the embedder's number of exits.
    """
    if depth is not None and depth > embedder.exits:
        raise UsageError(f"--depth is at most {embedder.exits} with {embedder.name}, got {depth}")
