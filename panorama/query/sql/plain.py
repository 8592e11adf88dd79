"""Plain SQL comes in; the entities and videos go out that it can need of sightings and moments, if certain.

A condition on an entity is followed through joins, subqueries and CTEs, as long as early removal of the other
entities' rows cannot change the answer. The search ends at everything that is not known to be safe.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from panorama.query.handed.relations import MATCHED_COLUMNS, RELATIONS
from panorama.query.shorthands.nested import renamed
from panorama.query.shorthands.shorthand import constant
from panorama.query.sql.plain_scope import Need, Select
from panorama.query.sql.plain_tree import Statement, conjuncts, is_followed, is_inner, is_odd

_WITHOUT_ENTITY = frozenset(RELATIONS) - MATCHED_COLUMNS.keys() - {"entities"}
_NAMES_HIDDEN = frozenset(
    (
        *("table", "query", "query_table", "histogram", "histogram_values"),
        *("pivot", "unpivot", "summarize", "describe", "show", "recursive"),
    )
)
"""Words after which DuckDB may read a name in a way that the parser does not show."""
_NOT_ROW_BY_ROW = ("group", "having", "qualify", "limit", "offset", "windows", "sample", "joins", "laterals")


def relations_read(sql: str, statement: Statement | None, named: set[str]) -> set[str]:
    """Those of the relations `named` that a statement may read: not an alias, a qualifier or a CTE's name."""
    tables = _mentions(sql, statement, named)
    return named if tables is None else {table.name.lower() for table in tables}


