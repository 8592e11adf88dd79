"""Photographs come in; the parts of them that show a thing go out, by a box or by what stands out most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from panorama.album.given_pictures import MIN_SIDE, Picture, checked
from panorama.album.given_remarks import Role
from panorama.album.whole_pictures import Corners, Doubt, Told, shortened
from panorama.arguments import Box
from panorama.crops import cut, whole_boxes
from panorama.errors import BadImage
from panorama.models.base import Proposer
from panorama.regions import parse_box

NEXT_REGIONS = 2
"""So many other regions are named beside the one cut out: in whole photographs of things of the judged clips
the first was right in 0.78 of them, and it or one of these in 0.88.
"""


@dataclass(frozen=True, slots=True)
class Cuts:
    """Pictures as they were given, what was cut out of each, and remarks on that."""

    wholes: list[Picture]
    parts: list[Picture]
    told: tuple[Told, ...] = ()


def boxed(pictures: Iterable[Picture], box: Box) -> Cuts:
    """The part inside a box of each picture.

    Raises:
        BadBox: malformed or outside a picture.
    """
    pairs = [(whole.kept(), cut_box(whole, box).kept()) for whole in pictures]
    return Cuts([whole for whole, _ in pairs], [part for _, part in pairs])


def cut_out(pictures: Iterable[Picture], proposer: Proposer, role: Role) -> Cuts:
    """What the proposer is surest of in each picture, and remarks: it may be something else.

    Args:
        pictures: with all their pixels; each is let go of before the one after the next is read.
    """
    wholes: list[Picture] = []
    found: list[Picture] = []
    told: list[Told] = []
    named = "--not IMAGE --box" if role.options else "--box"
    for whole in pictures:
        part, others = find_region(whole, proposer)
        (height, width), (tall, wide) = part.size, whole.size
        likely = f" (next come {' and '.join(others)})" if others else ""
        said = (
            f"found and cut out: {part.source}, {width}x{height} of {wide}x{tall} pixels; if that is"
            f" something else, say where {role.thing} is, {named} x1,y1,x2,y2{likely}, and take this out"
        )
        told.append(Doubt(len(found), said))
        found.append(part.kept())
        wholes.append(whole.kept())
    return Cuts(wholes, found, shortened(told, "and out of {}"))


def cut_box(picture: Picture, box: Box) -> Picture:
    """The part inside the box x1, y1, x2, y2, as text or four numbers, in pixels of the picture.

    Raises:
        BadBox: malformed or outside the picture.
    """
    return _part(picture, corners(picture, box))


def corners(picture: Picture, box: Box) -> Corners:
    """A box in whole pixels of a picture; see `cut_box`."""
    height, width = picture.rgb.shape[:2]
    return parse_box(box_text(box), width, height)


def box_text(box: Box) -> str:
    """A box as a user types it."""
    return box if isinstance(box, str) else ",".join(map(str, box))


def find_region(picture: Picture, proposer: Proposer) -> tuple[Picture, list[str]]:
    """The region that the proposer is surest of, and the boxes x1,y1,x2,y2 of those that come next.

    Raises:
        BadImage: it finds nothing that can be an example.
    """
    regions = proposer.propose([picture.rgb])[0]
    height, width = picture.rgb.shape[:2]
    # Take the surest one: also preferring large ones took the table for the mug on it.
    surest = regions[np.argsort(-regions.scores, kind="stable")]
    boxes = [box for box in whole_boxes(surest.boxes_xyxy, width, height) if _shorter_side(box) >= MIN_SIDE]
    if not boxes:
        raise BadImage(
            f"nothing was found in {picture.source}; give its box x1,y1,x2,y2 or the whole picture"
        )
    best, *others = boxes[: 1 + NEXT_REGIONS]
    return _part(picture, best), [box_text(box) for box in others]


def _part(picture: Picture, box: Corners) -> Picture:
    rgb = np.ascontiguousarray(cut(picture.rgb, np.array(box, np.float32)))
    return checked(Picture(rgb, f"{picture.source} [{box_text(box)}]"))


def _shorter_side(box: Corners) -> int:
    return min(box[2] - box[0], box[3] - box[1])
