"""The lower bounds of pyproject.toml, and that `make test-oldest` tries them; itself it installs too much."""

from __future__ import annotations

import re

from oldest import BESIDE, ROOT, dependencies, oldest
from packaging.requirements import Requirement


def test_each_package_is_tried_at_its_lower_bound() -> None:
    asked = ["av>=17,<19", "torch>=2.4", "tzdata", "opencv-python-headless>=4.13.0.90", "sqlglot <31, >=30"]
    assert oldest([Requirement(one) for one in asked]) == [
        "av==17", "tzdata", "opencv-python-headless==4.13.0.90", "sqlglot==30",
    ]  # fmt: skip


def test_whatever_pyproject_asks_for_has_a_lower_bound_that_is_tried() -> None:
    """Data of time zones has none: any is better than none."""
    asked = {one.name: one for one in dependencies()}
    tried = dict(one.partition("==")[::2] for one in oldest(list(asked.values())))
    assert len(asked) >= 14 and set(tried) == set(asked) - BESIDE
    assert {name for name, version in tried.items() if not version} == {"tzdata"}
    for name in set(tried) - {"tzdata"}:
        assert f">={tried[name]}" in str(asked[name].specifier)
        assert asked[name].specifier.contains(tried[name])


def test_make_tries_them() -> None:
    target = re.search(r"^test-oldest: .*\n\t(.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert target is not None and target[1] == "@$(BIN)/python tests/oldest.py"
