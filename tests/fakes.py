"""A proposer whose answers a person can compute, small films of coloured things, the command line on both."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

import panorama
from panorama.models.base import Image, Proposer
from panorama.regions import Regions

TESTS = Path(__file__).parent
RATE = 10
SIZE = (160, 120)
GREY = (110, 110, 110)
COLORS = {
    "red": (210, 30, 30),
    "green": (30, 170, 60),
    "blue": (40, 60, 210),
    "yellow": (225, 205, 40),
    "purple": (150, 40, 170),
}


class ColoredThings(Proposer):
    """Boxes around connected patches that are not grey, largest first."""

    name = "colored-things"
    hash = "colored-things-1"

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        return [self._one(image) for image in images]

    def _one(self, image: Image) -> Regions:
        spread = image.max(axis=2).astype(np.int16) - image.min(axis=2)
        _, _, stats, _ = cv2.connectedComponentsWithStats((spread > 60).astype(np.uint8), connectivity=8)
        found = sorted((s for s in stats[1:] if s[4] >= 100), key=lambda s: -s[4])
        boxes = np.array([[x, y, x + w, y + h] for x, y, w, h, _ in found], np.float32).reshape(-1, 4)
        return Regions(boxes, np.full(len(boxes), 0.9, np.float32), np.zeros(len(boxes), np.uint8))


@contextmanager
def coloured_things() -> Iterator[None]:
    """Libraries of this process find coloured things while they index; for fixtures of a module."""
    from panorama.library import Library

    real = Library.proposer
    Library.proposer = property(lambda self: ColoredThings())  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        Library.proposer = real  # type: ignore[method-assign]


@dataclass(frozen=True)
class Thing:
    """A square of one colour with a lighter upper half, in view from `start` to `stop` (frames, half-open).

    It moves right by one pixel a frame, from x = `left` at its first frame.
    """

    color: str
    start: int
    stop: int
    left: int = 10
    top: int = 40
    side: int = 32

    def box(self, frame: int) -> tuple[int, int, int, int]:
        x = self.left + frame - self.start
        return (x, self.top, x + self.side, self.top + self.side)


def thing_picture(color: str, side: int = 64) -> NDArray[np.uint8]:
    """(side, side, 3) RGB: what a thing of that colour looks like, as an example to register."""
    picture = np.empty((side, side, 3), np.uint8)
    picture[:] = COLORS[color]
    picture[: side // 2] = np.minimum(picture[: side // 2].astype(np.int16) + 40, 255)
    return picture


def write_picture(path: Path, rgb: NDArray[np.uint8]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), cv2.cvtColor(rgb, cv2.COLOR_RGB2BGR))
    return path


def scene(frame: int, things: Sequence[Thing], cuts: Sequence[int] = ()) -> NDArray[np.uint8]:
    """One frame: the things that are in view on a grey ground, which has other bars behind each cut."""
    picture = np.empty((SIZE[1], SIZE[0], 3), np.uint8)
    picture[:] = GREY
    shot = sum(frame >= cut for cut in cuts)
    if shot:
        across = np.arange(SIZE[shot % 2]) // 16 % 2 == 0
        picture[across if shot % 2 else (slice(None), across)] = 20
    for thing in things:
        if thing.start <= frame < thing.stop:
            x1, y1, x2, y2 = thing.box(frame)
            picture[y1:y2, x1:x2] = thing_picture(thing.color, thing.side)
    return picture


def write_film(
    path: Path,
    things: Sequence[Thing],
    frames: int = 40,
    *,
    pixel_aspect: Fraction = Fraction(1),
    cuts: Sequence[int] = (),
    gop: int = 10,
) -> Path:
    """A film at ten frames a second; it looks the same whatever the shape of its stored pixels.

    Args:
        cuts: the frames that begin another shot.
        gop: frames from one keyframe to the next.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=RATE, options={"crf": "12", "preset": "ultrafast"})
        stream.width = round(SIZE[0] / max(pixel_aspect, 1))
        stream.height = round(SIZE[1] * min(pixel_aspect, 1))
        stream.codec_context.sample_aspect_ratio = pixel_aspect
        stream.pix_fmt = "yuv420p"
        stream.codec_context.gop_size = gop
        stream.codec_context.time_base = Fraction(1, RATE)
        for number in range(frames):
            picture = av.VideoFrame.from_ndarray(scene(number, things, cuts))
            picture = picture.reformat(width=stream.width, height=stream.height)
            picture.pts, picture.time_base = number, Fraction(1, RATE)
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def write_album(folder: Path, *colors: str) -> Path:
    """One subfolder with one picture for each colour."""
    for color in colors:
        write_picture(folder / color / "one.png", thing_picture(color))
    return folder


