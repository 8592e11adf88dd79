"""The Python API: a directory enters, a `Library` leaves that indexes, registers and answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama import registering, vocabulary
from panorama.calibration import calibrations_for
from panorama.crops import decode_picture
from panorama.errors import ModelError, UsageError
from panorama.models.base import Embedder, Proposer
from panorama.models.registry import load_embedder
from panorama.query.decide import Calibration
from panorama.query.dialect import tokenize
from panorama.query.engine import Engine
from panorama.query.matches import BAND_NAMES
from panorama.query.matching import AlbumMatcher
from panorama.query.relations import Limits
from panorama.query.result import Result
from panorama.query.statements import ShowEntities, parse_statement
from panorama.source import SnapshotVectors
from panorama.store import Exemplar, LibraryInfo, ModelRow, Snapshot, Store

if TYPE_CHECKING:
    from panorama.archive import Hooks, IndexReport
    from panorama.ingest import IngestSettings

DEFAULT_PATH = "panorama-library"
ENVIRONMENT = "PANORAMA_LIBRARY"
_EMBEDDER_SETTING = "embedder"


@dataclass(frozen=True, slots=True)
class Entity:
    """One name of the vocabulary and how many pictures stand for it."""

    name: str
    exemplars: int
    negatives: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether two pictures show the same entity: score in [0, 1], band, and the exit that decided."""

    score: float
    band: str
    exit: int


def library_path(path: str | Path | None = None) -> Path:
    """The library meant: the path given, else $PANORAMA_LIBRARY, else ./panorama-library."""
    return Path(path or os.environ.get(ENVIRONMENT) or DEFAULT_PATH)


