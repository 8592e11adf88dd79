"""Segments, album and settings of a library come in and are stored on disk; consistent snapshots go out."""

from panorama.store.catalog.album import Exemplar, NewExemplar, check_name
from panorama.store.catalog.album_views import Album
from panorama.store.catalog.database import lacks_room
from panorama.store.catalog.recorded import Recorded, RecordedRow
from panorama.store.catalog.seen import MovedPicture, Reviewed, SeenAt
from panorama.store.catalog.settings import AuditRow, Change, ModelRow
from panorama.store.catalog.videos import KnownFile, VideoRow
from panorama.store.catalog.zones import EVERY_CAMERA, Zone
from panorama.store.claims import Claims
from panorama.store.files.crops import CropBatch
from panorama.store.files.schema import pack_ids, segment_of
from panorama.store.files.segments import (
    ABORT_WAIT_SECONDS,
    EmbeddingsWriter,
    SegmentWriter,
    abort_together,
    commit_together,
)
from panorama.store.info import LibraryInfo
from panorama.store.priority import PauseGate
from panorama.store.scenes.overlapping import Overlapping
from panorama.store.snapshot import DataFile, Snapshot
from panorama.store.store import Store
from panorama.store.upkeep.sweep import Swept

__all__ = [
    "ABORT_WAIT_SECONDS",
    "EVERY_CAMERA",
    "Album",
    "AuditRow",
    "Change",
    "Claims",
    "CropBatch",
    "DataFile",
    "EmbeddingsWriter",
    "Exemplar",
    "KnownFile",
    "LibraryInfo",
    "ModelRow",
    "MovedPicture",
    "NewExemplar",
    "Overlapping",
    "PauseGate",
    "Recorded",
    "RecordedRow",
    "Reviewed",
    "SeenAt",
    "SegmentWriter",
    "Snapshot",
    "Store",
    "Swept",
    "VideoRow",
    "Zone",
    "abort_together",
    "check_name",
    "commit_together",
    "lacks_room",
    "pack_ids",
    "segment_of",
]
