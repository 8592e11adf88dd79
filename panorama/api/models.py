"""A library's store comes in; its embedder and proposer go out, loaded when first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from panorama.models.base import Embedder, Proposer
from panorama.models.cores import get_num_threads, set_num_threads
from panorama.models.registry import (
    embedder_names,
    late_embedder,
    late_proposer,
    load_embedder,
    proposer_names,
)
from panorama.store import ModelRow, Store
from panorama.threads import Threads

if TYPE_CHECKING:
    from panorama.indexing.stored_crops import OnDamage

Model = TypeVar("Model", Embedder, Proposer)


class _Choice(Generic[Model]):
    """The library's model of one kind, even if another process chose it last.

    Args:
        setting: the library setting that names the model; the default model if it is not set.
        late: returns the model for a name or folder; it loads when it is needed.
        names: the models that can be loaded by name.
    """

    def __init__(
        self, setting: str, late: Callable[[str | None], Model], names: Callable[[], Sequence[str]]
    ) -> None:
        self._setting, self._names = setting, names
        self._late: Callable[[str | None], Model] = late
        self._lock = threading.Lock()  # threads that ask at once get one model, not one each
        self._named: str | None = None
        self._model: Model | None = None

    def of(self, store: Store | None) -> Model:
        """The library's model; pass None for a library that does not exist yet."""
        with self._lock:
            name = None if store is None else store.setting(self._setting)
            if self._model is None or name != self._named:
                self._model, self._named = self._late(name), name
            return self._model

    def folder(self, store: Store) -> Path | None:
        """The model's folder; None for a model that is loaded by name."""
        name = store.setting(self._setting)
        return None if name is None or name in self._names() else Path(name)

    def keep(self, store: Store, name: str, model: Model) -> None:
        """Use this model from now on. A folder is kept as a full path: the next command may run elsewhere."""
        folder = Path(name)
        kept = name if name in self._names() or not folder.is_dir() else str(folder.resolve())
        if store.setting(self._setting) != kept:
            store.put_setting(self._setting, kept)
        with self._lock:
            self._model, self._named = model, kept


class LibraryModels:
    """The models that a library uses.

    Args:
        store: returns the library's store; called only when needed, since the first `index` creates it.
        is_made: whether the library exists yet.
    """

    def __init__(self, store: Callable[[], Store], is_made: Callable[[], bool]) -> None:
        self._store, self._is_made = store, is_made
        self._embedder = _Choice("embedder", lambda name: late_embedder(name), embedder_names)
        self._proposer = _Choice("proposer", lambda name: late_proposer(name), proposer_names)

    @property
    def embedder(self) -> Embedder:
        """The embedder that the library searches with."""
        _tell_threads()
        return self._embedder.of(self._store())

    @property
    def embedder_folder(self) -> Path | None:
        """The embedder's folder; None for one that is loaded by name."""
        return self._embedder.folder(self._store())

    def embedder_called(self, name: str) -> Embedder:
        """The embedder with this name or folder. What queries need of it is read before the library keeps it.

        Raises:
            ModelError: there is no such embedder, its weights or its cohort are missing or do not match the
                recipe, or its calibration is malformed.
        """
        from panorama.answering.calibration import rules_for

        model = load_embedder(name)
        model.cohort()
        rules_for(model)
        return model

    @property
    def proposer(self) -> Proposer:
        """The model that finds regions during indexing."""
        _tell_threads()
        return self._proposer.of(self._store() if self._is_made() else None)

    @property
    def proposer_folder(self) -> Path | None:
        """The proposer's folder; None for one that is loaded by name."""
        return self._proposer.folder(self._store())

    def proposer_called(self, name: str) -> Proposer:
        """The proposer with this name or folder. It loads once as a check, before the library keeps the name.

        Raises:
            ModelError: there is no such proposer, or its weights are missing or do not match the recipe.
        """
        _tell_threads()
        late_proposer(name).load()
        return late_proposer(name)  # a second object: indexing loads it in a process of its own

    def propose_with(self, model: Proposer, name: str) -> None:
        """Find regions with another proposer from now on."""
        self._proposer.keep(self._store(), name, model)

    def switch(self, model: Embedder, name: str, on_damage: OnDamage | None = None) -> int:
        """Search with another embedder from now on; returns how many stored crops it embedded.

        Args:
            on_damage: as for `embed_missing`.
        """
        from panorama.indexing.stored_crops import embed_missing

        # Embed first: if the switch is interrupted, the library stays searchable with the old model.
        embedded = embed_missing(self._store(), model, on_damage=on_damage)
        self._embedder.keep(self._store(), name, model)
        self.remember()
        return embedded

    def remember(self) -> None:
        """Record the embedder in the catalog, next to what it embedded."""
        model = self.embedder
        self._store().put_model(ModelRow(model.hash, model.name, "embedder", model.dim, model.exits))


def _tell_threads() -> None:
    """Give networks outside of queries the same number of threads as in queries, so that they compile once.

    By default they would use every core of the computer, even if this process may use only a few.
    """
    if not get_num_threads():
        set_num_threads(Threads.here().network)
