"""What `tune` keeps where its measurements contradict its predictions; all times are made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Ran
from fakes import ColoredThings, Thing, write_film

import panorama
from panorama.indexing.settings import IngestSettings
from panorama.indexing.stages import Indexer
from panorama.tune import TuneReport, search, tune
from panorama.tune.choice import DENSEST, SPARSEST, USUAL, Trial, grid
from panorama.tune.sample import Scratch, Stretch, index_sample
from panorama.tune.search import TURNS

CHEAP = replace(SPARSEST, proposal_side=256, crops_per_track=2)
"""The cheapest of the grid; it is chosen where almost everything may be lost."""


@dataclass
class MadeUpTimes:
    """Indexes the sample as it is, and claims that each sample a second takes a second for a second of video.

    So once a second is 1x, the default 0.2x, the densest 0.1x, whatever the pictures and crops. Only the
    first run of a setting indexes; of the others only the times are asked for.

    Attributes:
        slower: by setting, the factor by which each of its runs is slower than that; the last one stays.
    """

    slower: dict[IngestSettings, Sequence[float]] = field(default_factory=dict)
    runs: Counter[IngestSettings] = field(default_factory=Counter)
    first: dict[IngestSettings, Scratch] = field(default_factory=dict)

    def __call__(
        self, place: Path, stretches: Sequence[Stretch], indexer: Indexer, kept: Mapping[str, Any]
    ) -> Scratch:
        settings = indexer.settings
        scratch = self.first.get(settings) or index_sample(place, stretches, indexer, kept)
        self.first[settings] = scratch
        timed = scratch.timed
        factors = self.slower.get(settings, (1.0,))
        factor = factors[min(self.runs[settings], len(factors) - 1)]
        self.runs[settings] += 1
        seconds = timed.video_seconds * settings.samples_per_second
        stages = {"track": 1000 * seconds}  # so much that the real time of decoding does not show
        return replace(scratch, timed=replace(timed, wall_seconds=factor * seconds, stage_seconds=stages))


@pytest.fixture
def film(tmp_path: Path) -> Path:
    things = [Thing("red", 0, 25, left=5), Thing("green", 12, 37, left=35)]
    return write_film(tmp_path / "films" / "0.mp4", things, frames=40)


@pytest.fixture
def tuned(
    tmp_path: Path, film: Path, fake_proposer: ColoredThings, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., TuneReport]:
    """Tunes with times that are made up; by default, almost everything may be lost."""
    library = panorama.open(tmp_path / "library", create=True)
    library.use_model("color-bands")

    def tuned(times: MadeUpTimes, **options: object) -> TuneReport:
        monkeypatch.setattr(search, "index_sample", times)
        return tune(library, film, seconds=4.0, **{"most_loss": 0.99, **options})  # type: ignore[arg-type]

    return tuned


def test_a_choice_is_timed_in_turn_with_the_default_and_what_was_predicted_of_it_holds(
    tuned: Callable[..., TuneReport],
) -> None:
    report = tuned(MadeUpTimes())
    assert (report.profile.settings, report.rejected, report.doubt) == (CHEAP, None, None)
    assert report.ratio == pytest.approx(1, abs=1e-3)
    runs = {trial.settings: trial.runs for trial in report.trials}
    timed = (DENSEST, USUAL, CHEAP, SPARSEST)
    assert [runs[settings] for settings in timed] == [1 + TURNS] * 4
    assert {count for settings, count in runs.items() if settings not in timed} == {1}
    assert any(
        line.startswith("the default (5 a second") and "measured 5.00 times as fast, 5.00 times were" in line
        for line in report.lines()
    )


def test_a_choice_that_measures_slower_and_worse_than_the_default_is_not_kept(
    tuned: Callable[..., TuneReport],
) -> None:
    """It was kept in spite of the table above it: 6.0x and 4.3 % lost, the default 8.2x and 3.7 %."""
    report = tuned(MadeUpTimes({CHEAP: [6.0]}))
    lost = {trial.settings: trial.loss for trial in report.trials}
    assert lost[CHEAP] >= lost[USUAL]
    assert report.profile.settings == USUAL
    assert report.profile.measured_speed == pytest.approx(0.2)
    assert report.profile.loss == lost[USUAL]
    assert report.rejected is not None and report.rejected.settings == CHEAP
    assert report.rejected.predicted_speed == pytest.approx(1, abs=1e-3)
    assert report.rejected.measured_speed == pytest.approx(1 / 6)
    lines = report.lines()
    assert "chosen: 5 a second, 416 pixels, 4 crops a track" in lines
    assert any(
        line.startswith(
            "this is the default: 1 a second, 256 pixels, 2 crops a track was predicted at 1.0x, but measured"
            " 0.2x, no faster than the default's 0.2x, and its loss of"
        )
        for line in lines
    )
    assert report.doubt in lines and "(1 a second, 256 pixels, 2 crops a track: ratio 6.00)" in report.doubt
    assert "panorama tune again when it is idle" in report.doubt
    told = report.as_dict()
    assert told["profile"]["settings"]["samples_per_second"] == told["default"]["samples_per_second"] == 5.0
    assert told["rejected"]["settings"]["samples_per_second"] == 1.0
    assert told["doubt"] == report.doubt
    (of_it,) = (t for t in told["trials"] if t["crops_per_track"] == 2)
    assert (of_it["ratio"], of_it["runs"]) == (pytest.approx(6, abs=1e-2), 1 + 2 * TURNS)


def test_a_burst_of_other_work_is_waited_out_by_timing_once_more(tuned: Callable[..., TuneReport]) -> None:
    told: list[str] = []
    report = tuned(MadeUpTimes({CHEAP: [6.0] * (1 + TURNS) + [1.0]}), tell=told.append)
    assert (report.profile.settings, report.rejected, report.doubt) == (CHEAP, None, None)
    assert report.profile.measured_speed == pytest.approx(1)
    assert {t.settings: t.runs for t in report.trials}[CHEAP] == 1 + 2 * TURNS
    assert told[-1] == "the measured speeds contradict the predicted ones; timing once more ..."


def test_a_choice_that_is_faster_but_not_as_predicted_is_kept_and_doubted(
    tuned: Callable[..., TuneReport],
) -> None:
    report = tuned(MadeUpTimes({CHEAP: [2.0], USUAL: [1.1]}))
    assert (report.profile.settings, report.rejected) == (CHEAP, None)
    assert (
        report.doubt is not None and "(1 a second, 256 pixels, 2 crops a track: ratio 2.00)" in report.doubt
    )
    report = tuned(MadeUpTimes({CHEAP: [1.19]}))
    assert report.doubt is None, "the promise is 20 %"


def test_a_default_that_is_not_as_fast_as_predicted_is_doubted_too(tuned: Callable[..., TuneReport]) -> None:
    report = tuned(MadeUpTimes({USUAL: [0.5]}))
    assert report.profile.settings == CHEAP
    assert (
        report.doubt is not None and "(5 a second, 416 pixels, 4 crops a track: ratio 0.50)" in report.doubt
    )


def test_a_slower_choice_that_loses_less_than_the_default_is_kept(tuned: Callable[..., TuneReport]) -> None:
    report = tuned(MadeUpTimes(), most_loss=0.0)
    lost = {trial.settings: trial.loss for trial in report.trials}
    assert lost[report.profile.settings] == 0 < lost[USUAL]
    assert report.profile.measured_speed < report.usual.measured_speed
    assert (report.rejected, report.doubt) == (None, None)


def test_a_speed_that_is_asked_for_is_held_against_the_default_as_well(
    tuned: Callable[..., TuneReport],
) -> None:
    slow = {settings: [6.0] for settings in grid() if settings.samples_per_second == 1}
    del slow[SPARSEST]  # it predicts that all of them reach the speed
    report = tuned(MadeUpTimes(slow), most_loss=None, least_speed=0.9)
    assert report.profile.settings == USUAL
    assert report.rejected is not None and report.rejected.settings in slow


@pytest.mark.parametrize(
    ("speed", "loss", "gains"),
    [(8.3, 0.05, True), (8.2, 0.037, False), (6.0, 0.043, False), (6.0, 0.036, True), (8.2, 0.043, False)],
)
def test_a_setting_gains_on_another_if_it_is_faster_or_loses_less(
    speed: float, loss: float, gains: bool
) -> None:
    assert Trial(CHEAP, 11.8, speed, loss).gains_on(Trial(USUAL, 8.4, 8.2, 0.037)) is gains


def test_the_command_says_what_it_does_not_keep_and_index_finds_nothing_to_do_again(
    run: Callable[..., Ran], film: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every later `index` said that all videos were indexed with other settings, and how to do it again."""
    assert run("index", "films", "--model", "color-bands").status == 0
    words = ("tune", film, "--seconds", "4", "--loss", "0.99")
    monkeypatch.setattr(search, "index_sample", MadeUpTimes({CHEAP: [6.0]}))
    ran = run(*words)
    assert ran.status == 0 and "no faster than the default's" in ran.out
    assert "kept: `panorama index` uses the default for new videos" in ran.err
    monkeypatch.setattr(search, "index_sample", MadeUpTimes({CHEAP: [6.0]}))
    told = run(*words, "--json")
    assert told.json["rejected"] is not None and told.json["doubt"] in told.err
    assert run("info", "--json").json["profile"] == told.json["profile"]
    assert "other settings" not in run("index", "films").err
