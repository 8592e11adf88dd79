"""Clips cut out of a video: their interval, pictures, colours and sound."""

from __future__ import annotations

import struct
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from clips import COLOR_RGB, cut_clip, number_in, write_picture_folder, write_video

from panorama.errors import LibraryWriteError, UsageError
from panorama.shown.hit_clips import write_clips
from panorama.shown.hits import Hit
from panorama.video import container, open_video
from panorama.video.clip import BOX_COLOR_RGB
from panorama.video.probing import shown_size


def test_clip_holds_the_interval_with_its_times(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mkv", "libx264", ticks=[0, 1, 2, 5, 6, 10, 11, 12, 20, 21])
    count = cut_clip(source.path, 2 / 25, 12 / 25, tmp_path / "clip.mp4")
    assert count == 5
    with open_video(tmp_path / "clip.mp4") as reader:
        frames = list(reader.frames())
        assert reader.info.codec == "h264"
        assert [number_in(f.luma()) for f in frames] == [2, 3, 4, 5, 6]
        assert np.allclose([f.time_seconds for f in frames], np.array([0, 3, 4, 8, 9]) / 25, atol=1e-3)


def sounding(path: Path, codec: str, rate: int, volume: int = 9000, **options: str) -> Path:
    """Two seconds of numbered pictures, the second one with a tone.

    Args:
        options: of the container.
    """
    video_codec = "mpeg2video" if path.suffix == ".vob" else "libx264"
    pictures = write_video(path.with_name("pictures.mkv"), video_codec, frames=50)
    with av.open(str(pictures.path)) as read, av.open(str(path), "w", options=options) as written:
        video = written.add_stream_from_template(read.streams.video[0])
        audio = written.add_stream(codec, rate=rate)
        audio.codec_context.layout = "mono"
        for packet in read.demux(video=0):
            if packet.dts is not None:
                packet.stream = video
                written.mux(packet)
        times = np.arange(2 * rate) / rate
        wave = (np.sin(times * 2000) * volume * (times >= 1)).astype(np.int16)[None]
        frame = av.AudioFrame.from_ndarray(wave, format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
        for part in av.AudioResampler(
            audio.format, "mono", rate, frame_size=audio.frame_size or 800
        ).resample(frame):
            written.mux(audio.encode(part))
        written.mux(audio.encode(None))
    return path


def loud_seconds(path: Path) -> list[float]:
    """When the sound of a file is loud."""
    loud: list[float] = []
    with av.open(str(path)) as container:
        for frame in container.decode(audio=0):
            heard = np.abs(frame.to_ndarray()[0]) > 0.1
            loud += list(frame.time + np.flatnonzero(heard) / frame.sample_rate)
    return loud


def programmes(path: Path, *parts: Path) -> Path:
    """Transport streams of one programme each become one of all; programme n has its table in PID 256 n."""
    listed = b"".join(struct.pack(">HH", n, 0xE000 | 256 * n) for n in range(1, len(parts) + 1))
    table = struct.pack(">BHHBBB", 0, 0xB000 | (9 + len(listed)), 1, 0xC1, 0, 0) + listed
    crc = 0xFFFFFFFF  # of MPEG-2
    for bit in (byte >> place & 1 for byte in table for place in range(7, -1, -1)):
        crc = (crc << 1 ^ (0x04C11DB7 if crc >> 31 ^ bit else 0)) & 0xFFFFFFFF
    head = b"\x47\x40\x00\x10\x00" + table + struct.pack(">I", crc)
    streams = [
        [whole[at : at + 188] for at in range(0, len(whole), 188) if whole[at + 1] & 31 or whole[at + 2]]
        for whole in (part.read_bytes() for part in parts)
    ]
    mixed = b"".join(packet for some in zip_longest(*streams, fillvalue=b"") for packet in some)
    path.write_bytes(head.ljust(188, b"\xff") + mixed)
    return path


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("a.mp4", "aac", 44_100),
        ("a.mkv", "pcm_s16le", 8_000),
        ("a.ts", "mp2", 48_000),
        ("a.vob", "ac3", 48_000),
    ],
)
def test_the_sound_of_a_clip_is_in_step_with_its_pictures(
    tmp_path: Path, name: str, codec: str, rate: int
) -> None:
    """Clips were silent; later still those of MPEG program streams, as on DVDs."""
    source = sounding(tmp_path / name, codec, rate)
    assert cut_clip(source, 0.6, 1.6, tmp_path / "clip.mp4") == 25
    with open_video(tmp_path / "clip.mp4") as reader:
        assert [number_in(f.luma()) for f in reader.frames()] == list(range(15, 40))
    loud = loud_seconds(tmp_path / "clip.mp4")
    assert loud[0] == pytest.approx(0.4, abs=0.02) and loud[-1] == pytest.approx(1.0, abs=0.05)


