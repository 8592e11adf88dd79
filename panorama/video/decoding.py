"""A video file enters; its decoded PyAV frames leave in presentation order, and what was lost is counted."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer
from av.video.stream import VideoStream

from panorama.errors import VideoOpenError
from panorama.frames import DecodeReport, VideoInfo
from panorama.video.declared import matroska_bytes
from panorama.video.sparing import SPARING_CODECS, PassedOver, Sparing
from panorama.video.stamps import shows_frame

# A playlist or a disguised text file must not make the decoder open other files or the network.
OPEN_OPTIONS = {"protocol_whitelist": "file"}
TEXT_FORMATS = frozenset({"tty", "concat", "hls", "dash", "lrc", "srt", "webvtt", "ass"})
# These store no presentation times, or scrambled ones once frames are reordered; their order is still good.
ORDER_ONLY_FORMATS = frozenset({"avi", "h264", "hevc", "m4v", "mpegvideo", "vvc"})
# After a seek their parser may stamp frames one too late, so they are read from the beginning instead.
RESTAMPING_FORMATS = frozenset({"mpeg", "mpegvideo"})
# These write the length into the header when they are finished, so a shorter file has lost its end.
LENGTH_IN_HEADER_FORMATS = frozenset({"matroska,webm", "flv"})
LENGTH_TOLERANCE_SECONDS = 0.5
GIF_TRAILER = b";"
MAX_READ_ERRORS = 16
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
        ticks_per_frame: of the average rate, at least 1.
        claimed_packets: of the video stream as the container counts them, 0 where it does not.
        counts_empty: whether it also counts chunks without a byte, which show the frame before once more.
        claimed_seconds: where the container says that it ends, None where it does not.
        claimed_bytes: how long the file says that it is, None where it does not.
        gapless: whether packets lie end to end up to a trailer, so that the rest of the file is a loss.
    """

    path: Path
    threads: int
    info: VideoInfo
    video_number: int
    first_pts: int | None
    order_only: bool
    can_seek: bool
    ticks_per_frame: int
    claimed_packets: int
    counts_empty: bool
    claimed_seconds: float | None
    claimed_bytes: int | None
    gapless: bool


@dataclass(slots=True)
class PassCount:
    """What went in and out of the decoder in one pass."""

    packets: int = 0
    expected: int = 0
    decoded: int = 0
    interlaced: bool = False
    end_seconds: float = 0.0
    end_byte: int = 0
    widest_ticks: int = 0
    last_pts: int | None = None
    last_key_pts: int | None = None

    def presented(self, pts: int | None) -> None:
        """Take the stamp of the next frame in presentation order."""
        if pts is not None and self.last_pts is not None:
            self.widest_ticks = max(self.widest_ticks, pts - self.last_pts)
        self.last_pts = pts


def open_container(path: Path) -> InputContainer:
    """The file as a PyAV container; metadata that is not UTF-8 is no reason to fail."""
    # The prefix keeps a colon in a name from being read as a protocol.
    return av.open(f"file:{path}", options=OPEN_OPTIONS, metadata_errors="replace")


def _opened_again(path: Path) -> InputContainer:
    try:
        return open_container(path)
    except av.FFmpegError as exc:
        raise VideoOpenError(f"{path} was opened before and cannot be now: {exc.strerror or exc}") from exc


def open_source(path: Path, threads: int) -> Source:
    """Opens a file and decodes its first frame, which tells size, rotation and where time starts.

    Raises:
        VideoOpenError: missing, no permission, empty, not a video, no video stream, nothing decodable.
    """
    _check_readable(path)
    try:
        with closing(open_container(path)) as container:
            stream = _video_stream(container, path)
            stream.codec_context.thread_count = 1
            first = _first_frame(container, stream)
            if first is None:
                raise VideoOpenError(f"{path} has a video stream, but no frame of it can be decoded")
            return _source(path, threads, container, stream, first)
    except av.FFmpegError as exc:
        raise VideoOpenError(_why_not_opened(path, exc)) from exc


def _check_readable(path: Path) -> None:
    if not path.exists():
        raise VideoOpenError(f"there is no file {path}; check the path")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as exc:
        raise VideoOpenError(f"{path} cannot be read: {exc.strerror}; check its permissions") from exc
    if empty:
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
        raise VideoOpenError(
            f"{path} is a single picture, not a video; a folder of numbered pictures can be read as one"
        )
    moving = [s for s in container.streams.video if "attached_pic" not in str(s.disposition).lower()]
    if not moving:
        kinds = ", ".join(sorted({s.type for s in container.streams})) or "nothing"
        raise VideoOpenError(f"{path} has no video stream (it holds: {kinds})")
    best = container.streams.best("video")
    stream = best if isinstance(best, VideoStream) and best in moving else moving[0]
    if stream.codec_context is None:
        raise VideoOpenError(f"{path} holds video in a format that no decoder is known for")
    return stream


