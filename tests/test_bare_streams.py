"""A stream without a container, as small cameras write it: its rate is told by its headers, or assumed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from clips import SLOW, Clip, cut_clip, write_video

from panorama.video import find_videos, open_video

UNTOLD = {
    "untold.hevc": ("libx265", "yuv420p", {"x265-params": "log-level=none:vui-timing-info=0"}),
    "untold.mjpeg": ("mjpeg", "yuvj420p", {}),
}


@pytest.mark.parametrize("name", ["bare.h264", "bare-b.h264", "bare.hevc"])
def test_the_rate_is_the_one_that_the_headers_tell(name: str, clips: Callable[[str], Clip]) -> None:
    with open_video(clips(name).path) as reader:
        assert reader.info.average_rate == SLOW and not reader.info.assumed_rate


def test_the_rate_of_a_tape_is_that_of_its_frames(tmp_path: Path) -> None:
    """It was 60,000 frames a second, so the last frame of a clip cut from it lasted 17 millionths of one."""
    frame = av.VideoFrame.from_ndarray(np.full((576, 720, 3), 90, np.uint8)).reformat(format="yuv420p")
    with av.open(str(tmp_path / "tape.dv"), "w") as container:
        stream = container.add_stream("dvvideo", rate=25)
        stream.width, stream.height, stream.pix_fmt = 720, 576, "yuv420p"
        for _ in range(6):
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with open_video(tmp_path / "tape.dv") as reader:
        assert reader.info.average_rate == 25
    assert cut_clip(tmp_path / "tape.dv", 0, 1, tmp_path / "clip.mp4") == 6
    with av.open(str(tmp_path / "clip.mp4")) as container:
        (film,) = container.streams.video
        assert float(film.duration * film.time_base) == pytest.approx(6 / 25, abs=1e-3)


@pytest.mark.parametrize("name", UNTOLD)
def test_a_rate_that_nothing_tells_is_assumed_and_said_to_be(name: str, tmp_path: Path, run) -> None:
    codec, pixel_format, options = UNTOLD[name]
    path = write_video(
        tmp_path / name, codec, rate=SLOW, pixel_format=pixel_format, codec_options=options
    ).path
    with open_video(path) as reader:
        assert reader.info.average_rate == 25 and reader.info.assumed_rate
    done = run("index", path)
    told = f"{name}: it stores no timestamps, so 25 frames a second were assumed"
    assert done.status == 0 and told in done.err
    assert "ffmpeg -framerate" in run("videos", "--json").json[0]["decode_note"]


@pytest.mark.parametrize("name", ["camera.mjpeg", "camera.MJPG"])
def test_large_pictures_one_after_the_other_are_a_video(name: str, tmp_path: Path) -> None:
    """FFmpeg takes a file whose first picture is large for a single one, and so it was refused."""
    noise = np.random.default_rng(0)
    path = tmp_path / name
    with av.open(str(path), "w", format="mjpeg") as container:
        stream = container.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 1280, 720, "yuvj420p"
        for _ in range(6):
            picture = noise.integers(0, 255, (720, 1280, 3), np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode(None))
    with open_video(path) as reader:
        assert (reader.info.width, reader.info.height, len(list(reader.frames()))) == (1280, 720, 6)


@pytest.mark.parametrize("name", ["constant.mp4", "b-frames.avi", "b-frames.ts", "mpeg2.mpg", "animated.gif"])
def test_a_container_is_believed(name: str, clips: Callable[[str], Clip]) -> None:
    with open_video(clips(name).path) as reader:
        assert not reader.info.assumed_rate


def test_bare_streams_are_found_in_folders(tmp_path: Path) -> None:
    for name in ("a.h264", "b.hevc", "c.mjpeg", "d.m2v", "e.264", "f.h265", "g.265", "h.mjpg"):
        (tmp_path / name).touch()
    found = find_videos([str(tmp_path)])
    assert len(found.videos) == 8 and not found.ignored
