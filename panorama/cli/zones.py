"""The command `zones`: named shapes of the cameras, as SQL's inside() and crosses() use them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import click

from panorama.cli.common import json_option, opened, print_data, print_rows, say, uris_of
from panorama.cli.given import FilePath, Seconds
from panorama.lettering import lettering_remarks
from panorama.lines import some
from panorama.store import EVERY_CAMERA, Zone
from panorama.store.catalog.zones import of_camera
from panorama.store.files.outputs import JSON, check_output, whole_file
from panorama.zones import orphan_remarks

_camera_option = click.option("--camera", help="The camera. Default: every camera.")


def _told(zone: Zone) -> str:
    whose = "every camera" if zone.camera == EVERY_CAMERA else zone.camera
    return f"{zone.kind} {zone.name} of {whose}: {len(zone.points_xy)} points"


@click.group("zones", invoke_without_command=True)
@click.pass_context
def zones_command(ctx: click.Context) -> None:
    """Zones (polygons) and lines of the cameras, for inside('zone') and crosses('line') in SQL.

    \b
    panorama zones add lawn --camera gate --points "0%,60% 100%,60% 100%,100% 0%,100%"
    panorama zones add kerb --camera gate --line --points "0,260 640,260"
    panorama zones show --camera gate --out zones.png
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command, as_json=False)


@zones_command.command("add")
@click.argument("name")
@click.option("--points", required=True, help="x,y x,y ...: percent of the frame (10%,50%) or pixels of it.")
@click.option("--line", is_flag=True, help="Add a line instead of a zone. Crossing it to its right is 'in'.")
@_camera_option
@click.option(
    "--size", metavar="WIDTHxHEIGHT", help="Frame size that pixel points refer to. Default: the videos'."
)
@click.pass_context
def add_command(
    ctx: click.Context, name: str, points: str, line: bool, camera: str | None, size: str | None
) -> None:
    """Add a zone or a line, or replace the one of that name."""
    pixels = None
    if size is not None:
        found = re.fullmatch(r"([1-9]\d*)[x×]([1-9]\d*)", size.strip())
        if found is None:
            raise click.UsageError(f"--size is WIDTHxHEIGHT, as in 640x360, got {size!r}")
        pixels = (int(found[1]), int(found[2]))
    zones = opened(ctx).zones
    kind = "line" if line else "zone"
    say(_told(zones.add(name, points, camera=camera or EVERY_CAMERA, kind=kind, size=pixels)))


@zones_command.command("list")
@json_option
@click.pass_context
def list_command(ctx: click.Context, as_json: bool) -> None:
    """List the shapes; points are percent of the frame."""
    rows = []
    zones = opened(ctx).zones
    for zone in zones:
        points = " ".join(f"{x:.4g}%,{y:.4g}%" for x, y in ((100 * x, 100 * y) for x, y in zone.points_xy))
        rows.append([zone.camera, zone.name, zone.kind, points])
    print_rows(["camera", "name", "kind", "points"], rows, as_json)
    for text in orphan_remarks(zones):
        say(text)


@zones_command.command("show", short_help="Draw the shapes of a camera on a frame of it.")
@click.option("--out", default="zones.png", show_default=True, help="The picture to write.")
@click.option("--camera", help="The camera; required if there are several.")
@click.option("--video", help="A video of the library, by name or path. Default: the camera's first.")
@click.option("--at", "seconds", type=Seconds(), default=0.0, help="Seconds from its start, or 1:23.5.")
@click.pass_context
def show_command(ctx: click.Context, out: str, camera: str | None, video: str | None, seconds: float) -> None:
    """Draw the shapes of a camera on a frame of it; arrows show which way across a line is 'in'."""
    shown = opened(ctx).zones.draw(out, camera=camera, video=video, seconds=seconds)
    for line in lettering_remarks(zone.name for zone in shown):
        say(line)
    say(f"{out}: {', '.join(zone.name for zone in shown) or 'no shape'}")


@zones_command.command("rename")
@click.argument("name")
@click.argument("new")
@click.option("--camera", help="Only of this camera.")
@click.pass_context
def rename_command(ctx: click.Context, name: str, new: str, camera: str | None) -> None:
    """Rename a shape."""
    cameras = opened(ctx).zones.rename(name, new, camera)
    say(f"{name} of {_whose(cameras)} is now {new}")


@zones_command.command("move")
@click.argument("name")
@click.option("--to", required=True, help="The new camera; '' for every camera.")
@click.option("--camera", help="The present camera; required if several have a shape of this name.")
@click.pass_context
def move_command(ctx: click.Context, name: str, to: str, camera: str | None) -> None:
    """Move a shape to another camera.

    For example after a camera was renamed.
    """
    opened(ctx).zones.move(name, to, camera)
    say(f"{name} now belongs to {of_camera(to)}")


@zones_command.command("drop")
@click.argument("name")
@click.option("--camera", help="Only of this camera.")
@click.pass_context
def drop_command(ctx: click.Context, name: str, camera: str | None) -> None:
    """Remove a shape."""
    cameras = opened(ctx).zones.drop(name, camera)
    say(f"dropped {name} of {_whose(cameras)}")


def _whose(cameras: Sequence[str]) -> str:
    """The cameras whose shapes were changed, for a message."""
    shown = some(list(map(of_camera, cameras)))
    return shown if len(cameras) == 1 else f"{len(cameras)} cameras: {shown}"


@zones_command.command("export", short_help="Write all shapes as JSON.")
@click.argument("file", required=False, type=FilePath(dir_okay=False))
@click.option("--out", type=FilePath(dir_okay=False), help="The same as FILE.")
@click.pass_context
def export_command(ctx: click.Context, file: str | None, out: str | None) -> None:
    """Write all shapes as JSON, to FILE or to stdout; points are shares of the frame, 0 to 1."""
    if None not in (file, out):
        raise click.UsageError("FILE and --out are the same: give one of them")
    file = file if out is None else out
    library = opened(ctx)
    text = json.dumps(library.zones.to_json(), indent=1, ensure_ascii=False)
    if file is None:
        print_data(text)
        return
    check_output(Path(file), JSON, what="a file of shapes", videos=uris_of(library))
    with whole_file(Path(file)) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


@zones_command.command("import", short_help="Read shapes from JSON; all or none.")
@click.argument("file", type=FilePath(dir_okay=False))
@click.option("--camera", help="Camera of shapes that name none. Default: every camera.")
@click.pass_context
def import_command(ctx: click.Context, file: str, camera: str | None) -> None:
    """Read shapes from JSON, as `zones export` or labelme write it; all or none."""
    for zone in opened(ctx).zones.load(file, camera):
        say(_told(zone))
