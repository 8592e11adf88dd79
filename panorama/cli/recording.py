"""The options about recording times and cameras come in; the rule that they describe goes out."""

from __future__ import annotations

from typing import Any

import click

from panorama.cameras.naming import without_camera
from panorama.cameras.recording_rule import FOLDER, SETTING, RecordingRule, completed
from panorama.cli.given import Text
from panorama.library import Library


def recording_options(command: Any) -> Any:
    """The options that say when and by which camera videos were recorded."""
    for option in (
        click.option(
            "--camera-from",
            type=Text(),
            default=None,
            help="How to name the camera: 'folder' (default), or a pattern as '{camera}_*'.",
        ),
        click.option(
            "--timezone",
            "zone",
            type=Text(),
            default=None,
            help="Time zone of the cameras' clocks, as Europe/Berlin. Default: that of the videos if their "
            "time is set by hand, else the library's, else this machine's.",
        ),
        click.option(
            "--time-from",
            type=Text(),
            default=None,
            help="Where the recording time is read from: 'metadata', 'name', a pattern as "
            "'{camera}_%Y%m%d-%H%M%S', or 'none'.",
        ),
    ):
        command = option(command)
    return command


def recording_rule(
    library: Library, time_from: str | None, zone: str | None, camera_from: str | None
) -> RecordingRule | None:
    """The rule that the options describe, completed from the library's; None if no option is given.

    With --camera-from folder, the time pattern loses its {camera} part.
    """
    named = named_parts(time_from, zone, camera_from)
    return completed(library.setting(SETTING) if library.exists else None, named) if named else None


def named_parts(time_from: str | None, zone: str | None, camera_from: str | None) -> dict[str, str]:
    """The parts of a rule that the options name."""
    if camera_from == FOLDER and time_from:
        time_from = without_camera(time_from)
    given = {"time_from": time_from, "zone": zone, "camera_from": camera_from}
    return {part: value for part, value in given.items() if value}
