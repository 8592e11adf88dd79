"""The models of one library: a store enters, its embedder and proposer leave, loaded when first needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from panorama.models.base import Embedder, Proposer
from panorama.models.cores import get_num_threads, set_num_threads
from panorama.models.registry import embedder_names, late_embedder, late_proposer, proposer_names
from panorama.store import ModelRow, Store
from panorama.threads import Threads

_EMBEDDER_SETTING = "embedder"
_PROPOSER_SETTING = "proposer"


class LibraryModels:
    """Which models a library uses.

    Args:
        store: of the library; called when it is needed, since the first `index` makes it.
        is_made: whether there is one already.
    """

    def __init__(self, store: Callable[[], Store], is_made: Callable[[], bool]) -> None:
        self._store, self._is_made = store, is_made
        self._embedder: Embedder | None = None
        self._named: str | None = None
        self._proposer: Proposer | None = None
        self._proposer_named: str | None = None

    @property
    def embedder(self) -> Embedder:
        """The model that the library is searched with, by whichever process it was chosen last."""
        _tell_threads()
        name = self._store().setting(_EMBEDDER_SETTING)
        if self._embedder is None or name != self._named:
            self._embedder, self._named = late_embedder(name), name
        return self._embedder

    @property
    def embedder_folder(self) -> Path | None:
        """Where the embedder lies, None for one that can be loaded by name."""
        name = self._store().setting(_EMBEDDER_SETTING)
        return None if name is None or name in embedder_names() else Path(name)

    @property
    def proposer(self) -> Proposer:
        """The model that finds regions while indexing, by whichever process it was chosen last."""
        _tell_threads()
        name = self._store().setting(_PROPOSER_SETTING) if self._is_made() else None
        if self._proposer is None or name != self._proposer_named:
            self._proposer, self._proposer_named = late_proposer(name), name
        return self._proposer

    def propose_with(self, name: str) -> None:
        """Find regions with another proposer from now on."""
        if self._store().setting(_PROPOSER_SETTING) != (kept := _kept(name, proposer_names())):
            self._store().put_setting(_PROPOSER_SETTING, kept)

    def switch(self, model: Embedder, name: str) -> int:
        """Search with another embedder from now on; how many stored crops it embedded."""
        from panorama.indexing.stored_crops import embed_missing

        # Vectors first: a switch that is interrupted leaves the library searchable with the old model.
        embedded = embed_missing(self._store(), model)
        self._named = _kept(name, embedder_names())
        self._store().put_setting(_EMBEDDER_SETTING, self._named)
        self._embedder = model
        self.remember()
        return embedded

    def remember(self) -> None:
        """Note the embedder in the catalog, beside what is embedded with it."""
        model = self.embedder
        self._store().put_model(ModelRow(model.hash, model.name, "embedder", model.dim, model.exits))


def _kept(name: str, names: Sequence[str]) -> str:
    """As what a library remembers a model: a folder by its full path, as the next command runs elsewhere."""
    folder = Path(name)
    return name if name in names or not folder.is_dir() else str(folder.resolve())


def _tell_threads() -> None:
    """Networks outside of questions have the threads that they have within, and are compiled for them once.

    Told nothing they would take every core of the machine, whatever this process may use.
    """
    if not get_num_threads():
        set_num_threads(Threads.here().network)
