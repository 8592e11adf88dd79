"""An entity and a track come in; why the track was accepted, left uncertain or rejected goes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panorama.album.seen_pictures import id_seen
from panorama.commands import command, command_of
from panorama.crops import decode_picture
from panorama.errors import BadImage, EntityError, UsageError
from panorama.query.matching.decide import bands, cohort_level, normalise
from panorama.query.matching.matches import ACCEPTED, BAND_NAMES, MatchRequest
from panorama.query.matching.scoring import Sought, denied_values
from panorama.shown.why import ONE_WAY, Beside, Likeness, Place, Rgb, Rival, Step, Why

if TYPE_CHECKING:
    from panorama.library import Library
    from panorama.query.matching.matcher import AlbumMatcher
    from panorama.store import Exemplar

NEAREST = 8
"""Number of other entities whose score is computed to find the next best: those with the nearest examples."""

_TRACK = "SELECT video, start_time, end_time FROM tracks WHERE track_id = ? AND ($2 IS NULL OR video = $2)"
_CROPS = "SELECT crop_id, frame, time FROM crops WHERE track_id = ? AND video = ? ORDER BY crop_id"
_FILES = (
    "SELECT video, uri, start_clock FROM videos"
    " WHERE video = (SELECT min(video) FROM tracks WHERE track_id = ?) OR video = $2"
)
_NAMES = "SELECT picture FROM frames WHERE video = ? AND picture IS NOT NULL"
_PICTURES = """
SELECT (SELECT picture FROM frames f WHERE f.video = t.video AND f.frame = $3),
    (SELECT picture FROM frames f WHERE f.video = t.video AND f.frame = t.start_frame),
    (SELECT picture FROM frames f WHERE f.video = t.video AND f.frame = t.end_frame - 1)
