"""Tokens of a statement about entities come in; a small frozen value that the library executes goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sqlglot.tokens import Token, TokenType

from panorama.errors import QueryError


@dataclass(frozen=True, slots=True)
class CreateEntity:
    """CREATE ENTITY 'X' [AS CATEGORY] FROM 'x/*.jpg' [, ...] [NOT FROM 'lookalikes/*.jpg' [, ...]]"""

    entity: str
    pictures: tuple[str, ...]
    negatives: tuple[str, ...] = ()
    category: bool = False


@dataclass(frozen=True, slots=True)
class AddExemplars:
    """ALTER ENTITY 'X' ADD [NOT] 'p.jpg' [, ...]"""

    entity: str
    pictures: tuple[str, ...]
    negative: bool = False


@dataclass(frozen=True, slots=True)
class RemoveExemplars:
    """ALTER ENTITY 'X' REMOVE 'p.jpg' [, ...]"""

    entity: str
    pictures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RenameEntity:
    """ALTER ENTITY 'X' RENAME TO 'Y'"""

    entity: str
    new_name: str


@dataclass(frozen=True, slots=True)
class SetCategory:
    """ALTER ENTITY 'X' SET CATEGORY | SET INSTANCE"""

    entity: str
    category: bool


@dataclass(frozen=True, slots=True)
class DropEntity:
    """DROP ENTITY [IF EXISTS] 'X'"""

    entity: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ForgetEntity:
    """FORGET ENTITY 'X' [WITH SIGHTINGS]"""

    entity: str
    with_sightings: bool = False


@dataclass(frozen=True, slots=True)
class ShowEntities:
    """SHOW ENTITIES"""


@dataclass(frozen=True, slots=True)
class DescribeEntity:
    """DESCRIBE ENTITY 'X'"""

    entity: str


EntityStatement: TypeAlias = (
    CreateEntity
    | AddExemplars
    | RemoveExemplars
    | RenameEntity
    | SetCategory
    | DropEntity
    | ForgetEntity
    | ShowEntities
    | DescribeEntity
)

_VERBS = ("CREATE", "ALTER", "DROP", "FORGET", "DESCRIBE")


def parse_statement(tokens: list[Token], sql: str) -> EntityStatement | None:
    """The statement about entities that the tokens form; None if they are anything else.

    Raises:
        QueryError: it begins as one but continues wrongly; with the position and what was expected.
    """
    words = [token.text.upper() for token in tokens[:2]]
    if words == ["SHOW", "ENTITIES"]:
        reader = _Reader(tokens, 2, sql)
        reader.end()
        return ShowEntities()
    if len(words) < 2 or words[0] not in _VERBS or words[1] != "ENTITY" or _is_table(tokens):
        return None
    reader = _Reader(tokens, 2, sql)
    statement = _PARSERS[words[0]](reader)
    reader.end()
    return statement


def _is_table(tokens: list[Token]) -> bool:
    """Whether the statement is DESCRIBE entity, which is DuckDB's way to describe a table named `entity`."""
    return tokens[0].text.upper() == "DESCRIBE" and len([t for t in tokens if t.text != ";"]) == 2


class _Reader:
    """Reads tokens one by one; its errors say what was expected."""

    def __init__(self, tokens: list[Token], position: int, sql: str) -> None:
        self._tokens = tokens
        self._i = position
        self._sql = sql
        self._begun: list[str] = []  # what may follow the current word, such as CATEGORY after SET

    def fail(self, expected: str) -> QueryError:
        """The error for the current token, or for the next one if the current word began an alternative."""
        if self._begun:
            expected = f"{' or '.join(self._begun)} after {self._tokens[self._i].text}"
            self._i += 1
        if self._i < len(self._tokens):
            token = self._tokens[self._i]
            return QueryError(f"expected {expected}, found {token.text!r}", self._sql, token.start)
        return QueryError(f"expected {expected}, found the end", self._sql, len(self._sql.rstrip()))

    def text(self, expected: str) -> str:
        """Read a quoted string."""
        if self._i < len(self._tokens) and self._tokens[self._i].token_type == TokenType.STRING:
            self._i += 1
            return self._tokens[self._i - 1].text
        raise self.fail(expected)

    def name(self) -> str:
        """Read the name of an entity."""
        found = self.text("the entity's name in single quotes")
        if not found.strip():
            self._i -= 1
            raise self.fail("a name that is not empty")
        return found

    def texts(self, expected: str) -> tuple[str, ...]:
        """Read quoted strings separated by commas."""
        found = [self.text(expected)]
        while self.match(","):
            found.append(self.text(expected))
        return tuple(found)

    def match(self, *words: str) -> bool:
        """Step over the words if they come next; returns whether they did."""
        piece = self._tokens[self._i : self._i + len(words)]
        if any(token.token_type == TokenType.STRING for token in piece[:1]):
            return False
        same = [
            token.token_type != TokenType.STRING and token.text.upper() == word
            for token, word in zip(piece, words, strict=False)
        ]
        if all(same) and len(piece) == len(words):
            self._i += len(words)
            self._begun = []
            return True
        if same[:1] == [True]:
            self._begun.append(words[1])
        return False

    def expect(self, *words: str) -> None:
        """Step over the words; raise if they do not come next."""
        if not self.match(*words):
            raise self.fail(" ".join(words))

    def end(self) -> None:
        """Raise unless only semicolons follow."""
        while self.match(";"):
            pass
        if self._i < len(self._tokens):
            raise self.fail("the end of the statement")


_PICTURES = "a picture, folder or pattern in single quotes"


def _create(reader: _Reader) -> EntityStatement:
    entity = reader.name()
    category = reader.match("AS", "CATEGORY")
    reader.expect("FROM")
    pictures = reader.texts(_PICTURES)
    negatives = reader.texts(_PICTURES) if reader.match("NOT", "FROM") else ()
    return CreateEntity(entity, pictures, negatives, category)


def _alter(reader: _Reader) -> EntityStatement:
    entity = reader.name()
    if reader.match("ADD"):
        negative = reader.match("NOT")
        return AddExemplars(entity, reader.texts(_PICTURES), negative)
    if reader.match("REMOVE"):
        return RemoveExemplars(entity, reader.texts("an exemplar's name in single quotes"))
    if reader.match("RENAME", "TO"):
        return RenameEntity(entity, reader.name())
    for kind in ("CATEGORY", "INSTANCE"):
        if reader.match("SET", kind):
            return SetCategory(entity, kind == "CATEGORY")
    raise reader.fail("ADD, REMOVE, RENAME TO, SET CATEGORY or SET INSTANCE")


def _drop(reader: _Reader) -> EntityStatement:
    if_exists = reader.match("IF", "EXISTS")
    return DropEntity(reader.name(), if_exists)


def _forget(reader: _Reader) -> EntityStatement:
    return ForgetEntity(reader.name(), reader.match("WITH", "SIGHTINGS"))


def _describe(reader: _Reader) -> EntityStatement:
    return DescribeEntity(reader.name())


_PARSERS = {"CREATE": _create, "ALTER": _alter, "DROP": _drop, "FORGET": _forget, "DESCRIBE": _describe}
