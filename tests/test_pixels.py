"""Pictures as files and as other packages hold them: upright, and as bright as they are."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from clips import heic
from fakes import thing_picture, write_picture

import panorama
from panorama.crops import decode_picture
from panorama.errors import BadImage, VideoError
from panorama.models.training.sources import read_picture
from panorama.pictures.picture_size import is_plain
from panorama.pictures.pixels import file_orientation, given_pixels, laid_flat, read_pixels, seen_box, turned
from panorama.pictures.several import Several, several_in
from panorama.video import open_video

RNG = np.random.default_rng(0)
WIDE = RNG.integers(0, 255, (20, 30, 3)).astype(np.uint8)

UPRIGHT = {
    1: WIDE,
    2: WIDE[:, ::-1],
    3: np.rot90(WIDE, 2),
    4: WIDE[::-1],
    5: WIDE.transpose(1, 0, 2),
    6: np.rot90(WIDE, -1),
    7: np.rot90(WIDE, 2).transpose(1, 0, 2),
    8: np.rot90(WIDE, 1),
}
"""As EXIF defines them: 6 was taken with the camera's top to the right, so the file is turned clockwise."""


def exif(orientation: int, order: str = "<") -> bytes:
    begin = b"II*\0" if order == "<" else b"MM\0*"
    entries = struct.pack(f"{order}HHIHH", 0x0100, 3, 1, 30, 0)
    entries += struct.pack(f"{order}HHIHH", 0x0112, 3, 1, orientation, 0)
    return begin + struct.pack(f"{order}IH", 8, 2) + entries + bytes(4)


def png(rgb: np.ndarray, block: bytes) -> bytes:
    """A PNG with an EXIF block behind its pixels, where the specification allows it too."""
    plain = cv2.imencode(".png", rgb[:, :, [2, 1, 0, *range(3, rgb.shape[2])]])[1].tobytes()
    chunk = b"eXIf" + block
    return (
        plain[:-12]
        + struct.pack(">I", len(block))
        + chunk
        + struct.pack(">I", zlib.crc32(chunk))
        + plain[-12:]
    )


def webp(rgb: np.ndarray, block: bytes) -> bytes:
    plain = cv2.imencode(".webp", rgb[:, :, ::-1], [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes()
    height, width = rgb.shape[:2]
    size = struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3]
    pixels = plain[12:]
    header = b"VP8X" + struct.pack("<I", 10) + b"\x08\0\0\0" + size
    last = b"EXIF" + struct.pack("<I", len(block)) + block + bytes(len(block) % 2)
    body = b"WEBP" + header + pixels + last
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("make", [png, webp])
@pytest.mark.parametrize("order", "<>")
def test_a_picture_is_turned_as_its_file_says(make: Any, orientation: int, order: str) -> None:
    """Of PNG and WebP the orientation was not followed: a phone's picture lay on its side."""
    data = make(WIDE, exif(orientation, order))
    np.testing.assert_array_equal(decode_picture(data), UPRIGHT[orientation])


@pytest.mark.parametrize("orientation", range(1, 9))
def test_tiff_is_turned_once(orientation: int) -> None:
    data = cv2.imencode(".tiff", WIDE[:, :, ::-1], [cv2.IMWRITE_TIFF_COMPRESSION, 1])[1].tobytes()
    (directory,) = struct.unpack_from("<I", data, 4)
    (entries,) = struct.unpack_from("<H", data, directory)
    tags = [data[directory + 2 + 12 * i :][:12] for i in range(entries)]
    tags = [tag for tag in tags if tag[:2] != struct.pack("<H", 0x0112)]
    tags.append(struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0))
    tags.sort(key=lambda tag: struct.unpack_from("<H", tag)[0])
    moved = data[:4] + struct.pack("<I", len(data)) + data[8:]
    moved += struct.pack("<H", len(tags)) + b"".join(tags) + bytes(4)
    np.testing.assert_array_equal(decode_picture(moved), UPRIGHT[orientation])


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("channels", [3, 4])
def test_avif_is_turned_as_its_file_says(orientation: int, channels: int) -> None:
    """It lay on its side: AVIF tells the turn in boxes of its own."""
    image, features = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.features")
    if not features.check("avif"):
        pytest.skip("this PIL writes no AVIF")
    smooth = cv2.resize(WIDE[:3, :3], (48, 32), interpolation=cv2.INTER_CUBIC)
    pixels = np.dstack([smooth, np.full((32, 48), 255, np.uint8)])[:, :, :channels]
    says = image.Exif()
    says[0x0112] = orientation
    file = io.BytesIO()
    image.fromarray(pixels).save(file, "AVIF", quality=95, exif=says)
    upright = turned(smooth, orientation)
    shown = decode_picture(file.getvalue())
    assert shown.shape == upright.shape and np.abs(shown.astype(int) - upright).mean() < 6


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("channels", [3, 4])
def test_heic_is_read_upright(orientation: int, channels: int) -> None:
    """Phones save it, and it was refused."""
    smooth = cv2.resize(WIDE[:3, :3], (48, 32), interpolation=cv2.INTER_CUBIC)
    pixels = np.dstack([smooth, np.full((32, 48), 255, np.uint8)])[:, :, :channels]
    upright = turned(smooth, orientation)
    shown = decode_picture(heic(pixels, orientation))
    assert shown.shape == upright.shape and np.abs(shown.astype(int) - upright).mean() < 6


