"""A text and a place in a picture enter; the text drawn there leaves, letters without a font as code points.

OpenCV's font has Latin, Greek, Cyrillic and what is written in China, Japan and Korea. For other letters it
draws question marks, and what is read from the right it draws from the left, letter by letter.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.lines import composed, counted, one_line

_FONT = cv2.FONT_HERSHEY_SIMPLEX
_FROM_THE_RIGHT = frozenset(("R", "AL", "AN", "RLE", "RLO", "RLI"))
_PROBE_ROWS, _PROBE_COLUMNS = 60, 160


def draw_text(
    picture: NDArray[np.uint8],
    text: str,
    at_xy: tuple[int, int],
    size: float,
    ink: Sequence[int],
    weight: int = 1,
) -> None:
    """Draw a text into a picture (H, W, 3), see `drawable`.

    Args:
        at_xy: where its first letter stands on the line, in pixels.
        size: of the letters, as `cv2.putText` has it.
        weight: of their strokes, in pixels.
    """
    cv2.putText(picture, drawable(text), at_xy, _FONT, size, tuple(ink), weight, cv2.LINE_AA)


def text_width(text: str, size: float, weight: int = 1) -> int:
    """How many pixels wide a text is drawn."""
    return int(cv2.getTextSize(drawable(text), _FONT, size, weight)[0][0])


def ends(texts: Sequence[str], room: int, size: float, weight: int = 1) -> str:
    """Texts within `room` pixels, joined by ' - '; if they are too long, the longest lose their beginnings.

    The end of a path says most, and files of one folder mostly differ there.
    """
    for kept in range(max(map(len, texts), default=0), 0, -1):
        cut = (text if len(text) <= kept else f"...{text[-kept:]}" for text in texts)
        joined = " - ".join(cut)
        if text_width(joined, size, weight) <= room:
            return joined
    return ""


def drawable(text: str) -> str:
    """The text in letters that can be drawn: for others stand their code points, <5e9 e2 e8> for a word.

    Of one that begins as the one before it the last two digits stand: a caption has room for the letters of a
    short name then, and names that begin and end alike must not be cut to the same.
    """
    text = one_line(text)
    if text.isascii():
        return text
    parts = groupby(composed(text), key=_can_be_drawn)
    return "".join("".join(letters) if can else _code_points(letters) for can, letters in parts)


def _code_points(letters: Iterable[str]) -> str:
    told, before = [], ""
    for letter in letters:
        point = f"{ord(letter):03x}"
        told.append(point[-2:] if point[:-2] == before else point)
        before = point[:-2]
    return f"<{' '.join(told)}>"


def lettering_remarks(names: Iterable[str]) -> tuple[str, ...]:
    """A remark for people on those of the names in a picture that are drawn by code points, if any are."""
    lacking = [name for name in dict.fromkeys(names) if not all(map(_can_be_drawn, composed(one_line(name))))]
    if not lacking:
        return ()
    told = counted(len(lacking), "name has", "names have")
    first = one_line(lacking[0])
    return (
        f"{told} letters that cannot be drawn; pictures show their code points: {first} as {drawable(first)}",
    )


@lru_cache(maxsize=1 << 14)
def _can_be_drawn(letter: str) -> bool:
    if letter.isascii():
        return True
    # What changes the direction or is seen by nobody makes two names look like one.
    if unicodedata.bidirectional(letter) in _FROM_THE_RIGHT or unicodedata.category(letter) == "Cf":
        return False
    drawn = _probe(letter)
    # OpenCV 5 draws one question mark for a letter that it lacks, OpenCV 4 one for each of its bytes.
    return not any((drawn == _probe("?" * number)).all() for number in {1, len(letter.encode())})


def _probe(text: str) -> NDArray[np.uint8]:
    picture = np.zeros((_PROBE_ROWS, _PROBE_COLUMNS), np.uint8)
    cv2.putText(picture, text, (10, _PROBE_ROWS // 2), _FONT, 1.0, (255,), 1, cv2.LINE_AA)
    return picture
