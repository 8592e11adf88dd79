"""Names of files and numbers of things enter; text for one line of a report leaves."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Sequence

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_SPECIAL = re.compile(r"[\"$`\\!]")
"""What a shell reads within double quotes, too; `!` recalls earlier commands where a person types."""


def one_line(text: str) -> str:
    """The text with escapes in the place of what moves a terminal's cursor, or cannot be printed at all.

    A file name may hold line ends, the codes that colour or clear a terminal, and bytes that are no text.
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def shell_word(word: str) -> str:
    """A word as a shell takes it, quoted where it must be: zsh also expands one that begins with `=`."""
    if "'" in word and not _SPECIAL.search(word):
        return f'"{word}"'  # SQL stays readable; `shlex` would write '"'"' for each quote in it
    return f"'{word}'" if (quoted := shlex.quote(word)).startswith("=") else quoted


def shell_line(words: Sequence[str]) -> str:
    """Words as one command, each quoted where it must be."""
    return " ".join(map(shell_word, words))


SHOWN = 5
"""Of more names the first are told."""


def some(names: Sequence[str], shown: int = SHOWN) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def composed(text: str) -> str:
    """The text with every letter and its accents as one character (Unicode NFC), as keyboards type them.

    A Mac writes them apart into names of files: what looks the same would not be the same name.
    """
    return unicodedata.normalize("NFC", text)


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sorts frame2 before frame10."""
    parts = re.split(r"(\d+)", name)
    return [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts if p]


def cells(text: str) -> int:
    """How many cells of a terminal a text takes: two a character of Chinese, none an accent on its own."""
    if text.isascii():
        return len(text)
    shown = (char for char in text if not unicodedata.combining(char))
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in shown)


def padded(text: str, width: int, right: bool = False) -> str:
    """The text with blanks to so many cells, behind it or before it."""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks


def clock(seconds: float) -> str:
    """Seconds as m:ss.t, or h:mm:ss for an hour and more."""
    # Rounded before it is parted, or 59.96 were 0:60.0.
    minutes, rest = divmod(round(max(seconds, 0.0), 1), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}:{minutes:02d}:{int(rest):02d}" if hours else f"{minutes}:{rest:04.1f}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number and what it counts.

    Args:
        one: of a single thing, `clip`, or with its verb, `video has`.
        many: of several, where it is not `one` with an s, or -ies for -y.
    """
    if number == 1:
        return f"{number} {one}"
    return f"{number} {many or (f'{one[:-1]}ies' if one.endswith('y') else f'{one}s')}"
