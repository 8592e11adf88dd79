"""Pictures given as examples come in; remarks on those that show far more than a thing go out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from panorama.album.given_pictures import Picture
from panorama.commands import command_of
from panorama.crops import encode_jpeg
from panorama.errors import ModelError
from panorama.lines import counted, one_line
from panorama.models.base import Proposer
from panorama.regions import Regions
from panorama.store import Exemplar

Corners = tuple[int, int, int, int]
"""A box x1, y1, x2, y2 in pixels."""

SHOWN = 5
"""For at most this many pictures, a line says what is doubtful about them."""

PHOTOGRAPH = 400
"""The proposer looks at pictures whose longer side has at least so many pixels: smaller ones are hardly
photographs, and most were cut out already. It need not be loaded for them.
"""

SMALL_PART = 0.4
LARGE_PART = 0.5
NEARLY_AS_SURE = 0.4
"""A picture shows far more than a thing if its surest region is less than the first share of it, and no
region of at least the second has this share of the surest one's score. That is told of two thirds to nine
tenths of whole photographs and of 2 or 3 in 100 that were cut to the thing.
"""


@dataclass(frozen=True, slots=True)
class Doubt:
    """What a user should look at in one example.

    Attributes:
        example: its index among the pictures given.
        said: what may be wrong, and what to do then besides taking it out.
    """

    example: int
    said: str


Told = str | Doubt


def whole_pictures(
    pictures: Iterable[Picture], finder: Callable[[], Proposer]
) -> tuple[list[Picture], tuple[Told, ...]]:
    """Examples as they are kept, and remarks on those that show far more than a thing.

    What surrounds the thing there is looked for, too.

    Args:
        pictures: with all their pixels; each is let go of before the one after the next is read.
        finder: returns the proposer; called only if a picture is as large as a photograph.
    """
    kept: list[Picture] = []
    told: list[Told] = []
    unlooked = ""
    for i, picture in enumerate(pictures):
        if _is_photograph(picture) and not unlooked:
            try:
                part = main_part(finder().propose([picture.rgb])[0], picture.size)
            except ModelError as exc:  # nobody asked for it: registering does without
                part, unlooked = None, str(exc)
            if part is not None:
                told.append(Doubt(i, _said(picture, *part)))
        kept.append(picture.kept())
    if unlooked:
        told.append(f"whether the examples show more than the entity was not looked at: {unlooked}")
    return kept, shortened(told, "and {} like that")


def shortened(told: Sequence[Told], rest: str) -> tuple[Told, ...]:
    """The first remarks; if there are more, `rest` tells of how many pictures these are."""
    more = len(told) - SHOWN
    return (*told[:SHOWN], rest.format(counted(more, "more picture"))) if more > 0 else tuple(told)


def main_part(regions: Regions, size: tuple[int, int]) -> tuple[Corners, float] | None:
    """The box of what stands out in a picture, and its share of the picture; None if it fills it.

    Args:
        size: height and width of the picture.
    """
    if not len(regions):
        return None
    sides = regions.boxes_xyxy[:, 2:] - regions.boxes_xyxy[:, :2]  # (N, 2)
    shares = sides.prod(axis=1) / (size[0] * size[1])
    best = int(np.argmax(regions.scores))
    sure = regions.scores >= NEARLY_AS_SURE * regions.scores[best]
    if shares[best] >= SMALL_PART or (sure & (shares >= LARGE_PART)).any():
        return None
    return whole_pixels(regions.boxes_xyxy[best]), float(shares[best])


def whole_pixels(box_xyxy: NDArray[np.float32]) -> Corners:
    """A box (4,) in whole pixels."""
    x1, y1, x2, y2 = (round(float(corner)) for corner in box_xyxy)
    return x1, y1, x2, y2


def _is_photograph(picture: Picture) -> bool:
    return max(picture.size) >= PHOTOGRAPH


def _pixels(picture: Picture) -> int:
    height, width = picture.size
    return height * width


def _said(picture: Picture, box: Corners, share: float) -> str:
    left, top = picture.left_top  # boxes are in pixels of the file
    at = ",".join(str(corner + by) for corner, by in zip(box, (left, top, left, top), strict=True))
    return (
        f"{one_line(picture.source)} seems to show far more than the entity: what stands out in it, at"
        f" {at}, fills {share:.0%} of it. All that an example shows is looked for; if the entity is a part of"
        " it, register that part, with --find or --box x1,y1,x2,y2, and take the whole picture out"
    )


def numbered(told: Sequence[Told], entity: str, numbers: Sequence[int]) -> tuple[str, ...]:
    """Remarks as lines, now that the examples are registered and can be taken out by their numbers.

    Args:
        numbers: of the examples given, in their order.
    """
    return tuple(
        f"{line.said}: {_out(entity, [numbers[line.example]])}" if isinstance(line, Doubt) else line
        for line in told
    )


def far_larger(pictures: Sequence[Picture], parts: Sequence[Picture]) -> list[Picture]:
    """Those pictures as large as photographs of which what was cut out is a small part.

    They go out as they would be registered whole: without margins.
    """
    registered = [picture.trimmed or picture for picture in pictures]
    return [
        whole
        for whole, part in zip(registered, parts, strict=True)
        if _is_photograph(whole) and _pixels(part) < SMALL_PART * _pixels(whole)
    ]


def still_whole(wholes: Sequence[Picture], entity: str, known: Sequence[Exemplar]) -> tuple[str, ...]:
    """A remark if pictures of which examples are a small part are examples as well.

    Args:
        known: all pictures of the entity.
    """
    left = _registered(wholes, known)
    if not left:
        return ()
    pictures = counted(len(left), "picture")
    return (
        f"the whole of {pictures} is an example as well, so that what surrounds the entity there is looked"
        f" for, too; to take it out: {_out(entity, left)}",
    )


def _registered(wholes: Sequence[Picture], known: Sequence[Exemplar]) -> list[int]:
    """Numbers of the examples that are one of the pictures. Names do not tell: two arrays may share one."""
    sizes = {whole.size for whole in wholes}
    alike = {}
    for example in known:
        if not example.negative and (example.height, example.width) in sizes:
            with contextlib.suppress(OSError):  # lost, or taken out meanwhile
                alike[example.exemplar_id] = example.picture.read_bytes()
    jpegs = {encode_jpeg(whole.rgb) for whole in wholes} if alike else set()
    return [number for number, picture in alike.items() if picture in jpegs]


def _out(entity: str, numbers: Sequence[int]) -> str:
    return command_of("exemplars", entity, " ".join(f"--remove {number}" for number in numbers))
