"""Panorama answers SQL over video archives, for things that no model was trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panorama.errors import PanoramaError

if TYPE_CHECKING:
    from panorama.library import Entity, Library, Verdict
    from panorama.library import open_library as open

__all__ = ["Entity", "Library", "PanoramaError", "Verdict", "open"]
__version__ = "0.1.0"

_LAZY = {"open": "open_library", "Library": "Library", "Entity": "Entity", "Verdict": "Verdict"}


def __getattr__(name: str) -> Any:
    # Loaded on first use: `import panorama.errors` must not wait for torch and DuckDB.
    if name in _LAZY:
        from panorama import library

        return getattr(library, _LAZY[name])
    raise AttributeError(f"module 'panorama' has no attribute {name!r}")
