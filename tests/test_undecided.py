"""What is told of tracks that a statement left uncertain, on stderr and on a page, and that it shows them."""

from __future__ import annotations

import re

import pytest
from fakes import thing_picture, write_picture
from page_samples import Page

from panorama.query.text.advised import MOST_NAMED, UNCERTAIN
from panorama.query.text.undecided import NOT_REJECTED, nothing_told, told_on_page, uncertain_told

ALL = "SELECT tracks WHERE band = 'uncertain'"
MIXED = "entity = 'mixed'"
OF_MIXED = f"SELECT tracks WHERE {MIXED} AND band = 'uncertain'"
ASKED = [
    (f"SELECT tracks WHERE {MIXED}{{}}", "AND {}"),
    (f"SELECT moments WHERE {MIXED}{{}} -- here or there\n", "AND {}"),
    (f"SELECT frames WHERE {MIXED} AND NOT time > 90{{}}", "AND {}"),
    (f"SELECT *, 'this or that' AS text FROM (SELECT frames WHERE {MIXED}{{}})", "AND {}"),
    ("SELECT tracks WHERE entity is not null{}", "AND {}"),
    (f"SELECT tracks WHERE ({MIXED} or entity = 'red'){{}}", "AND {}, with the OR before it in brackets"),
    # One of both may be accepted: 75 frames were in neither the answer nor what was advised.
    (f"SELECT frames WHERE {MIXED} AND entity = 'red'{{}}", f"AND {NOT_REJECTED}"),
    # Relations have no band, and of what is not there, or of several tracks, AND showed nothing.
    (f"SELECT video, track_id, start_time FROM sightings WHERE {MIXED}", ALL),
    ("SELECT video, start_time FROM moments m WHERE m.entity = 'mixed'", ALL),
    (f"SELECT frames WHERE NOT {MIXED}", ALL),
    (f"SELECT moments WHERE {MIXED} FOLLOWED BY {MIXED}", ALL),
    ("SELECT frames, entity WHERE left_of('mixed', 'mixed')", ALL),
    # It would go into one of them alone.
    (f"SELECT tracks WHERE {MIXED} UNION SELECT tracks WHERE {MIXED}", ALL),
    (f"SELECT a.* FROM (SELECT tracks WHERE {MIXED}) a JOIN sightings USING (track_id)", ALL),
]
"""Statements and what shows the tracks that they leave uncertain; {} is its condition, and where it goes."""
READ = [
    ("SELECT moments WHERE entity = 'a' OR entity = 'b'", "AND {}, with the OR before it in brackets"),
    ("SELECT tracks WHERE (entity) IS NULL", ALL),
    (
        "SELECT moments WHERE entity = 'WITH RECALL' WITH PRECISION >= 0.9",
        f"AND {NOT_REJECTED}, instead of WITH PRECISION",
    ),
    (
        "SELECT moments WHERE entity = 'it''s' with\nrecall >= 0.5",
        f"AND {NOT_REJECTED}, instead of WITH RECALL",
    ),
    *(
        (f"SELECT frames WHERE {together}", f"AND {NOT_REJECTED}, with the OR before it in brackets")
        for together in (
            "(entity = 'a' OR entity = 'b') AND entity = 'c'",
            "entity = 'a' AND (camera = 'yard' OR entity = 'b')",
            "(entity = 'a' OR camera = 'x') AND (camera = 'y' OR entity = 'c')",
            "time > 3 OR (entity = 'a' AND near('b', 'c', 5))",
        )
    ),
    *(
        (f"SELECT frames{alone}", "AND {}")
        for alone in (
            ", entity WHERE entity = 'a' AND time BETWEEN 3 AND 4 ORDER BY entity, time",
            " WHERE entity IN (SELECT entity FROM entities) AND (time > 3)",
        )
    ),
    (
        "SELECT frames WHERE (entity = 'a' OR entity = 'b') AND time > 3",
        "AND {}, with the OR before it in brackets",
    ),
    ("", ALL),
]
"""The same of statements that the library below would refuse, or leaves nothing uncertain of."""


@pytest.fixture
def doubtful(run, asked):
    """A library with tracks that are like `mixed`, red with a green stripe, but not surely it."""
    mixed = thing_picture("red")
    mixed[:, 51:] = thing_picture("green")[:, 51:]
    write_picture(asked / "mixed.png", mixed)
    run("register", "mixed", "mixed.png")
    return asked


@pytest.mark.parametrize(("sql", "advice"), ASKED + READ)
def test_the_advice_goes_with_the_statement(sql, advice):
    """Pages advised a condition on the band also beside relations, promises and chains, which refuse it."""
    sql = sql.format("")
    assert uncertain_told(1, sql) == f"1 track is uncertain; see with: {advice.format(UNCERTAIN)}"
    assert told_on_page(1, sql) == (
        "1 more track is uncertain and not on this page. "
        f"A yes helps most on these; see with: {advice.format(NOT_REJECTED)}"
    )


def test_the_command_line_and_its_pages_give_it_and_it_shows_them(run, doubtful):
    for sql, advice in ASKED:
        done = run("query", sql.format(""), "--page", "review.html")
        by_itself = advice == ALL
        advice = OF_MIXED if by_itself else advice
        (told,) = re.findall(r"^(\d+) tracks? .* see with: (.*)$", done.err, re.MULTILINE)
        remarks = [tag.all_text for tag in Page(doubtful / "review.html").root.of_class("remark")]
        (on_page,) = [told for told in remarks if "uncertain" in told]
        assert told[1] == advice.format(UNCERTAIN) and on_page.startswith(f"{told[0]} more track")
        assert on_page.endswith(f"; see with: {advice.format(NOT_REJECTED)}")
        for band in (NOT_REJECTED,) if NOT_REJECTED in advice else (UNCERTAIN, NOT_REJECTED):
            shown = run("query", advice if by_itself else sql.format(f" AND {band}"), "--json")
            tracks = {(row["entity"], row["track_id"]) for row in shown.json}
            assert len(tracks) >= int(told[0]) > 0, (sql, shown.err)
            assert "uncertain" not in shown.err


