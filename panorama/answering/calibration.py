"""A model and a library's settings enter; the calibration of every exit leaves, the library's own first."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from panorama.album.examples import views_of
from panorama.commands import command
from panorama.content import content_dir
from panorama.errors import ModelError
from panorama.json_text import parsed_json
from panorama.models.base import Embedder
from panorama.query.matching.decide import Calibration
from panorama.store.files.outputs import JSON, check_output, whole_file

SETTING = "calibration:"
"""Key of a library's own calibration, followed by what it was `measured_with`."""

SHIPPED = "calibration.json"
"""In a model's folder: what applies where a library has none of its own."""

PLAIN = Calibration(centre=0.0, slope=1.0, low=0.0, high=0.5, near_best=0.75)
"""What `calibrate` begins with where a model ships with none: of its rules between tracks only the oldest."""


def measured_with(embedder: Embedder) -> str:
    """What a library measured holds for: other vectors, views of examples or strangers give other values."""
    return f"{embedder.hash}:{len(views_of(embedder))}:{embedder.cohort_digest}"


def calibrations_for(embedder: Embedder, settings: Mapping[str, Any]) -> tuple[Calibration, ...]:
    """One calibration per exit, shallowest first: what `calibrate` stored, else what the model ships with.

    Raises:
        ModelError: there is none, or a malformed one.
    """
    stored = settings.get(SETTING + measured_with(embedder))
    if stored:
        return _of_rows(embedder, stored, f"run {command('calibrate')}")
    shipped = _shipped(embedder)
    if shipped is None:
        raise ModelError(f"{embedder.name} ships with no calibration; make one with {command('calibrate')}")
    return shipped


def told(embedder: Embedder, settings: Mapping[str, Any]) -> str:
    """In words, whose calibration applies."""
    if settings.get(SETTING + measured_with(embedder)):
        return "the library's own"
    if any(value and key.startswith(SETTING + embedder.hash) for key, value in settings.items()):
        own = "the library's own was measured with other views of examples or other strangers"
        return f"the model's; {own}: run {command('calibrate')}"
    return "the model's" if _shipped(embedder) else f"none; run {command('calibrate')}"


def has_bands(embedder: Embedder, settings: Mapping[str, Any]) -> bool:
    """Whether `calibrations_for` finds any; ModelError where the model ships with malformed ones."""
    return bool(settings.get(SETTING + measured_with(embedder))) or _shipped(embedder) is not None


def rules_for(embedder: Embedder) -> tuple[Calibration, ...]:
    """What the model ships with, whatever a library has, or PLAIN for every exit where it ships with none.

    Raises:
        ModelError: it ships with a malformed one.
    """
    return _shipped(embedder) or (PLAIN,) * embedder.exits


def _of_rows(embedder: Embedder, rows: Sequence[Mapping[str, float]], repair: str) -> tuple[Calibration, ...]:
    if len(rows) != embedder.exits:
        raise ModelError(f"{embedder.name} has {embedder.exits} exits but {len(rows)} calibrations; {repair}")
    try:
        for name, value in (pair for row in rows for pair in row.items()):
            if not math.isfinite(value):
                raise ValueError(f"{name} is {value}, which is not a finite number")
        return tuple(Calibration(**row) for row in rows)
    except (AttributeError, OverflowError, TypeError, ValueError) as exc:
        raise ModelError(f"the calibration of {embedder.name} is malformed: {exc}; {repair}") from exc


def _shipped(embedder: Embedder) -> tuple[Calibration, ...] | None:
    """None where the model's folder has no such file."""
    path = (embedder.folder or content_dir("embeddings") / embedder.name) / SHIPPED
    try:
        rows = list(parsed_json(path.read_text(encoding="utf-8"))["exits"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"{path} is not a calibration: {exc}; repair or remove it") from exc
    return _of_rows(embedder, rows, f"repair or remove {path}")


def check_calibration(path: Path, videos: Collection[str] = ()) -> None:
    """Refuse a file for calibrations that has another's name or place; see `check_output`."""
    check_output(path, JSON, what="a calibration", videos=videos)


def write_calibration(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Write calibrations as a model's folder holds them, whole or not at all; LibraryWriteError where not.

    UsageError where it is not called .json, or is a library's own file.
    """
    check_calibration(path)
    text = json.dumps({"exits": [c.as_dict() for c in calibrations]}, indent=1)
    with whole_file(path) as partial:
        partial.write_text(text + "\n", encoding="utf-8")