FROM tracks t WHERE t.track_id = $1 AND t.video = $2
"""
_OF_CROP = "SELECT track_id FROM crops WHERE crop_id = ?"
_AT_TIME = "SELECT track_id FROM tracks WHERE video = ? AND start_time <= $2 AND $2 < end_time ORDER BY 1"
_AT_FRAME = "SELECT track_id FROM tracks WHERE video = ? AND start_frame <= $2 AND $2 < end_frame ORDER BY 1"
_NEAR_TIME = (
    "SELECT format('{:.1f} to {:.1f} s', start_time, end_time) FROM tracks WHERE video = ?"
    " ORDER BY greatest(start_time - $2, $2 - end_time), track_id LIMIT 1"
)
_NEAR_FRAME = (
    "SELECT format('frame {} to {}', start_frame, end_frame - 1) FROM tracks WHERE video = ?"
    " ORDER BY greatest(start_frame - $2, $2 - end_frame), track_id LIMIT 1"
)


def explain(library: Library, matcher: AlbumMatcher, entity: str, place: Place) -> Why:
    """Why the track at a place has its band for an entity.

    Raises:
        UnknownEntity, UnknownVideo: there is no such entity or video.
        UsageError: there is no track, or none of its crops has a vector.
        EntityError: the entity has no example to compare with, or none with vectors.
    """
    name = library.entity(entity).name
    pictures = library.exemplars(name)
    if all(picture.negative for picture in pictures):
        only = ", only pictures of other things" if pictures else ""
        add = command_of("register", name, behind="IMAGE...")
        raise EntityError(f"{name!r} has no example{only}; add one: {add}")
    views = matcher.source.album(matcher.embedder.exits)
    if not ((views.entity_index == views.entities.index(name)) & ~views.negative).any():
        raise EntityError(
            f"no example of {name!r} has vectors of {matcher.embedder.name}, so nothing is compared with it;"
            f" run `{command('index')}` again, which says why"
        )
    if place.video is not None:
        place = _named(library, place, place.video)
    tracks = _tracks_at(library, place)
    scored = matcher.match(MatchRequest((name,), tracks=np.array(tracks, np.int64), keep="all"))
    if not len(scored):
        raise UsageError(f"no crop of the track {tracks[0]} was embedded; run `{command('index')}` again")
    # Several tracks may be there at the same time: take the one that fits best.
    row = int(np.lexsort((scored.track_id, -scored.score, -scored.band.astype(int)))[0])
    track_id, crop_id, decided = (int(c[row]) for c in (scored.track_id, scored.crop_id, scored.exit))
    video, start, end = _one(library, _TRACK, [track_id, place.video], f"no track {track_id}")
    crops = {c: (f, t) for c, f, t in library.query(_CROPS, [track_id, video]).fetchall()}
    frame, seconds = crops[crop_id]
    account = _Account(library, matcher, name, track_id, np.array(sorted(crops), np.int64), decided)
    score, band = float(scored.score[row]), BAND_NAMES[int(scored.band[row])]
    beside = account.beside() if band != "rejected" else None
    steps = account.steps(score, band, beside)
    return Why(
        name, video, track_id, start, end, crop_id, frame, seconds, score, band, decided,
        matcher.embedder.exits, steps,
        account.exemplar(int(scored.exemplar_id[row]), crop_id, score, band), account.own(crop_id),
        account.runner_up(), account.look_alike(), account.unlike(crop_id),
        account.denied(), account.pointed_at(), account.best_score(), account.alone(),
        beside, account.rivals(band, steps[-1]), len(tracks),
        matcher.embedder.name, matcher.embedder.hash, library.crop(crop_id),
        *_pictures(library, video, track_id, frame), place.frame,
    )  # fmt: skip


def _named(library: Library, place: Place, video: str) -> Place:
    """A place with the name that its video has in the library.

    Raises:
        UsageError: there is only a video, and it is no picture of a folder.
    """
    # Most queries need nothing that reads video.
    from panorama.cameras.listed_pictures import picture_place
    from panorama.cameras.listed_videos import names_of

    listed = library.videos()
    if place == Place(video):
        found = picture_place(video, listed, lambda sql, values: library.query(sql, values).fetchall())
        if found is not None:
            return Place(found.video, frame=found.frame)
    name = names_of([video], listed)[0]
    if place == Place(video):
        raise UsageError(ONE_WAY)
    return replace(place, video=name)


def _pictures(library: Library, video: str, track_id: int, frame: int) -> tuple[str, tuple[str, ...]]:
    """The picture that a frame is, and the first and the last of a track; '' and () for films."""
    (found,) = library.query(_PICTURES, [track_id, video, frame]).fetchall()
    name, *ends = found
    return name or "", tuple(end for end in ends if end)


def _one(library: Library, sql: str, values: Sequence[Any], missing: str) -> tuple[Any, ...]:
    rows = library.query(sql, values).fetchall()
    if not rows:
        raise UsageError(f"{missing}; a query over tracks, sightings or crops lists them")
    return tuple(rows[0])


def _tracks_at(library: Library, place: Place) -> list[int]:
    """Ids of the tracks at a place, at least one."""
    if place.track_id is not None:
        return [_seen_in(library, id_seen(library, "track", place.track_id), place.video)]
    if place.crop_id is not None:
        crop_id = id_seen(library, "crop", place.crop_id)
        track_id = int(_one(library, _OF_CROP, [crop_id], f"no crop {crop_id}")[0])
        return [_seen_in(library, track_id, place.video)]
    at: float | None = place.frame
    sql, near, where = _AT_FRAME, _NEAR_FRAME, f"frame {at}"
    if place.seconds is not None:
        at, sql, near, where = place.seconds, _AT_TIME, _NEAR_TIME, f"{place.seconds:g} s"
    rows = library.query(sql, [place.video, at]).fetchall()
    if not rows:
        nearest = library.query(near, [place.video, at]).fetchall()
        there = f"the nearest one lasts from {nearest[0][0]}" if nearest else "it has none"
        raise UsageError(f"no track of {place.video} covers {where}; {there}")
    return [int(row[0]) for row in rows]


def _seen_in(library: Library, track_id: int, video: str | None) -> int:
    """The track, if it is of this video, or of any if that is None."""
    of, *_ = _one(library, _TRACK, [track_id, None], f"no track {track_id}")
    if video is not None and not library.query(_TRACK, [track_id, video]).fetchall():
        raise UsageError(f"track {track_id} is of {of}, not of {video}: name that video, or none")
    return track_id


class _Account:
    """Compares the track's crops with the album at the exit that decided."""

    def __init__(
        self,
        library: Library,
        matcher: AlbumMatcher,
        name: str,
        track_id: int,
        crop_ids: NDArray[np.int64],
        exit: int,
    ) -> None:
        self._library, self._matcher, self._name, self._exit = library, matcher, name, exit
        self._track = np.array([track_id], np.int64)
        self._album = matcher.source.album(exit)
        self._cohort = matcher.embedder.cohorts()[exit - 1]
        self._sought = Sought.of(self._album, name, self._cohort, matcher.source.said(name))
        crops = matcher.source.deepen(crop_ids, exit)
        self._crop_ids = crops.crop_ids
        self._vectors = np.asarray(crops.vectors)  # (crops, dim)
        self._similarity = np.asarray(self._album.vectors @ self._vectors.T)  # (views, crops)

    def steps(self, score: float, band: str, beside: Beside | None) -> tuple[Step, ...]:
        """The exits up to the one that decided; that one is reported as decided."""
        found = []
        first = self._matcher.first_exit()
        for exit in range(first, self._exit + 1):
            if first < exit < self._exit and self._matcher.passes_by(exit):
                continue
            calibration, best = self._matcher.rules(self._name)[exit - 1], self._best(exit)
            floor = float(calibration.score(np.array(calibration.near_best * max(best, 0.0))))
            if exit < self._exit:
                normalised = self._normalised(self._name, exit)
                score_here = float(calibration.score(normalised)[0])
                band_here = BAND_NAMES[int(bands(normalised, calibration, best)[0])]
            else:
                score_here, band_here = score, band
                floor = max(floor, 0.0 if beside is None else beside.floor)
            found.append(Step(exit, score_here, band_here, calibration.low, calibration.high, floor))
        return tuple(found)

    def _best(self, exit: int) -> float:
        return self._matcher.best(self._name).get(exit, 0.0)

    def best_score(self) -> float:
        """The score of the entity's best track at the exit that decided, or the deepest exit evaluated."""
        bests = self._matcher.best(self._name)
        exit = self._exit if self._exit in bests else max(bests, default=self._exit)
        return float(self._matcher.calibrations[exit - 1].score(np.array(self._best(exit))))

    def alone(self) -> float:
        """The track's score at the exit that decided, before comparison with other tracks."""
        calibration = self._matcher.rules(self._name)[self._exit - 1]
        return float(calibration.score(self._normalised(self._name, self._exit))[0])

    def beside(self) -> Beside | None:
        """The best accepted track of the track's scene, or of its site, as `kinship` determines it."""
        calibration, source = self._matcher.rules(self._name)[-1], self._matcher.source
        if calibration.near_in_video <= 0:
            return None
        found = self._matcher.match(MatchRequest((self._name,)))
        accepted = np.sort(found.track_id[found.band == ACCEPTED])
        scene = source.scenes(self._track)
        mates = accepted[source.sites(source.scenes(accepted)) == source.sites(scene)]
        looked = self._matcher.second_look(self._name, self._matcher.embedder.exits, mates)
        if looked is None or not len(looked):
            return None
        row = int(looked.unaided.argmax())
        here = source.scenes(looked.track_ids) == scene
        if here.any():
            nearest = int(np.where(here, looked.unaided, -np.inf).argmax())
            if looked.unaided[nearest] >= calibration.near_on_site * looked.unaided[row]:
                row = nearest
        value = max(float(looked.unaided[row]), 0.0)
        score, floor = calibration.score(np.array([value, calibration.near_in_video * value])).tolist()
        track_id = int(looked.track_ids[row])
        video, start, first = self._beginning(track_id)
        apart = bool(here[row]) and self._days_unread(video)
        return Beside(video, track_id, start, score, floor, bool(here[row]), apart, first)

    def rivals(self, band: str, last: Step) -> tuple[Rival, ...]:
        """The other tracks that contest the scene of the track, or a confirmed one, as in `kinship`."""
        pair = self._matcher.contest(self._name, int(self._track[0]))
        confirmed = len(pair) == 1
        if band != "uncertain" or (confirmed and self.alone() < max(last.high, last.floor)):
            return ()
        others = np.array(sorted(set(pair) - set(self._track.tolist())), np.int64)
        looked = self._matcher.second_look(self._name, self._matcher.embedder.exits, others)
        if looked is None:
            return ()
        found = []
        for row in np.argsort(-looked.unaided):
            track_id = int(looked.track_ids[row])
            video, start, first = self._beginning(track_id)
            score = float(self._matcher.rules(self._name)[-1].score(looked.unaided[row]))
            found.append(Rival(video, track_id, start, score, confirmed, first))
        return tuple(found)

    def _beginning(self, track_id: int) -> tuple[str, float, str]:
        """Where a track begins: its video, the time, and the picture in a folder of pictures, else ''."""
        video, start, _ = _one(self._library, _TRACK, [track_id, None], f"no track {track_id}")
        _, names = _pictures(self._library, video, track_id, 0)
        return video, start, names[0] if names else ""

    def _days_unread(self, other: str) -> bool:
        """Whether the names of this track's video and another tell different days, and no time was read."""
        from panorama.cameras.unread import of_different_days  # most queries need nothing that reads video

        files = self._library.query(_FILES, [int(self._track[0]), other]).fetchall()
        if len(files) < 2 or any(start is not None for *_, start in files):
            return False
        pictures = [self._library.query(_NAMES, [video]).fetchall() for video, *_ in files]
        names = [[name for (name,) in rows] for rows in pictures]
        return of_different_days(*(of or [uri] for of, (_, uri, _) in zip(names, files, strict=True)))

    def _normalised(self, name: str, exit: int) -> NDArray[np.float32]:
        looked = self._matcher.second_look(name, exit, self._track)
        return np.full(1, -1.0, np.float32) if looked is None else looked.normalised

    def exemplar(self, exemplar_id: int, crop_id: int, score: float, band: str) -> Likeness:
        """The picture that matched, with the crop that it matched."""
        return self._likeness(exemplar_id, self._column(crop_id), score, band)

    def own(self, crop_id: int) -> float:
        """The normalised value of a crop by the examples alone."""
        return float(self._near(crop_id)[: len(self._sought.positive)].max())

    def unlike(self, crop_id: int) -> float | None:
        """The normalised value of a crop by the look-alikes alone; None if there are none."""
        near = self._near(crop_id)[len(self._sought.positive) :]
        return float(near.max()) if len(near) else None

    def denied(self) -> Likeness | None:
        """The denied picture that keeps the track out: one cut from it, else the nearest; None for none."""
        sought = self._sought
        if sought.said.accepts(self._track).any():
            return None
        if sought.said.denies(self._track).any():
            return self._last_said()
        near = denied_values(sought, self._vectors)  # (D, crops)
        if not len(near) or near.max() == -np.inf:
            return None
        row, column = np.unravel_index(int(near.argmax()), near.shape)
        return self._likeness(int(sought.denied_ids[row]), int(column))

    def pointed_at(self) -> Likeness | None:
        """The example that was cut from the track, if no later denial contradicts it; otherwise None."""
        return self._last_said() if self._sought.said.accepts(self._track).any() else None

    def _last_said(self) -> Likeness | None:
        exemplar_id = self._sought.said.last_of(int(self._track[0]))
        return self._nearest(np.flatnonzero(self._album.exemplar_ids == exemplar_id))

    def _near(self, crop_id: int) -> NDArray[np.float32]:
        sought = self._sought
        known = np.concatenate([sought.positive, sought.negative])
        return normalise(known @ self._vectors[self._column(crop_id)][:, None], sought.level)[:, 0]

    def look_alike(self) -> Likeness | None:
        """The registered look-alike of the entity that comes nearest; None if there is none."""
        return self._nearest(np.flatnonzero(self._mine & self._album.negative & ~self._album.denied))

    @property
    def _mine(self) -> NDArray[np.bool_]:
        return np.asarray(self._album.entity_index == self._album.entities.index(self._name))

    def _column(self, crop_id: int) -> int:
        return int(np.flatnonzero(self._crop_ids == crop_id)[0])

    def runner_up(self) -> Likeness | None:
        """The best-matching picture of the other entity with the highest score; None if there is none."""
        album = self._album
        rows = np.flatnonzero(~album.negative & (album.entity_index != album.entities.index(self._name)))
        if not len(rows):
            return None
        level = cohort_level(album.vectors[rows], self._cohort)
        near = normalise(self._similarity[rows], level).max(axis=1)
        owners = album.entity_index[rows[np.argsort(-near, kind="stable")]]
        names = [album.entities[int(owner)] for owner in dict.fromkeys(owners.tolist())][:NEAREST]
        request = MatchRequest(tuple(names), tracks=self._track, keep="all")
        scored = self._matcher.match(request)
        if not len(scored):
            return None
        row = int(scored.score.argmax())
        band = BAND_NAMES[int(scored.band[row])]
        column = self._column(int(scored.crop_id[row]))
        return self._likeness(int(scored.exemplar_id[row]), column, float(scored.score[row]), band)

    def _nearest(self, rows: NDArray[np.intp]) -> Likeness | None:
        if not len(rows):
            return None
        row, column = np.unravel_index(int(self._similarity[rows].argmax()), self._similarity[rows].shape)
        return self._likeness(int(self._album.exemplar_ids[rows[row]]), int(column))

    def _likeness(
        self, exemplar_id: int, column: int, score: float | None = None, band: str | None = None
    ) -> Likeness:
        rows = np.flatnonzero(self._album.exemplar_ids == exemplar_id)
        entity = self._album.entities[int(self._album.entity_index[rows[0]])]
        known = next(e for e in self._library.exemplars(entity) if e.exemplar_id == exemplar_id)
        return Likeness(
            entity,
            exemplar_id,
            known.source,
            int(self._crop_ids[column]),
            float(self._similarity[rows, column].max()),
            score,
            band,
            _picture(known),
        )


def _picture(exemplar: Exemplar) -> Rgb | None:
    try:
        return decode_picture(exemplar.picture.read_bytes(), exemplar.source)
    except (OSError, BadImage):
        return None  # the explanation in numbers is complete without it
