"""Parameters and numbers in statements: bound as values, counted, cast, and refused where they are none."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from sqlglot.tokens import TokenType

from panorama.errors import QueryError, UnknownEntity, UsageError
from panorama.query.engine import Engine
from panorama.query.text.parameters import MOST_NUMBERS, Parameters, parameter_places, spelled_out
from panorama.query.text.tokens import tokenize


def test_parameters_are_bound_inside_and_outside_of_a_shorthand(engine: Engine) -> None:
    sql = "SELECT ?, count(*) FROM (SELECT frames WHERE entity = ? AND time < ?) WHERE frame > ?"
    assert engine.query(sql, ["x", "red-van", 1.5, 10]).fetchall() == [("x", 8)]
    named = "SELECT $a, count(*) FROM (SELECT frames WHERE entity = $name AND time < $t) WHERE frame > $b"
    values = {"a": "x", "name": "red-van", "t": 1.5, "b": 10}
    assert engine.query(named, values).fetchall() == [("x", 8)]
    assert len(engine.query("SELECT frames WHERE entity = $1 AND video = $2", ["dog", "yard.mp4"])) == 20
    assert len(engine.query("SELECT frames WHERE entity = ?", ["it's"])) == 20


def test_a_parameter_is_a_value_and_never_sql(engine: Engine) -> None:
    with pytest.raises(UnknownEntity):
        engine.query("SELECT frames WHERE entity = ?", ["x' OR entity LIKE '%"])
    assert len(engine.query("SELECT frames WHERE entity = 'dog' AND video = ?", ["' OR '1' = '1"])) == 0


def test_a_raised_digit_is_a_name_and_no_number(engine: Engine) -> None:
    """It was a ValueError of Python."""
    assert engine.query("SELECT $²", {"²": 7}).fetchall() == [(7,)]
    with pytest.raises(UsageError, match=r"no parameter number 1; it has \$²"):
        engine.query("SELECT $²", [1])


def test_the_case_of_a_name_does_not_count(engine: Engine) -> None:
    """A shorthand found no value for $V in {"v": ...}, and of {"a": ..., "A": ...} one counted for both."""
    sql = "SELECT count(*), $V FROM (SELECT frames WHERE video = $V)"
    assert engine.query(sql, {"v": "yard.mp4"}).fetchall() == [(40, "yard.mp4")]
    with pytest.raises(UsageError, match=r"\$a and \$A are one parameter"):
        engine.query("SELECT $a, $A", {"a": 1, "A": 2})
    with pytest.raises(UsageError, match="number 1 and number 1 are one parameter"):
        engine.query("SELECT $1", {1: "a", "1": "b"})


def test_a_missing_parameter_is_named(engine: Engine) -> None:
    with pytest.raises(QueryError, match="parameter number 2 has no value; 1 given"):
        engine.query("SELECT frames WHERE entity = ? AND time < ?", ["dog"])


@pytest.mark.parametrize(
    ("sql", "parameters", "message"),
    [
        (
            "SELECT frames WHERE entity = $who",
            {"who": "dog", "where": 1},
            r"no parameter \$where; it has \$who$",
        ),
        (
            "SELECT frames WHERE entity = ?",
            ["dog", 1, 2],
            "no parameter number 2, number 3; it has number 1$",
        ),
        ("SELECT frames WHERE entity = 'dog'", {"a": 1}, r"no parameter \$a; it has none$"),
        ("SELECT 1", {"a": 1}, r"no parameter \$a;"),
        ("SELECT ?", [1, 2], "no parameter number 2;"),
        ("SELECT frames WHERE entity = ?", "dog", "list or a tuple .* got str 'dog'"),
        ("SELECT ?", 5, "got int 5"),
        (5, None, "a query is SQL as text, got int 5"),
    ],
)
def test_what_no_parameter_takes_is_refused(
    engine: Engine, sql: str, parameters: Parameters, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        engine.query(sql, parameters)
    with pytest.raises(UsageError, match="is SQL as text"):
        engine.prepare([(5, None)])  # type: ignore[list-item]


def test_parameters_may_count(engine: Engine) -> None:
    """As DuckDB has it: `$1` and `?1`, the values in a list or a dict; names in any case."""
    assert engine.query("SELECT ?2, $1", [1, 2]).fetchall() == [(2, 1)]
    assert engine.query("SELECT $A", {"a": 7}).fetchall() == [(7,)]
    found = engine.query("SELECT frames WHERE entity = ?2 AND video = ?1", ["yard.mp4", "dog"])
    assert len(found) == 20
    sql = "SELECT $1, count(*) FROM (SELECT frames WHERE entity = $2 AND video = $3)"
    assert engine.query(sql, {"1": 5, "2": "dog", "3": "yard.mp4"}).fetchall() == [(5, 20)]
    assert engine.query("SELECT ?2, ?, ?1, ?", [1, 2, 3, 4]).fetchall() == [(2, 3, 1, 4)]
    assert engine.query("SELECT ?, $1, ?", [1, 2]).fetchall() == [(1, 1, 2)]


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ?1, count(*) {0} entity = ?2 AND video = ?3)", [5, "dog", "yard.mp4"]),
        ("SELECT ?3, count(*) {0} entity = ?1 AND video = ?2)", ["dog", "yard.mp4", 5]),
        ("SELECT $3, count(*) {0} entity = $1) WHERE video = $2", ["dog", "yard.mp4", 5]),
        ("SELECT ?::INT, count(*) {0} entity = ? AND video = ?) WHERE 5 = $1", [5, "dog", "yard.mp4"]),
        ("SELECT ?, count(*) {0} entity = ?) WHERE video = ?", [5, "dog", "yard.mp4"]),
        ("SELECT ?, count(*) {0} entity = ?) WHERE video = ?", {1: 5, 2: "dog", 3: "yard.mp4"}),
        ("SELECT $n, count(*) {0} entity = $who) WHERE video = $v", {"n": 5, "who": "dog", "v": "yard.mp4"}),
    ],
)
def test_parameters_count_through_beside_a_shorthand(
    engine: Engine, sql: str, parameters: Parameters
) -> None:
    """Numbers beside a shorthand were refused."""
    asked = sql.format("FROM (SELECT frames WHERE")
    assert engine.query(asked, parameters).fetchall() == [(5, 20)]


def test_a_parameter_may_be_cast(engine: Engine) -> None:
    """`?::` is one operator to other databases, and was no parameter."""
    assert engine.query("SELECT ?::INT, ?", ["1", 2]).fetchall() == [(1, 2)]
    first = engine.query("SELECT frames WHERE entity = 'dog' LIMIT 1").fetchall()[0]
    sql = "SELECT video, frame FROM (SELECT frames WHERE entity = ? AND video = ? AND frame = ?::INT)"
    assert engine.query(sql, ["dog", first[0], str(first[1])]).fetchall() == [tuple(first[:2])]


def test_a_mark_and_a_number_that_would_meet_are_refused(engine: Engine) -> None:
    """Once the shorthand has taken the first value, DuckDB would count the mark as the first."""
    sql = "SELECT ?, $1 FROM (SELECT frames WHERE entity = 'dog' AND video = $1)"
    assert engine.query(sql, ["yard.mp4"]).fetchall()[0] == ("yard.mp4", "yard.mp4")
    sql = "SELECT count(*) FROM (SELECT frames WHERE entity = ?) WHERE video = ? OR video = $1"
    with pytest.raises(QueryError, match=r"all parameters as \? or all with numbers"):
        engine.query(sql, ["dog", "yard.mp4"])


def test_a_negative_number_is_one_also_as_a_parameter(engine: Engine) -> None:
    for target in ("moments", "frames", "tracks"):
        sql = f"SELECT {target} WHERE entity = 'dog' AND time > {{}}"
        assert engine.query(sql.format("?"), [-0.5]).fetchall() == engine.query(sql.format(-0.5)).fetchall()
        assert engine.query(sql.format("$from"), {"from": 9.5}).fetchall() == []


@pytest.mark.parametrize("endless", [float("inf"), np.float32("inf"), Decimal("Infinity")])
@pytest.mark.parametrize("target", ["frames", "moments", "tracks"])
def test_infinity_as_a_parameter_is_no_bound(engine: Engine, target: str, endless: Any) -> None:
    """It was told to be no wall-clock time."""
    sql = f"SELECT {target} WHERE entity = 'dog'"
    every, late = (engine.query(f"{sql}{more}").fetchall() for more in ("", " AND time >= 1"))
    for condition in ("time < ?", "? >= time", "time <> ?", "NOT time >= ?", "time BETWEEN 0 AND ?"):
        assert engine.query(f"{sql} AND {condition}", [endless]).fetchall() == every != []
    for condition in ("time > ?", "time = ?", "NOT time < ?"):
        assert engine.query(f"{sql} AND {condition}", [endless]).fetchall() == []
    assert engine.query(f"{sql} AND time > ?", [-endless]).fetchall() == every
    assert engine.query(f"{sql} AND time BETWEEN 1 AND ?", [endless]).fetchall() == late != []


@pytest.mark.parametrize("written", ["'inf'::DOUBLE", "CAST('inf' AS FLOAT)", "('3600'::INTEGER)"])
def test_a_number_that_is_cast_from_text_is_no_wall_clock_time(engine: Engine, written: str) -> None:
    asked = "SELECT frames WHERE entity = 'dog'"
    every = engine.query(asked).fetchall()
    assert engine.query(f"{asked} AND time < {written}").fetchall() == every != []
    assert engine.query(f"{asked} AND time BETWEEN 0 AND {written}").fetchall() == every
    assert engine.query(f"{asked} AND time > {written}").fetchall() == []
    for target in ("moments", "tracks"):
        with pytest.raises(QueryError, match=r"compare time only with numbers: .* time < 5"):
            engine.query(f"SELECT {target} WHERE entity = 'dog' AND time < {written}")


@pytest.mark.parametrize("condition", ["entity IN ?", "time IN ?", "entity = 'dog' AND frame IN ?"])
def test_what_is_no_number_in_a_list_is_refused_in_a_shorthand(engine: Engine, condition: str) -> None:
    """It was told to be an entity that is not registered."""
    sql = f"SELECT frames WHERE {condition}"
    with pytest.raises(QueryError, match=r"parameter number 1 holds nan, .* give a number") as caught:
        engine.query(sql, [[1, float("nan")]])
    assert caught.value.position == sql.index("?")


def test_a_gap_among_names_is_null_in_a_shorthand(engine: Engine) -> None:
    """It was told to be an entity that is not registered, then refused; plain SQL had the text 'nan'."""
    sql = "SELECT frames WHERE entity IN ?"
    gap = engine.query(sql, [["dog", float("nan")]])
    assert gap.fetchall() == engine.query(sql, [["dog", None]]).fetchall() != []
    assert gap.warnings == ()


@pytest.mark.parametrize("value", [Decimal("sNaN"), [Decimal("sNaN")], np.array([Decimal("sNaN")])])
def test_a_signaling_nan_is_a_nan(engine: Engine, value: object) -> None:
    """Python's ValueError was raised, and DuckDB has no conversion for it."""
    ((found,),) = engine.query("SELECT ? AS x", [value]).fetchall()
    assert math.isnan(found[0] if isinstance(found, list) else found)
    with pytest.raises(QueryError, match=r"parameter number 1 (is|holds) nan, .* give a number"):
        engine.query("SELECT frames WHERE entity = 'dog' AND time IN ?", [value])


