"""A video file comes in; its decoded PyAV frames go out in presentation order, with a count of losses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from pathlib import Path

import av
from av.codec.context import Flags
from av.container import InputContainer
from av.video.stream import VideoStream

from panorama.errors import VideoOpenError
from panorama.frames import DecodeReport
from panorama.video.faults import reachable
from panorama.video.hevc_layers import Splices
from panorama.video.holes import Gap, Holes
from panorama.video.jpegs import JPEGS, STRICT, JpegDecoder
from panorama.video.probing import Source, frames_of, open_container, read_packets
from panorama.video.sparing import PassedOver, Sparing
from panorama.video.stamps import far_ticks, shows_frame, with_behind

LENGTH_TOLERANCE_SECONDS = 0.5
DAMAGED_FRAMES = "frames were decoded with errors in them"
COUNTED_CODECS = frozenset({"h264", "hevc"})
"""Codecs that count a picture's place with a few bits, relative to the pictures before. If only keyframes are
decoded, they may be too far apart for that, and a later one could come out first.
"""

GIF_TRAILER = b";"
MOST_HEADER_BYTES = 64
"""Most header bytes per packet, in containers with a header for each packet and for each group."""


@dataclass(slots=True)
class PassCount:
    """Counts what goes into the decoder and comes out in one pass; notes losses in `report`.

    Attributes:
        packets: packets read.
        expected: packets that were decoded and should give a frame.
        decoded: frames that came out, and those passed over.
        end_seconds: latest end of a packet, in the container's time.
        end_byte: where the last packet ends in the file.
        widest_ticks: longest step between two frames.
    """

    source: Source
    report: DecodeReport
    packets: int = 0
    expected: int = 0
    decoded: int = 0
    interlaced: bool = False
    end_seconds: float = 0.0
    end_byte: int = 0
    widest_ticks: int = 0
    last_pts: int | None = None
    last_key_pts: int | None = None
    holes: Holes = field(init=False)
    shows: Callable[[av.Packet], bool] = field(init=False)

    def __post_init__(self) -> None:
        self.holes = Holes(self.source)
        self.shows = _shows(self.source)

    def packet(self, packet: av.Packet, goes_in: bool = True) -> bool:
        """Count a packet; returns whether it is one that shows a frame.

        Args:
            goes_in: whether the decoder gets it.
        """
        if not packet.size:
            return False
        source, shown = self.source, self.shows(packet)
        self.packets += 1
        self.holes.packet(packet)
        self.end_byte = max(self.end_byte, (packet.pos or 0) + packet.size)
        if packet.pts is not None:
            end = (packet.pts + (packet.duration or 0)) * float(source.info.time_base)
            self.end_seconds = max(self.end_seconds, end)
            if source.first_pts is not None and not source.order_only and packet.pts < source.first_pts:
                return shown  # depends on a keyframe before the beginning of the file
        self.expected += goes_in and shown
        return shown

    def frame(self, frame: av.VideoFrame) -> None:
        """Count a frame that came out of the decoder."""
        self.interlaced |= frame.interlaced_frame
        self.presented(frame.pts)
        if frame.key_frame:
            self.last_key_pts = frame.pts
        if frame.is_corrupt:
            self.lost(DAMAGED_FRAMES)

    def presented(self, pts: int | None) -> None:
        """Count the next frame in presentation order, decoded or passed over, by its pts."""
        self.decoded += 1
        if pts is not None and self.last_pts is not None:
            self.widest_ticks = max(self.widest_ticks, pts - self.last_pts)
            self.holes.step(pts - self.last_pts)
        self.last_pts = pts

    def lost(self, why: str, packets: int = 1) -> None:
        """Note a loss."""
        self.report.lost_packets += packets
        self.report.note(why)

    def end(self) -> None:
        """At the end of a full pass, note losses that gave no error: packets without a frame, and holes."""
        self.silent()
        with reachable(self.source.path):
            missing = list(self.holes.found(lambda gaps: _bytes_of_others(self.source, gaps)))
        for begin, seconds, frames in missing:
            self.lost(f"about {seconds:.1f} s from {begin:.1f} s on are missing", frames)
        self.early_end()

    def silent(self) -> None:
        """Note packets that gave neither a frame nor an error."""
        silent = self.expected - self.decoded - self.report.lost_packets
        # Field-coded video has two packets per frame, which is not a loss.
        if silent > 0 and not self.interlaced:
            self.lost("packets gave no frame", silent)

    def early_end(self) -> None:
        """Note packets that are missing at the end, according to what the file declares."""
        with reachable(self.source.path):
            missing, where = self._missing_end()
        if missing > 0:
            self.lost(f"the file ends early: {where}", missing)

    def _missing_end(self) -> tuple[int, str]:
        """About how many packets are missing at the end, and why that is believed; 0 or less if none are."""
        source = self.source
        if source.gapless:
            with source.path.open("rb") as file:
                file.seek(max(0, self.end_byte - 1))
                rest = file.read()
            size = self.end_byte + max(0, len(rest) - 1)
            if self.end_byte >= size - 1 and rest.endswith(GIF_TRAILER):
                return 0, ""
            per_packet = max(1, self.end_byte // max(1, self.packets))
            return max(1, round((size - self.end_byte) / per_packet)), f"at byte {self.end_byte} of {size}"
        if source.claimed_packets:
            read = self.packets
            if source.counts_empty:
                read = max(read, round(self.end_seconds / float(source.info.time_base)))
            if source.edited and read != source.claimed_packets:
                read = _unedited_packets(source)
            return source.claimed_packets - read, f"{read} of {source.claimed_packets} packets could be read"
        if source.claimed_seconds is not None:
            gap = source.claimed_seconds - self.end_seconds
            # The last frame may last long, like others; but a file shorter than it declares is cut off.
            widest = 2 * self.widest_ticks * float(source.info.time_base)
            short = (source.claimed_bytes or 0) > source.path.stat().st_size
            late = short or gap > max(LENGTH_TOLERANCE_SECONDS, widest)
            if late and not short:  # sound, or a second video stream, may last longer
                late = source.claimed_seconds - _end_of_others(source) > LENGTH_TOLERANCE_SECONDS
            where = f"at {self.end_seconds:.2f} of {source.claimed_seconds:.2f} seconds"
            return (max(1, round(gap * (source.info.average_rate or 1))) if late else 0), where
        return 0, ""


def _opened_again(path: Path, unedited: bool = False) -> InputContainer:
    try:
        return open_container(path, unedited)
    except av.FFmpegError as exc:
        raise VideoOpenError(f"{path} can no longer be opened: {exc.strerror or exc}") from exc


def _unedited_packets(source: Source) -> int:
    """Number of packets that can be read, each once, including those that an edit list leaves out."""
    with closing(_opened_again(source.path, unedited=True)) as container:
        stream = container.streams.video[source.video_number]
        packets = read_packets(container, stream, DecodeReport(), source.faults)
        return sum(bool(packet.size) for packet in packets)


def _bytes_of_others(source: Source, gaps: Sequence[Gap]) -> list[int]:
    """Bytes of each gap that packets of all streams occupy, with their headers; 0 if there is one stream."""
    with closing(_opened_again(source.path)) as container:
        streams = list(container.streams)
        if len(streams) == 1:
            return [0] * len(gaps)
        # Gaps may overlap in a damaged file, so count between one edge of any gap and the next.
        edges = sorted({edge for gap in gaps for edge in (gap.first_byte, gap.end_byte)})
        before = [0] * (len(edges) + 1)
        # Read from the beginning: in a damaged file a seek may land anywhere.
        for packet in read_packets(container, streams, DecodeReport(), source.faults):
            if packet.pos is not None:
                before[bisect_right(edges, packet.pos)] += packet.size + MOST_HEADER_BYTES
    upto = dict(zip(edges, accumulate(before), strict=False))
    return [upto[gap.end_byte] - upto[gap.first_byte] for gap in gaps]


def _end_of_others(source: Source) -> float:
    """When sound and other video streams end, in seconds of the container's time; 0 if there are none."""
    with closing(_opened_again(source.path)) as container:
        video = container.streams.video[source.video_number]
        others = [s for s in container.streams if s.index != video.index and s.type in ("audio", "video")]
        if not others:
            return 0.0
        ends = [
            float((p.pts + (p.duration or 0)) * p.time_base)
            for p in read_packets(container, others, DecodeReport(), source.faults)
            if p.size and p.pts is not None and p.time_base is not None
        ]
        return max(ends, default=0.0)


