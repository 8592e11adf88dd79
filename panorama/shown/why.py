"""The decision about a track comes in; a `Why` goes out that explains it in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.commands import command
from panorama.errors import UsageError
from panorama.lines import clock

Rgb = NDArray[np.uint8]

GREY_SPREAD = 4
"""How far apart the channels of a grey picture may be, in 99 of 100 pixels: JPEG rounds them apart."""

MUCH_DARKER = 0.5
"""A track with less than this share of the example's light is much darker. Examples are also compared in 0.7
of their light (decision 63); what has less than half was mostly found by darkened examples alone.
"""

LIGHT = 90
"""Percentile of brightness that stands for a picture's light: the mean tells of a background, as of white."""

ONE_WAY = (
    "name one track in one way: a video and a time (--at) or a frame (--frame), the path of a picture in a"
    " folder of pictures, a row's track_id (--track) or its crop_id (--crop)"
)


@dataclass(frozen=True, slots=True)
class Place:
    """The track to explain: by its id, by one of its crops, or by a place in a video.

    Attributes:
        video: name in the library, or path; needed with `seconds` or `frame`. By itself, the path of a
            picture in a folder of pictures.
        seconds, frame: where in the video.
        track_id, crop_id: ids as a query returns them, or text as the commands of a page name them.
    """

    video: str | None = None
    seconds: float | None = None
    frame: int | None = None
    track_id: int | str | None = None
    crop_id: int | str | None = None

    def __post_init__(self) -> None:
        ways = [self.track_id, self.crop_id, self.seconds, self.frame]
        given = sum(way is not None for way in ways)
        if given > 1 or (not given and self.video is None):
            raise UsageError(ONE_WAY)
        if (self.seconds is not None or self.frame is not None) and self.video is None:
            raise UsageError("a time or a frame needs a video")


@dataclass(frozen=True, slots=True)
class Likeness:
    """How well one image of the album fits the track.

    Attributes:
        entity, exemplar_id, source: the image and what it stands for.
        crop_id: the track's crop that fits the image best.
        similarity: cosine between that crop and the nearest view of the image.
        score, band: of the track for that entity; None for a look-alike, which has neither.
        picture: as registered; None if its file cannot be read.
    """

    entity: str
    exemplar_id: int
    source: str
    crop_id: int
    similarity: float
    score: float | None = None
    band: str | None = None
    picture: Rgb | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Step:
    """What one exit found for the track: its score there, the thresholds, and the resulting band.

    `floor` is the lowest score that is close enough to the entity's best track; at the exit that decided, it
    is also close enough to the best track of the scene.
    """

    exit: int
    score: float
    band: str
    low: float
    high: float
    floor: float


@dataclass(frozen=True, slots=True)
class Beside:
    """The best accepted track of a scene. Other tracks of the scene must come close to it to be accepted.

    If no accepted track of the scene comes close enough to the best one at its site, seen in another scene,
    that one counts.

    Attributes:
        video, track_id, start_seconds: the track; a scene may span several videos of one camera.
        score: its own, without examples that were cut from it.
        floor: the lowest score that is close enough to it.
        same_scene: whether it lies in the scene itself.
        unread_days: whether no time is known of its video nor of the track's, and their names look like
            recording times of different days, which are different scenes.
        picture: its first picture in a folder of pictures; '' for films.
    """

    video: str
    track_id: int
    start_seconds: float
    score: float
    floor: float
    same_scene: bool = True
    unread_days: bool = False
    picture: str = ""


@dataclass(frozen=True, slots=True)
class Rival:
    """A track of the same scene that fits about as well and looks different, so that neither stands out.

    Attributes:
        video, track_id, start_seconds: the track.
        score: its own, without examples that were cut from it.
        confirmed: whether a user confirmed it.
        picture: its first picture in a folder of pictures; '' for films.
    """

    video: str
    track_id: int
    start_seconds: float
    score: float
    confirmed: bool = False
    picture: str = ""


