"""Any text enters, such as the name of a file; text that can be printed within one line leaves."""

from __future__ import annotations

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def one_line(text: str) -> str:
    """The text with escapes in the place of what moves a terminal's cursor, or cannot be printed at all.

    A file name may hold line ends, the codes that colour or clear a terminal, and bytes that are no text.
    """
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
