"""Entities are registered, renamed, removed and forgotten without a trace."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from store_samples import MODEL, check_whole, exemplar, index, jpeg, jpegs_on_disk, lacking, unit_vectors

from panorama.errors import BadImage, EntityError, LibraryWriteError, UnknownEntity
from panorama.store import NewExemplar, SeenAt, Store, pack_ids
from panorama.store.catalog import database as catalog


def everything(store: Store) -> bytes:
    """All bytes of all files of a library."""
    return b"\n".join(path.read_bytes() for path in store.path.rglob("*") if path.is_file())


def test_an_entity_has_its_pictures_and_vectors(store):
    vectors = unit_vectors(3)
    ids = store.add_exemplars(
        "blue-van",
        [exemplar(b"one", vector=vectors[0]), exemplar(b"two", vector=vectors[1])],
    )
    store.add_exemplars("blue-van", [exemplar(b"look-alike", negative=True, vector=vectors[2])])
    store.add_exemplars("aunt", [exemplar(b"one", vector=vectors[0])])
    album = store.snapshot().album(MODEL, 1)
    assert album.entities == ("aunt", "blue-van")
    assert album.entity_index.tolist() == [0, 1, 1, 1]
    assert album.negative.tolist() == [False, False, False, True]
    assert album.exemplar_ids[1:3].tolist() == ids
    np.testing.assert_array_equal(album.vectors, vectors[[0, 0, 1, 2]])
    rows = store.snapshot().entities.to_pylist()
    assert rows == [
        {"entity": "aunt", "exemplars": 1, "negatives": 0, "denied": 0, "category": False},
        {"entity": "blue-van", "exemplars": 2, "negatives": 1, "denied": 0, "category": False},
    ]
    assert [e.picture.read_bytes() for e in store.exemplars("blue-van")] == [b"one", b"two", b"look-alike"]


def test_the_views_of_a_picture_stand_together_and_have_a_mean(store):
    views = unit_vectors(5)
    items = [
        NewExemplar(b"one", "one.jpg", vectors={(MODEL, 1): views[:3]}),
        NewExemplar(b"two", "two.jpg", negative=True, vectors={(MODEL, 1): views[3:]}),
    ]
    one, two = store.add_exemplars("van", items)
    album = store.snapshot().album(MODEL, 1)
    assert album.exemplar_ids.tolist() == [one] * 3 + [two] * 2
    assert album.negative.tolist() == [False] * 3 + [True] * 2
    np.testing.assert_array_equal(album.vectors, views)
    mean = album.averaged()
    assert (mean.exemplar_ids.tolist(), mean.negative.tolist()) == ([one, two], [False, True])
    sums = np.array([views[:3].sum(axis=0), views[3:].sum(axis=0)])
    np.testing.assert_allclose(mean.vectors, sums / np.linalg.norm(sums, axis=1, keepdims=True), rtol=1e-5)


def test_of_a_picture_that_was_seen_the_last_word_counts_for_the_place_that_it_was_said_of(store):
    index(store, "a.mp4", "content")
    (segment,) = store.snapshot().live_segments.tolist()

    def said(frame: int, no: bool) -> int:
        at = SeenAt(segment, frame, frame / 10, (0.0, 0.0, 9.0, 9.0))
        (number,) = store.add_exemplars("van", [NewExemplar(b"alike", "a", negative=no, denied=no, seen=at)])
        return number

    number = said(1, no=False)
    assert said(2, no=False) == number
    assert [(one.frame, one.right) for one in store.reviewed("content")] == [(1, True), (2, True)]
    assert said(2, no=True) == number
    # Of frame 1 nobody said that it is not the van.
    assert [(one.frame, one.right) for one in store.reviewed("content")] == [(2, False)]
    (kept,) = store.exemplars("van")
    assert kept.negative and kept.denied
    with pytest.raises(EntityError, match="is both an exemplar and a denied picture of 'van': it is registe"):
        store.add_exemplars("van", [exemplar(b"alike")])
    assert said(2, no=False) == number and not store.exemplars("van")[0].negative


@pytest.mark.parametrize("vectors", [np.ones(4), np.ones((0, 4)), np.full((1, 4), np.nan)])
def test_vectors_of_a_picture_are_finite_rows(store, vectors):
    with pytest.raises(ValueError, match=r"\(views, dim\) finite"):
        store.add_exemplars("van", [NewExemplar(b"one", "one.jpg", vectors={(MODEL, 1): vectors})])
    assert store.entities() == []


def test_an_album_is_registered_whole_or_not_at_all(store):
    with pytest.raises(EntityError, match="both an exemplar and a look-alike of 'dog'"):
        store.add_album({"cat": [exemplar(b"1")], "dog": [exemplar(b"2"), exemplar(b"2", negative=True)]})
    assert store.entities() == [] and list((store.path / "album").rglob("*")) == []
    ids = store.add_album({"cat": [exemplar(b"1")], "dog": [exemplar(b"2"), exemplar(b"3")]})
    assert [[e.exemplar_id for e in store.exemplars(name)] for name in ("cat", "dog")] == ids


def test_the_same_picture_is_registered_once(store):
    first = store.add_exemplars("cat", [exemplar(b"one")])
    assert store.add_exemplars("cat", [exemplar(b"one", vector=unit_vectors(1)[0])]) == first
    assert len(store.exemplars("cat")) == 1 and len(store.snapshot().album(MODEL, 1)) == 1


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"something else")])
def test_a_picture_that_is_registered_again_has_its_file_again(store, damage):
    store.add_exemplars("cat", [exemplar(b"one")])
    (known,) = store.exemplars("cat")
    damage(known.picture)
    store.add_exemplars("cat", [exemplar(b"one")])
    assert store.exemplars("cat") == [known] and known.picture.read_bytes() == b"one"


def test_a_picture_is_not_both_exemplar_and_look_alike(store):
    store.add_exemplars("cat", [exemplar(b"one")])
    with pytest.raises(EntityError, match="both an exemplar and a look-alike of 'cat'"):
        store.add_exemplars("cat", [exemplar(b"two"), exemplar(b"one", negative=True)])
    assert [e.picture.read_bytes() for e in store.exemplars("cat")] == [b"one"]
    assert len(list((store.path / "album").rglob("*.jpg"))) == 1


@pytest.mark.parametrize(
    ("name", "negative", "command"),
    [
        ("cat", False, "registered as an exemplar; .*first: panorama exemplars cat --remove {}$"),
        ("aunt's cat", True, 'registered as a look-alike; .* exemplars "aunt\'s cat" --remove {}$'),
        ("-cat", False, "first: panorama exemplars --remove {} -- -cat$"),
    ],
)
def test_who_registers_a_picture_with_the_other_sign_is_told_the_command_that_removes_it(
    store, name, negative, command
):
    """The message said to remove one of them, and not how."""
    store.add_exemplars(name, [exemplar(b"another")])
    (number,) = store.add_exemplars(name, [exemplar(b"one", negative=negative)])
    with pytest.raises(EntityError, match=command.format(number)):
        store.add_exemplars(name, [exemplar(b"two"), exemplar(b"one", negative=not negative)])
    store.remove_exemplars([number])
    store.add_exemplars(name, [exemplar(b"one", negative=not negative)])


def test_what_was_denied_is_called_so_where_it_is_given_as_an_example(store):
    """It was called a look-alike, which `panorama exemplars` did not."""
    denied = NewExemplar(b"no", "no.jpg", negative=True, denied=True)
    _, number = store.add_exemplars("cat", [exemplar(b"yes"), denied])
    told = rf"and a denied picture of 'cat': it is registered as a denied picture; .* --remove {number}$"
    with pytest.raises(EntityError, match=told):
        store.add_exemplars("cat", [exemplar(b"no")])


def test_a_picture_given_with_both_signs_at_once_has_no_number_to_remove(store):
    with pytest.raises(EntityError, match=r"give it as only one of them$"):
        store.add_exemplars("cat", [exemplar(b"one"), exemplar(b"one", negative=True)])


def test_an_empty_picture_is_refused():
    with pytest.raises(BadImage, match="empty"):
        exemplar(b"")


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x\x00", "n" * 201, "\ud800", "a\u2028b", "a\u2029b"])
def test_bad_names_are_refused(store, name):
    with pytest.raises(EntityError, match="name"):
        store.add_exemplars(name, [exemplar()])
    assert store.entities() == []
    store.add_exemplars("n" * 200, [exemplar()])


def test_names_that_look_alike_are_one_name(store):
    store.add_exemplars("Zoe\u0308 ", [exemplar(b"one")])
    store.add_exemplars("Zoë", [exemplar(b"two")])
    assert store.entities() == ["Zoë"]


def test_an_entity_without_a_picture_is_refused(store):
    with pytest.raises(EntityError, match="at least one image"):
        store.add_exemplars("cat", [])


def test_an_unknown_entity_is_told_with_near_names(store):
    store.add_exemplars("blue-van", [exemplar()])
    for ask in (store.exemplars, store.drop_entity, store.forget_entity):
        with pytest.raises(UnknownEntity, match=r"no entity 'bluevan'.*'blue-van'.*panorama entities"):
            ask("bluevan")


def test_rename_keeps_pictures_and_refuses_a_taken_name(store):
    store.add_exemplars("cat", [exemplar(b"one")])
    store.add_exemplars("dog", [exemplar(b"two")])
    with pytest.raises(EntityError, match="an entity 'dog' already"):
        store.rename_entity("cat", "dog")
    store.rename_entity("cat", "cat")
    store.rename_entity("cat", "lion")
    assert store.entities() == ["dog", "lion"]
    assert [e.picture.read_bytes() for e in store.exemplars("lion")] == [b"one"]


def test_removing_an_exemplar_removes_its_picture(store):
    one, two = store.add_exemplars("cat", [exemplar(b"one"), exemplar(b"two")])
    store.remove_exemplars([one])
    assert [e.exemplar_id for e in store.exemplars("cat")] == [two]
    assert [p.read_bytes() for p in (store.path / "album").rglob("*.jpg")] == [b"two"]
    with pytest.raises(EntityError, match=f"no exemplar {one}"):
        store.remove_exemplars([one])


def test_exemplars_are_removed_all_or_none_and_each_once(store):
    one, two, three = store.add_exemplars("cat", [exemplar(b"one"), exemplar(b"two"), exemplar(b"three")])
    with pytest.raises(EntityError, match="no exemplar 999"):
        store.remove_exemplars([one, 999])
    assert [e.exemplar_id for e in store.exemplars("cat")] == [one, two, three]
    store.remove_exemplars([one, two, one])
    assert [e.exemplar_id for e in store.exemplars("cat")] == [three]
    assert [p.read_bytes() for p in (store.path / "album").rglob("*.jpg")] == [b"three"]
    version = store.snapshot().version
    store.remove_exemplars([])
    assert store.snapshot().version == version, "answers that are kept stay right"


def test_vectors_of_a_new_model_are_added_to_old_exemplars(store):
    one, two = store.add_exemplars("cat", [exemplar(b"one", vector=unit_vectors(1)[0]), exemplar(b"two")])
    assert [e.exemplar_id for e in store.missing_exemplar_vectors(MODEL, 1, 1)] == [two]
    assert [e.exemplar_id for e in store.missing_exemplar_vectors(MODEL, 2, 1)] == [one, two]
    vectors = unit_vectors(2, seed=4, dim=16)
    gone = {two + 1000: {("other", 1): vectors[:1]}}
    store.put_exemplar_vectors({one: {("other", 1): vectors[:1]}, two: {("other", 1): vectors[1:]}, **gone})
    assert store.missing_exemplar_vectors("other", 1, 1) == []
    np.testing.assert_array_equal(store.snapshot().album("other", 1).vectors, vectors)
    assert [e.exemplar_id for e in store.missing_exemplar_vectors("other", 1, 8)] == [one, two]


def test_drop_removes_pictures_rows_and_cached_answers(store):
    store.add_exemplars("cat", [exemplar(b"one")])
    store.add_exemplars("dog", [exemplar(b"two")])
    for entity in ("cat", "dog"):
        store.cache_sightings(entity, "k", f"sightings of {entity}".encode())
    store.drop_entity("cat")
    assert store.entities() == ["dog"] and store.cached_sightings("dog", "k") == b"sightings of dog"
    store.add_exemplars("cat", [exemplar(b"three")])
    assert store.cached_sightings("cat", "k") is None
    store.drop_entity("cat")
    store.drop_entity("dog")
    assert list((store.path / "album").rglob("*")) == []


def test_forget_leaves_no_byte_of_the_name_the_picture_or_the_vector(store):
    name, picture = "Erika-Mustermann", b"her only picture " * 40
    vector = unit_vectors(1, dim=64)[0]
    store.add_exemplars("somebody else", [exemplar(b"other")])
    store.add_exemplars(name, [exemplar(picture, vector=vector)])
    store.cache_sightings(name, "k", f"sightings of {name}".encode())
    before = everything(store)
    assert name.encode() in before and picture in before and vector.tobytes() in before
    store.forget_entity(name)
    after = everything(store)
    assert name.encode() not in after and picture not in after and vector.tobytes() not in after
    (row,) = store.info().erased
    assert hashlib.sha256(name.encode()).hexdigest() not in row.subject_hash, "names could be tried"
    assert row.action == "forget entity" and name not in row.detail
    assert store.entities() == ["somebody else"]


def test_no_name_can_be_tried_on_the_audit_log_not_on_rows_of_an_earlier_version_either(store):
    plain = hashlib.sha256(b"Erika").hexdigest()
    with store._place.catalog.write() as tx:
        tx.run(
            "INSERT INTO audit (at, action, subject_hash, detail) VALUES (1, 'forget entity', :plain, '')",
            plain=plain,
        )
    for _ in range(2):
        store.add_exemplars("Erika", [exemplar()])
        store.forget_entity("Erika")
    hashes = [row.subject_hash for row in store.info().erased]
    assert len(set(hashes)) == 3, "a hash still tells rows apart"
    assert all(len(one) == len("salted:") + 64 and one.startswith("salted:") for one in hashes)
    assert plain.encode() not in everything(store)


def test_forget_with_sightings_erases_crops_and_vectors_of_the_tracks(store):
    for k in range(3):
        index(store, f"{k}.mp4", seed=k)
    store.compact()
    index(store, "single.mp4", seed=9)
    store.add_exemplars("cat", [exemplar()])
    snapshot = store.snapshot()
    segments = dict(
        zip(snapshot.videos["video"].to_pylist(), snapshot.videos["segment"].to_pylist(), strict=True)
    )
    tracks = np.concatenate([pack_ids(segments["1.mp4"], [0, 2]), pack_ids(segments["single.mp4"], [1])])
    store.forget_entity("cat", tracks)
    kept = {j for batch in store.read_crops(segments=snapshot.live_segments) for j in batch.jpegs}
    expected = {jpeg(s, k) for s in (0, 1, 2, 9) for k in range(3)}
    assert kept == expected - {jpeg(1, 0), jpeg(1, 2), jpeg(9, 1)}
    assert store.snapshot().vectors(MODEL, 1).total == 9 == store.info().counts["crops"]
    assert jpegs_on_disk(store) == kept
    assert lacking(store, MODEL, 1) == []
    check_whole(store.snapshot())


def test_forget_says_so_when_a_reader_keeps_the_log_alive(store, monkeypatch):
    monkeypatch.setattr(catalog, "BUSY_SECONDS", 0.05)
    store.add_exemplars("cat", [exemplar()])
    with Store.open(store.path) as other, other._place.catalog.read() as tx:
        tx.rows("SELECT * FROM entities")
        with pytest.raises(LibraryWriteError, match=r"deleted bytes|locked"):
            store.forget_entity("cat")
    assert store.entities() == []


def test_of_a_look_alike_that_is_denied_the_last_word_counts(tmp_path):
    store = Store.create(tmp_path / "x")
    views = np.eye(2, dtype=np.float32)[:1]
    for denied in (False, True, False):
        no = NewExemplar(b"no", "no.jpg", negative=True, vectors={(MODEL, 1): views}, denied=denied)
        store.add_exemplars("van", [NewExemplar(b"yes", "yes.jpg", vectors={(MODEL, 1): views}), no])
        assert [one.denied for one in store.exemplars("van")] == [False, denied]
        assert store.snapshot().album(MODEL, 1).denied.tolist() == [False, denied]
        assert store.snapshot().entities.column("denied").to_pylist() == [denied]
    store.close()
