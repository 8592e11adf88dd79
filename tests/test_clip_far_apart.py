"""Clips of what was taken frame by frame with hours in between: each is in the clip, at its time."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from clips import B_FRAMES, cut_clip, number_in, write_video

from panorama.shown.hit_clips import _stretches
from panorama.shown.hits import Hit
from panorama.video import open_video


@pytest.mark.parametrize("apart_seconds", [10, 600, 3_600, 86_400])
def test_frames_that_are_far_apart_are_all_in_the_clip_at_their_times(
    apart_seconds: int, tmp_path: Path
) -> None:
    ticks = range(0, 12 * apart_seconds, apart_seconds)
    source = write_video(
        tmp_path / "plant.mkv", "libx264", ticks=ticks, time_base=Fraction(1), codec_options=B_FRAMES
    )
    count = cut_clip(source.path, 3 * apart_seconds, 10 * apart_seconds, tmp_path / "clip.mp4")
    with open_video(tmp_path / "clip.mp4") as reader:
        frames = list(reader.frames())
    assert count == len(frames)
    assert [number_in(f.luma()) for f in frames] == [3, 4, 5, 6, 7, 8, 9]
    assert np.allclose([f.time_seconds for f in frames], np.arange(7) * apart_seconds, atol=1e-3)
    with av.open(str(tmp_path / "clip.mp4")) as container:
        ahead = [p.pts - p.dts for p in container.demux(video=0) if p.pts is not None and p.dts is not None]
    assert max(ahead) < 2**28  # players drop frames that are shown later than so


def test_a_hit_within_a_longer_one_does_not_end_its_stretch() -> None:
    spans = ((0.0, 10.0), (1.0, 2.0), (11.0, 12.0), (14.5, 15.0))
    hits = [Hit("a.mp4", begin, "red", None, None, end_seconds=end) for begin, end in spans]
    assert _stretches(hits, {}) == {("a.mp4", "red"): [hits[:3], hits[3:]]}
