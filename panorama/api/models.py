"""The models of one library: a store enters, its embedder and proposer leave, loaded when first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from panorama.models.base import Embedder, Proposer
from panorama.models.cores import get_num_threads, set_num_threads
from panorama.models.registry import embedder_names, late_embedder, late_proposer, proposer_names
from panorama.store import ModelRow, Store
from panorama.threads import Threads

Model = TypeVar("Model", Embedder, Proposer)


class _Choice(Generic[Model]):
    """The model of one kind that a library uses, by whichever process it was chosen last.

    Args:
        setting: of the library, which names it; the default where there is none.
        late: gives it by its name or folder, loaded when it is needed.
        names: those that can be loaded by name.
    """

    def __init__(
        self, setting: str, late: Callable[[str | None], Model], names: Callable[[], Sequence[str]]
    ) -> None:
        self._setting, self._names = setting, names
        self._late: Callable[[str | None], Model] = late
        self._named: str | None = None
        self._model: Model | None = None

    def of(self, store: Store | None) -> Model:
        """That of a library, None for one that is not made yet."""
        name = None if store is None else store.setting(self._setting)
        if self._model is None or name != self._named:
            self._model, self._named = self._late(name), name
        return self._model

    def folder(self, store: Store) -> Path | None:
        """Where it lies, None for one that can be loaded by name."""
        name = store.setting(self._setting)
        return None if name is None or name in self._names() else Path(name)

    def keep(self, store: Store, name: str, model: Model) -> None:
        """Use this one from now on; a folder by its full path, as the next command runs elsewhere."""
        folder = Path(name)
        kept = name if name in self._names() or not folder.is_dir() else str(folder.resolve())
        if store.setting(self._setting) != kept:
            store.put_setting(self._setting, kept)
        self._model, self._named = model, kept


class LibraryModels:
    """Which models a library uses.

    Args:
        store: of the library; called when it is needed, since the first `index` makes it.
        is_made: whether there is one already.
    """

    def __init__(self, store: Callable[[], Store], is_made: Callable[[], bool]) -> None:
        self._store, self._is_made = store, is_made
        self._embedder = _Choice("embedder", lambda name: late_embedder(name), embedder_names)
        self._proposer = _Choice("proposer", lambda name: late_proposer(name), proposer_names)

    @property
    def embedder(self) -> Embedder:
        """The model that the library is searched with."""
        _tell_threads()
        return self._embedder.of(self._store())

    @property
    def embedder_folder(self) -> Path | None:
        """Where the embedder lies, None for one that can be loaded by name."""
        return self._embedder.folder(self._store())

    @property
    def proposer(self) -> Proposer:
        """The model that finds regions while indexing."""
        _tell_threads()
        return self._proposer.of(self._store() if self._is_made() else None)

    @property
    def proposer_folder(self) -> Path | None:
        """Where the proposer lies, None for one that can be loaded by name."""
        return self._proposer.folder(self._store())

    def proposer_called(self, name: str) -> Proposer:
        """That of a name or folder, loaded once here: what does not work is told before a library keeps it.

        Raises:
            ModelError: no such proposer, or its weights are missing or not those of the recipe.
        """
        _tell_threads()
        late_proposer(name).load()
        return late_proposer(name)  # not the same one: indexing loads it in a process of its own

    def propose_with(self, model: Proposer, name: str) -> None:
        """Find regions with another proposer from now on."""
        self._proposer.keep(self._store(), name, model)

    def switch(self, model: Embedder, name: str) -> int:
        """Search with another embedder from now on; how many stored crops it embedded."""
        from panorama.indexing.stored_crops import embed_missing

        # Vectors first: a switch that is interrupted leaves the library searchable with the old model.
        embedded = embed_missing(self._store(), model)
        self._embedder.keep(self._store(), name, model)
        self.remember()
        return embedded

    def remember(self) -> None:
        """Note the embedder in the catalog, beside what is embedded with it."""
        model = self.embedder
        self._store().put_model(ModelRow(model.hash, model.name, "embedder", model.dim, model.exits))


def _tell_threads() -> None:
    """Networks outside of questions have the threads that they have within, and are compiled for them once.

    Told nothing they would take every core of the machine, whatever this process may use.
    """
    if not get_num_threads():
        set_num_threads(Threads.here().network)
