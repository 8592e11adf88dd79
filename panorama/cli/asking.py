"""Commands that ask: query, verify."""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path

import click

from panorama.album.forgetting import going_with
from panorama.cli.common import (
    INCOMPLETE,
    STDOUT,
    confirmed,
    json_option,
    opened,
    print_data,
    say,
    size,
    uris_of,
)
from panorama.cli.given import FilePath
from panorama.cli.limits import Left, kept, memory_told, written
from panorama.cli.statements import Statement, given_statements, placed
from panorama.errors import LibraryWriteError, UnknownEntity
from panorama.library import Library
from panorama.lines import counted, one_line
from panorama.page.document import MOST, check_page
from panorama.picture_files import check_picture
from panorama.query.handed.relations import Limits
from panorama.query.result.result import Result
from panorama.query.text.undecided import nothing_told, uncertain_told
from panorama.shown.answer_pictures import AnswerPictures
from panorama.shown.hit_clips import check_clips
from panorama.store.files.outputs import check_output

EMPTY = 4
"""Exit status of `query --fail-if-empty` if no query has a row."""


class SqlCommand(click.Command):
    """Accepts SQL that begins with a comment, whose -- is not an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [f" {word}" if _is_comment(word) else word for word in args])


def _is_comment(word: str) -> bool:
    return word.startswith("--") and (word[2:3].isspace() or "\n" in word)


@click.command("query", cls=SqlCommand)
@click.argument("sql", nargs=-1)
@click.option(
    "-f", "--file", "files", multiple=True, type=FilePath(),
    help="Read the SQL from these files; - is standard input.",
)  # fmt: skip
@click.option(
    "--format", "form", type=click.Choice(["table", "json", "csv", "parquet"]), default=None,
    help="Default: by the suffix of --out, else table.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
@click.option(
    "--out", type=FilePath(dir_okay=False), help="Write the rows to this file; - is standard output."
)
@click.option("--clips", type=FilePath(file_okay=False), help="Write a video clip of each stretch of hits.")
@click.option("--sheet", type=FilePath(dir_okay=False), help="Write a contact sheet of the hits.")
@click.option("--page", type=FilePath(dir_okay=False), help="Write an HTML page to review the hits by.")
@click.option(
    "--page-hits", type=click.IntRange(min=1), default=MOST, show_default=True,
    help="Most hits on the page; all rows of one track are one hit.",
)  # fmt: skip
@click.option(
    "--timeout",
    type=float,
    default=None,
    help="Stop with an error after this many seconds, writing included.",
)
@click.option("--memory", default=None, help="Stop with an error if more memory is needed: 500MB, 4GB.")
@click.option(
    "--fail-if-empty", is_flag=True, help=f"Exit with status {EMPTY} if no query has a row, for scripts."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation before FORGET ENTITY.")
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
    fail_if_empty: bool,
    yes: bool,
) -> None:
    """Answer a question in SQL.

    With --json, stdout gets one array of objects and nothing else; remarks go to stderr. Several queries, in
    files or with semicolons between them, give JSON Lines: one array on one line for each query.

    \b
    panorama query "SELECT frames WHERE entity = 'blue-van' AND video LIKE 'gate/%'"
    panorama query "SELECT moments WHERE entity = 'blue-van'" --sheet hits.jpg
    panorama query "SELECT tracks WHERE entity = 'blue-van' AND band <> 'rejected'" --page review.html
    panorama query -f queries/01-where-is.sql --format json
    panorama query -f first.sql second.sql
    panorama query - < first.sql
    panorama query "SELECT moments WHERE entity = 'blue-van'" --fail-if-empty && ring-the-bell
    """
    asked = given_statements(sql, files)
    if len(asked) > 1 and (out or clips or sheet or page):
        raise click.UsageError(f"--out, --clips, --sheet and --page take a single query, got {len(asked)}")
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other; give one of them")
    out = None if out == STDOUT else out
    wanted = _Wanted(_format("json" if as_json else form, out), out, sheet, page, page_hits, clips)
    limits = Limits(seconds=timeout, memory=memory)
    wanted.check()
    library = opened(ctx)
    if out or sheet or page:
        wanted.check(uris_of(library))
    if not (yes or _may_erase(library, asked)):
        ctx.exit(1)
    is_complete, rows = True, 0
    with memory_told(limits), closing(answers(library, asked, limits)) as results:
        for number, (result, left) in enumerate(results):
            is_complete &= written(left, partial(wanted.write, library, result, asked, number))
            is_complete &= asked[number].erases is None or result.complete
            rows += len(result) if asked[number].is_query else 0
    if not is_complete:
        ctx.exit(INCOMPLETE)
    if fail_if_empty and not rows and any(statement.is_query for statement in asked):
        ctx.exit(EMPTY)


def _may_erase(library: Library, asked: Sequence[Statement]) -> bool:
    """Whether the user agrees to everything that the statements erase; asked before any of them runs."""
    erased = [about for statement in asked if (about := statement.erases) is not None]
    for about in erased:
        # An earlier statement creates it, or nobody does: running the statement reports that.
        with suppress(UnknownEntity):
            seen = going_with(library, about.entity, about.with_sightings)
            for line in () if seen is None else seen.before():
                say(line)
    names = dict.fromkeys(about.entity for about in erased)
    question = f"Erase {', '.join(map(one_line, names))} for good?"
    return not names or confirmed(question, "nothing was done", "erases")


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to do with an answer: the format of its rows, and the files to write."""

    form: str
    out: str | None
    sheet: str | None
    page: str | None
    page_hits: int
    clips: str | None

    def check(self, videos: Collection[str] = ()) -> None:
        """Refuse, before a query runs, outputs that would overwrite something else; see `check_output`."""
        if self.out is not None:
            check_output(Path(self.out), what="rows", videos=videos)
        if self.sheet is not None:
            check_picture(Path(self.sheet), videos)
        if self.page is not None:
            check_page(Path(self.page), videos)
        if self.clips is not None:
            check_clips(Path(self.clips))

    def write(self, library: Library, result: Result, asked: Sequence[Statement], number: int) -> bool:
        """Write the answer to statement `number`, and print the remarks on it.

        Returns:
            Whether every file that was needed for sheet and clips could be read.
        """
        if number and self.form == "table":
            click.echo()
        _show(result, self.form, self.out, one_line=len(asked) > 1)
        for warning in result.warnings:
            say(warning)
        if result.uncertain:
            say(uncertain_told(result.uncertain, asked[number].sql, result.uncertain_of))
        elif not (len(result) or result.warnings) and (nothing := nothing_told(asked[number].sql)):
            say(nothing)  # a warning says what ruled everything out, and nothing would be nearer
        told: tuple[str, ...] = ()
        is_complete = True
        if self.sheet or self.clips:
            told, is_complete = _pictures(library, result, self.sheet, self.clips)
        if self.page:
            _page(library, result, Path(self.page), self.page_hits, told)
        return is_complete


