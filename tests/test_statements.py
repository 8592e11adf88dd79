"""Statements about entities, from text to the library on disk and back in answers."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from fakes import Thing, thing_picture, write_film, write_picture

import panorama
from panorama.album import registering, vocabulary
from panorama.album.vocabulary import execute
from panorama.errors import BadImage, EntityError, QueryError, UnknownEntity
from panorama.query.text.statements import AddExemplars, CreateEntity


@pytest.fixture
def library(tmp_path, fake_proposer, monkeypatch):
    """Red in one.mp4, blue in two.mp4; pictures of four colours to name, nothing registered."""
    monkeypatch.chdir(tmp_path)
    write_film(tmp_path / "v" / "one.mp4", [Thing("red", 5, 35)])
    write_film(tmp_path / "v" / "two.mp4", [Thing("blue", 5, 35)])
    for color in ("red", "blue", "green", "yellow"):
        write_picture(tmp_path / "album" / f"{color}.png", thing_picture(color))
    with panorama.open(tmp_path / "library", create=True) as made:
        made.index("v", model="color-bands")
        yield made


def seen(library, entity):
    sql = "SELECT DISTINCT video FROM (SELECT frames WHERE entity = ?) ORDER BY video"
    return [row[0] for row in library.query(sql, [entity]).fetchall()]


def counts(library):
    return [tuple(row)[:3] for row in library.query("SHOW ENTITIES").fetchall()]


def test_an_entity_lives_from_create_to_forget(library):
    assert counts(library) == []
    made = library.query(
        "CREATE ENTITY 'Thing' FROM 'album/red.png' NOT FROM 'album/green.png', 'album/yellow.png'"
    )
    assert made.fetchall() == [("created", "Thing")]
    assert counts(library) == [("Thing", 1, 2)]
    assert seen(library, "Thing") == ["one.mp4"]
    library.query("ALTER ENTITY 'Thing' ADD 'album/blue.png'")
    assert counts(library) == [("Thing", 2, 2)]
    assert seen(library, "Thing") == ["one.mp4", "two.mp4"]
    library.query("alter entity 'Thing' remove 'red.png'")
    assert seen(library, "Thing") == ["two.mp4"]
    library.query("ALTER ENTITY 'Thing' RENAME TO 'blue thing'")
    with pytest.raises(UnknownEntity):
        seen(library, "Thing")
    assert seen(library, "blue thing") == ["two.mp4"]
    library.query("ALTER ENTITY 'blue thing' ADD NOT 'album/red.png'")
    assert counts(library) == [("blue thing", 1, 3)]
    library.query("DROP ENTITY 'blue thing'")
    assert counts(library) == []
    with pytest.raises(UnknownEntity):
        library.query("DROP ENTITY 'blue thing'")
    gone = library.query("DROP ENTITY IF EXISTS 'blue thing'")
    assert gone.fetchall() == [("was not there", "blue thing")]


def test_create_takes_folders_patterns_and_lists_and_does_all_or_nothing(library):
    library.query("CREATE ENTITY 'many' FROM 'album/*.png'")
    assert counts(library) == [("many", 4, 0)]
    library.query("CREATE ENTITY 'folder' FROM 'album'")
    assert counts(library)[0] == ("folder", 4, 0)
    with pytest.raises(EntityError, match="ALTER ENTITY 'many' ADD"):
        library.query("CREATE ENTITY 'many' FROM 'album/red.png'")
    library.query("CREATE ENTITY 'O''Brien' FROM 'album/red.png'")
    with pytest.raises(EntityError, match="ALTER ENTITY 'O''Brien' ADD"):  # it was "O'Brien"
        library.query("CREATE ENTITY 'O''Brien' FROM 'album/red.png'")
    library.query("DROP ENTITY 'O''Brien'")
    with pytest.raises(BadImage, match="no image at"):
        library.query("CREATE ENTITY 'half' FROM 'album/red.png', 'album/nosuch.png'")
    assert [name for name, *_ in counts(library)] == ["folder", "many"]


@pytest.mark.parametrize(
    ("before", "mine", "theirs", "error", "left"),
    [
        # Both said "created", and the entity had the pictures of both.
        (None, "CREATE ENTITY 'x' FROM 'album/red.png'", "CREATE ENTITY 'x' FROM 'album/blue.png'",
         EntityError("there is an entity 'x' already; choose another name or drop it first"), [("x", 1, 0)]),
        # It came back, with that one picture.
        ("CREATE ENTITY 'x' FROM 'album/red.png'", "ALTER ENTITY 'x' ADD 'album/blue.png'", "DROP ENTITY 'x'",
         UnknownEntity("no entity 'x'"), []),
    ],
)  # fmt: skip
def test_what_another_process_makes_or_drops_meanwhile_is_noticed(
    library, tmp_path, monkeypatch, before, mine, theirs, error, left
):
    if before:
        library.query(before)
    embed = registering.ready_for

    def slow(*given):
        monkeypatch.setattr(registering, "ready_for", embed)
        with panorama.open(tmp_path / "library") as other:
            other.query(theirs)
        return embed(*given)

    monkeypatch.setattr(registering, "ready_for", slow)
    with pytest.raises(type(error), match=str(error)):
        library.query(mine)
    assert counts(library) == left
    assert len(list((tmp_path / "library" / "album").rglob("*.jpg"))) == sum(n for _, n, _ in left)


def test_pictures_are_named_as_the_statement_names_them(library, tmp_path):
    """They were named by their whole path, which similarity('...') and verify do not do."""
    (tmp_path / "album" / "broken.jpg").write_bytes(b"no picture")
    (tmp_path / "none").mkdir()
    create, add = "CREATE ENTITY 'x' FROM {}", "ALTER ENTITY 'y' ADD {}"
    library.query("CREATE ENTITY 'y' FROM 'album/red.png'")
    for statement in (create, add, "CREATE ENTITY 'x' FROM 'album/red.png' NOT FROM {}"):
        for text, named in (
            ("'album/broken.jpg'", "album/broken.jpg"),
            ("'album/*.jpg'", "album/broken.jpg"),
            ("'album/nosuch.png'", "album/nosuch.png"),
            ("'none'", "none"),
        ):
            with pytest.raises(BadImage) as found:
                library.query(statement.format(text))
            assert named in str(found.value) and str(tmp_path) not in str(found.value), str(found.value)
        with pytest.raises(BadImage, match=re.escape(f"{tmp_path}/album/broken.jpg")):
            library.query(statement.format(f"'{tmp_path}/album/broken.jpg'"))
    (tmp_path / "album" / "broken.jpg").unlink()
    (tmp_path / "album" / "more" / "below").mkdir(parents=True)
    told = library.query(create.format("'album'")).warnings
    assert told and not any(str(tmp_path) in line for line in told) and any("album" in line for line in told)


@pytest.mark.parametrize("named", ["album/red.png", "album/r*.png", "album", "{root}/album/r[e]d.png"])
def test_a_folder_may_have_brackets_in_its_path(library, tmp_path, named):
    """Every picture below it was said to lie outside."""
    root = tmp_path / "Photos [2024]" / "what?"
    write_picture(root / "album" / "red.png", thing_picture("red"))
    library.query(f"CREATE ENTITY 'x' FROM '{named.format(root=root)}'", picture_root=root)
    assert [e.source for e in library.exemplars("x")] == [str(root / "album" / "red.png")]
    for outside in ("../*.png", f"{tmp_path}/album/*.png", "[a-z]*/../../*.png"):
        with pytest.raises(QueryError, match="outside"):
            library.query(f"CREATE ENTITY 'y' FROM '{outside}'", picture_root=root)


@pytest.mark.parametrize("named", ["album/café/Zoë.png", "album/caf*/Zoë*", "album/café"])
def test_pictures_with_names_from_a_mac_are_found_as_they_are_typed(library, tmp_path, named):
    """Their accents are decomposed: similarity('café.jpg') found them, CREATE ENTITY and REMOVE did not."""
    place = tmp_path / unicodedata.normalize("NFD", "album/café/Zoë.png")
    write_picture(place, thing_picture("red"))
    library.query(f"CREATE ENTITY 'x' FROM '{named}' NOT FROM 'album/blue.png'")
    assert library.register("y", tmp_path / named).exemplars == 1
    assert library.exemplars("x")[0].source == str(place)
    assert library.query("SELECT verify('album/café/Zoë.png', 'album/red.png')").fetchall() == [(True,)]
    for text in ("Zoë.png", "album/café/Zoë.png"):
        library.query(f"ALTER ENTITY 'x' REMOVE '{text}'")
        assert counts(library)[0] == ("x", 0, 1)
        library.query(f"ALTER ENTITY 'x' ADD '{named}'")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("/data/x/1.png is small: '/data/x 2/1.png' (/data/2.png)", "x/1.png is small: 'x 2/1.png' (2.png)"),
        ("take it out: panorama --library /mnt/data/lib exemplars x", None),  # it was /mntlib
        ("take it out: panorama --library /data/lib exemplars x", None),
        ("take it out: panorama --library '/data/my lib' exemplars x", None),
    ],
)
def test_only_pictures_are_named_from_the_root(told, shown):
    """Commands got another library's path."""
    assert vocabulary._as_written(told, CreateEntity("x", ("x/1.png",)), Path("/data")) == (shown or told)


