"""A directory enters; a `LibraryContents` leaves that tells what a library holds, as it is stored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.api.held_open import HeldOpen
from panorama.arguments import Ids, checked
from panorama.crops import decode_picture
from panorama.errors import UsageError
from panorama.store import Change, LibraryInfo, Snapshot


@checked
class LibraryContents(HeldOpen):
    """What needs no model: videos, stored pictures, settings; `panorama.Library` is one."""

    def snapshot(self) -> Snapshot:
        """One consistent view of what the library holds now."""
        return self._store.snapshot()

    def compact(self) -> int:
        """Merge many small data files into few large ones; how many were replaced.

        Raises:
            LibraryWriteError: also where the files are merged, but what was forgotten cannot be erased yet.
        """
        merged = self._store.compact()
        self._store.erase_forgotten()
        return merged

    def info(self) -> LibraryInfo:
        """Counts, bytes by kind, models."""
        return self._store.info()

    def videos(self) -> pa.Table:
        """The videos, one row each, in order of name."""
        return self.snapshot().videos

    def listed(self) -> pa.Table:
        """The columns video, uri and camera of the same, also where when one was recorded is damaged."""
        return self._store.listed()

    def setting(self, key: str) -> Any:
        """A JSON value that is kept in the library, None where there is none."""
        return self._store.setting(key)

    def put_setting(self, key: str, value: Any) -> None:
        """Keep a JSON value in the library, a calibration for example; None removes it."""
        self._store.put_setting(key, value)

    def change_settings(self, change: Change) -> None:
        """Keep, at once, the JSON values by key that a function makes of all that are kept; None removes."""
        self._store.change_settings(change)

    def check_writable(self) -> None:
        """LibraryWriteError where the library can only be read; told before long work, not after it."""
        self._store.check_writable()

    def crop(self, crop_id: int) -> NDArray[np.uint8]:
        """A stored crop as an RGB picture (H, W, 3); UsageError where there is none of that id."""
        for jpeg in self.stored_crops([crop_id]).values():
            return decode_picture(jpeg)
        raise UsageError(f"no crop {crop_id}; see SELECT crop_id FROM crops")

    def stored_crops(self, crop_ids: Ids) -> dict[int, bytes]:
        """Stored crops as JPEG files, by id; ids that are not there are left out."""
        ids = np.array(list(crop_ids), np.int64)
        batches = self._store.read_crops(crop_ids=ids) if len(ids) else ()
        return {
            int(c): jpeg for batch in batches for c, jpeg in zip(batch.crop_ids, batch.jpegs, strict=True)
        }
