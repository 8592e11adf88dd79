"""Points as text, or files drawn elsewhere, come in; the named shapes of cameras go out, stored and drawn."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import cv2
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from panorama.arguments import File, checked
from panorama.cameras.listed_videos import names_of
from panorama.commands import command, using
from panorama.errors import PanoramaError, UsageError, unknown
from panorama.folders import video_is_gone
from panorama.json_text import parsed_json
from panorama.lettering import draw_text, text_width
from panorama.picture_files import check_picture, write_picture
from panorama.store import EVERY_CAMERA
from panorama.store import Zone as Zone
from panorama.store.catalog.zones import Point, lost_shape, of_camera
from panorama.video import open_video

if TYPE_CHECKING:
    from panorama.store import Store

_KINDS = {"zone": "zone", "line": "line", "polygon": "zone", "rectangle": "zone", "linestrip": "line"}
"""What drawing tools call a shape -> its kind here."""
_NAME_SIZE = 0.5
_LEAST_SIZE = 0.3
"""Of the letters of a name that is too long for the picture; smaller ones are not legible."""
_Plate = tuple[int, int, int, int]
"""The ground of a name: left, top, right, bottom, in pixels."""
_COLOURS = ((80, 220, 120), (255, 170, 60), (90, 170, 255), (240, 100, 200), (240, 230, 80))


_Class = TypeVar("_Class", bound=type)


def _about_its_library(made: _Class) -> _Class:
    """The class; commands in messages of all its methods name the library of the shapes if they must."""

    def about(method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def run(self: Zones, *values: Any, **named: Any) -> Any:
            with using(self._path):
                return method(self, *values, **named)

        return run

    for name, method in list(vars(made).items()):
        if inspect.isfunction(method) and name != "__init__":
            setattr(made, name, about(method))
    return made


@checked
@_about_its_library
class Zones:
    """The zones and lines of a library, by camera and name. Iterating yields all of them.

    Args:
        store: where they are kept.
        videos: returns the library's videos, see `Snapshot.videos`.
        path: of the library.
    """

    def __init__(self, store: Store, videos: Callable[[], pa.Table], path: Path) -> None:
        self._store = store
        self._videos = videos
        self._path = path

    def __iter__(self) -> Iterator[Zone]:
        return iter(self._store.zones())

    def __len__(self) -> int:
        return len(self._store.zones())

    def __repr__(self) -> str:
        try:
            return f"Zones({[*self]!r})"
        except PanoramaError as exc:  # of a closed library: a debugger prints what it can
            return f"Zones({type(exc).__name__})"

    def add(
        self,
        name: str,
        points: str | Sequence[Point],
        *,
        camera: str = EVERY_CAMERA,
        kind: str = "zone",
        size: tuple[int, int] | None = None,
    ) -> Zone:
        """Store a shape; it replaces one with the same name and camera.

        Args:
            name: of the shape.
            points: pairs (x, y) as fractions of the frame, or text: percent '10%,50% ...' or pixels '120,300
                ...'.
            camera: a camera of the library, or EVERY_CAMERA: the shape then holds for all cameras that have
                none with this name.
            kind: 'zone' or 'line'.
            size: width and height of the frame that pixels refer to; None for the size of the camera's
                videos.

        Raises:
            UsageError: the camera is unknown, the points form no shape, or the frame size for pixels is
                unknown.
        """
        self._check_camera(camera)
        pairs = points_of(points, size, lambda: self._size_of(camera)) if isinstance(points, str) else points
        zone = Zone(camera, name, kind, tuple((float(x), float(y)) for x, y in pairs))
        self._store.put_zones([zone])
        return zone

    def rename(self, name: str, new: str, camera: str | None = None) -> list[str]:
        """Rename a shape.

        Args:
            camera: whose shape; None renames it for all cameras that have it.

        Returns:
            The cameras concerned.

        Raises:
            UsageError: there is no such shape, the new name is invalid, or one of the cameras already has a
                shape of that name; then none is renamed.
        """
        cameras = self._cameras_of(name, camera)
        self._store.rename_zones(cameras, name, new)
        return cameras

    def move(self, name: str, to: str, camera: str | None = None) -> None:
        """Give a shape to another camera, for example after the camera was renamed.

        Args:
            to: a camera of the library, or EVERY_CAMERA.
            camera: whose shape; needed if several cameras have one with this name.

        Raises:
            UsageError: there is no such shape or camera, several cameras have the shape and none is named, or
                the new camera already has a shape with this name.
        """
        self._check_camera(to)
        cameras = self._cameras_of(name, camera)
        if len(cameras) > 1:
            listed = ", ".join(of_camera(where) for where in cameras)
            raise UsageError(f"{name!r} is a shape of {listed}; say with --camera which one is meant")
        self._store.move_zone(cameras[0], name, to)

    def orphaned(self) -> list[Zone]:
        """The shapes of cameras from which the library holds no video."""
        shapes = [zone for zone in self if zone.camera != EVERY_CAMERA]
        cameras = self.cameras() if shapes else []
        return [zone for zone in shapes if zone.camera not in cameras]

    def drop(self, name: str, camera: str | None = None) -> list[str]:
        """Remove a shape.

        Args:
            camera: whose shape; None removes it from all cameras that have it.

        Returns:
            The cameras concerned.
        """
        cameras = self._cameras_of(name, camera)
        for where in cameras:
            self._store.drop_zone(where, name)
        return cameras

    def to_json(self) -> dict[str, Any]:
        """All shapes as JSON that `load` reads; points are fractions of the frame."""
        shapes = [
            {"camera": z.camera, "name": z.name, "kind": z.kind, "points": [list(p) for p in z.points_xy]}
            for z in self
        ]
        return {"shapes": shapes}

    def load(self, path: str | Path, camera: str | None = None) -> list[Zone]:
        """Store the shapes of a JSON file, all or none: from `to_json`, or from a drawing tool (labelme).

        Args:
            camera: for the shapes in the file that name no camera; None for every camera.

        Raises:
            UsageError: the file has neither form, one of its shapes is invalid, or several of one camera have
                the same name.
        """
        shapes = read_shapes(Path(path), EVERY_CAMERA if camera is None else camera)
        for zone in shapes:
            self._check_camera(zone.camera)
        self._store.put_zones(shapes)
        return shapes

    def draw(
        self, out: str | Path, *, camera: str | None = None, video: File | None = None, seconds: float = 0.0
    ) -> list[Zone]:
        """Write an image: the shapes that hold for a camera, drawn on a frame of one of its videos.

        Args:
            out: the image file; its suffix sets the format.
            camera: needed if the library has several cameras and `video` is None.
            video: a video of the library, by name or path, which alone determines the camera; None for the
                first of the camera.
            seconds: time of the frame.

        Returns:
            The shapes drawn.

        Raises:
            UsageError: the suffix is not an image format or its format cannot hold so large a frame, `out` is
                a video or one of the library's own files, or no frame is shown at the time.
            UnknownVideo: the library has no such video.
            LibraryWriteError: `out` cannot be written; the previous file stays.
        """
        check_picture(Path(out), set(self._videos().column("uri").to_pylist()))
        row = self._row(camera, video)
        shown = holding(tuple(self), row["camera"])
        with open_video(Path(row["uri"])) as reader:
            reader.check_time(seconds)
            picture = reader.frame_at(seconds).rgb().copy()
        write_picture(draw_shapes(picture, shown), Path(out))
        return shown

    def _row(self, camera: str | None, video: File | None) -> dict[str, Any]:
        if camera is not None:
            self._check_camera(camera)
        listed = self._videos()
        names = set(listed.column("video").to_pylist() if video is None else names_of(video, listed))
        chosen = [
            row
            for row in listed.to_pylist()
            if row["video"] in names and (camera in (None, EVERY_CAMERA) or row["camera"] == camera)
        ]
        if not chosen:
            raise UsageError(f"no video {video or ''} of {of_camera(camera or '')}; see {command('videos')}")
        if len({row["camera"] for row in chosen}) > 1 and camera is None:
            cameras = ", ".join(repr(name) for name in self.cameras())
            raise UsageError(f"say which camera to show with --camera; there are {cameras}")
        # Prefer a video whose file still exists.
        return dict(next((row for row in chosen if not video_is_gone(Path(row["uri"]))), chosen[0]))

    def cameras(self) -> list[str]:
        """The cameras of the library's videos, sorted."""
        return sorted(set(self._store.listed().column("camera").to_pylist()))

    def _check_camera(self, camera: str) -> None:
        cameras = self.cameras()
        if camera != EVERY_CAMERA and camera not in cameras:
            raise UsageError(unknown("camera", camera, cameras, command("videos")))

    def _cameras_of(self, name: str, camera: str | None) -> list[str]:
        """The cameras whose shape is meant; the store refuses a camera that has no such shape."""
        if camera is not None:
            return [camera]
        found = [where for where, held in self._store.zone_names() if held == name]
        return found or [EVERY_CAMERA]

    def _size_of(self, camera: str) -> tuple[int, int]:
        videos = self._videos().select(["camera", "width", "height"]).to_pylist()
        sizes = sorted({(r["width"], r["height"]) for r in videos if camera in (EVERY_CAMERA, r["camera"])})
        if len(sizes) != 1:
            found = ", ".join(f"{width}x{height}" for width, height in sizes) or "none"
            raise UsageError(
                f"the videos of {of_camera(camera)} have several sizes ({found}): say which one the pixels "
                "refer to with --size WIDTHxHEIGHT, or give percentages: '10%,50% ...'"
            )
        return int(sizes[0][0]), int(sizes[0][1])


