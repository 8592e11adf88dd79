"""How often a wrong picture among examples is detected at registration, and how often a right one is accused.

    python tests/bench/wrong_examples.py --footage FOLDER --sample SAMPLE

Sets of 3 to 7 pictures of one thing, and the same sets with one picture replaced: by one of another thing
from the same source, from another source, or of the most similar class (in SAMPLE, the look-alike); in SAMPLE
also by a box that holds at most a quarter of the thing. Sources: classes that training did not see, of
groceries (one product in several shops) and of Caltech 101 (kinds, registered as if each were one thing), and
the things of the drawn archive, from their album and their clips. `odd_ones` judges each set. SAMPLE is what
`python data/render.py SAMPLE` draws.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from panorama.album.examples import embed_examples
from panorama.album.vetting import by_chance, odd_ones
from panorama.content import content_dir
from panorama.crops import cut, decode_picture, encode_jpeg
from panorama.models.base import Embedder, Image
from panorama.models.registry import DEFAULT_EMBEDDER, load_embedder
from panorama.models.training.heldout import held_out_pictures
from panorama.models.weights import read_recipe
from panorama.video import open_video

SIZES = (3, 4, 5, 6, 7)
SETS = 20
"""Drawn of each thing and size."""
OF_EACH = 16
"""Held-out pictures of each class at most."""
MOMENTS = (0.15, 0.4, 0.6, 0.85)
"""Of the time that a drawn thing is in a clip: where boxes are cut."""
LEAST_SIDE = 24

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Source:
    """By thing: (P, dim) of its pictures, of what it is most easily taken for, and of what is around it."""

    things: dict[str, Vectors]
    rivals: dict[str, Vectors]
    around: dict[str, Vectors]


def embedded(pictures: list[Image], embedder: Embedder) -> Vectors:
    """(P, dim) the mean of the views of each, from the JPEG that would be stored."""
    stored = [decode_picture(encode_jpeg(rgb)) for rgb in pictures]
    mean = embed_examples(stored, embedder)[-1].mean(axis=1)
    return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True), np.float32)


def held_out_sources(footage: Path, embedder: Embedder) -> dict[str, Source]:
    """Those of classes that training did not see."""
    recipe = read_recipe(content_dir("embeddings") / DEFAULT_EMBEDDER / "recipe.toml")
    held = held_out_pictures(recipe["source"], {"footage": footage}, limit=OF_EACH)
    vectors, labels = embedded(list(held.load()), embedder), np.array(held.labels)
    found = {}
    for name in sorted({label.split("/")[0] for label in held.labels}):
        mine = sorted(set(held.labels) & {label for label in held.labels if label.startswith(f"{name}/")})
        things = {label: vectors[labels == label] for label in mine}
        rivals = {
            one: things[max(set(things) - {one}, key=lambda o: float((of @ things[o].T).mean()))]
            for one, of in things.items()
        }
        found[name] = Source(things, rivals, {})
    return found


def drawn_source(sample: Path, embedder: Embedder) -> Source:
    """That of the drawn archive."""
    things, rivals, around = {}, {}, {}
    for name, truth in json.loads((sample / "truth.json").read_text()).items():
        boxes, beside = _cut_out(sample / "archive", truth["boxes"])
        things[name] = embedded(_pictures_in(sample / "album" / name) + boxes, embedder)
        rivals[name] = embedded(_pictures_in(sample / "lookalikes" / name), embedder)
        around[name] = embedded(beside, embedder)
    return Source(things, rivals, around)


def _pictures_in(folder: Path) -> list[Image]:
    return [decode_picture(path.read_bytes(), str(path)) for path in sorted(folder.glob("*.jpg"))]


def _cut_out(archive: Path, boxes: dict[str, dict[str, list[float]]]) -> tuple[list[Image], list[Image]]:
    """Boxes of a thing, and as large ones that hold a quarter of it: moved by three quarters of its width."""
    own, beside = [], []
    for video, by_frame in boxes.items():
        numbers = sorted(map(int, by_frame))
        with open_video(archive / video) as reader:
            seconds = reader.times().seconds
            for frame in (numbers[int(share * len(numbers))] for share in MOMENTS):
                box = np.array(by_frame[str(frame)], np.float32)
                if min(box[2] - box[0], box[3] - box[1]) < LEAST_SIDE:
                    continue
                rgb = reader.frame_at(float(seconds[frame])).rgb()
                own.append(np.ascontiguousarray(cut(rgb, box)))
                for step in (0.75, -0.75):
                    moved = box + np.array([1, 0, 1, 0], np.float32) * step * (box[2] - box[0])
                    if moved[0] >= 0 and moved[2] <= rgb.shape[1]:
                        beside.append(np.ascontiguousarray(cut(rgb, moved)))
    return own, beside


def told(source: Source, others: Vectors, chance: float) -> dict[str, tuple[float, int]]:
    """By what is wrong in a set: the share of sets of which it is told, and how many there were."""
    rng = np.random.default_rng(0)
    counts: dict[str, list[bool]] = {}
    for name, mine in source.things.items():
        strange = np.concatenate([of for other, of in source.things.items() if other != name])
        wrong = {"another": strange, "elsewhere": others, "look-alike": source.rivals[name]}
        wrong |= {"around": source.around[name]} if source.around else {}
        for size in (size for size in SIZES if size <= len(mine)):
            for _ in range(SETS):
                drawn = mine[rng.permutation(len(mine))[:size]]
                counts.setdefault("none", []).append(bool(odd_ones(drawn, chance)))
                for kind, of in wrong.items():
                    drawn = np.concatenate([drawn[: size - 1], of[rng.integers(len(of))][None]])
                    counts.setdefault(kind, []).append(size - 1 in odd_ones(drawn, chance))
    return {kind: (float(np.mean(found)), len(found)) for kind, found in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--footage", type=Path, required=True)
    parser.add_argument("--sample", type=Path, required=True)
    args = parser.parse_args()
    embedder = load_embedder(DEFAULT_EMBEDDER)
    chance = by_chance(embedder.cohort()[-1])
    sources = held_out_sources(args.footage, embedder) | {"drawn": drawn_source(args.sample, embedder)}
    for name, source in sources.items():
        rest = [of for other, one in sources.items() if other != name for of in one.things.values()]
        shares = told(source, np.concatenate(rest), chance)
        print(name, " ".join(f"{kind} {share:.3f} of {sets}" for kind, (share, sets) in shares.items()))


if __name__ == "__main__":
    main()
