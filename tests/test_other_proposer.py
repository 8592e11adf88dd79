"""Another proposer than the default: chosen with `index`, kept by the library, told by `info`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from clips import write_video
from conftest import Ran
from test_proposer_training import tiny_recipe

import panorama
from panorama.errors import ModelError, UsageError
from panorama.models.proposer_training.export import export_average
from panorama.models.proposer_training.run import save_checkpoint, start
from panorama.models.weights import RECIPE, WEIGHTS

Run = Callable[..., Ran]
REAL = panorama.Library.proposer
"""What `run` replaces by a fake."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A proposer with random weights that proposes a few regions wherever it looks."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    folder.mkdir()
    save_checkpoint(start(tiny_recipe()), folder / "checkpoint.safetensors")
    network = "widths = [8, 8, 16, 16, 16]\ndepths = [1, 1, 1, 1]\npyramid = 16\n"
    inference = "side = 96\nfloor = 0.0\nmax_iou = 0.6\nlimit = 5\n"
    (folder / "recipe.toml").write_text(
        f'name = "tiny"\nkind = "proposer"\n\n[network]\n{network}\n[inference]\n{inference}'
    )
    export_average(folder / "checkpoint.safetensors", folder)
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "v").mkdir()
    return write_video(tmp_path / "v" / "a.mp4", "libx264", frames=12).path


def copied(model: Path, to: Path, pyramid: str = "pyramid = 16") -> Path:
    """A copy of `tiny`, whose recipe may tell of another network."""
    shutil.copytree(model, to)
    recipe = (to / RECIPE).read_text(encoding="utf-8")
    (to / RECIPE).write_text(recipe.replace("pyramid = 16", pyramid), encoding="utf-8")
    return to


def statuses(report: panorama.IndexReport) -> list[str]:
    return [one.status for one in report.files]


def test_a_library_keeps_the_proposer_it_was_given(
    tiny: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was trained by a proposer's recipe could not be indexed with."""
    monkeypatch.chdir(tiny.parent)
    with panorama.open(tmp_path / "lib", create=True) as library:
        assert library.proposer.name == "proposer"
        assert statuses(library.index(archive, model="color-bands")) == ["indexed"]
        assert statuses(library.index(archive, proposer="tiny")) == ["indexed"]
        assert library.proposer.name == "tiny"
    monkeypatch.chdir(tmp_path)
    with panorama.open(tmp_path / "lib") as library:  # a folder is found again from elsewhere
        assert library.proposer.name == "tiny"
        assert statuses(library.index(archive)) == ["skipped"]
        assert statuses(library.index(archive, proposer="proposer")) == ["indexed"]
        assert library.proposer.name == "proposer"


def test_what_is_written_as_a_path_is_the_folder_there(
    tiny: Path, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexed by the shipped one of that name, a library then kept the folder."""
    monkeypatch.chdir(tmp_path)
    mine = copied(tiny, tmp_path / "proposer-wide")
    with panorama.open(tmp_path / "lib", create=True) as library:
        library.use_model("color-bands")
        for written in ("./proposer-wide", "proposer-wide/", mine, f"{mine}/"):
            library.index(archive, proposer=written)
            assert (library.proposer.name, library.proposer_folder) == ("tiny", mine)
        library.index(archive, proposer="proposer-wide")
        assert (library.proposer.name, library.proposer_folder) == ("proposer-wide", None)


def test_an_open_library_follows_and_says_why_videos_are_indexed_again(
    tiny: Path, archive: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It told of an earlier version, which had not been at it."""
    monkeypatch.setattr(panorama.Library, "proposer", REAL)
    assert "indexed again" not in run("index", "v", "--model", "color-bands").err
    with panorama.open("panorama-library") as library:
        before = library.proposer
        assert run("index", "v", "--proposer", tiny).err.startswith(
            "1 video is indexed again: an earlier version or another proposer indexed it, "
        )
        assert library.proposer.hash != before.hash and library.proposer.name == "tiny"
        assert statuses(library.index(archive)) == ["skipped"]


def test_one_that_is_not_there_or_is_damaged_changes_nothing(
    tiny: Path, archive: Path, tmp_path: Path
) -> None:
    library = panorama.open(tmp_path / "lib", create=True)
    with pytest.raises(ModelError, match=r"no proposer 'wide'.* The proposers here are proposer"):
        library.index(archive, proposer="wide")
    with pytest.raises(ModelError, match="'panoramanet' is a model of kind 'embedder', wanted 'proposer'"):
        library.index(archive, proposer="panoramanet")
    with pytest.raises(UsageError, match="a proposer is the name of one, or a folder with a recipe"):
        library.index(archive, proposer=3)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"holds no recipe\.toml; its folder 'model' does: .*run/model$"):
        library.index(archive, proposer=copied(tiny, tmp_path / "run" / "model").parent)
    damaged = copied(tiny, tmp_path / "damaged")
    (damaged / WEIGHTS).write_bytes(b"\0" + (damaged / WEIGHTS).read_bytes())
    with pytest.raises(ModelError, match="the file is damaged or was changed"):
        library.index(archive, proposer=damaged)
    with pytest.raises(ModelError, match=r"weights of .*other"):  # they are whole, and of another network
        library.index(archive, proposer=copied(tiny, tmp_path / "other", "pyramid = 24"))
    assert len(library.videos()) == 0
    assert library.proposer.name == "proposer"


def test_the_command_line_tells_which_proposer_a_library_has(
    tiny: Path, archive: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(panorama.Library, "proposer", REAL)
    monkeypatch.chdir(tmp_path)
    assert run("index", "v", "--model", "color-bands", "--proposer", str(tiny)).status == 0
    assert f"\nproposer: tiny in {tiny}\n" in run("info").out
    told = run("info", "--json").json["proposer"]
    assert told.pop("hash") and told == {"name": "tiny", "folder": str(tiny)}
    gone = tiny.rename(tiny.with_name("elsewhere"))
    try:
        assert f"\nproposer: unknown in {tiny}\n" in run("info").out
        told = run("index", "v")
        assert told.status == 1 and "The proposers here are proposer" in told.err
        assert run("index", "v", "--proposer", "proposer").status == 0
        assert "\nproposer: proposer\n" in run("info").out
    finally:
        gone.rename(tiny)


def test_proposers_are_listed_beside_embedders(run: Run) -> None:
    rows = json.loads(run("models", "--json").out)
    assert {row["model"] for row in rows if row["kind"] == "proposer"} >= {"proposer", "proposer-wide"}
    assert [row["model"] for row in rows if row["kind"] == "proposer" and row["default"]] == ["proposer"]
