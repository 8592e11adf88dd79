"""Where content is looked for: the package's own copy first, then the checkout; never anywhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from panorama import content
from panorama.content import CONTENT, content_dir
from panorama.errors import PanoramaError


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder in which nothing lies yet; `content_dir` takes it for its own."""
    package = tmp_path / "site" / "panorama"
    package.mkdir(parents=True)
    monkeypatch.setattr(content, "__file__", str(package / "content.py"))
    return package


@pytest.mark.parametrize("name", CONTENT)
def test_every_kind_of_content_is_there_and_says_what_it_is(name: str) -> None:
    assert (content_dir(name) / "README.md").read_text(encoding="utf-8").startswith("# ")


def test_a_checkout_has_its_content_beside_the_package(elsewhere: Path) -> None:
    beside = elsewhere.parent / "queries"
    beside.mkdir()
    assert content_dir("queries") == beside


def test_an_installed_package_reads_its_own_copy_first(elsewhere: Path) -> None:
    (elsewhere.parent / "queries").mkdir()
    own = elsewhere / "_content" / "queries"
    own.mkdir(parents=True)
    assert content_dir("queries") == own


def test_an_incomplete_installation_says_what_is_missing(elsewhere: Path) -> None:
    with pytest.raises(PanoramaError, match=r"'embeddings' is missing.*reinstall"):
        content_dir("embeddings")


def test_a_name_that_is_no_content_is_refused() -> None:
    with pytest.raises(ValueError, match=r"queries, embeddings, data, got 'secrets'"):
        content_dir("secrets")
