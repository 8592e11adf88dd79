"""Video of high dynamic range is read as an ordinary screen shows it."""

from __future__ import annotations

from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from panorama.video import hdr, open_video

NUMBERS = {"pq": 16, "hlg": 18, "": 1}
BT2020, BT2020_NCL = 9, 9
TO_BT2020 = np.linalg.inv(hdr.FROM_BT2020.astype(float))

# Values of both standards, worked out by hand: light in cd/m2 and what encodes it.
PQ = [(0, 0.0), (1, 0.1500), (10, 0.3002), (100, 0.5081), (203, 0.5807), (1000, 0.7518), (10_000, 1.0)]
HLG_GREYS = [(0, 0.0), (203, 0.75), (1000, 1.0)]


def grey(value: float, transfer: str) -> int:
    """What a grey of that value, of all there is, is shown as."""
    picture = np.full((2, 2, 3), round(value * 65535), np.uint16)
    pixels = hdr.shown(picture, transfer)
    assert pixels.dtype == np.uint8 and pixels.shape == (2, 2, 3)
    assert int(pixels.max()) - int(pixels.min()) <= 1  # grey stays grey
    return int(pixels[0, 0, 0])


@pytest.mark.parametrize(("nits", "value"), PQ)
def test_light_of_pq_is_shown_by_its_share_of_white(nits: float, value: float) -> None:
    if nits <= hdr.KNEE * hdr.WHITE_NITS:
        assert abs(grey(value, "pq") - 255 * (nits / 203) ** (1 / 2.4)) <= 1
    elif nits >= hdr.SCREEN_NITS:
        assert grey(value, "pq") == 255
    else:
        assert 235 <= grey(value, "pq") <= 245  # white, with room above it


@pytest.mark.parametrize(("nits", "value"), HLG_GREYS)
def test_light_of_hlg_is_shown_as_that_of_pq(nits: float, value: float) -> None:
    assert abs(grey(value, "hlg") - grey(dict(PQ)[nits], "pq")) <= 1


@pytest.mark.parametrize("transfer", ["pq", "hlg"])
def test_what_is_brighter_is_never_shown_darker(transfer: str) -> None:
    greys = np.repeat(np.arange(65536, dtype=np.uint16).reshape(256, 256, 1), 3, axis=2)
    pixels = hdr.shown(greys, transfer)[:, :, 1].ravel().astype(int)
    assert (np.diff(pixels) >= -1).all() and (np.maximum.accumulate(pixels) - pixels).max() <= 1
    assert (pixels[0], pixels[-1]) == (0, 255)
    # Above white there is still room: what shines is not one white spot.
    white, bright = (round(share * 65535) for share in ((0.58, 0.70) if transfer == "pq" else (0.75, 0.92)))
    assert pixels[bright] - pixels[white] >= 8


def encode_pq(light: np.ndarray) -> np.ndarray:
    """Values of PQ for light, 1 for 203 cd/m2; the inverse of what is tested."""
    root = (np.clip(light, 0, None) * 203 / 10_000) ** (2610 / 16384)
    return ((3424 / 4096 + 2413 / 128 * root) / (1 + 2392 / 128 * root)) ** (2523 / 32)


def encode_hlg(light: np.ndarray) -> np.ndarray:
    """Values of HLG for light on a screen of 1,000 cd/m2, 1 for 203."""
    display = np.clip(light, 0, None) * 203 / 1000
    brightness = display @ np.array([0.2627, 0.6780, 0.0593])
    scene = display * np.maximum(brightness, 1e-9)[..., None] ** (1 / 1.2 - 1)
    curved = 0.17883277 * np.log(np.maximum(12 * scene - 0.28466892, 1e-9)) + 0.55991073
    return np.where(scene <= 1 / 12, np.sqrt(3 * scene), curved)


def ordinary() -> np.ndarray:
    """(90, 160, 3) a picture of an ordinary screen, nothing of it brighter than the knee."""
    coarse = np.random.default_rng(7).integers(20, 215, (4, 6, 3)).astype(np.uint8)
    return np.clip(cv2.resize(coarse, (160, 90), interpolation=cv2.INTER_CUBIC), 10, 215)


def write_hdr(path: Path, transfer: str, frames: int = 3, tells: bool = True) -> np.ndarray:
    """The ordinary picture as video of 10 bits and BT.2020, whose stream tells that or not; itself."""
    picture = ordinary()
    light = (picture / 255.0) ** 2.4 @ TO_BT2020.T
    encode = {"pq": encode_pq, "hlg": encode_hlg}[transfer]
    values = np.round(np.clip(encode(light), 0, 1) * 65535).astype("<u2")
    with av.open(str(path), "w") as container:
        options = {
            "preset": "ultrafast",
            "crf": "4",
            "x265-params": "log-level=none"
            + (f":colorprim=9:transfer={NUMBERS[transfer]}:colormatrix=9" if tells else ""),
        }
        stream = container.add_stream("libx265", rate=10, options=options)
        stream.width, stream.height, stream.pix_fmt = 160, 90, "yuv420p10le"
        for _ in range(frames):
            frame = av.VideoFrame.from_ndarray(values, format="rgb48le")
            frame = frame.reformat(format="yuv420p10le", dst_colorspace=BT2020_NCL, dst_color_range=1)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return picture


