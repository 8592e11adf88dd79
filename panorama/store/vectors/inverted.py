"""Query vectors come in; rows that may be near go out, rather too many than too few, from an inverted file.

How many lists a search must look into is measured when the file is built. If it would be most of them, the
answer is None: comparing every row is faster. The file is disposable. Only `inverted*` modules import faiss.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from panorama.store.files.layout import temporary_of, write_atomically
from panorama.store.files.locks import held_within
from panorama.store.files.own_names import CODES_FILE, HALF_CODES_FILE, files_named
from panorama.store.vectors.inverted_codes import Codes
from panorama.store.vectors.inverted_training import PIECE_ROWS, nearest_lists, trained
from panorama.store.vectors.vector_cache import ROW, WAIT_SECONDS
from panorama.store.vectors.vector_table import VectorTable
from panorama.whole_files import replaced

PQ_ROWS = 16_000_000
"""With more rows, codes take dim / 4 bytes (PQ) instead of dim bytes."""

RECALL = 0.998
"""Share of the neighbours that the searched lists must hold, measured on a sample when the file is built."""

MOST_LISTS = 0.4
"""Searching more than this share of the lists is slower than comparing every row."""

MANY_CODES = 2_000_000
"""From this number of code comparisons on, about 0.05 s of work, a search uses all threads.

In smaller searches threads wait for each other longer than they work, on a busy machine four times as long.
"""

FIRST_LISTS = 4
"""A search for the best k begins with this many lists, and takes four times as many if they hold fewer."""

FIRST_SHARE = 0.1
"""It gives up when it would have to look into more than this share of the lists."""

SAVE_ROWS = 2_500_000
_TRAIN_PER_LIST = 64
_SAMPLE_QUERIES = 256
_SAMPLE_ROWS = 100_000
_LEVELS = tuple(round(0.02 * i, 2) for i in range(50))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What identifies an inverted file, and what was measured when it was trained.

    Attributes:
        generation: number in the names of its files.
        trained_rows: size of the table at that time.
        rows_check: CRC-32 of its list of rows.
        probes: probes[i] is the number of lists to search to find RECALL of the rows at least _LEVELS[i]
            similar.
        margin: how far the similarity to a code may be from the true one.
    """

    model_hash: str
    generation: int
    trained_rows: int
    rows_check: int
    probes: tuple[int, ...]
    margin: float


