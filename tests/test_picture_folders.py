"""What becomes of folders of pictures: each is looked at, whatever the rate."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import Thing, scene, write_film, write_picture
from indexing_samples import index

from panorama.indexing.settings import IngestSettings


def trap(folder: Path, count: int = 12) -> Path:
    """Pictures on each of which something is where it was not on the one before."""
    for number in range(count):
        left = 100 if number % 2 else 10
        write_picture(folder / f"IMG_{number:04d}.png", scene(0, [Thing("red", 0, 1, left=left)]))
    return folder


@pytest.mark.parametrize(
    ("settings", "looks"),
    [
        (IngestSettings(samples_per_second=0.5), 12),
        (IngestSettings(samples_per_second=2), 12),
        (IngestSettings(samples_per_second=30), 12),
        (IngestSettings(keyframes_only=True), 12),
        (IngestSettings(every=4), 3),
    ],
)
def test_every_picture_of_a_folder_is_looked_at_whatever_the_rate(
    settings: IngestSettings, looks: int, tmp_path: Path
) -> None:
    """After `tune`, which mostly lowers the rate, most pictures of a trap were never looked at."""
    (found,) = index(tmp_path / "library", [trap(tmp_path / "trap")], settings=settings)
    assert (found.frames, found.samples) == (12, looks)


def test_a_lower_rate_still_looks_at_fewer_frames_of_a_film(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 20)], frames=20)  # ten frames a second
    (found,) = index(tmp_path / "library", [film], settings=IngestSettings(samples_per_second=2))
    assert (found.frames, found.samples) == (20, 4)
