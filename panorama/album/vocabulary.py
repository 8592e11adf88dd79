"""A statement about an entity comes in; the library's album changes, and a small result goes out."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from panorama.album.given_pictures import GROUNDS, passed_over, picture_files
from panorama.errors import BadImage, EntityError, NotYetErased, QueryError, UnknownEntity
from panorama.folders import spelled
from panorama.lines import composed, some
from panorama.query.handed.by_example import ELSEWHERE
from panorama.query.matching.decide import least_similarity
from panorama.query.matching.scoring import Sought
from panorama.query.result.result import Result
from panorama.query.text.quoting import quote_text
from panorama.query.text.statements import (
    AddExemplars,
    CreateEntity,
    DescribeEntity,
    DropEntity,
    EntityStatement,
    ForgetEntity,
    RemoveExemplars,
    RenameEntity,
    SetCategory,
)
from panorama.store import Exemplar, check_name
from panorama.values import is_path

if TYPE_CHECKING:
    from panorama.library import Library

_BEGINS = r"(?<![^\s'\"(\[])(?<!--library )(?<!--library ')"
"""Where the path of a picture may begin: not within another path, nor where a command names the library."""


def execute(library: Library, statement: EntityStatement, picture_root: Path | None) -> Result:
    """Execute one statement; the pictures that it names must lie below `picture_root`.

    Raises:
        QueryError: a picture lies elsewhere, or SQL may not name pictures here.
        UnknownEntity, EntityError, BadImage: as the methods of Library raise them; they show pictures as
            written.
    """
    try:
        result = _execute(library, statement, picture_root)
    except BadImage as exc:
        raise BadImage(_as_written(str(exc), statement, picture_root)) from exc
    result.warnings = tuple(_as_written(told, statement, picture_root) for told in result.warnings)
    return result


def _as_written(told: str, statement: EntityStatement, root: Path | None) -> str:
    """A message with pictures' paths relative to the root, if the statement names all of them this way."""
    if not isinstance(statement, (CreateEntity, AddExemplars, RemoveExemplars)) or root is None:
        return told
    negatives = statement.negatives if isinstance(statement, CreateEntity) else ()
    if any(Path(picture).is_absolute() for picture in (*statement.pictures, *negatives)):
        return told
    for base in dict.fromkeys((root.resolve(), root.absolute())):
        told = re.sub(_BEGINS + re.escape(f"{base}{os.sep}"), "", told)
    return told


def _execute(library: Library, statement: EntityStatement, picture_root: Path | None) -> Result:
    match statement:
        case CreateEntity(name, pictures, negatives, category):
            if check_name(name) in {e.name for e in library.entities()}:
                raise EntityError(
                    f"there is an entity {name!r} already; use ALTER ENTITY {quote_text(name)} ADD '...'"
                )
            found, rivals = below(picture_root, pictures), below(picture_root, negatives)
            made = library.register(name, found, unlike=rivals, category=category or None, known=False)
            left = _passed_over(picture_root, (*pictures, *negatives))
            return _told("created", name, made.warnings + left)
        case AddExemplars(name, pictures, negative):
            library.entity(name)
            found = below(picture_root, pictures)
            examples, rivals = ([], found) if negative else (found, [])
            made = library.register(name, examples, unlike=rivals, known=True)
            return _told("added to", name, made.warnings + _passed_over(picture_root, pictures))
        case RemoveExemplars(name, pictures):
            _remove(library, name, pictures, picture_root)
            return _told("removed from", name)
        case RenameEntity(name, new):
            library.rename(name, new)
            return _told("renamed", new)
        case SetCategory(name, category):
            library.set_category(name, category)
            return _told("changed", name)
        case DropEntity(name, if_exists):
            try:
                library.drop(name)
            except UnknownEntity:
                if not if_exists:
                    raise
                return _told("was not there", name)
            return _told("dropped", name)
        case ForgetEntity(name, with_sightings):
            return _forget(library, name, with_sightings)
        case DescribeEntity(name):
            return describe(library, name)
    raise QueryError(f"no way to execute {type(statement).__name__}")


def _forget(library: Library, name: str, with_sightings: bool) -> Result:
    """Forget an entity. If bytes of it remain, that is a warning, so that later statements still run."""
    left: tuple[str, ...] = ()
    try:
        seen = library.forget(name, with_sightings=with_sightings)
    except NotYetErased as exc:
        seen, left = exc.seen, (str(exc),)
    told = _told("forgot", "", (*left, *(() if seen is None else seen.after())))
    told.complete = not left
    return told


def below(root: Path | None, pictures: Sequence[str]) -> list[Path]:
    """The picture files that paths, folders and patterns mean, each below the root.

    Raises:
        QueryError: there is no root here, or a path leads out of it, also through a link.
        BadImage: one of them matches nothing.
    """
    if not pictures:
        return []
    if root is None:
        raise QueryError(
            "pictures cannot be named in SQL here; register them from Python or the command line"
        )
    base = root.resolve()
    words = [_from_root(picture, root) for picture in pictures]
    for word, picture in zip(words, pictures, strict=True):
        # Resolve a pattern without its parts that have wildcards: what it matches must lie below that folder.
        fixed = base.joinpath(*[part for part in word.parts if not set(part) & set("*?[")])
        if not fixed.resolve().is_relative_to(base):
            raise QueryError(
                f"the picture {picture!r} lies outside {base}, where pictures must be; {ELSEWHERE}"
            )
    files = picture_files(words, base)
    for file in files:
        if not file.resolve().is_relative_to(base):
            raise QueryError(
                f"the picture {file.relative_to(base)} is a link that leads out of {base}, where pictures"
                f" must be; {ELSEWHERE}"
            )
    return files


