"""A file's path comes in; the camera and the recording time in its name go out.

A pattern is compared with the end of the path, with as many folders as the pattern has. It may contain

    {camera}         the camera's name; several are joined by '/', unless they are all equal
    %Y %m %d %H ...  local time of the camera; {time:...} around it is optional
    {utc:...}        the same in UTC
    *                anything within one part of the path
    **               between slashes or at the end, any number of parts, also none
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import PurePath

from panorama.errors import UsageError
from panorama.lines import composed

NONE, METADATA, NAME = "none", "metadata", "name"
"""Sources of times other than a pattern; see `panorama.cameras.recording_rule.RecordingRule`."""

BY_HAND = "hand"
"""Source of a time that somebody set for one video; rules do not change it."""

DIRECTIVES = {
    "Y": r"\d{4}", "y": r"\d{2}", "m": r"\d{2}", "d": r"\d{2}", "j": r"\d{3}", "H": r"\d{2}",
    "I": r"\d{2}|(?<!\d)\d", "M": r"\d{2}", "S": r"\d{2}", "f": r"\d{1,6}", "p": r"[AaPp][Mm]",
    "z": r"Z|[+-]\d{2}:?\d{2}", "s": r"\d{9,11}",
}  # fmt: skip
"""The letters of `strptime` -> what they match; %s is seconds since 1970."""

_FIELD = re.compile(r"\{([^{}]*)\}|%(.)|(\*)|([^%*{}]+)|([%{}])", re.DOTALL)
_STAMP = re.compile(
    r"""
    (?:(?<![A-Za-z])(?P<before>UTC|GMT)[-_.\ ]?|(?<!\d))
    (?P<Y>(?:19|20)\d\d)(?P<a>[-_.]?)(?P<m>0[1-9]|1[0-2])(?P=a)(?P<d>0[1-9]|[12]\d|3[01])
    (?:(?P<T>T)|[-_.\ ]+(?:at\ )?)?
    (?:(?P<H>[01]\d|2[0-3])|(?P<one>\d)(?=[-_.:]\d\d(?:[-_.:]\d\d)?[-_.\s]?[AaPp][Mm](?![A-Za-z])))
    (?P<b>[-_.:h]?)(?P<M>[0-5]\d)
    (?:(?:(?P=b)|m)(?P<S>[0-5]\d)(?:s|[._]?(?P<f>\d{3}))?)?
    (?:(?:[-_.\s](?!am[-_\s]+[A-Za-z]))?(?P<p>[AaPp][Mm])(?![A-Za-z]))?  # "am Tor" is German: at the gate
    (?:[-_.\ ]?(?P<after>UTC|GMT)(?![A-Za-z]|[+-]\d)|(?P<Z>Z)(?![A-Za-z]))?
    # Behind a sign stands an offset in ISO's form alone: elsewhere it counts files, or is a second time.
    (?(T)(?(S)(?P<z>[+-](?:00:?00|(?:0[1-9]|1[0-4]):?(?:00|15|30|45))(?!\d))?))
    (?!\d)
    """,
    re.VERBOSE,
)
"""A date and a time in a name; `one` is an hour of one digit, which only a clock of twelve hours writes."""


@dataclass(frozen=True, slots=True)
class Told:
    """The information in a name.

    Attributes:
        camera: None if it has none.
        parts: directive -> digits of the time; () if it has none.
        is_utc: whether the time is in UTC, not in the camera's local time.
    """

    camera: str | None = None
    parts: tuple[tuple[str, str], ...] = ()
    is_utc: bool = False

    def unix(self, zone: tzinfo) -> float | None:
        """The time in seconds since 1970; None if there is none, or if that day or hour does not exist."""
        parts = dict(self.parts)
        try:
            return _unix(parts, UTC if self.is_utc else zone) if parts else None
        except (ValueError, OverflowError):
            return None


class NamePattern:
    """A compiled pattern of names.

    Raises:
        UsageError: a field or directive is unknown, or the time would be incomplete.
    """

    def __init__(self, text: str, *, wants_time: bool = True) -> None:
        self.text = text
        self._fields: list[str] = []
        self._kinds: set[str] = set()
        pieces = re.split(r"(?:^|/)\*\*(?=/|$)", composed(text))
        whole = r"(?:/[^/]+)*".join(map(self._translated, pieces))
        self._whole, self._regex = re.compile(whole), re.compile(whole + r"(?:\.\w+)?")
        self._is_deeper = len(pieces) > 1
        self._depth = text.count("/") + 2 - len(pieces)
        self._check(wants_time)
        if self._is_deeper and not re.search(r"\w", without_camera(pieces[0])):
            raise self._wrong(
                "before ** it needs a folder with a known name or a date, as in {camera}/DCIM/**"
            )

    def read(self, path: str, is_folder: bool = False) -> Told | None:
        """The camera and time in a path; None if it does not fit the pattern.

        A pattern may leave out the suffix of a file. What looks like one in the name of a folder belongs to
        the name, unless the pattern fits only without it.
        """
        parts = PurePath(composed(path)).parts
        depths = range(self._depth, len(parts) + 1) if self._is_deeper else (self._depth,)
        shapes = (self._whole, self._regex) if is_folder else (self._regex,)
        tried = (shape.fullmatch("/".join(parts[-depth:])) for shape in shapes for depth in depths)
        found = next((match for match in tried if match is not None), None)
        if found is None:
            return None
        cameras: list[str] = []
        stamp: dict[str, str] = {}
        for name, value in zip(self._fields, found.groups(), strict=True):
            if name == "camera":
                cameras.append(value)
            elif stamp.setdefault(name, value) != value:
                return None  # a folder and a name that contradict each other are no source
        # If a folder and a name give the same camera, use it once; but 1/2/1 and 1/2/2 are two cameras.
        camera = cameras[0] if len(set(cameras)) == 1 else "/".join(cameras)
        return Told(camera or None, tuple(sorted(stamp.items())), "utc" in self._kinds)

    def _translated(self, text: str) -> str:
        out = ""
        for field, directive, star, literal, stray in _FIELD.findall(text):
            if star:
                out += "[^/]*"
            elif literal:
                out += re.escape(literal)
            elif stray:
                raise self._wrong(f"{stray!r} stands alone")
            elif directive:
                out += self._directive(directive, "time")
            elif field == "camera":
                self._fields.append("camera")
                out += "([^/]+?)"
            elif field.partition(":")[0] in ("time", "utc"):
                out += self._timed(*field.partition(":")[::2])
            else:
                raise self._wrong(f"there is no field {{{field}}}; there are {{camera}}, {{time:}}, {{utc:}}")
        return out

    def _timed(self, kind: str, inside: str) -> str:
        pieces = re.split(r"%(.)", inside)
        return "".join(
            self._directive(piece, kind) if i % 2 else re.escape(piece) for i, piece in enumerate(pieces)
        )

    def _directive(self, letter: str, kind: str) -> str:
        if letter == "%":
            return "%"
        if letter not in DIRECTIVES:
            known = " ".join(f"%{name}" for name in DIRECTIVES)
            raise self._wrong(f"%{letter} is not known; there are {known}")
        self._fields.append(letter)
        self._kinds.add(kind)
        return f"({DIRECTIVES[letter]})"

    def _check(self, wants_time: bool) -> None:
        given = set(self._fields)
        if not wants_time:
            if "camera" not in given:
                raise self._wrong("it has no {camera}")
            return
        if self._kinds == {"time", "utc"}:
            raise self._wrong("its time is either local or {utc:...}, not both")
        day = bool(given & {"Y", "y"}) and ({"m", "d"} <= given or "j" in given)
        hour = "H" in given or {"I", "p"} <= given
        if not ("s" in given or (day and hour)):
            raise self._wrong("a time needs year, month, day and hour: %Y %m %d %H")

    def _wrong(self, what: str) -> UsageError:
        return UsageError(
            f"the pattern {self.text!r} cannot be used: {what}. An example: {{camera}}_%Y%m%d-%H%M%S"
        )


def without_camera(text: str) -> str:
    """A pattern that fits the same names, but without the camera."""
    return text.replace("{camera}", "*")


def usual_stamp(path: str) -> Told:
    """The first date with a time in a file's own name, such as 2026-03-01_10-15-00 or 20260301T101500Z."""
    found = _STAMP.search(PurePath(path).name)
    if found is None:
        return Told()
    told = {name: value for name, value in found.groupdict().items() if value is not None}
    parts = {name: told[name] for name in "YmdHMSfz" if name in told}
    parts.setdefault("H", f"0{told.get('one')}")
    if "p" in told and 1 <= int(parts["H"]) <= 12:  # some write 22:15 PM
        parts |= {"I": parts.pop("H"), "p": told["p"]}
    if not {"before", "after", "Z"}.isdisjoint(told):
        parts["z"] = "Z"
    return Told(None, tuple(sorted(parts.items())))


