"""A scene enters (camera, planes, actors, light), a clip and the truth about its entities leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from scenery.camera import OVERSAMPLING, SUN, Camera, Plane, Sprite, draw, paint_plane, shadow
from scenery.clouds import Cloud, Floats, Picture, Triple, turned
from scenery.textures import generator
from scenery.vectors import length

Model = Callable[[float, float], Cloud]
Box = tuple[int, int, int, int]

VISIBLE_SHARE = 0.4
SMALLEST_SIDE_PIXELS = 12
GAIT_STEPS = 16
SHADOW_DARKNESS = 0.5


@lru_cache(maxsize=96)
def cloud_of(model: Model, spacing: float, phase: float) -> Cloud:
    """A model's cloud; asked for again and again at the same few spacings and steps."""
    return model(spacing, phase)


@dataclass(frozen=True)
class Actor:
    """A model on its way.

    Attributes:
        model: what it looks like.
        path: (seconds, x, y) waypoints; it is absent before the first and after the last.
        entity: its name in the album; None for those who only pass.
        stride: metres of one double step; 0 for what rolls or stands.
        heading_degrees: which way it looks; None: along its path.
        base: height of its feet.
        throws_shadow: False saves time for what stands in the shade.
    """

    model: Model
    path: tuple[Triple, ...]
    entity: str | None = None
    stride: float = 0.0
    heading_degrees: float | None = None
    base: float = 0.0
    throws_shadow: bool = True

    def place(self, seconds: float) -> tuple[float, float, float, float] | None:
        """x, y, heading in degrees and phase of the gait; None while it is absent."""
        times, x, y = np.array(self.path).T
        if not times[0] <= seconds <= times[-1]:
            return None
        now = np.array([np.interp(seconds, times, x), np.interp(seconds, times, y)])
        heading = self.heading_degrees
        if heading is None:
            around = np.clip([seconds - 0.25, seconds + 0.25], times[0], times[-1])
            step_x, step_y = np.diff(np.interp(around, times, x))[0], np.diff(np.interp(around, times, y))[0]
            heading = float(np.degrees(np.arctan2(step_y, step_x)))
        walked = np.concatenate([[0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
        steps = float(np.interp(seconds, times, walked)) / self.stride if self.stride else 0.0
        phase = round(steps % 1 * GAIT_STEPS) % GAIT_STEPS / GAIT_STEPS
        return float(now[0]), float(now[1]), heading, phase

    def cloud(self, distance: float, camera: Camera, phase: float) -> Cloud:
        """Its points around its own origin, as fine as this camera needs them at this distance."""
        wanted = 1.25 * 0.85 * distance / (camera.focal_pixels * OVERSAMPLING)
        spacing = 1.25 ** float(np.floor(np.log(wanted) / np.log(1.25)))
        return cloud_of(self.model, spacing, phase)


def plain_light(seconds: float) -> Triple:
    """Light that stays as it is."""
    return 1.0, 1.0, 1.0


@dataclass(frozen=True)
class Scene:
    """One clip.

    Attributes:
        video: its path below the archive; the folder is the camera's name.
        frame_times: presentation times in seconds of every frame.
        camera: where the camera is at a time; `moves` says whether that changes.
        planes: the world behind the actors, far to near.
        light: gain of red, green and blue at a time.
        noise: standard deviation of the sensor noise, 0 to 255.
        codec, options: how it is encoded.
        start_seconds: the container's time of the first frame.
        ticks: units of the encoder's clock in one second.
    """

    video: str
    frame_times: tuple[float, ...]
    camera: Callable[[float], Camera]
    planes: tuple[Plane, ...]
    actors: tuple[Actor, ...] = ()
    moves: bool = False
    sun: Triple = SUN
    sunlight: float = 0.75
    light: Callable[[float], Triple] = plain_light
    noise: float = 1.2
    codec: str = "libx264"
    options: dict[str, str] = field(default_factory=lambda: {"preset": "veryfast", "crf": "25"})
    start_seconds: float = 0.0
    ticks: int = 90000
    seed: int = 0

    @cached_property
    def size(self) -> tuple[int, int]:
        """Width and height in pixels."""
        camera = self.camera(0.0)
        return camera.width, camera.height


@dataclass(frozen=True, slots=True)
class Seen:
    """One entity in one frame: the share of it that is visible, and the box of that part, half-open."""

    entity: str
    share: float
    box: Box


class Stage:
    """Draws the frames of one scene; keeps what does not change from frame to frame."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._random = generator(scene.seed)
        width, height = scene.size
        grain = self._random.normal(0, 1, (height + 64, width + 64, 3)).astype(np.float32)
        self._grain = cv2.GaussianBlur(grain, (0, 0), 0.6) * np.float32(1.5 * scene.noise)
        self._still: dict[int, tuple[object, Sprite | None, Floats | None]] = {}
        self._backdrop: Floats | None = None

    def frame(self, seconds: float) -> tuple[Picture, list[Seen]]:
        """(H, W, 3) uint8 RGB and the entities in it."""
        camera = self.scene.camera(seconds)
        picture = self._background(camera)
        sprites: list[tuple[float, Actor, Sprite]] = []
        for index, actor in enumerate(self.scene.actors):
            sprite, dark = self._drawn(index, actor, seconds, camera)
            if dark is not None:
                _darken(picture, dark, SHADOW_DARKNESS * self.scene.sunlight)
            place = actor.place(seconds)
            if sprite is not None and place is not None:
                distance = length(np.subtract((*place[:2], actor.base), camera.position))
                sprites.append((distance, actor, sprite))
        sprites.sort(key=lambda item: -item[0])
        for _, _, sprite in sprites:
            inside, part = sprite.windows(camera.width, camera.height)
            picture[inside] = picture[inside] * (1 - sprite.alpha[part])[..., None] + sprite.colours[part]
        return self._developed(picture, seconds), _visible(sprites, camera)

    def _background(self, camera: Camera) -> Floats:
        if self.scene.moves:
            picture = np.zeros((camera.height, camera.width, 3), np.float32)
            for plane in self.scene.planes:
                paint_plane(picture, camera, plane)
            return picture
        if self._backdrop is None:
            large = Camera(
                camera.position, camera.target, camera.angle_degrees, camera.width * 2, camera.height * 2
            )
            picture = np.zeros((large.height, large.width, 3), np.float32)
            for plane in self.scene.planes:
                paint_plane(picture, large, plane)
            self._backdrop = cv2.resize(picture, (camera.width, camera.height), interpolation=cv2.INTER_AREA)
        return self._backdrop.copy()

    def _drawn(
        self, index: int, actor: Actor, seconds: float, camera: Camera
    ) -> tuple[Sprite | None, Floats | None]:
        """The actor's sprite and shadow; not drawn again while nothing has moved."""
        key = (actor.place(seconds), camera)
        if index in self._still and self._still[index][0] == key:
            return self._still[index][1:]
        sprite = dark = None
        if key[0] is not None:
            x, y, heading, phase = key[0]
            near = camera.seen_from(heading, (x, y, actor.base))
            sun = turned(np.array(self.scene.sun), -heading).tolist()
            cloud = actor.cloud(length(near.position), camera, phase)
            sprite = draw(cloud, near, sun, self.scene.sunlight)
            dark = shadow(cloud, near, sun) if actor.throws_shadow else None
        self._still[index] = (key, sprite, dark)
        return sprite, dark

    def _developed(self, picture: Floats, seconds: float) -> Picture:
        """Light and sensor noise."""
        gain = self.scene.light(seconds)
        if gain != (1.0, 1.0, 1.0):
            picture *= np.asarray(gain, np.float32)
        if self.scene.noise:
            down, right = self._random.integers(0, 64, 2)
            picture += self._grain[down : down + picture.shape[0], right : right + picture.shape[1]]
        return np.clip(picture, 0, 255, out=picture).astype(np.uint8)


def _darken(picture: Floats, dark: Floats, share: float) -> None:
    """Take a share of the light where a shadow falls, in place; most of a frame has none."""
    rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    if len(rows):
        part = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        picture[part] *= 1 - share * dark[part][..., None]


def _visible(sprites: list[tuple[float, Actor, Sprite]], camera: Camera) -> list[Seen]:
    """What of each entity is inside the frame and not behind something; `sprites` come far to near."""
    free = np.ones((camera.height, camera.width), np.float32)
    found = []
    for _, actor, sprite in reversed(sprites):
        inside, part = sprite.windows(camera.width, camera.height)
        shown = sprite.alpha[part] * free[inside]
        free[inside] *= 1 - sprite.alpha[part]
        if actor.entity is None:
            continue
        rows, columns = np.flatnonzero((shown > 0.3).any(axis=1)), np.flatnonzero((shown > 0.3).any(axis=0))
        if not len(rows):
            continue
        top, left = inside[0].start, inside[1].start
        box = (left + columns[0], top + rows[0], left + columns[-1] + 1, top + rows[-1] + 1)
        share = float(shown.sum() / sprite.alpha.sum())
        found.append(Seen(actor.entity, share, tuple(int(edge) for edge in box)))
    return found


@dataclass
class Truth:
    """What one clip shows: entity -> frame -> box where it is visible, and the frames that do not count."""

    frames: int
    boxes: dict[str, dict[int, Box]] = field(default_factory=dict)
    unsure: dict[str, set[int]] = field(default_factory=dict)

    def add(self, frame: int, seen: list[Seen]) -> None:
        """Take in one frame; of two pictures of an entity the better visible one counts."""
        for one in sorted(seen, key=lambda s: s.share):
            small = min(one.box[2] - one.box[0], one.box[3] - one.box[1]) < SMALLEST_SIDE_PIXELS
            if one.share >= VISIBLE_SHARE and not small:
                self.boxes.setdefault(one.entity, {})[frame] = one.box
            else:
                self.unsure.setdefault(one.entity, set()).add(frame)

    def ignored(self, entity: str) -> list[list[int]]:
        """Intervals in which too little can be seen, with a frame on either side of every entry."""
        visible = set(self.boxes.get(entity, {}))
        edges = {f + step for f in visible for step in (-1, 1)}
        near = {f for f in self.unsure.get(entity, set()) | edges if 0 <= f < self.frames}
        return intervals(near - visible)

    def visible(self, entity: str) -> list[list[int]]:
        """Inclusive intervals of frames."""
        return intervals(set(self.boxes.get(entity, {})))


def intervals(frames: set[int]) -> list[list[int]]:
    """Inclusive [first, last] runs of consecutive numbers."""
    runs: list[list[int]] = []
    for frame in sorted(frames):
        if runs and runs[-1][1] == frame - 1:
            runs[-1][1] = frame
        else:
            runs.append([frame, frame])
    return runs


def shoot(scene: Scene, path: Path, recorded_utc: str) -> Truth:
    """Draw and encode a scene; its container says that time 0 of the scene was then."""
    truth = Truth(len(scene.frame_times))
    begun = datetime.fromisoformat(recorded_utc) + timedelta(seconds=int(scene.frame_times[0]))
    write_clip(path, scene, _frames(scene, truth), f"{begun.isoformat()}Z")
    return truth


def _frames(scene: Scene, truth: Truth) -> Iterator[Picture]:
    stage = Stage(scene)
    for index, seconds in enumerate(scene.frame_times):
        picture, seen = stage.frame(seconds)
        truth.add(index, seen)
        yield picture


def write_clip(path: Path, scene: Scene, pictures: Iterator[Picture], recorded: str) -> None:
    """Encode pictures at the scene's frame times, exact to a tick of the encoder's clock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    span = scene.frame_times[-1] - scene.frame_times[0]
    rate = Fraction((len(scene.frame_times) - 1) / span).limit_denominator(100)
    # Encoders, too, round as the processor likes; Matroska and WebM would hold random numbers.
    options = {"flags": "+bitexact", **scene.options}
    if scene.codec == "libx264":
        options["x264-params"] = "cpu-independent=1"
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as container:
        container.metadata["creation_time"] = recorded
        stream = container.add_stream(scene.codec, rate=rate, options=options)
        stream.width, stream.height = scene.size
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = Fraction(1, scene.ticks)
        stream.codec_context.thread_count = 1
        for seconds, picture in zip(scene.frame_times, pictures, strict=True):
            # The encoder's own conversion was seen to differ from run to run where height / 2 is odd.
            planes = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420)
            frame = av.VideoFrame.from_ndarray(planes, format="yuv420p")
            frame.pts = round((seconds + scene.start_seconds) * scene.ticks)
            frame.time_base = Fraction(1, scene.ticks)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def photograph(
    model: Model, camera: Camera, planes: tuple[Plane, ...], heading_degrees: float, sun: Triple, phase: float
) -> Picture:
    """A photo of one model for the album, cut out with a little of what surrounds it."""

    def posed(spacing: float, _: float) -> Cloud:
        return cloud_of(model, spacing, phase)

    actor = Actor(posed, ((0.0, 0.0, 0.0),), entity="it", heading_degrees=heading_degrees)
    scene = Scene("photo", (0.0,), lambda _: camera, planes, (actor,), sun=sun, noise=1.5, seed=5)
    picture, seen = Stage(scene).frame(0.0)
    x1, y1, x2, y2 = seen[0].box
    margin = round(0.06 * max(x2 - x1, y2 - y1))
    return picture[max(0, y1 - margin) : y2 + margin, max(0, x1 - margin) : x2 + margin]


def fixed(camera: Camera) -> Callable[[float], Camera]:
    """A camera that stays."""
    return lambda seconds: camera


def steady(frames_per_second: float, seconds: float) -> tuple[float, ...]:
    """Frame times of a constant rate."""
    return tuple(n / frames_per_second for n in range(round(frames_per_second * seconds)))


def uneven(frames_per_second: float, seconds: float, seed: int) -> tuple[float, ...]:
    """Frame times of a phone: the rate drifts, single frames are dropped; whole milliseconds."""
    random: np.random.Generator = generator(seed)
    gaps: NDArray[np.float64] = (
        random.uniform(0.8, 1.25, round(frames_per_second * seconds)) / frames_per_second
    )
    gaps[random.random(len(gaps)) < 0.06] *= 2
    times = np.round(np.concatenate([[0], np.cumsum(gaps)]), 3)
    return tuple(float(t) for t in times[times < seconds])
