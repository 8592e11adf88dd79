"""A model and a library's settings come in; the calibration of every exit goes out, its own one first."""

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
"""Key of a library's own calibration; what it was `measured_with` follows."""

SHIPPED = "calibration.json"
"""File in a model's folder: the calibration for libraries that have none of their own."""

PLAIN = Calibration(centre=0.0, slope=1.0, low=0.0, high=0.5, near_best=0.75)
"""The starting point of `calibrate` for models without a calibration: only the oldest rule is active."""


def measured_with(embedder: Embedder) -> str:
    """What a calibration depends on: other vectors, views of examples or strangers need another one."""
    return f"{embedder.hash}:{len(views_of(embedder))}:{embedder.cohort_digest}"


def calibrations_for(embedder: Embedder, settings: Mapping[str, Any]) -> tuple[Calibration, ...]:
    """One calibration per exit, shallowest first: the one that `calibrate` stored, else the model's.

    Raises:
        ModelError: there is none, or it is malformed.
    """
    stored = settings.get(SETTING + measured_with(embedder))
    if stored:
        return _of_rows(embedder, stored, f"run {command('calibrate')}")
    shipped = _shipped(embedder)
    if shipped is None:
        raise ModelError(f"{embedder.name} ships with no calibration; make one with {command('calibrate')}")
    return shipped


def own_calibration(embedder: Embedder, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The setting in which a library keeps its own calibration for this model, by its key; empty if none.

    A library that keeps it, too, decides by the same bands.
    """
    key = SETTING + measured_with(embedder)
    return {key: settings[key]} if settings.get(key) else {}


def told(embedder: Embedder, settings: Mapping[str, Any]) -> str:
    """Tells users whose calibration applies."""
    if settings.get(SETTING + measured_with(embedder)):
        return "the library's own"
    if any(value and key.startswith(SETTING + embedder.hash) for key, value in settings.items()):
        own = "the library's own was measured with other views of examples or other strangers"
        return f"the model's; {own}: run {command('calibrate')}"
    return "the model's" if _shipped(embedder) else f"none; run {command('calibrate')}"


def has_bands(embedder: Embedder, settings: Mapping[str, Any]) -> bool:
    """Whether `calibrations_for` finds a calibration; ModelError if the model's is malformed."""
    return bool(settings.get(SETTING + measured_with(embedder))) or _shipped(embedder) is not None


def rules_for(embedder: Embedder) -> tuple[Calibration, ...]:
    """The model's calibration, regardless of the library's; PLAIN for every exit if the model has none.

    Raises:
        ModelError: the model's is malformed.
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
    """The model's calibration; None if its folder has no such file."""
    path = (embedder.folder or content_dir("embeddings") / embedder.name) / SHIPPED
    try:
        rows = list(parsed_json(path.read_text(encoding="utf-8"))["exits"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise ModelError(f"{path} is not a calibration: {exc}; repair or remove it") from exc
    return _of_rows(embedder, rows, f"repair or remove {path}")


def check_calibration(path: Path, videos: Collection[str] = ()) -> None:
    """Refuse a file name or place that is not allowed for a calibration; see `check_output`."""
    check_output(path, JSON, what="a calibration", videos=videos)


def write_calibration(path: Path, calibrations: Sequence[Calibration]) -> None:
    """Write calibrations in the form of a model's folder, whole or not at all.

    Raises:
        UsageError: the name does not end in .json, or it is one of a library's own files.
        LibraryWriteError: it cannot be written.
    """
    check_calibration(path)
    with whole_file(path) as partial:
        partial.write_text(calibration_text(calibrations) + "\n", encoding="utf-8")


def calibration_text(calibrations: Sequence[Calibration]) -> str:
    """Calibrations as the JSON of a model's folder, without a line end behind it."""
    return json.dumps({"exits": [c.as_dict() for c in calibrations]}, indent=1)
