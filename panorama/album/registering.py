"""Pictures, an album or a frame come in; exemplars go out, as JPEGs with vectors computed from these."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from panorama.album.cutting import Cuts, box_text, boxed, cut_box, cut_out
from panorama.album.cutting import corners as box_corners
from panorama.album.examples import embed_examples
from panorama.album.given_pictures import (
    Images,
    Picture,
    given_pictures,
    images_in,
    listed,
    passed_over,
    with_grounds,
)
from panorama.album.given_remarks import (
    EXAMPLE,
    LOOK_ALIKE,
    Role,
    first_only,
    laid_over,
    margins_cut,
    small_ones,
)
from panorama.album.whole_pictures import Told, far_larger, numbered, still_whole, whole_pictures
from panorama.arguments import Box
from panorama.commands import command_of
from panorama.crops import decode_picture, encode_jpeg
from panorama.errors import BadBox, BadImage, UsageError
from panorama.lines import counted, one_line
from panorama.models.base import Embedder, Proposer
from panorama.regions import parse_box
from panorama.store import NewExemplar, SeenAt, Store
from panorama.store.catalog.seen import SeenPlaces
from panorama.store.scenes.places import PlaceTables
from panorama.store.scenes.seen_tracks import NO_TRACK, tracks_at
from panorama.video import FileMark, Fit, VideoFrame, VideoReader, content_sample, open_video

NEGATIVE_FOLDER = "not"
"""Subfolder of an entity's folder in an album; it contains the look-alikes."""

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
    def of(cls, pictures: Sequence[Picture], look_alike: bool, told: tuple[Told, ...] = ()) -> Given:
        """Pictures that are all examples or all look-alikes, with remarks on them after those of `told`."""
        role = LOOK_ALIKE if look_alike else EXAMPLE
        told += (*(line for picture in pictures for line in picture.told), *small_ones(pictures, role))
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
    left_out = passed_over([*images, *unlike])
    if box is not None and find:
        raise UsageError("box and find both say what to cut out; give one of them")
    to_cut = box is not None or find
    if to_cut and unlike and not images:  # then it is said of the look-alikes
        rivals = _cut(unlike, box, finder, LOOK_ALIKE)
        return _with_remarks(Cuts([], []), rivals, left_out)
    others = [rival.kept() for rival in given_pictures(unlike)]
    examples = _cut(images, box, finder, EXAMPLE) if to_cut else _whole(images, finder)
    return _with_remarks(examples, Cuts(others, others), left_out)


def given_album(folder: Path, finder: Callable[[], Proposer]) -> dict[str, Given]:
    """The pictures of an album, by the names of its subfolders.

    Args:
        finder: returns the proposer; see `whole_pictures`.

    Raises:
        UsageError: there is no such folder.
        BadImage: a subfolder without pictures, or a picture that cannot be used.
    """
    album: dict[str, Given] = {}
    folders = album_folders(folder)
    beside = beside_folders(folder)
    for name, images, unlike in folders:
        rivals = [rival.kept() for rival in given_pictures(unlike)]
        left_out = passed_over_in_album(folder, name)
        if not album:
            left_out = beside + left_out
        album[name] = _with_remarks(_whole(images, finder), Cuts(rivals, rivals), left_out)
    return album


def _whole(images: Sequence[Any], finder: Callable[[], Proposer]) -> Cuts:
    """Examples that are used whole."""
    pictures, told = whole_pictures(given_pictures(images), finder)
    return Cuts(pictures, pictures, told)


def _cut(images: Sequence[Any], box: Box | None, finder: Callable[[], Proposer], role: Role) -> Cuts:
    """Parts of pictures: inside the box, or if there is none, what is found in them."""
    named = given_pictures(images, trim=False)  # a box is of the whole picture
    if box is None:
        return cut_out(named, finder(), role)
    if len(named) != 1:
        raise UsageError(f"a box is cut out of one picture; {len(named)} were given")
    return boxed(named, box)


def _with_remarks(examples: Cuts, rivals: Cuts, left_out: tuple[str, ...]) -> Given:
    """What was read for one entity, with all remarks on it, in the order in which users get them.

    Args:
        left_out: remarks on files that were passed over.
    """
    told: tuple[Told, ...] = first_only(examples.wholes, EXAMPLE) + first_only(rivals.wholes, LOOK_ALIKE)
    told += left_out
    told += margins_cut(examples.parts, EXAMPLE) + margins_cut(rivals.parts, LOOK_ALIKE)
    told += laid_over(examples.parts, EXAMPLE) + laid_over(rivals.parts, LOOK_ALIKE)
    told += small_ones(examples.parts, EXAMPLE) + small_ones(rivals.parts, LOOK_ALIKE)
    told += examples.told + rivals.told  # only one of the two has been cut, so that numbers begin with it
    wholes = far_larger(examples.wholes, examples.parts)
    return Given(with_grounds(examples.parts), with_grounds(rivals.parts), told, wholes=wholes)


def beside_folders(album: Path) -> tuple[str, ...]:
    """A remark on pictures beside an album's folders, which belong to no entity."""
    loose = images_in(album)
    if not loose:
        return ()
    pictures = counted(len(loose), "picture")
    return (
        f"left out of {one_line(str(album))}: {pictures} in none of its folders, such as"
        f" {one_line(loose[0].name)}",
    )


def passed_over_in_album(album: Path, entity: str) -> tuple[str, ...]:
    """Remarks on what was left out of an entity's folder in an album."""
    folder = album / entity
    return passed_over([folder], (NEGATIVE_FOLDER,)) + passed_over([folder / NEGATIVE_FOLDER])


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
        reader.check_time(seconds)
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
    return replace(part, seen=SeenAt(segment, frame.index, frame.time_seconds, box_corners(whole, box)))


def _fitted_box(whole: Picture, fit: Fit, box: Box) -> tuple[tuple[int, int, int, int], tuple[str, ...]]:
    """A box in pixels of a frame, within the part that a picture of another size fills; remarks on it.

    Raises:
        BadBox: malformed, or beyond that part by more than a detector errs.
    """
    height, width = whole.rgb.shape[:2]
    text = box_text(box)
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
    if known is None or not known.has_state((mark := FileMark.of(file)).state):
        return None
    # Recorders write over files of fixed size, and copies may get the old time.
    return known.segment if known.content_sample in (None, content_sample(mark)) else None


def unplaced(store: Store, file: Path, example: Picture) -> tuple[str, ...]:
    """A remark if an example from a video of the library is at a place where none of its tracks is."""
    if example.seen is None:
        if store.known_file(str(file.resolve())) is None:
            return ()
        return (
            f"{file.name} has changed since it was indexed: the picture is an example, but no track is"
            " accepted by its place; index the file again, then register the place once more:"
            f" {command_of('index', str(file))}",
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
            if sub.name == NEGATIVE_FOLDER:
                entity = folder.resolve().name
                raise UsageError(
                    f"{sub} holds look-alikes of one entity, so {folder} is no album: name the folder that"
                    f" {entity} lies in, or register {entity} alone"
                )
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
