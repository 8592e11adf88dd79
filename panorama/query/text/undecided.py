"""A statement and its number of uncertain tracks come in; a line on how to see what it left out goes out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from panorama.commands import command
from panorama.lines import counted
from panorama.query.handed.relations import MATCHED_COLUMNS
from panorama.query.shorthands.space import PREDICATES
from panorama.query.text.advised import UNCERTAIN, uncertain_of
from panorama.query.text.extensions import find_extensions
from panorama.query.text.tokens import tokenize

NOT_REJECTED = "band <> 'rejected'"
_WITHOUT_BAND = re.compile(r"\b(NOT[ (]+ENTITY|ENTITY[ )]+IS NULL|FOLLOWED BY|BEFORE|DURING|OVERLAPS)\b")
"""Rows made of several tracks, or rows that match nothing, have no band."""
_DECIDED_BY_USER = re.compile(r"\b(SCORE|BAND|WITH|OR)\b")
"""It chooses by itself what is near enough, or a condition behind it would apply to a part only."""
_BEHIND_WHERE = re.compile(r"\b(?:GROUP|HAVING|QUALIFY|WINDOW|ORDER|LIMIT|OFFSET|WITHIN|WITH)\b")
_PAIRS = frozenset(name.upper() for name, predicate in PREDICATES.items() if predicate.kind == "pair")
_GROUPED = re.compile(r"\bGROUP\s+BY\b", re.IGNORECASE)
"""Groups have no score to be ordered by."""


def uncertain_told(tracks: int, sql: str, entities: Sequence[str] = ()) -> str:
    """Tells how many tracks a statement left uncertain, of which entities, and how to see them."""
    told = counted(tracks, "track is", "tracks are")
    shown = _into_it(sql, UNCERTAIN) or uncertain_of(entities)
    return f"{told} uncertain{_joined(tracks, sql)}; see with: {shown}"


def told_on_page(tracks: int, sql: str, entities: Sequence[str] = ()) -> str:
    """The same for a review page; the advised statement shows the tracks of the page as well."""
    told = counted(tracks, "more track is", "more tracks are")
    shown = _into_it(sql, NOT_REJECTED) or uncertain_of(entities)
    return (
        f"{told} uncertain and not on this page{_joined(tracks, sql)}. "
        f"A yes helps most on these; see with: {shown}"
    )


def nothing_told(sql: str) -> str:
    """For a statement without rows or uncertain tracks, how to see what comes nearest; else empty."""
    _, asked = _shorthand(sql)
    if not _into_it(sql, UNCERTAIN) or _DECIDED_BY_USER.search(asked) or _GROUPED.search(sql):
        return ""
    order = "" if re.search(r"\b(ORDER|LIMIT)\b", asked) else " ORDER BY score DESC LIMIT 5"
    why = command("why", "NAME", "VIDEO", "--at", "SECONDS")
    return (
        f"nothing was found, and nothing is uncertain; see what comes nearest with: AND score >= 0{order}. "
        "If the thing is in the videos, register more examples, cut out so that it fills the picture"
        f" (--find); if you know where it is, see what keeps it out with: {why}"
    )


def _into_it(sql: str, band: str) -> str:
    """The condition to add to a statement to see the tracks left uncertain; '' if none can be added."""
    _, asked = _shorthand(sql)
    if not re.search(r"\bWHERE\b.*\bENTITY\b", asked) or _WITHOUT_BAND.search(asked):
        return ""
    if promise := re.search(r"\bWITH (PRECISION|RECALL)\b", asked):
        # It decides by thresholds of its own, which may leave uncertain what the bands accept.
        return f"AND {NOT_REJECTED}, instead of WITH {promise[1]}"
    condition = _BEHIND_WHERE.split(asked.partition(" WHERE ")[2])[0]
    if _together(condition.split()) > 1:
        band = NOT_REJECTED  # one may be accepted and the other one uncertain
    # After an OR, the condition would apply to the last alternative only.
    has_or = re.search(r"\bOR\b", asked)
    return f"AND {band}{', with the OR before it in brackets' if has_or else ''}"


def _together(words: Sequence[str]) -> int:
    """How many things a condition looks for at once: of alternatives, the most that one of them does."""
    if alternatives := _split(words, "OR"):
        return max(map(_together, alternatives))
    if parts := _split(words, "AND"):
        return sum(map(_together, parts))
    if len(words) > 2 and words[0] == "(" and words[-1] == ")":
        return _together(words[1:-1])
    return 2 if _PAIRS.intersection(words) else int("ENTITY" in words)


def _split(words: Sequence[str], at: str) -> list[Sequence[str]]:
    """The parts of a condition between words that stand outside of brackets; [] if there is none."""
    parts, depth, begin = [], 0, 0
    for i, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if word == at and depth == 0:
            parts.append(words[begin:i])
            begin = i + 1
    return [*parts, words[begin:]] if parts else []


def _joined(tracks: int, sql: str) -> str:
    """A remark that moments may join several tracks, so that fewer rows than tracks appear; else ''."""
    target, _ = _shorthand(sql)
    several = tracks > 1 and target == "moments" and _into_it(sql, UNCERTAIN)
    return ", and moments may join several of them" if several else ""


def _shorthand(sql: str) -> tuple[str, str]:
    """The target of the shorthand to which a condition can be added, and its words in upper case, without
    texts.

    Both are '' if there is no shorthand, if there are several, or if the statement also reads `sightings` or
    `moments`, which hold accepted tracks only.
    """
    tokens = tokenize(sql)
    found = [part for part in find_extensions(tokens) if part.kind == "shorthand"]
    if len(found) != 1:
        return "", ""
    words = [sql[token.start : token.end + 1] for token in tokens]
    first, last = found[0].first, found[0].last
    if any(word.lower() in MATCHED_COLUMNS for word in words[:first] + words[last:]):
        return "", ""
    # A text or a quoted name may contain any words, also keywords.
    asked = [
        word.upper() if word in "()" or all(map(str.isidentifier, word.split())) else "?"  # one is ORDER BY
        for word in words[first:last]
    ]
    return words[first + 1].lower(), " ".join(asked)
