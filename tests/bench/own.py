"""What adapting the embedder to a user's own pictures gains, on things that it never saw.

    python tests/bench/own.py --footage ../shared/footage
    python tests/bench/own.py --library LIBRARY [--truth SAMPLE/truth.json] [--footage ../shared/footage]

Classes: those of caltech101 and grocery that no training saw, at most 40 pictures of each, divided like a
user's folders: half teach, a quarter chooses the share, a quarter judges. Library: its crops, divided as by
`panorama train --query "SELECT crop_id FROM crops"` and judged by their tracks; with a truth, also by whether
crops of an entity find those of its other tracks among all crops; with footage, also by the classes, to see
what is forgotten. Each line is one division: the chosen share, and retrieval (mAP / R@1) at the deepest exit
before, with that share, and with the full adaptation.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import panorama
from panorama.content import content_dir
from panorama.models.embedder import PanoramaNet
from panorama.models.training.adapt import check_plan, read_parts
from panorama.models.training.heldout import HeldOut, held_out_pictures
from panorama.models.training.turning import Held, Seen, at_share, choose_share, quieting_maps
from panorama.models.weights import open_model, read_recipe
from panorama.own_training import DATA_NAME, recipe_text
from panorama.own_training.pictures import from_library
from panorama.own_training.split import SOURCE, TABLE, Picture, write_table
from panorama.regions import iou

NET = "panoramanet"


def classes(footage: Path) -> HeldOut:
    """The pictures of held-out classes."""
    recipe = read_recipe(content_dir("embeddings") / NET / "recipe.toml")
    return held_out_pictures(recipe["source"], {"footage": footage})


def text(held: Held, maps: np.ndarray | None) -> str:
    """mAP / R@1 at the deepest exit."""
    found = held.answers(len(held.seen.own), maps)
    return f"{found.precisions.mean():.4f} / {found.first.mean():.3f}"


def one_division(
    pictures: Sequence[Picture], net: PanoramaNet, work: Path, seed: int, more: dict[str, Held]
) -> str:
    """Divide, learn, choose and judge once; `more` is judged with it."""
    found = write_table(pictures, work, seed)
    table = {"kind": "labelled-csv", "name": SOURCE, "data": DATA_NAME, "csv": TABLE}
    recipe = work / "recipe.toml"
    recipe.write_text(recipe_text("own", NET), encoding="utf-8")
    shrinkage, shares = check_plan(read_recipe(recipe), recipe)
    learn, choose, judge = read_parts(table, {DATA_NAME: work}, net)
    maps = quieting_maps(learn.own, learn.labels, shrinkage)
    chosen = choose_share(choose, maps, shares)
    gain = max(chosen.tried, key=lambda row: row["gain"])
    judged = " | ".join(
        f"{name} {text(held, None)}, {text(held, at_share(maps, chosen.share))}, {text(held, maps)}"
        for name, held in {"judge": judge, **more}.items()
    )
    things = f"{found.learning}, {found.choosing}, {found.judging} things"
    best = f"share {chosen.share}, gain {gain['gain']:.4f} ± {gain['error']:.4f}"
    return f"seed {seed}: {things}; {best}; {judged}"


def entities(library: panorama.Library, truth: Path, net: PanoramaNet) -> Held:
    """Crops of a library; one that overlaps an entity's box by 0.4 has to find that entity's other tracks."""
    rows = library.query(
        "SELECT DISTINCT crop_id, track_id, video, frame, x1, y1, x2, y2 FROM crops ORDER BY crop_id"
    ).fetchall()
    names = [""] * len(rows)
    for name, facts in json.loads(truth.read_text(encoding="utf-8")).items():
        for i, row in enumerate(rows):
            box = facts["boxes"].get(row["video"], {}).get(str(row["frame"]))
            mine = np.array([[row[key] for key in ("x1", "y1", "x2", "y2")]], np.float32)
            if box is not None and iou(mine, np.array([box], np.float32))[0, 0] > 0.4:
                names[i] = name
    tracks = np.array([row["track_id"] for row in rows])
    counts = tracks[:, None] != tracks[None]
    shown = np.array([name != "" for name in names])
    # What is no entity asks nothing: its own kind is left out where it would be right.
    counts &= shown[:, None] | (np.array(names)[:, None] != np.array(names)[None])
    vectors = net.embed_all([library.crop(row["crop_id"]) for row in rows])
    return Held(Seen.of(vectors, net.learned_dim, names, counts))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--seeds", type=int, default=4)
    given = parser.parse_args()
    if given.footage is None and given.library is None:
        parser.error("say --footage, --library or both")
    began = time.process_time()
    net = PanoramaNet(open_model(NET, "embedder"))
    held = classes(given.footage) if given.footage else HeldOut([], [])
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if given.library is None:
            for kinds in (("grocery",), ("caltech101",), ("grocery", "caltech101")):
                labelled = [
                    Picture(str(path.resolve()), label)
                    for path, label in zip(held.paths, held.labels, strict=True)
                    if label.split("/")[0] in kinds
                ]
                for seed in range(given.seeds):
                    print("+".join(kinds), one_division(labelled, net, work, seed, {}), flush=True)
        else:
            more: dict[str, Held] = {}
            if held.paths:
                vectors = net.embed_all(list(held.load()))
                more["classes"] = Held(Seen.of(vectors, net.learned_dim, held.labels, None))
            with panorama.open(given.library) as library:
                if given.truth:
                    more["entities"] = entities(library, given.truth, net)
                pictures = from_library(library, work)
            for seed in range(given.seeds):
                print(one_division(pictures, net, work, seed, more), flush=True)
        with (work / TABLE).open(newline="", encoding="utf-8") as lines:
            print(f"{sum(1 for _ in csv.reader(lines)) - 1} pictures in the last table;", end=" ")
    print(f"{time.process_time() - began:.0f} s of one core")


if __name__ == "__main__":
    main()
