"""Names of files and numbers of things enter; text for one line of a report leaves."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def one_line(text: str) -> str:
    """The text with escapes in the place of what moves a terminal's cursor, or cannot be printed at all.

    A file name may hold line ends, the codes that colour or clear a terminal, and bytes that are no text.
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number and what it counts.

    Args:
        one: of a single thing, `clip`, or with its verb, `video has`.
        many: of several, where it is not `one` with an s, or -ies for -y.
    """
    if number == 1:
        return f"{number} {one}"
    return f"{number} {many or (f'{one[:-1]}ies' if one.endswith('y') else f'{one}s')}"