def shown_packets(source: Source) -> Iterator[av.Packet]:
    """The packets that show a frame, in decoding order, not decoded."""
    with closing(_opened_again(source.path)) as container:
        stream, shows = container.streams.video[source.video_number], _shows(source)
        for packet in read_packets(container, stream, DecodeReport(), source.faults):
            if packet.size and shows(packet):
                yield packet


def _shows(source: Source) -> Callable[[av.Packet], bool]:
    """A function that says whether a packet shows a frame. Call it for all packets, in decoding order.

    Packets cut off by an edit list or a splice show none, nor do hidden reference frames.
    """
    codec = source.info.codec
    if codec in ("vp8", "vp9"):

        def shown(packet: av.Packet) -> bool:
            data = memoryview(packet)
            return not packet.is_discard and shows_frame(codec, data[0], data[-1])

        return shown
    if source.layers is None:
        return lambda packet: not packet.is_discard
    splices = Splices(source.layers.length_bytes)
    return lambda packet: not splices.hides(packet) and not packet.is_discard


def decoded_frames(
    source: Source, report: DecodeReport, *, seek_pts: int | None = None, keyframes_only: bool = False
) -> Generator[av.VideoFrame, None, None]:
    """Frames in presentation order, from the keyframe at `seek_pts` or from the beginning.

    Damage raises nothing: it is counted in `report`, and decoding goes on. Yields nothing if seeking in the
    file fails.

    Raises:
        VideoOpenError: the file can no longer be opened.
    """
    for frame in _frames(source, report, seek_pts, keyframes_only):
        assert not isinstance(frame, PassedOver)
        yield frame


