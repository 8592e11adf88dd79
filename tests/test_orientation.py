"""A mark drawn into videos stored in all eight orientations: pixels, boxes and clips show it in its place."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from clips import RATE, cut_clip, set_display_matrix

from panorama.regions import iou
from panorama.tracking.sampling import Rate, Sample, Sampler
from panorama.video import VideoFrame, open_video

# a, b, c, d: a point (x, y) as stored is shown at (a x + c y, b x + d y), moved to where it can be seen.
MATRICES = {
    "as it is": (1, 0, 0, 1),
    "turned right": (0, 1, -1, 0),
    "upside down": (-1, 0, 0, -1),
    "turned left": (0, -1, 1, 0),
    "left to right": (-1, 0, 0, 1),
    "top to bottom": (1, 0, 0, -1),
    "transposed": (0, 1, 1, 0),
    "transposed the other way": (0, -1, -1, 0),
}
WIDTH, HEIGHT = 240, 160
MARK = (40, 104, 80, 136)  # x1, y1, x2, y2 as shown: left of the middle, below it
MARKED_FROM, FRAMES = 10, 14


def shown_picture(marked: bool) -> np.ndarray:
    coarse = np.random.default_rng(1).integers(60, 150, (8, 12)).astype(np.uint8)
    grey = cv2.resize(coarse, (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC)
    picture = cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB)
    if marked:
        x1, y1, x2, y2 = MARK
        picture[y1:y2, x1:x2] = (250, 250, 20)
    return picture


def stored_picture(shown: np.ndarray, matrix: tuple[int, int, int, int]) -> np.ndarray:
    """What has to be stored for a picture to be shown, point by point as the matrix says."""
    a, b, c, d = matrix
    height, width = shown.shape[:2] if a else shown.shape[1::-1]
    y, x = np.mgrid[:height, :width]
    across, down = a * x + c * y, b * x + d * y
    return np.ascontiguousarray(shown[down - down.min(), across - across.min()])


def marked_video(path: Path, matrix: tuple[int, int, int, int]) -> Path:
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"crf": "12", "preset": "veryfast"})
        stream.width, stream.height = (WIDTH, HEIGHT) if matrix[0] else (HEIGHT, WIDTH)
        for number in range(FRAMES):
            stored = stored_picture(shown_picture(number >= MARKED_FROM), matrix)
            frame = av.VideoFrame.from_ndarray(stored).reformat(format="yuv420p")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    set_display_matrix(path, matrix)
    return path


@pytest.fixture(params=MATRICES)
def video(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return marked_video(tmp_path / "marked.mp4", MATRICES[request.param])


def last_frame(path: Path) -> VideoFrame:
    with open_video(path) as reader:
        return list(reader.frames())[-1]


def test_the_picture_is_shown_as_it_was_drawn(video: Path) -> None:
    with open_video(video) as reader:
        assert (reader.info.width, reader.info.height) == (WIDTH, HEIGHT)
    frame, drawn = last_frame(video), shown_picture(True)
    assert np.abs(frame.rgb().astype(int) - drawn).mean() < 4
    smaller = cv2.resize(drawn, (120, 80), interpolation=cv2.INTER_AREA)
    assert np.abs(frame.rgb(120, 80).astype(int) - smaller).mean() < 4


def test_a_part_is_what_is_shown_there(video: Path) -> None:
    frame, (x1, y1, x2, y2) = last_frame(video), MARK
    wider = (x1 - 10, y1 - 4, x2 + 30, y2 + 20)
    drawn = shown_picture(True)[wider[1] : wider[3], wider[0] : wider[2]]
    assert np.abs(frame.part(wider, 256).astype(int) - drawn).mean() < 5
    luma = frame.luma_part((x1 + 2, y1 + 2, x2 - 2, y2 - 2))
    assert sorted(luma.shape) == [28, 36]
    assert luma.min() > 190  # all of it is the mark, and nothing else is as bright
    assert frame.luma().max() < 230


def test_motion_is_boxed_where_it_is_shown(video: Path) -> None:
    with open_video(video) as reader:
        sampler = Sampler(reader.info, Rate(RATE, all_frames=True), WIDTH)
        samples = [s for f in reader.frames() for s in sampler.look(f) if isinstance(s, Sample)]
    boxes = next(s.motion.boxes_xyxy for s in samples if s.frame.index == MARKED_FROM)
    assert float(iou(boxes, np.array([MARK])).max()) > 0.6


def test_a_clip_shows_the_picture_with_the_box_around_the_mark(video: Path, tmp_path: Path) -> None:
    cut_clip(video, 0, 1, tmp_path / "clip.mp4", boxes={FRAMES - 1: [MARK]})
    shown, (x1, y1, x2, y2) = last_frame(tmp_path / "clip.mp4").rgb().astype(int), MARK
    assert np.abs(shown[:60] - shown_picture(True)[:60]).mean() < 6
    inside = shown[y1 + 6 : y2 - 6, x1 + 6 : x2 - 6].mean(axis=(0, 1))
    assert np.abs(inside - (250, 250, 20)).max() < 20
    assert shown[y1 + 1, x1 + 6 : x2 - 6, 1].mean() < 140  # the box's red over the mark's yellow