@pytest.mark.parametrize("condition", ["time < {}", "score >= {}", "x1 < {}", "near('dog', 'red-van', {})"])
def test_what_is_no_number_is_refused_in_a_shorthand(engine: Engine, condition: str) -> None:
    """DuckDB takes NaN for larger than all numbers, and so `score < ?` for true."""
    sql = f"SELECT frames WHERE entity = 'dog' AND {condition.format('?')}"
    with pytest.raises(QueryError, match=r"parameter number 1 is nan, .* give a number") as caught:
        engine.query(sql, [float("nan")])
    assert caught.value.position == sql.index("?")


def test_of_a_long_list_of_numbers_only_the_first_are_spelled_out_for_remarks() -> None:
    """A million ids of an earlier answer took half a minute before DuckDB began, past any limit."""
    sql = "SELECT 1 FROM crops WHERE crop_id IN ? AND video IN ?"
    tokens = tokenize(sql)
    places = parameter_places(tokens)
    names = [f"gate {i}.mp4" for i in range(5000)]
    made = spelled_out(tokens, places, {0: [*range(5000), "x"], 1: [*names, *names]})
    texts = [token.text for token in made if token.token_type == TokenType.STRING]
    assert len(made) < 2 * (MOST_NUMBERS + 1 + len(names)) + 20
    assert texts == ["x", *names]  # what is looked up by name


def test_all_values_of_a_long_list_count(engine: Engine) -> None:
    assert engine.query("SELECT len(?), list_sum(?)", [[*range(5000)], np.arange(5000)]).fetchall() == [
        (5000, 12_497_500)
    ]
    assert len(engine.query("SELECT 1 FROM videos WHERE width IN ?", [[*range(90_000)]])) == len(
        engine.query("SELECT 1 FROM videos")
    )
    with pytest.raises(UnknownEntity, match="'nobody'"):
        engine.query("SELECT frames WHERE entity IN ?", [["dog"] * 5000 + ["nobody"]])
