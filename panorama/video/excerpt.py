"""A video enters; a few seconds of it, copied without encoding anew, leave as a file."""

from __future__ import annotations

from pathlib import Path

import av

from panorama.errors import UsageError, VideoOpenError


def write_excerpt(path_in: Path | str, start_seconds: float, seconds: float, path_out: Path | str) -> None:
    """Copies the packets from the key frame at or before `start_seconds` on into a Matroska file.

    Raises:
        UsageError: no time is asked for.
        VideoOpenError: the video cannot be read, or its codec cannot be put into Matroska.
    """
    if seconds <= 0:
        raise UsageError(f"an excerpt is longer than 0 seconds, got {seconds}")
    try:
        with (
            av.open(f"file:{path_in}") as source,
            av.open(f"file:{path_out}", "w", format="matroska") as target,
        ):
            video = source.streams.video[0]
            assert video.time_base is not None
            if start_seconds > 0:
                source.seek(int(start_seconds / video.time_base), stream=video)
            copy = target.add_stream_from_template(video)
            first: int | None = None
            for packet in source.demux(video):
                if packet.dts is None or packet.pts is None:
                    continue
                first = packet.pts if first is None else first
                if (packet.dts - first) * video.time_base >= seconds:
                    break
                packet.pts -= first
                packet.dts -= first
                packet.stream = copy
                target.mux(packet)
    except (OSError, IndexError, av.FFmpegError) as exc:
        raise VideoOpenError(f"{path_in}: no excerpt can be taken: {exc}") from exc