def answers(library: Library, asked: Sequence[Statement], limits: Limits) -> Generator[tuple[Result, Left]]:
    """The answers in order, with the time left to write each; the limits apply until the next is requested.

    Successive queries are matched together.
    """
    for is_query, group in groupby(asked, lambda statement: statement.is_query):
        some = list(group)
        sqls = [statement.sql for statement in some]
        if is_query:
            results = library.query_each(sqls, limits=limits)
        else:
            results = (library.query(sql, limits=limits) for sql in sqls)
        for statement in some:
            # The first of them also does the matching for all others, so it gets the time of all.
            times = len(some) if statement is some[0] else 1
            seconds = None if limits.seconds is None else limits.seconds * times
            with kept(replace(limits, seconds=seconds)) as left:
                with placed(some, statement):
                    result = next(results)
                yield result, left


_FORMS = {"": "table", ".txt": "table", ".csv": "csv", ".json": "json", ".parquet": "parquet"}
_ANY_TEXT = ("", ".txt")


def _format(form: str | None, out: str | None) -> str:
    """The format requested, else the one of the file name; UsageError if the two contradict each other."""
    if form == "parquet" and out is None:
        raise click.UsageError(
            "Parquet is binary and is not written to standard output; name a file: --out rows.parquet"
        )
    suffix = Path(out).suffix.lower() if out else ""
    if form is not None:
        # Text in any format may go to .txt or a name without suffix; an unknown suffix allows any format.
        if form == _FORMS.get(suffix, form) or (suffix in _ANY_TEXT and form != "parquet"):
            return form
        other = f", or choose a name that ends in .{form}" if f".{form}" in _FORMS else ""
        raise click.UsageError(
            f"the format {form} does not fit the file name {out!r}; leave out the format{other}"
        )
    if suffix not in _FORMS:
        raise click.UsageError(
            f"--out takes a name that ends in .csv, .json, .parquet or .txt, got {out!r}; "
            "for any other name, give --format"
        )
    return _FORMS[suffix]


