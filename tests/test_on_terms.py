"""WITH PRECISION and WITH RECALL, WITHIN n SECONDS: what is promised, refused, left undone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from query_samples import FakeMatcher, make_engine, make_library
from test_matching import DEEP, SHALLOW, FakeSource, TwoExits, by_track

from panorama.errors import AccuracyError, QueryError
from panorama.query.engine import Engine
from panorama.query.matching import on_terms
from panorama.query.matching.decide import Calibration
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, UNCERTAIN, Matches, MatchRequest
from panorama.query.matching.on_terms import match_on_terms
from panorama.query.matching.promises import (
    Evidence,
    allowed_errors,
    evidence_for,
    nothing_found,
    promised,
    segments_in,
)
from panorama.query.matching.said import Said
from panorama.query.shorthands.terms import Budget, Contract

PRECISE = Contract("precision", 0.9)
COMPLETE = Contract("recall", 0.9)


# The language.


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made, _ = make_engine(make_library(tmp_path))
    yield made
    made.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT frames WHERE entity = 'dog' WITH PRECISION >= 0.95 WITHIN 10 SECONDS LIMIT 5",
        "SELECT frames WHERE entity = 'dog' LIMIT 5 WITHIN 10 SECONDS WITH PRECISION >= 0.95",
        "SELECT count(*) FROM (SELECT frames WHERE entity = 'dog' WITHIN 10 SECONDS WITH PRECISION >= 0.95)",
    ],
)
def test_the_terms_stand_behind_the_condition_in_any_order(tmp_path: Path, sql: str) -> None:
    engine, matcher = make_engine(make_library(tmp_path))
    engine.query(sql)
    request = matcher.requests[-1]
    assert request.contract is not None and request.budget is not None
    assert (request.contract.kind, request.contract.at_least) == ("precision", 0.95)
    assert request.budget.seconds == 10 and 0 < request.budget.left < 10


def test_within_an_interval_belongs_to_the_sequence_and_within_seconds_to_the_answer(tmp_path: Path) -> None:
    engine, matcher = make_engine(make_library(tmp_path))
    sequence = "entity = 'blue-van' FOLLOWED BY entity = 'red-van'"
    engine.query(f"SELECT moments WHERE {sequence} WITHIN INTERVAL 30 SECONDS")
    assert matcher.requests[-1].budget is None
    for sql in (f"{sequence} WITHIN INTERVAL 30 SECONDS WITHIN 1 MINUTE", f"({sequence}) WITHIN 60 SECONDS"):
        engine.query(f"SELECT moments WHERE {sql}")
        budget = matcher.requests[-1].budget
        assert budget is not None and budget.seconds == 60
    with pytest.raises(QueryError, match=r"within 30 seconds use brackets: \(a FOLLOWED BY b\) WITHIN 30"):
        engine.query(f"SELECT moments WHERE {sequence} WITHIN 10 SECONDS")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("entity = 'dog' WITH PRECISION 0.9", "Expected >= and a number from 0.5 to below 1"),
        ("entity = 'dog' WITH PRECISION >= 1", "from 0.5 to below 1"),
        ("entity = 'dog' WITH SPEED >= 0.9", "Expected PRECISION or RECALL"),
        ("entity = 'dog' WITH PRECISION >= 0.9 WITH RECALL >= 0.9", "two WITH clauses"),
        ("entity = 'dog' WITHIN SECONDS", "Expected a time after WITHIN"),
        ("entity = 'dog' WITHIN 0 SECONDS", "Expected a time after WITHIN"),
        ("entity = 'dog' WITHIN 5 PARSECS", "Expected a time after WITHIN"),
        ("entity = 'dog' WITHIN 5 SECONDS WITHIN 6 SECONDS", "two WITHIN"),
        (
            "entity = 'dog' AND entity = 'red-van' WITH PRECISION >= 0.9",
            "can be promised only for one entity",
        ),
        ("NOT entity = 'dog' WITHIN 5 SECONDS", "need all of it"),
        ("NOT entity = 'dog' AND time < 5 WITHIN 5 SECONDS", "need all of it"),
        ("entity IS NULL WITHIN 5 SECONDS", "need all of it"),
        ("NOT entity = 'dog' WITH RECALL >= 0.9", "can be promised only for one entity"),
        ("time < 5 WITH PRECISION >= 0.9", "can be promised only for one entity"),
        ("entity IS NULL WITH PRECISION >= 0.9", "needs an entity"),
        ("entity = 'dog' AND score > 0.5 WITH PRECISION >= 0.9", "leave out the condition on score or band"),
    ],
)
def test_terms_that_mean_nothing_are_refused(engine: Engine, sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=f"(?i){message}"):
        engine.query(f"SELECT frames WHERE {sql}")


class Slow(FakeMatcher):
    """Finds the dog and runs out of time before the rest."""

    def match(self, request: MatchRequest) -> Matches:
        if request.budget is not None:
            request.budget.cut.append("red-van was not looked for")
            request = replace(request, entities=("dog",))
        return super().match(request)


def test_an_answer_that_is_cut_short_says_so(tmp_path: Path) -> None:
    tables = make_library(tmp_path)
    whole, _ = make_engine(tables)
    hurried = Engine(tables, Slow(), picture_root=None, read_picture=lambda _: np.zeros((1, 1, 3), np.uint8))
    sql = "SELECT frames WHERE entity IN ('dog', 'red-van')"
    rows = whole.query(sql)
    assert rows.complete
    part = hurried.query(f"{sql} WITHIN 3 SECONDS")
    assert not part.complete and 0 < len(part) < len(rows)
    assert part.warnings == ("the answer is incomplete after 3 s: red-van was not looked for",)
    assert set(part.fetchall()) < set(rows.fetchall())
    explained = hurried.query(f"EXPLAIN ANALYZE {sql} WITHIN 3 SECONDS")
    assert explained.warnings == part.warnings  # was told twice


class Unreached(FakeMatcher):
    """Does not reach the first track of gate-1.mp4 in time."""

    def match(self, request: MatchRequest) -> Matches:
        found = super().match(request)
        if request.budget is None:
            return found
        request.budget.cut.append("1 track that may be red-van was not looked at closely")
        return found[found.track_id != (1 << 32 | 1)]


@pytest.mark.parametrize(
    "condition",
    [
        "(entity = 'blue-van' FOLLOWED BY entity = 'red-van' WITHIN INTERVAL 1 SECOND)",
        "entity = 'red-van' AND end_time - start_time < 2",
        "(entity = 'red-van' DURING entity = 'blue-van')",
        "entity = 'red-van' AND x1 > 50",
        "entity = 'red-van' AND video LIKE 'gate%'",
        "entity = 'red-van' AND (time > 1 OR camera = 'yard') AND video LIKE 'gate%' AND score > 0.1",
    ],
)
def test_moments_that_the_complete_answer_may_lack_are_told(tmp_path: Path, condition: str) -> None:
    """A moment without one of its tracks is shorter, and then satisfies what the whole one does not."""
    tables = make_library(tmp_path)
    whole, _ = make_engine(tables)
    hurried = Engine(tables, Unreached(), picture_root=None, read_picture=lambda _: np.zeros((1, 1, 3)))
    rows, part = (
        {(row["video"], row["entity"]) for row in engine.query(f"SELECT moments WHERE {condition}{within}")}
        for engine, within in ((whole, ""), (hurried, " WITHIN 5 SECONDS"))
    )
    told = hurried.query(f"SELECT moments WHERE {condition} WITHIN 5 SECONDS").warnings
    sure = "LIKE" in condition
    assert part <= rows or not sure
    assert ("may not be in the complete answer" in told[0]) == (not sure)
    assert "the answer is incomplete after 5 s" in told[-1]


# What is promised.


def calibration(high: float = 0.5) -> Calibration:
    return Calibration(0.5, 10.0, 0.1, high, 0.75)


def evidence(count: int = 200, crops: int = 1000) -> Evidence:
    """Strangers at 0, 1/n, 2/n, ...; pairs of the same between 1/2 and 1."""
    steps = np.arange(count) / count
    return Evidence(tuple((0.5 + steps / 2).tolist()), tuple(steps.tolist()), crops)


@pytest.mark.parametrize(("examples", "share", "errors"), [(58, 0.05, -1), (59, 0.05, 0), (93, 0.05, 1)])
def test_the_bound_is_that_of_clopper_and_pearson(examples: int, share: float, errors: int) -> None:
    """The figures stand in tables of sample sizes: 59 without an error, 93 with one."""
    assert allowed_errors(examples, share) == errors


def test_the_bound_keeps_its_confidence_in_simulation() -> None:
    """Where the true share is just above what is allowed, at most one sample in twenty passes."""
    errors = allowed_errors(300, 0.1)
    drawn = np.random.default_rng(3).binomial(300, 0.1, 20_000)
    assert 0.02 < float((drawn <= errors).mean()) <= 0.055


def test_precision_lets_no_more_strangers_through_than_the_evidence_allows() -> None:
    one = evidence()
    (kept,) = promised(PRECISE, [calibration()], [one], 1, np.arange(1000))
    let_through = sum(float(kept.score(np.array(v))) >= kept.high for v in one.stranger)
    assert let_through == allowed_errors(200, 0.1)
    assert kept.near_best == 0.75 and kept.low <= kept.high
    stricter = promised(Contract("precision", 0.97), [calibration()], [one], 1, np.arange(1000))[0]
    assert stricter.high > kept.high


def test_recall_loses_no_more_sure_pairs_than_the_evidence_allows() -> None:
    one = evidence()
    kept = promised(COMPLETE, [calibration(), calibration(0.99)], [one, one], 1, np.arange(1000))
    lost = [sum(float(c.score(np.array(v))) < c.low for v in one.same) for c in kept]
    assert lost == [allowed_errors(200, 0.05)] * 2  # two exits share what may be lost
    assert kept[1].low == kept[1].high and kept[1].near_best == 0
    assert kept[0].high >= kept[0].low


@pytest.mark.parametrize(
    ("contract", "one", "crops", "message"),
    [
        (PRECISE, None, 1000, "measured on other footage. Run panorama calibrate"),
        (PRECISE, evidence(crops=500), 1000, "calibrated with 500 crops and holds 1000 now"),
        (
            Contract("precision", 0.99),
            evidence(100),
            1000,
            "100 examples of this library support at most 0.97",
        ),
        (Contract("recall", 0.9999), evidence(), 1000, "200 examples of this library support at most 0.985"),
    ],
)
def test_what_cannot_be_promised_is_refused_with_what_can(
    contract: Contract, one: Evidence | None, crops: int, message: str
) -> None:
    with pytest.raises(AccuracyError, match=message):
        promised(contract, [calibration()], [] if one is None else [one], 1, np.arange(crops))


def crops_of(*segments: int) -> np.ndarray:
    """Ids of a hundred crops of each of some segments."""
    return np.concatenate([(segment << 32) + np.arange(100) for segment in segments])


def test_a_promise_expires_when_more_than_a_quarter_of_the_crops_was_not_measured() -> None:
    """Only the number of crops was compared: evidence counted of videos that had all been replaced."""
    measured = crops_of(1, 2, 3, 7)
    one = replace(evidence(crops=len(measured)), segments=segments_in(measured))
    assert one.segments == ((1, 4), (7, 8))
    (one,) = evidence_for("model", {"evidence:model": json.loads(json.dumps([one.as_dict()]))})
    bands = promised(PRECISE, [calibration()], [one], 1, measured)
    for fewer in (crops_of(7), crops_of(1, 2, 3, 9), crops_of(1, 3, 7, 4)):
        assert promised(PRECISE, [calibration()], [one], 1, fewer) == bands
    message = r"100 of the 300 crops in the library are from videos that were indexed after.*calibrate again"
    for other in (0, 4, 6, 8):
        with pytest.raises(AccuracyError, match=message):
            promised(PRECISE, [calibration()], [one], 1, crops_of(2, 7, other))
    with pytest.raises(AccuracyError, match="400 of the 400 crops"):
        promised(COMPLETE, [calibration()], [one], 1, crops_of(11, 12, 13, 14))
    older = replace(one, segments=None)
    assert promised(PRECISE, [calibration()], [older], 1, crops_of(11, 12, 13, 14)) == bands


def test_evidence_survives_being_kept_and_the_account_says_what_was_applied() -> None:
    one = evidence(30)
    (read,) = evidence_for("model", {"evidence:model": json.loads(json.dumps([one.as_dict()]))})
    assert read.crops == one.crops and np.allclose(read.stranger, one.stranger, atol=1e-5)
    assert evidence_for("another", {"evidence:model": [one.as_dict()]}) == ()
    _, matcher = many_tracks()
    request = MatchRequest(("thing",), contract=Contract("recall", 0.5))
    found = match_on_terms(matcher, request, [evidence(crops=200)] * 2)
    assert accepted(found)
    (remark,) = request.remarks
    assert remark.startswith("WITH RECALL >= 0.5: accepted from a score of 0.")
    assert "by 200 examples among this library's own tracks, with 95% confidence" in remark
    assert remark.endswith("; scores are those of each track by itself, without comparison with other tracks")
    request = MatchRequest(("thing",), contract=Contract("precision", 0.5))
    match_on_terms(matcher, request, [evidence(crops=200)] * 2)
    assert "comparison" not in request.remarks[0]


def test_a_recall_of_what_nothing_is_accepted_for_is_refused_not_kept_by_an_empty_answer() -> None:
    source, matcher = many_tracks()
    request = MatchRequest(("thing",), contract=Contract("recall", 0.5))
    sure = [Evidence((same,) * 200, (0.1,) * 200, 200) for same in (0.2, 0.99)]
    assert accepted(match_on_terms(matcher, replace(request), sure))
    source.crop_vectors[1][:] = np.array(unit(0.5, 0.87, 0), np.float32)  # unlike the example, all of them
    with pytest.raises(
        AccuracyError,
        match=r"best of the tracks that reached exit 2 scores 0\.491, and the promise needs 1\.000",
    ):
        match_on_terms(many_tracks_of(source), replace(request), sure)
    with pytest.raises(AccuracyError, match="best of the tracks that reached exit 2"):
        match_on_terms(many_tracks_of(source), replace(request, budget=Ticking(1000)), sure)
    # Out of time, it is the time that is told of.
    late = replace(request, budget=Ticking(0))
    assert not accepted(match_on_terms(many_tracks_of(source), late, sure))
    assert late.budget is not None and late.budget.cut
    # A precision is kept by an answer that holds nothing.
    precise = MatchRequest(("thing",), contract=Contract("precision", 0.5))
    strangers = Evidence((0.99,) * 200, (0.98,) * 200, 200)
    assert not accepted(match_on_terms(many_tracks_of(source), precise, [strangers] * 2))


def test_a_refused_recall_tells_the_border_of_the_exit_that_tracks_fell_at() -> None:
    """The best of what came deepest was told as the best track; the thing's own may have fallen before."""
    kept = [replace(calibration(), low=low, high=high) for low, high in ((0.3, 0.9), (0.6, 0.6))]
    recall = Contract("recall", 0.5)

    def told(**best: float) -> str:
        of = {int(name[1:]): kept[0].normalised(score) for name, score in best.items()}
        return str(nothing_found(recall, "thing", of, kept)).split(": ")[1]

    assert told(e1=0.2).startswith("its best track scores 0.200, and the promise needs 0.300")
    assert told(e2=0.2).startswith("its best track scores 0.200, and the promise needs 0.600")
    assert told(e1=0.8, e2=0.1).startswith(
        "the best of the tracks that reached exit 2 scores 0.100, and the promise needs 0.600"
    )


