"""What messages say of near names and of names that a shell takes otherwise; which classes errors are of."""

from __future__ import annotations

import copy
import errno
import pickle
import shlex

import pytest

from panorama.errors import ClosedPath, PanoramaError, first_entity, near, paths_told

VIDEOS = ["gate/a.mp4", "gate/b.mp4", "yard/c.mp4", "a b.mp4"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        # 'a b.mp4', 'yard/c.mp4' and 'gate/b.mp4' were named, and not the file that was meant.
        ("a.mp4", " Did you mean 'gate/a.mp4'"),
        ("/archive/gate/a.mp4", " Did you mean 'gate/a.mp4'"),
        ("A.MP4", " Did you mean 'gate/a.mp4'"),
        ("gate/bb.mp4", " Did you mean 'gate/b.mp4'"),
    ],
)
def test_what_has_the_same_file_name_is_named_first(name: str, said: str) -> None:
    assert near(name, VIDEOS).startswith(said)


def test_a_part_of_a_file_name_is_not_the_same_name() -> None:
    assert near("mp4", VIDEOS, least=0.99) == "" and near("x/b.mp4", VIDEOS, least=0.99) == ""


@pytest.mark.parametrize("name", ["van", "-x", "--box", "=van", "it's"])
def test_how_the_first_entity_is_registered_runs_as_it_is_said(name: str) -> None:
    """`panorama register -x PICTURE...` was refused as an option, and zsh expands what begins with `=`."""
    words = shlex.split(first_entity(name).partition(": ")[2])
    assert words == ["panorama", "register", *(["--"] if name[0] == "-" else []), name, "PICTURE..."]
    assert " =" not in first_entity(name)


def test_a_closed_path_is_an_error_of_the_system_too() -> None:
    """Around the API `except PermissionError` no longer caught even what the caller's own hooks raised."""
    told = "/mine/log.txt cannot be read or written: Permission denied"
    with pytest.raises(PermissionError) as raised, paths_told(), paths_told():
        raise PermissionError(errno.EACCES, "Permission denied", b"/mine/log.txt")
    closed = raised.value
    assert type(closed) is ClosedPath and isinstance(closed, PanoramaError)
    for same in (closed, pickle.loads(pickle.dumps(closed)), copy.copy(closed)):
        assert str(same) == told and same.args == (told,)
        assert (same.errno, same.filename) == (errno.EACCES, b"/mine/log.txt")
