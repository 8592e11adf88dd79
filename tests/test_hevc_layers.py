"""Which packets of HEVC no other frame is made from, and which show nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import av
import pytest
from clips import Clip, damage_packet, number_in, write_video

from panorama.tracking.sampling import Unneeded
from panorama.video import PassedFrame, VideoFrame, open_video, probing, sparing
from panorama.video.hevc_layers import Layers, Splices


def coded(path: Path, more: str = "") -> Clip:
    """Sixty frames, with frames between that others are made from, and some that none is."""
    options = {"preset": "ultrafast", "x265-params": f"log-level=none:b-pyramid=1:b-adapt=0:bframes=4{more}"}
    return write_video(path, "libx265", frames=60, gop=30, b_frames=4, codec_options=options)


def packets(path: Path) -> tuple[Layers | None, list[bytes], list[bool]]:
    """What the stream says of its layers, its packets, and which of them stand alone."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        layers = Layers.of(stream.codec_context.extradata)
        some = [packet for packet in container.demux(stream) if packet.size]
        assert layers is not None
        return layers, [bytes(packet) for packet in some], [layers.stands_alone(packet) for packet in some]


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts", ".mov"])
def test_containers_tell_the_same_of_the_same_frames(tmp_path: Path, suffix: str) -> None:
    layers, _, alone = packets(coded(tmp_path / f"a{suffix}").path)
    assert layers is not None and layers.topmost == 0
    assert layers.length_bytes == (0 if suffix == ".ts" else 4)
    assert 20 <= sum(alone) <= 40 and not alone[0]


def test_in_a_lower_layer_of_time_frames_may_be_made_from_any(tmp_path: Path) -> None:
    layers, data, alone = packets(coded(tmp_path / "a.mp4", ":temporal-layers=3").path)
    assert layers is not None and layers.topmost == 2
    told = Counter(zip(map(layer_of, data), alone, strict=True))
    assert told[2, True] >= 20 and told[1, False] >= 10 and told[0, False] >= 10
    assert told[1, True] == told[0, True] == 0
    # The same packets, were they of a stream with another layer above.
    above = Layers(4, 3)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert not any(above.stands_alone(packet) for packet in container.demux(video=0) if packet.size)


def place_of_picture(packet: bytes | bytearray) -> int:
    """Where the first part of a picture begins, lengths of four bytes before the units."""
    place = 4
    while packet[place] >> 1 & 63 >= 32:
        place += 4 + int.from_bytes(packet[place - 4 : place], "big")
    return place


def layer_of(packet: bytes | bytearray) -> int:
    """The layer of time of the first part of a picture."""
    return packet[place_of_picture(packet) + 1] % 8 - 1


def joined(path: Path, parts: list[Path]) -> None:
    """Streams one after the other as one; of the middle of three layers no frame tells that others use it."""
    with av.open(str(path), "w") as written:
        stream, offset = None, 0
        for part in parts:
            with av.open(str(part)) as read:
                stream = stream or written.add_stream_from_template(read.streams.video[0])
                end = 0
                for packet in read.demux(video=0):
                    if not packet.size:
                        continue
                    data = bytearray(bytes(packet))
                    place = place_of_picture(data)
                    if layer_of(data) == 1 and data[place] >> 1 & 63 == 3:
                        data[place] = data[place] & 0x81 | 2 << 1
                    new = av.Packet(bytes(data))
                    assert packet.pts is not None and packet.dts is not None
                    new.pts, new.dts, new.duration = packet.pts + offset, packet.dts + offset, packet.duration
                    new.time_base, new.is_keyframe, new.stream = packet.time_base, packet.is_keyframe, stream
                    end = max(end, packet.pts + (packet.duration or 0))
                    written.mux(new)
                offset += end


