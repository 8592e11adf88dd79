"""Cut off, damaged, badly stamped or very long: what is there is read, and what is lost is reported."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from av.container import InputContainer
from av.video.stream import VideoStream
from clips import (
    B_FRAMES,
    H264,
    HEIGHT,
    RATE,
    TICK,
    WIDTH,
    Clip,
    cut_off,
    damage_packet,
    number_in,
    numbered_picture,
    picture_starts,
    trim,
    write_picture_folder,
    write_video,
)

from panorama.frames import DecodeReport
from panorama.tracking.sampling import Unneeded
from panorama.video import decoding, open_video
from panorama.video.decoding import shown_packets, sound_frames
from panorama.video.faults import Faults
from panorama.video.probing import open_source
from panorama.video.stamps import FrameClock, shows_frame


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("t.mkv", "libx264"),
        ("t.avi", "mpeg4"),
        ("t.mp4", "libx264"),
        ("t.flv", "libx264"),
        ("t.webm", "libvpx"),
        ("t.mxf", "mpeg2video"),
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


@pytest.mark.parametrize("start", range(25, 45, 3))
def test_what_lies_behind_damage_comes_from_wherever_it_is_sought(tmp_path: Path, start: int) -> None:
    """Begun in the damaged group, a pass ended at the damage: clips of what comes later lacked it."""
    options = {**H264, "g": "10"}
    whole = write_video(tmp_path / "whole.mkv", "libx264", frames=60, codec_options=options)
    damaged = damage_packet(whole.path, tmp_path / "damaged.mkv", 34)
    with open_video(damaged) as reader:
        shown = [f.pts for f in reader.frames()]
        assert len(shown) > 50
        assert not reader.report.complete
        first = reader.frame_at(start / 25)
        assert [f.pts for f in reader.frames_from(first.pts)] == [pts for pts in shown if pts >= first.pts]


@pytest.mark.parametrize("held", [0, 4])
def test_what_is_missing_of_a_jpeg_is_the_picture_before(tmp_path: Path, held: int) -> None:
    """Without an error, it was whatever the decoder's memory held: other frames, by who kept which."""
    whole = write_video(tmp_path / "whole.avi", "mjpeg", pixel_format="yuvj420p")
    data, broken = bytearray(whole.path.read_bytes()), (5, 6, 20)
    with av.open(str(whole.path)) as container:
        packets = [(data.index(bytes(p)), p.size) for p in container.demux(video=0) if p.size]
    for number in broken:
        begin, size = packets[number]
        scan, end = data.index(b"\xff\xda", begin), begin + size
        cut = scan + (end - scan) // 2
        data[cut:end] = b"\xff\xd9".ljust(end - cut, b"\0")  # the picture ends here
    (tmp_path / "broken.avi").write_bytes(data)
    kept, seen = [], []
    with open_video(tmp_path / "broken.avi") as reader, open_video(whole.path) as intact:
        for frame in reader.frames():
            seen.append(frame.luma().copy())
            kept = [*kept, frame][-held:] if held else []
        assert (reader.report.frames, reader.report.lost_packets) == (whole.frames, len(broken))
        assert reader.report.errors == ["frames were decoded with errors in them"]
        true = [frame.luma().copy() for frame in intact.frames()]
        sought = [frame.luma().copy() for frame in reader.frames(start=19)]
        keys = [frame.luma().copy() for frame in reader.frames(keyframes_only=True)]
    assert [number_in(picture) for picture in seen] == list(range(whole.frames))
    for number, picture in enumerate(seen):
        before = {5: 4, 6: 4, 20: 19}.get(number, number)
        assert np.array_equal(picture[-16:], true[before][-16:]), number
    assert all(np.array_equal(*pair) for pair in zip(sought, seen[19:], strict=True))
    assert all(np.array_equal(*pair) for pair in zip(keys, seen, strict=True))


def test_long_last_frame_is_not_taken_for_a_missing_end(tmp_path: Path) -> None:
    clip = write_video(tmp_path / "slides.mkv", "libx264", ticks=[0, 100, 900, 903], time_base=TICK)
    with open_video(clip.path) as reader:
        assert len(list(reader.frames())) == 4
        assert reader.report.complete, reader.report


@pytest.mark.parametrize(
    ("name", "codec"),
    [("a.mkv", "libx264"), ("a.flv", "flv")],
)
def test_sound_that_goes_on_for_longer_is_not_taken_for_a_missing_end(
    tmp_path: Path, name: str, codec: str
) -> None:
    whole = write_video(tmp_path / f"whole-{name}", codec, frames=60, with_audio=True, audio_seconds=8.0)
    with open_video(whole.path) as reader:
        assert len(list(reader.frames())) == 60
        assert reader.report.complete, reader.report
    with open_video(cut_off(whole.path, tmp_path / name, 0.5)) as reader:
        list(reader.frames())
        assert not reader.report.complete


