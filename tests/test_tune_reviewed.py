"""`panorama tune` by reviewed answers: where they lie in a sample, and which settings tell them otherwise."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import ColoredThings, Thing, thing_picture, write_film, write_picture

import panorama
from panorama.album.entities import Entity
from panorama.answering.answerer import Answering
from panorama.answering.calibration import SETTING, measured_with, own_calibration
from panorama.errors import UnknownVideo
from panorama.indexing.settings import IngestSettings, Work
from panorama.indexing.stages import Indexer
from panorama.store import Reviewed, Store
from panorama.store.catalog.album import LONGEST_NAME, check_name
from panorama.tune import tune
from panorama.tune.choice import SPARSEST, USUAL
from panorama.tune.reviewed import (
    LEAST_REVIEWED,
    Mark,
    Review,
    moments_together,
    name_of,
    review_of,
    said_of,
    start_around,
)
from panorama.tune.sample import Answers, Scratch, choose_stretches, index_sample, loss_between
from panorama.video import find_videos

COLORS = ("red", "green", "blue")


@pytest.fixture
def library(tmp_path: Path, fake_proposer: ColoredThings) -> panorama.Library:
    """A film of red, green and blue things, one after the other, indexed; red is registered by a picture."""
    library = panorama.open(tmp_path / "library", create=True)
    library.use_model("color-bands")
    things = [Thing(COLORS[i % 3], 20 * i, 20 * i + 15) for i in range(6)]
    library.index(write_film(tmp_path / "films" / "a.mp4", things, frames=120))
    library.register("red thing", write_picture(tmp_path / "red.png", thing_picture("red")))
    return library


def track_at(library: panorama.Library, seconds: float) -> int:
    """The longest track in sight at a time."""
    sql = (
        "SELECT track_id FROM tracks WHERE start_time <= ? AND end_time > ? "
        "ORDER BY end_time - start_time DESC, track_id LIMIT 1"
    )
    return int(library.query(sql, [seconds, seconds]).fetchall()[0][0])


def test_what_was_said_of_an_answer_is_kept_with_its_place_until_it_is_unsaid(
    tmp_path: Path, library: panorama.Library
) -> None:
    film = tmp_path / "films" / "a.mp4"
    assert library.reviewed(film) == [], "a picture from elsewhere is no answer"
    with pytest.raises(UnknownVideo, match=r"no video 'b\.mp4'\. Did you mean 'a\.mp4'"):
        library.reviewed("b.mp4")
    right, wrong = track_at(library, 1), track_at(library, 3)
    library.register_seen("red thing", track_ids=[right])
    library.register_seen("red thing", track_ids=[wrong], look_alike=True)
    said = library.reviewed(film)
    assert [(one.entity, one.right) for one in said] == [("red thing", True), ("red thing", False)]
    assert library.reviewed(film.name) == said, "by its name in the library"
    crop = library.query("SELECT * FROM crops WHERE track_id = ?", [right]).arrow().to_pylist()
    assert (said[0].frame, said[0].seconds) in {(row["frame"], row["time"]) for row in crop}
    assert said[0].box_xyxy in {(row["x1"], row["y1"], row["x2"], row["y2"]) for row in crop}

    library.index(
        film, settings=IngestSettings(10.0), redo=True
    )  # its rows are others, its content is the same
    assert library.reviewed(film) == said
    library.remove_exemplar(said[0].exemplar_id)
    assert library.reviewed(film) == said[1:]
    library.forget("red thing")
    assert library.reviewed(film) == []


def test_what_was_cut_out_by_hand_is_kept_with_its_place_where_the_library_holds_the_file(
    tmp_path: Path, library: panorama.Library
) -> None:
    film = tmp_path / "films" / "a.mp4"
    crop = library.query("SELECT * FROM crops ORDER BY time LIMIT 1").arrow().to_pylist()[0]
    x, y = int(crop["x1"]), int(crop["y1"])
    box = x, y, x + 20, y + 16
    library.register_from_video("red thing", film, crop["time"], box)
    library.register_from_video("other", str(film), crop["time"], f"{x},{y},{x + 12},{y + 12}")
    third = x - 4, y - 4, x + 30, y + 30
    library.register_from_video("other", film.name, crop["time"], third, look_alike=True)
    said = library.reviewed(film)
    assert [(one.entity, one.right) for one in said] == [
        ("red thing", True),
        ("other", True),
        ("other", False),
    ]
    assert (said[0].frame, said[0].seconds) == (crop["frame"], pytest.approx(crop["time"], abs=1e-6))
    assert said[0].box_xyxy == box and said[2].box_xyxy == third
    # Of a file that the library does not hold, or that has changed since, there is nothing to be asked.
    shutil.copy(film, tmp_path / "elsewhere.mp4")
    library.register_from_video("red thing", tmp_path / "elsewhere.mp4", crop["time"], (x, y, x + 14, y + 14))
    os.utime(film, ns=(0, 0))
    library.register_from_video("red thing", film, crop["time"], (x, y, x + 15, y + 15))
    assert library.reviewed(film) == said


def test_stretches_are_laid_where_most_of_the_answers_are() -> None:
    box = (0.0, 0.0, 1.0, 1.0)

    def at(*moments: float) -> list[Reviewed]:
        return [Reviewed(1, "x", True, round(10 * t), t, box, Path()) for t in moments]

    a, b = Path("a.mp4"), Path("b.mp4")
    said = {a: at(2.0, 30.0, 31.0, 90.0), b: at(5.0, 4.0, 6.5)}
    together = [(b, [4.0, 5.0, 6.5]), (a, [30.0, 31.0]), (a, [2.0])]
    assert moments_together(said, 4.0, 3) == together
    assert moments_together(said, 4.0, 9) == [*together, (a, [90.0])], "no more than there are"
    assert moments_together({}, 4.0, 4) == []
    assert start_around([30.0, 31.0], 4.0, 100.0) == 28.5
    assert start_around([0.5], 4.0, 100.0) == 0.0, "no sooner than the video"
    assert start_around([99.5], 4.0, 100.0) == 96.0, "and no later"
    assert start_around([1.0], 4.0, 2.0) == 0.0, "a video that is shorter is taken whole"


def test_two_places_of_one_file_are_two_stretches_and_no_answer_counts_twice(
    tmp_path: Path, library: panorama.Library
) -> None:
    library.register_seen("red thing", track_ids=[track_at(library, 1)])
    library.register_seen("blue thing", track_ids=[track_at(library, 11)])
    found = find_videos([tmp_path / "films"])
    stretches, _ = choose_stretches(found, 8.0, said_of(library, found))
    assert [len(stretch.marks) for stretch in stretches] == [1, 1]
    assert {stretch.path.name for stretch in stretches} == {"a.mp4"}
    long, _ = choose_stretches(found, 24.0, said_of(library, found))
    assert sum(len(stretch.marks) for stretch in long) == 2


def test_files_with_answers_are_sampled_first_and_the_answers_lie_in_their_stretch(
    tmp_path: Path, library: panorama.Library
) -> None:
    film = tmp_path / "films" / "a.mp4"
    for number in range(5):
        write_film(tmp_path / "films" / f"{number}.mp4", [], frames=40)
    library.register_seen("red thing", track_ids=[track_at(library, 7)])
    found = find_videos([tmp_path / "films"])
    said = said_of(library, found)
    assert list(said) == [film]
    stretches, _ = choose_stretches(found, 8.0, said)
    assert [s.path.name for s in stretches[:1]] == ["a.mp4"] and len(stretches) == 4
    (mark,) = stretches[0].marks
    with stretches[0].open(threads=1) as reader:
        frames = list(reader.frames())
        assert reader.first_frame + mark.frame == mark.said.frame
        seconds = frames[0].time_seconds + reader.first_frame / 10 + frames[mark.frame].time_seconds
    assert seconds == pytest.approx(mark.said.seconds, abs=0.01)
    assert not any(stretch.marks for stretch in stretches[1:])
    assert all(stretch.path != film for stretch in choose_stretches(found, 8.0)[0][:2])


def answers_at(film: Path, *moments: float) -> dict[Path, list[Reviewed]]:
    """Answers about an entity at moments of a film of ten frames a second."""
    box = (0.0, 0.0, 9.0, 9.0)
    return {film: [Reviewed(n, "x", True, round(10 * t), t, box, Path()) for n, t in enumerate(moments)]}


@pytest.mark.parametrize("gop", [10, 50, 100])
def test_answers_are_in_the_sample_however_far_apart_keyframes_are(tmp_path: Path, gop: int) -> None:
    """A stretch began at the keyframe before and was no longer for it: with one every 250 frames, 4 of 13."""
    film = write_film(tmp_path / "a.mp4", [], frames=300, gop=gop)
    moments = (3.0, 8.0, 9.5, 17.0, 18.0, 19.5, 26.0, 27.0)
    stretches, _ = choose_stretches(find_videos([film]), 24.0, answers_at(film, *moments))
    assert sorted(mark.said.seconds for one in stretches for mark in one.marks) == list(moments)
    assert 24 <= sum(one.seconds for one in stretches) <= 2 * 24
    for one in stretches:
        with one.open(threads=1) as reader:
            frames = list(reader.frames())
            assert reader.first_frame == one.first_frame == round(10 * one.start_seconds)
            assert frames[0].is_keyframe and len(frames) == len(reader.times())
            assert len(frames) == min(round(10 * one.seconds), 300 - reader.first_frame)
        # The lowest rate, once a second, looks once more after each answer.
        assert all(mark.frame + 10 <= len(frames) for mark in one.marks)


def test_no_frame_is_in_two_stretches_and_those_that_would_share_some_are_one(tmp_path: Path) -> None:
    """Of a film with one keyframe, all stretches were the same frames from its beginning."""
    film = write_film(tmp_path / "a.mp4", [], frames=300, gop=300)
    said = answers_at(film, 2.0, 11.0, 16.0, 25.0)
    (only,), _ = choose_stretches(find_videos([film]), 20.0, said)
    assert (only.start_seconds, only.seconds) == (0.0, 20.0), "as long as it was asked for"
    assert [mark.said.seconds for mark in only.marks] == [2.0, 11.0, 16.0]
    film = write_film(tmp_path / "b.mp4", [], frames=120)
    (whole,), _ = choose_stretches(find_videos([film]), 24.0, answers_at(film, 1.0, 11.0))
    assert whole.start_seconds == 0 and len(whole.marks) == 2


def test_a_stretch_at_the_end_of_a_film_is_not_cut_short_by_what_would_come_after(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [], frames=120)
    (last,), _ = choose_stretches(find_videos([film]), 4.0, answers_at(film, 11.8))
    assert (last.start_seconds, last.seconds, len(last.marks)) == (8.0, 4.0, 1)


def test_of_one_track_the_last_answer_counts_and_only_once(tmp_path: Path, library: panorama.Library) -> None:
    """Answers that were taken back counted beside those that replaced them, and each crop of a track."""
    film = tmp_path / "films" / "a.mp4"
    right, wrong = track_at(library, 1), track_at(library, 3)

    def crops(track: int) -> list[int]:
        sql = "SELECT crop_id FROM crops WHERE track_id = ? ORDER BY crop_id"
        return [int(row[0]) for row in library.query(sql, [track]).fetchall()]

    assert len(crops(right)) > 1
    library.register_seen("red thing", crop_ids=crops(right))
    library.register_seen("red thing", crop_ids=crops(wrong)[:1])
    library.register_seen("red thing", crop_ids=crops(wrong)[1:], look_alike=True)
    library.register_seen("other", crop_ids=crops(wrong))
    (said,) = said_of(library, find_videos([film])).values()
    assert [(one.entity, one.right) for one in said if one.entity == "red thing"] == [
        ("red thing", True),
        ("red thing", False),
    ]
    assert [one.right for one in said if one.entity == "other"] == [True]
    library.register_seen("red thing", crop_ids=crops(right)[:1], look_alike=True)
    (said,) = said_of(library, find_videos([film])).values()
    assert [one.right for one in said if one.entity == "red thing"] == [False, False]

    # The other pictures of these tracks would find them.
    marks = [Mark("a.mp4", one.frame, one) for one in said]
    asked = review_of(library, marks, library.embedder).album
    assert [one.source for one in asked[name_of("red thing")]] == [str(tmp_path / "red.png")]


def test_answers_where_no_track_is_count_each(tmp_path: Path, library: panorama.Library) -> None:
    film = tmp_path / "films" / "a.mp4"
    for y in (20, 60):  # half on the thing, half on the ground
        library.register_from_video("red thing", film, 1.0, (10, y, 60, y + 30))
    (said,) = said_of(library, find_videos([film])).values()
    assert len(said) == 2


def with_sample(folder: Path, library: panorama.Library, ask: Callable[[Scratch, Review], None]) -> None:
    """Do something with a library of a sample of the film, and with what is asked of it."""
    found = find_videos([library.path.parent / "films"])
    stretches, _ = choose_stretches(found, 12.0, said_of(library, found))
    embedder = library.embedder
    review = review_of(library, [mark for one in stretches for mark in one.marks], embedder)
    indexer = Indexer(embedder, library.proposer, USUAL, Work())
    kept = own_calibration(embedder, library.snapshot().settings)
    scratch = index_sample(folder / "scratch", stretches, indexer, kept)
    try:
        ask(scratch, review)
    finally:
        scratch.store.close()


def test_a_category_is_asked_for_as_one(tmp_path: Path, library: panorama.Library) -> None:
    """It was asked for as an individual, so answers that the library gives were told otherwise."""
    library.register("blue thing", write_picture(tmp_path / "blue.png", thing_picture("blue")), category=True)
    library.register_seen("red thing", track_ids=[track_at(library, 1)])
    library.register_seen("blue thing", track_ids=[track_at(library, 5)])
    entities: list[Entity] = []

    def ask(scratch: Scratch, review: Review) -> None:
        scratch.answers({}, review)
        entities.extend(Entity.listed(scratch.store.snapshot().entities))

    with_sample(tmp_path, library, ask)
    assert {one.name: one.category for one in entities} == {
        name_of("red thing"): False,
        name_of("blue thing"): True,
    }


def test_reviewed_answers_are_judged_by_the_bands_of_the_library(
    tmp_path: Path, library: panorama.Library
) -> None:
    library.register_seen("red thing", track_ids=[track_at(library, 1), track_at(library, 7)])
    wrong = [track_at(library, seconds) for seconds in (3, 5, 9, 11)]
    library.register_seen("red thing", track_ids=wrong, look_alike=True)
    told: list[float | None] = []

    def ask(scratch: Scratch, review: Review) -> None:
        told.append(scratch.answers({}, review).otherwise)

    with_sample(tmp_path / "shipped", library, ask)
    silent = [replace(one, low=0.99, high=1.0).as_dict() for one in library.calibrations]
    library.put_setting(SETTING + measured_with(library.embedder), silent)
    with_sample(tmp_path / "own", library, ask)
    assert told == [0, pytest.approx(2 / 6)]


def test_an_answer_is_told_otherwise_where_the_entity_is_not_accepted_at_its_place(
    tmp_path: Path, library: panorama.Library
) -> None:
    name = name_of("red thing")
    library.rename("red thing", name)
    library.register_seen(name, track_ids=[track_at(library, 1)])
    (said,) = library.reviewed(tmp_path / "films" / "a.mp4")
    here = Reviewed(
        said.exemplar_id, "red thing", True, said.frame, said.seconds, said.box_xyxy, said.picture
    )
    x1, y1, x2, y2 = said.box_xyxy
    aside = x1 + 2 * (x2 - x1), y1 + 2 * (y2 - y1), x2 + 2 * (x2 - x1), y2 + 2 * (y2 - y1)
    denied = Reviewed(
        said.exemplar_id, "red thing", False, said.frame, said.seconds, said.box_xyxy, said.picture
    )
    elsewhere = replace(here, box_xyxy=aside)
    never = Reviewed(
        said.exemplar_id, "red thing", True, said.frame + 18, said.seconds, said.box_xyxy, said.picture
    )
    with Store.open(library.path) as store:
        asked = Answering(store, lambda: library.embedder)

        def otherwise(*some: Reviewed) -> float:
            return Review(tuple(Mark("a.mp4", one.frame, one) for one in some), {}).otherwise(asked)

        assert otherwise(here) == 0
        assert otherwise(denied) == 1
        assert otherwise(elsewhere) == 1
        assert otherwise(never) == 1
        assert otherwise(here, denied) == 0.5
        asked.forget()


def test_an_entity_is_asked_for_by_pictures_from_elsewhere_while_it_has_any(
    tmp_path: Path, library: panorama.Library
) -> None:
    film = tmp_path / "films" / "a.mp4"
    library.register_seen("red thing", track_ids=[track_at(library, 1)])
    library.register_seen("red thing", track_ids=[track_at(library, 3)], look_alike=True)
    marks = [Mark("a.mp4", one.frame, one) for one in library.reviewed(film)]
    (asked,) = review_of(library, marks, library.embedder).album.values()
    assert [one.source for one in asked] == [str(tmp_path / "red.png")]
    library.remove_exemplar(next(e.exemplar_id for e in library.exemplars("red thing") if not e.denied))
    marks = [Mark("a.mp4", one.frame, one) for one in library.reviewed(film)]
    (asked,) = review_of(library, marks, library.embedder).album.values()
    assert len(asked) == 2 and [one.denied for one in asked] == [False, True], "all there is"


def test_reviewed_answers_count_where_they_tell_more_than_agreement(
    tmp_path: Path, library: panorama.Library
) -> None:
    film = tmp_path / "films" / "a.mp4"
    wrong = [track_at(library, seconds) for seconds in (3, 5, 9, 11)]
    library.register_seen("red thing", track_ids=[track_at(library, 1), track_at(library, 7)])
    few = tune(library, film, seconds=12.0)
    assert len(few.review.marks) == 2 < LEAST_REVIEWED
    assert {trial.otherwise for trial in few.trials} == {None}
    assert any("2 yes and 0 no, of 1 entity: too few to judge by" in line for line in few.lines())

    library.register_seen("red thing", track_ids=wrong, look_alike=True)
    report = tune(library, film, seconds=12.0)
    assert len(report.review.marks) == 6
    assert any("2 yes and 4 no, of 1 entity" in line for line in report.lines())
    assert all(trial.otherwise == 0 for trial in report.trials if trial.settings != SPARSEST)
    assert report.as_dict()["reviewed"] == 6
    assert "reviewed_otherwise" in report.as_dict()["trials"][0]


def test_reviewed_answers_are_lost_beyond_those_that_the_densest_setting_tells_otherwise_too() -> None:
    truth = frozenset({("a", 0), ("a", 1)})
    scores = {"x": {("a", 0): 0.9, ("a", 2): 0.5, ("a", 1): 0.4}}  # 1 - average precision: 1/6

    def loss(dense: float | None, other: float | None) -> float:
        return loss_between(Answers({"x": truth}, {"x": {}}, dense), Answers({}, scores, other))

    assert loss(None, None) == loss(0.25, 0.25) == loss(0.5, 0.25) == pytest.approx(1 / 6)
    assert loss(0.25, 0.75) == pytest.approx(0.5)
    assert loss(0.0, 0.1) == pytest.approx(1 / 6)


def test_an_entity_of_a_long_name_or_without_its_files_is_no_obstacle(
    tmp_path: Path, library: panorama.Library
) -> None:
    film = tmp_path / "films" / "a.mp4"
    library.rename("red thing", "r" * LONGEST_NAME)
    library.register_seen("r" * LONGEST_NAME, track_ids=[track_at(library, 1)])
    marks = [Mark("a.mp4", one.frame, one) for one in library.reviewed(film)]
    (name,) = review_of(library, marks, library.embedder).album
    assert check_name(name) == name
    for exemplar in library.exemplars("r" * LONGEST_NAME):
        exemplar.picture.unlink()
    review = review_of(library, marks, library.embedder)
    assert (review.marks, dict(review.album)) == ((), {})
