"""A library of one video comes in; copies of the video, shifted in time, go into another library.

growth.py uses this to make a hundred hours without decoding them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from panorama.store import SegmentWriter, Store, VideoRow

LOCAL = 0xFFFFFFFF
"""The lower half of a track or crop id: its number within its segment."""

MOST_FRAMES = 3
BOX_PIXELS = 0.25
VECTOR_NOISE = 0.01


class Hour:
    """What a library holds of its one video.

    Attributes:
        seconds: length of the video.
    """

    def __init__(self, library: Path) -> None:
        with Store.open(library) as store, duckdb.connect() as con:
            snapshot = store.snapshot()
            (self._video,) = snapshot.videos.to_pylist()
            self._tables = {
                name: _columns(con, [str(path) for path in (library / "data" / name).glob("*.parquet")])
                for name in ("frames", "tracks", "boxes", "crops")
            }
            self._vectors = {
                key: _columns(con, [file.path for file in files])
                for key, files in snapshot.embeddings.items()
            }
        self.seconds = float(self._video["duration"])
        frames = self._tables["frames"]
        self._times: NDArray[np.float64] = frames["time"][np.argsort(frames["frame"])]
        self._ticks = float(np.ptp(frames["pts"])) / max(float(self._times[-1]), 1e-9)

    def append_to(self, library: Path, number: int) -> float:
        """Write it again as video `number`, shifted by so many times its length; seconds that it took."""
        began = time.perf_counter()
        digest = f"{number:064x}"
        with Store.open(library) as store, store.begin_segment(digest, "written again") as writer:
            self._write(writer, number)
            writer.commit(self._row(number, digest))
        return time.perf_counter() - began

    def _write(self, writer: SegmentWriter, number: int) -> None:
        draw = np.random.default_rng(number)
        frames = self._tables["frames"]
        # A file's own times begin at 0: the shift is in its stamps and in its wall-clock time.
        shifted = frames["pts"] + round(number * self.seconds * self._ticks)
        writer.add_frames(frames["frame"], shifted, frames["time"])
        moves = self._moves(draw)
        writer.add_tracks(self._moved("tracks", writer, moves, draw))
        writer.add_boxes(self._moved("boxes", writer, moves, draw))
        writer.add_crops(self._moved("crops", writer, moves, draw))
        for (model, exit_number), columns in self._vectors.items():
            ids = [writer.pack(columns[key] & LOCAL) for key in ("crop_id", "track_id")]
            vectors = columns["vector"]
            size = VECTOR_NOISE / vectors.shape[1] ** 0.5
            vectors = vectors + draw.normal(0, size, vectors.shape).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            writer.add_embeddings(model, exit_number, *ids, vectors)

    def _moves(self, draw: np.random.Generator) -> NDArray[np.int64]:
        """By how many frames each track is moved, at its local number; never over the video's ends."""
        tracks = self._tables["tracks"]
        local = tracks["track_id"] & LOCAL
        out = np.zeros(int(local.max(initial=0)) + 1, np.int64)
        drawn = draw.integers(-MOST_FRAMES, MOST_FRAMES + 1, len(local))
        out[local] = np.clip(drawn, -tracks["start_frame"], len(self._times) - tracks["end_frame"])
        return out

    def _moved(
        self, table: str, writer: SegmentWriter, moves: NDArray[np.int64], draw: np.random.Generator
    ) -> dict[str, Any]:
        """The rows of a table with ids of the new segment, tracks and boxes moved."""
        columns = {name: values for name, values in self._tables[table].items() if name != "segment"}
        by = moves[columns["track_id"] & LOCAL]
        for prefix in ("", "start_", "end_"):
            if f"{prefix}frame" in columns:
                columns[f"{prefix}frame"] = columns[f"{prefix}frame"] + by
                columns[f"{prefix}time"] = self._time_of(columns[f"{prefix}frame"])
        for name in ("x1", "y1", "x2", "y2"):
            if name in columns:
                columns[name] = columns[name] + draw.uniform(-BOX_PIXELS, BOX_PIXELS, len(by)).astype(
                    np.float32
                )
        for name in ("track_id", "crop_id"):
            if name in columns:
                columns[name] = writer.pack(columns[name] & LOCAL)
        return columns

    def _time_of(self, frame: NDArray[np.int64]) -> NDArray[np.float64]:
        """Presentation times of frames; the end of the last one for the frame past it."""
        return np.append(self._times, self.seconds)[frame]

    def _row(self, number: int, digest: str) -> VideoRow:
        facts = {key: self._video[key] for key in ("width", "height", "duration", "frames", "camera")}
        path = Path(self._video["uri"]).with_name(f"hour-{number:03d}.mp4")
        return VideoRow(
            name=path.name,
            uri=str(path),
            root=str(path.parent),
            content_hash=digest,
            size=1,
            mtime_ns=1,
            start_time_unix=number * self.seconds,
            **facts,
        )


def _columns(con: duckdb.DuckDBPyConnection, paths: list[str]) -> dict[str, Any]:
    """All rows of some Parquet files as arrays; JPEGs as a list, vectors as (N, dim)."""
    rows = con.sql(f"SELECT * FROM read_parquet({paths!r})").to_arrow_table()
    out: dict[str, Any] = {}
    for name in rows.column_names:
        column = rows.column(name)
        if name == "jpeg":
            out[name] = column.to_pylist()
        elif name == "vector":
            flat = column.combine_chunks().flatten().to_numpy(zero_copy_only=False)
            out[name] = flat.reshape(len(rows), -1)
        else:
            out[name] = column.to_numpy()
    return out
