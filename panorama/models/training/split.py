"""Class and clip names come in; whether training may see them goes out, by one fixed rule without a list."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from panorama.errors import UsageError

HELD_OUT_SHARE = 0.3
SALT = 0

LEARN, JUDGE, CHOOSE = "0", "1", "2"
"""Values of the column `held` in a labelled CSV: training learns from the first only."""


GUESSED = "guessed"
"""Another column: 1 if what the picture shows was guessed from looks, so that it is judged by its track."""


def held_out(source: str, label: str, share: float = HELD_OUT_SHARE) -> bool:
    """Whether a class is kept from training, decided by a hash of its source and family.

    Classes that share their first word are decided together ('Faces' and 'Faces_easy', 'cougar_body' and
    'cougar_face'): seeing one would give the other away.
    """
    digest = hashlib.sha256(f"{SALT}/{source}/{family(label)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def family(label: str) -> str:
    """The part of a class name that decides whether it is held out: its first word, in lower case."""
    return label.split("_")[0].lower()


def row_held_out(row: Mapping[str, str]) -> bool:
    """Whether a row of a labelled CSV is kept from training, by its column `held`, else by `held_out`."""
    if row.get("held"):
        return row["held"] != LEARN
    return held_out(row["source"], row["class"])


def check_clips(clips: Iterable[str], judged: Iterable[str]) -> None:
    """Refuse clips that are kept for judging.

    Raises:
        UsageError: a clip is in both lists.
    """
    shared = sorted(set(clips) & set(judged))
    if shared:
        raise UsageError(f"training may not see {', '.join(shared)}: the recipe keeps these for judging")
