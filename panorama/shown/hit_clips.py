"""Hits come in; one clip per stretch of hits goes out, with boxes drawn."""

from __future__ import annotations

import bisect
import itertools
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from panorama.errors import LibraryWriteError, UnknownVideo, UsageError, VideoError
from panorama.shown.hit_frames import file_of_hit
from panorama.shown.hits import CLIP_MARGIN_SECONDS, Drawn, Hit, sifted
from panorama.shown.track_boxes import Box, TrackBoxes
from panorama.store.files.outputs import OTHERS, check_output, refuse_own_files
from panorama.video import VideoReader, open_video

MERGE_GAP_SECONDS = 2.0
_SAME_SECONDS = 0.01
"""Times of pictures that differ by less are those of one picture: they are multiples of a fifth."""
NAME_BYTES = 240
"""Limit for a clip's name: file systems allow 255 bytes, and while it is written its name is longer."""


def check_clips(folder: Path) -> None:
    """Raise UsageError if a folder for clips has the name of a file, or is among a library's own files."""
    refuse_own_files(folder)
    if folder.suffix.lower() in OTHERS and not folder.is_dir():
        raise UsageError(
            f"clips are written into a folder, each with a name of its own, and {folder} is named as a file;"
            f" name a folder, such as {folder.with_suffix('')}"
        )


def write_clips(
    hits: Sequence[Hit], paths: Mapping[str, str], folder: Path, tracks: TrackBoxes | None = None
) -> Drawn:
    """Write one mp4 per video, entity and stretch of hits, half a second longer at both ends, boxes drawn.

    In a folder of pictures, a clip shows no picture of another alarm, which may be of another day. Each clip
    has a name of its own. The folder is created, and removed again if there is no clip.

    Args:
        tracks: returns the boxes of a track in every frame, for hits that are a stretch of one.

    Raises:
        UsageError: see `check_clips`.
        LibraryWriteError: the folder or a clip cannot be written.
    """
    check_clips(folder)
    missing = [place for place in (folder, *folder.parents) if not os.path.exists(place)]  # noqa: PTH110
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise LibraryWriteError(f"{folder} cannot be made: {exc.strerror or exc}") from exc
    try:
        return _clips(hits, paths, folder, tracks)
    finally:
        with suppress(OSError):  # folders that are not empty stay, with those above them
            for place in missing:
                place.rmdir()


def _clips(hits: Sequence[Hit], paths: Mapping[str, str], folder: Path, tracks: TrackBoxes | None) -> Drawn:
    from panorama.video.clip import write_clip  # import PyAV only here: contact sheets may do without it

    report = Drawn()
    cuttable, report.failed = sifted(hits, Hit.uncuttable)
    videos = set(paths.values())
    alarms = {} if tracks is None or not cuttable else tracks.alarms(hit.video for hit in cuttable)
    with closing(_Opened()) as opened:
        for clip in _planned(cuttable, alarms):
            try:
                check_output(folder / clip.name, (".mp4",), what="a clip", videos=videos)
                reader = opened.at(file_of_hit(clip.video, paths))
                boxes = _boxes_of(clip.hits, tracks)
                known = tracks.stamps((clip.video, frame) for frame in boxes) if tracks is not None else {}
                stamps = {frame: pts for (_, frame), pts in known.items()}
                write_clip(reader, clip.start, clip.stop, folder / clip.name, boxes=boxes, stamps=stamps)
            except (UnknownVideo, UsageError, VideoError) as exc:
                report.failed.append(f"{clip.name}: {exc}")
                report.unread += isinstance(exc, VideoError)
            else:
                report.drawn += 1
    return report


@dataclass(frozen=True, slots=True)
class _Clip:
    """A clip to write: the seconds of its video that it shows, and the hits in them."""

    video: str
    name: str
    start: float
    stop: float
    hits: Sequence[Hit]


def _planned(hits: Sequence[Hit], alarms: Mapping[str, Sequence[float]]) -> Iterator[_Clip]:
    """One clip for each stretch of hits."""
    taken: set[str] = set()
    for (video, entity), stretches in _stretches(hits, alarms).items():
        for stretch in stretches:
            first, last = stretch[0].time_seconds, max(h.last_seconds for h in stretch)
            begins, ends = _alarm_around(first, last, alarms.get(video, ()))
            start = max(0.0, begins, first - CLIP_MARGIN_SECONDS)
            stop = min(ends, last + CLIP_MARGIN_SECONDS)
            yield _Clip(video, _clip_name(video, entity, start, taken), start, stop, stretch)


