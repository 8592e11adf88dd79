"""What messages say of near names."""

from __future__ import annotations

import pytest

from panorama.errors import near

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
