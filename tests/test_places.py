"""Where tracks were: looked up by id in sorted copies of the Parquet columns, which may go at any time."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from store_samples import exemplar, index, video_row

from panorama.store import Snapshot, Store
from panorama.store.files import sorted_rows as accelerators
from panorama.store.scenes import places
from panorama.store.scenes.places import PlaceTables, TrackPlaces
from panorama.store.vectors import index_files


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "library") as store:
        yield store


def fill_unsorted(store: Store, name: str, rng: np.random.Generator) -> None:
    """A video whose tracks and crops come in no order, as ends of tracks do."""
    with store.begin_segment(name, "s") as writer:
        count = int(rng.integers(1, 9))
        ids = writer.pack(rng.permutation(20)[:count])
        start = rng.uniform(0, 50, count)
        frames = np.round(start * 10).astype(np.int64)
        writer.add_frames(np.arange(600), np.arange(600) * 10, np.arange(600) / 10 + number_of(name) / 100)
        sampled = rng.permutation(np.repeat(np.arange(count), 4))
        # A sample may lie before or after what the track's row says.
        at = frames[sampled] + np.where(sampled % 2, 3, -2) + rng.integers(0, 22, len(sampled))
        side = rng.uniform(0, 90, len(sampled)).astype(np.float32)
        writer.add_boxes(
            {
                **{"track_id": ids[sampled], "frame": np.maximum(at, 0), "time": np.maximum(at, 0) / 10},
                **{"x1": side, "y1": side, "x2": side + 5, "y2": side + 5, "score": np.ones(len(side))},
            }
        )
        writer.add_tracks(
            {
                **{"track_id": ids, "start_frame": frames, "end_frame": frames + 20},
                **{"start_time": start, "end_time": start + 2, "samples": np.full(count, 4)},
            }
        )
        owners = rng.permutation(np.repeat(ids, rng.integers(1, 4, count)))
        total = len(owners)
        seconds = rng.uniform(0, 50, total)
        box = dict(
            zip(("x1", "y1", "x2", "y2"), rng.uniform(0, 90, (4, total)).astype(np.float32), strict=True)
        )
        writer.add_crops(
            {
                **{"crop_id": writer.pack(rng.permutation(total)), "track_id": owners},
                **{"frame": np.round(seconds * 10).astype(np.int64), "time": seconds, **box},
                **{"quality": np.ones(total), "jpeg": [b"picture"] * total},
            }
        )
        writer.commit(video_row(name, name))


def number_of(name: str) -> int:
    """The number of a video: its frames have times that no other video's have."""
    return int(name.removesuffix(".mp4"))


def rows_by_reading(snapshot: Snapshot, wanted: set[int]) -> tuple[set[tuple], dict[int, set[int]]]:
    """The samples of every wanted track of a live segment, and each track's frames from first to last."""
    live = set(snapshot.live_segments.tolist())
    tables = {
        table: [row for path in snapshot.files[table] for row in pq.read_table(path).to_pylist()]
        for table in ("tracks", "boxes")
    }
    mine = {row["track_id"]: row for row in tables["tracks"] if row["track_id"] in wanted}
    mine = {track: row for track, row in mine.items() if row["segment"] in live}
    samples = [row for row in tables["boxes"] if row["track_id"] in mine]
    frames = {track: set(range(row["start_frame"], row["end_frame"])) for track, row in mine.items()}
    for row in samples:
        have = frames[row["track_id"]] | {row["frame"]}
        frames[row["track_id"]] = set(range(min(have), max(have) + 1))
    columns = ("track_id", "frame", "time", "x1", "y1", "x2", "y2")
    return {tuple(row[column] for column in columns) for row in samples}, frames


def by_reading(snapshot: Snapshot, wanted: set[int]) -> list[tuple]:
    """Of every wanted track of a live segment: its span and views, from the Parquet files."""
    live = set(snapshot.live_segments.tolist())
    tracks = [row for path in snapshot.files["tracks"] for row in pq.read_table(path).to_pylist()]
    crops = [row for path in snapshot.files["crops"] for row in pq.read_table(path).to_pylist()]
    found = []
    for track in tracks:
        if track["track_id"] in wanted and track["segment"] in live:
            views = sorted(
                (crop["time"], crop["x1"], crop["y1"], crop["x2"], crop["y2"])
                for crop in crops
                if crop["track_id"] == track["track_id"]
            )
            found.append((track["track_id"], track["start_time"], track["end_time"], views))
    return sorted(found)


def told(places: TrackPlaces) -> list[tuple]:
    spans = zip(places.track_ids, places.start_seconds, places.end_seconds, strict=True)
    return [
        (
            int(track),
            float(start),
            float(end),
            [
                (float(places.view_seconds[row]), *places.view_boxes_xyxy[row].tolist())
                for row in np.flatnonzero(places.view_tracks == track)
            ],
        )
        for track, start, end in spans
    ]