def test_grey_heic_of_more_bits_is_read() -> None:
    """Grey ones of more than 8 bits come as they are, colours in 8."""
    slope = np.tile(np.arange(64, dtype=np.uint16) * 1024, (40, 1))
    shown = read_pixels(heic(slope))
    assert shown.shape == (40, 64, 3) and shown.dtype == np.uint8
    assert np.abs(shown[:, :, 0].astype(int) - np.linspace(0, 255, 64)).max() < 12


def test_heic_is_registered_from_a_folder_and_without_its_package_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "phone").mkdir()
    (tmp_path / "phone" / "IMG_1.HEIC").write_bytes(heic(thing_picture("red")))
    with panorama.open(tmp_path / "library", create=True) as library:
        library.use_model("color-bands")
        assert library.register("thing", tmp_path / "phone").exemplars == 1
        monkeypatch.setitem(sys.modules, "pi_heif", None)
        with pytest.raises(
            BadImage, match=r"IMG_1\.HEIC is HEIC, .*pip install pi-heif, or save the picture as"
        ):
            library.register("other", tmp_path / "phone")


def test_transparency_is_turned_with_the_picture() -> None:
    alpha = np.zeros((20, 30, 1), np.uint8)
    alpha[:10] = 255
    data = png(np.concatenate([WIDE, alpha], axis=2), exif(6))
    pixels = read_pixels(data, "a.png")
    x1, y1, x2, y2 = seen_box(pixels)
    shown = laid_flat(pixels[y1:y2, x1:x2])
    np.testing.assert_array_equal(shown, np.rot90(WIDE[:10], -1))


@pytest.mark.parametrize("cut", [0, 3, 4, 9, 12, 20, 30])
def test_a_damaged_orientation_is_none(cut: int) -> None:
    assert file_orientation(png(WIDE, exif(6)[:cut])) == 1
    assert file_orientation(webp(WIDE, exif(6)[:cut])) == 1
    assert file_orientation(webp(WIDE, exif(6))[: 20 + cut]) == 1
    np.testing.assert_array_equal(turned(WIDE, 99), WIDE)


def test_pictures_to_learn_from_are_turned_too(tmp_path: Path) -> None:
    """They were not, also of JPEG, and what is registered is: a model learned from things on their side."""
    (tmp_path / "a.png").write_bytes(png(WIDE, exif(8)))
    np.testing.assert_array_equal(read_picture(tmp_path / "a.png"), UPRIGHT[8])
    plain = cv2.imencode(".jpg", cv2.GaussianBlur(WIDE, (0, 0), 3))[1].tobytes()
    block = b"Exif\0\0" + exif(8)
    marked = plain[:2] + b"\xff\xe1" + struct.pack(">H", len(block) + 2) + block + plain[2:]
    (tmp_path / "b.jpg").write_bytes(marked)
    assert read_picture(tmp_path / "b.jpg").shape == (30, 20, 3)


