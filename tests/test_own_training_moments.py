"""Things that a person has named judge at another moment: tracks that overlap in a clip are of one."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import thing_picture, write_picture

from panorama.errors import UsageError
from panorama.models.embedder import PanoramaNet
from panorama.models.training.adapt import read_parts, together
from panorama.models.training.split import CHOOSE, JUDGE, LEARN
from panorama.models.weights import open_model
from panorama.own_training.split import SOURCE, TABLE, Picture, divided, write_table

Spans = tuple[tuple[str, float, float], ...]
"""Clip, start and end in seconds of each track of a thing."""

PART_AND_WHOLE: Spans = (("c", 0, 10), ("c", 5, 8))
TWO_MOMENTS: Spans = (("c", 0, 10), ("c", 10, 12))


def pictures(spans_of: dict[str, Spans], folder: Path = Path(), guessed: bool = False) -> list[Picture]:
    """One picture of each track."""
    return [
        Picture(str(folder / f"{name}-{i}.png"), name, guessed, clip, f"{name}#{i}", start, end)
        for name, spans in spans_of.items()
        for i, (clip, start, end) in enumerate(spans)
    ]


def rows_of(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def in_table(pictures_of: list[Picture], out: Path) -> dict[str, dict[str, str]]:
    write_table(pictures_of, out, 0)
    return {Path(row["file"]).stem: row for row in rows_of(out / TABLE)}


def test_a_named_thing_is_not_found_by_a_track_that_overlaps_its_own(tmp_path: Path) -> None:
    """The part of a thing was found by its whole, of the same second: that counted as another moment."""
    both: Spans = (("c", 0, 10), ("c", 5, 8), ("c", 10, 12), ("d", 5, 8))
    rows = in_table(pictures({f"thing{i}": both for i in range(8)}), tmp_path)
    held = [row for row in rows.values() if row["held"] == JUDGE]
    asked = together(held)[0]
    others = {(row["class"], row["start"], row["clip"]) for row, on in zip(held, asked, strict=True) if on}
    one, other = sorted({row["class"] for row in held})
    assert others == {(one, "10", "c"), (one, "5", "d")} | {(other, f"{b}", clip) for clip, b, _ in both}


def test_what_is_seen_in_overlapping_tracks_alone_does_not_judge() -> None:
    """Sixty things with a part each counted as found again, of which few are."""
    things = {f"once{i}": PART_AND_WHOLE for i in range(8)} | {f"twice{i}": TWO_MOMENTS for i in range(4)}
    shown = pictures(things)
    parts = divided(shown, 0)
    held = {p.identity for p, part in zip(shown, parts, strict=True) if part in (CHOOSE, JUDGE)}
    assert {f"twice{i}" for i in range(4)} <= held
    with pytest.raises(UsageError, match="0 to choose by, 0 to judge by"):
        divided(pictures({f"once{i}": PART_AND_WHOLE for i in range(12)}), 0)
    # In two clips, or with a track between the others, it is seen again.
    again: tuple[Spans, ...] = ((*PART_AND_WHOLE, ("d", 0, 10)), (("c", 0, 4), ("c", 3, 6), ("c", 5, 9)))
    for spans in again:
        assert {CHOOSE, JUDGE} <= set(divided(pictures({f"thing{i}": spans for i in range(12)}), 0))


def test_the_table_tells_when_things_were_seen_and_whether_they_are_guessed(tmp_path: Path) -> None:
    named = in_table(pictures({f"thing{i}": TWO_MOMENTS for i in range(8)}), tmp_path / "named")
    assert {row["guessed"] for row in named.values()} == {"0"}
    assert {(row["clip"], row["start"], row["end"]) for row in named.values()} == {
        ("c", "0", "10"),
        ("c", "10", "12"),
    }
    found = [
        Picture(f"{p.file}-{i}", *(p.identity, True, p.clip, p.track, p.start_seconds, p.end_seconds))
        for p in pictures({f"thing{i}": TWO_MOMENTS for i in range(8)})
        for i in (0, 1)
    ]
    write_table(found, tmp_path / "guessed", 0)
    rows = rows_of(tmp_path / "guessed" / TABLE)
    assert {row["guessed"] for row in rows} == {"1"} and {row["clip"] for row in rows} == {"c"}
    assert all((row["class"] == row["moment"]) == (row["held"] != LEARN) for row in rows)
    write_table([Picture(f"{i}-{n}.png", f"{i}") for i in range(8) for n in "ab"], tmp_path / "folders", 0)
    for row in rows_of(tmp_path / "folders" / TABLE):
        assert [row[name] for name in ("moment", "clip", "start", "end", "guessed")] == ["", "", "", "", "0"]


@pytest.fixture(scope="module")
def net() -> PanoramaNet:
    return PanoramaNet(open_model("panoramanet", "embedder"), device="cpu")


def changed(table: Path, change: Callable[[dict[str, str]], dict[str, str]]) -> None:
    rows = [change(row) for row in rows_of(table)]
    with table.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def drawn(folder: Path, spans: Spans) -> Path:
    shown = pictures({f"thing{i}": spans for i in range(8)}, folder)
    for number, picture in enumerate(shown):
        write_picture(Path(picture.file), thing_picture("red", 30 + 3 * number))
    write_table(shown, folder, 0)
    return folder


def test_tables_of_earlier_versions_are_understood_or_refused(tmp_path: Path, net: PanoramaNet) -> None:
    source = {"data": "own", "csv": TABLE, "name": SOURCE}
    folder = drawn(tmp_path, TWO_MOMENTS)
    _, _, judge = read_parts(source, {"own": folder}, net)
    assert judge.seen.counts is not None and judge.seen.counts.sum() == 12 and judge.strangers is None

    def as_before(row: dict[str, str]) -> dict[str, str]:
        kept = {key: value for key, value in row.items() if key != "guessed"}
        return kept | {"clip": "", "start": "", "end": ""}

    now = (folder / TABLE).read_text()
    changed(folder / TABLE, as_before)
    with pytest.raises(
        UsageError,
        match=r"pictures\.csv, of an earlier version, does not say when .* Start again in a new folder",
    ):
        read_parts(source, {"own": folder}, net)
    changed(folder / TABLE, lambda row: row | {"moment": ""})  # of folders: each picture is one moment
    assert read_parts(source, {"own": folder}, net)[2].strangers is None
    (folder / TABLE).write_text(now)
    changed(folder / TABLE, lambda row: {key: value for key, value in row.items() if key != "guessed"})
    assert (
        read_parts(source, {"own": folder}, net)[2].strangers is not None
    )  # only what is guessed had a clip


def test_a_part_in_which_nothing_is_seen_again_is_told(tmp_path: Path, net: PanoramaNet) -> None:
    folder = drawn(tmp_path, TWO_MOMENTS)
    changed(folder / TABLE, lambda row: row | {"end": "11"})
    with pytest.raises(UsageError, match=r"nothing with held = 2 that is seen at more than one moment"):
        read_parts({"data": "own", "csv": TABLE, "name": SOURCE}, {"own": folder}, net)
