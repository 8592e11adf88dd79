"""The parts of a shorthand come in; the values of its plan go out, from its condition to its branches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from panorama.query.shorthands.clock import ClockTest
from panorama.query.shorthands.conditions import (
    ANY_TIME,
    And,
    Bounds,
    Condition,
    Leaf,
    Times,
    leaves,
    times_of,
)
from panorama.query.shorthands.space import PLACE
from panorama.query.shorthands.terms import Contract

Target = Literal["frames", "moments", "tracks", "crops"]
Source = Literal["known", "unknown", "any"]

GAP_SECONDS = 1.0
"""Tracks of an entity closer than this form one moment.

Trackers lose a thing for about as long when something passes in front of it; people who leave and return take
longer.
"""

_VIDEO = ("video", "camera", "uri", "duration")
_SPAN = ("start_clock", "end_clock")
_MATCH = ("score", "band")
_BOX = ("x1", "y1", "x2", "y2", "width", "height", "area", "aspect")

OUTPUT: dict[str, tuple[str, ...]] = {
    "frames": ("video", "frame", "time", "entity", "score", "track_id", "x1", "y1", "x2", "y2"),
    "moments": (
        *("video", "start_time", "end_time", "entity", "score", "track_id"),
        *("frame", "x1", "y1", "x2", "y2"),
    ),
    "tracks": ("video", "track_id", "start_time", "end_time"),
    "crops": ("crop_id", "video", "track_id", "frame", "time", "x1", "y1", "x2", "y2"),
}
"""Columns that a shorthand returns, in order; tracks and crops add entity, score and similarity on demand."""

ORDER: dict[str, tuple[str, ...]] = {
    "frames": ("video", "frame", "entity", "track_id"),
    # One moment that satisfies two conditions is two rows if the best view for each is another.
    "moments": ("video", "start_time", "end_time", "entity", "track_id", "frame", "x1", "y1", "x2", "y2"),
    "tracks": ("video", "start_time", "track_id", "entity"),
    "crops": ("crop_id", "video", "entity"),
}
"""The default order of rows; it also breaks ties of an ORDER BY."""

KEY: dict[str, tuple[str, ...]] = {
    "frames": ("video", "frame"),
    "tracks": ("video", "track_id"),
    "crops": ("video", "crop_id"),
}
"""The columns that must be equal for two entities to be seen together."""

VIDEO_COLUMNS = frozenset(_VIDEO)
MATCH_COLUMNS = frozenset(_MATCH)
VIEW_COLUMNS = frozenset(("track_id", "frame", *_BOX))
"""The columns of a moment that come from its best view."""
CLOCK_COLUMNS = frozenset(("clock", *_SPAN))
ROW_COLUMNS: dict[str, frozenset[str]] = {
    "frames": frozenset(("frame", "time", "clock", "picture")),
    "moments": frozenset(("start_time", "end_time", "time", "track_id", "frame", *_SPAN, *_BOX)),
    "tracks": frozenset(
        ("track_id", "start_time", "end_time", "start_frame", "end_frame", "samples", "time", *_SPAN)
    ),
    "crops": frozenset(("crop_id", "track_id", "frame", "time", "clock", "quality", "picture", *_BOX)),
}
"""Columns that a row of the target has even if no entity is seen in it."""

SEEN_COLUMNS: dict[str, frozenset[str]] = {
    "frames": frozenset(("track_id", *_BOX)),
    "moments": frozenset(),
    "tracks": frozenset(),
    "crops": frozenset(),
}
"""Columns that a row has only through a track: a condition on them requires one."""

OVERLAP_TARGETS = ("moments", "tracks")
"""Targets whose rows have a time interval: a condition on `time` tests whether the interval overlaps."""


def columns_of(target: str) -> tuple[str, ...]:
    """Every column that a condition on the target may name; messages list them."""
    others = VIDEO_COLUMNS | MATCH_COLUMNS | ROW_COLUMNS[target] | SEEN_COLUMNS[target] | {"entity"}
    return (*OUTPUT[target], *sorted(others - set(OUTPUT[target])))


def columns_to_add(target: str) -> tuple[str, ...]:
    """Every column that may be named after the target; intervals have no `time` of their own."""
    intervals = target in OVERLAP_TARGETS
    return tuple(name for name in columns_of(target) if not (intervals and name == "time"))


@dataclass(frozen=True, slots=True)
class Pair:
    """Two entities whose boxes a and b satisfy a condition at the same frame.

    Attributes:
        text: the condition over a.x1, b.x1 and so on.
    """

    left: str
    right: str
    text: str


@dataclass(frozen=True, slots=True)
class Seen:
    """A track of one of some entities is present.

    Attributes:
        source: 'known' for tracks matched to `names`, 'unknown' for tracks matched to nothing, 'any' for all
            tracks, matched or not.
        names: entities, sorted; empty unless the source is 'known'.
        conditions: on the match, its track or its box.
        finals: on the merged moment; for moments only.
        pair: a condition on the boxes of both `names`, which are both present when it holds; None for none.
    """

    source: Source
    names: tuple[str, ...] = ()
    conditions: tuple[Leaf, ...] = ()
    finals: tuple[Leaf, ...] = ()
    pair: Pair | None = None

    @property
    def placed(self) -> tuple[Leaf, ...]:
        """The conditions on the place of a track, which changes from frame to frame."""
        return tuple(leaf for leaf in self.conditions if PLACE in leaf.columns)

    @property
    def calibrated(self) -> bool:
        """Whether the calibrated band decides: no condition names score or band."""
        return not any(leaf.columns & MATCH_COLUMNS for leaf in self.conditions)


@dataclass(frozen=True, slots=True)
class Branch:
    """One way to satisfy a condition: everything in it must hold.

    Attributes:
        seen: what must be present; its rows are returned.
        unseen: what must not be present.
        where: conditions on the row itself.
        sequences: chains that must occur; their moments are returned. For moments only.
        unsequenced: chains that must not occur. For moments only.
        rest: whether it comes from a NOT with an entity, so that without anything to look for it gives the
            time of every video, not the moments of all entities. For moments only.
    """

    seen: tuple[Seen, ...] = ()
    unseen: tuple[Seen, ...] = ()
    where: tuple[Leaf, ...] = ()
    sequences: tuple[PlannedSequence, ...] = ()
    unsequenced: tuple[PlannedSequence, ...] = ()
    rest: bool = False

    @property
    def looks_for_something(self) -> bool:
        """Whether it looks for a track or a chain, or for time without one, not only for rows."""
        return bool(self.seen or self.unseen or self.sequences or self.unsequenced or self.rest)

    @property
    def times(self) -> Times:
        """When its rows can be; () if it has chains, whose moments lie at several times."""
        return () if self.sequences or self.unsequenced else times_of(And(self.where))

    @property
    def needs_absence(self) -> bool:
        """Whether it holds only if something is not found."""
        sides = [side for sequence in self.sequences for sides in sequence.sides for side in sides]
        unknown = any(seen.source == "unknown" for seen in self.seen)
        lacking = any(sequence.lacks_last for sequence in self.sequences)
        return bool(self.unseen or self.unsequenced or unknown or lacking) or any(
            side.needs_absence for side in sides
        )

    def every_seen(self) -> tuple[Seen, ...]:
        """All things to look for, including those in its chains."""
        chains = (*self.sequences, *self.unsequenced)
        return (*self.seen, *self.unseen, *(item for chain in chains for item in chain.every_seen()))

    def every_shown(self) -> tuple[Seen, ...]:
        """The things that must be present, whose rows are returned, including those in its chains."""
        sides = (branch for chain in self.sequences for side in chain.sides for branch in side)
        return (*self.seen, *(item for branch in sides for item in branch.every_shown()))

    @property
    def cuts(self) -> bool:
        """Whether moments of one thing may be cut by what else it asks, also in its chains."""
        chains = (*self.sequences, *self.unsequenced)
        if len(self.seen) + len(self.unseen) + len(chains) > 1:
            return True
        return any(branch.cuts for chain in chains for side in chain.sides for branch in side)


@dataclass(frozen=True, slots=True)
class PlannedSequence:
    """A chain of conditions on moments: each moment needs a counterpart in the next side.

    Attributes:
        sides: the alternatives of each condition.
        kinds, within_seconds: of the operators between the sides.
        finals: conditions on the moments found.
    """

    kinds: tuple[str, ...]
    sides: tuple[tuple[Branch, ...], ...]
    within_seconds: tuple[float | None, ...]
    finals: tuple[Leaf, ...] = ()

    @property
    def lacks_last(self) -> bool:
        """Whether the last side must not occur, as in a NOT FOLLOWED BY b."""
        return self.kinds[-1].startswith("NOT ")

    def every_seen(self) -> tuple[Seen, ...]:
        """All things to look for in its sides."""
        return tuple(item for side in self.sides for branch in side for item in branch.every_seen())


@dataclass(frozen=True, slots=True)
class Query:
    """One shorthand on its way through the rules.

    Attributes:
        number: distinguishes the shorthands of one statement.
        sql, start: the statement and the position of the shorthand in it, for errors.
        columns: names after the target, each with its position in the statement.
        condition: WHERE as typed, later resolved; None without WHERE.
        order, limit, offset: text of the clauses; None if absent.
        alone, grouped: see `extensions.Extension`.
        entities: all names in the album.
        names_where: returns those of them for which a condition on the column `entity` holds.
        branches: the condition as alternatives.
        vain: conditions on the name of an entity that no entity satisfies.
        shared: conditions on the video that all branches share.
        bounds: of the time of all branches; open if rows are intervals.
        shapes: each track looked for must touch one of these, if there are any.
        crossed: those of the shapes that it must also cross.
        clock_at: position of the first condition on the wall clock; None if there is none.
        clocks: for each branch, the wall-clock tests that all its rows pass; () if some branch has none.
        first_rows: number of rows that are enough; None if all are needed.
        best_first: whether these are the rows with the best score, not the first ones in the default order.
        similarity: SQL of the similarity in the condition or ORDER BY, which can be returned as a column.
        by_similarity: whether ORDER BY names a similarity, which only a track has.
        clause_at: the texts of ORDER_BY, LIMIT and OFFSET, each with its position in the statement.
        contract: the required accuracy; None for the accuracy of the calibration.
        budget_seconds: how long matching may take; None for no limit.
    """

    target: Target
    number: int
    sql: str
    start: int
    condition: Condition | None
    columns: tuple[tuple[str, int], ...] = ()
    order: str | None = None
    limit: str | None = None
    offset: str | None = None
    alone: bool = False
    grouped: bool = False
    entities: tuple[str, ...] = ()
    names_where: Callable[[str], tuple[str, ...]] = field(default=lambda _: (), compare=False, repr=False)
    branches: tuple[Branch, ...] = ()
    vain: tuple[Leaf, ...] = ()
    shared: tuple[Leaf, ...] = ()
    bounds: Bounds = ANY_TIME
    shapes: tuple[str, ...] = ()
    crossed: tuple[str, ...] = ()
    clock_at: int | None = None
    clocks: tuple[tuple[ClockTest, ...], ...] = ()
    first_rows: int | None = None
    best_first: bool = False
    similarity: str | None = None
    by_similarity: bool = False
    clause_at: tuple[tuple[str, int], ...] = ()
    contract: Contract | None = None
    budget_seconds: float | None = None

    def video_clock_sql(self) -> str:
        """SQL over the stored videos that excludes those whose wall clock rules out all rows; '' for none."""
        return self._clocks_sql(ClockTest.video_sql)

    def track_clock_sql(self) -> str:
        """The same over tracks with their video's start as `video_clock`; '' if merging may move times."""
        return self._clocks_sql(ClockTest.track_sql) if self.target in ("frames", "crops") else ""

    def _clocks_sql(self, tested: Callable[[ClockTest], str]) -> str:
        branches = [" AND ".join(f"({tested(test)})" for test in tests) for tests in self.clocks]
        return " OR ".join(f"({branch})" for branch in branches)

    def every_leaf(self) -> tuple[Leaf, ...]:
        """The predicates of WHERE in order; () without WHERE."""
        return () if self.condition is None else tuple(leaves(self.condition))

    def every_seen(self) -> tuple[Seen, ...]:
        """All distinct things to look for, in a fixed order."""
        found: dict[Seen, None] = {}
        for branch in self.branches:
            for seen in branch.every_seen():
                found.setdefault(seen)
        return tuple(found)

    def may_cut(self, seen: Seen) -> bool:
        """Whether moments of an entity looked for may be cut, so that a piece may lack their best view.

        Pieces of several branches become one moment, so what one of them cuts concerns all.
        """
        if self.target != "moments" or seen.source != "known" or not any(b.cuts for b in self.branches):
            return False
        return any(seen in branch.every_shown() for branch in self.branches)


Rule = Callable[[Query], Query]