def orphan_remarks(zones: Zones, before: Sequence[Zone] = ()) -> tuple[str, ...]:
    """One line for each shape whose camera has no video, except those listed in `before`."""
    lost = [zone for zone in zones.orphaned() if zone not in before]
    known = zones.cameras() if lost else []
    return tuple(lost_shape(zone.kind, zone.name, [zone.camera], known) for zone in lost)


def holding(shapes: Sequence[Zone], camera: str) -> list[Zone]:
    """The shapes that hold for a camera: its own, and those of every camera that share no name with them."""
    own = [zone for zone in shapes if zone.camera == camera]
    names = {zone.name for zone in own}
    return own + [z for z in shapes if z.camera == EVERY_CAMERA != camera and z.name not in names]


def points_of(
    text: str, size: tuple[int, int] | None, known_size: Callable[[], tuple[int, int]]
) -> list[Point]:
    """Parse points typed as 'x,y x,y ...' into fractions of the frame.

    Args:
        text: percentages ('10%,50%') or pixels of the frame as displayed ('120,300'), not both.
        size: width and height of the frame that pixels refer to; None calls `known_size`.

    Raises:
        UsageError: the text is not pairs, or mixes percentages and pixels.
    """
    numbers = [word for pair in text.replace(";", " ").split() for word in pair.split(",")]
    shares = [word.endswith("%") for word in numbers]
    try:
        values = [float(word.removesuffix("%")) for word in numbers]
    except ValueError:
        values = []
    if not values or len(values) % 2 or any(pair.count(",") != 1 for pair in text.replace(";", " ").split()):
        raise UsageError(f"points are pairs x,y, separated by spaces: '120,300 400,300', got {text!r}")
    if any(shares) and not all(shares):
        raise UsageError(f"points are all in percent or all in pixels, got {text!r}")
    width, height = (100.0, 100.0) if all(shares) else (size or known_size())
    return [(x / width, y / height) for x, y in zip(values[::2], values[1::2], strict=True)]


