"""A user's videos, folders or query come in; a fine-tuned embedder goes out, judged before and after."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panorama.arguments import File, Files, checked, take_fields
from panorama.content import DEFAULT_EMBEDDER
from panorama.errors import BadImage, UsageError, VideoError
from panorama.indexing.outcomes import FAILED, library_remarks
from panorama.lines import counted
from panorama.models.color import ColorEmbedder
from panorama.models.device import choose_device
from panorama.models.interrupts import refuse_trained, training_in
from panorama.models.weights import WEIGHTS, open_model
from panorama.own_training.made_of import MadeOf, recorded, refuse_another, toml_text, whole_start
from panorama.own_training.pictures import from_folders, from_library, passed_over, without_copies
from panorama.own_training.split import SOURCE, TABLE, Picture, write_table
from panorama.store.files.layout import own_files
from panorama.training import TrainingOptions, refuse_place, refuse_steps, train_here
from panorama.video import FileMark, content_hash, find_videos
from panorama.whole_files import write_whole

if TYPE_CHECKING:
    from panorama.library import Library

RECIPE_NAME = "fine-tune.toml"
DATA_NAME = "own"
LIBRARY = "library"
SHRINKAGE = 1.0
SHARES = (0.25, 0.5, 0.75, 1.0)
GUESSED_SHARES = (0.25, 0.5)
"""For training without any named thing: taking all of what is learned then accepts less, see DECISIONS 44."""

_RECIPE = """# Adapts {start} to pictures of your own. To run it again, or with other settings:
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
{made_of}
# The last maps of the network turn towards what tells your things apart, by the share that finds things best
# which were not learned from; where none surely helps, no model is written.
[adapt]
shrinkage = {shrinkage}   # added to every eigenvalue, in mean eigenvalues
shares = {shares}

[[source]]
name = "{source}"
kind = "labelled-csv"
data = "{data}"
csv = "{table}"
"""


@dataclass(frozen=True, slots=True)
class OwnData:
    """Where a user's pictures come from; give at least one of the three.

    Attributes:
        videos: files or folders of video; tracks are found in them and clustered into pseudo-identities.
        folders: folders that contain one folder of pictures per identity.
        query: SELECT over the library that returns crop_id and optionally entity.
    """

    videos: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    query: str | None = None

    if TYPE_CHECKING:  # `take_fields` converts these arguments to the types of the fields

        def __init__(self, videos: Files = (), folders: Files = (), query: str | None = None) -> None: ...

    def __post_init__(self) -> None:
        take_fields(self)

    def __bool__(self) -> bool:
        return bool(self.videos or self.folders or self.query)


@checked
def fine_tune(
    own: OwnData,
    out: File,
    options: TrainingOptions,
    *,
    start: File | None = None,
    library: Callable[[], Library],
    scratch: Callable[[Path], Library],
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Gather pictures, hold some back, learn, and write a model folder to `out` if things are found better.

    Args:
        own: where the pictures come from; may be empty when resuming, to use the previous pictures.
        out: folder of the training.
        options: how to run it.
        start: the embedder to begin with, a PanoramaNet; None for the default, or for the previous one when
            resuming.
        library: opens the library that `own.query` asks.
        scratch: opens a library in a folder, to index `own.videos` into; it may leave it to `index` to create
            it, as `panorama.open` does.
        say: called with each line of progress.

    Returns:
        The measurements, see `panorama.models.training.adapt`: share; before_ and after_ retrieval of what
        was held back; and model, None if the data did not help and no model was written.

    Raises:
        ModelError: another training runs in `out`.
        QueryError: `own.query` cannot be answered, or would change entities.
        UsageError: there is too little to learn from (see `split`), `start` cannot be trained, the training
            to resume was made from something else, or `out` lies among a library's own files.
    """
    out, start = Path(out), None if start is None else os.fspath(start)
    if not _begun(out, options):
        if not own:
            raise UsageError("say what to learn from: --videos, --folders or --query, or name a recipe")
        if options.resume and not (out / LIBRARY).is_dir():
            raise UsageError(f"nothing to resume: {out} holds neither {RECIPE_NAME} nor a {LIBRARY}")
        refuse_place(out, own.folders)
    refuse_steps(options)
    with training_in(out, say):
        _prepare(own, out, options, start, lambda: _gathered(own, out, library, scratch, say), say)
        done = replace(options, seed=None)  # the seed divided the pictures, which is done
        try:
            return train_here(out / RECIPE_NAME, {DATA_NAME: out}, out, done, say)
        except BadImage as exc:
            raise BadImage(f"{exc}, and run it without --resume: {out / TABLE} still names it") from exc