def test_a_photograph_of_sixteen_bits_is_as_bright_as_in_eight() -> None:
    """Its darkest and brightest pixels were made black and white: a dull thing became a lively one."""
    dull = (WIDE // 4 + 90).astype(np.uint16)
    for scale in (257, 16):  # of 16 bits, and 12 of a camera
        data = cv2.imencode(".png", dull[:, :, ::-1] * scale)[1].tobytes()
        assert np.abs(decode_picture(data).astype(int) - dull).max() <= 1
    alpha = np.full((20, 30, 1), 255, np.uint16)
    rgba = np.concatenate([dull[:, :, ::-1], alpha], axis=2) * 257
    assert np.abs(decode_picture(cv2.imencode(".png", rgba)[1].tobytes()).astype(int) - dull).max() <= 1


def test_a_measurement_of_sixteen_bits_is_stretched_and_one_with_gaps_refused() -> None:
    heat = np.linspace(29_000, 31_000, 600).reshape(20, 30)
    shown = decode_picture(cv2.imencode(".png", heat.astype(np.uint16))[1].tobytes())
    assert shown.min() == 0 and shown.max() == 255
    heat[3, 3] = np.nan
    with pytest.raises(BadImage, match=r"heat\.tiff holds values that are not numbers"):
        read_pixels(cv2.imencode(".tiff", heat.astype(np.float32))[1].tobytes(), "heat.tiff")


@pytest.mark.parametrize(
    ("header", "mask", "fourth", "alpha"),
    [
        (40, 0, 0, None),
        (40, 0, 90, None),
        (108, 0, 0, None),
        (108, 0xFF000000, 0, None),
        (124, 0xFF000000, 90, 90),
        (124, 0xFF000000, 255, 255),
    ],
)
def test_an_unused_byte_of_a_bmp_is_no_transparency(
    header: int, mask: int, fourth: int, alpha: int | None, tmp_path: Path
) -> None:
    """As screens are captured: the example was all one colour, and a folder of such was grey throughout."""
    data = bmp(WIDE, header, mask, fourth)
    pixels = read_pixels(data, "a.bmp")
    assert np.array_equal(pixels[:, :, :3], WIDE)
    assert pixels.shape[2] == (3 if alpha is None else 4) and (pixels[:, :, 3:] == alpha).all()
    (tmp_path / "a.bmp").write_bytes(data)
    assert is_plain(tmp_path / "a.bmp") is (mask == 0)
    with open_video(tmp_path) as reader:
        (frame,) = [frame.rgb() for frame in reader.frames()]
    assert np.array_equal(frame, laid_flat(pixels))


def bmp(rgb: np.ndarray, header: int, mask: int, fourth: int) -> bytes:
    """A BMP of 32 bits a pixel, by masks; `fourth` stands beside the colours, whatever `mask` says of it."""
    height, width = rgb.shape[:2]
    pixels = np.dstack([rgb[::-1, :, ::-1], np.full((height, width), fourth, np.uint8)]).tobytes()
    head = struct.pack("<IiiHHIIiiII", header, width, height, 1, 32, 3, len(pixels), 2835, 2835, 0, 0)
    head += struct.pack("<3I", 0xFF0000, 0xFF00, 0xFF)
    if header > 40:
        head = (head + struct.pack("<I", mask)).ljust(header, b"\0")
    begin = 14 + len(head)
    return b"BM" + struct.pack("<IHHI", begin + len(pixels), 0, 0, begin) + head + pixels


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tiff", ".bmp"])
def test_a_picture_that_is_cut_off_is_called_damaged(suffix: str, capfd: pytest.CaptureFixture[str]) -> None:
    """It was called no picture, beside OpenCV's own lines on stderr."""
    whole = cv2.imencode(suffix, WIDE)[1].tobytes()
    with pytest.raises(BadImage, match=r"x is damaged or incomplete"):
        read_pixels(whole[: len(whole) // 3], "x")
    assert capfd.readouterr().err == ""


def animated_webp(rgb: np.ndarray) -> bytes:
    """Two frames of one picture, as the specification of WebP lays them out."""
    still = cv2.imencode(".webp", rgb[:, :, ::-1], [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes()[12:]
    size = b"".join(struct.pack("<I", side - 1)[:3] for side in rgb.shape[1::-1])
    frame = bytes(6) + size + struct.pack("<I", 100)[:3] + b"\0" + still
    chunks = (
        b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + size + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    )
    chunks += 2 * (b"ANMF" + struct.pack("<I", len(frame)) + frame)
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WEBP" + chunks


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("GIF", Several.VIDEO),
        ("PNG", Several.VIDEO),
        ("AVIF", Several.VIDEO),
        ("WEBP", Several.ANIMATION),
        ("TIFF", Several.PAGES),
    ],
)
def test_files_that_hold_several_pictures_are_told_from_those_that_hold_one(
    kind: str, how: Several, tmp_path: Path
) -> None:
    """Of AVIF and TIFF it was not seen: the second page of a scan was left out without a word."""
    image = pytest.importorskip("PIL.Image")
    large = np.kron(WIDE, np.ones((8, 8, 1), np.uint8))  # AVIF's decoder takes no smaller ones
    one, other = image.fromarray(large), image.fromarray(large[::-1].copy())
    for more in ([], [other]):
        file = io.BytesIO()
        one.save(
            file, kind, save_all=True, append_images=more, **({} if kind == "TIFF" else {"duration": 100})
        )
        assert several_in(file.getvalue()) is (how if more else None)
    path = tmp_path / f"a.{kind.lower()}"
    path.write_bytes(file.getvalue())
    if how is Several.VIDEO:  # then the advice to take a frame of it can be followed
        with open_video(path) as video:
            assert len(video.times()) == 2
    else:
        with pytest.raises(VideoError):
            open_video(path)


def test_one_picture_is_not_several() -> None:
    assert several_in(png(WIDE, exif(1))) is None and several_in(webp(WIDE, exif(1))) is None
    assert several_in(b"RIFF") is None and several_in(b"") is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_thumbnail_or_a_mask_in_a_tiff_is_no_second_picture(order: str) -> None:
    def page(kind: int, after: int, short: bool = False) -> bytes:
        value = struct.pack(f"{order}HH", kind, 0) if short else struct.pack(f"{order}I", kind)
        return (
            struct.pack(f"{order}HHHI", 1, 254, 3 if short else 4, 1)
            + value
            + struct.pack(f"{order}I", after)
        )

    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8)
    thumbnail = head + page(0, 26) + page(1, 0)
    assert several_in(thumbnail) is None
    assert several_in(head + page(0, 26) + page(1, 0, short=True)) is None
    assert several_in(head + page(0, 26) + page(4, 0)) is None, "its mask"
    assert several_in(head + page(0, 26) + page(1, 44) + page(2, 0)) is Several.PAGES
    assert not any(several_in(thumbnail[:length]) for length in range(len(thumbnail)))


def test_a_gif_whose_pictures_tell_no_delay_moves_all_the_same() -> None:
    """Only blocks that tell a delay were counted, wherever their three bytes stood."""
    screen = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes(6)
    picture = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\0"
    coloured = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0x80) + bytes(6) + b"\x02\x02\x44\x01\0"
    remark = b"\x21\xfe\x08" + 2 * b"\x21\xf9\x04," + b"\0"
    assert several_in(screen + picture + picture + b";")
    assert several_in(screen + coloured + remark + picture + b";")
    assert not several_in(screen + remark + coloured + b";")
    whole = screen + picture + b";"
    assert not any(several_in(whole[:length]) for length in range(6, len(whole) + 1))


class Pil:
    """What is used of a picture of PIL: its mode, what it becomes in another, and what its file said."""

    def __init__(self, pixels: np.ndarray, mode: str, orientation: int = 1, filename: str = "") -> None:
        self.pixels, self.mode, self.orientation, self.filename = pixels, mode, orientation, filename
        self.size = pixels.shape[1::-1]

    def getbands(self) -> tuple[str, ...]:
        return tuple(self.mode)

    def getexif(self) -> dict[int, int]:
        return {0x0112: self.orientation}

    def convert(self, mode: str) -> Pil:
        assert mode == "RGBA"
        rgb = self.pixels if self.pixels.ndim == 3 else np.repeat(self.pixels[:, :, None], 3, axis=2)
        opaque = np.full((*rgb.shape[:2], 1), 255, np.uint8)
        return Pil(rgb if rgb.shape[2] == 4 else np.concatenate([rgb, opaque], axis=2), "RGBA")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.pixels, dtype)


