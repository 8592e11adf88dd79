"""Pictures, an album or a frame come in; exemplars go out, as JPEGs with vectors computed from these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from panorama.album.examples import embed_examples
from panorama.album.given_pictures import (
    Images,
    Picture,
    checked,
    first_only,
    given_pictures,
    images_in,
    listed,
    margins_cut,
    passed_over,
    small_ones,
)
from panorama.album.whole_pictures import (
    Doubt,
    Told,
    far_larger,
    numbered,
    shortened,
    still_whole,
    whole_pictures,
    whole_pixels,
)
from panorama.arguments import Box
from panorama.commands import command_of
from panorama.crops import cut, decode_picture, encode_jpeg
from panorama.errors import BadBox, BadImage, UsageError
from panorama.models.base import Embedder, Proposer
from panorama.regions import parse_box
from panorama.store import NewExemplar, SeenAt, Store
from panorama.store.catalog.seen import SeenPlaces
from panorama.store.scenes.places import PlaceTables
from panorama.store.scenes.seen_tracks import NO_TRACK, tracks_at
from panorama.video import Fit, VideoFrame, VideoReader, file_state, open_video

NEGATIVE_FOLDER = "not"
"""Subfolder of an entity's folder in an album; it contains the look-alikes."""

NEXT_REGIONS = 2
"""So many other regions are named beside the one cut out: in whole photographs of things of the judged clips
the first was right in 0.78 of them, and it or one of these in 0.88.
"""

OVER_THE_EDGE = 1 / 8
"""A box may reach by this share of its side over the edge of a picture that does not fill its frame: then it
is cut there. Of 877 boxes of tracks in such pictures 89 reached over it, all but 3 of them by less.
"""


@dataclass(frozen=True, slots=True)
class Given:
    """The pictures given to register one entity.

    Attributes:
        pictures, rivals: examples, and look-alikes.
        told: remarks on them for users.
        denied: pictures from the library that do not show it, although it was found there.
        wholes: photographs of which examples are a small part.
    """

    pictures: Sequence[Picture]
    rivals: Sequence[Picture]
    told: tuple[Told, ...] = ()
    denied: Sequence[Picture] = ()
    wholes: Sequence[Picture] = ()

    def remarks(self, store: Store, entity: str, numbers: Sequence[int]) -> tuple[str, ...]:
        """All remarks, now that the pictures are in the store under these numbers, examples first."""
        lines = numbered(self.told, entity, numbers)
        return lines + still_whole(self.wholes, entity, store.exemplars(entity)) if self.wholes else lines

    @classmethod
    def of(cls, pictures: Sequence[Picture], look_alike: bool) -> Given:
        """Pictures that are all examples or all look-alikes, with remarks on them."""
        told = (*(line for picture in pictures for line in picture.told), *small_ones(pictures))
        return cls((), pictures, told) if look_alike else cls(pictures, (), told)


def given(
    images: Images,
    unlike: Images,
    box: Box | None,
    find: bool,
    finder: Callable[[], Proposer],
) -> Given:
    """Examples and look-alikes as the user named them, read and cut.

    Args:
        images, unlike, box, find: see `Library.register`.
        finder: returns the proposer; called if `find` is set, or a picture is as large as a photograph.

    Raises:
        UsageError: a box for several pictures, or something that is not a picture.
        BadImage, BadBox: a picture cannot be used.
    """
    images, unlike = listed(images), listed(unlike)
    as_it_is = box is not None or find  # boxes refer to pixels of the whole picture
    named, rivals = given_pictures(images, trim=not as_it_is), given_pictures(unlike)
    if box is not None:
        if find:
            raise UsageError("box and find both say what to cut out; give one of them")
        if len(named) != 1:
            raise UsageError(f"a box is cut out of one picture; {len(named)} were given")
        pictures, examples, cuts = _boxed(named, box)
    elif find:
        pictures, examples, cuts = cut_out(named, finder())
    else:
        pictures, cuts = whole_pictures(named, finder)
        examples = pictures
    left_out = passed_over([*images, *unlike])
    return _with_remarks(pictures, examples, [rival.kept() for rival in rivals], left_out, cuts)


