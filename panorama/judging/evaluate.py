"""A library and its truth come in; F1, average precision and false-positive rate of each entity go out.

The protocol, per entity, over all frames of the archive that the truth does not ignore: F1 of the frames that
`SELECT frames WHERE entity = 'X'` returns at the default settings, and average precision (AP) of the frames
ranked by the score of `... AND score >= 0`, with the frames not returned ranked last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from panorama.arguments import checked
from panorama.commands import command
from panorama.errors import UsageError, near
from panorama.json_text import parsed_json
from panorama.lines import composed, counted
from panorama.values import is_listed, is_text, is_whole

if TYPE_CHECKING:
    from panorama.library import Library

ENTITY_FRAMES = "SELECT frames WHERE entity = ?"
RANKED_FRAMES = (
    "SELECT video, frame, max(score) AS score FROM (SELECT frames WHERE entity = ? AND score >= 0) "
    "GROUP BY video, frame"
)


_KEYS = ("visible", "ignore")
_VIDEOS = '{"gate/a.mp4": [[0, 119]]}'
_SHAPE = f'{{"visible": {_VIDEOS}}}'


@dataclass(frozen=True, slots=True)
class Truth:
    """Where an entity is visible.

    A video without an interval does not show it, just like a video that is not named.

    Attributes:
        visible: video -> inclusive frame intervals.
        ignore: frames to leave out of the score, in the same form.
    """

    visible: Mapping[str, Sequence[tuple[int, int]]]
    ignore: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the intervals: a reversed one would count as nowhere.

        Raises:
            UsageError: an interval is malformed, or a video is named twice.
        """
        for name in _KEYS:
            try:
                object.__setattr__(self, name, _intervals(getattr(self, name)))
            except ValueError as exc:
                raise UsageError(f"Truth({name}=...): {exc}") from exc

    @property
    def own(self) -> tuple[str, ...]:
        """The videos in which it is visible."""
        return tuple(video for video, spans in self.visible.items() if spans)


@dataclass(frozen=True, slots=True)
class EntityScore:
    """How well an entity was found.

    Attributes:
        entity: its name.
        precision: of the frames returned at the default settings; None if none is returned.
        recall, f1: of the same frames; None if the entity is visible nowhere, or only in ignored frames.
        average_precision: of the frames ranked by score; None if recall is.
        false_rate: share returned of the frames of videos without the entity; None if it is in all of them.
        false_frames: number of these frames returned.
        warnings: remarks: videos and frames of its truth that the library does not have.
        answer_warnings: warnings of `Library.query` on the answer, for example about videos not searched.
    """

    entity: str
    precision: float | None
    recall: float | None
    f1: float | None
    average_precision: float | None
    false_rate: float | None
    false_frames: int
    warnings: tuple[str, ...] = ()
    answer_warnings: tuple[str, ...] = ()


