"""A user's folders, videos or library query enter; labelled pictures, some held back, leave as a CSV.

    OUT/pictures.csv    file, source, class, identity, held: what a recipe's labelled-csv source reads
    OUT/crops/          the pictures that came from videos

Identities are held back whole; those of a held-back video are held back too, and no picture of theirs from
another video is used at all, so that nothing that judges was seen, neither thing nor clip.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from panorama.errors import UsageError
from panorama.models.training.sources import PICTURES
from panorama.pseudo import MOST_TRACKS, NOISE, Tracks, alike, pseudo_identities

if TYPE_CHECKING:
    from panorama.library import Library

TABLE = "pictures.csv"
CROPS = "crops"
SOURCE = "own"
HELD_SHARE = 0.25
LEAST_IDENTITIES = 4
"""Two to learn from and two to judge by."""

_CROPS_OF = """
SELECT c.crop_id, c.track_id, c.video, t.start_time, t.end_time
FROM crops c JOIN tracks t USING (track_id, video) ORDER BY c.crop_id
"""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Pictures with what they show.

    Attributes:
        files: a picture each.
        identities: the name of what it shows.
        clips: the video it comes from, '' for a picture of its own.
    """

    files: list[str]
    identities: list[str]
    clips: list[str]

    def __post_init__(self) -> None:
        if not len(self.files) == len(self.identities) == len(self.clips):
            raise ValueError(
                f"{len(self.files)} files, {len(self.identities)} identities, {len(self.clips)} clips"
            )


@dataclass(frozen=True, slots=True)
class OwnPictures:
    """What was found and how it was divided, for the report."""

    table: Path
    pictures: int
    identities: int
    held_identities: int
    held_pictures: int
    unused_pictures: int


def from_folders(folders: Sequence[Path]) -> Labelled:
    """Pictures below FOLDER/identity/; the folder inside is the identity.

    Raises:
        UsageError: a folder is missing, or has no folders of pictures in it.
    """
    files: list[str] = []
    names: list[str] = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"no folder {folder}; --folders takes one with a folder for each identity")
        found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in PICTURES)
        inside = [p for p in found if len(p.relative_to(folder).parts) > 1]
        if not inside:
            raise UsageError(
                f"{folder} has no folders with pictures in them; expected {folder}/IDENTITY/*.jpg "
                f"({', '.join(PICTURES)})"
            )
        files += [str(p.resolve()) for p in inside]
        names += [f"{folder.name}/{p.relative_to(folder).parts[0]}" for p in inside]
    return Labelled(files, names, [""] * len(files))


def from_library(library: Library, out: Path, sql: str | None = None) -> Labelled:
    """Crops of a library as pictures; what shows one thing is clustered, see `panorama.pseudo`.

    Args:
        sql: a query for crop_id, and entity where the identities are known; None takes every crop.

    Raises:
        UsageError: the query names no crops.
    """
    rows = library.query(_CROPS_OF).arrow()
    crop_ids, once = np.unique(rows["crop_id"].to_numpy(), return_index=True)
    rows = rows.take(once)
    names = None
    if sql is not None:
        wanted, names = _asked(library, sql)
        at = np.searchsorted(crop_ids, wanted).clip(0, max(0, len(crop_ids) - 1))
        there = crop_ids[at] == wanted if len(crop_ids) else np.zeros(len(wanted), bool)
        if not there.all():
            raise UsageError(f"{int(wanted[~there][0])} is no crop_id; SELECT crop_id FROM crops lists them")
        rows, crop_ids = rows.take(at), wanted
    if not len(crop_ids):
        raise UsageError("there are no crops to learn from; index videos first, or widen the query")
    clips = rows["video"].to_pylist()
    if names is None:
        names = _clustered(library, crop_ids, rows)
    kept = [i for i, name in enumerate(names) if name]
    (out / CROPS).mkdir(parents=True, exist_ok=True)
    files = []
    for i in kept:
        path = (out / CROPS / f"{int(crop_ids[i])}.png").resolve()
        cv2.imwrite(str(path), cv2.cvtColor(library.crop(int(crop_ids[i])), cv2.COLOR_RGB2BGR))
        files.append(str(path))
    return Labelled(files, [names[i] for i in kept], [clips[i] for i in kept])


