"""Tuning: a cost model and a search that a person can follow, and a run on short clips."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from clips import write_video

import panorama
from panorama.cli.main import cli
from panorama.errors import UsageError, VideoOpenError
from panorama.indexing import settings_of
from panorama.ingest import IngestSettings
from panorama.profile import SETTING, Profile, profile_of
from panorama.tune import DENSEST, SPARSEST, CostModel, Observation, Trial, candidates, sample_footage, search
from panorama.video import open_video, write_excerpt

DENSE_STAGES = {"decode": 1.0, "propose": 8.0, "track": 2.0, "embed": 1.0}
SPARSE_STAGES = {"decode": 1.0, "propose": 0.8, "track": 0.2, "embed": 0.5}
DENSE = Observation(DENSEST, frames=600, changed=100, crops=40, seconds=12.0, stage_seconds=DENSE_STAGES)
SPARSE = Observation(SPARSEST, frames=600, changed=10, crops=20, seconds=2.5, stage_seconds=SPARSE_STAGES)
MODEL = CostModel(DENSE, SPARSE, {256: 0.25, 320: 0.5, 416: 1.0})


def at(rate: float, side: int = 416, crops: int = 4) -> IngestSettings:
    return replace(DENSEST, samples_per_second=rate, proposal_side=side, crops_per_track=crops)


def test_the_model_gives_the_runs_that_it_rests_on() -> None:
    assert MODEL.seconds(DENSEST) == pytest.approx(12.0)
    assert MODEL.seconds(SPARSEST) == pytest.approx(2.5)
    assert MODEL.frames_per_second(DENSEST) == pytest.approx(50.0)


def test_each_stage_grows_with_what_it_works_on() -> None:
    # At 5 looks a second half as many samples changed; crops grow as rate ** 0.301: 2 ** -0.301 stay.
    stages = MODEL.stages(at(5))
    assert stages["decode"] == 1.0
    assert stages["propose"] == pytest.approx(4.0)
    assert stages["track"] == pytest.approx(1.0)
    assert stages["embed"] == pytest.approx(0.8117, abs=1e-3)
    assert MODEL.stages(at(5, 256))["propose"] == pytest.approx(1.0)
    assert MODEL.stages(at(5, 256, 2))["embed"] == pytest.approx(0.8117 / 2, abs=1e-3)


def test_what_runs_side_by_side_is_never_quicker_than_its_longest_stage() -> None:
    overlapped = CostModel(replace(DENSE, seconds=6.0), replace(SPARSE, seconds=1.25), MODEL.picture_seconds)
    assert overlapped.seconds(DENSEST) == pytest.approx(8.0)  # half of 12 would be less than proposing takes
    assert overlapped.seconds(SPARSEST) == pytest.approx(1.25)


def test_a_still_scene_has_no_cost_that_grows() -> None:
    still = [replace(run, changed=0, crops=0) for run in (DENSE, SPARSE)]
    model = CostModel(still[0], still[1], MODEL.picture_seconds)
    assert model.stages(at(5))["propose"] == 0


def test_candidates_come_in_the_order_of_their_cost() -> None:
    costs = [MODEL.seconds(settings) for settings in candidates(MODEL)]
    assert costs == sorted(costs)
    assert candidates(MODEL)[0] == at(1, 256, 2)


@pytest.mark.parametrize(("least", "chosen"), [(0.0, 1.0), (0.45, 3.0), (0.75, 6.0), (1.0, 8.0)])
def test_the_search_finds_the_cheapest_that_agrees(least: float, chosen: float) -> None:
    ordered = [at(rate) for rate in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)]
    agrees = {1.0: 0.1, 2.0: 0.3, 3.0: 0.5, 4.0: 0.6, 5.0: 0.7, 6.0: 0.8, 7.0: 0.9, 8.0: 1.0}

    def attempt(settings: IngestSettings) -> Trial:
        return Trial(settings, 1.0, 1.0, agrees[settings.samples_per_second])

    tried, best = search(ordered, attempt, least)
    assert best is not None and best.settings.samples_per_second == chosen
    assert len(tried) <= 4


def test_the_search_finds_nothing_where_nothing_agrees() -> None:
    tried, best = search([at(1.0), at(2.0)], lambda s: Trial(s, 1.0, 1.0, 0.2), 0.9)
    assert best is None and tried


def test_the_best_of_two_turns_has_the_lesser_time_of_each_stage() -> None:
    best = DENSE.better(replace(DENSE, seconds=13.0, stage_seconds={**DENSE_STAGES, "track": 1.5}))
    assert (best.seconds, best.stage_seconds["track"], best.stage_seconds["propose"]) == (12.0, 1.5, 8.0)


def test_runs_that_cannot_carry_a_model_are_refused() -> None:
    with pytest.raises(UsageError, match="dense run looks more often"):
        CostModel(SPARSE, DENSE, MODEL.picture_seconds)
    with pytest.raises(UsageError, match="takes time"):
        replace(DENSE, frames=0)


def test_a_profile_comes_back_as_it_was_stored() -> None:
    profile = Profile(at(3, 320), 100.0, 90.0, 0.95)
    assert profile_of(profile.as_json()) == profile
    assert profile_of(None) is None
    with pytest.raises(UsageError, match="tune"):
        profile_of({"settings": {"no_such": 1}})


def test_index_takes_the_profile_and_an_option_beats_it(tmp_path: Path) -> None:
    with panorama.open(tmp_path / "library", create=True) as library:
        assert settings_of(library._store) == IngestSettings()
        library.put_setting(SETTING, Profile(at(2, 256, 2), 1.0, 1.0, 1.0).as_json())
        assert settings_of(library._store) == at(2, 256, 2)


def test_an_excerpt_is_as_long_as_asked_and_begins_where_asked(tmp_path: Path) -> None:
    clip = tmp_path / "long.mp4"
    write_video(clip, "libx264", frames=100)
    write_excerpt(clip, 0.0, 1.0, tmp_path / "part.mkv")
    with open_video(clip) as whole, open_video(tmp_path / "part.mkv") as part:
        count = len(list(part.frames()))
        assert 0 < count < len(list(whole.frames()))
    with pytest.raises(UsageError, match="longer than 0"):
        write_excerpt(clip, 0.0, 0.0, tmp_path / "none.mkv")
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(VideoOpenError):
        write_excerpt(tmp_path / "text.mp4", 0.0, 1.0, tmp_path / "none.mkv")


def test_a_sample_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no video"):
        sample_footage([tmp_path], tmp_path, 5.0, 2)
    with pytest.raises(UsageError, match="at least one video"):
        sample_footage([tmp_path], tmp_path, 0.0, 2)


def test_the_command_wants_paths_or_a_reset(tmp_path: Path) -> None:
    run = CliRunner().invoke(cli, ["--library", str(tmp_path / "library"), "tune"], obj={})
    assert run.exit_code == 2 and "--reset" in run.output
