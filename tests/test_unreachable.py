"""A drive that stops answering while a video is read: what it did not give is not taken for lost."""

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import pytest
from av.error import err_check
from clips import trim, write_picture_folder, write_video
from conftest import Ran
from fakes import ColoredThings

import panorama
from panorama.errors import VideoError
from panorama.indexing.outcomes import Reason
from panorama.indexing.profile import LOOKS
from panorama.indexing.settings import IngestSettings
from panorama.tune.sample import choose_stretches, decode_sample
from panorama.video import (
    FileMark,
    content_hash,
    content_sample,
    decoding,
    faults,
    file_state,
    find_videos,
    open_video,
    pictures,
    probing,
)

Run = Callable[..., Ran]
NAMED = IngestSettings(samples_per_second=10.0)
QUICK = IngestSettings(keyframes_only=True)


class Drive:
    """A drive that fails `times` times from a packet on, counted over all that is read of all files.

    Attributes:
        packets: read so far.
        fails_at: the first packet that it does not give, None for none.
        times: how often it fails, None for ever.
    """

    def __init__(self) -> None:
        self.packets = 0
        self.code = errno.EIO
        self.mend()

    def fail(self, at: int, times: int | None = None, code: int = errno.EIO) -> None:
        self.packets, self.fails_at, self.times, self.code = 0, at, times, code

    def mend(self) -> None:
        self.packets, self.fails_at, self.times = 0, None, None

    def give(self, packet: av.Packet) -> av.Packet:
        if self.fails_at is not None and self.packets >= self.fails_at and self.times != 0:
            self.times = None if self.times is None else self.times - 1
            err_check(-self.code)
        self.packets += 1
        return packet


class OnDrive:
    """A container whose packets come from a drive."""

    def __init__(self, container: Any, drive: Drive) -> None:
        self._container, self._drive = container, drive

    def __getattr__(self, name: str) -> Any:
        return getattr(self._container, name)

    def demux(self, *streams: Any) -> Iterator[av.Packet]:
        for packet in self._container.demux(*streams):
            yield self._drive.give(packet)


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Drive:
    made, real = Drive(), probing.open_container

    def on_drive(path: Path, unedited: bool = False) -> OnDrive:
        return OnDrive(real(path, unedited), made)

    monkeypatch.setattr(probing, "open_container", on_drive)
    monkeypatch.setattr(decoding, "open_container", on_drive)
    return made


@pytest.fixture
def library(tmp_path: Path, fake_proposer: ColoredThings) -> panorama.Library:
    library = panorama.open(tmp_path / "panorama-library", create=True)
    library.use_model("color-bands")
    return library


def film(path: Path, frames: int = 60) -> Path:
    path.parent.mkdir(exist_ok=True)
    return write_video(path, "libx264", frames=frames, b_frames=2).path


def held(library: panorama.Library) -> list[tuple[int, str]]:
    """Of each video, by name, its frames, of which there are as many rows, and what was noted of it."""
    videos = library.snapshot().videos.sort_by("video").select(["frames", "decode_note"]).to_pylist()
    rows = [(int(video["frames"]), str(video["decode_note"])) for video in videos]
    total = library.query("SELECT count(*) FROM frames").fetchall()[0][0]
    assert total == sum(frames for frames, _ in rows)
    return rows


@pytest.mark.parametrize("name", ["v.mp4", "v.ts", "v.mkv"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN])
def test_what_a_drive_did_not_give_fails_and_is_read_when_it_is_back(
    library: panorama.Library, drive: Drive, tmp_path: Path, name: str, code: int
) -> None:
    """29 of 120 frames took the place of all, with exit status 0, and no `index` ever read the others."""
    path = film(tmp_path / name)
    library.index(path)
    drive.fail(at=40, code=code)
    (file,) = library.index(path, settings=NAMED).files
    assert (file.status, file.damage) == ("failed", None)
    assert str(path) in str(file.note) and os.strerror(code) in str(file.note)
    assert held(library) == [(60, "None")], "what was indexed before stays"
    drive.mend()
    (file,) = library.index(path, settings=NAMED).files
    assert (file.status, file.frames, file.damage) == ("indexed", 60, None)
    assert held(library) == [(60, "None")]


