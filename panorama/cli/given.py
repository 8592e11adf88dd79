"""Words of the command line come in; paths, texts and seconds go out, none of them empty."""

from __future__ import annotations

import re
from typing import Any

import click

_EMPTY = "it is empty; is it a shell variable that is not set?"


class FilePath(click.Path):
    """A path that is not empty: Python would take an empty one for the working directory or for none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a usage error if it is empty."""
        if value == "":
            self.fail(_EMPTY, param, ctx)
        return super().convert(value, param, ctx)


class Text(click.ParamType):
    """Text that is not empty: empty text would count as not given."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text; a usage error if it is empty."""
        if value == "":
            self.fail(_EMPTY, param, ctx)
        return str(value)


class Seconds(click.ParamType):
    """Seconds from the start of a video: 83.5, or as sheets and `why` show them, 1:23.5 and 1:02:03."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number of seconds; a usage error if the text is no time."""
        if isinstance(value, float):
            return value
        if found := _CLOCK.fullmatch(value.strip()):
            hours, minutes, seconds = found.groups()
            return int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds)
        try:
            return float(value)
        except ValueError:
            self.fail(f"{value!r} is not a time: write seconds, 83.5, or minutes and seconds, 1:23.5")


_CLOCK = re.compile(r"(?:(\d+):(?=\d\d:))?(\d+):([0-5]\d(?:\.\d+)?)")