def test_the_sound_of_a_clip_is_that_of_its_programme(tmp_path: Path) -> None:
    """A recording of two broadcasts gave the pictures of the one with the sound of the other."""
    parts = [
        sounding(
            tmp_path / f"{number}.ts",
            codec,
            48_000,
            volume,
            mpegts_service_id=str(number),
            mpegts_pmt_start_pid=str(256 * number),
            mpegts_start_pid=str(256 * number + 1),
        )
        for number, codec, volume in ((1, "ac3", 9000), (2, "mp2", 0))
    ]
    source = programmes(tmp_path / "both.ts", *parts)
    with av.open(str(source)) as container:
        best = container.streams.best("audio")
        assert len(container.streams.video) == 2 and best is container.streams.audio[1]
    cut_clip(source, 0.6, 1.6, tmp_path / "clip.mp4")
    assert loud_seconds(tmp_path / "clip.mp4")


def test_what_is_silent_gives_a_clip_without_sound(tmp_path: Path) -> None:
    folder = write_picture_folder(tmp_path / "walk", frames=4).path
    short = write_video(tmp_path / "a.mp4", "libx264", frames=50, with_audio=True, audio_seconds=0.5).path
    for source, start in ((folder, 0), (write_video(tmp_path / "b.mp4", "libx264").path, 0), (short, 1)):
        cut_clip(source, start, start + 0.5, tmp_path / "clip.mp4")
        with av.open(str(tmp_path / "clip.mp4")) as clip:
            assert [stream.type for stream in clip.streams] == ["video"]


def test_clip_between_two_frames_shows_the_one_before(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=10)
    assert cut_clip(source.path, 0.13, 0.14, tmp_path / "clip.mp4") == 1
    with open_video(tmp_path / "clip.mp4") as reader:
        assert number_in(reader.frame_at(0).luma()) == 3


def test_clip_draws_boxes_upright_in_their_frames_only(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=6, rotation=90)
    cut_clip(source.path, 0, 1, tmp_path / "clip.mp4", boxes={2: [(40, 50, 100, 80)]})
    with open_video(tmp_path / "clip.mp4") as reader:
        pictures = [f.rgb().astype(int) for f in reader.frames()]
    edge = [picture[51, 44:96].mean(axis=0) for picture in pictures]
    assert np.abs(edge[2] - BOX_COLOR_RGB).max() < 40
    assert np.abs(edge[1] - edge[3]).max() < 10
    assert np.abs(edge[2] - edge[1]).max() > 20


def test_a_clip_has_square_pixels_and_the_shape_of_what_it_shows(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=4, pixel_aspect=Fraction(64, 45))
    cut_clip(source.path, 0, 1, tmp_path / "clip.mp4", boxes={2: [(40, 50, 100, 80)]})
    with open_video(tmp_path / "clip.mp4") as reader:
        assert (reader.info.width, reader.info.height) == (128, 96)
        picture = list(reader.frames())[2].rgb().astype(int)
    assert np.abs(picture[51, 44:96].mean(axis=0) - BOX_COLOR_RGB).max() < 40


@pytest.mark.parametrize(
    ("stored", "aspect", "shown"),
    [
        ((720, 576), Fraction(64, 45), (1024, 576)),
        ((720, 576), Fraction(16, 15), (768, 576)),
        ((720, 480), Fraction(8, 9), (720, 540)),
        ((704, 288), Fraction(6, 11), (704, 528)),
        ((853, 480), Fraction(1280, 1279), (853, 480)),  # rounded
        ((384, 384), Fraction(191, 189), (384, 384)),
        ((640, 360), Fraction(1), (640, 360)),
        ((640, 360), Fraction(0), (640, 360)),  # not said
        ((640, 360), None, (640, 360)),
        ((640, 360), Fraction(1, 1000), (640, 360)),  # damaged
    ],
)
def test_the_side_that_is_too_short_is_stretched(
    stored: tuple[int, int], aspect: Fraction | None, shown: tuple[int, int]
) -> None:
    assert shown_size(*stored, aspect) == shown


def test_clip_of_odd_size_is_written_even(tmp_path: Path) -> None:
    source = write_picture_folder(tmp_path / "walk", frames=4)
    for path in source.path.iterdir():
        cv2.imwrite(str(path), cv2.imread(str(path))[:95, :127])
    assert cut_clip(source.path, 0, 1, tmp_path / "clip.mp4") == 4
    with open_video(tmp_path / "clip.mp4") as reader:
        assert (reader.info.width, reader.info.height) == (126, 94)


