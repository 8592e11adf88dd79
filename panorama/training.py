"""A recipe and data folders come in; a trained model goes out: the place where training meets video."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from panorama.answering.calibration import SHIPPED
from panorama.arguments import MOST_THREADS, File, checked, take_fields
from panorama.errors import UsageError
from panorama.folders import searched_with
from panorama.models.base import Image
from panorama.models.interrupts import refuse_trained, training_in
from panorama.models.weights import open_model, read_recipe
from panorama.store.files.layout import own_files
from panorama.store.files.outputs import refuse_own_files
from panorama.threads import NETWORKS, lent
from panorama.video import open_video
from panorama.whole_files import write_whole

MOST_SEED = 2**32 - 1
"""Seeds of single steps derive from the seed and have 64 bits."""

MOST_STEPS = 10**9


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How to run a recipe. None means: as the recipe says.

    Attributes:
        resume: continue from the last checkpoint.
        device: 'cpu' or 'cuda'.
        steps, seed: replace those of an embedder's recipe.
        minutes: stop an embedder's training after this time, with a checkpoint.
        threads: CPU threads.
    """

    resume: bool = False
    device: str | None = None
    steps: int | None = None
    seed: int | None = None
    minutes: float | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Check the numbers now, before hours of work.

        Raises:
            UsageError: a number is out of range.
        """
        take_fields(self)
        for name, least, most in (
            ("steps", 1, MOST_STEPS),
            ("seed", 0, MOST_SEED),
            ("threads", 1, MOST_THREADS),
        ):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"--{name} is a whole number from {least} on, got {value}")
            if value is not None and value > most:
                raise UsageError(f"--{name} is at most {most}, got {value}")
        if self.minutes is not None and not self.minutes > 0:
            raise UsageError(f"--minutes is more than 0, got {self.minutes}")


def frames_of(path: Path, gap_seconds: float) -> Iterator[Image]:
    """One RGB frame (H, W, 3) for every `gap_seconds` of a clip."""
    due = 0.0
    with open_video(path) as reader:
        for frame in reader.frames():
            if frame.time_seconds >= due - 1e-6:
                due = frame.time_seconds + gap_seconds
                yield frame.rgb()


@checked
def train_recipe(
    recipe: File,
    data: Mapping[str, File],
    out: File,
    options: TrainingOptions,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Train the embedder or proposer that a recipe describes.

    Args:
        recipe: a recipe file.
        data: data folders by name.
        out: folder of the training; the trained model lies in it.
        options: how to run it.
        say: called with each line of progress.

    Returns:
        The measurements before and after. With an [adapt] recipe also `model`: None if the data did not help
        and no model was written.

    Raises:
        UsageError: the recipe is of another kind, the data does not fit it, or `out` already holds a
            training.
        ModelError: the recipe is malformed, there is nothing to resume, or another training runs in `out`.
    """
    recipe, out, folders = Path(recipe), Path(out), {name: Path(folder) for name, folder in data.items()}
    _kind_of(recipe)
    if not options.resume:
        refuse_place(out)
    with training_in(out, say):
        if not options.resume:
            refuse_trained(out)
        return train_here(recipe, folders, out, options, say)


def _kind_of(recipe: Path) -> str:
    """What a recipe describes: 'embedder', 'proposer', or 'adapt' for an embedder that is adapted.

    Raises:
        UsageError: something else.
    """
    plan = read_recipe(recipe)
    kind = plan.get("kind")
    if kind not in ("embedder", "proposer"):
        raise UsageError(f"{recipe} has kind = {kind!r}; a recipe is of kind 'embedder' or 'proposer'")
    return "adapt" if kind == "embedder" and "adapt" in plan else str(kind)


def train_here(
    recipe: Path, folders: Mapping[str, Path], out: Path, options: TrainingOptions, say: Callable[[str], None]
) -> dict[str, Any]:
    """`train_recipe` in a folder that the caller holds for itself, see `training_in`."""
    kind = _kind_of(recipe)
    import panorama.models.cores
    import panorama.models.network  # noqa: F401  loads torch, so that `lent` restores its threads

    with lent(**dict.fromkeys(("torch", "cv2", NETWORKS))):
        if kind == "adapt":
            return _adapt(recipe, folders, out, options, say)
        if kind == "proposer":
            return _train_proposer(recipe, folders, out, options, say)
        from panorama.models.training.train import train

        return train(
            recipe,
            folders,
            out,
            read_frames=frames_of,
            resume=options.resume,
            device=options.device,
            steps=options.steps,
            seed=options.seed,
            minutes=options.minutes,
            threads=options.threads,
            say=say,
        )


def refuse_place(out: Path, folders: Sequence[Path] = ()) -> None:
    """Refuse a model folder that is a library or lies among the pictures of a folder, also through a link.

    Raises:
        UsageError: it is, or it does.
    """
    refuse_own_files(out)
    place = out.resolve()
    if own_files(place):
        raise UsageError(f"{out} is a library; name a folder of its own for the model")
    for given in folders:
        if any(place.is_relative_to(searched) for searched in searched_with(given)):
            raise UsageError(
                f"{out} is inside --folders {given}: the next training would learn from what is written "
                "there; name a folder elsewhere"
            )


def _adapt(
    recipe: Path, data: Mapping[str, Path], out: Path, options: TrainingOptions, say: Callable[[str], None]
) -> dict[str, Any]:
    from panorama.models.training.adapt import adapt

    refuse_steps(options)
    if options.seed is not None:
        raise UsageError("--seed has no effect here: the table of pictures says which of them teach")
    result = adapt(recipe, data, out, device=options.device, threads=options.threads, say=say)
    start = open_model(str(read_recipe(recipe)["start"]["model"]), "embedder").path
    if result["model"] is not None and (start / SHIPPED).is_file() and start.resolve() != out.resolve():
        # Take the bands of the start model: good enough to answer with; `calibrate` sets better ones.
        write_whole(out / SHIPPED, (start / SHIPPED).read_bytes())
    return result


def refuse_steps(options: TrainingOptions) -> None:
    """Refuse options that only training in steps has.

    Raises:
        UsageError: steps or minutes are given.
    """
    for name in ("steps", "minutes"):
        if (value := getattr(options, name)) is not None:
            raise UsageError(
                f"--{name} {value:g} is for recipes with [training]; fine-tuning on your own pictures is "
                f"computed in one go: leave out --{name}"
            )


def _train_proposer(
    recipe: Path, data: Mapping[str, Path], out: Path, options: TrainingOptions, say: Callable[[str], None]
) -> dict[str, float]:
    from panorama.models.proposer import load_proposer
    from panorama.models.proposer_training.evaluate import report
    from panorama.models.proposer_training.export import export_model, measure_ranges
    from panorama.models.proposer_training.loop import train

    given = [n for n in ("steps", "seed", "minutes") if getattr(options, n) is not None]
    if given:
        raise UsageError(f"--{given[0]}: for a proposer, set this in the recipe")
    if len(data) != 1:
        raise UsageError(f"a proposer is trained from one data folder, got {len(data)}: --data NAME=FOLDER")
    plan, text = read_recipe(recipe), recipe.read_text(encoding="utf-8")
    if options.threads is not None and "training" in plan:  # `train` reports a missing table
        plan["training"]["threads"] = options.threads
    folder = next(iter(data.values()))
    train(plan, folder, out, options.resume, device=options.device, say=say)
    model = export_model(out, text)
    measure_ranges(model, folder, options.device, say)
    found = report(folder, load_proposer(str(model)).propose)
    return {name: float(value) for name, value in found.items() if isinstance(value, (int, float))}
