"""What confirming or denying tracks of an answer gains: the sample archive, judged by its boxes.

    python data/render.py SAMPLE
    python tests/bench/confirming.py SAMPLE --work WORK

The archive is indexed at several rates, and every entity is registered with its first pictures. Then a
simulated user, who knows the truth, says yes or no to the best tracks of a band, or to all of them as on a
review page (`panorama query --page`). Their best crops become examples or look-alikes
(`Library.register_seen`). A crop shows the entity if its box overlaps the drawn one by at least half, and
something else if by less than a tenth; no question is asked about crops between. F1, AP and false frames are
those of `panorama evaluate`. With `--elsewhere` the user is asked about every second clip and the others are
judged, then the other way round.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from measure import sample_arguments, say, table

import panorama
from panorama.indexing.settings import IngestSettings
from panorama.judging.evaluate import Truth, read_truth, score_entities
from panorama.library import Library
from panorama.regions import iou

RATES = (4.3, 4.7, 5.0, 5.4, 6.0)
SAME, OTHER = 0.5, 0.1
FOUND = """
SELECT t.track_id, t.video, c.frame, c.x1, c.y1, c.x2, c.y2
FROM (SELECT tracks WHERE entity = $name AND band = $band) t JOIN crops c USING (track_id, video)
QUALIFY row_number() OVER (PARTITION BY track_id ORDER BY quality DESC, crop_id) = 1 ORDER BY t.score DESC
"""

Figures = tuple[float, float, float, float]
"""Tracks that were shown, F1, AP, false frames."""


@dataclass(frozen=True, slots=True)
class Question:
    """The best `count` tracks of a band, of those to which `answer` is the truth."""

    band: str
    count: int
    answer: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """What somebody is asked of an answer, all before any of it is told to the library."""

    told: str
    questions: tuple[Question, ...] = ()


ALL = 10_000
"""More tracks than any answer has."""

YES, NO = (
    {band: Question(band, ALL, answer) for band in ("accepted", "uncertain")} for answer in (True, False)
)

ASKED = (
    Asked("as registered"),
    Asked("yes to 1 accepted", (Question("accepted", 1),)),
    Asked("yes to 1 uncertain", (Question("uncertain", 1),)),
    Asked("yes to 3 uncertain", (Question("uncertain", 3),)),
    Asked("no to 3 uncertain", (Question("uncertain", 3, False),)),
    Asked("yes to all uncertain, no to all accepted", (YES["uncertain"], NO["accepted"])),
    Asked("yes and no to all uncertain", (YES["uncertain"], NO["uncertain"])),
    Asked("yes to all", tuple(YES.values())),
    Asked("no to all", tuple(NO.values())),
    Asked(
        "yes to 5 and no to 5 of each band",
        tuple(Question(band, 5, answer) for band in YES for answer in (True, False)),
    ),
    Asked("yes and no to all", (*YES.values(), *NO.values())),
)


def shows(entry: dict[str, Any], row: Any) -> bool | None:
    """Whether a crop shows the entity of a truth's entry; None where nobody could say."""
    drawn = entry["boxes"].get(row.video, {}).get(str(row.frame))
    if drawn is None:
        spans = (*entry["visible"].get(row.video, ()), *entry["ignore"].get(row.video, ()))
        return None if any(first <= row.frame <= last for first, last in spans) else False
    box = np.array([[row.x1, row.y1, row.x2, row.y2]], np.float32)
    overlap = float(iou(box, np.array([drawn], np.float32))[0, 0])
    return True if overlap >= SAME else False if overlap < OTHER else None


def chosen(
    library: Library, name: str, entry: dict[str, Any], question: Question, videos: Collection[str]
) -> list[int]:
    """The tracks of some videos that get the answer of a question, best first."""
    found = [
        row for row in library.query(FOUND, {"name": name, "band": question.band}) if row.video in videos
    ]
    return [row.track_id for row in found if shows(entry, row) is question.answer][: question.count]


