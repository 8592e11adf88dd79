"""Indexed archives and pictures come in; what is asked for, with its truth, goes out, as vectors only.

There are four judges of a decision rule. Each thing is asked for in an archive that shows it and, to check
whether the rule stays silent, in archives that do not:

- `eval`: the judged clips and their album, only reported and never used to choose anything;
- `sample`: the drawn archive; its album with and without look-alikes, its pictures one at a time, and boxes
  cut out of its clips;
- `clips`: footage that may be trained on. Boxes cut out of it and moved by up to a tenth serve as examples,
  their track and its pseudo-identity as the truth. Crops within a second of the example are left out. Tracks
  of other videos, and those that exist at the same time in boxes that never meet its own, are strangers; the
  rest does not count;
- `pictures`: classes that training did not see, with two degraded views of each picture: the first is the
  example for the second, among those of all other classes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import cv2
import numpy as np
from degraded import degraded_pairs
from numpy.typing import NDArray

from panorama.album.examples import VIEWS, lit, part
from panorama.crops import cut, decode_picture, encode_jpeg
from panorama.judging.evaluate import Frames, Truth, read_truth
from panorama.library import Library
from panorama.models.base import Embedder, Image
from panorama.own_training.identities import NOISE, Tracks, alike, pseudo_identities
from panorama.query.matching.meeting import Places
from panorama.query.matching.track_rows import TrackGroups
from panorama.regions import shared
from panorama.video import open_video

APART_SECONDS = 1.0
CLIP_EXAMPLES = 8
"""Of each video: the tracks that last longest, of those that a person would register."""

BOX_EXAMPLES = 2
"""Of each drawn entity and clip, moments at which its box is cut out."""

LOOKS = 9
"""At so many moments of the time that two tracks share, their boxes are compared."""

JITTER = 0.1
"""Share of a box's sides by which a person's box differs from another one."""

Mask = NDArray[np.bool_]

_TRACKS = """
SELECT track_id, video, start_frame, end_frame, start_time, end_time FROM tracks ORDER BY track_id
"""
_CROPS = """
SELECT c.crop_id, c.track_id, c.video, c.frame, c.time, c.x1, c.y1, c.x2, c.y2, c.quality, v.width, v.height
FROM crops c JOIN videos v USING (video) ORDER BY c.crop_id
"""


def some_places(places: Places, rows: NDArray[np.intp]) -> Places:
    """Those of some tracks."""
    return Places(*(getattr(places, column.name)[rows] for column in fields(Places)))


@dataclass(frozen=True, slots=True)
class Archive:
    """The crops of some videos, or pictures, with what the decision rule looks at.

    Attributes:
        vectors: (exits, N, dim).
        seconds: (N,) time of each crop in its video.
        groups: which crops belong to which of T tracks.
        spans: (T, 2) first and past-the-last unit of each track; units are frames or tracks.
        units: how many there are.
        places: of all T tracks; shots, scenes, sites: (T,) a number for each, the same for those of one.
    """

    name: str
    vectors: NDArray[np.float32]
    seconds: NDArray[np.float64]
    groups: TrackGroups
    spans: NDArray[np.int64]
    units: int
    places: Places
    shots: NDArray[np.int64]
    scenes: NDArray[np.int64]
    sites: NDArray[np.int64]

    @property
    def where(self) -> Where:
        """Tells when and where some tracks were seen, as a library does."""
        return Where(self)

    @property
    def segments(self) -> NDArray[np.int64]:
        """(T,) the video of each track."""
        return self.groups.track_ids >> 32


@dataclass(frozen=True, slots=True)
class Where:
    """When and where the tracks of an archive were seen."""

    archive: Archive

    def _rows(self, track_ids: NDArray[np.int64]) -> NDArray[np.intp]:
        return np.searchsorted(self.archive.groups.track_ids, track_ids)

    def places(self, track_ids: NDArray[np.int64]) -> Places:
        return some_places(self.archive.places, self._rows(track_ids))

    def shots(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.archive.shots[self._rows(track_ids)]

    def scenes(self, track_ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return self.archive.scenes[self._rows(track_ids)]

    def sites(self, scenes: NDArray[np.int64]) -> NDArray[np.int64]:
        known, first = np.unique(self.archive.scenes, return_index=True)
        return self.archive.sites[first[np.searchsorted(known, scenes)]]

    def neighbours(self, segments: NDArray[np.int32]) -> NDArray[np.int32]:
        return segments[:0]  # everything is asked at once: nothing grows


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing asked for in one archive.

    Attributes:
        judge: which table row it counts for, such as 'eval' or 'sample album'.
        views: (P, V, exits, dim) of its P examples: each as it is, then in V - 1 other ways (`WAYS`).
        negatives: (Q, V, exits, dim) of its look-alikes.
        shown: (U,) units of the archive in which it is to be seen; counted: (U,) those that count.
        tracks: (T,) the tracks that it is asked for among; crops: (N,) likewise.
    """

    judge: str
    name: str
    archive: Archive
    views: NDArray[np.float32]
    negatives: NDArray[np.float32]
    shown: Mask
    counted: Mask
    tracks: Mask
    crops: Mask

    @property
    def absent(self) -> bool:
        return not bool(self.shown.any())


