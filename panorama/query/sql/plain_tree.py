"""A statement of plain SQL comes in; its SELECTs go out, with their sources, columns and conditions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token

from panorama.query.handed.relations import RELATION_COLUMNS, RELATIONS
from panorama.query.shorthands.nested import renamed
from panorama.query.shorthands.plan import OUTPUT
from panorama.query.text.ctes import is_recursive, named_ctes
from panorama.query.text.dialect import Panorama
from panorama.query.text.extensions import TARGETS
from panorama.query.text.tokens import words_of_explain


@dataclass(slots=True)
class Statement:
    """A parsed statement.

    Attributes:
        tree: of sqlglot.
        words: the texts of its tokens, in lower case.
        ctes: the CTEs that tables name: id() of the table -> CTE.
        uses: the tables that name a CTE: id() of the CTE -> tables.
        outputs: the columns of the CTEs, in lower case; None if unknown: id() of the CTE -> columns.
    """

    tree: exp.Expr
    words: frozenset[str]
    ctes: dict[int, exp.CTE] = field(default_factory=dict)
    uses: dict[int, list[exp.Expr]] = field(default_factory=dict)
    outputs: dict[int, frozenset[str] | None] = field(default_factory=dict)

    def cte(self, table: exp.Expr) -> exp.CTE | None:
        """The CTE that a table in FROM or JOIN names; None if it names none."""
        return self.ctes.get(id(table))


@dataclass(frozen=True, slots=True)
class Source:
    """A table or subquery in FROM or JOIN.

    Attributes:
        node: the table or subquery.
        name: the qualifier of its columns, in lower case.
        relation: its name if it is one of the library's relations, else None.
        columns: its columns in lower case; None if unknown.
        join: the join that adds it; None for the first source.
        filtered: whether WHERE applies to every row that is made from its rows.
    """

    node: exp.Expr
    name: str
    relation: str | None
    columns: frozenset[str] | None
    join: exp.Expr | None
    filtered: bool

    def shares(self, column: str) -> bool:
        """Whether it is joined by USING a column, which is then shared with the other sources."""
        using = self.join.args.get("using") if self.join is not None else None
        return column in {name.name.lower() for name in using or []}


def read_statement(sql: str, tokens: list[Token]) -> Statement | None:
    """The parsed statement; None if it cannot be parsed.

    Args:
        sql: the statement as typed.
        tokens: of the statement, with parameters replaced by constants.
    """
    try:
        found = Panorama().parser().parse(tokens[words_of_explain(tokens) :], sql)
    except (SqlglotError, RecursionError, IndexError, AttributeError):
        return None
    tree = found[0] if found else None
    if tree is None or len(found) != 1:
        return None
    statement = Statement(tree, frozenset(token.text.lower() for token in tokens))
    _resolve(statement)
    return statement


def _resolve(statement: Statement) -> None:
    """Find the CTE that each table names, and the columns of each CTE."""
    found = named_ctes(statement.tree)
    for cte, tables in found:
        statement.uses[id(cte)] = tables
        statement.ctes.update((id(table), cte) for table in tables)
    for cte, _ in found:
        statement.outputs[id(cte)] = _cte_outputs(cte, statement)


def _cte_outputs(cte: exp.CTE, statement: Statement) -> frozenset[str] | None:
    """The columns of a CTE; None if unknown."""
    return None if renamed(cte) or is_recursive(cte) else _outputs(cte.this, statement)


def sources_of(select: exp.Expr, statement: Statement) -> list[Source] | None:
    """The sources of a SELECT; None if some are not plain tables and subqueries."""
    start = select.args.get("from_")
    if start is None or select.args.get("laterals"):
        return None
    joins = select.args.get("joins") or []
    placed = [(start.this, None), *((join.this, join) for join in joins)]
    if not all(isinstance(node, (exp.Table, exp.Subquery)) and not is_odd(node) for node, _ in placed):
        return None
    followed = all(map(is_followed, joins)) and not select.args.get("sample")
    return [_source(node, join, followed, statement) for node, join in placed]


def is_odd(node: exp.Expr) -> bool:
    """Whether a source is not read as it stands: sampled, pivoted, joined in brackets, of another version."""
    return any(node.args.get(name) for name in ("sample", "pivots", "joins", "when", "version"))


def is_inner(join: exp.Expr) -> bool:
    """Whether a join keeps only what its ON holds for, and shows the columns of both sides."""
    return not join.args.get("side") and join.args.get("kind") in (None, "", "INNER", "CROSS")


def is_followed(join: exp.Expr) -> bool:
    """Whether removing rows of one side removes exactly the rows made from them."""
    side, kind = join.args.get("side") or "", join.args.get("kind") or ""
    if join.args.get("method") or not isinstance(join.this, (exp.Table, exp.Subquery)):
        return False
    return side in ("", "LEFT") and kind in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI")


def _source(node: exp.Expr, join: exp.Expr | None, followed: bool, statement: Statement) -> Source:
    inner = join is None or is_inner(join)
    relation = None
    if isinstance(node, exp.Table) and not renamed(node) and not node.args.get("db"):
        name = node.name.lower()
        relation = name if name in RELATIONS and statement.cte(node) is None else None
    return Source(
        node, node.alias_or_name.lower(), relation, _columns(node, statement), join, followed and inner
    )


def _columns(node: exp.Expr, statement: Statement) -> frozenset[str] | None:
    """The columns of a source; None if unknown."""
    if renamed(node) or node.args.get("db"):
        return None
    if isinstance(node, exp.Subquery):
        return _outputs(node.this, statement)
    if not isinstance(node, exp.Table):
        return None
    cte = statement.cte(node)
    return RELATION_COLUMNS.get(node.name.lower()) if cte is None else statement.outputs[id(cte)]


def _outputs(query: exp.Expr, statement: Statement) -> frozenset[str] | None:
    """The columns that a query returns; for a shorthand, all that it may return."""
    if not isinstance(query, exp.Select):
        return None
    if query.args.get("from_") is None and query.expressions:
        target, *more = (item.alias_or_name.lower() for item in query.expressions)
        if target in TARGETS:
            return frozenset((*OUTPUT[target], *more, "entity", "score", "similarity"))
    found: set[str] = set()
    for item in query.expressions:
        star = item.this if isinstance(item, exp.Column) else item
        if not isinstance(star, exp.Star):
            found.add(item.alias_or_name.lower())
            continue
        sources = sources_of(query, statement)
        if sources is None or any(star.args.get(name) for name in ("except_", "replace", "rename")):
            return None
        for source in sources:
            if isinstance(item, exp.Column) and item.table.lower() != source.name:
                continue
            if source.columns is None:
                return None
            found |= source.columns
    return frozenset(found)


def conditions_of(select: exp.Expr) -> Iterator[exp.Expr]:
    """The conditions on every row of a SELECT: the parts of its WHERE and of the ON of its inner joins."""
    where = select.args.get("where")
    if where is not None:
        yield from conjuncts(where.this)
    for join in select.args.get("joins") or []:
        if join.args.get("on") is not None and is_inner(join):
            yield from conjuncts(join.args["on"])


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that must all hold; any other condition in parentheses is one part."""
    inner = node
    while isinstance(inner, exp.Paren):
        inner = inner.this
    if isinstance(inner, exp.And):
        return [part for operand in inner.flatten(unnest=False) for part in conjuncts(operand)]
    return [node]


def owners(name: str, table: str, sources: list[Source]) -> list[Source]:
    """The sources that a column belongs to: one, or several that share it; [] if that is uncertain."""
    name, table = name.lower(), table.lower()
    if table:
        called = [source for source in sources if source.name == table]
        return called if len(called) == 1 and name in (called[0].columns or ()) else []
    if any(source.columns is None for source in sources):
        return []
    having = [source for source in sources if name in (source.columns or ())]
    shared = [source for source in having if source.shares(name)]
    return having if len(having) - len(shared) <= 1 else []
