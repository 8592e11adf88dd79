"""Names of entities come in; the SQL that messages advise goes out. It imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence

from panorama.query.text.quoting import quote_text

UNCERTAIN = "band = 'uncertain'"

MOST_NAMED = 5
"""With more entities than this, the advised statement does not name them."""


def uncertain_of(entities: Sequence[str]) -> str:
    """The statement that shows the uncertain tracks of some entities; it names them if there are few."""
    if not 0 < len(entities) <= MOST_NAMED:
        return f"SELECT tracks WHERE {UNCERTAIN}"
    named = ", ".join(map(quote_text, entities))
    among = f"entity = {named}" if len(entities) == 1 else f"entity IN ({named})"
    return f"SELECT tracks WHERE {among} AND {UNCERTAIN}"
