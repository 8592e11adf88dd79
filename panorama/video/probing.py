"""A video file comes in; what a pass over its frames needs to know goes out, or why it cannot be read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Literal

import av
import numpy as np
from av.container import InputContainer
from av.sidedata.sidedata import SideData
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from panorama.errors import VideoOpenError
from panorama.folders import is_gone
from panorama.frames import DecodeReport, VideoInfo
from panorama.pictures.heif import is_still
from panorama.video.declared import matroska_bytes
from panorama.video.faults import READ_ERROR, Faults, reachable
from panorama.video.hdr import TRANSFERS, UNSPECIFIED
from panorama.video.hevc_layers import Layers

# A playlist or a disguised text file must not make the decoder open other files or the network.
OPEN_OPTIONS = {"protocol_whitelist": "file"}
TEXT_FORMATS = frozenset({"tty", "concat", "hls", "dash", "lrc", "srt", "webvtt", "ass"})
# If frames are reordered, these formats store no presentation times or wrong ones; their order is right.
ORDER_ONLY_FORMATS = frozenset({"asf", "avi", "h264", "hevc", "m4v", "mpegvideo", "vvc"})
# After a seek, their parser may give a frame the stamp of the next, so they are read from the beginning.
RESTAMPING_FORMATS = frozenset({"mpeg", "mpegvideo"})
# The header gets the length when the file is finished, so a shorter file has lost its end.
LENGTH_IN_HEADER_FORMATS = frozenset({"matroska,webm", "flv", "mxf"})
# How far a length may be from the one computed from the file's size to be taken for a guess; headers aside.
GUESS_TOLERANCE_SECONDS = 0.1
GUESS_HEADER_BYTES = 65_536
# Packets lie end to end except for small headers, so a hole takes bytes and a pause takes none.
DENSE_FORMATS = frozenset({"matroska,webm", "flv"})
# The stream may be padded to a constant rate, so a pause takes bytes, too; but these are in marked blocks.
BLOCK_FORMATS = frozenset({"mpegts"})
# An edit list, for example from trimming, says which part of the video is shown; the rest is not read.
EDITED_FORMATS = frozenset({"mov,mp4,m4a,3gp,3g2,mj2"})
SINGLE = "is a single picture, not a video; to read its folder as a video, name the folder"
NO_TIMESTAMPS = 0x80
"""FFmpeg's AVFMT_NOTIMESTAMPS, a flag of streams without a container."""
LOOKED_AHEAD_PACKETS = 32
"""Video with reordered frames reorders one within this many packets; decoded only if stamps are suspect."""
MAX_READ_ERRORS = 16
SEARCHED_BYTES = 65_536
"""Bytes in which a demuxer looks for the next block of a transport stream before it reports an error."""
ALONE_PIXELS = 960 * 540
"""Pictures up to this size are decoded by one thread, which is faster than the stages after it; several
threads take up to a third more processor time for them.
"""
ROUNDED_ASPECT = 0.03
"""Pixels this close to square are taken as square: rounding sides to 8 or 16 pixels causes such ratios. The
ratio closest to square in a standard is 16:15.
"""
MOTION_JPEG_SUFFIXES = frozenset({".mjpeg", ".mjpg"})
"""Suffixes of JPEG pictures one after the other, without a container."""
MOST_ASPECT = 4
"""A ratio beyond this is a damaged header: the most extreme pixels in use are 2.2 times as high as wide."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was opened once and can be decoded: what a pass over it needs to know.

    Attributes:
        path: the file.
        threads: threads of the decoder; 0 for one per core.
        info: facts of the video as displayed.
        video_number: which of the video streams is read, from 0.
        first_pts: pts of the first frame that decodes; None if it has none.
        order_only: whether stamps are right only in their order.
        can_seek: whether frames have the same stamps after a seek.
        has_palette: whether pixels index a palette, which may come with the first packet only.
        ticks_per_frame: time-base units per frame at the average rate, at least 1.
        claimed_packets: packets of the video stream as the container counts them; 0 if it does not.
        edited: whether this count includes packets that an edit list leaves out.
        counts_empty: whether this count includes empty chunks, which repeat the previous frame.
        claimed_seconds: duration that the container declares; None if it does not.
        claimed_bytes: length that the file declares; None if it does not.
        gapless: whether packets lie end to end up to a trailer, so that other bytes after them are lost ones.
        shows_holes: whether a hole in the file can be distinguished from a pause of the recording.
        in_blocks: whether the marks of blocks show that.
        layers: temporal layers of an HEVC stream; None for others, and if it does not declare them.
        faults: errors of the drive in all passes, including this first one.
    """

    path: Path
    threads: int
    info: VideoInfo
    video_number: int
    first_pts: int | None
    order_only: bool
    can_seek: bool
    has_palette: bool
    ticks_per_frame: int
    claimed_packets: int
    edited: bool
    counts_empty: bool
    claimed_seconds: float | None
    claimed_bytes: int | None
    gapless: bool
    shows_holes: bool
    in_blocks: bool
    layers: Layers | None
    faults: Faults


