"""A model and a library's settings enter; the calibration of every exit leaves, the library's own first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from panorama.content import content_dir
from panorama.errors import LibraryWriteError, ModelError
from panorama.models.base import Embedder
from panorama.query.decide import Calibration

SETTING = "calibration:"
"""Key of a library's own calibration, followed by the model's hash."""

SHIPPED = "calibration.json"
"""In a model's folder: what applies where a library has none of its own."""


def calibrations_for(embedder: Embedder, settings: Mapping[str, Any]) -> tuple[Calibration, ...]:
    """One calibration per exit, shallowest first: what `calibrate` stored, else what the model ships with.

    Raises:
        ModelError: the model ships with none, or with a malformed one.
    """
    return _of_rows(embedder, settings.get(SETTING + embedder.hash) or _shipped(embedder))


def shipped_calibrations(embedder: Embedder) -> tuple[Calibration, ...]:
    """What the model ships with, whatever a library has; raises as `calibrations_for` does."""
    return _of_rows(embedder, _shipped(embedder))


def _of_rows(embedder: Embedder, rows: Sequence[Mapping[str, float]]) -> tuple[Calibration, ...]:
    if len(rows) != embedder.exits:
        raise ModelError(
            f"{embedder.name} has {embedder.exits} exits but {len(rows)} calibrations; run panorama calibrate"
        )
    try:
        return tuple(Calibration(**row) for row in rows)
    except (TypeError, ValueError) as exc:
        raise ModelError(f"the calibration of {embedder.name} is malformed: {exc}") from exc


def _shipped(embedder: Embedder) -> list[dict[str, float]]:
    folder = embedder.folder or content_dir("embeddings") / embedder.name
    path = folder / SHIPPED
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["exits"]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"{path} is no calibration: {exc}; make one with panorama calibrate") from exc
    return list(rows)


def write_calibration(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Write calibrations as a model's folder holds them; LibraryWriteError where that fails."""
    text = json.dumps({"exits": [c.as_dict() for c in calibrations]}, indent=1)
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as exc:
        raise LibraryWriteError(f"{path} cannot be written: {exc.strerror or exc}") from exc