@dataclass(frozen=True, slots=True)
class Why:
    """Why a track has its band for an entity.

    Attributes:
        entity, video, track_id, start_seconds, end_seconds: the entity and the track.
        crop_id, frame, seconds: the track's crop that fits best.
        score, band, exit: the decision.
        exits: how many exits the embedder has.
        steps: the exits evaluated, shallowest first; the last one decided.
        exemplar: the image of the entity that matched.
        own: how much more the crop resembles the entity than strangers do, by the nearest view of its
            examples and by their mean: 1 for the same picture, 0 for the nearest strangers. For a category it
            includes what all examples share, and its longer reach, so it can exceed 1.
        runner_up: the best image of another entity; None if there is none.
        look_alike: the nearest registered look-alike of the entity; None if there is none.
        unlike: the same as `own` for the look-alikes; None without one. If it exceeds `own`, the score loses
            twice the difference.
        denied: the picture denied for this entity that the track could show; None if there is none.
        pointed_at: the example that was cut from this very track, which therefore is accepted; None
            otherwise.
        best_score: of the entity's best track at the exit that decided, not counting examples cut from the
            track itself. Tracks of a category are not compared with it.
        alone: the track's score before comparison with other tracks.
        beside: the best track of its scene; None if none is accepted there, or tracks are not compared.
        rivals: if it is uncertain because tracks of its scene contest each other, these without the track
            itself, or a confirmed one that it contests; () otherwise.
        tracks_there: number of tracks at the place given; this one fits best.
        model, model_hash: the embedder.
        crop: the crop's picture.
        picture: the file that the crop was cut from, in a folder of pictures; '' for films.
        pictures: the first and the last picture of the track there; () for films.
        asked_frame: the frame whose tracks were asked about, by its number or by its picture; None otherwise.
    """

    entity: str
    video: str
    track_id: int
    start_seconds: float
    end_seconds: float
    crop_id: int
    frame: int
    seconds: float
    score: float
    band: str
    exit: int
    exits: int
    steps: tuple[Step, ...]
    exemplar: Likeness
    own: float
    runner_up: Likeness | None
    look_alike: Likeness | None
    unlike: float | None
    denied: Likeness | None
    pointed_at: Likeness | None
    best_score: float
    alone: float
    beside: Beside | None
    rivals: tuple[Rival, ...]
    tracks_there: int
    model: str
    model_hash: str
    crop: Rgb | None = field(default=None, repr=False, compare=False)
    picture: str = ""
    pictures: tuple[str, ...] = ()
    asked_frame: int | None = None

    @property
    def span(self) -> str:
        """From when to when the track lasts; in a folder of pictures, from which picture to which."""
        times = f"{clock(self.start_seconds)} - {clock(self.end_seconds)}"
        return " - ".join(dict.fromkeys(self.pictures)) or times

    @property
    def crop_place(self) -> str:
        """Where the crop was cut out."""
        where = self.picture or f"at {clock(self.seconds)}"
        return f"frame {self.frame}, {where}"

    @property
    def reason(self) -> str:
        """The decision in a sentence or two."""
        parts = [_border_text(self)]
        rival = self.look_alike
        if self.denied is not None:
            parts.append(
                f"It could be a picture of {self.denied.source}, which was marked as not {self.entity!r}."
            )
        elif rival is not None and self.unlike is not None and self.unlike > self.own:
            parts.append(
                f"The look-alike {rival.source} fits better than any example"
                f" ({self.unlike:.3f} against {self.own:.3f}; strangers are at 0): it loses twice its lead."
            )
        other = self.runner_up
        if other is not None and self.band != "accepted" and other.band == "accepted":
            parts.append(f"The track is taken for {other.entity!r} (score {other.score:.3f}).")
        if self.band != "accepted":
            seen = self.crop, self.exemplar.picture
            parts += filter(None, (_colour_advice(*seen), _light_advice(self.entity, *seen)))
        return " ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the pictures, for JSON."""
        found = asdict(self)
        del found["crop"]
        for name in ("exemplar", "runner_up", "look_alike", "denied", "pointed_at"):
            if found[name] is not None:
                del found[name]["picture"]
        return {**found, "reason": self.reason}