def test_dropped_frames_of_an_avi_are_not_taken_for_a_missing_end(tmp_path: Path) -> None:
    # Recorders write a chunk without a byte for a frame that they drop, and count it.
    clip = write_video(tmp_path / "dropped.avi", "mpeg4", ticks=[0, 1, 2, 6, 7, 8])
    with open_video(clip.path) as reader:
        assert len(list(reader.frames())) == 6
        assert reader.report.complete, reader.report


@pytest.mark.parametrize(("first", "frames"), [(0, 30), (25, 35), (23, 20), (0, 60)])
def test_what_an_edit_list_leaves_out_is_not_taken_for_a_missing_end(
    tmp_path: Path, first: int, frames: int
) -> None:
    """Whole groups before and behind a trimmed video are not read, and the container counts them."""
    options = {"movflags": "faststart"}
    whole = write_video(
        tmp_path / "a.mp4",
        "libx264",
        frames=60,
        b_frames=3,
        codec_options=B_FRAMES,
        container_options=options,
    )
    trim(whole.path, first, frames)
    with open_video(whole.path) as reader:
        assert [number_in(f.luma()) for f in reader.frames()] == list(range(first, first + frames))
        assert reader.report.complete, reader.report
        assert list(reader.frames(keyframes_only=True))
        assert reader.report.complete, reader.report
    with open_video(cut_off(whole.path, tmp_path / "cut.mp4", 0.85)) as reader:
        list(reader.frames())
        assert any("the file ends early" in error for error in reader.report.errors), reader.report


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


def test_a_file_that_cannot_be_sought_in_is_read_from_its_beginning(
    tmp_path: Path, clips: Callable[[str], Clip]
) -> None:
    # Behind its last frame an MXF has the index without which a demuxer refuses to seek.
    cut = cut_off(clips("broadcast.mxf").path, tmp_path / "cut.mxf", 0.97)
    with open_video(cut) as reader, open_video(cut) as fresh:
        last = list(reader.frames())[-1].index
        assert last >= 35
        for at in (20, last):
            assert number_in(fresh.frame_at(at / RATE).luma()) == at


