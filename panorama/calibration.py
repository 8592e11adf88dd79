"""A model and a library's settings enter; the calibration of every exit leaves, the library's own first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from panorama.errors import ModelError
from panorama.models.base import Embedder
from panorama.query.decide import Calibration

SETTING = "calibration:"
"""Key of a library's own calibration, followed by the model's hash."""


def calibrations_for(embedder: Embedder, settings: Mapping[str, Any]) -> tuple[Calibration, ...]:
    """One calibration per exit, shallowest first: what `calibrate` stored, else what the model ships with.

    Raises:
        ModelError: the model ships with none, or with a malformed one.
    """
    rows = settings.get(SETTING + embedder.hash) or embedder.calibration
    if len(rows) != embedder.exits:
        raise ModelError(
            f"{embedder.name} has {embedder.exits} exits but {len(rows)} calibrations; run panorama calibrate"
        )
    try:
        return tuple(Calibration(**row) for row in rows)
    except (TypeError, ValueError) as exc:
        raise ModelError(f"the calibration of {embedder.name} is malformed: {exc}") from exc