def given_album(folder: Path, finder: Callable[[], Proposer]) -> dict[str, Given]:
    """The pictures of an album, by the names of its subfolders.

    Args:
        finder: returns the proposer; see `whole_pictures`.

    Raises:
        UsageError: there is no such folder.
        BadImage: a subfolder without pictures, or a picture that cannot be used.
    """
    album = {}
    for name, images, unlike in album_folders(folder):
        pictures, whole = whole_pictures(given_pictures(images), finder)
        rivals = [rival.kept() for rival in given_pictures(unlike)]
        album[name] = _with_remarks(pictures, pictures, rivals, passed_over_in_album(folder, name), whole)
    return album


def _with_remarks(
    pictures: Sequence[Picture],
    examples: Sequence[Picture],
    rivals: Sequence[Picture],
    left_out: tuple[str, ...],
    cuts: tuple[Told, ...],
) -> Given:
    """What was read for one entity, with all remarks on it, in the order in which users get them.

    Args:
        pictures, examples: as given, and what was cut out of each; the same where nothing was.
        left_out: remarks on files that were passed over.
        cuts: remarks on what was cut out, or should be.
    """
    every = [*examples, *rivals]
    told: tuple[Told, ...] = first_only([*pictures, *rivals]) + left_out
    told += margins_cut(every) + small_ones(every) + cuts
    return Given(examples, rivals, told, wholes=far_larger(pictures, examples))


def _boxed(pictures: Iterable[Picture], box: Box) -> tuple[list[Picture], list[Picture], tuple[Told, ...]]:
    """As `cut_out`, of a box in each."""
    pairs = [(whole.kept(), cut_box(whole, box).kept()) for whole in pictures]
    return [whole for whole, _ in pairs], [part for _, part in pairs], ()


def cut_out(
    pictures: Iterable[Picture], proposer: Proposer
) -> tuple[list[Picture], list[Picture], tuple[Told, ...]]:
    """The pictures, what the proposer is surest of in each, and remarks: it may be something else.

    Args:
        pictures: with all their pixels; each is let go of before the one after the next is read.
    """
    wholes: list[Picture] = []
    found: list[Picture] = []
    told: list[Told] = []
    for whole in pictures:
        part, others = find_region(whole, proposer)
        (height, width), (tall, wide) = part.size, whole.size
        likely = f" (next come {' and '.join(others)})" if others else ""
        said = (
            f"found and cut out: {part.source}, {width}x{height} of {wide}x{tall} pixels; if that is"
            f" something else, say where the entity is, --box x1,y1,x2,y2{likely}, and take this out"
        )
        told.append(Doubt(len(found), said))
        found.append(part.kept())
        wholes.append(whole.kept())
    return wholes, found, shortened(told, "and out of {}")


def passed_over_in_album(album: Path, entity: str) -> tuple[str, ...]:
    """Remarks on what was left out of an entity's folder in an album."""
    folder = album / entity
    return passed_over([folder], (NEGATIVE_FOLDER,)) + passed_over([folder / NEGATIVE_FOLDER])


def cut_box(picture: Picture, box: Box) -> Picture:
    """The part inside the box x1, y1, x2, y2, as text or four numbers, in pixels of the picture.

    Raises:
        BadBox: malformed or outside the picture.
    """
    corners = _corners(picture, box)
    rgb = np.ascontiguousarray(cut(picture.rgb, np.array(corners, np.float32)))
    return checked(Picture(rgb, f"{picture.source} [{','.join(map(str, corners))}]"))


def _corners(picture: Picture, box: Box) -> tuple[int, int, int, int]:
    height, width = picture.rgb.shape[:2]
    return parse_box(_box_text(box), width, height)


def _box_text(box: Box) -> str:
    return box if isinstance(box, str) else ",".join(map(str, box))


