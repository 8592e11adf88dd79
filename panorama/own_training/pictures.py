"""A user's folders, videos or library query come in; pictures with what they show go out.

OUT/crops/videos/   the pictures from videos
OUT/crops/query/    the pictures from a query
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.album.left_out import is_picture_file, left_out
from panorama.errors import BadImage, UsageError
from panorama.folders import files_below
from panorama.lines import counted
from panorama.models.training.copies import digest
from panorama.own_training.identities import MOST_TRACKS, NOISE, Tracks, alike, pseudo_identities
from panorama.own_training.split import Picture
from panorama.picture_files import write_picture
from panorama.pictures.pixels import PICTURE_SUFFIXES
from panorama.store.ascending import rows_in

if TYPE_CHECKING:
    from panorama.library import Library

CROPS = "crops"

_CROPS_OF = """
SELECT c.crop_id, c.track_id, c.video, t.start_time, t.end_time
FROM crops c JOIN tracks t USING (track_id, video) ORDER BY c.crop_id
"""


def from_folders(folders: Sequence[Path]) -> list[Picture]:
    """Pictures below FOLDER/identity/; the inner folder, which may be a link, is the identity.

    A file counts once, even if folders overlap: otherwise it would find itself, and be learned from while it
    judges. Equal names in two folders are two things, even if the folders have the same name.

    Raises:
        UsageError: a folder is missing, or contains no folders of pictures, or a picture's path is not UTF-8.
    """
    pictures: dict[str, Picture] = {}
    names = told_apart(folders)
    for folder, name in names.items():
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}; --folders takes one with a folder for each identity")
        found = {p: real for p, real in files_below(folder).items() if is_picture_file(p)}
        inside = {p: str(real) for p, real in found.items() if p.parent != folder}
        if not inside:
            others = "".join(f"; {line}" for line in passed_over([folder]))
            raise UsageError(
                f"{folder} has no folders with pictures in them; expected {folder}/IDENTITY/*.jpg "
                f"({', '.join(sorted(PICTURE_SUFFIXES))}){others}"
            )
        for p, file in inside.items():
            _check_text(file)
            _check_text(str(p))  # a link may have another name
            pictures.setdefault(file, Picture(file, f"{name}/{p.relative_to(folder).parts[0]}"))
    return list(pictures.values())


def _check_text(path: str) -> None:
    """Refuse a path that cannot be written into the table of pictures.

    Raises:
        UsageError: it is not valid UTF-8.
    """
    try:
        path.encode()
    except UnicodeEncodeError as exc:
        raise UsageError(f"{path} is not UTF-8 text, which the table of pictures is in; rename it") from exc


def passed_over(folders: Sequence[Path]) -> list[str]:
    """A line for each folder that holds more than the pictures taken from it."""
    lines = []
    for folder in folders:
        inside = [p for p in files_below(folder) if p.is_file()]
        loose = [p for p in inside if p.parent == folder and is_picture_file(p)]
        lines += left_out(folder, inside)
        if loose:
            count = counted(len(loose), "picture")
            lines.append(f"left out of {folder}: {count} in none of its folders, as {loose[0].name}")
        lines += _taken_together(folder, [p for p in inside if is_picture_file(p)])
    return lines


def _taken_together(folder: Path, pictures: Sequence[Path]) -> list[str]:
    """A line if pictures of several folders count as one thing, because a deeper tree was given."""
    below: dict[str, set[str]] = {}
    for parts in (p.relative_to(folder).parts for p in pictures):
        if len(parts) > 2:
            below.setdefault(parts[0], set()).add(parts[1])
    together = {name: sorted(inner) for name, inner in sorted(below.items()) if len(inner) > 1}
    if not together:
        return []
    name, inner = next(iter(together.items()))
    more = f", as in {len(together) - 1} more" if len(together) > 1 else ""
    return [
        f"all pictures in {folder / name} count as one thing, {name!r}, though they lie in folders of "
        f"their own ({', '.join(inner[:2])}{', ...' if len(inner) > 2 else ''}){more}; "
        f"if each of those is a thing: --folders {folder / name}"
    ]


def told_apart(folders: Sequence[Path]) -> dict[Path, str]:
    """A name for each folder: the shortest end of its path that no other folder's path ends in."""
    paths = {folder: folder.resolve() for folder in folders}
    names = {}
    for folder, path in paths.items():
        others = {other for other in paths.values() if other != path}
        length = 1
        while any(other.parts[-length:] == path.parts[-length:] for other in others):
            length += 1
        names[folder] = "/".join(path.parts[-length:])
    return names


