"""Every command and every piece of code in the README and in docs/ is run, on a small sample library.

A page is run from top to bottom. In ```console blocks a line that begins with `$` is a
command and what follows is its output; in ```python blocks the same holds for `>>>`. Output is compared after
numbers and widths are taken out, and `...` stands for anything. ```sql blocks are asked of the library.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import panorama
from panorama.cli import main
from panorama.content import CONTENT, content_dir

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKING = sorted(
    {
        *ROOT.glob("*.md"),
        *(page for folder in (*CONTENT, "docs", "tests") for page in (ROOT / folder).rglob("*.md")),
    }
)
FROM_NOTHING = {"getting-started.md"}
"""Pages that make their own library; the others find one in ./panorama-library."""

ELSEWHERE = {"SQL.md"}
"""Pages whose blocks test_sql_page.py runs, on another library."""

NOT_RUN = {"source .venv/bin/activate"}
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN = {"console", "python", "sql"}
SHOWN = {"console", "python", "sql", "text", "toml"}
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]+)[^)]*\)|!\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")

FRAGMENT = re.compile(r"(?<!!)\[[^\]]*\]\(([^)#\s]*)#([^)\s]+)\)")


class Block(NamedTuple):
    """One fenced block of a page; `line` is that of its first line of text."""

    language: str
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCE.finditer(text):
        yield Block(found[1], found[2], text[: found.start(2)].count("\n") + 1)


def anchor(heading: str) -> str:
    """What a heading is linked to by, as code hosts make it: small letters, no punctuation, hyphens."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    """The anchors of all headings of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def steps(text: str) -> Iterator[tuple[str, str]]:
    """Commands of a console block, with the output that follows each."""
    command, output = "", ""
    for line in text.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, output
            command, output = line[2:], ""
        elif line.startswith("> ") and not output:
            command += "\n" + line[2:]
        else:
            output += line + "\n"
    assert command, f"no line of this block begins with '$ ':\n{text}"
    yield command, output


def bare(output: str) -> str:
    """Output without what another processor or a better model changes: figures, and the widths they need."""
    output = re.sub(r"\d+(\.\d+)?", "0", output)
    return re.sub(r"-{2,}", "-", " ".join(output.split()))


def agree(shown: str, real: str) -> bool:
    pattern = ".*".join(re.escape(bare(part)) for part in re.split(r"(?<!\.)\.\.\.(?!\.)", shown))
    return re.fullmatch(pattern.replace(r".*\ ", ".*"), bare(real)) is not None


