"""Stored crops and example images without a model's vectors come in; the vectors go out, without decoding."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from panorama.album.examples import embed_exemplars, views_of
from panorama.album.stored_pictures import CropReader
from panorama.commands import command, command_of
from panorama.errors import PanoramaError
from panorama.indexing.settings import EMBED_BATCH
from panorama.lines import counted, one_line, some
from panorama.models.base import Embedder
from panorama.store import CropBatch, EmbeddingsWriter, Exemplar, Snapshot, Store
from panorama.store.files.schema import segment_of
from panorama.store.vectors.vector_table import VectorTable

EMBEDDING = "embedding"
"""Name of work that only one process at a time does; see `panorama.store.claims`."""

KEPT_CROPS = 16_384
"""Crops embedded between two commits; an interrupt loses at most about this many."""

OnDamage = Callable[[PanoramaError], None]
"""Gets what is wrong with a data file of crops, and what to do."""

SHOWN_EXAMPLES = 5
"""Most unreadable example images to list; further ones are only counted."""


def embed_missing(
    store: Store,
    embedder: Embedder,
    wait: Callable[[], None] = lambda: None,
    depth: int | None = None,
    on_damage: OnDamage | None = None,
) -> int:
    """Embed all stored crops and example images that lack vectors of this model.

    Only one process at a time does that.

    Args:
        wait, depth, on_damage: as for `embed_stored_crops`.

    Returns:
        number of crops that got vectors.
    """
    with store.claims() as claims, claims.alone(EMBEDDING, "another process is embedding stored crops"):
        embedded = embed_stored_crops(store, embedder, wait, depth, on_damage)
        embed_exemplars(store, embedder)
    return embedded


def lost_vectors(store: Store) -> tuple[str, ...]:
    """Have the crops embedded again whose file of vectors is lost; a remark on these files, if any."""
    paths = [str(path) for path in store.unlist_lost_vectors()]
    if not paths:
        return ()
    files = counted(len(paths), "file of vectors was", "files of vectors were")
    return (f"{files} missing or cut off, so the stored crops are embedded again: {some(paths)}",)


def unread_examples(store: Store, embedder: Embedder) -> tuple[str, ...]:
    """Remarks on example images that still lack vectors of this model: they are missing or damaged."""
    waiting = store.missing_exemplar_vectors(embedder.hash, embedder.exits, len(views_of(embedder)))
    if not waiting:
        return ()
    held = set(store.snapshot().album(embedder.hash, embedder.exits).exemplar_ids.tolist())
    told = [_unread(one, one.exemplar_id in held, embedder.name) for one in waiting[:SHOWN_EXAMPLES]]
    more = len(waiting) - len(told)
    return (*told, f"and {more} more: {command('exemplars', 'NAME')}") if more else tuple(told)


def _unread(example: Exemplar, has_vectors: bool, model: str) -> str:
    picture, source, entity = map(one_line, (str(example.picture), example.source, example.entity))
    state = "cannot be read" if example.picture.exists() else "is missing"
    left = f"still has its earlier vectors of {model}, for fewer views"
    if not has_vectors:
        left = f"has no vectors of {model}, so nothing is compared with it"
    return (
        f"{picture}, registered for {entity} from {source}, {state}: it {left}; register it again, or "
        "restore it from a backup and index again, or remove it: "
        + command_of("exemplars", entity, f"--remove {example.exemplar_id}")
    )


def embed_stored_crops(
    store: Store,
    embedder: Embedder,
    wait: Callable[[], None] = lambda: None,
    depth: int | None = None,
    on_damage: OnDamage | None = None,
) -> int:
    """Embed crops that lack vectors of this model, from their JPEGs.

    Args:
        wait: called before each batch; here work pauses to let queries run.
        depth: number of exits at which all crops shall have vectors; None for all.
        on_damage: gets the error of each data file that is lost or holds damaged crops, when the others are
            done. None: the first one is raised.

    Raises:
        LibraryDamaged: a crop cannot be read, and there is no `on_damage`. What was embedded stays.

    Returns:
        number of crops that got vectors at one exit or more.
    """
    # Compare ids, not only counts of rows: two processes may have embedded the same crops at once.
    snapshot = store.snapshot()
    exits = range(1, (depth or embedder.exits) + 1)
    tables = {e: VectorTable.load(snapshot, embedder.hash, e) for e in exits}
    lacking = {e: _short_of(snapshot, table.crop_ids) for e, table in tables.items()}
    segments = np.unique(np.concatenate(list(lacking.values())))
    if not len(segments):
        return 0
    done = waiting = 0
    reader, damaged = CropReader(), list[PanoramaError]()
    writers = _Writers(store, embedder.hash, [e for e, missing in lacking.items() if len(missing)])
    try:
        for crops in store.read_crops(None, segments, EMBED_BATCH, damaged.append):
            # Looked up: `np.isin` would go through all crops of the library for each batch.
            need = {e: tables[e].rows_of(crops.crop_ids) < 0 for e in writers.exits}
            if any(lacks.any() for lacks in need.values()):
                wait()
                waiting += _embed(crops, need, embedder, reader, writers)
            if waiting >= KEPT_CROPS:
                done += writers.commit()
                waiting = 0
        done += writers.commit()
    finally:
        writers.abort()
    for error in (*damaged, *reader.errors()):
        if on_damage is None:
            raise error
        on_damage(error)
    return done


def _embed(
    crops: CropBatch,
    need: Mapping[int, NDArray[np.bool_]],
    embedder: Embedder,
    reader: CropReader,
    writers: _Writers,
) -> int:
    """Embed those of some crops that `need` vectors, (N,) by exit; returns how many of them could be read."""
    wanted = np.logical_or.reduce(list(need.values()))
    read = {row: reader.read(crops, row) for row in np.flatnonzero(wanted).tolist()}
    pictures = [picture for picture in read.values() if picture is not None]
    wanted[[row for row, picture in read.items() if picture is None]] = False
    if not pictures:
        return 0
    gets = {e: lacks & wanted for e, lacks in need.items()}
    vectors = embedder.embed_to(pictures, max(e for e, rows in gets.items() if rows.any()))
    for exit_number, rows in gets.items():
        if rows.any():
            at_exit = vectors[exit_number - 1][rows[wanted]]
            writers.add(exit_number, crops.crop_ids[rows], crops.track_ids[rows], at_exit)
    return len(pictures)


class _Writers:
    """Writers of vectors, one for each exit; after a commit, new writers begin on demand."""

    def __init__(self, store: Store, model_hash: str, exits: Sequence[int]) -> None:
        self.exits = exits
        self._begin: Callable[[int], EmbeddingsWriter] = lambda exit: store.append_embeddings(
            model_hash, exit
        )
        self._writers: dict[int, EmbeddingsWriter] = {}

    def add(
        self,
        exit: int,
        crop_ids: NDArray[np.int64],
        track_ids: NDArray[np.int64],
        vectors: NDArray[np.float32],
    ) -> None:
        if exit not in self._writers:
            self._writers[exit] = self._begin(exit)
        self._writers[exit].add(crop_ids, track_ids, vectors)

    def commit(self) -> int:
        """Commit all; return how many crops got vectors: others may have been erased, or embedded, since."""
        listed = [writer.commit() for writer in self._writers.values()]
        self._writers = {}
        return len(np.unique(np.concatenate(listed))) if listed else 0

    def abort(self) -> None:
        with contextlib.ExitStack() as rest:  # the others, too, if one of them raises
            for writer in self._writers.values():
                rest.callback(writer.abort)


def _short_of(snapshot: Snapshot, crop_ids: NDArray[np.int64]) -> NDArray[np.int32]:
    """(S,) live segments with more crops than these."""
    crops = snapshot.crops()
    found = np.bincount(segment_of(crop_ids), minlength=int(crops.segments.max(initial=0)) + 1)
    return crops.segments[crops.rows > found[crops.segments]]
