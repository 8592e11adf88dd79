"""Footage comes in; the cheapest settings that answer about as well as the densest go out, as a profile."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panorama.answering.calibration import own_calibration
from panorama.arguments import checked
from panorama.errors import UsageError
from panorama.indexing.outcomes import library_remarks
from panorama.indexing.profile import Profile, describe
from panorama.indexing.settings import EMBED_BATCH, PROPOSAL_BATCH, IngestSettings, Work
from panorama.indexing.stages import Indexer
from panorama.models.base import Embedder, Image, Later, Proposer
from panorama.models.registry import late_embedder
from panorama.store import NewExemplar
from panorama.store.files.layout import own_files
from panorama.threads import Threads
from panorama.tune.choice import (
    DENSEST,
    SIDES,
    SPARSEST,
    USUAL,
    CostModel,
    Timed,
    Trial,
    cheapest,
    fast_enough,
)
from panorama.tune.report import Networks, TuneReport
from panorama.tune.reviewed import Review, review_of, said_of
from panorama.tune.sample import (
    LEAST_SECONDS,
    Answers,
    Decoded,
    Scratch,
    Stretch,
    album_of,
    choose_stretches,
    decode_sample,
    index_sample,
    loss_between,
    videos_of,
)
from panorama.tune.scratch import scratch_folder
from panorama.video import Found, find_videos
from panorama.video.own_clips import is_own_clip
from panorama.worker.client import beside

if TYPE_CHECKING:
    from panorama.library import Library

SAMPLE_SECONDS = 60.0
MARGIN = 0.02
"""How much more than the usual settings the choice may lose, if no limit is given."""

PROPOSAL_BATCHES = (4, PROPOSAL_BATCH)
EMBED_BATCHES = (16, EMBED_BATCH)
TURNS = 3
"""How often the choice is timed, in turn with the default and with the runs that predict both, as other
processes may be running.
"""

WORTH = 0.9
"""Other batches and threads than the usual are taken if they need less than this share of the time."""


@checked
def tune(
    library: Library,
    paths: Sequence[str | Path] | str | Path,
    *,
    seconds: float = SAMPLE_SECONDS,
    most_loss: float | None = None,
    least_speed: float | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> TuneReport:
    """Try settings on a sample of footage and choose; nothing is kept, see `indexing.profile.remember`.

    Args:
        library: its models are used; the library need not exist yet.
        paths: files, folders and globs, as for `index`.
        seconds: length of the sample.
        most_loss: share of the densest setting's answers that may be lost; the cheapest setting within it is
            chosen. None for what the usual settings lose plus `MARGIN`; the choice then never does more work
            than these.
        least_speed: choose the setting that loses least among those predicted to reach this multiple of real
            time.
        tell: called with a line about each step.

    Raises:
        UsageError: a number is out of range, both aims are given, no setting is fast enough, or the sample
            shows nothing to judge by.
        VideoError: there is no video, or none that can be read.
    """
    _check(seconds, most_loss, least_speed)
    found = find_videos(
        [paths] if isinstance(paths, (str, Path)) else list(paths),
        library.path,
        library_parts=own_files,
    )
    found = _without_own_clips(found, library)
    for line in library_remarks(found.libraries):
        tell(line)
    stretches, unread = choose_stretches(found, seconds, said_of(library, found))
    with Threads.here().lent() as threads:
        decoded = decode_sample(stretches, threads.decode, DENSEST.proposal_side)
        tell(f"sample: {decoded.video_seconds:.0f} s of {videos_of(stretches)}")
        embedder = library.embedder if library.exists else late_embedder()
        with (
            scratch_folder() as folder,
            beside(library.proposer, embedder) as (proposer, embedder),
        ):
            networks = time_networks(proposer, embedder, decoded.pictures)
            review = review_of(library, [mark for one in stretches for mark in one.marks], embedder)
            kept = own_calibration(embedder, library.snapshot().settings) if library.exists else {}
            bench = _Bench(folder, stretches, decoded, embedder, proposer, networks, review, kept, tell)
            profile, rejected = bench.confirm(bench.choose(most_loss, least_speed))
            bench.try_shallow(profile.settings)
    trials = sorted(bench.trials.values(), key=lambda trial: trial.measured_speed)
    return TuneReport(
        tuple(stretches), tuple(unread), decoded, networks, bench.model, tuple(trials), bench.things, profile,
        rejected, review,
    )  # fmt: skip


def _without_own_clips(found: Found, library: Library) -> Found:
    """The videos that `index` would take: without clips that Panorama cut, unless they are named."""
    held = set(library.videos().column("uri").to_pylist()) if library.exists else set()
    videos = [
        video
        for video in found.videos
        if video.named or str(video.path.resolve()) in held or not is_own_clip(video.path)
    ]
    return replace(found, videos=videos)


def _check(seconds: float, most_loss: float | None, least_speed: float | None) -> None:
    """Refuse numbers that are out of range, or two aims, before minutes of work."""
    if most_loss is not None and least_speed is not None:
        raise UsageError(f"give one aim: --loss or --speed, got {most_loss:g} and {least_speed:g}")
    if most_loss is not None and not 0 <= most_loss < 1:
        raise UsageError(f"--loss is a share from 0 to below 1, got {most_loss}")
    if not LEAST_SECONDS <= seconds <= 3600:
        raise UsageError(f"--seconds is between {LEAST_SECONDS} and 3600, got {seconds:g}")
    if least_speed is not None and not 0 < least_speed < 1e6:
        raise UsageError(f"--speed is a multiple of real time, above 0, got {least_speed:g}")


class _Bench:
    """Runs settings over the sample: each once for its answers, then choice and default for their speed."""

    def __init__(
        self,
        folder: Path,
        stretches: Sequence[Stretch],
        decoded: Decoded,
        embedder: Embedder,
        proposer: Proposer,
        networks: Networks,
        review: Review,
        kept: Mapping[str, Any],
        tell: Callable[[str], None],
    ) -> None:
        self._folder = folder
        self._kept = kept
        self._stretches = stretches
        self._decoded = decoded
        self._embedder = embedder
        self._proposer = proposer
        self._work = networks.work
        self._tell = tell
        self._runs = 0
        self.trials: dict[IngestSettings, Trial] = {}
        self._networks = networks
        self._review = review if review.counts else None
        self._best: dict[IngestSettings, Timed] = {}
        self._times: Counter[IngestSettings] = Counter()
        dense, sparse = self._index(DENSEST), self._index(SPARSEST)
        self._album: dict[str, list[NewExemplar]] = album_of(dense.examples(), embedder)
        self._dense = self._answers(dense)
        self.things = sum(bool(frames) for frames in self._dense.found.values())
        self._keep(dense.timed, None, self._dense)
        self._keep(sparse.timed, None, self._answers(sparse))

    @property
    def model(self) -> CostModel:
        """The cost model, from the best times so far of the two runs at the ends."""
        ends = self._best[DENSEST], self._best[SPARSEST]
        networks = self._networks
        return CostModel(*ends, networks.proposal_seconds, networks.embed_seconds, self._work.threads.cores)

    def loss(self, settings: IngestSettings) -> float:
        """What a setting loses against the densest."""
        if settings not in self.trials:
            predicted = self.model.speed(settings)
            scratch = self._index(settings)
            self._keep(scratch.timed, predicted, self._answers(scratch))
        return self.trials[settings].loss

    def choose(self, most_loss: float | None, least_speed: float | None) -> IngestSettings:
        """The setting that loses least at the requested speed; else the cheapest that loses little enough."""
        if least_speed is not None:
            return fast_enough(self.model.speed, self.loss, least_speed)
        if most_loss is not None:
            return cheapest(self.loss, most_loss)
        return cheapest(self.loss, self.loss(USUAL) + MARGIN, USUAL)

    def confirm(self, settings: IngestSettings) -> tuple[Profile, Profile | None]:
        """The profile to keep: of a setting, or of the default if the setting measured no better than it.

        Both take turns with the runs that predict them, so that a computer that has become busier slows all
        of them. The best times of all turns count. If these contradict the predictions, the turns are taken
        once more: a burst of other work may have hit one of the settings and not the others.

        Returns:
            The profile to keep, and that of the setting if it is not kept.
        """
        self.loss(settings)
        self.loss(USUAL)
        self._tell(f"timing {describe(settings)} in turn with the default and the runs that predict both ...")
        self._take_turns(settings)
        if not self._is_borne_out(settings):
            self._tell("the measured speeds contradict the predicted ones; timing once more ...")
            self._take_turns(settings)
        profile, usual = self._profile(settings), self._profile(USUAL)
        if settings == USUAL or self.trials[settings].gains_on(self.trials[USUAL]):
            return profile, None
        return usual, profile

    def try_shallow(self, settings: IngestSettings) -> None:
        """Run a setting with the first exit alone, to report next to it: it makes queries slower."""
        if settings.depth is None and self._embedder.exits > 1:
            self.loss(replace(settings, depth=1))

    def _take_turns(self, settings: IngestSettings) -> None:
        """Time a setting, the default and the runs that predict both, and update their trials."""
        timed = tuple(dict.fromkeys((DENSEST, USUAL, settings, SPARSEST)))
        for _ in range(TURNS):
            for each in timed:
                self._turn(each).store.close()
        for each in timed:
            trial = self.trials[each]
            predicted = None if trial.predicted_speed is None else self.model.speed(each)
            speed = self._best[each].speed
            self.trials[each] = replace(
                trial, predicted_speed=predicted, measured_speed=speed, runs=self._times[each]
            )

    def _is_borne_out(self, settings: IngestSettings) -> bool:
        """Whether a setting and the default are as fast as predicted, and the setting gains something."""
        trial, usual = self.trials[settings], self.trials[USUAL]
        gains = settings == USUAL or trial.gains_on(usual)
        return gains and trial.as_predicted and usual.as_predicted

    def _profile(self, settings: IngestSettings) -> Profile:
        trial, model = self.trials[settings], self.model
        speeds = model.speed(settings), trial.measured_speed
        return Profile(settings, self._work, model.cores, *speeds, trial.loss)

    def _index(self, settings: IngestSettings) -> Scratch:
        self._tell(f"trying {describe(settings)} ...")
        return self._turn(settings)

    def _turn(self, settings: IngestSettings) -> Scratch:
        """Index the sample into a library, and update the best times."""
        self._runs += 1
        indexer = Indexer(self._embedder, self._proposer, settings, self._work)
        scratch = index_sample(self._folder / str(self._runs), self._stretches, indexer, self._kept)
        # Decoding has threads of its own, which were timed while nothing else ran.
        stages = {**scratch.timed.stage_seconds, "decode": self._decoded.processor_seconds}
        timed = replace(scratch.timed, stage_seconds=stages)
        best = self._best.get(settings)
        self._best[settings] = timed if best is None else timed.better(best)
        self._times[settings] += 1
        return replace(scratch, timed=timed)

    def _answers(self, scratch: Scratch) -> Answers:
        try:
            return scratch.answers(self._album, self._review)
        finally:
            scratch.store.close()

    def _keep(self, timed: Timed, predicted: float | None, answers: Answers) -> None:
        loss = loss_between(self._dense, answers)
        self.trials[timed.settings] = Trial(timed.settings, predicted, timed.speed, loss, answers.otherwise)


def time_networks(proposer: Proposer, embedder: Embedder, pictures: Sequence[Image]) -> Networks:
    """Time both networks on pictures of the sample: batches and threads first, then the proposer's sides.

    Batches and threads are chosen by the slower of the two networks running side by side, or by the total
    work if the cores do not suffice for both.
    """
    largest = max(SIDES)
    crops = [
        picture[: max(8, picture.shape[0] // 3), : max(8, picture.shape[1] // 4)] for picture in pictures
    ]
    usual = Work()
    best, best_seconds = usual, float("inf")
    for threads in _thread_counts():
        _use(replace(usual, network_threads=threads), proposer, embedder)
        at_largest = proposer.at_side(largest).propose_later
        propose = {b: _per_picture(at_largest, pictures, b)[0] for b in PROPOSAL_BATCHES}
        embed = {b: _per_picture(_to(embedder, embedder.exits), crops, b)[0] for b in EMBED_BATCHES}
        work = Work(min(propose, key=propose.__getitem__), min(embed, key=embed.__getitem__), threads)
        p, e = propose[work.proposal_batch], embed[work.embed_batch]
        together = max(p, e, (p + e) * work.threads.network / work.threads.cores)
        if threads is None:
            # Keep the usual batches unless others are worth it.
            p, e = propose[usual.proposal_batch], embed[usual.embed_batch]
            best_seconds = max(p, e, (p + e) * usual.threads.network / usual.threads.cores)
        if together < WORTH * best_seconds:
            best, best_seconds = work, together
    _use(best, proposer, embedder)
    sides = {}
    for side in SIDES:
        step = proposer.at_side(side).propose_later
        sides[side] = _per_picture(step, [_within(p, side) for p in pictures], best.proposal_batch)[1]
    exits = range(1, embedder.exits + 1)
    depths = {exit: _per_picture(_to(embedder, exit), crops, best.embed_batch)[1] for exit in exits}
    return Networks(best, sides, depths)


def _to(embedder: Embedder, depth: int) -> Callable[[list[Image]], Later[Any]]:
    """A function that takes crops to this many exits."""
    return lambda crops: embedder.embed_to_later(crops, depth)


def _use(work: Work, *models: Proposer | Embedder) -> None:
    """Set the threads of all libraries, also in the networks' processes."""
    threads = work.threads.apply()
    for model in models:
        model.use_threads(threads.network)


def _thread_counts() -> list[int | None]:
    """The usual number of threads, and twice as many if there are cores for them."""
    usual = Threads.here()
    if "OMP_NUM_THREADS" in os.environ or 2 * usual.network > usual.cores:
        return [None]
    return [None, 2 * usual.network]


def _per_picture(
    step: Callable[[list[Image]], Later[Any]], pictures: Sequence[Image], batch: int
) -> tuple[float, float]:
    """Wall seconds and processor seconds per picture, in batches of this size.

    The better of two rounds each, after a warm-up.
    """
    some = [pictures[i % len(pictures)] for i in range(2 * batch)]
    step(some[:batch]).result()
    walls, processors = [], []
    for _ in range(2):
        started, worked, away = time.perf_counter(), time.thread_time(), 0.0
        for first in (0, batch):
            later = step(some[first : first + batch])
            later.result()
            away += later.away_seconds
        walls.append(time.perf_counter() - started)
        processors.append(time.thread_time() - worked + away)
    return min(walls) / len(some), min(processors) / len(some)


def _within(picture: Image, side: int) -> Image:
    """The picture with a longest side of at most `side`, by skipping pixels: only its size matters here."""
    step = -(-max(picture.shape[:2]) // side)
    return picture[::step, ::step]