def test_pictures_outside_of_the_root_are_refused_also_behind_links(library, tmp_path, tmp_path_factory):
    outside = write_picture(tmp_path_factory.mktemp("outside") / "x.png", thing_picture("red"))
    (tmp_path / "album" / "link.png").symlink_to(outside)
    (tmp_path / "linked").symlink_to(outside.parent)
    for text in (
        f"'{outside}'", "'../x.png'", "'album/../../*.png'", "'album/link.png'", "'album/l*.png'", "'album'",
        "'linked'", "'linked/x.png'", "'l*ked/x.png'", "'linke[d]/*.png'", "'*/x.png'",
    ):  # fmt: skip
        with pytest.raises(QueryError, match=r"out.*picture_root=FOLDER"):
            library.query(f"CREATE ENTITY 'x' FROM {text}")
        with pytest.raises(QueryError, match=r"out.*picture_root=FOLDER"):
            library.query(f"CREATE ENTITY 'x' FROM 'album/red.png' NOT FROM {text}")
    for text in (f"'{outside}'", "'album/link.png'", "'linked/x.png'"):
        with pytest.raises(QueryError, match="outside"):
            library.query(f"SELECT crops ORDER BY similarity({text})")
        with pytest.raises(QueryError, match="outside"):
            library.query(f"SELECT verify('album/red.png', {text})")
    assert counts(library) == []
    library.query(f"CREATE ENTITY 'x' FROM '{outside}'", picture_root=outside.parent)  # as the error advises
    assert [name for name, *_ in counts(library)] == ["x"]


