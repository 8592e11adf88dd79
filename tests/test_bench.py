"""The benches of tests/bench on tiny footage, so that they do not rot; their figures are not judged."""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import cv2
import numpy as np
import pyarrow as pa
import pytest
from fakes import ColoredThings, Thing, thing_picture, write_film, write_picture

import panorama
from panorama.answering.sightings import CatalogSightings
from panorama.judging.evaluate import Truth
from panorama.query.matching.whole import Whole
from panorama.regions import DETECTOR, Regions
from panorama.store.scenes.scenes import find_scenes
from panorama.store.vectors.index import VectorIndex

BENCH = Path(__file__).parent / "bench"
FRAMES = 24
COLOR = "--model color-bands"
ENTITY = "grey-cardigan"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A footage folder as the benches want it: three fixed cameras, another clip, truth and album."""
    folder = tmp_path_factory.mktemp("footage")
    (folder / "video").mkdir()
    for number, name in enumerate(("people-one-by-one", "cars-from-above", "bottles", "toy")):
        color = ("red", "green", "blue", "yellow")[number]
        write_film(folder / "video" / f"{name}.mp4", [Thing(color, 0, FRAMES)], frames=FRAMES)
    write_picture(folder / "eval" / "album" / ENTITY / "1.jpg", thing_picture("red"))
    truth = {ENTITY: {"visible": {"people-one-by-one.mp4": [[0, FRAMES - 1]]}, "ignore": {}}}
    (folder / "eval" / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    return folder


@pytest.fixture
def bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fake_proposer: ColoredThings
) -> Callable[..., str]:
    """Runs a bench with words as typed; what it indexes has coloured things for regions, without torch."""
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setattr(measure(), "PANORAMA", (sys.executable, str(BENCH.parent / "fakes.py")))

    def run(name: str, *words: object) -> str:
        module = importlib.import_module(name)
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, words)])
        module.main()
        return capsys.readouterr().out

    return run


def measure() -> ModuleType:
    return importlib.import_module("measure")


def rows(out: str, title: str) -> dict[str, list[str]]:
    """The rows of the table under a title that begins so, by their first cell."""
    after = out[out.index(f"\n{title}") :].split("\n\n")[1]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in after.strip().splitlines()]
    assert all(len(row) == len(cells[0]) for row in cells)
    return {row[0]: row[1:] for row in cells[2:]}


def test_of_each_picture_there_are_two_views_degraded_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    views = importlib.import_module("degraded").degraded_pairs(
        [thing_picture("red"), thing_picture("blue")], 32
    )
    first, other, first_again, other_again = (view.reshape(-1, 3).mean(axis=0) for view in views)
    assert first[0] > first[2] and first_again[0] > first_again[2]
    assert other[0] < other[2] and other_again[0] < other_again[2]
    assert (views[0] != views[2]).any()


def test_index_speed_takes_every_group_through_both_sides(bench, small, tmp_path) -> None:
    words = [small, "--work", tmp_path, "--rounds", 1, "--minutes", 0.1, "--files", "--options", COLOR]
    out = bench("index_speed", *words, "--only", "long", "moving")
    speed = rows(out, "Index and decode-only")
    # Six seconds are three rounds of 2.4 s.
    assert [speed[group][0] for group in ("long", "moving")] == ["216", "24"]
    assert all(float(row[3].split()[0]) > 0 for row in speed.values())
    assert set(rows(out, "Share of each stage")) == {"long", "moving"}
    assert len(out[out.index("Each file") :].splitlines()) == 4 + 4


def test_together_everybody_works_on_one_library_and_it_stays_sound(bench, small) -> None:
    out = bench("together", small, "--seconds", 4, "--pieces", 3, "--options", COLOR)
    done = rows(out, "How often each was done")
    assert set(done) == {"ask", "open again", "register", "index", "remove"}
    assert all(int(count) > 0 for (count,) in done.values())
    assert rows(out, "Errors") == {"none": ["", "0"]}
    assert out.endswith("At the end the catalog is sound, and every video answers\n")


def test_naive_is_scored_on_the_frames_that_it_saw(bench, small) -> None:
    out = bench("naive", small, "--rounds", 1, "--stride", 4, "--model", "color-bands")
    assert set(rows(out, "Frames a second over 96 frames; naive and batched worked on 24")) == {
        "Panorama",
        "naive",
        "batched",
    }
    scores = rows(out, "Accuracy")
    assert scores["naive, the same frames"][:2] == ["1", "1"]
    assert scores["Panorama, the 24 frames that naive saw"][:2] == ["1", "1"]


def test_a_recording_cut_into_files_is_judged_by_the_truth_of_the_whole(bench, small, tmp_path) -> None:
    words = [small, "--work", tmp_path, *COLOR.split(), "--seconds", 0, 1]
    found = rows(bench("cut_up", *words), "0% of the files missing")
    assert list(found) == ["the whole", "1 s"]
    for _, _, precision, recall, *none in found.values():
        assert precision == "1.000" and float(recall) > 0.8 and none == ["0.00%", "1 of 1"]
    files = sorted((tmp_path / "files-1-0-1" / "people-one-by-one").iterdir())
    assert [path.name for path in files] == ["000.mp4", "001.mp4", "002.mp4"]  # of 2.4 seconds
    half = rows(bench("cut_up", *words[:-2], 1, "--missing", 0.5), "50% of the files missing")
    assert half["1 s"][2] == "1.000"
    assert len(list((tmp_path / "files-1-0.5-1").rglob("*.mp4"))) < 9


def test_two_days_are_judged_each_by_itself_and_without_its_own_files(bench, small, tmp_path) -> None:
    words = [small, "--work", tmp_path, *COLOR.split(), "--light", "dark"]
    found = rows(bench("other_days", *words), "Two days of one camera")
    first, second, *false = found["dark"]
    assert float(first) > 0.8 and 0 <= float(second) <= 1
    assert all(re.fullmatch(r"\d+ \([01] of 1\)", told) for told in false)
    days = sorted(path.name for path in (tmp_path / "dark").iterdir())
    assert days == ["2026-03-01", "2026-03-02"]


def test_examples_with_margins_are_judged_cut_and_as_they_are(bench, small, tmp_path) -> None:
    found = rows(bench("examples", small, "--work", tmp_path, *COLOR.split()), "1 entities")
    assert len(found) == 7 * 2 + 4 and found["none: as it is"] == found["none: as given"]
    for name, cells in found.items():
        if name.endswith("as given"):
            assert cells == found["none: as given"] and float(cells[1]) > 0.8
    assert found["white, 70 %: as it is"][2] == "1" and found["none: as it is"][2] == "0"  # silent


def test_memory_is_read_and_a_second_run_takes_it_from_the_checkpoint(bench, small, tmp_path) -> None:
    clip = small / "video" / "bottles.mp4"
    words = [clip, "--minutes", 0.05, *COLOR.split(), "--checkpoint", tmp_path / "kept.jsonl"]
    (row,) = rows(bench("memory", *words), "Peak memory").values()
    assert row[0] == "48" and float(row[4]) > 50
    began = time.perf_counter()
    assert list(rows(bench("memory", *words), "Peak memory").values()) == [row]
    assert time.perf_counter() - began < float(row[3])


def test_pictures_of_a_damaged_copy_are_those_that_were_indexed(bench, tmp_path) -> None:
    write_film(tmp_path / "red.mp4", [Thing("red", 0, 90), Thing("blue", 30, 90)], frames=90)
    found = rows(bench("damaged", tmp_path / "red.mp4", *COLOR.split()), "Pictures of crops")
    assert set(found) == {"zeros-red.mp4", "random-red.mp4"}
    for crops, _, by_stamp, some, _, alone, told in found.values():
        assert int(crops) >= int(some) > 0 and (by_stamp, alone, told) == ("0", "0", "0")


def test_failures_are_drawn_where_the_truth_is_elsewhere(bench, fake_proposer, tmp_path, monkeypatch) -> None:
    """The red thing is found; of the blue one the truth names a place and a time that are wrong."""
    things = [Thing("red", 0, FRAMES), Thing("blue", 0, 8, left=100)]
    write_film(tmp_path / "archive" / "both.mp4", things, frames=FRAMES)
    truth = {}
    for color in ("red", "blue"):
        write_picture(tmp_path / "album" / color / "1.jpg", thing_picture(color))
        write_picture(tmp_path / "lookalikes" / color / "1.jpg", thing_picture("yellow"))
        box = things[0].box(0) if color == "red" else (0, 0, 30, 30)
        truth[color] = {
            "visible": {"both.mp4": [[0, FRAMES - 1]]}, "ignore": {}, "boxes": {"both.mp4": {"0": box}},
        }  # fmt: skip
    (tmp_path / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    models = ("proposer", "proposer-wide", "panoramanet")
    for model in models:
        (tmp_path / model).mkdir()
    monkeypatch.setattr("panorama.models.proposer.load_proposer", lambda name: fake_proposer)
    out = bench("failures", tmp_path, "--out", tmp_path)
    for name in models[:2]:
        assert f"{name}: of 2 boxes, by entity and clip, 1 have frames" in out
    for model in models:
        sheet = cv2.imread(str(tmp_path / model / "failures.jpg"))
        assert sheet.std() > 10 and sheet.shape[1] > 4 * 200


def test_what_trimming_leaves_out_is_judged_by_boxes(bench, tmp_path) -> None:
    """A red thing in view throughout, of which the truth draws the first half."""
    write_film(tmp_path / "archive" / "red.mp4", [Thing("red", 0, FRAMES)], frames=FRAMES)
    write_picture(tmp_path / "album" / "red" / "1.jpg", thing_picture("red"))
    write_picture(tmp_path / "lookalikes" / "red" / "1.jpg", thing_picture("blue"))
    boxes = {str(number): Thing("red", 0, FRAMES).box(number) for number in range(FRAMES // 2)}
    truth = {"visible": {"red.mp4": [[0, FRAMES - 1]]}, "ignore": {}, "boxes": {"red.mp4": boxes}}
    (tmp_path / "truth.json").write_text(json.dumps({"red": truth}), encoding="utf-8")
    out = bench("trimming", tmp_path, "--work", tmp_path / "work", "--rates", 5, "--model", "color-bands")
    found = rows(out, "Accepted tracks and what is left out of them")
    assert set(found) == {"nothing is cut", "ends of 1 or more", "ends of 2 or more"}
    _, tracks, mixed, cut, right, wrong, *scores = found["ends of 1 or more"]
    assert int(tracks) >= 1 and (mixed, cut) == ("1", "0")
    assert right.startswith("0 of ") and int(right.split()[-1]) >= 2
    assert wrong.startswith("0 of ") and int(wrong.split()[-1]) >= 2
    assert scores[0] == "1.0000" and float(scores[1]) > 0.9


def test_who_is_asked_about_tracks_says_what_the_drawn_boxes_say(bench, tmp_path) -> None:
    """A red thing that is drawn, and a green one that is not: one yes, and nothing uncertain to deny."""
    things = [Thing("red", 0, FRAMES, top=10), Thing("green", 0, FRAMES, top=70)]
    write_film(tmp_path / "archive" / "both.mp4", things, frames=FRAMES)
    for name in ("1", "2"):
        write_picture(tmp_path / "album" / "red" / f"{name}.jpg", thing_picture("red"))
    boxes = {str(number): things[0].box(number) for number in range(FRAMES)}
    truth = {"visible": {"both.mp4": [[0, FRAMES - 1]]}, "ignore": {}, "boxes": {"both.mp4": boxes}}
    (tmp_path / "truth.json").write_text(json.dumps({"red": truth}), encoding="utf-8")
    out = bench("confirming", tmp_path, "--work", tmp_path / "work", "--rates", 5, "--model", "color-bands")
    table = [line.split(" | ") for line in out.splitlines() if line.startswith(("| 1 ", "| 3 "))]
    shown = {(row[0][2:], row[1]): (row[2], float(row[3])) for row in table}
    assert len(shown) == 22 and all(f1 > 0.9 for _, f1 in shown.values())
    asked = ("as registered", "yes to 1 accepted", "no to 3 uncertain", "no to all")
    assert [shown["3", name][0] for name in asked] == ["0.0", "1.0", "0.0", "0.0"]
    both, yes = (float(shown["3", name][0]) for name in ("yes and no to all", "yes to all"))
    assert both == yes >= 1
    confirming = importlib.import_module("confirming")
    x1, y1, x2, y2 = boxes["0"]
    for shift, said in ((0, True), (x2 - x1, False), ((x2 - x1) // 2, None)):
        row = SimpleNamespace(video="both.mp4", frame=0, x1=x1 + shift, y1=y1, x2=x2 + shift, y2=y2)
        assert confirming.shows(truth, row) is said
    row.frame = FRAMES + 5
    assert confirming.shows(truth, row) is False


def test_who_is_asked_elsewhere_is_asked_about_every_second_clip_and_judged_by_the_others(bench) -> None:
    confirming = importlib.import_module("confirming")
    assert confirming.halves(["a", "b", "c"], elsewhere=True) == [(["a", "c"], ["b"]), (["b"], ["a", "c"])]
    assert confirming.halves(["a", "b"], elsewhere=False) == [(["a", "b"], ["a", "b"])]
    videos = pa.table({"video": ["a", "b"], "frames": [5, 7]})
    truth = Truth({"a": [(0, 1)], "b": [(2, 3)]}, {"b": [(6, 6)]})
    within = confirming.within({"x": truth, "y": Truth({"a": [(0, 4)]}, {})}, videos, ["b"])
    assert within["x"] == Truth({"b": [(2, 3)]}, {"b": [(6, 6)], "a": [(0, 5)]})
    assert within["y"] == Truth({}, {"a": [(0, 5)]})


def test_an_end_is_a_run_that_is_like_strangers_beside_a_crop_that_is_not(bench) -> None:
    trimming = importlib.import_module("trimming")
    values = np.array([-0.2, -0.1, 0.8, 0.2, 0.7, -0.4], np.float32)
    assert [trimming.matching_part(values, 0.5, run) for run in (0, 1, 2)] == [(0, 6), (2, 5), (2, 6)]
    assert trimming.matching_part(values, 0.9, 1) == (0, 6), "nothing in it matches"
    assert trimming.matching_part(np.array([0.6, 0.2, -0.1], np.float32), 0.5, 1) == (0, 3), "no clear step"
    assert trimming.kept_span(np.array([0, 4, 10, 20]), 1, 3) == (2, 15)
    assert trimming.kept_span(np.array([0, 4]), 0, 2) == (-np.inf, np.inf)


def test_queries_are_timed_idle_and_while_a_real_index_runs(bench, small, tmp_path) -> None:
    words = [small, "--work", tmp_path, "--rounds", 1, "--seconds", 0.2, "--commands", 0]
    out = bench(
        "query_while_indexing", *words, "--files", 12, "--file-seconds", 0.5, "--pause", 0, *COLOR.split()
    )
    found = rows(out, "Query times")
    assert set(found) == {"kept", "anew"}
    assert int(found["kept"][2]) >= 1, "queries that the p99 rests on"


def test_hours_written_again_grow_by_straight_lines(bench, small, tmp_path) -> None:
    words = [small, "--work", tmp_path, "--part", "bytes", "time", "settings", "--minutes", 0.05, 0.1]
    sizes = [
        "--hours",
        1,
        2,
        4,
        "--hour-minutes",
        0.05,
        "--settings-minutes",
        0.02,
        "--variants",
        "1 crop a track",
    ]
    out = bench("growth", *words, *sizes, *COLOR.split())
    timed = rows(out, "Indexing people-one-by-one.mp4 looped")
    assert list(timed) == ["0.05", "0.1"]
    assert all(float(cell) > 0 for row in timed.values() for cell in row)
    assert all(f"Straight line {kind}: " in out for kind in ("on the clock", "of processor time"))
    grown = rows(out, "Bytes of people-one-by-one.mp4")
    assert list(grown) == ["1", "2", "4"]
    fits = rows(out, "Straight lines through them")
    assert float(fits["crops"][0]) > 0 and float(fits["crops"][2]) > 0.999
    assert set(rows(out, "Bytes an hour of video by kind")) == {"default", "1 crop a track"}
    assert not list(tmp_path.glob("tmp*"))


def test_hours_written_again_answer_as_the_first(small, tmp_path, monkeypatch, fake_proposer) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    hours = importlib.import_module("hours")
    library = tmp_path / "library"
    with panorama.open(library, create=True) as opened:
        opened.index(small / "video" / "people-one-by-one.mp4", model="color-bands")
    hours.Hour(library).append_to(library, 1)
    with panorama.open(library) as opened:
        opened.register(ENTITY, small / "eval" / "album" / ENTITY)
        found = opened.query("SELECT moments WHERE entity = ?", [ENTITY]).fetchall()
    first, again = sorted(found, key=lambda row: row.video, reverse=True)
    assert (first.video, again.video) == ("people-one-by-one.mp4", "hour-001.mp4")
    assert again.start_time == pytest.approx(first.start_time, abs=0.31)
    assert again.end_time == pytest.approx(first.end_time, abs=0.31)
    assert again.score == pytest.approx(first.score, abs=0.05)


def test_what_is_forgotten_is_matched_again(small, tmp_path, monkeypatch, fake_proposer) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    scale = importlib.import_module("scale")
    matched: list[str] = []
    kept = CatalogSightings.keep

    def keep(self: CatalogSightings, name: str, whole: Whole) -> None:
        matched.append(name)
        kept(self, name, whole)

    monkeypatch.setattr(CatalogSightings, "keep", keep)
    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(small / "video" / "people-one-by-one.mp4", model="color-bands")
        library.register(ENTITY, small / "eval" / "album" / ENTITY)
        for forget in (lambda: None, lambda: None, scale.forgetful(library)):
            forget()
            library.query("SELECT frames WHERE entity = ?", [ENTITY]).fetchall()
    assert matched == [ENTITY] * 2, "by the first question, and by the one before which it was forgotten"


def test_a_line_spread_and_percentiles_are_what_a_person_computes(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    assert measure().straight_line([1, 2, 3], [5, 7, 9]) == pytest.approx((2, 3, 1))
    assert measure().straight_line([0, 1, 2], [0, 1, 0])[2] == pytest.approx(0)
    assert measure().spread([3.0, 1.0, 2.0]) == "2 (1 to 3)"
    assert measure().percentiles([float(n) for n in range(101)]) == (50, 99)


def test_a_checkpoint_of_other_settings_is_begun_anew(tmp_path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    path = tmp_path / "kept.jsonl"
    measure().Checkpoint(path, {"minutes": 1}).keep("a", 2.5)
    assert measure().Checkpoint(path, {"minutes": 1}).known("a") == 2.5
    assert measure().Checkpoint(path, {"minutes": 2}).known("a") is None


class Outputs:
    """A network that always says the same."""

    def __init__(self, output: np.ndarray) -> None:
        self.output = output

    def run(self, _: object, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
        assert all(x.dtype == np.float32 and x.ndim == 4 for x in inputs.values())
        return [self.output]


def test_rivals_give_boxes_in_the_pixels_of_the_picture(bench, tmp_path, monkeypatch) -> None:
    rivals = importlib.import_module("rival_detectors")
    picture = np.zeros((200, 400, 3), np.uint8)
    said = np.zeros((1, 85, 22, 22), np.float32)
    said[0, 0, 11, 5], said[0, 7, 11, 5] = 0.81, 0.64  # the cell in column 5 and row 11
    said[0, 3:5, 11, 5] = 0.0, np.log(0.2 / 0.8)  # half as wide as the picture, a fifth as high
    monkeypatch.setattr(rivals, "session", lambda *_: Outputs(said))
    found = rivals.FastestDet(tmp_path).propose([picture])[0]
    middle = 5 / 22 * 400
    assert found.boxes_xyxy[0].tolist() == pytest.approx(
        [max(0, middle - 100), 80, middle + 100, 120], abs=0.01
    )
    assert found.scores.tolist() == pytest.approx([0.81**0.6 * 0.64**0.4])

    said = np.zeros((1, 52 * 52 + 26 * 26 + 13 * 13, 85), np.float32)
    said[0, 52 * 10 + 20] = 0.5  # the point of stride 8 in column 20 and row 10; 416 pixels are 400 here
    said[0, 52 * 10 + 20, 2:4] = np.log(10), np.log(5)
    monkeypatch.setattr(rivals, "session", lambda *_: Outputs(said))
    found = rivals.YoloxNano(tmp_path).propose([picture])[0]
    corners = np.array([20.5 - 5, 10.5 - 2.5, 20.5 + 5, 10.5 + 2.5]) * 8 * 400 / 416
    assert found.boxes_xyxy.tolist() == [pytest.approx(corners.tolist(), abs=0.01)]
    assert found.scores.tolist() == pytest.approx([0.25])


def test_what_is_beside_indexing_is_timed_in_libraries_of_two_sizes(bench) -> None:
    printed = bench("many_videos", "--videos", 3, 120, "--rounds", 2)
    rows = [line.split(" | ") for line in printed.splitlines() if line.startswith("| ")]
    assert rows[0][1:] == ["3 videos", "120 videos |"] and len(rows) == 9
    assert all(float(cell.rstrip(" |")) > 0 for row in rows[1:] for cell in row[1:])


def test_a_synthetic_library_answers_and_its_cameras_are_known_by_their_pictures(
    bench, tmp_path, monkeypatch
) -> None:
    """It could not be written: how videos begin and end was not in it."""
    scale, made = importlib.import_module("scale"), importlib.import_module("scale_library")
    monkeypatch.setattr(scale, "RUNS", 1)
    monkeypatch.setattr(scale, "Size", partial(made.Size, tracks=25, crops=2, seconds=20))
    monkeypatch.setattr(made, "CAMERAS", 2)
    monkeypatch.setattr(made, "STRETCH", 3)
    monkeypatch.setitem(VectorIndex.__init__.__kwdefaults__, "flat_rows", 100)
    printed = bench("scale", tmp_path, "--videos", 12)
    assert all(f"\n{title} " in printed for title in scale.QUERIES)
    assert "new process: opened in" in printed
    with panorama.open(tmp_path / "library-12", create=False) as library:
        scenes = find_scenes(library.snapshot())
    # Six videos of each camera; the fourth begins in another light.
    assert len(np.unique(scenes.sites)) == 2
    assert len(scenes.segments) == 2 * (2 + 2)


def test_each_turn_gives_every_network_its_go(bench) -> None:
    networks = importlib.import_module("networks")
    order: list[str] = []
    found = networks.per_second({name: partial(order.append, name) for name in ("a", "b")}, 64, 3)
    assert order == ["a", "b"] * 4  # the first go warms up
    assert all(len(speeds) == 3 and min(speeds) > 0 for speeds in found.values())


def test_a_gpu_is_put_beside_the_processor_and_by_request_the_processor_beside_itself(
    bench, small, tmp_path
) -> None:
    few = ["--rounds", 1, "--turns", 1, "--sizes", 2, "--frames", 4, "--crops", 4]
    out = bench("gpu", small, "--work", tmp_path, "--device", "cpu", *few, "--options", COLOR)
    assert set(rows(out, "Networks, 2 pictures at once")) == {
        f"{network}, {what}, {things}"
        for network, things in (("embedder", "crops"), ("proposer", "frames"))
        for what in ("whole", "network")
    }
    assert rows(out, "Regions of 4 frames")["cpu, float32"][1:] == ["100.00%", "0", "0", "0", "0"]
    assert rows(out, "Vectors of 4 crops")["cpu, float32"][:2] == ["0", "0"]
    timed = rows(out, "Index of 4 clips, 96 frames")
    assert set(timed) == {"cpu", "cpu again"} and all(float(row[0]) > 0 for row in timed.values())
    answers = rows(out, "Answers about 1 entities")
    assert all(float(row[0]) > 0.9 and float(row[3]) > 0 for row in answers.values())


def test_without_a_gpu_its_bench_says_so(bench, small, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(importlib.import_module("gpu").devices, "gpus_here", lambda: 0)
    with pytest.raises(SystemExit) as ended:
        bench("gpu", small, "--work", tmp_path)
    assert ended.value.code == 2
    assert re.search("no CUDA GPU here: run this where.*or with --device cpu", capsys.readouterr().err)


def test_regions_are_compared_with_what_overlaps_them_most(bench) -> None:
    compare = importlib.import_module("gpu").region_differences
    scores = np.array([0.5, 0.4], np.float32)
    ours = Regions.of(np.array([[0, 0, 100, 100], [200, 0, 300, 100]], np.float32), scores, DETECTOR)
    theirs = Regions.of(
        np.array([[200, 0, 250, 100], [0, 0, 100, 98]], np.float32), scores - np.float32(0.1), DETECTOR
    )
    count, share, mean, largest, score_mean, score_largest = compare([ours], [theirs])
    assert (count, share, mean, largest) == (2, "50.00%", 0.5, 2.0)
    assert score_mean == score_largest == pytest.approx(0.2)


def test_public_clips_prints_the_means_of_evaluate(bench, small, tmp_path) -> None:
    out = bench("public_clips", "judge", "--work", small, "--library", tmp_path / "library").splitlines()
    assert out[0].startswith("1 of 74 entities; without alarm-clock, ambulance, ")
    assert [line.split()[0] for line in out[1:4]] == ["model", "entity", "mean"]
    assert any(line.startswith("silent with its own clips taken out: ") for line in out[4:])