def find_region(picture: Picture, proposer: Proposer) -> tuple[Picture, list[str]]:
    """The region that the proposer is surest of, and the boxes x1,y1,x2,y2 of those that come next.

    Raises:
        BadImage: the proposer finds nothing.
    """
    regions = proposer.propose([picture.rgb])[0]
    if not len(regions):
        raise BadImage(
            f"nothing was found in {picture.source}; give its box x1,y1,x2,y2 or the whole picture"
        )
    # Take the surest one: also preferring large ones took the table for the mug on it.
    best, *others = np.argsort(-regions.scores, kind="stable")[: 1 + NEXT_REGIONS]
    box, *next_ones = (_box_text(whole_pixels(regions.boxes_xyxy[i])) for i in (best, *others))
    rgb = np.ascontiguousarray(cut(picture.rgb, regions.boxes_xyxy[best]))
    return checked(Picture(rgb, f"{picture.source} [{box}]")), next_ones


def video_picture(video: Path, seconds: float, box: Box | None, segment: int | None = None) -> Picture:
    """The frame of a video shown at a time, cut to a box.

    Args:
        segment: of the video in the library; None if the library does not hold it.

    Raises:
        UsageError: no box (a whole frame hardly ever shows one entity), or a time outside the video.
        BadBox: malformed, or outside the frame or the part of it that a picture of another size fills.
        VideoError: the video cannot be read there.
    """
    if box is None:
        raise UsageError("an example from a video needs the entity's box in the frame: x1,y1,x2,y2")
    with open_video(video) as reader:
        times = reader.times().seconds
        # The last frame is shown for as long as others are, by moments as well; and players round times.
        shown_seconds = max(0.5, float(np.median(np.diff(times)))) if len(times) > 1 else 0.5
        if not len(times) or not 0 <= seconds <= times[-1] + shown_seconds:
            end = f"{times[-1]:.3f}" if len(times) else "no frame"
            raise UsageError(
                f"the time is between 0 and the last frame of {video} at {end} s, got {seconds:g}"
            )
        frame = reader.frame_at(seconds)
        whole = Picture(frame.rgb(), _named(reader, video, frame))
    told: tuple[str, ...] = ()
    if frame.fit is not None:
        box, told = _fitted_box(whole, frame.fit, box)
        if frame.fit.is_scaled:  # what is listed later must not be read as pixels of the file
            whole = replace(whole, source=f"{whole.source} at {frame.fit.width}x{frame.fit.height}")
    part = replace(cut_box(whole, box), told=told)
    if segment is None:
        return part
    return replace(part, seen=SeenAt(segment, frame.index, frame.time_seconds, _corners(whole, box)))


def _fitted_box(whole: Picture, fit: Fit, box: Box) -> tuple[tuple[int, int, int, int], tuple[str, ...]]:
    """A box in pixels of a frame, within the part that a picture of another size fills; remarks on it.

    Raises:
        BadBox: malformed, or beyond that part by more than a detector errs.
    """
    height, width = whole.rgb.shape[:2]
    text = _box_text(box)
    place = f"{whole.source} fills 0,0,{fit.width},{fit.height} of the {width}x{height} frame"
    told = []
    try:
        corners = parse_box(text, fit.width, fit.height)
    except BadBox as exc:
        at_edge = _cut_at_edge(text, fit, width, height)
        if at_edge is None:
            raise BadBox(f"{exc}; {place}, and the rest is black") from exc
        corners = at_edge
        told.append(
            f"{place}; the box reached over its edge and was cut there: {','.join(map(str, corners))}"
        )
    if fit.is_scaled:
        factors = (fit.own_width / fit.width, fit.own_height / fit.height) * 2
        own = ",".join(str(round(corner * by)) for corner, by in zip(corners, factors, strict=True))
        told.append(
            f"{place}, and its file has {fit.own_width}x{fit.own_height} pixels: the box counts pixels of the"
            f" frame; in those of the file it is {own}"
        )
    return corners, tuple(told)


def _cut_at_edge(text: str, fit: Fit, width: int, height: int) -> tuple[int, int, int, int] | None:
    """A box of a frame cut at the edge of the picture in it; None if too much of it lies beyond."""
    try:
        x1, y1, x2, y2 = parse_box(text, width, height)
    except BadBox:
        return None
    right, low = min(x2, fit.width), min(y2, fit.height)
    beyond = max((x2 - right) / (x2 - x1), (y2 - low) / (y2 - y1))
    return (x1, y1, right, low) if beyond <= OVER_THE_EDGE else None


