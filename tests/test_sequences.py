"""Chains of FOLLOWED BY and its like: which moments are part of one, NOT before them, what is refused."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from query_samples import make_engine, make_library

from panorama.errors import QueryError
from panorama.query.engine import Engine


def spans(engine: Engine, condition: str) -> list[tuple[float, float, str | None]]:
    """Moments in gate-1.mp4. Alone, red-van is there for 0.8-4.8 and 6.8-8.8, blue-van for 1.8-4.3."""
    rows = engine.query(f"SELECT moments WHERE ({condition}) AND video = 'gate-1.mp4'").fetchall()
    return [(round(r["start_time"], 6), round(r["end_time"], 6), r["entity"]) for r in rows]


RED, BLUE = "entity = 'red-van'", "entity = 'blue-van'"
FIRST, SECOND, BETWEEN = (0.8, 4.8, "red-van"), (6.8, 8.8, "red-van"), (1.8, 4.3, "blue-van")


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (f"{RED} FOLLOWED BY {BLUE} FOLLOWED BY {RED}", [FIRST, BETWEEN, SECOND]),
        (f"{RED} FOLLOWED BY {BLUE} FOLLOWED BY {RED} WITHIN INTERVAL 2 SECONDS", []),
        (f"{RED} FOLLOWED BY {BLUE} WITHIN INTERVAL 0 SECONDS BEFORE {RED}", [FIRST, BETWEEN, SECOND]),
        (f"{BLUE} FOLLOWED BY {RED} FOLLOWED BY {BLUE}", []),
        (f"{BLUE} DURING {RED} BEFORE {RED}", [FIRST, BETWEEN, SECOND]),
        # In brackets the pair is a side of its own: both of its moments are before the second red.
        (f"({RED} FOLLOWED BY {BLUE}) BEFORE {RED}", [FIRST, BETWEEN, SECOND]),
        (f"{BLUE} BEFORE ({RED} FOLLOWED BY {BLUE})", []),
        (f"NOT ({RED} FOLLOWED BY {BLUE})", [(0, 0.8, None), (4.8, 10, None)]),
        (f"NOT {RED} FOLLOWED BY {BLUE}", [(0, 0.8, None), (4.8, 10, None)]),
        (f"{RED} AND NOT ({RED} FOLLOWED BY {BLUE})", [SECOND]),
        (f"{BLUE} AND ({RED} FOLLOWED BY {RED})", [(1.8, 4.3, "blue-van"), (1.8, 4.3, "red-van")]),
        (f"({RED} FOLLOWED BY {BLUE}) AND score > 0.5", [FIRST, BETWEEN]),
        (f"({RED} FOLLOWED BY {BLUE}) OR ({BLUE} FOLLOWED BY {RED})", [FIRST, BETWEEN, SECOND]),
        (f"NOT ({RED} FOLLOWED BY {BLUE} AND end_time > 4.5)", [(0, 0.8, None), (4.8, 10, None)]),
        (f"({RED} AND {BLUE}) BEFORE {RED}", [(1.8, 4.3, "blue-van"), (1.8, 4.3, "red-van"), SECOND]),
        (f"{RED} BEFORE (entity = 'dog' OR {RED})", [FIRST, SECOND]),
    ],
)
def test_chains_follow_interval_logic(engine: Engine, condition: str, expected: list[Any]) -> None:
    assert spans(engine, condition) == expected


RELATIONS = {
    "FOLLOWED BY": lambda a, b: b[1] > a[1],
    "BEFORE": lambda a, b: b[1] >= a[2],
    "DURING": lambda a, b: a[1] >= b[1] and a[2] <= b[2],
    "OVERLAPS": lambda a, b: a[1] < b[2] and b[1] < a[2],
}


def itself(moment: Any) -> tuple[Any, ...]:
    """Whose moment it is, over which time, by which track."""
    return moment[3], moment[1], moment[2], moment[5]


SIDES = [RED, BLUE, "entity LIKE '%'", "(entity = 'red-van' AND inside('mat'))", "entity = 'dog'"]


@pytest.mark.parametrize("seed", range(25))
def test_a_moment_is_returned_if_it_is_part_of_a_whole_chain(engine: Engine, seed: int) -> None:
    rng = random.Random(seed)
    sides = [rng.choice(SIDES) for _ in range(rng.choice([3, 4]))]
    kinds = [rng.choice(list(RELATIONS)) for _ in sides[1:]]
    withins = [rng.choice([None, None, 1, 5]) for _ in kinds]
    moments = [engine.query(f"SELECT moments WHERE {side}").fetchall() for side in sides]
    chains = [[moment] for moment in moments[0]]
    for kind, within, following in zip(kinds, withins, moments[1:], strict=True):
        chains = [
            [*chain, b]
            for chain in chains
            for b in following
            if chain[-1][0] == b[0]
            and RELATIONS[kind](chain[-1], b)
            and (within is None or b[1] - chain[-1][2] <= within)
            and itself(chain[-1]) != itself(b)
        ]
    text = sides[0]
    for kind, within, side in zip(kinds, withins, sides[1:], strict=True):
        text += f" {kind} {side}" + ("" if within is None else f" WITHIN INTERVAL {within} SECONDS")
    found = engine.query(f"SELECT moments WHERE {text}").fetchall()
    assert set(found) == {moment for chain in chains for moment in chain}, text
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (f"{RED} NOT FOLLOWED BY {BLUE}", [SECOND]),
        (f"{RED} NOT FOLLOWED BY {RED}", [SECOND]),
        (f"{RED} NOT FOLLOWED BY {RED} WITHIN INTERVAL 1 SECOND", [FIRST, SECOND]),
        (f"{BLUE} not followed by {BLUE}", [BETWEEN]),
        # A part of a moment lies during it, where it begins, too; what is the whole of it is the same moment.
        (f"({RED} AND NOT {BLUE}) NOT DURING {RED}", [SECOND]),
        (f"({RED} AND {BLUE}) NOT DURING {RED}", []),
        (f"({RED} AND {BLUE}) NOT DURING {BLUE}", [BETWEEN]),
        (f"{BLUE} NOT DURING {RED}", []),
        (f"{RED} NOT DURING {BLUE}", [FIRST, SECOND]),
        (f"{RED} NOT OVERLAPS {BLUE}", [SECOND]),
        (f"{RED} NOT BEFORE entity = 'dog'", [FIRST, SECOND]),
        (f"{RED} FOLLOWED BY {BLUE} NOT FOLLOWED BY {RED}", []),
        (f"{RED} FOLLOWED BY {BLUE} NOT FOLLOWED BY {BLUE}", [FIRST, BETWEEN]),
        (f"({RED} NOT FOLLOWED BY {BLUE}) AND start_time > 7", []),
        (f"({RED} NOT FOLLOWED BY {RED}) OR {BLUE}", [BETWEEN, SECOND]),
        (f"{BLUE} BEFORE ({RED} NOT FOLLOWED BY {RED})", [BETWEEN, SECOND]),
        (f"NOT {RED} NOT FOLLOWED BY {BLUE}", [(0, 6.8, None), (8.8, 10, None)]),
    ],
)
def test_not_before_an_operator_keeps_what_has_no_counterpart(
    engine: Engine, condition: str, expected: list[Any]
) -> None:
    assert spans(engine, condition) == expected


@pytest.mark.parametrize("seed", range(15))
def test_a_chain_that_ends_in_not_is_one_without_what_is_behind(engine: Engine, seed: int) -> None:
    rng = random.Random(seed)
    left, right = rng.choice(SIDES), rng.choice(SIDES)
    kind, within = rng.choice(list(RELATIONS)), rng.choice(["", " WITHIN INTERVAL 2 SECONDS"])
    asked = f"{left} {{}} {right}{within}"
    every = engine.query(f"SELECT moments WHERE {left}").fetchall()
    others = engine.query(f"SELECT moments WHERE {right}").fetchall()
    expected = [
        a
        for a in every
        if not any(
            a[0] == b[0]
            and RELATIONS[kind](a, b)
            and (not within or b[1] - a[2] <= 2)
            and itself(a) != itself(b)
            for b in others
        )
    ]
    found = engine.query(f"SELECT moments WHERE {asked.format(f'NOT {kind}')}").fetchall()
    assert sorted(map(repr, found)) == sorted(map(repr, expected))


def test_a_chain_goes_on_behind_not_in_brackets_only(engine: Engine) -> None:
    sql = f"SELECT moments WHERE {RED} NOT FOLLOWED BY {BLUE} FOLLOWED BY {RED}"
    with pytest.raises(QueryError, match="a chain ends with NOT FOLLOWED BY"):
        engine.query(sql)
    with pytest.raises(QueryError, match="need all of it"):
        engine.query(f"SELECT moments WHERE ({RED} NOT FOLLOWED BY {BLUE}) WITHIN 3 SECONDS")


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("entity = 'red-van' AND inside('lawn') FOLLOWED BY entity = 'dog'", "binds tighter than AND"),
        ("entity = 'dog' AND score > 0.5 BEFORE entity = 'dog'", "BEFORE binds tighter than AND"),
        ("entity = 'dog' FOLLOWED entity = 'dog'", "expected BY after FOLLOWED"),
        ("entity = 'dog' FOLLOWED BY time > 5", "each side of FOLLOWED BY must be a condition on an entity"),
        (
            "entity = 'dog' FOLLOWED BY entity = 'dog' BEFORE end_time > 3",
            "each side of FOLLOWED BY and BEFORE",
        ),
        ("entity = 'dog' FOLLOWED BY entity = 'dog' FOLLOWED BY", "expected a condition after FOLLOWED BY"),
    ],
)
def test_what_is_no_chain_is_refused(engine: Engine, condition: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        engine.query(f"SELECT moments WHERE {condition}")


def test_a_chain_of_a_thousand_moments_does_not_multiply(tmp_path: Path) -> None:
    """Six sides over ten moments would be a million chains, if they were made one by one."""
    engine, _ = make_engine(make_library(tmp_path), seconds=20)
    chain = " FOLLOWED BY ".join(["entity LIKE '%'"] * 6)
    assert engine.query(f"SELECT moments WHERE {chain}").fetchall() == []


def test_a_side_may_name_the_time_of_day(engine: Engine) -> None:
    """gate-1.mp4 begins at 09:59:56; its second moment of red-van begins at 10:00:02.8."""
    early, late = (f"(entity = 'red-van' AND time {sign} '2026-03-01 10:00:02'" for sign in ("<", ">"))
    assert spans(engine, f"{early}) BEFORE {late})") == [FIRST, SECOND]
    assert spans(engine, f"{late}) BEFORE {RED}") == []