def _turned(degrees: float) -> Callable[[Image], Image]:
    def turn(rgb: Image) -> Image:
        height, width = rgb.shape[:2]
        matrix = cv2.getRotationMatrix2D((width / 2, height / 2), degrees, 1)
        turned = cv2.warpAffine(rgb, matrix, (width, height), borderMode=cv2.BORDER_REFLECT_101)
        return np.asarray(turned, np.uint8)

    return turn


def _seen_small(side: int) -> Callable[[Image], Image]:
    def seen(rgb: Image) -> Image:
        height, width = rgb.shape[:2]
        share = min(1.0, side / max(height, width))
        size = max(4, int(width * share)), max(4, int(height * share))
        small = cv2.resize(rgb, size, interpolation=cv2.INTER_AREA)
        return np.asarray(cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC), np.uint8)

    return seen


def _tinted(red: float, blue: float) -> Callable[[Image], Image]:
    return lambda rgb: np.clip(rgb * np.array([red, 1, blue]), 0, 255).astype(np.uint8)


def _contrasted(share: float) -> Callable[[Image], Image]:
    return lambda rgb: np.clip((rgb - rgb.mean()) * share + rgb.mean(), 0, 255).astype(np.uint8)


WAYS: Mapping[str, Callable[[Image], Image]] = {
    **VIEWS,
    "little brighter": lit(1.15), "little darker": lit(0.85),
    "much brighter": lit(1.5), "much darker": lit(0.5),
    "turned left": _turned(8), "turned right": _turned(-8),
    "warmer": _tinted(1.15, 0.87), "cooler": _tinted(0.87, 1.15),
    "flat": _contrasted(0.7), "harsh": _contrasted(1.3),
    "small": _seen_small(48),
    "top": part(0, 0, 1, 0.65), "bottom": part(0, 0.35, 1, 1),
    "left": part(0, 0, 0.65, 1), "right": part(0.35, 0, 1, 1),
}  # fmt: skip
"""Ways of seeing an example, the product's own first."""


def embed_views(pictures: Sequence[Image], embedder: Embedder) -> NDArray[np.float32]:
    """(P, V, exits, dim) of examples, each from the JPEG that would be stored."""
    stored = [decode_picture(encode_jpeg(rgb)) for rgb in pictures]
    every = [way(rgb) for rgb in stored for way in WAYS.values()]
    vectors = embedder.embed_all(every)  # (exits, P * V, dim)
    return vectors.transpose(1, 0, 2).reshape(len(pictures), len(WAYS), *vectors.shape[::2])


