"""Files that are rotated, replaced or written while `index` reads them lend their hash to no other rows."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from fakes import ColoredThings, Thing, write_film
from indexing_samples import SETTINGS, index

import panorama
from panorama.album import registering
from panorama.crops import encode_jpeg
from panorama.indexing import intake
from panorama.indexing.settings import IngestSettings
from panorama.library import Library
from panorama.models.base import Image
from panorama.regions import Regions
from panorama.store import Store
from panorama.video import FileMark, VideoReader, content_hash, goes_on, open_video

OTHER = IngestSettings(samples_per_second=5)
CHANGED = "changed while it was being indexed; run the same command again"


class Meanwhile(ColoredThings):
    """Does something to the files once, while they are decoded."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def propose(self, images: Sequence[Image]) -> list[Regions]:
        if self._act is not None:
            self._act()
            self._act = None
        return super().propose(images)


def held(library: Path) -> dict[str, int]:
    """Frames of each video of a library by name."""
    with Store.open(library) as store:
        videos = store.snapshot().videos
        return dict(zip(videos["video"].to_pylist(), videos["frames"].to_pylist(), strict=True))


def red(path: Path, frames: int = 40) -> Path:
    return write_film(path, [Thing("red", 0, frames)], frames=frames)


def blue(path: Path, frames: int = 20) -> Path:
    return write_film(path, [Thing("blue", 0, frames)], frames=frames)


def write_pictures(folder: Path, numbers: Sequence[int], source: Path) -> Path:
    folder.mkdir(exist_ok=True)
    with open_video(source) as reader:
        frames = list(reader.frames())
    for number in numbers:
        (folder / f"img{number:03d}.jpg").write_bytes(encode_jpeg(frames[number].rgb()))
    return folder


@pytest.mark.parametrize("when", ["hashed", "decoded"])
def test_a_file_that_is_rotated_meanwhile_fails_and_both_are_right_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """The new file's frames stood under the hash of the old one, which then took them, for good."""
    library, camera = tmp_path / "library", tmp_path / "cam"
    now, old, following = red(camera / "now.mp4"), camera / "old-1.mp4", blue(tmp_path / "next.mp4")

    def rotate() -> None:
        now.rename(old)
        following.rename(now)

    def hashing(mark: FileMark, *wait: Callable[[], None]) -> str:
        found = content_hash(mark, *wait)
        if not old.exists():
            rotate()
        return found

    if when == "hashed":
        monkeypatch.setattr(intake, "content_hash", hashing)
    proposer = Meanwhile(rotate) if when == "decoded" else ColoredThings()
    (file,) = index(library, [camera], proposer=proposer)
    assert (file.status, file.note) == ("failed", f"{now} {CHANGED}") and held(library) == {}
    monkeypatch.undo()
    assert {file.status for file in index(library, [camera])} == {"indexed"}
    assert held(library) == {"now.mp4": 20, "old-1.mp4": 40}
    assert {file.status for file in index(library, [camera])} == {"skipped"}


def test_a_file_written_over_in_place_fails(tmp_path: Path) -> None:
    """It is the same file for the file system, and longer, as one that a recorder writes."""
    film = blue(tmp_path / "a.mp4")
    other = red(tmp_path / "other.mp4", frames=90).read_bytes()
    assert len(other) > film.stat().st_size
    (file,) = index(tmp_path / "library", [film], proposer=Meanwhile(lambda: film.write_bytes(other)))
    assert (file.status, file.note) == ("failed", f"{film} {CHANGED}")
    (file,) = index(tmp_path / "library", [film])
    assert (file.status, file.frames) == ("indexed", 90)