def open_container(path: Path, unedited: bool = False) -> InputContainer:
    """Open a file as a PyAV container; metadata that is not UTF-8 does not make it fail.

    Args:
        unedited: read everything in the file, ignoring its edit list.

    Raises:
        av.FFmpegError: it cannot be opened.
    """
    options = OPEN_OPTIONS | {"ignore_editlist": "1"} if unedited else OPEN_OPTIONS
    # The prefix keeps a name with a colon from being read as a protocol.
    name = f"file:{path}"
    container = av.open(name, options=options, metadata_errors="replace")
    if container.format.name == "jpeg_pipe" and path.suffix.lower() in MOTION_JPEG_SUFFIXES:
        # FFmpeg looks at the first kilobytes alone, in which a large picture does not end.
        container.close()
        container = av.open(name, format="mjpeg", options=options, metadata_errors="replace")
    return container


def open_source(path: Path, threads: int) -> Source:
    """Open a file and decode its first frame, which shows the size, orientation and start time.

    Raises:
        VideoOpenError: missing, no permission, empty, not a video, no video stream, nothing decodable.
    """
    _check_readable(path)
    with reachable(path):
        try:
            with closing(open_container(path)) as container:
                return _first_look(path, threads, container, video_stream(container, path))
        except av.FFmpegError as exc:
            raise VideoOpenError(_why_not_opened(path, exc)) from exc


def _first_look(path: Path, threads: int, container: InputContainer, stream: VideoStream) -> Source:
    stream.codec_context.thread_count = 1
    transfer = stream.codec_context.color_trc
    faults = Faults()
    packets = read_packets(container, stream, DecodeReport(), faults)
    first = next(frames_of(packets), None)
    if first is None:
        faults.check(path)
        raise VideoOpenError(f"{path} has a video stream, but no frame of it can be decoded")
    order_only = _is_order_only(container, stream, first, packets)
    # If the stream does not name it, some decoders, such as that of HEVC, reset what the container said.
    if stream.codec_context.color_trc != UNSPECIFIED:
        transfer = stream.codec_context.color_trc
    return _source(path, threads, container, stream, first, order_only, TRANSFERS.get(transfer, ""), faults)


def decoder_threads(width: int, height: int, threads: int) -> int:
    """Decoder threads for pictures of a size: 1 for small ones, else `threads`, with 0 for one per core."""
    return 1 if width * height <= ALONE_PIXELS else threads


def _check_readable(path: Path) -> None:
    if is_gone(path):
        raise VideoOpenError(f"there is no file {path}; check the path")
    with reachable(path), path.open("rb") as file:
        head = file.read(12)
    if is_still(head):  # FFmpeg takes each of its tiles for a video
        raise VideoOpenError(f"{path} {SINGLE}")
    if not head:
        raise VideoOpenError(f"{path} is empty (0 bytes)")


