"""Found videos and a library's models enter; they are indexed, dated and ready for queries, and told."""

from __future__ import annotations

from dataclasses import replace

from panorama.indexing.outcomes import INDEXED, Hooks, IndexReport, dating
from panorama.indexing.profile import prepare
from panorama.indexing.run import finish, index_paths
from panorama.indexing.settings import IngestSettings
from panorama.models.base import Embedder, Proposer
from panorama.recording import RecordingRule, apply_rule, remember, remembered
from panorama.store import Store
from panorama.video import Found
from panorama.worker.client import beside


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
    """Index what was found, with networks in a process of their own; see `Library.index`."""
    rule = recording or remembered(store)
    if recording is not None:
        remember(store, recording)
    with beside(proposer, embedder) as models:
        indexer, kept = prepare(store, *models, settings, redo, depth)
        report = index_paths(store, indexer, found, dating(store, rule, hooks), kept=kept)
    finish(store, embedder, hooks)
    fresh = {f.video for f in report.files if f.status == INDEXED}
    told = apply_rule(store, rule, {f.video for f in report.files if f.video}, fresh)
    return replace(report, recording=told)