def test_pictures_are_removed_all_or_none_and_each_once(library):
    """The first went although the second was none, and one that was named twice was an error."""
    library.query("CREATE ENTITY 'x' FROM 'album/red.png', 'album/blue.png', 'album/green.png'")
    number = library.exemplars("x")[0].exemplar_id
    with pytest.raises(BadImage, match=r"no exemplar 'typo\.png'"):
        library.query(f"ALTER ENTITY 'x' REMOVE '{number}', 'typo.png'")
    assert counts(library) == [("x", 3, 0)]
    library.query(f"ALTER ENTITY 'x' REMOVE '{number}', 'red.png', 'blue.png', 'blue.png'")
    assert [Path(e.source).name for e in library.exemplars("x")] == ["green.png"]


@pytest.mark.parametrize(
    "named", ["album/red.png", "./album/red.png", "{root}/album/red.png", "linked/red.png"]
)
def test_a_picture_is_removed_by_the_path_that_it_was_given_by(library, tmp_path, named):
    """Only the whole path and the bare name were taken."""
    (tmp_path / "linked").symlink_to(tmp_path / "album")
    library.query("CREATE ENTITY 'x' FROM 'album/red.png', 'album/blue.png'")
    library.query(f"ALTER ENTITY 'x' REMOVE '{named.format(root=tmp_path)}'")
    assert [Path(e.source).name for e in library.exemplars("x")] == ["blue.png"]


