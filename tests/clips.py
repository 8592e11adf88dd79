"""Makes small video files whose every frame shows its own number, for tests that read them back."""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from av.stream import Disposition
from numpy.typing import NDArray

from panorama.video import open_video
from panorama.video.clip import write_clip

WIDTH, HEIGHT = 128, 96
BITS = 12
BLOCK = 16
RATE = 25
COLOR_RGB = (200, 40, 40)
MIRRORED_MATRICES = {0: (-1, 0, 0, 1), 90: (0, 1, 1, 0), 180: (1, 0, 0, -1), 270: (0, -1, -1, 0)}
"""By what is to be turned before it is mirrored left to right."""


@dataclass(frozen=True)
class Clip:
    """A file and what was written into it.

    Attributes:
        seconds: presentation time of each frame since the first.
        width, height: as displayed.
        rotation: clockwise degrees that a player has to apply.
        mirrored: whether it then has to mirror the picture left to right.
    """

    path: Path
    seconds: tuple[float, ...]
    width: int = WIDTH
    height: int = HEIGHT
    rotation: int = 0
    mirrored: bool = False

    @property
    def frames(self) -> int:
        return len(self.seconds)


def numbered_picture(number: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """(height, width, 3) RGB: the number in black and white bit blocks over a red field with a moving bar."""
    picture = np.empty((height, width, 3), np.uint8)
    picture[:] = COLOR_RGB
    for bit in range(BITS):
        x, y = _block_corner(bit, width)
        picture[y : y + BLOCK, x : x + BLOCK] = 255 if number >> bit & 1 else 0
    bar = number * 3 % (width - 8)
    picture[height - 12 : height - 4, bar : bar + 8] = (40, 40, 220)
    return picture


def number_in(picture: NDArray[np.uint8]) -> int:
    """The number painted into a gray or RGB picture of the original size."""
    gray = picture if picture.ndim == 2 else picture.mean(axis=2)
    number = 0
    for bit in range(BITS):
        x, y = _block_corner(bit, gray.shape[1])
        inner = gray[y + 4 : y + BLOCK - 4, x + 4 : x + BLOCK - 4]
        number |= int(inner.mean() > 128) << bit
    return number


def _block_corner(bit: int, width: int) -> tuple[int, int]:
    columns = width // BLOCK
    return bit % columns * BLOCK, bit // columns * BLOCK


def write_video(
    path: Path,
    codec: str,
    *,
    frames: int = 40,
    rate: int = RATE,
    ticks: Sequence[int] | None = None,
    time_base: Fraction | None = None,
    b_frames: int = 0,
    gop: int = 10,
    rotation: int = 0,
    mirrored: bool = False,
    pixel_aspect: Fraction = Fraction(1),
    pixel_format: str = "yuv420p",
    codec_options: dict[str, str] | None = None,
    container_options: dict[str, str] | None = None,
    with_audio: bool = False,
    audio_seconds: float | None = None,
) -> Clip:
    """Encodes numbered pictures at `ticks` x `time_base` seconds (default: one tick a frame).

    Args:
        rate: frames a second as headers tell it; `time_base` is one of them where none is given.
        mirrored: MP4 alone; see `Clip`.
        audio_seconds: of the tone; as long as the pictures where None.
        pixel_aspect: width over height of a stored pixel; the stored picture is that much narrower or lower.
    """
    ticks = list(range(frames)) if ticks is None else list(ticks)
    time_base = Fraction(1, rate) if time_base is None else time_base
    with av.open(str(path), "w", options=container_options or {}) as container:
        stream = container.add_stream(codec, rate=rate, options=codec_options or {})
        turned = rotation in (90, 270)
        width, height = (HEIGHT, WIDTH) if turned else (WIDTH, HEIGHT)
        stream.width = round(width / max(pixel_aspect, 1))
        stream.height = round(height * min(pixel_aspect, 1))
        stream.codec_context.sample_aspect_ratio = pixel_aspect
        stream.pix_fmt = pixel_format
        stream.codec_context.gop_size = gop
        stream.codec_context.max_b_frames = b_frames
        stream.codec_context.time_base = time_base
        stream.time_base = time_base
        if rotation:
            stream.set_display_rotation(-rotation)  # the display matrix counts counter-clockwise
        if with_audio:
            _write_tone(container, audio_seconds or float((ticks[-1] - ticks[0] + 1) * time_base))
        for number, tick in enumerate(ticks):
            shown = numbered_picture(number)[:, :: -1 if mirrored else 1]
            stored = np.ascontiguousarray(np.rot90(shown, rotation // 90))
            frame = av.VideoFrame.from_ndarray(stored)
            frame = frame.reformat(width=stream.width, height=stream.height, format=pixel_format)
            frame.pts, frame.time_base = tick, time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    if mirrored:
        set_display_matrix(path, MIRRORED_MATRICES[rotation])
    seconds = tuple(float((tick - ticks[0]) * time_base) for tick in ticks)
    return Clip(path, seconds, rotation=rotation, mirrored=mirrored)


def write_stamped_as_decoded(path: Path) -> Clip:
    """Reordered video whose packets are stamped in the order of decoding, as some that store streams do."""
    sound = write_video(path.with_stem("sound"), "libx264", b_frames=3, codec_options=B_FRAMES)
    with av.open(str(sound.path)) as read, av.open(str(path), "w") as written:
        stream = written.add_stream_from_template(read.streams.video[0])
        for number, packet in enumerate(p for p in read.demux(video=0) if p.size):
            packet.time_base = Fraction(1, RATE)
            packet.pts = packet.dts = number
            packet.duration = 1
            packet.stream = stream
            written.mux(packet)
    sound.path.unlink()
    return Clip(path, sound.seconds)


def write_palette(path: Path) -> Clip:
    """Pixels that are numbers of colours; which these are, only the first packet says, as in an AVI."""
    palette = np.array([(0, 0, 0), (255, 255, 255), COLOR_RGB, (40, 40, 220)] + [(0, 0, 0)] * 252, np.uint8)
    argb = np.column_stack([np.full(256, 255, np.uint8), palette])
    with av.open(str(path), "w") as container:
        stream = container.add_stream("rawvideo", rate=RATE)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "pal8"
        for number in range(40):
            colours = numbered_picture(number)[:, :, None] == palette[:4]  # (H, W, 4, 3)
            pixels = np.argmax(colours.all(axis=3), axis=2).astype(np.uint8)
            frame = av.VideoFrame.from_ndarray((pixels, argb), format="pal8")
            frame.pts, frame.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return Clip(path, tuple(number / RATE for number in range(40)))


def set_display_matrix(path: Path, matrix: tuple[int, int, int, int]) -> None:
    """Writes a, b, c, d into an MP4: a point (x, y) as stored is shown at (a x + c y, b x + d y)."""
    a, b, c, d = (value << 16 for value in matrix)
    data = bytearray(path.read_bytes())
    place = data.index(b"tkhd") + 44  # in a header of version 0
    data[place : place + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


def trim(path: Path, first: int, frames: int) -> None:
    """Writes into an MP4 of reordered frames that only those are shown, as trimming without a copy does."""
    with av.open(str(path)) as container:
        ticks = 1 / (container.streams.video[0].time_base or 1) / RATE
    data = bytearray(path.read_bytes())
    place = data.index(b"elst") + 12  # in a list of version 0, behind its length
    begin = struct.unpack_from(">i", data, place + 4)[0] + round(first * ticks)
    struct.pack_into(">Ii", data, place, frames * 1000 // RATE, begin)
    path.write_bytes(data)


def write_audio(path: Path, seconds: float = 0.5, with_cover: bool = False) -> Path:
    """A file with a tone and no moving picture; with a cover, as songs have one, or without."""
    with av.open(str(path), "w") as container:
        if with_cover:
            cover = container.add_stream("mjpeg", rate=1)
            cover.width, cover.height, cover.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
            cover.disposition = Disposition.attached_pic
        _write_tone(container, seconds)
        if with_cover:
            container.mux(cover.encode(av.VideoFrame.from_ndarray(numbered_picture(0))))
            container.mux(cover.encode(None))
    return path


def _write_tone(container: av.container.OutputContainer, seconds: float) -> None:
    stream = container.add_stream("aac", rate=44_100)
    count = int(44_100 * seconds)
    wave = (np.sin(np.arange(count) * 0.06) * 9000).astype(np.int16)[None]
    frame = av.AudioFrame.from_ndarray(wave, format="s16", layout="mono")
    frame.sample_rate, frame.pts, frame.time_base = 44_100, 0, Fraction(1, 44_100)
    container.mux(stream.encode(frame))
    container.mux(stream.encode(None))


def write_taken(
    path: Path,
    original: str | None,
    offset: str = "",
    order: str = ">",
    picture: NDArray[np.uint8] | None = None,
    digits: str = "",
) -> Path:
    """A picture with the times of EXIF, written by PIL; of the whole file, another one than it was taken.

    Args:
        digits: those behind the decimal point of the time.
    """
    image = pytest.importorskip("PIL.Image")
    says = image.Exif()
    says.endian = order
    says[0x0132] = "2031:01:01 00:00:00"  # when the file was changed
    for tag, text in ((0x9003, original), (0x9011, offset), (0x9291, digits)):
        if text:
            says.get_ifd(0x8769)[tag] = text
    path.parent.mkdir(parents=True, exist_ok=True)
    shown = image.new("RGB", (64, 48), "red") if picture is None else image.fromarray(picture)
    shown.save(path, exif=says)
    return path


def heic(pixels: NDArray[Any], orientation: int = 1, taken: str | None = None) -> bytes:
    """As a phone writes it: the turn is told to the decoder, and EXIF repeats it."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("pillow_heif").register_heif_opener()
    says, file = image.Exif(), io.BytesIO()
    says[0x0112] = orientation
    if taken:
        says.get_ifd(0x8769)[0x9003] = taken
    image.fromarray(pixels).save(file, "HEIF", quality=95, exif=says.tobytes())
    return file.getvalue()


def write_picture_folder(folder: Path, frames: int = 12, digits: int = 0) -> Clip:
    """Numbered PNG files; without `digits` frame-2 comes after frame-10 in plain sorting."""
    folder.mkdir(parents=True)
    for number in range(frames):
        bgr = cv2.cvtColor(numbered_picture(number), cv2.COLOR_RGB2BGR)
        cv2.imwrite(str(folder / f"frame-{number:0{digits}d}.png"), bgr)
    return Clip(folder, tuple(number / 5 for number in range(frames)))


def cut_off(clip: Path, path: Path, share: float) -> Path:
    """The first part of a file, as an interrupted copy leaves it."""
    data = clip.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


def damage_packet(clip: Path, path: Path, packet_number: int, byte: int = 0xFF) -> Path:
    """A copy in which one packet's bytes are overwritten."""
    with av.open(str(clip)) as container:
        packets = [p for p in container.demux(video=0) if p.size]
        packet = packets[packet_number]
        position, size = packet.pos, packet.size
    data = bytearray(clip.read_bytes())
    data[position + 4 : position + size] = bytes([byte]) * (size - 4)
    path.write_bytes(data)
    return path


def picture_starts(data: bytearray) -> list[int]:
    """Where the pictures of a transport stream begin, with their stamps, in the order of decoding."""
    blocks = range(0, len(data), 188)
    return [at for at in (data.find(b"\0\0\1\xe0", block, block + 188) for block in blocks) if at >= 0]


def unstamped(path: Path, lacks: Callable[[int], bool]) -> Path:
    """A transport stream without the stamps of some pictures, which are told by their place in decoding."""
    data = bytearray(path.read_bytes())
    for number, place in enumerate(picture_starts(data)):
        if lacks(number):
            data[place + 7] &= 0x3F  # the two bits that say which stamps follow
    lacking = path.with_stem("unstamped")
    lacking.write_bytes(data)
    return lacking


UNEVEN_TICKS = list(itertools.accumulate([0] + [1, 1, 3, 2, 7, 1, 4, 1, 1, 20] * 3))
H264 = {"preset": "ultrafast", "crf": "20"}
B_FRAMES = {"crf": "20", "preset": "veryfast", "x264-params": "b-adapt=0:bframes=3"}
TICK = Fraction(1, 100)
SLOW = 10
"""Frames a second of streams without a container; the rate that their demuxers assume is 25."""

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
    "stamped-as-decoded.mp4": write_stamped_as_decoded,
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
    "interlaced.mp4": lambda p: write_video(p, "mpeg4", b_frames=2, codec_options={"flags": "+ildct+ilme"}),
    "motion-jpeg.avi": lambda p: write_video(p, "mjpeg", pixel_format="yuvj420p"),
    "mpeg2.mpg": lambda p: write_video(p, "mpeg2video", b_frames=2),
    "palette.avi": write_palette,
    "broadcast.mxf": lambda p: write_video(p, "mpeg2video", b_frames=2),
    "windows.asf": lambda p: write_video(p, "wmv2"),
    "b-frames.asf": lambda p: write_video(p, "libx264", b_frames=3, codec_options=B_FRAMES),
    "phone.3g2": lambda p: write_video(p, "mpeg4"),
    "flash.f4v": lambda p: write_video(p, "libx264", codec_options=H264),
    "real.rm": lambda p: write_video(p, "rv20"),
    "vp9.ivf": lambda p: write_video(
        p, "libvpx-vp9", codec_options={"cpu-used": "8", "deadline": "realtime"}
    ),
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
    "mirrored.mp4": lambda p: write_video(p, "libx264", mirrored=True, codec_options=H264),
    "mirrored-90.mp4": lambda p: write_video(p, "libx264", mirrored=True, rotation=90, codec_options=H264),
    "mirrored-180.mp4": lambda p: write_video(p, "libx264", mirrored=True, rotation=180, codec_options=H264),
    "mirrored-270.mp4": lambda p: write_video(p, "libx264", mirrored=True, rotation=270, codec_options=H264),
    "wide-pixels.mp4": lambda p: write_video(p, "libx264", pixel_aspect=Fraction(4, 3), codec_options=H264),
    "high-pixels.mkv": lambda p: write_video(p, "libx264", pixel_aspect=Fraction(1, 2), codec_options=H264),
    "dvd.mpg": lambda p: write_video(p, "mpeg2video", pixel_aspect=Fraction(16, 15)),
    "wide-pixels-turned-90.mp4": lambda p: write_video(
        p, "libx264", pixel_aspect=Fraction(3, 2), rotation=90, codec_options=H264
    ),
    "bare.h264": lambda p: write_video(p, "libx264", rate=SLOW, codec_options=H264),
    "bare-b.h264": lambda p: write_video(p, "libx264", rate=SLOW, b_frames=3, codec_options=B_FRAMES),
    "bare.hevc": lambda p: write_video(
        p, "libx265", rate=SLOW, codec_options={"preset": "ultrafast", "x265-params": "log-level=none"}
    ),
    "bare.m2v": lambda p: write_video(p, "mpeg2video"),
    "one-frame.mp4": lambda p: write_video(p, "libx264", frames=1, codec_options=H264),
    "pictures": lambda p: write_picture_folder(p),
}


class Clips:
    """The clips of MAKERS, each written into a folder when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Clip] = {}

    def __call__(self, name: str) -> Clip:
        if name not in self._made:
            self._made[name] = MAKERS[name](self._folder / name)
        return self._made[name]


def cut_clip(
    path: Path, start_seconds: float, stop_seconds: float, out: Path, **drawn: Mapping[int, Any]
) -> int:
    """Open a video and write one clip of it; `drawn` as for `write_clip`."""
    with open_video(path) as reader:
        return write_clip(reader, start_seconds, stop_seconds, out, **drawn)
