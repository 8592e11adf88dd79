"""Names, pictures and vectors of entities come in; rows and files of the album go out, erased on demand."""

from __future__ import annotations

import contextlib
import hashlib
import time
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command, command_of
from panorama.errors import BadImage, EntityError, LibraryWriteError, UnknownEntity, no_entity
from panorama.store.catalog import erasures, seen, settings
from panorama.store.catalog.database import Transaction, write_errors
from panorama.store.files.layout import Place, write_atomically
from panorama.store.files.own_names import check_no_link, picture_file
from panorama.store.files.permissions import check_folder

LONGEST_NAME = 200

_ENTITY = "SELECT entity_id FROM entities WHERE name = :name"
_NAMES = "SELECT name FROM entities ORDER BY name"
_NEW_ENTITY = "INSERT INTO entities (name, created_at) VALUES (:name, :now) RETURNING entity_id"
_RENAME = "UPDATE entities SET name = :new WHERE entity_id = :entity"
_SET_CATEGORY = "UPDATE entities SET category = :category WHERE entity_id = :entity"
_DROP_ENTITY = "DELETE FROM entities WHERE entity_id = :entity"
_SAME_PICTURE = """
SELECT exemplar_id, negative, denied, picture FROM exemplars WHERE entity_id = :entity AND sha256 = :sha256
"""
_NEW_EXEMPLAR = """
INSERT INTO exemplars (entity_id, negative, denied, source, picture, sha256, width, height, created_at)
VALUES (:entity, :negative, :denied, :source, :picture, :sha256, :width, :height, :now) RETURNING exemplar_id
"""
_SAY_AGAIN = "UPDATE exemplars SET negative = :negative, denied = :denied WHERE exemplar_id = :exemplar"
_EXEMPLARS = """
SELECT x.exemplar_id, e.name, x.negative, x.denied, x.source, x.picture, x.sha256, x.width, x.height
FROM exemplars x JOIN entities e ON e.entity_id = x.entity_id
"""
_EXEMPLARS_OF = f"{_EXEMPLARS} WHERE x.entity_id = :entity ORDER BY x.exemplar_id"
_EXEMPLAR = f"{_EXEMPLARS} WHERE x.exemplar_id = :exemplar"
_PICTURES = "SELECT picture FROM exemplars"
_PICTURES_OF = "SELECT picture FROM exemplars WHERE entity_id = :entity"
_DROP_EXEMPLAR = "DELETE FROM exemplars WHERE exemplar_id = :exemplar"
_PUT_VECTOR = """
INSERT INTO exemplar_vectors (exemplar_id, model_hash, exit, views, vectors)
VALUES (:exemplar, :model_hash, :exit, :views, :vectors)
ON CONFLICT (exemplar_id, model_hash, exit) DO UPDATE SET views = excluded.views, vectors = excluded.vectors
"""
_MISSING = f"""{_EXEMPLARS}
WHERE (SELECT count(*) FROM exemplar_vectors v
       WHERE v.exemplar_id = x.exemplar_id AND v.model_hash = :model_hash AND v.views >= :views) < :exits
ORDER BY x.exemplar_id
"""

Vectors = Mapping[tuple[str, int], NDArray[np.float32]]
"""The vectors (V, dim) of the views of one picture, by (model_hash, exit)."""


@dataclass(frozen=True, slots=True)
class NewExemplar:
    """A picture to register.

    Attributes:
        picture: the bytes of the JPEG to keep.
        source: where it came from, for people: a path, or a video and a time.
        negative: True for a picture of something that is not the entity.
        vectors: by (model_hash, exit).
        width, height: of the picture in pixels; 0 if unknown.
        denied: True for a negative that was seen in the library and denied: it rejects only tracks that could
            be a picture of it. False for a look-alike.
        seen: its place, if it is a crop of a video of this library.
    """

    picture: bytes
    source: str
    negative: bool = False
    vectors: Vectors = field(default_factory=dict)
    width: int = 0
    height: int = 0
    denied: bool = False
    seen: seen.SeenAt | None = None

    def __post_init__(self) -> None:
        if not self.picture:
            raise BadImage(f"the picture {self.source!r} is empty")
        if self.denied and not self.negative:
            raise ValueError(f"an example cannot be denied, got {self.source!r}")


