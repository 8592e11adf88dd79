"""Pictures given as examples or as look-alikes come in; lines for users on what to check in them go out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from panorama.album.given_pictures import Picture
from panorama.lines import counted, one_line, some
from panorama.pictures.several import Several

SMALL_SIDE = 48
"""If the longer side is shorter than this, other things are accepted for it (decision 104)."""

SHOWN_PICTURES = 3
"""A remark on several pictures names at most this many."""


@dataclass(frozen=True, slots=True)
class Role:
    """What pictures are given as, in the words of remarks on them.

    Attributes:
        thing: what they should show.
        name: what one of them is.
        small: what is to be expected of a small one.
        another: how to take another part of one.
        options: of `register`, before those that name a frame or a part.
    """

    thing: str
    name: str
    small: str
    another: str
    options: str


EXAMPLE = Role(
    thing="the entity",
    name="the example",
    small="other things may be accepted for it",
    another="give --box x1,y1,x2,y2",
    options="",
)
LOOK_ALIKE = Role(
    thing="the look-alike",
    name="the look-alike",
    small="it tells little of the look-alike",
    another="give it without examples, --not IMAGE --box x1,y1,x2,y2",
    options="--not ",
)


def first_only(pictures: Iterable[Picture], role: Role) -> tuple[str, ...]:
    """A line for each file that holds several pictures, of which only the first is used."""
    return tuple(_first_of(picture, picture.several, role) for picture in pictures if picture.several)


def _first_of(picture: Picture, several: Several, role: Role) -> str:
    source = one_line(picture.source)
    if several is Several.PAGES:
        told = f"{source} holds several pictures: the first is {role.name}"
    else:
        told = f"{source} is animated: its first frame is {role.name}"
    if several is Several.VIDEO:
        return f"{told}; take another frame with {role.options}--video FILE --at SECONDS --box x1,y1,x2,y2"
    return f"{told}; to use another, save it as a picture of its own"


def margins_cut(pictures: Iterable[Picture], role: Role) -> tuple[str, ...]:
    """A line about pictures whose single-coloured margin was cut off, and how to choose another part."""
    cut = [
        f"{one_line(picture.source)} to {','.join(map(str, picture.inside_xyxy))}"
        for picture in pictures
        if picture.inside_xyxy is not None
    ]
    if not cut:
        return ()
    what = counted(len(cut), "picture has a margin", "pictures have a margin")
    shown = some(cut, SHOWN_PICTURES)
    return (f"{what} of one colour, which was cut off: {shown}; for another part, {role.another}",)


def laid_over(pictures: Iterable[Picture], role: Role) -> tuple[str, ...]:
    """A line about pictures with transparent parts, which are used on several grounds."""
    parts = [one_line(picture.source) for picture in pictures if picture.grounds]
    if not parts:
        return ()
    what = counted(len(parts), "picture is transparent in part", "pictures are transparent in part")
    grounds = f"{role.name} is used on grey, white and black ground where it can be seen, each by itself"
    return (f"{what}: {some(parts, SHOWN_PICTURES)}; {grounds}",)


def small_ones(pictures: Iterable[Picture], role: Role) -> tuple[str, ...]:
    """A line about pictures so small that they do harm, or little good."""
    small = [picture for picture in pictures if max(picture.size) < SMALL_SIDE]
    if not small:
        return ()
    parts = some([f"{one_line(p.source)} ({p.size[1]}x{p.size[0]} pixels)" for p in small], SHOWN_PICTURES)
    larger = f"use a picture in which it is at least {SMALL_SIDE} pixels long"
    return (f"so small that {role.small}: {parts}; {larger}",)
