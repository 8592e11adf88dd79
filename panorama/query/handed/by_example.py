"""Pictures that a statement names come in; tables of similarities and the results of `verify` go out."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.errors import BadImage, QueryError
from panorama.folders import spelled
from panorama.lines import counted
from panorama.query.explain import PictureStep, similarity_lines
from panorama.query.handed.lending import lend
from panorama.query.handed.relations import SCHEMA
from panorama.query.matching.matches import ACCEPTED, BAND_NAMES, UNCERTAIN, Image, Matcher, MatchRequest
from panorama.query.matching.needs import count_tracks
from panorama.query.run import Run
from panorama.query.sql.rewritten import Named, SimilarityCall, Verify
from panorama.query.stopping import check_stopped
from panorama.query.text.parameters import GivenPicture
from panorama.query.text.quoting import quote_text

ELSEWHERE = "query from a folder above it, or with Library.query(..., picture_root=FOLDER)"
"""The next step for a picture that lies outside the picture root."""

_SIMILARITIES = """
CREATE TEMP VIEW {table} AS
SELECT c.crop_id AS _crop, c.track_id AS _track, s.similarity AS _similarity
FROM {table}_crops s JOIN _panorama.crops c ON c.crop_id = s.crop_id
"""


class ByExample:
    """Answers `similarity` and `verify`.

    Args:
        matcher: compares pictures.
        root: folder that contains all pictures named in SQL; None refuses every such picture.
        read: reads one picture, from a file or from memory, as RGB.
    """

    def __init__(self, matcher: Matcher, root: Path | None, read: Callable[[Path | Image], Image]) -> None:
        self._matcher = matcher
        self._root = root
        self._read = read

    def similarity(self, call: SimilarityCall, request: MatchRequest, run: Run) -> None:
        """Give DuckDB the similarity of crops to one picture, as the table that the rewritten text reads."""
        crop_ids: NDArray[np.int64] = np.zeros(0, np.int64)
        values: NDArray[np.float64] = np.zeros(0, np.float64)
        if isinstance(call.picture, int):
            _check_crop(call, run)
        named = call.picture
        image = named if isinstance(named, int) else self.picture(named, run, call.start)
        check_stopped()
        started = time.perf_counter()
        if not run.dry:
            crop_ids, values = self._matcher.similarity(image, request)
        # With a minimum similarity or a number of tracks, crops that are not similar enough are missing.
        cut = request.min_score is not None or request.first is not None
        told = f"{counted(len(crop_ids), 'crop')} {'found' if cut else 'compared'}"
        run.pictures.append(PictureStep(f"similarity({call.picture!r})", told, time.perf_counter() - started))
        rows = pa.table({"crop_id": pa.array(crop_ids), "similarity": pa.array(values)})
        lend(run.cursor, f"{call.table}_crops", rows)
        run.cursor.execute(_SIMILARITIES.format(table=call.table))
        if run.explained:
            _tell_similarity(call, request, run)

    def picture(self, named: Named, run: Run, position: int) -> Image:
        """The picture that a statement names, or that was passed as a parameter.

        Raises:
            QueryError: it lies outside the picture root, or there is no picture root.
            BadImage: it is missing or cannot be read.
        """
        if isinstance(named, GivenPicture):
            return self._read(named.given)
        if self._root is None:
            raise QueryError("pictures cannot be named here: there is no picture root", run.sql, position)
        root = self._root.resolve()  # not before: the working directory may have been deleted
        place = spelled(root / named).resolve()
        if not place.is_relative_to(root):
            raise QueryError(
                f"picture {named!r} lies outside {root}, where pictures must be; {ELSEWHERE}",
                run.sql,
                position,
            )
        if not _is_file(place):
            known = run.cursor.execute(
                f"SELECT 1 FROM {SCHEMA}.entities WHERE entity = ?", [named]
            ).fetchall()
            meant = f"; {named!r} is an entity: WHERE entity = {quote_text(str(named))}" if known else ""
            raise BadImage(f"there is no picture {named!r} in {root}{meant}")
        try:
            return self._read(place)
        except BadImage as exc:
            # Show the picture's name as the statement has it, not the whole path.
            raise BadImage(str(exc).replace(str(place), str(named))) from exc

    def verifier(self, run: Run) -> Verify:
        """The function behind `verify(a, b)` and its variants; it compares each pair of pictures once."""
        compared: dict[tuple[Named, Named], tuple[float, int, int]] = {}

        def verify(name: str, first: Named, second: Named, position: int) -> bool | float | int | str | None:
            call = f"{name}({first!r}, {second!r})"
            if run.dry:
                run.pictures.append(PictureStep(call, "", 0.0))
                return None
            if (first, second) not in compared:
                started = time.perf_counter()
                images = [self.picture(path, run, position) for path in (first, second)]
                score, band, exit = self._matcher.verify(images[0], images[1])
                told = f"{BAND_NAMES[band]} at exit {exit}, score {score:.3f}"
                run.pictures.append(PictureStep(call, told, time.perf_counter() - started))
                compared[first, second] = float(score), band, exit
            score, band, exit = compared[first, second]
            said: dict[str, float | int | str] = {
                "verify_score": score,
                "verify_band": BAND_NAMES[band],
                "verify_exit": exit,
            }
            if name in said:
                return said[name]
            if band == UNCERTAIN:
                run.warnings.append(f"{call} is undecided at score {score:.3f}: NULL")
                return None
            return band == ACCEPTED

        return verify


def _is_file(path: Path) -> bool:
    """Whether it is a regular file; True if permission is denied, so that reading it reports that."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):  # not a possible file name
        return False


def _check_crop(call: SimilarityCall, run: Run) -> None:
    known = run.cursor.execute(f"SELECT 1 FROM {SCHEMA}.crops WHERE crop_id = ?", [call.picture]).fetchall()
    if not known:
        raise QueryError(f"no crop {call.picture}; SELECT crop_id FROM crops lists them", run.sql, call.start)


def _tell_similarity(call: SimilarityCall, request: MatchRequest, run: Run) -> None:
    """Record which crops a similarity was computed for, in the step recorded last."""
    told = dict.fromkeys(text for need in call.needs if need is not None for text in need.told)
    within, everything = (count_tracks(run.cursor, asked) for asked in (request, MatchRequest()))
    lines = similarity_lines(request, list(told), within, everything)
    run.pictures[-1] = replace(run.pictures[-1], needs=lines)
