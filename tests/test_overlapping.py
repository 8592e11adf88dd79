"""With a thing that is forgotten, the crops of other tracks that show it go, too."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import Ran
from fakes import thing_picture
from store_samples import exemplar, full_after, video_row

from panorama.album.forgetting import SHOWN_CROPS, Seen
from panorama.crops import encode_jpeg
from panorama.opening import open_library
from panorama.store import Store
from panorama.store.catalog import album, erasures
from panorama.store.catalog.erasures import Going

Box = tuple[float, float, float, float]
View = tuple[float, Box]

THING: Box = (100, 100, 200, 300)


def indexed(
    store: Store,
    name: str,
    tracks: list[list[View]],
    views: list[list[View]],
    jpegs: Sequence[bytes] = (b"picture",) * 9,
) -> list[list[int]]:
    """Stores tracks, given by samples and views (second, box); returns the ids of the crops of each."""
    sides = ("x1", "y1", "x2", "y2")

    def columns(rows: list[tuple[int, View]]) -> dict[str, object]:
        boxes = np.array([box for _, (_, box) in rows], np.float32).reshape(-1, 4).T
        seconds = np.array([second for _, (second, _) in rows])
        at = {"frame": np.round(seconds * 10).astype(np.int64), "time": seconds}
        return {"track_id": np.array([ids[k] for k, _ in rows]), **at, **dict(zip(sides, boxes, strict=True))}

    with store.begin_segment(name, "s") as writer:
        ids = writer.pack(np.arange(len(tracks)))
        writer.add_frames(np.arange(600), np.arange(600) * 10, np.arange(600) / 10)
        samples = [(k, sample) for k, track in enumerate(tracks) for sample in track]
        writer.add_boxes({**columns(samples), "score": np.ones(len(samples))})
        starts, ends = (np.array([track[at][0] for track in tracks]) for at in (0, -1))
        frames = [np.round(some * 10).astype(np.int64) for some in (starts, ends)]
        writer.add_tracks(
            {
                **{"track_id": ids, "start_frame": frames[0], "end_frame": frames[1]},
                **{"start_time": starts, "end_time": ends, "samples": [len(track) for track in tracks]},
            }
        )
        crops = [(k, view) for k, track in enumerate(views) for view in track]
        crop_ids = writer.pack(np.arange(len(crops)))
        pictures = {"quality": np.ones(len(crops)), "jpeg": [jpegs[k] for k, _ in crops]}
        writer.add_crops({"crop_id": crop_ids, **columns(crops), **pictures})
        writer.commit(video_row(name, name))
    return [[int(crop_ids[n]) for n, (k, _) in enumerate(crops) if k == mine] for mine in range(len(tracks))]


@pytest.fixture
def store(tmp_path: Path):
    with Store.create(tmp_path / "library") as store:
        yield store


def lying(box: Box) -> list[View]:
    """A track that lies there from second 1 to 50."""
    return [(1, box), (50, box)]


@pytest.mark.parametrize(
    ("box", "shows"),
    [
        ((120, 110, 140, 130), True),  # a part of it
        ((0, 0, 640, 480), True),  # the whole room
        ((190, 100, 290, 300), True),  # a tenth
        ((191, 100, 291, 300), False),  # less
        ((300, 100, 400, 300), False),
    ],
)
def test_a_crop_shows_a_track_if_it_has_a_tenth_of_the_smaller_box_in_common(store, box, shows) -> None:
    _, (crop,) = indexed(store, "a.mp4", [lying(THING), lying(box)], [[(2, THING)], [(20, box)]])
    track = np.array([crop & ~0xFFFFFFFF])
    found = store.overlapping(track, track[:0])
    assert found.crop_ids.tolist() == [crop] * shows
    assert found.emptied.tolist() == found.track_ids.tolist() == [track[0] + 1] * shows


def test_crops_count_by_where_the_track_was_when_they_were_taken(store) -> None:
    moving = [(10.0, (0.0, 0.0, 10.0, 10.0)), (20.0, (100.0, 0.0, 110.0, 10.0))]
    seconds = [9.4, 9.6, 15, 20.4, 20.6, 30]
    there = [(s, (0.0, 0.0, 10.0, 10.0) if s < 10 else (100.0, 0.0, 110.0, 10.0)) for s in seconds]
    there[2] = (15, (50.0, 0.0, 60.0, 10.0))
    passed = [(15.0, (0.0, 0.0, 10.0, 10.0)), (15.0, (100.0, 0.0, 110.0, 10.0))]
    *_, crops, stayed = indexed(store, "a.mp4", [moving, lying(THING), lying(THING)], [[], there, passed])
    indexed(store, "b.mp4", [lying(THING)], [there])
    track = np.array([crops[0] & ~0xFFFFFFFF])
    found = store.overlapping(track, track[:0])
    assert sorted(found.crop_ids.tolist()) == crops[1:4]
    assert found.emptied.tolist() == [] and stayed
    alike = store.overlapping(track, np.array([track[0] + 1, track[0] + 2]))
    assert sorted(alike.crop_ids.tolist()) == crops, "one that may follow it goes as a whole"
    assert alike.emptied.tolist() == [track[0] + 1]


def test_single_crops_are_erased_with_their_vectors_and_others_of_the_track_stay(store) -> None:
    mine, (gone, kept) = indexed(
        store, "a.mp4", [lying(THING), lying(THING)], [[(2, THING)], [(3, THING), (40, THING)]]
    )
    track = mine[0] & ~0xFFFFFFFF
    with store.append_embeddings("m", 1) as writer:
        ids = np.array([*mine, gone, kept])
        writer.add(ids, np.array([track, track + 1, track + 1]), np.eye(3, dtype=np.float32))
        writer.commit()
    store.add_exemplars("cat", [exemplar()])
    store.forget_entity("cat", np.array([track]), np.array([gone]))
    left = [
        crop
        for batch in store.read_crops(segments=store.snapshot().live_segments)
        for crop in batch.crop_ids.tolist()
    ]
    assert left == [kept] and store.snapshot().vectors("m", 1).total == 1


def test_what_an_older_version_noted_is_erased(store) -> None:
    store.add_exemplars("cat", [exemplar()])
    with store._place.catalog.write() as tx:
        tx.run("INSERT INTO meta (key, value) VALUES ('forgetting 1', '[7, 5]')")
    assert store.being_forgotten("cat").track_ids.tolist() == [5, 7]
    assert not len(store.being_forgotten("cat").crop_ids)
    with store._place.catalog.write() as tx:
        erasures.note(tx, album.id_of(tx, "cat"), Going.of([5], [9, 8]))
    assert store.being_forgotten("cat").crop_ids.tolist() == [8, 9]


@pytest.fixture
def worn(run: Callable[..., Ran], asked: Path) -> Path:
    """Beside the two films a video of a red thing that wears something green; something blue lies apart."""
    far: Box = (400, 100, 500, 300)
    pictures = [encode_jpeg(thing_picture(color)) for color in ("red", "green", "blue")]
    worn: list[View] = [(3, (120, 110, 140, 130)), (40, far)]
    with Store.open(asked / "panorama-library") as store:
        indexed(
            store,
            "c.mp4",
            [lying(THING), lying(worn[0][1]), lying(far)],
            [[(2, THING)], worn, [(3, far)]],
            pictures,
        )
    assert run("index", "v").status == 0  # it embeds the crops
    return asked


def crops_of(run: Callable[..., Ran], entity: str) -> list[int]:
    found = (
        "SELECT crop_id FROM crops JOIN sightings USING (video, track_id) WHERE video = 'c.mp4' AND entity"
    )
    return sorted(row["crop_id"] for row in run("query", f"{found} = '{entity}'", "--json").json)


def test_whose_pictures_go_too_is_told_before_and_afterwards(run, worn, monkeypatch) -> None:
    """`forget` erased the accepted tracks alone, and left crops of others that showed the same."""
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    (red,), (gone, kept), (blue,) = (crops_of(run, color) for color in ("red", "green", "blue"))
    told = "1 picture of another track {} erased, too, for showing the same place at the same time;"
    told += " among them are pictures of other entities: green (1)"
    before = [
        run("forget", "red", "--with-sightings").err,
        run("query", "FORGET ENTITY 'red' WITH SIGHTINGS").err,
    ]
    for text in before:
        tracks = re.search(r"the stored pictures of (\d) tracks are erased with it; see: panorama", text)
        assert tracks is not None
        assert told.format("is") in text
        (query,) = re.findall(r"panorama query .* --sheet overlapping\.jpg", text)
        assert [row["crop_id"] for row in run("query", shlex.split(query)[2], "--json").json] == [gone]
        (query,) = re.findall(r"panorama query .* --sheet accepted\.jpg", text)
        assert len(run("query", shlex.split(query)[2], "--json").json) == int(tracks[1])
    assert crops_of(run, "green") == [gone, kept], "nothing was agreed to"
    after = run("forget", "red", "--with-sightings", "--yes")
    assert after.status == 0 and told.format("was") in after.err
    (logged,) = run("info", "--json").json["forgotten"]
    assert logged["erased"] == f"exemplars, the crops of {tracks[1]} tracks, 1 crop of other tracks"
    assert crops_of(run, "green") == [kept] and crops_of(run, "blue") == [blue]
    assert run("query", f"SELECT crop_id FROM crops WHERE crop_id IN ({red}, {gone})", "--json").json == []


def test_the_statement_and_the_library_erase_what_overlaps(run, worn) -> None:
    (gone, _), _ = crops_of(run, "green"), crops_of(run, "blue")
    with open_library(worn / "panorama-library") as library:
        (warned,) = library.query("FORGET ENTITY 'red' WITH SIGHTINGS").warnings
        assert warned.startswith("1 picture of another track was erased, too")
        assert gone not in [row["crop_id"] for row in library.query("SELECT crop_id FROM crops")]
        seen = library.forget("green", with_sightings=True)
        assert seen is not None and seen.overlapping.tolist() == [] and seen.others == {}


@pytest.mark.parametrize("flag", [["--with-sightings"], []])
@pytest.mark.parametrize("written", [1, 2, 3])
def test_overlapping_crops_that_an_interruption_left_go_with_the_next_call(run, worn, written, flag) -> None:
    """Once a crop is erased, nothing tells any more that its vector overlapped."""
    gone, kept = crops_of(run, "green")
    with full_after(written):
        assert run("forget", "red", "--with-sightings", "--yes").status == 1
    done = run("forget", "red", *flag, "--yes")
    assert done.status == 0 and "1 picture of another track was erased, too" in done.err
    with Store.open(worn / "panorama-library") as store:
        snapshot = store.snapshot()
        vectors = [file.path for files in snapshot.embeddings.values() for file in files]
        for path in (*snapshot.files["crops"], *vectors):
            crops = pq.read_table(path)["crop_id"].to_pylist()
            assert gone not in crops
        assert any(kept in pq.read_table(path)["crop_id"].to_pylist() for path in vectors)


def test_of_many_crops_the_doubtful_are_named() -> None:
    none = np.zeros(0, np.int64)
    seen = Seen("cat", np.arange(3), none, np.arange(100, 101 + SHOWN_CROPS), {"tom": 4, "dog": 1})
    _, text = seen.before()
    assert text.startswith(f"{SHOWN_CROPS + 1} pictures of other tracks are erased, too")
    assert "pictures of other entities: dog (1), tom (4); see, 20 of them: panorama query" in text
    assert "118, 119)" in text and "120" not in text
    unsure = Seen("cat", np.arange(3), np.array([7]), none, {}, np.array([8, 9]))
    assert "1 track is uncertain and keeps its pictures; see, beside 2 that lose" in unsure.before()[1]