def figures(library: Library, sample: Path, examples: int, asked: Asked, elsewhere: bool) -> Figures:
    """What the library answers after somebody was asked; its album is made anew."""
    videos = library.videos().column("video").to_pylist()
    found = [_figures(library, sample, examples, asked, *half) for half in halves(videos, elsewhere)]
    shown, f1, ap, false = np.mean(found, axis=0)
    return float(shown), float(f1), float(ap), float(false)


def halves(videos: list[str], elsewhere: bool) -> list[tuple[list[str], list[str]]]:
    """Of which videos somebody is asked, and by which the answers are judged then."""
    even, odd = videos[0::2], videos[1::2]
    return [(even, odd), (odd, even)] if elsewhere else [(videos, videos)]


def _figures(
    library: Library,
    sample: Path,
    examples: int,
    asked: Asked,
    told: Collection[str],
    judged: Collection[str],
) -> Figures:
    """The same, asked about some videos and judged by some, which may be the same."""
    entries = json.loads((sample / "truth.json").read_text(encoding="utf-8"))
    for entity in library.entities():
        library.drop(entity.name)
    for name in entries:
        library.register(name, sorted((sample / "album" / name).glob("*.jpg"))[:examples])
    shown = 0
    for name, entry in entries.items():
        answers = [chosen(library, name, entry, question, told) for question in asked.questions]
        for question, ids in zip(asked.questions, answers, strict=True):
            if ids:
                library.register_seen(name, track_ids=ids, look_alike=not question.answer)
            shown += len(ids)
    truths = within(read_truth(sample / "truth.json"), library.videos(), judged)
    scores = score_entities(library, truths)
    seen = [score for score in scores if truths[score.entity].own and score.f1 is not None]
    f1, ap = (float(np.mean([getattr(s, of) for s in seen])) for of in ("f1", "average_precision"))
    return shown, f1, ap, float(sum(s.false_frames for s in scores))


def within(truths: dict[str, Truth], videos: pa.Table, judged: Collection[str]) -> dict[str, Truth]:
    """The truth of some videos; the others are left out."""
    out = {row["video"]: [(0, row["frames"])] for row in videos.to_pylist() if row["video"] not in judged}
    return {
        name: Truth({v: spans for v, spans in truth.visible.items() if v in judged}, {**truth.ignore, **out})
        for name, truth in truths.items()
    }


def lines(found: dict[tuple[int, Asked], Sequence[Figures]]) -> Iterator[list[str]]:
    """A row for each number of examples and question: means over the rates; of F1 the gain and its error."""
    for (examples, asked), several in found.items():
        at = np.array(several)  # (rates, 4)
        gain = at[:, 1] - np.array(found[examples, ASKED[0]])[:, 1]
        error = gain.std(ddof=1) / len(gain) ** 0.5 if len(gain) > 1 else 0.0
        shown, f1, ap, false = at.mean(axis=0)
        yield [
            *(str(examples), asked.told, f"{shown:.1f}", f"{f1:.3f}"),
            *(f"{gain.mean():+.3f} +- {error:.3f}", f"{ap:.3f}", f"{false:.0f}"),
        ]


def main() -> None:
    arguments = sample_arguments(__doc__, RATES, elsewhere="ask about some clips and judge by the others")
    found: dict[tuple[int, Asked], list[Figures]] = {(n, a): [] for n in (1, 3) for a in ASKED}
    for rate in arguments.rates:
        say(f"{rate:g} a second")
        with panorama.open(arguments.work / f"{rate:g}", create=True) as library:
            settings = IngestSettings(samples_per_second=rate)
            library.index([arguments.sample / "archive"], settings=settings, model=arguments.model)
            for (examples, asked), several in found.items():
                several.append(figures(library, arguments.sample, examples, asked, arguments.elsewhere))
    head = ["pictures", "then", "tracks shown", "F1", "gain", "AP", "false frames"]
    table("Entities of the sample archive, before and after", head, lines(found))


if __name__ == "__main__":
    main()
