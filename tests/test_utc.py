"""Columns in UTC beside instants that have a zone, on a computer whose clock is not in UTC."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from query_samples import UTC, make_engine, make_library

from panorama.errors import QueryError
from panorama.query.engine import Engine

BEGAN = UTC["gate-1.mp4"].replace(tzinfo=dt.UTC)
SOON = BEGAN + timedelta(seconds=5)

ASKED = [
    "SELECT video FROM videos WHERE start_utc <= ?",
    "SELECT video FROM videos WHERE ? >= start_utc",
    "SELECT video FROM videos WHERE start_utc BETWEEN ? - INTERVAL 9 SECONDS AND '2026-03-01 09:30'",
    "SELECT video FROM videos WHERE date_diff('second', start_utc, ?) = 5",
    "SELECT video FROM videos WHERE start_utc AT TIME ZONE 'UTC' <= ?",
    "WITH v AS (SELECT video, start_utc AS began FROM videos) SELECT video FROM v WHERE began <= ?",
    "SELECT DISTINCT video FROM sightings WHERE start_utc < ?",
    "SELECT DISTINCT video FROM (SELECT tracks WHERE entity = 'red-van'"
    " AND video IN (SELECT video FROM videos WHERE start_utc < ?))",
]
"""Each is asked with five seconds after gate-1.mp4 began; the other videos began hours later."""

SCRIPT = """
import json, sys
from datetime import datetime
from pathlib import Path
from query_samples import make_engine, make_library
engine, _ = make_engine(make_library(Path(sys.argv[1])))
when = datetime.fromisoformat(sys.argv[2])
found = [sorted(row[0] for row in engine.query(sql, [when])) for sql in json.loads(sys.argv[3])]
print(json.dumps([found, engine.query("SELECT current_setting('TimeZone')")[0][0]]))
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return make_engine(make_library(tmp_path_factory.mktemp("utc")))[0]


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_an_aware_datetime_beside_a_column_in_utc_means_its_instant_on_every_computer(
    tmp_path: Path, zone: str
) -> None:
    tokyo = SOON.astimezone(dt.timezone(timedelta(hours=9)))
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    said = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), tokyo.isoformat(), json.dumps(ASKED)],
        env={**os.environ, "TZ": zone, "PYTHONPATH": path},
        check=True,
        capture_output=True,
        text=True,
    )
    found, used = json.loads(said.stdout)
    assert used == zone
    assert dict(zip(ASKED, found, strict=True)) == {sql: ["gate-1.mp4"] for sql in ASKED}


@pytest.mark.parametrize(
    ("condition", "write"),
    [
        ("start_utc < now()", "now() AT TIME ZONE 'UTC'"),
        ("current_timestamp > v.start_utc", "CURRENT_TIMESTAMP AT TIME ZONE 'UTC'"),
        ("indexed_at > now() - INTERVAL 1 DAY", "(now() - INTERVAL '1' DAY) AT TIME ZONE 'UTC'"),
        ("start_utc IN (TIMESTAMPTZ '2026-03-01 10:00+01')", "CAST('2026-03-01 10:00+01' AS TIMESTAMPTZ) AT"),
        ("date_diff('day', start_utc, now()) < 7", "now() AT TIME ZONE 'UTC'"),
        ("start_utc < now()::TIMESTAMP", "now() AT TIME ZONE 'UTC'"),
        ("start_utc::TIMESTAMPTZ < now()", "start_utc AT TIME ZONE 'UTC'"),
        ("(SELECT max(start_utc) FROM videos) > now()", "now() AT TIME ZONE 'UTC'"),
    ],
)
def test_now_beside_a_column_in_utc_is_refused_with_what_to_write(
    engine: Engine, condition: str, write: str
) -> None:
    with pytest.raises(QueryError) as refused:
        engine.query(f"SELECT video FROM videos v WHERE {condition}")
    assert f"write {write}" in str(refused.value)
    assert refused.value.position is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT start_utc, now() FROM videos",
        "SELECT video FROM videos WHERE start_utc < now() AT TIME ZONE 'UTC'",
        "SELECT video FROM videos WHERE start_utc < timezone('UTC', now()) AND start_clock < now()",
        "SELECT start_utc AT TIME ZONE 'UTC' AS start_utc FROM videos WHERE start_utc IS NOT NULL",
        "SELECT end_utc - start_utc FROM sightings WHERE start_utc > TIMESTAMP '2026-03-01 10:00'",
    ],
)
def test_what_is_already_right_is_left_alone(engine: Engine, sql: str) -> None:
    assert len(engine.query(sql))


def test_an_aware_parameter_beside_a_column_in_utc_and_elsewhere_is_refused(engine: Engine) -> None:
    with pytest.raises(QueryError, match=r"\$since is compared with a column in UTC, and used elsewhere too"):
        engine.query("SELECT $since FROM videos WHERE start_utc > $since", {"since": SOON})


def test_the_callers_parameters_stay_as_they_are(engine: Engine) -> None:
    given = {"Since": BEGAN, "names": ["gate-1.mp4", "yard.mp4"]}
    answer = engine.query("SELECT video FROM videos WHERE start_utc = $since AND video IN $NAMES", given)
    assert answer.fetchall() == [("gate-1.mp4",)]
    assert given == {"Since": BEGAN, "names": ["gate-1.mp4", "yard.mp4"]}
    assert isinstance(given["Since"], datetime)


def test_a_filter_that_may_be_left_open_takes_an_instant(engine: Engine) -> None:
    """It was refused once an instant was chosen: the parameter is used in two places."""
    for asked in ("$t IS NULL OR start_utc <= $t", "$t::TIMESTAMPTZ IS NULL OR start_utc <= $t"):
        sql = f"SELECT video FROM videos WHERE {asked}"
        assert "gate-1.mp4" in [row["video"] for row in engine.query(sql, {"t": SOON})]
        assert len(engine.query(sql, {"t": None})) > 3


def test_a_name_that_a_list_of_columns_gives_to_something_else_is_left_alone(engine: Engine) -> None:
    """It was taken for the column in UTC, so what has a zone was compared with what had lost it."""
    sql = (
        "WITH w(video, start_utc) AS (SELECT video, start_utc AT TIME ZONE 'UTC' FROM videos)"
        " SELECT video FROM w WHERE start_utc = ?"
    )
    assert "gate-1.mp4" in [row["video"] for row in engine.query(sql, [BEGAN])]
    (row,) = engine.query(
        "SELECT start_utc <= now() FROM (VALUES (TIMESTAMPTZ '2020-01-01 00:00+00')) v(start_utc)"
    )
    assert row[0] is True


def test_of_a_truncated_instant_the_instant_is_to_be_moved(engine: Engine) -> None:
    """The advice was to move what had been cut at this computer's midnight."""
    with pytest.raises(QueryError, match=r"write now\(\) AT TIME ZONE 'UTC'"):
        engine.query("SELECT video FROM videos WHERE date_trunc('day', start_utc) = date_trunc('day', now())")
