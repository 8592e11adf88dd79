"""Commands that ask: query, verify, why."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import click

from panorama.answering import entity_statement
from panorama.cli.common import Seconds, json_option, opened, print_rows, say, size
from panorama.cli.limits import kept
from panorama.errors import LibraryWriteError, PanoramaError, QueryError, UnknownEntity
from panorama.library import Library
from panorama.lines import clock, counted, one_line
from panorama.listed_videos import replaced_remarks
from panorama.page.document import MOST, check_page_suffix, write_page
from panorama.query.dialect import tokenize
from panorama.query.relations import Limits
from panorama.query.result import Result
from panorama.sheet import check_sheet_suffix, hits_of, write_clips, write_sheet
from panorama.track_boxes import TrackBoxes
from panorama.why import Why
from panorama.why_picture import write_why

STDIN = "-"
"""The name of standard input, as an argument and as a file."""


class SqlCommand(click.Command):
    """Takes SQL that begins with a comment for SQL, not for an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if _is_comment(word) else word for word in args])


def _is_comment(word: str) -> bool:
    return word.startswith("--") and (word[2:3].isspace() or "\n" in word)


@click.command("query", cls=SqlCommand)
@click.argument("sql", nargs=-1)
@click.option(
    "-f", "--file", "files", multiple=True, type=click.Path(),
    help="Read the SQL from files; - is standard input.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv", "parquet"]), default=None,
    help="Default: table, or what the suffix of --out says.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Write the rows to this file; - is standard output."
)
@click.option("--clips", type=click.Path(file_okay=False), help="Write a video clip of each stretch of hits.")
@click.option("--sheet", type=click.Path(dir_okay=False), help="Write a contact sheet of the hits.")
@click.option("--page", type=click.Path(dir_okay=False), help="Write an HTML page to review the hits by.")
@click.option(
    "--page-hits", type=click.IntRange(min=1), default=MOST, show_default=True,
    help="At most so many hits on the page; all rows of a track are one.",
)  # fmt: skip
@click.option("--timeout", type=float, default=None, help="Give up after so many seconds.")
@click.option("--memory", default=None, help="Give up where more memory is needed: 500MB, 4GB.")
@click.pass_context
def query_command(
    ctx: click.Context,
    sql: tuple[str, ...],
    files: tuple[str, ...],
    form: str | None,
    as_json: bool,
    out: str | None,
    clips: str | None,
    sheet: str | None,
    page: str | None,
    page_hits: int,
    timeout: float | None,
    memory: str | None,
) -> None:
    """Answer SQL. JSON is an array of objects on stdout and nothing else; remarks go to stderr.
    Several queries give JSON Lines: one such array, on one line, for each.

    \b
    panorama query "SELECT frames WHERE entity = 'blue-van' AND video LIKE 'gate/%'"
    panorama query "SELECT moments WHERE entity = 'blue-van'" --sheet hits.jpg
    panorama query "SELECT tracks WHERE entity = 'blue-van' AND band <> 'rejected'" --page review.html
    panorama query -f queries/01-where-is.sql --format json
    panorama query -f first.sql second.sql
    panorama query - < first.sql
    """
    texts = _texts(sql, files)
    asked = [statement for text, path in texts for statement in _checked(text, path)]
    if len(asked) > 1 and (out or clips or sheet or page):
        raise click.UsageError(
            f"--out, --clips, --sheet and --page go with one query, there are {len(asked)}"
        )
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} are two things; give one of them")
    out = None if out == "-" else out
    form = _format("json" if as_json else form, out)
    if sheet is not None:
        check_sheet_suffix(Path(sheet))
    if page is not None:
        check_page_suffix(Path(page))
    limits = Limits(seconds=timeout, memory=memory)
    library = opened(ctx)
    for number, result in enumerate(answers(library, asked, limits)):
        if number and form == "table":
            click.echo()
        _show(result, form, out, on_a_line=len(asked) > 1)
        for warning in result.warnings:
            say(warning)
        if result.uncertain:
            uncertain = counted(result.uncertain, "track is", "tracks are")
            say(f"{uncertain} uncertain; see with: {shows_uncertain(asked[number].sql)}")
        told = _pictures(library, result, sheet, clips) if sheet or clips else ()
        if page:
            _page(ctx, library, result, Path(page), page_hits, told)


