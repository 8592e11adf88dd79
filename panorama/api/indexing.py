"""Found videos and a library's models come in; the videos go out indexed, dated and reported."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from panorama.errors import VideoError
from panorama.models.base import Embedder, Proposer
from panorama.store import Store
from panorama.store.files.layout import own_files
from panorama.video import Found, file_state, find_videos
from panorama.video.own_clips import is_own_clip
from panorama.worker.client import beside

if TYPE_CHECKING:
    from panorama.cameras.recording_rule import RecordingRule
    from panorama.indexing.outcomes import Hooks, IndexReport
    from panorama.indexing.settings import IngestSettings

LOOKED_AT = 100
"""How many of the found files are checked for being new before the networks load."""


def found_for(store: Store | None, paths: Sequence[Path | str], library: Path) -> Found:
    """Find what to index at some paths, except the library's own folder.

    Args:
        store: the library's store, None if there is no library yet. A folder of pictures that the library
            already holds counts as a video again.
    """

    def known(folder: Path) -> bool:
        with contextlib.suppress(UnicodeError):  # the library knows no video whose name is not text
            return store is not None and store.known_file(str(folder.resolve())) is not None
        return False

    return find_videos(paths, library, known, own_files)


def index_found(
    store: Store,
    proposer: Proposer,
    embedder: Embedder,
    found: Found,
    settings: IngestSettings | None,
    depth: int | None,
    recording: RecordingRule | None,
    redo: bool,
    hooks: Hooks | None,
) -> IndexReport:
    """Index what was found, with the networks in a process of their own; see `Library.index`."""
    with beside(proposer, embedder) as models:
        elsewhere = models[0] is not proposer
        if elsewhere and _holds_new(store, found):
            threading.Thread(target=_load, args=models, name="panorama ahead").start()
        # Import these while the networks load: the decoder and the tracker take as long to load as they do.
        from panorama.cameras.recording_rule import remember
        from panorama.indexing.outcomes import INDEXED, Dating
        from panorama.indexing.profile import prepare
        from panorama.indexing.run import finish, index_paths

        if recording is not None:
            remember(store, recording)
        indexer, kept = prepare(store, *models, settings, redo, depth)
        dating = Dating(store)
        report = index_paths(store, indexer, found, hooks, kept, dating.date)
        if elsewhere:
            models[0].give_up()  # its process ends while the rest goes on, even if it is still loading
        finish(store, embedder, hooks)
    fresh = {f.video for f in report.files if f.status == INDEXED}
    return replace(report, recording=dating.report(fresh))


def _holds_new(store: Store, found: Found) -> bool:
    """Whether one of the first files differs from its indexed state in name, size or time.

    It may be a copy, or no video at all; the reader decides later. Clips that Panorama wrote always look new,
    but do not make the networks load.
    """
    for video in found.videos[:LOOKED_AT]:
        with contextlib.suppress(VideoError, OSError, UnicodeError):
            known = store.known_file(str(video.path.resolve()))
            if known is None or not known.has_state(file_state(video.path)):
                if known is None and not video.named and is_own_clip(video.path):
                    continue
                return True
    return False


def _load(proposer: Proposer, embedder: Embedder) -> None:
    """Load the networks in the order in which they are needed; their users meet the errors."""
    with contextlib.suppress(Exception):
        proposer.load()
        embedder.load()