def _asked(library: Library, sql: str) -> tuple[NDArray[np.int64], list[str] | None]:
    """The crop ids of a query, and the identities where it has a column entity."""
    table = library.query(sql).arrow()
    if "crop_id" not in table.column_names:
        raise UsageError(
            f"--query must return crop_id, and may return entity; it returns {', '.join(table.column_names)}"
        )
    crop_ids = table["crop_id"].to_numpy().astype(np.int64)
    wanted, once = np.unique(crop_ids, return_index=True)
    if "entity" not in table.column_names:
        return wanted, None
    entities = table["entity"].take(once).to_pylist()
    return wanted, ["" if name is None else str(name) for name in entities]


def _clustered(library: Library, crop_ids: NDArray[np.int64], rows: object) -> list[str]:
    """The pseudo-identity of each crop by its track, '' for noise."""
    columns = {name: rows[name].to_numpy() for name in ("track_id", "start_time", "end_time", "video")}  # type: ignore[index]
    track_ids, first, owner = np.unique(columns["track_id"], return_index=True, return_inverse=True)
    exit = library.embedder.exits
    vectors = library.vectors_of(crop_ids, exit)  # (N, dim)
    means = np.zeros((len(track_ids), vectors.shape[1]), np.float32)
    np.add.at(means, owner, vectors)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-6)
    # The longest tracks, where there are too many: they have most to show.
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
    cohort = library.embedder.cohort()[exit - 1]
    found = pseudo_identities(tracks, alike(tracks.vectors, cohort, library.calibrations[exit - 1]))
    of_track = np.full(len(track_ids), NOISE, np.int64)
    of_track[pick] = found
    return [f"thing-{number:04d}" if number != NOISE else "" for number in of_track[owner].tolist()]


def held_back(labelled: Labelled, seed: int) -> list[bool | None]:
    """Whether each picture judges (True), teaches (False), or must do neither (None).

    A quarter of the clips judge, where there are two or more, and every identity seen in them; else a quarter
    of the identities.

    Raises:
        UsageError: fewer than two identities are left to teach, or to judge by.
    """
    rng = np.random.default_rng(seed)
    names = np.array(labelled.identities, object)
    clips = np.array(labelled.clips, object)
    known = sorted({clip for clip in labelled.clips if clip})
    tries = [known[i] for i in rng.permutation(len(known))]
    everyone = sorted(set(labelled.identities))
    if len(everyone) < LEAST_IDENTITIES:
        raise UsageError(
            f"{len(everyone)} identities are too few: at least {LEAST_IDENTITIES}, two to learn from and two "
            "to judge by; add footage, folders, or widen the query"
        )
    for count in range(max(1, round(HELD_SHARE * len(tries))), len(tries)):
        judging = np.isin(clips, tries[:count])
        held = np.isin(names, list(set(names[judging])))
        if _enough(names[~held]) and _enough(names[judging]):
            return [True if j else (None if h else False) for j, h in zip(judging, held, strict=True)]
    share = max(2, round(HELD_SHARE * len(everyone)))
    chosen = {everyone[i] for i in rng.permutation(len(everyone))[:share]}
    return [name in chosen for name in labelled.identities]


def _enough(names: NDArray[np.object_]) -> bool:
    """Two identities with two pictures each."""
    _, counts = np.unique(names.astype(str), return_counts=True)
    return int((counts >= 2).sum()) >= 2


def write_table(labelled: Labelled, out: Path, seed: int) -> OwnPictures:
    """Divide the pictures and write the table that training reads."""
    out.mkdir(parents=True, exist_ok=True)
    held = held_back(labelled, seed)
    rows = [
        (file, SOURCE, name, "class", int(judges))
        for file, name, judges in zip(labelled.files, labelled.identities, held, strict=True)
        if judges is not None
    ]
    with (out / TABLE).open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(["file", "source", "class", "identity", "held"])
        writer.writerows(rows)
    return OwnPictures(
        out / TABLE,
        len(rows),
        len({row[2] for row in rows}),
        len({row[2] for row in rows if row[4]}),
        sum(row[4] for row in rows),
        len(held) - len(rows),
    )
