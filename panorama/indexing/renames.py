"""Found videos come in; rows of the library follow files that were renamed over each other; moves go out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from panorama.cameras.naming import folder_camera
from panorama.errors import VideoError
from panorama.folders import has_moved
from panorama.lines import composed
from panorama.store import KnownFile, Store, VideoRow
from panorama.video import (
    FileMark,
    Found,
    FoundVideo,
    check_name,
    content_hash,
    content_sample,
)


@dataclass(frozen=True, slots=True)
class _Other:
    """A file that is new or differs from when it was indexed, as it was found."""

    video: FoundVideo
    uri: str
    mark: FileMark


def row_of(video: FoundVideo, state: tuple[int, int], sample: str | None, content: str) -> VideoRow:
    """The row of a file before it is decoded.

    Args:
        state: from its mark.
        sample: from `content_sample`.
        content: from `content_hash`.
    """
    root = str(video.root.resolve())
    return VideoRow(
        name=composed(video.name),
        uri=str(video.path.resolve()),
        root=root,
        content_hash=content,
        size=state[0],
        mtime_ns=state[1],
        content_sample=sample,
        camera=folder_camera(str(Path(root, video.name)), root, video.name),
    )


def follow_renames(store: Store, found: Found) -> frozenset[str]:
    """Let the rows of files that were renamed over each other follow them; returns their new uris.

    If two files swapped names, indexing them one by one would let the first replace the content of the other
    in the library, before that is found under its new name, and so lose a time set for it by hand. If no
    indexed file was overwritten, nothing is done here: a plain rename is noticed when the file's turn comes.
    """
    known = store.known_files()
    others = list(_others(found, known)) if known else []
    displaced = {other.uri for other in others if other.uri in known}
    if not displaced:
        return frozenset()
    there = {str(video.path.resolve()) for video in found.videos} - displaced
    others += _not_named(store, others, {uri: file for uri, file in known.items() if uri not in there})
    sources = {uri: file for uri, file in known.items() if uri not in there}
    moves = _moves(others, sources)
    involved = {*moves, *(row.uri for row in moves.values())} & known.keys()
    moved = bool(moves) and store.move_videos(moves, {uri: known[uri] for uri in involved})
    return frozenset(row.uri for row in moves.values()) if moved else frozenset()


def known_of(found: Found, known: Mapping[str, KnownFile]) -> list[KnownFile]:
    """What is known of the found files, also of those that moved.

    These have the size and the sample of a file that was not found; none is read in full.

    Args:
        known: by uri.
    """
    there = {str(video.path.resolve()) for video in found.videos}
    away: dict[int, list[KnownFile]] = {}
    for uri, file in known.items():
        if uri not in there:
            away.setdefault(file.size, []).append(file)
    seen = [known[uri] for uri in known if uri in there]
    for other in _others(found, known):
        alike = away.get(other.mark.size, []) if other.uri not in known else []
        with contextlib.suppress(VideoError):
            sample = content_sample(other.mark) if alike else None
            moved = next((file for file in alike if file.content_sample in (None, sample)), None)
            if moved is not None:
                alike.remove(moved)
                seen.append(moved)
    return seen


def _others(found: Found, known: Mapping[str, KnownFile]) -> Iterator[_Other]:
    """The files that are new or have another size or time; unreadable ones are reported in their turn."""
    for video in found.videos:
        with contextlib.suppress(VideoError, OSError, RuntimeError):
            check_name(video.path)
            own = video.path.resolve()
            check_name(own)
            mark = FileMark.of(own)
            before = known.get(str(own))
            if before is None or not before.has_state(mark.state):
                yield _Other(video, str(own), mark)


def _not_named(store: Store, others: list[_Other], known: Mapping[str, KnownFile]) -> list[_Other]:
    """Files that changed but were not named, if their former content may be what one of `others` is now.

    Each of them may now hold the content of yet another file, as when three files swap names in a circle.
    """
    roots = {row.uri: row.root for row in store.recorded()}
    left = {uri: file for uri, file in known.items() if uri in roots and "://" not in uri}
    for other in others:
        left.pop(other.uri, None)
    made: list[_Other] = []
    sizes = {other.mark.size for other in others}
    while sizes:
        looked_at = [uri for uri, file in left.items() if file.size in sizes]
        sizes = set()
        for uri in looked_at:
            before, path, root = left.pop(uri), Path(uri), Path(roots[uri])
            with contextlib.suppress(VideoError):
                mark = FileMark.of(path)
                if not before.has_state(mark.state):
                    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
                    made.append(_Other(FoundVideo(path, root, name), uri, mark))
                    sizes.add(mark.size)
    return made


def _moves(others: list[_Other], sources: dict[str, KnownFile]) -> dict[str, VideoRow]:
    """The new row of each file that moved, by its former uri; reads only files in full that look the same.

    Args:
        sources: rows whose file has changed or was not found; those whose file turns out to be unchanged are
            removed from it.
    """
    alike: dict[int, set[str | None]] = {}
    for file in sources.values():
        alike.setdefault(file.size, set()).add(file.content_sample)
    targets = []
    for other in others:
        with contextlib.suppress(VideoError):
            sample: str | None = content_sample(other.mark)
            own = sources.get(other.uri)
            if own is not None and own.size == other.mark.size and own.content_sample in (None, sample):
                del sources[other.uri]  # apparently only its time has changed
            elif alike.get(other.mark.size, set()) & {None, sample}:
                targets.append(row_of(other.video, other.mark.state, sample, content_hash(other.mark)))
    by_content: dict[str, list[str]] = {}
    for uri, file in sources.items():
        by_content.setdefault(file.content_hash, []).append(uri)
    displaced = {other.uri for other in others}
    moves: dict[str, VideoRow] = {}
    for row in targets:
        rows = [u for u in by_content.get(row.content_hash, ()) if u not in moves]
        gone = [u for u in rows if u in displaced or has_moved(u, sources[u].indexed_at_unix)]
        same_base = [u for u in gone if PurePath(u).name == PurePath(row.uri).name]
        if gone and row.uri not in rows:
            moves[(same_base or gone)[0]] = row
    return moves