def test_a_name_that_fits_several_pictures_removes_none(library, tmp_path):
    """It removed all of them, example and look-alike alike."""
    for place, color in (("ra/1.png", "red"), ("rb/1.png", "blue"), ("1.png", "green")):
        write_picture(tmp_path / place, thing_picture(color))
    library.query("CREATE ENTITY 'it''s' FROM 'ra/1.png' NOT FROM 'rb/1.png'")
    first, second = library.exemplars("it's")
    told = (
        f"'1.png' fits 2 exemplars of \"it's\": {first.exemplar_id} (ra/1.png, example), {second.exemplar_id}"
        f" (rb/1.png, look-alike). Name one by its id, ALTER ENTITY 'it''s' REMOVE '{first.exemplar_id}', or"
    )
    with pytest.raises(BadImage, match=re.escape(told)):
        library.query("ALTER ENTITY 'it''s' REMOVE '1.png'")
    assert counts(library) == [("it's", 1, 1)]
    library.query("ALTER ENTITY 'it''s' ADD '1.png'")  # this one has the very path
    library.query("ALTER ENTITY 'it''s' REMOVE '1.png'")
    assert library.exemplars("it's") == [first, second]
    library.query(f"ALTER ENTITY 'it''s' REMOVE '{second.exemplar_id}'")
    assert library.exemplars("it's") == [first]


@pytest.mark.parametrize("typed", ["Zoë ", "Zoe\u0308", " Zoe\u0308  "])
def test_a_name_is_known_however_it_is_typed(library, typed):
    """CREATE ENTITY of such a name added pictures to the entity that was there."""
    library.query("CREATE ENTITY 'Zoë' FROM 'album/red.png'")
    with pytest.raises(EntityError, match="there is an entity"):
        execute(library, CreateEntity(typed, ("album/blue.png",)), Path.cwd())
    assert counts(library) == [("Zoë", 1, 0)]
    made = execute(library, AddExemplars(typed, ("album/blue.png",)), Path.cwd())
    assert made.fetchall() == [("added to", "Zoë")]
    assert library.entity(typed).exemplars == 2


def test_describe_tells_least_similarity_spread_and_the_nearest_other_entity(library):
    library.query("CREATE ENTITY 'warm' FROM 'album/red.png', 'album/yellow.png'")
    (alone,) = library.query("DESCRIBE ENTITY 'warm'").arrow().to_pylist()
    assert alone["nearest"] is None and alone["spread"] > 0
    library.query("CREATE ENTITY 'red' FROM 'album/red.png'")
    (told,) = library.query("DESCRIBE ENTITY 'warm'").arrow().to_pylist()
    assert (told["entity"], told["exemplars"], told["negatives"], told["nearest"]) == ("warm", 2, 0, "red")
    assert told["nearest_similarity"] == pytest.approx(1, abs=1e-5)
    assert 0 < told["least_similarity"] < 1
    (single,) = library.query("DESCRIBE ENTITY 'red'").arrow().to_pylist()
    assert single["spread"] is None
    library.query("CREATE ENTITY 'blue' FROM 'album/blue.png' NOT FROM 'album/red.png', 'album/yellow.png'")
    library.query("ALTER ENTITY 'red' ADD NOT 'album/blue.png'")
    (beside,) = library.query("DESCRIBE ENTITY 'red'").arrow().to_pylist()
    assert {**beside, "negatives": 0} == single, "a look-alike is no other entity, and is not found itself"
    album = library.snapshot().album(library.embedder.hash, 1).averaged()
    owners = [album.entities[i] for i in album.entity_index]
    first, second = (album.vectors[i] for i, owner in enumerate(owners) if owner == "warm")
    assert told["spread"] == pytest.approx(1 - float(first @ second), abs=1e-5)