def _named(reader: VideoReader, video: Path, frame: VideoFrame) -> str:
    """What answers name a frame by: its time, or the picture where the video is a folder of pictures."""
    if reader.pictures:
        return str(video / reader.pictures[frame.pts])
    return f"{video} at {frame.time_seconds:.3f} s"


def placed_picture(store: Store | None, video: Path, seconds: float, box: Box | None) -> Picture:
    """A part of a video frame by `video_picture`, with its place if the library holds the video as it is.

    Args:
        store: None if there is no library yet.
    """
    segment = None if store is None else held_segment(store, video)
    picture = video_picture(video, seconds, box, segment)
    if store is not None and segment is not None and held_segment(store, video) != segment:
        return replace(picture, seen=None)  # the file was replaced while it was read
    return picture


def held_segment(store: Store, file: Path) -> int | None:
    """The segment of a file that has not changed since it was indexed; None otherwise."""
    known = store.known_file(str(file.resolve()))
    if known is None or not known.has_state(file_state(file)):
        return None
    return known.segment


def unplaced(store: Store, file: Path, example: Picture) -> tuple[str, ...]:
    """A remark if an example from a video of the library is at a place where none of its tracks is."""
    if example.seen is None:
        if store.known_file(str(file.resolve())) is None:
            return ()
        return (
            f"{file.name} has changed since it was indexed: the picture is an example, but no track is"
            f" accepted by its place; index the file again: {command_of('index', str(file))}",
        )
    places = PlaceTables(store.snapshot())
    if (tracks_at(places, SeenPlaces.at(example.seen)) != NO_TRACK).any():
        return ()
    return (
        "no track was at this box at that time: the picture is an example, but no track is accepted by its"
        " place",
    )


def exemplars(
    pictures: Sequence[Picture], embedder: Embedder, negative: bool = False, denied: bool = False
) -> list[NewExemplar]:
    """Exemplars ready for the store; like crops, they are embedded from the stored JPEG."""
    if not pictures:
        return []
    jpegs = [encode_jpeg(p.rgb) for p in pictures]
    vectors = embed_examples([decode_picture(j) for j in jpegs], embedder)  # (exits, B, V, dim)
    return [
        NewExemplar(
            picture=jpeg,
            source=picture.source,
            negative=negative or denied,
            denied=denied,
            vectors={(embedder.hash, e + 1): vectors[e, i] for e in range(embedder.exits)},
            width=picture.size[1],
            height=picture.size[0],
            seen=picture.seen,
        )
        for i, (picture, jpeg) in enumerate(zip(pictures, jpegs, strict=True))
    ]


def ready_for(album: Mapping[str, Given], embedder: Embedder) -> dict[str, list[NewExemplar]]:
    """All exemplars of each entity, ready for the store."""
    return {
        name: exemplars(given.pictures, embedder)
        + exemplars(given.rivals, embedder, negative=True)
        + exemplars(given.denied, embedder, denied=True)
        for name, given in album.items()
    }


def album_folders(folder: Path) -> list[tuple[str, list[Path], list[Path]]]:
    """The entities of an album, one per subfolder: name, images, look-alikes (from its subfolder `not`).

    Raises:
        UsageError: there is no such folder.
        BadImage: there is no subfolder, or one without images.
    """
    if not folder.is_dir():
        raise UsageError(f"no album at {folder}: expected a folder with one subfolder of images per entity")
    found = []
    try:
        for sub in sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            images = images_in(sub)
            if not images:
                inside = any(images_in(p) for p in sub.iterdir() if p.is_dir())
                meant = f"is {sub} the album?" if inside else "add one or remove the folder"
                others = "".join(f"; {line}" for line in passed_over([sub], (NEGATIVE_FOLDER,)))
                raise BadImage(
                    f"the album's folder {sub} holds no image; {meant}{others if not inside else ''}"
                )
            unlike = sub / NEGATIVE_FOLDER
            found.append((sub.name, images, images_in(unlike) if unlike.is_dir() else []))
    except OSError as exc:
        raise BadImage(f"{exc.filename} cannot be read: {exc.strerror or exc}") from exc
    if not found:
        raise BadImage(f"{folder} holds no subfolder; an album has one subfolder of images per entity")
    return found
