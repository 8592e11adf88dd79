"""A directory comes in; a `LibraryContents` goes out that reports what the library stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.album.stored_pictures import pictures_of
from panorama.api.held_open import HeldOpen
from panorama.arguments import Ids, checked
from panorama.errors import UsageError
from panorama.store import Change, LibraryInfo, Overlapping, Snapshot
from panorama.values import is_json, told


@checked
class LibraryContents(HeldOpen):
    """The part of `panorama.Library` that needs no model: videos, stored crops, settings."""

    def snapshot(self) -> Snapshot:
        """A consistent view of what the library holds now."""
        return self._store.snapshot()

    def compact(self) -> int:
        """Merge many small data files into few large ones, and erase what was forgotten.

        Returns:
            How many files were replaced.

        Raises:
            LibraryWriteError: the library cannot be written. Also if the merge succeeded but forgotten bytes
                cannot be erased yet.
        """
        merged = self._store.compact()
        self._store.erase_forgotten()
        return merged

    def info(self) -> LibraryInfo:
        """Counts of rows, bytes by kind, and models."""
        return self._store.info()

    def videos(self) -> pa.Table:
        """The videos as a table: one row each, ordered by name."""
        return self.snapshot().videos

    def listed(self) -> pa.Table:
        """The columns video, uri and camera of `videos`. Works even if stored recording times are damaged."""
        return self._store.listed()

    def setting(self, key: str) -> Any:
        """A JSON value kept in the library; None if there is none under this key."""
        return self._store.setting(key)

    def put_setting(self, key: str, value: Any) -> None:
        """Keep a JSON value in the library, for example a calibration; None removes the key."""
        self._store.put_setting(key, value)

    def change_settings(self, change: Change) -> None:
        """Change kept JSON values in one step.

        Args:
            change: takes all kept values by key and returns the values to keep; None removes a key.

        Raises:
            UsageError: it returns something else, or what JSON cannot hold.
        """

        def checked_change(kept: Mapping[str, Any]) -> Mapping[str, Any]:
            values = change(kept)
            if not isinstance(values, Mapping) or not is_json(values):
                raise UsageError(
                    f"change returns the values to keep by key, as JSON can hold them, got {told(values)};"
                    " return {} to change nothing"
                )
            return values

        self._store.change_settings(checked_change)

    def being_forgotten(self, name: str) -> NDArray[np.int64]:
        """(T,) int64 ids of tracks that an interrupted `forget` with sightings has still to erase."""
        return self._store.being_forgotten(name).track_ids

    def crops_being_forgotten(self, name: str) -> NDArray[np.int64]:
        """(C,) int64 ids of crops of other tracks that such a `forget` has still to erase."""
        return self._store.being_forgotten(name).crop_ids

    def overlapping(self, track_ids: Ids, alike: Ids = ()) -> Overlapping:
        """The crops of other tracks that show the same place at the same time as some tracks.

        Args:
            alike: tracks that may follow the same thing; if one crop of these shows it, all of them do.
        """
        return self._store.overlapping(*(np.array(list(ids), np.int64) for ids in (track_ids, alike)))

    def check_writable(self) -> None:
        """Raise LibraryWriteError if the library is read-only; call it before long work."""
        self._store.check_writable()

    def crop(self, crop_id: int) -> NDArray[np.uint8]:
        """A stored crop as an RGB array (H, W, 3), uint8.

        Raises:
            UsageError: there is no crop with this id.
            LibraryDamaged: its picture cannot be decoded.
        """
        for batch in self._store.read_crops(crop_ids=np.array([crop_id], np.int64)):
            return pictures_of(batch)[0]
        raise UsageError(f"no crop {crop_id}; see SELECT crop_id FROM crops")

    def stored_crops(self, crop_ids: Ids) -> dict[int, bytes]:
        """Stored crops as JPEG files, by id; unknown ids are left out."""
        ids = np.array(list(crop_ids), np.int64)
        batches = self._store.read_crops(crop_ids=ids) if len(ids) else ()
        return {
            int(c): jpeg for batch in batches for c, jpeg in zip(batch.crop_ids, batch.jpegs, strict=True)
        }
