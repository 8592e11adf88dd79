"""Which files lie below a folder: through links, each once, nothing that is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import thing_picture, write_picture

from panorama.errors import UsageError
from panorama.folders import files_below
from panorama.models.training.heldout import held_out_pictures
from panorama.models.training.sources import gather
from panorama.own_training.pictures import from_folders, passed_over
from panorama.training import refuse_place


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    """Animals whose folders are links, lie beside hidden ones, and lead in circles."""
    for place in ("zoo/cat", "disk/dog/old", "zoo/.thumbs", "zoo/cat/.ipynb_checkpoints"):
        write_picture(tmp_path / place / "0.png", thing_picture("red"))
    zoo = tmp_path / "zoo"
    (zoo / "dog").symlink_to("../disk/dog")
    (zoo / "wolf").symlink_to("../disk/dog/old")  # which is searched as a part of the dog
    (zoo / "again").symlink_to("cat")
    (zoo / "cat" / "all").symlink_to("../..")
    (tmp_path / "disk" / "dog" / "round").symlink_to(".")
    (zoo / "a.png").symlink_to("cat/0.png")
    (zoo / "lost.png").symlink_to("lost.png")
    return zoo


def test_files_are_found_through_links_once_and_none_that_is_hidden(zoo: Path) -> None:
    found = files_below(zoo)
    assert [path.relative_to(zoo).as_posix() for path in found] == ["cat/0.png", "dog/old/0.png", "lost.png"]
    assert found[zoo / "dog" / "old" / "0.png"] == (zoo.parent / "disk" / "dog" / "old" / "0.png").resolve()
    assert files_below(zoo / "absent") == {} == files_below(zoo / "cat" / "0.png")
    inner = zoo / ".thumbs"  # named itself
    assert list(files_below(inner)) == [inner / "0.png"]


def test_folders_to_learn_from_may_be_links_and_hidden_ones_are_no_things(zoo: Path) -> None:
    """What links lead to was left out without a word, and `.thumbs` was a thing to learn."""
    assert [picture.identity for picture in from_folders([zoo])] == ["zoo/cat", "zoo/dog"]
    assert passed_over([zoo]) == []


def test_no_model_is_written_where_a_link_leads(zoo: Path) -> None:
    """The next training would learn from its plot."""
    with pytest.raises(UsageError, match=r"is inside --folders \S+zoo: the next training"):
        refuse_place(zoo.parent / "disk" / "dog" / "net", [zoo])
    refuse_place(zoo.parent / "disk" / "net", [zoo, zoo / "absent"])


def test_a_source_of_folders_finds_what_folders_to_learn_from_find(zoo: Path) -> None:
    (zoo / "lost.png").unlink()
    table = {"name": "zoo", "kind": "folders", "data": "d", "labels": True, "hold_out": False}
    found = gather([table], {"d": zoo})
    assert [item.label for item in found] == ["zoo/cat", "zoo/dog"]
    held = held_out_pictures([table | {"hold_out": True}], {"d": zoo})
    assert set(held.labels) <= {"zoo/cat", "zoo/dog"}
