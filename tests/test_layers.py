"""The package's imports, read from its source: they point one way, and nothing heavy is loaded too early."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from panorama.answering.sightings import DECIDING

PACKAGE = Path(__file__).resolve().parent.parent / "panorama"


MAY_IMPORT: dict[str, frozenset[str]] = {
    "lines": frozenset(),
    "commands": frozenset({"lines"}),
    "errors": frozenset({"commands"}),
    "systems": frozenset({"errors"}),
    "json_text": frozenset(),
    "values": frozenset(),
    "whole_files": frozenset(),
    "whole_imports": frozenset(),
    "arguments": frozenset({"errors", "lines", "values", "whole_imports"}),
    "content": frozenset({"errors"}),
    "threads": frozenset({"errors", "arguments"}),
    "waits": frozenset(),
    "joining": frozenset(),
    "stopping": frozenset(),
    "folders": frozenset(),
    "pictures": frozenset({"errors", "lines", "folders"}),
    "frames": frozenset({"errors"}),
    "regions": frozenset({"errors", "frames"}),
    "video": frozenset({"errors", "lines", "whole_files", "folders", "pictures", "frames", "regions"}),
    "models": frozenset(
        {
            *("errors", "json_text", "values", "whole_files", "content", "threads", "folders"),
            *("stopping", "pictures", "frames", "regions"),
        }
    ),
    "store": frozenset(
        {"errors", "lines", "commands", "waits", "joining", "whole_files", "folders", "frames", "regions"}
    ),
    # The query engine gets the embedder passed in: it knows the interface, not the models.
    "query": frozenset(
        {
            *("errors", "lines", "commands", "values", "arguments", "whole_imports", "stopping", "folders"),
            *("frames", "regions", "store", "models.base"),
        }
    ),
}
"""The lower layers: part of the package -> the parts that it may import, besides itself."""

FRONT = frozenset({"cli", "__main__"})
BELOW_LIBRARY = FRONT | {"library", "opening"}

ONLY_IMPORTERS = {
    "av": ("video/",),
    "sqlalchemy": ("store/",),
    "faiss": ("store/vectors/",),
    "duckdb": ("query/",),
    "sqlglot": ("query/",),
    "torch": ("models/",),
    "openvino": ("models/graph8",),
    "click": ("cli/",),
}
"""Package -> the beginnings of the files that may import it."""

HEAVY = ("torch", "openvino", "duckdb", "av", "faiss", "cv2", "sqlalchemy", "sqlglot", "pyarrow", "scipy")


def files() -> list[str]:
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def part_of(file: str) -> str:
    """The layer that a file belongs to: 'video/clip.py' -> 'video', 'zones.py' -> 'zones'."""
    return file.split("/")[0].removesuffix(".py")


@cache
def imports(file: str) -> list[tuple[str, bool]]:
    """Every module that a file names in an import, wherever it stands; and whether it is for types only."""
    return list(read_imports(file))


def read_imports(file: str) -> Iterator[tuple[str, bool]]:
    tree = ast.parse((PACKAGE / file).read_text(encoding="utf-8"), file)
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names = [str(node.module)]
            if node.module == "panorama":
                names = [f"panorama.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) in typing_only


def own_imports(file: str) -> set[str]:
    """The modules of this package that a file imports at run time, without the leading 'panorama.'."""
    return {
        name.removeprefix("panorama.")
        for name, typing_only in imports(file)
        if name.startswith("panorama.") and not typing_only
    }


def test_every_part_that_the_rules_name_is_there() -> None:
    parts = {part_of(file) for file in files()}
    assert set(MAY_IMPORT) <= parts
    for starts in ONLY_IMPORTERS.values():
        for start in starts:
            assert any(file.startswith(start) for file in files()), start


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_lower_layer_imports_only_what_lies_below_it(part: str) -> None:
    allowed = MAY_IMPORT[part] | {part}
    for file in files():
        if part_of(file) != part:
            continue
        wrong = {
            name for name in own_imports(file) if name not in allowed and name.split(".")[0] not in allowed
        }
        assert not wrong, f"{file} imports {sorted(wrong)}; {part} may import {sorted(allowed)}"


def mapped(heading: str) -> list[set[str]]:
    """The rows of a table of CONTRIBUTING.md: the modules and packages that its first column names."""
    page = (PACKAGE.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.split(f"| in `{heading}` | what |\n|---|---|\n")[1].split("\n\n")[0]
    named = [re.findall(r"`([^`]+)`", row.split("|")[1]) for row in table.splitlines()]
    assert all(named)
    return [{name.removesuffix("/").removesuffix(".py") for name in names} for names in named]


def test_the_map_names_every_module_once_and_imports_point_upwards_in_it() -> None:
    rows = mapped("panorama/")
    parts = {part_of(file) for file in files()} - {"__init__", "__main__"}
    assert sorted(name for row in rows for name in row) == sorted(parts)
    row_of = {name: number for number, row in enumerate(rows) for name in row}
    downwards = [
        f"{file} imports {name}"
        for file in files()
        for name in sorted(own_imports(file))
        if part_of(file) in row_of and row_of.get(name.split(".")[0], 0) > row_of[part_of(file)]
    ]
    assert not downwards


def test_every_module_begins_with_one_sentence_in_one_line() -> None:
    """`head -qn 1` over a package is its map."""
    firsts = {file: (PACKAGE / file).read_text(encoding="utf-8").split("\n")[0] for file in files()}
    assert [file for file, line in firsts.items() if not re.fullmatch(r'"""\S.*\.("""|)', line)] == []


@pytest.mark.parametrize("package", ["indexing", "query", "store"])
def test_the_map_of_a_package_names_every_module_once(package: str) -> None:
    inside = [file.split("/")[1] for file in files() if file.startswith(f"{package}/")]
    modules = {name.removesuffix(".py") for name in inside} - {"__init__"}
    assert sorted(name for row in mapped(f"panorama/{package}/") for name in row) == sorted(modules)


BESIDE_DECIDING = {
    "commands",
    "errors",
    "lines",
    "album.stored_pictures",  # makes what the model sees, and so vectors, which are kept
    "models.base",  # the key holds the model's hash and its cohort
    "store.catalog.seen",  # and the places that examples were cut from
    "query.matching.ledger",  # counts
    "query.matching.nearest",  # similarity to a picture is not cached
    "query.stopping",
    "query.shorthands.terms",
    "query.matching.on_terms",  # nor is what is found within a time
    "query.matching.promises",
    # What is listed, and that a file holds what it held when it was written.
    "store",
    "store.files.layout",
    "store.files.locks",
    "store.files.lost",
    "store.files.own_names",
    "store.files.schema",
    "store.files.segments",
    "store.snapshot",
    "whole_files",
}
"""What modules that decide import, and what changes no answer that is kept for later queries."""


def test_what_stands_for_the_deciding_code_names_every_module_that_decides() -> None:
    deciding = {name.removeprefix("panorama.") for name in DECIDING}
    imported = {name for part in deciding for name in own_imports(f"{part.replace('.', '/')}.py")}
    assert {"query.matching.matcher", "answering.source"} <= deciding
    assert imported - deciding == BESIDE_DECIDING


def test_only_the_command_line_and_the_like_import_the_library() -> None:
    for file in files():
        if part_of(file) in BELOW_LIBRARY or file == "__init__.py":
            continue
        assert "library" not in {name.split(".")[0] for name in own_imports(file)}, file


def test_nothing_imports_the_command_line_but_itself() -> None:
    for file in files():
        if part_of(file) not in FRONT:
            wrong = {name for name in own_imports(file) if name.split(".")[0] in FRONT}
            assert not wrong, f"{file} imports {sorted(wrong)}"


@pytest.mark.parametrize("package", ONLY_IMPORTERS)
def test_each_large_dependency_is_imported_in_one_place(package: str) -> None:
    importers = {file for file in files() for name, _ in imports(file) if name.split(".")[0] == package}
    assert importers, f"nothing imports {package}: the rule is out of date"
    assert {file for file in importers if not file.startswith(ONLY_IMPORTERS[package])} == set()


def loaded_by(code: str) -> set[str]:
    """Which of the heavy packages a fresh interpreter has loaded after some code."""
    report = f"\nimport sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code + report], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("module", ["panorama", "panorama.errors", "panorama.cli", "panorama.content"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    assert loaded_by(f"import {module}") == set()


def test_asking_for_help_loads_nothing_heavy() -> None:
    code = """
import sys
from panorama.cli import main
sys.argv = ["panorama", "--help"]
try:
    main()
except SystemExit:
    pass
"""
    assert loaded_by(code) == set()


def test_a_query_over_the_colour_baseline_does_not_wait_for_torch() -> None:
    assert "torch" not in loaded_by("import panorama; panorama.open; panorama.Library")
