"""Batches of stored crops come in; their pictures go out, and which are damaged and how to repair them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.crops import decode_picture
from panorama.errors import BadImage, PanoramaError
from panorama.store import CropBatch
from panorama.store.files.lost import damaged_pictures


class CropReader:
    """Decodes stored crops, and remembers those that are damaged."""

    def __init__(self) -> None:
        self._damaged: dict[Path, list[int]] = {}

    def read(self, batch: CropBatch, row: int) -> NDArray[np.uint8] | None:
        """The picture (H, W, 3) of one crop of a batch; None if it is damaged."""
        try:
            return decode_picture(batch.jpegs[row])
        except BadImage:
            self._damaged.setdefault(batch.path, []).append(int(batch.crop_ids[row]))
            return None

    def errors(self) -> list[PanoramaError]:
        """What is damaged so far and what to do: LibraryDamaged for each data file with such crops.

        If the data file was replaced meanwhile, another PanoramaError says to run the same command again.
        """
        return [damaged_pictures(path, crop_ids) for path, crop_ids in self._damaged.items()]


def pictures_of(batch: CropBatch) -> list[NDArray[np.uint8]]:
    """The pictures (H, W, 3) of all crops of a batch.

    Raises:
        LibraryDamaged: one cannot be decoded.
    """
    reader = CropReader()
    pictures = [picture for row in range(len(batch)) if (picture := reader.read(batch, row)) is not None]
    for error in reader.errors():
        raise error
    return pictures