def _why_not_opened(path: Path, exc: av.FFmpegError) -> str:
    with path.open("rb") as file:
        head = file.read(64)
    if head[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free"):
        return (
            f"{path} is an MP4/MOV file without a readable index; "
            "it was cut off, or its recording was not finished"
        )
    return f"{path} is not a video that can be read: {exc.strerror or exc}"


def video_stream(container: InputContainer, path: Path) -> VideoStream:
    """The video stream that is read: the best one that is no cover picture.

    Raises:
        VideoOpenError: there is none, or no decoder for it.
    """
    if container.format.name in TEXT_FORMATS:
        raise VideoOpenError(f"{path} is a text file, not a video")
    if container.format.name == "image2" or container.format.name.endswith("_pipe"):
        if _is_animated_webp(path):
            raise VideoOpenError(
                f"{path} is an animated WebP, which the decoder cannot read; convert it to MP4 or GIF"
            )
        raise VideoOpenError(f"{path} {SINGLE}")
    moving = _moving(container)
    if not moving:
        held = {"a cover picture" if s.type == "video" else s.type for s in container.streams}
        kinds = ", ".join(sorted(held)) or "nothing"
        raise VideoOpenError(f"{path} has no video stream (it holds: {kinds})")
    best = container.streams.best("video")
    stream = best if isinstance(best, VideoStream) and best in moving else moving[0]
    if stream.codec_context is None:
        raise VideoOpenError(f"{path} holds video in a format that has no decoder here")
    return stream


def _is_animated_webp(path: Path) -> bool:
    """Whether the flags in the extended header of a WebP say that it is animated."""
    with path.open("rb") as file:
        head = file.read(21)
    return head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and len(head) > 20 and head[20] & 2 != 0


def _moving(container: InputContainer) -> list[VideoStream]:
    """The video streams except for cover pictures, which are streams of one picture."""
    return [s for s in container.streams.video if Disposition.attached_pic not in s.disposition]


def frames_of(packets: Iterator[av.Packet]) -> Iterator[av.VideoFrame]:
    """The frames of packets; skips packets that cannot be decoded."""
    for packet in packets:
        try:
            yield from packet.decode()
        except av.FFmpegError:
            continue


def _is_order_only(
    container: InputContainer, stream: VideoStream, first: av.VideoFrame, packets: Iterator[av.Packet]
) -> bool:
    """Whether stamps are missing, or right only in their order.

    Args:
        first: the first frame.
        packets: the packets after it; read only as far as needed.
    """
    if container.format.name in ORDER_ONLY_FORMATS:
        return first.pts is None or bool(stream.codec_context.has_b_frames)
    stamped = first.pts
    if stamped is None:  # those after it may have stamps
        ahead = frames_of(islice(packets, LOOKED_AHEAD_PACKETS))
        stamped = next((frame.pts for frame in ahead if frame.pts is not None), None)
    if stamped is None:
        return True
    return bool(stream.codec_context.has_b_frames) and _stamped_as_decoded(stamped, packets)


def _stamped_as_decoded(last_pts: int, packets: Iterator[av.Packet]) -> bool:
    """Whether packets have only the time of decoding as their pts, although frames are reordered.

    Some programs that store camera streams write such files. The pts of frames then go back and forth.

    Args:
        last_pts: pts of the frame before these packets.
    """

    def suspect() -> Iterator[av.Packet]:
        for packet in islice(packets, LOOKED_AHEAD_PACKETS):
            if packet.size and (packet.pts is None or packet.pts != packet.dts):
                return
            yield packet

    for frame in frames_of(suspect()):
        if frame.pts is None:  # of a packet before these
            continue
        if frame.pts < last_pts:
            return True
        last_pts = frame.pts
    return False


def _source(
    path: Path,
    threads: int,
    container: InputContainer,
    stream: VideoStream,
    first: av.VideoFrame,
    order_only: bool,
    hdr: Literal["", "pq", "hlg"],
    faults: Faults,
) -> Source:
    format_name = container.format.name
    time_base = stream.time_base or Fraction(1, 1000)
    rate, assumed = _rate(container, stream)
    rotation, mirrored = orientation(first)
    width, height = shown_size(first.width, first.height, stream.sample_aspect_ratio)
    turned = rotation in (90, 270)
    container_seconds = container.duration / av.time_base if container.duration else None
    stream_seconds = float(stream.duration * time_base) if stream.duration else None
    info = VideoInfo(
        path=str(path),
        codec=stream.codec_context.name,
        width=height if turned else width,
        height=width if turned else height,
        rotation=rotation,
        time_base=time_base,
        duration_seconds=stream_seconds if stream_seconds is not None else container_seconds,
        average_rate=float(rate) if rate else None,
        streams=len(_moving(container)),
        mirrored=mirrored,
        assumed_rate=assumed,
        hdr=hdr,
    )
    return Source(
        path=path,
        threads=decoder_threads(first.width, first.height, threads),
        info=info,
        video_number=container.streams.video.index(stream),
        first_pts=first.pts,
        order_only=order_only,
        can_seek=format_name not in RESTAMPING_FORMATS,
        has_palette=first.format.name == "pal8",
        ticks_per_frame=max(1, round(1 / (rate * time_base))) if rate else 1,
        claimed_packets=stream.frames,
        edited=format_name in EDITED_FORMATS,
        counts_empty=format_name == "avi",
        claimed_seconds=container_seconds if _tells_length(container) else None,
        claimed_bytes=matroska_bytes(path) if format_name == "matroska,webm" else None,
        gapless=format_name == "gif",
        shows_holes=format_name in DENSE_FORMATS | BLOCK_FORMATS,
        in_blocks=format_name in BLOCK_FORMATS,
        layers=Layers.of(stream.codec_context.extradata) if stream.codec_context.name == "hevc" else None,
        faults=faults,
    )


def _tells_length(container: InputContainer) -> bool:
    """Whether the file's header declares its length.

    The header of a complete file that was written to a pipe does not. Then the demuxer guesses: it divides
    the size by the streams' bit rates, which gives too much, because of the container's own bytes.
    """
    if container.format.name not in LENGTH_IN_HEADER_FORMATS or not container.duration:
        return False
    rate = sum(s.codec_context.bit_rate or 0 for s in container.streams if s.codec_context is not None)
    if not rate:
        return True
    over = container.size * 8 / rate - container.duration / av.time_base
    return not -GUESS_TOLERANCE_SECONDS <= over <= GUESS_TOLERANCE_SECONDS + GUESS_HEADER_BYTES * 8 / rate


def _rate(container: InputContainer, stream: VideoStream) -> tuple[Fraction | None, bool]:
    """Frames per second, and whether that is an assumption; call it after decoding the first frame.

    For a bare stream (.h264, .hevc, .mjpeg), the demuxer's average is a built-in constant. The stream's
    headers may contain the rate, which is known once they were decoded. For a DV tape, the average is one
    frame per tick, of which there are thousands per frame.
    """
    if not container.format.flags & NO_TIMESTAMPS:
        average, guessed = stream.average_rate, stream.guessed_rate
        if guessed and average and stream.time_base and average * stream.time_base == 1:
            average = guessed
        return average or guessed, False
    return stream.guessed_rate or stream.average_rate, stream.codec_context.framerate is None


def orientation(frame: av.VideoFrame) -> tuple[int, bool]:
    """Clockwise degrees by which to turn a frame for display, and whether to mirror it left to right then."""
    found = frame.side_data.get("DISPLAYMATRIX")
    if not isinstance(found, SideData):
        return 0, False
    # A point (x, y) of the stored frame is shown at (a x + c y, b x + d y).
    a, b, _, c, d = np.frombuffer(memoryview(found), np.int32)[:5].tolist()
    if a * d >= b * c:
        return -round(frame.rotation / 90) * 90 % 360, False
    # One angle cannot express a mirror: negate x to undo it, and what remains is a rotation.
    return round(math.degrees(math.atan2(b, -a)) / 90) * 90 % 360, True


def shown_size(width: int, height: int, pixel_aspect: Fraction | None) -> tuple[int, int]:
    """The size of a stored frame with square pixels: one side is stretched, as in browsers.

    No side shrinks, so no detail is lost.

    Args:
        pixel_aspect: width of a stored pixel over its height; None or 0 if the file does not say.
    """
    aspect = float(pixel_aspect or 1)
    if not 1 / MOST_ASPECT <= aspect <= MOST_ASPECT or abs(aspect - 1) <= ROUNDED_ASPECT:
        return width, height
    return (round(width * aspect), height) if aspect > 1 else (width, round(height / aspect))


def read_packets(
    container: InputContainer, stream: VideoStream | list[Stream], report: DecodeReport, faults: Faults
) -> Iterator[av.Packet]:
    """Packets of the stream, then the empty one that flushes the decoder; notes read errors and goes on.

    Gives up after MAX_READ_ERRORS errors.

    Args:
        report: gets every read error.
        faults: gets those of the drive.
    """
    errors = searched = 0
    while True:
        try:
            yield from container.demux(stream)
            return
        except BlockingIOError:
            # In a hole, the demuxer looks for the next block, SEARCHED_BYTES at a time.
            searched += 1
            if searched == 1:
                report.lost_packets += 1
                report.note(f"{READ_ERROR}: a stretch of the file holds no readable data")
            if searched > MAX_READ_ERRORS + container.size // SEARCHED_BYTES:
                return
        except av.FFmpegError as exc:
            errors += 1
            report.lost_packets += 1
            report.note(f"{READ_ERROR}: {exc.strerror or exc}")
            faults.take(exc)
            if errors > MAX_READ_ERRORS:
                return
