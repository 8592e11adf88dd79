"""A video file enters; what a pass over its frames needs to know of it leaves, or why it cannot be read."""

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
from panorama.frames import DecodeReport, VideoInfo
from panorama.pictures.heif import is_still
from panorama.video.declared import matroska_bytes
from panorama.video.faults import READ_ERROR, Faults, reachable
from panorama.video.find import is_gone
from panorama.video.hdr import TRANSFERS, UNSPECIFIED
from panorama.video.hevc_layers import Layers

# A playlist or a disguised text file must not make the decoder open other files or the network.
OPEN_OPTIONS = {"protocol_whitelist": "file"}
TEXT_FORMATS = frozenset({"tty", "concat", "hls", "dash", "lrc", "srt", "webvtt", "ass"})
# These store no presentation times, or scrambled ones once frames are reordered; their order is still good.
ORDER_ONLY_FORMATS = frozenset({"avi", "h264", "hevc", "m4v", "mpegvideo", "vvc"})
# After a seek their parser may stamp frames one too late, so they are read from the beginning instead.
RESTAMPING_FORMATS = frozenset({"mpeg", "mpegvideo"})
# These write the length into the header when they are finished, so a shorter file has lost its end.
LENGTH_IN_HEADER_FORMATS = frozenset({"matroska,webm", "flv", "mxf"})
# By how much a length that was guessed from the size may be another, but for a header, which does not count.
GUESS_TOLERANCE_SECONDS = 0.1
GUESS_HEADER_BYTES = 65_536
# In these packets lie end to end but for small headers, so a pause takes no bytes and a hole does.
DENSE_FORMATS = frozenset({"matroska,webm", "flv"})
# These may be filled up to a rate, so that a pause takes bytes, too, but all of it is in blocks with a mark.
BLOCK_FORMATS = frozenset({"mpegts"})
# An edit list, as trimming leaves it, says here which part of the video is shown; the rest is not read.
EDITED_FORMATS = frozenset({"mov,mp4,m4a,3gp,3g2,mj2"})
SINGLE = "is a single picture, not a video; to read its folder as a video, name the folder"
NO_TIMESTAMPS = 0x80
"""FFmpeg's AVFMT_NOTIMESTAMPS, of streams without a container."""
LOOKED_AHEAD_PACKETS = 32
"""Reordered video reorders some frame among so many; it is decoded only where stamps are suspect."""
MAX_READ_ERRORS = 16
SEARCHED_BYTES = 65_536
"""For so many bytes a demuxer looks for the next block of a transport stream before it gives an error."""
ALONE_PIXELS = 960 * 540
"""Pictures up to this size are decoded by one thread, which gives more of them than anybody can use; several
take up to a third more processor time for them."""
ROUNDED_ASPECT = 0.03
"""Pixels so nearly square are taken as square: sides rounded to 8 or 16 pixels leave such ratios behind. The
least that a standard means is 16:15."""
MOST_ASPECT = 4
"""Pixels further from square are a damaged header: the widest in use are 2.2 times as high as wide."""


