"""A pass over keyframes alone: each is decoded by itself, and what is lost is told."""

from __future__ import annotations

from pathlib import Path

import av
import pytest
from clips import B_FRAMES, cut_off, damage_packet, number_in, trim, write_video

from panorama.video import open_video, probing

CODED = {
    "libx264": {"preset": "ultrafast", "x264-params": "slices=4:keyint=10:min-keyint=10:scenecut=0"},
    "libx265": {"preset": "ultrafast", "x265-params": "log-level=none:keyint=10:min-keyint=10:scenecut=0"},
}


@pytest.mark.parametrize(("first", "seen"), [(3, [3, 10, 20]), (21, [21]), (10, [10, 20])])
def test_what_is_trimmed_behind_a_keyframe_shows_its_first_frame(
    tmp_path: Path, first: int, seen: list[int]
) -> None:
    """A short clip trimmed on a phone may show no keyframe: --quick looked at nothing, and did not say so."""
    path = write_video(tmp_path / "a.mp4", "libx264", frames=30, b_frames=3, codec_options=B_FRAMES).path
    trim(path, first, 30 - first)
    with open_video(path) as reader:
        found = list(reader.frames(keyframes_only=True))
        assert [number_in(frame.luma()) for frame in found] == seen
        assert [frame.index for frame in found] == [number - first for number in seen]
        assert reader.report.complete, reader.report
        assert reader.report.frames == len(seen)


def test_a_first_frame_that_its_decoder_calls_no_keyframe_comes_once(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mov", "qtrle", pixel_format="rgb24").path
    with open_video(path) as reader:
        assert not any(frame.is_keyframe for frame in reader.frames())
        numbers = [frame.index for frame in reader.frames(keyframes_only=True)]
        assert numbers[0] == 0 and numbers == sorted({*numbers})


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


@pytest.mark.parametrize("threads", [1, 3])
def test_a_keyframe_that_gives_no_frame_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """The decoder of HEVC says nothing of zeros; nor did a pass over keyframes, nor one from there on."""
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    whole = write_video(tmp_path / "a.mp4", "libx265", frames=60, codec_options=CODED["libx265"])
    damaged = damage_packet(whole.path, tmp_path / "damaged.mp4", 40, byte=0)
    with open_video(damaged, threads=threads) as reader:
        for start, left in ((0, [0, 10, 20, 30, 50]), (15, [20, 30, 50])):
            found = list(reader.frames(keyframes_only=True, start=start))
            assert [number_in(frame.luma()) for frame in found] == left
            assert (reader.report.lost_packets, reader.report.errors) == (1, ["packets gave no frame"])


@pytest.mark.parametrize("threads", [1, 3])
def test_a_keyframe_that_begins_to_renew_the_picture_in_parts_is_not_taken_for_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Of four keyframes of such a stream the first alone is a whole picture."""
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    options = {"preset": "ultrafast", "x264-params": "intra-refresh=1:keyint=15"}
    path = write_video(tmp_path / "a.ts", "libx264", frames=60, codec_options=options).path
    with av.open(str(path)) as container:
        assert sum(packet.is_keyframe for packet in container.demux(video=0)) == 4
    with open_video(path, threads=threads) as reader:
        assert [frame.index for frame in reader.frames(keyframes_only=True)] == [0]
        assert reader.report.complete, reader.report


@pytest.mark.parametrize(
    ("name", "codec"), [("t.mp4", "libx264"), ("t.mkv", "libx264"), ("t.flv", "flv"), ("t.avi", "mpeg4")]
)
def test_a_pass_over_keyframes_tells_of_an_end_that_is_missing(tmp_path: Path, name: str, codec: str) -> None:
    options = {"movflags": "faststart"} if name.endswith("mp4") else {}
    whole = write_video(tmp_path / f"whole-{name}", codec, frames=60, container_options=options)
    with open_video(cut_off(whole.path, tmp_path / name, 0.6)) as reader:
        assert 1 < len(list(reader.frames(keyframes_only=True))) < 6
        assert any("the file ends early" in error for error in reader.report.errors), reader.report
