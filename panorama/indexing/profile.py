"""The findings of `panorama tune` come in and are kept with the library; what `index` is to do goes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from panorama.answering.quick_looks import note_quick_look, quick_looks
from panorama.commands import command
from panorama.errors import UsageError
from panorama.indexing.settings import IngestSettings, Kept, Work
from panorama.lines import counted
from panorama.models.base import Embedder, Proposer
from panorama.store import Store
from panorama.threads import cores_here

if TYPE_CHECKING:
    from panorama.indexing.stages import Indexer
    from panorama.library import Library

SETTING = "profile"
"""The setting for a library's profile."""

PAST = "profile-past"
"""The setting for settings used before or given by a caller: their videos stay as they are."""

LOOKS = "looks"
"""The setting that maps hashes to settings. A segment stores only the hash, which reveals nothing and cannot
be computed again once the proposer or the code has changed.
"""


@dataclass(frozen=True, slots=True)
class Profile:
    """How new videos of a library are indexed.

    Attributes:
        settings: what indexing looks at.
        work: how it uses the computer; applies if the number of cores equals `cores`.
        cores: of the computer that it was measured on; 0 for settings that were not measured.
        predicted_speed, measured_speed: seconds of video indexed per second, on the sample.
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
        """How to use this computer: batches and threads measured elsewhere do not fit it."""
        return self.work if self.cores == cores_here() else Work()

    def as_dict(self) -> dict[str, Any]:
        """The profile for JSON."""
        return asdict(self)

    def line(self) -> str:
        """The profile as a line for people."""
        told = describe(self.settings)
        if not self.is_measured:
            return f"default: {told}"
        return (
            f"{told}; {self.measured_speed:.1f}x real time on {self.cores} cores,"
            f" {self.loss:.1%} of answers lost ({command('tune')})"
        )


def describe(settings: IngestSettings) -> str:
    """Settings in words."""
    rate = "keyframes" if settings.keyframes_only else f"{settings.samples_per_second:g} a second"
    if settings.every is not None:
        rate = f"1 in {settings.every} frames"
    pixels = f"{settings.proposal_side} pixels" + ("" if settings.zoom == 1 else f", zoom {settings.zoom}")
    told = f"{rate}, {pixels}, {settings.crops_per_track} crops a track"
    return told if settings.depth is None else f"{told}, {counted(settings.depth, 'exit')}"


def profile_in(kept: Mapping[str, Any]) -> Profile:
    """The profile among a library's kept values; the default if there is none.

    Raises:
        UsageError: another version of Panorama kept fields that this one does not know.
    """
    raw = kept.get(SETTING)
    if raw is None:
        return Profile()
    try:
        facts = {name: value for name, value in raw.items() if name not in ("settings", "work")}
        return Profile(IngestSettings(**raw["settings"]), Work(**raw["work"]), **facts)
    except (TypeError, KeyError) as exc:
        raise UsageError(
            f"the profile of this library does not fit this version ({exc}); remove it:"
            f" {command('tune', '--reset')}"
        ) from exc


def check_rate(asked: IngestSettings | None, store: Store | None) -> None:
    """Refuse settings that set both a rate and `every`: only one of them can apply.

    The default rate and that of the library's profile do not count as set, so `--every` may stand beside
    them.

    Args:
        store: of the library; None if there is none yet.

    Raises:
        UsageError: both are set.
    """
    if asked is None or asked.every is None:
        return
    profile = profile_in({} if store is None else {SETTING: store.setting(SETTING)})
    unnamed = (IngestSettings().samples_per_second, profile.settings.samples_per_second)
    if asked.samples_per_second not in unnamed:
        raise UsageError(
            "give one of samples_per_second and every, got"
            f" IngestSettings(samples_per_second={asked.samples_per_second:g}, every={asked.every})"
        )


def remember(library: Library, profile: Profile | None) -> bool:
    """Keep a profile, None for the default; videos indexed with the previous one stay as they are.

    Returns:
        Whether there was a previous one.
    """
    was_there = False

    def change(kept: Mapping[str, Any]) -> dict[str, Any]:
        nonlocal was_there
        was_there = kept.get(SETTING) is not None
        before = (kept.get(SETTING) or {}).get("settings")
        past = _with(before, kept.get(PAST)) or None
        return {PAST: past, SETTING: None if profile is None else profile.as_dict()}

    library.change_settings(change)
    return was_there


def _with(settings: Mapping[str, Any] | None, past: Sequence[Mapping[str, Any]] | None) -> list[Any]:
    """Some settings, followed by those kept before, each once."""
    first = [] if settings is None else [settings]
    return [*first, *(other for other in past or [] if other not in first)]


def prepare(
    store: Store,
    proposer: Proposer,
    embedder: Embedder,
    asked: IngestSettings | None,
    redo: bool,
    depth: int | None = None,
) -> tuple[Indexer, Kept]:
    """The stages for an `index`, and which videos it leaves as they are.

    Settings given by a caller apply to all videos named, and their results are kept: a later `index` without
    settings must not throw away videos that were sampled more densely. Such an `index` gives new videos the
    profile; videos indexed with given settings, an earlier profile or the default stay. Only videos of which
    just the keyframes were looked at are indexed again.

    If an earlier version or another proposer indexed videos with the same settings, they are indexed again:
    with the same settings if these were given or belong to an earlier profile, otherwise with the profile.

    Args:
        asked: settings given by the caller; None for the profile's.
        redo: also index again videos with other settings, and those of an earlier version.
        depth: of crops, in place of that of the settings.
    """
    # Imported here: showing the profile needs nothing that decodes or tracks.
    from panorama.indexing.stages import Indexer

    profile = profile_in({SETTING: store.setting(SETTING)})
    settings = asked or profile.settings
    if depth is not None:
        settings = replace(settings, depth=depth)  # depth alone makes no video be indexed again
    indexer = Indexer(embedder, proposer, settings, profile.work_here)
    if settings.keyframes_only:
        note_quick_look(store, indexer.settings_hash)
    if asked is not None and not asked.keyframes_only:
        named = asdict(replace(asked, depth=None))
        store.change_settings(lambda kept: {PAST: _with(named, kept.get(PAST))})
    former = [one for raw in store.setting(PAST, []) if (one := _settings(raw)) is not None]
    looks = _note_looks(store, proposer, [IngestSettings(), settings, *former])
    if redo:
        return indexer, Kept(older=False)
    if asked is not None:
        same = {one.hash(one.of(proposer).hash) for one in looks.values() if _looks_alike(one, asked)}
        same.discard(indexer.settings_hash)
        return indexer, Kept(frozenset(same), partial=dict.fromkeys(same, settings))
    stays = {one.hash(one.of(proposer).hash) for one in (IngestSettings(), *former)}
    anew = {}
    for look in set(store.snapshot().looks) - stays - {indexer.settings_hash} - quick_looks(store):
        settings_then = looks.get(look)
        if settings_then is None and former:
            stays.add(look)  # indexed before hashes were recorded: the caller may have given the settings
        else:
            anew[look] = settings_then if settings_then in former else settings
    partial = {look: looks[look] for look in stays & looks.keys()}
    return indexer, Kept(frozenset(stays), anew=anew, partial=partial)


def _looks_alike(one: IngestSettings, other: IngestSettings) -> bool:
    """Whether two settings with a step of frames differ at most in the rate, which says nothing beside it."""
    alike = replace(one, samples_per_second=other.samples_per_second, depth=other.depth)
    return one.every is not None and alike == other


def _note_looks(
    store: Store, proposer: Proposer, used: Sequence[IngestSettings]
) -> dict[str, IngestSettings]:
    """Record the settings behind hashes, with this proposer and code; returns all recorded ones."""
    now = {one.hash(one.of(proposer).hash): asdict(replace(one, depth=None)) for one in used}
    store.change_settings(lambda kept: {LOOKS: {**now, **kept.get(LOOKS, {})}})
    looks = store.setting(LOOKS).items()
    return {look: one for look, raw in looks if (one := _settings(raw)) is not None}


def _settings(raw: Mapping[str, Any]) -> IngestSettings | None:
    """Kept settings without their depth; None for those of another version, which cannot be used here."""
    try:
        return replace(IngestSettings(**raw), depth=None)
    except (TypeError, UsageError):
        return None


def named(
    profile: Profile, fps: float | None, every: int | None, quick: bool, zoom: int | None = None
) -> IngestSettings | None:
    """The profile's settings with another rate or zoom; None if neither is given.

    Raises:
        UsageError: a value is out of range.
    """
    changes: dict[str, Any] = {}
    if fps is not None:
        changes |= {"samples_per_second": fps, "every": None, "keyframes_only": False}
    if every is not None or quick:
        # The rate says nothing beside these, but is part of the hash: the same one, whatever the profile has.
        rate = IngestSettings().samples_per_second
        changes |= {"samples_per_second": rate, "every": every, "keyframes_only": quick}
    if zoom is not None:
        changes["zoom"] = zoom
    return replace(profile.settings, **changes) if changes else None
