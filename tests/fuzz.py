"""Mutated SQL texts enter; what crashed, hung, wrote, read outside or failed unclearly leaves.

    python tests/fuzz.py 100000 [--seed 1] [--first 0] [--workers 2] [--state fuzz.json]

The texts are answered in processes of their own, so that a crash or a hang is seen, its text is told, and the
next process goes on behind it. A folder beside the library holds a canary: opening it, or anything new
anywhere, is a finding. With --state, what is done is noted after every 2,000 texts, and a run that was
interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fuzz_texts import texts
from query_samples import make_engine, make_library

from panorama.errors import PanoramaError

LIMIT_SECONDS = float(os.environ.get("FUZZ_LIMIT_SECONDS", "2"))
"""For one text; on a machine with much other work a short limit decides what is said."""

HANG_SECONDS = 30.0
START_SECONDS = 300.0
MEMORY_BYTES = 3_000_000_000
SECRET = "canary-7f3a-sings"


@dataclass(frozen=True)
class Room:
    """The folders of one run: the library, the pictures that may be named, and the canary beside them."""

    root: Path

    @property
    def pictures(self) -> Path:
        return self.root / "pictures"

    @property
    def canary(self) -> Path:
        return self.root / "outside" / "canary.csv"

    def furnish(self) -> None:
        """Make the folders; the library itself is made by who answers."""
        for folder in (self.pictures, self.canary.parent, self.root / "library"):
            folder.mkdir()
        (self.pictures / "a.jpg").write_bytes(b"\x14")
        (self.pictures / "link.jpg").symlink_to(self.canary)
        self.canary.write_text(f"a,b\n1,{SECRET}\n")

    def fill(self, text: str) -> str:
        """A text with the places of this room in it."""
        names = {
            "{canary}": str(self.canary),
            "{folder}": str(self.canary.parent),
            "{name}": "outside/canary.csv",
        }
        for name, place in names.items():
            text = text.replace(name, place)
        return text


def answer(room: Room, seed: int, first: int, count: int) -> None:
    """Answer the texts one after the other, noting each before it is tried. Runs in a process of its own."""
    used = int(re.search(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())[1]) * 1024  # type: ignore[index]
    resource.setrlimit(resource.RLIMIT_DATA, (used + MEMORY_BYTES, used + MEMORY_BYTES))
    engine, _ = make_engine(
        make_library(room.root / "library"), room.pictures, seconds=LIMIT_SECONDS, memory="500MB"
    )
    said: Counter[str] = Counter()
    state = os.open(room.root / "now", os.O_RDWR | os.O_CREAT)
    for number, text in texts(seed, first, count):
        typed = room.fill(text)
        note = json.dumps({"number": number, "text": typed, "said": said}).encode()
        os.pwrite(state, struct.pack("<I", len(note)) + note, 0)
        try:
            said["answers"] += 1
            shown = str(engine.query(typed).fetchall())
        except PanoramaError as error:
            said["answers"] -= 1
            said[type(error).__name__] += 1
            shown = str(error)
            if not shown.strip():
                report(room, "an empty message", typed)
            shown = shown.replace(typed, "").replace(SECRET, SECRET if SECRET not in typed else "")
        except BaseException as error:
            report(room, f"{type(error).__name__}: {error}", typed)
            continue
        if SECRET in shown and SECRET not in typed:
            report(room, "the canary was read", typed)
    os.pwrite(state, struct.pack("<I", 0), 0)
    (room.root / "said").write_text(json.dumps(said))
    engine.close()
    os._exit(0)  # what a library reports about its own end is not looked at here


def report(room: Room, what: str, text: str) -> None:
    """One line for a finding."""
    with (room.root / "findings").open("a") as file:
        file.write(json.dumps({"what": what, "text": text}) + "\n")


class Watch:
    """Which files of some folders were opened or changed, told by the kernel."""

    OPENED, CHANGED = 0x21, 0x3CE  # IN_ACCESS | IN_OPEN; modify, attrib, close_write, move, create, delete

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")

    def add(self, folder: Path, mask: int) -> None:
        """Watch a folder, not those below it."""
        if self._libc.inotify_add_watch(self._fd, os.fsencode(folder), mask) < 0:
            raise OSError(ctypes.get_errno(), "inotify_add_watch", str(folder))

    def events(self) -> list[str]:
        """What happened since the last call."""
        found = []
        while True:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return found
            while data:
                _, mask, _, length = struct.unpack_from("iIII", data)
                found.append(f"{mask:#x} {data[16 : 16 + length].rstrip(bytes(1)).decode() or 'the folder'}")
                data = data[16 + length :]

    def close(self) -> None:
        os.close(self._fd)


@dataclass
class Findings:
    """What a run found: nothing, if all is well."""

    tried: int = 0
    said: Counter[str] = field(default_factory=Counter)
    found: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Progress:
    """What is left of a run and what the rest found; kept in a file, so that it can go on later.

    Attributes:
        asked: seed, first number, count and texts a piece, which a file must agree with.
        left: numbers at which the pieces begin that are not done.
    """

    asked: tuple[int, int, int, int]
    left: list[int]
    findings: Findings = field(default_factory=Findings)
    path: Path | None = None

    @classmethod
    def begin(cls, seed: int, first: int, count: int, step: int, path: Path | None) -> Progress:
        asked = (seed, first, count, step)
        made = cls(asked, list(range(first, first + count, step)), path=path)
        if path is not None and path.exists():
            kept = json.loads(path.read_text())
            if tuple(kept["asked"]) != asked:
                raise SystemExit(f"{path} is of another run, {kept['asked']}; delete it or name another file")
            made.left = kept["left"]
            made.findings = Findings(kept["tried"], Counter(kept["said"]), kept["found"])
        return made

    def finish(self, piece: int, part: Findings) -> None:
        """Note that a piece is done."""
        self.left.remove(piece)
        self.findings.tried += part.tried
        self.findings.said.update(part.said)
        self.findings.found += part.found
        if self.path is not None:
            told = {
                "asked": self.asked,
                "left": self.left,
                "tried": self.findings.tried,
                "said": self.findings.said,
                "found": self.findings.found,
            }
            beside = self.path.with_name(f".{self.path.name}")
            beside.write_text(json.dumps(told))
            beside.replace(self.path)


def run(
    count: int,
    seed: int = 1,
    first: int = 0,
    step: int = 2000,
    show: bool = False,
    workers: int = 1,
    state: Path | None = None,
) -> Findings:
    """Answer `count` texts from number `first` on, `step` of them in each process, `workers` at a time."""
    progress = Progress.begin(seed, first, count, step, state)
    waiting, lock = list(progress.left), threading.Lock()
    began, before = time.monotonic(), progress.findings.tried

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            room = Room(Path(folder))
            room.furnish()
            make_library(room.root / "library")
            while True:
                with lock:
                    if not waiting:
                        return
                    piece = waiting.pop(0)
                part = _piece(room, seed, piece, min(piece + step, first + count))
                with lock:
                    progress.finish(piece, part)
                    if show:
                        _show(progress.findings, before, time.monotonic() - began)

    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work) for _ in range(workers)]:
            done.result()
    return progress.findings


def _show(findings: Findings, before: int, seconds: float) -> None:
    rate = (findings.tried - before) / seconds
    print(f"{findings.tried} texts, {rate:.0f}/s, {dict(findings.said)}", flush=True)
    for one in findings.found:
        print(f"  {one['what']}: {one['text']!r}", flush=True)


def _piece(room: Room, seed: int, first: int, stop: int) -> Findings:
    """Answer the texts [first, stop), in as many processes as it takes."""
    findings = Findings()
    watch = Watch()
    watch.add(room.canary.parent, Watch.OPENED | Watch.CHANGED)
    while first < stop:
        reached = _one_process(room, seed, first, stop - first, watch, findings)
        findings.tried += reached - first
        first = reached
    watch.close()
    return findings


def _one_process(room: Room, seed: int, first: int, size: int, watch: Watch, findings: Findings) -> int:
    """Answer some texts in one process; the number of the first that is left."""
    for name in ("now", "said", "findings"):
        (room.root / name).unlink(missing_ok=True)
    (room.root / "now").write_bytes(bytes(4))
    before = _tree(room.root)
    words = [sys.executable, __file__, "--answer", str(room.root), str(seed), str(first), str(size)]
    watch.events()
    child = subprocess.Popen(words, cwd=room.pictures, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    number, since, hung = -1, time.monotonic(), False
    while child.poll() is None:
        time.sleep(0.05)
        now = _now(room)
        if now is not None and now["number"] != number:
            number, since = now["number"], time.monotonic()
        if time.monotonic() - since > (HANG_SECONDS if now is not None else START_SECONDS):
            hung = True
            child.kill()
            child.wait()
            break
    now = _now(room)
    assert child.stderr is not None
    last = child.stderr.read().decode(errors="replace")[-2000:]
    if child.returncode != 0:
        what = f"the process ended with {child.returncode}: {last}"
        if hung:
            what = f"a hang of {HANG_SECONDS:g} s"
        findings.found.append({"what": what, "text": "" if now is None else str(now["text"])})
    if (room.root / "findings").exists():
        findings.found += map(json.loads, (room.root / "findings").read_text().splitlines())
    if (room.root / "said").exists():
        findings.said.update(json.loads((room.root / "said").read_text()))
    elif now is not None:
        findings.said.update(dict(now["said"]))  # type: ignore[call-overload]
    for event in sorted(set(watch.events())):
        findings.found.append({"what": f"the canary's folder was touched: {event}", "text": f"{first} ff."})
    changed = sorted(set(_tree(room.root)) ^ set(before))
    findings.found += [{"what": f"changed on disk: {path}", "text": f"{first} ff."} for path in changed]
    if child.returncode == 0:
        return first + size
    return first + size if now is None else int(now["number"]) + 1


def _now(room: Room) -> dict[str, object] | None:
    data = (room.root / "now").read_bytes()
    length = struct.unpack_from("<I", data)[0] if len(data) >= 4 else 0
    try:
        return dict(json.loads(data[4 : 4 + length])) if length else None
    except ValueError:  # it was being written
        return None


def _tree(root: Path) -> list[tuple[str, int]]:
    """Every file and its size, without what this module itself writes."""
    own = {"now", "said", "findings"}
    return sorted((str(p), p.lstat().st_size) for p in root.rglob("*") if p.name not in own)


def main() -> None:
    if sys.argv[1:2] == ["--answer"]:
        room, seed, first, count = sys.argv[2:6]
        answer(Room(Path(room)), int(seed), int(first), int(count))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first text")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--state", type=Path, help="note here what is done, and go on from there")
    chosen = parser.parse_args()
    findings = run(
        chosen.count, chosen.seed, chosen.first, show=True, workers=chosen.workers, state=chosen.state
    )
    print(f"{findings.tried} texts: {dict(findings.said)}, {len(findings.found)} findings")
    sys.exit(bool(findings.found))


if __name__ == "__main__":
    main()
