"""The example pictures of an entity come in; a sheet goes out that shows each as it was registered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from panorama.crops import decode_picture
from panorama.errors import BadImage
from panorama.lettering import lettering_remarks
from panorama.picture_files import check_picture, write_picture
from panorama.shown.grid import Line, Tile, check_fits, fitted, grid
from panorama.shown.hits import Drawn
from panorama.store import Exemplar


def write_album_sheet(exemplars: Sequence[Exemplar], out: Path) -> Drawn:
    """Write a picture of the examples, in their order, each with its number and kind, four in a row.

    Raises:
        UsageError: the suffix is not that of a picture format, or of one that cannot hold so many examples,
            or the file is a library's own.
        LibraryWriteError: the file cannot be written.
    """
    check_picture(out)
    check_fits(out, [_lines(exemplar) for exemplar in exemplars], "examples")
    tiles, report = [], Drawn()
    for exemplar in exemplars:
        try:
            rgb = decode_picture(exemplar.picture.read_bytes(), exemplar.source)
        except (OSError, BadImage) as exc:
            report.failed.append(f"exemplar {exemplar.exemplar_id}: its stored picture cannot be read: {exc}")
            continue
        tiles.append(Tile(fitted(rgb), _lines(exemplar)))
    report.drawn = len(tiles)
    report.warnings = lettering_remarks(exemplar.source for exemplar in exemplars)
    write_picture(grid(tiles, "no examples"), out)
    return report


def _lines(exemplar: Exemplar) -> tuple[Line, ...]:
    size = f"{exemplar.width}x{exemplar.height}"
    return Line(f"{exemplar.exemplar_id}  {exemplar.kind}", size), Line(exemplar.source, end_share=0.7)
