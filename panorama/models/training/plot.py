"""A training log comes in; a picture of its losses and measures goes out."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.json_text import parsed_json
from panorama.whole_files import write_whole

WIDTH, HEIGHT, MARGIN = 900, 360, 48
COLORS = ((31, 119, 180), (214, 39, 40), (44, 160, 44), (148, 103, 189), (255, 127, 14), (23, 190, 207))
PANELS = (("loss", "imitate", "relate", "local"), ("map", "r_at_1"))


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log.jsonl, without lines that are not JSON, as a crash may leave."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        with suppress(ValueError):
            row = parsed_json(line)
            if isinstance(row, dict):
                rows.append(row)
    return rows


def end_last_line(path: Path) -> None:
    """End the last line of a log that a crash cut off: the next row would be lost with it."""
    if path.is_file() and path.stat().st_size:
        with path.open("r+b") as log:
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                log.write(b"\n")


def series(rows: list[dict[str, Any]], prefix: str, axis: str = "step") -> dict[str, NDArray[np.float64]]:
    """For every key that begins with `prefix`: (n, 2) steps and values."""
    keys = dict.fromkeys(key for row in rows for key in row if key.startswith(prefix))
    return {key: np.array([(row[axis], row[key]) for row in rows if key in row], np.float64) for key in keys}


def draw_panel(
    curves: dict[str, NDArray[np.float64]], title: str, unit_peak: bool, axis: str = "step"
) -> NDArray[np.uint8]:
    """One chart (HEIGHT, WIDTH, 3); with `unit_peak`, each curve is scaled to its own highest value."""
    canvas = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    font = cv2.FONT_HERSHEY_SIMPLEX
    cv2.rectangle(canvas, (MARGIN, MARGIN), (WIDTH - MARGIN, HEIGHT - MARGIN), (200, 200, 200), 1)
    cv2.putText(canvas, title, (MARGIN, 28), font, 0.55, (0, 0, 0), 1, cv2.LINE_AA)
    last_step = max((float(points[-1, 0]) for points in curves.values()), default=1.0) or 1.0
    for number, (name, points) in enumerate(curves.items()):
        color = COLORS[number % len(COLORS)]
        top = max(float(points[:, 1].max()), 1e-9) if unit_peak else 1.0
        x = MARGIN + points[:, 0] / last_step * (WIDTH - 2 * MARGIN)
        y = HEIGHT - MARGIN - np.clip(points[:, 1] / top, 0, 1) * (HEIGHT - 2 * MARGIN)
        line = np.stack([x, y], axis=1).round().astype(np.int32)
        cv2.polylines(canvas, [line], False, color, 2, cv2.LINE_AA)
        text = f"{name} {points[-1, 1]:.3f}"
        cv2.putText(canvas, text, (MARGIN + 8 + 140 * number, HEIGHT - 16), font, 0.45, color, 1, cv2.LINE_AA)
    cv2.putText(canvas, f"{axis} {last_step:g}", (WIDTH - 130, 28), font, 0.45, (0, 0, 0), 1, cv2.LINE_AA)
    return canvas


def plot_log(log: Path, picture: Path) -> None:
    """Losses above, each scaled to its peak; below, if measured, retrieval of held-out classes, 0 to 1."""
    rows = read_log(log)
    losses = {key: points for name in PANELS[0] for key, points in series(rows, name).items()}
    measures = {key: points for name in PANELS[1] for key, points in series(rows, name).items()}
    panels = [draw_panel(losses, "losses over their peaks (last value below)", True)]
    if measures:
        panels.append(draw_panel(measures, "retrieval over held-out classes", False))
    _write(np.vstack(panels), picture)


def plot_shares(rows: list[dict[str, Any]], picture: Path) -> None:
    """Retrieval for each share, from rows with share, map and r_at_1; both axes from 0 to 1."""
    curves = series(rows, "map", "share") | series(rows, "r_at_1", "share")
    _write(draw_panel(curves, "retrieval of what chose the share", False, "share"), picture)


def _write(rgb: NDArray[np.uint8], picture: Path) -> None:
    # OpenCV's own writing leaves half a picture on a full disk, and tells nobody.
    _, data = cv2.imencode(".png", rgb[..., ::-1])
    write_whole(picture, data.tobytes(), durable=False)
