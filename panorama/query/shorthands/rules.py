"""A Query comes in; the Query rewritten by all rules goes out, closer to plain SQL."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from panorama.errors import QueryError, UnknownEntity, near, no_entity, unknown
from panorama.query.handed.relations import relation_with
from panorama.query.matching.matches import BAND_NAMES
from panorama.query.shorthands.branches import Binder, spread
from panorama.query.shorthands.conditions import (
    And,
    Bounds,
    Condition,
    Leaf,
    Not,
    Or,
    Sequence,
    any_of,
    hull,
)
from panorama.query.shorthands.nested import UNTOLD
from panorama.query.shorthands.plan import (
    OVERLAP_TARGETS,
    VIDEO_COLUMNS,
    Branch,
    Query,
    Rule,
    Seen,
    columns_of,
    columns_to_add,
)
from panorama.query.shorthands.shorthand import column_position, constant
from panorama.query.shorthands.space import PLACE, PREDICATES, pair_of, shape_of, steps_in
from panorama.query.shorthands.time_rules import (
    check_moments,
    clock_rows,
    find_clock,
    note_times,
    overlap_times,
    split_negated,
)
from panorama.query.text.meant_texts import meant_text
from panorama.query.text.quoting import quote_text

_TEXT_COLUMNS = frozenset({"entity", "video", "band", "camera"})


def check_names(query: Query) -> Query:
    """Check that the target has every column, and that each predicate of a pair is a condition of its own."""
    known = frozenset(columns_of(query.target))
    for leaf in query.every_leaf():
        for name in sorted(leaf.columns - known - {PLACE, UNTOLD}):
            guess = relation_with(name, query.target) or near(name, known, least=0.7)
            raise QueryError(
                f"SELECT {query.target} has no column {name!r}; it has {', '.join(columns_of(query.target))}"
                f"{'.' * bool(guess)}{guess}"
                f"{_meant_text(leaf, name, query.sql)}",
                query.sql,
                column_position(leaf, name),
            )
        pairs = [name for name in leaf.calls & PREDICATES.keys() if PREDICATES[name].kind == "pair"]
        if pairs and pair_of(leaf) is None:
            raise QueryError(
                f"{pairs[0]} is a condition in itself: combine it with AND, OR, NOT", query.sql, leaf.start
            )
    return query


def check_columns(query: Query) -> Query:
    """Check that every column after the target exists in its rows."""
    known = columns_to_add(query.target)
    for name, place in query.columns:
        if name in known or (name == "similarity" and query.similarity is not None):
            continue
        told = f"SELECT {query.target} has no column {name!r} to return; it has {', '.join(known)}"
        guess = relation_with(name, query.target) or near(name, known, least=0.7)
        if name == "time":
            guess = f" Rows of {query.target} are intervals: start_time, end_time"
        if name == "similarity" and query.target in ("tracks", "crops"):
            guess = " It returns similarity if the condition or ORDER BY uses it: similarity('a.jpg')"
        raise QueryError(f"{told}{'.' * bool(guess)}{guess}", query.sql, place)
    return query


def _meant_text(leaf: Leaf, name: str, sql: str) -> str:
    """A hint if an unknown column is compared with a text column, or alone: quotes are missing or double."""
    if leaf.node is not None and isinstance(leaf.node.unnest(), exp.Column):
        return f". To search for an entity, write entity = {quote_text(leaf.node.unnest().name)}"
    for column in leaf.node.find_all(exp.Column) if leaf.node is not None else ():
        beside = column.parent
        while isinstance(beside, exp.Sub):
            beside = beside.parent
        if column.name.lower() != name or not isinstance(beside, (exp.Binary, exp.In)):
            continue
        sides = [beside.this, *beside.expressions, beside.args.get("expression")]
        if any(isinstance(side, exp.Column) and side.name.lower() in _TEXT_COLUMNS for side in sides):
            return meant_text(sql, column_position(leaf, name), column.name, compared=True)
    return ""


def check_sequences(query: Query) -> Query:
    """Check that FOLLOWED BY, BEFORE, DURING and OVERLAPS are used in SELECT moments only."""
    if query.condition is not None and query.target != "moments":
        for sequence in _sequences(query.condition):
            raise QueryError(
                f"{sequence.kinds[0]} joins moments: write SELECT moments WHERE ...",
                query.sql,
                sequence.start,
            )
    return query


def _sequences(condition: Condition) -> list[Sequence]:
    if isinstance(condition, Sequence):
        return [condition]
    if isinstance(condition, Not):
        return _sequences(condition.item)
    if isinstance(condition, (And, Or)):
        return [sequence for item in condition.items for sequence in _sequences(item)]
    return []


def resolve_entities(query: Query) -> Query:
    """Check that every name compared with `entity` is registered.

    Raises:
        UnknownEntity: with similar names.
    """
    for leaf in query.every_leaf():
        if leaf.node is None or "entity" not in leaf.columns:
            continue
        for name in pair_of(leaf) or _compared(leaf.node, "entity"):
            if not isinstance(name, str):
                raise QueryError(
                    f"write entity as a name in single quotes: entity = '{name}', not {name}",
                    query.sql,
                    leaf.start,
                )
            if name not in query.entities:
                error = UnknownEntity(no_entity(name, query.entities))
                error.sql = query.sql
                raise error
    return query


def check_bands(query: Query) -> Query:
    """Check that every constant compared with `band` is a band: a misspelt one would just give no rows."""
    for leaf in query.every_leaf():
        if leaf.node is None or "band" not in leaf.columns:
            continue
        for name in _compared(leaf.node, "band"):
            if name not in BAND_NAMES:
                message = unknown("band", str(name), BAND_NAMES, "").removesuffix(" See: ")
                told = f"{message} It is {', '.join(BAND_NAMES[:-1])} or {BAND_NAMES[-1]}"
                raise QueryError(told, query.sql, column_position(leaf, "band"))
    return query


def check_between(query: Query) -> Query:
    """Refuse BETWEEN SYMMETRIC, which DuckDB does not know: its bounds would be taken as they stand."""
    for leaf in query.every_leaf():
        if leaf.node is None or "symmetric" not in leaf.text.lower():
            continue
        if any(node.args.get("symmetric") for node in leaf.node.find_all(exp.Between)):
            raise QueryError(
                "there is no BETWEEN SYMMETRIC here: write BETWEEN with the smaller value first",
                query.sql,
                leaf.start,
            )
    return query


def _compared(node: exp.Expr, column: str) -> list[str | int | float]:
    """The constants that a column is compared with by =, <> or IN."""

    def is_it(side: exp.Expr) -> bool:
        return isinstance(side, exp.Column) and side.name.lower() == column

    if isinstance(node, (exp.Not, exp.Paren)):
        return _compared(node.this, column)
    if isinstance(node, (exp.EQ, exp.NEQ)):
        sides = (node.this, node.expression)
        values = [side for side in sides if not is_it(side)] if any(map(is_it, sides)) else []
    elif isinstance(node, exp.In) and is_it(node.this):
        values = list(node.expressions)
    else:
        values = []
    return [value for value in map(constant, values) if value is not None]


def branch_out(query: Query) -> Query:
    """Split the condition into alternatives; bind conditions on score and box to the entities beside them."""
    binder = Binder(query)
    branches = (Branch(),) if query.condition is None else spread(binder.bind(query.condition), query)
    if query.target == "frames" and query.by_similarity:
        # A frame has no similarity of its own, only its tracks have: without an entity, look for any track.
        branches = tuple(b if b.seen else replace(b, seen=(Seen("any"),)) for b in branches)
    if query.target == "moments":
        # SELECT moments without an entity means the moments of all entities.
        everything = Seen("known", query.entities)
        branches = tuple(b if b.looks_for_something else replace(b, seen=(everything,)) for b in branches)
    return replace(query, branches=branches, vain=tuple(binder.vain))


def check_terms(query: Query) -> Query:
    """Check that an accuracy concerns one entity only, and that no time limit is combined with an absence."""
    if query.budget_seconds is not None and any(branch.needs_absence for branch in query.branches):
        raise QueryError(
            "WITHIN n SECONDS may stop the search early, but NOT and IS NULL need all of it",
            query.sql,
            query.start,
        )
    if query.contract is None:
        return query
    message = ""
    for branch in query.branches:
        others = branch.unseen or branch.sequences or branch.unsequenced
        if len(branch.seen) != 1 or others or branch.seen[0].pair:
            message = "can be promised only for one entity, not for NOT, AND or a sequence of entities"
        elif branch.seen[0].source != "known":
            message = "needs an entity: entity = 'X'"
        elif not branch.seen[0].calibrated:
            message = "decides by itself what is accepted; leave out the condition on score or band"
    if message:
        raise QueryError(f"{query.contract} {message}", query.sql, query.contract.start)
    return query


def push_filters(query: Query) -> Query:
    """Take the conditions on the video that all branches share out of them, and record time bounds."""
    branches = query.branches
    if not branches:
        return query
    on_video = [
        leaf
        for leaf in branches[0].where
        if leaf.columns <= VIDEO_COLUMNS and not leaf.calls and not leaf.by_chance
    ]
    shared = tuple(leaf for leaf in on_video if all(leaf in branch.where for branch in branches))
    pruned = tuple(
        replace(branch, where=tuple(leaf for leaf in branch.where if leaf not in shared))
        for branch in branches
    )
    bounds = Bounds()
    if query.target not in OVERLAP_TARGETS:
        # Merging may move the ends of a row, so its time says nothing about each of its tracks.
        bounds = hull(any_of(branch.times for branch in branches))
    clocks = tuple(tuple(leaf.clock for leaf in branch.where if leaf.clock) for branch in pruned)
    # If one alternative can hold at any time, no video can be excluded.
    query = replace(query, clocks=clocks if all(clocks) else ())
    return replace(query, branches=pruned, shared=shared, bounds=bounds)


def limit_to_shapes(query: Query) -> Query:
    """If everything looked for must touch a shape, keep only videos with that shape and tracks near it."""
    seen = query.every_seen()
    leaves = [[leaf for leaf in item.conditions if shape_of(leaf)] for item in seen]
    if not all(leaves):
        return query
    # If there are several, prefer a crossing, which leaves the fewest tracks.
    touched = [next((leaf for leaf in some if steps_in([leaf])), some[0]) for some in leaves]
    names = tuple(sorted({shape_of(leaf) or "" for leaf in touched}))
    inside = {shape_of(leaf) for leaf in touched if not steps_in([leaf])}
    shared = query.shared
    if all(branch.seen or branch.sequences for branch in query.branches):
        has = " OR ".join(f"_panorama.has_shape({quote_text(name)}, video)" for name in names)
        told = f"{' or '.join(map(quote_text, names))} is drawn for its camera"
        shared = (*shared, Leaf(query.start, query.start, has, frozenset({"video"}), told=told))
    return replace(query, shared=shared, shapes=names, crossed=tuple(n for n in names if n not in inside))


def stop_early(query: Query) -> Query:
    """A LIMIT in the default order or by score needs only the first tracks, if these determine the rows."""
    best_first = query.order is not None and query.order.upper().split() == ["SCORE", "DESC"]
    rows = rows_to_limit(query)
    simple = (
        query.target in ("frames", "moments")
        and rows is not None
        and (query.order is None or best_first)
        and len(query.branches) == 1
    )
    if not simple or not _tracks_decide(query, best_first):
        return query
    return replace(query, first_rows=rows, best_first=best_first)


def _tracks_decide(query: Query, best_first: bool) -> bool:
    """Whether the matched tracks of the only thing looked for determine the rows."""
    branch = query.branches[0]
    if len(branch.seen) != 1 or branch.unseen or branch.where:
        return False
    seen = branch.seen[0]
    if seen.pair is not None:  # only those of its frames that the counterpart shares count
        return False
    # Without a score, no track is better than another.
    if seen.source != "known" and (best_first or query.target == "moments"):
        return False
    if query.target == "moments":
        return not (seen.finals or seen.placed or branch.sequences or branch.unsequenced)
    early = VIDEO_COLUMNS | {"entity", "score", "band", "track_id"}
    return all(leaf.columns <= early and not leaf.by_chance for leaf in seen.conditions)


def rows_to_limit(query: Query) -> int | None:
    """Number of rows, in order, of which LIMIT and OFFSET return the last; None if they do not tell."""
    if query.grouped or query.limit is None:
        return None
    limit, offset = _whole_number(query.limit), _whole_number("0" if query.offset is None else query.offset)
    return None if limit is None or offset is None else limit + offset


def _whole_number(text: str) -> int | None:
    """The number in the text of a LIMIT; None if it is an expression."""
    stripped = text.strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) < 16 else None


RULES: tuple[Rule, ...] = (
    check_names,
    check_columns,
    check_sequences,
    resolve_entities,
    check_bands,
    check_between,
    check_moments,
    find_clock,
    clock_rows,
    split_negated,
    note_times,
    overlap_times,
    branch_out,
    check_terms,
    push_filters,
    limit_to_shapes,
    stop_early,
)
"""The order matters: names come first, so that errors precede work; rules that save work come last."""


def apply_rules(query: Query) -> Query:
    """Apply all rules to the Query."""
    for rule in RULES:
        query = rule(query)
    return query


def asks_whole_moments(query: Query) -> bool:
    """Whether a condition is on whole moments, which a missing track changes: on their order, ends or box."""
    if query.target != "moments":
        return False
    leaves = [leaf for branch in query.branches for leaf in branch.where]
    leaves += [leaf for item in query.every_seen() for leaf in item.finals]
    # `time` names none of the columns that it becomes: if a part of a moment satisfies it, the moment does.
    return any(branch.sequences for branch in query.branches) or any(
        column in query.sql[leaf.start : leaf.stop].lower()
        for leaf in leaves
        for column in leaf.columns - VIDEO_COLUMNS
    )


def needed_videos(query: Query) -> str | None:
    """A condition on videos that every answer satisfies and that needs no matching; None if there is none."""
    texts = [f"({leaf.text})" for leaf in query.shared if not leaf.may_select]
    texts += [f"({text})" for text in (query.video_clock_sql(),) if text]
    return " AND ".join(texts) if texts else None