def test_a_recall_in_a_part_where_the_thing_is_not_is_kept_by_an_empty_answer() -> None:
    _, matcher = many_tracks()
    request = MatchRequest(("thing",), contract=Contract("recall", 0.5), tracks=np.array([199]))
    sure = [Evidence((same,) * 200, (0.1,) * 200, 200) for same in (0.2, 0.99)]
    assert not accepted(match_on_terms(matcher, request, sure))


# What is left undone.


def unit(*values: float) -> list[float]:
    vector = np.array(values) / np.linalg.norm(values)
    return vector.tolist()


class Ticking(Budget):
    """Time that is over after so many looks at the clock."""

    def __init__(self, looks: int) -> None:
        super().__init__(10.0, 0.0)
        self.looks = looks

    @property
    def left(self) -> float:
        self.looks -= 1
        return 10.0 if self.looks >= 0 else 0.0


def many_tracks(near_best: float = 0.9) -> tuple[FakeSource, AlbumMatcher]:
    """200 tracks of one crop, undecided at exit 1; at exit 2 the first half is the thing, ever less alike."""
    count = 200
    angles = np.linspace(0.05, 0.9, count)
    shallow = [unit(1, 0.5 + i / count, 0) for i in range(count)]
    deep = [unit(np.cos(a), np.sin(a), 0) for a in angles]
    examples = np.array([[unit(1, 0, 0)], [unit(1, 0, 0)]], np.float32)
    source = FakeSource(np.array([shallow, deep], np.float32), np.arange(count), examples, stored_exits=1)
    return source, many_tracks_of(source, near_best)


