"""Bands set from sure pairs and best strangers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Ran
from fakes import COLORS, ColoredThings, Thing, thing_picture, write_film

import panorama
from panorama.album.examples import GEOMETRY
from panorama.album.recurring import _appearances
from panorama.answering.calibration import (
    SETTING,
    calibrations_for,
    measured_with,
    told,
    write_calibration,
)
from panorama.errors import AccuracyError, ModelError, UsageError
from panorama.judging.calibrate import (
    EntityChange,
    _losses,
    _report,
    calibrate,
    fit,
    reset_calibration,
)
from panorama.judging.own_pairs import OwnCrops, Pairs, pairs_of, pooled_strangers, values_of
from panorama.models.base import Cohort
from panorama.models.color import ColorEmbedder
from panorama.query.matching.decide import Calibration, bands
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN
from panorama.query.matching.promises import SETTING as EVIDENCE
from panorama.query.matching.promises import Evidence, promised
from panorama.query.matching.scoring import SCAN_ROWS, Sought, score_tracks
from panorama.query.matching.track_rows import TrackGroups, TrackRows
from panorama.query.shorthands.terms import Contract

RNG = np.random.default_rng(0)
SAME = RNG.normal(0.7, 0.1, 500).astype(np.float32)
STRANGER = RNG.normal(0.1, 0.05, 500).astype(np.float32)
PLAIN = Calibration(0.5, 20.0, 0.1, 0.5, 0.75)


def test_the_border_lets_the_stated_share_of_best_strangers_through() -> None:
    calibration = fit(SAME, STRANGER, precision=0.95, rules=PLAIN)
    accepted = bands(STRANGER, calibration, best=0.0) == ACCEPTED
    assert accepted.mean() == pytest.approx(0.05, abs=0.01)


def test_no_more_than_the_stated_share_of_best_strangers_is_let_through() -> None:
    """The border lay between two of them: 0.053 to 0.064 of them reached that of a precision of 0.95."""
    for count in (20, 21, 39, 107, 171):
        for precision in (0.5, 0.8, 0.9, 0.95, 0.99):
            stranger = STRANGER[:count]
            calibration = fit(SAME, stranger, precision, PLAIN)
            reach = int((bands(stranger, calibration, best=0.0) == ACCEPTED).sum())
            assert reach <= (1 - precision) * count + 1e-9 < reach + 1


def test_a_recall_accepts_the_stated_share_of_sure_pairs() -> None:
    for recall in (0.6, 0.9):
        calibration = fit(SAME, STRANGER, precision=0.95, rules=PLAIN, recall=recall)
        accepted = bands(SAME, calibration, best=0.0) == ACCEPTED
        assert accepted.mean() == pytest.approx(recall, abs=0.01)


def test_no_less_than_the_stated_share_of_sure_pairs_is_accepted() -> None:
    for count in (20, 21, 39):
        for recall in (0.5, 0.75, 0.9, 0.99):
            calibration = fit(SAME[:count], STRANGER, precision=0.95, rules=PLAIN, recall=recall)
            reach = int((SAME[:count] >= calibration.normalised(calibration.high) - 1e-6).sum())
            assert reach - 2 < recall * count <= reach + 1e-9


def test_what_is_far_above_strangers_is_accepted_and_the_typical_one_rejected() -> None:
    calibration = fit(SAME, STRANGER, precision=0.99, rules=PLAIN)
    values = np.array([0.9, float(np.quantile(STRANGER, 0.8)), 0.0], np.float32)
    assert list(bands(values, calibration)) == [ACCEPTED, UNCERTAIN, REJECTED]


def test_a_higher_precision_accepts_less() -> None:
    fits = [fit(SAME, STRANGER, p, PLAIN) for p in (0.8, 0.95, 0.99)]
    borders = [one.normalised(one.high) for one in fits]
    assert borders == sorted(borders)


def test_less_alike_than_strangers_is_never_accepted() -> None:
    calibration = fit(SAME, STRANGER - 1, precision=0.95, rules=PLAIN)
    assert list(bands(np.array([-0.1], np.float32), calibration)) != [ACCEPTED]
    assert calibration.normalised(calibration.high) == pytest.approx(0.0)


def test_half_a_score_is_the_border_of_acceptance() -> None:
    assert fit(SAME, STRANGER, 0.95, PLAIN).high == pytest.approx(0.5)


def test_rules_that_compare_tracks_stay_as_the_model_ships_them() -> None:
    shipped = Calibration(0.44, 20, 0.04, 0.5, 0.65, near_in_video=0.93, carried=0.7, fade=3, beside=0.1)
    found = fit(SAME, STRANGER, 0.95, shipped)
    kept = ("near_best", "near_in_video", "carried", "fade", "beside")
    assert [getattr(found, name) for name in kept] == [0.65, 0.93, 0.7, 3, 0.1]
    assert found.centre != shipped.centre


def test_an_exit_that_only_sends_on_goes_on_doing_so() -> None:
    found = fit(SAME, STRANGER, 0.95, Calibration(0.4, 20, 0.05, 1.0, 0.65))
    values = np.array([0.0, 0.9], np.float32)
    assert list(bands(values, found)) == [REJECTED, UNCERTAIN]


def test_appearances_are_counted_apart_and_overlaps_once() -> None:
    spans = [("a", 0.0, 2.0), ("a", 1.0, 3.0), ("a", 10.0, 11.0), ("b", 0.0, 1.0)]
    assert _appearances(spans) == (3, 5.0)
    soon = ("a", 5.0, 6.0)  # two seconds after the end of what was there before
    assert _appearances([*spans, soon]) == (3, 6.0)


def films_of_things_that_come_back(folder: Path) -> Path:
    """Ten films of two things each, all of which are seen in other films, too."""
    colors = [*COLORS, *COLORS]
    for number in range(10):
        things = [Thing(colors[number], 0, 40, top=10), Thing(colors[number // 2 + 1], 0, 40, top=70)]
        write_film(folder / "films" / f"{number}.mp4", things)
    return folder / "films"


def test_a_model_that_ships_with_no_bands_gets_them_from_the_library(
    tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    with panorama.open(tmp_path / "library") as library:
        library.index(films_of_things_that_come_back(tmp_path), model="color-bands")
        library.register("red", thing_picture("red"))
        library.embedder.folder = tmp_path
        with pytest.raises(ModelError, match=r"no calibration; make one with panorama .*calibrate"):
            library.query("SELECT tracks WHERE entity = 'red'")
        found = calibrate(library)
        (report,) = found.exits
        assert found.taken and found.doubts and found.changes == ()
        assert report.calibration.near_best == 0.75 and report.examples >= 20
        assert len(repr(found)) < 1000 and "recurring=" in repr(found)  # a notebook prints it
        assert len(library.query("SELECT tracks WHERE entity = 'red' AND band <> 'rejected'")) > 0
        (tmp_path / "calibration.json").write_text('{"exits": []}')
        with pytest.raises(ModelError, match=r"0 calibrations; repair or remove .*calibration.json"):
            calibrate(library)
        (tmp_path / "calibration.json").unlink()
        with pytest.raises(ModelError, match=r"ships with no calibration to go back to.*keeps its own"):
            reset_calibration(library)
        assert len(library.query("SELECT tracks WHERE entity = 'red' AND band <> 'rejected'")) > 0


def test_where_things_come_back_the_bands_stay_unless_they_are_taken_anyway(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """What is seen again was taken for strangers: the library accepted next to nothing afterwards."""
    films_of_things_that_come_back(tmp_path)
    assert run("index", "films", "--model", "color-bands").status == 0
    with panorama.open("panorama-library") as library:
        library.register("red", thing_picture("red"))
        shipped, measured = library.calibrations, measured_with(library.embedder)
    done = run("calibrate", "--out", "bands.json", "--json")
    assert done.status == 3 and "20 of 20 examples are seen again in other videos" in done.err
    assert "can show no precision, but the target was 0.95" in done.err
    assert "the bands are unchanged" in done.err and "--anyway" in done.err
    assert not (tmp_path / "bands.json").exists()
    assert "--json and --out -" in run("calibrate", "--out", "-", "--json").err
    assert done.json[0]["recurring"] == 20 and done.json[0]["stranger"] is None
    with panorama.open("panorama-library") as library:
        assert library.calibrations == shipped
        assert library.setting(EVIDENCE + measured)
    done = run("calibrate", "--out", "bands.json", "--anyway")
    assert done.status == 0 and (tmp_path / "bands.json").exists() and "stay" not in done.err
    with panorama.open("panorama-library") as library:
        assert library.calibrations != shipped
        written = json.loads((tmp_path / "bands.json").read_text())
        assert [Calibration(**row) for row in written["exits"]] == list(library.calibrations)
    done = run("calibrate", "--out", "-", "--anyway")
    assert done.status == 0 and done.out == (tmp_path / "bands.json").read_text()
    assert not (tmp_path / "-").exists()  # the bands were written to a file of that name
    for option in ("--anyway", "--json"):
        assert f"leave out {option}" in run("calibrate", "--reset", option).err


def test_a_file_that_cannot_be_written_leaves_the_bands_as_they_were(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """The bands applied, and the only word was that the file cannot be written."""
    films_of_things_that_come_back(tmp_path)
    assert run("index", "films", "--model", "color-bands").status == 0
    (tmp_path / "file").write_text("no folder")
    with panorama.open("panorama-library") as library:
        shipped = library.calibrations
    done = run("calibrate", "--anyway", "--out", "file/bands.json")
    assert done.status == 1 and not done.out
    assert "file/bands.json cannot be written" in done.err
    assert "the bands of the library are unchanged. Name another file" in done.err
    with panorama.open("panorama-library") as library:
        assert library.calibrations == shipped
        assert not library.setting(EVIDENCE + measured_with(library.embedder))
    done = run("calibrate", "--anyway", "--out", "films/0.mp4")
    assert done.status == 2 and "0.mp4 is a video of the library" in done.err


def loosened(library: panorama.Library) -> list[Calibration]:
    """Register an orange thing, which is not there, and make bands that accept eight red tracks for it."""
    orange = thing_picture("red") * 0.6 + thing_picture("yellow") * 0.4
    library.register("orange", orange.astype(np.uint8))
    return [replace(one, centre=0.01) for one in library.calibrations]


def test_bands_that_lose_most_of_what_was_accepted_are_told_by_entity_and_not_taken(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch
) -> None:
    films_of_things_that_come_back(tmp_path)
    run("index", "films", "--model", "color-bands")
    with panorama.open("panorama-library") as library:
        before = loosened(library)
        (tmp_path / "model").mkdir()
        write_calibration(tmp_path / "model" / "calibration.json", before)
        monkeypatch.setattr(ColorEmbedder, "folder", tmp_path / "model")
        found = calibrate(library, recall=0.9)
        assert found.changes == (EntityChange("orange", 8, 0),)
        (told,) = found.doubts
        assert told.startswith(
            "of the 8 tracks that the model's bands accept for registered entities, 0 would"
        )
        assert not found.taken and list(library.calibrations) == before
    done = run("calibrate", "--recall", "0.9")
    assert done.status == 3 and "orange: 8 tracks accepted before, it would be 0" in done.err
    assert "1 registered entity: 8 tracks accepted before, it would be 0" in done.err
    done = run("calibrate", "--recall", "0.9", "--anyway")
    assert done.status == 0 and "orange: 8 tracks accepted before, now 0" in done.err
    with panorama.open("panorama-library") as library:
        assert len(library.query("SELECT tracks WHERE entity = 'orange'")) == 0


def test_the_verdict_on_bands_does_not_depend_on_what_was_calibrated_before(
    tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    """After looser bands the same calibration was refused, for a loss that was theirs."""
    with panorama.open(tmp_path / "library") as library:
        library.index(films_of_things_that_come_back(tmp_path), model="color-bands")
        loose = loosened(library)
        key = SETTING + measured_with(library.embedder)
        first = calibrate(library, recall=0.9)
        library.put_setting(key, [one.as_dict() for one in loose])
        again = calibrate(library, recall=0.9)
        assert first.taken and first.doubts == again.doubts == () and again.taken
        assert again.changes == (EntityChange("orange", 8, 0),)
        # Without bands of the model there are only those of before.
        library.embedder.folder = tmp_path
        library.put_setting(key, [one.as_dict() for one in loose])
        (told,) = calibrate(library, recall=0.9).doubts
        assert told.startswith(
            "of the 8 tracks that the bands so far accept for registered entities, 0 would"
        )


def test_half_of_what_was_accepted_may_go() -> None:
    assert _losses("these", accepted=6, left=3) == ()
    (told,) = _losses("these", accepted=7, left=3)
    assert told.startswith("of the 7 tracks that these accept for registered entities, 3 would be left")
    assert _losses("these", accepted=0, left=0) == ()


def test_a_precision_is_doubted_from_where_what_is_seen_again_unknown_would_err() -> None:
    """38 of 145 are known for it, so as many of the other 107 may be: a share of 0.645 are strangers."""
    pairs = Pairs(SAME[:145], STRANGER[:107], 38, np.arange(200))
    (told,) = _report(1, pairs, PLAIN, 0.65, 0.0, None).doubts
    assert (
        told.startswith("38 of 145 examples are seen again") and "show a precision of 0.644 at most" in told
    )
    assert _report(1, pairs, PLAIN, 0.644, 0.0, None).doubts == ()
    assert _report(1, pairs, PLAIN, 0.95, 0.0, 0.8).doubts == ()
    assert _report(1, pairs, replace(PLAIN, high=1.0), 0.95, 0.0, None).doubts == ()
    assert _report(1, replace(pairs, recurring=0), PLAIN, 0.95, 0.0, None).doubts == ()


def test_what_may_be_seen_again_does_not_count_for_what_is_rejected() -> None:
    stranger = np.linspace(0.1, 0.5, 41, dtype=np.float32)
    found = fit(SAME, stranger, 0.95, PLAIN, doubtful=20)
    assert found.normalised(found.low) == pytest.approx(0.2, abs=1e-3)
    alone = fit(SAME, stranger, 0.95, PLAIN, doubtful=41)
    assert alone.normalised(alone.low) == pytest.approx(0.0, abs=1e-3)


def hand_made_crops(tracks: list[int], boxes: list[list[float]]) -> OwnCrops:
    """One crop of each of some tracks, all in view from 0 to 2 s."""
    count, ids = len(tracks), np.array(tracks, np.int64)
    zeros = np.zeros(count)
    return OwnCrops(
        np.arange(count), ids, zeros, np.ones(count, np.float32), zeros, zeros + 2,
        np.array(boxes, np.float32), zeros > 0, TrackGroups.of(ids),
    )  # fmt: skip


def test_strangers_of_one_video_are_elsewhere_in_the_picture() -> None:
    """A part of the thing, tracked beside the whole of it, was the best stranger of the whole."""
    whole, part, beside = [10, 10, 50, 90], [20, 40, 45, 60], [60, 10, 90, 90]
    values = np.array([1.0, 0.8, 0.3], np.float32)
    crops = hand_made_crops([1, 2, 3], [whole, part, beside])
    assert pooled_strangers(crops, values, 0) == pytest.approx([0.3])
    later = replace(crops, starts=np.array([0.0, 0.0, 5.0]), ends=np.array([2.0, 2.0, 7.0]))
    assert not len(pooled_strangers(later, values, 0)), "at another time it may be the thing itself"


def twins(second_video: int) -> Pairs:
    """Pairs of two things that look as alike as each looks like itself, side by side for two seconds."""
    tracks = np.array([1, 1, 2 + (second_video << 32), 2 + (second_video << 32)], np.int64)
    boxes = np.array([[10, 10, 50, 90]] * 2 + [[60, 10, 90, 90]] * 2, np.float32)
    zeros = np.zeros(4)
    crops = OwnCrops(
        np.arange(4), tracks, np.array([0.0, 2.0, 0.0, 2.0]), np.ones(4, np.float32), zeros, zeros + 2, boxes,
        zeros > 0, TrackGroups.of(tracks),
    )  # fmt: skip
    vectors = np.tile(np.array([1, 0], np.float32), (4, 1))
    return pairs_of(
        crops, vectors, np.array([0, 2]), vectors[[0, 2], None], Cohort.plain(np.zeros((0, 2), np.float32))
    )


def test_what_is_beside_an_example_is_a_stranger_however_alike_it_is() -> None:
    """Of one video, things that were certainly others were left out as seen again in other videos."""
    beside = twins(second_video=0)
    assert beside.recurring == 0 and beside.stranger == pytest.approx([1.0, 1.0])
    elsewhere = twins(second_video=1)
    assert elsewhere.recurring == 2 and not len(elsewhere.stranger)


def film_of_turns(path: Path, first: int = 0) -> None:
    """Two dozen things of five colours, one after the other, at two places in turn."""
    colors = [list(COLORS)[(n + first) % 5] for n in range(24)]
    turns = [Thing(c, 25 * n, 25 * n + 18, top=10 + 70 * (n % 2)) for n, c in enumerate(colors)]
    write_film(path, turns, frames=600)


def test_nothing_is_promised_by_tracks_that_are_no_longer_there(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """It was promised by two dozen examples "among this library's own tracks", none of them in it."""
    film_of_turns(tmp_path / "turns.mp4")
    film_of_turns(tmp_path / "others.mp4", first=2)
    run("index", "turns.mp4", "--model", "color-bands")
    assert run("calibrate", "--recall", "0.8").status == 0
    with panorama.open("panorama-library") as library:
        [shown] = library.query("SELECT crop_id FROM crops WHERE time BETWEEN 0.4 AND 1 LIMIT 1").fetchall()
        library.register("red", [library.crop(shown["crop_id"])])  # the first thing, as it looks in the film
    asked = ("query", "SELECT tracks WHERE entity = 'red' WITH RECALL >= 0.8")
    assert run(*asked).status == 0
    assert run("remove", "turns.mp4").status == 0 and run("index", "others.mp4").status == 0
    done = run(*asked)
    assert done.status == 1 and "from videos that were indexed after it was calibrated" in done.err
    assert run("calibrate", "--recall", "0.8", "--anyway").status == 0
    assert "indexed after" not in run(*asked).err


def test_a_recall_needs_no_strangers(run: Callable[..., Ran], tmp_path: Path) -> None:
    """It was refused where one thing comes at a time, because a precision cannot be measured there."""
    film_of_turns(tmp_path / "turns.mp4")
    assert run("index", "turns.mp4", "--model", "color-bands").status == 0
    done = run("calibrate")
    assert done.status == 2 and "no two tracks are certain to show different things" in done.err
    assert "aim at a recall: panorama calibrate --recall 0.9" in done.err
    done = run("calibrate", "--recall", "0.8", "--json")
    assert done.status == 0 and done.json[0]["stranger"] is None and done.json[0]["accepted"] >= 0.8
    with panorama.open("panorama-library") as library:
        library.register("red", thing_picture("red"))
        with pytest.raises(AccuracyError, match="0 examples of this library support at most 0\\."):
            library.query("SELECT tracks WHERE entity = 'red' WITH PRECISION >= 0.5")


def calibrated_by_itself(library: panorama.Library, folder: Path) -> tuple[Calibration, ...]:
    """Give a library a film and a calibration of its own, which then applies; the model's."""
    write_film(folder / "one.mp4", [Thing("red", 0, 40)])
    library.index(folder / "one.mp4", model="color-bands")
    shipped = library.calibrations
    assert told(library.embedder, library.snapshot().settings) == "the model's"
    own = [replace(one, high=0.9) for one in shipped]
    library.put_setting(SETTING + measured_with(library.embedder), [one.as_dict() for one in own])
    assert list(library.calibrations) == own
    assert told(library.embedder, library.snapshot().settings) == "the library's own"
    return shipped


