"""A pass over keyframes alone: each is decoded by itself, and what is lost is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from clips import damage_packet, number_in, write_video

from panorama.video import open_video, probing

CODED = {
    "libx264": {"preset": "ultrafast", "x264-params": "slices=4:keyint=10:min-keyint=10:scenecut=0"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none:keyint=10:min-keyint=10:scenecut=0"},
}


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_damaged_keyframe_takes_none_of_the_others_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, threads: int
) -> None:
    """Its error came from the end of its frame, behind which nothing could be decoded any more."""
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    whole = write_video(tmp_path / "a.mkv", codec, frames=60, codec_options=CODED[codec])
    damaged = damage_packet(whole.path, tmp_path / "damaged.mkv", 20)
    with open_video(damaged, threads=threads) as reader:
        found = list(reader.frames(keyframes_only=True))
        assert [number_in(frame.luma()) for frame in found] == [0, 10, 30, 40, 50]
