"""Entities that stand for any of their kind: how far examples reach, what is kept, how it is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film, write_picture
from store_samples import MODEL, exemplar, unit_vectors
from test_matching import TwoExits, by_track, source

from panorama.errors import AccuracyError, UnknownEntity
from panorama.query.decide import CATEGORY_REACH, Calibration, category_level, normalise
from panorama.query.matches import ACCEPTED, REJECTED, UNCERTAIN, MatchRequest
from panorama.query.matching import AlbumMatcher
from panorama.query.on_terms import match_on_terms
from panorama.query.terms import Contract

ANY = frozenset(("thing",))
NEAR = Calibration(0.5, 20.0, 0.2, 0.5, near_best=0.9, near_in_video=0.95)
OWNERS = [(1 << 32) + 1, (1 << 32) + 2, 2 << 32, 3 << 32]


def test_an_example_of_a_category_reaches_farther_and_the_same_picture_stays_the_best() -> None:
    level = np.array([0.2, 0.6], np.float32)
    similarity = np.linspace(-1, 1, 9, dtype=np.float32)[None].repeat(2, axis=0)
    one, any_ = normalise(similarity, level), normalise(similarity, category_level(level))
    np.testing.assert_allclose(1 - any_, (1 - one) / CATEGORY_REACH, atol=1e-5)
    assert (any_[:, :-1] > one[:, :-1]).all() and any_[:, -1] == pytest.approx([1, 1], abs=1e-6)


def test_members_of_a_category_are_less_alike_and_stand_beside_each_other() -> None:
    values = [0.95, 0.6, 0.45, 0.0]
    one = source(values, values, OWNERS)
    matched = AlbumMatcher(one, TwoExits(), (NEAR, NEAR)).match(MatchRequest())
    assert by_track(matched) == {OWNERS[0]: ACCEPTED, OWNERS[1]: UNCERTAIN, OWNERS[2]: UNCERTAIN}
    matcher = AlbumMatcher(replace(one, categories=ANY), TwoExits(), (NEAR, NEAR))
    assert by_track(matcher.match(MatchRequest())) == dict.fromkeys(OWNERS[:3], ACCEPTED)
    every = matcher.match(MatchRequest(keep="all"))
    assert by_track(every) == {**dict.fromkeys(OWNERS[:3], ACCEPTED), OWNERS[3]: REJECTED}
    score = NEAR.score(1 - (1 - np.array(values)) / CATEGORY_REACH)  # as it is: nothing fades behind the best
    assert every.score == pytest.approx(score, abs=1e-5)


def test_an_index_is_asked_as_far_as_a_category_reaches() -> None:
    values = [0.95, 0.6, 0.3, 0.0]
    some = replace(source(values, values, OWNERS), categories=ANY)
    exact = AlbumMatcher(some, TwoExits(), (NEAR, NEAR)).match(MatchRequest())
    found = AlbumMatcher(replace(some, searched=[]), TwoExits(), (NEAR, NEAR)).match(MatchRequest())
    assert by_track(found) == by_track(exact) and OWNERS[2] in by_track(exact)


@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_no_accuracy_is_promised_of_a_category(kind) -> None:
    values = [0.95, 0.6]
    some = replace(source(values, values, OWNERS[:2]), categories=ANY)
    request = MatchRequest(("thing",), contract=Contract(kind, 0.9))
    with pytest.raises(AccuracyError, match="'thing' is a category"):
        match_on_terms(AlbumMatcher(some, TwoExits(), (NEAR, NEAR)), request, [])


def test_the_store_keeps_which_entities_are_categories(store) -> None:
    for name, vector in zip(("aunt", "zebra"), unit_vectors(2), strict=True):
        store.add_exemplars(name, [exemplar(name.encode(), vector=vector)])
    before = store.snapshot()
    store.set_category("zebra", True)
    after = store.snapshot()
    assert before.album(MODEL, 1).categories == frozenset() and before.version != after.version
    assert after.album(MODEL, 1).categories == after.album(MODEL, 1).averaged().categories == {"zebra"}
    assert after.entities.column("category").to_pylist() == [False, True]
    store.rename_entity("zebra", "horse")
    assert store.snapshot().album(MODEL, 1).categories == {"horse"}
    store.set_category("horse", False)
    assert store.snapshot().album(MODEL, 1).categories == frozenset()
    with pytest.raises(UnknownEntity):
        store.set_category("zebra", True)


@pytest.fixture
def reds(run, tmp_path):
    """A library with a red film and one of another red, and pictures of red."""
    write_film(tmp_path / "red.mp4", [Thing("red", 5, 35)])
    write_film(tmp_path / "both.mp4", [Thing("red", 5, 35, top=10), Thing("blue", 10, 30, top=70)])
    run("index", ".", "--model", "color-bands")
    for color in ("red", "blue"):
        write_picture(tmp_path / f"{color}.png", thing_picture(color))
    return tmp_path


def kinds(run):
    return {row["entity"]: row["category"] for row in run("entities", "--json").json}


def test_the_command_line_says_which_kind_an_entity_is_and_changes_it(run, reds) -> None:
    assert run("register", "paint", "red.png", "--category").err == "paint, a category: 1 example\n"
    assert run("register", "van", "red.png").err == "van: 1 example\n"
    assert kinds(run) == {"paint": True, "van": False}
    assert run("entities").out.splitlines() == [
        "entity  exemplars  negatives  category",
        "paint   1          0          yes",
        "van     1          0",
    ]
    # More pictures leave it as it is; it may be said without one.
    assert run("register", "paint", "blue.png").err == "paint, a category: 2 examples\n"
    assert run("register", "paint", "--instance").err == "paint: 2 examples\n"
    assert run("register", "van", "--category").err == "van, a category: 1 example\n"
    assert kinds(run) == {"paint": False, "van": True}
    unknown = run("register", "vam", "--category")
    assert unknown.status == 1 and "Did you mean 'van'" in unknown.err
    (reds / "album" / "sky").mkdir(parents=True)
    (reds / "blue.png").rename(reds / "album" / "sky" / "1.png")
    assert run("register", "--album", "album", "--category").err == "sky, a category: 1 example\n"


def test_sql_says_it_too_and_answers_change_with_it(run, reds) -> None:
    def scores():
        rows = run("query", "SELECT tracks WHERE entity = 'x' AND score >= 0", "--format", "json").json
        return [row["score"] for row in sorted(rows, key=lambda row: row["track_id"])]

    assert run("query", "CREATE ENTITY 'x' AS CATEGORY FROM 'red.png'").status == 0
    shown = run("query", "SELECT * FROM entities", "--format", "json").json
    assert shown == [{"entity": "x", "exemplars": 1, "negatives": 0, "category": True}]
    as_category = scores()
    assert run("query", "ALTER ENTITY 'x' SET INSTANCE", "--format", "json").json == [
        {"action": "changed", "entity": "x"}
    ]
    assert scores() != as_category and len(as_category) >= 2
    run("query", "ALTER ENTITY 'x' SET CATEGORY")
    assert scores() == as_category
    wrong = run("query", "ALTER ENTITY 'x' SET KIND")
    assert wrong.status == 1 and "SET CATEGORY or SET INSTANCE" in wrong.err
