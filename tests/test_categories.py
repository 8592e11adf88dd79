"""Entities that stand for any of their kind: how far examples reach, what is kept, how it is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film, write_picture
from numpy.typing import NDArray
from store_samples import MODEL, exemplar, unit_vectors
from test_matching import Remembered, TwoExits, by_track, source
from test_on_terms import Ticking, accepted, many_tracks

from panorama.errors import AccuracyError, UnknownEntity
from panorama.models.base import Cohort
from panorama.query.matching.category import CATEGORY_REACH, MOST_SHARE, as_category, stranger_plane
from panorama.query.matching.cost import Costs
from panorama.query.matching.decide import Calibration, levels_together, normalise
from panorama.query.matching.matcher import AlbumMatcher
from panorama.query.matching.matches import ACCEPTED, REJECTED, UNCERTAIN, MatchRequest
from panorama.query.matching.on_terms import match_on_terms
from panorama.query.matching.scoring import SAME_PICTURE, Sought, denied_values, with_mean
from panorama.query.shorthands.terms import Contract
from panorama.store import Album

ANY = frozenset(("thing",))
NEAR = Calibration(0.5, 20.0, 0.2, 0.5, near_best=0.9, near_in_video=0.95)
OWNERS = [(1 << 32) + 1, (1 << 32) + 2, 2 << 32, 3 << 32]


NONE = np.zeros((0, 8), np.float32)


@pytest.fixture
def draw() -> np.random.Generator:
    """Of each test its own: one that all drew from made what a test saw depend on those before it."""
    return np.random.default_rng(0)


def units(draw: np.random.Generator, count: int, dim: int = 8, around: float = 0.0) -> NDArray[np.float32]:
    """Unit vectors (count, dim); the larger `around`, the more alike."""
    rows = draw.normal(size=(count, dim)) + around * np.eye(dim)[0]
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def test_without_strangers_an_example_of_a_category_reaches_farther_and_that_is_all(
    draw: np.random.Generator,
) -> None:
    level, rows = np.array([0.2, 0.6], np.float32), units(draw, 2)
    same, reaching = as_category(rows, rows, level, NONE, NONE)
    similarity = np.linspace(-1, 1, 9, dtype=np.float32)[None].repeat(2, axis=0)
    one, any_ = normalise(similarity, level), normalise(similarity, reaching)
    assert same is rows
    np.testing.assert_allclose(1 - any_, (1 - one) / CATEGORY_REACH, atol=1e-5)
    assert any_[:, -1] == pytest.approx([1, 1], abs=1e-6)


def test_a_crop_is_worth_the_nearest_view_and_what_all_views_share(draw: np.random.Generator) -> None:
    shares = []
    for _ in range(20):
        views, cohort, crops = units(draw, 6, around=4.0), units(draw, 40), units(draw, 30)
        positive = with_mean(views)
        level = levels_together(positive, Cohort.plain(cohort))
        rows, reaching = as_category(views, positive, level, NONE, cohort)
        weights, offset, share = stranger_plane(views, NONE, cohort)
        shares.append(share)
        plane = crops @ weights + offset
        nearest = normalise(positive @ crops.T, level).max(axis=0)
        worth = (1 - share) * nearest + share * plane
        found = normalise(rows @ crops.T, reaching).max(axis=0)
        np.testing.assert_allclose(found, 1 - (1 - worth) / CATEGORY_REACH, atol=1e-4)
    assert max(shares) == MOST_SHARE and min(shares) < 0.4  # whatever they share, and not only the most


def test_the_plane_is_1_where_the_views_are_and_0_at_the_nearest_strangers(draw: np.random.Generator) -> None:
    views, cohort = units(draw, 6, around=2.0), units(draw, 40)
    weights, offset, _ = stranger_plane(views, NONE, cohort)
    assert float((views @ weights + offset).mean()) == pytest.approx(1)
    among = np.sort(cohort @ weights + offset)
    assert among[-3:].mean() == pytest.approx(0, abs=1e-9) and among[:-3].max() <= among[-3]
    # What all views share tells more than what each has of its own.
    assert weights[0] > 2 * np.abs(weights[1:]).max()


def test_look_alikes_turn_the_plane_away_from_what_they_show(draw: np.random.Generator) -> None:
    views, cohort, rivals = units(draw, 6, around=5.0), units(draw, 40), units(draw, 6, around=5.0)
    rivals[:, 1] += 1.0
    rivals /= np.linalg.norm(rivals, axis=1, keepdims=True)
    plain, turned = (stranger_plane(views, some, cohort) for some in (NONE, rivals))
    assert plain is not None and turned is not None
    lead = [float((views @ w).mean() - (rivals @ w).mean()) for w, *_ in (plain, turned)]
    assert lead[1] > lead[0] + 0.1
    assert float((views @ turned[0] + turned[1]).mean()) == pytest.approx(1)


def test_where_views_are_strangers_there_is_no_plane(draw: np.random.Generator) -> None:
    cohort = units(draw, 40)
    assert stranger_plane(cohort, NONE, cohort) is None
    level = np.full(40, 0.5, np.float32)
    rows, reaching = as_category(cohort, cohort, level, NONE, cohort)
    assert rows is cohort and reaching == pytest.approx(1 - CATEGORY_REACH * 0.5)


def test_where_views_share_little_what_they_share_counts_for_little(draw: np.random.Generator) -> None:
    cohort, nothing = units(draw, 300, 32), np.zeros((0, 32), np.float32)
    shares = []
    for around in (8.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.0):
        views = units(draw, 12, 32, around)
        positive = with_mean(views)
        level = levels_together(positive, Cohort.plain(cohort))
        rows, reaching = as_category(views, positive, level, nothing, cohort)
        plane = stranger_plane(views, nothing, cohort)
        shares.append(0.0 if plane is None else plane[2])
        # The nearest strangers are no nearer than to an individual, others not far from there.
        at_most = 1 - 1 / CATEGORY_REACH
        assert np.sort(normalise(rows @ cohort.T, reaching).max(axis=0))[-3:].mean() <= at_most + 1e-4
        assert normalise(rows @ units(draw, 2000, 32).T, reaching).max() < 1
    assert shares[0] == MOST_SHARE and shares == sorted(shares, reverse=True) and shares[-3:] == [0, 0, 0]


def test_of_three_strangers_none_is_farther_than_the_nearest_and_there_is_no_plane(
    draw: np.random.Generator,
) -> None:
    views, cohort = units(draw, 4, around=2.0), units(draw, 3)
    level = levels_together(views, Cohort.plain(cohort))
    rows, reaching = as_category(views, views, level, NONE, cohort)
    assert rows is views
    np.testing.assert_allclose(reaching, 1 - CATEGORY_REACH * (1 - level), rtol=1e-6)


def test_a_plane_that_no_similarity_can_stand_for_is_left_out(draw: np.random.Generator) -> None:
    # Strangers in a narrow cone around an axis, views around the same one and far apart from each other.
    for _ in range(3000):
        cohort = draw.normal(size=(20, 3)) + draw.choice([3.0, 10.0]) * np.eye(3)[0]
        views = draw.normal(size=(20, 3)) + draw.choice([0.3, 1.0, 3.0]) * np.eye(3)[0]
        cohort, views = (np.float32(v / np.linalg.norm(v, axis=1, keepdims=True)) for v in (cohort, views))
        level = levels_together(views, Cohort.plain(cohort))
        rows, reaching = as_category(views, views, level, np.zeros((0, 3), np.float32), cohort)
        assert np.isfinite(rows).all() and (reaching < 1).all()


def test_a_picture_of_one_view_counts_as_much_for_a_category_as_one_of_many(
    draw: np.random.Generator,
) -> None:
    once, cohort, crop = units(draw, 3, 8, 2.0), units(draw, 40), units(draw, 1)
    rivals = units(draw, 2, 8, 1.0)
    ids, other = np.array([4, 4, 4, 4, 7, 9]), np.array([12, 12, 12, 15])
    views, unlike = once[[0, 0, 0, 0, 1, 2]], rivals[[0, 0, 0, 1]]
    each, many = stranger_plane(once, rivals, cohort), stranger_plane(views, unlike, cohort, (ids, other))
    assert each is not None and many is not None
    np.testing.assert_allclose(many[0], each[0], rtol=1e-6)
    assert many[1:] == pytest.approx(each[1:])
    # So it is where an album is asked.
    none = np.zeros(10, np.bool_)
    album = Album(
        ("thing",),
        np.zeros(10, np.int32),
        np.concatenate([ids, other]),
        np.arange(10) >= 6,
        none,
        np.concatenate([views, unlike]),
        ANY,
    )
    found, positive = Sought.of(album, "thing", Cohort.plain(cohort)), with_mean(views)
    level = levels_together(positive, Cohort.plain(cohort))
    rows, reaching = as_category(views, positive, level, unlike, cohort, (ids, other))
    np.testing.assert_array_equal(found.positive, rows)
    np.testing.assert_array_equal(found.level[: len(rows)], reaching)
    unweighed, _ = as_category(views, positive, level, unlike, cohort)
    assert not np.allclose(rows @ crop.T, unweighed @ crop.T)


def test_what_an_index_is_asked_for_is_all_that_is_worth_a_value(draw: np.random.Generator) -> None:
    views, cohort, crops = units(draw, 6, around=2.0), units(draw, 40), units(draw, 400, around=1.0)
    index, ids, no = np.zeros(6, np.int32), np.arange(6), np.zeros(6, np.bool_)
    for categories in (frozenset(), ANY):
        one = Sought.of(
            Album(("thing",), index, ids, no, no, views, categories), "thing", Cohort.plain(cohort)
        )
        queries, least = one.near(0.3)
        np.testing.assert_allclose(np.linalg.norm(queries, axis=1), 1, rtol=1e-5)
        values = normalise(one.positive @ crops.T, one.level)
        assert ((queries @ crops.T >= least[:, None] - 1e-5) >= (values >= 0.3)).all()
        assert ((queries @ crops.T >= least[:, None] + 1e-5) <= (values >= 0.3)).all()
        assert 0 < (values >= 0.3).sum() < values.size


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


def test_what_was_denied_is_told_from_the_nearest_example_whatever_all_of_them_share(
    draw: np.random.Generator,
) -> None:
    views, cohort = units(draw, 6, 8, 4.0), units(draw, 40)
    shared = with_mean(views)[-1:]  # a track right in the middle of the category
    album = Album(
        ("thing",),
        np.zeros(7, np.int32),
        np.arange(7),
        np.arange(7) == 6,
        np.arange(7) == 6,
        np.concatenate([views, shared]),
        ANY,
    )
    crop = np.asarray(shared + 0.02 * units(draw, 1), np.float32)
    crop /= np.linalg.norm(crop)
    plain = replace(album, categories=frozenset())
    as_one, as_any = (Sought.of(some, "thing", Cohort.plain(cohort)) for some in (plain, album))
    own = normalise(as_any.positive @ crop.T, as_any.level[: len(as_any.positive)]).max()
    assert own > normalise(as_any.denied @ crop.T, as_any.denied_level).max()
    assert denied_values(as_any, crop) > SAME_PICTURE
    np.testing.assert_array_equal(denied_values(as_any, crop), denied_values(as_one, crop))


def test_what_a_new_video_adds_to_a_category_needs_no_look_at_the_old_ones() -> None:
    values, owners = [0.7, 0.6, 0.95], [1 << 32, (1 << 32) + 1, 2 << 32]
    passes = {}
    for kind in (frozenset(), ANY):
        known = Remembered()
        old = replace(source(values[:2], values[:2], owners[:2]), categories=kind)
        AlbumMatcher(old, TwoExits(), (NEAR, NEAR), known).match(MatchRequest())
        new = replace(source(values, values, owners), categories=kind, searched=[])
        grown = AlbumMatcher(new, TwoExits(), (NEAR, NEAR), known, Costs(row=1.0))  # so by the index
        fresh = AlbumMatcher(replace(new, searched=[]), TwoExits(), (NEAR, NEAR))
        assert by_track(grown.match(MatchRequest())) == by_track(fresh.match(MatchRequest()))
        assert grown.best("thing") == fresh.best("thing")
        passes[kind] = len(new.searched)
    assert passes == {
        frozenset(): 2,
        ANY: 1,
    }  # a better track is what others of an individual stand back from


def test_out_of_time_tracks_of_a_category_are_accepted_as_in_time() -> None:
    fake, matcher = many_tracks(near_best=0.99)
    fake.categories = ANY
    request = MatchRequest(("thing",))
    complete = accepted(matcher.match(request))
    assert set(range(64)) < complete and not set(range(64)) <= accepted(many_tracks(0.99)[1].match(request))
    found = match_on_terms(matcher, replace(request, budget=Ticking(3)), [])
    assert accepted(found) == set(range(64))  # all that were looked at


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
    assert (
        run("register", "paint", "red.png", "--category").err == "new entity paint, a category: 1 example\n"
    )
    assert run("register", "van", "red.png").err == "new entity van: 1 example\n"
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
    # What needs a picture is not passed over where there is none.
    for option, said in ((["--find"], "no picture given"), (["--box", "1,2,3,4"], "0 were given")):
        without = run("register", "van", "--instance", *option)
        assert without.status == 2 and said in without.err
    assert kinds(run) == {"paint": False, "van": True}
    unknown = run("register", "vam", "--category")
    assert unknown.status == 1 and "Did you mean 'van'" in unknown.err
    (reds / "album" / "sky").mkdir(parents=True)
    (reds / "blue.png").rename(reds / "album" / "sky" / "1.png")
    assert run("register", "--album", "album", "--category").err == "new entity sky, a category: 1 example\n"


def test_sql_says_it_too_and_answers_change_with_it(run, reds) -> None:
    def scores():
        rows = run("query", "SELECT tracks WHERE entity = 'x' AND score >= 0", "--format", "json").json
        return [row["score"] for row in sorted(rows, key=lambda row: row["track_id"])]

    assert run("query", "CREATE ENTITY 'x' AS CATEGORY FROM 'red.png'").status == 0
    shown = run("query", "SELECT * FROM entities", "--format", "json").json
    assert shown == [{"entity": "x", "exemplars": 1, "negatives": 0, "category": True}]
    assert run("query", "SHOW ENTITIES", "--format", "json").json == shown
    assert run("query", "DESCRIBE ENTITY 'x'", "--format", "json").json[0]["category"] is True
    as_category = scores()
    assert run("query", "ALTER ENTITY 'x' SET INSTANCE", "--format", "json").json == [
        {"action": "changed", "entity": "x"}
    ]
    assert scores() != as_category and len(as_category) >= 2
    run("query", "ALTER ENTITY 'x' SET CATEGORY")
    assert scores() == as_category
    wrong = run("query", "ALTER ENTITY 'x' SET KIND")
    assert wrong.status == 1 and "CATEGORY or INSTANCE after SET" in wrong.err
