"""An entity to forget comes in; the pictures that go with it or stay go out, with what to do about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command, command_of
from panorama.errors import NotYetErased
from panorama.lines import counted
from panorama.query.matching.said import Said
from panorama.query.text.advised import uncertain_of
from panorama.query.text.quoting import quote_text
from panorama.store.scenes.places import PlaceTables
from panorama.store.scenes.seen_tracks import NO_TRACK, tracks_at

if TYPE_CHECKING:
    from panorama.library import Library
    from panorama.store import Overlapping, Store

SHOWN_TRACKS = 20
"""Most tracks named among those that stay; if there are more, the most similar ones."""

SHOWN_CROPS = 20
"""Most overlapping crops named; if there are more, those that are doubtful."""

_ACCEPTED = "SELECT DISTINCT track_id FROM sightings WHERE entity = ?"
_OF_OTHERS = "SELECT DISTINCT entity, track_id FROM sightings WHERE entity <> ?"


def _none() -> NDArray[np.int64]:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Seen:
    """The tracks that were matched to an entity, and the crops of other tracks that show it, too.

    Attributes:
        name: of the entity.
        accepted: (A,) int64 ids of the tracks whose crops and vectors go with its sightings.
        uncertain: (U,) int64 ids of tracks that may show it and stay, the most similar first.
        overlapping: (C,) int64 ids of crops of other tracks that go, since they show the place of an accepted
            track while it was there. Those of other entities come first, then those that show the least of
            it.
        others: how many of these crops are of tracks that were accepted as other entities, by their names.
        emptied: (E,) int64 ids of the other uncertain tracks, which have no crops but these.
        warnings: why other tracks that show it may have been missed: videos that were not searched, for
            example.
    """

    name: str
    accepted: NDArray[np.int64]
    uncertain: NDArray[np.int64]
    overlapping: NDArray[np.int64] = field(default_factory=_none)
    others: Mapping[str, int] = field(default_factory=dict)
    emptied: NDArray[np.int64] = field(default_factory=_none)
    warnings: tuple[str, ...] = ()

    def before(self) -> list[str]:
        """What to know before forgetting it: the tracks that stay can still be queried by its name."""
        tracks = f"the stored pictures of {counted(len(self.accepted), 'track')} are erased with it"
        if len(self.accepted):
            accepted = f"SELECT tracks WHERE entity = {quote_text(self.name)}"
            tracks += f"; see: {_asked(accepted, 'accepted.jpg')}"
        lines = [tracks, *(f"tracks that show it may keep their pictures: {told}" for told in self.warnings)]
        if len(self.overlapping):
            shown = self.overlapping[:SHOWN_CROPS]
            least = "" if len(shown) == len(self.overlapping) else f", {len(shown)} of them"
            crops = f"SELECT crops WHERE crop_id IN ({', '.join(map(str, shown))})"
            lines.append(
                f"{self._of_overlapping('is', 'are')}; see{least}: {_asked(crops, 'overlapping.jpg')}"
            )
        if len(self.uncertain):
            register = command_of("register", self.name, "--track ID")
            beside = f", beside {len(self.emptied)} that lose all of theirs" if len(self.emptied) else ""
            asked = _asked(uncertain_of([self.name]))
            lines.append(
                f"{_of_uncertain(len(self.uncertain))}; see{beside}: {asked}. If a track"
                f" shows it, register that track first, {register}, and its pictures are erased, too"
            )
        return lines

    def after(self) -> list[str]:
        """What went with its tracks, and what stays, by track ids, since its name means nothing any more."""
        lines = [self._of_overlapping("was", "were")] if len(self.overlapping) else []
        lines += [
            "tracks that show it may have kept their pictures; to erase them, register it again and forget"
            f" that, after this: {told}"
            for told in self.warnings
        ]
        if not len(self.uncertain):
            return lines
        shown = self.uncertain[:SHOWN_TRACKS]
        most = "" if len(shown) == len(self.uncertain) else f", the {len(shown)} most alike"
        ids = ", ".join(map(str, shown))
        lines.append(
            f"{_of_uncertain(len(self.uncertain))}; see{most}:"
            f" {_asked(f'SELECT * FROM tracks WHERE track_id IN ({ids})')}. If a track shows it, remove the"
            f" video ({command('remove', 'VIDEO')}), or register the track"
            f" ({command('register', 'NAME', '--track', 'ID')}) and"
            " forget that name with its sightings"
        )
        return lines

    def _of_overlapping(self, one: str, many: str) -> str:
        number = len(self.overlapping)
        one, many = f"picture of another track {one}", f"pictures of other tracks {many}"
        told = f"{counted(number, one, many)} erased, too, for showing the same place at the same time"
        if self.others:
            named = ", ".join(f"{name} ({number})" for name, number in sorted(self.others.items()))
            told += f"; among them are pictures of other entities: {named}"
        return told


def forget(library: Library, store: Store, name: str, with_sightings: bool) -> Seen | None:
    """Erase an entity, see `Library.forget`; returns the tracks that went with it and those that stay."""
    seen = going_with(library, name, with_sightings)
    try:
        if seen is None:
            store.forget_entity(name)
        else:
            store.forget_entity(name, seen.accepted, seen.overlapping)
    except NotYetErased as exc:
        exc.seen = seen  # they can no longer be queried by its name
        raise
    return seen


def going_with(library: Library, name: str, with_sightings: bool) -> Seen | None:
    """The tracks that go when an entity is forgotten; None if there are none.

    Without its sightings, these are the tracks that an interrupted erasure had begun to erase.
    """
    if with_sightings:
        return seen_of(library, name)
    begun = library.being_forgotten(name)
    if not len(begun):
        return None
    return Seen(library.entity(name).name, begun, begun[:0], library.crops_being_forgotten(name))


def seen_of(library: Library, name: str) -> Seen:
    """What was matched to an entity, and what overlaps that; UnknownEntity if there is no such entity."""
    entity = library.entity(name).name
    begun = library.being_forgotten(entity)  # partly erased tracks may no longer match
    sure = library.query(_ACCEPTED, [entity])
    matched = np.array([row[0] for row in sure.fetchall()], np.int64)
    accepted = np.union1d(begun, np.union1d(matched, _cut_from(library, entity)))
    found = library.query(uncertain_of([entity]))
    # Copies of a video share its tracks, but each copy has its own rows.
    rows = sorted(found, key=lambda row: -row["score"])
    uncertain = np.array(list(dict.fromkeys(row["track_id"] for row in rows)), np.int64)
    uncertain = uncertain[~np.isin(uncertain, begun)]
    named = _of_others(library, entity)
    beside = library.overlapping(accepted, np.setdiff1d(uncertain, [*chain(*named.values())]))
    empty = np.isin(uncertain, beside.emptied)
    first, others = _others_first(beside, named)
    crops = np.concatenate([first, np.setdiff1d(library.crops_being_forgotten(entity), first)])
    warnings = tuple(dict.fromkeys(sure.warnings + found.warnings))
    return Seen(entity, accepted, uncertain[~empty], crops, others, uncertain[empty], warnings)


def _cut_from(library: Library, entity: str) -> NDArray[np.int64]:
    """The tracks that examples were cut from. They show it, even if no vectors say so: they are not matched
    where a video or an example has none of the library's model.
    """
    pictures, snapshot = library.exemplars(entity), library.snapshot()
    examples, denied = (
        np.array([one.exemplar_id for one in pictures if one.kind == kind], np.int64)
        for kind in ("example", "denied")
    )
    seen = snapshot.seen.of(np.concatenate([examples, denied]))
    tracks = tracks_at(PlaceTables(snapshot), seen)
    there = tracks != NO_TRACK
    return Said.of(seen.exemplar_ids[there], tracks[there], examples, denied).accepted


def _of_others(library: Library, entity: str) -> dict[str, list[int]]:
    """The accepted tracks of each other entity."""
    tracks: dict[str, list[int]] = {}
    for name, track in library.query(_OF_OTHERS, [entity]).fetchall():
        tracks.setdefault(name, []).append(track)
    return tracks


def _others_first(
    beside: Overlapping, named: Mapping[str, list[int]]
) -> tuple[NDArray[np.int64], dict[str, int]]:
    """The overlapping crops, those of other entities first, and how many these are for each of them."""
    of = {name: np.isin(beside.track_ids, ids) for name, ids in named.items()}
    others = np.any([np.zeros(len(beside.crop_ids), np.bool_), *of.values()], axis=0)
    counts = {name: int(which.sum()) for name, which in of.items() if which.any()}
    return beside.crop_ids[np.argsort(~others, kind="stable")], counts


def _of_uncertain(number: int) -> str:
    return counted(
        number, "track is uncertain and keeps its pictures", "tracks are uncertain and keep their pictures"
    )


def _asked(sql: str, sheet: str = "uncertain.jpg") -> str:
    return command("query", sql, "--sheet", sheet)