def from_library(
    library: Library, out: Path, sql: str | None = None, say: Callable[[str], None] = print
) -> list[Picture]:
    """Crops of a library as pictures. If their identities are not given they are clustered, see `identities`.

    Args:
        sql: a query for crop_id, and entity if the identities are known; None takes every crop.
        say: called with what is left out of the query.

    Raises:
        QueryError: the query cannot be answered, or would change entities.
        UsageError: the query names no crops, or one crop as two things.
        LibraryWriteError: a picture cannot be written.
    """
    rows = library.query(_CROPS_OF).arrow()
    crop_ids, once = np.unique(rows["crop_id"].to_numpy(), return_index=True)
    rows = rows.take(once)
    names = None
    if sql is not None:
        wanted, names = _asked(library, sql, say)
        at = rows_in(crop_ids, wanted)
        there = at >= 0
        if not there.all():
            raise UsageError(
                f"{int(wanted[~there][0])} is not a crop_id; SELECT crop_id FROM crops lists them"
            )
        rows, crop_ids = rows.take(at), wanted
    if not len(crop_ids):
        raise UsageError("there are no crops to learn from; index videos first, or widen the query")
    guessed = names is None
    found: Sequence[str | None] = _clustered(library, crop_ids, rows) if names is None else names
    folder = out / CROPS / ("videos" if sql is None else "query")  # two libraries may use the same crop ids
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for crop_id, name, row in zip(crop_ids.tolist(), found, rows.to_pylist(), strict=True):
        if name is None:
            continue
        # Not the number alone: numbered pictures are a video, which a later `index` would take.
        path = (folder / f"{crop_id}-crop.png").resolve()
        write_picture(library.crop(crop_id), path)
        track = f"{row['video']}#{row['track_id']}"
        pictures.append(
            Picture(str(path), name, guessed, row["video"], track, row["start_time"], row["end_time"])
        )
    return pictures


def without_copies(parts: Sequence[Sequence[Picture]]) -> tuple[list[Picture], int, int]:
    """The pictures of several sources without copies.

    A copy in another folder, or under another name, counts as another thing: it would be learned from while
    it judges, and be wrong when it is found. A copy of the same thing would find itself. Crops of one library
    differ by their tracks and stay. Things of two sources are never the same, whatever their names.

    Returns:
        The pictures, the number of copies of other things left out, and of copies of the same thing.
    """
    shown: dict[bytes, tuple[int, str]] = {}
    pictures, same = [], 0
    for number, part in enumerate(parts):
        for picture in part:
            thing = (number, "" if picture.track else picture.identity)
            content = _digest(Path(picture.file))
            if content not in shown or (picture.track and shown[content] == thing):
                pictures.append(_of_source(number, picture))
            else:
                same += shown[content] == thing
            shown.setdefault(content, thing)
    return pictures, sum(map(len, parts)) - len(pictures) - same, same


def _digest(path: Path) -> bytes:
    try:
        return digest(path)
    except OSError as exc:
        raise BadImage(f"{path} cannot be read: {exc.strerror}; remove it from the training data") from exc


def _of_source(number: int, picture: Picture) -> Picture:
    def named(name: str) -> str:
        return f"{number}/{name}" if name else ""

    return replace(
        picture, identity=named(picture.identity), clip=named(picture.clip), track=named(picture.track)
    )


