"""Commands about the album: register, entities, exemplars, rename, drop, forget."""

from __future__ import annotations

import itertools
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from panorama.album.entities import Entity
from panorama.album.forgetting import going_with
from panorama.cli.common import INCOMPLETE, confirmed, json_option, opened, print_rows, say, uris_of
from panorama.cli.given import FilePath, Seconds
from panorama.commands import command, command_of
from panorama.errors import NotYetErased, UnknownEntity, first_entity
from panorama.library import Library
from panorama.lines import counted
from panorama.store import Exemplar

NOT_THIS = "panorama.register.not_this"


class GreedyNot(click.Command):
    """Lets --not take all words up to the next option, as shells expand `--not lookalikes/*.jpg`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        taking = False
        for word in args:
            if word.startswith("-") and word != "-":
                taking = word == "--not"
                if not taking:
                    spread.append(word)
            elif taking:
                spread += ["--not", word]
            else:
                spread.append(word)
        # --not without an image applies to what --video, --track or --crop name.
        ctx.meta[NOT_THIS] = "--not" in args and "--not" not in spread
        return super().parse_args(ctx, spread)


def described(entity: Entity) -> str:
    """One line that describes an entity."""
    rivals = entity.negatives - entity.denied
    unlike = [counted(rivals, "look-alike")] if rivals else []
    unlike += [f"{entity.denied} denied"] if entity.denied else []
    *most, last = [counted(entity.exemplars, "example"), *unlike]
    kind = ", a category" if entity.category else ""
    return f"{entity.name}{kind}: {', '.join(most)}{' and ' if most else ''}{last}"


@click.command("register", cls=GreedyNot)
@click.argument("name", required=False)
@click.argument("images", nargs=-1)
@click.option(
    "--not",
    "unlike",
    multiple=True,
    metavar="IMAGE...",
    help="Pictures of look-alikes: what the entity is not.",
)
@click.option("--box", help="Cut x1,y1,x2,y2 (pixels) out of the image or video frame.")
@click.option("--find", is_flag=True, help="Cut the most likely thing out of each image.")
@click.option("--video", type=FilePath(), help="Take the example from this video, with --at and --box.")
@click.option("--at", "seconds", type=Seconds(), help="Seconds from the start of --video, or 1:23.5.")
@click.option("--frame", type=int, help="Frame number in --video, in place of --at.")
@click.option(
    "--track",
    "tracks",
    metavar="ID",
    multiple=True,
    help="Use a track of the library as an example: the track_id of a row.",
)
@click.option(
    "--crop",
    "crops",
    metavar="ID",
    multiple=True,
    help="Use a stored crop as an example: the crop_id of a row.",
)
@click.option("--known", is_flag=True, help="Only add to an existing entity; never create one.")
@click.option(
    "--skip-gone", is_flag=True, help="Skip tracks and crops that no longer exist or have changed since."
)
@click.option("--album", type=FilePath(), help="Register one entity for each subfolder of this folder.")
@click.option("--category", is_flag=True, help="The entity is a category, any of its kind (a species).")
@click.option("--instance", is_flag=True, help="The entity is one individual (the default).")
@click.pass_context
def register_command(
    ctx: click.Context,
    name: str | None,
    images: tuple[str, ...],
    unlike: tuple[str, ...],
    box: str | None,
    find: bool,
    video: str | None,
    seconds: float | None,
    frame: int | None,
    tracks: tuple[str, ...],
    crops: tuple[str, ...],
    known: bool,
    skip_gone: bool,
    album: str | None,
    category: bool,
    instance: bool,
) -> None:
    """Register an entity by example images: files, folders or globs.

    Answers include footage that was indexed before. An image should show the entity and little else; cut it
    out of a photograph with --box, or let --find do so.

    \b
    panorama register blue-van van1.jpg van2.jpg --not white-van.jpg
    panorama register blue-van photo.jpg --box 120,80,300,220
    panorama register blue-van photo.jpg --find
    panorama register blue-van --video gate.mp4 --at 12.5 --box 120,80,300,220
    panorama register badger --video traps/north/IMG_0003.JPG --box 120,80,300,220
    panorama register blue-van --track 8589934614
    panorama register blue-van --not --track 8589934615
    panorama register --album album/
    panorama register zebra zebras/ --category

    --box and --find cut out the examples, or the look-alikes if there are only these.

    --not without an image applies to what --video, --track or --crop names: a box of a video becomes a
    look-alike; a track or a crop is kept out of the answers, with what could be another picture of it.

    --category means that the examples stand for any of their kind: things that are less alike match too, and
    several at the same time. Without images it changes an existing entity.

    Commands copied from a review page use --known, so that an entity that was renamed or forgotten since is
    not created again. They write IDs with a checksum of the picture (8589934614:3f2a90c1) and refuse the ID
    when the library now holds another picture under it.
    """
    denied = ctx.meta[NOT_THIS]
    _check_together(ctx.params, denied)
    of_a_kind = category if category or instance else None
    library = opened(ctx)
    there = {entity.name for entity in library.entities()}
    if album is not None:
        for entity in library.register_album(album, category=of_a_kind):
            _report(entity, there)
        return
    assert name is not None
    rule = {"category": of_a_kind, "known": known or None}
    with _only_known(library, name) if known else nullcontext():
        if tracks or crops:
            entity = library.register_seen(
                name, track_ids=tracks, crop_ids=crops, look_alike=denied, skip_gone=skip_gone, **rule
            )
        elif video is not None:
            entity = library.register_from_video(
                name, video, seconds, box, frame=frame, look_alike=denied, **rule
            )
        elif of_a_kind is not None and not (images or unlike or box or find):
            entity = library.set_category(name, category)
        else:
            entity = library.register(name, images, unlike=unlike, box=box, find=find, **rule)
    _report(entity, there)
    if find:
        sheet = _free_name(library)
        say(f"to look at what was cut out: {command_of('exemplars', entity.name, f'--sheet {sheet}')}")


def _free_name(library: Library) -> str:
    """A name for a sheet that is not the file of an example."""
    names = itertools.chain(["examples.jpg"], (f"examples-{number}.jpg" for number in itertools.count(2)))
    return next(name for name in names if _shown_by(library, Path(name)) is None)


def _shown_by(library: Library, path: Path) -> str | None:
    """The entity of which a file is an example, as far as the names of examples tell it from here."""
    if not path.exists():
        return None
    for entity in library.entities():
        for exemplar in library.exemplars(entity.name):
            whole = exemplar.source.rpartition(" [")[0]  # of a part
            if _is_same(path, Path(exemplar.source)) or (whole and _is_same(path, Path(whole))):
                return entity.name
    return None


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # not there, or no name of a file
        return False


def _check_together(given: Mapping[str, Any], denied: bool) -> None:
    """Refuse arguments of `register` that contradict each other or are incomplete.

    Args:
        given: the arguments, by their names in `register_command`.
        denied: whether --not has no image.
    """
    if given["category"] and given["instance"]:
        raise click.UsageError("--category and --instance contradict each other: give one of them")
    name, video = given["name"], given["video"]
    seen = given["tracks"] or given["crops"]
    pictures = given["images"] or given["unlike"] or given["find"]
    if given["album"] is not None:
        if name or pictures or given["box"] or video or seen or denied or given["known"]:
            raise click.UsageError("--album takes no name or picture: its subfolders name the entities")
        return
    if name is None:
        raise click.UsageError(f"name the entity: {command('register', 'NAME', 'IMAGE...')}")
    alone = not (pictures or video or seen or given["box"] or given["category"] or given["instance"])
    for kind, is_one in (("file", os.path.isfile), ("folder", os.path.isdir)):  # Path's raise for odd names
        if is_one(name) and (alone or kind == "file"):
            raise click.UsageError(
                f"{name} is a {kind}: name the entity first, {command('register', 'NAME', 'IMAGE...')}"
            )
    if video is None and (given["seconds"], given["frame"]) != (None, None):
        raise click.UsageError(
            "an example from a video takes all three: --video FILE --at SECONDS --box x1,y1,x2,y2"
        )
    if denied and not (video or seen):
        raise click.UsageError("--not needs at least one image, or --video, --track or --crop")
    if given["skip_gone"] and not seen:
        raise click.UsageError("--skip-gone goes with --track and --crop")
    if seen and (pictures or video or given["box"]):
        raise click.UsageError("--track and --crop take stored crops; register images separately")
    if video is not None and pictures:
        raise click.UsageError("--video takes one example from one frame; register images separately")


@contextmanager
def _only_known(library: Library, name: str) -> Iterator[None]:
    """Raise UnknownEntity if there is no such entity, with similar names and what may have become of it.

    It is looked up before any picture is read. Another process may drop it before they are added.
    """
    try:
        library.entity(name)
        yield
    except UnknownEntity as exc:
        raise UnknownEntity(
            f"{exc}; it was renamed, dropped or forgotten, and --known registers no new entity:"
            " give its new name, or leave out --known"
        ) from exc


def _report(entity: Entity, there: Container[str]) -> None:
    """Print what an entity has now, and whether it is new: `there` are the names from before."""
    say(described(entity) if entity.name in there else f"new entity {described(entity)}")
    for warning in entity.warnings:
        say(warning)


@click.command("entities")
@json_option
@click.pass_context
def entities_command(ctx: click.Context, as_json: bool) -> None:
    """List the registered entities."""
    known = opened(ctx).entities()
    shown = [e.category if as_json else "yes" if e.category else "" for e in known]
    rows = [[e.name, e.exemplars, e.negatives, kind] for e, kind in zip(known, shown, strict=True)]
    print_rows(["entity", "exemplars", "negatives", "category"], rows, as_json)
    if not known:
        say(first_entity())


@click.command("exemplars")
@click.argument("name")
@click.option(
    "--remove",
    "remove",
    type=int,
    multiple=True,
    help="Remove the picture with this number; repeat for more.",
)
@click.option("--sheet", type=FilePath(dir_okay=False), help="Draw the pictures, as registered, into a file.")
@json_option
@click.pass_context
def exemplars_command(
    ctx: click.Context, name: str, remove: tuple[int, ...], sheet: str | None, as_json: bool
) -> None:
    """List the example pictures of an entity, show them, or remove some of them.

    \b
    panorama exemplars blue-van --sheet van.jpg
    panorama exemplars blue-van --remove 12
    """
    library = opened(ctx)
    if sheet is not None:
        from panorama.picture_files import check_picture  # loads OpenCV, which other commands do without

        check_picture(Path(sheet), uris_of(library))
        if (shown := _shown_by(library, Path(sheet))) is not None:
            raise click.UsageError(
                f"{sheet} is the file of an example of {shown}, which a sheet would replace; name another"
            )
    known = {e.exemplar_id: e for e in library.exemplars(name)}
    for number in remove:
        if number not in known:
            choices = ", ".join(map(str, known)) or "none"
            raise click.UsageError(f"{name} has no exemplar {number}; it has {choices}")
    library.remove_exemplars(remove)
    for number in dict.fromkeys(remove):
        say(f"removed exemplar {number} of {name}")
    left = library.exemplars(name)
    rows = [[e.exemplar_id, e.kind, f"{e.width}x{e.height}", e.source] for e in left]
    print_rows(["exemplar", "kind", "size", "source"], rows, as_json)
    if sheet is not None and not _draw(left, sheet):
        ctx.exit(INCOMPLETE)


def _draw(exemplars: Sequence[Exemplar], sheet: str) -> bool:
    """Write the sheet, and say how much is on it; returns whether that is all."""
    from panorama.shown.album_sheet import write_album_sheet

    drawn = write_album_sheet(exemplars, Path(sheet))
    for line in (*drawn.warnings, *drawn.failed):
        say(line)
    say(f"{drawn.drawn} of {counted(len(exemplars), 'picture')} drawn in {sheet}")
    return not drawn.failed


@click.command("rename")
@click.argument("name")
@click.argument("new")
@click.pass_context
def rename_command(ctx: click.Context, name: str, new: str) -> None:
    """Rename an entity."""
    library = opened(ctx)
    before = library.entity(name).name
    library.rename(name, new)
    say(f"{before} is now {library.entity(new).name}")  # both names as they are stored


@click.command("drop")
@click.argument("names", nargs=-1, required=True)
@click.option(
    "--yes", is_flag=True, expose_value=False, help="Taken as by remove and forget; drop never asks."
)
@click.pass_context
def drop_command(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Unregister entities; the footage stays indexed."""
    library = opened(ctx)
    known = [library.entity(name).name for name in names]  # all or none: an unknown name must drop nothing
    for name in dict.fromkeys(known):
        library.drop(name)
        say(f"dropped {name}")


