"""When and by which camera videos were recorded, as indexing and the Python API tell it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from fakes import ColoredThings, Thing, write_film

import panorama
from panorama.cameras.naming import folder_camera
from panorama.cameras.recording_rule import RecordingRule
from panorama.errors import UsageError
from panorama.indexing.outcomes import Hooks
from panorama.store import Recorded, RecordedRow, Store
from panorama.store.catalog import recorded
from panorama.store.catalog.database import Transaction

BERLIN = ZoneInfo("Europe/Berlin")


def unix(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.fixture
def library(tmp_path: Path, fake_proposer: ColoredThings) -> panorama.Library:
    for name in ("gate_20260301-101500", "gate_20260301-101600", "yard_20260301-101500", "odd"):
        color = "red" if name.endswith("500") else "green"
        write_film(tmp_path / "archive" / f"{name}.mp4", [Thing(color, 0, 10, left=len(name))], frames=12)
    return panorama.open(tmp_path / "library", create=True)


RULE = RecordingRule("{camera}_%Y%m%d-%H%M%S", "Europe/Berlin")


def clocks(library: panorama.Library) -> dict[str, tuple[str, str | None]]:
    rows = library.videos().select(["video", "camera", "start_clock"]).to_pylist()
    return {
        r["video"].removesuffix(".mp4"): (r["camera"], r["start_clock"] and str(r["start_clock"]))
        for r in rows
    }


def test_indexing_stores_times_and_cameras_and_says_whose_it_could_not_tell(
    library: panorama.Library, tmp_path: Path
) -> None:
    report = library.index(tmp_path / "archive", recording=RULE, model="color-bands")
    assert report.recording is not None
    assert (report.recording.dated, report.recording.undated) == (3, ("odd.mp4",))
    assert report.recording.example == "gate_20260301-101500.mp4 at 2026-03-01 10:15:00 Europe/Berlin"
    expected = {
        "gate_20260301-101500": ("gate", "2026-03-01 10:15:00"),
        "gate_20260301-101600": ("gate", "2026-03-01 10:16:00"),
        "yard_20260301-101500": ("yard", "2026-03-01 10:15:00"),
        "odd": ("archive", None),
    }
    assert clocks(library) == expected
    again = library.index(tmp_path / "archive")
    assert again.recording is not None and again.recording.dated == 3  # the library keeps the rule
    assert clocks(library) == expected
    assert {row.recorded.time_zone for row in library._store.recorded()} == {"Europe/Berlin", None}


def test_a_name_of_a_clock_that_was_never_set_tells_no_time(
    library: panorama.Library, tmp_path: Path
) -> None:
    """Recorders name their files so until somebody sets their clock; those of containers told none."""
    for number, stamp in enumerate(("19700101-000000", "19791231-235959", "19800101-000000")):
        write_film(tmp_path / "old" / f"road_{stamp}.mp4", [Thing("red", number, 10)], frames=12)
    for rule in (RecordingRule("name", "UTC"), RULE):
        library.index(tmp_path / "old", recording=rule, model="color-bands")
        report = library.date(recording=rule)
        assert report.undated == ("road_19700101-000000.mp4", "road_19791231-235959.mp4")
        assert clocks(library)["road_19800101-000000"][1] == "1980-01-01 00:00:00"


def test_times_that_have_not_come_yet_are_remarked_on(
    library: panorama.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "panorama.cameras.recording.time.time", lambda: unix("2026-03-01 10:15:30", "Europe/Berlin")
    )
    report = library.index(tmp_path / "archive", recording=RULE, model="color-bands").recording
    assert report is not None and report.dated == 3
    assert report.to_come == ("gate_20260301-101600.mp4",)
    (told,) = (line for line in report.lines() if "in the future" in line)
    assert told.startswith(
        "1 video was recorded in the future by that; perhaps --timezone or the clock is wrong"
    )
    assert told.endswith(": gate_20260301-101600.mp4")
    library.date(["gate_20260301-101600.mp4"], start="2026-03-01 10:20")
    assert library.date(recording=RULE).to_come == (), "by hand"


def test_times_are_set_anew_without_decoding_and_those_set_by_hand_stay(
    library: panorama.Library, tmp_path: Path
) -> None:
    library.index(tmp_path / "archive", model="color-bands")
    assert clocks(library)["odd"] == ("archive", None)
    for path in (tmp_path / "archive").iterdir():
        path.unlink()  # nothing can be decoded any more
    assert library.date(recording=RULE).changed == 3
    assert library.date(["odd.mp4"], start="2026-03-01 12:00", zone="UTC").changed == 1
    assert clocks(library)["odd"] == ("archive", "2026-03-01 12:00:00")
    moved = RecordingRule("{camera}_{utc:%Y%m%d-%H%M%S}", "Europe/Berlin")
    assert library.date(recording=moved).changed == 3
    assert clocks(library)["gate_20260301-101500"] == ("gate", "2026-03-01 11:15:00")
    assert clocks(library)["odd"] == ("archive", "2026-03-01 12:00:00")
    assert library.date(["odd.mp4"], start="").changed == 1
    assert clocks(library)["odd"] == ("archive", None)


def test_an_hour_that_was_left_out_is_no_start(library: panorama.Library, tmp_path: Path) -> None:
    """It was taken for the hour behind it, in silence."""
    library.index(tmp_path / "archive", model="color-bands")
    with pytest.raises(UsageError, match=r"does not exist in Europe/Berlin: .*'2026-03-29 02:30:00\+01:00'"):
        library.date(["odd.mp4"], start="2026-03-29 02:30", zone="Europe/Berlin")
    library.date(["odd.mp4"], start="2026-03-29 02:30:00+01:00", zone="Europe/Berlin")
    assert clocks(library)["odd"] == ("archive", "2026-03-29 03:30:00")
    for start in ("2026-03-29 03:00", "2026-10-25 02:30", "9900-01-01 00:00:00.123457"):
        library.date(["odd.mp4"], start=start, zone="Europe/Berlin")
    assert (clocks(library)["odd"][1] or "").startswith("9900-01-01 00:00:00")


def test_indexed_anew_with_other_settings_a_video_keeps_its_time(
    library: panorama.Library, tmp_path: Path
) -> None:
    from panorama.indexing.settings import IngestSettings

    library.index(tmp_path / "archive", model="color-bands")
    library.date(["odd.mp4"], start="2026-03-01 12:00:00.5", zone="Asia/Tokyo")
    library.index(tmp_path / "archive", settings=IngestSettings(every=2))
    assert clocks(library)["odd"] == ("archive", "2026-03-01 12:00:00.500000")


def test_folders_that_are_indexed_themselves_are_cameras_of_their_own(
    library: panorama.Library, tmp_path: Path
) -> None:
    """`index cam1 cam2` gave both the camera '', so that counts per camera were those of all together."""
    write_film(tmp_path / "cam1" / "day.mp4", [Thing("red", 0, 10)], frames=12)
    write_film(tmp_path / "cam2" / "day.mp4", [Thing("blue", 0, 10)], frames=12)
    write_film(tmp_path / "cam2" / "left" / "day.mp4", [Thing("green", 0, 10)], frames=12)
    expected = {"day": "cam1", "cam2/day": "cam2", "left/day": "left"}
    library.index([tmp_path / "cam1", tmp_path / "cam2"], model="color-bands")
    assert {video: camera for video, (camera, _) in clocks(library).items()} == expected
    library.date(recording=RecordingRule(zone="UTC", camera_from="folder"))
    assert {video: camera for video, (camera, _) in clocks(library).items()} == expected


def test_a_camera_that_is_two_folders_is_told_with_what_tells_them_apart(
    library: panorama.Library, tmp_path: Path
) -> None:
    """site1/cam1 and site2/cam1 were one camera without a word; so are the days of one, and ought to be."""
    for k, folder in enumerate(("site1/cam1", "site2/cam1", "2026-03-01/gate", "2026-03-02/gate")):
        write_film(tmp_path / folder / "day.mp4", [Thing("red", 0, 5 + k)], frames=12 + k)
    report = library.index([tmp_path / "site1/cam1", tmp_path / "2026-03-01"], model="color-bands")
    assert report.recording is not None and not report.recording.shared
    report = library.index([tmp_path / "site2/cam1", tmp_path / "2026-03-02"], model="color-bands")
    assert report.recording is not None
    (line,) = report.recording.lines()
    assert line == (
        f"camera 'cam1' covers 2 folders: {tmp_path}/site1/cam1, {tmp_path}/site2/cam1; if each is its"
        " own camera: panorama clock --camera-from '{camera}/{camera}/*'"
    )
    again = library.index([tmp_path / "site2/cam1"], model="color-bands").recording
    assert again is not None and not again.lines(), "told once"
    library.date(recording=RecordingRule(zone="UTC", camera_from="{camera}/{camera}/*"))
    cameras = sorted(camera for camera, _ in clocks(library).values())
    assert cameras == ["2026-03-01/gate", "2026-03-02/gate", "site1/cam1", "site2/cam1"]


def test_cameras_of_two_sites_with_days_between_are_told_apart_by_the_site(
    library: panorama.Library, tmp_path: Path
) -> None:
    """The pattern that was told made a camera of every day."""
    for k, folder in enumerate(("site1/2026-03-01/cam1", "site1/2026-03-02/cam1", "site2/2026-03-01/cam1")):
        write_film(tmp_path / folder / "day.mp4", [Thing("red", 0, 5 + k)], frames=12 + k)
        report = library.index([tmp_path / folder], model="color-bands").recording
    assert report is not None
    (line,) = report.lines()
    assert line.endswith("--camera-from '{camera}/*/{camera}/*'")
    library.date(recording=RecordingRule(zone="UTC", camera_from="{camera}/*/{camera}/*"))
    cameras = sorted(camera for camera, _ in clocks(library).values())
    assert cameras == ["site1/cam1", "site1/cam1", "site2/cam1"]


def test_no_folder_is_a_camera_for_some_of_its_videos_only(library: panorama.Library, tmp_path: Path) -> None:
    """Videos indexed when a folder was no camera stayed without one beside others of the folder."""
    for k in range(2):
        write_film(tmp_path / "cam1" / f"{k}.mp4", [Thing("red", 0, 5 + k)], frames=12 + k)
    library.index(tmp_path / "cam1" / "0.mp4", model="color-bands")
    library._store.put_recorded({"0.mp4": Recorded("")})
    library.index(tmp_path / "cam1" / "1.mp4", model="color-bands")
    assert {camera for camera, _ in clocks(library).values()} == {"cam1"}


def test_while_indexing_a_folder_gives_its_camera_and_takes_no_time_back(
    library: panorama.Library, tmp_path: Path
) -> None:
    """A run learns at its beginning who has no camera; what another process sets since then stays."""
    for k in range(2):
        write_film(tmp_path / "cam1" / f"{k}.mp4", [Thing("red", 0, 5 + k)], frames=12 + k)
    library.index(tmp_path / "cam1" / "0.mp4", model="color-bands")
    store = library._store
    store.put_recorded({"0.mp4": Recorded("")})
    meanwhile = Recorded("", unix("2026-03-01 12:00"), "UTC", "hand")
    seen: list[dict[str, Recorded]] = []
    hooks = Hooks(
        on_start=lambda *_: None if store.put_recorded({"0.mp4": meanwhile}) else pytest.fail("not set"),
        on_file=lambda _: seen.append({row.name: row.recorded for row in store.recorded()}),
    )
    library.index(tmp_path / "cam1" / "1.mp4", hooks=hooks)
    expected = {"0.mp4": replace(meanwhile, camera="cam1"), "1.mp4": Recorded("cam1")}
    assert seen == [expected], "before the file is told"


@pytest.mark.parametrize("how", ["rule", "hand", "first"])
def test_what_another_process_sets_meanwhile_is_not_taken_back(
    library: panorama.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Between reading rows and writing them anew, a time or camera set by another process was lost."""
    library.index(tmp_path / "archive", recording=RULE, model="color-bands")
    name, other = "gate_20260301-101500.mp4", "odd.mp4"
    ways = {
        "rule": lambda: library.date(recording=RecordingRule("{camera}_%Y%m%d-%H%M%S", "UTC")),
        "hand": lambda: library.date([name], start="2026-04-01 08:00", zone="UTC"),
        "first": lambda: library.date([name], first_start="2026-04-01 08:00", zone="UTC"),
    }
    elsewhere = {
        "rule": f"library.date([{name!r}], start='2026-05-01 12:00', zone='UTC')",
        "hand": f"library._store.put_recorded({{{name!r}: Recorded('yard')}})",
        "first": f"library._store.put_recorded({{{name!r}: Recorded('yard', 5e8, 'UTC', 'name')}})",
    }
    program = (
        "import sys, panorama; from panorama.store import Recorded\n"
        f"with panorama.open(sys.argv[1]) as library: {elsewhere[how]}"
    )
    real, asked = Store.put_recorded, []

    def meanwhile(store: Store, *given: object) -> int | None:
        if not asked:
            subprocess.run([sys.executable, "-c", program, str(library.path)], check=True, timeout=60)
        asked.append(given)
        return real(store, *given)

    monkeypatch.setattr(Store, "put_recorded", meanwhile)
    changed = ways[how]().changed
    rows = {row.name: row.recorded for row in library._store.recorded()}
    april = unix("2026-04-01 08:00")
    expected = {
        "rule": Recorded("gate", unix("2026-05-01 12:00"), "UTC", "hand", RULE.time_from),
        "hand": Recorded("yard", april, "UTC", "hand"),
        "first": Recorded("yard", april, "UTC", "hand"),
    }
    assert rows[name] == expected[how] and len(asked) == 2
    assert changed == (2 if how == "rule" else 1) and rows[other].start_time_unix is None