def test_what_was_measured_with_fewer_views_of_an_example_counts_no_longer(
    tmp_path: Path, fake_proposer: ColoredThings, monkeypatch
) -> None:
    with panorama.open(tmp_path / "library") as library:
        shipped = calibrated_by_itself(library, tmp_path)
        monkeypatch.setitem(GEOMETRY, "upside down", lambda rgb: rgb[::-1])
        assert library.calibrations == shipped
        assert "measured with other views" in told(library.embedder, library.snapshot().settings)


def test_what_was_measured_among_other_strangers_counts_no_longer(
    tmp_path: Path, fake_proposer: ColoredThings, monkeypatch
) -> None:
    with panorama.open(tmp_path / "library") as library:
        shipped = calibrated_by_itself(library, tmp_path)
    fewer = ColorEmbedder().cohort()[:, 1:]
    monkeypatch.setattr(ColorEmbedder, "cohort", lambda self: fewer)
    with panorama.open(tmp_path / "library") as library:
        assert library.calibrations == shipped
        assert "other strangers" in told(library.embedder, library.snapshot().settings)


@dataclass
class Rows:
    crop_ids: np.ndarray
    track_ids: np.ndarray
    vectors: np.ndarray


@dataclass
class Registered:
    vectors: np.ndarray
    entities = ("one",)
    categories = frozenset()

    def __post_init__(self) -> None:
        self.entity_index = self.exemplar_ids = np.zeros(len(self.vectors), np.int64)
        self.negative = self.denied = np.zeros(len(self.vectors), bool)


