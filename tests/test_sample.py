"""The sample archive that data/render.py draws: clips decode, boxes fit, the truth is the same every time."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import av
import cv2
import duckdb
import numpy as np
import pytest

from panorama.cli.demo import renderer
from panorama.content import content_dir

QUICK_FRAMES = {"gate/evening.mp4": 45, "road/night.mp4": 24, "shelf/checkout.webm": 60}


@pytest.fixture(scope="module")
def render() -> ModuleType:
    return renderer()


@pytest.fixture(scope="module")
def sample(quick_sample: Any) -> Any:
    return quick_sample


@pytest.fixture(scope="module")
def truth(sample: Any) -> dict[str, Any]:
    return json.loads(sample.truth.read_text())


@pytest.fixture(scope="module")
def scenes(render: ModuleType) -> dict[str, Any]:
    """Every scene of the whole archive, not drawn."""
    made = [script() for script in render.SCENES]
    return {scene.video: scene for scene in made}


def pictures(path: Path) -> Iterator[tuple[float, np.ndarray]]:
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            yield frame.time, frame.to_ndarray(format="rgb24")


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="switches x86 instructions off")
def test_an_older_processor_draws_the_same_files(sample: Any, tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path; from panorama.cli.demo import renderer; "
    code += "renderer().render(Path(sys.argv[1]), quick=True)"
    # OpenBLAS takes what it has for a processor of 2004.
    older = {**os.environ, "OPENCV_CPU_DISABLE": "AVX512-SKX,AVX2", "OPENBLAS_CORETYPE": "Prescott"}
    command = [sys.executable, "-c", code, str(tmp_path / "sample")]
    subprocess.run(command, env=older, check=True, timeout=300)
    folder = sample.archive.parent
    for file in [folder / "archive" / video for video in QUICK_FRAMES] + sorted(folder.rglob("*.jpg")):
        name = file.relative_to(folder)
        assert file.read_bytes() == (tmp_path / "sample" / name).read_bytes(), name


def test_every_clip_decodes_to_the_frames_that_were_drawn(sample: Any) -> None:
    found = {str(p.relative_to(sample.archive)) for p in sample.archive.rglob("*.*")}
    assert found == set(QUICK_FRAMES)
    for video, expected in QUICK_FRAMES.items():
        times = [time for time, _ in pictures(sample.archive / video)]
        assert len(times) == expected, video
        assert times[0] == pytest.approx(0, abs=0.002), video
        assert all(b > a for a, b in pairwise(times)), video


def test_boxes_lie_inside_the_frame_and_belong_to_visible_frames(sample: Any, truth: dict[str, Any]) -> None:
    checked = 0
    for facts in truth.values():
        for video, boxes in facts["boxes"].items():
            height, width = next(pictures(sample.archive / video))[1].shape[:2]
            listed = {f for first, last in facts["visible"][video] for f in range(first, last + 1)}
            assert {int(frame) for frame in boxes} == listed
            for x1, y1, x2, y2 in boxes.values():
                assert 0 <= x1 < x2 <= width and 0 <= y1 < y2 <= height
                checked += 1
    assert checked > 100


def test_visible_and_ignored_frames_do_not_overlap(truth: dict[str, Any]) -> None:
    for facts in truth.values():
        for video, spans in facts["visible"].items():
            visible = {f for first, last in spans for f in range(first, last + 1)}
            ignored = {f for first, last in facts["ignore"].get(video, []) for f in range(first, last + 1)}
            assert max(visible) < QUICK_FRAMES[video]
            assert not visible & ignored


def test_a_red_car_is_where_the_truth_says(sample: Any, truth: dict[str, Any]) -> None:
    clip = [picture for _, picture in pictures(sample.archive / "gate/evening.mp4")]
    boxes = truth["red-hatchback"]["boxes"]["gate/evening.mp4"]
    for frame in list(boxes)[5:-5:6]:
        x1, y1, x2, y2 = boxes[frame]
        red = clip[int(frame)][..., 0].astype(int) - clip[int(frame)][..., 1] > 60
        inside = red[y1:y2, x1:x2]
        assert inside.mean() > 0.2
        # What is red and outside the box is brick, and bricks are paler.
        assert red[y2:].mean() < 0.02
        assert red[y1:y2, max(0, x1 - 12) : x1].mean() < inside.mean() / 2 or x1 < 12


def test_two_entities_are_visible_at_once_somewhere(truth: dict[str, Any]) -> None:
    cat = set(truth["striped-cat"]["boxes"]["gate/evening.mp4"])
    car = set(truth["red-hatchback"]["boxes"]["gate/evening.mp4"])
    assert len(cat & car) >= 10


def test_nothing_moves_at_night(sample: Any, truth: dict[str, Any]) -> None:
    assert all("road/night.mp4" not in facts["visible"] for facts in truth.values())
    clip = np.stack([picture for _, picture in pictures(sample.archive / "road/night.mp4")]).astype(int)
    assert np.abs(np.diff(clip, axis=0)).mean() < 3
    assert clip.std(axis=(1, 2)).mean() > 3  # it is a picture of something, not black


def test_every_entity_has_example_pictures_and_lookalikes(sample: Any, truth: dict[str, Any]) -> None:
    for folder, least in ((sample.album, 3), (sample.lookalikes, 2)):
        assert {p.name for p in folder.iterdir()} == set(truth)
        for entity in truth:
            images = [cv2.imread(str(p)) for p in sorted((folder / entity).glob("*.jpg"))]
            assert len(images) >= least
            assert all(image is not None and min(image.shape[:2]) >= 80 for image in images)


def test_the_same_code_draws_the_same_truth_and_pictures(
    render: ModuleType, sample: Any, truth: dict[str, Any], tmp_path: Path
) -> None:
    video = "gate/evening.mp4"
    (script,) = [s for s in render.QUICK_SCENES if s().video == video]
    with render._two_at_a_time():
        shot = render.shoot(script(), tmp_path / "again.mp4", "2026-03-02 16:40:00")
        render._render_album(tmp_path, "toy-robot")
    again = render.truth_of({video: shot})
    for entity, facts in truth.items():
        assert again[entity]["boxes"].get(video) == facts["boxes"].get(video)
        assert again[entity]["visible"].get(video) == facts["visible"].get(video)
    both = zip(pictures(sample.archive / video), pictures(tmp_path / "again.mp4"), strict=True)
    assert all(np.array_equal(one, other) for (_, one), (_, other) in both)
    for path in sorted((sample.album / "toy-robot").glob("*.jpg")):
        assert path.read_bytes() == (tmp_path / "album/toy-robot" / path.name).read_bytes()


def test_what_is_rendered_is_not_rendered_again(render: ModuleType, sample: Any, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(sample.archive.parent, copy)
    clip = copy / "archive/road/night.mp4"
    before = clip.stat().st_mtime_ns
    assert not render.render(copy, quick=True).fresh
    assert clip.stat().st_mtime_ns == before


def test_another_version_of_the_code_renders_again(
    render: ModuleType, sample: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert render._stamped(sample.archive.parent, {"version": render.code_version(), "quick": True})
    monkeypatch.setattr(render, "HERE", tmp_path)
    (tmp_path / "scenery").mkdir()
    (tmp_path / "render.py").write_text("other code")
    assert not render._stamped(sample.archive.parent, {"version": render.code_version(), "quick": True})


def test_scenes_cover_what_the_demo_promises(scenes: dict[str, Any]) -> None:
    assert {video.split("/")[0] for video in scenes} == {"gate", "road", "yard", "shelf", "walk"}
    assert sum(scene.moves for scene in scenes.values()) >= 3
    assert scenes["yard/afternoon.mkv"].start_seconds > 0
    gaps = np.diff(scenes["walk/park.mp4"].frame_times)
    assert gaps.max() > 1.5 * gaps.min() > 0
    assert scenes["gate/evening.mp4"].light(0) > scenes["gate/evening.mp4"].light(11)
    for video in ("gate/noon.mp4", "road/night.mp4"):
        assert all(actor.entity is None for actor in scenes[video].actors)


def test_a_pillar_hides_the_courier_for_a_while(render: ModuleType, scenes: dict[str, Any]) -> None:
    from scenery.film import Stage

    stage = Stage(scenes["yard/afternoon.mkv"])
    shares = []
    for seconds in np.arange(3.0, 6.2, 0.2):
        _, seen = stage.frame(float(seconds))
        shares.append(max((one.share for one in seen if one.entity == "courier"), default=0.0))
    assert max(shares[:4]) > 0.9 and min(shares) < 0.2 and max(shares[-4:]) > 0.9


RELATIONS = """
CREATE TABLE videos
  (video VARCHAR, uri VARCHAR, camera VARCHAR, duration DOUBLE, width INT, height INT, frames BIGINT);
