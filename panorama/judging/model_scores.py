"""Labelled pictures come in; scores of the embedder's retrieval and the proposer's boxes go out."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.crops import decode_picture, encode_jpeg
from panorama.errors import BadImage, UsageError
from panorama.lines import counted
from panorama.models.base import Embedder, Proposer
from panorama.models.proposals import Recall, proposal_recall
from panorama.models.ranges import in_batches
from panorama.models.retrieval import at_most_per_label, retrieval_scores
from panorama.models.training.copies import came_before
from panorama.models.training.seen import SeenInTraining
from panorama.models.training.split import LEARN
from panorama.models.training.tables import BOX, boxes_of, rows_of
from panorama.regions import Regions

BATCH = 32
"""Pictures in memory at a time: photographs take tens of megabytes each."""

MOST_PER_CLASS = 40
STRANGERS = 150
LABELS = "images/labels.csv"
BOXES = "boxes/boxes.csv"
JUDGED_PICTURES = "val2017"
"""If file names of a table contain this, only these pictures judge: the others trained the proposer."""

FORMS = f"{LABELS} (file, class) or {BOXES} (file, {', '.join(BOX)})"
WHO = "judging a model"
"""What needs these tables, in errors."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Labelled pictures that a model is judged by.

    Attributes:
        files: (N,) the pictures; labels: (N,) what they show.
        unseen: whether it is known that no training saw these classes.
        remarks: lines for people: what is left out, and what is unknown.
    """

    files: tuple[Path, ...]
    labels: tuple[str, ...]
    unseen: bool
    remarks: tuple[str, ...]

    @property
    def retrieval_is_drawn(self) -> bool:
        """Whether `retrieval` takes only some of the pictures, which differ from seed to seed."""
        return max(Counter(self.labels).values(), default=0) > MOST_PER_CLASS

    @property
    def strangers_are_drawn(self) -> bool:
        """Whether `stranger_pictures` takes only some of the pictures, which differ from seed to seed."""
        return len(self.files) > STRANGERS


@dataclass(frozen=True, slots=True)
class RetrievalScore:
    """Retrieval among judged pictures, at one exit.

    Attributes:
        exit: number of the exit, from 1.
        pictures, classes: how many there are.
        mean_average_precision, recall_at_1: each picture against all others.
        pictures_per_second: speed through this exit, without decoding files.
    """

    exit: int
    pictures: int
    classes: int
    mean_average_precision: float
    recall_at_1: float
    pictures_per_second: float


def judged_pictures(embedder: Embedder, data: Path) -> Judged:
    """The pictures of `data`/images/labels.csv whose classes no training of this embedder saw; at least one.

    From sources that the shipped training used, only held-out classes; from other sources all classes or, if
    there is a column `held`, the held-out rows. Rows that show no class (column `identity`) do not count, nor
    do classes that the embedder was fine-tuned on. Each picture counts once, under the class of its first
    row.

    Raises:
        UsageError: the table is missing or has no such class.
    """
    seen = SeenInTraining.by(embedder.folder)
    rows = []
    for row in rows_of(data / LABELS, ("file", "class"), WHO):
        source, label = row.get("source") or "", row["class"]
        kept = row["held"] != LEARN if row.get("held") else seen.keeps(source, label)
        if kept and (row.get("identity") or "class") == "class":
            rows.append((data / row["file"], source, label))
    if not rows:
        raise UsageError(f"{data / LABELS} has no class that is held out from training")
    files: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for file, source, label in rows:
        files[source, label].append(file)
    learned = {of for of, some in files.items() if seen.has_learned(*of, some)}
    remarks = _remarks(embedder.name, seen, learned)
    unseen = [(file, _called(*of)) for file, *of in rows if tuple(of) not in learned]
    if not unseen:
        raise UsageError(f"{data / LABELS} has no class to judge {embedder.name} by; {remarks[0]}")
    again = came_before([file for file, _ in unseen])
    left = [judged for judged, repeated in zip(unseen, again, strict=True) if not repeated]
    if copies := sum(again):
        told = counted(copies, "row")
        remarks = (*remarks, f"left out: {told} of {LABELS} whose picture repeats an earlier row's")
    return Judged(tuple(f for f, _ in left), tuple(label for _, label in left), not seen.unknown, remarks)


def _called(source: str, label: str) -> str:
    return f"{source}/{label}" if source else label


def _remarks(name: str, seen: SeenInTraining, learned: set[tuple[str, str]]) -> tuple[str, ...]:
    """Lines for people: the classes that a model was fine-tuned on, and models whose classes are unknown."""
    remarks = []
    if learned:
        labels = sorted(label for _, label in learned)
        told = ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")
        remarks.append(
            f"left out: {counted(len(labels), 'class', 'classes')} ({told}) that {name} learned from or "
            f"was chosen by, according to {' and '.join(map(str, seen.tables))}"
        )
    if seen.unknown:
        where = " and ".join(map(str, seen.unknown))
        remarks.append(f"whether {name} has seen these classes is not known: {where} does not say")
    return tuple(remarks)


def retrieval(embedder: Embedder, judged: Judged, seed: int = 0) -> list[RetrievalScore]:
    """Retrieval among judged pictures, at most MOST_PER_CLASS per class, for every exit.

    Raises:
        UsageError: there are fewer than two classes, or no class has two pictures.
        BadImage: a picture cannot be read.
    """
    count, classes = len(judged.labels), len(set(judged.labels))
    if classes < 2 or classes == count:
        raise UsageError(
            f"retrieval takes two classes and two pictures of one, got {counted(count, 'picture')} of "
            f"{counted(classes, 'class', 'classes')}"
        )
    labels = np.array(judged.labels)
    chosen = at_most_per_label(judged.labels, MOST_PER_CLASS, seed)
    exits = range(1, embedder.exits + 1)
    seconds = dict.fromkeys(exits, 0.0)
    parts: dict[int, list[NDArray[np.float32]]] = {exit: [] for exit in exits}
    for pictures in in_batches((_picture(judged.files[i]) for i in chosen), BATCH):
        for exit in exits:
            started = time.perf_counter()
            parts[exit].append(embedder.embed(pictures, exit))
            seconds[exit] += time.perf_counter() - started
    scores = []
    for exit in exits:
        precision, first = retrieval_scores(np.concatenate(parts[exit]), labels[chosen].tolist())
        speed = len(chosen) / seconds[exit]
        scores.append(RetrievalScore(exit, len(chosen), len(set(labels[chosen])), precision, first, speed))
    return scores


def stranger_pictures(judged: Judged, seed: int = 0, count: int = STRANGERS) -> list[NDArray[np.uint8]]:
    """At most `count` of the judged pictures, drawn at random with a seed, as `register` would store them."""
    chosen = np.random.default_rng(seed).permutation(len(judged.files))[:count]
    return [decode_picture(encode_jpeg(_picture(judged.files[i]))) for i in chosen]


@dataclass(frozen=True, slots=True)
class ProposalScore:
    """Share of the boxes of the judged pictures that were proposed, and milliseconds per picture."""

    recall: Recall
    pictures: int
    milliseconds: float


def proposals(proposer: Proposer, data: Path) -> ProposalScore:
    """Class-agnostic recall at IoU 0.5 of at most 20 boxes per picture, on the judged pictures of boxes.csv.

    Raises:
        UsageError: the table is missing or holds no box, or a box is malformed.
        BadImage: a picture cannot be read.
    """
    boxes = boxes_of(data / BOXES, WHO)
    named = {file: found for file, found in boxes.items() if JUDGED_PICTURES in file} or boxes
    if not named:
        raise UsageError(f"{data / BOXES} names no picture")
    found: list[Regions] = []
    sizes: list[tuple[int, int]] = []
    seconds = 0.0
    for pictures in in_batches((_picture(data / name) for name in named), BATCH):
        if not found:
            proposer.propose(pictures[:1])  # to warm up
        started = time.perf_counter()
        found += proposer.propose(pictures)
        seconds += time.perf_counter() - started
        sizes += [(p.shape[1], p.shape[0]) for p in pictures]
    truth: list[NDArray[np.floating]] = [np.array(b, np.float32) for b in named.values()]
    return ProposalScore(proposal_recall(truth, found, sizes), len(found), 1000 * seconds / len(found))


def _picture(path: Path) -> NDArray[np.uint8]:
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise BadImage(
            f"{path} cannot be read: {exc.strerror or exc}; correct the table that names it"
        ) from exc
    return decode_picture(data, str(path))