def test_pictures_of_pil_are_taken_as_their_files_are() -> None:
    np.testing.assert_array_equal(given_pixels(Pil(WIDE, "RGB"), "it"), WIDE)
    np.testing.assert_array_equal(given_pixels(Pil(WIDE, "RGB", 6), "it"), UPRIGHT[6])
    palette = given_pixels(Pil(WIDE[:, :, 0], "P"), "it")  # its numbers are no brightness: PIL looks them up
    np.testing.assert_array_equal(palette[:, :, 1], WIDE[:, :, 0])
    assert palette.shape[2] == 4
    deep = given_pixels(Pil(np.linspace(0, 65535, 600).reshape(20, 30).astype(np.uint16), "I;16"), "it")
    assert deep.shape == (20, 30, 3) and deep.max() == 255 and 120 < np.median(deep) < 135


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I", "F"])
def test_every_mode_of_pil_is_read(mode: str) -> None:
    image = pytest.importorskip("PIL.Image")
    flat = np.full((20, 30, 3), 0, np.uint8)
    flat[:, 15:] = 255
    shown = given_pixels(image.fromarray(flat).convert(mode), "it")[:, :, :3]
    assert shown[:, :12].mean() < 20 and shown[:, 18:].mean() > 235


def test_tensors_and_floats_are_taken() -> None:
    torch = pytest.importorskip("torch")
    first = torch.from_numpy(WIDE.copy()).permute(2, 0, 1)
    np.testing.assert_array_equal(given_pixels(first, "it"), WIDE)
    np.testing.assert_array_equal(given_pixels((first.float() / 255).requires_grad_(), "it"), WIDE)
    np.testing.assert_array_equal(given_pixels(WIDE / 255, "it"), WIDE)
    over = (WIDE / 255 * 1.000002 - 1e-6).astype(np.float32)  # as filters leave it; refused as "from 0 to 1"
    over[0, 0] = [1.0000001, 0, 1]
    assert np.abs(given_pixels(over, "it")[1:].astype(int) - WIDE[1:]).max() <= 1
    assert given_pixels(over, "it")[0, 0].tolist() == [255, 0, 255]
    with pytest.raises(BadImage, match=r"cannot be read as an array .*BFloat16.*; a picture is \(height"):
        given_pixels(first.bfloat16(), "it")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (WIDE.astype(float), r"float64 from 0 to 254; .* floats from 0 to 1; .*array.astype\('uint8'\)$"),
        (WIDE / 250, r"from 0 to 1\.01.* floats from 0 to 1$"),
        (WIDE[:, :, 0], r"\(20, 30\) uint8; .*dstack"),
        (WIDE[:, :, :2], r"\(20, 30, 2\) uint8; .* floats from 0 to 1$"),
        (WIDE.astype(np.int64), r"int64 from 0 to 254; a picture is .*array.astype\('uint8'\)$"),
        (WIDE.astype(object), r"object; .* floats from 0 to 1$"),
        (WIDE.astype(np.int64) - 127, "int64 from -127 to 127; .* floats from 0 to 1$"),
        (np.zeros((0, 30, 3), np.uint8), r"\(0, 30, 3\)"),
        (np.full((20, 30, 3), np.nan), "from nan to nan"),
        (WIDE > 9, "bool from 0 to 1; .* floats from 0 to 1$"),
    ],
)
def test_an_array_that_is_no_picture_says_what_one_is(array: np.ndarray, message: str) -> None:
    with pytest.raises(BadImage, match=message):
        given_pixels(array, "it")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    with panorama.open("library", create=True) as made:
        made.use_model("color-bands")
        yield made