class _Opened:
    """The video asked for last, open: to learn when its frames are shown, a reader reads all of the file."""

    def __init__(self) -> None:
        self._path = ""
        self._reader: VideoReader | None = None

    def at(self, path: str) -> VideoReader:
        """A reader for a path, open until another one is asked for."""
        if self._reader is None or path != self._path:
            self.close()
            self._path, self._reader = path, open_video(path)
        return self._reader

    def close(self) -> None:
        """Close it."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None


def _boxes_of(stretch: Sequence[Hit], tracks: TrackBoxes | None) -> dict[int, list[Box]]:
    """Frame -> boxes: those of the hits, and all boxes of a track if a hit covers more than one frame."""
    boxes: dict[int, list[Box]] = defaultdict(list)
    spans = {hit: hit.track_id for hit in stretch if hit.end_seconds is not None and hit.track_id is not None}
    if tracks is not None and spans:
        boxes.update(_boxes_along(spans, tracks))
    for hit in stretch:
        if hit.box_xyxy is not None and hit.frame is not None and (tracks is None or hit not in spans):
            boxes.setdefault(hit.frame, []).append(hit.box_xyxy)
    return boxes


def _boxes_along(spans: Mapping[Hit, int], tracks: TrackBoxes) -> dict[int, list[Box]]:
    """Frame -> the boxes of the tracks that hits of one entity in one video name.

    A moment joins tracks and names only the best one. Where that one is not in sight, the boxes are those of
    the entity's other tracks of its band.
    """
    named = tracks.along(spans.values())
    by_band: dict[str, list[Hit]] = defaultdict(list)
    one = next(iter(spans))
    bands = tracks.bands(one.entity, spans.values())
    for hit, track in spans.items():
        if track in bands:
            by_band[bands[track]].append(hit)
    joined: dict[int, list[Box]] = defaultdict(list)
    for band, hits in by_band.items():
        within = [(hit.time_seconds, hit.last_seconds) for hit in hits]
        for frame, found in tracks.named(one.entity, band, one.video, within).items():
            joined[frame] += found
    return {**joined, **named}


def _clip_name(video: str, entity: str, start: float, taken: set[str]) -> str:
    """An unused name for a clip, short enough for a file system; adds it to `taken`."""
    thing = _cut(_safe(entity), NAME_BYTES // 3) or "hit"
    for again in itertools.count(1):
        end = f"-{thing}-{start:09.2f}{'' if again == 1 else f'-{again}'}.mp4"
        # Neither hidden nor taken for an option, also where the beginning is cut off.
        name = _cut(_safe(video), NAME_BYTES - len(end.encode())).lstrip("-.") + end
        if name.casefold() not in taken:
            break
    taken.add(name.casefold())
    return name


def _cut(text: str, most_bytes: int) -> str:
    """The end of a text, at most `most_bytes` of UTF-8."""
    return text.encode()[-most_bytes:].decode(errors="ignore")


def _alarm_around(first: float, last: float, alarms: Sequence[float]) -> tuple[float, float]:
    """When the alarm of a hit begins, and when the next one after its end does, in seconds of its video.

    Args:
        alarms: when each alarm of the video begins, ascending.
    """
    at = bisect.bisect_right(alarms, first + _SAME_SECONDS)
    after = bisect.bisect_left(alarms, max(last, first + 2 * _SAME_SECONDS) - _SAME_SECONDS)
    return alarms[at - 1] if at else -math.inf, alarms[after] if after < len(alarms) else math.inf


def _stretches(
    hits: Sequence[Hit], alarms: Mapping[str, Sequence[float]]
) -> dict[tuple[str, str], list[list[Hit]]]:
    """Video and entity -> stretches of hits; a gap above MERGE_GAP_SECONDS begins a new stretch.

    So does another alarm of a camera trap.

    Args:
        alarms: when each alarm begins, by video.
    """
    found: dict[tuple[str, str], list[list[Hit]]] = defaultdict(list)
    ends: dict[tuple[str, str], float] = defaultdict(lambda: -math.inf)
    for hit in sorted(hits, key=lambda h: (h.video, h.entity, h.time_seconds)):
        key = hit.video, hit.entity
        begins, _ = _alarm_around(hit.time_seconds, hit.time_seconds, alarms.get(hit.video, ()))
        is_same = bool(found[key]) and found[key][-1][0].time_seconds > begins - _SAME_SECONDS
        if not is_same or hit.time_seconds - ends[key] > MERGE_GAP_SECONDS:
            found[key].append([])
            ends[key] = -math.inf
        found[key][-1].append(hit)
        ends[key] = max(ends[key], hit.last_seconds)
    return dict(found)


def _safe(name: str) -> str:
    """A name without characters that separate folders or are special to shells and other systems."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