def many_tracks_of(source: FakeSource, near_best: float = 0.9) -> AlbumMatcher:
    calibrations = [replace(SHALLOW, low=0.0, high=1.0), replace(DEEP, near_best=near_best)]
    return AlbumMatcher(source, TwoExits(), calibrations)


def accepted(matches: Matches) -> set[int]:
    return set(matches.track_id[matches.band == ACCEPTED].tolist())


def test_in_time_the_answer_is_the_complete_one() -> None:
    _, matcher = many_tracks()
    budget = Ticking(1000)
    request = MatchRequest(("thing",))
    assert accepted(match_on_terms(matcher, replace(request, budget=budget), [])) == accepted(
        matcher.match(request)
    )
    assert budget.cut == []


def test_out_of_time_rows_are_some_of_the_complete_answer_the_most_alike_first() -> None:
    source, matcher = many_tracks()
    request = MatchRequest(("thing",))
    complete = accepted(matcher.match(request))
    source.deepened.clear()
    budget = Ticking(3)  # to begin with the entity, to compute one batch and to size the next
    found = match_on_terms(matcher, replace(request, budget=budget), [])
    assert accepted(found) and accepted(found) < complete
    assert budget.cut == ["136 tracks that may be thing were not looked at closely"]
    computed = set(found.track_id[found.exit == 2].tolist())
    assert computed <= set(range(64))  # of the crops that resemble the example most
    assert int((found.band == UNCERTAIN).sum()) >= 136