@pytest.mark.parametrize("when", ["hashed", "decoded"])
def test_a_file_that_grows_is_indexed_under_the_hash_of_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What grew while it was hashed was hashed with it: its size and hash did not belong together."""
    film = red(tmp_path / "live.ts", frames=60)
    whole = film.read_bytes()
    half = whole[: len(whole) // 188 // 2 * 188]
    film.write_bytes(half)

    def hashing(mark: FileMark, *wait: Callable[[], None]) -> str:
        film.write_bytes(whole)
        return content_hash(mark, *wait)

    if when == "hashed":
        monkeypatch.setattr(intake, "content_hash", hashing)
    proposer = Meanwhile(lambda: film.write_bytes(whole)) if when == "decoded" else ColoredThings()
    (file,) = index(tmp_path / "library", [film], proposer=proposer)
    assert file.status == "indexed"
    with Store.open(tmp_path / "library") as store:
        known = store.known_file(str(film.resolve()))
        assert known is not None and known.size == len(half)
        assert known.content_hash == hashlib.sha256(half).hexdigest()
    monkeypatch.undo()
    (file,) = index(tmp_path / "library", [film])
    assert (file.status, file.frames) == ("indexed", 60)


@pytest.mark.parametrize("change", ["touched", "copied over", "gone"])
def test_a_file_whose_content_stays_is_indexed(tmp_path: Path, change: str) -> None:
    film, copy = red(tmp_path / "a.mp4"), tmp_path / "copy.mp4"
    shutil.copy(film, copy)
    act: dict[str, Callable[[], object]] = {
        "touched": lambda: os.utime(film, ns=(1, 1)),
        "copied over": lambda: copy.replace(film),
        "gone": film.unlink,
    }
    (file,) = index(tmp_path / "library", [film], proposer=Meanwhile(act[change]))
    assert (file.status, file.frames) == ("indexed", 40)


def test_a_copy_behind_a_file_that_was_replaced_is_indexed_itself(tmp_path: Path) -> None:
    films, following = tmp_path / "films", blue(tmp_path / "next.mp4")
    first, copy = red(films / "1.mp4"), films / "2.mp4"
    shutil.copy(first, copy)
    files = index(tmp_path / "library", [films], proposer=Meanwhile(lambda: following.replace(first)))
    assert [(file.status, file.video) for file in files] == [("failed", ""), ("indexed", "2.mp4")]
    assert held(tmp_path / "library") == {"2.mp4": 40}


@pytest.mark.parametrize("file", ["deleted", "still there"])
def test_a_video_that_is_removed_while_it_is_indexed_again_stays_removed(tmp_path: Path, file: str) -> None:
    """Its new rows came into the library after `remove` had ended, also of a file that was deleted."""
    library, film = tmp_path / "library", red(tmp_path / "a.mp4")
    index(library, [film])

    def remove() -> None:
        with Store.open(library) as store:
            store.remove_videos(["a.mp4"])
        if file == "deleted":
            film.unlink()

    (told,) = index(library, [film], proposer=Meanwhile(remove), settings=OTHER)
    assert (told.status, told.reason, told.video) == ("skipped", "removed", "")
    assert told.note == "removed from the library while it was being indexed; nothing of it was stored"
    assert held(library) == {}
    with Store.open(library) as store:
        assert not any(store.snapshot().files.values())
        assert not [*store._place.data.rglob("s00000002*")], "what was written is deleted"
        assert not list(store._place.locks.glob("writer-*"))
    (told,) = index(library, [red(film)])
    assert (told.status, held(library)) == ("indexed", {"a.mp4": 40}), "a later run adds what it is asked for"


def test_a_copy_of_a_video_that_is_removed_meanwhile_is_indexed_itself(tmp_path: Path) -> None:
    library, films = tmp_path / "library", tmp_path / "films"
    shutil.copy(red(films / "1.mp4"), films / "2.mp4")
    blue(films / "3.mp4")
    index(library, [films])

    def remove() -> None:
        with Store.open(library) as store:
            store.remove_videos(["1.mp4"])

    files = index(library, [films], proposer=Meanwhile(remove), settings=OTHER)
    told = {Path(file.path).name: (file.status, file.video) for file in files}
    assert told == {"1.mp4": ("skipped", ""), "2.mp4": ("indexed", "2.mp4"), "3.mp4": ("indexed", "3.mp4")}
    assert held(library) == {"2.mp4": 40, "3.mp4": 20}


def test_a_touched_copy_that_is_removed_meanwhile_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its content is there, in another file, so its row was only to be brought up to date."""
    library, films, attach = tmp_path / "library", tmp_path / "films", Store.attach_video
    shutil.copy(red(films / "1.mp4"), films / "2.mp4")
    index(library, [films])
    os.utime(films / "2.mp4", ns=(1, 1))

    def removing(store: Store, *given: Any) -> str | None:
        store.remove_videos(["2.mp4"])
        return attach(store, *given)

    monkeypatch.setattr(Store, "attach_video", removing)
    files = index(library, [films])
    assert [(file.status, file.video, file.reason) for file in files] == [
        ("skipped", "1.mp4", "unchanged"),
        ("skipped", "", "removed"),
    ]
    assert held(library) == {"1.mp4": 40}