def sound_frames(source: Source, report: DecodeReport, seek_pts: int) -> Generator[av.VideoFrame, None, None]:
    """Frames in presentation order from the keyframe at `seek_pts` up to the first damage.

    What a decoder makes of damage, which it often hides, depends on the frames before; these frames do not.
    `report` then contains the damage. Frames that depend on others before the keyframe are left out.
    """
    begun = False
    count = PassCount(source, report)
    for frame in _decode_pass(count, source.threads, seek_pts, strict=True):
        assert isinstance(frame, av.VideoFrame)
        if not begun and frame.key_frame and not frame.is_corrupt:
            begun = True
            report.lost_packets, report.errors = 0, []
        if begun and not report.complete:
            return
        if begun:
            yield frame


def needed_frames(
    source: Source, report: DecodeReport, unneeded: Callable[[int], bool]
) -> Generator[av.VideoFrame | PassedOver, None, None]:
    """All frames from the beginning in presentation order; of those passed over, only the pts.

    Args:
        unneeded: called with the pts of packets in decoding order; returns whether the frame is not needed.
    """
    sparing, may_spare = None, _may_spare(source)
    if source.first_pts is not None and not source.order_only and may_spare is not None:
        ticks = max(1, round(1 / source.info.time_base))
        far = far_ticks(source.ticks_per_frame, source.info.time_base)
        sparing = Sparing(source.first_pts, ticks, far, unneeded, may_spare)
    yield from _frames(source, report, sparing=sparing)


def _may_spare(source: Source) -> Callable[[av.Packet], bool] | None:
    """A function that says whether the decoder may be told to skip a packet's frame if no other needs it.

    For H.264 it may for all packets; for HEVC if the packet says that no other frame depends on its frame.
    None for other streams. Call the function for all packets of a pass, in decoding order.
    """
    if source.info.codec == "h264":
        return lambda packet: True
    if source.layers is None:
        return None
    layers = source.layers

    def stands_alone(packet: av.Packet) -> bool:
        nonlocal layers
        layers = layers.raised_by(packet)
        return layers.stands_alone(packet)

    return stands_alone


def _frames(
    source: Source,
    report: DecodeReport,
    seek_pts: int | None = None,
    keyframes_only: bool = False,
    sparing: Sparing | None = None,
) -> Iterator[av.VideoFrame | PassedOver]:
    count = PassCount(source, report)
    yield from _decode_pass(count, source.threads, seek_pts, keyframes_only, sparing)
    if keyframes_only:
        count.silent()
        if seek_pts is None:
            count.early_end()
        return
    # With several threads, an error while flushing swallows the frames after it; a single thread gets them.
    left_out = 0 if sparing is None else sparing.waiting
    if count.decoded + left_out < count.expected and source.threads != 1:
        yield from _tail(count, sparing)
    if sparing is not None:
        yield from _counted(sparing.rest(), count)
    if seek_pts is None:
        count.end()