def test_a_track_is_not_accepted_for_want_of_a_better_one() -> None:
    """The best track of all comes last in promise: those beside a lesser best one would be wrong rows."""
    source, matcher = many_tracks()
    source.crop_vectors[1][:] = np.array(unit(0.93, 0.37, 0), np.float32)
    source.crop_vectors[1][-1] = np.array(unit(1, 0, 0), np.float32)
    matcher = AlbumMatcher(source, TwoExits(), [matcher.calibrations[0], replace(DEEP, near_best=0.99)])
    request = MatchRequest(("thing",))
    assert accepted(matcher.match(request)) == {199}
    assert accepted(match_on_terms(matcher, replace(request, budget=Ticking(3)), [])) == set()


def test_scores_that_a_deeper_look_might_change_are_left_out() -> None:
    _, matcher = many_tracks()
    request = MatchRequest(("thing",), keep="all", min_score=0.0)
    complete = {(t, s) for t, s in zip(*_scores(matcher.match(request)), strict=True)}
    found = match_on_terms(matcher, replace(request, budget=Ticking(3)), [])
    some = {(t, s) for t, s in zip(*_scores(found), strict=True)}
    assert some and some < complete


def _scores(matches: Matches) -> tuple[list[int], list[float]]:
    return matches.track_id.tolist(), matches.score.tolist()