@pytest.mark.parametrize(("name", "bits"), [("mxf", 1_000_000), ("matroska", 30_000)])
def test_a_whole_file_that_was_written_into_a_pipe_does_not_end_early(
    tmp_path: Path, name: str, bits: int
) -> None:
    """Without a length in its header it is guessed from rates: too much by what the container takes."""

    class Pipe:
        written = b""

        def write(self, data: bytes) -> int:
            self.written += data
            return len(data)

    pipe, rate = Pipe(), str(bits)
    with av.open(pipe, "w", format=name) as container:
        options = {"b": rate, "minrate": rate, "maxrate": rate, "bufsize": str(bits // 3)}
        stream = container.add_stream("mpeg2video", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for number in range(400):
            frame = av.VideoFrame.from_ndarray(numbered_picture(number % 40)).reformat(format="yuv420p")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    path = tmp_path / name
    path.write_bytes(pipe.written)
    with open_video(path) as reader:
        assert len(list(reader.frames())) == 400
        assert reader.report.complete, reader.report


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


def test_pictures_before_the_first_that_can_be_read_move_no_time_however_it_is_sought(tmp_path: Path) -> None:
    """A pass from the beginning counted from the first that was read, and seeking from the first of all."""
    clip = write_picture_folder(tmp_path / "pictures", frames=8)
    for name in ("frame-0.png", "frame-1.png"):
        (clip.path / name).write_bytes(b"not a picture")
    with open_video(clip.path) as reader:
        frames = list(reader.frames())
        assert reader.report.lost_packets == 2
        told = [(f.index, f.pts, f.time_seconds) for f in frames]
        assert told == [(k, k + 2, pytest.approx(k / 5)) for k in range(6)]
        assert reader.times().seconds.tolist() == [pytest.approx(f.time_seconds) for f in frames]
        assert reader.info.duration_seconds == pytest.approx(6 / 5)
        for f in frames:
            for sought in (
                next(reader.frames(start=f.index)),
                next(reader.frames(start_seconds=f.time_seconds)),
                next(reader.frames_from(f.pts)),
                reader.frame_at(f.time_seconds),
            ):
                assert (sought.index, sought.pts, sought.time_seconds) == (f.index, f.pts, f.time_seconds)
                assert number_in(sought.rgb()) == f.pts


def test_pictures_sort_by_number_and_are_five_a_second(tmp_path: Path) -> None:
    clip = write_picture_folder(tmp_path / "pictures", frames=12)
    with open_video(clip.path) as reader:
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


@pytest.mark.parametrize("frames", [5, 10, 20])
@pytest.mark.parametrize(("name", "codec"), [("p.mpg", "mpeg2video"), ("p.ts", "libx264")])
def test_joined_pieces_below_a_second_continue_their_time_too(
    tmp_path: Path, name: str, codec: str, frames: int
) -> None:
    """Their clocks go back by less than the second that was asked for: all but the first were squeezed."""
    part = write_video(tmp_path / name, codec, frames=frames, b_frames=2).path.read_bytes()
    (tmp_path / f"joined-{name}").write_bytes(part * 5)
    with open_video(tmp_path / f"joined-{name}") as reader, open_video(tmp_path / f"joined-{name}") as other:
        scanned = reader.times()
        found = list(other.frames())
        assert [number_in(f.luma()) for f in found] == list(range(frames)) * 5
        assert np.allclose([f.time_seconds for f in found], np.arange(5 * frames) / 25)
        assert scanned.pts.tolist() == [f.pts for f in found]


def with_bit_lost(path: Path, frame: int, bit: int) -> Path:
    """A transport stream in which one bit is wrong, of the presentation time of the frame decoded so late."""
    data = bytearray(path.read_bytes())
    place = picture_starts(data)[frame] + 9  # 3, 15 and 15 bits, each followed by a mark
    data[place + (4 if bit < 7 else 3 if bit < 15 else 2 if bit < 22 else 1)] ^= 1 << (
        bit + 1 if bit < 7 else bit - 7 if bit < 15 else bit - 14 if bit < 22 else bit - 22
    )
    damaged = path.with_stem("damaged")
    damaged.write_bytes(data)
    return damaged


@pytest.mark.parametrize("b_frames", [0, 3])
@pytest.mark.parametrize(("frame", "bit"), [(90, 17), (91, 20), (92, 23), (93, 25)])
def test_a_time_that_lost_a_bit_moves_no_other_frame(
    tmp_path: Path, b_frames: int, frame: int, bit: int
) -> None:
    ticks = range(2500, 2620)  # bits can be lost both ways
    options = B_FRAMES if b_frames else H264
    whole = write_video(
        tmp_path / "whole.ts", "libx264", ticks=ticks, b_frames=b_frames, codec_options=options
    )
    damaged = with_bit_lost(whole.path, frame, bit)
    with open_video(damaged) as reader:
        read = list(reader.frames())
        assert [number_in(f.luma()) for f in read] == list(range(120))
        assert np.allclose([f.time_seconds for f in read], np.arange(120) / RATE, atol=0.05)
        assert [f.pts for f in reader.frames_but(Unneeded(5))] == [f.pts for f in read]
    for number in (0, 50, 90, 91, 92, 110):
        with open_video(damaged) as fresh:
            assert number_in(next(fresh.frames_from(read[number].pts)).luma()) == number


def test_what_was_lost_right_behind_a_keyframe_ends_what_is_sound(
    clips: Callable[[str], Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read ahead, the loss was noted before the keyframe came out, and forgotten with all before that."""
    source = open_source(clips("constant.mp4").path, 1)
    key = [p.pts for p in shown_packets(source) if p.is_keyframe][1]
    read = decoding.read_packets

    def lossy(
        found: InputContainer, stream: VideoStream, report: DecodeReport, faults: Faults
    ) -> Iterator[av.Packet]:
        for packet in read(found, stream, report, faults):
            yield packet
            if packet.pts == key:
                report.note("a read error")
                report.lost_packets += 1

    monkeypatch.setattr(decoding, "read_packets", lossy)
    report = DecodeReport()
    assert [f.pts for f in sound_frames(source, report, key)] == [key]
    assert report.lost_packets == 1


def test_clock_that_goes_back_a_little_has_not_started_over() -> None:
    clock = FrameClock(ticks_per_frame=2, time_base=Fraction(1, 50))
    raw = [*range(0, 100, 2), 80, 82, 84, 100, 102]
    assert [clock.next(stamp) for stamp in raw][-2:] == [103, 104] and not clock.broken
    assert clock.next(106) == 106


def test_clock_fills_missing_and_repeated_stamps() -> None:
    clock = FrameClock(ticks_per_frame=2, time_base=Fraction(1, 50))
    assert [clock.next(raw) for raw in (10, None, 14, 14, 15, 20, None)] == [10, 12, 14, 16, 17, 20, 22]
    assert clock.repairs == 4


def test_clock_that_starts_over_goes_on() -> None:
    clock = FrameClock(ticks_per_frame=2, time_base=Fraction(1, 50))
    assert [clock.next(raw) for raw in (1000, 1002, 0, 2, 4)] == [1000, 1002, 1004, 1006, 1008]
    assert clock.repairs == 1


def test_clock_that_begins_late_goes_on() -> None:
    clock = FrameClock(ticks_per_frame=2, time_base=Fraction(1, 50))
    assert [clock.next(raw) for raw in (None, None, 1000, 1002, 1006)] == [0, 2, 4, 6, 10]
    assert clock.broken


def test_clock_takes_no_stray_stamp_for_one_that_starts_over() -> None:
    for stray in (9000, 0):
        clock = FrameClock(ticks_per_frame=2, time_base=Fraction(1, 50))
        raw = [1000, 1002, stray, 1006, 1008]
        assert [clock.next(*pair) for pair in zip(raw, [*raw[1:], None], strict=True)] == [
            *(1000, 1002, 1004, 1006, 1008)
        ]
        assert clock.repairs == 1 and not clock.broken


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