def _from_root(picture: str, root: Path) -> Path:
    """A path or pattern from the root, if it lies below it: the root's own brackets are no wildcards."""
    path = Path(picture)
    bases = (root.resolve(), root.absolute())
    return next((path.relative_to(base) for base in bases if path.is_relative_to(base)), path)


def _remove(library: Library, name: str, given: Sequence[str], root: Path | None) -> None:
    """Remove the picture that each text means: all of them, or none if one means no picture or several.

    Raises:
        BadImage: there is no such exemplar, or more than one.
    """
    known = library.exemplars(name)
    meant = [one for text in given for one in _meant(known, name, text, root)]
    library.remove_exemplars([exemplar.exemplar_id for exemplar in meant])


def _meant(known: Sequence[Exemplar], name: str, text: str, root: Path | None) -> list[Exemplar]:
    """The exemplar that has this id or path; where none has, the one whose file has this name.

    A picture with transparent parts goes with what it is on other grounds, but not by its id.
    """
    path = _place(text, root)
    hits = [e for e in known if text == str(e.exemplar_id) or path == _place(e.source, root)]
    hits = hits or [e for e in known if composed(text) == composed(Path(e.source).name)]
    if len(hits) == 1 and text != str(hits[0].exemplar_id):
        names = [hits[0].source + ground for ground in GROUNDS]
        return [e for e in known if e.source in names and e.kind == hits[0].kind]
    if len(hits) == 1:
        return hits
    listed = some([f"{e.exemplar_id} ({e.source}, {e.kind})" for e in hits or known])
    if not hits:
        raise BadImage(f"{name!r} has no exemplar {text!r}; it has {listed or 'none'}")
    example = f"ALTER ENTITY {quote_text(name)} REMOVE '{hits[0].exemplar_id}'"
    raise BadImage(
        f"{text!r} fits {len(hits)} exemplars of {name!r}: {listed}. Name one by its id, {example}, or by a"
        " path that only one has"
    )


def _place(source: str, root: Path | None) -> Path:
    """A source as a path from the root; folders may be links, but a picture is the one that was named."""
    path = Path(root or "", source)
    if not is_path(source):
        return path
    return Path(composed(os.path.realpath(spelled(path.parent))), composed(path.name))


def _passed_over(root: Path | None, pictures: Sequence[str]) -> tuple[str, ...]:
    """Remarks on what was left out of the folders that a statement names."""
    return () if root is None else passed_over([root / picture for picture in pictures])


def _told(action: str, entity: str, warnings: tuple[str, ...] = ()) -> Result:
    table = pa.table({"action": [action], "entity": [entity and check_name(entity)]})  # as stored
    return Result(table, ["VARCHAR", "VARCHAR"], warnings=warnings)


def describe(library: Library, name: str) -> Result:
    """One row about an entity: exemplars, its kind, least similarity, their spread, nearest other entity.

    See docs/SQL.md for the columns.
    """
    entity = library.entity(name)
    embedder, exit = library.embedder, library.embedder.exits
    views = library.snapshot().album(embedder.hash, exit)
    sought = Sought.of(views, entity.name, embedder.cohorts()[exit - 1])
    album = views.averaged()
    mine = album.entity_index == album.entities.index(entity.name)
    positive = album.vectors[mine & ~album.negative]  # (P, dim)
    calibration = library.calibrations[exit - 1]
    least = spread = nearest = similarity = None
    if len(positive):
        needed = calibration.normalised(calibration.high)
        if not entity.category:
            least = float(least_similarity(needed, sought.level[: len(sought.positive)]).mean())
        others = ~mine & ~album.negative
        if others.any():
            table = positive @ album.vectors[others].T  # (P, O)
            column = int(table.max(axis=0).argmax())
            nearest = album.entities[int(album.entity_index[others][column])]
            similarity = float(table.max())
        if len(positive) > 1:
            pairs = positive @ positive.T
            spread = float(1 - pairs[~np.eye(len(positive), dtype=bool)].mean())
    row = {
        "entity": pa.array([entity.name], pa.string()),
        "exemplars": pa.array([entity.exemplars], pa.int64()),
        "negatives": pa.array([entity.negatives], pa.int64()),
        "category": pa.array([entity.category], pa.bool_()),
        "least_similarity": pa.array([least], pa.float64()),
        "spread": pa.array([spread], pa.float64()),
        "nearest": pa.array([nearest], pa.string()),
        "nearest_similarity": pa.array([similarity], pa.float64()),
    }
    types = ["VARCHAR", "BIGINT", "BIGINT", "BOOLEAN", "DOUBLE", "DOUBLE", "VARCHAR", "DOUBLE"]
    return Result(pa.table(row), types)
