"""Pictures with what they show come in; a table goes out that splits them for training, validation and test.

    OUT/pictures.csv    file, source, class, identity, held, moment, clip, start, end, guessed

A file that lies in OUT is named relative to it, any other by its absolute path.

Some pictures teach, some choose how much of what was learned is taken, some judge the result. A thing belongs
to one part as a whole, and so does a video if there are enough videos: what is visible in a judging video
judges, and its pictures from other videos are not used at all. So nothing that judges was seen before,
neither thing nor clip.

Identities guessed from looks can teach, but they cannot judge: a model that finds more would count as wrong.
For them the tracks count, which hold together by motion: see `together` in `panorama.models.training.adapt`.
"""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from panorama.errors import UsageError
from panorama.lines import counted
from panorama.models.training.split import CHOOSE, GUESSED, JUDGE, LEARN
from panorama.whole_files import write_whole

TABLE = "pictures.csv"
COLUMNS = ("file", "source", "class", "identity", "held", "moment", "clip", "start", "end", GUESSED)
SOURCE = "own"
HELD_SHARE = 0.25
"""Share that judges; the same share chooses."""

LEAST_THINGS = 6
"""Two things to learn from, two to choose by and two to judge by."""

UNUSED = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture and what it shows.

    Attributes:
        file: an absolute path.
        identity: what it shows; '' if only its track is known.
        guessed: the identity was guessed from looks, or is unknown.
        clip, track: its source, '' for a picture from a folder; a track's name is unique.
        start_seconds, end_seconds: of the track in the clip.
    """

    file: str
    identity: str
    guessed: bool = False
    clip: str = ""
    track: str = ""
    start_seconds: float = 0.0
    end_seconds: float = 0.0

    @property
    def thing(self) -> str:
        """The key that must stay within one part."""
        return self.identity or self.track

    @property
    def judged(self) -> str:
        """The key by which it has to be found."""
        return self.track if self.guessed else self.identity


@dataclass(frozen=True, slots=True)
class OwnPictures:
    """Counts of pictures and of things by part; `shared_clips` counts the clips that are in several parts."""

    table: Path
    pictures: int
    learning: int
    choosing: int
    judging: int
    unused_pictures: int
    shared_clips: int


def divided(pictures: Sequence[Picture], seed: int) -> list[str]:
    """The part of each picture: LEARN, CHOOSE, JUDGE, or UNUSED.

    With three or more clips, a quarter of the clips judge and a quarter choose, with everything visible in
    them; otherwise a quarter of the things each.

    Raises:
        UsageError: a part would have fewer than two things.
    """
    rng = np.random.default_rng(seed)
    clips = sorted({p.clip for p in pictures if p.clip})
    tries = [clips[i] for i in rng.permutation(len(clips))]
    things = sorted({p.thing for p in pictures})
    if len(things) < LEAST_THINGS:
        raise UsageError(
            f"{counted(len(things), 'identity is', 'identities are')} too few: at least "
            f"{LEAST_THINGS} are needed, two to learn from, two to choose by and two to judge by; "
            "add footage, folders, or widen the query"
        )
    for count in range(max(1, round(HELD_SHARE * len(tries))), (len(tries) + 1) // 2):
        parts = _by_clip(pictures, set(tries[:count]), set(tries[count : 2 * count]))
        if min(_counts(pictures, parts)) >= 2:
            return parts
    shuffled = [things[i] for i in rng.permutation(len(things))]
    # Things seen again judge and choose, half of them each if they are few; the others can only teach. Those
    # with one picture do neither, and must not raise the share that is taken from what could teach.
    again = _found_again(pictures)
    teach = {name for name, count in Counter(p.identity for p in pictures).items() if name and count >= 2}
    share = max(2, min(round(HELD_SHARE * len(again | teach)), len(again) // 2))
    order = sorted(shuffled, key=lambda thing: thing not in again)
    part_of = dict.fromkeys(order, LEARN) | dict.fromkeys(order[share : 2 * share], CHOOSE)
    part_of |= dict.fromkeys(order[:share], JUDGE)
    parts = [_usable(p, part_of[p.thing]) for p in pictures]
    counts = _counts(pictures, parts)
    if min(counts) < 2:
        raise UsageError(_too_few(pictures, counts))
    return parts


def _too_few(pictures: Sequence[Picture], counts: tuple[int, int, int]) -> str:
    """The message if too few things are seen twice, with how many have a single picture.

    Args:
        counts: see `_counts`.
    """
    of_each = Counter(picture.thing for picture in pictures)
    single = sum(number == 1 for number in of_each.values())
    what = "thing" if any(picture.clip for picture in pictures) else "folder"
    told = f"; {single} of {counted(len(of_each), what)} have only one picture" if single else ""
    return (
        f"too few things are seen more than once: {counts[0]} to learn from, {counts[1]} to choose by, "
        f"{counts[2]} to judge by; 2 of each are needed, that is {LEAST_THINGS} with two pictures or more"
        f"{told}; add pictures, footage, folders, or widen the query"
    )


def _usable(picture: Picture, part: str) -> str:
    """UNUSED for a learning picture without identity: a thing that is like nothing else teaches nothing."""
    return UNUSED if part == LEARN and not picture.identity else part


def _by_clip(pictures: Sequence[Picture], judging: set[str], choosing: set[str]) -> list[str]:
    """The part of each picture if some clips judge and some choose."""
    judges = {p.thing for p in pictures if p.clip in judging}
    chooses = {p.thing for p in pictures if p.clip in choosing}
    parts = []
    for p in pictures:
        if p.thing in judges:
            parts.append(JUDGE if p.clip in judging else UNUSED)
        elif p.thing in chooses:
            parts.append(CHOOSE if p.clip in choosing else UNUSED)
        else:
            parts.append(_usable(p, LEARN))
    return parts


def _found_again(pictures: Sequence[Picture]) -> set[str]:
    """Things with two pictures that have to find each other: of two moments, or guessed and of one track."""
    seen: dict[str, list[Picture]] = defaultdict(list)
    for picture in pictures:
        seen[picture.judged].append(picture)
    return {some[0].thing for some in seen.values() if _twice(some)}


def _twice(pictures: Sequence[Picture]) -> bool:
    """Whether pictures of one judged thing have to find each other; a whole and its part are one moment."""
    if pictures[0].guessed:
        return len({p.file for p in pictures}) >= 2
    tracks = {p.track or p.file: p for p in pictures}.values()
    if len(tracks) < 2 or len({p.clip for p in tracks}) > 1:
        return len(tracks) >= 2
    # Intervals that all overlap each other share a moment.
    return max(p.start_seconds for p in tracks) >= min(p.end_seconds for p in tracks)


def _counts(pictures: Sequence[Picture], parts: Sequence[str]) -> tuple[int, int, int]:
    """Number of things to learn from, to choose by and to judge by."""
    taught = Counter(p.identity for p, part in zip(pictures, parts, strict=True) if part == LEARN)
    held = [
        len(_found_again([p for p, part in zip(pictures, parts, strict=True) if part == wanted]))
        for wanted in (CHOOSE, JUDGE)
    ]
    return sum(n >= 2 for n in taught.values()), held[0], held[1]


def write_table(pictures: Sequence[Picture], out: Path, seed: int) -> OwnPictures:
    """Divide the pictures and write the table that training reads.

    Raises:
        UsageError: there is too little to divide, see `divided`.
    """
    out.mkdir(parents=True, exist_ok=True)
    parts = divided(pictures, seed)
    home = out.resolve()
    rows = [_row(p, part, home) for p, part in zip(pictures, parts, strict=True) if part != UNUSED]
    lines = io.StringIO(newline="")
    csv.writer(lines).writerows([COLUMNS, *rows])
    write_whole(out / TABLE, lines.getvalue().encode())

    def things(part: str, name: Callable[[Picture], str]) -> int:
        return len({name(p) for p, where in zip(pictures, parts, strict=True) if where == part})

    used = {(p.clip, part) for p, part in zip(pictures, parts, strict=True) if p.clip and part != UNUSED}
    return OwnPictures(
        out / TABLE,
        len(rows),
        things(LEARN, lambda p: p.identity),
        things(CHOOSE, lambda p: p.judged),
        things(JUDGE, lambda p: p.judged),
        len(parts) - len(rows),
        sum(count > 1 for count in Counter(clip for clip, _ in used).values()),
    )


def _row(p: Picture, part: str, home: Path) -> tuple[str, ...]:
    """A line of the table in the folder `home`.

    A guessed identity teaches under its name, but is judged by its track.
    """
    shown = p.identity if part == LEARN else p.judged
    times = (f"{p.start_seconds}", f"{p.end_seconds}") if p.clip else ("", "")
    # Not the whole path, so that the folder can be moved.
    file = Path(p.file).relative_to(home).as_posix() if Path(p.file).is_relative_to(home) else p.file
    return file, SOURCE, shown, "class", part, p.track, p.clip, *times, str(int(p.guessed))
