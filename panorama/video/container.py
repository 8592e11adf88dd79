"""A video file comes in; frames with exact index and time go out: all, from a seek on, or keyframes only."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path

import av
import cv2
import numpy as np
from av.video.reformatter import ColorRange, VideoReformatter
from numpy.typing import NDArray

from panorama.frames import DecodeReport, FrameTimes, VideoInfo
from panorama.video import hdr
from panorama.video.decoding import decoded_frames, needed_frames, shown_packets, sound_frames
from panorama.video.planes import cut_frame, in_bytes, luma_plane, scaled, thinned
from panorama.video.probing import open_source
from panorama.video.reader import (
    Box,
    FrameTable,
    PassedFrame,
    Picture,
    VideoFrame,
    VideoReader,
    at_most,
    fit_size,
    seconds_between,
    stored_box,
)
from panorama.video.sparing import PassedOver
from panorama.video.stamps import FrameClock, Stamp, far_ticks, only_decoding_tells, table_of, with_behind


class PlanarPicture(Picture):
    """A decoded frame, whose planes are converted on demand."""

    def __init__(self, frame: av.VideoFrame, info: VideoInfo, scaler: VideoReformatter) -> None:
        self._frame = frame
        self._info = info
        self._scaler = scaler
        self._luma: NDArray[np.uint8] | None = None

    @property
    def nbytes(self) -> int:
        return sum(plane.buffer_size for plane in self._frame.planes)

    def part(self, box: Box, longest: int) -> NDArray[np.uint8]:
        x1, y1, x2, y2 = self._stored(box)
        # A new scaler: the frame's is shared by a whole pass, which may be running in another thread.
        scaler = VideoReformatter()
        found = cut_frame(self._frame, (x1, y1, x2, y2))
        # Frames with other planes are rare; convert them whole.
        source, left, top = found or (self._frame, x1, y1)
        whole = self._rgb(scaler, source, source.width, source.height)
        rgb = self._turned(whole[top : top + y2 - y1, left : left + x2 - x1])
        size = at_most(longest, box[2] - box[0], box[3] - box[1])
        return self._shown(rgb.copy() if size == (rgb.shape[1], rgb.shape[0]) else scaled(rgb, *size))

    def luma_part(self, box: Box) -> NDArray[np.uint8]:
        x1, y1, x2, y2 = self._stored(box)
        return self._luma_of(lambda luma: luma[y1:y2, x1:x2])

    def thinned_luma(self, rows: int, columns: int) -> NDArray[np.uint8]:
        return self._luma_of(lambda luma: thinned(luma, rows, columns))

    def luma(self) -> NDArray[np.uint8]:
        if self._luma is None:
            self._luma = self._luma_of(lambda luma: luma)
        return self._luma

    def _luma_of(self, picked: Callable[[NDArray], NDArray]) -> NDArray[np.uint8]:
        """Brightness of some pixels; converts only these if the format has a brightness plane."""
        if self._luma is not None:
            return picked(self._luma)
        plane = luma_plane(self._frame)
        if plane is not None:
            return in_bytes(picked(plane[0]), plane[1])
        grey = luma_plane(VideoReformatter().reformat(self._frame, format="gray", threads=1))
        assert grey is not None  # one plane of bytes
        self._luma = in_bytes(*grey)
        return picked(self._luma)

    def _stored(self, box: Box) -> Box:
        """A box of the displayed picture in the frame as stored, rounded outwards to whole pixels."""
        sides = self._frame.width, self._frame.height
        width, height = sides[::-1] if self._info.rotation in (90, 270) else sides
        shown = (self._info.width, self._info.height)
        if shown != (width, height):
            x1, x2 = (side * width / shown[0] for side in (box[0], box[2]))
            y1, y2 = (side * height / shown[1] for side in (box[1], box[3]))
            box = math.floor(x1), math.floor(y1), math.ceil(x2), math.ceil(y2)
        return stored_box(box, self._info.rotation, self._info.mirrored, width, height)

    def rgb(self, width: int | None, height: int | None) -> NDArray[np.uint8]:
        size = fit_size(width, height, self._info.width, self._info.height)
        turned = self._info.rotation in (90, 270)
        width, height = (size[1], size[0]) if turned else size
        return self._shown(self._turned(self._rgb(self._scaler, self._frame, width, height)))

    def _rgb(self, scaler: VideoReformatter, frame: av.VideoFrame, width: int, height: int) -> NDArray:
        """RGB (height, width, 3) of a frame as stored: uint8, or uint16 for high dynamic range."""
        if self._info.hdr:
            return _made(scaler, frame, width, height, "rgb48le")
        # When the scaler also resizes, it has vector code for BGR only.
        changed = (width, height) != (frame.width, frame.height)
        pixels = _made(scaler, frame, width, height, "bgr24" if changed else "rgb24")
        return np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB) if changed else pixels, np.uint8)

    def _shown(self, rgb: NDArray) -> NDArray[np.uint8]:
        """Colours as an ordinary screen shows them, uint8."""
        if not self._info.hdr:
            return rgb
        return hdr.shown(rgb, self._info.hdr)

    def _turned(self, rgb: NDArray) -> NDArray:
        """Turn and mirror a picture from its stored to its displayed orientation."""
        quarter_turns, mirrored = self._info.rotation // 90, self._info.mirrored
        if not quarter_turns and not mirrored:
            return rgb
        turned = np.rot90(rgb, -quarter_turns)
        return np.ascontiguousarray(turned[:, ::-1] if mirrored else turned)


def _made(scaler: VideoReformatter, frame: av.VideoFrame, width: int, height: int, layout: str) -> NDArray:
    made = scaler.reformat(
        frame,
        width=width,
        height=height,
        format=layout,
        interpolation="AREA",
        dst_color_range=ColorRange.JPEG,
        threads=1,
    )
    return made.to_ndarray()


class ContainerReader(VideoReader):
    """Reads a video file; each pass opens the file itself, so passes do not disturb each other.

    Raises:
        VideoOpenError: missing, no permission, empty, not a video, no video stream, nothing decodable.
    """

    def __init__(self, path: Path, threads: int) -> None:
        self._source = open_source(path, threads)
        self._table: FrameTable | None = None
        super().__init__(self._source.info, self._source.faults)

    def _scan(self) -> FrameTable:
        if self._table is None:
            stamps = [Stamp(p.pts, p.dts, p.is_keyframe) for p in shown_packets(self._source)]
            far = far_ticks(self._source.ticks_per_frame, self.info.time_base)
            if not self._source.order_only and only_decoding_tells(stamps, far):
                deque(self._from_beginning(DecodeReport()), maxlen=0)
            self._table = self._table or table_of(
                stamps,
                self.info.time_base,
                self._source.ticks_per_frame,
                first_pts=self._source.first_pts,
                order_only=self._source.order_only,
                can_seek=self._source.can_seek,
            )
        return self._table

    def _decode(self, start: int, keyframes_only: bool, report: DecodeReport) -> Iterator[VideoFrame]:
        if start == 0 and not keyframes_only:
            return self._from_beginning(report)
        table = self._scan()
        if start >= len(table.times):
            return iter(())
        if table.seekable:
            frames = self._from_keyframe(table, start, keyframes_only, report)
        else:
            frames = (f for f in self._from_beginning(report) if f.is_keyframe or not keyframes_only)
        if start == 0 and not table.keyframes[0]:
            # An edit list may leave out all keyframes; then this frame alone shows anything.
            first = islice(self._from_beginning(DecodeReport()), 1)
            frames = chain(first, (frame for frame in frames if frame.index > 0))
        return (frame for frame in frames if frame.index >= start)

    def _decode_but(
        self, unneeded: Callable[[float], bool], report: DecodeReport
    ) -> Iterator[VideoFrame | PassedFrame]:
        first_pts = self._source.first_pts or 0

        def unneeded_at(pts: int) -> bool:
            return unneeded(seconds_between(first_pts, pts, self.info.time_base))

        return self._numbered(needed_frames(self._source, report, unneeded_at), report)

    def _from_beginning(self, report: DecodeReport) -> Iterator[VideoFrame]:
        """All frames from the first on, numbered."""
        for frame in self._numbered(decoded_frames(self._source, report), report):
            assert isinstance(frame, VideoFrame)  # decoded_frames passes over nothing
            yield frame

    def _numbered(
        self, found: Iterator[av.VideoFrame | PassedOver], report: DecodeReport
    ) -> Iterator[VideoFrame | PassedFrame]:
        """Number and time all frames; a pass that reaches the end replaces the scan's table with its own."""
        ranked = self._scan().times.pts.tolist() if self._source.order_only else None
        clock = FrameClock(self._source.ticks_per_frame, self.info.time_base)
        scaler = VideoReformatter()
        seen_pts: list[int] = []
        seen_keys: list[bool] = []
        for decoded, behind in with_behind(found):
            index = len(seen_pts)
            if ranked is None:
                seen_pts.append(clock.next(decoded.pts, behind))
            else:
                seen_pts.append(clock.next(ranked[index] if index < len(ranked) else None))
            if isinstance(decoded, PassedOver):
                seen_keys.append(False)
                seconds = seconds_between(seen_pts[0], seen_pts[-1], self.info.time_base)
                yield PassedFrame(index, seen_pts[-1], seconds)
            else:
                seen_keys.append(bool(decoded.key_frame))
                yield self._frame(index, seen_pts[-1], seen_pts[0], decoded, scaler)
        # A single repair is normal: an MPEG program stream never gives the time of its last reference frame.
        if clock.repairs > 1 and ranked is None:
            report.note(f"{clock.repairs} presentation times were missing or repeated and were filled in")
        times = FrameTimes(np.array(seen_pts, np.int64), self.info.time_base)
        stamped = not clock.broken and ranked is None
        self._table = FrameTable(
            times, np.array(seen_keys, np.bool_), self._source.can_seek and stamped, stamped
        )

    def _from_keyframe(
        self, table: FrameTable, start: int, keyframes_only: bool, report: DecodeReport
    ) -> Iterator[VideoFrame]:
        """Frames from the last keyframe at or before `start`, identified by their pts."""
        pts_of = table.times.pts
        scaler = VideoReformatter()
        previous = -1
        for decoded in self._seeked(table, start, keyframes_only, report):
            index = _position(pts_of, decoded.pts)
            if index is None or index <= previous:
                # Frames come in presentation order, so one with a repaired stamp follows the previous frame.
                if keyframes_only or not 0 <= previous < len(pts_of) - 1:
                    report.note(f"a frame at pts {decoded.pts} belongs to no packet and was left out")
                    continue
                index = previous + 1
            previous = index
            yield self._frame(index, int(pts_of[index]), int(pts_of[0]), decoded, scaler)

    def _seeked(
        self, table: FrameTable, start: int, keyframes_only: bool, report: DecodeReport
    ) -> Iterator[av.VideoFrame]:
        """Decoded frames from a keyframe that really is at or before `start`, as a full pass decodes them.

        Some containers seek too far or land between keyframes; then try earlier keyframes, and at last the
        beginning. Do the same if damage follows the keyframe: what a decoder makes of damage depends on the
        frames before it, and agrees with a full pass only if a whole group of frames before it is intact.
        """
        last: int | None = None
        for target in _targets(table, start):
            attempt, keyframes, fresh = DecodeReport(), 0, last is None
            with closing(self._sought(table, start, target, keyframes_only, attempt)) as frames:
                for frame in frames:
                    keyframes += bool(frame.key_frame)
                    if fresh:
                        last = frame.pts
                        yield frame
                    elif keyframes > 1:
                        break
            if fresh and keyframes and (keyframes_only or attempt.complete):
                report.add(attempt)
                return
            if keyframes > 1:
                yield from _behind(last, decoded_frames(self._source, report, seek_pts=target))
                return
        yield from _behind(last, decoded_frames(self._source, report, keyframes_only=keyframes_only))

    def _sought(
        self, table: FrameTable, start: int, target: int, keyframes_only: bool, report: DecodeReport
    ) -> Generator[av.VideoFrame, None, None]:
        """Intact frames from the keyframe at pts `target` (with `keyframes_only`, also damaged ones).

        None of them if the seek lands after `start`, or not on a keyframe of the table.
        """
        if keyframes_only:
            frames = decoded_frames(self._source, report, seek_pts=target, keyframes_only=True)
        else:
            frames = sound_frames(self._source, report, target)
        with closing(frames):
            for first in frames:
                position = _position(table.times.pts, first.pts)
                if position is not None and position <= start and table.keyframes[position]:
                    yield from chain([first], frames)
                return

    def _frame(
        self, index: int, pts: int, first_pts: int, decoded: av.VideoFrame, scaler: VideoReformatter
    ) -> VideoFrame:
        seconds = seconds_between(first_pts, pts, self.info.time_base)
        if self.info.hdr and decoded.colorspace == hdr.UNSPECIFIED:
            decoded.colorspace = hdr.BT2020  # the scaler's default is that of standard definition
        picture = PlanarPicture(decoded, self.info, scaler)
        return VideoFrame(index, pts, seconds, bool(decoded.key_frame), picture)


def _position(pts_of: NDArray[np.int64], pts: int | None) -> int | None:
    """Index of a pts in the table; None if it is not there."""
    if pts is None:
        return None
    index = int(np.searchsorted(pts_of, pts))
    return index if index < len(pts_of) and pts_of[index] == pts else None


def _targets(table: FrameTable, start: int) -> Iterator[int]:
    """The pts of keyframes to seek to, at or before `start`, nearest first; never that of the first frame."""
    keys = np.flatnonzero(table.keyframes[: start + 1])
    for back in (1, 2, 4, 8):
        if back > len(keys) or keys[-back] == 0:
            return
        yield int(table.times.pts[keys[-back]])


def _behind(last: int | None, frames: Iterator[av.VideoFrame]) -> Iterator[av.VideoFrame]:
    """The frames after the one with pts `last`; all of them if it is None."""
    for frame in frames:
        if last is None or (frame.pts is not None and frame.pts > last):
            last = None
            yield frame