def test_an_example_has_the_values_that_a_registered_picture_has() -> None:
    unit = RNG.normal(size=(SCAN_ROWS + 40, 6)).astype(np.float32)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    views, cohort, crops = unit[:9].reshape(3, 3, 6), unit[9:30], unit[30:]
    ids = np.arange(len(crops))
    for seen, values in zip(views, values_of(views, crops, Cohort.plain(cohort)), strict=True):
        sought = Sought.of(Registered(seen), "one", Cohort.plain(cohort))
        (alone,) = score_tracks([sought], Rows(ids, ids, crops), TrackRows.of(ids), ids, None)
        np.testing.assert_allclose(values, alone.normalised, atol=1e-5)


def test_a_precision_in_percent_is_told_how_it_is_written(run: Callable[..., Ran], tmp_path: Path) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=12)
    run("index", "a.mp4", "--model", "color-bands")
    assert "got 95.0; 95 % is written 0.95" in run("calibrate", "--precision", "95").err
    assert "a target recall is between 0.5 and 1, got 90.0" in run("calibrate", "--recall", "90").err
    assert "a target precision is between 0.5 and 1, got 1.0" in run("calibrate", "--precision", "1").err
    assert "slack is between 0 and 0.5, got 0.6" in run("calibrate", "--slack", "0.6").err
    assert "give one target" in run("calibrate", "--recall", "0.9", "--precision", "0.9").err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 200_000, "is not a calibration: its brackets are nested too deeply"),
        ('{"exits": [{"centre": NaN, "slope": 8, "low": 0, "high": 1, "near_best": 1}]}', "centre is nan"),
        ('{"exits": [{"centre": 0, "slope": 1e999, "low": 0, "high": 1, "near_best": 1}]}', "slope is inf"),
        ('{"exits": [{"centre": "a"}]}', "is malformed"),
        ('{"exits": [5]}', "is malformed"),
    ],
)
def test_a_calibration_of_what_is_no_number_is_refused(text: str, told: str, tmp_path: Path) -> None:
    """Deep brackets ended as a defect; with NaN and 1e999 every track had the score 0 or 1."""
    embedder = ColorEmbedder()
    embedder.folder = tmp_path
    (tmp_path / "calibration.json").write_text(text)
    with pytest.raises(ModelError, match=told + r".*repair or remove"):
        calibrations_for(embedder, {})


