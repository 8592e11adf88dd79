"""Of how many crops the similarity is asked for, and that the answer is that of asking for all."""

from __future__ import annotations

import pytest

from panorama.query import engine as engine_module
from panorama.query.engine import Engine
from panorama.query.matches import MatchRequest

LIKE = "similarity('a.jpg')"


def asked(engine: Engine, sql: str, monkeypatch: pytest.MonkeyPatch) -> MatchRequest:
    """The request for similarities; the answer is compared with that of all similarities."""
    matcher = engine._matcher
    answer = engine.query(sql).fetchall()
    request = [one for one in matcher.requests if one.keep == "all"][-1]  # type: ignore[attr-defined]
    with monkeypatch.context() as patched:
        patched.setattr(engine_module, "similarity_request", lambda *_: MatchRequest(keep="all"))
        assert engine.query(sql).fetchall() == answer
    return request


@pytest.mark.parametrize(
    ("sql", "least", "segments"),
    [
        (f"SELECT frames WHERE {LIKE} > 0.95", 0.95, None),
        (f"SELECT frames WHERE {LIKE} >= 0.99 AND video LIKE 'gate-%'", 0.99, [1, 2]),
        (f"SELECT frames WHERE entity = 'red-van' AND {LIKE} > 0.9", 0.9, None),
        (f"SELECT crops WHERE {LIKE} > 0.9 AND camera = 'yard'", 0.9, [3]),
        (f"SELECT tracks WHERE {LIKE} > 0.9 ORDER BY {LIKE} DESC LIMIT 2", 0.9, None),
        (f"SELECT moments WHERE entity = 'dog' AND {LIKE} > 0.7 AND video = 'yard.mp4'", 0.7, [3]),
        (f"SELECT count(*) FROM (SELECT crops WHERE {LIKE} >= .95)", 0.95, None),
    ],
)
def test_a_least_similarity_and_the_videos_restrict_what_is_compared(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    sql: str,
    least: float,
    segments: list[int] | None,
) -> None:
    request = asked(engine, sql, monkeypatch)
    assert request.min_score == least
    assert (None if request.segments is None else request.segments.tolist()) == segments


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT frames WHERE {LIKE} > 0.9 OR frame = 10",
        f"SELECT crops WHERE NOT {LIKE} > 0.9",
        f"SELECT crops WHERE {LIKE} < 0.9",
        f"SELECT crops WHERE {LIKE} + 1 > 0.9",
        f"SELECT tracks WHERE {LIKE} > 0.9 ORDER BY {LIKE}",
        f"SELECT frames WHERE entity = 'dog' AND NOT (entity = 'it''s' AND {LIKE} > 0.9)",
        f"SELECT tracks WHERE track_id IN (SELECT track_id FROM crops WHERE {LIKE} > 0.9)",
        f"SELECT max({LIKE}) FROM tracks SEMI JOIN (SELECT tracks WHERE samples > 1) USING (track_id)",
        f"SELECT *, {LIKE} AS how FROM crops SEMI JOIN (SELECT crops WHERE {LIKE} > 0.9) USING (crop_id)",
    ],
)
def test_elsewhere_every_crop_is_compared(engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str) -> None:
    request = asked(engine, sql, monkeypatch)
    assert (request.min_score, request.segments, request.tracks) == (None, None, None)


@pytest.mark.parametrize(
    ("sql", "segments"),
    [
        (f"SELECT crop_id, {LIKE} AS how FROM crops WHERE video = 'yard.mp4' ORDER BY how DESC, 1", [3]),
        (
            f"SELECT track_id FROM tracks t WHERE t.video IN ('gate-1.mp4', 'yard.mp4') AND {LIKE} > 0.9",
            [1, 3],
        ),
        (f"SELECT max({LIKE}) FROM crops WHERE video = 'nowhere.mp4'", []),
        (f"SELECT max({LIKE}) FROM crops WHERE video = 'yard.mp4' OR crop_id > 0", None),
        (f"SELECT (SELECT max({LIKE}) FROM crops) FROM crops WHERE video = 'yard.mp4'", None),
        (f"SELECT max({LIKE}) FROM crops AS c(video, crop_id) WHERE video = 1", None),
        (f"SELECT max({LIKE}) FROM crops JOIN tracks USING (track_id) WHERE crops.video = 'yard.mp4'", None),
        (f"SELECT {LIKE} FROM crops WHERE video = 'yard.mp4' UNION ALL SELECT 1", None),
    ],
)
def test_plain_sql_over_some_videos_compares_their_crops_only(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, sql: str, segments: list[int] | None
) -> None:
    request = asked(engine, sql, monkeypatch)
    assert (None if request.segments is None else request.segments.tolist()) == segments
