"""Everything at once in one library: questions, second openings, examples, indexing that is killed, removal.

    python tests/bench/together.py ../shared/footage --seconds 200

One program keeps the library open twice and opens it again and again, in threads: one asks questions, one
asks a library that it opens for each question, one registers and forgets. At the same time two
`panorama index` run over pieces of a clip and are interrupted or killed at random, videos are removed and
data files merged. Nobody may meet an error that is not about what was asked for, and at the end the catalog
must be sound and every video answer. Status 1 otherwise.

It prints how often each was done and the errors by kind.
"""

from __future__ import annotations

import argparse
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from footage import copy_packets
from kill_nine import inspect
from measure import machine, panorama, say, table

import panorama as api
from panorama.errors import NotYetErased

CLIP = "people-one-by-one"
QUESTION = "SELECT frames WHERE entity = ?"
DONE = frozenset({0, 130, -signal.SIGKILL, -signal.SIGINT})
"""How `index` may end here: done, interrupted, killed."""

UNSOUND = ("damaged", "disk I/O", "not a database", "malformed")


class Crowd:
    """All who work on one library until a time, and what became of it."""

    def __init__(
        self, library: Path, pieces: list[Path], album: list[Path], given: argparse.Namespace
    ) -> None:
        self.library, self.pieces, self.album = library, pieces, album
        self.until = time.monotonic() + given.seconds
        self.done: Counter[str] = Counter()
        self.errors: Counter[tuple[str, str]] = Counter()
        self._seed, self._options = given.seed, given.options.split()

    def run(self) -> None:
        """Everybody works until the time is over."""
        works = (self._ask, self._open_again, self._register, self._index, self._index, self._remove)
        with api.open(self.library) as self._kept, api.open(self.library) as self._writer:
            threads = [
                threading.Thread(target=self._repeat, args=(work, random.Random(f"{self._seed} {number}")))
                for number, work in enumerate(works)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _repeat(self, work: Callable[[random.Random], None], draw: random.Random) -> None:
        name = work.__name__.strip("_").replace("_", " ")
        while time.monotonic() < self.until:
            try:
                work(draw)
            except Exception as exc:  # whatever it is: it is what this looks for
                self._note(name, f"{type(exc).__name__}: {exc}", traceback.format_exc(limit=-4))
            self.done[name] += 1
            time.sleep(draw.random() * 0.03)

    def _note(self, who: str, error: str, more: str = "") -> None:
        if (who, error) not in self.errors:
            say(f"{who}: {error}\n{more}")
        self.errors[who, error] += 1

    def _ask(self, draw: random.Random) -> None:
        self._kept.query(QUESTION, [draw.choice(self.album).name]).fetchall()

    def _open_again(self, draw: random.Random) -> None:
        with api.open(self.library) as library:
            library.query(QUESTION, [draw.choice(self.album).name]).fetchall()

    def _register(self, draw: random.Random) -> None:
        name = f"guest-{draw.randrange(5)}"
        self._writer.register(name, draw.choice(self.album))
        with suppress(NotYetErased):  # somebody else is reading, as was to be expected
            self._writer.forget(name)

    def _index(self, draw: random.Random) -> None:
        some = draw.sample(self.pieces, draw.randint(1, min(9, len(self.pieces))))
        child = subprocess.Popen(
            panorama("index", *self._options, *some, library=self.library),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        how = draw.choice([None, None, signal.SIGINT, signal.SIGKILL])
        if how is not None:
            time.sleep(draw.random() * 4)
            child.send_signal(how)
        told = child.communicate()[1]
        self._look("index", child.returncode in DONE, told)

    def _remove(self, draw: random.Random) -> None:
        for words in (("remove", "--yes", draw.choice(self.pieces).name), ("compact",)):
            done = subprocess.run(panorama(*words, library=self.library), capture_output=True, text=True)
            is_absent = words[0] == "remove" and "UnknownVideo" in done.stderr
            self._look(words[0], done.returncode == 0 or is_absent, done.stderr)

    def _look(self, who: str, is_fine: bool, told: str) -> None:
        if not is_fine or any(word in told for word in UNSOUND):
            self._note(who, told.strip().splitlines()[-1] if told.strip() else "no message", told)


def sound(library: Path) -> list[str]:
    """What is wrong with a library that nobody uses any more; nothing if all is well."""
    with closing(sqlite3.connect(library / "catalog.sqlite")) as connection:
        found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        found += [f"row {row} refers to nothing" for row in connection.execute("PRAGMA foreign_key_check")]
    _, whole = inspect(library)
    return found if whole else [*found, "a video lacks frames or crops"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--pieces", type=int, default=20, help="files of about eight seconds each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--options", default="", help="options of `panorama index`, in one argument")
    given = parser.parse_args()
    print(machine(), end="\n\n")
    album = sorted(path for path in (given.footage / "eval" / "album").iterdir() if path.is_dir())[:3]
    with tempfile.TemporaryDirectory() as folder:
        library, pieces = Path(folder) / "library", []
        for number in range(given.pieces):
            pieces.append(Path(folder) / f"piece-{number:02d}.mp4")
            copy_packets(
                given.footage / "video" / f"{CLIP}.mp4", pieces[-1], 8 + number / 10, whole_rounds=False
            )
        first = panorama("index", *given.options.split(), *pieces[:2], library=library)
        subprocess.run(first, check=True, capture_output=True)
        with api.open(library) as opened:
            for path in album:
                opened.register(path.name, path)
        crowd = Crowd(library, pieces, album, given)
        crowd.run()
        wrong = sound(library)
    table("How often each was done", ["what", "times"], [[name, count] for name, count in crowd.done.items()])
    rows = [[who, error, count] for (who, error), count in crowd.errors.items()]
    table("Errors", ["who", "what", "times"], rows or [["none", "", 0]])
    if rows or wrong:
        sys.exit(f"{sum(crowd.errors.values())} errors; at the end: {'; '.join(wrong) or 'sound'}")
    print("\nAt the end the catalog is sound, and every video answers")


if __name__ == "__main__":
    main()
