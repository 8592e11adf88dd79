"""Every reader over every clip: exact numbers and times, whatever the container or codec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import pytest
from clips import COLOR_RGB, MAKERS, Clip, number_in
from places import FOOTAGE, NO_FOOTAGE

from panorama.errors import UsageError, VideoError
from panorama.video import VideoReader, open_video


@pytest.fixture(params=list(MAKERS))
def clip(request: pytest.FixtureRequest, clips: Callable[[str], Clip]) -> Clip:
    return clips(request.param)


def shown_number(reader: VideoReader, picture: np.ndarray) -> int:
    if picture.ndim == 2:
        turned = np.rot90(picture, -(reader.info.rotation // 90))
        turned = turned[:, :: -1 if reader.info.mirrored else 1]
        picture = cv2.resize(np.ascontiguousarray(turned), (reader.info.width, reader.info.height))
    return number_in(picture)


def test_every_frame_is_read_in_order_with_its_number_in_the_picture(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        read = [(f.index, shown_number(reader, f.luma()), number_in(f.rgb())) for f in reader.frames()]
        assert read == [(n, n, n) for n in range(clip.frames)]
        assert reader.report.complete, reader.report
        assert reader.report.frames == clip.frames


def test_times_are_those_that_were_written(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        seconds = [f.time_seconds for f in reader.frames()]
        # Containers with coarse ticks round the first time and each other one.
        tick = float(reader.info.time_base)
    assert seconds[0] == 0
    assert np.abs(np.array(seconds) - clip.seconds).max() <= tick * 1.0001
    if clip.path.suffix == ".mp4":
        assert np.allclose(seconds, clip.seconds, rtol=0, atol=1e-9)


def test_packet_scan_agrees_with_full_decoding(clip: Clip) -> None:
    with open_video(clip.path) as scanning, open_video(clip.path) as decoding:
        frames = list(decoding.frames())
        times = scanning.times()
        assert times.pts.tolist() == [f.pts for f in frames]
        assert times.seconds.tolist() == [f.time_seconds for f in frames]


def test_size_rotation_and_colour_are_as_displayed(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        assert (reader.info.width, reader.info.height) == (clip.width, clip.height)
        assert (reader.info.rotation, reader.info.mirrored) == (clip.rotation, clip.mirrored)
        rgb = next(reader.frames()).rgb()
    assert rgb.shape == (clip.height, clip.width, 3)
    # Eight-colour steps of a gif and chroma subsampling move a colour a little.
    assert np.abs(rgb[60:76, 20:100].mean(axis=(0, 1)) - COLOR_RGB).max() < 20


def test_rgb_comes_at_the_size_asked_for(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        frame = next(reader.frames())
        assert frame.rgb(64, 32).shape == (32, 64, 3)
        assert frame.rgb(width=64).shape == (48, 64, 3)
        assert frame.rgb(height=192).shape == (192, 256, 3)
        assert frame.rgb(64, 48).flags.c_contiguous


def test_a_part_is_what_the_displayed_frame_shows_there(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        frame = next(reader.frames())
        box = (8, 50, 104, 90)
        part, whole = frame.part(box, 256), frame.rgb()[50:90, 8:104]
        assert part.shape == whole.shape
        # A stretched part begins at a whole stored pixel, up to one beside the place asked for.
        assert np.abs(part.astype(int) - whole).mean() < 4
        assert frame.part(box, 48).shape == (20, 48, 3)


def test_range_and_stride_keep_the_frame_numbers(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        for start, stop, every in ((0, None, 3), (7, None, 1), (11, 29, 1), (13, 38, 5), (25, 26, 1)):
            read = [
                (f.index, shown_number(reader, f.luma()))
                for f in reader.frames(start=start, stop=stop, every=every)
            ]
            expected = list(range(clip.frames))[start:stop:every]
            assert read == [(n, n) for n in expected], (start, stop, every)


def test_time_range_is_half_open(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        seconds = reader.times().seconds
        low, high = len(seconds) // 3, 2 * len(seconds) // 3
        read = [f.index for f in reader.frames(start_seconds=seconds[low], stop_seconds=seconds[high])]
        assert read == list(range(low, high))


def test_seek_by_time_lands_on_the_frame_shown_then(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        seconds = reader.times().seconds
        for n in {0, 1, 9, 10, 11, 23, len(seconds) - 1}:
            if n >= len(seconds):
                continue
            frame = reader.frame_at(float(seconds[n]))
            assert (frame.index, shown_number(reader, frame.luma())) == (n, n)
            until = float(seconds[n + 1]) if n + 1 < len(seconds) else float(seconds[n]) + 5
            between = reader.frame_at(float(seconds[n]) * 0.3 + until * 0.7)
            assert (between.index, shown_number(reader, between.luma())) == (n, n)


def test_seek_past_the_end_or_before_the_start_gives_the_nearest_frame(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        assert reader.frame_at(1e6).index == clip.frames - 1
        assert reader.frame_at(-3.0).index == 0


def test_start_past_the_end_yields_nothing(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        assert list(reader.frames(start=clip.frames)) == []
        assert list(reader.frames(start_seconds=1e6)) == []
        assert list(reader.frames(start=3, stop=3)) == []


def test_keyframe_only_mode_keeps_the_frame_numbers(clip: Clip) -> None:
    with open_video(clip.path) as reader, open_video(clip.path) as other:
        keys = [(f.index, f.pts) for f in reader.frames() if f.is_keyframe]
        read = list(other.frames(keyframes_only=True))
        assert [(f.index, f.pts) for f in read] == keys
        assert other.report.complete, other.report
        assert [shown_number(other, f.luma()) for f in read] == [index for index, _ in keys]
        later = [f.index for f in other.frames(keyframes_only=True, start=5)]
        assert other.report.complete, other.report
        assert later == [index for index, _ in keys if index >= 5]


def test_one_thread_and_many_read_the_same(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panorama.video.probing.ALONE_PIXELS", 0)
    with open_video(clip.path, threads=1) as one, open_video(clip.path, threads=4) as many:
        assert [f.pts for f in one.frames()] == [f.pts for f in many.frames()]


def test_passes_in_progress_do_not_disturb_each_other(clip: Clip) -> None:
    with open_video(clip.path) as reader:
        pairs = zip(reader.frames(), reader.frames(start=0), strict=True)
        assert all(a.index == b.index and a.pts == b.pts for a, b in pairs)


def test_closed_reader_says_so(clips: Callable[[str], Clip]) -> None:
    reader = open_video(clips("constant.mp4").path)
    frames = reader.frames()
    next(frames)
    reader.close()
    assert list(frames) == []
    with pytest.raises(VideoError, match="closed"):
        reader.frames()


def test_impossible_ranges_and_sizes_are_refused(clips: Callable[[str], Clip]) -> None:
    with open_video(clips("constant.mp4").path) as reader:
        with pytest.raises(UsageError, match="every=0"):
            reader.frames(every=0)
        with pytest.raises(UsageError, match="start=-1"):
            reader.frames(start=-1)
        with pytest.raises(UsageError, match="positive"):
            next(reader.frames()).rgb(0, 10)


def test_luma_of_a_planar_frame_is_a_view(clips: Callable[[str], Clip]) -> None:
    with open_video(clips("constant.mp4").path) as reader:
        assert not next(reader.frames()).luma().flags.owndata


# Real footage


def footage_videos() -> list[Path]:
    folder = FOOTAGE / "video"
    return sorted(folder.iterdir()) if folder.is_dir() else []


@pytest.mark.footage
@pytest.mark.parametrize("path", footage_videos() or [None], ids=lambda p: p.name if p else "absent")
def test_footage_scan_agrees_with_decoding(path: Path | None) -> None:
    if path is None:
        pytest.skip(NO_FOOTAGE)
    with open_video(path) as reader, open_video(path) as other:
        decoded = [(f.index, f.pts, f.is_keyframe) for f in other.frames()]
        times = reader.times()
        assert times.pts.tolist() == [pts for _, pts, _ in decoded]
        assert other.report.complete, other.report
        keys = [(f.index, f.pts, True) for f in reader.frames(keyframes_only=True)]
        assert keys == [d for d in decoded if d[2]]
        middle = len(decoded) // 2
        assert reader.frame_at(float(times.seconds[middle])).index == middle
