"""An entity that is to be forgotten enters; which tracks go with it, and which stay and what to do, leave."""

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
"""Of more tracks that stay, those that are most alike are named."""

_ACCEPTED = "SELECT DISTINCT track_id FROM sightings WHERE entity = ?"


@dataclass(frozen=True, slots=True)
class Seen:
    """The tracks that were matched to an entity.

    Attributes:
        accepted: (A,) int64 ids of the tracks whose crops and vectors go with its sightings.
        uncertain: (U,) int64 ids of those that may show it and stay, the most alike first.
    """

    name: str
    accepted: NDArray[np.int64]
    uncertain: NDArray[np.int64]

    def before(self) -> list[str]:
        """What is to be known before it is forgotten: which stay can still be asked by its name."""
        lines = [f"the stored pictures of {counted(len(self.accepted), 'track')} are erased with it"]
        if len(self.uncertain):
            register = command_of("register", self.name, "--track ID")
            lines.append(
                f"{_of_uncertain(len(self.uncertain))}; see: {_asked(uncertain_of([self.name]))}. If a track"
                f" shows it, register that track first, {register}, and its pictures are erased, too"
            )
        return lines

    def after(self) -> list[str]:
        """What stays when it is forgotten, by numbers: its name means nothing any more."""
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
    """Erase an entity, see `Library.forget`; which tracks went with it, and which stay."""
    seen = going_with(library, name, with_sightings)
    try:
        store.forget_entity(name, None if seen is None else seen.accepted)
    except NotYetErased as exc:
        exc.seen = seen  # nobody can ask for them by its name any more
        raise
    return seen


def going_with(library: Library, name: str, with_sightings: bool) -> Seen | None:
    """The tracks that go when an entity is forgotten, None where none does.

    Without its sightings these are the tracks that were to go with it when erasing them broke off.
    """
    if with_sightings:
        return seen_of(library, name)
    begun = library.being_forgotten(name)
    return Seen(library.entity(name).name, begun, begun[:0]) if len(begun) else None


def seen_of(library: Library, name: str) -> Seen:
    """The tracks that are matched to an entity, accepted and uncertain; UnknownEntity where there is none."""
    entity = library.entity(name).name
    begun = library.being_forgotten(entity)  # what is left of them may match no more
    accepted = [row[0] for row in library.query(_ACCEPTED, [entity]).fetchall()]
    found = library.query(uncertain_of([entity]))
    # Copies of a video share its tracks, and each has its rows.
    rows = sorted(found, key=lambda row: -row["score"])
    uncertain = dict.fromkeys(row["track_id"] for row in rows if row["track_id"] not in begun)
    return Seen(entity, np.union1d(begun, np.array(accepted, np.int64)), np.array(list(uncertain), np.int64))


def _of_uncertain(number: int) -> str:
    return counted(
        number, "track is uncertain and keeps its pictures", "tracks are uncertain and keep their pictures"
    )


def _asked(sql: str) -> str:
    return command("query", sql, "--sheet", "uncertain.jpg")
