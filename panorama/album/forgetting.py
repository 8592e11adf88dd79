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
from panorama.query.text.advised import uncertain_of
from panorama.query.text.quoting import quote_text

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
    """

    name: str
    accepted: NDArray[np.int64]
    uncertain: NDArray[np.int64]
    overlapping: NDArray[np.int64] = field(default_factory=_none)
    others: Mapping[str, int] = field(default_factory=dict)
    emptied: NDArray[np.int64] = field(default_factory=_none)

    def before(self) -> list[str]:
        """What to know before forgetting it: the tracks that stay can still be queried by its name."""
        tracks = f"the stored pictures of {counted(len(self.accepted), 'track')} are erased with it"
        if len(self.accepted):
            accepted = f"SELECT tracks WHERE entity = {quote_text(self.name)}"
            tracks += f"; see: {_asked(accepted, 'accepted.jpg')}"
        lines = [tracks]
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
    matched = [row[0] for row in library.query(_ACCEPTED, [entity]).fetchall()]
    accepted = np.union1d(begun, np.array(matched, np.int64))
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
    return Seen(entity, accepted, uncertain[~empty], crops, others, uncertain[empty])


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