class InvertedFile:
    """An inverted file over crop vectors. Its numbers are positions in its own list of rows, (N,) of ROW.

    A code stands for the crop in that list as long as the crop has the vector that the code was made of.
    """

    def __init__(self, table: VectorTable, index: Any, known: NDArray[np.void], facts: _Facts) -> None:
        self._index = Codes(index)
        self._known = known
        self._facts = facts
        ids, prints = known["crop_id"], known["print"]
        same = len(ids) <= len(table) and np.array_equal(table.crop_ids[: len(ids)], ids)
        self._row_of = np.arange(len(ids)) if same else table.rows_of(ids)
        if len(table):
            self._row_of = np.where(table.prints[self._row_of] == prints, self._row_of, -1)
        self._stale = int((self._row_of < 0).sum())
        covered = np.zeros(len(table), np.bool_)
        covered[self._row_of[self._row_of >= 0]] = True
        self._missing = np.flatnonzero(~covered)

    @property
    def kind(self) -> str:
        return self._index.kind

    @property
    def worn(self) -> bool:
        """Whether it lacks much of the table, or holds much that the table no longer has."""
        return len(self._missing) > 0.05 * len(self._known) or self._stale > 0.2 * len(self._known)

    @classmethod
    def load(cls, table: VectorTable) -> InvertedFile | None:
        """The inverted file on disk, or None if there is none for these vectors or it is damaged."""
        if table.folder is None:
            return None
        try:
            raw = json.loads((table.folder / "ivf.json").read_text())
            known = {field.name: raw[field.name] for field in fields(_Facts)}
            facts = _Facts(**{**known, "probes": tuple(raw["probes"])})
            # The codes first: another process may write others under the same names, rows before codes.
            index = faiss.read_index(str(table.folder / f"i{facts.generation}.faiss"), faiss.IO_FLAG_MMAP)
            rows = np.fromfile(table.folder / f"i{facts.generation}.rows", ROW)
            if facts.model_hash != table.model_hash or zlib.crc32(rows.data) != facts.rows_check:
                return None
        except (OSError, ValueError, TypeError, KeyError, RuntimeError):
            return None
        if index.ntotal != len(rows) or index.d != table.dim:
            return None
        return cls(table, index, rows, facts)

    @classmethod
    def build(
        cls,
        table: VectorTable,
        old: InvertedFile | None,
        wait: Callable[[], None] = lambda: None,
        is_stored: Callable[[], bool] = lambda: True,
    ) -> InvertedFile:
        """Add to `old` what it lacks, or train a new inverted file; store the result.

        It is trained anew if `old` is None, holds stale rows, has lost its file, or was trained on half the
        rows or fewer. Every SAVE_ROWS rows are stored, so that an interrupted build continues from there.
        Nothing is stored once `is_stored` says that crops of the table were erased.
        """
        index = None if old is None else old._to_add_to(table)
        if old is not None and index is not None:
            rows, known = old._missing, old._known
            facts: _Facts | None = old._facts
        else:
            index, rows, known, facts = _trained(table, wait), np.arange(len(table)), np.zeros(0, ROW), None
        generation = 0 if old is None else old._facts.generation
        for start in range(0, max(len(rows), 1), SAVE_ROWS):
            part = rows[start : start + SAVE_ROWS]
            _add(index, table, part, wait)
            added = np.empty(len(part), ROW)
            added["crop_id"], added["print"] = table.crop_ids[part], table.prints[part]
            known = np.concatenate([known, added])
            generation += 1
            facts = replace(
                facts or _measure(index, table, wait),
                rows_check=zlib.crc32(known.data),
                generation=generation,
            )
            if table.folder is not None:
                _save(table.folder, index, known, facts, is_stored)
        assert facts is not None
        return cls(table, index, known, facts)

    def _to_add_to(self, table: VectorTable) -> Any:
        """The FAISS index read into memory to be extended; None if it must be trained anew.

        Erasing vectors may have deleted its files since it was loaded, and another process made new ones.
        """
        if table.folder is None or self._stale or len(table) >= 2 * self._facts.trained_rows:
            return None
        try:
            index = faiss.read_index(str(table.folder / f"i{self._facts.generation}.faiss"))
            rows = np.fromfile(table.folder / f"i{self._facts.generation}.rows", ROW)  # last, see `load`
        except (OSError, RuntimeError):
            return None
        return index if index.ntotal == len(rows) and np.array_equal(rows, self._known) else None

    def nearest(
        self, queries: NDArray[np.float32], k: int, rows: NDArray[np.intp] | None
    ) -> list[NDArray[np.intp]] | None:
        """Candidates for the best k of each query; None if comparing every row is faster."""
        wanted = k + k // 3 + 32
        level = self._reached(queries, k, rows)
        probes = None if level is None else self._probes(level)
        if probes is None:
            return None
        parameters, keep_alive = self._parameters(probes, rows)
        with self._threads(probes, len(queries), rows):
            found = self._index.search(queries, wanted, params=parameters)[1]  # (Q, k')
        del keep_alive
        missing = self._missing_of(rows)
        return [self._with_missing(self._row_of[slots[slots >= 0]], missing) for slots in found]

    def _reached(self, queries: NDArray[np.float32], k: int, rows: NDArray[np.intp] | None) -> float | None:
        """A similarity that k rows of every query reach; None if finding it takes too many lists.

        The best k of all rows are at least as similar as any k rows found in the nearest few lists.
        """
        probes = FIRST_LISTS
        while probes <= FIRST_SHARE * self._index.nlist:
            parameters, keep_alive = self._parameters(probes, rows)
            with self._threads(probes, len(queries), rows):
                found = self._index.search(queries, k, params=parameters)
            del keep_alive
            if (found[1][:, -1] >= 0).all():
                return float(found[0][:, -1].min()) - self._margin(queries)
            probes *= 4
        return None

    def within(
        self, queries: NDArray[np.float32], least: NDArray[np.float32], rows: NDArray[np.intp] | None
    ) -> list[NDArray[np.intp]] | None:
        """Candidates at least `least` (Q,) similar; None if comparing every row is faster."""
        if not len(queries):
            return []
        lowest = float(least.min())
        probes = self._probes(lowest)
        if probes is None:
            return None
        parameters, keep_alive = self._parameters(probes, rows)
        with self._threads(probes, len(queries), rows):
            limits, _, slots = self._index.range_search(
                queries, lowest - self._margin(queries), params=parameters
            )
        del keep_alive
        missing = self._missing_of(rows)
        return [
            self._with_missing(self._row_of[slots[start:stop]], missing)
            for start, stop in zip(limits[:-1].astype(int), limits[1:].astype(int), strict=True)
        ]

    def _margin(self, queries: NDArray[np.float32]) -> float:
        """How far the similarity to a code may be from the true one, including rounding of the queries."""
        return float(np.hypot(self._facts.margin, self._index.rounding(queries)))

    @contextmanager
    def _threads(self, probes: int, queries: int, rows: NDArray[np.intp] | None) -> Iterator[None]:
        """Use one thread for a small search, within a block; FAISS keeps the number per calling thread."""
        before = faiss.omp_get_max_threads()
        codes = self._index.ntotal if rows is None else len(rows)  # codes of other rows are skipped
        if queries * probes / self._index.nlist * codes < MANY_CODES:
            faiss.omp_set_num_threads(1)
        try:
            yield
        finally:
            faiss.omp_set_num_threads(before)

    def codes(self, level: float) -> int | None:
        """About how many vectors a search for rows at least `level` similar compares; None as `within`."""
        probes = self._probes(level)
        if probes is None:
            return None
        return int(self._index.ntotal * probes / self._index.nlist) + len(self._missing)

    def _probes(self, level: float) -> int | None:
        """How many lists to search for rows at least `level` similar; None if below 0 or too many."""
        step = int(np.clip(np.searchsorted(_LEVELS, level, side="right") - 1, 0, len(_LEVELS) - 1))
        probes = self._facts.probes[step]
        return None if level < 0 or probes > MOST_LISTS * self._index.nlist else probes

    def _parameters(self, probes: int, rows: NDArray[np.intp] | None) -> tuple[Any, object]:
        """FAISS search parameters, and the objects that must outlive them."""
        if rows is None and not self._stale:
            return _parameters_of(probes), None
        wanted = np.full(int(self._row_of.max(initial=-1)) + 2, rows is None)
        if rows is not None:
            wanted[rows[rows < len(wanted)]] = True
        wanted[-1] = False  # row -1: codes of vectors that the table no longer has
        bits = np.packbits(wanted[self._row_of], bitorder="little")
        selector = faiss.IDSelectorBitmap(len(self._row_of), faiss.swig_ptr(bits))
        return _parameters_of(probes, sel=selector), (bits, selector)

    def _with_missing(self, found: NDArray[np.intp], missing: NDArray[np.intp]) -> NDArray[np.intp]:
        """Candidates of a query: those found, and all rows that the index does not have yet."""
        return np.concatenate([found, missing]) if len(missing) else found

    def _missing_of(self, rows: NDArray[np.intp] | None) -> NDArray[np.intp]:
        """The rows that the index does not have yet, among some rows, ascending; None for all rows."""
        if rows is None or not len(self._missing):
            return self._missing
        at = np.searchsorted(rows, self._missing)
        at[at == len(rows)] = 0
        return self._missing[rows[at] == self._missing] if len(rows) else self._missing[:0]