def tell_in_container(path: Path, told: Path, transfer: str) -> None:
    """A copy whose container tells the colours, and whose stream tells what it told before."""
    with av.open(str(path)) as read, av.open(str(told), "w") as written:
        stream = written.add_stream_from_template(read.streams.video[0])
        stream.codec_context.color_trc = NUMBERS[transfer]
        stream.codec_context.color_primaries, stream.codec_context.colorspace = BT2020, BT2020_NCL
        for packet in read.demux(video=0):
            if packet.size:
                packet.stream = stream
                written.mux(packet)


@pytest.mark.parametrize("transfer", ["pq", "hlg"])
@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".mov"])
def test_colours_that_the_container_alone_tells_are_the_same(
    tmp_path: Path, transfer: str, suffix: str
) -> None:
    """The decoder of HEVC forgot them; and without a matrix the scaler takes another one."""
    picture = write_hdr(tmp_path / "a.mp4", transfer, tells=False).astype(int)
    with open_video(tmp_path / "a.mp4") as reader:
        assert reader.info.hdr == ""
    tell_in_container(tmp_path / "a.mp4", tmp_path / f"told{suffix}", transfer)
    with open_video(tmp_path / f"told{suffix}") as reader:
        assert reader.info.hdr == transfer
        for frame in reader.frames():
            whole = frame.rgb()
            assert np.abs(whole - picture).mean() < 3
            assert np.abs(whole.mean(axis=(0, 1)) - picture.mean(axis=(0, 1))).max() < 1.5
            np.testing.assert_array_equal(frame.part((20, 31, 101, 77), 256), whole[31:77, 20:101])


def test_what_the_stream_tells_counts_before_what_the_container_tells(tmp_path: Path) -> None:
    write_hdr(tmp_path / "a.mp4", "hlg")
    tell_in_container(tmp_path / "a.mp4", tmp_path / "told.mp4", "pq")
    with open_video(tmp_path / "told.mp4") as reader:
        assert reader.info.hdr == "hlg"


@pytest.mark.parametrize("transfer", ["pq", "hlg"])
def test_a_video_of_high_dynamic_range_has_the_colours_of_the_ordinary_one(
    tmp_path: Path, transfer: str
) -> None:
    picture = write_hdr(tmp_path / "a.mp4", transfer).astype(int)
    with open_video(tmp_path / "a.mp4") as reader:
        assert reader.info.hdr == transfer
        frame = next(reader.frames())
        whole = frame.rgb()
        # Chroma at half the resolution, and ten bits; as it is encoded it is some fifty levels off.
        assert np.abs(whole - picture).mean() < 3
        assert np.abs(whole.mean(axis=(0, 1)) - picture.mean(axis=(0, 1))).max() < 1.5
        half = frame.rgb(80, 45).astype(int)
        assert np.abs(half - cv2.resize(picture.astype(np.uint8), (80, 45), interpolation=3)).mean() < 3
        part = frame.part((20, 31, 101, 77), 256)
        assert part.dtype == np.uint8
        np.testing.assert_array_equal(part, whole[31:77, 20:101])
        small = frame.part((0, 0, 160, 90), 40).astype(int)
        assert np.abs(small - cv2.resize(picture.astype(np.uint8), (40, 22), interpolation=3)).mean() < 5


@pytest.mark.parametrize("transfer", ["pq", "hlg"])
def test_the_scaler_s_own_conversion_shows_the_same_below_the_knee(transfer: str) -> None:
    formats = av.video.reformatter
    if not hasattr(formats, "ColorTrc") or int(av.__version__.split(".")[0]) < 17:
        pytest.skip("this PyAV does not convert transfer characteristics")
    light = (ordinary() / 255.0) ** 2.4 @ TO_BT2020.T
    encode = {"pq": encode_pq, "hlg": encode_hlg}[transfer]
    values = np.round(np.clip(encode(light), 0, 1) * 65535).astype("<u2")
    frame = av.VideoFrame.from_ndarray(values, format="rgb48le")
    frame.color_trc, frame.color_primaries, frame.color_range = NUMBERS[transfer], BT2020, 2
    theirs = formats.VideoReformatter().reformat(
        frame,
        format="rgb24",
        dst_color_range=formats.ColorRange.JPEG,
        dst_color_trc=formats.ColorTrc.BT709,
        dst_color_primaries=formats.ColorPrimaries.BT709,
        threads=1,
    )
    ours = hdr.shown(values.astype(np.uint16), transfer).astype(int)
    assert np.abs(ours - theirs.to_ndarray()).mean() < 2.5
    assert np.abs(ours - ordinary()).max() <= 2


def test_ordinary_video_of_ten_bits_stays_as_it_is(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("libx265", rate=10, options={"x265-params": "log-level=none:crf=4"})
        stream.width, stream.height, stream.pix_fmt = 160, 90, "yuv420p10le"
        frame = av.VideoFrame.from_ndarray(ordinary()).reformat(format="yuv420p10le")
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with open_video(tmp_path / "a.mp4") as reader:
        assert reader.info.hdr == ""
        frame = next(reader.frames())
        whole = frame.rgb()
        assert np.abs(whole.astype(int) - ordinary()).mean() < 4
        np.testing.assert_array_equal(frame.part((20, 31, 101, 77), 256), whole[31:77, 20:101])
