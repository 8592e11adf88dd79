"""Boxes in pictures of another size than the frame of their folder: what they mean, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from conftest import Ran
from fakes import Thing, scene, write_picture

import panorama
from panorama.errors import BadBox

Run = Callable[..., Ran]

RED = (255, 0, 0)


@pytest.fixture
def cam(run: Run, tmp_path: Path) -> Path:
    """Six pictures of 160x120, a quarter-sized one with a red thing, a narrow and a low one, all indexed."""
    folder = tmp_path / "d" / "cam"
    for number in range(1, 7):
        write_picture(folder / f"IMG_{number:04d}.png", scene(0, [Thing("blue", 0, 1, left=10 + 9 * number)]))
    small = scene(0, [Thing("red", 0, 1, left=60)])
    write_picture(folder / "IMG_0007.png", cv2.resize(small, (80, 60), interpolation=cv2.INTER_AREA))
    write_picture(folder / "IMG_0008.png", scene(0, [Thing("red", 0, 1, left=10)])[:, :70])
    write_picture(folder / "IMG_0009.png", scene(0, [Thing("red", 0, 1, top=20)])[:80])
    assert run("index", "d", "--model", "color-bands").status == 0
    return folder


def sources(run: Run) -> list[str]:
    return [row["source"] for row in run("exemplars", "x", "--json").json]


@pytest.mark.parametrize(
    ("picture", "box", "fills"),
    [
        ("IMG_0008.png", "20,30,140,100", "70x120 picture: it needs 0 <= x1 < x2 <= 70 and"),
        ("IMG_0008.png", "90,30,140,100", "fills 0,0,70,120 of the 160x120 frame, and the rest is black"),
        ("IMG_0009.png", "20,30,60,110", "fills 0,0,160,80 of the 160x120 frame, and the rest is black"),
        ("IMG_0008.png", "0%,0%,50%,50%", "pixels of the 70x120 picture, of which that would be 0,0,35,60;"),
        ("IMG_0008.png", "20,30,60", "a box is four numbers"),
    ],
)
def test_a_box_in_the_black_beside_a_picture_is_refused_with_the_part_that_it_fills(
    run: Run, cam: Path, picture: str, box: str, fills: str
) -> None:
    """The example was black for the most part, and nothing was told."""
    named = f"d/cam/{picture}"
    done = run("register", "x", "--video", named, "--box", box)
    assert done.status == 2 and fills in done.err and "d/cam" in done.err
    assert run("register", "x", named, "--box", box).status == 2, "as of the file itself"
    seconds = f"{(int(picture[4:8]) - 1) / 5}"
    assert run("register", "x", "--video", "cam", "--at", seconds, "--box", box).status == 2
    with panorama.open("panorama-library") as library, pytest.raises(BadBox):
        library.register_from_video("x", "cam", frame=int(picture[4:8]) - 1, box=box)
    assert not run("entities", "--json").json


@pytest.mark.parametrize("asked", [("d/cam/IMG_0007.png",), ("cam", "--at", "1.2"), ("cam", "--frame", "6")])
def test_of_a_picture_that_was_scaled_it_is_told_which_pixels_a_box_counts(
    run: Run, cam: Path, asked: tuple[str, ...]
) -> None:
    """The same four numbers meant other pixels than in the file, and the example was listed with them."""
    done = run("register", "x", "--video", *asked, "--box", "60,40,92,72")
    assert done.status == 0
    assert (
        "IMG_0007.png fills 0,0,160,120 of the 160x120 frame, and its file has 80x60 pixels: the box counts"
        " pixels of the frame; in those of the file it is 30,20,46,36\n"
    ) in done.err
    assert "no track was at this box" not in done.err
    (source,) = sources(run)
    assert source.endswith("d/cam/IMG_0007.png at 160x120 [60,40,92,72]")
    with panorama.open("panorama-library") as library:
        (example,) = library.exemplars("x")
        assert (example.width, example.height) == (32, 32)
        shown = cv2.cvtColor(cv2.imread(str(example.picture)), cv2.COLOR_BGR2RGB)
        assert np.abs(shown[20:].mean(axis=(0, 1)) - scene(0, [Thing("red", 0, 1)])[68, 20]).max() < 40


@pytest.mark.parametrize(
    ("picture", "box"), [("IMG_0003.png", "30,40,62,72"), ("IMG_0008.png", "10,40,42,72")]
)
def test_of_pictures_that_are_seen_as_they_are_nothing_is_told(
    run: Run, cam: Path, picture: str, box: str
) -> None:
    done = run("register", "x", "--video", f"d/cam/{picture}", "--box", box)
    assert done.status == 0 and "frame" not in done.err
    assert [source.endswith(f"d/cam/{picture} [{box}]") for source in sources(run)] == [True]


def test_a_time_beside_a_picture_of_an_indexed_folder_is_to_be_left_out(run: Run, cam: Path) -> None:
    """It was said to be no video, and that its folder is to be named, which is indexed."""
    asked = ("register", "x", "--video", "d/cam/IMG_0003.png", "--box", "30,40,62,72")
    refused = run(*asked, "--at", "1")
    assert refused.status == 2 and "d/cam/IMG_0003.png is a picture in cam," in refused.err
    assert "leave out --at 1" in refused.err and run(*asked).status == 0


def test_a_box_that_reaches_a_little_over_the_edge_as_a_detectors_may_is_cut_there(
    run: Run, cam: Path
) -> None:
    """Boxes of answers do: they were found in the frame, with the black beside the picture."""
    done = run("register", "x", "--video", "d/cam/IMG_0008.png", "--box", "6,40,74,72")
    assert done.status == 0
    assert (
        "fills 0,0,70,120 of the 160x120 frame; the box reached over its edge and was cut there" in done.err
    )
    (source,) = sources(run)
    assert source.endswith("IMG_0008.png [6,40,70,72]")
    assert run("register", "x", "--video", "d/cam/IMG_0008.png", "--box", "6,40,80,72").status == 2


def test_a_row_of_a_fitted_picture_is_confirmed_and_its_box_registered(run: Run, cam: Path) -> None:
    assert run("register", "x", "--video", "d/cam/IMG_0007.png", "--box", "60,40,92,72").status == 0
    asked = "SELECT d.frame, d.track_id, d.x1, d.y1, d.x2, d.y2 FROM detections d WHERE frame >= 6 ORDER BY 1"
    rows: list[Any] = run("query", asked, "--format", "json").json
    assert {row["frame"] for row in rows} == {6, 7, 8}
    with panorama.open("panorama-library") as library:
        for row in rows:
            box = tuple(row[name] for name in ("x1", "y1", "x2", "y2"))
            warnings = library.register_from_video("y", "cam", frame=row["frame"], box=box).warnings
            assert not any("no track" in line for line in warnings)
            library.register_seen("z", track_ids=[row["track_id"]])
