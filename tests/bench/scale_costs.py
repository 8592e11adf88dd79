"""Measure the constants of the cost model: a library of scale.py comes in, fitted constants go out.

    python tests/bench/scale_costs.py /tmp/scale/library-1000

Scans of several sizes and index searches of several depths run over everything and over a scope, with one to
forty exemplars. Each is repeated until its least CPU time settles, and each time the caches hold something
else, since a query's data was not read just before. The constants of query/matching/cost.py minimise the
squared relative errors over these runs. Beside each measured time is the model's estimate, and at the end the
cases where the model chooses the slower way.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import panorama
from panorama.library import Library
from panorama.query.matching.cost import COSTS, Work, _in_scope, choose
from panorama.query.matching.passes import Scope
from panorama.query.matching.scoring import Sought, score_tracks
from panorama.threads import products_alone

RUNS = 7
EXEMPLARS = (1, 3, 12, 40)
SCOPES = (1_000, 10_000, 30_000, 100_000, 400_000)
SCORES = (0.9, 0.5, 0.1, 0.02)
CROWD_NUMBERS = 16 << 20
"""Of 4 bytes each, more than the caches of a processor hold."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds that one way of finding an entity's tracks took, and what was known before.

    Attributes:
        near: rows that the index found, which nobody knows before.
    """

    way: str
    work: Work
    seconds: float
    near: int = 0


def least(run: Callable[[], object]) -> float:
    """Processor seconds of the quickest of some runs, none of which finds its data in the caches."""
    taken, crowd = [], np.zeros(CROWD_NUMBERS, np.float32)
    for _ in range(RUNS):
        crowd += 1
        started = time.process_time()
        run()
        taken.append(time.process_time() - started)
    return min(taken)


def timings(library: Library) -> list[Timing]:
    """Every scan and every search."""
    matcher = library._answering.matcher()
    passes, source, exit = matcher._passes, matcher.source, matcher.first_exit()
    table, groups = source.stored(exit), passes.groups(exit)
    calibration = matcher.calibrations[exit - 1]
    floor = calibration.normalised(calibration.low)
    found = []
    for count in EXEMPLARS:
        one = _with(passes.sought("usual", exit), count)
        scopes = [Scope(np.arange(int(np.searchsorted(groups.starts, n))), n) for n in SCOPES]
        scopes = [Scope(s.tracks, int(groups.starts[len(s.tracks)])) for s in scopes]
        for scope in scopes:
            taken = least(lambda one=one, s=scope: score_tracks([one], table, groups, s.tracks, floor))  # type: ignore[misc]
            found.append(Timing("exact", Work(scope.rows, count), taken))
        for score in SCORES:
            _, limits = one.near(calibration.normalised(score))
            codes = source.codes(exit, float(limits.min()))
            if codes is None:
                continue
            for where in (None, *scopes):

                def search(
                    one: Sought = one, score: float = score, scope: Scope | None = where
                ) -> NDArray[np.intp]:
                    queries, limits = one.near(calibration.normalised(score))
                    near = source.near(exit, queries, limits, passes.rows(exit, scope))
                    assert near is not None
                    tracks = groups.of_rows(np.concatenate(near), table.track_ids)
                    score_tracks([one], table, groups, tracks, floor)
                    return tracks

                near, all_rows = int(groups.counts[search()].sum()), len(table.crop_ids)
                rows, of = (all_rows, 0) if where is None else (where.rows, all_rows)
                work = Work(rows, count, codes * count, table=of)
                found.append(Timing("index", work, least(search), near))
    return found


def whole_pass(library: Library) -> float:
    """Seconds of a pass over one video, most of which do not depend on its size."""
    matcher = library._answering.matcher()
    video = library.snapshot().live_segments[:1]
    return least(lambda: matcher._found(["usual"], video, {}))


def _with(one: Sought, count: int) -> Sought:
    """The same entity with so many exemplars, none the same as another."""
    rng = np.random.default_rng(count)
    vectors = one.positive[rng.integers(0, len(one.positive), count)]
    vectors = vectors + rng.normal(0, 0.01, vectors.shape).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    level = np.full(count, one.level[: len(one.positive)].mean(), np.float32)
    return replace(
        one.without_denied(),
        positive=vectors,
        negative=one.negative[:0],
        level=level,
        exemplar_ids=np.arange(count),
    )


def fitted(found: list[Timing]) -> dict[str, float]:
    """Seconds for a unit of each kind of work."""
    exact = [t for t in found if t.way == "exact"]
    index = [t for t in found if t.way == "index"]
    kinds = np.array([[1, t.work.rows, t.work.rows * t.work.exemplars] for t in exact], np.float64)
    _, row, pair = _squares(kinds, np.array([t.seconds for t in exact]))
    kinds = np.array([[t.work.exemplars, _in_scope(t.work), t.work.table, t.near] for t in index], np.float64)
    rest = np.array([t.seconds - t.near * (row + t.work.exemplars * pair) for t in index])
    probe, code, masked, _ = _squares(kinds, np.maximum(rest, 1e-6))
    return {
        "row": row,
        "pair": pair,
        "probe": probe,
        "code": code,
        "masked": masked,
    }


def _squares(kinds: NDArray[np.float64], seconds: NDArray[np.float64]) -> list[float]:
    """Factors of at least 0 with the least relative error, by coordinate descent."""
    scaled = kinds / seconds[:, None]
    factors = np.zeros(kinds.shape[1])
    for _ in range(20_000):
        for k, column in enumerate(scaled.T):
            without = 1 - scaled @ factors + column * factors[k]
            factors[k] = max(0.0, float(column @ without / max(column @ column, 1e-30)))
    return [float(factor) for factor in factors]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("library", help="written by scale.py")
    options = parser.parse_args()
    with panorama.open(options.library, create=False) as library, products_alone():
        found, once = timings(library), whole_pass(library)
    for name, factor in {"pass_": once, **fitted(found)}.items():
        print(f"{name:9s} {factor:.2e} (in use {getattr(COSTS, name):.2e})")
    print(f"{'rows':>10s} {'exemplars':>9s} {'codes':>11s} {'near':>7s} {'took':>8s} {'says':>8s} ms")
    exact = {(t.work.rows, t.work.exemplars): t for t in found if t.way == "exact"}
    for one in found:
        work = one.work
        said = choose(work)
        line = (
            f"{work.rows:10,d} {work.exemplars:9d} {work.codes or 0:11,d} {one.near:7,d}"
            f" {1000 * one.seconds:8.1f} {1000 * (said.estimates[one.way] - COSTS.pass_):8.1f} {one.way}"  # type: ignore[index]
        )
        other = exact.get((work.rows, work.exemplars))
        if one.way == "index" and other is not None:
            quicker = "index" if one.seconds < other.seconds else "exact"
            wrong = "" if said.way == quicker else f", WRONG: {said.way}"
            line += f", exact {1000 * other.seconds:.1f}{wrong}"
        print(line)


if __name__ == "__main__":
    main()
