"""Names of entities enter; SQL that messages advise leaves. Nothing heavy is loaded for it."""

from __future__ import annotations

from collections.abc import Sequence

from panorama.query.text.quoting import quote_text

UNCERTAIN = "band = 'uncertain'"

MOST_NAMED = 5
"""Of more entities, the tracks of all are shown."""


def uncertain_of(entities: Sequence[str]) -> str:
    """The statement that shows the uncertain tracks of some entities; of none or of many, those of all."""
    if not 0 < len(entities) <= MOST_NAMED:
        return f"SELECT tracks WHERE {UNCERTAIN}"
    named = ", ".join(map(quote_text, entities))
    among = f"entity = {named}" if len(entities) == 1 else f"entity IN ({named})"
    return f"SELECT tracks WHERE {among} AND {UNCERTAIN}"
