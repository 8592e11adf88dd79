"""Columns named behind a target: they follow the fixed ones, which stay as they are."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from query_samples import CLOCKS, FPS, TRACKS, VIDEOS, engine_with_pictures, expected_frames

from panorama.errors import QueryError
from panorama.query.engine import Engine
from panorama.query.shorthands.plan import OUTPUT, columns_to_add
from panorama.shown.hits import hits_of

ALL = "entity = 'dog' AND score >= 0"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    made = engine_with_pictures(tmp_path_factory.mktemp("library"))
    yield made
    made.close()


def band_of(score: float) -> str:
    """As the fake matcher decides."""
    return "accepted" if score >= 0.8 else "uncertain" if score >= 0.5 else "rejected"


def test_every_frame_says_whether_it_is_sure(engine: Engine) -> None:
    result = engine.query(f"SELECT frames, band WHERE {ALL}")
    expected = [(*row, band_of(row[4])) for row in expected_frames("dog", accepted=0.0)]
    assert result.columns == [*OUTPUT["frames"], "band"]
    assert [tuple(row) for row in result] == [pytest.approx(row) for row in expected]
    assert {row.band for row in result} == {"accepted", "uncertain", "rejected"}


def test_what_is_not_rejected_is_asked_with_its_band(engine: Engine) -> None:
    found = engine.query("SELECT tracks, band WHERE entity = 'dog' AND band <> 'rejected'")
    expected = {
        (video, t.track_id, band_of(t.scores["dog"]))
        for video, _, segment, _ in VIDEOS
        for t in TRACKS
        if t.segment == segment and t.scores.get("dog", 0.0) >= 0.5
    }
    assert {(row.video, row.track_id, row.band) for row in found} == expected
    assert {band for *_, band in expected} == {"accepted", "uncertain"}


@pytest.mark.parametrize("target", sorted(OUTPUT))
def test_every_column_of_a_target_can_be_added_and_the_others_stay(engine: Engine, target: str) -> None:
    where = f"WHERE {ALL} AND video LIKE 'gate%'"
    plain = engine.query(f"SELECT {target} {where}")
    assert tuple(plain.columns[: len(OUTPUT[target])]) == OUTPUT[target]
    more = [name for name in columns_to_add(target) if name not in plain.columns][::-1]
    result = engine.query(f"SELECT {target}, {', '.join(more)} {where}")
    assert result.columns == [*plain.columns, *more]
    assert [row[: len(plain.columns)] for row in result] == [tuple(row) for row in plain]
    assert len(result) > 0
    films = {name for name in more if name == "picture"}  # only pictures of a folder are files
    for row in result.fetchall():
        assert {name for name, value in zip(result.columns, row, strict=True) if value is None} == films


def test_added_columns_hold_what_they_are_called(engine: Engine) -> None:
    rows = engine.query(f"SELECT frames, area, width, camera, clock, duration WHERE {ALL}").fetchall()
    assert len({row.video for row in rows} & set(CLOCKS)) > 0 < len({row.video for row in rows} - set(CLOCKS))
    for row in rows:
        _, camera, _, count = next(video for video in VIDEOS if video[0] == row.video)
        assert (row.width, row.area) == (20.0, 600.0)
        assert (row.camera, row.duration) == (camera, count / FPS)
        start = CLOCKS.get(row.video)
        if start is None:
            assert row.clock is None
        else:
            assert (row.clock - start).total_seconds() == pytest.approx(row.time, abs=1e-6)


def test_the_band_of_a_moment_is_that_of_its_best_view(engine: Engine) -> None:
    """The tracks of the dog at 5 s and 6.8 s lie within a second: 0.55 and 0.6, both undecided."""
    (moment,) = engine.query(
        "SELECT moments, band WHERE entity = 'dog' AND band <> 'rejected' AND video = 'gate-1.mp4'"
    )
    assert (moment.score, moment.band) == (0.6, "uncertain")
    both = engine.query(f"SELECT moments, band WHERE {ALL} AND video = 'yard.mp4'")
    assert [(row.score, row.band) for row in both] == [(0.9, "accepted")]  # merged with a rejected one


def test_rows_without_an_entity_have_no_band(engine: Engine) -> None:
    rows = engine.query("SELECT frames, band, camera WHERE NOT entity = 'dog' AND video = 'yard.mp4'")
    assert {(row.entity, row.band, row.camera) for row in rows} == {(None, None, "yard")}
    assert {row.band for row in engine.query("SELECT tracks, band")} == {None}


@pytest.mark.parametrize(
    ("sql", "added"),
    [
        ("SELECT frames, score, band, video, band", ["band"]),
        (
            "select Frames,\n  BAND /* sure? */ , \"Camera\" -- where\n WHERE entity = 'dog'",
            ["band", "camera"],
        ),
        ("SELECT frames, band ORDER BY band, frame LIMIT 3", ["band"]),
        ("SELECT frames, band LIMIT 2 OFFSET 1;", ["band"]),
        ("SELECT frames, band WHERE entity = 'dog' WITHIN 10 SECONDS", ["band"]),
        ("SELECT frames, band WHERE entity = 'dog' UNION SELECT frames, band LIMIT 3", ["band"]),
        ("SELECT * FROM (SELECT frames, band)", ["band"]),
        ("WITH f AS (SELECT frames, camera, band) FROM f", ["camera", "band"]),
    ],
)
def test_names_stand_wherever_a_shorthand_does(engine: Engine, sql: str, added: list[str]) -> None:
    result = engine.query(sql)
    assert result.columns == [*OUTPUT["frames"], *added]
    assert len(result) > 0


def test_what_is_returned_anyway_stays_where_it_is(engine: Engine) -> None:
    """`tracks` return entity and score where an entity is asked, and similarity where a picture is."""
    fixed = list(OUTPUT["tracks"])
    asked = {
        "SELECT tracks, band, score": ["band", "score"],
        "SELECT tracks, band, score WHERE entity = 'dog'": ["entity", "score", "band"],
        "SELECT tracks, similarity, band ORDER BY similarity('a.jpg') DESC": ["similarity", "band"],
    }
    assert {sql: engine.query(sql).columns for sql in asked} == {s: fixed + more for s, more in asked.items()}


def test_a_limit_that_stops_early_returns_the_same_rows(engine: Engine) -> None:
    for order in ("", " ORDER BY score DESC"):
        every = engine.query(f"SELECT frames, band, clock WHERE {ALL}{order}").fetchall()
        assert engine.query(f"SELECT frames, band, clock WHERE {ALL}{order} LIMIT 7").fetchall() == every[:7]


def test_parameters_and_plain_sql_around_it(engine: Engine) -> None:
    asked = "SELECT frames, band WHERE entity = ? AND score >= ?"
    rows = engine.query(
        f"SELECT band, count(DISTINCT track_id) AS n FROM ({asked}) WHERE video = ? GROUP BY band ORDER BY n",
        ["dog", 0, "gate-1.mp4"],
    )
    assert [tuple(row) for row in rows] == [("uncertain", 2), ("rejected", 3)]
    alike = engine.query(
        "SELECT t.band, similarity('a.jpg', t) AS s FROM (SELECT tracks, band WHERE entity = 'dog') t"
    )
    assert [(row.band, round(row.s, 6)) for row in alike] == [("accepted", 0.91)]


def test_files_and_explain_show_it(engine: Engine, tmp_path: Path) -> None:
    result = engine.query(f"SELECT tracks, band WHERE {ALL}")
    bands = [row.band for row in result]
    assert set(bands) == {"accepted", "uncertain", "rejected"}
    assert [row["band"] for row in csv.DictReader(io.StringIO(result.to_csv()))] == bands
    assert [row["band"] for row in json.loads(result.to_json())] == bands
    assert pq.read_table(result.write(tmp_path / "a.parquet"))["band"].to_pylist() == bands
    assert "<td>uncertain</td>" in result._repr_html_() and "uncertain" in result.to_table()
    assert (
        engine.query(f"EXPLAIN SELECT tracks, band WHERE {ALL}")[0][0]
        == "SELECT tracks, band (1 alternative)"
    )


def test_a_contact_sheet_names_the_band_that_was_asked_for(engine: Engine) -> None:
    told = {}
    for sql in ("SELECT frames", "SELECT frames, band"):
        result = engine.query(f"{sql} WHERE entity = 'dog' AND band = 'uncertain' LIMIT 1")
        told[sql] = [hit.told() for hit in hits_of(result.columns, result.arrow().to_pylist())]
    assert told == {"SELECT frames": ["dog  0.55"], "SELECT frames, band": ["dog  0.55  uncertain"]}


@pytest.mark.parametrize(
    ("sql", "said", "at"),
    [
        ("SELECT frames, bnad WHERE entity = 'dog'", r"no column 'bnad' to .*Did you mean 'band'\?", "bnad"),
        (
            "SELECT crops, samples",
            "SELECT crops has no column 'samples' to return; it has crop_id",
            "samples",
        ),
        ("SELECT moments, time", "Rows of moments are intervals: start_time, end_time", "time"),
        ("SELECT tracks, similarity", r"if the condition or ORDER BY uses it", "similarity"),
        ("SELECT frames, band AS b WHERE 1", r"expected names .*SELECT frames, band WHERE", "AS"),
        ("SELECT frames, x2 - x1", r"for anything else write SELECT \.\.\. FROM \(SELECT frames, band", "-"),
        ("SELECT frames, count(*) WHERE entity = 'dog' GROUP BY video", "expected names of columns", "("),
        ("SELECT frames, * WHERE entity = 'dog'", "expected names of columns after SELECT frames", "*"),
        ("SELECT frames, tracks.band WHERE entity = 'dog'", "expected names of columns", "."),
        ("SELECT frames, WHERE entity = 'dog'", "expected names of columns", "WHERE"),
        ("SELECT n FROM (SELECT frames, 1 AS n)", "expected names of columns", "1"),
        ("SELECT tracks, similarity('a.jpg') WHERE entity = 'dog'", "expected names of columns", "("),
        ("SELECT band, frames WHERE entity = 'dog'", "for more columns, SELECT frames, band WHERE", "entity"),
        ("SELECT video, band WHERE entity = 'dog'", "for more columns, SELECT frames, band WHERE", "entity"),
        ("SELECT camera FROM (SELECT tracks)", r"if you name it: SELECT tracks, camera WHERE", "camera"),
        ("SELECT f.band FROM (SELECT frames) f", r"if you name it: SELECT frames, band WHERE", "f.band"),
    ],
)
def test_what_cannot_stand_there_is_told(engine: Engine, sql: str, said: str, at: str) -> None:
    with pytest.raises(QueryError, match=said) as caught:
        engine.query(sql)
    assert caught.value.position == sql.index(at)


def test_a_list_without_names_of_ours_is_told_without_the_shorthand(engine: Engine) -> None:
    with pytest.raises(QueryError, match=r"expression without FROM clause.*for more columns, SELECT frames"):
        engine.query("SELECT frames.*, band WHERE entity = 'dog'")
    with pytest.raises(QueryError) as caught:
        engine.query("SELECT zzz FROM (SELECT frames, band)")
    assert "zzz" in caught.value.args[0] and "shorthand" not in caught.value.args[0]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT frames, camera FROM videos", ["frames", "camera"]),
        ("FROM videos SELECT frames, camera WHERE duration > 1", ["frames", "camera"]),
        ("SELECT n FROM videos, LATERAL (SELECT frames, frames * 2 AS n WHERE frames > 3)", ["n"]),
        ("SELECT count(*) FROM videos WHERE EXISTS (SELECT frames, camera)", ["count_star()"]),
        ("SELECT frames, (SELECT 1) AS one FROM videos", ["frames", "one"]),
    ],
)
def test_columns_of_those_names_stay_duckdbs(engine: Engine, sql: str, columns: list[str]) -> None:
    result = engine.query(sql)
    assert result.columns == columns and len(result) > 0


FRAMES = ", ".join(OUTPUT["frames"])


@pytest.mark.parametrize(
    ("sql", "place", "told"),
    [
        (
            "SELECT frames, band WHERE entity = 'dog' UNION SELECT frames WHERE time < 1",
            "SELECT frames WHERE",
            "the sides of UNION have different columns: SELECT frames, band returns 11 columns"
            f" ({FRAMES}, band); SELECT frames returns 10 columns ({FRAMES}). Name the same columns on both:"
            " SELECT frames, band WHERE ... UNION SELECT frames, band ...",
        ),
        (
            "EXPLAIN ((SELECT frames LIMIT 3)) UNION ALL (SELECT frames, camera, band LIMIT 3)",
            "SELECT frames, camera",
            "SELECT frames, camera, band WHERE ... UNION SELECT frames, camera, band ...",
        ),
        (  # as many columns, and another meaning: cameras stood under the name of bands
            "SELECT * FROM (SELECT frames, band EXCEPT SELECT frames, camera)",
            "SELECT frames, camera",
            "SELECT frames, band, camera WHERE ... EXCEPT SELECT frames, band, camera ...",
        ),
        (
            "SELECT tracks, band WHERE entity = 'dog' INTERSECT SELECT tracks, band",
            "SELECT tracks, band",
            "SELECT tracks, entity, score, band WHERE ... INTERSECT SELECT tracks, entity, score, band ...",
        ),
        ("SELECT frames UNION SELECT moments", "SELECT moments", "UNION BY NAME matches columns by name"),
        ("SELECT frames, band EXCEPT SELECT moments", "SELECT moments", "Select the same columns on both"),
        (
            "(SELECT crops ORDER BY similarity('a.jpg') LIMIT 1) UNION ALL (SELECT crops LIMIT 1)",
            "SELECT crops LIMIT",
            "UNION BY NAME",
        ),
    ],
)
def test_sides_with_different_columns_are_told_with_the_columns_and_what_to_write(
    engine: Engine, sql: str, place: str, told: str
) -> None:
    """DuckDB told that the numbers of columns differ, not which, or took one column for another."""
    with pytest.raises(QueryError) as caught:
        engine.query(sql)
    assert caught.value.args[0].startswith("the sides of ") and told in caught.value.args[0]
    assert caught.value.position == sql.rindex(place)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        (
            "SELECT tracks, entity, score, band WHERE entity = 'dog'"
            " EXCEPT SELECT tracks, entity, score, band",
            (*OUTPUT["tracks"], "entity", "score", "band"),
        ),
        ("SELECT frames UNION ALL BY NAME SELECT frames, band", (*OUTPUT["frames"], "band")),
        ("SELECT frames UNION BY NAME (SELECT moments LIMIT 1)", None),
        ("SELECT video FROM (SELECT frames LIMIT 1) UNION SELECT video FROM (SELECT moments)", ("video",)),
        (
            "SELECT 1.5 AS one WHERE 'gate' IN (SELECT camera FROM (SELECT frames, camera WHERE time < 1))"
            " UNION SELECT max(time) FROM (SELECT frames)",
            ("one",),
        ),
    ],
)
def test_sides_that_fit_are_left_to_duckdb(engine: Engine, sql: str, columns: tuple[str, ...] | None) -> None:
    result = engine.query(sql)
    assert columns is None or tuple(result.columns) == columns
    assert len(result) > 0


def test_the_columns_of_a_shorthand_are_told_beside_plain_sql_with_others(engine: Engine) -> None:
    told = rf"same number of result columns; SELECT frames, band returns 11 columns \({FRAMES}, band\)$"
    with pytest.raises(QueryError, match=told):
        engine.query("SELECT frames, band UNION SELECT video, frame FROM frames")