def test_an_entity_that_the_time_does_not_reach_is_named() -> None:
    _, matcher = many_tracks()
    budget = Ticking(0)
    assert len(match_on_terms(matcher, MatchRequest(("thing",), budget=budget), [])) == 0
    assert budget.cut == ["thing was not looked for"]


# What goes on from what the time did not reach, or stands beside it.

FIRST, SECOND = 1 << 32, (1 << 32) + 1
"""Two tracks of one shot, at one place at the same time."""


def beside_each_other(
    shallow: tuple[float, float], deep: tuple[float, float], said: Sequence[int] = ()
) -> AlbumMatcher:
    """Both undecided at exit 1, by how alike they are at either exit; some were pointed at."""
    rule = {"near_in_video": 0.95, "carried": 0.65, "beside": 1.0, "near_on_site": 1.0}
    numbers = np.array(said, np.int64)
    told = Said.of(np.full(len(said), 100), numbers, np.array([100]), numbers[:0])
    crops = np.array([[unit(v, np.sqrt(1 - v * v), 0) for v in values] for values in (shallow, deep)])
    examples = np.array([[unit(1, 0, 0)]] * 2, np.float32)
    owners = np.array([FIRST, SECOND])
    source = FakeSource(crops.astype(np.float32), owners, examples, stored_exits=1, told=told)
    calibrations = [replace(SHALLOW, high=1.0, **rule), replace(DEEP, **rule)]
    return AlbumMatcher(source, TwoExits(), calibrations)


