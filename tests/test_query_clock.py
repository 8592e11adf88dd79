"""Wall-clock time in the language, against a few lines of Python that say the same."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from query_samples import (
    CLOCKS,
    FPS,
    TRACKS,
    VIDEOS,
    Tables,
    empty_library,
    make_engine,
    make_library,
)

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.shorthands.clock import clock_test

CLOCK = timedelta(seconds=1 / FPS)


def at(hour: int, minute: int = 0, second: float = 0) -> timedelta:
    return timedelta(hours=hour, minutes=minute, seconds=second)


def day_time(moment: datetime) -> timedelta:
    return moment - datetime.combine(moment.date(), dt.time())


TEN, TEN_PAST = datetime(2026, 3, 1, 10), datetime(2026, 3, 1, 10, 0, 2)
TESTS: list[tuple[str, Callable[[datetime], bool]]] = [
    ("time >= '2026-03-01 10:00'", lambda t: t >= TEN),
    ("time > '2026-03-01 10:00'", lambda t: t > TEN),
    ("'2026-03-01T10:00:00' >= time", lambda t: t <= TEN),
    ("time BETWEEN '2026-03-01 10:00' AND '2026-03-01 10:00:02'", lambda t: TEN <= t <= TEN_PAST),
    ("time BETWEEN TIMESTAMP '2026-03-01 10:00' AND '2026-03-01 10:00:02'::TIMESTAMP",
     lambda t: TEN <= t <= TEN_PAST),
    ("time NOT BETWEEN '2026-03-01 10:00' AND '2026-03-01 10:00:02'", lambda t: not TEN <= t <= TEN_PAST),
    ("NOT time < '2026-03-01 10:00'", lambda t: t >= TEN),
    ("time = '2026-03-02'", lambda t: t.date() == dt.date(2026, 3, 2)),
    ("time <> DATE '2026-03-02'", lambda t: t.date() != dt.date(2026, 3, 2)),
    ("time <= '2026-03-01'", lambda t: t.date() <= dt.date(2026, 3, 1)),
    ("time > '2026-03-01'", lambda t: t.date() > dt.date(2026, 3, 1)),
    ("time BETWEEN '2026-03-01' AND '2026-03-01'", lambda t: t.date() == dt.date(2026, 3, 1)),
    ("time BETWEEN '2026-03-02' AND '9999-12-31'", lambda t: t.date() >= dt.date(2026, 3, 2)),
    ("time <= '9999-12-31'", lambda t: True),
    ("time > '9999-12-31'", lambda t: False),
    ("time = '9999-12-31'", lambda t: False),
    ("time > CAST('2026-03-02' AS TIMESTAMP)", lambda t: t > datetime(2026, 3, 2)),
    ("time >= '10:00'", lambda t: day_time(t) >= at(10)),
    ("time < TIME '10:00'", lambda t: day_time(t) < at(10)),
    ("time BETWEEN '09:59:57' AND '10:00:01.5'", lambda t: at(9, 59, 57) <= day_time(t) <= at(10, 0, 1.5)),
    ("time BETWEEN '23:59:59' AND '00:00:01'",
     lambda t: day_time(t) >= at(23, 59, 59) or day_time(t) <= at(0, 0, 1)),
    ("NOT time BETWEEN '23:59:59' AND '00:00:01'", lambda t: at(0, 0, 1) < day_time(t) < at(23, 59, 59)),
    ("time BETWEEN '10:00' AND '24:00'", lambda t: day_time(t) >= at(10)),
    ("time BETWEEN '24:00' AND '06:00'", lambda t: day_time(t) <= at(6)),
    ("NOT time BETWEEN '24:00' AND '06:00'", lambda t: day_time(t) > at(6)),
    ("time BETWEEN '24:00' AND '24:00'", lambda t: day_time(t) == at(0)),
    ("time >= '24:00'", lambda t: False),
    ("'24:00' < time", lambda t: False),
    ("NOT time >= '24:00'", lambda t: True),
    ("time < '24:00'", lambda t: True),
    ("time < '00:00'", lambda t: False),
    ("(time < '10:00' OR time > '23:00')", lambda t: day_time(t) < at(10) or day_time(t) > at(23)),
    ("time > '10:00' AND time > '2026-03-02'",
     lambda t: day_time(t) > at(10) and t.date() > dt.date(2026, 3, 2)),
    ("clock < '2026-03-01 10:00' AND time < 2",
     lambda t: t < TEN and t < CLOCKS["gate-1.mp4"] + timedelta(seconds=2)),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "holds"), TESTS, ids=[sql for sql, _ in TESTS])
@pytest.mark.parametrize("entity", ["", "red-van"])
def test_frames_are_those_shown_at_such_a_time(
    engine: Engine, condition: str, holds: Callable[[datetime], bool], entity: str
) -> None:
    expected = set()
    for video, _, segment, count in VIDEOS:
        for frame in range(count if video in CLOCKS else 0):
            if not holds(CLOCKS[video] + frame * CLOCK):
                continue
            mine = [t for t in TRACKS if t.segment == segment and t.scores.get(entity, 0) >= 0.8]
            if not entity or any(t.start <= frame < t.end for t in mine):
                expected.add((video, frame))
    sql = f"SELECT frames WHERE {condition}" + (f" AND entity = '{entity}'" if entity else "")
    result = engine.query(sql)
    assert {(row["video"], row["frame"]) for row in result} == expected
    assert result.warnings == (
        "no wall-clock time is known for 1 of 4 videos, so no time of day matches them; see: panorama clock",
    )


def overlaps(
    start: datetime, end: datetime, holds: Callable[[datetime], bool], fine: timedelta = CLOCK / 10
) -> bool:
    """Whether the test holds at some time of [start, end), tried every hundredth of a second."""
    steps = round((end - start) / fine)
    return any(holds(start + k * fine) for k in range(steps))


INTERVAL_TESTS = [
    *(test for test in TESTS if "clock" not in test[0] and " AND time >" not in test[0]),
    ("time = '2026-03-01 10:00'", lambda t: t == TEN),
    ("time = '10:00'", lambda t: day_time(t) == at(10)),
    ("time <> '10:00'", lambda t: day_time(t) != at(10)),
    ("start_clock >= '2026-03-01 10:00'", None),
]


@pytest.mark.parametrize(("condition", "holds"), INTERVAL_TESTS, ids=[sql for sql, _ in INTERVAL_TESTS])
def test_tracks_are_those_that_run_at_such_a_time(
    engine: Engine, condition: str, holds: Callable[[datetime], bool] | None
) -> None:
    expected = set()
    for video, _, segment, _ in VIDEOS:
        for track in TRACKS if video in CLOCKS else ():
            if track.segment != segment:
                continue
            start = CLOCKS[video] + track.start * CLOCK
            end = CLOCKS[video] + track.end * CLOCK
            if start >= TEN if holds is None else overlaps(start, end, holds):
                expected.add((video, track.track_id))
    assert {(row["video"], row["track_id"]) for row in engine.query(f"SELECT tracks WHERE {condition}")} == (
        expected
    )


@pytest.mark.parametrize(("condition", "holds"), INTERVAL_TESTS, ids=[sql for sql, _ in INTERVAL_TESTS])
def test_moments_are_those_that_run_at_such_a_time(
    engine: Engine, condition: str, holds: Callable[[datetime], bool] | None
) -> None:
    expected = set()
    for row in engine.query("SELECT moments WHERE entity IN ('red-van', 'blue-van')"):
        if row["video"] in CLOCKS:
            start, end = (
                CLOCKS[row["video"]] + timedelta(seconds=row[c]) for c in ("start_time", "end_time")
            )
            if start >= TEN if holds is None else overlaps(start, end, holds):
                expected.add((row["video"], row["entity"], row["start_time"]))
    found = engine.query(f"SELECT moments WHERE entity IN ('red-van', 'blue-van') AND {condition}")
    assert {(row["video"], row["entity"], row["start_time"]) for row in found} == expected


def test_no_interval_lies_before_the_beginning_of_a_day() -> None:
    """`time < '00:00'` matched what ran over midnight."""
    test = clock_test(sqlglot.parse_one("time < '00:00'", read="duckdb"), is_interval=True)
    over = test.overlap_sql("TIMESTAMP '2026-03-01 23:59'", "TIMESTAMP '2026-03-02 00:01'")
    assert duckdb.sql(f"SELECT {over}").fetchall() == [(False,)]


def test_an_interval_of_several_days_has_every_time_of_day_in_it(tmp_path: Path) -> None:
    tables = make_library(tmp_path)
    long = tables.videos.set_column(
        tables.videos.column_names.index("start_clock"),
        "start_clock",
        pa.array([datetime(2026, 3, 1, 12)] * 4, pa.timestamp("us")),
    )
    engine, _ = make_engine(Tables(long, tables.files, tables.entities))
    # NOT of an entity is one moment as long as the video: ten seconds from noon.
    sql = "SELECT moments WHERE NOT entity = 'it''s' AND time {} AND video = 'gate-1.mp4'"
    assert len(engine.query(sql.format("= '12:00:09.9'"))) == 1
    assert len(engine.query(sql.format("= '12:00:10'"))) == 0
    assert len(engine.query(sql.format("BETWEEN '23:00' AND '12:00'"))) == 1
    assert len(engine.query(sql.format("BETWEEN '23:00' AND '11:59:59'"))) == 0


def test_midnight_belongs_to_the_day_that_it_begins(tmp_path: Path) -> None:
    """What begins with the day was among the moments of the evening before, but not among its frames."""
    tables = make_library(tmp_path)
    midnight = pa.array([datetime(2026, 3, 2)] * 4, pa.timestamp("us"))
    place = tables.videos.column_names.index("start_clock")
    videos = tables.videos.set_column(place, "start_clock", midnight)
    engine, _ = make_engine(Tables(videos, tables.files, tables.entities))
    sql = "SELECT {} WHERE NOT entity = 'it''s' AND {} AND video = 'gate-1.mp4'"
    for target in ("frames", "moments"):
        assert len(engine.query(sql.format(target, "time BETWEEN '22:00' AND '24:00'"))) == 0, target
        assert len(engine.query(sql.format(target, "NOT time > '00:00'"))) == 1, target
        assert len(engine.query(sql.format(target, "time <= '00:00'"))) == 1, target


@pytest.mark.parametrize(
    ("target", "column"),
    [*((t, c) for t in ("moments", "tracks") for c in ("start_clock", "end_clock", "start_time", "end_time")),
     ("frames", "clock"), ("crops", "clock")],
)  # fmt: skip
def test_undecided_tracks_are_counted_where_the_rows_asked_for_can_be(
    engine: Engine, target: str, column: str
) -> None:
    """Those of every day were counted, and what was advised to see them showed nothing."""
    told = set()
    for sign in ("<", "<=", ">", ">="):
        for second in range(0, 10, 2):
            value = f"TIMESTAMP '2026-03-01 10:00:{second:02}'" if "clock" in column else str(second)
            sql = f"SELECT {target} WHERE entity = 'dog' AND {column} {sign} {value}"
            # Of a moment that is made of several tracks, those are counted that have such an end themselves.
            shown = engine.query(f"{sql} AND band = 'uncertain'".replace("moments", "tracks"))
            counted = engine.query(sql).uncertain
            told.add(counted)
            assert counted == len({row["track_id"] for row in shown}), sql
    assert len(told) > 1


def test_videos_and_tracks_outside_of_the_time_are_not_matched(tmp_path: Path) -> None:
    engine, matcher = make_engine(make_library(tmp_path))
    engine.query("SELECT moments WHERE entity = 'dog' AND time > '2026-03-01 12:00' AND camera = 'gate'")
    assert matcher.requests[-1].segments.tolist() == [2]
    engine.query("SELECT moments WHERE entity = 'dog' AND time BETWEEN '23:50' AND '00:10'")
    assert matcher.requests[-1].segments.tolist() == [2]
    found = engine.query("SELECT frames WHERE entity = 'dog' AND time BETWEEN '10:00:03' AND '10:00:04'")
    assert found.uncertain == 1 and matcher.requests[-1].tracks is None
    engine.query(
        "SELECT frames WHERE entity = 'dog' AND time BETWEEN '10:00:03' AND '10:00:04' AND score > 0"
    )
    inside = {t.track_id for t in TRACKS if t.segment == 1 and t.end > 60}
    assert set(matcher.requests[-1].tracks.tolist()) == inside  # a second of margin on both sides
    engine.query("SELECT frames WHERE (entity = 'dog' AND time > '2027-01-01') OR entity = 'red-van'")
    assert matcher.requests[-1].segments is None and matcher.requests[-1].tracks is None
    asked = len(matcher.requests)
    assert len(engine.query("SELECT frames WHERE entity = 'dog' AND time > '2027-01-01'")) == 0
    assert len(matcher.requests) == asked


def test_time_that_is_known_of_no_video_asked_is_an_error(engine: Engine) -> None:
    sql = "SELECT frames WHERE entity = 'dog' AND video = 'yard.mp4' AND time > '10:00'"
    with pytest.raises(QueryError, match="no wall-clock time is known for the 1 video searched") as caught:
        engine.query(sql)
    assert sql[caught.value.position or 0 :] == "time > '10:00'"
    assert engine.query("SELECT frames WHERE video LIKE 'gate%' AND time > '10:00'").warnings == ()
    nothing, _ = make_engine(empty_library())
    assert len(nothing.query("SELECT frames WHERE time > '10:00'")) == 0
    assert len(engine.query("SELECT frames WHERE video = 'nowhere' AND time > '10:00'")) == 0


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("time > 'noon'", "'noon' compared with time is not a wall-clock time: write '10:00'"),
        ("time > '25:00'", "'25:00' compared with time is not a wall-clock time"),
        ("time > '2026-03-01 10:00+01'", "compared with time names a zone: write '10:00'"),
        ("time > '2026-02-30'", "not a wall-clock time"),
        ("time > '2026-03-01 10:00+01:00'", "in the camera's local time"),
        ("time BETWEEN 5 AND '10:00'", "one side is text and the other is not"),
        ("time BETWEEN '10:00' AND '2026-03-01 11:00'", "two times of day or two dates"),
        ("time = '10:00'", "has exactly this time"),
        ("time IN ('10:00', '11:00')", "by <, <=, >, >=, =, <> or BETWEEN"),
    ],
)
def test_text_that_is_no_time_is_refused_with_what_to_write(
    engine: Engine, condition: str, message: str
) -> None:
    with pytest.raises(QueryError, match=message):
        engine.query(f"SELECT frames WHERE entity = 'dog' AND {condition}")


@pytest.mark.parametrize(
    ("sql", "advised"),
    [
        ("SELECT moments WHERE start_clock >= '10:00'", ("start_clock::TIME", "time >= '10:00'")),
        ("SELECT tracks WHERE end_clock IN ('10:00')", ("end_clock::TIME", "time >= '10:00'")),
        ("SELECT frames WHERE entity = 'dog' AND clock >= '10:00'", ("clock::TIME", "time >= '10:00'")),
        ("SELECT moments WHERE start_time > '10:00'", ("start_clock::TIME", "time >= '10:00'")),
        ("SELECT count(*) FROM tracks WHERE start_clock BETWEEN '10:00' AND '11:00'", ("start_clock::TIME",)),
        ("SELECT count(*) FROM sightings WHERE '10:00' < end_clock", ("end_clock::TIME",)),
        ("SELECT count(*) FROM frames WHERE time > '10:00'", ("clock::TIME",)),
    ],
)
def test_a_time_of_day_beside_a_date_with_a_time_is_told_what_it_is_compared_with(
    engine: Engine, sql: str, advised: tuple[str, ...]
) -> None:
    """DuckDB's words advised a form with a zone, which is refused."""
    with pytest.raises(QueryError) as refused:
        engine.query(sql)
    said = "not a number of seconds" if "time >" in sql else "not a date with a time"
    told = f"'10:00' is a time of day, {said}: compare it with {', or with time: '.join(advised)}"
    assert refused.value.args[0] == told
    assert refused.value.position == sql.index("'10:00'")
    head = sql[: sql.index("WHERE")]
    for form in advised:  # what is advised is taken
        condition = form if ">=" in form else f"{form} >= '10:00'"
        engine.query(f"{head} WHERE {condition}")