@pytest.mark.parametrize("settings", [IngestSettings(), QUICK])
@pytest.mark.parametrize("name", ["v.mp4", "v.mkv"])
def test_wherever_a_drive_fails_once_no_part_is_taken_for_the_whole(
    library: panorama.Library, drive: Drive, tmp_path: Path, name: str, settings: IngestSettings
) -> None:
    """Also in the first look, in the scan for keyframes alone, and where packets are counted again."""
    path = film(tmp_path / name)
    if name.endswith("mp4"):
        trim(path, first=10, frames=40)  # then packets are counted once more
    drive.mend()
    (sound,) = library.index(path, settings=settings).files
    packets, complete = drive.packets, held(library)
    library.remove_videos(sound.video)
    assert packets > 60
    for at in range(0, packets, 13):
        drive.fail(at=at, times=20)
        (file,) = library.index(path, settings=settings).files
        assert file.status == "failed", f"{at} of {packets}: {file}"
        assert not held(library)
    drive.mend()
    library.index(path, settings=settings)
    assert held(library) == complete


def test_the_command_says_so_and_ends_with_status_3(run: Run, drive: Drive, tmp_path: Path) -> None:
    film(tmp_path / "v" / "a.mp4")
    film(tmp_path / "v" / "b.mp4", frames=80)
    drive.fail(at=40, times=17)
    done = run("index", "v", "--model", "color-bands")
    assert done.status == 3 and "1 indexed, 0 skipped, 1 failed" in done.err
    assert "a.mp4 could not be read to its end: Input/output error; try again when its drive" in done.err
    drive.mend()
    again = run("index", "v", "--model", "color-bands")
    assert again.status == 0 and "1 indexed, 1 skipped, 0 failed" in again.err


