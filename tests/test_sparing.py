"""Frames that nobody needs are passed over: the others, their numbers and times stay, and losses are told."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from clips import B_FRAMES, MAKERS, Clip, cut_off, damage_packet, unstamped, write_video
from fakes import ColoredThings
from store_samples import data_contents

from panorama.indexing.run import index_paths
from panorama.indexing.settings import IngestSettings
from panorama.indexing.stages import DECODED_AHEAD, PARCEL_FRAMES, Indexer
from panorama.models.color import ColorEmbedder
from panorama.store import Store
from panorama.tracking.sampling import MOST_AHEAD, Hold, Rate, Sample, Sampler, Unneeded, tick_of
from panorama.video import (
    PassedFrame,
    VideoFrame,
    VideoReader,
    container,
    find_videos,
    open_video,
    probing,
    sparing,
)
from panorama.video.sparing import WARM_UP_PACKETS

RATE = 5.0
LEAN = {"crf": "20", "preset": "veryfast", "x264-params": "b-adapt=0:bframes=3:scenecut=0"}


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short clips are spared from their first packet on, and small ones decoded by many threads, too."""
    monkeypatch.setattr(sparing, "WARM_UP_PACKETS", 0)
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)


def row(frame: VideoFrame | PassedFrame) -> tuple[int, int, float]:
    return frame.index, frame.pts, frame.time_seconds


def digests(frames: Iterable[VideoFrame | PassedFrame]) -> dict[int, str]:
    return {
        frame.index: hashlib.sha256(frame.luma().tobytes()).hexdigest()
        for frame in frames
        if isinstance(frame, VideoFrame)
    }


def test_only_a_rate_tells_which_frames_are_not_looked_at() -> None:
    assert Rate(RATE).unneeded is not None
    assert Rate(RATE, every=3).unneeded is None and Rate(RATE, all_frames=True).unneeded is None


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("name", list(MAKERS))
def test_what_is_left_has_its_number_time_and_pixels(
    clips: Callable[[str], Clip], name: str, threads: int
) -> None:
    with open_video(clips(name).path, threads=threads) as all_of_it:
        every = list(all_of_it.frames())
    with open_video(clips(name).path, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(RATE)))
        assert [row(f) for f in some] == [row(f) for f in every]
        assert reader.report.complete and reader.report.frames == len(every)
        assert reader.times().pts.tolist() == [f.pts for f in every]
    pixels, left = digests(every), digests(some)
    assert left == {index: pixels[index] for index in left}
    ticks: dict[int, int] = {}
    for frame in every:
        ticks.setdefault(tick_of(frame.time_seconds, RATE), frame.index)
    assert set(ticks.values()) <= set(left)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "name", ["b-frames.mp4", "b-frames.mkv", "b-frames.ts", "open-gop.mp4", "late-start.mp4"]
)
def test_frames_that_no_other_is_made_from_are_passed_over(
    clips: Callable[[str], Clip], name: str, threads: int
) -> None:
    with open_video(clips(name).path, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(RATE)))
    passed = sum(isinstance(frame, PassedFrame) for frame in some)
    assert passed >= len(some) // 4


def test_the_first_packets_are_decoded_whatever_is_needed(clips: Callable[[str], Clip]) -> None:
    assert clips("b-frames.mp4").frames <= sparing.WARM_UP_PACKETS
    with open_video(clips("b-frames.mp4").path) as reader:
        assert all(isinstance(f, VideoFrame) for f in reader.frames_but(lambda seconds: True))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("pause", range(41, 45))