def test_text_that_is_no_date_with_a_time_is_told_one_without_a_zone(engine: Engine) -> None:
    with pytest.raises(QueryError, match=r"^'noon' is not a date with a time: write '2026-03-01 10:00'\n"):
        engine.query("SELECT moments WHERE start_clock >= 'noon'")
    with pytest.raises(QueryError, match="Could not convert string 'noon' to DOUBLE"):
        engine.query("SELECT 'noon'::DOUBLE")


def test_a_decimal_is_seconds_and_no_time_of_day(engine: Engine) -> None:
    """DuckDB gives 1.5 back as Decimal('1.5'), which was taken for the text '1.5'."""
    for target in ("moments", "frames"):
        sql = f"SELECT {target} WHERE entity = 'red-van' AND time < ?"
        rows = engine.query(sql, [Decimal("1.5")]).fetchall()
        assert rows == engine.query(sql, [1.5]).fetchall() != []


def test_parameters_may_be_dates_and_times(engine: Engine) -> None:
    sql = "SELECT count(*) FROM (SELECT frames WHERE entity = 'red-van' AND time BETWEEN ? AND ?)"
    typed = engine.query(sql, ["2026-03-01 10:00", "2026-03-01 10:00:02"]).fetchall()
    assert engine.query(sql, [TEN, TEN_PAST]).fetchall() == typed and typed[0][0] > 0
    by_day = "SELECT count(*) FROM (SELECT frames WHERE entity = 'red-van' AND time = $day)"
    first = engine.query(by_day, {"day": dt.date(2026, 3, 1)}).fetchall()
    assert first == engine.query(by_day, {"day": "2026-03-01"}).fetchall() and first[0][0] > 0