@pytest.mark.parametrize(
    ("change", "status"), [("replaced", "failed"), ("more", "indexed"), ("oldest deleted", "indexed")]
)
def test_pictures_of_a_folder_may_come_and_go_and_none_may_be_another(
    tmp_path: Path, change: str, status: str
) -> None:
    source, other = red(tmp_path / "source.mp4"), blue(tmp_path / "other.mp4")
    folder = write_pictures(tmp_path / "trap", range(6), source)
    act: dict[str, Callable[[], object]] = {
        "replaced": lambda: write_pictures(folder, [2], other),
        "more": lambda: write_pictures(folder, [6, 7], source),
        "oldest deleted": (folder / "img000.jpg").unlink,
    }
    (file,) = index(tmp_path / "library", [folder], proposer=Meanwhile(act[change]))
    assert file.status == status
    assert file.note == (f"{folder} {CHANGED}" if status == "failed" else None)
    assert held(tmp_path / "library") == ({"trap": 6} if status == "indexed" else {})


def test_a_folder_that_grows_while_it_is_hashed_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New pictures were in its hash but not in its size: later, a time set for it by hand was forgotten."""
    source = red(tmp_path / "source.mp4")
    folder = write_pictures(tmp_path / "trap", range(6), source)
    before = FileMark.of(folder)
    content = content_hash(before)

    def hashing(mark: FileMark, *wait: Callable[[], None]) -> str:
        write_pictures(folder, [6, 7], source)
        return content_hash(mark, *wait)

    monkeypatch.setattr(intake, "content_hash", hashing)
    (file,) = index(tmp_path / "library", [folder])
    assert file.status == "indexed"
    with Store.open(tmp_path / "library") as store:
        known = store.known_file(str(folder.resolve()))
        assert known is not None and (known.size, known.content_hash) == (before.size, content)
        assert goes_on(FileMark.of(folder), known.size, known.content_hash)


@pytest.mark.parametrize("change", ["grown", "replaced"])
def test_a_time_and_an_answer_given_while_a_changed_file_is_decoded_stay_or_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_proposer: ColoredThings, change: str
) -> None:
    """Nothing was to keep as the file was examined, so nobody looked whether the recording goes on."""
    film = red(tmp_path / "live.ts", frames=60)
    whole = film.read_bytes()
    film.write_bytes(whole[: len(whole) // 188 // 2 * 188])
    library = tmp_path / "library"
    with panorama.open(library, create=True) as opened:
        opened.index(film, model="color-bands", settings=SETTINGS)

    def say() -> None:
        with panorama.open(library) as other:
            other.date("live.ts", start="2026-03-01 10:00:00", zone="UTC")
            other.register_seen("red", track_ids=[other.query("SELECT track_id FROM tracks")[0].track_id])

    film.write_bytes(whole) if change == "grown" else blue(film, frames=100)
    meanwhile = Meanwhile(say)
    monkeypatch.setattr(Library, "proposer", property(lambda self: meanwhile))
    with panorama.open(library) as opened:
        report = opened.index(film)
        assert [file.status for file in report.files] == ["indexed"]
        begins = opened.query("SELECT start_clock FROM videos")[0].start_clock
        told = [line for line in report.warnings if "the time set by hand was removed" in line]
        if change == "grown":
            assert (str(begins), told) == ("2026-03-01 10:00:00", [])
            assert len(opened.reviewed("live.ts")) == 1
        else:
            assert begins is None and len(told) == 1
            assert "--at '2026-03-01 10:00:00' --timezone UTC" in told[0]


def test_an_example_from_a_video_that_is_replaced_meanwhile_has_no_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_proposer: ColoredThings
) -> None:
    """The track of the old file that was there counted as accepted for what the new one shows."""
    film, following = red(tmp_path / "a.mp4"), blue(tmp_path / "next.mp4")

    def opening(path: Path) -> VideoReader:
        following.replace(film)
        return open_video(path)

    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(film, model="color-bands", settings=SETTINGS)
        monkeypatch.setattr(registering, "open_video", opening)
        entity = library.register_from_video("blue", film, 0.5, "0,0,40,40")
        assert any("a.mp4 has changed since it was indexed" in told for told in entity.warnings)
        assert not len(library.snapshot().seen.exemplar_ids)


def test_pictures_moved_away_while_they_are_hashed_lend_their_hash_to_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder that moves a day's pictures into an archive: those of the next day got their hash."""
    source = red(tmp_path / "source.mp4")
    folder, archive = write_pictures(tmp_path / "trap", range(6), source), tmp_path / "archive"

    def hashing(mark: FileMark, *wait: Callable[[], None]) -> str:
        found = content_hash(mark, *wait)
        folder.rename(archive)
        write_pictures(folder, range(10, 18), source)
        return found

    monkeypatch.setattr(intake, "content_hash", hashing)
    (file,) = index(tmp_path / "library", [folder])
    assert (file.status, file.note) == ("failed", f"{folder} {CHANGED}")
    monkeypatch.undo()
    index(tmp_path / "library", [folder, archive])
    assert held(tmp_path / "library") == {"trap": 8, "archive": 6}
