"""A library on disk: segments, album and settings enter, consistent snapshots leave."""

from panorama.store.album import Exemplar, NewExemplar, check_name
from panorama.store.album_views import Album
from panorama.store.claims import Claims
from panorama.store.crops import CropBatch
from panorama.store.info import LibraryInfo
from panorama.store.priority import PauseGate
from panorama.store.recorded import Recorded, RecordedRow
from panorama.store.schema import pack_ids, segment_of
from panorama.store.seen import Reviewed, SeenAt
from panorama.store.segments import EmbeddingsWriter, SegmentWriter
from panorama.store.settings import AuditRow, Change, ModelRow
from panorama.store.snapshot import DataFile, Snapshot
from panorama.store.store import Store
from panorama.store.sweep import Swept
from panorama.store.videos import KnownFile, VideoRow
from panorama.store.zones import EVERY_CAMERA, Zone

__all__ = [
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
    "NewExemplar",
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
    "check_name",
    "pack_ids",
    "segment_of",
]