def test_a_track_is_counted_once_and_only_if_it_is_asked_for(run, doubtful):
    """69 pairs of entity and track were told as tracks, and one track asked for by its number as 23."""
    run("register", "alike", "mixed.png")
    unsure = run("query", "SELECT tracks WHERE band = 'uncertain'", "--json").json
    tracks = {row["track_id"] for row in unsure}
    assert len(unsure) > len(tracks) > 1
    both = run("query", "SELECT tracks WHERE entity IN ('mixed', 'alike')").err
    assert f"{len(tracks)} tracks are uncertain" in both
    one = min(tracks)
    for target in ("tracks", "frames", "crops"):
        said = run("query", f"SELECT {target} WHERE entity = 'mixed' AND track_id = {one}").err
        assert "1 track is uncertain" in said
    everywhere = run("query", "SELECT frames WHERE NOT entity = 'mixed'").err
    beside_one = run("query", f"SELECT frames WHERE NOT entity = 'mixed' AND track_id = {one}").err
    assert everywhere.split(";")[0] == beside_one.split(";")[0] != ""
    for never in ("end_time - start_time > 1000", "samples > 10000", "start_frame > end_frame"):
        none = run("query", f"SELECT tracks WHERE entity = 'mixed' AND {never}").err
        assert "nothing is uncertain" in none


def test_what_shows_them_by_themselves_names_whom_they_may_be():
    """A count of one entity's tracks advised those of all: thirteen were told, and 75 shown."""
    asked = "SELECT count(*) FROM sightings"
    for names, among in (
        (["Ann's"], "entity = 'Ann''s' AND "),
        (["a", "b"], "entity IN ('a', 'b') AND "),
        ([str(number) for number in range(MOST_NAMED + 1)], ""),
    ):
        advice = f"; see with: SELECT tracks WHERE {among}band = 'uncertain'"
        assert uncertain_told(2, asked, names).endswith(advice)
        assert told_on_page(2, asked, names).endswith(advice)
        assert uncertain_told(2, f"SELECT tracks WHERE {MIXED}", names).endswith(f"with: AND {UNCERTAIN}")


def test_uncertain_tracks_are_not_taken_for_as_many_moments():
    """36 tracks were told to be uncertain, and what was advised showed 11 rows."""
    moments = "SELECT moments WHERE entity = 'SELECT tracks'"
    told = ", and moments may join several of them"
    assert uncertain_told(3, moments) == f"3 tracks are uncertain{told}; see with: AND {UNCERTAIN}"
    assert told_on_page(3, moments).startswith(f"3 more tracks are uncertain and not on this page{told}. ")
    others = (f"{moments} FOLLOWED BY entity = 'dog'", "SELECT frames WHERE entity = 'SELECT moments'")
    for number, sql in ((1, moments), *((3, other) for other in others)):
        assert "join" not in uncertain_told(number, sql) + told_on_page(number, sql)


def test_an_empty_answer_says_how_to_see_what_comes_nearest(run, doubtful):
    """Five whole photographs found nothing, and nobody said what to do next."""
    write_picture(doubtful / "ring.png", thing_picture("green"))
    asked = "SELECT tracks WHERE entity = 'ring'"
    run("register", "ring", "ring.png")
    done = run("query", f"{asked} AND samples > 1000")
    (advice,) = re.findall(r"^nothing was found, .* with: (AND .* LIMIT 5)\. If", done.err)
    nearest = run("query", f"{asked} {advice}", "--json")
    assert 0 < len(nearest.json) <= 5 and nearest.err == ""
    scores = [row["score"] for row in nearest.json]
    assert scores == sorted(scores, reverse=True)
    # What `why` says of a known place, the query did not lead to.
    (why,) = re.findall(r"what keeps it out with: panorama (why .*)$", done.err, re.M)
    row = nearest.json[0]
    place = {"NAME": "ring", "VIDEO": row["video"], "SECONDS": str(row["start_time"])}
    explained = run(*(place.get(word, word) for word in why.split()))
    assert explained.status == 0 and "Rejected at exit" in explained.out
    ruled_out = run("query", f"{asked} AND video = 'nope'").err
    assert "no video 'nope'" in ruled_out and "nothing was found" not in ruled_out
    too_late = run("query", f"{asked} AND time > 1000").err
    assert "no video is that long" in too_late and "nothing was found" not in too_late


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT tracks",
        "SELECT tracks WHERE NOT entity = 'a'",
        "SELECT tracks WHERE entity = 'a' AND score > 0.9",
        "SELECT tracks WHERE entity = 'a' AND band = 'accepted'",
        "SELECT tracks WHERE entity = 'a' WITH PRECISION 0.9",
        "SELECT tracks WHERE entity = 'a' OR entity = 'b'",
        "SELECT moments WHERE entity = 'a' GROUP BY video",
        "SELECT count(*) FROM sightings WHERE entity = 'a'",
    ],
)
def test_no_advice_where_it_would_not_apply(sql):
    assert nothing_told(sql) == ""


def test_the_order_and_limit_of_a_statement_stay():
    for kept in ("ORDER BY start_time LIMIT 3", "LIMIT 3", "ORDER  BY start_time"):
        told = nothing_told(f"SELECT tracks WHERE entity = 'a' {kept}")
        assert "with: AND score >= 0. If" in told
