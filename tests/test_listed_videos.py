"""What names, paths, folders and patterns mean among the videos that a library lists."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from panorama.cameras import listed_videos
from panorama.cameras.listed_videos import (
    Meant,
    gone_by_root,
    gone_from,
    meant,
    missing,
    names_of,
    resized,
    unshowable,
)
from panorama.commands import alone
from panorama.errors import UnknownVideo

NAMES = ["gate/a.mp4", "gate/b.mkv", "gate/night/c.mp4", "gateway.mp4", "odd[1].mp4", "yard.mp4"]


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """Names and places of videos below the folder `archive` of the working directory."""
    monkeypatch.chdir(tmp_path)
    return pa.table({"video": NAMES, "uri": [str(tmp_path.resolve() / "archive" / name) for name in NAMES]})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("*.mp4", ["gateway.mp4", "odd[1].mp4", "yard.mp4"]),
        ("gate/*", ["gate/a.mp4", "gate/b.mkv"]),
        ("gate/?.mp4", ["gate/a.mp4"]),
        ("gate/[bc].*", ["gate/b.mkv"]),
        ("**/*.mp4", ["gate/a.mp4", "gate/night/c.mp4", "gateway.mp4", "odd[1].mp4", "yard.mp4"]),
        ("gate/**", ["gate/a.mp4", "gate/b.mkv", "gate/night/c.mp4"]),
        ("*/night/*.mp4", ["gate/night/c.mp4"]),
        ("gate", ["gate/a.mp4", "gate/b.mkv", "gate/night/c.mp4"]),
        ("gate/night/", ["gate/night/c.mp4"]),
        ("gate/n*", ["gate/night/c.mp4"]),
        ("archive/*/n[i]ght", ["gate/night/c.mp4"]),
        ("*/", ["gate/a.mp4", "gate/b.mkv", "gate/night/c.mp4"]),
        ("archive/gate", ["gate/a.mp4", "gate/b.mkv", "gate/night/c.mp4"]),
        ("archive/*.mp4", ["gateway.mp4", "odd[1].mp4", "yard.mp4"]),
        ("./archive/gate/../*way.mp4", ["gateway.mp4"]),
        (".", NAMES),
    ],
)
def test_folders_and_patterns_mean_what_lies_there(listed: pa.Table, given: str, names: list[str]) -> None:
    assert meant([given], listed) == [Meant(given, tuple(names), several=True)]


@pytest.mark.parametrize("given", [".", "./", "gate/..", "./gate"])
def test_the_working_directory_means_what_lies_in_it_alone(listed: pa.Table, given: str) -> None:
    """`remove .` meant all videos of the library, `./gate` those of that name, from wherever it was typed."""
    Path("elsewhere/gate").mkdir(parents=True)
    os.chdir("elsewhere")
    with pytest.raises(UnknownVideo, match=f"no video '{given}'"):
        meant([given], listed)


class Compared(str):
    """A name that counts how often it is compared with another one."""

    __hash__ = str.__hash__
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def test_each_of_many_names_is_compared_with_few_names_of_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each was compared with all names: seconds for tens of thousands, as in a bulk `remove`."""
    names = [Compared(f"camera/clip-{number}.mp4") for number in range(300)]
    listed = pa.table({"video": names, "uri": [f"/archive/{name}" for name in names]})
    monkeypatch.setattr("panorama.cameras.listed_videos.composed", Compared)
    assert names_of(names, listed) == names
    assert Compared.times < 10 * len(names)


def test_each_of_many_paths_is_compared_with_few_paths_of_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each was compared with all paths: a minute for 2,000 files, as a shell names them for `remove`."""
    compared = []
    made = listed_videos.PurePath
    monkeypatch.setattr(listed_videos, "PurePath", lambda *parts: compared.append(parts) or made(*parts))
    paths = [f"/archive/clip-{number}.mp4" for number in range(100)]
    listed = pa.table({"video": [f"{number}" for number in range(100)], "uri": paths})
    assert [one.names for one in meant(paths, listed)] == [(f"{number}",) for number in range(100)]
    assert len(compared) < 10 * len(paths)


def test_names_and_paths_are_put_in_order_only_if_a_folder_is_a_video_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each command that names a video sorted the paths of all videos: most of its work at 100,000 videos."""
    put = []

    def counted(them: Iterable[str]) -> list[str]:
        inside = sorted(them)
        put.append(len(inside))
        return inside

    monkeypatch.setattr(listed_videos, "sorted", counted, raising=False)
    listed = pa.table({"video": NAMES, "uri": [f"/archive/{name}" for name in NAMES]})
    assert [one.names for one in meant(NAMES, listed)] == [(name,) for name in NAMES]
    assert [one.names for one in meant([f"/archive/{name}" for name in NAMES], listed)] == [
        (name,) for name in NAMES
    ]
    assert len(NAMES) not in put
    names = ["gate", *NAMES]
    listed = pa.table({"video": names, "uri": [f"/archive/{name}" for name in names]})
    assert {len(one.names) for one in meant(["gate", "/archive/gate"] * 4, listed)} == {4}
    assert put.count(len(names)) == 2, "the names once, and the paths"