def read_shapes(path: Path, camera: str) -> list[Zone]:
    """Read the shapes of a JSON file; `camera` applies to shapes that name none.

    Raises:
        UsageError: the file cannot be read, is not in a known form, or has several shapes of one camera with
            the same name.
    """
    try:
        held = parsed_json(path.read_text(encoding="utf-8-sig"))
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except ValueError as exc:
        raise UsageError(f"{path} is not JSON: {exc}") from exc
    listed = held.get("shapes") if isinstance(held, dict) else None
    if not isinstance(listed, list) or not all(isinstance(shape, dict) for shape in listed):
        form = '{"shapes": [{"camera": "gate", "name": "lawn", "kind": "zone", "points": [[0.1, 0.5], ...]}]}'
        raise UsageError(f"{path} holds no shapes; expected {form}, or a labelme file")
    width, height = held.get("imageWidth", 1), held.get("imageHeight", 1)
    try:
        shapes = [_shape(shape, camera, float(width), float(height)) for shape in listed]
    except (ArithmeticError, KeyError, TypeError, ValueError) as exc:
        raise UsageError(
            f"a shape of {path} is malformed: {exc!r}; see {command('zones', 'export')}"
        ) from exc
    for (where, name), count in Counter((shape.camera, shape.name) for shape in shapes).items():
        if count > 1:  # a label of a drawing tool may be a class, a name here is one shape's own
            raise UsageError(
                f"{path} holds {count} shapes {name!r} of {of_camera(where)}; give each a name of its own"
            )
    return shapes