def test_layers_that_come_in_the_middle_of_a_stream_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of its beginning counted; frames were left out that others were made from, which were lost."""
    monkeypatch.setattr(sparing, "WARM_UP_PACKETS", 0)
    parts = [coded(tmp_path / f"{n}.mp4", f":temporal-layers={n}:repeat-headers=1").path for n in (2, 3)]
    joined(tmp_path / "joined.mkv", parts)
    with open_video(tmp_path / "joined.mkv") as reader:
        every = {f.index: (f.pts, f.luma().tobytes()) for f in reader.frames()}
        assert reader.report.complete and len(every) == 120
    with open_video(tmp_path / "joined.mkv") as reader:
        some = list(reader.frames_but(Unneeded(5.0)))
        assert reader.report.complete, reader.report
    assert [(f.index, f.pts) for f in some] == [(index, one[0]) for index, one in every.items()]
    left = [frame for frame in some if isinstance(frame, VideoFrame)]
    assert all(frame.luma().tobytes() == every[frame.index][1] for frame in left)
    assert sum(isinstance(f, PassedFrame) for f in some[:60]) >= 12
    assert sum(isinstance(f, PassedFrame) for f in some[60:]) >= 12


@pytest.mark.parametrize("length_bytes", [0, 2, 4])
def test_what_leans_on_frames_before_a_splice_shows_nothing(length_bytes: int) -> None:
    begins, trails, leads, leans, anew, end = 21, 1, 6, 8, 16, 36

    def packet(*kinds: int) -> av.Packet:
        units = [bytes([kind << 1, 1]) + (b"" if kind == end else bytes(range(1, 40))) for kind in kinds]
        before = [len(u).to_bytes(length_bytes, "big") if length_bytes else b"\x00\x00\x01" for u in units]
        return av.Packet(b"".join(b for pair in zip(before, units, strict=True) for b in pair))

    hides = Splices(length_bytes).hides
    for kinds, hidden in (
        ((33, begins), False),
        ((leans,), True),  # it leans on what was before the file
        ((leads,), False),
        ((begins,), False),
        ((leans,), False),
        ((trails, end), False),
        ((begins,), False),
        ((leans,), True),
        ((35, leads), False),
        ((end, begins), False),
        ((leans,), True),
        ((begins,), False),
        ((leans,), False),
        ((anew,), False),
        ((39, leans), True),
        ((begins,), False),
        ((leans,), False),
    ):
        assert hides(packet(*kinds)) == hidden, kinds
    assert not hides(av.Packet(b"")) and not hides(av.Packet(b"\x00"))


@pytest.mark.parametrize("threads", [1, 3])
def test_what_a_splice_takes_away_is_not_taken_for_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """The scan promised it: an undamaged file was called damaged, and numbers behind it were too high."""
    monkeypatch.setattr(sparing, "WARM_UP_PACKETS", 0)
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    groups = ":open-gop=1:keyint=16:min-keyint=16:scenecut=0:rc-lookahead=25:bframes=7"
    whole = coded(tmp_path / "whole.mp4", groups).path
    with av.open(str(whole)) as container:
        kinds = {
            packet.pos: data[place_of_picture(data)] >> 1 & 63
            for packet in container.demux(video=0)
            if packet.size and packet.pos is not None and (data := bytearray(bytes(packet)))
        }
    assert list(kinds.values()).count(21) == 3
    data = bytearray(whole.read_bytes())
    splice = [pos for pos, kind in kinds.items() if kind == 21][1]
    place = splice + place_of_picture(data[splice:])
    data[place] = data[place] & 0x81 | 16 << 1
    (tmp_path / "spliced.mp4").write_bytes(data)
    with open_video(tmp_path / "spliced.mp4", threads=threads) as reader:
        scanned = reader.times().pts.tolist()
        keys = [(f.index, f.pts) for f in reader.frames(keyframes_only=True)]
    with open_video(tmp_path / "spliced.mp4", threads=threads) as reader:
        every = [(f.index, f.pts, f.is_keyframe) for f in reader.frames()]
        assert reader.report.complete, reader.report
    assert 50 < len(every) < 60
    assert scanned == [pts for _, pts, _ in every]
    assert keys == [(index, pts) for index, pts, is_keyframe in every if is_keyframe]
    with open_video(tmp_path / "spliced.mp4", threads=threads) as reader:
        assert [(f.index, f.pts) for f in reader.frames_but(Unneeded(5.0))] == [one[:2] for one in every]
        assert reader.report.complete, reader.report


def test_what_does_not_tell_of_layers_is_told_so() -> None:
    for extradata in (
        None,
        b"",
        b"\x01\x02",
        b"\x01" + bytes(22),
        b"\x01" + bytes(21) + b"\x05\xa1\x00\x01\x00",
    ):
        assert Layers.of(extradata) is None
    assert Layers.of(b"\x00\x00\x00\x01\x42\x01") is None  # cut off
    assert Layers.of(b"\x00\x00\x00\x01\x42\x01\x03\x00\x00\x00\x01\x26\x01") == Layers(0, 1)
    assert Layers.of(b"\x00\x00\x00\x01\x26\x01\x03") is None  # a picture alone
    more = av.Packet(b"\x00\x00\x00\x03\x42\x01\x05\x00\x00\x00\x02\x26\x01")
    assert (Layers(4, 1).raised_by(more), Layers(4, 3).raised_by(more)) == (Layers(4, 2), Layers(4, 3))
    alone, made_from = b"\x00\x01", b"\x02\x01"  # the first bytes of parts of two pictures
    assert Layers(4, 0).stands_alone(av.Packet(b"\x00\x00\x00\x02" + alone))
    assert Layers(0, 0).stands_alone(av.Packet(b"\x00\x00\x01" + alone))
    for data in (b"", b"\x00", b"\x00\x00\x00\x01", b"\xff\xff\xff\xff" + made_from, bytes(3) + b"\x01\x00"):
        packet = av.Packet(data)
        assert not Layers(4, 0).stands_alone(packet) and not Layers(0, 0).stands_alone(packet)


@pytest.mark.parametrize("suffix", [".mp4", ".ts"])
@pytest.mark.parametrize("more", ["", ":temporal-layers=3", ":open-gop=1:keyint=16"])
@pytest.mark.parametrize("threads", [1, 3])
def test_what_is_left_of_hevc_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, more: str, threads: int
) -> None:
    monkeypatch.setattr(sparing, "WARM_UP_PACKETS", 0)
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    path = coded(tmp_path / f"a{suffix}", more).path
    with open_video(path, threads=threads) as reader:
        every = {f.index: (f.pts, f.time_seconds, f.luma().tobytes()) for f in reader.frames()}
    with open_video(path, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(5.0)))
        assert reader.report.complete and reader.report.frames == 60
    assert [frame.index for frame in some] == list(every) == list(range(60))
    assert [(f.pts, f.time_seconds) for f in some] == [one[:2] for one in every.values()]
    left = [frame for frame in some if isinstance(frame, VideoFrame)]
    assert all(frame.luma().tobytes() == every[frame.index][2] for frame in left)
    assert sum(isinstance(frame, PassedFrame) for frame in some) >= 12


@pytest.mark.parametrize("at", [7, 22, 31])
@pytest.mark.parametrize("threads", [1, 3])
def test_frames_that_are_made_from_a_lost_one_are_lost_also_where_they_are_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int, threads: int
) -> None:
    """The decoder says nothing of most of them; what it was not given could not be missed."""
    monkeypatch.setattr(sparing, "WARM_UP_PACKETS", 0)
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    path = damage_packet(coded(tmp_path / "a.mp4").path, tmp_path / "damaged.mp4", at)
    with open_video(path, threads=threads) as reader:
        every = [frame.pts for frame in reader.frames()]
        lost = reader.report.lost_packets
    with open_video(path, threads=threads) as reader:
        some = list(reader.frames_but(Unneeded(5.0)))
        assert lost - 4 <= reader.report.lost_packets <= lost and lost >= 8
        assert len(some) + reader.report.lost_packets == 60
    assert [frame.index for frame in some] == list(range(len(some)))
    assert {f.pts for f in some if isinstance(f, VideoFrame)} <= set(every) <= {f.pts for f in some}
    assert isinstance(some[-1], VideoFrame) or at > 30  # after the loss all is decoded


@pytest.mark.parametrize("codec", ["libx264", "libx265"])
@pytest.mark.parametrize("suffix", [".mp4", ".ts"])
@pytest.mark.parametrize("threads", [1, 3])
def test_keyframes_come_in_order_however_far_apart_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, suffix: str, threads: int
) -> None:
    """A later one came before the first, which was told to be damage, and was left out."""
    monkeypatch.setattr(probing, "ALONE_PIXELS", 0)
    how = "open-gop=1:keyint=150:min-keyint=150:scenecut=0:bframes=3:b-adapt=0"
    options = {"preset": "ultrafast"}
    options |= {"x264-params": how} if codec == "libx264" else {"x265-params": f"log-level=none:{how}"}
    path = write_video(
        tmp_path / f"a{suffix}", codec, frames=310, gop=150, b_frames=3, codec_options=options
    ).path
    with open_video(path, threads=threads) as reader:
        found = list(reader.frames(keyframes_only=True))
        assert reader.report.complete and not reader.report.errors
        assert [frame.index for frame in found] == [0, 150, 300]
        assert [number_in(frame.luma()) for frame in found] == [0, 150, 300]
        assert [frame.index for frame in reader.frames(keyframes_only=True, start=140)] == [150, 300]


def test_a_stream_of_other_codecs_has_no_layers(clips: Callable[[str], Clip]) -> None:
    for name in ("b-frames.mp4", "vp9.webm", "animated.gif"):
        with open_video(clips(name).path) as reader:
            assert reader._source.layers is None  # type: ignore[attr-defined]