def _show(result: Result, form: str, out: str | None, one_line: bool) -> None:
    if out is not None:
        path = Path(out)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise LibraryWriteError(f"{path} cannot be written: {exc.strerror or exc}") from exc
        result.write(path, form)
        say(f"{counted(len(result), 'row')} written to {out}")
    elif form == "csv":
        for piece in result.pieces("csv"):
            print_data(piece, nl=False)
    elif form == "json":
        for piece in result.pieces("json"):
            # Line ends inside strings are escaped, so those that remain separate rows.
            print_data(piece.replace("\n", "") if one_line else piece, nl=False)
        print_data("")
    else:
        click.echo(result.to_table())


def _pictures(
    library: Library, result: Result, sheet: str | None, clips: str | None
) -> tuple[tuple[str, ...], bool]:
    """Write a contact sheet, clips or both.

    Returns:
        The warnings about files that changed since indexing, and whether every file could be read.
    """
    pictures, is_complete = AnswerPictures.of(library, result), True
    for line in pictures.warnings:
        say(line)
    if sheet:
        report = pictures.sheet(Path(sheet))
        for line in report.warnings[len(pictures.warnings) :]:
            say(line)
        say(f"{report.drawn} of {counted(len(pictures.hits), 'hit')} drawn in {sheet}")
        if report.chosen:
            say(f"  {report.chosen}")
        for failure in report.failed:
            say(f"  not drawn: {failure}")
        for failure in report.without_frame:
            say(f"  drawn without its frame: {failure}")
        is_complete &= not report.unread
    if clips:
        made = pictures.clips(Path(clips))
        say(f"{counted(made.drawn, 'clip')} written to {clips}" if made.drawn else "no clip written")
        for failure in made.failed:
            say(f"  not written: {failure}")
        is_complete &= not made.unread
    return pictures.warnings, is_complete


def _page(library: Library, result: Result, out: Path, most: int, told: Sequence[str]) -> None:
    """Write a review page; `told` are warnings that were printed already."""
    report = library.page(result, out, most=most)
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
@click.argument("first", type=FilePath())
@click.argument("second", type=FilePath())
@json_option
@click.pass_context
def verify_command(ctx: click.Context, first: str, second: str, as_json: bool) -> None:
    """Compare two pictures: the score, the band, and the exit of the network that decided."""
    verdict = opened(ctx).verify(first, second)
    if as_json:
        print_data(json.dumps({"score": verdict.score, "band": verdict.band, "exit": verdict.exit}))
    else:
        click.echo(f"{verdict.band}  score {verdict.score:.3f}  decided at exit {verdict.exit}")
