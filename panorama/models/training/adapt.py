"""A recipe with [adapt] and a table of pictures come in; if it helps, an adapted PanoramaNet goes out.

`turning` says what is learned and how much of it is applied; this module handles the files. The table has
three parts: things to learn from, things that choose the share, and things that judge. No thing is in two.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import save

from panorama.errors import ModelError, UsageError
from panorama.models import cores
from panorama.models.embedder import PanoramaNet
from panorama.models.late import cohorts_of
from panorama.models.ranges import in_batches, read_ranges, write_ranges
from panorama.models.retrieval import at_most_per_label
from panorama.models.training.cohort import cohort_bytes
from panorama.models.training.loop import LOG
from panorama.models.training.moments import at_once
from panorama.models.training.plot import plot_shares
from panorama.models.training.sources import data_folder, read_picture, shrink
from panorama.models.training.split import CHOOSE, GUESSED, JUDGE, LEARN
from panorama.models.training.tables import rows_of
from panorama.models.training.turning import (
    Held,
    Seen,
    at_share,
    choose_share,
    own_parts,
    quieting_maps,
    summed,
    turned,
)
from panorama.models.weights import (
    COHORT,
    RECIPE,
    RESULT,
    WEIGHTS,
    ModelFolder,
    open_model,
    read_recipe,
    record_hashes,
)
from panorama.pictures.pixels import laid_flat
from panorama.whole_files import write_whole

PLOT = "training.png"
MOST_OF_ONE = 40
"""Most pictures per thing: more of the same add little."""

MOST = 4000
"""Most pictures per part: they take some seconds of one core, and more would not make the figures surer."""

BATCH = 64


def adapt(
    recipe: Path,
    data: Mapping[str, Path],
    out: Path,
    *,
    device: str | None = None,
    threads: int | None = None,
    say: Callable[[str], None] = print,
) -> dict[str, Any]:
    """Adapt a model's last maps to a recipe's pictures; write it to `out` if it then finds things better.

    Args:
        recipe: with [start], [adapt] and one [[source]] of kind labelled-csv; its column `held` is the part.
        data: folders by the names that the source uses.
        device, threads: where the pictures are embedded, and with how many CPU threads.
        say: receives the outcome as a sentence.

    Returns:
        before_ and after_ retrieval of the judging part at every exit; share, the one applied (0: none);
        tried, the result of each share on the choosing part; seconds; and model, the folder it was written
        to, or None if the data did not help.

    Raises:
        UsageError, BadImage: the recipe and the data do not go together.
        ModelError: the recipe, or the model that it starts from, is malformed.
    """
    began = time.monotonic()
    if threads is not None:
        torch.set_num_threads(threads)
        cv2.setNumThreads(threads)
        cores.set_num_threads(threads)
    plan = read_recipe(recipe)
    shrinkage, shares = check_plan(plan, recipe)
    start = open_model(str(plan["start"]["model"]), "embedder")
    learn, choose, judge = read_parts(plan["source"][0], data, PanoramaNet(start, device=device))
    all_of_it = quieting_maps(learn.own, learn.labels, shrinkage)
    chosen = choose_share(choose, all_of_it, shares)
    maps = at_share(all_of_it, chosen.share)
    before, after = judge.scores(), judge.scores(maps)
    deepest = f"map_exit_{len(maps)}"
    helps = chosen.share > 0 and after[deepest] >= before[deepest]
    out.mkdir(parents=True, exist_ok=True)
    if helps:
        write_turned(start, out, recipe, maps)
    result: dict[str, Any] = {f"before_{key}": value for key, value in before.items()}
    # "after" describes the model that users have afterwards: the one written, or the unchanged one.
    result |= {f"after_{key}": value for key, value in (after if helps else before).items()}
    result |= {
        "share": chosen.share if helps else 0.0,
        "tried": chosen.tried,
        "seconds": time.monotonic() - began,
        "model": str(out) if helps else None,
    }
    write_whole(out / RESULT, (json.dumps(result, indent=2) + "\n").encode())
    write_whole(out / LOG, "".join(json.dumps(row) + "\n" for row in chosen.tried).encode())
    plot_shares(chosen.tried, out / PLOT)
    say(_verdict(result, deepest, chosen.share, after[deepest]))
    if not helps and (out / WEIGHTS).is_file():
        say(f"{out} still holds the model of an earlier training; this one did not change it")
    return result


def _verdict(result: Mapping[str, Any], deepest: str, share: float, after: float) -> str:
    """The outcome as a sentence for users."""
    before = result[f"before_{deepest}"]
    if result["model"]:
        return (
            f"things not learned from are found better: {before:.3f} to {after:.3f} (mean average precision "
            f"of what was held back), with a share of {share:g} of what was learned"
        )
    why = (
        "no share of what was learned is surely better on the things to choose by"
        if not share
        else f"with the share {share:g}, what was held back is found worse: {before:.3f} to {after:.3f}"
    )
    return f"this data did not help, so no model was written and yours is unchanged: {why}"


def write_turned(start: ModelFolder, out: Path, recipe: Path, maps: NDArray[np.float64]) -> None:
    """Write the model `start` to `out`, with all its files, with maps (exits, dim, dim) after its last ones.

    Raises:
        ModelError: an exit is centred after its last map; no further map can follow that.
    """
    # Read everything before writing anything: `start` may lie in `out`.
    tensors, cohorts, (largest, lacking) = start.tensors(), cohorts_of(start), read_ranges(start)
    for number, matrix in enumerate(torch.from_numpy(maps)):
        name = f"heads.{number}.project."
        if (center := tensors.get(f"heads.{number}.center")) is not None and bool(center.any()):
            raise ModelError(
                f"{start.path} cannot be adapted: exit {number + 1} is centred after its last map"
            )
        for key in (f"{name}weight", f"{name}bias"):
            tensors[key] = (matrix @ tensors[key].double()).to(tensors[key].dtype).contiguous()
    if recipe.resolve() != (out / RECIPE).resolve():
        write_whole(out / RECIPE, recipe.read_bytes())
    write_whole(out / WEIGHTS, save(tensors))
    (out / COHORT).unlink(missing_ok=True)
    if cohorts:
        vectors, grey = (
            turned_vectors(np.stack([getattr(cohort, part) for cohort in cohorts]), maps)
            for part in ("vectors", "grey")
        )
        write_whole(out / COHORT, cohort_bytes(vectors, grey, cohorts[0].hues))
    record_hashes(out)
    if not lacking:  # the ranges cover only layers before the last maps, so they stay valid
        write_ranges(open_model(str(out), "embedder"), largest)


def turned_vectors(vectors: NDArray[np.floating], maps: NDArray[np.float64]) -> NDArray[np.float32]:
    """Vectors (E, N, learned + colour) as the adapted model would give them; the colour part stays."""
    learned = maps.shape[-1]
    lengths = np.linalg.norm(vectors[..., :learned], axis=-1, keepdims=True)
    parts = summed(turned(own_parts(vectors[..., :learned]), maps)) * lengths
    return np.concatenate([parts, vectors[..., learned:]], axis=-1).astype(np.float32)


def read_parts(
    table: Mapping[str, Any], data: Mapping[str, Path], model: PanoramaNet
) -> tuple[Seen, Held, Held]:
    """The learning, choosing and judging parts of a labelled-csv source, embedded by the model.

    Raises:
        UsageError: its data folder was not given, its table cannot be read or lacks a column, or a part is
            empty or finds nothing.
        BadImage: a picture cannot be read.
    """
    root = data_folder(data, table["data"], "the recipe")
    rows = list(rows_of(root / table["csv"], ("file", "class", "held"), "the recipe"))
    _refuse_timeless(rows, root / table["csv"])
    parts = {
        part: _at_most([row for row in rows if row.get("held") == part]) for part in (LEARN, CHOOSE, JUDGE)
    }
    for part, some in parts.items():
        if not some:
            raise UsageError(
                f"{root / table['csv']} has no picture with held = {part}; train again without that table"
            )
    counts = {part: together(parts[part]) for part in (CHOOSE, JUDGE)}
    for part, taking_part in counts.items():
        if not _any_asks(parts[part], taking_part):
            raise UsageError(
                f"{root / table['csv']} has nothing with held = {part} that is seen at more than one moment; "
                "train again with more footage or pictures"
            )
    found = {part: _seen(some, root, model, counts.get(part)) for part, some in parts.items()}
    cohort = model.cohort()
    others = Seen.of(cohort, model.learned_dim, [""] * cohort.shape[1], None) if cohort.size else None

    def held(part: str) -> Held:
        # Cohort pictures are certainly not what a track shows, but a folder's things may well be among them.
        return Held(found[part], others if any(map(_guessed, parts[part])) else None)

    return found[LEARN], held(CHOOSE), held(JUDGE)


def _at_most(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Rows of random things, by a fixed seed, up to MOST in all, and at most MOST_OF_ONE of each thing."""
    rows = [rows[i] for i in at_most_per_label([row["class"] for row in rows], MOST_OF_ONE)]
    counts = Counter(row["class"] for row in rows)
    names = sorted(counts)
    names = [names[i] for i in np.random.default_rng(0).permutation(len(names))]
    total = np.cumsum([counts[name] for name in names])
    chosen = {name for name, until in zip(names, total, strict=True) if until <= MOST or until == total[0]}
    return [row for row in rows if row["class"] in chosen]