def test_the_last_day_that_there_is_means_no_end(engine: Engine) -> None:
    """Its end, one day later, is no date of Python's: statements with it ended in an OverflowError."""
    counted = "SELECT count(*) FROM sightings WHERE start_clock BETWEEN"
    every = engine.query("SELECT count(*) FROM sightings WHERE start_clock >= '2026-03-02'").fetchall()
    typed = engine.query(f"{counted} '2026-03-02' AND '9999-12-31'")
    assert typed.fetchall() == every != [(0,)]
    assert not typed.warnings
    given = engine.query(f"{counted} ? AND ?", [dt.date(2026, 3, 2), dt.date.max])
    assert given.fetchall() == every


def test_relations_carry_the_wall_clock(engine: Engine) -> None:
    rows = engine.query("SELECT video, start_clock, time_zone FROM videos ORDER BY video").fetchall()
    assert {row[0]: row[1] for row in rows} == {video: CLOCKS.get(video) for video, *_ in VIDEOS}
    for relation, column, seconds in (
        ("frames", "clock", "time"),
        ("tracks", "end_clock", "end_time"),
        ("detections", "clock", "time"),
        ("crops", "clock", "time"),
        ("sightings", "start_clock", "start_time"),
        ("moments", "end_clock", "end_time"),
    ):
        for row in engine.query(f"SELECT video, {column} AS clock, {seconds} AS seconds FROM {relation}"):
            start = CLOCKS.get(row["video"])
            assert row["clock"] == (None if start is None else start + timedelta(seconds=row["seconds"]))