def growing(
    store: Store, seed: int, *, videos: int, compacted_at: int, removed_at: int, removed: str
) -> Iterator[tuple[Snapshot, list[set[int]]]]:
    """A snapshot after each video that is added, and tracks to ask for: all and unknown ones, some, none.

    Args:
        compacted_at, removed_at: numbers of the videos after which files are merged, and `removed` taken out.
    """
    rng = np.random.default_rng(seed)
    for number in range(videos):
        fill_unsorted(store, f"{number}.mp4", rng)
        if number == compacted_at:
            store.compact()
        if number == removed_at:
            store.remove_videos([removed])
        snapshot = store.snapshot()
        every = {
            int(i) for path in snapshot.files["tracks"] for i in pq.read_table(path)["track_id"].to_numpy()
        }
        yield snapshot, [every | {7, 99 << 32}, set(sorted(every)[::3]), set()]


@pytest.mark.parametrize("small", [0, 10**6], ids=["kept on disk", "read as they are"])
def test_look_ups_find_what_the_files_hold(store: Store, monkeypatch: pytest.MonkeyPatch, small: int) -> None:
    monkeypatch.setattr(accelerators, "SMALL_ROWS", small)
    tables: PlaceTables | None = None
    for snapshot, asked in growing(store, 3, videos=12, compacted_at=5, removed_at=8, removed="2.mp4"):
        tables = PlaceTables(snapshot, tables)
        for wanted in asked:
            ids = np.array(sorted(wanted, reverse=True), np.int64)
            assert told(tables.places(ids)) == by_reading(snapshot, wanted)


@pytest.mark.parametrize("small", [0, 10**6], ids=["kept on disk", "read as they are"])
def test_following_tracks_takes_all_of_their_samples_and_frames(
    store: Store, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    monkeypatch.setattr(accelerators, "SMALL_ROWS", small)
    tables: PlaceTables | None = None
    for snapshot, asked in growing(store, 8, videos=9, compacted_at=4, removed_at=6, removed="3.mp4"):
        tables = PlaceTables(snapshot, tables)
        tables.prepare()
        for wanted in asked:
            found = tables.followed(np.array(sorted(wanted), np.int64), 10**6)
            assert found is not None
            samples, frames = rows_by_reading(snapshot, wanted)
            got = zip(found.track_ids.tolist(), found.boxes.tolist(), strict=True)
            assert {(track, *box) for track, box in got} == samples
            ids = {int(i) for i in found.frame_ids}
            assert len(ids) == len(found.frame_ids)
            for track, numbers in frames.items():
                assert {(track >> 32 << 32) | n for n in numbers if n < 600} <= ids
            video = {int(row["segment"]): number_of(row["video"]) for row in snapshot.videos.to_pylist()}
            for key, seconds in zip(found.frame_ids.tolist(), found.times.tolist(), strict=True):
                assert seconds == pytest.approx((key & 0xFFFFFFFF) / 10 + video[key >> 32] / 100, abs=1e-9)


def test_what_is_not_kept_or_is_too_much_is_left_to_the_files(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        fill_unsorted(store, f"{number}.mp4", np.random.default_rng(number))
    snapshot = store.snapshot()
    wanted = np.sort(pq.read_table(snapshot.files["tracks"][0])["track_id"].to_numpy())
    assert PlaceTables(snapshot).followed(wanted, 10**6) is not None
    assert PlaceTables(snapshot).followed(wanted, 5) is None
    monkeypatch.setattr(places, "MANY_FILES", 2)
    assert PlaceTables(snapshot).followed(wanted, 10**6) is None
    monkeypatch.setattr(places, "MANY_FILES", 3)
    monkeypatch.setattr(accelerators, "SMALL_ROWS", 0)
    assert PlaceTables(snapshot).followed(wanted, 10**6) is None
    PlaceTables(snapshot).prepare()
    assert PlaceTables(snapshot).followed(wanted, 10**6) is not None


def test_copies_are_made_once_and_those_of_no_use_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "SMALL_ROWS", 0)
    for number in range(3):
        index(store, f"{number}.mp4")
    folder = accelerators.folder_of(store.path)
    PlaceTables(store.snapshot()).prepare()
    assert len(list(folder.iterdir())) == 12  # four tables of three videos
    store.compact()
    wanted = pq.read_table(store.snapshot().files["tracks"][0])["track_id"].to_numpy()
    before = told(PlaceTables(store.snapshot()).places(wanted))
    PlaceTables(store.snapshot()).prepare()
    assert len(list(folder.iterdir())) == 4
    monkeypatch.setattr(accelerators, "_read", lambda *_: pytest.fail("read again"))
    assert told(PlaceTables(store.snapshot()).places(wanted)) == before and len(before) == 9


def test_a_copy_that_is_cut_short_is_made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "SMALL_ROWS", 0)
    index(store, "a.mp4")
    wanted = pq.read_table(store.snapshot().files["tracks"][0])["track_id"].to_numpy()
    before = told(PlaceTables(store.snapshot()).places(wanted))
    for path in accelerators.folder_of(store.path).iterdir():
        path.write_bytes(path.read_bytes()[:-3])
    assert told(PlaceTables(store.snapshot()).places(wanted)) == before and before