def _guessed(row: Mapping[str, str]) -> bool:
    """Whether what a row shows was guessed; in tables of earlier versions, only such rows have a clip."""
    return row[GUESSED] == "1" if GUESSED in row else bool(row.get("clip"))


def _refuse_timeless(rows: Sequence[Mapping[str, str]], table: Path) -> None:
    """Refuse a table of an earlier version with tracks of known things: it lacks the times of the tracks.

    Raises:
        UsageError: it is such a table.
    """
    if any(row.get("moment") and not row.get("clip") for row in rows if row.get("held") in (CHOOSE, JUDGE)):
        raise UsageError(
            f"{table}, of an earlier version, does not say when the tracks of named things were seen, so a "
            "thing would be found at the same moment. Start again in a new folder"
        )


def _any_asks(rows: Sequence[Mapping[str, str]], counts: NDArray[np.bool_]) -> bool:
    """Whether any row has another row of its class to find among those that take part."""
    labels = np.array([row["class"] for row in rows], object)
    mates = (labels[:, None] == labels[None]) & counts
    np.fill_diagonal(mates, False)
    return bool(mates.any())


def _seen(
    rows: list[dict[str, str]], root: Path, model: PanoramaNet, counts: NDArray[np.bool_] | None
) -> Seen:
    whole = (laid_flat(read_picture(root / row["file"])) for row in rows)
    batches = [model.embed_all(some) for some in in_batches(map(shrink, whole), BATCH)]
    return Seen.of(np.concatenate(batches, axis=1), model.learned_dim, [r["class"] for r in rows], counts)