def told_by(path: str, pattern: NamePattern | None, is_folder: bool = False) -> Told:
    """The time and camera in a path, by a pattern or, without one, by the usual timestamps."""
    return usual_stamp(path) if pattern is None else pattern.read(path, is_folder) or Told()


def folder_camera(uri: str, root: str, name: str) -> str:
    """The camera of a video without a pattern: the folder of the file, relative to the folder indexed.

    For files directly in the folder indexed, it is that folder: indexing cam1 and cam2 gives two cameras.

    Args:
        uri: path of the file.
        root: the folder indexed; for a file indexed by name, its folder.
        name: of the video; used if a link leads out of `root`.
    """
    place, top = PurePath(uri), PurePath(root)
    folder = place.relative_to(top).parent if place.is_relative_to(top) else PurePath(name).parent
    return composed(top.name if folder == PurePath() else folder.as_posix())


def _unix(parts: dict[str, str], zone: tzinfo) -> float:
    if "s" in parts:
        return float(parts["s"])
    year = int(parts["Y"]) if "Y" in parts else 2000 + int(parts["y"])
    if "m" in parts:
        day = datetime(year, int(parts["m"]), int(parts["d"]))
    else:
        day = datetime(year, 1, 1) + timedelta(days=int(parts["j"]) - 1)
        if day.year != year:
            raise ValueError(f"the year {year} has no day {parts['j']}")
    hour = int(parts["H"]) if "H" in parts else _hour(int(parts["I"]), parts["p"].lower() == "pm")
    moment = day.replace(
        hour=hour,
        minute=int(parts.get("M", 0)),
        second=int(parts.get("S", 0)),
        microsecond=int(parts.get("f", "0").ljust(6, "0")),
    )
    return moment.replace(tzinfo=_offset(parts["z"]) if "z" in parts else zone).timestamp()


def _hour(of_twelve: int, is_afternoon: bool) -> int:
    if not 1 <= of_twelve <= 12:
        raise ValueError(f"a clock of twelve hours has no hour {of_twelve}")
    return of_twelve % 12 + 12 * is_afternoon


def _offset(text: str) -> timezone:
    if text == "Z":
        return UTC
    sign = -1 if text[0] == "-" else 1
    digits = text[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if minutes > 59:
        raise ValueError(f"an offset has no {minutes} minutes")
    return timezone(sign * timedelta(hours=hours, minutes=minutes))
