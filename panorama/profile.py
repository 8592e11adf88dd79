"""What `panorama tune` found out enters and is kept with the library; what `index` is to do leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from panorama.errors import UsageError
from panorama.ingest import Indexer, IngestSettings, Work
from panorama.lines import counted
from panorama.models.base import Embedder, Proposer
from panorama.store import Store
from panorama.threads import cores_here

SETTING = "profile"
"""Where a library keeps its profile; behind it, the settings that were in use before."""

PAST = "profile-past"


@dataclass(frozen=True, slots=True)
class Profile:
    """How new videos of a library are indexed.

    Attributes:
        settings: what indexing looks at.
        work: how the machine is used; it applies where there are as many cores as `cores`.
        cores: of the machine that it was measured on, 0 for settings that nobody measured.
        predicted_speed, measured_speed: seconds of video indexed in one second, on the sample.
        loss: share of the answers lost against the densest setting, on the sample.
    """

    settings: IngestSettings = field(default_factory=IngestSettings)
    work: Work = field(default_factory=Work)
    cores: int = 0
    predicted_speed: float = 0.0
    measured_speed: float = 0.0
    loss: float = 0.0

    @property
    def is_measured(self) -> bool:
        """Whether `tune` made it; otherwise it is the default."""
        return self.cores > 0

    @property
    def work_here(self) -> Work:
        """How this machine is used: batches and threads measured elsewhere do not fit it."""
        return self.work if self.cores == cores_here() else Work()

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    def line(self) -> str:
        """For people."""
        told = describe(self.settings)
        if not self.is_measured:
            return f"default: {told}"
        return (
            f"{told}; {self.measured_speed:.1f}x real time on {self.cores} cores,"
            f" {self.loss:.1%} of answers lost (panorama tune)"
        )


def describe(settings: IngestSettings) -> str:
    """What settings look at, in words."""
    rate = "keyframes" if settings.keyframes_only else f"{settings.samples_per_second:g} a second"
    if settings.every is not None:
        rate = f"every {settings.every}. frame"
    told = f"{rate}, {settings.proposal_side} pixels, {settings.crops_per_track} crops a track"
    return told if settings.depth is None else f"{told}, {counted(settings.depth, 'exit')}"


def profile_in(kept: Mapping[str, Any]) -> Profile:
    """The profile among the settings of a library, the default where there is none.

    Raises:
        UsageError: another version of Panorama kept what this one does not know.
    """
    raw = kept.get(SETTING)
    if raw is None:
        return Profile()
    try:
        facts = {name: value for name, value in raw.items() if name not in ("settings", "work")}
        return Profile(IngestSettings(**raw["settings"]), Work(**raw["work"]), **facts)
    except (TypeError, KeyError) as exc:
        raise UsageError(
            f"the profile of this library does not fit this version ({exc}); forget it: panorama tune --reset"
        ) from exc


def remember(kept: Mapping[str, Any], put: Callable[[str, Any], None], profile: Profile | None) -> None:
    """Keep a profile, None for the default; videos indexed with the one before keep their version.

    Args:
        kept, put: the settings of the library, and what keeps one of them.
    """
    before = (kept.get(SETTING) or {}).get("settings")
    past = [] if before is None else [before]
    past += [settings for settings in kept.get(PAST) or [] if settings not in past]
    put(PAST, past or None)
    put(SETTING, None if profile is None else profile.as_dict())


def prepare(
    store: Store,
    proposer: Proposer,
    embedder: Embedder,
    asked: IngestSettings | None,
    redo: bool,
    depth: int | None = None,
) -> tuple[Indexer, frozenset[str]]:
    """The stages for an `index`, and the hashes of settings whose videos it leaves as they are.

    Who names settings wants them for all videos named. Otherwise new videos get the profile, and those that
    an earlier profile or the default indexed stay.

    Args:
        asked: settings that the caller names, None for those of the profile.
        redo: do those again, too.
        depth: of crops, instead of that of the settings.
    """
    profile = profile_in({SETTING: store.setting(SETTING)})
    settings = asked or profile.settings
    if depth is not None:
        settings = replace(settings, depth=depth)  # not a way of looking: it decides over no video
    indexer = Indexer(embedder, proposer, settings, profile.work_here)
    if asked is not None or redo:
        return indexer, frozenset()
    return indexer, _hashes(store, proposer)


def _hashes(store: Store, proposer: Proposer) -> frozenset[str]:
    """Of the default and of every profile that this library had; with another proposer they are others."""
    former = [IngestSettings(), *(_settings(raw) for raw in store.setting(PAST, []))]
    return frozenset(s.hash(proposer.at_side(s.proposal_side).hash) for s in former if s is not None)


def _settings(raw: Mapping[str, Any]) -> IngestSettings | None:
    """Settings as kept; None for those of another version, which are nobody's here."""
    try:
        return IngestSettings(**raw)
    except (TypeError, UsageError):
        return None


def with_rate(profile: Profile, fps: float | None, every: int | None, quick: bool) -> IngestSettings | None:
    """The profile's settings with another rate; None where none is named.

    Raises:
        UsageError: the rate is out of range.
    """
    if fps is not None:
        return replace(profile.settings, samples_per_second=fps, every=None, keyframes_only=False)
    if every is not None or quick:
        return replace(profile.settings, every=every, keyframes_only=quick)
    return None