def test_forget_erases_and_with_sightings_takes_the_crops_too(library):
    library.query("CREATE ENTITY 'red' FROM 'album/red.png'")
    library.query("CREATE ENTITY 'blue' FROM 'album/blue.png'")
    track = library.query("SELECT track_id FROM sightings WHERE entity = 'red'").fetchall()[0][0]
    held = "SELECT count(*) FROM crops WHERE track_id = ?"
    assert library.query(held, [track]).fetchall()[0][0] > 0
    library.query("FORGET ENTITY 'blue'")
    assert seen(library, "red") == ["one.mp4"]
    library.query("FORGET ENTITY 'red' WITH SIGHTINGS")
    assert library.query(held, [track]).fetchall() == [(0,)]
    assert not [p for p in (library.path / "album").rglob("*") if p.is_file()]
    library.query("CREATE ENTITY 'red' FROM 'album/red.png'")
    assert seen(library, "red") == []


def test_names_patterns_and_their_absence(library):
    library.query("CREATE ENTITY 'red' FROM 'album/red.png'")
    library.query("CREATE ENTITY 'blue' FROM 'album/blue.png'")

    def asked(condition):
        rows = library.query(f"SELECT DISTINCT video, entity FROM (SELECT frames WHERE {condition})")
        return sorted((video, entity) for video, entity in rows.fetchall())

    red, blue = ("one.mp4", "red"), ("two.mp4", "blue")
    assert asked("entity IN ('red', 'blue')") == asked("entity IS NOT NULL") == [red, blue]
    assert asked("entity LIKE 'r%'") == asked("entity <> 'blue'") == asked("entity NOT IN ('blue')") == [red]
    assert asked("entity = 'red' OR entity = 'blue'") == [red, blue]
    assert asked("entity = 'red' AND entity = 'blue'") == asked("entity LIKE 'x%'") == []
    assert {video for video, _ in asked("NOT entity = 'red' AND video = 'two.mp4'")} == {"two.mp4"}
    unknown = library.query("SELECT tracks WHERE entity IS NULL").fetchall()
    taken = {row[0] for row in library.query("SELECT track_id FROM sightings").fetchall()}
    every = {row[0] for row in library.query("SELECT track_id FROM tracks").fetchall()}
    undecided = {
        row[1]
        for row in library.query("SELECT tracks WHERE entity IN ('red', 'blue') AND band = 'uncertain'")
    }
    assert {row[1] for row in unknown} == every - taken - undecided


@pytest.mark.parametrize(
    ("sql", "place", "told"),
    [
        ("CREATE ENTITY red FROM 'a'", "red", "the entity's name in single quotes, found 'red'"),
        ("CREATE ENTITY 'red' NOT FROM 'a'", "NOT", "expected FROM, found 'NOT'"),
        ("CREATE ENTITY 'red' FROM a", "a", "a picture, folder or pattern in single quotes"),
        (
            "\n-- why\nALTER ENTITY 'red' RENAME 'x'",
            "'x'",
            "expected TO after RENAME, found 'x'",
        ),
        (
            "ALTER ENTITY 'red' CHANGE",
            "CHANGE",
            "expected ADD, REMOVE, RENAME TO, SET CATEGORY or SET INSTANCE",
        ),
        ("ALTER ENTITY 'red' ADD NOT", None, "found the end"),
        ("DESCRIBE ENTITY 'red' now", "now", "expected the end of the statement"),
        ("SHOW ENTITIES please", "please", "expected the end of the statement"),
    ],
)  # fmt: skip
def test_a_statement_that_goes_wrong_points_at_the_word(library, sql, place, told):
    with pytest.raises(QueryError, match=re.escape(told)) as caught:
        library.query(sql)
    expected = len(sql) if place is None else re.search(rf"(?<!\w){place}(?![\w'])", sql).start()
    assert caught.value.position == expected


