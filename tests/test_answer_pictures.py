"""From Python, an answer is drawn and cut as the command line does, and the same is said beside it."""

from __future__ import annotations

from pathlib import Path

import cv2
import pytest
from fakes import Thing, write_film

import panorama
from panorama.errors import QueryError, UsageError


@pytest.fixture
def library(asked: Path):
    """Red alone in gate/a.mp4, red and blue in yard/b.mp4."""
    with panorama.open(asked / "panorama-library") as opened:
        yield opened


def test_an_answer_is_drawn_and_cut(library: panorama.Library, tmp_path: Path) -> None:
    answer = library.query("SELECT moments WHERE entity = 'red'")
    assert len(answer) == 2
    sheet = library.sheet(answer, tmp_path / "hits.png")
    assert (sheet.drawn, sheet.failed, sheet.warnings) == (2, [], ())
    two_wide = cv2.imread(str(tmp_path / "hits.png"))
    assert library.sheet(answer, str(tmp_path / "hits.png"), most=1).drawn == 1
    assert cv2.imread(str(tmp_path / "hits.png")).shape[1] < two_wide.shape[1]
    clips = library.clips(answer, tmp_path / "clips")
    assert (clips.drawn, clips.failed) == (2, []) and len(list((tmp_path / "clips").glob("*.mp4"))) == 2


def test_of_a_file_that_is_another_by_now_it_is_said(library: panorama.Library, tmp_path: Path) -> None:
    """The command line said so, and whoever wrote a sheet from Python was told nothing."""
    answer = library.query("SELECT moments WHERE entity = 'red'")
    write_film(tmp_path / "v" / "yard" / "b.mp4", [Thing("blue", 5, 30)], frames=60)
    for made in (library.sheet(answer, tmp_path / "a.png"), library.clips(answer, tmp_path / "clips")):
        (warning,) = made.warnings
        assert warning.startswith("the file of yard/b.mp4 has changed since it was indexed")
        assert made.drawn == 2


def test_what_cannot_be_drawn_is_refused(library: panorama.Library, tmp_path: Path) -> None:
    answer = library.query("SELECT entity, exemplars FROM entities")
    with pytest.raises(QueryError, match="pictures need the columns video and time"):
        library.sheet(answer, tmp_path / "a.png")
    with pytest.raises(QueryError, match="pictures need the columns video and time"):
        library.clips(answer, tmp_path / "clips")
    with pytest.raises(UsageError, match="most"):
        library.sheet(library.query("SELECT moments"), tmp_path / "a.png", most=-1)
