"""A user's videos, folders or query enter; an embedder fine-tuned on them leaves, judged before and after."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panorama.archive import FAILED
from panorama.calibration import SHIPPED
from panorama.errors import UsageError
from panorama.lines import counted
from panorama.models.weights import open_model
from panorama.own_pictures import SOURCE, TABLE, Labelled, from_folders, from_library, write_table
from panorama.training import TrainingOptions, filled, train_recipe
from panorama.video import find_videos

if TYPE_CHECKING:
    from panorama.library import Library

RECIPE_NAME = "fine-tune.toml"
DATA_NAME = "own"
STEPS = 400
BATCH = 64
MOST_ROUNDS = 24
"""Views of each picture: more of a few pictures teach little."""

_RECIPE = """# Fine-tunes {start} on pictures of your own. To run it again, or with other settings:
#   panorama train {file} --data {data}=FOLDER_OF_THIS_FILE --out NEW_FOLDER
name = {name}
kind = "embedder"
version = "1"
licence = "your own"

[preprocess]
side = {side}
mean = {mean}
std = {std}

[network]
learned_dim = {learned_dim}
color_dim = {color_dim}
color_weight = {color_weight}

[start]
model = {start_text}

# The model that is fine-tuned is its own teacher: what it knew stays while it learns what is new.
[teacher]
shrinkage = 0.0

[bank]
rounds = {rounds}
axes = 8
basis_pictures = 0
seed = {seed}

[training]
seed = {seed}
steps = {steps}
batch = {batch}
learning_rate = 2e-4
matrix_rate = 1e-3
warmup = 20
decay = {decay}
sides = [[0, {side}]]
measure_every = 100

[training.loss]
imitate = 2.0
relate = 1.0
identify = 0.5
local = 0.0
deep = 0.3

[[source]]
name = "{source}"
kind = "labelled-csv"
data = "{data}"
csv = "{table}"
"""


@dataclass(frozen=True, slots=True)
class OwnData:
    """Where a user's pictures come from; at least one of the three.

    Attributes:
        videos: files or folders of video: tracks are found and clustered into pseudo-identities.
        folders: folders with one folder of pictures per identity.
        query: SQL over the library, returning crop_id and perhaps entity.
    """

    videos: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    query: str | None = None

    def __bool__(self) -> bool:
        return bool(self.videos or self.folders or self.query)


def fine_tune(
    own: OwnData,
    out: Path,
    options: TrainingOptions,
    *,
    start: str,
    library: Callable[[], Library],
    scratch: Callable[[Path], Library],
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Gather pictures, hold some back, fine-tune, and write a model folder to `out`.

    Args:
        own: where the pictures come from.
        start: the embedder to begin with; a PanoramaNet.
        library: opens the library that `own.query` asks.
        scratch: opens a new library in a folder, where `own.videos` are indexed.

    Returns:
        What was measured on the identities held back: before_ and after_ retrieval, and the division.

    Raises:
        UsageError: there is too little to learn from, see `own_pictures`, or `start` cannot be trained.
    """
    if not own:
        raise UsageError("say what to learn from: --videos, --folders or --query, or name a recipe")
    recipe = out / RECIPE_NAME
    if options.resume:
        if not recipe.is_file():
            raise UsageError(f"nothing to resume: {out} holds no {RECIPE_NAME}")
    else:
        _trainable(start)  # before an hour of indexing, not after it
        with filled(out):
            _begin(lambda: _gathered(own, out, library, scratch, say), out, options, start, say)
    result: dict[str, Any] = dict(train_recipe(recipe, {DATA_NAME: out}, out, options, say))
    folder = open_model(start, "embedder").path
    if (folder / SHIPPED).is_file():
        # Bands of the model it began with: near enough to answer, and `calibrate` sets better ones.
        shutil.copyfile(folder / SHIPPED, out / SHIPPED)
    return result


def _begin(
    gathered: Callable[[], Labelled],
    out: Path,
    options: TrainingOptions,
    start: str,
    say: Callable[[str], None],
) -> None:
    """Write the table of pictures and the recipe of a fine-tuning into `out`."""
    seed = options.seed or 0
    shutil.rmtree(out / "bank", ignore_errors=True)
    found = write_table(gathered(), out, seed)
    say(
        f"{found.pictures} pictures of {found.identities} things, {found.held_pictures} of "
        f"{found.held_identities} of them held back to judge"
        + (
            f"; {found.unused_pictures} left out: their things are seen in judging videos too"
            if found.unused_pictures
            else ""
        )
    )
    steps = options.steps or STEPS
    rounds = max(2, min(MOST_ROUNDS, steps * BATCH // max(1, found.pictures)))
    (out / RECIPE_NAME).write_text(recipe_text(out.name, start, seed, steps, rounds), encoding="utf-8")


def _gathered(
    own: OwnData,
    out: Path,
    library: Callable[[], Library],
    scratch: Callable[[Path], Library],
    say: Callable[[str], None],
) -> Labelled:
    parts: list[Labelled] = []
    if own.folders:
        parts.append(from_folders(own.folders))
    if own.videos:
        found = find_videos(own.videos)
        if found.missing or found.empty:
            raise UsageError(f"--videos: there is no video at {', '.join([*found.missing, *found.empty])}")
        with scratch(out / "library") as made:
            report = made.index([str(path) for path in own.videos])
            failed = report.of(FAILED)
            for file in failed:
                say(f"failed: {file.note}")
            say(f"indexed {counted(len(report.files) - len(failed), 'video')} into {out / 'library'}")
            parts.append(from_library(made, out))
    if own.query:
        parts.append(from_library(library(), out, own.query))
    return Labelled(
        [file for part in parts for file in part.files],
        # Things of two sources are never taken for one, whatever their names are.
        [f"{i}/{name}" for i, part in enumerate(parts) for name in part.identities],
        [f"{i}/{clip}" if clip else "" for i, part in enumerate(parts) for clip in part.clips],
    )


def _trainable(start: str) -> Mapping[str, Any]:
    """The recipe of the model to begin with.

    Raises:
        ModelError: there is no such model.
        UsageError: it is not a network that can be trained.
    """
    plan = open_model(start, "embedder").recipe
    if not isinstance(plan.get("network"), dict) or "learned_dim" not in plan["network"]:
        raise UsageError(f"{start} cannot be fine-tuned: it is no PanoramaNet")
    return plan


def recipe_text(name: str, start: str, seed: int, steps: int, rounds: int) -> str:
    """The recipe of a fine-tuning, with sizes and preprocessing of the model that it begins with."""
    plan = _trainable(start)
    network, preprocess = plan["network"], plan["preprocess"]
    return _RECIPE.format(
        file=RECIPE_NAME,
        name=json.dumps(name),
        start=start,
        start_text=json.dumps(start),
        side=preprocess["side"],
        mean=preprocess["mean"],
        std=preprocess["std"],
        learned_dim=network["learned_dim"],
        color_dim=network["color_dim"],
        color_weight=network["color_weight"],
        seed=seed,
        steps=steps,
        batch=BATCH,
        rounds=rounds,
        decay=max(1, steps // 2),
        source=SOURCE,
        data=DATA_NAME,
        table=TABLE,
    )
