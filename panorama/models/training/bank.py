"""Training pictures and a teacher come in; a folder of views with the teacher's features goes out, in shards.

    bank/
      items.json          source, label and instance of every picture
      made.json           how the views are made, the sizes of the picture files, and the teacher
      basis.safetensors   mean and principal axes of the teacher's features
      shard-00000/        views of some pictures: rows.npy, views.npy, pooled.npy, grid.npy

Every round views every picture once, in an order of its own. A complete shard is renamed into place, so an
interrupted build continues with the missing shards.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save

from panorama.errors import UsageError
from panorama.json_text import parsed_json
from panorama.models.base import Image
from panorama.models.training.begun import facts_of, refuse_another
from panorama.models.training.copies import size_of
from panorama.models.training.crew import Crew, Stop, crew
from panorama.models.training.sources import Item
from panorama.models.training.teacher import Teacher
from panorama.models.training.views import make_view
from panorama.whole_files import sync_file, sync_folder, write_whole

CELLS = 16
SAMPLE = 64
"""Pictures that a worker views per job when the basis is computed."""

ITEMS = "items.json"
BASIS = "basis.safetensors"
MADE = "made.json"


@dataclass(frozen=True, slots=True)
class BankPlan:
    """How a bank is made.

    Attributes:
        side: of the student's views, in pixels.
        rounds: views per picture.
        shard: views per shard.
        axes: principal axes on which the teacher's maps are stored.
        basis_pictures: pictures for computing mean and axes; 0 keeps the features unchanged.
        seed: determines a view together with its round and picture number.
    """

    side: int = 128
    rounds: int = 8
    shard: int = 1024
    axes: int = 128
    basis_pictures: int = 3000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Shard:
    """One complete shard of n views.

    Attributes:
        rows: (n,) the item that each view shows.
        views: (n, side, side, 3) uint8, on disk.
        pooled: (n, dim) float16, the teacher's pooled features.
        grid: (n, 16, axes) float16, the teacher's 4 x 4 map on the bank's axes, on disk.
    """

    rows: NDArray[np.int64]
    views: NDArray[np.uint8]
    pooled: NDArray[np.float16]
    grid: NDArray[np.float16]


@dataclass(frozen=True, slots=True)
class Basis:
    """Mean, variances (falling) and principal axes (in columns) of a teacher's features."""

    mean: NDArray[np.float32]
    values: NDArray[np.float32]
    vectors: NDArray[np.float32]

    @classmethod
    def fit(cls, features: NDArray[np.floating]) -> Basis:
        """From features (N, dim)."""
        rows = np.asarray(features, np.float64)
        values, vectors = np.linalg.eigh(np.cov(rows.T))
        falling = np.ascontiguousarray(vectors[:, ::-1], np.float32)
        return cls(
            rows.mean(axis=0).astype(np.float32), np.maximum(values[::-1], 0).astype(np.float32), falling
        )

    @classmethod
    def plain(cls, dim: int) -> Basis:
        """A basis that leaves features unchanged: `whiten` without shrinkage returns them."""
        return cls(np.zeros(dim, np.float32), np.ones(dim, np.float32), np.eye(dim, dtype=np.float32))

    def whiten(self, features: NDArray[np.floating], dim: int, shrinkage: float) -> NDArray[np.float32]:
        """Centred, on the first `dim` axes, each over its deviation with `shrinkage` mean variances added."""
        scale = np.sqrt(self.values[:dim] + shrinkage * self.values.mean())
        return np.asarray(
            (np.asarray(features, np.float32) - self.mean) @ (self.vectors[:, :dim] / scale), np.float32
        )


