"""The command `demo`: index, register and query, on a sample archive drawn here or on a video of the user."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import click

from panorama.album.recurring import most_recurrent
from panorama.cameras.naming import METADATA
from panorama.cameras.recording_rule import RecordingRule
from panorama.cli.album import described
from panorama.cli.common import say
from panorama.cli.given import FilePath
from panorama.cli.index_report import NO_VIDEO
from panorama.cli.progress import ProgressLine
from panorama.content import content_dir
from panorama.errors import VideoError
from panorama.folders import is_gone
from panorama.indexing.outcomes import INDEXED, SKIPPED, Hooks
from panorama.library import Library
from panorama.lines import clock, counted, shell_word
from panorama.opening import open_library
from panorama.shown.hits import hits_of
from panorama.shown.sheet import write_sheet

EXAMPLE = "most-seen"
"""The name under which `demo VIDEO` registers the entity that it chose."""

LONGEST_STEM = 200
"""Bytes of a video's name that are taken as they are; of a longer one a quarter as many characters."""

SAMPLE_RECORDED = RecordingRule(METADATA, "Europe/Berlin")
"""The sample's clips hold their recording times; its cameras are in Berlin."""


@click.command("demo")
@click.argument("video", required=False, type=FilePath())
@click.option(
    "--folder", type=FilePath(file_okay=False), default="panorama-demo", show_default=True,
    help="Folder for the library and the contact sheet, which are named after VIDEO if there is one.",
)  # fmt: skip
@click.option(
    "--sample",
    type=FilePath(file_okay=False),
    help="Folder to draw the sample archive into. Default: FOLDER/sample.",
)
@click.pass_context
def demo_command(ctx: click.Context, video: str | None, folder: str, sample: str | None) -> None:
    """Index, register and query: a sample archive, or VIDEO with its most recurrent entity as the example.

    It makes a library of its own below FOLDER, and says how to ask it more.
    """
    if ctx.find_root().obj["library"]:
        raise click.UsageError("demo makes its own library: choose its place with --folder, not --library")
    place = Path(folder)
    if video is not None:
        _own_video(Path(video), place)
    else:
        _sample(place, Path(sample) if sample else place / "sample")


def _sample(place: Path, where: Path) -> None:
    say("drawing the sample archive (about a minute, once) ...")
    sample = renderer().render(where)
    with open_library(place / "library", create=True) as library:
        _index(library, sample.archive, SAMPLE_RECORDED)
        for entity in library.register_album(sample.album):
            looks_like = sample.lookalikes / entity.name
            entity = library.register(entity.name, unlike=[looks_like]) if looks_like.is_dir() else entity
            say(f"registered {described(entity)}")
        zones = library.zones.load(content_dir("data") / "scenery" / "zones.json")
        say(f"zones and lines: {', '.join(f'{zone.name} of {zone.camera}' for zone in zones)}")
        for path in sorted(content_dir("queries").glob("*.sql")):
            sql = path.read_text(encoding="utf-8")
            click.echo(f"\n{path.name}: {question(sql)}")
            result = library.query(sql)
            click.echo(result.to_table(8))
            if result.uncertain:
                click.echo(f"({counted(result.uncertain, 'track')} uncertain)")
        names = [entity.name for entity in library.entities()]
        _sheet(library, names, place / "contact-sheet.jpg")
        _go_on(library, names[0], place)


def _own_video(video: Path, place: Path) -> None:
    if is_gone(video):
        raise VideoError(f"there is no file {video}; name a video, or none to see the sample archive")
    # Each video has its own library, so that what recurs in other videos does not count.
    own = _told_apart(video)
    with open_library(place / f"library-{own}", create=True) as library:
        _index(library, video)
        if EXAMPLE in {entity.name for entity in library.entities()}:
            library.drop(EXAMPLE)
        found = most_recurrent(library)
        if found is None:
            raise VideoError(f"nothing in {video} could be tracked; try another video")
        library.register(EXAMPLE, [library.crop(found.crop_id)])
        often = f"{counted(found.appearances, 'time')}, {found.seconds:.1f} s in all"
        say(f"chose what appears most often ({often}) and registered it as {EXAMPLE!r}")
        sql = f"SELECT moments WHERE entity = '{EXAMPLE}'"
        click.echo(f"\n{sql}")
        result = library.query(sql)
        click.echo(result.to_table())
        total = sum(row["end_time"] - row["start_time"] for row in result)
        uncertain = counted(result.uncertain, "track")
        click.echo(f"{counted(len(result), 'moment')}, {clock(total)} in all, {uncertain} uncertain")
        _sheet(library, [EXAMPLE], place / f"contact-sheet-{own}.jpg")
        _go_on(library, EXAMPLE, place)


def _told_apart(video: Path) -> str:
    """What tells names for one video apart: one may have 255 bytes, and that of the video may take all."""
    stem = video.stem if len(os.fsencode(video.stem)) <= LONGEST_STEM else video.stem[: LONGEST_STEM // 4]
    home = hashlib.sha256(os.fsencode(video.resolve())).hexdigest()[:8]
    return f"{stem}-{home}"


def _go_on(library: Library, name: str, place: Path) -> None:
    """Print commands to continue with, ready to be copied."""
    ours = f"panorama --library {shell_word(str(library.path))}"
    sheet = shell_word(str(place / "hits.jpg"))
    sql = f"SELECT tracks WHERE entity = '{name}' AND score >= 0 ORDER BY score DESC LIMIT 20"
    say("")
    say("what to try next, for example:")
    say(f'  {ours} query "{sql}" --sheet {sheet}')
    say(f"  {ours} register NAME PICTURE...")
    say(f"  {ours} videos")


def _index(library: Library, path: Path, recording: RecordingRule | None = None) -> None:
    line = ProgressLine(quiet=False)
    report = library.index(path, recording=recording, hooks=Hooks(line.start, line.progress, line.done))
    if report.empty:
        raise VideoError(f"{path} {NO_VIDEO}")
    if not (report.of(INDEXED) or report.of(SKIPPED)):
        raise VideoError(f"{path} could not be indexed; see above")


def _sheet(library: Library, names: list[str], out: Path) -> None:
    paths = {row["video"]: row["uri"] for row in library.videos().to_pylist()}
    hits = []
    for name in names:
        result = library.query("SELECT frames WHERE entity = ?", [name])
        hits += hits_of(result.columns, result.arrow().to_pylist())
    report = write_sheet(hits, paths, out, limit=4 * len(names) if len(names) > 1 else 16)
    say("")
    for line in report.warnings:
        say(line)
    say(f"contact sheet of {counted(report.drawn, 'hit')}: {out}")


def question(sql: str) -> str:
    """The question in the header of a query file; '' if it has none."""
    for line in sql.splitlines():
        text = line.removeprefix("--").strip()
        if line.startswith("--") and text.startswith("question:"):
            return text.removeprefix("question:").strip()
    return ""


def renderer() -> ModuleType:
    """The module data/render.py, which draws the sample archive."""
    path = content_dir("data") / "render.py"
    name = "panorama_sample_render"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
