"""A network and pictures come in; the range of values of each of its layers goes out, into ranges.json.

    python -m panorama.models.ranges embedder panoramanet PICTURES...
    python -m panorama.models.ranges proposer proposer PICTURES...

8-bit arithmetic needs the ranges of all values in advance. They belong to the weights: the file states the
digest of the weights it was measured with and is ignored for others. PICTURES are picture files, or folders
of them, of the kind that the model was trained on.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from panorama.errors import ModelError
from panorama.folders import files_below
from panorama.json_text import parsed_json
from panorama.models.weights import WEIGHTS, ModelFolder
from panorama.pictures.pixels import PICTURE_SUFFIXES
from panorama.whole_files import write_whole

if TYPE_CHECKING:
    from torch import Tensor, nn

    from panorama.models.base import Image

Thing = TypeVar("Thing")

RANGES = "ranges.json"

BEYOND = 1e-4
"""Share of a picture's values that may exceed the range: covering outliers would cost the rest accuracy."""

COVERED = 0.95
"""Share of the pictures whose values the range covers so far: one odd picture would set it for all."""

MOST_PICTURES = 400
"""Most pictures that ranges are measured on."""

Ranges = dict[str, float]
"""Name of a layer -> its largest output (see `measure`); with ':in' appended, its largest input."""


def ranges_for(folder: ModelFolder, precision: str | None) -> tuple[Ranges, str]:
    """`read_ranges`, or none if a precision in floating point is asked for.

    So a model whose ranges are damaged can be loaded, and its ranges measured again.
    """
    return ({}, "") if precision not in (None, "auto", "int8") else read_ranges(folder)


def read_ranges(folder: ModelFolder) -> tuple[Ranges, str]:
    """The ranges of a model's layers and '', or {} and why there are none for its weights.

    Raises:
        ModelError: the file exists but is invalid.
    """
    path = folder.path / RANGES
    make = f"python -m panorama.models.ranges {folder.kind} {folder.path} PICTURES"
    if not path.is_file():
        return {}, f"{folder.name} has no {RANGES}; `{make}` makes it"
    try:
        data = parsed_json(path.read_text(encoding="utf-8"))
        weights, largest = str(data["weights"]), {str(k): float(v) for k, v in data["largest"].items()}
    except (OSError, OverflowError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ModelError(f"{path} is not a file of ranges: {exc!r}; `{make}` writes it again") from exc
    if weights != folder.sha256(WEIGHTS):
        return (
            {},
            f"the ranges of {folder.name} were measured with other weights; `{make}` measures them again",
        )
    if not largest:
        raise ModelError(f"{path} holds no ranges; `{make}` measures them again")
    if not all(0 < value < float("inf") for value in largest.values()):
        raise ModelError(f"{path} holds a range that is not above zero; `{make}` writes it again")
    return largest, ""


def write_ranges(folder: ModelFolder, largest: Ranges) -> Path:
    """Write the ranges into the model's folder, with the digest of its weights; whole or not at all.

    Raises:
        ModelError: there are none, because no picture was measured.
    """
    path = folder.path / RANGES
    if not largest:
        raise ModelError(f"{path} is left as it is: no range was measured; measure with pictures")
    rounded = {name: float(f"{value:.6g}") for name, value in largest.items()}
    data = {"weights": folder.sha256(WEIGHTS), "largest": rounded}
    write_whole(path, (json.dumps(data, indent=1) + "\n").encode())
    return path


def measure(network: nn.Module, kinds: tuple[type[nn.Module], ...], run: Callable[[], object]) -> Ranges:
    """The range of the input and output of each layer of these kinds while `run` feeds the network.

    Of each picture it is the value that a share `BEYOND` of its values reach or exceed; of all pictures, the
    quantile `COVERED` of these. Batches (B, ...) are taken apart, so their size makes no difference. Of a
    proposer that looks several times each look counts as a picture.

    Raises:
        ModelError: a layer gives infinite values or NaN.
    """
    import torch  # takes seconds; reading the file does not need it

    tops: dict[str, list[float]] = {}
    hooks = []
    for name, module in network.named_modules():
        if isinstance(module, kinds):

            def note(_: nn.Module, given: tuple[Tensor], output: Tensor, name: str = name) -> None:
                for key, value in ((name, output), (f"{name}:in", given[0])):
                    tops.setdefault(key, []).extend(_tops(value))

            hooks.append(module.register_forward_hook(note))
    try:
        with torch.inference_mode():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    if lost := [name for name, found in tops.items() if not np.isfinite(found).all()]:
        raise ModelError(f"{lost[0]} gives infinite values or NaN: these weights are no use, train them anew")
    return {name: max(1e-6, float(np.quantile(found, COVERED))) for name, found in tops.items()}


def in_batches(images: Iterable[Image], size: int) -> Iterator[list[Image]]:
    """The images in lists of `size`, so that an iterable that reads them needs the memory of so many."""
    left = iter(images)
    while some := list(islice(left, size)):
        yield some


def rest_between(network: nn.Module, kinds: tuple[type[nn.Module], ...], rest: Callable[[], None]) -> None:
    """Make a network call `rest` before each layer of these kinds, from now on; calls add up."""
    for module in network.modules():
        if isinstance(module, kinds):
            module.register_forward_pre_hook(lambda _module, _given: rest())


def _tops(values: Tensor) -> list[float]:
    """For each picture of a batch, the value that a share `BEYOND` of its values reach or exceed."""
    flat = values.float().flatten(1)
    count = max(1, int(flat.shape[1] * BEYOND))
    return list(flat.topk(count).values[:, -1].tolist())


def spread_evenly(things: Sequence[Thing], limit: int = MOST_PICTURES) -> Sequence[Thing]:
    """At most `limit` of the things, one in so many."""
    return things[:: max(1, -(-len(things) // limit))]


def _pictures(paths: Sequence[str]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        found += [path] if path.is_file() else files_below(path)
    return [p for p in found if p.suffix.lower() in PICTURE_SUFFIXES]


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
    parser.add_argument(
        "--limit", type=int, default=MOST_PICTURES, help="at most so many pictures, spread evenly"
    )
    given = parser.parse_args(arguments)
    files = spread_evenly(_pictures(given.pictures), given.limit)
    if not files:
        parser.error(f"no picture in {', '.join(given.pictures)}")
    unread: list[Path] = []

    def images() -> Iterator[Image]:
        for file in files:
            if (image := cv2.imread(str(file))) is None:
                unread.append(file)
            else:
                yield np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), np.uint8)

    if given.kind == "proposer":
        folder = open_model(given.model, "proposer")
        largest = PanoramaProposer(folder, precision="float32").ranges(images())
    else:
        folder = open_model(given.model, "embedder")
        largest = PanoramaNet(folder, "float32").ranges(images())
    if len(unread) == len(files):
        parser.error(
            f"none of {len(files)} pictures can be read, the first is {files[0]}: {RANGES} is left as it is;"
            " name pictures of the kind that the model was trained on"
        )
    passed = f" ({len(unread)} cannot be read)" if unread else ""
    print(
        f"{len(largest)} layers, {len(files) - len(unread)} pictures{passed}: {write_ranges(folder, largest)}"
    )


if __name__ == "__main__":
    main()