def archive_of(library: Library, name: str) -> tuple[Archive, Frames]:
    """What a library holds; its units are frames."""
    frames = Frames(library)
    crops = library.query(_CROPS).arrow()
    rows = library.query(_TRACKS).arrow().to_pylist()
    crop_ids = crops["crop_id"].to_numpy()
    groups = TrackGroups.of(crops["track_id"].to_numpy())
    spans_of = {
        row["track_id"]: [frames.start[row["video"]] + row["start_frame"],
                          frames.start[row["video"]] + row["end_frame"]]
        for row in rows
    }  # fmt: skip
    exits = range(1, library.embedder.exits + 1)
    source = library.matcher().source
    scenes = source.scenes(groups.track_ids)
    return Archive(
        name,
        np.stack([library.vectors_of(crop_ids, exit) for exit in exits]),
        crops["time"].to_numpy(),
        groups,
        np.array([spans_of[track] for track in groups.track_ids.tolist()], np.int64),
        frames.total,
        source.places(groups.track_ids),
        source.shots(groups.track_ids),
        scenes,
        source.sites(scenes),
    ), frames


def archive_of_pictures(vectors: NDArray[np.float32], name: str) -> Archive:
    """Pictures (exits, N, dim) as an archive: each a video with one track of one crop."""
    count = vectors.shape[1]
    ids = np.arange(1, count + 1, dtype=np.int64) << 32
    units = np.arange(count)
    zeros = np.zeros(count)
    boxes = np.tile(np.array([0, 0, 1, 1], np.float32), (count, 1, 1))
    places = Places(ids, zeros, zeros + 1, zeros[:, None], boxes)
    spans = np.stack([units, units + 1], axis=1)
    return Archive(name, vectors, zeros, TrackGroups.of(ids), spans, count, places, ids, ids, ids)


def absent_from(archive: Archive, things: Sequence[Thing], judge: str) -> list[Thing]:
    """The same things asked for in an archive that shows none of them."""
    nowhere = np.zeros(archive.units, np.bool_)
    tracks, crops = (np.ones(n, np.bool_) for n in (len(archive.spans), len(archive.seconds)))
    return [
        replace(
            one, judge=judge, archive=archive, shown=nowhere, counted=~nowhere, tracks=tracks, crops=crops
        )
        for one in things
    ]


def own_videos_out(things: Sequence[Thing], judge: str) -> list[Thing]:
    """Each thing asked for in its archive without the videos in which it is to be seen or not counted."""
    found = []
    for one in things:
        concerned = np.append(0, np.cumsum(one.shown | ~one.counted))
        touched = concerned[one.archive.spans[:, 1]] > concerned[one.archive.spans[:, 0]]
        tracks = ~np.isin(one.archive.segments, one.archive.segments[touched])
        nowhere = np.zeros(one.archive.units, np.bool_)
        found.append(replace(one, judge=judge, shown=nowhere, counted=~nowhere, tracks=tracks))
    return found


def in_frames(
    judge: str, name: str, archive: Archive, frames: Frames, truth: Truth,
    views: NDArray[np.float32], negatives: NDArray[np.float32] | None = None,
) -> Thing:  # fmt: skip
    """A thing whose truth is told in frames."""
    none = views[:0]
    return Thing(
        judge,
        name,
        archive,
        views,
        none if negatives is None else negatives,
        frames.mask(truth.visible) & ~frames.mask(truth.ignore),
        ~frames.mask(truth.ignore),
        np.ones(len(archive.spans), np.bool_),
        np.ones(len(archive.seconds), np.bool_),
    )


def _pictures_in(folder: Path) -> list[Image]:
    return [decode_picture(path.read_bytes(), str(path)) for path in sorted(folder.glob("*.jpg"))]


def eval_things(library: Library, footage: Path) -> list[Thing]:
    """The judged archive's entities, each from its one example."""
    archive, frames = archive_of(library, "eval")
    truths = read_truth(footage / "eval" / "truth.json")
    album = footage / "eval" / "album"
    return [
        in_frames(
            "eval", name, archive, frames, truth, embed_views(_pictures_in(album / name), library.embedder)
        )
        for name, truth in truths.items()
    ]