@dataclass(frozen=True, slots=True)
class Source:
    """A file that was opened once and found good; what a pass needs to know.

    Attributes:
        video_number: which of the video streams is read.
        first_pts: of the first frame that decodes, None where frames carry no pts.
        order_only: whether stamps are good for their order alone.
        can_seek: whether frames carry the same stamps after a seek.
        has_palette: whether pixels are numbers of colours that may come with the first packet alone.
        ticks_per_frame: of the average rate, at least 1.
        claimed_packets: of the video stream as the container counts them, 0 where it does not.
        edited: whether it also counts what an edit list leaves out.
        counts_empty: whether it also counts chunks without a byte, which show the frame before once more.
        claimed_seconds: where the container says that it ends, None where it does not.
        claimed_bytes: how long the file says that it is, None where it does not.
        gapless: whether packets lie end to end up to a trailer, so that the rest of the file is a loss.
        shows_holes: whether a hole in the file can be told from a pause of the recording.
        in_blocks: whether by the marks of its blocks.
        layers: of a stream of HEVC; None of others, and where it does not tell.
        faults: of all passes over the file, this first one too.
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
    """The file as a PyAV container; metadata that is not UTF-8 is no reason to fail.

    Args:
        unedited: whether all that the file holds is read, whatever its edit list leaves out.
    """
    options = OPEN_OPTIONS | {"ignore_editlist": "1"} if unedited else OPEN_OPTIONS
    # The prefix keeps a colon in a name from being read as a protocol.
    return av.open(f"file:{path}", options=options, metadata_errors="replace")


def open_source(path: Path, threads: int) -> Source:
    """Opens a file and decodes its first frame, which tells size, which way up, and where time starts.

    Raises:
        VideoOpenError: missing, no permission, empty, not a video, no video stream, nothing decodable.
    """
    _check_readable(path)
    with reachable(path):
        try:
            with closing(open_container(path)) as container:
                return _first_look(path, threads, container, _video_stream(container, path))
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
    # Some decoders, as that of HEVC, forget what the container told where the stream does not tell.
    if stream.codec_context.color_trc != UNSPECIFIED:
        transfer = stream.codec_context.color_trc
    return _source(path, threads, container, stream, first, order_only, TRANSFERS.get(transfer, ""), faults)


def decoder_threads(width: int, height: int, threads: int) -> int:
    """Threads that decode pictures of that size, of so many that may; 0 is as many as there are cores."""
    return 1 if width * height <= ALONE_PIXELS else threads


def _check_readable(path: Path) -> None:
    if is_gone(path):
        raise VideoOpenError(f"there is no file {path}; check the path")
    try:
        with path.open("rb") as file:
            head = file.read(12)
    except OSError as exc:
        raise VideoOpenError(f"{path} cannot be read: {exc.strerror}; check its permissions") from exc
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


def _video_stream(container: InputContainer, path: Path) -> VideoStream:
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
    """Whether the flags of its extended header say so."""
    with path.open("rb") as file:
        head = file.read(21)
    return head[:4] == b"RIFF" and head[8:16] == b"WEBPVP8X" and len(head) > 20 and head[20] & 2 != 0


def _moving(container: InputContainer) -> list[VideoStream]:
    """The video streams but for covers: that of a song or a film is a stream of one picture."""
    return [s for s in container.streams.video if Disposition.attached_pic not in s.disposition]


def frames_of(packets: Iterator[av.Packet]) -> Iterator[av.VideoFrame]:
    """The frames of packets that can be decoded."""
    for packet in packets:
        try:
            yield from packet.decode()
        except av.FFmpegError:
            continue


def _is_order_only(
    container: InputContainer, stream: VideoStream, first: av.VideoFrame, packets: Iterator[av.Packet]
) -> bool:
    """Whether stamps are good for their order alone.

    Args:
        packets: those behind the first frame; read only as far as needed.
    """
    if first.pts is None:
        return True
    if not stream.codec_context.has_b_frames:
        return False
    return container.format.name in ORDER_ONLY_FORMATS or _stamped_as_decoded(first.pts, packets)


def _stamped_as_decoded(last_pts: int, packets: Iterator[av.Packet]) -> bool:
    """Whether packets have one stamp each, that of decoding, though frames are shown in another order.

    Some programs that store what a camera sends do so. The stamps of frames then go to and fro.
    """

    def suspect() -> Iterator[av.Packet]:
        for packet in islice(packets, LOOKED_AHEAD_PACKETS):
            if packet.size and (packet.pts is None or packet.pts != packet.dts):
                return
            yield packet

    for frame in frames_of(suspect()):
        if frame.pts is None:
            return False
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
    """Whether a header says how long the file is.

    Of a whole file that was written into a pipe none does: then a demuxer divides its size by the rates that
    the streams name, which is too long by what the container takes.
    """
    if container.format.name not in LENGTH_IN_HEADER_FORMATS or not container.duration:
        return False
    rate = sum(s.codec_context.bit_rate or 0 for s in container.streams if s.codec_context is not None)
    if not rate:
        return True
    over = container.size * 8 / rate - container.duration / av.time_base
    return not -GUESS_TOLERANCE_SECONDS <= over <= GUESS_TOLERANCE_SECONDS + GUESS_HEADER_BYTES * 8 / rate


def _rate(container: InputContainer, stream: VideoStream) -> tuple[Fraction | None, bool]:
    """Frames a second, and whether nothing in the file says so; of a stream whose first frame is decoded.

    Where a file is a bare stream (.h264, .hevc, .mjpeg), the demuxer's average is a constant of its own; the
    stream's headers may tell the rate, which shows once they were decoded.
    """
    if not container.format.flags & NO_TIMESTAMPS:
        return stream.average_rate or stream.guessed_rate, False
    return stream.guessed_rate or stream.average_rate, stream.codec_context.framerate is None


def orientation(frame: av.VideoFrame) -> tuple[int, bool]:
    """Clockwise degrees by which a frame is to be turned, and whether it is then mirrored left to right."""
    found = frame.side_data.get("DISPLAYMATRIX")
    if not isinstance(found, SideData):
        return 0, False
    # A point (x, y) of the stored frame is shown at (a x + c y, b x + d y).
    a, b, _, c, d = np.frombuffer(memoryview(found), np.int32)[:5].tolist()
    if a * d >= b * c:
        return -round(frame.rotation / 90) * 90 % 360, False
    # One angle cannot tell a mirror: without it, x has the other sign, and what is left is a turn.
    return round(math.degrees(math.atan2(b, -a)) / 90) * 90 % 360, True


def shown_size(width: int, height: int, pixel_aspect: Fraction | None) -> tuple[int, int]:
    """The size at which a stored frame is shown: the side that is too short for its shape is stretched.

    No side shrinks, so that no detail is lost, as browsers do it.

    Args:
        pixel_aspect: width of a stored pixel over its height; None or 0 where the file does not say.
    """
    aspect = float(pixel_aspect or 1)
    if not 1 / MOST_ASPECT <= aspect <= MOST_ASPECT or abs(aspect - 1) <= ROUNDED_ASPECT:
        return width, height
    return (round(width * aspect), height) if aspect > 1 else (width, round(height / aspect))


def read_packets(
    container: InputContainer, stream: VideoStream | list[Stream], report: DecodeReport, faults: Faults
) -> Iterator[av.Packet]:
    """Packets of the stream, then the empty one that flushes; read errors are noted and passed over.

    Args:
        faults: are told of those that are the drive's.
    """
    errors = searched = 0
    while True:
        try:
            yield from container.demux(stream)
            return
        except BlockingIOError:
            # In a hole the next block is looked for, so many bytes at a time.
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
