"""What the figures of an evaluation mean, on cases that a person can compute."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import Ran
from fakes import Thing, thing_picture, write_film, write_picture

import panorama
from panorama.answering.calibration import SETTING
from panorama.errors import UsageError
from panorama.judging.evaluate import (
    RANKED_FRAMES,
    Truth,
    average_precision,
    not_there,
    past_end,
    read_truth,
    score_entities,
)
from panorama.library import Library


def test_a_perfect_ranking_has_average_precision_one() -> None:
    assert average_precision(np.array([0.9, 0.8, 0.1]), np.array([True, True, False])) == 1


def test_one_false_frame_above_one_true_frame_halves_it() -> None:
    assert average_precision(np.array([0.9, 0.8]), np.array([False, True])) == 0.5


def test_ties_stand_or_fall_together() -> None:
    assert average_precision(np.zeros(4), np.array([True, False, False, False])) == 0.25


def test_nothing_to_find_has_no_average_precision() -> None:
    assert np.isnan(average_precision(np.zeros(3), np.zeros(3, bool)))


def test_a_truth_file_that_is_none_says_what_was_expected(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    path.write_text('{"van": 3}')
    with pytest.raises(UsageError, match="visible"):
        read_truth(path)


def test_a_truth_that_an_editor_marked_as_utf8_is_read(tmp_path: Path) -> None:
    """Editors of Windows put a mark before the first character."""
    path = tmp_path / "truth.json"
    path.write_text('{"van": {"visible": {"a": [[0, 5]]}}}', encoding="utf-8-sig")
    assert read_truth(path)["van"].visible == {"a": [(0, 5)]}


class Answer:
    warnings = ("of 1 video nothing is searched",)

    def __init__(self, rows: list[tuple[str, int, float]]) -> None:
        self._rows = rows

    def arrow(self) -> pa.Table:
        columns = list(zip(*self._rows, strict=True)) or [(), (), ()]
        types = (pa.string(), pa.int64(), pa.float64())
        return pa.table(
            {n: pa.array(c, t) for n, c, t in zip(("video", "frame", "score"), columns, types, strict=True)}
        )


FRAMES = {"a": 10, "b": 10}


class FakeLibrary(Library):
    """Two videos of ten frames; returns frames 0-4 of a and frame 0 of b, ranked after them frame 5 of a."""

    def __init__(self) -> None:
        super().__init__(Path("none"))

    def videos(self) -> pa.Table:
        return pa.table({"video": [*FRAMES], "frames": [*FRAMES.values()]})

    def query(self, sql: str, parameters: list[Any]) -> Answer:  # type: ignore[override]
        rows = [("a", i, 0.9) for i in range(5)] + [("b", 0, 0.8)]
        return Answer([*rows, ("a", 5, 0.3)] if sql == RANKED_FRAMES else rows)


def test_the_protocol_counts_frames_ignored_ones_left_out() -> None:
    truth = {"van": Truth(visible={"a": [(1, 6)]}, ignore={"a": [(0, 0)], "b": [(9, 9)]})}
    (score,) = score_entities(FakeLibrary(), truth)
    assert (score.precision, score.recall) == (4 / 5, 4 / 6)
    assert score.f1 == pytest.approx(2 * 0.8 * (2 / 3) / (0.8 + 2 / 3))
    assert (score.false_frames, score.false_rate) == (1, 1 / 9)
    # 4 true at 0.9, 1 false at 0.8, 1 true at 0.3, then the last true among 12 that were not returned.
    assert score.average_precision == pytest.approx((4 * 1 + 5 / 6 + 6 / 18) / 6)


def test_a_video_the_library_lacks_is_not_counted() -> None:
    truth = {
        "van": Truth(visible={"elsewhere": [(0, 5)]}, ignore={"b": []}),
        "cat": Truth({"a": [(0, 9)]}, {}),
    }
    score, other = score_entities(FakeLibrary(), truth)
    assert (score.recall, score.f1, score.precision, score.false_frames) == (None, None, 0, 6)
    (told,) = score.warnings
    assert told.startswith("1 video of the truth is not in the library") and other.warnings == ()


def test_a_truth_that_judges_nothing_is_refused_from_python_too() -> None:
    """F1 0 was answered for a video that was misspelt, for an interval that was reversed."""
    truth = {"van": Truth(visible={"gate/a": [(0, 5)]}, ignore={})}
    with pytest.raises(UsageError, match=r"not in the library.*'gate/a'\. Did you mean 'a'\?"):
        score_entities(FakeLibrary(), truth)
    for spans in ([(44, 0)], [(-5, 10)], [(0.5, 10)], [(0, True)], (0, 44), "0-9"):
        for name in ("visible", "ignore"):
            given: Any = {"visible": {}, "ignore": {}, name: {"a": spans}}
            with pytest.raises(UsageError, match=rf"Truth\({name}=...\): expected a list of \[first frame"):
                Truth(**given)
    with pytest.raises(UsageError, match=r"Truth\(visible=...\): expected videos with intervals"):
        Truth([("a", 0, 5)], {})  # type: ignore[arg-type]
    (score,) = score_entities(FakeLibrary(), {"van": Truth({"a": [(0, 50)]}, {})})
    assert "frames up to 50, but its last is 9" in score.warnings[0]


def test_intervals_may_be_arrays_and_lists_as_json_has_them() -> None:
    wanted = Truth({"a": [(0, 5), (7, 9)]}, {})
    assert Truth({"a": np.array([[0, 5], [7, 9]])}, {}) == wanted  # type: ignore[dict-item]
    assert Truth({"a": [[0, 5], [np.int64(7), 9]]}, {}) == wanted  # type: ignore[list-item]


def test_what_is_seen_in_ignored_frames_alone_has_neither_recall_nor_average_precision() -> None:
    (score,) = score_entities(FakeLibrary(), {"van": Truth({"a": [(1, 6)]}, {"a": [(0, 9)]})})
    assert (score.average_precision, score.recall, score.f1, score.precision) == (None, None, None, 0)


def test_a_video_without_an_interval_shows_it_nowhere() -> None:
    """Scripts that write every video hid all false frames: they were counted where it is not named alone."""
    named = score_entities(FakeLibrary(), {"van": Truth({"a": [(0, 9)], "b": []})})
    assert named == score_entities(FakeLibrary(), {"van": Truth({"a": [(0, 9)]})})
    assert (named[0].false_frames, named[0].false_rate) == (1, 0.1)


def test_what_is_nowhere_lowers_no_mean_and_what_is_everywhere_has_no_false_rate() -> None:
    """An entity that is not there scored an F1 of 0, however silent the answer was."""
    nowhere, everywhere = score_entities(
        FakeLibrary(), {"cat": Truth({}), "dog": Truth({"a": [(0, 9)], "b": [(5, 6)]})}
    )
    assert (nowhere.recall, nowhere.f1, nowhere.false_frames, nowhere.false_rate) == (None, None, 6, 0.3)
    assert (everywhere.false_rate, everywhere.false_frames) == (None, 0)


def test_what_is_remarked_on_an_answer_is_said_beside_its_score() -> None:
    """Videos that are not searched made a recall of 0, and nothing said why."""
    (score,) = score_entities(FakeLibrary(), {"van": Truth({"a": [(0, 9)]})})
    assert (score.warnings, score.answer_warnings) == ((), Answer.warnings)


def test_videos_of_the_truth_that_the_library_lacks_are_told_with_near_names() -> None:
    """A truth with bare file names was judged in silence: F1 0 for things that had been found."""
    lacking = {"van": Truth({"gate/a": [(0, 5)], "b": [(0, 5)]}, {"else": [(0, 1)]})}
    told = not_there(FRAMES, lacking)
    assert told is not None and told.startswith("2 videos of the truth are not in the library")
    assert "'else' and 1 more" in told
    told = not_there(FRAMES, {"van": Truth({"gate/a": [(0, 5)]}, {})})
    assert told is not None and "'gate/a'. Did you mean 'a'?" in told
    assert not_there(FRAMES, {"van": Truth({"a": [(0, 5)]}, {"b": []})}) is None


def test_a_truth_of_which_the_library_has_no_video_is_refused(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """A table was printed, of zeros, and the exit status was 0."""
    write_film(tmp_path / "yard" / "a.mp4", [Thing("red", 0, 10)], frames=12)
    write_picture(tmp_path / "red.png", thing_picture("red"))
    run("index", ".", "--model", "color-bands")
    run("register", "van", "red.png")
    (tmp_path / "truth.json").write_text('{"van": {"visible": {"a.mp4": [[0, 9]]}}}')
    done = run("evaluate", "--truth", "truth.json")
    assert (done.status, done.out) == (2, "") and "Did you mean 'yard/a.mp4'" in done.err
    (tmp_path / "truth.json").write_text('{"van": {"visible": {}}}')
    done = run("evaluate", "--truth", "truth.json")
    assert done.status == 0 and "silent with its own clips taken out: 0 of 1 ent" in done.out
    assert "cascade: F1 -, always deepest -" in done.out
    (tmp_path / "truth.json").write_text('{"van": {"visible": {"yard/a.mp4": [[0, 9]]}}}')
    done = run("evaluate", "--truth", "truth.json")
    assert "silent in videos without the entity: 0 of 0 ent" in done.out
    assert "silent with its own clips taken out: - of 0 ent" in done.out
    assert "silent in these at other times: - of 0 ent" in done.out


def test_silence_is_not_asked_of_frames_that_the_truth_leaves_out(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    """The van was accepted where nobody could say whether it is there, and so was loud with its clips out."""
    for name, things in {"a": [Thing("red", 0, 20)], "b": [Thing("red", 0, 10)], "c": []}.items():
        write_film(tmp_path / f"{name}.mp4", things, frames=20)
    write_picture(tmp_path / "red.png", thing_picture("red"))
    run("index", ".", "--model", "color-bands")
    run("register", "van", "red.png")

    def told(**ignored: list[list[int]]) -> str:
        ignore = {f"{name}.mp4": spans for name, spans in ignored.items()}
        truth = {"van": {"visible": {"a.mp4": [[0, 19]]}, "ignore": ignore}}
        (tmp_path / "truth.json").write_text(json.dumps(truth))
        done = run("evaluate", "--truth", "truth.json")
        assert done.status == 0
        (line,) = [line for line in done.out.splitlines() if "taken out: " in line]
        return line.split("taken out: ")[1]

    assert told() == "0 of 1 entities"
    assert told(b=[[0, 19]]) == told(b=[[0, 14]]) == told(b=[[0, 19]], a=[[0, 5]]) == "1 of 1 entities"
    assert told(b=[[0, 4]]) == "0 of 1 entities"
    assert told(b=[[0, 19]], c=[[0, 19]]) == "- of 0 entities"


@pytest.mark.parametrize("spans", ["[0, 119]", "[[50, 20]]", "[[0]]", "[[0, 1.5]]", "[[-3, 4]]", '["0-9"]'])
def test_an_interval_that_is_none_is_refused_and_shown(spans: str, tmp_path: Path) -> None:
    """[[50, 20]] counted as nowhere, in silence; [0, 119] gave 'cannot unpack non-iterable int object'."""
    path = tmp_path / "truth.json"
    path.write_text('{"van": {"visible": {"a.mp4": ' + spans + "}}}")
    with pytest.raises(UsageError, match=r"expected a list of \[first frame, last frame\] for 'a.mp4'"):
        read_truth(path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "it names no entity; write"),
        ("[" * 200_000, "its brackets are nested too deeply"),
        ("[]", "it names no entity; write"),
        ('{"van": {"seen": {"a.mp4": [[0, 5]]}}}', "it does not say where 'van' is visible; write"),
        (
            '{"van": {"visible": {}, "ignored": {"a.mp4": [[0, 5]]}}}',
            "it has 'ignored' for 'van'. Did you mean 'ignore'?",
        ),
        ('{"van": {"visible": {}}, "van": {"visible": {}}}', "'van' is there twice; merge the two"),
        ('{"van": {"visible": {"a": [[0, 1]], "a": [[5, 6]]}}}', "'a' is there twice"),
        ('{"van": {"visible": {"\u00e9": [[0, 1]], "e\u0301": [[5, 6]]}}}', "'\u00e9' is there twice"),
        ('{"\u00e9": {"visible": {}}, "e\u0301": {"visible": {}}}', "'\u00e9' is there twice"),
        ('{"van": {"visible": [[0, 5]]}}', "expected videos with intervals, as"),
        ('{"van": {"visible": {"a": 5}}}', "expected a list of [first frame, last frame] for 'a'"),
    ],
)
def test_a_truth_that_would_be_read_in_part_is_refused(text: str, told: str, tmp_path: Path) -> None:
    """No entity at all ended as a defect; what was misspelt or came twice was lost in silence."""
    path = tmp_path / "truth.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(told)):
        read_truth(path)
    with pytest.raises(UsageError, match=r"nix\.json cannot be read: No such file"):
        read_truth(tmp_path / "nix.json")


def test_no_entity_to_score_is_told() -> None:
    with pytest.raises(UsageError, match="the truth names no entity"):
        score_entities(FakeLibrary(), {})


def test_frames_of_the_truth_behind_the_end_of_their_video_are_told() -> None:
    """Seconds times a thousand were judged as frames: recall was low, and that was all."""
    truth = {"van": Truth({"a": [(5, 50), (1, 2)]}, {"b": [(3, 10)]}), "cat": Truth({"else": [(0, 99)]}, {})}
    told = past_end(FRAMES, truth)
    assert told is not None and "the truth of 'a' names frames up to 50, but its last is 9" in told
    assert "(likewise for 1 more video)" in told
    assert past_end(FRAMES, {"van": Truth({"a": [(0, 9)], "b": []}, {})}) is None


def test_a_reset_with_settings_for_another_calibration_is_refused(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=12)
    run("index", "a.mp4", "--model", "color-bands")
    done = run("calibrate", "--reset", "--slack", "0.1")
    assert done.status == 2 and "leave out --slack" in done.err
    with panorama.open("panorama-library") as library:
        library.put_setting(SETTING + library.embedder.hash, [{}])  # as it was kept for fewer views
    assert "measured with other views" in run("info", "--json").json["calibration"]
    assert run("calibrate", "--reset").status == 0
    assert run("info", "--json").json["calibration"] == "the model's"
