"""The questions of queries/ on the sample archive: run them, and compare an answer with the golden one.

    python tests/questions.py FOLDER

writes the golden .csv files anew, after a change that is meant to change them.
"""

from __future__ import annotations

import contextlib
import csv
import io
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest

import panorama
from panorama.cli.demo import SAMPLE_RECORDED, renderer
from panorama.content import content_dir
from panorama.models.precision import ENVIRONMENT
from panorama.query.result.result import Result

TOLERANCES = {
    "score": 0.1,
    "x1": 12, "y1": 12, "x2": 12, "y2": 12,
    "start_time": 0.5, "end_time": 0.5, "time": 0.1, "seconds": 1.0,
    "left_at": 0.5, "back_at": 0.5, "seen_from": 0.5, "seconds_later": 0.7, "unseen_seconds": 0.7,
    "van_left": 0.5, "first_seen": 0.5, "last_seen": 0.5,
    "tracks": 12, "per_minute": 150, "tracks_per_minute": 40,
    "frame": 8,
}  # fmt: skip
"""How far a number may be from the golden one: other processors round otherwise."""

IGNORED = {"track_id"}
"""Numbers that only name something."""


def drawn_sample(kept: Path) -> Any:
    """The whole sample archive, below a folder that may hold it from an earlier run; not to be written to.

    It is drawn anew whenever the code that draws it has changed, or what that draws with.
    """
    render = renderer()
    place = kept / "-".join([render.code_version()[:16], cv2.__version__, np.__version__, av.__version__])
    if not place.is_dir():
        for old in kept.glob("[!.]*"):
            shutil.rmtree(old, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=kept, prefix=".drawing-") as beside:
            render.render(Path(beside) / "sample")
            with contextlib.suppress(OSError):  # another run was quicker
                (Path(beside) / "sample").rename(place)
    return render.render(place)


def sample_library(folder: Path, sample: Any) -> panorama.Library:
    """The sample archive as the demo has it: indexed, album, look-alikes and zones registered."""
    library = panorama.open(folder / "library", create=True)
    # Tracks of the drawn archive lie at the very border of a band. Arithmetic of 8 bits takes some across it,
    # and so does bfloat16, which processors sum in other orders: on one of them ten answers were others.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, "float32")
        library.index(sample.archive, recording=SAMPLE_RECORDED)
        for entity in library.register_album(sample.album):
            library.register(entity.name, unlike=[sample.lookalikes / entity.name])
    library.zones.load(content_dir("data") / "scenery" / "zones.json")
    return library


def questions() -> list[Path]:
    """The query files, in order."""
    return sorted(content_dir("queries").glob("*.sql"))


def rows_of(text: str) -> list[dict[str, str]]:
    """The rows of a CSV text."""
    return list(csv.DictReader(io.StringIO(text)))


def differences(golden: str, answer: Result) -> list[str]:
    """What is different, row by row in order; numbers within their tolerance are equal."""
    text = answer.to_csv()
    columns, theirs = (next(csv.reader(io.StringIO(side))) for side in (golden, text))
    if columns != theirs:  # also of an answer without rows
        return [f"columns {columns} expected, got {theirs}"]
    wanted, got = rows_of(golden), rows_of(text)
    if len(wanted) != len(got):
        return [f"{len(wanted)} rows expected, got {len(got)}"]
    found = []
    for number, (want, have) in enumerate(zip(wanted, got, strict=True)):
        for column in want.keys() - IGNORED:
            if not _equal(column, want[column], have[column]):
                found.append(f"row {number}, {column}: {want[column]} expected, got {have[column]}")
    return found


def _equal(column: str, want: str, have: str) -> bool:
    tolerance = TOLERANCES.get(column)
    if tolerance is None or not want or not have:
        return want == have
    return abs(float(want) - float(have)) <= tolerance


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with sample_library(folder, renderer().render(folder / "sample")) as library:
        for path in questions():
            path.with_suffix(".csv").write_text(library.query(path.read_text()).to_csv(), newline="")


if __name__ == "__main__":
    main()
