"""Settings that look at keyframes alone enter and are noted with a library; which videos have them leaves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.store import Snapshot, Store

SETTING = "quick-looks"
"""Where a library keeps the hashes of such settings. A segment has the hash alone, which tells nothing."""


def note_quick_look(store: Store, settings_hash: str) -> None:
    """Keep that segments of these settings are coarse."""
    store.change_settings(
        lambda kept: {SETTING: list(dict.fromkeys([*kept.get(SETTING, ()), settings_hash]))}
    )


def quick_looks(store: Store) -> frozenset[str]:
    """The hashes of all such settings that were in use."""
    return frozenset(store.setting(SETTING, []))


def quick_segments(snapshot: Snapshot) -> NDArray[np.int32]:
    """(Q,) live segments of which keyframes alone were looked at."""
    quick = frozenset(snapshot.settings.get(SETTING, ()))
    looks = zip(snapshot.live_segments.tolist(), snapshot.looks, strict=True) if quick else ()
    return np.array([segment for segment, look in looks if look in quick], np.int32)
