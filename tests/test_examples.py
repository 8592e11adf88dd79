"""Examples embedded in several ways: which views there are of a picture."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from fakes import Thing, thing_picture, write_film, write_picture

import panorama
from panorama import waits
from panorama.album.examples import EXAMPLES, GEOMETRY, VIEWS, embed_examples, embed_exemplars, lacking
from panorama.models.base import Embedder
from panorama.models.color import ColorEmbedder
from panorama.store import Store

RED, BLUE = (255, 0, 0), (0, 0, 255)


class MeanColor(Embedder):
    """A red picture has the vector 1, 0, 0."""

    name, hash, dim, exits, macs = "mean-color", "mean-color", 3, 1, (1,)

    def embed_all(self, images):
        means = np.array([image.reshape(-1, 3).mean(axis=0) for image in images], np.float32).reshape(-1, 3)
        return (means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9))[None]


def plain(color: tuple[int, int, int]) -> np.ndarray:
    return np.tile(np.array(color, np.uint8), (40, 30, 1))


def test_every_view_of_a_picture_of_one_colour_has_the_vector_of_that_colour() -> None:
    vectors = embed_examples([plain(RED), plain(BLUE)], MeanColor())
    for picture, colour in zip(vectors[0], ([1, 0, 0], [0, 0, 1]), strict=True):
        assert picture == pytest.approx(np.tile(colour, (len(VIEWS), 1)), abs=1e-6)


def test_a_picture_and_its_mirror_image_have_the_same_views() -> None:
    half = np.concatenate([plain(RED), plain(BLUE)], axis=1)
    one, other = embed_examples([half, half[:, ::-1]], MeanColor())[0]
    rows = [sorted(np.round(views, 5).tolist()) for views in (one, other)]
    assert rows[0] == rows[1] and len({tuple(row) for row in rows[0]}) > 2


def test_a_box_drawn_too_wide_has_a_view_that_is_nearer_to_the_thing() -> None:
    framed = plain(RED)
    framed[:3], framed[-3:], framed[:, :2], framed[:, -2:] = BLUE, BLUE, BLUE, BLUE
    views = dict(zip(VIEWS, embed_examples([framed], MeanColor())[0, 0], strict=True))
    assert views["middle"][0] > views["as it is"][0] > views["wider"][0]


def test_every_view_is_a_picture_even_of_the_smallest() -> None:
    for view in VIEWS.values():
        assert min(view(np.zeros((1, 1, 3), np.uint8)).shape[:2]) >= 1


def test_a_picture_is_also_seen_in_more_and_in_less_light() -> None:
    grey = plain((200, 100, 50))
    assert VIEWS["darker"](grey)[0, 0].tolist() == [140, 70, 35]
    assert VIEWS["brighter"](grey)[0, 0].tolist() == [255, 130, 65]  # no brighter than white


@pytest.mark.parametrize("side", ["tilted left", "tilted right"])
def test_a_tilted_picture_is_whole_and_its_edges_fill_the_corners(side: str) -> None:
    """A red bar along the upper edge comes down on the side that the picture is tilted to."""
    bar = plain(BLUE)
    bar[:8] = RED
    seen = VIEWS[side](bar)
    assert seen.shape[0] > bar.shape[0] and seen.shape[1] > bar.shape[1]
    assert (seen.max(axis=2) > 0).all(), "no black corners"
    upper = seen[: seen.shape[0] // 2, :, 0].astype(int)
    down, up = (0, -1) if side == "tilted left" else (-1, 0)
    assert upper[:, down].sum() > upper[:, up].sum()
    assert np.array_equal(VIEWS["tilted left"](bar), VIEWS["tilted right"](bar[:, ::-1])[:, ::-1])


def test_a_model_of_colour_alone_is_not_shown_other_light_or_angles() -> None:
    dark = plain((40, 20, 10))
    assert embed_examples([dark], MeanColor()).shape[2] == len(VIEWS) > len(GEOMETRY)
    assert embed_examples([dark], ColorEmbedder()).shape[2] == len(GEOMETRY)


def test_no_example_has_no_vector() -> None:
    model = MeanColor()
    assert embed_examples([], model).shape == (model.exits, 0, len(VIEWS), model.dim)


def only_means(library: Path) -> None:
    """Leave one vector of each registered picture, as the schema before views did."""
    with panorama.open(library) as opened:
        album = opened.snapshot().album(opened.embedder.hash, 1).averaged()
    with sqlite3.connect(library / "catalog.sqlite") as catalog:
        for exemplar, vector in zip(album.exemplar_ids.tolist(), album.vectors, strict=True):
            change = "UPDATE exemplar_vectors SET views = 1, vectors = ? WHERE exemplar_id = ?"
            catalog.execute(change, [vector.tobytes(), exemplar])
    catalog.close()


def old_library(folder: Path, sql: str, *unlike: np.ndarray) -> pa.Table:
    """A library of one film and one entity, red, of which only means are left; its answer before that."""
    write_film(folder / "one.mp4", [Thing("red", 5, 35)])
    with panorama.open(folder / "library", create=True) as library:
        library.index(folder / "one.mp4", model="color-bands")
        library.register("red", thing_picture("red"), unlike=unlike)
        before = library.query(sql).arrow()
    only_means(folder / "library")
    return before


@pytest.mark.parametrize("pictures", ["there", "gone"])
def test_pictures_of_which_only_a_mean_was_kept_are_seen_in_every_way_from_the_first_question_on(
    tmp_path, fake_proposer, pictures
) -> None:
    write_film(tmp_path / "one.mp4", [Thing("red", 5, 35)])
    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(tmp_path / "one.mp4", model="color-bands")
        library.register("red", thing_picture("red"), unlike=thing_picture("blue"))
        before = library.query("SELECT tracks WHERE entity = 'red'").arrow()
        embedder, whole = library.embedder, library.snapshot().album(library.embedder.hash, 1)
    only_means(tmp_path / "library")
    if pictures == "gone":
        for path in (tmp_path / "library" / "album").rglob("*.jpg"):
            path.unlink()
    with panorama.open(tmp_path / "library") as library:
        assert lacking(library.snapshot(), embedder)
        after = library.query("SELECT tracks WHERE entity = 'red'").arrow()
        assert after["track_id"].to_pylist() == before["track_id"].to_pylist()
        assert lacking(library.snapshot(), embedder) == (pictures == "gone")
        if pictures == "there":
            assert after["score"].to_pylist() == before["score"].to_pylist()
            np.testing.assert_array_equal(library.snapshot().album(embedder.hash, 1).vectors, whole.vectors)


def test_a_picture_that_is_gone_keeps_its_mean_and_no_other_from_being_seen(tmp_path, fake_proposer) -> None:
    write_film(tmp_path / "one.mp4", [Thing("red", 5, 35)])
    with panorama.open(tmp_path / "library", create=True) as library:
        library.index(tmp_path / "one.mp4", model="color-bands")
        for color in ("red", "blue"):
            library.register(color, thing_picture(color))
        library.exemplars("blue")[0].picture.unlink()
    only_means(tmp_path / "library")
    with panorama.open(tmp_path / "library") as library:
        assert library.query("SELECT frames WHERE entity = 'red'").arrow().num_rows > 0
        album = library.snapshot().album(library.embedder.hash, 1)
        assert np.unique(album.entity_index, return_counts=True)[1].tolist() == [1, len(GEOMETRY)]
        # Nor does it stop indexing, which tells of it.
        (told,) = library.index(tmp_path / "one.mp4", model="color-bands").warnings
        assert (
            "is missing: it still has its earlier vectors of color-bands, for fewer views; register it again"
            in told
        )


def test_index_tells_of_pictures_that_the_model_could_not_see(tmp_path, fake_proposer, monkeypatch) -> None:
    """Nothing was said, and what such a picture shows was no longer found."""
    monkeypatch.chdir(tmp_path)
    write_film(tmp_path / "one.mp4", [Thing("red", 5, 35)])
    pictures = {"red": "red", "blue": "blue", "a green one": "green"}
    with panorama.open("library", create=True) as library:
        assert library.index("one.mp4", model="color-bands").warnings == ()
        for name, color in pictures.items():
            library.register(name, write_picture(tmp_path / f"{color}.png", thing_picture(color)))
        red, blue, green = (library.exemplars(name)[0] for name in pictures)
        blue.picture.unlink()
        green.picture.write_bytes(b"no picture")
        assert library.index("one.mp4").warnings == (), "all have the vectors of this model"
        other = ColorEmbedder()
        other.name, other.hash = "other-colors", "other" * 8
        monkeypatch.setattr("panorama.api.models.load_embedder", lambda name: other)
        told = library.index("one.mp4", model="color-bands").warnings
        why = "it has no vectors of other-colors, so nothing is compared with it"
        ours = f"panorama --library {tmp_path}/library exemplars"
        then = "register it again, or restore it from a backup and index again, or remove it"
        assert told == (
            f"{blue.picture}, registered for blue from {blue.source}, is missing: {why}; {then}: "
            f"{ours} blue --remove {blue.exemplar_id}",
            f"{green.picture}, registered for a green one from {green.source}, cannot be read: {why}; "
            f"{then}: {ours} 'a green one' --remove {green.exemplar_id}",
        )
        monkeypatch.setattr("panorama.indexing.stored_crops.SHOWN_EXAMPLES", 1)
        assert library.index("one.mp4").warnings == (told[0], f"and 1 more: {ours} NAME")
        library.register("blue", tmp_path / "blue.png")
        library.remove_exemplar(green.exemplar_id)
        assert library.index("one.mp4").warnings == ()
        assert library.exemplars("blue") == [blue] and lacking(library.snapshot(), other) is False
        assert blue.picture.read_bytes() and red.picture.exists()


def test_names_that_change_meanwhile_leave_the_question_with_its_own(
    tmp_path, fake_proposer, monkeypatch
) -> None:
    before = old_library(tmp_path, "SELECT frames WHERE entity = 'red'")

    def renamed_meanwhile(store: Store, embedder: Embedder) -> int:
        done = embed_exemplars(store, embedder)
        store.rename_entity("red", "crimson")
        return done

    monkeypatch.setattr("panorama.answering.answerer.embed_exemplars", renamed_meanwhile)
    with panorama.open(tmp_path / "library") as library:
        found = library.query("SELECT frames WHERE entity = 'red'").arrow()
        assert found["frame"].to_pylist() == before["frame"].to_pylist()


SEES_ANEW = """
import sys, time
from pathlib import Path
from panorama.album.examples import embed_exemplars
from panorama.models.color import ColorEmbedder
from panorama.store import Store

