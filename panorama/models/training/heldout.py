"""Data folders come in; pictures of held-out classes, and how well a model separates them, go out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from panorama.folders import files_below
from panorama.models.base import Image
from panorama.models.device import send
from panorama.models.embedder import squash
from panorama.models.network import Trunk
from panorama.models.precision import mixed
from panorama.models.retrieval import at_most_per_label, retrieval_scores
from panorama.models.training.copies import came_before
from panorama.models.training.loop import to_input
from panorama.models.training.sources import labelled_rows, read_picture
from panorama.models.training.split import held_out, row_held_out
from panorama.pictures.pixels import PICTURE_SUFFIXES, laid_flat

LIMIT = 40


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Pictures of held-out classes.

    Attributes:
        paths: one file per picture.
        labels: source/class of each picture.
        copies: number of pictures left out as copies of others.
    """

    paths: list[Path]
    labels: list[str]
    copies: int = 0

    def __post_init__(self) -> None:
        if len(self.paths) != len(self.labels):
            raise ValueError(f"{len(self.paths)} pictures, but {len(self.labels)} labels")

    def load(self) -> Iterator[Image]:
        """The pictures as RGB, one by one; transparency is laid over mid-grey, as where one is judged."""
        return (laid_flat(read_picture(path)) for path in self.paths)


def held_out_pictures(
    tables: Sequence[Mapping[str, Any]], data: Mapping[str, Path], limit: int = LIMIT, seed: int = 0
) -> HeldOut:
    """At most `limit` pictures, without copies, of every class that labelled sources keep from training."""
    paths: list[Path] = []
    labels: list[str] = []
    for table in tables:
        root = data[table["data"]]
        if table["kind"] == "labelled-csv":
            named = (row for row in labelled_rows(table, root) if row["source"] == table["name"])
            rows = [row for row in named if row["identity"] == "class"]
            kept = [(root / row["file"], row["class"]) for row in rows if row_held_out(row)]
        elif table["kind"] == "folders" and table.get("labels") and table.get("hold_out", True):
            base = root / table.get("path", ".")
            files = [p for p in files_below(base) if p.suffix.lower() in PICTURE_SUFFIXES]
            found = [(p, p.relative_to(base).parts[0]) for p in files if len(p.relative_to(base).parts) > 1]
            kept = [(path, label) for path, label in found if held_out(table["name"], label)]
        else:
            continue
        paths.extend(path for path, _ in kept)
        labels.extend(f"{table['name']}/{label}" for _, label in kept)
    once = [i for i, again in enumerate(came_before(paths)) if not again]
    chosen = [once[i] for i in at_most_per_label([labels[i] for i in once], limit, seed)]
    return HeldOut([paths[i] for i in chosen], [labels[i] for i in chosen], len(paths) - len(once))


def make_measure(
    held: HeldOut, mean: Tensor, std: Tensor, side: int
) -> Callable[[Trunk], dict[str, float]] | None:
    """From a trunk to map_exit_i and r_at_1_exit_i of its learned part; None if the pictures are too few."""
    classes = len(set(held.labels))
    if classes < 2 or len(held.labels) < 4 or classes == len(held.labels):
        return None
    pictures = np.stack([squash(picture, side) for picture in held.load()])

    def measure(trunk: Trunk) -> dict[str, float]:
        trunk.eval()
        place = next(trunk.parameters()).device
        parts: list[list[Tensor]] = []
        with torch.inference_mode(), mixed(place.type):
            for start in range(0, len(pictures), 128):
                some = send(torch.from_numpy(pictures[start : start + 128]), str(place))
                parts.append(trunk(to_input(some, mean, std)))
        scores = {}
        for number in range(len(parts[0])):
            vectors = torch.cat([part[number] for part in parts]).float().cpu().numpy()
            found = retrieval_scores(vectors, held.labels)
            scores[f"map_exit_{number + 1}"], scores[f"r_at_1_exit_{number + 1}"] = found
        return scores

    return measure
