"""An entity to forget comes in; the tracks that go with it or stay go out, with what to do about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command, command_of
from panorama.errors import NotYetErased
from panorama.lines import counted
from panorama.query.text.advised import uncertain_of

if TYPE_CHECKING:
    from panorama.library import Library
    from panorama.store import Store

SHOWN_TRACKS = 20
"""Most tracks named among those that stay; if there are more, the most similar ones."""

_ACCEPTED = "SELECT DISTINCT track_id FROM sightings WHERE entity = ?"


@dataclass(frozen=True, slots=True)
class Seen:
    """The tracks that were matched to an entity.

    Attributes:
        name: of the entity.
        accepted: (A,) int64 ids of the tracks whose crops and vectors go with its sightings.
        uncertain: (U,) int64 ids of tracks that may show it and stay, the most similar first.
    """

    name: str
    accepted: NDArray[np.int64]
    uncertain: NDArray[np.int64]

    def before(self) -> list[str]:
        """What to know before forgetting it: the tracks that stay can still be queried by its name."""
        lines = [f"the stored pictures of {counted(len(self.accepted), 'track')} are erased with it"]
        if len(self.uncertain):
            register = command_of("register", self.name, "--track ID")
            lines.append(
                f"{_of_uncertain(len(self.uncertain))}; see: {_asked(uncertain_of([self.name]))}. If a track"
                f" shows it, register that track first, {register}, and its pictures are erased, too"
            )
        return lines

    def after(self) -> list[str]:
        """What stays after forgetting it, by track ids, since its name means nothing any more."""
        if not len(self.uncertain):
            return []
        shown = self.uncertain[:SHOWN_TRACKS]
        most = "" if len(shown) == len(self.uncertain) else f", the {len(shown)} most alike"
        ids = ", ".join(map(str, shown))
        return [
            f"{_of_uncertain(len(self.uncertain))}; see{most}:"
            f" {_asked(f'SELECT * FROM tracks WHERE track_id IN ({ids})')}. If a track shows it, remove the"
            f" video ({command('remove', 'VIDEO')}), or register the track"
            f" ({command('register', 'NAME', '--track', 'ID')}) and"
            " forget that name with its sightings"
        ]


def forget(library: Library, store: Store, name: str, with_sightings: bool) -> Seen | None:
    """Erase an entity, see `Library.forget`; returns the tracks that went with it and those that stay."""
    seen = going_with(library, name, with_sightings)
    try:
        store.forget_entity(name, None if seen is None else seen.accepted)
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
    return Seen(library.entity(name).name, begun, begun[:0]) if len(begun) else None


def seen_of(library: Library, name: str) -> Seen:
    """The tracks matched to an entity, accepted and uncertain; UnknownEntity if there is no such entity."""
    entity = library.entity(name).name
    begun = library.being_forgotten(entity)  # partly erased tracks may no longer match
    accepted = [row[0] for row in library.query(_ACCEPTED, [entity]).fetchall()]
    found = library.query(uncertain_of([entity]))
    # Copies of a video share its tracks, but each copy has its own rows.
    rows = sorted(found, key=lambda row: -row["score"])
    uncertain = dict.fromkeys(row["track_id"] for row in rows if row["track_id"] not in begun)
    return Seen(entity, np.union1d(begun, np.array(accepted, np.int64)), np.array(list(uncertain), np.int64))


def _of_uncertain(number: int) -> str:
    return counted(
        number, "track is uncertain and keeps its pictures", "tracks are uncertain and keep their pictures"
    )


def _asked(sql: str) -> str:
    return command("query", sql, "--sheet", "uncertain.jpg")
