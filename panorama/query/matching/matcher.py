"""The album and the library's vectors come in; scored tracks go out, decided at deeper exits where needed.

Matching starts at the deepest exit that is stored for every crop. Tracks whose score falls into that exit's
uncertain band go on to the next exit. Its vectors are read from disk or computed from the stored JPEGs of
just these tracks, and kept for the next query.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from panorama.models.base import Embedder, Image
from panorama.query.matching.cascade import Cascade, IsOpen, passed_by, refine
from panorama.query.matching.cost import COSTS, Choice, Costs, choose
from panorama.query.matching.decide import Calibration, bands, cohort_level, normalise
from panorama.query.matching.ledger import note_ways, timed
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN, Matches, MatchRequest, side_by_side
from panorama.query.matching.nearest import most_similar
from panorama.query.matching.passes import Passes, VectorSource, first_exit, within
from panorama.query.matching.scoring import Scored
from panorama.query.matching.whole import NoSightings, Sightings, Whole
from panorama.store.files.schema import segment_of

__all__ = ["AlbumMatcher", "VectorSource"]


class AlbumMatcher:
    """Matches entities against tracks; the `Matcher` of a library.

    Args:
        source: vectors and exemplars of one snapshot.
        embedder: the model that computed them; its cohort sets the scale.
        calibrations: one per exit, shallowest first.
        sightings: results of earlier queries; None for none.
        costs: decides between exact comparison, index and cache.
        threads: for comparing with all vectors.
        best: exit -> what the best track of each entity counts for at least, as some may not be seen there.
    """

    def __init__(
        self,
        source: VectorSource,
        embedder: Embedder,
        calibrations: Sequence[Calibration],
        sightings: Sightings | None = None,
        costs: Costs = COSTS,
        threads: int = 1,
        best: Mapping[int, float] | None = None,
    ) -> None:
        if len(calibrations) != embedder.exits:
            raise ValueError(
                f"{embedder.name} has {embedder.exits} exits, got {len(calibrations)} calibrations"
            )
        self.source = source
        self.embedder = embedder
        self.calibrations = tuple(calibrations)
        self.threads = threads
        self._sightings = sightings or NoSightings()
        self._cohorts = embedder.cohorts()
        self._passes = Passes(source, self._cohorts, self.calibrations, costs, threads)
        self._wholes: dict[str, Whole] = {}
        self._best = dict(best or {})

    def match(self, request: MatchRequest) -> Matches:
        """Every (entity, track) that the request needs; see MatchRequest.keep."""
        names = self._names(request)
        self.prepare(names)
        if request.keep == "all":
            return side_by_side(names, self._everything(names, request))
        parts = [self._wholes[name].matches for name in names]
        return side_by_side(names, [part[within(part.track_id, request)] for part in parts])

    def prepare(self, names: Sequence[str]) -> None:
        """Match some entities against the whole library; all that are not known yet share one pass.

        Bands compare with the entity's best track, so they are set here and nowhere else.
        """
        fresh: list[str] = []
        grown: dict[bytes, dict[str, Whole]] = defaultdict(dict)
        for name in dict.fromkeys(names):
            if name in self._wholes:
                note_ways("memory", 1)
                continue
            recalled = self._sightings.recall(name)
            note_ways("cache", recalled is not None)
            if recalled is None:
                fresh.append(name)
            elif len(recalled.added):
                grown[recalled.added.tobytes()][name] = recalled.whole
            else:
                self._wholes[name] = recalled.whole
        for added, known in grown.items():
            whole = self._grow(known, np.frombuffer(added, np.int32))
            self._remember(whole)
            fresh += [name for name in known if name not in whole]
        best = dict.fromkeys(fresh, self._best)
        self._remember({name: whole for name, (whole, _) in self._found(fresh, None, best).items()})

    def _remember(self, wholes: Mapping[str, Whole]) -> None:
        """Keep results of the whole library, and only these: a query may stop here, others read meanwhile."""
        for name, whole in wholes.items():
            self._wholes[name] = whole
            self._sightings.keep(name, whole)

    def similarity(
        self, image: Image | int, request: MatchRequest
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Crop ids within the request, and their cosine to a picture or a crop, scaled to (1 + cosine) / 2.

        With `request.first` or `request.min_score`, crops that cannot be among the answers may be missing.
        """
        exit = self.first_exit()
        if isinstance(image, (int, np.integer)):
            query = self.source.deepen(np.array([image], np.int64), exit).vectors[0]
        else:
            query = self.embedder.embed([image], exit)[0]
        rows = self._passes.rows(exit, self._passes.scope(exit, request))
        found, cosine = most_similar(self.source, exit, query, rows, request, self.threads)
        crop_ids = self.source.stored(exit).crop_ids[found]
        return crop_ids, np.clip((1 + cosine.astype(np.float64)) / 2, 0, 1)

    def verify(self, first: Image, second: Image) -> tuple[float, int, int]:
        """Score, band and exit of two pictures, through the cascade; their order does not matter."""
        score, band, exit = 0.0, REJECTED, 0
        for exit in range(1, self.embedder.exits + 1):
            pair = self.embedder.embed([first, second], exit)  # (2, dim)
            level = cohort_level(pair, self._cohorts[exit - 1])
            both_ways = normalise(np.full((2, 1), pair[0] @ pair[1], np.float32), level).mean(axis=0)
            calibration = self.calibrations[exit - 1]
            score = float(calibration.score(both_ways)[0])
            band = int(bands(both_ways, calibration)[0])
            if band != UNCERTAIN:
                break
        return score, band, exit

    @property
    def categories(self) -> frozenset[str]:
        """The entities that stand for any of their kind."""
        return self.source.album(self.embedder.exits).categories

    def rules(self, name: str) -> tuple[Calibration, ...]:
        """The calibrations for one entity: the tracks of a category are not compared with each other."""
        if name not in self.categories:
            return self.calibrations
        return tuple(calibration.alone() for calibration in self.calibrations)

    def first_exit(self) -> int:
        """The deepest exit at which every crop of the library has a vector; 1 if no exit has all.

        It depends on the library, not on a scope: other parts of a query must not change a score.
        """
        return first_exit(*self.source.counts())

    def passes_by(self, exit: int) -> bool:
        """Whether tracks on their way deeper skip an exit."""
        return passed_by(self.calibrations, exit)

    def best(self, name: str) -> Mapping[int, float]:
        """The normalised value of the entity's best track at every exit used."""
        self.prepare([name])
        return self._wholes[name].best

    def contest(self, name: str, track_id: int) -> tuple[int, ...]:
        """The two tracks that contest each other for an entity in the scene of a track; () if none do.

        Of a scene with tracks that a user confirmed, one of these.
        """
        self.prepare([name])
        scene = self.source.scenes(np.array([track_id], np.int64))
        tracks = self._wholes[name].scenes.contests_of(scene)[0].tolist()
        return tuple(track for track in tracks if track)

    def accepts(self, name: str) -> bool:
        """Whether a track of the library is accepted by its looks, not only because a user confirmed it.

        An example always fits the track that it was cut from, which says nothing about finding others.
        """
        found = self.match(MatchRequest((name,)))
        accepted = np.sort(found.track_id[found.band == ACCEPTED])
        said = self.source.said(name).accepts(accepted)
        if not said.all() or not len(said):
            return bool(len(said))
        values = self._passes.by_others(name, accepted, self.embedder.exits)
        deepest = self.rules(name)[-1]
        return bool((values >= deepest.normalised(deepest.high)).any())

    def second_look(self, name: str, exit: int, track_ids: NDArray[np.int64]) -> Scored | None:
        """The values of some tracks at an exit. Tracks without crops are left out; None if none remains."""
        return self._passes.second({name: track_ids}, exit).get(name)

    def choices(self, request: MatchRequest) -> dict[str, Choice]:
        """How each entity of a request would be matched now, with the estimate of each way."""
        exit = self.first_exit()
        scope = self._passes.scope(exit, request) if request.keep == "all" else None
        least = (
            self._least(exit, request.min_score) if request.keep == "all" else self.calibrations[exit - 1].low
        )
        found: dict[str, Choice] = {}
        for name in self._names(request):
            work = self._passes.work(self._passes.sought(name, exit), exit, scope, least)
            if request.keep != "all":
                cached, added = self._remembered(name, exit)
                work = replace(work, cached=cached, added=added)
            found[name] = choose(work, self._passes.costs)
        return found

    def _names(self, request: MatchRequest) -> tuple[str, ...]:
        if request.entities is None:
            return self.source.album(self.embedder.exits).entities
        return tuple(request.entities)

    def _remembered(self, name: str, exit: int) -> tuple[int | None, int]:
        """How many matches of an entity are known without looking, and how many crops they do not cover."""
        if name in self._wholes:
            return len(self._wholes[name].matches), 0
        recalled = self._sightings.recall(name)
        if recalled is None:
            return None, 0
        added = self._passes.scope(exit, MatchRequest(segments=recalled.added))
        return len(recalled.whole.matches), 0 if added is None else added.rows

    def _grow(self, known: Mapping[str, Whole], segments: NDArray[np.int32]) -> dict[str, Whole]:
        """Add the tracks of new segments to known results; names that must be matched again are missing.

        Adding is enough if no new track beats the old best one, which the old tracks were compared with, or
        the best of a common scene; if no new track was seen at a deeper exit; and if no new track can
        continue an old one, or the reverse. If there are no old tracks, or the entity is a category, nothing
        was compared.
        """
        beside = self.source.neighbours(segments)
        alone = self.categories
        best = {n: old.best if len(old.matches) and n not in alone else {} for n, old in known.items()}
        grown: dict[str, Whole] = {}
        for name, (new, top) in self._found(list(known), segments, best, known).items():
            old = known[name]
            beaten = any(value > best[name].get(exit, np.inf) for exit, value in top.items())
            deeper = bool(best[name]) and max(top, default=0) > max(best[name])
            if (
                beaten
                or deeper
                or not old.scenes.unchanged_by(new.scenes, self.source, self.calibrations[-1].distance_ratio)
                or _touch(old, new, beside)
            ):
                continue
            both = _appended(old.matches, new.matches)
            reached = {**old.best, **new.best}
            highest = {e: max(old.best.get(e, 0.0), new.best.get(e, 0.0)) for e in reached}
            both = both[np.argsort(both.track_id, kind="stable")]
            grown[name] = Whole(both, highest, old.scenes.with_others(new.scenes))
        return grown

    def _found(
        self,
        names: Sequence[str],
        segments: NDArray[np.int32] | None,
        best: Mapping[str, Mapping[int, float]],
        known: Mapping[str, Whole] | None = None,
    ) -> dict[str, tuple[Whole, Mapping[int, float]]]:
        """All tracks that are not rejected, in the library or in some segments, with the best values there.

        Args:
            segments: None for the whole library.
            best: by name, the best values in the whole library.
            known: by name, what the rest of the library holds.
        """
        exit = self.first_exit()
        scope = self._passes.scope(exit, MatchRequest(segments=segments))
        with timed(exit):
            scored = self._passes.first(names, exit, scope, self.calibrations[exit - 1].low)
        cascades = [Cascade(n, self.rules(n), exit, scored[n], best.get(n, {})) for n in scored]
        self._refine(cascades, lambda band, _score, _exit: band == UNCERTAIN)
        found: dict[str, tuple[Whole, Mapping[int, float]]] = {
            name: (Whole(Matches.empty((name,)), {}), {}) for name in names
        }
        for cascade in cascades:
            cascade.settle(self.source, self._passes.looks, known[cascade.name].scenes if known else None)
            whole = Whole(cascade.matches(cascade.band > REJECTED), cascade.best, cascade.scenes)
            found[cascade.name] = whole, cascade.top
        return found

    def _everything(self, names: Sequence[str], request: MatchRequest) -> list[Matches]:
        """Every track in scope with its score, refined if it could cross the least score of interest."""
        exit = self.first_exit()
        wanted = request.min_score or 0.0

        def is_open(band: NDArray[np.uint8], score: NDArray[np.float64], exit: int) -> NDArray[np.bool_]:
            return (band == UNCERTAIN) | (np.abs(score - wanted) <= self._reach(exit))

        scope = self._passes.scope(exit, request)
        with timed(exit):
            scored = self._passes.first(names, exit, scope, self._least(exit, request.min_score))
        cascades = [Cascade(n, self.rules(n), exit, scored[n], self._wholes[n].best) for n in scored]
        self._refine(cascades, is_open)
        found = {c.name: c.matches(np.ones(len(c.band), np.bool_)) for c in cascades}
        every = []
        for name in names:
            whole = self._wholes[name].matches
            whole = whole[within(whole.track_id, request)]
            settled = _settled(found.get(name, Matches.empty((name,))), whole)
            every.append(settled[settled.score >= wanted])
        return every

    def _reach(self, exit: int) -> float:
        """How far a deeper exit is assumed to move a score."""
        calibration = self.calibrations[exit - 1]
        return max(calibration.high - calibration.low, 0.1) / 2

    def _least(self, exit: int, min_score: float | None) -> float | None:
        """The score below which a track is neither an answer nor looked at again; None if every track is."""
        if min_score is None or exit == self.embedder.exits:
            return min_score
        return min(self.calibrations[exit - 1].low, min_score - self._reach(exit))

    def _refine(self, cascades: Sequence[Cascade], is_open: IsOpen) -> None:
        refine(cascades, self.calibrations, is_open, self._passes.second)


def _settled(found: Matches, whole: Matches) -> Matches:
    """All tracks of one entity: those of the whole library's pass as settled there, others as rejected."""
    rest = found[~np.isin(found.track_id, whole.track_id)]
    rest = replace(rest, band=np.full(len(rest), REJECTED, np.uint8))
    both = _appended(whole, rest)
    return both[np.argsort(both.track_id, kind="stable")]


def _touch(old: Whole, new: Whole, beside: NDArray[np.int32]) -> bool:
    """Whether an old and a new track may continue each other, in videos whose shots continue each other."""
    band = old.matches.band[np.isin(segment_of(old.matches.track_id), beside)]
    return bool((band == ACCEPTED).any() or (len(band) and (new.matches.band == ACCEPTED).any()))


def _appended(old: Matches, new: Matches) -> Matches:
    """Matches of one entity, the old ones first."""
    return Matches.concat(old.entities, [old, new])
