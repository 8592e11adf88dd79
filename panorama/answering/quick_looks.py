"""Settings that look at keyframes only come in and are recorded; the videos indexed with them go out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from panorama.store import Snapshot, Store

SETTING = "quick-looks"
"""The setting with the hashes of such settings. A segment has only the hash, which does not reveal this."""


def note_quick_look(store: Store, settings_hash: str) -> None:
    """Record that segments with these settings were indexed by keyframes only."""
    store.change_settings(
        lambda kept: {SETTING: list(dict.fromkeys([*kept.get(SETTING, ()), settings_hash]))}
    )


def quick_looks(store: Store) -> frozenset[str]:
    """The hashes of all such settings used so far."""
    return frozenset(store.setting(SETTING, []))


def quick_segments(snapshot: Snapshot) -> NDArray[np.int32]:
    """(Q,) live segments that were indexed by keyframes only."""
    quick = frozenset(snapshot.settings.get(SETTING, ()))
    looks = zip(snapshot.live_segments.tolist(), snapshot.looks, strict=True) if quick else ()
    return np.array([segment for segment, look in looks if look in quick], np.int32)