def plain_entities(
    sql: str, statement: Statement | None, wanted: set[str], entities: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The only entities that plain SQL can need of the relations `wanted`; None if that is uncertain."""
    tables = _mentions(sql, statement, wanted)
    if statement is None or not tables:
        return None
    found: set[str] = set()
    for table in tables:
        names = _asked_of(table, statement)
        if names is None:
            return None
        found |= names
    return tuple(sorted(name for name in found if name in entities))


def plain_videos(
    sql: str, statement: Statement | None, wanted: set[str], select: Callable[[exp.Expr], Select]
) -> list[Need]:
    """For every mention of the relations `wanted`, the videos it needs; [] if one may need all."""
    found: list[Need] = []
    for table in _mentions(sql, statement, wanted) or ():
        place = table.parent
        around = place.parent if isinstance(place, (exp.From, exp.Join)) else None
        if not isinstance(around, exp.Select):
            return []
        inside = select(around)
        source = inside.called(table.alias_or_name)
        need = Need() if source is None or source.node is not table else inside.videos(source)
        if need.videos is None:
            return []
        found.append(need)
    return found


def _mentions(sql: str, statement: Statement | None, wanted: set[str]) -> list[exp.Expr] | None:
    """The tables that are the given relations; None if DuckDB may read one where the parser sees none."""
    if statement is None:
        return None
    tables = [table for table in statement.tree.find_all(exp.Table) if table.name.lower() in wanted]
    mentions = sum(sql.lower().count(name) for name in wanted)
    if mentions != len(tables) and statement.words & _NAMES_HIDDEN:
        return None
    return [table for table in tables if statement.cte(table) is None]


def _asked_of(source: exp.Expr, statement: Statement) -> set[str] | None:
    """The entities to which a table or subquery in FROM is restricted; None for possibly all."""
    found: set[str] = set()
    left = [source]
    while left:  # a statement may have hundreds of CTEs, each over the one before it: too many to recurse
        one = left.pop()
        select = _followed(one)
        if select is None:
            return None
        names = _asked_in(one, select, statement)
        outside = _outside(select, statement) if names is None else []
        if outside is None:
            return None
        found |= names or set()
        left += outside
    return found


def _followed(source: exp.Expr) -> exp.Expr | None:
    """The SELECT that reads a table or subquery, if conditions on it can be followed."""
    place = source.parent
    select = place.parent if isinstance(place, (exp.From, exp.Join)) else None
    if not isinstance(select, exp.Select) or select.args.get("laterals") or select.args.get("sample"):
        return None
    if is_odd(source) or renamed(source):
        return None
    return select if all(_is_plain(join) for join in select.args.get("joins") or []) else None


def _asked_in(source: exp.Expr, select: exp.Expr, statement: Statement) -> set[str] | None:
    """The entities to which the SELECT that reads a table or subquery restricts it; None if it does not."""
    place = source.parent
    visible = not (isinstance(place, exp.Join) and place.args.get("kind") in ("SEMI", "ANTI"))
    conditions: list[exp.Expr] = []
    where = select.args.get("where")
    if where is not None and visible:
        conditions += conjuncts(where.this)
    for join in select.args.get("joins") or []:
        # A left join keeps the rows of its left side whatever its ON says.
        if join.args.get("on") is not None and (join is place or (is_inner(join) and visible)):
            conditions += conjuncts(join.args["on"])
    alone = _alone(source, select, statement)
    for condition in conditions:
        names = _asked_by(condition, source.alias_or_name.lower(), alone)
        if names is not None:
            return names
    return None


def _is_plain(join: exp.Expr) -> bool:
    """Whether a join can be followed and does not merge the `entity` columns of its sides."""
    using = join.args.get("using") or []
    return is_followed(join) and not any(name.name.lower() == "entity" for name in using)


def _alone(source: exp.Expr, select: exp.Expr, statement: Statement) -> bool:
    """Whether no other source of a SELECT has a column `entity`, so that it needs no qualifier."""
    others = [select.args["from_"].this, *(join.this for join in select.args.get("joins") or [])]
    return all(
        other is source
        or (
            isinstance(other, exp.Table)
            and other.name.lower() in _WITHOUT_ENTITY
            and statement.cte(other) is None
            and not renamed(other)
        )
        for other in others
    )


def _outside(select: exp.Expr, statement: Statement) -> list[exp.Expr] | None:
    """The subquery or the tables as which the queries around a SELECT read its rows; None if uncertain."""
    distinct = select.args.get("distinct")
    if any(select.args.get(name) for name in _NOT_ROW_BY_ROW) or (
        distinct is not None and distinct.args.get("on")
    ):
        return None
    if not _passes_entity(select) or statement.words & _NAMES_HIDDEN:
        return None
    around = select.parent
    if isinstance(around, exp.Subquery):
        return [around]
    if not isinstance(around, exp.CTE) or renamed(around):
        return None
    return statement.uses[id(around)]


def _passes_entity(select: exp.Expr) -> bool:
    """Whether a SELECT from one source passes its rows on, with the column `entity` unchanged."""
    passed = 0
    for item in select.expressions:
        if any(item.find_all(exp.AggFunc, exp.Window, exp.Columns, exp.Anonymous, exp.Explode, exp.Unnest)):
            return False
        star = item.this if isinstance(item, exp.Column) else item
        if isinstance(star, exp.Star):
            if any(star.args.get(name) for name in ("except_", "replace", "rename")):
                return False
            passed += 1
        elif item.alias_or_name.lower() == "entity":
            if not isinstance(item, exp.Column):
                return False
            passed += 1
    return passed == 1


def _asked_by(part: exp.Expr, source: str, alone: bool) -> set[str] | None:
    """The names in a condition entity = 'X' or entity IN ('X', 'Y') on a source; None for any other.

    Args:
        alone: whether `entity` without a qualifier also means this source.
    """
    if not isinstance(part, (exp.EQ, exp.In)):
        return None
    column = part.this
    if not isinstance(column, exp.Column) or column.name.lower() != "entity" or column.args.get("db"):
        return None
    if column.table.lower() != source if column.table else not alone:
        return None
    values = [part.expression] if isinstance(part, exp.EQ) else list(part.expressions)
    if part.args.get("query") is not None or part.args.get("unnest") is not None:
        return None
    texts = [constant(value) for value in values]
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    return {str(text) for text in texts}
