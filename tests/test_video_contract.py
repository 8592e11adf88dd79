"""Every reader over every clip: exact numbers and times, whatever the container, codec or damage."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from clips import (
    COLOR_RGB,
    Clip,
    cut_off,
    damage_packet,
    number_in,
    numbered_picture,
    write_audio,
    write_picture_folder,
    write_video,
)
from places import FOOTAGE, NO_FOOTAGE

from panorama.errors import UsageError, VideoError, VideoOpenError
from panorama.video import VideoReader, open_video
from panorama.video.stamps import FrameClock, shows_frame

UNEVEN_TICKS = list(itertools.accumulate([0] + [1, 1, 3, 2, 7, 1, 4, 1, 1, 20] * 3))
H264 = {"preset": "ultrafast", "crf": "20"}
B_FRAMES = {"crf": "20", "preset": "veryfast", "x264-params": "b-adapt=0:bframes=3"}
TICK = Fraction(1, 100)

MAKERS: dict[str, Callable[[Path], Clip]] = {
    "constant.mp4": lambda p: write_video(p, "libx264", codec_options=H264),
    "uneven.mp4": lambda p: write_video(p, "libx264", ticks=UNEVEN_TICKS, time_base=TICK, codec_options=H264),
    "uneven-b.mkv": lambda p: write_video(
        p, "libx264", ticks=UNEVEN_TICKS, time_base=TICK, b_frames=3, codec_options=B_FRAMES
    ),
    "late-start.mp4": lambda p: write_video(
        p, "libx264", ticks=range(1000, 1040), b_frames=3, codec_options=B_FRAMES
    ),
    "late-start.mkv": lambda p: write_video(p, "libx264", ticks=range(1000, 1040), codec_options=H264),
    "b-frames.mp4": lambda p: write_video(p, "libx264", b_frames=3, codec_options=B_FRAMES),
    "b-frames.mkv": lambda p: write_video(p, "libx264", b_frames=3, codec_options=B_FRAMES),
    "b-frames.flv": lambda p: write_video(p, "libx264", b_frames=3, codec_options=B_FRAMES),
    "b-frames.ts": lambda p: write_video(p, "libx264", b_frames=3, codec_options=B_FRAMES),
    "b-frames.avi": lambda p: write_video(p, "libx264", b_frames=3, codec_options=B_FRAMES),
    "open-gop.mp4": lambda p: write_video(
        p, "libx264", b_frames=3, codec_options={"x264-params": "open-gop=1:b-adapt=0:bframes=3"}
    ),
    "hevc.mp4": lambda p: write_video(
        p, "libx265", b_frames=3, codec_options={"preset": "ultrafast", "x265-params": "log-level=none"}
    ),
    "with-audio.mp4": lambda p: write_video(p, "libx264", codec_options=H264, with_audio=True),
    "mpeg4.avi": lambda p: write_video(p, "mpeg4"),
    "mpeg4-b.avi": lambda p: write_video(p, "mpeg4", b_frames=2),
    "motion-jpeg.avi": lambda p: write_video(p, "mjpeg", pixel_format="yuvj420p"),
    "mpeg2.mpg": lambda p: write_video(p, "mpeg2video", b_frames=2),
    "mpeg1.mpg": lambda p: write_video(p, "mpeg1video"),
    "sorenson.flv": lambda p: write_video(p, "flv"),
    "vp9.webm": lambda p: write_video(
        p, "libvpx-vp9", codec_options={"cpu-used": "8", "deadline": "realtime"}
    ),
    "vp8.webm": lambda p: write_video(
        p, "libvpx", codec_options={"auto-alt-ref": "1", "lag-in-frames": "12", "cpu-used": "8"}
    ),
    "ten-bit.mkv": lambda p: write_video(
        p, "libx265", pixel_format="yuv420p10le", codec_options={"x265-params": "log-level=none"}
    ),
    "rgb.mp4": lambda p: write_video(p, "libx264rgb", pixel_format="rgb24", codec_options=H264),
    "animated.gif": lambda p: write_video(
        p, "gif", pixel_format="rgb8", ticks=range(0, 160, 4), time_base=TICK
    ),
    "uneven.gif": lambda p: write_video(p, "gif", pixel_format="rgb8", ticks=UNEVEN_TICKS, time_base=TICK),
    "turned-90.mp4": lambda p: write_video(p, "libx264", rotation=90, codec_options=H264),
    "turned-180.mp4": lambda p: write_video(p, "libx264", rotation=180, codec_options=H264),
    "turned-270.mp4": lambda p: write_video(p, "libx264", rotation=270, codec_options=H264),
    "wide-pixels.mp4": lambda p: write_video(p, "libx264", pixel_aspect=Fraction(4, 3), codec_options=H264),
    "high-pixels.mkv": lambda p: write_video(p, "libx264", pixel_aspect=Fraction(1, 2), codec_options=H264),
    "dvd.mpg": lambda p: write_video(p, "mpeg2video", pixel_aspect=Fraction(16, 15)),
    "wide-pixels-turned-90.mp4": lambda p: write_video(
        p, "libx264", pixel_aspect=Fraction(3, 2), rotation=90, codec_options=H264
    ),
    "one-frame.mp4": lambda p: write_video(p, "libx264", frames=1, codec_options=H264),
    "pictures": lambda p: write_picture_folder(p),
}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Clip]:
    folder = tmp_path_factory.mktemp("clips")
    made: dict[str, Clip] = {}

    def clip(name: str) -> Clip:
        if name not in made:
            made[name] = MAKERS[name](folder / name)
        return made[name]

    return clip


@pytest.fixture(params=list(MAKERS))
def clip(request: pytest.FixtureRequest, clips: Callable[[str], Clip]) -> Clip:
    return clips(request.param)


def shown_number(reader: VideoReader, picture: np.ndarray) -> int:
    if picture.ndim == 2:
        turned = np.ascontiguousarray(np.rot90(picture, -(reader.info.rotation // 90)))
        picture = cv2.resize(turned, (reader.info.width, reader.info.height))
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
        assert reader.info.rotation == clip.rotation
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
        assert [shown_number(other, f.luma()) for f in read] == [index for index, _ in keys]
        later = [f.index for f in other.frames(keyframes_only=True, start=5)]
        assert later == [index for index, _ in keys if index >= 5]


def test_one_thread_and_many_read_the_same(clip: Clip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panorama.video.decoding.ALONE_PIXELS", 0)
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


# What cannot be opened


def refusal(path: Path) -> str:
    with pytest.raises(VideoOpenError) as caught:
        open_video(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_missing_file_is_named(tmp_path: Path) -> None:
    assert "no file" in refusal(tmp_path / "nowhere.mp4")


def test_zero_length_file_is_called_empty(tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    assert "empty" in refusal(tmp_path / "empty.mp4")


@pytest.mark.parametrize("name", ["notes.mp4", "notes.txt", "notes.gif", "notes"])
def test_text_file_is_not_a_video(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("To be read by people.\n" * 50)
    assert "not a video" in refusal(tmp_path / name)


def test_playlist_does_not_open_what_it_names(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    target = clips("b-frames.ts").path
    (tmp_path / "list.m3u8").write_text(f"#EXTM3U\n#EXTINF:2,\n{target}\n#EXT-X-ENDLIST\n")
    (tmp_path / "list.txt").write_text(f"ffconcat version 1.0\nfile '{target.name}'\n")
    assert "not a video" in refusal(tmp_path / "list.m3u8")
    assert "not a video" in refusal(tmp_path / "list.txt")


def test_audio_only_file_says_what_it_holds(tmp_path: Path) -> None:
    assert "no video stream (it holds: audio)" in refusal(write_audio(tmp_path / "tone.mp4"))


def test_single_picture_is_not_a_video(tmp_path: Path) -> None:
    write_picture_folder(tmp_path / "one", frames=1)
    assert "single picture" in refusal(tmp_path / "one" / "frame-0.png")


def test_folder_without_pictures_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("nothing to see")
    assert "without pictures" in refusal(tmp_path)


def test_recording_that_was_not_finished_is_explained(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    assert "cut off" in refusal(cut_off(clips("constant.mp4").path, tmp_path / "cut.mp4", 0.5))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission_says_so(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    path = tmp_path / "secret.mp4"
    path.write_bytes(clips("constant.mp4").path.read_bytes())
    path.chmod(0)
    assert "permission" in refusal(path)


def test_name_with_colon_and_percent_opens(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    path = tmp_path / "12:30 gate %03d.mp4"
    path.write_bytes(clips("constant.mp4").path.read_bytes())
    with open_video(path) as reader:
        assert len(reader.times()) == 40


# Damage


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("t.mkv", "libx264"),
        ("t.avi", "mpeg4"),
        ("t.mp4", "libx264"),
        ("t.flv", "libx264"),
        ("t.webm", "libvpx"),
        ("t.gif", "gif"),
    ],
)
@pytest.mark.parametrize("threads", [1, 4])
def test_truncated_file_yields_a_prefix_and_reports_a_loss(
    tmp_path: Path, name: str, codec: str, threads: int
) -> None:
    options = {"movflags": "faststart"} if name.endswith("mp4") else {}
    b_frames = 2 if codec == "libx264" else 0
    whole = write_video(
        tmp_path / f"whole-{name}",
        codec,
        frames=60,
        b_frames=b_frames,
        pixel_format="rgb8" if codec == "gif" else "yuv420p",
        container_options=options,
    )
    with open_video(cut_off(whole.path, tmp_path / name, 0.6), threads=threads) as reader:
        frames = list(reader.frames())
        numbers = [number_in(f.luma()) for f in frames[:-1]]  # the last one may be half there
        assert 5 < len(frames) < 60
        assert numbers == list(range(len(numbers)))
        assert not reader.report.complete
        if codec != "gif":  # which says nowhere how many there were
            assert len(frames) + reader.report.lost_packets == pytest.approx(60, abs=3)
        assert reader.frame_at(1e6).index >= len(frames) - 2


def test_damage_in_the_middle_loses_little_and_is_reported(
    tmp_path: Path, clips: Callable[[str], Clip]
) -> None:
    whole = clips("b-frames.mp4")
    damaged = damage_packet(whole.path, tmp_path / "damaged.mp4", 14)
    counts = []
    for threads in (1, 4):
        with open_video(damaged, threads=threads) as reader:
            frames = list(reader.frames())
            counts.append(len(frames))
            assert reader.report.lost_packets >= 1
            assert reader.report.errors
            assert [f.index for f in frames] == list(range(len(frames)))
            assert number_in(frames[-1].luma()) == whole.frames - 1
    assert min(counts) >= whole.frames - 4


def test_long_last_frame_is_not_taken_for_a_missing_end(tmp_path: Path) -> None:
    clip = write_video(tmp_path / "slides.mkv", "libx264", ticks=[0, 100, 900, 903], time_base=TICK)
    with open_video(clip.path) as reader:
        assert len(list(reader.frames())) == 4
        assert reader.report.complete, reader.report


def test_dropped_frames_of_an_avi_are_not_taken_for_a_missing_end(tmp_path: Path) -> None:
    # Recorders write a chunk without a byte for a frame that they drop, and count it.
    clip = write_video(tmp_path / "dropped.avi", "mpeg4", ticks=[0, 1, 2, 6, 7, 8])
    with open_video(clip.path) as reader:
        assert len(list(reader.frames())) == 6
        assert reader.report.complete, reader.report


def test_loss_at_the_very_end_keeps_the_frames_before_it(
    tmp_path: Path, clips: Callable[[str], Clip]
) -> None:
    # Frame threads meet the error only while flushing, and used to swallow the frames queued behind it.
    whole = clips("constant.mp4")
    damaged = damage_packet(whole.path, tmp_path / "damaged.mp4", 36)
    numbers = {}
    for threads in (1, 4):
        with open_video(damaged, threads=threads) as reader:
            numbers[threads] = [f.index for f in reader.frames()]
            assert not reader.report.complete
    assert numbers[1] == numbers[4]


def test_mpeg_program_stream_ends_with_its_true_time(clips: Callable[[str], Clip]) -> None:
    # The parser stamps the last reference frame like the B-frame before it.
    with open_video(clips("mpeg2.mpg").path) as reader:
        assert np.allclose(np.diff(reader.times().seconds), 0.04)


def test_unreadable_picture_in_a_folder_is_counted(tmp_path: Path) -> None:
    clip = write_picture_folder(tmp_path / "pictures", frames=6)
    (clip.path / "frame-3.png").write_bytes(b"not a picture")
    with open_video(clip.path) as reader:
        frames = list(reader.frames())
        assert [(f.index, f.pts) for f in frames] == [(0, 0), (1, 1), (2, 2), (3, 4), (4, 5)]
        assert reader.report.lost_packets == 1
        assert "frame-3.png" in reader.report.errors[0]


def test_pictures_sort_by_number_and_take_the_rate_given(tmp_path: Path) -> None:
    clip = write_picture_folder(tmp_path / "pictures", frames=12)
    with open_video(clip.path, rate=Fraction(5)) as reader:
        frames = list(reader.frames())
        assert [number_in(f.rgb()) for f in frames] == list(range(12))
        assert frames[-1].time_seconds == pytest.approx(11 / 5)


def test_joined_files_continue_their_time_and_numbers(tmp_path: Path, clips: Callable[[str], Clip]) -> None:
    part = clips("mpeg2.mpg").path.read_bytes()
    (tmp_path / "joined.mpg").write_bytes(part + part)
    with open_video(tmp_path / "joined.mpg") as reader, open_video(tmp_path / "joined.mpg") as other:
        times = reader.times()
        frames = list(other.frames())
        assert len(frames) == 80
        assert times.pts.tolist() == [f.pts for f in frames]
        assert number_in(reader.frame_at(float(times.seconds[50])).luma()) == 10


def test_clock_fills_missing_and_repeated_stamps() -> None:
    clock = FrameClock(ticks_per_frame=2, time_base=Fraction(1, 50))
    assert [clock.next(raw) for raw in (10, None, 14, 14, 15, 20, None)] == [10, 12, 14, 16, 17, 20, 22]
    assert clock.repairs == 4


def test_clock_that_starts_over_goes_on() -> None:
    clock = FrameClock(ticks_per_frame=2, time_base=Fraction(1, 50))
    assert [clock.next(raw) for raw in (1000, 1002, 0, 2, 4)] == [1000, 1002, 1004, 1006, 1008]
    assert clock.repairs == 1


def test_hidden_reference_packets_are_not_frames() -> None:
    assert shows_frame("vp8", 0x10, 0) and not shows_frame("vp8", 0x01, 0)
    assert shows_frame("vp9", 0b1000_0010, 0) and not shows_frame("vp9", 0b1000_0100, 0)
    assert shows_frame("vp9", 0b1000_1000, 0)  # shows a frame that was hidden before
    assert shows_frame("h264", 0, 0)


def test_memory_does_not_grow_while_streaming(tmp_path: Path) -> None:
    path = tmp_path / "long.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for number in range(1500):
            picture = av.VideoFrame.from_ndarray(numbered_picture(number % 4096, 320, 240))
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    with open_video(path) as reader:
        for frame in reader.frames():
            frame.luma()
            frame.rgb(160, 120)
            if frame.index == 300:
                settled = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - settled
    assert grown_kib < 20 * 1024  # 1,200 frames kept would be 130 MiB


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