def test_a_target_that_so_few_examples_cannot_support_is_told() -> None:
    """It was accepted without a word, though WITH PRECISION of less was refused on the same library."""
    pairs = Pairs(SAME[:68], STRANGER[:68], 0, np.arange(200))
    (told,) = _report(1, pairs, PLAIN, 0.9999, 0.0, None).warnings
    assert told.startswith("the target was a precision of 0.9999, but 68 examples of this library support at")
    assert "at most 0.956, with 95% confidence" in told
    (told,) = _report(1, pairs, PLAIN, 0.95, 0.0, 0.96).warnings
    assert told.startswith("the target was a recall of 0.96")
    assert _report(1, pairs, PLAIN, 0.95, 0.0, None).warnings == ()
    only_sends_on = replace(PLAIN, high=1.0)
    assert _report(1, pairs, only_sends_on, 0.9999, 0.0, None).warnings == ()
    evidence = (Evidence(tuple(SAME[:68]), tuple(STRANGER[:68]), 200),)
    with pytest.raises(AccuracyError, match=r"at most 0\.956\."):
        promised(Contract("precision", 0.97), (PLAIN,), evidence, 1, np.arange(200))


def test_slack_that_silences_is_doubted_and_one_that_misses_a_recall_is_told() -> None:
    """Slack of 0.4 moved a border to 1.064, which nothing reaches, without a word."""
    pairs = Pairs(SAME, STRANGER, 0, np.arange(200))
    wide = replace(pairs, same=np.minimum(SAME, 0.98), stranger=np.float32(8) * STRANGER - np.float32(0.6))
    report = _report(1, wide, PLAIN, 0.95, 0.4, None)
    (told,) = report.doubts
    assert report.accepted == 0 and report.border == pytest.approx(0.99)
    assert told.startswith("the slack of 0.4 moves the border from 0.768 to 0.990, which 0 of 500")
    assert "choose a smaller slack" in told
    wide.same[:3] = 0.995  # hardly better than none
    (told,) = _report(1, wide, PLAIN, 0.95, 0.4, None).doubts
    assert "which 3 of 500 examples reach" in told
    silent = replace(pairs, stranger=np.float32(1.2) + STRANGER)
    (told,) = _report(1, silent, PLAIN, 0.95, 0.0, None).doubts
    assert told.startswith("no example's own track reaches the border of 1.3") and "slack" not in told
    (told,) = _report(1, pairs, PLAIN, 0.95, 0.1, 0.9).warnings
    assert told.startswith("the target was a recall of 0.9, but with a slack of 0.1 only 0.8")
    for recall in (0.9, None):
        report = _report(1, pairs, PLAIN, 0.95, 0.0, recall)
        assert report.doubts == report.warnings == ()
    assert _report(1, wide, replace(PLAIN, high=1.0), 0.95, 0.4, None).doubts == ()


def test_two_targets_are_refused_and_a_reset_goes_back(tmp_path: Path, fake_proposer: ColoredThings) -> None:
    """From Python the precision was ignored where a recall was given; there was no way back."""
    with panorama.open(tmp_path / "library") as library:
        shipped = calibrated_by_itself(library, tmp_path)
        with pytest.raises(UsageError, match=r"give one target.*precision=0\.99 and recall=0\.9"):
            calibrate(library, precision=0.99, recall=0.9)
        evidence = EVIDENCE + measured_with(library.embedder)
        library.put_setting(evidence, [Evidence((0.7,), (0.1,), 200).as_dict()])
        reset_calibration(library)
        assert library.calibrations == shipped
        assert not library.setting(evidence)
