"""Parcels of one video come in; rows of its segment go out to the store, many at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from panorama.indexing.parcels import FrameRow, Parcel, Progress
from panorama.store import SegmentWriter
from panorama.tracking.segmenting import FinishedTrack

FRAME_ROWS = 8192
CROP_ROWS = 64
"""Rows that are written together; how they are divided depends only on the video."""


class SegmentRows:
    """Writes the parcels of one video; the caller commits.

    Args:
        writer: the writer of the segment.
        model_hash: hash of the embedder that made the vectors in the parcels.
        progress: gets the counts of crops and tracks, and the time.
        pictures: for a folder of pictures, its file names, indexed by pts.

    Attributes:
        at: frame and seconds of each picture of a folder, by its name.
    """

    def __init__(
        self, writer: SegmentWriter, model_hash: str, progress: Progress, pictures: Sequence[str] = ()
    ) -> None:
        self._writer = writer
        self._pictures = pictures
        self.at: dict[str, tuple[int, float]] = {}
        self._model_hash = model_hash
        self._progress = progress
        self._frames: list[FrameRow] = []
        self._tracks: list[FinishedTrack] = []
        self._jpegs: list[bytes] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._next_track = self._next_crop = 1

    def add(self, parcel: Parcel) -> None:
        """Take the contents of a parcel; the last parcel writes everything that remains."""
        self._frames += parcel.rows
        self._writer.add_cuts(parcel.cuts)
        if parcel.ends is not None:
            self._writer.put_ends(parcel.ends)
        self._tracks += parcel.tracks
        self._jpegs += parcel.jpegs
        if parcel.vectors is not None:
            self._vectors.append(parcel.vectors)
        with self._progress.stage("write"):
            while len(self._frames) >= FRAME_ROWS or (parcel.last and self._frames):
                self._write_frames(self._frames[:FRAME_ROWS])
                self._frames = self._frames[FRAME_ROWS:]
            if len(self._jpegs) >= CROP_ROWS or (parcel.last and self._tracks):
                numbers = np.arange(self._next_track, self._next_track + len(self._tracks))
                self._next_track += len(numbers)
                self._write_tracks(numbers)
                self._write_crops(numbers)
                self._tracks, self._jpegs, self._vectors = [], [], []

    def _write_frames(self, rows: list[FrameRow]) -> None:
        index, pts, seconds = zip(*rows, strict=True)
        self._writer.add_frames(np.array(index), np.array(pts), np.array(seconds))
        if self._pictures:
            names = [self._pictures[number] for number in pts]
            self._writer.add_pictures(np.array(index), names)
            self.at.update(zip(names, zip(index, seconds, strict=True), strict=True))

    def _write_crops(self, numbers: NDArray[np.int64]) -> None:
        views = [view for track in self._tracks for view in track.views]
        owners = self._writer.pack(np.repeat(numbers, [len(track.views) for track in self._tracks]))
        crop_ids = self._writer.pack(np.arange(self._next_crop, self._next_crop + len(views)))
        self._next_crop += len(views)
        self._writer.add_crops(
            {
                "crop_id": crop_ids,
                "track_id": owners,
                "frame": np.array([v.frame for v in views]),
                "time": np.array([v.time_seconds for v in views]),
                **_corners(np.stack([v.box_xyxy for v in views])),
                "quality": np.array([v.quality for v in views], np.float32),
                "jpeg": self._jpegs,
            }
        )
        vectors = np.concatenate(self._vectors, axis=1)  # (depth, B, dim)
        for exit_number, at_exit in enumerate(vectors, start=1):
            self._writer.add_embeddings(self._model_hash, exit_number, crop_ids, owners, at_exit)
        self._progress.crops += len(views)
        self._progress.tracks += len(self._tracks)

    def _write_tracks(self, numbers: NDArray[np.int64]) -> None:
        tracks = self._tracks
        ids = self._writer.pack(numbers)
        samples = np.array([len(track.frames) for track in tracks])
        self._writer.add_tracks(
            {
                "track_id": ids,
                "start_frame": np.array([t.start_frame for t in tracks]),
                "end_frame": np.array([t.end_frame for t in tracks]),
                "start_time": np.array([t.start_seconds for t in tracks]),
                "end_time": np.array([t.end_seconds for t in tracks]),
                "samples": samples,
            }
        )
        self._writer.add_boxes(
            {
                "track_id": np.repeat(ids, samples),
                "frame": np.concatenate([t.frames for t in tracks]),
                "time": np.concatenate([t.times for t in tracks]),
                **_corners(np.concatenate([t.boxes_xyxy for t in tracks])),
                "score": np.concatenate([t.scores for t in tracks]),
            }
        )


def _corners(boxes_xyxy: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    return {name: boxes_xyxy[:, i] for i, name in enumerate(("x1", "y1", "x2", "y2"))}
