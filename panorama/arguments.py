"""Arguments of the Python API enter; one of a wrong kind is told with what it may be, before any work."""

from __future__ import annotations

import functools
import importlib
import inspect
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from panorama.errors import BadBox, EntityError, PanoramaError, UsageError, paths_told
from panorama.lines import composed
from panorama.values import (
    above,
    are_ids,
    are_points,
    are_queries,
    are_seen_ids,
    are_truths,
    as_read,
    as_row,
    is_box,
    is_count,
    is_finite,
    is_flag,
    is_float,
    is_id,
    is_json,
    is_number,
    is_path,
    is_picture,
    is_row,
    is_size,
    is_text,
    is_whole,
    shown,
    told,
    whole,
)
from panorama.whole_imports import imports_whole

File = str | Path
Files = Sequence[File] | NDArray[np.str_] | File
Box = str | Sequence[float] | NDArray[np.number]
Ids = Sequence[int] | NDArray[np.integer]
"""As signatures of the API have them; `KINDS` tells what is taken besides, where a value tells no type."""
SeenIds = Ids | Sequence[int | str]
"""Ids of tracks or crops, or text as the commands of a page name them."""

_Given = TypeVar("_Given", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Kind:
    """What an argument may be.

    Attributes:
        says: a sentence for people, with an example where it is not obvious.
        fits: whether a value is one.
        error: raised where it is not.
        plain: the value as everything behind the API has it, without numpy's numbers, fractions and decimals.
        typed: whether a value has the right type. The message on one that does not fit then shows the value
            alone; otherwise it begins with the type, which is the fault.
        read: the value as it can be looked at, before it is.
    """

    says: str
    fits: Callable[[Any], bool]
    error: type[PanoramaError] = UsageError
    plain: Callable[[Any], Any] = lambda value: value
    typed: Callable[[Any], bool] = lambda value: False
    read: Callable[[Any], Any] = lambda value: value

    def taken(self, value: Any, where: str = "") -> Any:
        """The value, plain; raises where it is of another kind, `where` before the message."""
        value = self.read(value)
        self.check(value, where)
        return self.plain(value)

    def check(self, value: Any, where: str = "") -> None:
        """Raise where a value is of another kind; `where` stands before the message."""
        if not self.fits(value):
            raise self.error(f"{where}{self.says}, got {(shown if self.typed(value) else told)(value)}")


class _Several(Kind):
    """One value that fits, or several; of a long column, the first that does not fit is shown alone."""

    def taken(self, value: Any, where: str = "") -> Any:
        values = as_read(value)
        if values is not value and is_row(values):
            for one in values:
                self.check(one, where)
        elif not (is_row(values) and all(map(self.fits, values))):
            self.check(values, where)
        return self.plain(values)


def _instance(module: str, name: str, example: str) -> Kind:
    """Of a class that is loaded when a value is there to be looked at."""

    def fits(value: Any) -> bool:
        return isinstance(value, getattr(importlib.import_module(module), name))

    return Kind(f"expected {name} of {module}, as {example}", fits)


def _flag(name: str) -> Kind:
    return Kind(f"{name} is True or False", is_flag, plain=bool)


def _counted(name: str, most: float = math.inf, least: int = 1) -> Kind:
    upwards = "" if most == math.inf else f" to {most}"
    return Kind(
        f"{name} is a whole number from {least}{upwards}", whole(least, most), plain=int, typed=is_whole
    )


def _whole(says: str) -> Kind:
    return Kind(says, is_whole, plain=int)


def _id(says: str) -> Kind:
    return Kind(says, is_id, plain=int, typed=is_whole)


def _called(name: str) -> Kind:
    return Kind(f"{name} is a function, such as print; leave it out to be told nothing", callable)


def _number(says: str) -> Kind:
    return Kind(says, is_float, plain=float, typed=is_number)


def _path(says: str, plain: Callable[[Any], Any] = lambda path: path) -> Kind:
    return Kind(says, is_path, plain=plain, typed=_is_typed_path)


def _is_typed_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _paths(name: str) -> Kind:
    return Kind(
        f"{name} are paths, as text or Paths, none of them empty",
        lambda value: all(map(is_path, value)) if is_row(value) else is_path(value),
        plain=lambda value: tuple(map(Path, value if is_row(value) else [value])),
        typed=_is_typed_path,
    )


MOST_ZOOM = 4
"""More parts than 4 x 4 take longer than anybody waits, and parts of video are no longer sharp."""

MOST_THREADS = 1024
"""Where the system makes no more of them, DuckDB ends the process."""

LEAST_EXPRESSIONS = 60
"""Panorama's own relations need up to 30 before the statement's."""

MOST_EXPRESSIONS = 1_000_000
"""Any stack is used up before."""

MOST_SIDE = 1_000_000
"""Of no picture a side is longer, in pixels."""

MOST_SECONDS = 1_000_000_000
"""No clock of the system waits for ever; thirty years are a limit that nobody meets."""

NAME = Kind("an entity's name is text", is_text, EntityError)
PICTURE = Kind(
    "a picture is a file or an RGB array (height, width, 3), or a picture of PIL",
    is_picture,
    typed=_is_typed_path,
)


def _seen_id(name: str) -> Kind:
    return Kind(
        f"{name} is a whole number, as a query returns it, or text, as pages name it",
        lambda value: is_text(value) or is_id(value),
        typed=is_whole,
        plain=lambda value: value if is_text(value) else int(value),
    )


ID = _id("an id is a whole number, as a query returns it")
MODEL = _path("a model is the name of an embedder, or a folder with a recipe.toml")
PROPOSER = _path("a proposer is the name of one, or a folder with a recipe.toml")
SHAPE = Kind("a zone's name is text", is_text, plain=composed)
CAMERA = Kind("a camera is its name as text, see Library.videos", is_text, plain=composed)

KINDS: dict[str, Kind] = {
    "paths": _Several(
        "what to index is a file, a folder or a pattern, as text or a Path, or a list of them",
        is_path,
        typed=_is_typed_path,
    ),
    "settings": _instance("panorama", "IngestSettings", "IngestSettings(samples_per_second=2.0)"),
    "depth": _whole("a depth is a whole number of exits"),
    "model": MODEL,
    "proposer": PROPOSER,
    "recording": _instance("panorama", "RecordingRule", "RecordingRule(time_from='metadata')"),
    "redo": _flag("redo"),
    "hooks": _instance("panorama", "Hooks", "Hooks(on_file=print)"),
    "videos": _Several("videos are names or paths, as text or a list of them", is_path, typed=_is_typed_path),
    "start": Kind("a start is local time as text, '2026-03-01 10:00:00'", is_text),
    "first_start": Kind("a start is local time as text, '2026-03-01 10:00:00'", is_text),
    "parts": Kind(
        "parts of a rule are a list of its attributes: time_from, zone, camera_from",
        lambda value: is_row(value) and all(part in ("time_from", "zone", "camera_from") for part in value),
    ),
    "zone": Kind("a time zone is its IANA name as text, 'Europe/Berlin'", is_text),
    "video": _path("a video is its name in the library or its path, as text or a Path"),
    "name": NAME,
    "new": NAME,
    "entity": NAME,
    "box": Kind(
        "a box is 'x1,y1,x2,y2' or four numbers, in pixels of the picture", is_box, BadBox, plain=as_row
    ),
    "find": _flag("find"),
    "category": _flag("category"),
    "known": _flag("known"),
    "look_alike": _flag("look_alike"),
    "skip_gone": _flag("skip_gone"),
    "seconds": Kind("a time is a finite number of seconds", is_finite, plain=float, typed=is_number),
    "frame": Kind("a frame is a whole number, counted from 0", is_count, plain=int, typed=is_number),
    "folder": _path("an album is a folder with one subfolder of pictures per entity"),
    "exemplar_id": _id("an exemplar's id is a whole number, as Library.exemplars returns it"),
    "exemplar_ids": Kind("exemplar_ids is a list of whole numbers from Library.exemplars", are_ids),
    "with_sightings": _flag("with_sightings"),
    "picture_root": _path("a picture root is a folder, as text or a Path"),
    "read_only": _flag("read_only"),
    "limits": _instance("panorama", "Limits", "Limits(seconds=10, memory='2GB')"),
    "stop": _instance("threading", "Event", "threading.Event()"),
    "queries": Kind("queries are a list, each SQL as text or a pair (SQL, parameters)", are_queries),
    "first": PICTURE,
    "second": PICTURE,
    "track_id": ID,
    "crop_id": ID,
    "track_ids": Kind("track_ids is a list of whole numbers, as a query returns them", are_ids),
    "alike": Kind("alike is a list of whole numbers, as a query returns them", are_ids),
    "crop_ids": Kind("crop_ids is a list of whole numbers, as a query returns them", are_ids),
    "exit": _whole("an exit is a whole number from 1"),
    "key": Kind("a setting's name is text", is_text),
    "change": Kind("expected a function that takes all settings and returns a dict", callable),
    "value": Kind("a setting is a value that JSON can hold", is_json),
    "camera": CAMERA,
    "to": CAMERA,
    "kind": Kind("the kind of a shape is 'zone' or 'line'", is_text),
    "points": Kind(
        "points are text, '10%,50% 90%,50% 90%,90%', or pairs of shares of the frame, [(0.1, 0.5), ...]",
        are_points,
        read=as_read,
    ),
    "size": Kind(
        f"a size is two whole numbers (width, height), from 1 to {MOST_SIDE}",
        lambda value: is_size(value, MOST_SIDE),
        plain=lambda value: tuple(map(int, value)),
    ),
    "path": _path("a path is text or a Path, and not empty"),
    "result": _instance("panorama.query.result.result", "Result", "library.query('SELECT ...')"),
    "most": _counted("most"),
    "out": _path("a file is text or a Path, and not empty"),
    "create": _flag("create"),
}
"""What parameters of the API may be, by name, or by `Class.method.parameter` where one name is two things."""

KINDS |= {
    "Library.use_model.name": MODEL,
    "Library.register_seen.track_ids": Kind(
        "track_ids is a list of whole numbers, as a query returns them, or of text, as pages name them",
        are_seen_ids,
    ),
    "Library.register_seen.crop_ids": Kind(
        "crop_ids is a list of whole numbers, as a query returns them, or of text, as pages name them",
        are_seen_ids,
    ),
    "Library.why.track_id": _seen_id("track_id"),
    "Library.why.crop_id": _seen_id("crop_id"),
    "Result.fetchmany.size": _counted("size, of rows,", least=0),
    "Result.write.form": Kind("a format is text: csv, json, parquet or table", is_text),
    "Result.to_table.rows": Kind(
        "rows is a whole number from 1, or None for all",
        lambda value: value is None or whole(1, math.inf)(value),
        plain=lambda value: value if value is None else int(value),
        typed=is_whole,
    ),
    "Library.clips.folder": _path("a folder is text or a Path, and not empty"),
    "Zones.add.name": SHAPE,
    "Zones.rename.name": SHAPE,
    "Zones.rename.new": SHAPE,
    "Zones.move.name": SHAPE,
    "Zones.drop.name": SHAPE,
}

_TOLD = Kind("expected a function that takes a line of text, such as print", callable)

KINDS |= {
    "library": _instance("panorama", "Library", "panorama.open('panorama-library')"),
    "calibrate.precision": _number("a precision to aim at is a number between 0.5 and 1"),
    "calibrate.slack": _number("slack is a number between 0 and 0.5"),
    "calibrate.recall": _number("a recall to aim at is a number between 0.5 and 1"),
    "calibrate.anyway": _flag("anyway"),
    "score_entities.truths": Kind(
        "a truth is an entity's name -> Truth of panorama.judging.evaluate, as"
        " {'cat': Truth({'gate/a.mp4': [(0, 119)]}, {})}; read_truth(Path('truth.json')) reads a file",
        are_truths,
    ),
    "tune.seconds": _number("the length of the sample is a number of seconds"),
    "tune.most_loss": _number("most_loss is a share from 0 to below 1"),
    "tune.least_speed": _number("least_speed is how many times as fast as real time"),
    "tune.tell": _TOLD,
    "fine_tune.own": _instance("panorama.own_training", "OwnData", "OwnData(folders=('labelled',))"),
    "fine_tune.out": _path("a model's folder is text or a Path, and not empty", plain=Path),
    "fine_tune.options": _instance("panorama.training", "TrainingOptions", "TrainingOptions()"),
    "fine_tune.start": _path(MODEL.says, plain=os.fspath),
    "fine_tune.library": Kind("expected a function that opens a library, such as panorama.open", callable),
    "fine_tune.scratch": Kind(
        "expected a function that opens a folder as a library, such as panorama.open", callable
    ),
    "fine_tune.say": _TOLD,
    "train_recipe.recipe": _path("a recipe is a file, as text or a Path", plain=Path),
    "train_recipe.data": Kind(
        "data folders are a mapping of the names in the recipe, as {'footage': '/data/footage'}",
        lambda value: isinstance(value, Mapping) and all(is_text(n) and is_path(f) for n, f in value.items()),
        plain=lambda value: {name: Path(folder) for name, folder in value.items()},
    ),
    "train_recipe.out": _path("a model's folder is text or a Path, and not empty", plain=Path),
    "train_recipe.options": _instance("panorama.training", "TrainingOptions", "TrainingOptions()"),
    "train_recipe.say": _TOLD,
}
"""Parameters of the functions that take a library."""

KINDS |= {
    "OwnData.videos": _paths("videos"),
    "OwnData.folders": _paths("folders"),
    "OwnData.query": Kind("a query for crops is SQL as text", is_text),
    "TrainingOptions.resume": _flag("resume"),
    "TrainingOptions.device": Kind("a device is 'cpu' or 'cuda'", is_text),
    "TrainingOptions.steps": _whole("steps is a whole number"),
    "TrainingOptions.seed": _whole("a seed is a whole number"),
    "TrainingOptions.minutes": _number("minutes is a number above 0"),
    "TrainingOptions.threads": _whole("threads is a whole number"),
    "IngestSettings.samples_per_second": Kind(
        "samples a second (--fps) is a number above 0, at most 1000",
        above(0, 1000),
        plain=float,
        typed=is_number,
    ),
    "IngestSettings.every": _counted("every (--every), in frames,"),
    "IngestSettings.crops_per_track": _counted("crops_per_track"),
    "IngestSettings.proposal_side": _counted("proposal_side"),
    "IngestSettings.zoom": _counted("zoom", MOST_ZOOM),
    "IngestSettings.max_regions": _counted("max_regions"),
    "IngestSettings.min_side": _counted("min_side", MOST_SIDE, least=0),
    "IngestSettings.keyframes_only": _flag("keyframes_only"),
    "IngestSettings.depth": _counted("depth, in exits,"),
    "Work.proposal_batch": _counted("proposal_batch"),
    "Work.embed_batch": _counted("embed_batch"),
    "Work.network_threads": _counted("network_threads", MOST_THREADS),
    "Hooks.on_start": _called("on_start"),
    "Hooks.on_progress": _called("on_progress"),
    "Hooks.on_file": _called("on_file"),
    "Hooks.on_wait": _called("on_wait"),
    "Hooks.on_anew": _called("on_anew"),
    "RecordingRule.time_from": Kind("time_from is text: 'none', 'metadata', 'name' or a pattern", is_text),
    "RecordingRule.zone": Kind(
        "a time zone is its IANA name as text, 'Europe/Berlin', or '' for this machine's",
        lambda value: value is None or is_text(value),
        plain=lambda value: value or "",
    ),
    "RecordingRule.camera_from": Kind("camera_from is text: 'folder' or a pattern with {camera}", is_text),
    "Limits.seconds": Kind(
        f"a time limit (at most {MOST_SECONDS}, None for none; --timeout) is a number of seconds above 0",
        above(0, MOST_SECONDS),
        plain=float,
        typed=is_number,
    ),
    "Limits.memory": Kind("memory is written like '500MB', '4GB' or '1.5GiB'", is_text),
    "Limits.threads": _counted("threads", MOST_THREADS),
    "Limits.expressions": _counted("expressions", MOST_EXPRESSIONS, LEAST_EXPRESSIONS),
}
"""Fields of what settings are made of, by `Class.field`."""

CALLED = {"open_library": "panorama.open"}
"""What users call a function, where it is something else than its name."""

TELL_THEMSELVES = frozenset(("sql", "parameters", "images", "unlike"))
"""Parameters that are checked where they are read, item by item."""


def checked(given: _Given) -> _Given:
    """A function, or a class with its public methods, that refuses arguments of a wrong kind before any work.

    A parameter's default is always taken. Every parameter has a kind in KINDS, or tells for itself.
    """
    if not inspect.isclass(given):
        return cast(_Given, imports_whole()(_checking(given)))
    for name, method in list(vars(given).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(given, name, _checking(method))
    return given


def _checking(function: Callable[..., Any]) -> Callable[..., Any]:
    defaults = {name: taken.default for name, taken in inspect.signature(function).parameters.items()}
    names = tuple(defaults)
    called = CALLED.get(function.__name__, function.__name__)
    kinds = {
        name: KINDS.get(f"{function.__qualname__}.{name}") or KINDS[name]
        for name in defaults
        if name != "self" and name not in TELL_THEMSELVES
    }

    @functools.wraps(function)
    def checking(*values: Any, **named: Any) -> Any:
        def taken(name: str, value: Any) -> Any:
            if name not in kinds or value is defaults[name]:
                return value
            return kinds[name].taken(value, f"{called}({name}=...): ")

        plain = [taken(name, value) for name, value in zip(names, values, strict=False)]
        with paths_told():
            return function(
                *plain, *values[len(names) :], **{name: taken(name, named[name]) for name in named}
            )

    return checking


def take_fields(made: Any) -> None:
    """Check all fields of a frozen dataclass by their kinds and make them plain; a default is always taken.

    For `__post_init__`: what is stored and hashed is then the same, whichever numbers were given.
    """
    for field in fields(made):
        value = getattr(made, field.name)
        if value is not field.default:
            kind = KINDS[f"{type(made).__name__}.{field.name}"]
            object.__setattr__(made, field.name, kind.taken(value))
