"""The models of one library: a store enters, its embedder and proposer leave, loaded when first needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from panorama.models.base import Embedder, Proposer
from panorama.models.cores import get_num_threads, set_num_threads
from panorama.models.registry import embedder_names, late_embedder, late_proposer
from panorama.store import ModelRow, Store
from panorama.threads import Threads

_EMBEDDER_SETTING = "embedder"


class LibraryModels:
    """Which models a library uses.

    Args:
        store: of the library; called when it is needed, since the first `index` makes it.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._embedder: Embedder | None = None
        self._named: str | None = None
        self._proposer: Proposer | None = None

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
        """The model that finds regions while indexing."""
        _tell_threads()
        if self._proposer is None:
            self._proposer = late_proposer()
        return self._proposer

    def switch(self, model: Embedder, name: str) -> int:
        """Search with another embedder from now on; how many stored crops it embedded."""
        from panorama.indexing.stored_crops import embed_missing

        # A folder of the user's own is remembered by its full path: the next command runs elsewhere.
        folder = Path(name)
        known = name in embedder_names() or not folder.is_dir()
        # Vectors first: a switch that is interrupted leaves the library searchable with the old model.
        embedded = embed_missing(self._store(), model)
        self._named = name if known else str(folder.resolve())
        self._store().put_setting(_EMBEDDER_SETTING, self._named)
        self._embedder = model
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
