"""A statement and the library's names come in; remarks on what it cannot find go out, or an error.

A shorthand refuses an entity that is not registered. In plain SQL, a text is just a text: a name with a typo,
or the name of a missing video, gives an answer without rows or a count of 0. So a remark beside the answer
says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import TypeGuard

import duckdb
from sqlglot.tokens import Token, TokenType

from panorama.commands import command
from panorama.errors import QueryError, UnknownEntity, first_entity, no_entity, unknown, without_example
from panorama.lines import counted
from panorama.query.handed.relations import SCHEMA
from panorama.query.run import Run
from panorama.query.shorthands.clock import ends_before
from panorama.query.shorthands.conditions import any_of, hull
from panorama.query.shorthands.plan import CLOCK_COLUMNS, Query
from panorama.query.text.extensions import closing
from panorama.query.text.quoting import quote_text
from panorama.store.catalog.zones import lost_shape

NEAR_AMONG = 2_000
"""Similar names are searched only among at most this many: it takes about 10 ms per 1000 names."""

TOLD_NAMES = 5
"""At most this many missing names are reported one by one, for entities and for videos.

A list from elsewhere may have thousands, which would hide other remarks.
"""

_COMPARES = frozenset(
    (TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.IN)
)
_EQUALS = frozenset((TokenType.EQ, TokenType.IN))
_BRACKETS = frozenset((TokenType.L_PAREN, TokenType.L_BRACKET))
_LIST_IN_BRACKETS = [TokenType.IN, TokenType.L_PAREN, TokenType.L_BRACKET]
_OF_ONE_VALUE = frozenset(("entity", "video", "camera", "band", "track_id", "crop_id", "frame", "zone"))
_COUNTS = frozenset((TokenType.STAR, TokenType.SLASH, TokenType.PLUS, TokenType.DASH, TokenType.MOD))
_COUNTS |= {TokenType.DIV, TokenType.DSTAR, TokenType.CARET, TokenType.DCOLON}
"""Operators that change a value beside them: 100 * score may reach 80, and so may score 80 / 100."""
_LEAST = frozenset((TokenType.EQ, TokenType.GT, TokenType.GTE, TokenType.BETWEEN))
_MOST = frozenset((TokenType.EQ, TokenType.LT, TokenType.LTE))
_TYPES = frozenset((TokenType.TIMESTAMP, TokenType.TIMESTAMPTZ, TokenType.DATE))
_ZONED = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d\S*?\s?(Z|[+-]\d\d(:?\d\d)?)", re.IGNORECASE)

_LOST_SHAPES = f"""
SELECT zone, any_value(kind), list(DISTINCT camera ORDER BY camera),
    (SELECT list(DISTINCT camera ORDER BY camera) FROM {SCHEMA}.videos)