def _asked(
    library: Library, sql: str, say: Callable[[str], None]
) -> tuple[NDArray[np.int64], list[str | None] | None]:
    """The crop ids of a query, each once, and the identities if it has a column entity.

    Raises:
        QueryError: it cannot be answered, or would change entities.
        UsageError: crop_id is not a column of integers, or one crop comes with two identities.
    """
    table = library.query(sql, read_only=True).arrow()
    if "crop_id" not in table.column_names:
        raise UsageError(
            f"--query must return crop_id, and may return entity; it returns {', '.join(table.column_names)}"
        )
    ids = table["crop_id"]
    try:
        if not (pa.types.is_integer(ids.type) or pa.types.is_null(ids.type)):
            raise pa.ArrowInvalid(f"it is of type {ids.type}")
        ids = ids.cast(pa.int64())
    except pa.ArrowInvalid as exc:
        raise UsageError(
            f"--query: crop_id must be a column of whole numbers, as SELECT crop_id FROM crops gives: {exc}"
        ) from exc
    if ids.null_count:
        say(f"left out: {counted(ids.null_count, 'row')} of --query whose crop_id is NULL")
        table, ids = table.filter(ids.is_valid()), ids.drop_null()
    wanted = np.unique(ids.to_numpy())
    if "entity" not in table.column_names:
        return wanted, None
    names = _one_each(ids.to_pylist(), table["entity"].to_pylist())
    if lacking := len(wanted) - len(names):
        say(f"left out: {counted(lacking, 'crop')} of --query whose entity is NULL or empty")
    return wanted, [names.get(crop_id) for crop_id in wanted.tolist()]


def _one_each(crop_ids: Sequence[int], entities: Sequence[Any]) -> dict[int, str]:
    """The identity of each crop that has one.

    Raises:
        UsageError: a crop has two; the order of the rows would decide which one it shows.
    """
    names: dict[int, str] = {}
    for crop_id, entity in zip(crop_ids, entities, strict=True):
        if entity is None or not str(entity):  # without a name, a crop shows no thing that could be learned
            continue
        if names.setdefault(crop_id, str(entity)) != str(entity):
            raise UsageError(
                f"--query: crop {crop_id} comes as {names[crop_id]!r} and as {str(entity)!r}, but a picture "
                "shows one thing; return each crop once, of several sightings the best: SELECT crop_id, "
                "max_by(entity, score) AS entity ... GROUP BY crop_id"
            )
    return names


def _clustered(library: Library, crop_ids: NDArray[np.int64], rows: object) -> list[str | None]:
    """The pseudo-identity of each crop by its track, '' for noise, None for tracks beyond the limit."""
    columns = {name: rows[name].to_numpy() for name in ("track_id", "start_time", "end_time", "video")}  # type: ignore[index]
    track_ids, first, owner = np.unique(columns["track_id"], return_index=True, return_inverse=True)
    exit = library.embedder.exits
    vectors = library.vectors_of(crop_ids, exit)  # (N, dim)
    means = np.zeros((len(track_ids), vectors.shape[1]), np.float32)
    np.add.at(means, owner, vectors)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-6)
    # If there are too many tracks, take the longest: they show most.
    seconds = columns["end_time"][first] - columns["start_time"][first]
    pick = np.sort(np.argsort(-seconds, kind="stable")[:MOST_TRACKS])
    _, videos = np.unique(columns["video"][first].astype(str), return_inverse=True)
    tracks = Tracks(
        track_ids[pick],
        videos[pick].astype(np.int64),
        columns["start_time"][first][pick],
        columns["end_time"][first][pick],
        means[pick],
    )
    cohort = library.embedder.cohorts()[exit - 1]
    found = pseudo_identities(tracks, alike(tracks.vectors, cohort, library.calibrations[exit - 1]))
    name_of: list[str | None] = [None] * len(track_ids)
    for place, number in zip(pick.tolist(), found.tolist(), strict=True):
        name_of[place] = f"thing-{number:04d}" if number != NOISE else ""
    return [name_of[track] for track in owner.tolist()]