def _shape(shape: dict[str, Any], camera: str, width: float, height: float) -> Zone:
    name = str(shape["name"] if "name" in shape else shape["label"])
    typed = str(shape["kind"] if "kind" in shape else shape["shape_type"])
    if typed not in _KINDS:
        raise UsageError(f"shape {name!r} is a {typed!r}; a shape is one of {', '.join(sorted(_KINDS))}")
    points = [(float(x) / width, float(y) / height) for x, y in shape["points"]]
    if typed == "rectangle" and len(points) == 2:
        (left, top), (right, bottom) = points
        points = [(left, top), (right, top), (right, bottom), (left, bottom)]
    return Zone(str(shape.get("camera", camera)), name, _KINDS[typed], tuple(points))


def draw_shapes(picture: NDArray[np.uint8], shapes: Sequence[Zone]) -> NDArray[np.uint8]:
    """Draw shapes on an RGB image: zones filled, lines with an arrow towards their 'in' side."""
    height, width = picture.shape[:2]
    thick = max(1, round(min(width, height) / 240))
    named = []
    for number, zone in enumerate(shapes):
        colour = _COLOURS[number % len(_COLOURS)]
        points = (
            np.array([(x * (width - 1), y * (height - 1)) for x, y in zone.points_xy])
            .round()
            .astype(np.int32)
        )
        if zone.kind == "zone":
            filled = cv2.fillPoly(picture.copy(), [points], colour)
            picture = np.asarray(cv2.addWeighted(filled, 0.25, picture, 0.75, 0), np.uint8)
        cv2.polylines(picture, [points], zone.kind == "zone", colour, thick, cv2.LINE_AA)
        if zone.kind == "line":
            _arrow(picture, points, colour, thick)
        named.append((zone.name, points, colour))
    taken: list[_Plate] = []
    for name, points, colour in named:  # last, so that no shape lies over a name
        taken.append(_name(picture, name, points, colour, taken))
    return picture


def _name(
    picture: NDArray[np.uint8],
    name: str,
    points: NDArray[np.int32],
    colour: Sequence[int],
    taken: Sequence[_Plate] = (),
) -> _Plate:
    """Write a shape's name on a black plate above its topmost point, larger in a large picture.

    Args:
        taken: the plates of other names; this one is moved down below those that it would cover.

    Returns:
        Its own plate.
    """
    height, width = picture.shape[:2]
    scale = max(1.0, min(width, height) / 480)
    size, weight = _NAME_SIZE * scale, 1 if scale < 1.5 else 2
    tall, gap = round(12 * scale), round(4 * scale)
    wide = text_width(name, size, weight)
    if wide > width - 2 * gap:
        size = max(size * (width - 2 * gap) / wide, _LEAST_SIZE)
        wide = text_width(name, size, weight)
    x, y = (int(c) for c in points[points[:, 1].argmin()])
    left, base = max(min(x, width - wide - 2 * gap), 0), max(y - 2 * gap, tall + gap)
    beside = [plate for plate in taken if plate[0] <= left + wide + 2 * gap and left <= plate[2]]

    def is_free(base: int) -> bool:
        return all(base + gap < upper or lower < base - tall - gap for _, upper, _, lower in beside)

    lower_ones = sorted(lower + 1 + tall + gap for *_, lower in beside)
    free = (at for at in (base, *lower_ones) if base <= at < height - gap and is_free(at))
    base = next(free, base)
    plate = (left, base - tall - gap, left + wide + 2 * gap, base + gap)
    cv2.rectangle(picture, plate[:2], plate[2:], (0, 0, 0), -1)
    draw_text(picture, name, (left + gap, base), size, colour, weight)
    return plate


def _arrow(picture: NDArray[np.uint8], points: NDArray[np.int32], colour: Sequence[int], thick: int) -> None:
    """Draw an arrow across a line's longest segment, to the right of someone walking it: the 'in' side."""
    steps = np.diff(points, axis=0).astype(float)
    longest = int(np.hypot(*steps.T).argmax())
    step = steps[longest] / max(float(np.hypot(*steps[longest])), 1.0)
    middle = (points[longest] + points[longest + 1]) / 2
    tip = middle + np.array([-step[1], step[0]]) * min(picture.shape[:2]) / 12
    start, end = ((int(c) for c in p.round()) for p in (middle, tip))
    cv2.arrowedLine(picture, tuple(start), tuple(end), tuple(colour), thick, cv2.LINE_AA, tipLength=0.4)
