"""A network and pictures enter; the range of values of each of its layers leaves, kept in ranges.json.

    python -m panorama.models.ranges embedder panoramanet PICTURES...
    python -m panorama.models.ranges proposer proposer PICTURES...

Arithmetic of 8 bits needs the ranges of all values in advance. They belong to the weights: the file names the
digest of those it was measured with, and is not used for others. Pictures are files or folders of files, of
the kind that the model was trained on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from panorama.errors import ModelError
from panorama.json_text import parsed_json
from panorama.models.weights import WEIGHTS, ModelFolder, write_whole
from panorama.pictures.pixels import PICTURE_SUFFIXES

if TYPE_CHECKING:
    from torch import Tensor, nn

RANGES = "ranges.json"

BEYOND = 1e-4
"""Share of a batch's values that may lie beyond its range: a few outliers would cost all others accuracy."""

Ranges = dict[str, float]
"""Name of a layer in the network -> the largest value out of it; with ':in' behind it, into it."""


def read_ranges(folder: ModelFolder) -> tuple[Ranges, str]:
    """The ranges of a model's layers, and '' or why there are none that fit its weights.

    Raises:
        ModelError: the file is there and is not such a file.
    """
    path = folder.path / RANGES
    make = f"python -m panorama.models.ranges {folder.kind} {folder.path} PICTURES"
    if not path.is_file():
        return {}, f"{folder.name} has no {RANGES}; `{make}` makes it"
    try:
        data = parsed_json(path.read_text(encoding="utf-8"))
        weights, largest = str(data["weights"]), {str(k): float(v) for k, v in data["largest"].items()}
    except (OSError, OverflowError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ModelError(f"{path} is not a file of ranges: {exc!r}; `{make}` writes it anew") from exc
    if weights != folder.sha256(WEIGHTS):
        return {}, f"the ranges of {folder.name} were measured with other weights; `{make}` measures again"
    if not largest:
        raise ModelError(f"{path} holds no range; `{make}` writes it anew")
    if not all(0 < value < float("inf") for value in largest.values()):
        raise ModelError(f"{path} holds a range that is not above zero; `{make}` writes it anew")
    return largest, ""


def write_ranges(folder: ModelFolder, largest: Ranges) -> Path:
    """Keep the ranges beside the weights that they belong to; the file is there whole or not at all.

    Raises:
        ModelError: there is none, as where no picture was measured.
    """
    path = folder.path / RANGES
    if not largest:
        raise ModelError(f"{path} is left as it is: no range was measured; measure with pictures")
    rounded = {name: float(f"{value:.6g}") for name, value in largest.items()}
    data = {"weights": folder.sha256(WEIGHTS), "largest": rounded}
    write_whole(path, json.dumps(data, indent=1) + "\n")
    return path


def measure(network: nn.Module, kinds: tuple[type[nn.Module], ...], run: Callable[[], object]) -> Ranges:
    """The largest value into and out of each layer of some kinds while `run` feeds the network."""
    import torch  # it takes seconds; who reads the file needs none of it

    largest: Ranges = {}
    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, kinds):

            def note(_: nn.Module, given: tuple[Tensor], output: Tensor, name: str = name) -> None:
                for key, value in ((name, output), (f"{name}:in", given[0])):
                    largest[key] = max(largest.get(key, 1e-6), _top(value))

            hooks.append(module.register_forward_hook(note))
    try:
        with torch.inference_mode():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return largest


def rest_between(network: nn.Module, kinds: tuple[type[nn.Module], ...], rest: Callable[[], None]) -> None:
    """Have a network call this before each layer of some kinds, from now on."""
    for module in network.modules():
        if isinstance(module, kinds):
            module.register_forward_pre_hook(lambda _module, _given: rest())


def _top(values: Tensor) -> float:
    """The value that a share of `BEYOND` of all values lies above."""
    count = max(1, int(values.numel() * BEYOND))
    return float(values.float().flatten().topk(count).values[-1])


def _pictures(paths: Sequence[str], limit: int) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        found += [path] if path.is_file() else sorted(path.rglob("*"))
    chosen = [p for p in found if p.suffix.lower() in PICTURE_SUFFIXES]
    return chosen[:: max(1, -(-len(chosen) // limit))]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one model's ranges and write them into its folder."""
    import cv2

    from panorama.models.embedder import PanoramaNet
    from panorama.models.proposer import PanoramaProposer
    from panorama.models.weights import open_model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=("embedder", "proposer"))
    parser.add_argument("model", help="a model's name or folder")
    parser.add_argument("pictures", nargs="+")
    parser.add_argument("--limit", type=int, default=400, help="at most so many pictures, spread evenly")
    given = parser.parse_args(arguments)
    files = _pictures(given.pictures, given.limit)
    if not files:
        parser.error(f"no picture in {', '.join(given.pictures)}")
    read = [image for file in files if (image := cv2.imread(str(file))) is not None]
    if not read:
        parser.error(
            f"none of {len(files)} pictures can be read, the first is {files[0]}: {RANGES} is left as it is;"
            " name pictures of the kind that the model was trained on"
        )
    images = [np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8) for image in read]
    if given.kind == "proposer":
        folder = open_model(given.model, "proposer")
        largest = PanoramaProposer(folder, precision="float32").ranges(images)
    else:
        folder = open_model(given.model, "embedder")
        largest = PanoramaNet(folder, "float32").ranges(images)
    passed = f" ({len(files) - len(read)} cannot be read)" if len(read) < len(files) else ""
    print(f"{len(largest)} layers, {len(images)} pictures{passed}: {write_ranges(folder, largest)}")


if __name__ == "__main__":
    main()
