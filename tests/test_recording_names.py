"""When and by which camera a video was recorded, as its name and its container tell."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import av
import pytest
from clips import write_taken
from fakes import write_film

from panorama.cameras.naming import NamePattern, Told, usual_stamp
from panorama.cameras.recording_rule import RecordingRule, local_zone
from panorama.errors import UsageError, VideoOpenError
from panorama.pictures.exif import exif_of_jpeg, taken_at
from panorama.store import Recorded
from panorama.video import recorded_at

BERLIN = ZoneInfo("Europe/Berlin")


def unix(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


@pytest.mark.parametrize(
    ("pattern", "path", "camera", "time"),
    [
        ("{camera}_%Y%m%d-%H%M%S", "/a/gate_20260301-101500.mp4", "gate", "2026-03-01 10:15"),
        ("{camera}_{time:%Y%m%d-%H%M%S}", "/a/gate_20260301-101500", "gate", "2026-03-01 10:15"),
        ("{camera}.%Y%m%d_%H%M%S*", "Front.Door.20260301_101500.23-1.mp4", "Front.Door", "2026-03-01 10:15"),
        ("NVR_{camera}_main_%Y%m%d%H%M%S_*", "NVR_ch1_main_20260301101500_20260301111500.mp4", "ch1",
         "2026-03-01 10:15"),
        ("%Y-%m-%d/{camera}/%H.%M", "/r/2026-03-01/yard/10.15.mp4", "yard", "2026-03-01 10:15"),
        ("{camera}-%d.%m.%y %I-%M %p", "yard-01.03.26 01-15 pm.avi", "yard", "2026-03-01 13:15"),
        ("{camera}/{camera}/%Y%m%d-%H*", "north/gate/20260301-10.mkv", "north/gate", "2026-03-01 10:00"),
        ("{camera}/%Y%m%d/{camera}-%H", "/v/gate/20260301/gate-10.mkv", "gate", "2026-03-01 10:00"),
        ("{camera}/{camera}/{camera}-%Y%m%d-%H", "1/2/1-20260301-10.mkv", "1/2/1", "2026-03-01 10:00"),
        ("{camera}/{camera}/{camera}-%Y%m%d-%H", "1/2/2-20260301-10.mkv", "1/2/2", "2026-03-01 10:00"),
        ("%Y%j_%H", "2026060_10.mkv", None, "2026-03-01 10:00"),
    ],
)  # fmt: skip
def test_a_pattern_reads_local_time_and_camera(
    pattern: str, path: str, camera: str | None, time: str
) -> None:
    told = NamePattern(pattern).read(path)
    assert told is not None and told.camera == camera
    assert told.unix(BERLIN) == unix(time, "Europe/Berlin")


def test_a_pattern_may_say_utc_an_offset_or_seconds_since_1970() -> None:
    folders = NamePattern("{utc:%Y-%m-%d}/{utc:%H}/{camera}/{utc:%M.%S}")
    told = folders.read("/media/recordings/2026-03-01/09/gate/15.30.mp4")
    assert told is not None and told.camera == "gate"
    assert told.unix(BERLIN) == unix("2026-03-01 09:15:30")
    offset = NamePattern("%Y%m%dT%H%M%S%z").read("20260301T101500+0530.mp4")
    assert offset is not None and offset.unix(BERLIN) == unix("2026-03-01 04:45")
    assert NamePattern("{camera}-%s.%f").read("x/gate-1772356500.250.mp4") is not None
    seconds = NamePattern("{camera}-%s-*").read("gate-1772356500-abc.mp4")
    assert seconds is not None and seconds.unix(BERLIN) == 1772356500.0


@pytest.mark.parametrize("pattern", ["%Y-%m-%d/{camera}/**", "{camera}/DCIM/**", "traps/*/{camera}/**"])
def test_pictures_and_clips_of_one_card_have_one_camera(pattern: str) -> None:
    """One pattern fitted the folder of pictures, another the clips in it; a library keeps only one."""
    cameras = NamePattern(pattern, wants_time=False)
    card = "/media/traps/2026-03-29/Südtor/DCIM"
    for path in (f"{card}/100MEDIA", f"{card}/100MEDIA/IMG_0013.AVI", f"{card}/100MEDIA/more/IMG_0013.AVI"):
        told = cameras.read(path)
        assert told is not None and told.camera == "Südtor"
    assert cameras.read("/media/elsewhere/x/IMG_0013.AVI") is None
    flat = cameras.read("/media/traps/2026-03-29/Südtor")
    assert (flat is None) == ("DCIM" in pattern), "none of the further folders need be there"


@pytest.mark.parametrize("folder", ["cam.1", "192.168.1.10", "cam"])
def test_the_name_of_a_folder_has_no_suffix(folder: str) -> None:
    """cam.1 and cam.2, folders of pictures each, were one camera."""
    pattern = NamePattern("{camera}", wants_time=False)
    assert pattern.read(f"/traps/{folder}", is_folder=True) == Told(folder)
    assert pattern.read(f"/traps/{folder}.mp4") == Told(folder)
    told = NamePattern("{camera}_%Y%m%d%H").read("/traps/cam.1_2026030110.d", is_folder=True)
    assert told is not None and told.camera == "cam.1", (
        "what a pattern leaves out may be a suffix all the same"
    )


def test_any_number_of_folders_stands_between_others_too() -> None:
    told = NamePattern("%Y-%m-%d/**/{camera}_%H%M").read("/v/2026-03-29/a/b/gate_1015.mp4")
    assert told == NamePattern("%Y-%m-%d/*/*/{camera}_%H%M").read("/v/2026-03-29/a/b/gate_1015.mp4")
    assert told is not None and told.camera == "gate"


def test_a_name_that_does_not_fit_or_contradicts_its_folder_tells_nothing() -> None:
    pattern = NamePattern("%Y%m%d/{camera}_%Y%m%d-%H%M%S")
    assert pattern.read("20260301/gate_20260301-101500.mp4") is not None
    assert pattern.read("20260302/gate_20260301-101500.mp4") is None
    assert pattern.read("gate_20260301-101500.mp4") is None
    impossible = NamePattern("%Y%m%d-%H%M%S").read("20261301-101500.mp4")
    assert impossible is not None and impossible.unix(BERLIN) is None


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("%Y-%j_%H", "2025-366_10"),  # 2025 has 365 days
        ("%Y-%j_%H", "2025-000_10"),
        ("%Y-%j_%H", "2025-999_10"),
        ("%Y%m%d_%I%M%p", "20250301_0015pm"),
        ("%Y%m%d_%I%M%p", "20250301_1315am"),
        ("%Y%m%dT%H%M%z", "20250301T1015+0570"),
    ],
)
def test_a_day_or_hour_that_does_not_exist_is_no_time(pattern: str, name: str) -> None:
    """The time was that of another day, mostly in the next or the last year, or of another hour."""
    told = NamePattern(pattern).read(f"{name}.mp4")
    assert told is not None and told.unix(BERLIN) is None


def test_the_last_day_of_a_leap_year_and_the_hours_of_a_clock_of_twelve_are_read() -> None:
    for pattern, name, time in (
        ("%Y-%j_%H", "2024-366_10", "2024-12-31 10:00"),
        ("%Y%m%d_%I%M%p", "20250301_1215am", "2025-03-01 00:15"),
        ("%Y-%m-%d at %I.%M.*%p", "2025-03-01 at 1.15.30 PM", "2025-03-01 13:15"),
        ("*%Y%m%d*%I-%M-%S %p*", "cam 20250301 11-15-00 PM", "2025-03-01 23:15"),
        ("%Y%m%d_*%I%M%p*", "20250301_cam_1115PM", "2025-03-01 23:15"),
        ("%Y%m%d_*%I%M%p*", "20250301_cam_115PM", "2025-03-01 13:15"),
        ("%Y%m%d_%I%M%p", "20250301_1215pm", "2025-03-01 12:15"),
    ):
        told = NamePattern(pattern).read(f"{name}.mp4")
        assert told is not None and told.unix(BERLIN) == unix(time, "Europe/Berlin")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{camera}", "needs year, month, day and hour"),
        ("%Y%m%d", "needs year, month, day and hour"),
        ("%Y%m%d %I", "needs year, month, day and hour"),
        ("{cam}_%Y%m%d%H", r"no field \{cam\}"),
        ("%Y%m%d%Q", "%Q is not known"),
        ("{camera_%Y%m%d%H", "stands alone"),
        ("{utc:%Y%m%d}%H", "not both"),
        ("{camera}/**/%Y%m%d%H", "a folder with a known name or a date"),
        ("**/%Y%m%d%H", "a folder with a known name or a date"),
    ],
)
def test_a_bad_pattern_says_what_is_wrong_and_gives_an_example(pattern: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        NamePattern(pattern)
    assert "{camera}_%Y%m%d-%H%M%S" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "time"),
    [
        ("gate_20260301-101530.mp4", "2026-03-01 10:15:30"),
        ("2026-03-01_10-15-30_gate.mkv", "2026-03-01 10:15:30"),
        ("gate 2026-03-01 at 10.15.30.mov", "2026-03-01 10:15:30"),
        ("ch1_20260301101530_20260301111530.mp4", "2026-03-01 10:15:30"),
        ("VID_20260301_101530250.mp4", "2026-03-01 10:15:30.250"),
        ("2026-03-01_10-15.mkv", "2026-03-01 10:15"),
        ("RLC_20260301T101530+0530_2.mp4", "2026-03-01 05:45:30"),
        ("2026-03-01T10:15:30-05:00.mp4", "2026-03-01 16:15:30"),
        ("gate_20260301_101530-0001.jpg", "2026-03-01 10:15:30"),
        ("gate_20260301-101530+0130.mp4", "2026-03-01 10:15:30"),
        ("gate_20260301_1015-1130.mp4", "2026-03-01 10:15"),
        ("gate_20260301T1015-1130.mp4", "2026-03-01 10:15"),
        ("gate_20260301T101530-2359.mp4", "2026-03-01 10:15:30"),
        ("gate_20260301T101530-0042.mp4", "2026-03-01 10:15:30"),
        ("gate_20260301T101530-4711.mp4", "2026-03-01 10:15:30"),
        ("WhatsApp Video 2026-03-01 at 10.15.30 PM.mp4", "2026-03-01 22:15:30"),
        ("WhatsApp Video 2026-03-01 at 10.15.30 AM (1).mp4", "2026-03-01 10:15:30"),
        ("Screen Recording 2026-03-01 at 1.15.30\u202fPM.mov", "2026-03-01 13:15:30"),
        ("2026-03-01 12.15.30 am.mp4", "2026-03-01 00:15:30"),
        ("20260301_1215pm.mp4", "2026-03-01 12:15"),
        ("2026-03-01 22.15.30 PM.mp4", "2026-03-01 22:15:30"),
        ("2026-03-01 10.15.30 Pmax.mp4", "2026-03-01 10:15:30"),
        ("2026-03-01-1-15.mp4", None),
        ("vlc-record-2026-03-01-10h15m30s-dvb.mp4", "2026-03-01 10:15:30"),
        ("GMT20260301-101530_Recording.mp4", "2026-03-01 11:15:30"),
        ("20260301_101530UTC.mp4", "2026-03-01 11:15:30"),
        ("20260301_101530 utcam.mp4", "2026-03-01 10:15:30"),
        ("20260301_101530_UTC-front.mp4", "2026-03-01 11:15:30"),
        ("20260301_101530_UTC+1.mp4", "2026-03-01 10:15:30"),
        ("2026-03-01_12-15-30 am Eingang.mp4", "2026-03-01 12:15:30"),
        ("20260301_121530_am_tor.mp4", "2026-03-01 12:15:30"),
        ("20260301_121530_am (2).mp4", "2026-03-01 00:15:30"),
        ("20260301_101530Z_gate.mp4", "2026-03-01 11:15:30"),
        ("20260301_101530Zoo.mp4", "2026-03-01 10:15:30"),
        ("20260301.mp4", None),
        ("1772356500.mp4", None),
        ("gate-20261301-101530.mp4", None),
    ],
)
def test_the_usual_stamps_of_names_are_read_and_nothing_else(name: str, time: str | None) -> None:
    expected = None if time is None else unix(time, "Europe/Berlin")
    assert usual_stamp(f"/x/19990101-000000/{name}").unix(BERLIN) == expected
    if time is not None:
        assert usual_stamp("20260301T101530Z.mp4").unix(BERLIN) == unix("2026-03-01 10:15:30")


def test_a_stamp_of_the_hour_that_comes_twice_is_the_first_one() -> None:
    twice = NamePattern("%Y%m%d%H%M").read("202610250230.mp4")
    assert twice is not None and twice.unix(BERLIN) == unix("2026-10-25 00:30")
    never = NamePattern("%Y%m%d%H%M").read("202603290230.mp4")
    assert never is not None and never.unix(BERLIN) == unix("2026-03-29 01:30")


def with_tag(path: Path, **tags: str) -> Path:
    """A film of one grey second with these tags in its container."""
    write_film(path.with_name("plain.mp4"), [], frames=10)
    with av.open(str(path.with_name("plain.mp4"))) as source, av.open(str(path), "w") as copy:
        copy.metadata.update(tags)
        stream = copy.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                copy.mux(packet)
    path.with_name("plain.mp4").unlink()
    return path


def test_the_container_tells_when_it_was_made(tmp_path: Path) -> None:
    made = with_tag(tmp_path / "a.mp4", creation_time="2026-03-01T09:15:00Z")
    assert recorded_at(made) == unix("2026-03-01 09:15")
    assert recorded_at(with_tag(tmp_path / "b.mkv", creation_time="2026-03-01T09:15:00Z")) == unix(
        "2026-03-01 09:15"
    )
    assert recorded_at(with_tag(tmp_path / "c.mp4", creation_time="1970-01-01T00:00:00Z")) is None
    assert recorded_at(with_tag(tmp_path / "d.mp4")) is None
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    for unreadable in (tmp_path, tmp_path / "missing.mp4", tmp_path / "broken.mp4"):
        with pytest.raises(VideoOpenError, match=str(unreadable)):  # what it would tell is unknown
            recorded_at(unreadable)


def avi(path: Path, date: str) -> Path:
    """An AVI with a stamp as cameras write it, of one picture."""
    with av.open(str(path), "w") as container:
        container.metadata["date"] = date
        stream = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        picture = av.VideoFrame(64, 48, "yuvj420p")
        picture.pts = 0
        container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def test_a_stamp_without_a_zone_is_of_the_cameras_clock(tmp_path: Path) -> None:
    """AVI has no zone, and cameras write local time: it was taken for UTC."""
    local = "2026-03-01 10:15:00"
    for made in (avi(tmp_path / "a.avi", local), with_tag(tmp_path / "a.mkv", date=local)):
        assert recorded_at(made, BERLIN) == unix("2026-03-01 09:15")
        assert recorded_at(made) == unix("2026-03-01 10:15")
    offset = with_tag(tmp_path / "b.mkv", date="2026-03-01 10:15:00+02:00")
    assert recorded_at(offset, BERLIN) == unix("2026-03-01 08:15")
    told = with_tag(tmp_path / "b.mp4", creation_time="2026-03-01T09:15:00Z")
    assert recorded_at(told, BERLIN) == unix("2026-03-01 09:15"), "UTC, as it says"


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_a_folder_of_pictures_was_recorded_when_its_first_was_taken(
    tmp_path: Path, suffix: str, order: str
) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    for number, second in ((2, "00"), (10, "07")):
        write_taken(tmp_path / f"{number}.{suffix}", f"2026:03:01 10:15:{second}", order=order)
    (tmp_path / f"1.{suffix}").write_bytes(b"cannot be read")
    assert recorded_at(tmp_path, berlin) == unix("2026-03-01 09:15")
    write_taken(tmp_path / f"1.{suffix}", "2026:03:01 10:15:00", "-05:00")  # told by the camera, that holds
    assert recorded_at(tmp_path, berlin) == unix("2026-03-01 15:15")


@pytest.mark.parametrize(
    "original", [None, "0000:00:00 00:00:00", "    :  :     :  :  ", "1970:01:01 00:00:00"]
)
def test_pictures_of_a_clock_that_was_never_set_have_no_time(tmp_path: Path, original: str | None) -> None:
    write_taken(tmp_path / "1.jpg", original)
    write_taken(tmp_path / "2.jpg", "2026:03:01 10:15:00")  # of another picture than the first
    assert recorded_at(tmp_path) is None


def test_exif_that_is_cut_off_says_nothing(tmp_path: Path) -> None:
    data = write_taken(tmp_path / "1.jpg", "2026:03:01 10:15:00").read_bytes()
    block = exif_of_jpeg(data)
    assert taken_at(data) is not None and block
    assert taken_at(block) == taken_at(data)  # a block is a TIFF file
    before = data.index(block)
    for cut in range(before + len(block)):
        assert taken_at(data[:cut]) in (None, taken_at(data))
    for cut in range(len(block) - 20):
        assert taken_at(data[: before + cut]) is None


def test_the_zone_of_the_machine_is_that_of_tz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert local_zone() == "Asia/Tokyo"
    assert RecordingRule().zone == "Asia/Tokyo"
    monkeypatch.setenv("TZ", "Asia/Tokio")
    with pytest.raises(UsageError, match="Did you mean 'Asia/Tokyo'"):
        RecordingRule()


def test_the_zone_of_the_machine_may_be_a_file_and_must_have_a_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """There was no time zone '/etc/localtime', which servers have in TZ and nobody had typed."""
    place = tmp_path / "zoneinfo" / "Asia" / "Tokyo"
    place.parent.mkdir(parents=True)
    place.touch()
    (tmp_path / "localtime").symlink_to(place)
    monkeypatch.setenv("TZ", f":{tmp_path}/localtime")
    assert local_zone() == "Asia/Tokyo"
    monkeypatch.setenv("TZ", "Etc/GMT-1")
    assert local_zone() == "Etc/GMT-1"
    monkeypatch.setenv("TZ", f"{tmp_path}/none")
    assert local_zone() == "UTC"
    monkeypatch.setenv("TZ", "CET-1CEST")
    with pytest.raises(UsageError, match="has no name; give one with --timezone"):
        local_zone()


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="a zone and a source"):
        Recorded("gate", 5.0)