def kept(library: panorama.Library, name: str) -> list[np.ndarray]:
    return [decode_picture(e.picture.read_bytes()) for e in library.exemplars(name)]


def test_pictures_in_memory_are_registered_as_their_files_are(library: panorama.Library) -> None:
    """All but RGB arrays were refused, without a word on what to do."""
    rgba = np.zeros((80, 90, 4), np.uint8)
    rgba[10:74, 20:84] = np.dstack([thing_picture("red"), np.full((64, 64), 255, np.uint8)])
    write_picture(Path("cut-out.png"), rgba[:, :, :3])
    cv2.imwrite("cut-out.png", rgba[:, :, [2, 1, 0, 3]])
    as_file = library.register("file", "cut-out.png")
    library.register("array", rgba)
    library.register("pil", Pil(rgba, "RGBA", filename="somewhere/cut-out.png"))
    library.register("batch", np.stack([rgba, rgba[::-1]]))
    assert as_file.exemplars == 1 and library.entity("batch").exemplars == 2
    (expected,) = kept(library, "file")
    assert expected.shape == (64, 64, 3)
    for name in ("array", "pil", "batch"):
        np.testing.assert_array_equal(kept(library, name)[0], expected)
    assert library.exemplars("pil")[0].source == "somewhere/cut-out.png"
    library.register("boxed", rgba, box=(20, 10, 84, 74))  # of the array with its margins
    np.testing.assert_array_equal(kept(library, "boxed")[0], expected)


