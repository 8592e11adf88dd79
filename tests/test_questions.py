"""Every question of queries/ has the golden answer on the sample archive."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from questions import differences, drawn_sample, questions, rows_of, sample_library

import panorama
from panorama.cli import main
from panorama.cli.demo import renderer


@pytest.fixture(scope="module")
def library(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[panorama.Library]:
    # Drawing takes as long as all else here: pytest's folder for what one run leaves to the next keeps it.
    cache = getattr(request.config, "cache", None)
    kept = tmp_path_factory.mktemp("drawn") if cache is None else cache.mkdir("sample")
    with sample_library(tmp_path_factory.mktemp("questions"), drawn_sample(kept)) as library:
        yield library


def test_a_sample_that_was_drawn_is_drawn_anew_only_by_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick_sample: Any
) -> None:
    """The whole archive takes a minute: the short one stands for it here."""
    drawn: list[Path] = []

    def render(place: Path) -> Any:
        if not place.is_dir():
            drawn.append(place)
            shutil.copytree(quick_sample.archive.parent, place)
        return place

    monkeypatch.setattr(renderer(), "render", render)
    first = drawn_sample(tmp_path)
    assert drawn_sample(tmp_path) == first and len(drawn) == 1
    monkeypatch.setattr(renderer(), "code_version", lambda: "other" * 8)
    second = drawn_sample(tmp_path)
    assert second != first and len(drawn) == 2
    assert list(tmp_path.iterdir()) == [second], "what is of no use any more is gone"


@pytest.mark.slow
@pytest.mark.parametrize("path", questions(), ids=lambda p: p.stem)
def test_the_answer_is_the_golden_one(path: Path, library: panorama.Library) -> None:
    golden = path.with_suffix(".csv")
    assert golden.is_file(), f"{golden.name} is missing; python tests/questions.py FOLDER writes it"
    found = differences(golden.read_text(), library.query(path.read_text()))
    assert not found, "\n".join(found)


@pytest.mark.slow
def test_all_questions_are_answered_from_the_command_line(
    library: panorama.Library, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["panorama", "--library", library.path, "query", "-f", *questions(), "--format", "csv"]
    monkeypatch.setattr(sys, "argv", [str(word) for word in words])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 0
    assert capsys.readouterr().out == "".join(
        library.query(path.read_text()).to_csv() for path in questions()
    )


def test_every_question_says_what_it_asks_of_the_sample_and_what_to_expect() -> None:
    numbers = [path.name.split("-")[0] for path in questions()]
    assert len(numbers) == len(set(numbers)) >= 14
    table = (questions()[0].parent / "README.md").read_text()
    for path in questions():
        more = r"(--           .*\n)*"
        form = rf"-- question: \S.*\?\n{more}-- sample:   \S.*\n{more}-- expect:   \S.*\n{more}(?!--)"
        header = re.match(form, path.read_text())
        assert header, f"{path.name}: question, sample and expect stand above the statement"
        assert path.read_text().rstrip().endswith(";") and path.read_text().count(";") == 1 + header[0].count(
            ";"
        )
        assert f"| {path.stem} |" in table, path.stem


def test_the_list_of_questions_says_which_find_nothing() -> None:
    """Golden answers are written anew with every model; what people read beside them has to follow."""
    folder = questions()[0].parent
    text = (folder / "README.md").read_text(encoding="utf-8")
    told = re.search(r"questions? ([\d, and]+) returns? no rows", text)
    empty = {path.stem[:2] for path in folder.glob("*.csv") if len(path.read_text().splitlines()) == 1}
    assert empty == set(re.findall(r"\d\d", told[1] if told else ""))


def test_a_comparison_sees_rows_words_and_numbers() -> None:
    assert rows_of("video,score\na,0.5\n") == [{"video": "a", "score": "0.5"}]

    class Answer:
        def __init__(self, text: str) -> None:
            self.text = text

        def to_csv(self) -> str:
            return self.text

    golden = "video,score,track_id\na,0.5,1\n"
    assert not differences(golden, Answer("video,score,track_id\na,0.55,2\n"))  # type: ignore[arg-type]
    for other in (
        "video,score,track_id\n",
        "video,score,track_id\nb,0.5,1\n",
        "video,score,track_id\na,0.8,1\n",
    ):
        assert differences(golden, Answer(other))  # type: ignore[arg-type]
    assert differences("video,score\n", Answer("video,time\n"))  # type: ignore[arg-type]
    assert not differences("video,score\n", Answer("video,score\n"))  # type: ignore[arg-type]