def read_truth(path: Path | str) -> dict[str, Truth]:
    """Read the truth file of an album (JSON: entity -> visible, ignore).

    Raises:
        UsageError: the file is missing or malformed.
    """
    path = Path(path)
    try:
        raw = parsed_json(path.read_text(encoding="utf-8-sig"), _each_once)
        if not isinstance(raw, dict) or not raw:
            raise ValueError(f'it names no entity; write {{"van": {_SHAPE}}}')
        return {name: _truth(name, entry) for name, entry in raw.items()}
    except OSError as exc:
        raise UsageError(f"{path} cannot be read: {exc.strerror or exc}") from exc
    except ValueError as exc:
        raise UsageError(
            f"{path} is not a truth file: expected JSON of entity -> visible, ignore; {exc}"
        ) from exc


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; refuses repeated names, of which JSON would keep only the last."""
    _check_once([name for name, _ in pairs])
    return dict(pairs)


def _check_once(names: Iterable[str]) -> None:
    """Refuse a name that is there twice, also if its accents are written in another way."""
    once: set[str] = set()
    for name in map(composed, names):
        if name in once:
            raise ValueError(f"{name!r} is there twice; merge the two")
        once.add(name)


def _truth(name: str, entry: Any) -> Truth:
    if not isinstance(entry, dict) or "visible" not in entry:
        raise ValueError(f"it does not say where {name!r} is visible; write {_SHAPE}")
    for key in entry:
        if key not in _KEYS and (meant := near(key, _KEYS, 0.7)):
            raise ValueError(f"it has {key!r} for {name!r}.{meant}")
    return Truth(_intervals(entry["visible"]), _intervals(entry.get("ignore", {})))


def _intervals(raw: Any) -> dict[str, list[tuple[int, int]]]:
    if not isinstance(raw, Mapping) or not all(map(is_text, raw)):
        raise ValueError(f"expected videos with intervals, as {_VIDEOS}, got {raw}")
    _check_once(raw)
    return {
        composed(video): [_interval(video, span) for span in (spans if is_listed(spans) else [spans])]
        for video, spans in raw.items()
    }


def _interval(video: str, span: Any) -> tuple[int, int]:
    pair = is_listed(span) and len(span) == 2
    if not (pair and all(map(is_whole, span)) and 0 <= span[0] <= span[1]):
        raise ValueError(
            f"expected a list of [first frame, last frame] for {video!r}, as [[0, 119]], got {span}"
        )
    return int(span[0]), int(span[1])


def unjudged(library: Library, truths: Mapping[str, Truth]) -> tuple[str, ...]:
    """Remarks on videos and frames that the truth names and the library does not have; they are not judged.

    Raises:
        UsageError: the library has none of the videos.
    """
    return _unjudged(Frames(library).count, truths)


def _unjudged(frames: Mapping[str, int], truths: Mapping[str, Truth]) -> tuple[str, ...]:
    lacking = not_there(frames, truths)
    if lacking and not any(frames.keys() & {*truth.visible, *truth.ignore} for truth in truths.values()):
        raise UsageError(lacking)  # scores of zero would look like a result
    return tuple(line for line in (lacking, past_end(frames, truths)) if line)


def not_there(frames: Mapping[str, int], truths: Mapping[str, Truth]) -> str | None:
    """A remark on videos that the truth names and the library does not have; they are not judged.

    Args:
        frames: number of frames of each video in the library.
    """
    named = {video for truth in truths.values() for video in (*truth.visible, *truth.ignore)}
    lacking = sorted(named - frames.keys())
    if not lacking:
        return None
    more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
    return (
        f"{counted(len(lacking), 'video of the truth is', 'videos of the truth are')} not in the library "
        f"and left out of the scores: {lacking[0]!r}{more}.{near(lacking[0], frames)}"
        f" See: {command('videos')}"
    )


def past_end(frames: Mapping[str, int], truths: Mapping[str, Truth]) -> str | None:
    """A remark on frames that the truth names beyond the end of their videos; they are not judged.

    Args:
        frames: number of frames of each video in the library.
    """
    named: dict[str, int] = {}
    for truth in truths.values():
        for video, spans in (*truth.visible.items(), *truth.ignore.items()):
            named[video] = max([named.get(video, 0), *(stop for _, stop in spans)])
    last = {video: frame for video, frame in named.items() if frame >= frames.get(video, frame + 1)}
    if not last:
        return None
    video = min(last)
    more = f" (likewise for {counted(len(last) - 1, 'more video')})" if len(last) > 1 else ""
    return (
        f"the truth of {video!r} names frames up to {last[video]}, but its last is {frames[video] - 1}{more};"
        " give frames counted from 0, not seconds"
    )


def average_precision(scores: NDArray[np.floating], positive: NDArray[np.bool_]) -> float:
    """Area under the stepwise precision-recall curve of samples (N,) ranked by score; ties count together."""
    total = int(positive.sum())
    if not total:
        return float("nan")
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], np.cumsum(positive[order])
    last_of_tie = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
    precision = hits[last_of_tie] / (last_of_tie + 1)
    gained = np.diff(np.concatenate([[0], hits[last_of_tie]]))
    return float((precision * gained).sum() / total)


class Frames:
    """All frames of a library in one row, each with its place."""

    def __init__(self, library: Library) -> None:
        rows = library.videos().select(["video", "frames"]).to_pylist()
        self.count = {row["video"]: int(row["frames"]) for row in rows}
        ends = np.cumsum(list(self.count.values()))
        self.start = dict(zip(self.count, ends - np.array(list(self.count.values())), strict=True))
        self.total = int(ends[-1]) if len(ends) else 0

    def mask(self, intervals: Mapping[str, Sequence[tuple[int, int]]]) -> NDArray[np.bool_]:
        """True inside the inclusive intervals of the videos that the library has."""
        out = np.zeros(self.total, np.bool_)
        for video, spans in intervals.items():
            if video in self.count:
                start, count = self.start[video], self.count[video]
                for first, last in spans:
                    out[start + max(first, 0) : start + min(last + 1, count)] = True
        return out

    def absent(self, truth: Truth) -> NDArray[np.bool_]:
        """True in the videos in which an entity is visible nowhere."""
        out = np.ones(self.total, np.bool_)
        for video in truth.own:
            if video in self.count:
                out[self.start[video] : self.start[video] + self.count[video]] = False
        return out

    def videos(self, mask: NDArray[np.bool_]) -> tuple[str, ...]:
        """The videos that have a frame marked by a mask over all frames."""
        return tuple(v for v, start in self.start.items() if mask[start : start + self.count[v]].any())

    def places(self, videos: Sequence[str], frames: Sequence[int]) -> NDArray[np.intp]:
        """Indices of frames of videos in the row of all frames."""
        return np.array([self.start[v] + f for v, f in zip(videos, frames, strict=True)], np.intp)


@checked
def score_entities(library: Library, truths: Mapping[str, Truth]) -> list[EntityScore]:
    """Score every entity of the truth against the library's answers.

    Raises:
        UsageError: the truth names no entity, or the library has none of its videos.
    """
    if not truths:
        raise UsageError("the truth names no entity to score")
    frames = Frames(library)
    _unjudged(frames.count, truths)
    return [_score(library, frames, name, truth) for name, truth in truths.items()]


def _score(library: Library, frames: Frames, name: str, truth: Truth) -> EntityScore:
    counted = ~frames.mask(truth.ignore)
    positive = frames.mask(truth.visible) & counted
    returned = np.zeros(frames.total, np.bool_)
    result = library.query(ENTITY_FRAMES, [name])
    answer = result.arrow()
    returned[frames.places(answer["video"].to_pylist(), answer["frame"].to_pylist())] = True
    ranked = library.query(RANKED_FRAMES, [name]).arrow()
    scores = np.full(frames.total, -1.0)
    places = frames.places(ranked["video"].to_pylist(), ranked["frame"].to_pylist())
    np.maximum.at(scores, places, ranked["score"].to_numpy())
    returned &= counted
    absent = frames.absent(truth) & counted
    hits = int((returned & positive).sum())
    false_frames = int((returned & absent).sum())
    told = [line for of in (not_there, past_end) if (line := of(frames.count, {name: truth}))]
    return EntityScore(
        name,
        _share(hits, returned),
        _share(hits, positive),
        f1(returned, positive),
        average_precision(scores[counted], positive[counted]) if positive.any() else None,
        _share(false_frames, absent),
        false_frames,
        tuple(told),
        tuple(result.warnings),
    )


def _share(part: int, of: NDArray[np.bool_]) -> float | None:
    """A number of frames divided by the number that a mask marks; None if it marks none."""
    whole = int(of.sum())
    return part / whole if whole else None


def f1(returned: NDArray[np.bool_], positive: NDArray[np.bool_]) -> float | None:
    """F1 of the returned frames (N,); None if none is positive."""
    if not positive.any():
        return None
    return 2 * int((returned & positive).sum()) / int(returned.sum() + positive.sum())