def together(rows: Sequence[Mapping[str, str]]) -> NDArray[np.bool_]:
    """(N, N): whether row j takes part when row i is the query.

    For known things all known rows take part, except those that show the same thing at the same moment, in
    its track or in one that overlaps it (such as the track of a part): finding those proves nothing. For
    guessed rows, the pictures of the same track take part, and those seen at the same time, which certainly
    show other things. Whether any other row shows the same thing is unknown.
    """
    clips = np.array([row.get("clip") or "" for row in rows], object)
    labels = np.array([row["class"] for row in rows], object)
    moments = np.array([row.get("moment") or f"#{i}" for i, row in enumerate(rows)], object)
    guessed = np.array([_guessed(row) for row in rows], bool)
    start, end = (np.array([float(row.get(key) or 0) for row in rows]) for key in ("start", "end"))
    beside = at_once(clips, start, end)
    same = labels[:, None] == labels[None]
    of_known = (moments[:, None] != moments[None]) & ~(same & beside)
    both_guessed, none_guessed = guessed[:, None] & guessed[None], ~guessed[:, None] & ~guessed[None]
    return np.asarray((both_guessed & (same | beside)) | (none_guessed & of_known), bool)


def check_plan(plan: Mapping[str, Any], recipe: Path) -> tuple[float, list[float]]:
    """Shrinkage and shares of a recipe's [adapt].

    Raises:
        ModelError: an entry is missing or out of range.
    """
    try:
        shrinkage, shares = float(plan["adapt"]["shrinkage"]), [float(s) for s in plan["adapt"]["shares"]]
        table_count = len(plan["source"])
        start = plan["start"]["model"]
    except (KeyError, TypeError, ValueError) as exc:
        raise ModelError(
            f"{recipe} needs [adapt] shrinkage and shares, [start] and a [[source]]: {exc!r}"
        ) from exc
    if shrinkage <= 0 or not shares or not all(0 < share <= 1 for share in shares):
        raise ModelError(
            f"{recipe}: [adapt] needs shrinkage above 0 and shares in (0, 1], got {shrinkage} and {shares}"
        )
    if table_count != 1 or not isinstance(start, str):
        raise ModelError(
            f"{recipe}: [adapt] has one [[source]] and a [start] model, got {table_count} and {start!r}"
        )
    return shrinkage, shares