def _begun(out: Path, options: TrainingOptions) -> bool:
    """Whether to go on with the pictures and the recipe of an earlier run."""
    return options.resume and (out / RECIPE_NAME).is_file()


def _prepare(
    own: OwnData,
    out: Path,
    options: TrainingOptions,
    start: str | None,
    gathered: Callable[[], list[Picture]],
    say: Callable[[str], None],
) -> None:
    """See to it that `out` holds a table of pictures and a recipe, of what is asked for.

    Raises:
        UsageError: what `out` holds was made from something else, or is a model.
    """
    recipe = out / RECIPE_NAME
    if (out / WEIGHTS).is_file() and not options.resume:
        raise UsageError(
            f"{out} already holds a model, which would not fit the new files beside it; name a new folder, "
            "or continue there with --resume"
        )
    if not options.resume:
        refuse_trained(out)
    asked = MadeOf.given(own.videos, own.folders, own.query, start, options.seed)
    if _begun(out, options):
        for line in refuse_another(recorded(recipe), asked, recipe):
            say(line)
    else:
        asked = replace(asked, start=start or DEFAULT_EMBEDDER)
        _trainable(str(asked.start))  # check before an hour of indexing, not after it
        choose_device(options.device)
        _begin(gathered(), out, asked, say)


def _begin(pictures: Sequence[Picture], out: Path, asked: MadeOf, say: Callable[[str], None]) -> None:
    """Write the table of pictures and the recipe of a fine-tuning into `out`."""
    found = write_table(pictures, out, asked.seed or 0)
    say(
        f"{found.pictures} pictures; {found.learning} things to learn from, {found.choosing} to choose how "
        f"much of it to use, {found.judging} held back to judge"
        + (f"; {found.unused_pictures} pictures are left out" if found.unused_pictures else "")
    )
    if found.shared_clips:
        say(
            f"too few videos: {counted(found.shared_clips, 'video')} had to be divided between learning and "
            "judging, so other videos may gain less than is reported"
        )
    shares = GUESSED_SHARES if all(picture.guessed for picture in pictures) else SHARES
    text = recipe_text(out.resolve().name, asked.start or DEFAULT_EMBEDDER, shares, asked)
    write_whole(out / RECIPE_NAME, text.encode())


def _gathered(
    own: OwnData,
    out: Path,
    library: Callable[[], Library],
    scratch: Callable[[Path], Library],
    say: Callable[[str], None],
) -> list[Picture]:
    parts: list[list[Picture]] = []
    if own.folders:
        parts.append(from_folders(own.folders))
        for line in passed_over(own.folders):
            say(line)
    if own.query:  # before the videos, which may take an hour to index
        asked = library()
        parts.append(from_library(asked, out, own.query, say))
        _only_once(asked, {picture.clip for picture in parts[-1]}, own.videos)
    if own.videos:
        found = find_videos(own.videos, out, library_parts=own_files)
        for line in library_remarks(found.libraries):
            say(line)
        if found.missing or found.empty:
            raise UsageError(f"--videos: there is no video at {', '.join([*found.missing, *found.empty])}")
        with scratch(out / LIBRARY) as made:
            _none_besides(made, {video.path.resolve() for video in found.videos}, out / LIBRARY)
            report = made.index([str(path) for path in own.videos])
            failed = report.of(FAILED)
            for file in failed:
                say(f"failed: {file.note}")
            say(f"indexed {counted(len(report.files) - len(failed), 'video')} into {out / LIBRARY}")
            parts.append(from_library(made, out))
    pictures, others, same = without_copies(parts)
    for copies, what in ((others, "that show another thing"), (same, "of the same thing")):
        if copies:
            say(f"left out: {counted(copies, 'copy', 'copies')} of pictures {what}")
    return pictures