def test_a_pause_is_no_stray_time(tmp_path: Path, pause: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Amid frames shown before it others are decoded that are shown behind it: all was decoded ever after."""
    ticks = [number + (75 if number >= pause else 0) for number in range(120)]
    path = tmp_path / "pause.mkv"
    write_video(path, "libx264", ticks=ticks, b_frames=3, gop=250, codec_options=B_FRAMES)
    with open_video(path) as reader:
        whole = [row(f) for f in reader.frames()]
        frames = list(reader.frames_but(Unneeded(5)))
    assert [row(f) for f in frames] == whole
    assert sum(isinstance(f, PassedFrame) and f.index > pause for f in frames) > 20
    monkeypatch.setattr(container, "decoded_frames", None)  # packets alone tell the times
    with open_video(path) as reader:
        assert reader.times().pts.tolist() == [pts for _, pts, _ in whole]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("threads", [1, 4])
def test_after_a_loss_nothing_is_passed_over(
    tmp_path: Path, clips: Callable[[str], Clip], threads: int
) -> None:
    damaged = damage_packet(clips("b-frames.mp4").path, tmp_path / "damaged.mp4", 10)
    with open_video(damaged, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(RATE)))
        assert reader.report.lost_packets >= 1 and reader.report.errors
        assert [f.index for f in some] == list(range(len(some)))
    assert not any(isinstance(frame, PassedFrame) for frame in some[20:])


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("threads", [1, 4])
def test_the_end_that_a_file_lacks_is_missed_all_the_same(tmp_path: Path, threads: int) -> None:
    whole = write_video(tmp_path / "whole.mkv", "libx264", frames=60, b_frames=3, codec_options=LEAN)
    with open_video(cut_off(whole.path, tmp_path / "cut.mkv", 0.6), threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(RATE)))
        assert 5 < len(some) < 60
        assert len(some) + reader.report.lost_packets == pytest.approx(60, abs=3)


def restamped(path: Path, source: Path, at: int, moved: Callable[[av.Packet, int], int]) -> Path:
    """A copy in which packets from number `at` on have other presentation times, and still the same order.

    Args:
        moved: told a packet and its number; by how many frames it is shown later.
    """
    with av.open(str(source)) as whole, av.open(str(path), "w") as container:
        stream = whole.streams.video[0]
        copy = container.add_stream_from_template(stream)
        step = round(1 / (stream.average_rate * stream.time_base))
        for number, packet in enumerate(whole.demux(stream)):
            if packet.dts is None:
                continue
            if number >= at:
                packet.pts = max(packet.pts + moved(packet, number) * step, packet.dts)
            packet.stream = copy
            container.mux(packet)
    return path


STAMPS: dict[str, Callable[[av.Packet, int], int]] = {
    "one of two frames": lambda packet, number: -(number % 17 == 0),
    "before frames shown earlier": lambda packet, number: 3 * (number % 13 == 0),
    "half a second too late": lambda packet, number: 12 * (number % 29 == 0),
}


@pytest.mark.parametrize("stamps", list(STAMPS))
@pytest.mark.parametrize("threads", [1, 3])
def test_where_stamps_tell_no_place_from_the_start_nothing_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stamps: str, threads: int
) -> None:
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    whole = write_video(tmp_path / "whole.mp4", "libx264", frames=150, b_frames=3, codec_options=LEAN)
    path = restamped(tmp_path / "odd.mkv", whole.path, 0, STAMPS[stamps])
    with open_video(path, threads=threads) as reader:
        every = [row(frame) for frame in reader.frames()]
        losses = reader.report
    with open_video(path, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(RATE)))
        assert [row(frame) for frame in some] == every
        assert reader.report == losses
    assert not any(isinstance(frame, PassedFrame) for frame in some)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("stamps", list(STAMPS))
@pytest.mark.parametrize("rate", [5.0, 13.0])
@pytest.mark.parametrize("threads", [1, 3])
def test_where_stamps_tell_no_place_later_each_packet_is_one_frame_still(
    tmp_path: Path, stamps: str, rate: float, threads: int
) -> None:
    whole = write_video(tmp_path / "whole.mp4", "libx264", frames=150, b_frames=3, codec_options=LEAN)
    path = restamped(tmp_path / "odd.mkv", whole.path, 60, STAMPS[stamps])
    with open_video(path, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(rate)))
        assert [frame.index for frame in some] == list(range(150))
        assert reader.report.frames == 150 and reader.report.lost_packets == 0
    assert any(isinstance(frame, PassedFrame) for frame in some[:60])
    assert not any(isinstance(frame, PassedFrame) for frame in some[110:])


WITHOUT_STAMP = {
    "one": range(64, 65),
    "two": range(98, 100),
    "all that follow": range(75, 150),
    "the last two": range(148, 150),
}


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("lacking", list(WITHOUT_STAMP))
@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_frame_without_a_stamp_comes_behind_those_passed_over_before_it(
    tmp_path: Path, codec: str, lacking: str, threads: int
) -> None:
    options = {
        "libx264": {"x264-params": "b-adapt=0:bframes=3:b-pyramid=none"},
        "libx265": {"x265-params": "log-level=none:bframes=4"},
    }
    whole = write_video(tmp_path / "whole.ts", codec, frames=150, b_frames=3, codec_options=options[codec])
    path = unstamped(whole.path, WITHOUT_STAMP[lacking].__contains__)
    with open_video(path, threads=threads) as reader:
        every, losses = [row(frame) for frame in reader.frames()], reader.report
    with open_video(path, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(RATE)))
        assert [row(frame) for frame in some] == every and reader.report == losses
    assert any(isinstance(frame, PassedFrame) for frame in some)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_a_clock_that_starts_over_gives_stamps_once_more(tmp_path: Path, share: float) -> None:
    whole = write_video(tmp_path / "whole.ts", "libx264", frames=150, b_frames=3, codec_options=LEAN)
    data = whole.path.read_bytes()
    begin = int(len(data) // 188 * share) * 188
    joined = tmp_path / "joined.ts"
    joined.write_bytes(data + data[begin:])
    with open_video(joined, threads=1) as reader:
        every, losses = [row(frame) for frame in reader.frames()], reader.report
    with open_video(joined, threads=1) as reader:
        some = list(reader.frames_but(Unneeded(RATE)))
        assert [row(frame) for frame in some] == every and reader.report == losses
    assert any(isinstance(frame, PassedFrame) for frame in some)
    assert not any(isinstance(frame, PassedFrame) for frame in some[150:])


def test_a_frame_is_unneeded_only_where_an_earlier_one_of_its_tick_was_met() -> None:
    chance = np.random.default_rng(3)
    for _ in range(50):
        times = np.sort(chance.uniform(0, 4, 60))
        unneeded = Unneeded(RATE)
        first = {}
        for time in times.tolist():
            first.setdefault(tick_of(time, RATE), time)
        order = np.argsort(np.arange(60) + chance.uniform(0, 8, 60))  # reordered as codecs do
        told = {time: unneeded(time) for time in times[order].tolist()}
        assert not any(told[time] for time in first.values())
    assert sum(told.values()) > 20


@pytest.mark.parametrize("ahead", [0, 60, MOST_AHEAD - 1])
def test_all_are_needed_from_the_same_frame_on_however_far_ahead_it_is_asked(ahead: int) -> None:
    unneeded = Unneeded(RATE)
    told = [unneeded(number / 25) for number in range(30 + ahead)]
    unneeded.stop(30)
    unneeded.stop(90)  # told once more, of a later shot
    told += [unneeded(number / 25) for number in range(30 + ahead, 400)]
    fifth = [number % 5 != 0 for number in range(400)]
    assert told == [*fifth[: 30 + MOST_AHEAD], *[False] * (370 - MOST_AHEAD)]


def test_decoding_is_never_so_far_ahead_of_the_gate() -> None:
    # What waits, what the gate and the decoding have in hand, and what a decoder keeps back.
    assert (DECODED_AHEAD + 3) * PARCEL_FRAMES + WARM_UP_PACKETS // 2 < MOST_AHEAD


def test_only_a_rate_in_seconds_tells_what_is_unneeded() -> None:
    assert Rate(RATE).unneeded is not None
    assert Rate(RATE, every=5).unneeded is None and Rate(RATE, all_frames=True).unneeded is None


def two_shots(path: Path, cut_at: int, frames: int = 60) -> Path:
    """Noise that stands still, and from `cut_at` on other noise; no keyframe is where the shot changes."""
    chance = np.random.default_rng(1)
    shots = [chance.integers(0, 255, (12, 16, 3)).astype(np.uint8).repeat(8, 0).repeat(8, 1) for _ in "ab"]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options=LEAN)
        stream.width, stream.height, stream.pix_fmt = 128, 96, "yuv420p"
        stream.codec_context.gop_size, stream.codec_context.max_b_frames = 250, 3
        for number in range(frames):
            picture = shots[number >= cut_at].copy()
            picture[40:56, number : number + 16] = 255
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture)))
        container.mux(stream.encode(None))
    return path


def events_of(reader: VideoReader, unneeded: Unneeded | None) -> tuple[list[tuple[int, int | None]], int]:
    """Numbers of sampled frames, each with the cut that it tells of, and how many frames were passed over."""
    sampler = Sampler(reader.info, Rate(RATE), 416, unneeded, reader.again)
    frames = reader.frames() if unneeded is None else reader.frames_but(unneeded)
    told: list[tuple[int, int | None]] = []
    passed = 0
    for frame in frames:
        passed += isinstance(frame, PassedFrame)
        for event in sampler.look(frame):
            is_sample = isinstance(event, Sample)
            told.append((event.frame.index, event.cut_at) if is_sample else (_held(event), None))
    return told, passed


def _held(event: Sample | Hold) -> int:
    assert isinstance(event, Hold)
    return event.frame


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("cut_at", [31, 32, 33, 34])
def test_a_shot_begins_where_it_does_though_frames_around_it_were_passed_over(
    tmp_path: Path, cut_at: int
) -> None:
    path = two_shots(tmp_path / "film.mp4", cut_at)
    with open_video(path, threads=1) as reader:
        expected, _ = events_of(reader, None)
    with open_video(path, threads=1) as reader:
        found, passed = events_of(reader, Unneeded(RATE))
        assert reader.report.frames == 60  # to look again is not part of the report
    assert (35, cut_at) in expected
    assert found == expected and passed >= 10


@pytest.mark.usefixtures("at_once")
def test_from_a_while_behind_the_first_cut_on_all_is_decoded(tmp_path: Path) -> None:
    path = two_shots(tmp_path / "film.mp4", 31, frames=60 + MOST_AHEAD)
    with open_video(path, threads=1) as reader:
        unneeded = Unneeded(RATE)
        sampler = Sampler(reader.info, Rate(RATE), 416, unneeded, reader.again)
        kinds = []
        for frame in reader.frames_but(unneeded):
            list(sampler.look(frame))
            kinds.append(isinstance(frame, PassedFrame))
    assert any(kinds[:31]) and any(kinds[31 + MOST_AHEAD // 2 : 31 + MOST_AHEAD])
    assert not any(
        kinds[35 + MOST_AHEAD + 3 :]
    )  # the sample that shows the cut is the 35th; three are reordered


def test_a_library_holds_the_same_bytes_as_if_all_had_been_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    write_video(folder / "a.mp4", "libx264", frames=150, b_frames=3, gop=50, codec_options=LEAN)
    two_shots(folder / "b.mp4", 33)
    made = {}
    for name, warm_up in (("all", 10**6), ("some", 0)):
        monkeypatch.setattr(sparing, "WARM_UP_PACKETS", warm_up)
        settings = IngestSettings(samples_per_second=RATE)
        with Store.create(tmp_path / name) as store:
            indexer = Indexer(ColorEmbedder(), ColoredThings(), settings)
            outcomes = index_paths(store, indexer, find_videos([folder])).files
        assert [outcome.status for outcome in outcomes] == ["indexed"] * 2
        made[name] = data_contents(tmp_path / name)
    assert made["all"] and made["some"] == made["all"]


def test_a_file_that_goes_before_it_is_looked_into_again_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparing, "WARM_UP_PACKETS", 0)
    folder = tmp_path / "videos"
    folder.mkdir()
    film = two_shots(folder / "a.mp4", 33)
    write_video(folder / "b.mp4", "libx264", frames=60, b_frames=3, codec_options=LEAN)
    again = VideoReader.again

    def again_without_it(reader: VideoReader, start: int, stop: int) -> Iterator[VideoFrame]:
        film.unlink(missing_ok=True)
        return again(reader, start, stop)

    monkeypatch.setattr(VideoReader, "again", again_without_it)
    with Store.create(tmp_path / "library") as store:
        indexer = Indexer(ColorEmbedder(), ColoredThings(), IngestSettings(samples_per_second=RATE))
        first, second = index_paths(store, indexer, find_videos([folder])).files
    assert (first.status, second.status) == ("failed", "indexed")
    assert "a.mp4 can no longer be opened" in first.note
