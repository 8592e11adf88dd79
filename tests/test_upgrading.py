"""What `index` does about videos that an earlier version indexed with another detector or other code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran
from fakes import ColoredThings, Thing, thing_picture, write_film

import panorama
from panorama.errors import ModelError
from panorama.indexing.outcomes import Hooks
from panorama.indexing.profile import LOOKS, Profile, remember
from panorama.indexing.settings import IngestSettings

Run = Callable[..., Ran]
USUAL = IngestSettings()
NAMED, ZOOMED = IngestSettings(samples_per_second=10.0), IngestSettings(samples_per_second=2.0, zoom=2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(4):
        write_film(tmp_path / "v" / f"{number}.mp4", [Thing("red", 0, 20)], frames=20 + number)
    return tmp_path / "v"


@pytest.fixture
def library(folder: Path, tmp_path: Path, fake_proposer: ColoredThings) -> panorama.Library:
    """Two videos with settings that were named for each, one with the default, one looked at quickly."""
    library = panorama.open(tmp_path / "panorama-library", create=True)
    library.use_model("color-bands")
    library.index(folder / "0.mp4", settings=NAMED)
    library.index(folder / "1.mp4", settings=ZOOMED)
    library.index(folder / "2.mp4")
    library.index(folder / "3.mp4", settings=IngestSettings(keyframes_only=True))
    return library


@pytest.fixture(params=["code", "proposer"])
def upgraded(
    request: pytest.FixtureRequest, library: panorama.Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    if request.param == "code":
        monkeypatch.setattr("panorama.indexing.settings.CODE_VERSION", "next")
    else:
        monkeypatch.setattr(ColoredThings, "hash", "colored-things-2")


def looks(library: panorama.Library) -> list[str]:
    """The settings' hashes of the videos, in order of name."""
    snapshot = library.snapshot()
    held = dict(zip(snapshot.live_segments.tolist(), snapshot.looks, strict=True))
    return [held[segment] for segment in snapshot.videos.column("segment").to_pylist()]


def hashes(*settings: IngestSettings) -> list[str]:
    return [one.hash(ColoredThings().hash) for one in settings]


def test_settings_that_were_named_outlive_an_upgrade(
    library: panorama.Library, folder: Path, upgraded: None
) -> None:
    """A plain `index` replaced days of `--fps 15` by five a second, without a word."""
    told: list[tuple[int, int]] = []
    (folder / "copy.mp4").write_bytes((folder / "0.mp4").read_bytes())
    report = library.index(folder, hooks=Hooks(on_anew=lambda *counts: told.append(counts)))
    assert told == [(3, 2)], "the quick look is no upgrade's matter"
    assert sorted((Path(f.path).name, f.status) for f in report.files) == [
        ("0.mp4", "indexed"), ("1.mp4", "indexed"), ("2.mp4", "indexed"), ("3.mp4", "indexed"),
        ("copy.mp4", "skipped"),
    ]  # fmt: skip
    assert looks(library) == hashes(NAMED, ZOOMED, USUAL, USUAL, NAMED)
    again = library.index(folder, hooks=Hooks(on_anew=lambda *counts: told.append(counts)))
    assert {f.status for f in again.files} == {"skipped"} and len(told) == 1


def test_what_is_indexed_anew_is_told_of_files_that_moved_too(
    library: panorama.Library, folder: Path, upgraded: None
) -> None:
    """They were counted by their paths: all were decoded again, without a word."""
    told: list[tuple[int, int]] = []
    moved = folder.rename(folder.parent / "w")
    report = library.index(moved, hooks=Hooks(on_anew=lambda *counts: told.append(counts)))
    assert [f.status for f in report.files] == ["indexed"] * 4
    assert told == [(3, 2)]


