"""How examples from one day of a camera work on another day with different light.

    python tests/bench/other_days.py FOOTAGE --work WORK --light dull dark warm dusk bright

Two clips of fixed cameras are encoded again in files of 20 seconds, once unchanged and once in other light,
each day in its own folder. Entities of FOOTAGE/eval that appear in these clips only are registered from their
album, which is of the first day. Prints F1 on each day, and false frames on a day without the files that show
the entity.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
from cut_up import Look, cut_up, in_files
from footage import fixed_clips
from measure import machine, say, table
from numpy.typing import NDArray

import panorama
from panorama.judging import deciding
from panorama.judging.evaluate import Frames, Truth, f1, read_truth

DAYS = ("2026-03-01", "2026-03-02")
FILE_SECONDS = 20.0


def light(
    gamma: float = 1.0,
    shift: float = 0.0,
    colour: float = 1.0,
    red_blue: tuple[float, float] = (1.0, 1.0),
    blur: float = 0.0,
    noise: float = 0.0,
) -> Look:
    """Pictures in another light: brightness, saturation, balance of red and blue, haze, noise of a sensor."""
    draw = np.random.default_rng(0)

    def look(rgb: NDArray[np.uint8]) -> NDArray[np.uint8]:
        picture = 255 * (rgb.astype(np.float32) / 255) ** (1 / gamma) + shift
        grey = picture.mean(axis=2, keepdims=True)
        picture = grey + colour * (picture - grey)
        picture *= np.array([red_blue[0], 1, red_blue[1]], np.float32)
        if blur:
            picture = cv2.GaussianBlur(picture, (0, 0), blur)
        if noise:
            picture = picture + draw.normal(0, noise, (*rgb.shape[:2], 1)).astype(np.float32)
        return np.asarray(picture.clip(0, 255), np.uint8)

    return look


LIGHTS = {
    "dull": light(gamma=0.8, colour=0.6, blur=1.5, noise=10),
    "dark": light(shift=-15, blur=1),
    "warm": light(red_blue=(1.12, 0.85)),
    "dusk": light(gamma=0.55, colour=0.7, noise=6),
    "bright": light(shift=8),
}


class Archive:
    """A library of two days, asked for one entity after the other."""

    def __init__(self, library: panorama.Library) -> None:
        self.library = library
        self.frames = Frames(library)
        self._spans, self._segments = deciding.Spans(library), deciding.segments_of(library)
        days = [[video for video in self.frames.count if video.startswith(day)] for day in DAYS]
        self.days = [self.frames.mask({v: [(0, self.frames.count[v])] for v in some}) for some in days]

    def found(self, entity: str, without: Sequence[str] = ()) -> NDArray[np.bool_]:
        """The frames that are returned, some videos left out."""
        gone = np.array([self._segments[video] for video in without], np.int64)
        matcher = deciding.matcher_of(self.library, without=gone)
        return self._spans.frames(self.frames, deciding.accepted(matcher, entity))

    def scores(self, entity: str, truth: Truth) -> tuple[list[float], list[int]]:
        """F1 on each day, and false frames on each without its own files of the entity."""
        counted = ~self.frames.mask(truth.ignore)
        shown = self.frames.mask(truth.visible) & counted
        whole = self.found(entity) & counted
        good = [f1(whole & day, shown & day) or 0.0 for day in self.days]
        false = []
        for name, day in zip(DAYS, self.days, strict=True):
            returned = self.found(entity, [video for video in truth.own if video.startswith(name)])
            false.append(int((returned & counted & day & ~shown).sum()))
        return good, false


def judged(footage: Path, work: Path, name: str, model: str | None) -> list[object]:
    """A row of the table: the second day in one light."""
    archive, library_path = work / name, work / f"library-{name}"
    for folder in (archive, library_path):
        shutil.rmtree(folder, ignore_errors=True)
    clips = [clip for clip in fixed_clips(footage) if clip.stem != "bottles"]  # of which eval/ has nothing
    files = {
        day: {clip.stem: cut_up(clip, archive / day / clip.stem, FILE_SECONDS, look) for clip in clips}
        for day, look in zip(DAYS, (None, LIGHTS[name]), strict=True)
    }
    with panorama.open(library_path, create=True) as library:
        library.index(archive, model=model)
        asked = Archive(library)
        good, false = [], []
        for entity, truth in read_truth(footage / "eval" / "truth.json").items():
            if {Path(clip).stem for clip in truth.visible} <= {clip.stem for clip in clips}:
                library.register(entity, footage / "eval" / "album" / entity)
                kinds = (
                    {f"{day}/{v}": spans for day in DAYS for v, spans in in_files(kind, files[day]).items()}
                    for kind in (truth.visible, truth.ignore)
                )
                one, wrong = asked.scores(entity, Truth(*kinds))
                good.append(one)
                false.append(wrong)
    told = [
        f"{sum(wrong)} ({sum(w > 0 for w in wrong)} of {len(wrong)})" for wrong in zip(*false, strict=True)
    ]
    return [name, *(f"{mean:.3f}" for mean in np.mean(good, axis=0)), *reversed(told)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="for the files and their libraries")
    parser.add_argument("--light", nargs="+", choices=sorted(LIGHTS), default=list(LIGHTS))
    parser.add_argument("--model", default=None)
    arguments = parser.parse_args()
    rows = []
    for name in arguments.light:
        say(f"a second day, {name}")
        rows.append(judged(arguments.footage, arguments.work, name, arguments.model))
    head = ["second day", "F1, first day", "F1, second", "false if absent on the second", "and on the first"]
    print(machine())
    table("Two days of one camera; false frames, and of how many entities", head, rows)


if __name__ == "__main__":
    main()
