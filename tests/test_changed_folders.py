"""What was said of pictures holds after others of their folder are deleted or come in between."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest
from clips import write_taken
from fakes import Thing, scene, write_picture

import panorama
from panorama.crops import decode_picture, encode_jpeg
from panorama.errors import UsageError
from panorama.indexing.changed_folders import _shows, time_now
from panorama.indexing.parcels import Parcel
from panorama.indexing.rows import SegmentRows
from panorama.library import Library
from panorama.store import Reviewed
from panorama.store.catalog.picture_offsets import stored_offsets
from panorama.store.catalog.recorded import Recorded
from panorama.video import FileMark, open_video

UNLIKE = (10, 50, 42, 82)
"""A box of the red thing that colour bands take for another thing: it is ten pixels too low."""

LOST = "no longer holds, because its picture was not found again; what is there now is decided by its looks"


def shot(folder: Path, number: int, left: int = 10) -> Path:
    thing = Thing("red", 0, 1, left=left) if left else Thing("red", 5, 6)
    return write_picture(folder / f"IMG_{number:04d}.png", scene(0, [thing]))


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """Ten pictures, of which the sixth and the eighth show something."""
    for number in range(10):
        shot(tmp_path / "trap", number, left={5: 10, 7: 60}.get(number, 0))
    return tmp_path / "trap"


@pytest.fixture
def library(trap: Path, fake_proposer: object) -> Iterator[Library]:
    with panorama.open(trap.parent / "library", create=True) as made:
        made.index(trap, model="color-bands")
        made.register_from_video("it", trap / "IMG_0005.png", None, UNLIKE)
        yield made


def seen(library: Library) -> list[str]:
    rows = library.query("SELECT frames, picture WHERE entity = 'it'").arrow().to_pylist()
    return [row["picture"] for row in rows]


def test_what_was_pointed_at_is_in_the_answer_after_other_pictures_are_gone_or_came(
    library: Library, trap: Path
) -> None:
    """Whoever deleted an empty picture lost what they had confirmed in the folder, without a word."""
    assert seen(library) == ["IMG_0005.png"]
    for change in (
        lambda: (trap / "IMG_0009.png").unlink(),
        lambda: (trap / "IMG_0000.png").unlink(),
        lambda: shot(trap, 0),
        lambda: (trap / "IMG_0002.png").write_bytes(b""),  # not read any more
        lambda: shot(trap, 12),
    ):
        change()
        told = library.index(trap).warnings
        assert seen(library) == ["IMG_0005.png"] and not any("not found again" in line for line in told)


def test_the_last_word_counts_as_before(library: Library, trap: Path) -> None:
    (row,) = library.query("SELECT tracks WHERE entity = 'it'").arrow().to_pylist()
    library.register_seen("it", track_ids=[row["track_id"]], look_alike=True)
    assert seen(library) == []
    library.register_from_video("it", trap / "IMG_0007.png", None, (60, 50, 92, 82))
    (trap / "IMG_0001.png").unlink()
    library.index(trap)
    assert seen(library) == ["IMG_0007.png"]
    (row,) = library.query("SELECT tracks WHERE start_frame <= 4 AND end_frame >= 4").arrow().to_pylist()
    assert library.why("it", track_id=row["track_id"]).denied is not None


def test_another_picture_of_the_name_is_not_what_was_pointed_at(library: Library, trap: Path) -> None:
    """A counter began anew, and now another thing is at that place."""
    (trap / "IMG_0001.png").unlink()
    write_picture(trap / "IMG_0005.png", scene(0, [Thing("green", 0, 1)]))
    told = library.index(trap).warnings
    assert seen(library) == []
    assert [line for line in told if "not found" in line] == [f"trap: 1 answer of yours {LOST}"]
    shot(trap, 5)
    library.index(trap)
    assert seen(library) == []  # nothing says any more what was there


def test_a_picture_that_is_gone_is_told_of(library: Library, trap: Path) -> None:
    (trap / "IMG_0005.png").unlink()
    (trap / "IMG_0001.png").unlink()
    assert any(LOST in line for line in library.index(trap).warnings)
    assert seen(library) == []


def test_a_time_set_by_hand_is_told_for_the_picture_that_is_the_first_now(
    library: Library, tmp_path: Path
) -> None:
    """The command set the time of the first picture, which was gone, for the next: all were too early."""
    folder = tmp_path / "dated"
    for number in range(4):
        write_taken(folder / f"a{number}.jpg", f"2026:03:01 10:0{number}:00", picture=scene(number, []))
    library.index(folder)
    library.date(recording=panorama.RecordingRule(time_from="metadata", zone="UTC"))
    library.date("dated", first_start="2026-03-20 08:00:00")
    (folder / "a0.jpg").unlink()
    (told,) = (line for line in library.index(folder).warnings if "by hand" in line)
    assert told.endswith("clock dated --at '2026-03-20 08:01:00' --timezone UTC")


def test_a_picture_that_is_named_is_the_one_that_is_read_though_the_folder_has_changed(
    library: Library, trap: Path
) -> None:
    """Its number of before was taken, which is that of another picture now: an example of something else."""
    (trap / "IMG_0001.png").unlink()
    named = library.register_from_video("other", trap / "IMG_0007.png", None, (60, 40, 92, 72))
    assert any("has changed since it was indexed" in line for line in named.warnings)
    (example,) = library.exemplars("other")
    assert example.source == f"{trap / 'IMG_0007.png'} [60,40,92,72]"
    expected = scene(0, [Thing("red", 0, 1, left=60)])[40:72, 60:92]
    assert float(cv2.absdiff(decode_picture(example.picture.read_bytes()), expected).mean()) < 4
    library.register_from_video("by number", "trap", None, (10, 40, 42, 72), frame=5)
    (example,) = library.exemplars("by number")
    assert example.source == f"{trap / 'IMG_0005.png'} [10,40,42,72]"
    (trap / "IMG_0007.png").unlink()
    with pytest.raises(UsageError, match=r"IMG_0007\.png can be read in .* no longer"):
        library.register_from_video("other", trap / "IMG_0007.png", None, (60, 40, 92, 72))


def no_to(library: Library, picture: str) -> None:
    rows = library.query("SELECT frames, picture WHERE entity = 'it'").arrow().to_pylist()
    (track,) = (row["track_id"] for row in rows if row["picture"] == picture)
    library.register_seen("it", track_ids=[track], look_alike=True)


def test_an_answer_that_comes_while_the_folder_is_indexed_anew_counts(
    library: Library, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What had been said before was in force again."""
    (trap / "IMG_0001.png").unlink()
    finish = SegmentRows.add

    def meanwhile(self: SegmentRows, parcel: Parcel) -> None:
        finish(self, parcel)
        if parcel.last and seen_by_others():
            with panorama.open(library.path) as other:
                no_to(other, "IMG_0005.png")

    def seen_by_others() -> list[str]:
        with panorama.open(library.path) as other:
            return seen(other)

    monkeypatch.setattr(SegmentRows, "add", meanwhile)
    assert not any(LOST in line for line in library.index(trap).warnings)
    assert seen(library) == []
    (row,) = library.query("SELECT tracks WHERE start_frame <= 4 AND end_frame >= 4").arrow().to_pylist()
    assert library.why("it", track_id=row["track_id"]).denied is not None


