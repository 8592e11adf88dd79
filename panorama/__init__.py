"""Panorama answers SQL over video archives, for things that no model was trained on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from panorama.errors import PanoramaError
from panorama.systems import check_system

if TYPE_CHECKING:
    from panorama.answering import Verdict
    from panorama.entities import Entity
    from panorama.indexing.outcomes import Hooks
    from panorama.indexing.settings import IngestSettings
    from panorama.library import Library
    from panorama.opening import open_library as open
    from panorama.query.relations import Limits
    from panorama.recording import RecordingRule

__all__ = [
    "Entity",
    "Hooks",
    "IngestSettings",
    "Library",
    "Limits",
    "PanoramaError",
    "RecordingRule",
    "Verdict",
    "open",
]
__version__ = "0.1.0"

_LAZY = {
    "open": ("opening", "open_library"),
    "Library": ("library", "Library"),
    "Entity": ("entities", "Entity"),
    "Verdict": ("answering", "Verdict"),
    "IngestSettings": ("indexing.settings", "IngestSettings"),
    "Hooks": ("indexing.outcomes", "Hooks"),
    "Limits": ("query.relations", "Limits"),
    "RecordingRule": ("recording", "RecordingRule"),
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: `import panorama.errors` must not wait for torch and DuckDB.
    if name in _LAZY:
        check_system()
        module, inside = _LAZY[name]
        return getattr(importlib.import_module(f"panorama.{module}"), inside)
    raise AttributeError(f"module 'panorama' has no attribute {name!r}")
