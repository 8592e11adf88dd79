"""Short films, and a library that is indexed from them with models whose answers can be computed by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import ColoredThings, Thing, write_film
from store_samples import data_contents

from panorama.indexing import stages
from panorama.indexing.outcomes import FileOutcome
from panorama.indexing.pipeline import Stage
from panorama.indexing.run import index_paths
from panorama.indexing.settings import IngestSettings
from panorama.indexing.stages import Indexer
from panorama.models.base import Image
from panorama.models.color import ColorEmbedder
from panorama.regions import Regions
from panorama.store import Store
from panorama.video import find_videos

SETTINGS = IngestSettings(samples_per_second=10)


class Counting(ColoredThings):
    """Notes how many pictures come at once, and fails on a yellow one where asked to."""

    def __init__(self, fails: type[Exception] | None = None) -> None:
        self.batches: list[int] = []
        self._fails = fails

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        self.batches.append(len(images))
        for image in images:
            yellow = (image[..., 0] > 180) & (image[..., 1] > 160) & (image[..., 2] < 100)
            if self._fails and yellow.any():
                raise self._fails("shapes differ")
        return super().propose(images)


def films(folder: Path, count: int = 5) -> Path:
    """Short films with a different number of things and frames each."""
    colors = ("red", "green", "blue", "yellow", "purple")
    for number in range(count):
        things = [Thing(colors[(number + i) % 5], 3 * i, 25, left=5 + 40 * i) for i in range(1 + number % 3)]
        write_film(folder / f"{number}.mp4", things, frames=20 + 7 * number)
    return folder


@contextmanager
def one_thread() -> Iterator[None]:
    """Within it, all stages of indexing share one thread: each item passes them one after the other."""

    def joined(*given: Any, joins: bool = False) -> Stage:
        return Stage(*given, joins=True)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stages, "Stage", joined)
        yield


def files_of(library: Path) -> dict[str, str]:
    """Name and digest of every data file."""
    return {name: hashlib.sha256(held).hexdigest() for name, held in data_contents(library).items()}


def index(library: Path, paths: Sequence[Path], **options: object) -> tuple[FileOutcome, ...]:
    proposer = options.pop("proposer", ColoredThings())
    embedder = options.pop("embedder", ColorEmbedder())
    indexer = Indexer(embedder, proposer, options.pop("settings", SETTINGS))  # type: ignore[arg-type]
    with Store.create(library, exist_ok=True) as store:
        return index_paths(store, indexer, find_videos(list(paths)), **options).files  # type: ignore[arg-type]
