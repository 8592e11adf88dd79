"""A checkpoint comes in; a folder that `load_proposer` accepts goes out: averaged weights, and ranges."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from panorama.models.interrupts import CHECKPOINT
from panorama.models.proposer import PanoramaProposer
from panorama.models.proposer_training.sources import BOXES, read_boxes, read_rgb
from panorama.models.ranges import spread_evenly, write_ranges
from panorama.models.training.checkpoint import read_checkpoint
from panorama.models.weights import MODEL, RECIPE, WEIGHTS, open_model, record_hashes
from panorama.whole_files import write_whole


def averaged(checkpoint: Path) -> dict[str, Tensor]:
    """A checkpoint's averaged weights under the network's own names, without the counters of its norms."""
    prefix = "average."
    return {
        name.removeprefix(prefix): value
        for name, value in read_checkpoint(checkpoint).items()
        if name.startswith(prefix) and not name.endswith("num_batches_tracked")
    }


def export_model(out: Path, recipe: str) -> Path:
    """Write the model of the training in `out`, with its recipe's text; returns the model's folder."""
    folder = out / MODEL
    folder.mkdir(exist_ok=True)
    write_whole(folder / RECIPE, recipe.encode())
    export_average(out / CHECKPOINT, folder)
    return folder


def export_average(checkpoint: Path, folder: Path) -> Path:
    """Write a checkpoint's averaged weights into a model folder, and their digest into the recipe there.

    Convolutions are stored in float16, which halves the file and moves scores no more than bfloat16 does.
    """
    weights = averaged(checkpoint).items()
    halved = {name: value.to(torch.float16) if value.ndim == 4 else value for name, value in weights}
    path = folder / WEIGHTS
    write_whole(path, save({name: value.contiguous() for name, value in halved.items()}))
    record_hashes(folder)
    return path


def measure_ranges(model: Path, data: Path, device: str | None, say: Callable[[str], None]) -> Path | None:
    """Write the ranges for 8 bits, measured on labelled pictures of the data folder that may be trained on.

    Pictures of single things would not do: they stretch the ranges, and 8 bits become coarser.

    Args:
        model: folder that `export_model` wrote.
        data: folder with boxes/; None of its pictures is needed, a training may have had them in its cache.
        device: as in `choose_device`.

    Returns:
        The file; None if there is no such picture, and the model stays in floating point.
    """
    labelled = sorted(read_boxes(data)) if (data / BOXES).is_file() else []
    there = [file for file in spread_evenly(labelled) if (data / file).is_file()]
    if there:
        say(f"measuring the ranges for 8 bits on {len(there)} pictures")
    pictures = (picture for file in there if (picture := read_rgb(data / file)) is not None)
    folder = open_model(str(model), "proposer")
    ranges = PanoramaProposer(folder, precision="float32", device=device).ranges(pictures)
    if not ranges:
        say(f"{data} has no labelled picture: the model runs in floating point until its ranges are measured")
        return None
    return write_ranges(folder, ranges)