def run_panorama(arguments: str) -> tuple[int, str]:
    """The command line in this process: a process for each would load torch again every time."""
    written = io.BytesIO()  # tables are written to it as text, data as bytes
    out = io.TextIOWrapper(written, "utf-8", write_through=True)
    before, sys.argv = sys.argv, ["panorama", *shlex.split(arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main()
    except SystemExit as exit:
        return int(exit.code or 0), written.getvalue().decode()
    finally:
        sys.argv = before
    raise AssertionError("main() returned")


def run_shell(command: str) -> tuple[int, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command], env={**os.environ, "PATH": path}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout


def run_command(command: str) -> tuple[int, str]:
    """Run a command of a page; what make would do is only looked up, else the tests would run themselves."""
    if command in NOT_RUN:
        return 0, ""
    if command.startswith("make"):
        return run_shell(f"cd '{ROOT}' && {command.split('#')[0]} --dry-run >/dev/null")
    if command.startswith("panorama ") and not set("|>&;$") & set(re.sub(r"\"[^\"]*\"|'[^']*'", "", command)):
        return run_panorama(command.removeprefix("panorama "))
    return run_shell(command)


def check_console(block: Block, where: str) -> None:
    for command, shown in steps(block.text):
        status, real = run_command(command)
        error = re.search(r"^([A-Z]\w+): ", shown, re.MULTILINE)
        expected = 0 if error is None else 2 if error[1] == "UsageError" else 1
        assert status == expected, f"{where}: {command}\nended with {status}\n{real}"
        assert not shown.strip() or agree(shown, real), f"{where}: {command}\nreally gives:\n{real}"


class Checker(doctest.OutputChecker):
    """Compares as console output is compared."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return agree(want, got)


def check_python(block: Block, where: str, names: dict[str, Any]) -> None:
    if ">>>" not in block.text:
        exec(compile(block.text, where, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line)
    out = io.StringIO()
    runner = doctest.DocTestRunner(Checker(), verbose=False)
    runner.run(test, out=out.write, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, out.getvalue()


def check_sql(block: Block, where: str) -> None:
    with panorama.open("panorama-library") as library:
        for statement in re.split(r";[^\n']*\n", block.text):
            if re.sub(r"--[^\n]*", "", statement).strip():
                library.query(statement)


@pytest.fixture(scope="module")
def place(quick_sample: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody sees who has just cloned the project and drawn the small sample."""
    folder = tmp_path_factory.mktemp("docs")
    shutil.copytree(quick_sample.archive.parent, folder / "panorama-sample")
    for name in CONTENT:
        (folder / name).symlink_to(content_dir(name))
    return folder


@pytest.fixture(scope="module")
def indexed(place: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of the sample, to be copied: pages change it."""
    path = tmp_path_factory.mktemp("indexed") / "panorama-library"
    with panorama.open(path, create=True) as library:
        library.index(place / "panorama-sample" / "archive")
        library.register_album(place / "panorama-sample" / "album")
    return path


def test_the_pages_are_there_and_have_something_to_run() -> None:
    assert {"README.md", "getting-started.md", "python.md", "library.md"} <= {page.name for page in PAGES}
    assert sum(block.language in RUN for page in PAGES for block in blocks(page)) > 15


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in ELSEWHERE], ids=lambda page: page.name)
def test_every_block_of_a_page_runs(
    page: Path, place: Path, indexed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    monkeypatch.delenv("PANORAMA_LIBRARY", raising=False)
    shutil.rmtree("panorama-library", ignore_errors=True)
    if page.name not in FROM_NOTHING:
        shutil.copytree(indexed, "panorama-library")
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        where = f"{page.relative_to(ROOT)}, line {block.line}"
        assert block.language in SHOWN, f"{where}: a block is one of {sorted(SHOWN)}"
        if block.language == "console":
            check_console(block, where)
        elif block.language == "python":
            check_python(block, where, names)
        elif block.language == "sql":
            check_sql(block, where)


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_that_are_there(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    targets = {next(filter(None, found)) for found in LINK.findall(text)}
    missing = {t for t in targets if "://" not in t and not (page.parent / t).exists()}
    assert not missing


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_headings_that_are_there(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    missing = {
        f"{target}#{fragment}"
        for target, fragment in FRAGMENT.findall(text)
        if "://" not in target and fragment not in anchors(page.parent / target if target else page)
    }
    assert not missing


def test_every_decision_is_listed_once_by_its_subject() -> None:
    text = (ROOT / "DECISIONS.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[(\d+\. .+)\]\(#.+\)$", text, re.MULTILINE)
    assert sorted(listed) == sorted(re.findall(r"^## (\d+\. .+)$", text, re.MULTILINE))


def test_anchors_are_those_that_pages_are_shown_with() -> None:
    page = ROOT / "docs" / "library.md"
    assert {"privacy", "upgrading"} <= anchors(page)
    assert anchor("54. What is `kept`; borders from 0.75 on") == "54-what-is-kept-borders-from-075-on"


def test_output_is_compared_without_its_figures_but_with_its_words() -> None:
    assert agree("3 indexed, 0 failed\n", "12 indexed,  4 failed\n")
    assert agree("video  score\n-----  ----\n...\n(2 rows)\n", "video score\n--- ---\na.mp4 0.3\n(7 rows)\n")
    assert not agree("3 indexed, 0 failed\n", "3 indexed, 0 skipped\n")
    assert not agree("(2 rows)\n", "UnknownEntity: no entity\n")
