"""Commands that messages advise: typed as they stand, they are about the library that was asked."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran
from fakes import Thing, thing_picture, write_film, write_picture

import panorama
from panorama.cli.main import _COMMANDS
from panorama.commands import ENVIRONMENT, command, command_of, using
from panorama.errors import PanoramaError, UnknownEntity

OTHER = "the other"
"""The name of a library that plain `panorama` does not open, with a blank in it."""


def test_a_name_that_begins_with_a_dash_stands_behind_the_options_of_its_command() -> None:
    """It was taken for options, in most of the commands that messages advise."""
    assert command_of("register", "a van", "--category") == "panorama register 'a van' --category"
    assert command_of("register", "-x", "--category") == "panorama register --category -- -x"
    assert command_of("register", "-x", behind="IMAGE...") == "panorama register -- -x IMAGE..."


def test_a_command_names_the_library_in_use_by_its_whole_path(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    assert command("drop", "a van") == "panorama drop 'a van'"
    with using("b c"):
        assert command("drop", "x") == f"panorama --library '{tmp_path}/b c' drop x"
        assert command_of("drop", "-x") == f"panorama --library '{tmp_path}/b c' drop -- -x"
        with using(None):
            assert command("drop", "x") == "panorama drop x"
        assert "b c" in command("drop", "x")
    assert command("drop", "x") == "panorama drop x"


def test_what_plain_panorama_opens_from_here_is_not_named(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    (tmp_path / "link").symlink_to("panorama-library")
    for path in ("panorama-library", tmp_path / "panorama-library", "./panorama-library/", "link"):
        with using(path):
            assert command("info") == "panorama info", path
    monkeypatch.setenv(ENVIRONMENT, "b")
    with using("b"):
        assert command("info") == "panorama info"
    with using("panorama-library"):
        assert command("info") == f"panorama --library {tmp_path}/panorama-library info"
    monkeypatch.setenv(ENVIRONMENT, "~nobody-of-this-name/b")  # an error, where it is opened
    with using("c"):
        assert command("info") == f"panorama --library {tmp_path}/c info"


def test_in_python_it_is_the_library_whose_method_says_so(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    for name, option in {"panorama-library": "", "b": f"--library {tmp_path}/b ", "c c": ""}.items():
        option = f"--library '{tmp_path}/c c' " if name == "c c" else option
        with panorama.open(name, create=True) as library, pytest.raises(UnknownEntity) as refused:
            library.query("SELECT frames WHERE entity = 'cat'")
        assert str(refused.value).endswith(f"with a picture: panorama {option}register cat PICTURE...")

    with panorama.open("b") as library:  # of answers that come one by one
        answers = library.query_each(["SELECT tracks WHERE video = 'x'"])
        assert f"--library {tmp_path}/b videos" in " ".join(next(answers).warnings)
        assert command("info") == "panorama info"
        for ask in (
            lambda: library.zones.drop("lawn"),
            lambda: library.zones.add("lawn", "0%,0% 9%,9%", camera="gate"),
            lambda: library.zones.draw("zones.png", video="x"),
        ):
            with pytest.raises(PanoramaError, match=f"panorama --library {tmp_path}/b "):
                ask()


ADVISING = re.compile(rf"panorama (?:{'|'.join(_COMMANDS)})\b")


def test_no_text_of_the_package_names_a_command_without_asking_which_library_is_in_use() -> None:
    """Only what explains Panorama does: docstrings, help, and pages, whose commands name it themselves."""
    package = Path(panorama.__file__).parent
    found = []
    for path in sorted(package.rglob("*.py")):
        if path.parent.name == "page":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        explained = {
            id(part)
            for node in ast.walk(tree)
            for explaining in (
                [node] if isinstance(node, ast.Expr) else [node.value] if is_help(node) else []
            )
            for part in ast.walk(explaining)
        }
        found += [
            f"{path.name}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explained
            if ADVISING.search(node.value)
        ]
    # Training by a recipe takes no library, and the last is what a thread is called.
    assert [line.split(":")[0] for line in found] == ["sources.py", "fine_tuning.py", "client.py"]


def is_help(node: ast.AST) -> bool:
    return isinstance(node, ast.keyword) and node.arg == "help"


def held(run: Callable[..., Ran], library: str) -> tuple[object, ...]:
    """All that a command could have changed in a library."""
    asked = (("entities", "--json"), ("videos", "--json"), ("clock", "--json"), ("zones", "list", "--json"))
    rows = [run("--library", library, *words).json for words in asked]
    with panorama.open(library) as opened:
        album = [[e.exemplar_id for e in opened.exemplars(entity.name)] for entity in opened.entities()]
        kept = opened.recording, [model.name for model in opened.info().models]
    return (*rows, album, kept)


@pytest.fixture
def two(run: Callable[..., Ran], asked: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two libraries of the same films and the same album: the one that plain `panorama` opens, and OTHER."""
    write_film(asked / "w" / "old" / "c.mp4", [Thing("green", 5, 35)])
    for library in ("panorama-library", OTHER):
        run("--library", library, "index", "v", "w/old", "--model", "color-bands", "--fps", "10")
        run("--library", library, "register", "--album", "album")
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "y")
    return asked


def both_signs(other, two):
    return other("register", "red", "--not", "album/red/one.png")