def test_a_query_that_is_to_change_nothing_refuses_what_changes_entities(library):
    library.query("CREATE ENTITY 'red' FROM 'album/red.png'")
    before = library.exemplars("red")
    for sql in (
        "FORGET ENTITY 'red' WITH SIGHTINGS",
        " /* x */ drop ENTITY 'red'",
        "ALTER ENTITY 'red' ADD 'album/blue.png'",
        "ALTER ENTITY 'red' SET CATEGORY",
        "CREATE ENTITY 'blue' FROM 'album/blue.png'",
    ):
        with pytest.raises(QueryError, match=r"^(FORGET|DROP|ALTER|CREATE) ENTITY is refused: this query"):
            library.query(sql, read_only=True)
        with pytest.raises(QueryError):
            library.query_many([sql])
    assert library.exemplars("red") == before and counts(library) == [("red", 1, 0)]
    assert len(library.query("SHOW ENTITIES", read_only=True)) == 1
    assert library.query("DESCRIBE ENTITY 'red'", read_only=True)[0].exemplars == 1
    assert library.query("SELECT 1 AS one", read_only=True)[0].one == 1


def test_what_is_refused_names_what_sql_may_change(library):
    with pytest.raises(QueryError, match=r"SQL can change only entities \(CREATE, ALTER, DROP"):
        library.query("DROP TABLE videos")


def test_an_entity_without_an_example_is_told_where_it_is_looked_for(library):
    """Its last one was taken away: nothing was found, and nothing said why."""
    library.query("CREATE ENTITY 'my red' FROM 'album/red.png'")
    library.query("CREATE ENTITY 'blue' FROM 'album/blue.png' NOT FROM 'album/green.png'")
    ours = f"panorama --library {library.path} register"
    told = f"'{{0}}' has no example, so nothing matches it; add one: {ours} {{1}} IMAGE..."
    red, blue = told.format("my red", "'my red'"), told.format("blue", "blue")
    asked = {
        "SELECT frames WHERE entity = 'my red'": (red,),
        "SELECT moments WHERE entity = 'my red' AND NOT entity = 'blue'": (blue, red),
        "SELECT 1 FROM (SELECT tracks WHERE entity = 'blue') UNION SELECT 1 FROM sightings"
        " WHERE entity = 'blue'": (blue,),
        "SELECT * FROM sightings WHERE entity = 'my red'": (red,),
        "SELECT * FROM sightings": (),
        "SELECT * FROM entities WHERE entity = 'blue'": (),
        "EXPLAIN SELECT frames WHERE entity = 'my red'": (),
    }
    assert all(library.query(sql).warnings == () for sql in asked)
    for name in ("my red", "blue"):
        library.query(f"ALTER ENTITY '{name}' REMOVE '{name.split()[-1]}.png'")
    for sql, remarks in asked.items():
        assert library.query(sql).warnings == remarks, sql
    assert len(library.query("SELECT frames WHERE entity = 'my red'")) == 0
    with pytest.raises(EntityError, match=f"'my red' has no example; add one: {ours} 'my red' IM"):
        library.why("my red", "one.mp4", frame=20)
    with pytest.raises(EntityError, match="'blue' has no example, only pictures of other things; add one: "):
        library.why("blue", "one.mp4", frame=20)