def sample_things(library: Library, folder: Path) -> list[Thing]:
    """The drawn archive's entities in four ways of registering them."""
    archive, frames = archive_of(library, "sample")
    found = []
    for name, truth in read_truth(folder / "truth.json").items():
        views = embed_views(_pictures_in(folder / "album" / name), library.embedder)
        unlike = embed_views(_pictures_in(folder / "lookalikes" / name), library.embedder)
        ask = (name, archive, frames, truth)
        found.append(in_frames("sample album", *ask, views, unlike))
        found.append(in_frames("sample plain", *ask, views))
        found += [in_frames("sample one", *ask, views[i : i + 1]) for i in range(len(views))]
        boxes = embed_views(_drawn_boxes(folder, name), library.embedder)
        found += [in_frames("sample box", *ask, boxes[i : i + 1]) for i in range(len(boxes))]
    return found


def _drawn_boxes(folder: Path, name: str) -> list[Image]:
    """Boxes of a drawn entity cut out of its clips, at moments spread evenly."""
    found = []
    for video, boxes in json.loads((folder / "truth.json").read_text())[name]["boxes"].items():
        numbers = sorted(map(int, boxes))
        for share in (np.arange(BOX_EXAMPLES) + 1) / (BOX_EXAMPLES + 1):
            frame = numbers[int(share * len(numbers))]
            with open_video(folder / "archive" / video) as reader:
                rgb = reader.frame_at(float(reader.times().seconds[frame])).rgb()
            found.append(np.ascontiguousarray(cut(rgb, np.array(boxes[str(frame)], np.float32))))
    return found


def clip_things(library: Library, videos: Mapping[str, Path], seed: int = 0) -> list[Thing]:
    """Boxes of tracks of unlabelled clips, each looked for in all the clips at other moments."""
    archive, _ = archive_of(library, "clips")
    tracks = np.arange(len(archive.spans))
    archive = replace(archive, spans=np.stack([tracks, tracks + 1], axis=1), units=len(tracks))
    crops = library.query(_CROPS).arrow().to_pylist()
    identities = _identities(library, archive)
    examples = example_rows(library, archive)
    views = embed_crops(library, videos, examples, seed)
    owner_of = _owners(archive)
    found = []
    for number, row in enumerate(examples):
        own = owner_of[row]
        shown = (tracks == own) | ((identities == identities[own]) & (identities[own] != NOISE))
        apart = np.abs(archive.seconds - archive.seconds[row]) >= APART_SECONDS
        found.append(
            Thing(
                "clips", f"{crops[row]['video']} {own}", archive, views[number : number + 1],
                views[:0], shown, shown | _surely_other(archive, own),
                np.ones(len(tracks), np.bool_), apart | (owner_of != own),
            )
        )  # fmt: skip
    return found


def _owners(archive: Archive) -> NDArray[np.intp]:
    """(N,) the track, as a place in the groups, of each crop."""
    owners = np.zeros(len(archive.seconds), np.intp)
    for track, slots in enumerate(archive.groups.slots):
        owners[slots[slots >= 0]] = track
    return owners


def _surely_other(archive: Archive, own: int) -> Mask:
    """Tracks (T,) of other videos, or of the same one at the same time, whose box never meets that of `own`.

    A box within the thing's own shows a part of it, which is neither it nor another thing.
    """
    places = archive.places
    away = archive.segments != archive.segments[own]
    mine = np.flatnonzero(~away)
    ones = np.full(len(mine), own)
    first = np.maximum(places.start_seconds[mine], places.start_seconds[own])
    last = np.minimum(places.end_seconds[mine], places.end_seconds[own])
    apart = first < last
    for share in np.linspace(0, 1, LOOKS):
        seconds = first + share * (last - first)
        apart &= shared(places.boxes_at(seconds, ones), places.boxes_at(seconds, mine)) == 0
    away[mine[apart]] = True
    return away


