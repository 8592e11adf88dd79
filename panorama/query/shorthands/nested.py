"""The tree of one condition comes in; what the SELECTs inside it read goes out: the row, and what else.

SQL gives a name to the innermost SELECT that has it. In EXISTS (SELECT 1 FROM zones WHERE height > 100) the
height is the row's, because zones have none; of sightings, start_time is their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from panorama.query.handed.relations import MATCHED_COLUMNS, RELATION_COLUMNS
from panorama.query.shorthands.conditions import Reach
from panorama.query.shorthands.plan import OUTPUT, VIDEO_COLUMNS, columns_of
from panorama.query.text.ctes import named_ctes

UNTOLD = "?"
"""Stands among the columns of a leaf for names in its SELECTs that may be more than the video's columns."""

Named = Mapping[str, exp.Expr | None]
"""The CTEs that a statement names, in lower case; None for one whose definition is not certain."""

_MOST_DEEP = 40
"""CTEs that read each other more deeply than this have columns that are not looked for."""
_BEHIND_COLUMNS = ("expressions", "where", "group", "having", "qualify", "order")
"""The clauses that see the aliases of their SELECT, which come before the columns of queries around it."""
_READS_NOTHING = (exp.GenerateSeries, exp.Unnest)


@dataclass(frozen=True, slots=True)
class Nested:
    """What the SELECTs inside a condition read.

    Attributes:
        columns: those of the row, and UNTOLD if there may be more.
        reach: how far they look beyond the row.
    """

    columns: frozenset[str] = frozenset()
    reach: Reach = Reach.ROW


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a source or query: some in order, and what others it may have; None for any."""

    names: tuple[str, ...] = ()
    others: frozenset[str] | None = None

    def have(self, name: str) -> bool | None:
        """Whether a column is among them; None if that is not known."""
        if name in self.names:
            return True
        return None if self.others is None or name in self.others else False


def nested(node: exp.Expr, target: str, named: Named) -> Nested:
    """What the SELECTs inside a condition on rows of a target read.

    Args:
        node: the parsed condition, which has some.
        named: the CTEs of the statement.
    """
    scopes = _Scopes(node, named)
    reach = max((Reach.LIBRARY, *map(scopes.reach, node.find_all(exp.Table))))
    looked_up = any(call.name.lower() == "similarity" for call in node.find_all(exp.Anonymous))
    if looked_up or any(_target_of(select) for select in node.find_all(exp.Select)):
        reach = max(reach, Reach.MATCHES)
    found: set[str] = set()
    for column in node.find_all(exp.Column):
        if not is_inside(column, node) or isinstance(column.this, exp.Star) or has_own_name(column, node):
            continue
        resolved = scopes.resolve(column)
        if resolved:
            continue
        name = column.name.lower()
        certain = resolved is False and not column.table and name in columns_of(target)
        found.add(name if certain or (name in VIDEO_COLUMNS and not column.table) else UNTOLD)
    if UNTOLD in found:
        reach = Reach.STATEMENT  # it may even be a column of a SELECT around the shorthand
    return Nested(frozenset(found), reach)


def is_inside(node: exp.Expr, root: exp.Expr) -> bool:
    """Whether a SELECT inside `root` contains a node."""
    return any(isinstance(around, exp.Query) for around in _around(node, root))


def has_own_name(node: exp.Expr, root: exp.Expr) -> bool:
    """Whether a column is in truth the name that a lambda or a list comprehension gives to an item."""
    below = node
    for around in _around(node, root):
        given: list[exp.Expr | None] = []
        if isinstance(around, exp.Lambda):
            given = list(around.expressions)
        elif isinstance(around, exp.Comprehension) and below is not around.args.get("iterator"):
            given = [around.args.get("expression"), around.args.get("position")]
        if node.name.lower() in {one.name.lower() for one in given if one is not None}:
            return True
        below = around
    return False


def _around(node: exp.Expr, root: exp.Expr) -> Iterator[exp.Expr]:
    """A node and all that is around it, up to `root`."""
    one: exp.Expr | None = node
    while one is not None:
        yield one
        one = None if one is root else one.parent


def _target_of(select: exp.Expr) -> str:
    """The target of a shorthand, which has no FROM; '' for any other SELECT."""
    first = select.expressions[0] if select.expressions and select.args.get("from_") is None else None
    name = first.name.lower() if isinstance(first, exp.Column) and not first.table else ""
    return name if name in OUTPUT else ""


def _asks_for_entity(shorthand: exp.Expr) -> bool:
    """Whether a shorthand certainly asks for an entity, not only for its absence."""
    where = shorthand.args.get("where")
    return isinstance(where, exp.Where) and any(
        column.name.lower() == "entity"
        and not any(isinstance(around, (exp.Not, exp.Query)) for around in _around(column, where))
        for column in where.find_all(exp.Column)
    )


@dataclass(slots=True)
class _Scopes:
    """Tells whose column a name in a SELECT is.

    Attributes:
        root: the condition.
        named: the CTEs of the statement.
        known: the columns of queries: id() of the query -> columns.
        ctes: the CTEs that tables name: id() of the tree -> id() of the table -> CTE.
    """

    root: exp.Expr
    named: Named
    known: dict[int, _Columns] = field(default_factory=dict)
    ctes: dict[int, dict[int, exp.CTE]] = field(default_factory=dict)

    def reach(self, table: exp.Expr) -> Reach:
        """How far beyond the row a table in a FROM lies."""
        name = table.name.lower()
        if not isinstance(table.this, exp.Identifier):
            return Reach.LIBRARY if isinstance(table.this, _READS_NOTHING) else Reach.STATEMENT
        if table.args.get("db"):
            return Reach.STATEMENT
        if self._own_cte(table) is not None:
            return Reach.LIBRARY  # what it reads counts by itself
        if name in self.named or name not in RELATION_COLUMNS:
            return Reach.STATEMENT
        return Reach.MATCHES if name in MATCHED_COLUMNS else Reach.LIBRARY

    def resolve(self, column: exp.Column) -> bool | None:
        """Whether a name belongs to a SELECT inside the condition; None if that is not known."""
        certain = True
        below: exp.Expr = column
        for around in _around(column.parent or self.root, self.root):
            found: bool | None = False
            if isinstance(around, exp.Select):
                found = self._in_select(column, around, below)
            elif isinstance(around, exp.SetOperation) and below.arg_key == "order":
                found = self._outputs(around, 0).have(column.name.lower())
            if found:
                return True
            certain, below = certain and found is False, around
        return False if certain else None

    def _in_select(self, column: exp.Column, select: exp.Expr, below: exp.Expr) -> bool | None:
        """Whether a SELECT has a name that stands in its clause `below`; None if that is not known."""
        name, table, clause = column.name.lower(), column.table.lower(), below.arg_key
        if target := _target_of(select):
            named = clause == "expressions" or name in (*columns_of(target), "similarity")
            return None if table else named
        if clause == "with_":
            return False  # a CTE does not see the sources beside its WITH
        sources = _sources(select)
        if table:
            if any(source.alias_or_name.lower() == table for source in sources):
                return True
            name = table  # a field of a column
        states = [self._columns(source, 0).have(name) for source in sources]
        if any(source.alias_or_name.lower() == name for source in sources):
            states.append(None)  # a row as a whole
        within = _around(column, below)
        if clause in ("from_", "joins", "laterals") and any(isinstance(one, exp.Query) for one in within):
            # A table in FROM sees those to its left only.
            return False if all(state is False for state in states) else None
        if True in states or (clause in _BEHIND_COLUMNS and _is_alias(name, column, select)):
            return True
        return None if None in states else False

    def _columns(self, source: exp.Expr, depth: int) -> _Columns:
        """The columns of a source in FROM or JOIN."""
        names = renamed(source)
        if any(source.args.get(key) for key in ("pivots", "joins", "offset")):
            return _Columns(names)
        if isinstance(source, exp.Lateral):
            source = source.this
        if isinstance(source, exp.Table):
            found = self._of_table(source, depth)
        else:
            found = self._outputs(source, depth)
        if not names:
            return found
        if isinstance(source, (exp.Values, exp.Unnest)) or isinstance(source.this, exp.GenerateSeries):
            return _Columns(names, frozenset())
        return _Columns((*names, *found.names[len(names) :]), found.others)

    def _of_table(self, table: exp.Expr, depth: int) -> _Columns:
        name = table.name.lower()
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            return _Columns()
        cte = self._own_cte(table) or self.named.get(name)
        if cte is not None:
            names = renamed(cte)
            found = self._outputs(cte.this, depth + 1)
            return _Columns((*names, *found.names[len(names) :]), found.others)
        # The first columns may be renamed, and a set does not tell which these are.
        if name in self.named or name not in RELATION_COLUMNS or renamed(table):
            return _Columns()
        return _Columns(tuple(sorted(RELATION_COLUMNS[name])), frozenset())

    def _outputs(self, query: exp.Expr, depth: int) -> _Columns:
        """The columns that a query returns."""
        if depth > _MOST_DEEP:
            return _Columns()
        if id(query) not in self.known:
            self.known[id(query)] = self._returned(query, depth)
        return self.known[id(query)]

    def _returned(self, query: exp.Expr, depth: int) -> _Columns:
        if isinstance(query, exp.Subquery):
            return self._outputs(query.this, depth + 1)
        if isinstance(query, exp.SetOperation) and not query.args.get("by_name"):
            return self._outputs(query.this, depth + 1)
        if not isinstance(query, exp.Select):
            return _Columns()
        if target := _target_of(query):
            more = tuple(item.alias_or_name.lower() for item in query.expressions[1:])
            if target not in ("tracks", "crops"):
                return _Columns((*OUTPUT[target], *more), frozenset())
            matched = ("entity", "score") if _asks_for_entity(query) else ()
            return _Columns((*OUTPUT[target], *more, *matched), frozenset(("entity", "score", "similarity")))
        names: list[str] = []
        others: frozenset[str] | None = frozenset()
        for item in query.expressions:
            star = item.this if isinstance(item, exp.Column) else item
            if isinstance(star, exp.Star):
                of = item.table.lower() if isinstance(item, exp.Column) else ""
                found = self._all_of(query, star, of, depth)
                names += found.names
                others = None if others is None or found.others is None else others | found.others
            elif isinstance(item, (exp.Alias, exp.Column)):
                names.append(item.alias_or_name.lower())
            elif item.find(exp.Columns, exp.Explode, exp.Unnest, exp.Anonymous) is not None:
                others = None  # it may give several columns; others are named by their text
        return _Columns(tuple(names), others)

    def _all_of(self, select: exp.Expr, star: exp.Expr, table: str, depth: int) -> _Columns:
        """The columns that a * stands for."""
        kinds = {join.args.get("kind") for join in select.args.get("joins") or ()}
        changed = any(star.args.get(key) for key in ("except_", "replace", "rename"))
        if changed or kinds & {"SEMI", "ANTI"}:
            return _Columns()
        sources = [one for one in _sources(select) if not table or one.alias_or_name.lower() == table]
        found = [self._columns(source, depth + 1) for source in sources]
        names = tuple(name for one in found for name in one.names)
        if any(one.others is None for one in found):
            return _Columns(names)
        return _Columns(names, frozenset(name for one in found for name in one.others or ()))

    def _own_cte(self, table: exp.Expr) -> exp.Expr | None:
        """The CTE of a WITH around a table, in the table's own tree, that it names; None for none."""
        tree = table.root()
        if id(tree) not in self.ctes:
            self.ctes[id(tree)] = {id(one): cte for cte, tables in named_ctes(tree) for one in tables}
        return self.ctes[id(tree)].get(id(table))


def _sources(select: exp.Expr) -> list[exp.Expr]:
    start = select.args.get("from_")
    joins = [join.this for join in select.args.get("joins") or ()]
    return [*([start.this] if start is not None else []), *joins, *(select.args.get("laterals") or ())]


def renamed(source: exp.Expr) -> tuple[str, ...]:
    """The names that a source or CTE gives to its first columns: d(a, b)."""
    alias = source.args.get("alias")
    return tuple(one.name.lower() for one in alias.args.get("columns") or ()) if alias is not None else ()


def _is_alias(name: str, column: exp.Expr, select: exp.Expr) -> bool:
    """Whether a name is that of an item of a SELECT, in which the column does not stand itself."""
    inside = {id(one) for one in _around(column, select)}
    return any(
        isinstance(item, exp.Alias) and item.alias.lower() == name and id(item) not in inside
        for item in select.expressions
    )