def _none_besides(made: Library, files: set[Path], place: Path) -> None:
    """Refuse the library of an interrupted run that holds other videos: they would be learned from, too.

    Raises:
        UsageError: it holds one.
    """
    if not made.exists:  # `index` will create it
        return
    for row in made.query("SELECT uri FROM videos").fetchall():
        if Path(row["uri"]).resolve() not in files:
            raise UsageError(
                f"{place} holds {row['uri']}, which is not among --videos: name it as well, or a new folder"
            )


def _only_once(asked: Library, clips: set[str], videos: Sequence[Path]) -> None:
    """Refuse videos that the query covers, too: the same content would be learned from and also judge.

    Raises:
        UsageError: there is one.
    """
    found = find_videos(videos, library_parts=own_files).videos
    files = {video.path.resolve() for video in found}
    for row in asked.query("SELECT video, uri FROM videos").fetchall():
        if row["video"] not in clips:
            continue
        if other := next((file for file in files if _same_video(Path(row["uri"]), file)), None):
            copied = "" if other == Path(row["uri"]).resolve() else f", as {other}"
            raise UsageError(
                f"{row['uri']} comes with --videos{copied} and with --query: what it shows would be both "
                "learned from and judged by; leave it out of one of them"
            )


def _same_video(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file, or to a file and its copy."""
    if one.resolve() == other.resolve():
        return True
    try:
        marks = FileMark.of(one), FileMark.of(other)
        same_kind = marks[0].is_folder == marks[1].is_folder and marks[0].size == marks[1].size
        return same_kind and content_hash(marks[0]) == content_hash(marks[1])
    except VideoError:  # moved or deleted since: nothing to compare with
        return False


def _trainable(start: str) -> Mapping[str, Any]:
    """The recipe of the model to begin with.

    Raises:
        ModelError: there is no such model.
        UsageError: it is not a network that can be trained.
    """
    if start == ColorEmbedder.name:
        raise UsageError(
            f"{start} cannot be fine-tuned: it has no weights; begin with {DEFAULT_EMBEDDER}, or with a "
            "folder made from it"
        )
    plan = open_model(start, "embedder").recipe
    if not isinstance(plan.get("network"), dict) or "learned_dim" not in plan["network"]:
        raise UsageError(f"{start} cannot be fine-tuned: it is not a PanoramaNet")
    return plan


def recipe_text(
    name: str, start: str, shares: Sequence[float] = SHARES, made_of: MadeOf | None = None
) -> str:
    """The recipe of a fine-tuning, with the sizes and preprocessing of the model it begins with.

    Args:
        name: of the new model.
        start: name or folder of the model to begin with.
        shares: how much of what is learned to try.
        made_of: its sources, to record in the recipe.

    Raises:
        ModelError: there is no model `start`.
        UsageError: `start` cannot be trained.
    """
    plan = _trainable(start)
    network, preprocess = plan["network"], plan["preprocess"]
    return _RECIPE.format(
        file=RECIPE_NAME,
        name=toml_text(name),
        start=" ".join(str(plan["name"]).split()),
        start_text=toml_text(whole_start(start)),
        made_of=made_of.text() if made_of else "",
        side=preprocess["side"],
        mean=preprocess["mean"],
        std=preprocess["std"],
        learned_dim=network["learned_dim"],
        color_dim=network["color_dim"],
        color_weight=network["color_weight"],
        shrinkage=SHRINKAGE,
        shares=list(shares),
        source=SOURCE,
        data=DATA_NAME,
        table=TABLE,
    )