FROM {SCHEMA}.zones WHERE list_contains(?, zone) GROUP BY zone
HAVING NOT bool_or(camera = '' OR camera IN (SELECT camera FROM {SCHEMA}.videos)) ORDER BY zone
"""
_LONGEST = f"SELECT count(*), max(duration) FROM {SCHEMA}.videos{{where}}"
_CLOCKS = f"""
SELECT count(*), count(start_clock), coalesce(sum(undated_pictures), 0) FROM {SCHEMA}.videos{{where}}
"""


@dataclass(frozen=True, slots=True)
class Compared:
    """A column compared with a constant, as in video = 'gate.mp4'.

    Attributes:
        listed: whether the constant is an item of a list in square brackets, as Python's lists are.
    """

    column: str
    how: TokenType
    value: Token
    listed: bool = False


def remarks(
    tokens: list[Token], entities: Collection[str], videos: Callable[[], Collection[str]]
) -> list[str]:
    """Remarks on conditions that nothing can satisfy: missing names, scores above 1, reversed ranges, NULLs.

    Args:
        tokens: of the statement, with parameters as constants.
        entities, videos: the names in the library.
    """
    found: dict[str, None] = {}
    for asked in least(tokens):
        text = asked.value.text
        if _above_one(text):
            meant = f"; {text} % is written {float(text) / 100:g}" if float(text) <= 100 else ""
            found[f"a {asked.column} lies between 0 and 1; none reaches {text}{meant}"] = None
    for first, second in reversed_ranges(tokens):
        found[f"BETWEEN {first} AND {second} is never true: put the smaller number first"] = None
    for first, second in _reversed_instants(tokens):
        told = (
            f"BETWEEN {quote_text(first)} AND {quote_text(second)} is never true: put the earlier one first"
        )
        found[told] = None
    for column, sign, instead in _compared_with_null(tokens):
        found[f"{column} {sign} NULL is never true: write {column} {instead}"] = None
    return [*found, *_names_in_vain(tokens, entities, videos)]


def _names_in_vain(
    tokens: list[Token], entities: Collection[str], videos: Callable[[], Collection[str]]
) -> list[str]:
    """The first missing names, each with similar ones, and the number of further missing names."""
    asked_for: dict[str, dict[str, None]] = {}
    for asked in compared(tokens):
        names = asked_for.setdefault(asked.column, {})
        if asked.how in _EQUALS and asked.value.token_type == TokenType.STRING:
            names[asked.value.text] = None
    found = []
    for column, listed in asked_for.items():
        if not listed or column not in ("entity", "video"):
            continue
        if column == "entity" and not entities:
            found.append(no_entity(next(iter(listed)), entities))
            continue
        held = entities if column == "entity" else videos()
        see = command("entities" if column == "entity" else "videos")
        lacking = [name for name in listed if name not in held]
        near = held if len(held) <= NEAR_AMONG else ()
        found += [unknown(column, name, near, see) for name in lacking[:TOLD_NAMES]]
        if more := lacking[TOLD_NAMES:]:
            found.append(
                f"no {column} with {counted(len(more), 'more name')} either, such as {more[-1]!r}. See: {see}"
            )
    return found


def reversed_ranges(tokens: list[Token]) -> Iterator[tuple[str, str]]:
    """Pairs of numbers after BETWEEN whose first one is larger."""
    numbers = [TokenType.BETWEEN, TokenType.NUMBER, TokenType.AND, TokenType.NUMBER]
    for i in range(len(tokens) - 3):
        piece, after = tokens[i : i + 4], tokens[i + 4 : i + 5]
        counts = bool(after) and after[0].token_type in _COUNTS
        if [token.token_type for token in piece] == numbers and not counts:
            first, second = piece[1].text, piece[3].text
            with suppress(ValueError):  # for '0e', see refuse_numbers
                if float(first) > float(second):
                    yield first, second


def _reversed_instants(tokens: list[Token]) -> Iterator[tuple[str, str]]:
    """Pairs of instants or days after BETWEEN whose first one is later."""
    for i, token in enumerate(tokens):
        if token.token_type == TokenType.BETWEEN:
            pair = [value.text for value in _values(tokens, i + 1, TokenType.AND, 2)]
            if len(pair) == 2 and ends_before(*pair):
                yield pair[0], pair[1]


def _compared_with_null(tokens: list[Token]) -> Iterator[tuple[str, str, str]]:
    """Every column compared with NULL, which a parameter may be: the column, the sign, what to write."""
    own = {token.text.lower() for token in _given_names(tokens)}
    instead = {TokenType.EQ: ("=", "IS NULL"), TokenType.NEQ: ("<>", "IS NOT NULL")}
    for name, sign, value in zip(tokens, tokens[1:], tokens[2:], strict=False):
        column = name.text.lower()
        if (
            column in _OF_ONE_VALUE - own
            and sign.token_type in instead
            and value.token_type == TokenType.NULL
        ):
            yield column, *instead[sign.token_type]


def _above_one(number: str) -> bool:
    """Whether a number token is above 1; one like '0e', the beginning of 0earest, is left to DuckDB."""
    try:
        return float(number) > 1
    except ValueError:
        return False


def refuse_numbers(tokens: list[Token], sql: str) -> None:
    """Raise if a number lacks its exponent, because DuckDB reports no position for that.

    Raises:
        QueryError: there is one; with the position.
    """
    for token, after in zip_longest(tokens, tokens[1:]):
        goes_on = after is not None and after.start == token.end + 1 and after.token_type == TokenType.VAR
        # 0earest means 0 with the alias earest.
        if token.token_type == TokenType.NUMBER and token.text[-1:] in "eE" and not goes_on:
            raise QueryError(
                f"{token.text!r} is not a number: it lacks an exponent, as in 1e3", sql, token.start
            )


def refuse_lists(
    tokens: list[Token], shorthands: Collection[tuple[int, int]], entities: Collection[str], sql: str
) -> None:
    """Raise if a list is put in parentheses again, or if a list in a shorthand names an unknown entity.

    Args:
        tokens: with parameters that are lists spelled out.
        shorthands: where they begin and end.
        entities: the names in the library.

    Raises:
        QueryError: IN (?) with a list; with the position.
        UnknownEntity: with similar names.
    """
    kinds = [token.token_type for token in tokens]
    for i, column in enumerate(tokens):
        at = i + 2 if kinds[i + 1 : i + 2] == [TokenType.NOT] else i + 1
        if column.text.lower() in _OF_ONE_VALUE and kinds[at : at + 3] == _LIST_IN_BRACKETS:
            raise QueryError(f"write a list after IN without brackets: {column.text} IN ?", sql, column.start)
    for asked in compared(tokens):
        inside = any(start <= asked.value.start < stop for start, stop in shorthands)
        if inside and asked.listed and asked.column == "entity" and asked.value.text not in entities:
            error = UnknownEntity(no_entity(asked.value.text, entities))
            error.sql = sql
            raise error


def refuse_zones(tokens: list[Token], sql: str) -> None:
    """Raise if a clock is compared with a timestamp that has a time zone: DuckDB would drop the zone.

    Raises:
        QueryError: there is one; with the position.
    """
    for asked in compared(tokens):
        kind, text = asked.value.token_type, asked.value.text
        if asked.column in CLOCK_COLUMNS and kind == TokenType.STRING and _ZONED.fullmatch(text):
            raise QueryError(
                f"{asked.column} is the local time of each camera, and {text!r} names a zone: write the time"
                " that a clock beside the camera shows, '2026-03-01 10:00'",
                sql,
                asked.value.start,
            )


def remark_videos(query: Query, run: Run, videos: int) -> None:
    """Warn if the library has no video, or if a shorthand's conditions exclude all videos.

    Args:
        videos: number of videos in the library.
    """
    named = any(remark.startswith("no video") for remark in run.warnings)
    if not videos and not named:
        run.warnings.append("no video is indexed in this library; see: " + command("index", "--help"))
    if videos and query.shared and not named and _videos_asked(query, run) == (0, 0, 0):
        lost = _lost_shapes(query.shapes, run)
        if not lost:
            said = " AND ".join(leaf.told or leaf.text for leaf in query.shared)
            zones = f", {command('zones')}" if query.shapes else ""
            told = f"none of {counted(videos, 'video')} satisfies {said}; see: {command('videos')}{zones}"
        run.warnings += lost or [told]


def _lost_shapes(names: Sequence[str], run: Run) -> list[str]:
    """A remark on each shape whose cameras have no video, for example after a camera was renamed."""
    if not names:
        return []
    rows = run.cursor.execute(_LOST_SHAPES, [list(names)]).fetchall()
    return [lost_shape(kind, name, cameras, known) for name, kind, cameras, known in rows]


def remark_entities(query: Query, run: Run) -> None:
    """Warn if nothing is registered, or if a shorthand's condition excludes the names of all entities.

    What is told to be never true, as a comparison with NULL, is not told again.
    """
    sought = any(seen.source == "known" for seen in query.every_seen())
    if query.entities:
        see, before = command("entities"), [line.lower() for line in run.warnings]
        vain = [leaf.told or leaf.text for leaf in query.vain]
        told = [
            f"no entity satisfies {text}. See: {see}"
            for text in vain
            if not any(line.startswith(f"{text.lower()} is never true") for line in before)
        ]
    else:
        told = [first_entity()] if sought else []
    run.warnings += [line for line in told if line not in run.warnings]


def remark_examples(looked_for: Collection[str], without: Collection[str], run: Run) -> None:
    """Warn about entities without example images: nothing can match them.

    Args:
        looked_for: the entities that the statement names.
        without: the entities that have no example.
    """
    lacking = [name for name in looked_for if name in without]
    told = [without_example(name) for name in lacking[:TOLD_NAMES]]
    if more := lacking[TOLD_NAMES:]:
        told.append(
            f"{counted(len(more), 'more entity has', 'more entities have')} none, such as {more[-1]!r}"
        )
    run.warnings += [line for line in told if line not in run.warnings]


def check_clock(query: Query, run: Run) -> None:
    """Raise if no video has a wall-clock time, and warn about those that have none.

    Raises:
        QueryError: a condition on wall-clock time, but no video that it concerns has one.
    """
    asked = _videos_asked(query, run)
    if asked is None:
        return
    videos, known, pictures = asked
    if videos and not known:
        raise QueryError(
            f"no wall-clock time is known for the {counted(videos, 'video')} searched; say where it comes"
            f" from with {command('clock', '--time-from')}. Without quotes, time is seconds from the start"
            " of the video",
            query.sql,
            query.clock_at,
        )
    if known < videos:
        run.warnings.append(
            f"no wall-clock time is known for {videos - known} of {videos} videos, so no time of day"
            f" matches them; see: {command('clock')}"
        )
    if pictures:
        run.warnings.append(
            f"{counted(pictures, 'picture has', 'pictures have')} no wall-clock time among others of their"
            " folders that have one, so no time of day matches them: SELECT video, picture FROM frames WHERE"
            " clock IS NULL"
        )


def _videos_asked(query: Query, run: Run) -> tuple[int, int, int] | None:
    """Number of videos that a shorthand concerns, of those with a clock, and of pictures there without one.

    None if a condition is wrong.
    """
    where = _asked_videos(query)
    try:
        ((videos, known, pictures),) = run.cursor.execute(_CLOCKS.format(where=where)).fetchall()
    except duckdb.Error:
        return None  # the statement itself will report the error in its condition
    return int(videos), int(known), int(pictures)


def _asked_videos(query: Query) -> str:
    """SQL of the condition on the videos that a shorthand concerns, or on more of them; '' for all."""
    asked = [f"({leaf.text})" for leaf in query.shared if not leaf.may_select]
    return f" WHERE {' AND '.join(asked)}" if asked else ""


def beyond_the_end(queries: Sequence[Query], run: Run) -> tuple[str, ...]:
    """A remark on each shorthand that asks for times after the end of all its videos."""
    told = []
    for query in queries:
        asked = hull(any_of(branch.times for branch in query.branches))
        if asked.low is None or asked.empty:
            continue
        try:
            rows = run.cursor.execute(_LONGEST.format(where=_asked_videos(query))).fetchall()
        except duckdb.Error:
            continue  # it fails on videos that another condition of the statement excludes
        ((videos, longest),) = rows
        if videos and asked.low > longest:
            told.append(
                f"no video is that long: time is asked for from {asked.low:g} s on, and the longest of"
                f" {counted(videos, 'video')} lasts {longest:g} s. A time of day is a text: time > '10:00'"
            )
    return tuple(told)


def least(tokens: list[Token]) -> Iterator[Compared]:
    """Every number that a score or similarity must reach, on either side of it or first in BETWEEN."""
    own = _given_names(tokens)
    ends = _similarity_ends(tokens)
    alike = {name.text.lower() for name in own if own[name] in ends}
    others = {name.text.lower() for name in own} - alike
    for i, token in enumerate(tokens):
        name = token.text.lower()
        stop = i + 1
        if name == "similarity" and _opens(tokens, stop):
            stop = closing(tokens, stop) + 1
        elif name in others or (name != "score" and name not in alike):
            continue
        before, after = _at(tokens, i - 1), _at(tokens, stop)
        if token.token_type == TokenType.STRING or _counts(before) or _counts(after):
            continue
        column = "score" if name == "score" else "similarity"
        value = _at(tokens, stop + 1)
        if after and after.token_type in _LEAST and _stands_alone(value, _at(tokens, stop + 2)):
            yield Compared(column, after.token_type, value)
        value = _at(tokens, i - 2)
        if before and before.token_type in _MOST and _stands_alone(value, _at(tokens, i - 3)):
            yield Compared(column, before.token_type, value)


def _counts(token: Token | None) -> bool:
    return token is not None and token.token_type in _COUNTS


def _stands_alone(value: Token | None, beside: Token | None) -> TypeGuard[Token]:
    """Whether a token is a number that no operator on its far side changes."""
    return value is not None and value.token_type == TokenType.NUMBER and not _counts(beside)


def _at(tokens: list[Token], place: int) -> Token | None:
    return tokens[place] if 0 <= place < len(tokens) else None


def _opens(tokens: list[Token], place: int) -> bool:
    return place < len(tokens) and tokens[place].token_type == TokenType.L_PAREN


def _given_names(tokens: list[Token]) -> dict[Token, int]:
    """The names that a statement defines, with AS or after `)`, each with the index where its value ends."""
    given = {}
    for i, (word, name) in enumerate(pairwise(tokens)):
        if word.token_type == TokenType.ALIAS:
            given[name] = i
        elif word.token_type == TokenType.R_PAREN and name.token_type == TokenType.VAR:
            given[name] = i + 1
    return given


def _similarity_ends(tokens: list[Token]) -> set[int]:
    """The indices after every call of similarity."""
    starts = (i for i, token in enumerate(tokens) if token.text.lower() == "similarity")
    return {closing(tokens, i + 1) + 1 for i in starts if _opens(tokens, i + 1)}


def compared(tokens: list[Token]) -> Iterator[Compared]:
    """Every column compared with constants; names that the statement itself defines are left out."""
    own = {token.text.lower() for token in _given_names(tokens)}
    for i, token in enumerate(tokens[:-2]):
        column, how = token.text.lower(), tokens[i + 1].token_type
        if column in own or token.token_type in (TokenType.STRING, TokenType.NUMBER):
            continue
        if how == TokenType.BETWEEN:
            for value in _values(tokens, i + 2, TokenType.AND, 2):
                yield Compared(column, how, value)
        elif how in _COMPARES:
            at = i + 2
            if how == TokenType.EQ and tokens[at].token_type == TokenType.ANY and _opens(tokens, at + 1):
                at += 2
            opens = tokens[at].token_type if at < len(tokens) else None
            if how == TokenType.IN and opens not in _BRACKETS:
                continue  # a list as one value
            listed = opens == TokenType.L_BRACKET
            several = listed or how == TokenType.IN
            for value in _values(tokens, at + several, TokenType.COMMA, None if several else 1):
                yield Compared(column, how, value, listed)


def _values(tokens: list[Token], at: int, between: TokenType, most: int | None) -> Iterator[Token]:
    """Consecutive constants from index `at` on, separated by tokens of kind `between`; at most `most`."""
    count = 0
    while at < len(tokens) and (most is None or count < most):
        at += tokens[at].token_type in _TYPES
        if at >= len(tokens) or tokens[at].token_type not in (TokenType.STRING, TokenType.NUMBER):
            return
        if at + 1 < len(tokens) and tokens[at + 1].token_type == TokenType.DPIPE:
            return  # the beginning of a concatenated text
        yield tokens[at]
        count, at = count + 1, at + 1
        if at >= len(tokens) or tokens[at].token_type != between:
            return
        at += 1


def zones_lost(names: Sequence[str], duckdb_types: Sequence[str]) -> tuple[str, ...]:
    """A remark on each column of times of day whose time zone Arrow does not keep."""
    return tuple(
        f"the column {name!r} holds TIME WITH TIME ZONE, and its zone is dropped;"
        f" CAST({name} AS VARCHAR) keeps it"
        for name, duckdb_type in zip(names, duckdb_types, strict=True)
        if "TIME WITH TIME ZONE" in duckdb_type
    )