def _first_frame(container: InputContainer, stream: VideoStream) -> av.VideoFrame | None:
    for packet in _packets(container, stream, DecodeReport()):
        try:
            for frame in packet.decode():
                return frame
        except av.FFmpegError:
            continue
    return None


def _source(
    path: Path, threads: int, container: InputContainer, stream: VideoStream, first: av.VideoFrame
) -> Source:
    format_name = container.format.name
    time_base = stream.time_base or Fraction(1, 1000)
    rate = stream.average_rate or stream.guessed_rate
    rotation = -round(first.rotation / 90) * 90 % 360
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
    )
    return Source(
        path=path,
        threads=1 if first.width * first.height <= ALONE_PIXELS else threads,
        info=info,
        video_number=container.streams.video.index(stream),
        first_pts=first.pts,
        order_only=first.pts is None
        or (format_name in ORDER_ONLY_FORMATS and bool(stream.codec_context.has_b_frames)),
        can_seek=format_name not in RESTAMPING_FORMATS,
        ticks_per_frame=max(1, round(1 / (rate * time_base))) if rate else 1,
        claimed_packets=stream.frames,
        counts_empty=format_name == "avi",
        claimed_seconds=container_seconds if format_name in LENGTH_IN_HEADER_FORMATS else None,
        claimed_bytes=matroska_bytes(path) if format_name == "matroska,webm" else None,
        gapless=format_name == "gif",
    )


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


def _packets(container: InputContainer, stream: VideoStream, report: DecodeReport) -> Iterator[av.Packet]:
    """Packets of the stream, then the empty one that flushes; read errors are noted and passed over."""
    errors = 0
    while True:
        try:
            yield from container.demux(stream)
            return
        except av.FFmpegError as exc:
            errors += 1
            report.lost_packets += 1
            report.note(f"read error: {exc.strerror or exc}")
            if errors > MAX_READ_ERRORS:
                return


def shown_packets(source: Source) -> Iterator[av.Packet]:
    """The packets that become a frame, in decoding order, not decoded."""
    with closing(_opened_again(source.path)) as container:
        stream = container.streams.video[source.video_number]
        for packet in _packets(container, stream, DecodeReport()):
            if packet.size and is_shown(packet, source.info.codec):
                yield packet


def is_shown(packet: av.Packet, codec: str) -> bool:
    """Whether a packet becomes a frame: not cut away by an edit list, not a hidden reference."""
    if packet.is_discard:
        return False
    if codec not in ("vp8", "vp9"):
        return True
    data = memoryview(packet)
    return shows_frame(codec, data[0], data[-1])


def decoded_frames(
    source: Source, report: DecodeReport, *, seek_pts: int | None = None, keyframes_only: bool = False
) -> Generator[av.VideoFrame, None, None]:
    """Frames in presentation order, from the keyframe at `seek_pts` or from the beginning.

    Damage raises nothing: it is counted in `report` and decoding goes on.

    Raises:
        VideoOpenError: the file is no longer there.
    """
    for frame in _frames(source, report, seek_pts, keyframes_only):
        assert not isinstance(frame, PassedOver)
        yield frame


def needed_frames(
    source: Source, report: DecodeReport, unneeded: Callable[[int], bool]
) -> Generator[av.VideoFrame | PassedOver, None, None]:
    """All frames from the beginning in presentation order; of those that may be left out the pts alone.

    Args:
        unneeded: told the pts of packets in decoding order; whether nobody needs the frame.
    """
    sparing = None
    if source.first_pts is not None and not source.order_only and source.info.codec in SPARING_CODECS:
        sparing = Sparing(source.first_pts, max(1, round(1 / source.info.time_base)), unneeded)
    yield from _frames(source, report, sparing=sparing)


def _frames(
    source: Source,
    report: DecodeReport,
    seek_pts: int | None = None,
    keyframes_only: bool = False,
    sparing: Sparing | None = None,
) -> Iterator[av.VideoFrame | PassedOver]:
    count = PassCount()
    yield from _decode_pass(source, source.threads, report, count, seek_pts, keyframes_only, sparing)
    if keyframes_only:
        return
    # With several threads an error met while flushing swallows the frames behind it; one thread gets them.
    left_out = 0 if sparing is None else sparing.waiting
    if count.decoded + left_out < count.expected and source.threads != 1:
        yield from _tail(source, report, count, sparing)
    if sparing is not None:
        yield from _passed(sparing.rest(), count)
    if seek_pts is None:
        _count_lost(source, report, count)