class Slow(ColorEmbedder):
    def embed_all(self, images):
        time.sleep(1)
        return super().embed_all(images)

store = Store.open(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(embed_exemplars(store, Slow()))
"""


def test_of_two_processes_one_sees_an_old_album_anew_and_the_other_waits_for_it(
    tmp_path, fake_proposer
) -> None:
    """Both did all of it."""
    old_library(tmp_path, "SELECT tracks WHERE entity = 'red'", thing_picture("blue"))
    command = [sys.executable, "-c", SEES_ANEW, str(tmp_path / "library")]
    both = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(int(process.communicate(timeout=60)[0]) for process in both) == [0, 2]
    with panorama.open(tmp_path / "library") as library:
        assert not lacking(library.snapshot(), library.embedder)
    assert not list((tmp_path / "library").rglob("claim-*"))


def test_a_question_says_that_it_waits_for_the_album(run, tmp_path, monkeypatch) -> None:
    """It looked as if it hung, for as long as another process was at work."""
    tell = waits.tell
    old_library(tmp_path, "SELECT tracks WHERE entity = 'red'")
    asked = ("--library", "library", "query", "SELECT tracks WHERE entity = 'red'")
    with Store.open(tmp_path / "library") as store, store.claims() as claims:
        assert claims.take(EXAMPLES)

        def told(holder: str) -> None:
            """The other process is done once the user knows: after a time, a slow query met no claim."""
            tell(holder)
            claims.drop(EXAMPLES)

        monkeypatch.setattr(waits, "tell", told)
        done = run(*asked)
        assert done.status == 0
        assert done.err.count("another process is embedding example pictures; waiting for it\n") == 1
        assert "waiting" not in run(*asked).err


def test_who_waited_for_the_album_answers_with_all_of_it(tmp_path, fake_proposer, monkeypatch) -> None:
    before = old_library(tmp_path, "SELECT tracks WHERE entity = 'red'")

    def done_elsewhere(store: Store, embedder: Embedder) -> int:
        with panorama.open(tmp_path / "library") as other:
            assert embed_exemplars(other._store, embedder) == 1
        return embed_exemplars(store, embedder)

    monkeypatch.setattr("panorama.answering.answerer.embed_exemplars", done_elsewhere)
    with panorama.open(tmp_path / "library") as library:
        assert library.query("SELECT tracks WHERE entity = 'red'").arrow().equals(before)
        assert len(library.matcher().source.album(1)) == len(GEOMETRY)
