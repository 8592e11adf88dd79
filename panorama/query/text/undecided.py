"""A statement and a number of uncertain tracks enter; what is told of them leaves, and what shows them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from panorama.lines import counted
from panorama.query.handed.relations import MATCHED_COLUMNS
from panorama.query.text.advised import UNCERTAIN, uncertain_of
from panorama.query.text.dialect import tokenize
from panorama.query.text.extensions import find_extensions

NOT_REJECTED = "band <> 'rejected'"
_WITHOUT_BAND = re.compile(r"\b(NOT[ (]+ENTITY|ENTITY[ )]+IS NULL|FOLLOWED BY|BEFORE|DURING|OVERLAPS)\b")
"""What several tracks make, or what matches nothing, has no band."""


def uncertain_told(tracks: int, sql: str, entities: Sequence[str] = ()) -> str:
    """How many tracks a statement left uncertain, of which entities, and what shows them."""
    told = counted(tracks, "track is", "tracks are")
    shown = _into_it(sql, UNCERTAIN) or uncertain_of(entities)
    return f"{told} uncertain{_joined(tracks, sql)}; see with: {shown}"


def told_on_page(tracks: int, sql: str, entities: Sequence[str] = ()) -> str:
    """The same for who looks through the answer: what shows them shows what is on the page as well."""
    told = counted(tracks, "more track is", "more tracks are")
    shown = _into_it(sql, NOT_REJECTED) or uncertain_of(entities)
    return (
        f"{told} uncertain and not on this page{_joined(tracks, sql)}. "
        f"A yes helps most on these; see with: {shown}"
    )


def _into_it(sql: str, band: str) -> str:
    """What to add to a statement to see the tracks that it left uncertain; '' where nothing can be added."""
    _, asked = _shorthand(sql)
    if not re.search(r"\bWHERE\b.*\bENTITY\b", asked) or _WITHOUT_BAND.search(asked):
        return ""
    if promise := re.search(r"\bWITH (PRECISION|RECALL)\b", asked):
        # It decides by borders of its own.
        return f"AND {band}, instead of WITH {promise[1]}"
    # Behind an OR it would go with the last alternative alone.
    has_or = re.search(r"\bOR\b", asked)
    return f"AND {band}{', with the OR before it in brackets' if has_or else ''}"


def _joined(tracks: int, sql: str) -> str:
    """What is counted are tracks, and whoever follows the advice may get fewer rows."""
    target, _ = _shorthand(sql)
    several = tracks > 1 and target == "moments" and _into_it(sql, UNCERTAIN)
    return ", and moments may join several of them" if several else ""


def _shorthand(sql: str) -> tuple[str, str]:
    """The target of the shorthand that a condition could go into, and its words in upper case, without texts.

    Both are '' where there is none, or several, or where relations are read, which hold what was accepted.
    """
    tokens = tokenize(sql)
    found = [part for part in find_extensions(tokens) if part.kind == "shorthand"]
    if len(found) != 1:
        return "", ""
    words = [sql[token.start : token.end + 1] for token in tokens]
    first, last = found[0].first, found[0].last
    if any(word.lower() in MATCHED_COLUMNS for word in words[:first] + words[last:]):
        return "", ""
    # A text or a name in quotes may read like anything.
    asked = [word.upper() if word.isidentifier() or word in "()" else "?" for word in words[first:last]]
    return words[first + 1].lower(), " ".join(asked)
