"""Labelled pictures enter; how well the embedder retrieves and the proposer finds boxes leaves."""

from __future__ import annotations

import csv
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.crops import decode_picture
from panorama.errors import UsageError
from panorama.models.base import Embedder, Proposer
from panorama.models.proposals import Recall, proposal_recall
from panorama.models.retrieval import at_most_per_label, retrieval_scores
from panorama.models.training.split import held_out

MOST_PER_CLASS = 40
STRANGERS = 150
LABELS = "images/labels.csv"
BOXES = "boxes/boxes.csv"
JUDGED_PICTURES = "val2017"


@dataclass(frozen=True, slots=True)
class RetrievalScore:
    """Retrieval among pictures of classes that no training saw, at one exit.

    Attributes:
        mean_average_precision, recall_at_1: each picture against all others.
        pictures_per_second: through this exit, decoding of files not counted.
    """

    exit: int
    pictures: int
    classes: int
    mean_average_precision: float
    recall_at_1: float
    pictures_per_second: float


def retrieval(embedder: Embedder, data: Path, seed: int = 0) -> list[RetrievalScore]:
    """Retrieval over held-out classes of `data`/images/labels.csv, for every exit.

    Raises:
        UsageError: the table is missing or has no held-out class.
    """
    rows = _held_out_rows(data)
    labels = np.array([f"{row['source']}/{row['class']}" for row in rows])
    chosen = at_most_per_label(labels.tolist(), MOST_PER_CLASS, seed)
    pictures = [_picture(data / rows[i]["file"]) for i in chosen]
    scores = []
    for exit in range(1, embedder.exits + 1):
        started = time.perf_counter()
        vectors = embedder.embed(pictures, exit)
        seconds = time.perf_counter() - started
        precision, first = retrieval_scores(vectors, labels[chosen].tolist())
        scores.append(
            RetrievalScore(
                exit, len(chosen), len(set(labels[chosen])), precision, first, len(chosen) / seconds
            )
        )
    return scores


def stranger_pictures(data: Path, seed: int = 0, count: int = STRANGERS) -> list[NDArray[np.uint8]]:
    """Pictures of held-out classes, drawn by a seed: at most `count`.

    Raises:
        UsageError: the table is missing or has no held-out class.
    """
    rows = _held_out_rows(data)
    chosen = np.random.default_rng(seed).permutation(len(rows))[:count]
    return [_picture(data / rows[i]["file"]) for i in chosen]


@dataclass(frozen=True, slots=True)
class ProposalScore:
    """How many boxes of pictures that no training saw were proposed, and how quickly."""

    recall: Recall
    pictures: int
    milliseconds: float


def proposals(proposer: Proposer, data: Path) -> ProposalScore:
    """Class-agnostic recall of at most 20 boxes a picture at IoU 0.5, on the judged pictures of boxes.csv.

    Raises:
        UsageError: the table is missing or holds no judged picture.
    """
    boxes: dict[str, list[list[float]]] = defaultdict(list)
    for row in _table(data / BOXES, ("file", "x1", "y1", "x2", "y2")):
        if JUDGED_PICTURES in row["file"]:
            boxes[row["file"]].append([float(row[name]) for name in ("x1", "y1", "x2", "y2")])
    if not boxes:
        raise UsageError(f"{data / BOXES} names no picture of {JUDGED_PICTURES}")
    pictures = [_picture(data / name) for name in boxes]
    proposer.propose(pictures[:1])
    started = time.perf_counter()
    found = proposer.propose(pictures)
    seconds = time.perf_counter() - started
    truth: list[NDArray[np.floating]] = [np.array(b, np.float32) for b in boxes.values()]
    sizes = [(p.shape[1], p.shape[0]) for p in pictures]
    return ProposalScore(proposal_recall(truth, found, sizes), len(pictures), 1000 * seconds / len(pictures))


def _held_out_rows(data: Path) -> list[dict[str, str]]:
    """The pictures of `data`/images/labels.csv whose classes no training saw; at least one."""
    rows = [
        row
        for row in _table(data / LABELS, ("file", "source", "class", "identity"))
        if row["identity"] == "class" and held_out(row["source"], row["class"])
    ]
    if not rows:
        raise UsageError(f"{data / LABELS} has no class that is held out from training")
    return rows


def _table(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = set(columns) - set(reader.fieldnames or ())
            if missing:
                raise UsageError(f"{path} lacks the columns {', '.join(sorted(missing))}")
            yield from reader
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def _picture(path: Path) -> NDArray[np.uint8]:
    return decode_picture(path.read_bytes(), str(path))
