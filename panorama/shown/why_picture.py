"""A `Why` comes in; a picture of example, crop and next best entity goes out, with the scores below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.lettering import draw_text, ends, lettering_remarks, text_width
from panorama.picture_files import check_picture, write_picture
from panorama.shown.why import Likeness, Step, Why

Rgb = NDArray[np.uint8]
Color = tuple[int, int, int]

_PAPER, _PANEL, _INK, _DIM = (24, 24, 27), (39, 39, 42), (240, 240, 240), (165, 165, 172)
_BANDS: dict[str | None, Color] = {
    "accepted": (74, 190, 110), "uncertain": (235, 175, 60), "rejected": (225, 85, 80), None: (120, 120, 128),
}  # fmt: skip
_RIVAL = (110, 170, 255)
_MARGIN, _SIDE, _LINE, _BAR_ROW = 24, 264, 19, 44
_TITLE, _TEXT, _SMALL = 0.8, 0.5, 0.45
_LEGEND = "line: score of this track, ring: of the next best entity"


@dataclass(frozen=True, slots=True)
class _Panel:
    """One of the pictures side by side; if title and name are too long, the name is shortened."""

    title: str
    name: str
    picture: Rgb | None
    border: Color
    lines: tuple[str, ...]


def write_why(why: Why, out: Path) -> tuple[str, ...]:
    """Write the picture; the file's suffix sets the format.

    Returns:
        Remarks for users: names with letters that the font lacks.

    Raises:
        UsageError: the suffix is not that of a picture format.
        LibraryWriteError: the file cannot be written.
    """
    check_picture(out)
    write_picture(draw_why(why), out)
    likenesses = [
        one for one in (why.exemplar, why.runner_up, why.denied or why.look_alike) if one is not None
    ]
    entities = [why.entity, *(one.entity for one in likenesses)]
    shown = [one.source for one in (*likenesses, why.pointed_at) if one is not None]
    videos = [why.video, *([why.beside.video] if why.beside is not None else [])]
    return lettering_remarks([*entities, *videos, *(Path(source).name for source in shown)])


def draw_why(why: Why) -> Rgb:
    """The picture, (H, W, 3) RGB."""
    panels = _panels(why)
    width = max(3, len(panels)) * (_SIDE + _MARGIN) + _MARGIN
    reason = _wrapped(why.reason, width - 2 * _MARGIN)
    panel_top = 102
    bars_top = panel_top + _SIDE + 3 * _LINE + 44
    text_top = bars_top + len(why.steps) * _BAR_ROW + 24
    height = text_top + len(reason) * 22 + 38
    canvas = np.full((height, width, 3), _PAPER, np.uint8)
    _header(canvas, why)
    for i, panel in enumerate(panels):
        _draw_panel(canvas, panel, _MARGIN + i * (_SIDE + _MARGIN), panel_top)
    for i, step in enumerate(why.steps):
        last = i == len(why.steps) - 1
        _bar(canvas, step, bars_top + i * _BAR_ROW, why.runner_up if last else None)
    for i, line in enumerate(reason):
        draw_text(canvas, line, (_MARGIN, text_top + i * 22), _TEXT, _INK)
    model = f"model {why.model} {why.model_hash[:12]}"
    draw_text(canvas, model, (_MARGIN, height - 16), _SMALL, _DIM)
    legend_left = width - _MARGIN - text_width(_LEGEND, _SMALL)
    draw_text(canvas, _LEGEND, (legend_left, height - 16), _SMALL, _DIM)
    return canvas


def _panels(why: Why) -> list[_Panel]:
    panels = [
        _Panel(
            "example of ", why.entity, why.exemplar.picture, _BANDS[None], _captions(why.exemplar, False)
        ),
        _Panel(
            "this track", "", why.crop, _BANDS[why.band],
            (
                f"{why.band}, score {why.score:.3f}",
                why.crop_place,
                f"crop {why.crop_id}",
            ),
        ),
    ]  # fmt: skip
    if why.runner_up is not None:
        other = why.runner_up
        panels.append(
            _Panel("next best: ", other.entity, other.picture, _BANDS[other.band], _captions(other, True))
        )
    if why.denied is not None:
        panels.append(_Panel("denied", "", why.denied.picture, _RIVAL, _captions(why.denied, False)))
    elif why.look_alike is not None:
        rival = why.look_alike
        panels.append(_Panel("registered look-alike", "", rival.picture, _RIVAL, _captions(rival, False)))
    return panels


def _captions(likeness: Likeness, scored: bool) -> tuple[str, ...]:
    lines = [f"similarity {likeness.similarity:.3f}", Path(likeness.source).name]
    if scored and likeness.score is not None:
        lines.insert(0, f"{likeness.band}, score {likeness.score:.3f}")
    return tuple(lines)


def _header(canvas: Rgb, why: Why) -> None:
    badge = f"{why.band}  {why.score:.3f}"
    badge_width = text_width(badge, _TITLE, 2)
    left = canvas.shape[1] - _MARGIN - badge_width - 28
    cv2.rectangle(canvas, (left, 18), (canvas.shape[1] - _MARGIN, 56), _BANDS[why.band], -1, cv2.LINE_AA)
    draw_text(canvas, badge, (left + 14, 46), _TITLE, _PAPER, 2)
    room = left - 2 * _MARGIN
    draw_text(canvas, ends([why.entity], room, _TITLE, 2), (_MARGIN, 42), _TITLE, _INK, 2)
    span, track = tuple(dict.fromkeys(why.pictures)) or (why.span,), f", track {why.track_id}"
    told = f"{why.video}   {why.span}{track}"
    if text_width(told, _TEXT) <= room:
        draw_text(canvas, told, (_MARGIN, 66), _TEXT, _DIM)
        return
    draw_text(canvas, ends([why.video], room, _TEXT), (_MARGIN, 61), _TEXT, _DIM)
    room = canvas.shape[1] - 2 * _MARGIN - text_width(track, _TEXT)
    draw_text(canvas, f"{ends(span, room, _TEXT)}{track}", (_MARGIN, 79), _TEXT, _DIM)


def _draw_panel(canvas: Rgb, panel: _Panel, x: int, y: int) -> None:
    name = ends([panel.name], _SIDE - text_width(panel.title, _TEXT), _TEXT)
    draw_text(canvas, panel.title + name, (x, y), _TEXT, _INK)
    top = y + 10
    cv2.rectangle(canvas, (x, top), (x + _SIDE - 1, top + _SIDE - 1), _PANEL, -1)
    if panel.picture is None:
        draw_text(canvas, "picture not found", (x + 16, top + _SIDE // 2), _TEXT, _DIM)
    else:
        inner = _SIDE - 12
        height, width = panel.picture.shape[:2]
        factor = inner / max(height, width)
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        how = cv2.INTER_AREA if factor < 1 else cv2.INTER_CUBIC
        left, upper = x + (_SIDE - size[0]) // 2, top + (_SIDE - size[1]) // 2
        canvas[upper : upper + size[1], left : left + size[0]] = cv2.resize(
            panel.picture, size, None, 0, 0, how
        )
    cv2.rectangle(canvas, (x, top), (x + _SIDE - 1, top + _SIDE - 1), panel.border, 3)
    for i, line in enumerate(panel.lines):
        color = _INK if i == 0 else _DIM
        draw_text(canvas, ends([line], _SIDE, _SMALL), (x, top + _SIDE + (i + 1) * _LINE + 3), _SMALL, color)


def _bar(canvas: Rgb, step: Step, y: int, runner_up: Likeness | None) -> None:
    """Draw one exit: scores from 0 to 1 in the colours of their bands, and the track's own score."""
    x1, x2 = _MARGIN + 64, canvas.shape[1] - _MARGIN - 110
    draw_text(canvas, f"exit {step.exit}", (_MARGIN, y + 15), _SMALL, _DIM)
    accept = max(step.high, min(step.floor, 1.0))

    def at(score: float) -> int:
        return x1 + round(min(max(score, 0.0), 1.0) * (x2 - x1))

    zones = (("rejected", 0.0, step.low), ("uncertain", step.low, accept), ("accepted", accept, 1.0))
    for band, start, stop in zones:
        if at(stop) > at(start):
            dark = tuple(c // 2 for c in _BANDS[band])
            cv2.rectangle(canvas, (at(start), y + 4), (at(stop) - 1, y + 18), dark, -1)
    if runner_up is not None and runner_up.score is not None:
        cv2.circle(canvas, (at(runner_up.score), y + 11), 6, _DIM, 2, cv2.LINE_AA)
    cv2.line(canvas, (at(step.score), y - 1), (at(step.score), y + 23), _INK, 3, cv2.LINE_AA)
    draw_text(canvas, f"{step.score:.3f} {step.band}", (x2 + 10, y + 15), _SMALL, _BANDS[step.band])
    _borders(canvas, [step.low, accept], at, y + 36)


def _borders(canvas: Rgb, values: list[float], at: Callable[[float], int], y: int) -> None:
    """Draw the numbers below a bar, moved apart where they would touch."""
    free = 0
    for value in values:
        text = f"{value:.2f}"
        x = max(at(value) - text_width(text, _SMALL) // 2, free)
        draw_text(canvas, text, (x, y), _SMALL, _DIM)
        free = x + text_width(text, _SMALL) + 6


def _wrapped(text: str, room: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, _TEXT) > room:
            lines.append(word)
        else:
            lines[-1] = longer
    return [ends([line], room, _TEXT) for line in lines]