def test_a_video_that_a_share_does_not_give_now_is_not_taken_for_gone(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`remove --missing` took it out for good, and a copy of it got its row, with the name and the camera."""
    (tmp_path / "v").mkdir()
    for frames, name in ((8, "a"), (9, "b")):
        write_video(tmp_path / "v" / f"{name}.mp4", "libx264", frames=frames)
    assert run("index", "v", "--model", "color-bands").status == 0
    shutil.copy(tmp_path / "v" / "a.mp4", tmp_path / "copy.mp4")
    real = Path.stat

    def stat(code: int, path: Path, **options: bool) -> os.stat_result:
        if path.name == "a.mp4":
            raise OSError(code, os.strerror(code), str(path))
        return real(path, **options)

    with monkeypatch.context() as failing:
        for code in (errno.EIO, errno.ENOTCONN, errno.EHOSTDOWN, errno.ESTALE):
            failing.setattr(Path, "stat", lambda path, code=code, **options: stat(code, path, **options))
            assert [row["missing"] for row in run("videos", "--json").json] == [False, False]
            assert "nothing was removed" in run("remove", "--missing", "--yes").err
        told = run("index", "v")
        assert told.status == 3 and "missing" not in told.err
        assert run("index", "v/a.mp4").status == 3
        run("index", "copy.mp4")
    assert [row["video"] for row in run("videos", "--json").json] == ["a.mp4", "b.mp4", "copy.mp4"]
    (tmp_path / "v" / "a.mp4").unlink()
    assert run("remove", "--missing", "--yes").err.endswith("removed a.mp4\n")


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_video_that_cannot_be_looked_at_is_not_said_to_be_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = write_video(tmp_path / "a.mp4", "libx264", frames=8).path
    real = Path.stat

    def broken(one: Path, *args: Any, **named: Any) -> Any:
        if one == path:
            raise OSError(code, os.strerror(code), str(path))
        return real(one, *args, **named)

    monkeypatch.setattr(Path, "open", broken)
    monkeypatch.setattr(Path, "stat", broken)
    remedy = "; check its permissions" if code == errno.EACCES else ""
    with pytest.raises(VideoError) as told:
        open_video(path)
    assert str(told.value) == f"{path} cannot be read: {os.strerror(code)}{remedy}"


def test_what_an_earlier_version_kept_of_such_a_file_is_indexed_anew_with_its_settings(
    library: panorama.Library, drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, named = film(tmp_path / "v" / "a.mp4"), film(tmp_path / "v" / "b.mp4", frames=80)
    with monkeypatch.context() as earlier:
        earlier.setattr(faults.Faults, "take", lambda self, error: None)
        for path, settings in ((usual, None), (named, NAMED)):
            drive.fail(at=40)
            assert library.index(path, settings=settings).files[0].status == "indexed"
    drive.mend()
    before = held(library)
    assert [frames for frames, _ in before] != [60, 80] and all("read error" in note for _, note in before)
    library.index(tmp_path / "v", settings=QUICK)
    assert held(library) == before, "a quick look replaces nothing"
    assert [file.status for file in library.index(tmp_path / "v").files] == ["indexed"] * 2
    assert held(library) == [(60, "None"), (80, "None")]
    snapshot = library.snapshot()
    looks = dict(zip(snapshot.live_segments.tolist(), snapshot.looks, strict=True))
    hashes = [one.hash(ColoredThings().hash) for one in (IngestSettings(), NAMED)]
    assert [looks[segment] for segment in snapshot.videos.column("segment").to_pylist()] == hashes
    assert {file.status for file in library.index(tmp_path / "v").files} == {"skipped"}


@pytest.mark.parametrize("again", ["unchanged", "touched", "copied"])
def test_such_a_part_stays_where_nobody_can_say_with_what_it_was_indexed(
    library: panorama.Library, drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    """It was decoded with the profile, though settings had been named for it; others of its kind stay."""
    path = film(tmp_path / "v" / "a.mp4")
    with monkeypatch.context() as earlier:
        earlier.setattr(faults.Faults, "take", lambda self, error: None)
        drive.fail(at=40)
        library.index(path, settings=NAMED)
    drive.mend()
    before = held(library)
    assert "read error" in before[0][1]
    library.put_setting(LOOKS, None)
    monkeypatch.setattr("panorama.indexing.settings.CODE_VERSION", "next")
    if again == "touched":
        os.utime(path, (1, 1))
    if again == "copied":
        shutil.copy(path, tmp_path / "v" / "b.mp4")
    files = library.index(tmp_path / "v").files
    assert {file.status for file in files} == {"skipped"}
    assert all("with other settings; --redo" in str(file.note) for file in files)
    assert again != "unchanged" or files[0].reason == Reason.OTHER_SETTINGS
    assert held(library)[0] == before[0]
    library.index(path, redo=True)
    assert held(library)[0] == (60, "None")


def test_pictures_that_a_drive_did_not_give_are_not_lost_and_dead_links_are(
    library: panorama.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "trap"
    write_picture_folder(folder, 12, digits=2)
    last = sorted(folder.iterdir())[-1]
    last.unlink()
    last.symlink_to(tmp_path / "nowhere.png")
    (file,) = library.index(folder).files
    assert file.status == "indexed" and last.name in str(file.damage)
    complete, read = held(library), Path.read_bytes

    def read_some(path: Path) -> bytes:
        if path.name > "frame-05.png" and not path.is_symlink():
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return read(path)

    with monkeypatch.context() as failing:
        failing.setattr(Path, "read_bytes", read_some)
        (file,) = library.index(folder, settings=IngestSettings(every=2)).files
    assert file.status == "failed" and "Input/output error" in str(file.note)
    assert held(library) == complete
    (file,) = library.index(folder, settings=IngestSettings(every=2)).files
    assert file.status == "indexed" and held(library) == complete


def deleting(folder: Path, at: str, delete: Callable[[], None]) -> Callable[[Path], bytes]:
    """`Path.read_bytes`, before which a folder loses something once a picture of it is to be read again.

    The first picture is read when the folder is opened, all are while it is decoded.
    """
    read = Path.read_bytes

    def read_and_delete(path: Path) -> bytes:
        if path == folder / at and path.exists():
            delete()
        return read(path)

    return read_and_delete


def test_pictures_deleted_while_their_folder_is_read_are_lost_and_no_others(
    library: panorama.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A camera that makes room by its oldest picture: all the others failed with it, at every `index`."""
    folder = tmp_path / "trap"
    write_picture_folder(folder, 12, digits=2)
    gone = [folder / "frame-00.png", folder / "frame-09.png"]

    def make_room() -> None:
        for path in gone:
            path.unlink(missing_ok=True)

    monkeypatch.setattr(Path, "read_bytes", deleting(folder, "frame-05.png", make_room))
    (file,) = library.index(folder).files
    assert (file.status, file.frames) == ("indexed", 11)
    assert "frame-09.png cannot be read as a picture" in str(file.damage)
    assert "frame-00" not in str(file.damage), "it had been read"


@pytest.mark.parametrize("left", ["nothing", "no picture", "a file", "links"])
def test_pictures_that_went_with_their_drive_are_not_lost(
    library: panorama.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str
) -> None:
    folder, drive = tmp_path / "trap", tmp_path / "drive"
    write_picture_folder(folder, 12, digits=2)
    if left == "links":
        folder.rename(drive)
        folder.mkdir()
        for path in drive.iterdir():
            (folder / path.name).symlink_to(path)

    def go() -> None:
        shutil.rmtree(drive if left == "links" else folder)
        if left == "no picture":
            folder.mkdir()
            (folder / "NOT-MOUNTED").touch()
        if left == "a file":
            folder.touch()

    monkeypatch.setattr(Path, "read_bytes", deleting(folder, "frame-05.png", go))
    (file,) = library.index(folder).files
    assert (file.status, file.damage) == ("failed", None)
    assert "if its drive was disconnected, try again when it is back" in str(file.note)
    assert not held(library)


@pytest.mark.parametrize(
    "asked",
    [
        file_state,
        pytest.param(lambda folder: content_sample(FileMark.of(folder)), id="content_sample"),
        pytest.param(lambda folder: content_hash(FileMark.of(folder)), id="content_hash"),
    ],
)
def test_a_picture_deleted_since_its_folder_was_listed_is_as_one_that_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Callable[[Path], object]
) -> None:
    write_picture_folder(tmp_path / "trap", 6, digits=2)
    (tmp_path / "trap" / "frame-03.png").unlink()
    without = asked(tmp_path / "trap")
    entries = pictures._entries

    def entries_and_one_more(folder: Path) -> list[os.DirEntry[str]]:
        (folder / "frame-03.png").write_bytes(b"deleted")
        listed = entries(folder)
        (folder / "frame-03.png").unlink()
        return listed

    monkeypatch.setattr(pictures, "_entries", entries_and_one_more)
    assert asked(tmp_path / "trap") == without