def _decode_pass(
    source: Source,
    threads: int,
    report: DecodeReport,
    count: PassCount,
    seek_pts: int | None,
    keyframes_only: bool,
    sparing: Sparing | None = None,
) -> Iterator[av.VideoFrame | PassedOver]:
    with closing(_opened_again(source.path)) as container:
        stream = container.streams.video[source.video_number]
        stream.codec_context.thread_type = "AUTO"
        stream.codec_context.thread_count = threads
        if seek_pts is not None:
            container.seek(seek_pts, stream=stream)
        for packet in _packets(container, stream, report):
            if packet.size and keyframes_only and not packet.is_keyframe:
                continue
            _count_packet(source, count, packet)
            if sparing is not None:
                spared = packet.size and sparing.spares(packet, is_shown(packet, source.info.codec))
                stream.codec_context.skip_frame = "NONREF" if spared else "DEFAULT"
            try:
                frames = packet.decode()
            except av.FFmpegError as exc:
                report.lost_packets += 1
                report.note(f"a packet could not be decoded: {exc.strerror or exc}")
                if sparing is not None:
                    sparing.stop()
                continue
            for frame in frames:
                if sparing is not None:
                    if sparing.has_told_of(frame):
                        continue
                    yield from _passed(sparing.before(frame), count)
                _count_frame(report, count, frame)
                yield frame


def _passed(passed: Iterator[PassedOver], count: PassCount) -> Iterator[PassedOver]:
    """What was passed over, counted as if it had been decoded."""
    for frame in passed:
        count.decoded += 1
        count.presented(frame.pts)
        yield frame


def _count_packet(source: Source, count: PassCount, packet: av.Packet) -> None:
    if not packet.size:
        return
    count.packets += 1
    count.end_byte = max(count.end_byte, (packet.pos or 0) + packet.size)
    if packet.pts is not None:
        end = (packet.pts + (packet.duration or 0)) * float(source.info.time_base)
        count.end_seconds = max(count.end_seconds, end)
        if source.first_pts is not None and not source.order_only and packet.pts < source.first_pts:
            return  # leads up to a keyframe that lies before the file's beginning
    count.expected += is_shown(packet, source.info.codec)


def _count_frame(report: DecodeReport, count: PassCount, frame: av.VideoFrame) -> None:
    count.decoded += 1
    count.interlaced |= frame.interlaced_frame
    count.presented(frame.pts)
    if frame.key_frame:
        count.last_key_pts = frame.pts
    if frame.is_corrupt:
        report.lost_packets += 1
        report.note("frames were decoded with errors in them")


def _tail(
    source: Source, report: DecodeReport, count: PassCount, sparing: Sparing | None
) -> Iterator[av.VideoFrame | PassedOver]:
    """Frames behind the last one that came out, decoded by a single thread."""
    if count.last_pts is None or count.last_key_pts is None or source.order_only:
        return
    again = PassCount()
    for frame in _decode_pass(source, 1, DecodeReport(), again, count.last_key_pts, False):
        assert not isinstance(frame, PassedOver)
        if frame.pts is not None and frame.pts > count.last_pts:
            if sparing is not None:
                yield from _passed(sparing.before(frame), count)
            _count_frame(report, count, frame)
            yield frame


def _count_lost(source: Source, report: DecodeReport, count: PassCount) -> None:
    """What errors alone do not show: packets without a frame, and an end that is missing."""
    silent = count.expected - count.decoded - report.lost_packets
    # Field-coded video has two packets a frame, which is no loss.
    if silent > 0 and not count.interlaced:
        report.lost_packets += silent
        report.note("packets gave no frame")
    missing, where = _missing_end(source, count)
    if missing > 0:
        report.lost_packets += missing
        report.note(f"the file ends early: {where}")


def _missing_end(source: Source, count: PassCount) -> tuple[int, str]:
    """About how many packets the file lacks by its own account, and how that is known."""
    if source.gapless:
        with source.path.open("rb") as file:
            file.seek(max(0, count.end_byte - 1))
            rest = file.read()
        size = count.end_byte + max(0, len(rest) - 1)
        if count.end_byte >= size - 1 and rest.endswith(GIF_TRAILER):
            return 0, ""
        per_packet = max(1, count.end_byte // max(1, count.packets))
        return max(1, round((size - count.end_byte) / per_packet)), f"at byte {count.end_byte} of {size}"
    if source.claimed_packets:
        read = count.packets
        if source.counts_empty:
            read = max(read, round(count.end_seconds / float(source.info.time_base)))
        return source.claimed_packets - read, f"{read} of {source.claimed_packets} packets could be read"
    if source.claimed_seconds is not None:
        gap = source.claimed_seconds - count.end_seconds
        # A last frame may be shown for long, as others were; a file shorter than it declares leaves no doubt.
        widest = 2 * count.widest_ticks * float(source.info.time_base)
        short = (source.claimed_bytes or 0) > source.path.stat().st_size
        late = short or gap > max(LENGTH_TOLERANCE_SECONDS, widest)
        where = f"at {count.end_seconds:.2f} of {source.claimed_seconds:.2f} seconds"
        return (max(1, round(gap * (source.info.average_rate or 1))) if late else 0), where
    return 0, ""