def start_panorama(*arguments: object, cwd: Path, **options: object) -> subprocess.Popen[str]:
    """The command line in a process of its own, with the fake proposer."""
    return subprocess.Popen(
        [sys.executable, str(TESTS / "fakes.py"), *map(str, arguments)],
        cwd=cwd,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


def run_panorama() -> None:
    """What `start_panorama` runs; with --as-nobody first, by a user who owns nothing."""
    from panorama.__main__ import main
    from panorama.cli import album, asking, indexing, why  # noqa: F401  what nobody could not read later
    from panorama.library import Library

    Library.proposer = property(lambda self: ColoredThings())  # type: ignore[method-assign, assignment]
    if sys.argv[1:2] == ["--as-nobody"]:
        sys.argv.pop(1)
        # All that a command imports late, before the right to read it is gone.
        import encodings.cp437  # noqa: F401  names in zip files, which numpy writes
        import mmap  # noqa: F401

        import scipy.optimize  # noqa: F401

        import panorama.album.vocabulary
        import panorama.cameras.listed_videos
        import panorama.indexing.run
        import panorama.shown.hit_clips
        import panorama.shown.sheet
        import panorama.shown.why  # noqa: F401
        from panorama.store.vectors import inverted  # noqa: F401

        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    main()


if __name__ == "__main__":
    run_panorama()


SHAPE_COLOURS = ((220, 40, 40), (40, 200, 60), (50, 80, 230), (240, 210, 30))


def shapes_on_noise(seed: int, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Four coloured shapes, one a quarter of the picture, on grey noise, and their boxes."""
    rng = np.random.default_rng(seed)
    image = rng.normal(120, 12, (height, width, 3))
    boxes = []
    for quarter, colour in enumerate(SHAPE_COLOURS):
        w, h = (int(n) for n in rng.integers(height // 6, height // 3, 2))
        x = int(rng.integers(8, width // 2 - w - 8)) + (quarter % 2) * width // 2
        y = int(rng.integers(8, height // 2 - h - 8)) + (quarter // 2) * height // 2
        rows, columns = np.mgrid[0:h, 0:w]
        round_one = ((columns - w / 2) / (w / 2)) ** 2 + ((rows - h / 2) / (h / 2)) ** 2 <= 1
        mask = round_one if quarter % 2 else np.ones((h, w), bool)
        image[y : y + h, x : x + w][mask] = colour
        boxes.append([x, y, x + w, y + h])
    return np.clip(image, 0, 255).astype(np.uint8), np.array(boxes, np.float32)


def street(number: int) -> NDArray[np.uint8]:
    """(90, 160) brightness of what a camera sees: each number is another place."""
    coarse = np.random.default_rng(number).integers(20, 235, (9, 16))
    return np.kron(coarse, np.ones((10, 10), int)).astype(np.uint8)


def write_street(path: Path, frames: Sequence[NDArray[np.uint8]], rate: int = 10) -> Path:
    """Grey pictures (H, W) as a video; its folder is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=rate, options={"crf": "12", "preset": "ultrafast"})
        stream.height, stream.width = frames[0].shape
        stream.pix_fmt = "yuv420p"
        for frame in frames:
            grey = np.repeat(frame[:, :, None], 3, axis=2)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(grey)))
        container.mux(stream.encode(None))
    return path


@contextmanager
def library_of_red(folder: Path) -> Iterator[panorama.Library]:
    """A library, open, of one film in a folder in which a red thing is seen, registered as 'red'."""
    write_film(folder / "a.mp4", [Thing("red", 0, 30)])
    with panorama.open(folder / "library") as made:
        made.index([folder / "a.mp4"], model="color-bands")
        made.register("red", thing_picture("red"))
        yield made