def test_copies_of_before_an_older_catalog_was_put_back_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has the name of an earlier one was looked up in that one's copy."""
    monkeypatch.setattr(accelerators, "SMALL_ROWS", 0)
    path = tmp_path / "library"
    Store.create(path).close()
    shutil.copytree(path, tmp_path / "backup")
    with Store.open(path) as store:
        fill_unsorted(store, "1.mp4", np.random.default_rng(1))
        PlaceTables(store.snapshot()).prepare()
    shutil.rmtree(path / "data")
    shutil.copytree(tmp_path / "backup", path, dirs_exist_ok=True)
    with Store.open(path) as store:
        fill_unsorted(store, "2.mp4", np.random.default_rng(2))
        wanted = pq.read_table(store.snapshot().files["tracks"][0])["track_id"].to_numpy()
        found = told(PlaceTables(store.snapshot()).places(wanted))
        shutil.rmtree(path / "index")
        assert found == told(PlaceTables(store.snapshot()).places(wanted)) and found


def test_erasing_leaves_no_copy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerators, "SMALL_ROWS", 0)
    index(store, "a.mp4")
    index(store, "b.mp4")
    PlaceTables(store.snapshot()).prepare()
    track = pq.read_table(store.snapshot().files["tracks"][0])["track_id"].to_numpy()[:1]
    store.add_exemplars("cat", [exemplar()])
    store.forget_entity("cat", track)
    assert not accelerators.folder_of(store.path).exists()


def test_a_copy_that_may_not_be_deleted_is_left_unless_it_may_hold_what_was_erased(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`index` ended with an error over another user's copy, when all was done."""
    index(store, "a.mp4")
    stale = accelerators.folder_of(store.path) / f"boxes-s00000009-{'0' * 32}.{accelerators.FORMAT}"
    stale.parent.mkdir(parents=True)
    stale.touch()

    def closed(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", closed)
        PlaceTables(store.snapshot()).prepare()
        with pytest.raises(PermissionError, match=stale.name):
            index_files.drop_gone(store._place)
    PlaceTables(store.snapshot()).prepare()
    assert not stale.exists()


def test_making_ready_stands_back_between_pieces_of_a_file(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was one block of five seconds at a million crops, in which queries waited for the processor."""
    fill_unsorted(store, "1.mp4", np.random.default_rng(3))
    monkeypatch.setattr(accelerators, "PIECE_ROWS", 50)
    monkeypatch.setattr(accelerators, "SMALL_ROWS", 0)
    waited: list[int] = []
    PlaceTables(store.snapshot()).prepare(lambda: waited.append(1))
    assert len(waited) >= 600 // 50 + 3  # of the frames, and one for each other table
    waited.clear()
    PlaceTables(store.snapshot()).prepare(lambda: waited.append(1))
    assert not waited  # all is kept


def test_tables_are_taken_over_while_a_query_opens_more_of_them(store: Store) -> None:
    """The next snapshot's query ended with "dictionary changed size during iteration"."""
    index(store, "a.mp4")
    before = PlaceTables(store.snapshot())
    tracks = pq.read_table(store.snapshot().files["tracks"][0])["track_id"].to_numpy()

    class Opening(tuple):
        """A file that is looked up, as the other query opens one more."""

        def __hash__(self) -> int:
            before._open["crops", f"{len(before._open)}"] = rows
            return super().__hash__()

    before.spans(tracks)
    ((file, rows),) = before._open.items()
    before._open = {Opening(file): rows}
    index(store, "b.mp4")
    after = PlaceTables(store.snapshot(), before)
    assert len(before._open) > 1 and list(after._open) == [file]


def test_shots_are_told_in_the_order_in_which_their_tracks_are_named(store: Store) -> None:
    with store.begin_segment("a.mp4", "s") as writer:
        begins, numbers = np.array([0, 10, 20, 30]), np.arange(60)
        tracks = writer.pack(np.arange(1, 5))
        writer.add_frames(numbers, numbers * 10, numbers / 10)
        writer.add_tracks(
            {
                **{"track_id": tracks, "start_frame": begins, "end_frame": begins + 5},
                **{"start_time": begins / 10, "end_time": begins / 10 + 0.5, "samples": np.ones(4, np.int64)},
            }
        )
        writer.add_cuts([20, 10])
        writer.commit(video_row("a.mp4", "a.mp4"))
    tables = PlaceTables(store.snapshot())
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 2, 1]):
        found = tables.shots(tracks[order]) & 0xFFFFFFFF
        assert found.tolist() == [[0, 1, 2, 2][track] for track in order]
