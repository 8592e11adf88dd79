"""The command `train`: train a shipped model again, or fine-tune one on the user's own data."""

from __future__ import annotations

import json
from pathlib import Path

import click

from panorama.cli.common import opened, print_data, say
from panorama.cli.given import FilePath
from panorama.content import DEFAULT_EMBEDDER
from panorama.opening import open_library

NO_HELP = 3


@click.command("train")
@click.argument("recipe", type=FilePath(dir_okay=False), required=False)
@click.option(
    "--data", multiple=True, metavar="NAME=FOLDER", help="A data folder of the recipe; repeat for more."
)
@click.option(
    "--videos",
    multiple=True,
    type=FilePath(readable=False),
    help="Learn from the tracks of these videos; repeat for more.",
)
@click.option(
    "--folders",
    multiple=True,
    type=FilePath(readable=False),
    metavar="DIR",
    help="Learn from pictures in DIR/IDENTITY/; repeat for more.",
)
@click.option("--query", metavar="SQL", help="Learn from crops of the library: SELECT crop_id [, entity] ...")
@click.option("--start", help=f"The embedder to fine-tune.  [default: {DEFAULT_EMBEDDER}]")
@click.option(
    "--out",
    type=FilePath(file_okay=False),
    required=True,
    help="Folder for the model, log, plot and checkpoints.",
)
@click.option("--resume", is_flag=True, help="Continue from the last checkpoint in --out.")
@click.option("--device", type=click.Choice(["cpu", "cuda"]), help="Default: CUDA if available.")
@click.option("--steps", type=int, help="Override the steps of an embedder's recipe.")
@click.option("--seed", type=int, help="Override the recipe's seed, or divide your own data differently.")
@click.option("--minutes", type=float, help="Stop an embedder's training with a checkpoint after this time.")
@click.option("--threads", type=int, help="CPU threads.")
@click.pass_context
def train_command(
    ctx: click.Context,
    recipe: str | None,
    data: tuple[str, ...],
    videos: tuple[str, ...],
    folders: tuple[str, ...],
    query: str | None,
    start: str | None,
    out: str,
    resume: bool,
    device: str | None,
    steps: int | None,
    seed: int | None,
    minutes: float | None,
    threads: int | None,
) -> None:
    """Train a model from a recipe, or fine-tune the embedder on your own videos, folders or crops.

    \b
    panorama train embeddings/panoramanet/recipe.toml --data footage=FOLDER --out new-net
    panorama train --videos archive/ --out my-net
    panorama train --folders labelled/ --out my-net
    panorama train --query "SELECT crop_id FROM crops WHERE video LIKE 'gate%'" --out my-net
    panorama index archive/ --model my-net

    Fine-tuning takes no training steps. Part of your data is held back, to choose how strongly to adapt and
    to measure the result.

    Exit status: 0 a model was written; 1 error; 2 usage; 3 the data did not measurably help, no model was
    written.
    """
    from panorama.models.training.own_process import set_up_process
    from panorama.own_training import OwnData, fine_tune
    from panorama.training import TrainingOptions, train_recipe

    set_up_process()
    options = TrainingOptions(resume, device, steps, seed, minutes, threads)
    own = OwnData(tuple(map(Path, videos)), tuple(map(Path, folders)), query)
    if recipe is not None:
        if own:
            raise click.UsageError(
                "a recipe names its own pictures: leave out --videos, --folders and --query"
            )
        if start is not None:
            raise click.UsageError("a recipe names its first model in [start]: leave out --start")
        result = train_recipe(Path(recipe), named_folders(data), Path(out), options, say)
    elif data:
        raise click.UsageError("--data needs a recipe: name one, or use --folders for your pictures")
    else:
        result = fine_tune(
            own,
            Path(out),
            options,
            start=start,
            library=lambda: opened(ctx),
            scratch=lambda folder: open_library(folder, create=True),
            say=say,
        )
    print_data(json.dumps(result, indent=1))
    if "model" in result and result["model"] is None:
        ctx.exit(NO_HELP)


def named_folders(pairs: tuple[str, ...]) -> dict[str, Path]:
    """NAME=FOLDER pairs as a mapping; UsageError if one is incomplete or its folder does not exist."""
    folders = {}
    for pair in pairs:
        name, sign, folder = pair.partition("=")
        if not (sign and name and folder and Path(folder).is_dir()):
            raise click.UsageError(f"--data takes NAME=FOLDER with an existing folder, got {pair!r}")
        folders[name] = Path(folder)
    return folders