@pytest.mark.parametrize(
    ("code", "remedy"), [(errno.EACCES, "; check its permissions"), (errno.EIO, "")], ids=["closed", "broken"]
)
def test_a_folder_that_cannot_be_read_names_the_picture(
    library: panorama.Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    """It said "Permission denied" of a folder of thousands of pictures, of which one was closed."""
    folder = tmp_path / "trap"
    write_picture_folder(folder, 4, digits=2)
    real = Path.open

    class Broken(io.FileIO):
        def readinto(self, _buffer: Any) -> int:
            raise OSError(code, os.strerror(code))  # names no file, unlike an error of opening

        def readall(self) -> bytes:
            raise OSError(code, os.strerror(code))

    def opened(path: Path, *args: Any, **named: Any) -> Any:
        return io.BufferedReader(Broken(path)) if path.name == "frame-02.png" else real(path, *args, **named)

    with monkeypatch.context() as failing:
        failing.setattr(Path, "open", opened)
        (file,) = library.index(folder).files
        why = f"its picture frame-02.png: {os.strerror(code)}"
        assert (file.status, file.note) == ("failed", f"{folder} cannot be read: {why}{remedy}")
        with open_video(folder) as reader:
            assert sum(1 for _ in reader.frames()) == 3
            with pytest.raises(VideoError, match=f"trap could not be read to its end: {why}; "):
                reader.faults.check(folder)
    (file,) = library.index(folder).files
    assert file.status == "indexed"


def test_settings_are_not_judged_by_a_part_of_the_sample(drive: Drive, tmp_path: Path) -> None:
    film(tmp_path / "a.mp4", frames=100)
    stretches, _ = choose_stretches(find_videos([tmp_path / "a.mp4"]), seconds=4)
    drive.fail(at=60)
    with pytest.raises(VideoError, match="could not be read to its end"):
        decode_sample(stretches, threads=1, side=416)


def test_who_only_looks_at_a_video_sees_what_can_be_read(drive: Drive, tmp_path: Path) -> None:
    """A sheet of what lies before the bad sectors of a dying drive."""
    drive.fail(at=40)
    with open_video(film(tmp_path / "a.mp4"), threads=1) as reader:
        assert 20 < len(list(reader.frames())) < 60
        assert not reader.report.complete
        with pytest.raises(VideoError, match="Input/output error"):
            reader.check_reached()


@pytest.mark.parametrize(("name", "codec"), [("a.mkv", "libx264"), ("a.gif", "gif")])
def test_a_file_that_goes_while_it_is_read_is_told_as_any_other_that_fails(
    tmp_path: Path, name: str, codec: str
) -> None:
    """Its length was asked for at the end: the error ended the run over all files."""
    pixels = "rgb8" if codec == "gif" else "yuv420p"
    path = write_video(tmp_path / name, codec, frames=30, pixel_format=pixels).path
    with open_video(path, threads=1) as reader, pytest.raises(VideoError, match=name):
        for frame in reader.frames():
            if frame.index == 0:
                path.unlink()