@pytest.mark.parametrize("rule", [RecordingRule(zone="UTC"), RULE])
def test_a_file_that_is_told_reads_no_other_videos(
    library: panorama.Library, tmp_path: Path, rule: RecordingRule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read the rows of all, twice: a third of a second for each of 20,000 files that had not changed."""
    library.index(tmp_path / "archive", recording=rule, model="color-bands")
    asked: list[list[str] | None] = []
    told: list[int] = []

    def spy(tx: Transaction, names: Collection[str] | None = None) -> list[RecordedRow]:
        asked.append(None if names is None else sorted(names))
        return rows_of(tx, names)

    rows_of = recorded.read
    monkeypatch.setattr(recorded, "read", spy)
    report = library.index(tmp_path / "archive", hooks=Hooks(on_file=lambda _: told.append(len(asked))))
    assert len(report.files) == len(told) == 4
    assert asked[: told[-1]] == [[file.video] for file in report.files]
    assert None not in asked, "nothing is new, so that no folder shares its camera anew"


def test_rows_by_name_are_those_of_all_in_their_order(library: panorama.Library, tmp_path: Path) -> None:
    library.index(tmp_path / "archive", model="color-bands")
    store = library._store
    every = store.recorded()
    assert store.recorded({row.name for row in every}) == every and len(every) == 4
    assert store.recorded(["odd.mp4", "none.mp4"]) == [row for row in every if row.name == "odd.mp4"]
    assert store.recorded(["odd.mp4"] * 4) == store.recorded(["odd.mp4"])
    assert store.recorded([]) == []


@pytest.mark.parametrize(
    ("uri", "root", "name", "camera"),
    [
        ("/v/gate/a.mp4", "/v", "gate/a.mp4", "gate"),
        ("/v/gate/a.mp4", "/v/gate", "a.mp4", "gate"),
        ("/v/north/gate/a.mp4", "/v", "north/gate/a.mp4", "north/gate"),
        ("/elsewhere/a.mp4", "/v", "gate/a.mp4", "gate"),  # a link
        ("/elsewhere/a.mp4", "/v", "a.mp4", "v"),
        ("/a.mp4", "/", "a.mp4", ""),
    ],
)
def test_the_camera_is_the_folder_that_a_video_lies_in(uri: str, root: str, name: str, camera: str) -> None:
    assert folder_camera(uri, root, name) == camera


def test_a_pattern_that_fits_nothing_is_refused_before_anything_is_indexed(
    library: panorama.Library, tmp_path: Path
) -> None:
    wrong = RecordingRule("cam{camera}_%Y%m%d-%H%M%S", "UTC")
    with pytest.raises(UsageError, match=r"no time for any of 4 videos: .*gate_2026"):
        library.index(tmp_path / "archive", recording=wrong)
    with pytest.raises(UsageError, match="fits none of 4 videos"):
        library.index(tmp_path / "archive", recording=RecordingRule(zone="UTC", camera_from="x-{camera}"))
    assert not clocks(library)