@pytest.mark.parametrize("keep", ["accepted", "all"])
@pytest.mark.parametrize("looks", range(1, 6))
@pytest.mark.parametrize(
    ("deep", "said"),
    [((0.05, 0.05), [FIRST]), ((0.9, 0.05), []), ((0.9, 0.7), []), ((0.7, 0.99), []), ((0.7, 0.05), [FIRST])],
    ids=["what was said", "what is sure", "both", "a better one", "what was said, and is alike"],
)
def test_nothing_is_accepted_by_what_the_time_did_not_reach(
    monkeypatch: pytest.MonkeyPatch, deep: tuple[float, float], said: list[int], looks: int, keep: str
) -> None:
    monkeypatch.setattr(on_terms, "FIRST_BATCH", 1)
    request = MatchRequest(("thing",), keep=keep, min_score=0.0)
    matcher = beside_each_other((0.64, 0.62), deep, said)
    complete = accepted(beside_each_other((0.64, 0.62), deep, said).match(request))
    budget = Ticking(looks)
    assert accepted(match_on_terms(matcher, replace(request, budget=budget), [])) <= complete
    if not budget.cut:
        assert accepted(match_on_terms(matcher, replace(request, budget=Ticking(99)), [])) == complete


@pytest.mark.parametrize("keep", ["undecided", "all"])
@pytest.mark.parametrize("looks", range(1, 6))
@pytest.mark.parametrize("deep", [(0.9, 0.9), (0.9, 0.7), (0.7, 0.99)])
def test_what_the_time_did_not_reach_leaves_nothing_undecided_that_is_not_so_in_the_end(
    monkeypatch: pytest.MonkeyPatch, deep: tuple[float, float], looks: int, keep: str
) -> None:
    """The thing itself was among the rows of band = 'uncertain' as long as another one might be better."""
    monkeypatch.setattr(on_terms, "FIRST_BATCH", 1)
    request = MatchRequest(("thing",), keep=keep, min_score=0.0)
    complete = by_track(beside_each_other((0.64, 0.62), deep).match(request))
    budget = Ticking(looks)
    found = match_on_terms(beside_each_other((0.64, 0.62), deep), replace(request, budget=budget), [])
    assert by_track(found).items() <= complete.items()


def test_without_scenes_only_what_a_better_track_may_keep_from_acceptance_is_left_out() -> None:
    source, matcher = many_tracks(near_best=0.95)
    source.crop_vectors[1][10:20] = np.array(unit(0.49, np.sqrt(1 - 0.49**2), 0), np.float32)
    request = MatchRequest(("thing",), keep="undecided")
    complete = by_track(matcher.match(request))
    found = by_track(match_on_terms(matcher, replace(request, budget=Ticking(3)), []))
    assert found.items() < complete.items()
    assert {track for track, band in found.items() if band == UNCERTAIN} == set(range(10, 20))
    assert 63 not in found and complete[63] == ACCEPTED, "of 0.949, and a better one might come"