def test_pictures_that_are_deleted_while_the_folder_is_indexed_change_no_other(
    library: Library, trap: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture was looked for by its number, which others had by then."""
    (trap / "IMG_0001.png").unlink()
    add = SegmentRows.add

    def deleting(self: SegmentRows, parcel: Parcel) -> None:
        add(self, parcel)
        (trap / "IMG_0000.png").unlink(missing_ok=True)

    monkeypatch.setattr(SegmentRows, "add", deleting)
    for _ in range(2):  # the second time without the picture that was deleted meanwhile
        assert not any(LOST in line for line in library.index(trap).warnings)
        assert seen(library) == ["IMG_0005.png"]


@pytest.mark.parametrize("known", [True, False], ids=["indexed before", "indexed in the same run"])
def test_a_folder_that_is_like_another_now_keeps_its_answers(
    known: bool, library: Library, trap: Path
) -> None:
    """Nothing of it was decoded, and its answers were lost."""
    copy = trap.parent / "a copy"
    shutil.copytree(trap, copy)
    (copy / "IMG_0001.png").unlink()
    if known:
        library.index(copy)
    (trap / "IMG_0001.png").unlink()
    told = library.index([copy, trap]).warnings
    assert not any("no longer" in line for line in told)
    assert set(seen(library)) == {"IMG_0005.png"}


def test_lost_answers_are_told_by_the_name_of_the_folder_in_the_library(tmp_path: Path, trap: Path) -> None:
    """Of two folders of one name the second hid what was lost in the first."""
    for folder in ("a", "b"):
        shutil.copytree(trap, tmp_path / folder / "trap")
    shot(tmp_path / "b" / "trap", 11)  # another content
    folders = [tmp_path / "a" / "trap", tmp_path / "b" / "trap"]
    with panorama.open(tmp_path / "two", create=True) as library:
        library.index(folders, model="color-bands")
        for folder in folders:
            library.register_from_video("it", folder / "IMG_0005.png", None, UNLIKE)
            (folder / "IMG_0001.png").unlink()
        (folders[0] / "IMG_0005.png").unlink()
        told = [line for line in library.index(tmp_path / "a").warnings if "answer" in line]
        told += [line for line in library.index(tmp_path / "b").warnings if "answer" in line]
        uri = str(folders[0].resolve())
        ((name,),) = library.query("SELECT video FROM videos WHERE uri = ?", [uri]).fetchall()
    assert told == [f"{name}: 1 answer of yours {LOST}"]


def test_in_the_dark_an_empty_picture_does_not_show_what_was_there(trap: Path) -> None:
    """Each differs from each by a few levels."""

    def dark(number: int, *, something: bool) -> None:
        noise = np.random.default_rng(number).normal(8, 0.7, (120, 160, 1))
        rgb = np.repeat(noise, 3, axis=2)
        if something:
            rgb[48:66, 16:36] += 5
            rgb[52:54, 20:22] = rgb[52:54, 30:32] = 120
        write_picture(trap / f"IMG_{number:04d}.png", np.clip(rgb, 0, 255).astype(np.uint8))

    dark(5, something=True)
    box = (10.0, 40.0, 42.0, 72.0)
    example = trap.parent / "example.jpg"
    example.write_bytes(encode_jpeg(cv2.imread(str(trap / "IMG_0005.png"))[40:72, 10:42, ::-1].copy()))
    answer = Reviewed(1, "it", True, 5, 1.0, box, example)
    for there, shows in ((True, True), (False, False)):
        dark(5, something=there)
        with open_video(trap) as reader:
            assert _shows(reader.frame_at(1.0).rgb(), answer) is shows


def recorded(times: list[float | None]) -> Recorded:
    taken = np.array([np.nan if at is None else at for at in times])
    return Recorded("", 1000.0, "UTC", "by hand", "", stored_offsets(taken, 1000.0))


@pytest.mark.parametrize(
    ("times", "now", "begins", "picture"),
    [
        ([1000, 1060, 1120], ["1", "2"], 1060, ""),
        ([None, 1000, 1060], ["0", "2"], 1060, ""),  # the first tells no time
        ([None, 1000, 1060], ["1", "2"], 1000, ""),
        ([1000, 1060, 1120], ["00", "1", "2"], 1000, "0"),  # the new one may tell a time
        ([1000, 1060], ["5"], 1000, "0"),
    ],
)
def test_a_time_by_hand_is_that_of_the_first_picture_that_tells_one(
    times: list[float | None], now: list[str], begins: float, picture: str, tmp_path: Path
) -> None:
    for name in now:
        write_picture(tmp_path / f"{name}.png", scene(0, []))
    names = [f"{i}.png" for i in range(len(times))]
    found = time_now(recorded(times), names, FileMark.of(tmp_path))
    assert (found.recorded.start_time_unix, found.picture) == (begins, f"{picture}.png" if picture else "")
