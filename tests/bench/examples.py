"""How the margins around an example, and its size, change the answers on the judged archive.

    python tests/bench/examples.py FOOTAGE --work WORK

The clips of FOOTAGE are indexed once, into WORK. Each example of the album is registered with margins around
it, both with a `box`, so that nothing is trimmed, and without one, and in smaller sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from measure import machine, say, table
from numpy.typing import NDArray

import panorama
from panorama.album.given_pictures import given_pictures
from panorama.judging.evaluate import EntityScore, Truth, read_truth, score_entities

Picture = NDArray[np.uint8]


def around(share: float, value: int) -> Callable[[Picture], Picture]:
    """Margins of one grey on all sides, together a share of the picture that comes out."""

    def put(rgb: Picture) -> Picture:
        height, width = rgb.shape[:2]
        more = (1 / np.sqrt(1 - share) - 1) / 2
        sides = round(height * more), round(height * more), round(width * more), round(width * more)
        return np.asarray(cv2.copyMakeBorder(rgb, *sides, cv2.BORDER_CONSTANT, value=(value,) * 3))

    return put


def between_bars(rgb: Picture) -> Picture:
    """Black bars that make a picture 16:9, above and below where it is as wide already."""
    height, width = rgb.shape[:2]
    if (beside := (height * 16 // 9 - width) // 2) > 0.025 * width:
        return np.asarray(cv2.copyMakeBorder(rgb, 0, 0, beside, beside, cv2.BORDER_CONSTANT))
    return np.asarray(cv2.copyMakeBorder(rgb, height // 2, height // 2, 0, 0, cv2.BORDER_CONSTANT))


def scaled_to(longest: int) -> Callable[[Picture], Picture]:
    """The picture with that longer side, no side below what can be registered."""

    def scale(rgb: Picture) -> Picture:
        factor = longest / max(rgb.shape[:2])
        height, width = (max(8, round(side * factor)) for side in rgb.shape[:2])
        return np.asarray(cv2.resize(rgb, (width, height), interpolation=cv2.INTER_AREA))

    return scale


MARGINS: dict[str, Callable[[Picture], Picture]] = {
    "none": lambda rgb: rgb,
    "white, 15 %": around(0.15, 255),
    "white, 30 %": around(0.3, 255),
    "white, 50 %": around(0.5, 255),
    "black, 50 %": around(0.5, 0),
    "white, 70 %": around(0.7, 255),
    "bars": between_bars,
}
SIZES = (48, 32, 24, 16)


def scores(
    library: panorama.Library,
    album: Path,
    truths: dict[str, Truth],
    look: Callable[[Picture], Picture],
    cut: bool,
) -> list[EntityScore]:
    """How the entities are found by their examples after a change of these.

    Args:
        cut: whether margins are cut off them, as of whatever is given without a box.
    """
    for entity in truths:
        pictures = [look(picture.rgb) for picture in given_pictures(album / entity)]
        for rgb in pictures:
            box = None if cut else f"0,0,{rgb.shape[1]},{rgb.shape[0]}"
            library.register(entity, rgb, box=box)
    found = score_entities(library, truths)
    for entity in truths:
        library.drop(entity)
    return found


def row(name: str, found: list[EntityScore]) -> list[object]:
    """Means, false frames, and of how many entities nothing is accepted."""

    def mean(values: list[float | None]) -> str:
        return f"{np.mean([value or 0.0 for value in values]):.3f}"

    silent = sum(score.precision is None for score in found)
    return [
        name,
        mean([score.average_precision for score in found]),
        mean([score.f1 for score in found]),
        silent,
        sum(score.false_frames for score in found),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--model", default=None)
    arguments = parser.parse_args()
    album = arguments.footage / "eval" / "album"
    truths = read_truth(arguments.footage / "eval" / "truth.json")
    with panorama.open(arguments.work / "examples", create=True) as library:
        library.index(sorted((arguments.footage / "video").glob("*.mp4")), model=arguments.model)
        rows = []
        for name, look in MARGINS.items():
            for cut in (False, True):
                say(f"margin {name}, {'cut off' if cut else 'as it is'}")
                how = f"{name}: {'as given' if cut else 'as it is'}"
                rows.append(row(how, scores(library, album, truths, look, cut)))
        for longest in SIZES:
            say(f"{longest} pixels")
            rows.append(row(f"{longest} pixels", scores(library, album, truths, scaled_to(longest), True)))
    print(machine())
    head = ["margin or longer side", "AP", "F1", "silent", "false frames"]
    table(f"{len(truths)} entities, by examples with margins and by small ones", head, rows)


if __name__ == "__main__":
    main()
