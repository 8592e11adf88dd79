"""Pictures are written whole or not at all, also where the disk is full."""

from __future__ import annotations

import numpy as np
import pytest

from panorama.errors import LibraryWriteError
from panorama.sheet import write_picture

resource = pytest.importorskip("resource", reason="limits of a process are those of Unix")


def test_a_picture_that_cannot_be_finished_leaves_the_one_before(tmp_path):
    """`why --out` on a full disk left the first 16 kB of a picture under its name."""
    before = np.zeros((8, 8, 3), np.uint8)
    write_picture(before, tmp_path / "why.png")
    kept = (tmp_path / "why.png").read_bytes()
    noise = np.random.default_rng(0).integers(0, 255, (100, 100, 3), dtype=np.uint8)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(LibraryWriteError, match=r"why.png cannot be written"):
            write_picture(noise, tmp_path / "why.png")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "why.png").read_bytes() == kept
    assert [path.name for path in tmp_path.iterdir()] == ["why.png"]
