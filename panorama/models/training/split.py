"""Class and clip names enter; whether training may see them leaves: one fixed rule, no list to keep."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from panorama.errors import UsageError

HELD_OUT_SHARE = 0.3
SALT = 0

LEARN, JUDGE, CHOOSE = "0", "1", "2"
"""What the column `held` of a labelled CSV may say of a picture: only the first is learned from."""


GUESSED = "guessed"
"""A column of it: 1 where what a picture shows was guessed from looks, so that it judges by its track."""


def held_out(source: str, label: str, share: float = HELD_OUT_SHARE) -> bool:
    """Whether a class is kept from training, by a hash of its source and name.

    Classes that share their first word stand and fall together ('Faces' and 'Faces_easy', 'cougar_body' and
    'cougar_face'): seeing one would give the other away.
    """
    digest = hashlib.sha256(f"{SALT}/{source}/{family(label)}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


def family(label: str) -> str:
    """What classes that are held out together share."""
    return label.split("_")[0].lower()


def row_held_out(row: Mapping[str, str]) -> bool:
    """Whether a row of a labelled CSV is kept from training: its column `held` says so, else `held_out`."""
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
