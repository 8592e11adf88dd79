"""Streams of which some packets have no time stamp: the packet scan and decoding tell the same times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
from clips import B_FRAMES, H264, RATE, Clip, number_in, unstamped, write_video

from panorama.video import container, open_video

LACKS: dict[str, Callable[[int], bool]] = {
    "one": lambda number: number == 60,
    "each third": lambda number: number % 3 == 2,
    "all but one of ten": lambda number: number % 10 > 0,
    "the first": lambda number: number == 0,
    "the first five": lambda number: number < 5,
    "the last two": lambda number: number > 117,
}
REORDERED = {
    "libx264": B_FRAMES,
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none"},
}


@pytest.mark.parametrize("codec", list(REORDERED))
@pytest.mark.parametrize("which", list(LACKS))
def test_pictures_without_a_stamp_are_where_decoding_puts_them(
    tmp_path: Path, codec: str, which: str
) -> None:
    """One of them, and the scan left all pictures in the order of decoding."""
    whole = write_video(tmp_path / "whole.ts", codec, frames=120, b_frames=3, codec_options=REORDERED[codec])
    path = unstamped(whole.path, LACKS[which])
    with open_video(path) as reader:
        read = list(reader.frames())
        assert [number_in(f.luma()) for f in read] == list(range(120))
        assert np.allclose([f.time_seconds for f in read], np.arange(120) / RATE)
    with open_video(path) as reader:
        assert reader.times().pts.tolist() == [f.pts for f in read]
        assert number_in(reader.frame_at(61.5 / RATE).luma()) == 61
        assert [f.pts for f in reader.frames(keyframes_only=True)] == [f.pts for f in read if f.is_keyframe]


@pytest.mark.parametrize("lacking", [1, 3, 20])
def test_stamps_as_decoded_are_known_as_such_where_the_first_ones_lack(tmp_path: Path, lacking: int) -> None:
    """They were taken as they are, by decoding alone; the scan sorted them."""
    whole = write_video(tmp_path / "whole.ts", "libx264", frames=120, b_frames=3, codec_options=B_FRAMES)
    path = tmp_path / "as-decoded.ts"
    with av.open(str(whole.path)) as source, av.open(str(path), "w") as copy:
        stream = copy.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.pts, packet.stream = packet.dts, stream
                copy.mux(packet)
    path = unstamped(path, lambda number: number < lacking)
    with open_video(path) as reader:
        read = [frame.time_seconds for frame in reader.frames()]
    with open_video(path) as reader:
        assert reader.times().seconds.tolist() == read
    assert len(read) == 120 and np.allclose(np.diff(read), 1 / RATE, atol=1e-3)


@pytest.mark.parametrize("name", ["bare.h264", "bare-b.h264", "b-frames.avi", "b-frames.ts", "unstamped.ts"])
def test_only_what_packets_do_not_tell_is_decoded_to_be_told(
    tmp_path: Path, clips: Callable[[str], Clip], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "unstamped.ts":
        in_order = write_video(tmp_path / "in-order.ts", "libx264", codec_options=H264)
        clip = Clip(unstamped(in_order.path, LACKS["each third"]), in_order.seconds)
    else:
        clip = clips(name)
    monkeypatch.delattr(container, "decoded_frames")
    with open_video(clip.path) as reader:
        assert np.allclose(reader.times().seconds, clip.seconds)
