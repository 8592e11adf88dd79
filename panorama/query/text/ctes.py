"""A parsed statement comes in; its CTEs go out, each with the tables that name it."""

from __future__ import annotations

from sqlglot import exp


def named_ctes(tree: exp.Expr) -> list[tuple[exp.CTE, list[exp.Expr]]]:
    """Every CTE with the tables that name it, as DuckDB resolves names; a CTE precedes those that see it.

    A query sees the CTEs of its own WITH and of those around it; among equal names, the innermost counts. A
    CTE sees those before it in its WITH. It does not see itself: WITH tracks AS (SELECT * FROM tracks) reads
    the relation. In a WITH RECURSIVE it may mean either, so there its own name counts as the CTE.
    """
    found: list[tuple[exp.CTE, list[exp.Expr]]] = []
    left: list[tuple[exp.Expr, dict[str, list[exp.Expr]], bool]] = [(tree, {}, False)]
    while left:
        node, seen, is_named = left.pop()
        if is_named and isinstance(node, exp.CTE):
            found.append((node, []))
            seen[node.alias.lower()] = found[-1][1]
            continue
        tables = seen.get(node.name.lower()) if isinstance(node, exp.Table) else None
        if tables is not None and not node.args.get("db"):
            tables.append(node)
        own = node.args.get("with_")
        inside = dict(seen) if own else seen
        left += [(child, inside, False) for child in node.iter_expressions() if child is not own]
        for below in reversed(own.expressions if own else ()):
            # What is added last is taken first: all that is in a CTE is resolved before its name is seen.
            steps = [(below, inside, True), (below, inside, False)]
            left += reversed(steps) if is_recursive(below) else steps
    return found


def is_recursive(cte: exp.CTE) -> bool:
    """Whether a CTE stands in a WITH RECURSIVE."""
    return cte.parent is not None and bool(cte.parent.args.get("recursive"))