def _decode_pass(
    count: PassCount,
    threads: int,
    seek_pts: int | None = None,
    keyframes_only: bool = False,
    sparing: Sparing | None = None,
    strict: bool = False,
) -> Iterator[av.VideoFrame | PassedOver]:
    source = count.source
    with closing(_opened_again(source.path)) as container:
        stream = container.streams.video[source.video_number]
        stream.codec_context.thread_type = "AUTO"
        stream.codec_context.thread_count = threads
        if strict:
            stream.codec_context.options = STRICT
        jpegs = JpegDecoder(stream) if source.info.codec == JPEGS and not strict else None
        if seek_pts is not None and not _sought(container, stream, seek_pts, source):
            return
        packets = read_packets(container, stream, count.report, source.faults)
        if seek_pts is not None and source.info.codec == "mpeg4":
            packets = _without_leading(packets)
        # Look one packet ahead only if needed: else `report` covers exactly the packets that went in.
        for packet, behind in zip(packets, repeat(None)) if sparing is None else with_behind(packets):
            goes_in = packet.is_keyframe or not packet.size or not keyframes_only
            shown = count.packet(packet, goes_in)
            if not goes_in:
                continue
            if sparing is not None:
                spared = packet.size and sparing.spares(packet, shown, behind)
                stream.codec_context.skip_frame = "NONREF" if spared else "DEFAULT"
            try:
                frames = _decoded(packet, stream, jpegs, keyframes_only)
            except av.FFmpegError as exc:
                count.lost(f"a packet could not be decoded: {exc.strerror or exc}")
                if strict:
                    return
                if sparing is not None:
                    sparing.stop()
                continue
            if jpegs is not None and jpegs.damaged:
                count.lost(DAMAGED_FRAMES)
            if keyframes_only and not frames and _begins_refresh(packet, stream):
                count.expected -= 1
            for frame in frames:
                yield from _counted([frame] if sparing is None else sparing.placed(frame), count)


def _sought(container: InputContainer, stream: VideoStream, pts: int, source: Source) -> bool:
    """Seek to the keyframe at a pts; False if that fails, as in an MXF that has lost its index."""
    try:
        if source.has_palette:
            next(frames_of(container.demux(stream)), None)
        container.seek(pts, stream=stream)
    except av.FFmpegError as exc:
        source.faults.take(exc)
        return False
    return True


def _without_leading(packets: Iterator[av.Packet]) -> Iterator[av.Packet]:
    """The packets, without those that are shown before the first one: they depend on frames before it.

    From such a packet, a decoder of interlaced MPEG-4 derives a wrong time unit and then silently drops all
    B-frames.
    """
    first: int | None = None
    for packet in packets:
        first = packet.pts if first is None else first
        if packet.pts is None or first is None or packet.pts >= first:
            yield packet


def _decoded(
    packet: av.Packet, stream: VideoStream, jpegs: JpegDecoder | None, keyframes_only: bool
) -> list[av.VideoFrame]:
    """Decode a packet, each keyframe alone if there are only keyframes."""
    if jpegs is not None:
        return jpegs.decode(packet)
    return _alone(packet, stream) if keyframes_only else packet.decode()


def _alone(packet: av.Packet, stream: VideoStream) -> list[av.VideoFrame]:
    """Decode a keyframe independently of those before it."""
    if not packet.size or stream.codec_context.name not in COUNTED_CODECS:
        return packet.decode()
    try:
        return packet.decode() + stream.codec_context.decode(None)
    finally:
        # Also after an error, which several threads report only at the end: else nothing more would decode.
        stream.codec_context.flush_buffers()


def _begins_refresh(packet: av.Packet, stream: VideoStream) -> bool:
    """Whether a keyframe that gave no frame begins a gradual refresh of the picture.

    A decoder of H.264 outputs nothing until the picture is complete, unless it is told to.
    """
    context = stream.codec_context
    if not packet.size or context.name != "h264":
        return False
    context.flags |= Flags.output_corrupt
    try:
        return any(not frame.key_frame for frame in packet.decode() + context.decode(None))
    except av.FFmpegError:
        return False
    finally:
        context.flush_buffers()
        context.flags &= ~Flags.output_corrupt


def _counted(
    frames: Iterable[av.VideoFrame | PassedOver], count: PassCount
) -> Iterator[av.VideoFrame | PassedOver]:
    """Frames in presentation order, counted; those passed over as if they had been decoded."""
    for frame in frames:
        if isinstance(frame, PassedOver):
            count.presented(frame.pts)
        else:
            count.frame(frame)
        yield frame


def _tail(count: PassCount, sparing: Sparing | None) -> Iterator[av.VideoFrame | PassedOver]:
    """Frames after the last one that came out, decoded again by a single thread."""
    if count.last_pts is None or count.last_key_pts is None or count.source.order_only:
        return
    again = PassCount(count.source, DecodeReport())
    for frame in _decode_pass(again, 1, count.last_key_pts):
        assert not isinstance(frame, PassedOver)
        if frame.pts is not None and frame.pts > count.last_pts:
            yield from _counted([frame] if sparing is None else sparing.placed(frame), count)
