"""SQL on one store comes in; Results go out. Engines and matcher are kept until the library changes."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.album.examples import embed_exemplars, lacking
from panorama.album.given_pictures import one_picture
from panorama.answering.calibration import calibrations_for, measured_with
from panorama.answering.quick_looks import quick_segments
from panorama.answering.sightings import CatalogSightings, Known
from panorama.answering.source import KeptIndexes, LateMatcher, SnapshotVectors, unsearched
from panorama.commands import command
from panorama.errors import LibraryWriteError, ModelError, QueryError, UsageError
from panorama.models.base import Embedder, Image
from panorama.query.engine import Engine
from panorama.query.handed.relations import Limits, Tables
from panorama.query.matching.matcher import AlbumMatcher, VectorSource
from panorama.query.matching.matches import BAND_NAMES
from panorama.query.matching.promises import evidence_for
from panorama.query.result.result import Result
from panorama.query.text.statements import DescribeEntity, EntityStatement, ShowEntities, parse_statement
from panorama.query.text.tokens import tokenize
from panorama.stopping import signals_raise
from panorama.store import Snapshot, Store
from panorama.store.scenes.places import PlaceTables
from panorama.threads import Threads, products_alone

IDLE_ENGINES = 4
"""Engines kept for later queries: one per concurrent thread, picture root and set of limits."""

Parameters = Sequence[Any] | Mapping[str, Any] | None
Asked = str | tuple[str, Parameters]
"""A query as SQL, or as SQL and the values of its parameters."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether two pictures show the same entity.

    Attributes:
        score: in [0, 1].
        band: 'accepted', 'uncertain' or 'rejected'.
        exit: the exit that decided.
    """

    score: float
    band: str
    exit: int


@dataclass(frozen=True, slots=True)
class _Idle:
    """An engine that no query is using, and what it was made for."""

    picture_root: Path | None
    limits: Limits
    engine: Engine


def entity_statement(sql: str, parameters: Parameters, read_only: bool = False) -> EntityStatement | None:
    """The statement that changes or describes an entity; None for a query.

    Raises:
        QueryError: it has parameters, which such statements do not take, or it changes something despite
            `read_only`.
    """
    tokens = tokenize(sql)
    statement = parse_statement(tokens, sql)
    if statement is None or isinstance(statement, ShowEntities):
        return None
    if read_only and not isinstance(statement, DescribeEntity):
        verb = tokens[0].text.upper()
        raise QueryError(f"{verb} ENTITY is refused: this query may only read", sql, tokens[0].start)
    if parameters:
        raise QueryError("statements about entities take no parameters; write the values", sql)
    return statement


class Answering:
    """Answers queries on the newest snapshot of a store; several threads may use it.

    Args:
        store: of the library.
        embedder: returns the model to search with; called when a statement first needs it, by any thread.
    """

    def __init__(self, store: Store, embedder: Callable[[], Embedder]) -> None:
        self._store = store
        self._embedder = embedder
        self._lock = threading.RLock()
        self._is_over = False
        self._snapshot: Snapshot | None = None
        self._matcher: AlbumMatcher | None = None
        self._unsearched: tuple[str, ...] | None = None
        self._idle: list[_Idle] = []
        self._left: list[Tables] = []
        self._indexes = KeptIndexes()
        self._known: dict[str, Known] = {}

    def query(
        self, sql: str, parameters: Parameters, picture_root: Path | None, limits: Limits | None = None,
        stop: threading.Event | None = None,
    ) -> Result:  # fmt: skip
        """The answer to one SELECT; QueryTimeout once `stop` is set."""
        with self._at_work(), self._engine(picture_root, limits) as (engine, snapshot):
            result = engine.query(sql, parameters, stop)
        result.warnings += self._warnings(snapshot)
        return result

    def query_each(
        self, queries: Sequence[Asked], picture_root: Path | None, limits: Limits | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Result]:  # fmt: skip
        """The answers to several SELECTs, as they are found, all from one snapshot and one matching pass."""
        asked = [query if isinstance(query, tuple) else (query, None) for query in queries]
        with self._engine(picture_root, limits) as (engine, snapshot):
            with self._at_work():
                engine.prepare(asked, stop)
            for sql, parameters in asked:
                with self._at_work():  # left before the yield, so not held while the caller uses the answer
                    result = engine.query(sql, parameters, stop)
                result.warnings += self._warnings(snapshot)
                yield result

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """While a query runs, indexing pauses, libraries have threads that suit it, and Ctrl-C ends it."""
        with signals_raise(), self._store.asking(), Threads.here().lent(), products_alone():
            yield

    def verify(self, first: Image, second: Image) -> Verdict:
        """Whether two pictures show the same entity."""
        score, band, exit = self.matcher().verify(first, second)
        return Verdict(score, BAND_NAMES[band], exit)

    def matcher(self) -> AlbumMatcher:
        """The matcher for the album of the newest snapshot; it holds the vectors."""
        return self._matcher_of(self._current())

    def vectors_of(self, crop_ids: NDArray[np.int64], exit: int) -> NDArray[np.float32]:
        """Vectors of crops (N,) at an exit, in the order given: (N, dim). It needs no calibration.

        Raises:
            UsageError: the embedder has no such exit, or the library has no such crop.
        """
        snapshot, embedder = self._current(), self._embedder()
        if not 1 <= exit <= embedder.exits:
            raise UsageError(f"{embedder.name} has exits 1 to {embedder.exits}, got {exit}")
        with self._lock:
            source = self._source_of(snapshot, embedder)
        found = source.deepen(np.unique(crop_ids), exit)
        absent = np.setdiff1d(crop_ids, found.crop_ids)
        if len(absent):
            raise UsageError(f"no crop {absent[0]}; see SELECT crop_id FROM crops")
        order = np.argsort(found.crop_ids)
        return np.asarray(found.vectors)[order[np.searchsorted(found.crop_ids[order], crop_ids)]]

    def forget(self) -> None:
        """Release snapshot, vectors and connections; the next query takes new ones."""
        with self._lock:
            self._indexes, self._known = KeptIndexes(), {}
            self._let_go()
            left, self._left = self._left, []
            for tables in left:
                tables.close()

    def close(self) -> None:
        """Release everything for good; what other threads are using is released when their queries end."""
        self._is_over = True
        self.forget()

    def _let_go(self) -> None:
        """Leave the snapshot; its vectors and connections may serve the next one."""
        self._snapshot, self._matcher, self._unsearched = None, None, None
        idle, self._idle = self._idle, []
        for kept in idle:
            self._leave(kept.engine)

    def _leave(self, engine: Engine) -> None:
        self._left.append(engine.leave())
        if len(self._idle) + len(self._left) > IDLE_ENGINES:
            self._left.pop(0).close()

    def _current(self) -> Snapshot:
        snapshot = self._store.snapshot()
        with self._lock:
            if self._snapshot is not snapshot and not self._is_over:
                self._let_go()
                self._snapshot = snapshot
        return snapshot

    @contextlib.contextmanager
    def _engine(self, picture_root: Path | None, limits: Limits | None) -> Iterator[tuple[Engine, Snapshot]]:
        """An engine for exclusive use; it is kept afterwards if the library is still the same."""
        limits = limits or Limits()
        if limits.threads is None:
            limits = replace(limits, threads=Threads.here().duckdb)
        snapshot = self._current()
        engine = self._take(picture_root, limits)
        if engine is None:
            engine = Engine(
                snapshot,
                LateMatcher(
                    lambda: self._matcher_of(snapshot),
                    lambda: evidence_for(measured_with(self._embedder()), snapshot.settings),
                    lambda: self._places_of(snapshot),
                ),
                picture_root=picture_root,
                read_picture=lambda given: one_picture(given, "the array").rgb,
                limits=limits,
                tables=self._tables_of(limits),
                quick=quick_segments(snapshot),
            )
        try:
            yield engine, snapshot
        finally:
            with self._lock:
                if self._snapshot is not snapshot or len(self._idle) >= IDLE_ENGINES:
                    self._leave(engine)
                else:
                    self._idle.append(_Idle(picture_root, limits, engine))
            if self._is_over:
                self.forget()

    def _tables_of(self, limits: Limits) -> Tables | None:
        """A connection with these limits that no engine uses."""
        with self._lock:
            for place, tables in enumerate(self._left):
                if tables.limits == limits:
                    return self._left.pop(place)
        return None

    def _take(self, picture_root: Path | None, limits: Limits) -> Engine | None:
        with self._lock:
            for place, kept in enumerate(self._idle):
                if (kept.picture_root, kept.limits) == (picture_root, limits):
                    return self._idle.pop(place).engine
            # Make room by dropping an engine with other limits, so that this one can be kept afterwards.
            stale = self._idle.pop(0) if len(self._idle) >= IDLE_ENGINES else None
        if stale is not None:
            stale.engine.close()
        return None

    def _matcher_of(self, snapshot: Snapshot) -> AlbumMatcher:
        with self._lock:
            if self._snapshot is snapshot and self._matcher is not None:
                return self._matcher
        # Do this without the lock, so that plain SQL does not wait.
        embedder = self._embedder()
        _check_embedded(snapshot, embedder)
        known = self._with_every_view(snapshot, embedder)
        scenes = self._places_of(known).scenes
        with self._lock:
            if self._snapshot is snapshot and self._matcher is not None:
                return self._matcher
            source = SnapshotVectors(self._store, known, embedder, self._indexes)
            calibrations = calibrations_for(embedder, snapshot.settings)
            sightings = CatalogSightings(self._store, known, embedder, calibrations, scenes, self._known)
            threads = Threads.here().scan
            matcher = AlbumMatcher(source, embedder, calibrations, sightings, threads=threads)
            if self._snapshot is snapshot:
                self._matcher = matcher
            return matcher

    def _with_every_view(self, snapshot: Snapshot, embedder: Embedder) -> Snapshot:
        """The snapshot with vectors of all views of its examples: earlier versions stored one each."""
        if not lacking(snapshot, embedder):
            return snapshot
        with contextlib.suppress(LibraryWriteError):  # if it cannot be written, use the vectors there are
            embed_exemplars(self._store, embedder)
        fresh = self._store.snapshot()
        # If another process has changed the album meanwhile, keep this snapshot's album.
        same = fresh is not snapshot and fresh.entities.equals(snapshot.entities)
        return replace(snapshot, albums=fresh.albums) if same else snapshot

    def _source_of(self, snapshot: Snapshot, embedder: Embedder) -> VectorSource:
        """The vectors that queries search; new ones if there is no matcher, as without a calibration."""
        if self._snapshot is snapshot and self._matcher is not None:
            return self._matcher.source
        _check_embedded(snapshot, embedder)
        return SnapshotVectors(self._store, snapshot, embedder, self._indexes)

    def _places_of(self, snapshot: Snapshot) -> PlaceTables:
        with self._lock:
            return self._indexes.places(snapshot)

    def _warnings(self, snapshot: Snapshot) -> tuple[str, ...]:
        """The warnings of a query that searched; a query that matched nothing needs no model."""
        with self._lock:
            if self._snapshot is not snapshot or self._matcher is None:
                return ()
            if self._unsearched is None:
                self._unsearched = unsearched(snapshot, self._matcher.embedder)
            return self._unsearched


def _check_embedded(snapshot: Snapshot, embedder: Embedder) -> None:
    held = {model for model, _ in snapshot.embeddings}
    if held and embedder.hash not in held:
        raise ModelError(
            f"no crop of this library was embedded with {embedder.name} {embedder.hash[:8]}; "
            f"run `{command('index')}` on the archive again: it begins with the stored crops, which need no"
            " decoding"
        )
