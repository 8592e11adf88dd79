"""A statement's text and parameters come in; text for DuckDB goes out, with the extensions replaced."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import duckdb
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError
from panorama.query.handed.relations import RELATION_COLUMNS, RELATIONS, SCHEMA
from panorama.query.handed.shapes import shape_kinds
from panorama.query.shorthands.nested import Named as NamedQueries
from panorama.query.shorthands.plan import Query
from panorama.query.shorthands.rules import apply_rules
from panorama.query.shorthands.shorthand import Reading, read_shorthand
from panorama.query.shorthands.space import PREDICATES, Call, Name, call_sql
from panorama.query.sql.compile import compile_query
from panorama.query.sql.plain_scope import Need, Select
from panorama.query.sql.plain_tree import Source, Statement, read_statement
from panorama.query.sql.rewritten import (
    LOOKUP,
    NO_SIMILARITY,
    Named,
    Piece,
    Rewritten,
    SimilarityCall,
    Verify,
)
from panorama.query.sql.unions import check_sides
from panorama.query.stopping import check_stopped, signals_stop
from panorama.query.text.dialect import parse_shorthand
from panorama.query.text.extensions import (
    CLOSERS,
    OPENERS,
    VERDICTS,
    Extension,
    find_extensions,
    named_queries,
    names_tables,
)
from panorama.query.text.guard import readable
from panorama.query.text.parameters import (
    GivenPicture,
    Parameters,
    literal,
    meant_picture,
    parameter_places,
    parameter_values,
    refuse_no_numbers,
    remaining_parameters,
    with_constants,
)
from panorama.query.text.quoting import quote_name


class Rewriter:
    """Rewrites one statement.

    Args:
        sql: the statement as typed.
        tokens: of the statement.
        parameters: values for ? and $name.
        entities: all names in the album.
        connection: evaluates conditions on the names of entities.
        verify: answers verify(a, b) and its variants.
    """

    def __init__(
        self,
        sql: str,
        tokens: list[Token],
        parameters: Parameters,
        entities: tuple[str, ...],
        connection: duckdb.DuckDBPyConnection,
        verify: Verify,
    ) -> None:
        self._sql = sql
        self._typed = tokens
        self._entities = entities
        self._connection = connection
        self._verify = verify
        self._places = parameter_places(tokens)
        self._values = parameter_values(self._places, parameters, sql)
        # The parser sees constants; text outside shorthands keeps its parameters.
        self._tokens = with_constants(tokens, self._places, self._values)
        self._extensions = find_extensions(tokens)
        self._queries: list[Query] = []
        self._similarities: list[SimilarityCall] = []
        self._parameters = parameters

    def rewrite(self) -> Rewritten:
        """The statement with every extension replaced.

        Raises:
            QueryError: an extension is used wrongly.
        """
        if not self._extensions:
            return Rewritten(self._sql, self._parameters, (), (), ())
        outer = self._outermost(0, len(self._sql))
        text, at, pieces = "", 0, []
        for extension in outer:
            text += self._sql[at : extension.start]
            new = self._replacement(extension, alias=True)
            pieces.append(Piece(extension.start, extension.stop, len(text), len(text) + len(new)))
            text += new
            at = extension.stop
        text += self._sql[at:]
        left = self._parameters_outside(outer)
        check_sides(self._typed, self._extensions, self._queries, self._sql)
        return Rewritten(text, left, tuple(self._queries), tuple(self._similarities), tuple(pieces))

    def _outermost(self, start: int, stop: int, inside: Extension | None = None) -> list[Extension]:
        """The extensions within [start, stop) that are not inside another one there."""
        found: list[Extension] = []
        for extension in self._extensions:
            if extension is inside or not (start <= extension.start and extension.stop <= stop):
                continue
            if not found or extension.start >= found[-1].stop:
                found.append(extension)
        return found

    def _render(self, start: int, stop: int, inside: Extension | None = None) -> str:
        """Text of [start, stop) for DuckDB, with inner extensions replaced and parameters filled in."""
        changes = [(e.start, e.stop, self._replacement(e)) for e in self._outermost(start, stop, inside)]
        covered = [(a, b) for a, b, _ in changes]
        for place in self._places:
            if (
                start <= place.start
                and place.stop <= stop
                and not any(a <= place.start < b for a, b in covered)
            ):
                changes.append(
                    (place.start, place.stop, literal(self._values[place.key], self._sql, place.start))
                )
        text, at = "", start
        for first, last, new in sorted(changes):
            text += self._sql[at:first] + new
            at = last
        # A comment at the end would hide the text that follows, so `stop` must not include one.
        return (text + self._sql[at:stop]).strip()

    def _replacement(self, extension: Extension, alias: bool = False) -> str:
        check_stopped()
        if extension.kind == "shorthand":
            return self._shorthand(extension)
        if extension.kind in PREDICATES:
            text = self._space(extension)
        elif extension.kind == "similarity":
            text = self._similarity(extension)
        else:
            text = self._verified(extension)
        return f"{text} AS {extension.kind}" if alias and self._names_a_column(extension) else text

    def _shorthand(self, extension: Extension) -> str:
        inside = [p for p in self._places if extension.start <= p.start < extension.stop]
        refuse_no_numbers(inside, self._values, self._sql)
        node = parse_shorthand(self._tokens, extension, self._sql)
        reading = Reading(
            self._sql,
            lambda a, b: self._render(a, b, extension),
            self._entities,
            self._names_where,
            node.this.name,
            lambda: self._named,
        )
        before = len(self._similarities)
        query = read_shorthand(node, extension, reading)
        if len(self._similarities) > before and query.target in ("tracks", "crops"):
            shown = self._similarities[before]
            query = replace(query, similarity=self._lookup(shown, query.target))
            # It is shown in every row, even if only a SELECT inside the condition uses it.
            self._similarities[before] = replace(shown, needs=(*shown.needs, None))
        first, last = node.meta.get("ORDER_BY", (0, 0))
        ranked = any(e.kind == "similarity" and first <= e.start < last for e in self._extensions)
        number = len(self._queries) + 1  # only now: those inside it were read, and numbered, with it
        query = apply_rules(replace(query, number=number, by_similarity=ranked))
        self._queries.append(query)
        return compile_query(query)

    def _names_where(self, condition: str) -> tuple[str, ...]:
        sql = f"SELECT entity FROM {SCHEMA}.entities WHERE ({condition}) ORDER BY entity"
        try:
            rows = signals_stop(lambda: self._connection.execute(sql).fetchall())
            return tuple(row[0] for row in rows)
        except (duckdb.InterruptException, duckdb.FatalException, duckdb.InternalException):
            raise
        except duckdb.Error as exc:
            error = readable(exc, sql)
            place = self._sql.find(condition)  # not as typed if it has a parameter
            raise type(error)(error.args[0], self._sql, place if place >= 0 else None) from exc

    def _argument_tokens(self, extension: Extension) -> list[list[Token]]:
        """The tokens of each argument of a call."""
        groups: list[list[Token]] = [[]]
        for token in self._typed[extension.first + 2 : extension.last - 1]:
            if token.token_type == TokenType.COMMA:
                groups.append([])
            else:
                groups[-1].append(token)
        return groups

    def _space(self, extension: Extension) -> str:
        """A predicate of space as SQL over boxes."""
        usage = f"expected {PREDICATES[extension.kind].usage}"
        arguments: list[Any] = []
        for group in self._argument_tokens(extension):
            if len(group) == 1 and group[0].token_type in (TokenType.VAR, TokenType.IDENTIFIER):
                arguments.append(Name(group[0].text))
            elif not group:
                raise QueryError(usage, self._sql, extension.start)
            else:
                arguments.append(self._constant(group, usage))
        target = self._target_around(extension)
        shapes = partial(shape_kinds, self._connection)
        call = Call(extension.kind, arguments, target, shapes, self._sql, extension.start)
        if target is None and PREDICATES[extension.kind].kind == "step":
            need = self._needed_steps(extension, arguments)
            videos = None if need.videos is None else f"SELECT video FROM {need.videos}"
            call = replace(call, videos=videos, tracks=need.tracks)
        return call_sql(call)

    def _needed_steps(self, extension: Extension, arguments: list[Any]) -> Need:
        """The tracks whose previous boxes plain SQL needs."""
        select = self._select_around(extension)
        last = arguments[-1] if arguments else None
        if select is None:
            return Need()
        source = select.called(last.text) if isinstance(last, Name) else select.meant("track_id")
        return Need() if source is None else select.need(source, lambda _: False)

    def _target_around(self, extension: Extension) -> str | None:
        """The target of the shorthand around a call; None if another SELECT lies between them."""
        around = [e for e in self._extensions if e.kind == "shorthand" and e.first < extension.first < e.last]
        if not around:
            return None
        depth = [0]
        for i in range(around[-1].first + 1, extension.first):
            kind = self._typed[i].token_type
            if kind in OPENERS:
                depth.append(0)
            elif kind in CLOSERS:
                depth.pop()
            elif kind == TokenType.SELECT or (kind == TokenType.FROM and names_tables(self._typed, i)):
                depth[-1] = 1
        return None if any(depth) else self._typed[around[-1].first + 1].text.lower()

    def _constant(self, group: list[Token], usage: str) -> Any:
        first = group[0]
        place = next((place for place in self._places if place.start == first.start), None)
        if place is not None and place.stop == group[-1].end + 1:
            return self._values[place.key]
        if len(group) == 1 and first.token_type == TokenType.STRING:
            return first.text
        if len(group) == 1 and first.token_type == TokenType.NUMBER:
            if first.text.isdigit():
                return int(first.text)
            with contextlib.suppress(ValueError):
                return float(first.text)
        raise QueryError(usage, self._sql, first.start)

    def _similarity(self, extension: Extension) -> str:
        picture, relation = self._compared(extension)
        target = self._target_around(extension)
        if target is not None and relation is not None:
            raise QueryError("in a shorthand similarity takes a picture only", self._sql, extension.start)
        place = next((i for i, c in enumerate(self._similarities) if c.picture == picture), None)
        if place is None:
            place = len(self._similarities)
            self._similarities.append(SimilarityCall(f"_similarity{place + 1}", picture, extension.start))
        call = self._similarities[place]
        if target is not None:
            need, lookup = None, self._lookup(call, target)
        else:
            need, lookup = self._plain_similarity(extension, call)
        self._similarities[place] = replace(call, needs=(*call.needs, need))
        return lookup

    def _compared(self, extension: Extension) -> tuple[Named | int, str | None]:
        """The picture or crop in a call of similarity, and the relation whose rows are compared, if named."""
        usage = (
            "similarity takes one picture in single quotes or one crop_id, as a constant; if several"
            " relations could be meant, also the name of one"
        )
        groups = self._argument_tokens(extension)
        if not 1 <= len(groups) <= 2 or not all(groups):
            raise QueryError(usage, self._sql, extension.start)
        picture = meant_picture(self._constant(groups[0], usage))
        if not isinstance(picture, (str, int, GivenPicture)) or isinstance(picture, bool):
            raise QueryError(usage, self._sql, extension.start)
        if len(groups) == 1:
            return picture, None
        if len(groups[1]) != 1 or groups[1][0].token_type not in (TokenType.VAR, TokenType.IDENTIFIER):
            raise QueryError(usage, self._sql, groups[1][0].start)
        return picture, groups[1][0].text

    def _plain_similarity(self, extension: Extension, call: SimilarityCall) -> tuple[Need, str]:
        """What a call outside a shorthand needs, and the SQL that looks up its value."""
        select = self._select_around(extension)
        _, relation = compared = self._compared(extension)
        target = self._probably_of(relation)
        prefix = "" if relation is None else f"{quote_name(relation)}."
        if select is None:
            return Need(), self._lookup(call, target, prefix)
        source = None if relation is None else select.called(relation)
        if relation is not None and source is None and select.is_known:
            raise QueryError(self._no_relation(relation, extension), self._sql, extension.start)
        if select.is_known or (source is not None and source.columns is not None):
            target = self._asked_of(select, source, extension)
        if source is None and relation is None:
            source = select.meant("crop_id" if target == "crops" else "track_id")
        alike = {
            other.start
            for other in self._extensions
            if other.kind == "similarity" and self._compared(other) == compared
        }

        def same(node: exp.Expr) -> bool:
            return isinstance(node, exp.Anonymous) and node.meta.get("start") in alike

        need = Need() if source is None else select.need(source, same)
        return need, self._lookup(call, target, prefix)

    def _probably_of(self, relation: str | None) -> str:
        """Whether a call is about 'crops' or 'tracks', as far as the words of the statement tell.

        Args:
            relation: the one whose rows are compared, by its name or alias; None if it is not named.
        """
        words = [token.text.lower() for token in self._typed]
        if relation is not None:
            called = relation.lower()
            named = [i for i, word in enumerate(words) if word == called and i > 1]
            before = [words[i - 2 if words[i - 1] == "as" else i - 1] for i in named]
            meant = {word for word in (called, *before) if word in RELATIONS and word not in self._named}
            if len(meant) == 1:
                return "crops" if "crop_id" in RELATION_COLUMNS[meant.pop()] else "tracks"
        bare = {token.text.lower() for token in self._typed if token.token_type == TokenType.VAR}
        return "crops" if bare & {"crops", "crop_id"} else "tracks"

    def _asked_of(self, select: Select, source: Source | None, extension: Extension) -> str:
        """Whether a SELECT with known columns computes the similarity of 'crops' or of 'tracks'."""
        for target, column in (("crops", "crop_id"), ("tracks", "track_id")):
            having = select.having(column)
            if source is not None and source in having:
                return target
            if source is None and len(having) > 1 and not select.is_one(column):
                names = ", ".join(f"similarity(..., {s.node.alias_or_name})" for s in having)
                raise QueryError(f"name the relation: {names}", self._sql, extension.start)
            if source is None and having:
                return target
        if source is not None or select.is_outermost:
            raise QueryError(NO_SIMILARITY, self._sql, extension.start)
        return "tracks"

    def _select_around(self, extension: Extension) -> Select | None:
        """The SELECT of plain SQL around a call; None if there is none or it cannot be parsed."""
        if self.plain is None:
            return None
        for node in self.plain.tree.find_all(exp.Anonymous):
            if node.meta.get("start") == extension.start:
                around = node.find_ancestor(exp.Select)
                return None if around is None else self.select(around)
        return None

    def select(self, node: exp.Expr) -> Select:
        """A SELECT of the plain statement, wrapped for `plain_scope`."""
        assert self.plain is not None
        return Select(node, self.plain, self._sql, self._render)

    @cached_property
    def plain(self) -> Statement | None:
        """The statement parsed as plain SQL, with parameters filled in; None if it cannot be parsed."""
        filled = with_constants(self._typed, self._places, self._values, TokenType.PLACEHOLDER)
        return read_statement(self._sql, filled)

    @cached_property
    def _named(self) -> NamedQueries:
        """The CTEs of the statement; None for one of several of a name, or with the name of a relation."""
        names = named_queries(self._typed)
        ctes = list(self.plain.tree.find_all(exp.CTE)) if names and self.plain is not None else []
        called = {name: [cte for cte in ctes if cte.alias.lower() == name] for name in names}
        return {
            name: of_name[0] if len(of_name) == 1 and name not in RELATIONS else None
            for name, of_name in called.items()
        }

    def _lookup(self, call: SimilarityCall, target: str, prefix: str = "") -> str:
        column = "crop" if target == "crops" else "track"
        return f"({LOOKUP.format(table=call.table, column=column)}{prefix}{column}_id)"

    def _no_relation(self, relation: str, extension: Extension) -> str:
        """The message if the SELECT around a call of similarity does not read the named relation."""
        told = f"there is no relation {relation!r} in the FROM of this SELECT"
        around = self._typed[: extension.first] + self._typed[extension.last :]
        if relation.lower() not in {token.text.lower() for token in around}:
            return told
        return (
            f"{told}, and similarity works only on relations there. Compute it where {relation!r} is read,"
            f" FROM (SELECT *, similarity('a.jpg') AS alike FROM tracks) {relation}, and use"
            f" {relation}.alike here"
        )

    def _verified(self, extension: Extension) -> str:
        name = extension.kind
        usage = f"{name} takes two pictures in single quotes: {name}('a.jpg', 'b.jpg')"
        groups = self._argument_tokens(extension)
        if len(groups) != 2 or not all(groups):
            raise QueryError(usage, self._sql, extension.start)
        first, second = (meant_picture(self._constant(group, usage)) for group in groups)
        if not isinstance(first, (str, GivenPicture)) or not isinstance(second, (str, GivenPicture)):
            raise QueryError(usage, self._sql, extension.start)
        said = literal(self._verify(name, first, second, extension.start), self._sql, extension.start)
        return f"CAST({said} AS {VERDICTS[name]})"

    def _names_a_column(self, extension: Extension) -> bool:
        """Whether a call is a complete item of the outermost SELECT, which is then named after it."""
        first = extension.first - 1
        if first > 0 and self._typed[first].token_type == TokenType.DISTINCT:
            first -= 1  # SELECT DISTINCT similarity('a.jpg')
        before = self._typed[first].token_type if first >= 0 else None
        after = self._typed[extension.last].token_type if extension.last < len(self._typed) else None
        opens = before == TokenType.SELECT or (before == TokenType.COMMA and self._in_select_list(extension))
        return opens and after in (
            None,
            TokenType.COMMA,
            TokenType.FROM,
            TokenType.SEMICOLON,
            TokenType.R_PAREN,
        )

    def _in_select_list(self, extension: Extension) -> bool:
        depth = 0
        for i in range(extension.first - 1, -1, -1):
            kind = self._typed[i].token_type
            depth += (kind in CLOSERS) - (kind in OPENERS)
            ends = kind in (TokenType.ORDER_BY, TokenType.GROUP_BY) or (
                kind == TokenType.FROM and names_tables(self._typed, i)
            )
            if depth < 0 or (depth == 0 and ends):
                return False
            if depth == 0 and kind == TokenType.SELECT:
                return True
        return False

    def _parameters_outside(self, outer: list[Extension]) -> Parameters:
        """The parameters that remain in the text after the replacements."""
        left = [p for p in self._places if not any(e.start <= p.start < e.stop for e in outer)]
        return remaining_parameters(left, self._values, self._parameters, self._sql)
