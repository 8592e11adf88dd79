"""The cost model and the search on constructed times, where a person can compute what comes out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panorama.errors import UsageError
from panorama.indexing.settings import IngestSettings
from panorama.tune.choice import (
    CROPS,
    DENSEST,
    RATES,
    SIDES,
    SPARSEST,
    USUAL,
    CostModel,
    Timed,
    Trial,
    cheapest,
    fast_enough,
    grid,
    on_the_front,
)

PROPOSAL_SECONDS = {256: 0.25, 320: 0.5, 416: 1.0}
EMBED_SECONDS = {1: 0.001, 2: 0.002, 3: 0.0025}


def model(cores: int = 8, overlap: float = 1.0) -> CostModel:
    """Ten seconds of video: decoding takes 1 s whatever the rate, proposing 0.2 s a sample, embedding 0.3 s.

    Args:
        overlap: by how much a run is slower than its slowest stage.
    """
    dense = Timed(DENSEST, 10, 30 * overlap, {"decode": 1.0, "propose": 20.0, "embed": 30.0}, views=(2, 8, 8))
    sparse = Timed(SPARSEST, 10, 3 * overlap, {"decode": 1.0, "propose": 2.0, "embed": 3.0})
    return CostModel(dense, sparse, PROPOSAL_SECONDS, EMBED_SECONDS, cores)


def _runs() -> tuple[Timed, Timed]:
    """The densest and the sparsest run of that model."""
    made = model()
    return made.dense, made.sparse


def test_work_grows_with_the_rate_from_what_every_frame_costs() -> None:
    stages = model().stages(replace(DENSEST, samples_per_second=5.0))
    assert stages == pytest.approx({"decode": 0.1, "propose": 1.0, "embed": 1.5})


def test_a_shallower_embedding_makes_embedding_cheaper_and_nothing_else() -> None:
    stages = model().stages(replace(DENSEST, samples_per_second=5.0, depth=1))
    assert stages == pytest.approx({"decode": 0.1, "propose": 1.0, "embed": 1.5 * 0.001 / 0.0025})
    assert model().stages(replace(DENSEST, depth=3)) == model().stages(DENSEST)


def test_a_smaller_side_makes_proposing_cheaper_and_nothing_else() -> None:
    stages = model().stages(replace(DENSEST, samples_per_second=5.0, proposal_side=256))
    assert stages == pytest.approx({"decode": 0.1, "propose": 0.25, "embed": 1.5})


def test_fewer_crops_make_embedding_cheaper_by_those_that_short_tracks_never_had() -> None:
    # Of tracks with 2, 8 and 8 samples four crops each are 10, two crops each are 6.
    stages = model().stages(replace(DENSEST, crops_per_track=2))
    assert stages["embed"] == pytest.approx(3.0 * 6 / 10)
    assert stages["propose"] == pytest.approx(2.0)


def test_stages_overlap_so_the_slowest_sets_the_pace() -> None:
    assert model().seconds(replace(DENSEST, samples_per_second=5.0)) == pytest.approx(1.5)


def test_few_cores_share_all_the_work() -> None:
    # At half the rate 2.6 s of work, 1.5 s of it embedding. One core needs all of the 2.6 s, two need 1.5 s.
    half = replace(DENSEST, samples_per_second=5.0)
    one = (
        Timed(DENSEST, 10, 51.0, model().dense.stage_seconds),
        Timed(SPARSEST, 10, 6.0, model().sparse.stage_seconds),
    )
    assert CostModel(*one, PROPOSAL_SECONDS, EMBED_SECONDS, cores=1).seconds(half) == pytest.approx(2.6)
    assert model(cores=2).seconds(half) == pytest.approx(1.5)


def test_what_threads_cost_each_other_is_taken_from_the_runs() -> None:
    assert model(overlap=1.5).seconds(replace(DENSEST, samples_per_second=5.0)) == pytest.approx(1.5 * 1.5)
    for run in (model(overlap=1.5).dense, model(overlap=1.5).sparse):
        assert model(overlap=1.5).speed(run.settings) == pytest.approx(run.speed)


def test_decoding_on_many_threads_sets_no_pace_of_its_own() -> None:
    # 4 s of decoding in each second of video are the work of all eight cores for half a second.
    dense, sparse = (replace(run, stage_seconds={**run.stage_seconds, "decode": 40.0}) for run in _runs())
    stages = CostModel(dense, sparse, PROPOSAL_SECONDS, EMBED_SECONDS, cores=8).stages(DENSEST)
    assert stages["decode"] == pytest.approx(4.0)
    fast = replace(sparse, wall_seconds=5.75)
    # (40 + 2 + 3) s on eight cores are 5.6 s, more than the 3 s of embedding: the prediction scales by 5.625.
    model_of_it = CostModel(dense, fast, PROPOSAL_SECONDS, EMBED_SECONDS, cores=8)
    assert model_of_it.seconds(SPARSEST) == pytest.approx(0.575)
    half = model_of_it.seconds(replace(DENSEST, samples_per_second=5.5))
    # Halfway 17 s of embedding take longest; the runs took 1 and 5.75 / 5.625 of what is ideal.
    assert half == pytest.approx(1.65 * (1 + 5.75 / 5.625) / 2)


def test_of_two_turns_the_lesser_times_count() -> None:
    first, _ = _runs()
    second = replace(first, wall_seconds=25.0, stage_seconds={"decode": 2.0, "propose": 18.0, "embed": 31.0})
    best = first.better(second)
    assert best.wall_seconds == 25.0
    assert best.stage_seconds == {"decode": 1.0, "propose": 18.0, "embed": 30.0}


def test_a_run_without_time_is_refused() -> None:
    with pytest.raises(ValueError, match="takes time"):
        Timed(DENSEST, 0.0, 1.0, {})


class Losses:
    """The loss of a setting by a rule that a person can follow; remembers what was asked."""

    def __init__(self, rate: float, side: int, crops: int) -> None:
        self.asked: list[IngestSettings] = []
        self._least = (rate, side, crops)

    def __call__(self, settings: IngestSettings) -> float:
        self.asked.append(settings)
        rate, side, crops = self._least
        enough = (
            settings.samples_per_second >= rate
            and settings.proposal_side >= side
            and settings.crops_per_track >= crops
        )
        return 0.01 if enough else 0.3


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("crops", CROPS)
def test_the_cheapest_that_is_good_enough_is_found_with_few_trials(
    rate: float, side: int, crops: int
) -> None:
    losses = Losses(rate, side, crops)
    chosen = cheapest(losses, 0.02)
    assert (chosen.samples_per_second, chosen.proposal_side, chosen.crops_per_track) == (rate, side, crops)
    assert len(losses.asked) <= 7 < len(grid())


def test_where_everything_loses_too_much_the_densest_is_chosen() -> None:
    assert cheapest(lambda settings: 0.5, 0.02) == DENSEST


def test_the_usual_setting_is_in_the_grid_and_bounds_the_search_that_begins_at_it() -> None:
    assert USUAL in grid()
    losses = Losses(RATES[0], SIDES[0], CROPS[0])
    chosen = cheapest(losses, 0.02, USUAL)
    assert (chosen.samples_per_second, chosen.proposal_side, chosen.crops_per_track) == (
        RATES[0],
        SIDES[0],
        CROPS[0],
    )
    greedy = Losses(99, 0, 0)  # nothing is good enough
    assert cheapest(greedy, 0.02, USUAL) == USUAL
    for asked in (losses.asked, greedy.asked):
        assert all(settings.samples_per_second <= USUAL.samples_per_second for settings in asked)


def test_a_speed_takes_what_loses_least_of_those_that_reach_it() -> None:
    def speed(settings: IngestSettings) -> float:
        return 100 / settings.samples_per_second * (416 / settings.proposal_side)

    asked: list[IngestSettings] = []

    def loss(settings: IngestSettings) -> float:
        asked.append(settings)
        return 0.2 if settings.proposal_side < 416 else 0.1 / settings.crops_per_track

    chosen = fast_enough(speed, loss, 20)
    # 5 a second at 416 pixels gives exactly 20x; 7 a second does at 256 pixels, 23x, and loses more.
    assert (chosen.samples_per_second, chosen.proposal_side, chosen.crops_per_track) == (5.0, 416, 4)
    assert all(speed(settings) >= 20 for settings in asked) and len(asked) == 4


def test_a_speed_that_only_the_first_exit_reaches_takes_it_and_loses_least_so() -> None:
    def speed(settings: IngestSettings) -> float:
        return 10 / settings.samples_per_second * (1 if settings.depth is None else 1.2)

    chosen = fast_enough(speed, lambda settings: settings.crops_per_track / 10, 11)
    assert (chosen.samples_per_second, chosen.crops_per_track, chosen.depth) == (1.0, 2, 1)
    assert fast_enough(speed, lambda settings: 0.0, 10).depth is None


def test_a_speed_that_nothing_reaches_is_refused_with_the_fastest_there_is() -> None:
    with pytest.raises(UsageError, match=r"reaches 50x .* fastest is predicted at 7\.0x"):
        fast_enough(lambda settings: 7 / settings.samples_per_second, lambda settings: 0.0, 50)


def test_the_front_leaves_out_what_another_beats() -> None:
    slow_good = Trial(DENSEST, None, 2.0, 0.0)
    beaten = Trial(replace(DENSEST, crops_per_track=2), 2.0, 2.5, 0.2)
    middle = Trial(replace(DENSEST, samples_per_second=5.0), 4.0, 4.0, 0.1)
    fast_bad = Trial(SPARSEST, None, 9.0, 0.4)
    assert on_the_front([beaten, fast_bad, slow_good, middle]) == [slow_good, middle, fast_bad]