def build_bank(
    items: Sequence[Item],
    make_teacher: Callable[[], Teacher],
    out: Path,
    plan: BankPlan,
    threads: int = 2,
    taught_by: str = "",
) -> None:
    """Make the missing shards, `threads` at a time.

    Args:
        taught_by: a digest of the teacher.

    Raises:
        UsageError: there are no pictures, or the folder holds a bank of other pictures, one that was made
            in another way, or one whose lists are damaged.
    """
    if not items:
        raise UsageError("the recipe's sources hold no picture; check the data folders")
    out.mkdir(parents=True, exist_ok=True)
    listing = [{"source": i.source, "label": i.label, "instance": i.instance} for i in items]
    index = out / ITEMS
    if index.is_file() and _json_of(index, out) != listing:
        raise UsageError(f"{out} holds views of other pictures; give another folder or delete it")
    _refuse_other_views(out, bank_facts(items, plan, taught_by))
    write_whole(index, json.dumps(listing).encode())
    shards = -(-len(items) * plan.rounds // plan.shard)
    missing = [number for number in range(shards) if not _shard_dir(out, number).is_dir()]
    if not missing and (out / BASIS).is_file():
        return
    viewer = _Viewer(items, _opaque_sample(items, plan.seed), make_teacher, out, plan)
    with crew(viewer, max(1, min(threads, len(missing))), out) as workers:
        if not (out / BASIS).is_file():
            _save_basis(_basis(workers, viewer, len(items), plan), out)
        workers.do(_Viewer.make, missing)


def bank_facts(items: Sequence[Item], plan: BankPlan, taught_by: str) -> dict[str, Any]:
    """What views depend on besides the names of pictures; of files their sizes, which costs no reading."""
    sizes = [None if item.path is None else size_of(item.path) for item in items]
    return {
        **facts_of(asdict(plan), "bank"),
        "the digest of the teacher": taught_by,
        "the digest of the sizes of its pictures": hashlib.sha256(repr(sizes).encode()).hexdigest()[:12],
    }


def _refuse_other_views(out: Path, facts: Mapping[str, Any]) -> None:
    """Refuse a bank that was made in another way; record how a bank without any view will be made.

    Raises:
        UsageError: it was made in another way, or does not say how.
    """
    made = out / MADE
    if (out / BASIS).is_file() or any(out.glob("shard-*")):
        if not made.is_file():
            raise UsageError(
                f"{out}, of an earlier version, does not say how its views were made: delete it, and they"
                " are made again"
            )
        refuse_another(_json_of(made, out), facts, str(out))
    write_whole(made, json.dumps(facts, indent=1).encode())


def _json_of(path: Path, out: Path) -> Any:
    """What a file of a bank holds.

    Raises:
        UsageError: it was cut off; this version writes such files whole.
    """
    try:
        return parsed_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise _unreadable(path, exc, out) from exc


def _unreadable(path: Path, why: Exception, delete: Path) -> UsageError:
    return UsageError(f"{path} cannot be read: {why}; delete {delete}, and its views are made again")


def _shard_dir(out: Path, number: int) -> Path:
    return out / f"shard-{number:05d}"


def _opaque_sample(items: Sequence[Item], seed: int, count: int = 300) -> list[Image]:
    """Up to `count` pictures without transparency, for backgrounds and occlusions."""
    rng = np.random.default_rng(seed)
    found: list[Image] = []
    for i in rng.permutation(len(items)):
        picture = items[i].load()
        if picture.shape[2] == 3:
            found.append(picture)
        if len(found) == count:
            break
    return found or [np.full((8, 8, 3), 128, np.uint8)]


def _basis(workers: Crew, viewer: _Viewer, items: int, plan: BankPlan) -> Basis:
    """Mean and principal axes of the teacher's features over views of a sample of the pictures."""
    chosen = np.random.default_rng(plan.seed).permutation(items)[: plan.basis_pictures].tolist()
    if not chosen:
        return Basis.plain(viewer.teacher.dim)
    some = [chosen[start : start + SAMPLE] for start in range(0, len(chosen), SAMPLE)]
    return Basis.fit(np.concatenate(workers.do(_Viewer.pooled, some)))


def _save_basis(basis: Basis, out: Path) -> None:
    tensors = {"mean": basis.mean, "values": basis.values, "vectors": basis.vectors}
    write_whole(out / BASIS, save(tensors))


def shard_rows(number: int, items: int, plan: BankPlan) -> list[tuple[int, int]]:
    """(round, item) of each view of a shard."""
    pairs = []
    for place in range(number * plan.shard, min((number + 1) * plan.shard, items * plan.rounds)):
        which, position = divmod(place, items)
        pairs.append((which, int(_order(plan.seed, which, items)[position])))
    return pairs


@lru_cache(maxsize=2)
def _order(seed: int, which: int, items: int) -> NDArray[np.int64]:
    """The order in which a round views the pictures."""
    return np.random.default_rng((seed, 10**6 + which)).permutation(items)


class _Viewer:
    """Makes views of pictures until it is stopped; threads may share it, and other processes get copies.

    Args:
        others: pictures for backgrounds and occlusions.
        make_teacher: called once per thread, since a teacher serves one caller at a time.
    """

    stopped: Stop

    def __init__(
        self,
        items: Sequence[Item],
        others: Sequence[Image],
        make_teacher: Callable[[], Teacher],
        out: Path,
        plan: BankPlan,
    ) -> None:
        self._items, self._others, self._make_teacher = items, others, make_teacher
        self._out, self._plan = out, plan
        self.stopped, self._own = threading.Event(), threading.local()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Viewer, (self._items, self._others, self._make_teacher, self._out, self._plan)

    @property
    def teacher(self) -> Teacher:
        """This thread's teacher."""
        if not hasattr(self._own, "teacher"):
            self._own.teacher = self._make_teacher()
        found: Teacher = self._own.teacher
        return found

    @cached_property
    def _basis(self) -> Basis:
        return read_basis(self._out)

    def pooled(self, chosen: Sequence[int]) -> NDArray[np.float32]:
        """The teacher's pooled features (n, dim) of one view per chosen picture; fewer if stopped."""
        teacher, found = self.teacher, []
        for i in chosen:
            if self.stopped.is_set():
                break
            rng = np.random.default_rng((self._plan.seed, 10**6, i))
            view = make_view(self._items[i].load(), self._others, rng, self._plan.side)[0]
            found.append(teacher.features(view)[0])
        return np.array(found, np.float32)

    def make(self, number: int) -> None:
        """Write one shard to a temporary folder, then rename it; nothing if stopped."""
        teacher = self.teacher
        plan = self._plan
        pairs = shard_rows(number, len(self._items), plan)
        views = np.empty((len(pairs), plan.side, plan.side, 3), np.uint8)
        pooled = np.empty((len(pairs), teacher.dim), np.float32)
        cells = np.empty((len(pairs), CELLS, teacher.dim), np.float32)
        for i, (which, row) in enumerate(pairs):
            if self.stopped.is_set():
                return
            rng = np.random.default_rng((plan.seed, which, row))
            clean, views[i] = make_view(self._items[row].load(), self._others, rng, plan.side)
            pooled[i], grid = teacher.features(clean)
            cells[i] = grid.reshape(CELLS, -1)
        part = self._out / f"part-{number:05d}"
        part.mkdir(exist_ok=True)
        np.save(part / "rows.npy", np.array([row for _, row in pairs], np.int64))
        np.save(part / "views.npy", views)
        np.save(part / "pooled.npy", pooled.astype(np.float16))
        on_axes = self._basis.whiten(cells.reshape(-1, teacher.dim), plan.axes, 1.0)
        np.save(part / "grid.npy", on_axes.reshape(len(pairs), CELLS, -1).astype(np.float16))
        for file in part.iterdir():
            sync_file(file)
        part.rename(_shard_dir(self._out, number))
        sync_folder(self._out)


def read_basis(bank: Path) -> Basis:
    """Mean and axes of a bank's teacher.

    Raises:
        UsageError: the file is damaged.
    """
    try:
        tensors = load_file(bank / BASIS)
    except (OSError, SafetensorError) as exc:
        raise _unreadable(bank / BASIS, exc, bank) from exc
    return Basis(tensors["mean"], tensors["values"], tensors["vectors"])


def read_items(bank: Path) -> list[dict[str, str]]:
    """Source, label and instance of every picture of a bank."""
    listing: list[dict[str, str]] = _json_of(bank / ITEMS, bank)
    return listing


def read_shards(bank: Path) -> list[Shard]:
    """The shards that are complete so far, in order; views and grids stay on disk.

    Raises:
        UsageError: one is damaged.
    """
    return [_read_shard(path) for path in sorted(bank.glob("shard-*"))]


def _read_shard(path: Path) -> Shard:
    try:
        # As plain arrays on the same memory: reading a row of a memmap object takes several times as long.
        return Shard(
            np.load(path / "rows.npy"),
            np.asarray(np.load(path / "views.npy", mmap_mode="r")),
            np.load(path / "pooled.npy"),
            np.asarray(np.load(path / "grid.npy", mmap_mode="r")),
        )
    except (OSError, EOFError, ValueError) as exc:
        raise _unreadable(path, exc, path) from exc
