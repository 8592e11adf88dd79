"""A stretch of a video's time comes in; its sound goes out, encoded into the container of a clip."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path

import av
from av.container import InputContainer, OutputContainer

from panorama.video.probing import open_container, video_stream

SOUND_RATE = 48_000
SEEK_LEAD_SECONDS = 1.0
"""How far before the stretch reading begins: in an MPEG program stream, a seek may end a little late."""
AAC_SAMPLES = 1024
"""Samples in one encoded frame."""


class Sound:
    """The sound of [start, stop), written in step with the pictures; no stream if none can be decoded.

    Args:
        path: the video, or a folder of pictures, which has no sound.
        start_seconds, stop_seconds: in the container's own time, pts x time base; no sound if they are equal.
        container: gets an audio stream if there is sound; its video stream exists already.
    """

    def __init__(
        self, path: Path, start_seconds: float, stop_seconds: float, container: OutputContainer
    ) -> None:
        self._container = container
        self._packets = _packets(path, start_seconds, stop_seconds, container)
        # All streams must be added before anything is written.
        self._waiting = next(self._packets, None)

    def mux_until(self, seconds: float | Fraction) -> None:
        """Write the sound before a time, in seconds since the start."""
        while self._waiting is not None and self._waiting[0] < seconds:
            self._container.mux(self._waiting[1])
            self._waiting = next(self._packets, None)


def _packets(
    path: Path, start: float, stop: float, container: OutputContainer
) -> Iterator[tuple[float, av.Packet]]:
    """Encoded packets, each with the seconds since the start of the sound that was encoded last."""
    stream, last = None, -1
    for seconds, frame in _resampled(path, start, stop):
        if not start <= seconds < stop:
            continue
        if stream is None:
            stream = container.add_stream("aac", rate=SOUND_RATE)
            stream.codec_context.layout = frame.layout
        # Rounding must not make stamps go back.
        last = max(last + 1, round((seconds - start) * SOUND_RATE))
        frame.pts, frame.time_base = last, Fraction(1, SOUND_RATE)
        for packet in stream.encode(frame):
            yield last / SOUND_RATE, packet
    if stream is not None:
        for packet in stream.encode(None):
            yield last / SOUND_RATE, packet


def _resampled(path: Path, start: float, stop: float) -> Iterator[tuple[float, av.AudioFrame]]:
    """The sound as the encoder takes it, with its times: mono or stereo, in frames of AAC_SAMPLES."""
    resampler = None
    for frame in _decoded(path, start, stop):
        if resampler is None:
            layout = "mono" if len(frame.layout.channels) == 1 else "stereo"
            resampler = av.AudioResampler("fltp", layout, SOUND_RATE, frame_size=AAC_SAMPLES)
        try:
            found = resampler.resample(frame)
        except ValueError:  # its format changes in the middle
            break
        yield from ((part.time, part) for part in found if part.time is not None)
    if resampler is not None:
        yield from ((part.time, part) for part in resampler.resample(None) if part.time is not None)


def _opened_at(path: Path, seconds: float) -> InputContainer:
    """The open file, to be read from before a time; from its beginning if it cannot be sought."""
    container = open_container(path)
    start = container.start_time
    if start is not None and seconds * av.time_base <= start:
        return container
    try:
        container.seek(int(seconds * av.time_base))
    except av.FFmpegError:  # which may leave it at its end
        container.close()
        return open_container(path)
    return container


def _decoded(path: Path, start: float, stop: float) -> Iterator[av.AudioFrame]:
    """The audio frames that overlap a stretch; skips what cannot be decoded."""
    if not (start < stop and path.is_file()):
        return
    with closing(_opened_at(path, start - SEEK_LEAD_SECONDS)) as container, suppress(av.FFmpegError):
        # A recorded broadcast may hold several programmes.
        stream = container.streams.best("audio", related=video_stream(container, path))
        if stream is None or stream.codec_context is None:
            return
        for packet in container.demux(stream):
            try:
                frames = packet.decode()
            except av.FFmpegError:
                continue
            for frame in frames:
                if not isinstance(frame, av.AudioFrame) or frame.time is None:
                    continue
                if frame.time >= stop:
                    return
                if frame.time + frame.samples / frame.sample_rate > start:
                    yield frame