def test_of_a_picture_that_moves_the_first_is_registered_and_it_is_said(library: panorama.Library) -> None:
    Path("a.webp").write_bytes(animated_webp(thing_picture("red")))
    entity = library.register("thing", "a.webp")
    assert entity.warnings == (
        "a.webp is animated: its first frame is the example; to use another, save it as a picture of its own",
    )
    assert "warnings=('a.webp is animated" in repr(entity) and "warnings" not in repr(library.entity("thing"))
    Path("b.webp").write_bytes(animated_webp(thing_picture("blue")))
    (told,) = library.register("thing", (), unlike="b.webp").warnings
    assert told.startswith("b.webp is animated: its first frame is the look-alike; to use another, save it")
    (told,) = library.query("CREATE ENTITY 'in SQL' FROM 'a.webp'").warnings
    assert "a.webp is animated" in told
    write_picture(Path("album/other/not/a.png"), thing_picture("blue"))
    Path("album/other/b.webp").write_bytes(animated_webp(thing_picture("green")))
    (other,) = library.register_album("album")
    assert [line.split(":")[0] for line in other.warnings] == ["album/other/b.webp is animated"]
    still = library.register("still", thing_picture("red"))
    assert still.warnings == ()
    np.testing.assert_array_equal(kept(library, "thing")[0], kept(library, "still")[0])


def test_pictures_in_memory_go_into_verify_and_sql(library: panorama.Library) -> None:
    pil = Pil(thing_picture("red"), "RGB")
    verdict = library.verify(pil, np.dstack([thing_picture("red"), np.full((64, 64), 255, np.uint8)]))
    assert verdict.band == "accepted"
    assert library.query("SELECT verify(?, ?)", [pil, thing_picture("red")]).fetchall()[0][0] is True
    assert len(library.query("SELECT tracks ORDER BY similarity(?) LIMIT 3", [pil])) == 0
    with pytest.raises(
        panorama.PanoramaError, match=r"is a picture of PIL, RGB \(64, 64\); only similarity.* take"
    ):
        library.query("SELECT * FROM tracks WHERE video = ?", [pil])