@click.command("forget")
@click.argument("name")
@click.option("--with-sightings", is_flag=True, help="Also erase the stored crops that show it.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def forget_command(ctx: click.Context, name: str, with_sightings: bool, yes: bool) -> None:
    """Erase an entity for good: its examples, vectors, pictures and cached sightings.

    An audit record without its name stays. --with-sightings also erases the stored crops of all tracks that
    are accepted as this entity, and crops of other tracks, also of other entities, that show the same place
    at the same time. Other uncertain tracks stay. Before it asks, the command says how many there are of each
    and how to see them.

    If another program is reading the library, or the disk is full, some bytes may be left. The command then
    says so and exits with status 3; `panorama compact` erases them.
    """
    library = opened(ctx)
    library.entity(name)
    if not yes:
        seen = going_with(library, name, with_sightings)
        for line in () if seen is None else seen.before():
            say(line)
        if not confirmed(f"Erase {name} for good?", "nothing was erased", "erases"):
            ctx.exit(1)
    left = None
    try:
        seen = library.forget(name, with_sightings=with_sightings)
    except NotYetErased as exc:
        seen, left = exc.seen, exc
    crops = "" if seen is None else f", and the stored pictures of {counted(len(seen.accepted), 'track')}"
    say(f"forgot {name}{crops}")
    for line in () if seen is None else seen.after():
        say(line)
    if left is not None:
        say(str(left))
        ctx.exit(left.exit_status)