@dataclass(frozen=True, slots=True)
class Exemplar:
    """A registered picture.

    Attributes:
        exemplar_id: its id in the library.
        entity: the entity's name.
        negative, denied, source, width, height: as in `NewExemplar`.
        picture: absolute path of its file.
        sha256: hex digest of the file's bytes as registered.
    """

    exemplar_id: int
    entity: str
    negative: bool
    denied: bool
    source: str
    picture: Path
    sha256: str
    width: int
    height: int

    @property
    def kind(self) -> str:
        """What it is to the entity: 'example', 'look-alike' or 'denied'."""
        if self.denied:
            return "denied"
        return "look-alike" if self.negative else "example"


def check_name(name: str) -> str:
    """The name in the form in which it is stored: Unicode NFC, without blanks around it.

    Raises:
        EntityError: it is not text, is empty or too long, or contains line breaks or control characters.
    """
    if not isinstance(name, str):
        raise EntityError(f"an entity's name is text, got {type(name).__name__} {name!r:.40}")
    clean = unicodedata.normalize("NFC", name).strip()
    if not clean:
        raise EntityError(f"an entity needs a name, got {name!r}")
    if len(clean) > LONGEST_NAME:
        raise EntityError(
            f"an entity's name has at most {LONGEST_NAME} characters, got {len(clean)}: {clean[:40]!r}..."
        )
    bad = sorted({c for c in clean if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp")})
    if bad:
        raise EntityError(f"an entity's name has no line breaks or control characters, got {clean!r}")
    return clean


def add_exemplars(place: Place, entity: str, items: Sequence[NewExemplar]) -> list[int]:
    """Register pictures of one entity, see `add_album`; return their ids in the order of `items`."""
    return add_album(place, {entity: items})[0]


def add_album(
    place: Place,
    entries: Mapping[str, Sequence[NewExemplar]],
    category: bool | None = None,
    known: bool | None = None,
) -> list[list[int]]:
    """Register pictures of several entities, all or none; create entities that are new.

    A picture that an entity already has keeps its id. Its vectors are updated, and its file is restored if it
    is lost. A picture that was seen in a video takes the latest answer: confirming it undoes an earlier
    denial, and the reverse.

    Args:
        category: whether all these entities stand for any of their kind; None leaves it as it is.
        known: True to add only to entities that exist, False only to new ones; None for both.

    Returns:
        Exemplar ids, in the order of `entries` and of the pictures of each.

    Raises:
        EntityError: an invalid name, no picture, a picture without `seen` that is registered with the other
            sign, or an entity that exists despite `known`.
        UnknownEntity: an entity that does not exist despite `known`, or that has no example among `items`.
    """
    checked = [(check_name(entity), items) for entity, items in entries.items()]
    for name, items in checked:
        if not items:
            raise EntityError(f"no picture given for entity {name!r}; name at least one image")
    written: list[Path] = []
    try:
        with place.catalog.write() as tx:
            ids = []
            for name, items in checked:
                entity_id = _find_or_make(tx, name, known, has_example=not all(i.negative for i in items))
                if category is not None:
                    tx.run(_SET_CATEGORY, entity=entity_id, category=int(category))
                ids.append([_add(tx, place, name, entity_id, item, written) for item in items])
            tx.bump("album")
    except BaseException:
        with contextlib.suppress(LibraryWriteError):  # the first error is the one that the user needs
            remove_unlisted(place, written)
        raise
    return ids


def _find_or_make(tx: Transaction, name: str, known: bool | None, has_example: bool) -> int:
    """The id of an entity, see `add_album`: another process may have made or dropped it a moment ago."""
    found = tx.scalar(_ENTITY, name=name)
    if found is not None and known is False:
        raise _taken(name)
    if found is None and has_example and not known:
        return int(tx.scalar(_NEW_ENTITY, name=name, now=time.time()))
    return id_of(tx, name)


def _taken(name: str) -> EntityError:
    return EntityError(f"there is an entity {name!r} already; choose another name or drop it first")


def _add(
    tx: Transaction, place: Place, name: str, entity_id: int, item: NewExemplar, written: list[Path]
) -> int:
    digest = hashlib.sha256(item.picture).hexdigest()
    same = tx.row(_SAME_PICTURE, entity=entity_id, sha256=digest)
    if same is not None:
        kept = picture_file(place.root, same.picture)
        exemplar = int(same.exemplar_id)
        if bool(same.negative) != item.negative:
            given_with_it = kept in written
            if given_with_it or item.seen is None:
                denied = item.denied or bool(same.denied)
                raise EntityError(_both(name, item, denied, None if given_with_it else exemplar))
            seen.forget(tx, exemplar)  # the new answer is not about other places that look the same
        signs = {"negative": int(item.negative), "denied": int(item.denied)}
        tx.run(_SAY_AGAIN, exemplar=exemplar, **signs)
        _put_back(kept, item.picture)
    else:
        path = place.album / str(entity_id) / f"{digest[:32]}.jpg"
        check_no_link(path.parent)
        with write_errors(path):
            # Note the path before the file exists, so that an interrupt in between leaves nothing behind.
            written.append(path)
            write_atomically(path, item.picture)
        exemplar = int(
            tx.scalar(
                _NEW_EXEMPLAR,
                entity=entity_id,
                negative=int(item.negative),
                denied=int(item.denied),
                source=item.source,
                picture=str(path.relative_to(place.root)),
                sha256=digest,
                width=item.width,
                height=item.height,
                now=time.time(),
            )
        )
    _put_vectors(tx, exemplar, item.vectors)
    if item.seen is not None:
        seen.put(tx, exemplar, item.seen)
    return exemplar


def _put_back(path: Path, picture: bytes) -> None:
    """Write the file of a registered picture again if it is missing or has other contents."""
    if not path.is_file() or path.read_bytes() != picture:
        with write_errors(path):
            write_atomically(path, picture)


def _both(name: str, item: NewExemplar, denied: bool, registered: int | None) -> str:
    """The message for a picture given with two signs; `registered`: id of the stored one, None if new."""
    no = "a denied picture" if denied else "a look-alike"
    said = f"{item.source!r} is both an exemplar and {no} of {name!r}"
    if registered is None:
        return f"{said}; give it as only one of them"
    kept = "an exemplar" if item.negative else no
    first = command_of("exemplars", name, f"--remove {registered}")
    return f"{said}: it is registered as {kept}; to change that, first: {first}"


def remove_unlisted(place: Place, paths: Sequence[Path], wait_seconds: float | None = None) -> int:
    """Delete those of some picture files that no exemplar names; return how many.

    Args:
        wait_seconds: how long to wait for a writer; None for BUSY_SECONDS.
    """
    # Pictures are written inside the transaction that lists them: a transaction here shuts their writers out.
    with place.catalog.write(wait_seconds=wait_seconds) as tx:
        listed = {row.picture for row in tx.rows(_PICTURES)}
        gone = [path for path in paths if str(path.relative_to(place.root)) not in listed]
        for path in gone:
            path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                path.parent.rmdir()  # fails unless that was the last picture
    return len(gone)


def _put_vectors(tx: Transaction, exemplar: int, vectors: Vectors) -> None:
    values: list[Mapping[str, Any]] = []
    for (model_hash, exit), views in vectors.items():
        rows = np.ascontiguousarray(views, np.float32)
        if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
            raise ValueError(f"an exemplar's vectors are (views, dim) finite numbers, got shape {rows.shape}")
        key = {"exemplar": exemplar, "model_hash": model_hash, "exit": exit}
        values.append({**key, "views": len(rows), "vectors": rows.tobytes()})
    tx.run_many(_PUT_VECTOR, values)


def put_exemplar_vectors(place: Place, vectors: Mapping[int, Vectors]) -> None:
    """Add or replace vectors of registered pictures, by exemplar id."""
    with place.catalog.write() as tx:
        for exemplar, found in vectors.items():
            # It may have been removed while its vectors were computed; that is not an error.
            if tx.row(_EXEMPLAR, exemplar=exemplar) is not None:
                _put_vectors(tx, exemplar, found)
        tx.bump("album")


def missing_exemplar_vectors(
    tx: Transaction, root: Path, model_hash: str, exits: int, views: int
) -> list[Exemplar]:
    """Registered pictures with fewer than `views` vectors at any of the exits 1 to `exits` of a model."""
    rows = tx.rows(_MISSING, model_hash=model_hash, exits=exits, views=views)
    return [_exemplar(row, root) for row in rows]


def exemplars(tx: Transaction, root: Path, entity: str) -> list[Exemplar]:
    """The pictures of an entity, in the order of registration.

    Raises:
        UnknownEntity: there is no such entity.
    """
    return [_exemplar(row, root) for row in tx.rows(_EXEMPLARS_OF, entity=id_of(tx, entity))]


def entity_names(tx: Transaction) -> list[str]:
    """All names of entities, sorted."""
    return [row.name for row in tx.rows(_NAMES)]


def rename_entity(place: Place, entity: str, new: str) -> None:
    """Give an entity another name.

    Raises:
        UnknownEntity: there is no such entity.
        EntityError: the new name is invalid or taken.
    """
    name = check_name(new)
    with place.catalog.write() as tx:
        entity_id = id_of(tx, entity)
        holder = tx.scalar(_ENTITY, name=name)
        if holder is not None and holder != entity_id:
            raise _taken(name)
        tx.run(_RENAME, entity=entity_id, new=name)
        tx.bump("album")


def set_category(place: Place, entity: str, category: bool) -> None:
    """Set whether an entity stands for any of its kind; UnknownEntity if there is no such entity."""
    with place.catalog.write() as tx:
        tx.run(_SET_CATEGORY, entity=id_of(tx, entity), category=int(category))
        tx.bump("album")


def remove_exemplars(place: Place, exemplar_ids: Iterable[int]) -> None:
    """Unregister pictures, all or none. An entity without positive pictures stays and matches nothing.

    Raises:
        EntityError: one of these ids does not exist.
    """
    pictures = []
    with place.catalog.write() as tx:
        for exemplar in dict.fromkeys(exemplar_ids):
            row = tx.row(_EXEMPLAR, exemplar=exemplar)
            if row is None:
                raise EntityError(f"no exemplar {exemplar}. See: {command('entities')}")
            pictures.append(picture_file(place.root, row.picture))
            check_folder(place.root, pictures[-1].parent)
            tx.run(_DROP_EXEMPLAR, exemplar=exemplar)
        tx.bump("album")
    remove_unlisted(place, pictures)


def drop_entity(place: Place, entity: str) -> None:
    """Unregister an entity with all its pictures.

    Raises:
        UnknownEntity: there is no such entity.
    """
    with place.catalog.write() as tx:
        pictures = _delete(tx, place.root, entity)
    remove_unlisted(place, pictures)


def forget_entity(place: Place, entity: str, detail: str = "") -> None:
    """Unregister an entity for good and write an audit row. `erasing.finish` deletes its pictures and bytes.

    Raises:
        UnknownEntity: there is no such entity.
    """
    with place.catalog.write() as tx:
        _delete(tx, place.root, entity)
        settings.audit(tx, "forget entity", check_name(entity), detail)
        tx.mark_erasing()


def _delete(tx: Transaction, root: Path, entity: str) -> list[Path]:
    entity_id = id_of(tx, entity)
    pictures = [picture_file(root, row.picture) for row in tx.rows(_PICTURES_OF, entity=entity_id)]
    for folder in {picture.parent for picture in pictures}:
        check_folder(root, folder)
    tx.run(_DROP_ENTITY, entity=entity_id)
    erasures.drop(tx, entity_id)
    tx.bump("album")
    return pictures


def id_of(tx: Transaction, entity: str) -> int:
    """The id of an entity.

    Raises:
        UnknownEntity: there is no such entity.
    """
    found = tx.scalar(_ENTITY, name=check_name(entity))
    if found is None:
        raise UnknownEntity(no_entity(entity, entity_names(tx)))
    return int(found)


def _exemplar(row: Any, root: Path) -> Exemplar:
    return Exemplar(
        row.exemplar_id,
        row.name,
        bool(row.negative),
        bool(row.denied),
        row.source,
        picture_file(root, row.picture),
        row.sha256,
        row.width,
        row.height,
    )