CREATE TABLE tracks (video VARCHAR, track_id BIGINT, start_time DOUBLE, end_time DOUBLE);
CREATE TABLE sightings
  (entity VARCHAR, video VARCHAR, track_id BIGINT, score DOUBLE, start_time DOUBLE, end_time DOUBLE);
CREATE TABLE moments (video VARCHAR, start_time DOUBLE, end_time DOUBLE, entity VARCHAR, score DOUBLE,
  track_id BIGINT, frame BIGINT, x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE);
"""
CLOCKS = [
    f"ALTER TABLE {table} ADD COLUMN {name} TIMESTAMP"
    for table in ("tracks", "sightings", "moments")
    for name in ("start_clock", "end_clock")
] + [
    f"UPDATE {table} SET start_clock = TIMESTAMP '2026-03-02 15:00' + to_seconds(start_time), "
    "end_clock = TIMESTAMP '2026-03-02 15:00' + to_seconds(end_time)"
    for table in ("tracks", "sightings", "moments")
]
"""Every clip begins at one time of day: enough for the questions about clocks to be asked."""


@pytest.fixture(scope="module")
def true_relations(sample: Any, truth: dict[str, Any], render: ModuleType) -> duckdb.DuckDBPyConnection:
    """The relations as a perfect matcher would fill them, for the clips of the quick sample."""
    connection = duckdb.connect()
    connection.execute(RELATIONS)
    number = 0
    for scene in (script() for script in render.QUICK_SCENES):
        times = np.array(scene.frame_times) + scene.start_seconds
        camera, (width, height) = scene.video.split("/")[0], scene.size
        row = [scene.video, scene.video, camera, float(times[-1]), width, height, len(times)]
        connection.execute("INSERT INTO videos VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        for entity, facts in truth.items():
            for first, last in facts["visible"].get(scene.video, []):
                number += 1
                span = [float(times[first]), float(times[last])]
                connection.execute("INSERT INTO tracks VALUES (?, ?, ?, ?)", [scene.video, number, *span])
                row = [entity, scene.video, number, 1.0, *span]
                connection.execute("INSERT INTO sightings VALUES (?, ?, ?, ?, ?, ?)", row)
                row = [scene.video, *span, entity, 1.0, number, first, 0, 0, 1, 1]
                connection.execute("INSERT INTO moments VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    for clocks in CLOCKS:
        connection.execute(clocks)
    return connection


QUESTIONS = sorted(content_dir("queries").glob("*.sql"))


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_every_question_says_what_it_asks_and_names_entities_of_the_album(
    path: Path, truth: dict[str, Any]
) -> None:
    text = path.read_text()
    for heading in ("-- question: ", "-- sample: ", "-- expect: "):
        assert text.count(heading) == 1
    compared = re.findall(r"entity (?:=|<>) '([^']+)'", text)
    assert set(compared) <= set(truth)


def test_plain_questions_are_answered_right_from_true_relations(
    true_relations: duckdb.DuckDBPyConnection,
) -> None:
    def ask(name: str) -> list[tuple[Any, ...]]:
        (path,) = [p for p in QUESTIONS if p.stem.endswith(name)]
        return true_relations.execute(path.read_text()).fetchall()

    assert ask("clips-without-anyone") == [("road/night.mp4", "road", 1.9)]
    together = ask("never-seen-without")
    assert ("cereal-box", "toy-robot", 1) in together and ("striped-cat", "red-hatchback", 1) in together
    assert ask("busiest-clip")[-1][0] == "road/night.mp4"
    stays = {(entity, video): seconds for entity, video, _, seconds in ask("how-long-did-it-stay")}
    assert 1 < stays["red-hatchback", "gate/evening.mp4"] <= 3
    assert all(not row[0].startswith("road/") for row in ask("first-and-last-seen"))


def test_every_plain_question_binds_to_the_relations(true_relations: duckdb.DuckDBPyConnection) -> None:
    shorthand = re.compile(r"SELECT (moments|frames|tracks|crops) WHERE")
    plain = [p for p in QUESTIONS if not shorthand.search(p.read_text())]
    assert len(plain) >= 9
    for path in plain:
        assert true_relations.execute(path.read_text()).description, path.name