def test_a_second_upgrade_knows_what_the_first_one_knew(
    library: panorama.Library, folder: Path, upgraded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.index(folder)
    monkeypatch.setattr("panorama.indexing.settings.CODE_VERSION", "after next")
    library.index(folder)
    assert looks(library) == hashes(NAMED, ZOOMED, USUAL, USUAL)


def test_after_an_upgrade_the_default_gives_way_to_the_profile_and_to_what_is_named(
    library: panorama.Library, folder: Path, upgraded: None
) -> None:
    profile, asked = IngestSettings(samples_per_second=1.0), IngestSettings(samples_per_second=4.0)
    remember(library, Profile(profile))
    library.index(folder)
    assert looks(library) == hashes(NAMED, ZOOMED, profile, profile)
    library.index(folder, settings=asked)
    assert looks(library) == hashes(*[asked] * 4)
    library.index(folder, redo=True)
    assert looks(library) == hashes(*[profile] * 4)


def test_what_may_have_been_named_stays_where_nobody_can_say_with_what_it_was_indexed(
    library: panorama.Library, folder: Path, upgraded: None
) -> None:
    """A library of before keeps which settings were named, and not which videos have them."""
    library.put_setting(LOOKS, None)
    before = looks(library)
    report = library.index(folder)
    assert looks(library) == [*before[:3], *hashes(USUAL)]
    assert "with other settings; --redo" in str(report.files[0].note)
    library.put_setting("profile-past", None)
    library.put_setting(LOOKS, None)
    library.index(folder)
    assert looks(library) == hashes(*[USUAL] * 4), "nobody ever named any"


def test_the_command_says_what_is_indexed_anew_and_why(
    run: Run, library: panorama.Library, upgraded: None
) -> None:
    told = run("index", "v").err.splitlines()[0]
    assert told == (
        "3 videos are indexed again, 2 of them with the settings they were given before: an earlier version"
        " or another proposer indexed them, and this one finds or keeps other things; until each is done,"
        " queries use what was indexed before"
    )
    assert "indexed again" not in run("index", "v").err


def test_stored_crops_answer_before_the_first_video_is_decoded(
    library: panorama.Library, folder: Path, upgraded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice was to index again, which decoded the archive first: no question was answered for days."""
    asked = "SELECT count(*) FROM sightings WHERE entity = 'red'"
    library.register("red", thing_picture("red"))
    before = library.query(asked).fetchall()
    monkeypatch.setattr("panorama.models.color.VERSION", "next")
    library = panorama.open(library.path)
    with pytest.raises(ModelError, match="it begins with the stored crops"):
        library.query(asked)
    answers: list[object] = []
    hooks = Hooks(on_start=lambda *_: answers.append(library.query(asked).fetchall()))
    assert library.index(folder, hooks=hooks).embedded > 0
    assert answers[0] == before and len(answers) == 4


@pytest.mark.parametrize("words", [("--every", "3"), ("--quick",)])
def test_a_step_of_frames_is_the_same_whatever_rate_the_profile_has(
    run: Run, tmp_path: Path, fake_proposer: ColoredThings, words: tuple[str, ...]
) -> None:
    """After `tune`, the same `index --every 3` decoded a whole archive again, for the same rows."""
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 20)], frames=20)
    assert "1 indexed" in run("index", "v", "--model", "color-bands", *words).err
    with panorama.open(tmp_path / "panorama-library") as library:
        remember(library, Profile(IngestSettings(samples_per_second=2.0)))
        before = looks(library)
    assert "0 indexed, 1 skipped" in run("index", "v", *words).err
    write_film(tmp_path / "v" / "b.mp4", [Thing("red", 0, 20)], frames=21)
    run("index", "v", *words)
    with panorama.open(tmp_path / "panorama-library") as library:
        assert looks(library) == before * 2


def test_a_step_of_frames_that_was_indexed_beside_another_rate_is_not_indexed_again(
    run: Run, tmp_path: Path, fake_proposer: ColoredThings
) -> None:
    """As by an earlier version after `tune`, or from Python: the rate is part of the hash."""
    write_film(tmp_path / "v" / "a.mp4", [Thing("red", 0, 20)], frames=20)
    run("index", "v", "--model", "color-bands")
    with panorama.open(tmp_path / "panorama-library") as library:
        remember(library, Profile(IngestSettings(samples_per_second=2.0)))
        beside = IngestSettings(samples_per_second=2.0, every=3)
        library.index(tmp_path / "v", settings=beside)
        before = looks(library)
        library.index(tmp_path / "v", settings=IngestSettings(every=3))
        assert looks(library) == before
    assert "0 indexed, 1 skipped" in run("index", "v", "--every", "3").err
    for words in (("--every", "3", "--zoom", "2"), ("--every", "2"), ("--every", "3", "--redo")):
        assert "1 indexed" in run("index", "v", *words).err