def _parameters_of(probes: int, **more: Any) -> Any:
    kind: Any = faiss.SearchParametersIVF  # its type stub knows no arguments
    return kind(nprobe=probes, **more)


def _trained(table: VectorTable, wait: Callable[[], None]) -> Any:
    n, dim = len(table), table.dim
    lists = max(1, min(int(2 * np.sqrt(n)), n // _TRAIN_PER_LIST))
    pick = np.random.default_rng(0).permutation(n)[: lists * _TRAIN_PER_LIST]
    rows = np.ascontiguousarray(table.vectors[np.sort(pick)])
    return trained(rows, lists, dim // 4 if n > PQ_ROWS and dim % 4 == 0 else None, wait)


def _add(index: Any, table: VectorTable, rows: NDArray[np.intp], wait: Callable[[], None]) -> None:
    for start in range(0, len(rows), PIECE_ROWS):
        wait()
        index.add(np.ascontiguousarray(table.vectors[rows[start : start + PIECE_ROWS]]))


def _measure(index: Any, table: VectorTable, wait: Callable[[], None]) -> _Facts:
    """Measure, on a sample of rows as queries, how many lists hold RECALL of the neighbours by similarity."""
    rng = np.random.default_rng(1)
    n = len(table)
    rows = np.sort(rng.permutation(n)[:_SAMPLE_ROWS])
    asked = np.sort(rng.choice(rows, min(_SAMPLE_QUERIES, len(rows)), replace=False))
    queries, sample = np.ascontiguousarray(table.vectors[asked]), np.ascontiguousarray(table.vectors[rows])
    similarity = queries @ sample.T  # (Q, S)
    similarity[rows[None, :] == asked[:, None]] = -2  # ignore the row itself
    lists = np.concatenate([near for _, near in nearest_lists(index.quantizer, sample, wait)])  # (S,)
    wait()
    ranked = index.quantizer.search(queries, index.nlist)[1]  # (Q, lists)
    rank = np.empty_like(ranked)
    np.put_along_axis(rank, ranked, np.arange(index.nlist)[None, :], axis=1)
    wait()
    needed = np.take_along_axis(rank, np.broadcast_to(lists, similarity.shape), axis=1) + 1  # (Q, S)
    probes, most = [], index.nlist
    for level in _LEVELS:
        wait()
        # By query, so that one with many neighbours does not hide those that need more lists.
        per_query = [
            np.quantile(d[s >= level], RECALL)
            for d, s in zip(needed, similarity, strict=True)
            if (s >= level).any()
        ]
        most = min(most, int(np.ceil(np.quantile(per_query, RECALL)))) if len(per_query) >= 16 else most
        probes.append(max(most, 1))
    index.nprobe = min(index.nlist, 16)
    near, slots = index.search(queries, min(200, n))
    true = np.einsum("qd,qkd->qk", queries, table.vectors[np.maximum(slots, 0)])
    margin = float(np.abs(near - true)[slots >= 0].max(initial=0.0)) * 1.25
    return _Facts(table.model_hash, 0, n, 0, tuple(probes), margin)


def _save(
    folder: Path, index: Any, known: NDArray[np.void], facts: _Facts, is_stored: Callable[[], bool]
) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with held_within(folder / "ivf.lock", WAIT_SECONDS):
            # Who erases crops changes the catalog first, and then deletes codes under this lock: either that
            # change is seen here, or what is written here is deleted.
            if not is_stored():
                return
            write_atomically(folder / f"i{facts.generation}.rows", known.tobytes())
            codes = folder / f"i{facts.generation}.faiss"
            # On the disk before it counts: it has no checksum that would reveal missing codes.
            with replaced(codes, temporary_of(codes), durable=True) as part:
                faiss.write_index(index, str(part))
            write_atomically(folder / "ivf.json", json.dumps(asdict(facts)).encode())
            # Including temporary files of a killed process, which may be as large as the index.
            for old in (*files_named(folder, CODES_FILE), *files_named(folder, HALF_CODES_FILE)):
                if old.name.split(".")[0] != f"i{facts.generation}":
                    old.unlink(missing_ok=True)
    except (OSError, RuntimeError):
        # No room or permission, or the lock is held: this process has its index in memory; the next one
        # builds its own.
        return