class Library:
    """Everything Panorama knows of some footage; made by `panorama.open`.

    Models are loaded when first needed. Use it in one thread; open it in as many processes as you like.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._embedder: Embedder | None = None
        self._proposer: Proposer | None = None
        self._sources: tuple[Snapshot, AlbumMatcher] | None = None

    # Life

    @property
    def path(self) -> Path:
        """The library's directory."""
        return self._store.path

    def close(self) -> None:
        """Let go of the library's files."""
        self._sources = None
        self._store.close()

    def __enter__(self) -> Library:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Library({str(self.path)!r})"

    # Models

    @property
    def embedder(self) -> Embedder:
        """The model that this library is searched with."""
        if self._embedder is None:
            self._embedder = load_embedder(self._store.setting(_EMBEDDER_SETTING))
        return self._embedder

    @property
    def proposer(self) -> Proposer:
        """The model that finds regions while indexing."""
        if self._proposer is None:
            # torch takes seconds to import; a query does not need it.
            from panorama.models.proposer import load_proposer

            self._proposer = load_proposer()
        return self._proposer

    def use_model(self, name: str) -> None:
        """Search with another embedder from now on; the next `index` embeds what is stored, decoding nothing.

        Raises:
            ModelError: there is no such model.
        """
        self._embedder = load_embedder(name)
        self._sources = None
        self._store.put_setting(_EMBEDDER_SETTING, name)

    def _remember_model(self) -> None:
        model = self.embedder
        self._store.put_model(ModelRow(model.hash, model.name, "embedder", model.dim, model.exits))

    # Index

    def index(
        self,
        paths: Sequence[str | Path] | str | Path,
        *,
        settings: IngestSettings | None = None,
        model: str | None = None,
        hooks: Hooks | None = None,
    ) -> IndexReport:
        """Index files, folders and globs; what has not changed since is skipped.

        Args:
            paths: one or several; folders are searched for videos, recursively.
            settings: sampling rate and the like; defaults otherwise.
            model: name of the embedder, which the library keeps using.
            hooks: callbacks while it runs.

        Returns:
            What became of every file; failures are listed in it, not raised.
        """
        # Loaded here: a query does not need what only indexing uses.
        from panorama.archive import embed_exemplars, index_paths
        from panorama.ingest import Indexer, IngestSettings

        if model is not None:
            self.use_model(model)
        indexer = Indexer(self.embedder, self.proposer, settings or IngestSettings())
        self._remember_model()
        given = [paths] if isinstance(paths, (str, Path)) else list(paths)
        report = index_paths(self._store, indexer, given, hooks)
        embed_exemplars(self._store, self.embedder)
        self._store.sweep()
        return report

    def remove_video(self, video: str) -> None:
        """Take a video out of the library; its file is not touched.

        Raises:
            UnknownVideo: the library holds none of that name.
        """
        self._store.remove_video(video)

    def compact(self) -> int:
        """Merge many small data files into few large ones; how many were replaced."""
        return self._store.compact()

    def info(self) -> LibraryInfo:
        """Counts, bytes by kind, models."""
        return self._store.info()

    def videos(self) -> pa.Table:
        """The videos, one row each, in order of name."""
        return self.snapshot().videos

    # Album

    def register(
        self,
        name: str,
        images: Sequence[str | Path | NDArray[np.uint8]] | str | Path = (),
        *,
        unlike: Sequence[str | Path] = (),
        box: str | None = None,
        find: bool = False,
    ) -> Entity:
        """Add example pictures to an entity, making it if it is new; nothing is decoded again.

        Args:
            name: of the entity.
            images: files, folders, globs or RGB arrays (H, W, 3); each as given is an example.
            unlike: look-alikes that the entity is not.
            box: `x1,y1,x2,y2`, cut from the one image given.
            find: cut the most likely thing out of every image.

        Raises:
            BadImage, BadBox: a picture cannot serve; nothing is registered.
            EntityError: the name cannot serve.
        """
        given = [images] if isinstance(images, (str, Path)) else list(images)
        pictures = self._pictures(given)
        if box is not None and find:
            raise UsageError("give --box or --find, not both")
        if box is not None:
            if len(pictures) != 1:
                raise UsageError(f"--box cuts one image, {len(pictures)} were given")
            pictures = [registering.cut_box(pictures[0], box)]
        if find:
            pictures = [registering.find_region(p, self.proposer) for p in pictures]
        rivals = self._pictures(list(unlike))
        if not pictures and not rivals:
            raise UsageError(f"no picture given for {name!r}: name image files or a folder of them")
        return self._add(name, pictures, rivals)

    def register_from_video(self, name: str, video: str | Path, seconds: float, box: str | None) -> Entity:
        """Add the part of a video's frame inside a box as an example; see `register`."""
        return self._add(name, [registering.video_picture(Path(video), seconds, box)], [])

    def register_album(self, folder: str | Path) -> list[Entity]:
        """Register one entity per subfolder; look-alikes lie in its subfolder `not`. All or none."""
        read = [
            (name, self._pictures(images), self._pictures(rivals))
            for name, images, rivals in registering.album_folders(Path(folder))
        ]
        return [self._add(name, pictures, rivals) for name, pictures, rivals in read]

    def _pictures(self, given: Sequence[Any]) -> list[registering.Picture]:
        arrays = [g for g in given if isinstance(g, np.ndarray)]
        files = registering.picture_files([g for g in given if not isinstance(g, np.ndarray)])
        return [registering.read_picture(path) for path in files] + [
            registering.checked(registering.Picture(np.asarray(a, np.uint8), f"array {i}"))
            for i, a in enumerate(arrays)
        ]

    def _add(
        self, name: str, pictures: list[registering.Picture], rivals: list[registering.Picture]
    ) -> Entity:
        self._remember_model()
        items = registering.exemplars(pictures, self.embedder) if pictures else []
        if rivals:
            items += registering.exemplars(rivals, self.embedder, negative=True)
        self._store.add_exemplars(name, items)
        return self.entity(name)

    def entities(self) -> list[Entity]:
        """The vocabulary, in order of name."""
        rows = self.snapshot().entities.to_pylist()
        return [Entity(r["entity"], r["exemplars"], r["negatives"]) for r in rows]

    def entity(self, name: str) -> Entity:
        """One entity; UnknownEntity with near names."""
        known = self._store.exemplars(name)
        negatives = sum(e.negative for e in known)
        return Entity(name.strip(), len(known) - negatives, negatives)

    def exemplars(self, name: str) -> list[Exemplar]:
        """The pictures of an entity, in order of registration."""
        return self._store.exemplars(name)

    def rename(self, name: str, new: str) -> None:
        """Give an entity another name; EntityError if it is taken."""
        self._store.rename_entity(name, new)

    def remove_exemplar(self, exemplar_id: int) -> None:
        """Unregister one picture."""
        self._store.remove_exemplar(exemplar_id)

    def drop(self, name: str) -> None:
        """Unregister an entity; UnknownEntity with near names."""
        self._store.drop_entity(name)

    def forget(self, name: str, *, with_sightings: bool = False) -> None:
        """Erase an entity so that its bytes are gone; with its sightings, also the crops matched to it."""
        tracks = None
        if with_sightings:
            found = self.query("SELECT track_id FROM sightings WHERE entity = ?", [name])
            tracks = np.array([row[0] for row in found.fetchall()], np.int64)
        self._store.forget_entity(name, tracks)

    # Query

    def query(
        self,
        sql: str,
        parameters: Sequence[Any] | Mapping[str, Any] | None = None,
        *,
        picture_root: Path | None = None,
        limits: Limits | None = None,
    ) -> Result:
        """Answer one SQL statement; see docs/SQL.md.

        Args:
            sql: DuckDB's SQL over the library's relations, or with Panorama's extensions.
            parameters: values for `?` or `$name`.
            picture_root: pictures named in the SQL lie below it; default the working directory.
            limits: time, memory, threads.

        Raises:
            QueryError: the statement cannot be answered; it points at the place.
        """
        root = Path.cwd() if picture_root is None else picture_root
        statement = parse_statement(tokenize(sql), sql)
        if statement is not None and not isinstance(statement, ShowEntities):
            return vocabulary.execute(self, statement, root)
        snapshot = self.snapshot()
        engine = Engine(
            snapshot,
            self._matcher(snapshot),
            picture_root=root,
            read_picture=lambda path: registering.read_picture(path).rgb,
            limits=limits or Limits(),
        )
        try:
            return engine.query(sql, parameters)
        finally:
            engine.close()

    def verify(self, first: str | Path, second: str | Path) -> Verdict:
        """Whether two pictures show the same entity."""
        a, b = (registering.read_picture(Path(p)).rgb for p in (first, second))
        score, band, exit = self._matcher(self.snapshot()).verify(a, b)
        return Verdict(score, BAND_NAMES[band], exit)

    def crop(self, crop_id: int) -> NDArray[np.uint8]:
        """A stored crop as an RGB picture (H, W, 3); UsageError where there is none of that id."""
        for batch in self._store.read_crops(crop_ids=np.array([crop_id], np.int64)):
            return decode_picture(batch.jpegs[0])
        raise UsageError(f"no crop {crop_id}; see SELECT crop_id FROM crops")

    def vectors_of(self, crop_ids: NDArray[np.int64], exit: int) -> NDArray[np.float32]:
        """Vectors of stored crops at an exit of the library's model, in the order given: (N, dim)."""
        found = self._matcher(self.snapshot()).source.deepen(np.unique(crop_ids), exit)
        order = np.argsort(found.crop_ids)
        return np.asarray(found.vectors)[order[np.searchsorted(found.crop_ids[order], crop_ids)]]

    def snapshot(self) -> Snapshot:
        """One consistent view of what the library holds now."""
        return self._store.snapshot()

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """How scores become bands at each exit: the library's own calibration, else the model's."""
        return calibrations_for(self.embedder, self.snapshot().settings)

    def _matcher(self, snapshot: Snapshot) -> AlbumMatcher:
        """Kept while the library does not change: it holds the vectors in memory."""
        if self._sources is None or self._sources[0] is not snapshot:
            self._check_embedded(snapshot)
            source = SnapshotVectors(self._store, snapshot, self.embedder)
            calibrations = calibrations_for(self.embedder, snapshot.settings)
            self._sources = (snapshot, AlbumMatcher(source, self.embedder, calibrations))
        return self._sources[1]

    def _check_embedded(self, snapshot: Snapshot) -> None:
        held = {model for model, _ in snapshot.embeddings}
        if held and self.embedder.hash not in held:
            raise ModelError(
                f"no crop of this library was embedded with {self.embedder.name} {self.embedder.hash[:8]}; "
                "run `panorama index` on the archive again: it embeds the stored crops without decoding"
            )


def open_library(path: str | Path | None = None, *, create: bool = False) -> Library:
    """The library at a path (default: $PANORAMA_LIBRARY, else ./panorama-library).

    Args:
        create: make it if there is none.

    Raises:
        LibraryNotFound: there is none and `create` is False.
        LibraryVersionError: another version of Panorama made it.
    """
    where = library_path(path)
    return Library(Store.create(where, exist_ok=True) if create else Store.open(where))