def _identities(library: Library, archive: Archive) -> NDArray[np.int64]:
    """(T,) pseudo-identities of tracks within each video; no two clips show the same thing."""
    means = np.stack([archive.vectors[-1][s[s >= 0]].mean(axis=0) for s in archive.groups.slots])
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    cohort = library.embedder.cohorts()[-1]
    found = np.full(len(means), NOISE, np.int64)
    for segment in np.unique(archive.segments):
        mine = np.flatnonzero(archive.segments == segment)
        places = some_places(archive.places, mine)
        some = Tracks(
            places.track_ids, archive.segments[mine], places.start_seconds, places.end_seconds, means[mine]
        )
        part = pseudo_identities(some, alike(means[mine], cohort, library.calibrations[-1]))
        found[mine[part != NOISE]] = part[part != NOISE] + found.max() + 1
    return found


def example_rows(library: Library, archive: Archive) -> list[int]:
    """Rows of crops to ask by: the best view of the longest tracks with views that lie apart."""
    crops = library.query(_CROPS).arrow().to_pylist()
    chosen = []
    places = archive.places
    for segment in np.unique(archive.segments):
        able = []
        for track in np.flatnonzero(archive.segments == segment):
            slots = archive.groups.slots[track]
            slots = slots[slots >= 0]
            best = max(slots.tolist(), key=lambda row: crops[row]["quality"])
            box = crops[best]
            width, height = box["x2"] - box["x1"], box["y2"] - box["y1"]
            far = np.abs(archive.seconds[slots] - archive.seconds[best]).max() >= APART_SECONDS
            if far and min(width, height) >= 24 and width * height <= 0.5 * box["width"] * box["height"]:
                able.append((places.end_seconds[track] - places.start_seconds[track], best))
        chosen += [row for _, row in sorted(able, reverse=True)[:CLIP_EXAMPLES]]
    return chosen


def embed_crops(
    library: Library, videos: Mapping[str, Path], rows: Sequence[int], seed: int
) -> NDArray[np.float32]:
    """(P, V, exits, dim) of boxes about crops (rows of an archive), as `embed_views` has examples."""
    crops = library.query(_CROPS).arrow().to_pylist()
    return embed_views(_cut_examples([crops[row] for row in rows], videos, seed), library.embedder)


def _cut_examples(rows: Sequence[Mapping[str, object]], videos: Mapping[str, Path], seed: int) -> list[Image]:
    """The boxes of crops out of their frames, each side moved a little, as another person would draw them."""
    rng = np.random.default_rng(seed)
    found = []
    for row in rows:
        box = np.array([row[side] for side in ("x1", "y1", "x2", "y2")], np.float64)
        size = np.tile(box[2:] - box[:2], 2)
        box += rng.uniform(-JITTER, JITTER, 4) * size
        box = np.clip(box, 0, np.tile([row["width"], row["height"]], 2))
        with open_video(videos[str(row["video"])]) as reader:
            rgb = reader.frame_at(float(str(row["time"]))).rgb()
        found.append(np.ascontiguousarray(cut(rgb, box.astype(np.float32))))
    return found


def picture_things(
    pictures: Sequence[Image], labels: Sequence[str], embedder: Embedder, side: int = 128
) -> list[Thing]:
    """The first degraded view of each picture, asked for among the second ones of all other classes."""
    views = degraded_pairs(pictures, side)
    archive = archive_of_pictures(embedder.embed_all(views[len(pictures) :]), "pictures")
    asked = embed_views(views[: len(pictures)], embedder)
    everything, classes = np.ones(len(pictures), np.bool_), np.array(labels)
    none = asked[:0]
    return [
        Thing(
            "pictures", str(number), archive, asked[number : number + 1], none,
            np.arange(len(pictures)) == number,
            (classes != classes[number]) | (np.arange(len(pictures)) == number), everything, everything,
        )
        for number in range(len(pictures))
    ]  # fmt: skip