def as_players_show(frame: av.VideoFrame) -> list[float]:
    """The colour of the middle by the matrix that is told, or else by the one that players take for HD."""
    red, blue = (0.299, 0.114) if frame.colorspace in (5, 6) else (0.2126, 0.0722)
    samples = [plane[plane.shape[0] // 2, plane.shape[1] // 2] for plane in planes_of(frame)]
    y, b, r = (samples[0] - 16) / 219, (samples[1] - 128) / 112, (samples[2] - 128) / 112
    shown = {"red": y + (1 - red) * r, "blue": y + (1 - blue) * b}
    green = (y - red * shown["red"] - blue * shown["blue"]) / (1 - red - blue)
    return [255 * shown["red"], 255 * green, 255 * shown["blue"]]


def planes_of(frame: av.VideoFrame) -> list[np.ndarray]:
    return [np.frombuffer(p, np.uint8).reshape(-1, p.line_size).astype(float) for p in frame.planes]


@pytest.mark.parametrize("size", [(1280, 720), (320, 240)])
def test_a_clip_has_the_colours_that_it_was_cut_from_in_other_players_too(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    """Its matrix was told nowhere, and of HD players took another one."""
    (tmp_path / "walk").mkdir()
    for number in range(3):
        picture = np.full((size[1], size[0], 3), COLOR_RGB[::-1], np.uint8)
        cv2.imwrite(str(tmp_path / "walk" / f"{number}.png"), picture)
    cut_clip(tmp_path / "walk", 0, 1, tmp_path / "clip.mp4")
    with av.open(str(tmp_path / "clip.mp4")) as container:
        assert container.streams.video[0].codec_context.colorspace in (5, 6)
        assert container.streams.video[0].codec_context.color_range == 1
        for frame in container.decode(video=0):
            assert np.abs(np.array(as_players_show(frame)) - COLOR_RGB).max() < 4


def test_a_video_that_h264_cannot_hold_leaves_the_clips_of_the_others(tmp_path: Path) -> None:
    """Its encoder's error was taken for one of the folder, and ended the command before the other clips."""
    with av.open(str(tmp_path / "a.avi"), "w") as container:
        stream = container.add_stream("mjpeg", rate=5)
        stream.width, stream.height, stream.pix_fmt = 16_600, 32, "yuvj420p"
        picture = av.VideoFrame.from_ndarray(np.zeros((32, 16_600, 3), np.uint8))
        container.mux([*stream.encode(picture), *stream.encode(None)])
    write_video(tmp_path / "b.mp4", "libx264", frames=4)
    paths = {name: str(tmp_path / name) for name in ("a.avi", "b.mp4")}
    hits = [Hit(name, 0.0, "red", None, None) for name in paths]
    made = write_clips(hits, paths, tmp_path / "clips")
    told = "its pictures, 16600x32 pixels, cannot be encoded as H.264: Generic error in an external library"
    assert made.failed == [f"a.avi-red-000000.00.mp4: {told}"]
    assert made.drawn == 1
    assert [path.name for path in (tmp_path / "clips").iterdir()] == ["b.mp4-red-000000.00.mp4"]


def test_all_clips_of_a_video_are_cut_from_one_reading_of_its_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each clip read the packets of the whole video: of an hour with 300 moments for minutes."""
    write_video(tmp_path / "a.mp4", "libx264", frames=200)
    write_video(tmp_path / "b.mp4", "libx264", frames=200)
    paths = {name: str(tmp_path / name) for name in ("a.mp4", "b.mp4")}
    hits = [Hit(name, time, "red", None, None) for name in paths for time in (1.0, 4.0, 7.0)]
    read, shown = list[str](), container.shown_packets
    monkeypatch.setattr(container, "shown_packets", lambda of: (read.append(of.info.path), shown(of))[1])
    assert write_clips(hits, paths, tmp_path / "clips").drawn == 6
    assert read == list(paths.values())
    for name in ("a.mp4-red-000003.50.mp4", "b.mp4-red-000003.50.mp4"):
        with open_video(tmp_path / "clips" / name) as reader:
            assert [number_in(frame.luma()) for frame in reader.frames()] == list(range(87, 113))


def test_failed_clip_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write_video(tmp_path / "source.mp4", "libx264", frames=4)
    with pytest.raises(UsageError, match="start < stop"):
        cut_clip(source.path, 1, 1, tmp_path / "clip.mp4")
    with pytest.raises(LibraryWriteError, match="cannot be written"):
        cut_clip(source.path, 0, 1, tmp_path / "absent" / "clip.mp4")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["source.mp4"]
