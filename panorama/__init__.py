"""Panorama answers SQL over video archives, including for things that no model was trained on."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from panorama.errors import PanoramaError
from panorama.systems import check_system

if TYPE_CHECKING:
    from panorama.album.entities import Entity
    from panorama.answering.answerer import Verdict
    from panorama.cameras.recording_rule import RecordingRule
    from panorama.indexing.outcomes import Hooks, IndexReport
    from panorama.indexing.settings import IngestSettings
    from panorama.library import Library
    from panorama.opening import open_library as open
    from panorama.query.handed.relations import Limits
    from panorama.query.result.result import Result
    from panorama.query.result.rows import Row

__all__ = [
    "Entity",
    "Hooks",
    "IndexReport",
    "IngestSettings",
    "Library",
    "Limits",
    "PanoramaError",
    "RecordingRule",
    "Result",
    "Row",
    "Verdict",
    "open",
]
__version__ = "0.1.0"

_LAZY = {
    "open": ("opening", "open_library"),
    "Library": ("library", "Library"),
    "Entity": ("album.entities", "Entity"),
    "Verdict": ("answering.answerer", "Verdict"),
    "IngestSettings": ("indexing.settings", "IngestSettings"),
    "Hooks": ("indexing.outcomes", "Hooks"),
    "IndexReport": ("indexing.outcomes", "IndexReport"),
    "Limits": ("query.handed.relations", "Limits"),
    "Result": ("query.result.result", "Result"),
    "Row": ("query.result.rows", "Row"),
    "RecordingRule": ("cameras.recording_rule", "RecordingRule"),
}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # a type checker would take any name for one that is there

    def __getattr__(name: str) -> Any:
        # Load on first use, so that `import panorama.errors` does not wait for torch and DuckDB.
        if name in _LAZY:
            check_system()
            from panorama.whole_imports import imports_whole

            module, inside = _LAZY[name]
            with imports_whole():
                return getattr(importlib.import_module(f"panorama.{module}"), inside)
        raise AttributeError(f"module 'panorama' has no attribute {name!r}")
