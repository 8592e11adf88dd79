"""The command `why`: a track and an entity come in; what decided goes out as text, JSON and a picture."""

from __future__ import annotations

import json
from pathlib import Path

import click

from panorama.cli.common import json_option, opened, print_data, print_rows, say, uris_of
from panorama.cli.given import FilePath, Seconds
from panorama.commands import command, command_of
from panorama.lines import counted, one_line
from panorama.picture_files import check_picture
from panorama.query.text.quoting import quote_text
from panorama.shown.why import ONE_WAY, Why
from panorama.shown.why_picture import write_why


@click.command("why")
@click.argument("entity")
@click.argument("video", required=False)
@click.option("--at", "seconds", type=Seconds(), help="Seconds from the start of the video, or 1:23.5.")
@click.option("--frame", type=int, help="Frame number in the video.")
@click.option("--track", "track_id", metavar="ID", help="The track_id of a row.")
@click.option("--crop", "crop_id", metavar="ID", help="The crop_id of a row.")
@click.option("--out", type=FilePath(dir_okay=False), help="Write an explaining picture to this file.")
@json_option
@click.pass_context
def why_command(
    ctx: click.Context,
    entity: str,
    video: str | None,
    seconds: float | None,
    frame: int | None,
    track_id: str | None,
    crop_id: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Explain why a track was accepted for an entity, or why not: scores, thresholds, the next best entity.

    \b
    panorama why blue-van gate/morning.mp4 --at 2.5 --out why.jpg
    panorama why blue-van --track 8589934614
    panorama why badger traps/north/IMG_0003.JPG
    """
    placed = seconds is not None or frame is not None
    ways = sum(way is not None for way in (seconds, frame, track_id, crop_id))
    if ways > 1 or (video is None and (placed or not ways)):
        raise click.UsageError(ONE_WAY)
    library = opened(ctx)
    if out is not None:
        check_picture(Path(out), uris_of(library))
    why = library.why(entity, video, seconds=seconds, frame=frame, track_id=track_id, crop_id=crop_id)
    if out is not None:  # before the text: its reader may leave early (`| head`)
        for line in write_why(why, Path(out)):
            say(line)
    if as_json:
        print_data(json.dumps(why.as_dict(), indent=1, ensure_ascii=False))
    else:
        print_why(why, _at(seconds, why.asked_frame))
    if out is not None:
        say(f"picture written to {out}")


def _at(seconds: float | None, frame: int | None) -> str:
    """The condition that the tracks at a place fulfil; '' if it was named in another way."""
    if frame is not None:
        return f"start_frame <= {frame} AND end_frame > {frame}"
    return "" if seconds is None else f"time = {seconds}"


def print_why(why: Why, at: str = "") -> None:
    """Print an explanation; names in it may contain line ends and terminal codes, so lines are cleaned.

    Args:
        at: the condition that the tracks at the place fulfil, if the place may have several.
    """
    click.echo(one_line(f"{why.entity}  {why.video}  {why.span}  track {why.track_id}"))
    click.echo(one_line(why.reason))
    click.echo()
    named = {"example": why.exemplar, "next best": why.runner_up, "look-alike": why.look_alike,
             "denied": why.denied}  # fmt: skip
    rows = [
        [kind, found.entity, found.source, f"{found.similarity:.3f}", _score(found.score), found.band]
        for kind, found in named.items()
        if found is not None
    ]
    print_rows(["album", "entity", "picture", "similarity", "score", "band"], rows, False)
    click.echo()
    steps = [[s.exit, *map(_score, (s.score, s.low, max(s.high, s.floor))), s.band] for s in why.steps]
    print_rows(["exit", "score", "rejected below", "accepted from", "band"], steps, False)
    click.echo()
    click.echo(one_line(f"best crop {why.crop_id}, {why.crop_place}"))
    exits = f"{counted(why.exits, 'exit')}, depths of the network at which it may decide"
    click.echo(f"model {why.model} {why.model_hash[:12]}; {exits}")
    if why.tracks_there > 1:
        click.echo(one_line(f"{why.tracks_there} tracks are there; this one fits best{_all_there(why, at)}"))
    click.echo(one_line(_advice(why)))


def _all_there(why: Why, at: str) -> str:
    """How to see every track of the place: if none is accepted, the one that fits best may be anything."""
    if not at or why.band == "accepted":
        return ""
    sql = f"SELECT tracks WHERE video = {quote_text(why.video)} AND {at}"
    sheet = command("query", sql, "--sheet", "there.jpg")
    closer = command("index", "--zoom", "2", "VIDEO")
    return (
        f", which may be something else than you mean. To see them all: {sheet}. What none of them shows was"
        f" not found while indexing; to look closer: {closer}"
    )


def _advice(why: Why) -> str:
    """What to do if the decision is wrong or open. To confirm what is accepted anyway would gain nothing."""
    yes = f"if it is {why.entity}: {command_of('register', why.entity, f'--track {why.track_id}')}"
    no = f"if it is not {why.entity}: {command_of('register', why.entity, f'--not --track {why.track_id}')}"
    return {"accepted": no, "rejected": yes}.get(why.band, f"{yes}; {no}")


def _score(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