def test_a_path_means_what_is_at_it_and_below_it_and_nothing_beside_it(tmp_path: Path) -> None:
    names = ["z/2.mp4", "a", "z", "z.mp4", "z/1.mp4", "z-1", "z/n/3.mp4", "z0"]
    place = tmp_path.resolve()
    listed = pa.table({"video": [f"named {name}" for name in names], "uri": [str(place / n) for n in names]})
    told = {one.given: one.names for one in meant([str(place / name) for name in names], listed)}
    assert told.pop(str(place / "z")) == ("named z/2.mp4", "named z", "named z/1.mp4", "named z/n/3.mp4")
    assert told == {str(place / name): (f"named {name}",) for name in names if name != "z"}


@pytest.mark.parametrize("indexed", ["", "traps"], ids=["the folder", "the one above"])
def test_a_folder_that_is_a_video_means_the_same_by_name_and_by_path(
    indexed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name meant its pictures alone, and with a slash behind it the clips beside them alone."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path.resolve() / "traps" / "north"
    clips = ["1.mp4", "more/2.mp4"]
    names = ["north", *(f"north/{clip}" if indexed else clip for clip in clips), "north0.mp4", "south.mp4"]
    uris = [folder, *(folder / clip for clip in clips), *(folder.parent / name for name in names[3:])]
    listed = pa.table({"video": names, "uri": list(map(str, uris))})
    given = ["north", "north/", "traps/north", "traps/north/", "./traps/north"]
    assert meant(given, listed) == [Meant(word, tuple(names[:3]), several=True) for word in given]


def test_a_folder_with_nothing_but_pictures_is_one_video_also_with_a_slash_behind_it(tmp_path: Path) -> None:
    (tmp_path / "traps" / "north").mkdir(parents=True)
    listed = pa.table({"video": ["north"], "uri": [str(tmp_path.resolve() / "traps" / "north")]})
    assert meant(["north", "north/"], listed) == [
        Meant("north", ("north",), several=False),
        Meant("north/", ("north",), several=False),
    ]


@pytest.mark.parametrize(
    "name", ["north", "a/north", "noon!", "no/!", "[1]", "odd[1]", "süd", "a-", "^", "no]"]
)
def test_a_pattern_means_the_pictures_of_a_folder_alone(name: str) -> None:
    names = [name, f"{name}/1.mp4"]
    listed = pa.table({"video": names, "uri": [f"/traps/{one}" for one in names]})
    assert [one.names for one in meant([name, alone(name)], listed)] == [tuple(names), (name,)]


def test_a_name_or_a_path_means_itself_also_where_it_could_be_a_pattern(listed: pa.Table) -> None:
    given = ["odd[1].mp4", "archive/gate/a.mp4", "yard.mp4"]
    assert [(m.names, m.several) for m in meant(given, listed)] == [
        (("odd[1].mp4",), False),
        (("gate/a.mp4",), False),
        (("yard.mp4",), False),
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("gat/*.mp4", r"no video matches 'gat/\*\.mp4'\. Did you mean 'gate/a\.mp4'.* See: panorama videos"),
        ("night/*", r"stays within one folder; '\*\*/night/\*' matches 1 video$"),
        ("*.mkv", r"stays within one folder; '\*\*/\*\.mkv' matches 1 video$"),
        ("gatee", r"no video 'gatee'\. Did you mean 'gate/'"),
        ("*.avi", r"no video matches '\*\.avi'\."),
        ("", r"no video ''\."),
        ("gat", r"no video 'gat'\."),
        ("yard.mp4/", r"no video 'yard\.mp4/'\. Did you mean 'yard\.mp4'"),
    ],
)
def test_what_means_no_video_is_told_with_near_names(listed: pa.Table, given: str, told: str) -> None:
    with pytest.raises(UnknownVideo, match=told):
        meant(["yard.mp4", given], listed)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("archive", NAMES),
        ("archive/*", NAMES),
        ("archive/g*", ["gate/a.mp4", "gate/b.mkv", "gate/night/c.mp4", "gateway.mp4"]),
        ("archive/*/n*", ["gate/night/c.mp4"]),
        ("archive/*.mp4", ["gateway.mp4", "odd[1].mp4", "yard.mp4"]),
        ("elsewhere/*", []),
    ],
)
def test_what_is_gone_is_looked_for_where_index_looks(listed: pa.Table, given: str, names: list[str]) -> None:
    assert list(gone_from([given], listed)) == names


def test_a_folder_whose_pictures_are_gone_is_missing_and_asked_for_its_disk_if_it_is_empty(
    tmp_path: Path,
) -> None:
    """It had "changed": to index it again was advised, which could not help, and nothing removed it."""
    north, card = tmp_path.resolve() / "north", tmp_path.resolve() / "card"
    for folder in (north, card):
        folder.mkdir()
        (folder / "IMG_1.JPG").write_bytes(b"a picture")
    film = card / "clip.mp4"
    film.touch()
    listed = pa.table(
        {
            "video": ["card", "north", "card/clip.mp4"],
            "uri": [str(card), str(north), str(film)],
            "root": [str(tmp_path.resolve())] * 3,
            "size": [9, 9, 0],
            "content_sample": ["another", "another", None],
        }
    )
    assert missing(listed) == [False] * 3 and resized(listed) == [True, True, False]
    for folder in (north, card):
        (folder / "IMG_1.JPG").unlink()
    assert missing(listed) == [True, True, False] and resized(listed) == [False] * 3
    assert unshowable({"card", "north"}, listed) == {"card", "north"}
    assert gone_from([tmp_path], listed).keys() == {"card", "north"}
    (root,) = gone_by_root(listed)
    assert root.gone.keys() == {"card", "north"} and root.unmounted == (str(north),)