def test_rows_are_grouped_by_the_hour_across_cameras(engine: Engine) -> None:
    sql = (
        "SELECT date_trunc('hour', start_clock) AS hour_begun, count(DISTINCT track_id) AS tracks"
        " FROM sightings WHERE entity = 'red-van' AND start_clock IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )
    assert engine.query(sql).fetchall() == expected_hours()


def expected_hours() -> list[tuple[datetime, int]]:
    hours: dict[datetime, set[int]] = {}
    for video, _, segment, _ in VIDEOS:
        for track in TRACKS if video in CLOCKS else ():
            if track.segment == segment and track.scores.get("red-van", 0) >= 0.8:
                start = CLOCKS[video] + track.start * CLOCK
                hours.setdefault(start.replace(minute=0, second=0, microsecond=0), set()).add(track.track_id)
    return [(hour, len(tracks)) for hour, tracks in sorted(hours.items())]


def test_the_first_rows_by_the_clock_are_the_first_ones(engine: Engine) -> None:
    frames = engine.query("SELECT frames WHERE entity = 'red-van' ORDER BY clock DESC NULLS LAST LIMIT 1")
    assert (frames[0]["video"], frames[0]["frame"]) == ("copies/gate-1.mp4", 87)
    tracks = engine.query("SELECT tracks ORDER BY end_clock NULLS LAST LIMIT 1")
    assert (tracks[0]["video"], tracks[0]["track_id"] & 0xFFFFFFFF) == ("gate-1.mp4", 1)
    assert len(engine.query("SELECT crops WHERE hour(clock) = 23")) == 2


@pytest.mark.parametrize("target", ["frames", "moments", "tracks", "crops"])
@pytest.mark.parametrize(
    "condition",
    [
        "time >= current_date - 1",
        "time > now() - INTERVAL 1 DAY",
        "(today() <= time)",
        "time < TIMESTAMP '2026-03-01 10:00' - INTERVAL 1 HOUR",
        "NOT time BETWEEN date_trunc('day', now()) AND now()",
    ],
)
def test_a_moment_that_is_computed_is_compared_with_the_clock(
    engine: Engine, target: str, condition: str
) -> None:
    """Time was said to be compared with numbers alone, or DuckDB complained of its types."""
    column = "start_clock" if target in ("moments", "tracks") else "clock"
    with pytest.raises(QueryError, match=rf" are for .*clock: {column} >= today\(\) - 7") as caught:
        engine.query(f"SELECT {target} WHERE entity = 'red-van' AND {condition}")
    assert caught.value.position is not None
    advised = f"{column} >= today() - 1000000 AND {column} > TIMESTAMP '2026-03-01 12:00' - INTERVAL 1 DAY"
    assert len(engine.query(f"SELECT {target} WHERE entity = 'red-van' AND {advised}"))


@pytest.mark.parametrize("target", ["frames", "moments", "tracks", "crops"])
@pytest.mark.parametrize("times", ["1 AND 2", "2 AND 1", "'09:59:58' AND '10:00'"])
def test_not_between_is_the_opposite_of_between(engine: Engine, target: str, times: str) -> None:
    """Of moments and tracks it was refused: time was compared with numbers, it said."""
    asked = f"SELECT {target} WHERE entity = 'red-van' AND"
    expected = engine.query(f"{asked} NOT time BETWEEN {times}").fetchall()
    assert engine.query(f"{asked} time NOT BETWEEN {times}").fetchall() == expected
    assert engine.query(f"{asked} (time NOT BETWEEN {times})").fetchall() == expected
    inside = engine.query(f"{asked} time BETWEEN {times}").fetchall()
    assert engine.query(f"{asked} NOT time NOT BETWEEN {times}").fetchall() == inside
    assert expected != inside


REVERSED = [
    ("2026-03-01 09:59:58", "2026-03-01 09:59:57.5"),
    ("2026-03-02 00:00:00.5", "2026-03-01 23:59:59"),
    ("2026-03-02", "2026-03-01"),
]


@pytest.mark.parametrize(("low", "high"), REVERSED)
@pytest.mark.parametrize("target", ["frames", "moments", "tracks", "crops"])
def test_no_time_lies_between_two_instants_the_first_of_which_is_later(
    engine: Engine, target: str, low: str, high: str
) -> None:
    """Intervals that ran over both were returned, and nobody was told why nothing else was."""
    asked = f"SELECT {target} WHERE entity = 'red-van' AND time BETWEEN"
    told = f"BETWEEN '{low}' AND '{high}' is never true: put the earlier one first"
    for sql, values in (
        (f"{asked} '{low}' AND '{high}'", None),
        (f"{asked} '{low}' AND ?", [high]),
        (f"{asked} ($low) AND TIMESTAMP '{high}'", {"low": low}),
    ):
        answer = engine.query(sql, values)
        assert not len(answer)
        assert told in answer.warnings or "$" in sql
    known = engine.query(
        f"SELECT {target} WHERE entity = 'red-van' AND NOT time BETWEEN '{low}' AND '{high}'"
    )
    every = f"SELECT {target}, camera WHERE entity = 'red-van' AND video <> 'yard.mp4'"
    assert len(known) == len(engine.query(every))


@pytest.mark.parametrize(
    "times",
    ["'2026-03-01 09:59:57' AND '2026-03-01'", "'2026-03-01' AND '2026-03-01'", "'10:00' AND '09:00'"],
)
def test_a_day_ends_with_its_last_instant_and_times_of_day_go_on_over_midnight(
    engine: Engine, times: str
) -> None:
    """These are in order, though their texts are not."""
    answer = engine.query(f"SELECT tracks WHERE entity = 'red-van' AND time BETWEEN {times}")
    assert len(answer)
    assert not [line for line in answer.warnings if "never true" in line]


@pytest.mark.parametrize("target", ["frames", "moments", "tracks", "crops"])
@pytest.mark.parametrize("times", ["3 AND 1", "'10:00' AND '09:00'"])
def test_between_symmetric_is_refused_in_plain_words(engine: Engine, target: str, times: str) -> None:
    """DuckDB lacks the word: in moments, whose times are rewritten, it was dropped and no row was found."""
    with pytest.raises(QueryError, match="write BETWEEN with the smaller value first"):
        engine.query(f"SELECT {target} WHERE entity = 'red-van' AND time BETWEEN SYMMETRIC {times}")
