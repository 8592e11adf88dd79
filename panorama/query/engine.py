"""A statement and a matcher come in; the Result of the SQL over one library snapshot goes out."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot.tokens import Token, TokenType

from panorama.errors import PanoramaError, QueryError, QueryTimeout
from panorama.lines import composed
from panorama.query.coarse import OF_TRACKS, Asked, coarse_remark
from panorama.query.duckdb_plan import read_plan
from panorama.query.explain import Done, explain_text
from panorama.query.handed.by_entity import ByEntity
from panorama.query.handed.by_example import ByExample
from panorama.query.handed.relations import MATCHED_COLUMNS, Limits, SnapshotLike, Tables, check_files
from panorama.query.matching.matches import Image, Matcher
from panorama.query.matching.needs import match_request, possible, similarity_request
from panorama.query.result.result import Plan, Result
from panorama.query.run import Run
from panorama.query.sql.plain import plain_entities, relations_read
from panorama.query.sql.rewrite import Rewriter
from panorama.query.sql.rewritten import Rewritten
from panorama.query.sql.utc import in_utc
from panorama.query.stopping import QueryStopped, Stopper, check_stopped, past_limit, signals_stop
from panorama.query.text.calls import refuse_calls
from panorama.query.text.extensions import find_extensions
from panorama.query.text.guard import check_single_select, readable, refuse_by_name, refuse_open_brackets
from panorama.query.text.parameters import (
    LONE_SURROGATE,
    Parameters,
    check_parameters,
    parameter_places,
    parameter_values,
    plain_parameters,
    refuse_no_numbers,
    spelled_out,
)
from panorama.query.text.remarks import (
    beyond_the_end,
    refuse_lists,
    refuse_numbers,
    refuse_zones,
    remarks,
    zones_lost,
)
from panorama.query.text.statements import EntityStatement, ShowEntities, parse_statement
from panorama.query.text.tokens import tokenize, words_of_explain


class Engine:
    """Answers statements; use one engine per thread.

    Args:
        snapshot: videos, files and entities; see `relations.SnapshotLike`.
        matcher: matches the album.
        picture_root: folder that contains all pictures named in SQL; None refuses every such picture.
        read_picture: reads one picture, from a file or from memory, as RGB.
        limits: for every query; None for the default limits.
        tables: those of an earlier snapshot's engine, which had the same limits; None for new ones.
        quick: (Q,) segments that were indexed by keyframes alone; None for none.
    """

    def __init__(
        self,
        snapshot: SnapshotLike,
        matcher: Matcher,
        *,
        picture_root: Path | None,
        read_picture: Callable[[Path | Image], Image],
        limits: Limits | None = None,
        tables: Tables | None = None,
        quick: NDArray[np.int32] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._matcher = matcher
        self._by_example = ByExample(matcher, picture_root, read_picture)
        self._limits = limits or Limits()
        self._tables = tables or Tables(self._limits)
        self._quick = quick
        self._entities = tuple(sorted(snapshot.entities.column("entity").to_pylist()))
        self._by_entity = ByEntity(snapshot, matcher, self._entities)
        self._videos_there: frozenset[str] | None = None

    def parse(self, sql: str) -> EntityStatement | None:
        """The statement about entities in `sql`, which the library executes; None for a query."""
        return parse_statement(tokenize(sql), sql)

    def query(self, sql: str, parameters: Parameters = None, stop: Event | None = None) -> Result:
        """Answer one SELECT, in DuckDB's SQL or with Panorama's extensions.

        Args:
            stop: ends the query when another thread sets it.

        Raises:
            QueryError: the statement cannot be answered; it has the position, if that is known.
            UnknownEntity: the statement names an entity that is not registered.
            QueryTimeout: the query ran past its limits or was told to stop.
        """
        started = time.perf_counter()
        with self._run(*self._read(sql), started, stop) as run:
            return self._answer(plain_parameters(parameters), run)

    def prepare(self, asked: Sequence[tuple[str, Parameters]], stop: Event | None = None) -> None:
        """Match the entities of several statements, each with its parameters, in one pass.

        Raises:
            QueryError: one of the statements cannot be answered; see `query`.
        """
        names: dict[str, None] = {}
        for typed, parameters in asked:
            with self._run(*self._read(typed), time.perf_counter(), stop) as run:
                for name in self._looked_for(plain_parameters(parameters), run):
                    names.setdefault(name)
        if names:
            with self._run(asked[0][0], [], time.perf_counter(), stop):
                self._matcher.prepare(tuple(names))

    def _looked_for(self, parameters: Parameters, run: Run) -> Iterator[str]:
        """The entities whose matches a statement needs."""
        wanted = _named(run.tokens, MATCHED_COLUMNS)
        if run.explained or not (find_extensions(run.tokens) or wanted):
            return
        run.dry = True
        rewriter = self._rewriter(in_utc(run.sql, run.tokens, parameters), run)
        rewritten = rewriter.rewrite()
        for query in rewritten.queries:
            # A shorthand with its own accuracy or time limit is matched separately.
            own = query.contract is not None or query.budget_seconds is not None
            request = None if own else match_request(query, run.cursor)
            if request is not None and possible(request):
                yield from self._entities if request.entities is None else request.entities
        if wanted and (wanted := relations_read(run.sql, rewriter.plain, wanted)):
            names = plain_entities(run.sql, rewriter.plain, wanted, self._entities)
            yield from self._entities if names is None else names

    def _read(self, sql: str) -> tuple[str, list[Token]]:
        """The query text to answer and its tokens; QueryError if `sql` is not a query."""
        tokens = tokenize(sql)
        if (typed := composed(sql)) != sql:  # entity and video names are stored in this form
            sql, tokens = typed, tokenize(typed)
        if "\x00" in sql:
            raise QueryError("the statement holds a NUL character", sql, sql.index("\x00"))
        if lone := LONE_SURROGATE.search(sql):
            raise QueryError("the statement holds a character that is not UTF-8 text", sql, lone.start())
        statement = parse_statement(tokens, sql)
        if isinstance(statement, ShowEntities):
            sql = "SELECT entity, exemplars, negatives, category FROM entities ORDER BY entity"
            tokens = tokenize(sql)
        elif statement is not None:
            raise QueryError(
                "run a statement about entities alone, with Library.query; only SELECTs can run together",
                sql,
                0,
            )
        refuse_numbers(tokens, sql)
        refuse_by_name(tokens, sql)
        refuse_open_brackets(tokens, sql)
        return sql, tokens

    @contextmanager
    def _run(self, sql: str, tokens: list[Token], started: float, stop: Event | None) -> Iterator[Run]:
        """Open a cursor for one statement, within the limits; what stops it is raised as a QueryTimeout."""
        try:
            with (
                closing(self._tables.of(self._snapshot).cursor()) as cursor,
                Stopper(cursor, self._limits.seconds, stop),
            ):
                refuse_calls(tokens, sql, partial(self._tables.functions, cursor))
                yield Run(cursor, sql, tokens, started)
        except (duckdb.InterruptException, QueryStopped) as exc:
            raise self._stopped(sql, started, stop) from exc
        except (duckdb.FatalException, duckdb.InternalException) as exc:
            self._tables.drop()  # DuckDB answers nothing more after such an error
            raise readable(exc, sql) from exc
        except (duckdb.Error, QueryError) as exc:
            if isinstance(exc.__cause__ or exc, (duckdb.IOException, duckdb.InvalidInputException)):
                check_files(self._snapshot)
            raise
        except RuntimeError as exc:
            # DuckDB raises this on Ctrl-C.
            if type(exc) is RuntimeError and "interrupted" in str(exc).lower():
                raise KeyboardInterrupt from exc
            raise

    def close(self) -> None:
        """Close the connection; the next query opens a new one."""
        self._tables.close()

    def leave(self) -> Tables:
        """Return the tables for an engine of the next snapshot; do not use this engine afterwards."""
        self._tables.leave()
        return self._tables

    def _stopped(self, sql: str, started: float, stop: Event | None) -> QueryTimeout:
        limit = self._limits.seconds
        if limit is not None and not (stop is not None and stop.is_set()):
            return QueryTimeout(past_limit(limit), sql, None)
        seconds = time.perf_counter() - started
        return QueryTimeout(f"the query was told to stop, and ended after {seconds:.1f} s", sql, None)

    def _rewriter(self, parameters: Parameters, run: Run) -> Rewriter:
        verify = self._by_example.verifier(run)
        return Rewriter(run.sql, run.tokens, parameters, self._entities, run.cursor, verify)

    def _answer(self, parameters: Parameters, run: Run) -> Result:
        sql, tokens = run.sql, run.tokens
        self._remark(parameters, run)
        parameters = in_utc(sql, tokens, parameters)
        wanted = _named(tokens, MATCHED_COLUMNS)
        if not find_extensions(tokens) and not wanted:
            parsed = check_single_select(run.cursor, sql, tokens)
            check_parameters(parameter_places(tokens), parameters)
            run.parsed = None if run.before else parsed
            rewritten = Rewritten(sql, parameters, (), (), ())
            if run.explained and not run.dry:
                return self._explain(rewritten, run)
            answer = self._execute(rewritten, run)
            return self._told_coarse(answer, rewritten, lambda: self._rewriter(parameters, run), run)
        rewriter = self._rewriter(parameters, run)
        rewritten = rewriter.rewrite()
        try:
            parsed = check_single_select(run.cursor, rewritten.text, tokens)
        except QueryError as exc:
            raise QueryError(exc.args[0], sql, rewritten.typed(exc.position)) from exc
        run.parsed = None if run.before else parsed
        for query in rewritten.queries:
            self._by_entity.shorthand(query, run)
        calls = sum(e.kind == "similarity" for e in find_extensions(tokens))
        if wanted and (wanted := relations_read(sql, rewriter.plain, wanted)):
            # before similarity, which may be computed for some of these rows only
            self._by_entity.relations(wanted, rewriter, run)
        for call in rewritten.similarities:
            request = similarity_request(rewritten, call, calls, run.cursor)
            self._by_example.similarity(call, request, run)
        if run.explained:
            return self._explain(rewritten, run)
        answer = self._execute(rewritten, run)
        if not len(answer):
            answer.warnings += beyond_the_end(rewritten.queries, run)
        return self._told_coarse(answer, rewritten, lambda: rewriter, run)

    def _told_coarse(
        self, answer: Result, rewritten: Rewritten, rewriter: Callable[[], Rewriter], run: Run
    ) -> Result:
        """Add a warning to the answer if it concerns videos that were indexed with --quick."""
        if self._quick is not None and len(self._quick) and not run.explained:
            asked = Asked.of_shorthands(rewritten.queries)
            if named := _named(run.tokens, OF_TRACKS):
                asked += Asked.of_plain(run.sql, rewriter(), named)
            segments = asked.segments(self._snapshot.videos.column("segment").to_numpy(), run.cursor)
            answer.warnings += coarse_remark(segments, self._quick)
        return answer

    def _remark(self, parameters: Parameters, run: Run) -> None:
        """Warn about conditions that cannot match, and refuse what would be misunderstood."""
        tokens = run.tokens
        places = parameter_places(tokens)
        try:
            values = parameter_values(places, parameters, run.sql)
        except PanoramaError:
            return  # reported below, or by DuckDB
        check_stopped()  # lists of values may be long
        constants = spelled_out(tokens, places, values)
        shorthands = [(e.start, e.stop) for e in find_extensions(tokens) if e.kind == "shorthand"]
        for start, stop in shorthands:  # before a NaN in a list is reported as an entity
            refuse_no_numbers([p for p in places if start <= p.start < stop], values, run.sql)
        refuse_lists(constants, shorthands, self._entities, run.sql)
        check_stopped()
        refuse_zones(constants, run.sql)
        if not run.explained:
            run.warnings += remarks(constants, self._entities, self._video_names)

    def _video_names(self) -> frozenset[str]:
        if self._videos_there is None:
            self._videos_there = frozenset(self._snapshot.videos.column("video").to_pylist())
        return self._videos_there

    def _execute(self, rewritten: Rewritten, run: Run) -> Result:
        """Run the rewritten statement in DuckDB; positions of errors refer to the statement as typed."""
        cursor, text = run.cursor, run.prefix + rewritten.text[run.before :]
        shift = run.before - len(run.prefix)
        check_stopped()
        for name, view in run.views:
            # The statement itself will report the error in its condition.
            with suppress(duckdb.Error):
                cursor.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {view}")
        try:
            # A SELECT can contain an INSERT in its WITH clause; a read-only transaction refuses to write.
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            statement = text if run.parsed is None else run.parsed
            types, table = signals_stop(partial(_fetch, cursor, statement, rewritten.parameters))
        except (duckdb.InterruptException, duckdb.FatalException, duckdb.InternalException):
            raise
        except duckdb.Error as exc:
            error = readable(exc, text, rewritten.queries)
            place = None if error.position is None else error.position + shift
            raise type(error)(error.args[0], run.sql, rewritten.typed(place)) from exc
        kind = Plan if run.explained else Result
        answer = kind(table, types, **run.account())
        answer.warnings += zones_lost(answer.columns, types)
        return answer

    def _explain(self, rewritten: Rewritten, run: Run) -> Result:
        """The plan as rows of text: matching, what was pushed down, the SQL for DuckDB and its plan."""
        begun = time.perf_counter()
        analyze = not run.dry
        run.prefix = f"EXPLAIN ({'ANALYZE, ' if analyze else ''}FORMAT json) "
        run.before = run.tokens[words_of_explain(run.tokens)].start
        answer = self._execute(rewritten, run)
        seconds = time.perf_counter() - begun
        plan = [operator for row in answer for operator in read_plan(str(row[-1]))]
        done = Done(plan, seconds)
        rewritten = replace(rewritten, text=rewritten.text[run.before :])
        lines = explain_text(rewritten, run.steps, run.pictures, done, analyze).split("\n")
        table = pa.table({"plan": pa.array(lines, pa.string())})
        return Plan(table, ["VARCHAR"], **run.account())


def _fetch(
    cursor: duckdb.DuckDBPyConnection, statement: str | duckdb.Statement, parameters: Parameters
) -> tuple[list[str], pa.Table]:
    """The types and the rows of a statement."""
    cursor.execute(statement, parameters or None)
    types = [str(column[1]) for column in cursor.description or []]
    _leave_out_advice()
    return types, cursor.to_arrow_table()


_ADVICE = ("ignore", None, UserWarning, re.compile(re.escape(__name__)), 0)
"""A filter for warnings raised in this module, in the form of `warnings.filters`."""


def _leave_out_advice() -> None:
    """Ignore DuckDB's advice to fetch rows by a relation: that plans twice, and its errors have no position.

    The filter stays, and covers this module only. `catch_warnings` changes the filters of the whole process:
    if two threads are inside it, the one that leaves last can leave a filter for all such warnings behind.
    """
    if warnings.filters[:1] != [_ADVICE]:  # later filters take precedence over earlier ones
        warnings.filterwarnings("ignore", category=UserWarning, module=re.escape(__name__))


def _named(tokens: list[Token], relations: Collection[str]) -> set[str]:
    """Those of `relations` that the tokens may name; the target of a shorthand does not count."""
    targets = {e.first + 1 for e in find_extensions(tokens) if e.kind == "shorthand"}
    return {
        token.text.lower()
        for i, token in enumerate(tokens)
        if i not in targets
        and token.token_type not in (TokenType.STRING, TokenType.NUMBER)
        and token.text.lower() in relations
    }