def unlike_the_others(other, two):
    pictures = [write_picture(two / f"{n}.png", thing_picture("red", side=60 + n)) for n in range(4)]
    return other("register", "red", *pictures, "album/blue/one.png")


def no_example(other, two):
    with panorama.open(OTHER) as library:
        numbers = [example.exemplar_id for example in library.exemplars("blue")]
    for number in numbers:
        other("exemplars", "blue", "--remove", number)
    return other("query", "SELECT frames WHERE entity = 'blue'")


def file_gone(other, two):
    (two / "v" / "gate" / "a.mp4").rename(two / "v" / "gate" / "a.old")
    return other("videos")


def folder_gone(other, two):
    (two / "w" / "old" / "c.mp4").unlink()
    return other("remove", "--missing", "--yes")


def time_forgotten(other, two):
    other("clock", "c.mp4", "--at", "2026-03-01 10:00", "--timezone", "UTC")
    write_film(two / "w" / "old" / "c.mp4", [Thing("blue", 0, 30)], frames=60)
    return other("index", "w/old")


def forgotten(other, two):
    mixed = thing_picture("red")
    mixed[:, 51:] = thing_picture("green")[:, 51:]
    other("register", "Erika's car", write_picture(two / "mixed.png", mixed))
    return other("forget", "Erika's car", "--with-sightings", "--yes")


def cameras_shared(other, two):
    for frames, site in enumerate(("site1", "site2"), start=14):
        write_film(two / site / "cam1" / f"{site}.mp4", [Thing("red", 0, 9)], frames=frames)
        told = other("index", site)
    return told


TOLD = [
    (both_signs, [(r"exemplars red --remove \d+", True)]),
    (unlike_the_others, [(r"register red --category", True), (r"exemplars red --remove \d+", True)]),
    (no_example, [(r"register blue IMAGE\.\.\.", True)]),
    (file_gone, [(r"remove --missing", True)]),
    (folder_gone, [(r"remove --missing \S+/w/old", True)]),
    (time_forgotten, [(r"clock c\.mp4 --at '2026-03-01 10:00:00' --timezone UTC", True)]),
    (
        forgotten,
        [
            (r"query 'SELECT [^']*' --sheet uncertain\.jpg", False),
            (r"register NAME --track ID", True),
            (r"remove VIDEO", True),
        ],
    ),
    (cameras_shared, [(r"clock --camera-from '\{camera\}/\{camera\}/\*'", True)]),
    (("query", "SELECT frames WHERE entity = 'reed'"), [("entities", False)]),
    (("query", "SELECT frames WHERE entity = 'red' AND video = 'x'"), [("videos", False)]),
    (("query", "SELECT frames WHERE inside('till')"), [("zones(?= *)", None)]),
    (("query", "SELECT tracks WHERE entity = 'red' WITH PRECISION >= 0.9"), [("calibrate", None)]),
    (("query", "SELECT frames WHERE time > '10:00'"), [("clock --time-from", None)]),
    (("remove", "x"), [("videos", False)]),
    (("remove",), [("remove VIDEO...", True)]),
    (("register",), [("register NAME IMAGE...", True)]),
    (
        ("register", "x", "v/gate"),
        [("register NAME --video v/gate/a.mp4 --at SECONDS --box x1,y1,x2,y2", True)],
    ),
    (("zones", "drop", "till"), [("zones", None)]),
    (("drop", "-x"), [("drop -- -x", None)]),
]
"""What provokes a message; of each command that it tells, a pattern, and whether it changes the library.

None where it is not run: it shows its own help, would take long, or needs more.
"""

STANDS_FOR = {
    "IMAGE...": "album/green/one.png",
    "NAME": "new",
    "VIDEO": "yard/b.mp4",
    "VIDEO...": "yard/b.mp4",
    "SECONDS": "1",
    "x1,y1,x2,y2": "10,10,60,60",
}


@pytest.mark.parametrize(("provoked", "told"), TOLD, ids=lambda value: getattr(value, "__name__", None))
def test_commands_of_messages_typed_as_told_change_the_library_that_was_asked(run, two, provoked, told):
    """`panorama exemplars cat --remove 1` took the example out of another library, and did not ask."""

    def other(*words):
        return run("--library", OTHER, *words)

    text = (provoked(other, two) if callable(provoked) else other(*provoked)).err
    ours = [line for line in text.splitlines() if not line.startswith(("Usage: ", "Try 'panorama "))]
    assert re.findall(r"panorama (?!--library)[a-z].*", "\n".join(ours)) == []
    prefix = f"panorama --library '{two}/{OTHER}' "
    plain, before = held(run, "panorama-library"), held(run, OTHER)
    with panorama.open(OTHER) as library:
        track = library.query("SELECT track_id FROM tracks").fetchall()[0][0]
    for pattern, changes in told:
        found = re.search(re.escape(prefix) + pattern, text)
        assert found is not None, text
        if changes is None:
            continue
        words = [STANDS_FOR.get(word, word) for word in shlex.split(found[0])[1:]]
        done = run(*[track if word == "ID" else word for word in words])
        assert done.status == 0, done.err
        after = held(run, OTHER)
        assert (after != before) == changes, found[0]
        before = after
    assert held(run, "panorama-library") == plain