def _colour_advice(track: Rgb | None, example: Rgb | None) -> str:
    """What to register if only one of two pictures has colour; '' otherwise, or if one is missing."""
    if track is None or example is None or _is_grey(track) == _is_grey(example):
        return ""
    if _is_grey(track):
        return "The track is grey, as in infrared, and the example is in colour: register grey examples, too."
    return "The example is grey and the track is in colour: register examples in colour, too."


def _light_advice(entity: str, track: Rgb | None, example: Rgb | None) -> str:
    """What to register if the track is in much less light; '' otherwise, or if a picture is missing."""
    if track is None or example is None:
        return ""
    if np.percentile(track, LIGHT) >= MUCH_DARKER * np.percentile(example, LIGHT):
        return ""
    return (
        f"The track is much darker than the example, as at night: if it is {entity!r}, register examples in"
        " such light, too, or the same pictures, darkened."
    )


def _is_grey(picture: Rgb) -> bool:
    """Whether a picture has no colour."""
    spread = picture.max(axis=2).astype(np.int16) - picture.min(axis=2)  # (H, W)
    return float(np.percentile(spread, 99)) <= GREY_SPREAD


def _border_text(why: Why) -> str:
    last = why.steps[-1]
    where = f"at exit {why.exit} of {why.exits}"
    border = max(last.high, last.floor)
    if why.pointed_at is not None and why.alone < border:
        return (
            f"Accepted {where}: an example was cut from this track, {why.pointed_at.source}; the score is"
            f" {last.score:.3f}. Without that it scores {why.alone:.3f}, below the border of {border:.3f}."
        )
    if why.band == "accepted" and why.alone < border:
        return (
            f"Accepted {where}: it continues an accepted track of the same shot, or looks like one near in"
            f" time and not like strangers beside that; its score is {last.score:.3f}."
        )
    if why.band == "accepted":
        said = "" if why.pointed_at is None else f" An example was cut from it, {why.pointed_at.source}."
        return f"Accepted {where}: score {last.score:.3f}, accepted from {border:.3f}.{said}"
    if why.band == "rejected":
        return f"Rejected {where}: score {last.score:.3f} is below {last.low:.3f}."
    if why.alone < last.high:
        return (
            f"Uncertain {where}: score {last.score:.3f} lies between {last.low:.3f}, below which it is"
            f" rejected, and {border:.3f}, from which it is accepted."
        )
    if why.rivals:
        return (
            f"Uncertain {where}: by itself it scores {why.alone:.3f} and would be accepted from"
            f" {last.high:.3f}, {_contest_text(why)}"
        )
    best, score, advice = f"the best track of {why.entity!r}", why.best_score, ""
    if why.beside is not None and why.beside.floor >= last.floor:
        since = f"from {why.beside.picture or clock(why.beside.start_seconds)} on"
        if why.beside.video != why.video:
            since = f"in {why.beside.video} {since}"
        of = "of its scene" if why.beside.same_scene else "at its site"
        best, score = f"the best track {of}, {since},", why.beside.score
        if why.beside.unread_days:
            advice = (
                " By their names these videos are of different days, which are not compared in this way; to"
                f" read such names: {command('clock', '--time-from', 'name')}"
            )
    return (
        f"Uncertain {where}: by itself it scores {why.alone:.3f} and would be accepted from {last.high:.3f},"
        f" but {best} scores {score:.3f}, not counting examples that were cut from it, and {last.floor:.3f}"
        f" is needed to be near enough to that. Being so far behind lowers its score to {last.score:.3f}."
        f"{advice}"
    )


def _contest_text(why: Why) -> str:
    """Which tracks keep each other from acceptance, and what to do about it."""
    tracks = []
    for rival in why.rivals:
        since = f"from {rival.picture or clock(rival.start_seconds)} on"
        video = "" if rival.video == why.video else f" in {rival.video}"
        tracks.append(f"track {rival.track_id}{video}, {since} (score {rival.score:.3f})")
    if why.rivals[0].confirmed:
        return f"but it looks different from {tracks[0]}, which was confirmed and fits about as well."
    if len(tracks) == 1:
        told = f"but {tracks[0]} fits about as well and looks different"
    else:
        told = f"but of its scene {' and '.join(tracks)} fit about equally well and look different"
    return f"{told}: which of them is {why.entity!r}, if any, is not clear. Confirm the one that is."
