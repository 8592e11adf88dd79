"""Frames of a video are gathered to batches, several of which are under way at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import write_film

import panorama.video
from panorama.indexing.parcels import BATCH_BYTES, Batch, Job, Parcel, batched


def test_three_batches_are_under_way_while_the_next_is_gathered_and_all_end_in_order(tmp_path: Path) -> None:
    job = Job(panorama.video.open_video(write_film(tmp_path / "a.mp4", [], frames=3)))
    told: list[str] = []

    def begin(some: list[Parcel]) -> panorama.indexing.parcels.End:
        name = ",".join(str(p.rows[0][0]) for p in some)
        told.append(f"begin {name}")

        def end() -> float:
            told.append(f"end {name}")
            return 0.25

        return end

    given = [Parcel(job, rows=[(number, 0, 0.0)]) for number in range(9)]
    left = [p.rows[0][0] for p in batched(iter(given), "step", begin, Batch(2, lambda p: 1, lambda p: 0))]
    assert left == list(range(9))
    begun = ["begin 0,1", "begin 2,3", "begin 4,5", "begin 6,7", "end 0,1", "begin 8"]
    assert told == [*begun, "end 2,3", "end 4,5", "end 6,7", "end 8"]
    assert job.progress.stage_seconds["step"] == pytest.approx(1.25, abs=0.3)
    job.reader.close()


def test_frames_that_hold_much_make_a_batch_before_there_are_many(tmp_path: Path) -> None:
    job = Job(panorama.video.open_video(write_film(tmp_path / "a.mp4", [], frames=3)))
    begun: list[list[int]] = []

    def begin(some: list[Parcel]) -> panorama.indexing.parcels.End:
        begun.append([p.rows[0][0] for p in some])
        return lambda: 0.0

    given = [Parcel(job, rows=[(number, 0, 0.0)]) for number in range(7)]
    heavy = Batch(8, lambda p: 1, lambda p: BATCH_BYTES // 3 + 1)
    assert [p.rows[0][0] for p in batched(iter(given), "step", begin, heavy)] == list(range(7))
    assert begun == [[0, 1, 2], [3, 4, 5], [6]]
    job.reader.close()