def shows_uncertain(sql: str) -> str:
    """What shows the tracks that a statement left uncertain."""
    words = re.sub(r"'[^']*'", "''", sql)
    asks = re.search(r"\bSELECT\s+(frames|moments|tracks|crops)\b(?!\s+FROM)", words, re.IGNORECASE)
    alone = re.search(r"\bentity\b", words, re.IGNORECASE) and not re.search(
        _OF_SEVERAL, words, re.IGNORECASE
    )
    if not (asks and alone):  # relations hold what was accepted, and what several tracks make has no band
        return "SELECT tracks WHERE band = 'uncertain'"
    if promise := re.search(r"\bWITH\s+(PRECISION|RECALL)\b", words, re.IGNORECASE):
        # It decides by borders of its own.
        return f"AND band = 'uncertain', instead of WITH {promise[1].upper()}"
    # Behind an OR it would go with the last alternative alone.
    has_or = re.search(r"\bOR\b", words, re.IGNORECASE)
    return f"AND band = 'uncertain'{', with the OR before it in brackets' if has_or else ''}"


def _texts(sql: tuple[str, ...], files: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """The SQL that a command line gives, each text with the file to name in its errors, if there are several.

    Raises:
        UsageError: it gives none, or SQL beside files.
        QueryError: a file cannot be read.
    """
    if not files and len(sql) != 1:
        raise click.UsageError(
            'give the SQL as one argument, panorama query "SELECT ...", in files with -f,'
            " or as - on standard input"
        )
    if not files and sql != (STDIN,):
        if sql[0].endswith(".sql") and _is_file(sql[0]):
            raise click.UsageError(f"{sql[0]} is a file: panorama query -f {sql[0]}")
        return [(sql[0], None)]
    named = (*files, *sql)
    unread = [word for word in sql if word != STDIN and not _is_file(word)]
    if unread:
        raise click.UsageError(f"after -f stand files; there is none named {unread[0]!r}")
    if named.count(STDIN) > 1:
        raise click.UsageError("standard input can be read once; name - once")
    called = ["standard input" if name == STDIN else name for name in named]
    # One file needs no name in its errors.
    return [(_read(n, c), c if len(named) > 1 else None) for n, c in zip(named, called, strict=True)]


def _is_file(word: str) -> bool:
    try:
        return Path(word).is_file()
    except OSError:  # longer than a name can be, as SQL is
        return False


def _read(name: str, called: str) -> str:
    """The text of a file, or of standard input."""
    if name == STDIN and sys.stdin is None:
        raise QueryError("standard input is closed; there is no SQL to read")
    try:
        data = sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
        # Editors of some systems begin a file with a mark that is no part of it.
        return data.decode("utf-8-sig")
    except FileNotFoundError as exc:
        raise QueryError(f"there is no file {called!r}; after -f stand files of SQL") from exc
    except UnicodeDecodeError as exc:
        raise QueryError(f"{called} is no text in UTF-8, so no SQL") from exc
    except OSError as exc:
        raise QueryError(f"{called} cannot be read: {exc.strerror}") from exc


def _checked(text: str, path: str | None) -> list[Statement]:
    """The statements of a text, those about entities read; an error names the file."""
    try:
        found = [replace(statement, path=path) for statement in statements(text)]
    except QueryError as exc:
        raise _in_file(exc, path) from None
    for statement in found:
        with _placed([statement], statement):
            entity_statement(statement.sql, None)
    return found


def _in_file(error: PanoramaError, path: str | None) -> PanoramaError:
    """The error with the file that it is in before its message."""
    if path is not None:
        error.args = (f"{path}: {error.args[0]}", *error.args[1:])
    return error


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text, from `start` on; `path` is the file that holds the text, if one does."""

    text: str
    start: int
    sql: str
    path: str | None = None

    @property
    def is_query(self) -> bool:
        """Whether it only asks; statements about entities change what later ones see."""
        return entity_statement(self.sql, None) is None


def answers(library: Library, asked: Sequence[Statement], limits: Limits) -> Iterator[Result]:
    """The answers in order; queries that follow each other are matched together."""
    for is_query, group in groupby(asked, lambda statement: statement.is_query):
        some = list(group)
        sqls = [statement.sql for statement in some]
        if is_query:
            results = library.query_each(sqls, limits=limits)
        else:
            results = (library.query(sql, limits=limits) for sql in sqls)
        for statement in some:
            # What is matched for all of them is matched with the first.
            times = len(some) if statement is some[0] else 1
            seconds = None if limits.seconds is None else limits.seconds * times
            with kept(replace(limits, seconds=seconds)), _placed(some, statement):
                result = next(results)
            yield result


@contextmanager
def _placed(asked: Sequence[Statement], current: Statement) -> Iterator[None]:
    """An error of a statement names its file and points into the whole text that it stands in."""
    try:
        yield
    except PanoramaError as exc:
        # What is matched for all of them may fail for another one than the current.
        sql = exc.sql if isinstance(exc, (QueryError, UnknownEntity)) else None
        statement = next((s for s in asked if s.sql == sql), current)
        if isinstance(exc, QueryError) and exc.sql == statement.sql and exc.position is not None:
            exc.sql, exc.position = statement.text, exc.position + statement.start
        _in_file(exc, statement.path)
        raise


def statements(text: str) -> list[Statement]:
    """The statements of a text, split at semicolons, without the comments around them.

    Raises:
        QueryError: a string, a quoted name or a comment does not end.
    """
    found: list[Statement] = []
    first = None
    tokens = tokenize(text)
    for token in tokens:
        if text[token.start] == ";":
            if first is not None:
                found.append(Statement(text, first, text[first : token.start]))
            first = None
        elif first is None:
            first = token.start
    if first is not None:
        found.append(Statement(text, first, text[first : tokens[-1].end + 1]))
    return found or [Statement(text, 0, text)]


_OF_SEVERAL = r"\b(NOT[\s(]+entity|FOLLOWED\s+BY|BEFORE|DURING|OVERLAPS)\b"
_FORMS = {"": "table", ".txt": "table", ".csv": "csv", ".json": "json", ".parquet": "parquet"}
_ANY_TEXT = ("", ".txt")


def _format(form: str | None, out: str | None) -> str:
    """The format asked for, else that of the name; UsageError where they contradict each other."""
    if form == "parquet" and out is None:
        raise click.UsageError(
            "Parquet is bytes for a file, not text for standard output; name one: --out rows.parquet"
        )
    suffix = Path(out).suffix.lower() if out else ""
    if form is not None:
        # Text of any form may be called .txt, and other suffixes say nothing.
        if form == _FORMS.get(suffix, form) or (suffix in _ANY_TEXT and form != "parquet"):
            return form
        other = f", or take a name that ends in .{form}" if f".{form}" in _FORMS else ""
        raise click.UsageError(
            f"{form} is asked for, but {out!r} is the name of a file of another format;"
            f" leave the format to the name{other}"
        )
    if suffix not in _FORMS:
        raise click.UsageError(
            f"--out takes a name that ends in .csv, .json, .parquet or .txt, got {out!r}; "
            "--format says what to write into another"
        )
    return _FORMS[suffix]


def _show(result: Result, form: str, out: str | None, on_a_line: bool) -> None:
    if out is not None:
        path = Path(out)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise LibraryWriteError(f"{path} cannot be written: {exc.strerror or exc}") from exc
        result.write(path, form)
        say(f"{counted(len(result), 'row')} written to {out}")
    elif form == "csv":
        click.echo(result.to_csv(), nl=False)
    elif form == "json":
        # In strings line ends are escaped: those that are left stand between rows.
        click.echo(result.to_json().replace("\n", "") if on_a_line else result.to_json())
    else:
        click.echo(result.to_table())


def _pictures(library: Library, result: Result, sheet: str | None, clips: str | None) -> tuple[str, ...]:
    """Write a sheet, clips or both; what was told of files that are no longer what was indexed."""
    hits = hits_of(result.columns, result.arrow().to_pylist())
    videos = library.videos()
    paths = {row["video"]: row["uri"] for row in videos.to_pylist()}
    tracks = TrackBoxes.of(library)
    changed = replaced_remarks({hit.video for hit in hits}, videos)
    for line in changed:
        say(line)
    if sheet:
        report = write_sheet(hits, paths, Path(sheet), tracks=tracks)
        say(f"{report.drawn} of {counted(len(hits), 'hit')} drawn in {sheet}")
        for failure in report.failed:
            say(f"  not drawn: {failure}")
    if clips:
        made = write_clips(hits, paths, Path(clips), tracks)
        say(f"{counted(made.drawn, 'clip')} written to {clips}" if made.drawn else "no clip written")
        for failure in made.failed:
            say(f"  not written: {failure}")
    return changed


def _page(
    ctx: click.Context, library: Library, result: Result, out: Path, most: int, told: Sequence[str]
) -> None:
    """Write a page; what was told before of its videos is not told twice."""
    given = ctx.find_root().obj["library"]
    command = ("panorama",) if given is None else ("panorama", "--library", str(given))
    report = write_page(library, result, out, most=most, command=command)
    for warning in report.warnings:
        if warning not in told:
            say(warning)
    say(f"{report.shown} of {counted(report.hits, 'hit')} on {out}, {size(report.size)}")
    if report.shown < report.hits:
        say(f"  for all of them: --page-hits {report.hits}")
    for failure in report.left_out:
        say(f"  not shown: {failure}")
    for failure in report.failed:
        say(f"  without its frame: {failure}")


@click.command("verify")
@click.argument("first", type=click.Path())
@click.argument("second", type=click.Path())
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@click.pass_context
def verify_command(ctx: click.Context, first: str, second: str, as_json: bool) -> None:
    """Say whether two pictures show the same entity: score, band and the exit that decided."""
    verdict = opened(ctx).verify(first, second)
    if as_json:
        click.echo(json.dumps({"score": verdict.score, "band": verdict.band, "exit": verdict.exit}))
    else:
        click.echo(f"{verdict.band}  score {verdict.score:.3f}  decided at exit {verdict.exit}")


@click.command("why")
@click.argument("entity")
@click.argument("video", required=False)
@click.option("--at", "seconds", type=Seconds(), help="Seconds from the start of the video, or 1:23.5.")
@click.option("--frame", type=int, help="Frame of the video.")
@click.option("--track", "track_id", type=int, help="The track_id of a row.")
@click.option("--crop", "crop_id", type=int, help="The crop_id of a row.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write a picture of it to this file.")
@json_option
@click.pass_context
def why_command(
    ctx: click.Context,
    entity: str,
    video: str | None,
    seconds: float | None,
    frame: int | None,
    track_id: int | None,
    crop_id: int | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Say why a track was accepted for an entity, or why not: scores, borders, runner-up.

    \b
    panorama why blue-van gate/morning.mp4 --at 2.5 --out why.jpg
    panorama why blue-van --track 8589934614
    """
    placed = seconds is not None or frame is not None
    ways = sum(way is not None for way in (seconds, frame, track_id, crop_id))
    if ways != 1 or (placed and video is None):
        raise click.UsageError(
            "say in one way which track: VIDEO --at SECONDS or VIDEO --frame N, --track or --crop with"
            " the track_id or crop_id of a row"
        )
    if out is not None:
        check_sheet_suffix(Path(out))
    why = opened(ctx).why(entity, video, seconds=seconds, frame=frame, track_id=track_id, crop_id=crop_id)
    if as_json:
        click.echo(json.dumps(why.as_dict(), indent=1, ensure_ascii=False))
    else:
        print_why(why)
    if out is not None:
        write_why(why, Path(out))
        say(f"picture written to {out}")


def print_why(why: Why) -> None:
    """Names in it may hold line ends and the codes of a terminal."""
    span = f"{clock(why.start_seconds)} - {clock(why.end_seconds)}"
    click.echo(one_line(f"{why.entity}  {why.video}  {span}  track {why.track_id}"))
    click.echo(one_line(why.reason))
    click.echo()
    named = {"example": why.exemplar, "runner-up": why.runner_up, "look-alike": why.look_alike,
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
    click.echo(f"best crop {why.crop_id}, frame {why.frame}, {clock(why.seconds)}")
    click.echo(f"model {why.model} {why.model_hash}, exits: {why.exits}")
    if why.tracks_there > 1:
        click.echo(f"{why.tracks_there} tracks are there; this is the one that fits best")


def _score(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"
