"""Commands about indexing: index, info, compact."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from panorama.arguments import MOST_ZOOM
from panorama.cli.common import INCOMPLETE, json_option, opened, print_data, say, size
from panorama.cli.index_report import IndexTold
from panorama.cli.recording import named_parts, recording_options, recording_rule
from panorama.errors import ModelError
from panorama.indexing.profile import SETTING, Profile, named, profile_in
from panorama.library import Library
from panorama.lines import counted
from panorama.models.base import Embedder, Proposer


@click.command("index")
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--fps",
    type=float,
    default=None,
    help="Samples per second. Default: 5, or what `panorama tune` chose. Folders of pictures: every picture.",
)
@click.option("--every", type=int, default=None, help="Sample every N-th frame instead.")
@click.option("--quick", is_flag=True, help="Sample keyframes only: fast and coarse.")
@click.option(
    "--zoom",
    type=click.IntRange(1, MOST_ZOOM),
    default=None,
    help="Also look at N x N parts of each picture: finds smaller things, takes longer. Default: 1.",
)
@click.option(
    "--depth",
    type=click.IntRange(min=1),
    default=None,
    help="Embed with the first N exits only; queries compute deeper ones when needed. Default: all.",
)
@click.option(
    "--redo", is_flag=True, help="Index again what was indexed with other settings or by an earlier version."
)
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also list unchanged files, the networks' number formats and the time of each stage.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only what went wrong.")
@click.option("--model", default=None, help="Embedder of this library from now on. See: panorama models")
@click.option(
    "--proposer",
    default=None,
    help="Proposer (region detector) of this library from now on. See: panorama models",
)
@recording_options
@json_option
@click.pass_context
def index_command(
    ctx: click.Context,
    paths: tuple[str, ...],
    fps: float | None,
    every: int | None,
    quick: bool,
    zoom: int | None,
    depth: int | None,
    redo: bool,
    verbose: bool,
    quiet: bool,
    model: str | None,
    proposer: str | None,
    time_from: str | None,
    zone: str | None,
    camera_from: str | None,
    as_json: bool,
) -> None:
    """Index videos: files, folders (searched for videos) or globs.

    The library is created if it does not exist. Files that were indexed before and have not changed are
    skipped. --json writes one object per line, one for each file.

    Exit status: 0 done; 1 error; 2 usage; 3 some files could not be indexed, the others are done; 130
    interrupted, finished videos are kept; 141 done, but the reader of --json closed the pipe early.
    """
    if sum([fps is not None, every is not None, quick]) > 1:
        raise click.UsageError("give one of --fps, --every and --quick")
    if verbose and quiet:
        raise click.UsageError("--verbose and --quiet contradict each other: give one of them")
    told = IndexTold(as_json, verbose, quiet)
    library = opened(ctx, may_be_new=True)
    settings = named(_profile(library), fps, every, quick, zoom)
    recording = recording_rule(library, time_from, zone, camera_from)
    started = time.perf_counter()
    try:
        report = library.index(
            list(paths),
            settings=settings,
            depth=depth,
            model=model,
            proposer=proposer,
            recording=recording,
            redo=redo,
            hooks=told.hooks(),
            parts=[*named_parts(time_from, zone, camera_from)],
        )
    except KeyboardInterrupt:
        told.interrupted()
        raise
    told.ended(report, time.perf_counter() - started)
    if not report.complete:
        ctx.exit(INCOMPLETE)
    if told.reader_gone is not None:
        raise told.reader_gone


def _profile(library: Library) -> Profile:
    """The profile by which the library indexes new videos; the default if the library does not exist yet."""
    return profile_in({SETTING: library.setting(SETTING)}) if library.exists else Profile()


def _calibration(library: Library) -> str:
    """Whose calibration applies, or why that is unknown."""
    from panorama.answering.calibration import told  # loads the matching code, which `index` does not need

    try:
        return told(library.embedder, library.snapshot().settings if library.exists else {})
    except ModelError as exc:
        return f"unknown: {exc}"


def _model(load: Callable[[], Embedder | Proposer], folder: Path | None) -> dict[str, str | None]:
    """Name, hash and folder of a model that the library uses; only the folder if it cannot be loaded."""
    facts: dict[str, str | None] = {"folder": None if folder is None else str(folder)}
    try:
        model = load()
        return {"name": model.name, "hash": model.hash[:12], **facts}
    except ModelError:
        return {"name": None, "hash": None, **facts}


def _utc(unix: float) -> str:
    """A moment to the second."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


@click.command("info")
@json_option
@click.pass_context
def info_command(ctx: click.Context, as_json: bool) -> None:
    """Show what the library holds and how large it is."""
    library = opened(ctx)
    info, profile = library.info(), _profile(library)
    facts: dict[str, Any] = {
        "library": str(info.path),
        "schema_version": info.schema_version,
        "counts": dict(info.counts),
        "files": dict(info.files),
        "bytes": dict(info.bytes),
        "total": sum(info.bytes.values()),
        "embeddings": {f"{model[:12]} exit {exit}": n for (model, exit), n in info.embeddings.items()},
        # A list, since two models may have one name after a training.
        "models": [{"name": m.name, "hash": m.hash[:12]} for m in info.models],
        "embedder": _model(lambda: library.embedder, library.embedder_folder),
        "calibration": _calibration(library),
        "proposer": _model(lambda: library.proposer, library.proposer_folder),
        "profile": profile.as_dict() if as_json else profile.line(),
        "forgotten": [{"at": _utc(row.at_unix), "erased": row.detail} for row in info.erased],
    }
    if as_json:
        print_data(json.dumps(facts, indent=1))
        return
    facts["bytes"] = {name: size(count) for name, count in info.bytes.items()}
    facts["total"] = size(facts["total"])
    facts["models"] = ", ".join(" ".join(one.values()) for one in facts["models"])
    forgotten = facts.pop("forgotten")
    if forgotten:
        last = f"last at {forgotten[-1]['at']}: {forgotten[-1]['erased']}"
        facts["forgotten"] = f"{counted(len(forgotten), 'entity', 'entities')}, {last}"
    for kind in ("embedder", "proposer"):
        model = facts[kind]
        facts[kind] = " in ".join(filter(None, (model["name"] or "unknown", model["folder"])))
    for key, value in facts.items():
        shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        click.echo(f"{key}: {shown}")


@click.command("compact")
@click.pass_context
def compact_command(ctx: click.Context) -> None:
    """Merge many small data files into few large ones; answers stay the same.

    Deletes the data of videos that were removed more than ten minutes ago.
    """
    replaced = opened(ctx).compact()
    say(f"{counted(replaced, 'file')} merged")
