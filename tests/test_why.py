"""`panorama why`: what it says agrees with what queries answer, and the picture shows it."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from types import SimpleNamespace

import cv2
import duckdb
import numpy as np
import pytest
from fakes import Thing, scene, thing_picture, write_film, write_picture

import panorama
from panorama.album.seen_pictures import picture_digest
from panorama.cli.given import Seconds
from panorama.cli.why import print_why
from panorama.errors import EntityError, UnknownEntity, UnknownVideo, UsageError
from panorama.lettering import text_width
from panorama.shown.explaining import _tracks_at
from panorama.shown.why import Place
from panorama.shown.why_picture import draw_why, write_why
from panorama.store import Store

GREEN, AMBER, RED = (74, 190, 110), (235, 175, 60), (225, 85, 80)


@pytest.fixture(scope="module")
def library(tmp_path_factory, module_proposer):
    """Red alone in one.mp4; red above blue in two.mp4; purple registered, with blue as its look-alike."""
    folder = tmp_path_factory.mktemp("why")
    write_film(folder / "v" / "one.mp4", [Thing("red", 5, 35)])
    write_film(folder / "v" / "two.mp4", [Thing("red", 10, 40, top=10), Thing("blue", 20, 40, top=70)])
    with panorama.open(folder / "library", create=True) as made:
        made.index(folder / "v", model="color-bands")
        for color in ("red", "blue"):
            made.register(color, write_picture(folder / "album" / f"{color}.png", thing_picture(color)))
        made.register("purple", thing_picture("purple"), unlike=thing_picture("blue"))
        striped = thing_picture("red")
        striped[:, 51:] = thing_picture("green")[:, 51:]
        made.register("striped", striped)
        yield made


@pytest.fixture(scope="module")
def module_proposer():
    from fakes import ColoredThings

    from panorama.library import Library

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Library, "proposer", property(lambda self: ColoredThings()))
        yield


def track(library, entity, video):
    """The track of an entity in a video."""
    found = library.query("SELECT track_id FROM sightings WHERE entity = ? AND video = ?", [entity, video])
    return found.fetchall()[0][0]


def test_every_track_has_the_score_and_band_that_a_query_says(library):
    bands = set()
    for entity in ("red", "blue", "purple", "striped"):
        for band in ("accepted", "uncertain", "rejected"):
            sql = f"SELECT tracks WHERE entity = '{entity}' AND band = '{band}' AND score >= 0"
            for row in library.query(sql).arrow().to_pylist():
                why = library.why(entity, track_id=row["track_id"])
                assert (why.band, why.video) == (band, row["video"])
                assert why.score == pytest.approx(row["score"])
                last = why.steps[-1]
                near = why.alone >= last.floor - 1e-9
                expected = (
                    "accepted" if last.score >= last.high and near
                    else "rejected" if last.score < last.low
                    else "uncertain"
                )  # fmt: skip
                assert expected == band, why
                assert why.reason.lower().startswith(band) and f"{last.score:.3f}" in why.reason
                bands.add(band)
    assert bands == {"accepted", "uncertain", "rejected"}


def test_a_hit_names_its_example_and_its_runner_up_with_their_similarities(library):
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    assert why.band == "accepted" and why.exemplar.source.endswith("red.png")
    assert (why.model, why.exits, why.model_hash) == ("color-bands", 1, library.embedder.hash)
    album = library.snapshot().album(library.embedder.hash, why.exit)
    for likeness in (why.exemplar, why.runner_up):
        views = album.vectors[album.exemplar_ids == likeness.exemplar_id]
        crop = library.vectors_of(np.array([likeness.crop_id]), why.exit)[0]
        assert likeness.similarity == pytest.approx(float((views @ crop).max()), abs=1e-6)
    others = {}
    for entity in ("blue", "purple", "striped"):
        sql = "SELECT tracks WHERE entity = $name AND score >= 0 AND track_id = $track"
        (row,) = library.query(sql, {"name": entity, "track": why.track_id}).arrow().to_pylist()
        others[entity] = row["score"]
    assert why.runner_up.entity == max(others, key=others.get) == "striped"
    assert why.runner_up.score == pytest.approx(others["striped"]) and why.runner_up.score < why.score


def test_what_was_rejected_says_the_border_and_what_the_track_is_taken_for(library):
    why = library.why("red", track_id=track(library, "blue", "two.mp4"))
    assert why.band == "rejected"
    assert f"below {why.steps[-1].low:.3f}" in why.reason
    assert "taken for 'blue'" in why.reason and why.runner_up.band == "accepted"


def test_a_grey_track_beside_an_example_in_colour_is_told_and_the_reverse(library):
    """Nobody learned why the same animal was found by day and not by night."""
    why = library.why("red", track_id=track(library, "blue", "two.mp4"))
    said = "The track is grey, as in infrared, and the example is in colour: register grey examples, too."
    noise = np.random.default_rng(0).integers(0, 5, (20, 30, 3), np.uint8)
    grey, tinted = noise + np.uint8(180), noise + np.array([180, 180, 190], np.uint8)
    assert said not in why.reason
    assert replace(why, crop=grey).reason == f"{why.reason} {said}"
    assert said not in replace(why, crop=tinted).reason
    assert said not in replace(why, crop=grey, exemplar=replace(why.exemplar, picture=grey)).reason
    assert said not in replace(why, crop=grey, band="accepted").reason
    assert said not in replace(why, crop=None).reason
    # Nobody who had registered an old photograph learned why it was not found in colour.
    said = "The example is grey and the track is in colour: register examples in colour, too."
    faded = replace(why, exemplar=replace(why.exemplar, picture=grey))
    assert said not in why.reason and faded.reason == f"{why.reason} {said}"
    assert said not in replace(faded, crop=grey).reason
    assert said not in replace(faded, band="accepted").reason
    assert said not in replace(faded, crop=None).reason


def test_a_track_in_much_less_light_than_the_example_is_told(library):
    """Things filmed at night were found by no example taken by day, and nothing said what would help."""
    why = library.why("red", track_id=track(library, "blue", "two.mp4"))
    said = "The track is much darker than the example, as at night: if it is 'red', register examples in"
    lit = replace(why.exemplar, picture=np.full((20, 30, 3), (200, 180, 90), np.uint8))
    day, dusk = (
        replace(why, exemplar=lit, crop=lit.picture),
        replace(why, exemplar=lit, crop=lit.picture // 2),
    )
    night = replace(day, crop=lit.picture // 3)
    assert said not in day.reason and said not in dusk.reason and said in night.reason
    assert said not in replace(night, band="accepted").reason
    assert said not in replace(night, crop=None).reason
    assert said not in replace(day, exemplar=replace(lit, picture=lit.picture // 3)).reason
    # What lies on white has a mean of its own, but no more light.
    on_white = np.full((40, 60, 3), 255, np.uint8)
    on_white[10:20, 15:45] = 60
    part = np.full((10, 30, 3), 130, np.uint8)
    shop = replace(day, exemplar=replace(lit, picture=on_white), crop=part)
    assert on_white.mean() > 180 and said not in shop.reason


def test_a_look_alike_that_fits_better_is_named(library):
    why = library.why("purple", track_id=track(library, "blue", "two.mp4"))
    assert why.look_alike is not None and why.look_alike.similarity > why.exemplar.similarity
    assert "look-alike" in why.reason
    assert library.why("red", track_id=why.track_id).look_alike is None


def test_a_look_alike_that_several_examples_together_outdo_takes_nothing_away(tmp_path, fake_proposer):
    def striped(color, width):
        picture = thing_picture("red")
        picture[:, -width:] = thing_picture(color)[:, -width:]
        return picture

    write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)])
    with panorama.open(tmp_path / "library") as library:
        library.index(tmp_path / "a.mp4", model="color-bands")
        examples = [striped("green", 30), striped("purple", 30)]
        library.register("red", examples, unlike=striped("blue", 20))
        why = library.why("red", "a.mp4", frame=20)
        assert why.exemplar.similarity < why.look_alike.similarity and why.unlike < why.own
        assert "look-alike" not in why.reason
        library.remove_exemplar(library.exemplars("red")[0].exemplar_id)
        alone = library.why("red", "a.mp4", frame=20)
        assert alone.own < alone.unlike and alone.score < why.score
        calibration = library.calibrations[-1]
        lead = alone.own - 2 * (alone.unlike - alone.own)
        assert calibration.values(np.array(alone.score)) == pytest.approx(lead, abs=0.02)
        assert f"({alone.unlike:.3f} against {alone.own:.3f}" in alone.reason
        assert "it loses twice its lead" in alone.reason


def test_near_the_best_is_told_as_the_border_that_was_missed(library):
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    last = replace(why.steps[-1], score=0.4, high=0.5, floor=0.7, band="uncertain")
    missed = replace(why, steps=(last,), band="uncertain", score=0.4, alone=0.6, best_score=0.95, beside=None)
    assert "by itself it scores 0.600" in missed.reason
    assert "would be accepted from 0.500" in missed.reason
    assert "best track of 'red' scores 0.950" in missed.reason and "0.700 is needed" in missed.reason
    assert "not counting examples that were cut from it" in missed.reason and "0.400" in missed.reason


def test_a_track_is_named_by_its_id_a_crop_a_time_or_a_frame(library):
    track_id = track(library, "blue", "two.mp4")
    (crop_id, frame, seconds), *_ = library.query(
        "SELECT crop_id, frame, time FROM crops WHERE track_id = ?", [track_id]
    ).fetchall()
    ways = [
        library.why("blue", track_id=track_id),
        library.why("blue", "two.mp4", track_id=track_id),
        library.why("blue", crop_id=crop_id),
        library.why("blue", "two.mp4", seconds=seconds),
        library.why("blue", "two.mp4", frame=frame),
        library.why(
            "blue", dict(library.query("SELECT video, uri FROM videos").fetchall())["two.mp4"], frame=frame
        ),
    ]
    assert {why.track_id for why in ways} == {track_id}
    # Others are there at the same time; the one that fits is meant.
    there = "SELECT count(*) FROM tracks WHERE video = 'two.mp4' AND start_frame <= $f AND $f < end_frame"
    count = library.query(there, {"f": frame}).fetchall()[0][0]
    assert ways[3].tracks_there == ways[4].tracks_there == count > 1
    assert library.why("red", "two.mp4", seconds=seconds).track_id != track_id


def test_a_track_is_named_as_a_page_names_it_and_another_picture_is_refused(library, run):
    track_id = track(library, "blue", "two.mp4")
    best = "SELECT crop_id FROM crops WHERE track_id = ? ORDER BY quality DESC, crop_id LIMIT 1"
    ((crop_id,),) = library.query(best, [track_id]).fetchall()
    digest = picture_digest(library.stored_crops([crop_id])[crop_id])
    ways = [
        {"track_id": f"{track_id}:{digest}"},
        {"crop_id": f"{crop_id}:{digest}"},
        {"track_id": f"{track_id}"},
    ]
    assert {library.why("blue", **way).track_id for way in ways} == {track_id}
    printed = run("--library", library.path, "why", "blue", "--track", f"{track_id}:{digest}")
    assert printed.status == 0 and f"track {track_id}" in printed.out
    other = "0" * 8 if digest != "0" * 8 else "1" * 8
    for way in ("track", "crop"):
        seen = f"{track_id if way == 'track' else crop_id}:{other}"
        with pytest.raises(UsageError, match="with the picture that was seen"):
            library.why("blue", **{f"{way}_id": seen})
    wrong = run("--library", library.path, "why", "blue", "--track", "12:ab")
    assert wrong.status == 2 and "as on a page" in wrong.err


def test_what_is_not_there_is_told_with_what_is(library):
    with pytest.raises(UnknownEntity, match="Did you mean 'red'"):
        library.why("rad", track_id=1)
    with pytest.raises(UnknownVideo, match=r"one\.mp4"):
        library.why("red", "onee.mp4", frame=3)
    ends = "start_time, end_time, start_frame, end_frame"
    found = library.query(f"SELECT {ends} FROM tracks WHERE video = 'one.mp4'").fetchall()
    ((start, end, first, behind),) = found
    near = "the nearest one lasts from"
    with pytest.raises(UsageError, match=f"covers 90 s; {near} {start:.1f} to {end:.1f} s$"):
        library.why("red", "one.mp4", seconds=90)
    with pytest.raises(UsageError, match=f"covers frame 900; {near} frame {first} to {behind - 1}$"):
        library.why("red", "one.mp4", frame=900)
    with pytest.raises(UsageError, match="no track 77"):
        library.why("red", track_id=77)
    with pytest.raises(UsageError, match="no crop 77"):
        library.why("red", crop_id=77)
    track_id = track(library, "blue", "two.mp4")
    ((crop_id,),) = library.query("SELECT min(crop_id) FROM crops WHERE track_id = ?", [track_id]).fetchall()
    for named in ({"track_id": track_id}, {"crop_id": crop_id}):
        with pytest.raises(
            UsageError, match=rf"^track {track_id} is of two\.mp4, not of one\.mp4: name that"
        ):
            library.why("blue", "one.mp4", **named)
    for wrong in ({}, {"frame": 3}, {"track_id": 1, "crop_id": 1}, {"video": "one.mp4"}):
        with pytest.raises(UsageError):
            library.why("red", **wrong)


def test_an_entity_without_an_example_says_so(library):
    library.register("lone", thing_picture("yellow"), unlike=thing_picture("green"))
    try:
        library.remove_exemplar(next(e.exemplar_id for e in library.exemplars("lone") if not e.negative))
        with pytest.raises(EntityError, match="only pictures of other things"):
            library.why("lone", "one.mp4", frame=20)
    finally:
        library.drop("lone")


def test_the_picture_shows_example_crop_and_runner_up_in_the_colours_of_their_bands(library, tmp_path):
    why = library.why("purple", track_id=track(library, "blue", "two.mp4"))
    image = draw_why(why)
    panels = [24 + i * 288 for i in range(4)]
    colors = [image[240, x + 1].tolist() for x in panels]
    assert colors[1] == list(RED) and colors[2] == list(GREEN)
    assert len({tuple(c) for c in colors}) == 4
    # The thing in the middle of each panel has its colour: purple, blue, blue, blue.
    middles = [image[244, x + 132].astype(int) for x in panels]
    assert middles[0][0] > middles[0][1] + 40 and middles[0][2] > middles[0][1] + 40
    assert all(m[2] > m[0] + 60 for m in middles[1:])
    write_why(why, tmp_path / "deep" / "why.png")
    assert (cv2.imread(str(tmp_path / "deep" / "why.png"))[:, :, ::-1] == image).all()
    with pytest.raises(UsageError, match=r"\.jpg"):
        write_why(why, tmp_path / "why.gif")


def test_long_names_stay_in_their_place(library):
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    long = replace(
        why,
        entity="very-" * 30 + "long",
        video="folder/" * 30 + "one.mp4",
        exemplar=replace(why.exemplar, source="name" * 50 + ".png"),
    )
    plain, crowded = draw_why(why), draw_why(long)
    assert plain.shape[1] == crowded.shape[1]
    width = plain.shape[1]
    badge = np.s_[:70, width - 220 :]
    assert (plain[badge] == crowded[badge]).all()
    # Between the panels nothing is written.
    paper = plain[0, 0]
    for x in (24 + 264 + 4, 24 + 288 + 264 + 4):
        assert (crowded[90:450, x : x + 16] == paper).all()
    assert (crowded[:, -20:] == paper).all()


def test_long_names_of_pictures_leave_the_badge_and_the_number_of_the_track(library):
    """They were written through the badge and off the picture, and with them the number of the track."""
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    plain = draw_why(why)

    def drawn(*ends: str, track_id: int = 7) -> np.ndarray:
        names = tuple(f"north-gate-2024-05-01_12-33-21-garden-{end}.jpg" for end in ends)
        return draw_why(replace(why, pictures=names, track_id=track_id))

    shown = drawn("0001", "0002")
    badge = np.s_[:60, plain.shape[1] - 300 :]
    assert shown.shape == plain.shape and (shown[badge] == plain[badge]).all()
    assert (shown[:, -20:] == plain[0, 0]).all() and (shown[90:] == plain[90:]).all()
    for other in (drawn("0007", "0002"), drawn("0001", "0007"), drawn("0001", "0002", track_id=8)):
        assert (shown != other).any()


def test_what_a_panel_shows_is_told_beside_a_long_name(library):
    """Of a long name's title the beginning was cut off: nothing said which was the next best."""
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    long = replace(why, entity="very-" * 30 + "long", runner_up=replace(why.runner_up, entity="x" * 200))
    plain, crowded = draw_why(why), draw_why(long)
    for panel, title in ((0, "example of "), (2, "next best: ")):
        left = 24 + panel * (264 + 24)
        words = np.s_[86:108, left : left + text_width(title, 0.5) - 4]
        assert (plain[words] == crowded[words]).all() and plain[words].std() > 0


def test_the_nearest_track_is_that_whose_begin_or_end_is():
    spans = ((7, 100.0, 101.0, 1000, 1010), (8, 10.0, 30.0, 100, 300), (9, 50.0, 51.0, 500, 510))
    names = "video, track_id, start_time, end_time, start_frame, end_frame"
    values = ", ".join(str(("a.mp4", *span)) for span in spans)
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE tracks AS SELECT * FROM (VALUES {values}) AS t({names})")
        asked = SimpleNamespace(query=lambda sql, given: connection.sql(sql, params=given))
        for at, near in (
            (0, "10.0 to 30.0"),
            (39, "10.0 to 30.0"),
            (41, "50.0 to 51.0"),
            (99, "100.0 to 101.0"),
        ):
            with pytest.raises(UsageError, match=f"covers {at} s; the nearest one lasts from {near} s$"):
                _tracks_at(asked, Place("a.mp4", seconds=at))
        for at, near in ((0, "100 to 299"), (390, "100 to 299"), (410, "500 to 509"), (2000, "1000 to 1009")):
            with pytest.raises(UsageError, match=f"frame {at}; the nearest one lasts from frame {near}$"):
                _tracks_at(asked, Place("a.mp4", frame=at))
        with pytest.raises(UsageError, match=r"no track of b\.mp4 covers frame 3; it has none$"):
            _tracks_at(asked, Place("b.mp4", frame=3))


def test_names_that_hold_line_ends_are_shown_on_one_line(library, capsys):
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    raw, escaped = (
        replace(
            why,
            video=f"a{end}b.mp4",
            exemplar=replace(why.exemplar, source=f"e{end}f.png"),
        )
        for end in ("\n", "\\n")
    )
    print_why(raw)
    shown = capsys.readouterr().out
    print_why(escaped)
    assert shown == capsys.readouterr().out and "a\\nb.mp4" in shown
    assert (draw_why(raw) == draw_why(escaped)).all()


def test_a_picture_that_is_gone_from_the_album_is_told_in_its_panel(library):
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    assert why.exemplar.picture is not None
    gone = replace(why, exemplar=replace(why.exemplar, picture=None))
    image = draw_why(gone)
    assert image.shape == draw_why(why).shape
    assert (image[200, 24 + 8 : 24 + 250] == image[200, 24 + 8]).all()


def test_the_command_prints_it_as_text_as_json_and_as_a_picture(library, run, tmp_path):
    place = ("--library", library.path, "why", "blue", "two.mp4", "--at", "3")
    done = run(*place, "--out", "why.jpg")
    assert done.status == 0, done.err
    first, second, *_ = done.out.splitlines()
    assert first.startswith("blue  two.mp4  0:0") and second.startswith("Accepted at exit")
    assert f"model color-bands {library.embedder.hash[:12]}; 1 exit, " in done.out
    assert "next best" in done.out and "tracks are there" in done.out
    assert "picture written to why.jpg" in done.err
    assert cv2.imread(str(tmp_path / "why.jpg")).shape[2] == 3
    told = json.loads(run(*place, "--json").out)
    assert told["entity"] == "blue" and told["band"] == "accepted" and told["reason"] == second
    assert told["runner_up"]["entity"] == "purple" or told["runner_up"]["score"] < told["score"]
    assert run(*place, "--out", "why.xyz").status == 2
    for words in (["two.mp4"], [], ["--at", "3"], ["two.mp4", "--at", "3", "--track", "1"]):
        vague = run("--library", library.path, "why", "blue", *words)
        assert vague.status == 2
        assert all(way in vague.err for way in ("--at", "--frame", "--track", "--crop"))
    assert run("--library", library.path, "why", "blue", "two.mp4", "--at", "99").status == 2


@pytest.mark.parametrize("place", [("--at", "3"), ("--frame", "30")])
def test_where_none_of_several_tracks_is_accepted_all_of_them_can_be_seen(library, run, tmp_path, place):
    """Of twenty tracks at the time, another thing was explained, with the command to register that."""
    asked = ("--library", library.path, "why", "purple", "two.mp4", *place)
    told = run(*asked).out
    (line,) = re.findall(
        r"^(\d+) tracks are there; .* To see them all: panorama (.*)\. What none", told, re.M
    )
    assert "index --zoom 2 VIDEO" in told
    seen = run(*shlex.split(line[1]), "--json")
    assert len(seen.json) == int(line[0]) > 1, seen.err
    assert run(*asked, "--json").json["track_id"] in {row["track_id"] for row in seen.json}
    assert (tmp_path / "there.jpg").exists()
    # One that is accepted is what was meant.
    assert "To see them all" not in run("--library", library.path, "why", "blue", "two.mp4", *place).out


def test_all_tracks_of_a_picture_that_is_named_by_its_path_can_be_seen(run, tmp_path):
    """They could of a time and of a frame, but a picture in a folder is mostly named by its path."""
    for frame in range(2):
        things = [Thing("red", 0, 2, top=10), Thing("blue", 0, 2, top=70)]
        write_picture(tmp_path / "v" / "trap" / f"IMG_000{frame}.png", scene(frame, things))
    made = run("index", "v", "--model", "color-bands")
    assert made.status == 0, made.err
    run("register", "purple", write_picture(tmp_path / "purple.png", thing_picture("purple")))
    named, numbered = (
        run("why", "purple", *place) for place in (["v/trap/IMG_0001.png"], ["trap", "--frame", "1"])
    )
    assert "SELECT tracks WHERE video = 'trap' AND start_frame <= 1 AND end_frame > 1" in numbered.out
    assert named.out == numbered.out


def test_at_its_end_stand_the_commands_that_say_what_is_right(run, asked):
    """What it explained could be put right by `register`, which it did not say."""
    tracks = run("query", "SELECT tracks, band WHERE entity = 'red' AND score >= 0", "--json").json
    for row, other in (("accepted", "rejected"), ("rejected", "accepted")):
        track_id = next(one["track_id"] for one in tracks if one["band"] == row)
        *_, last = run("why", "red", "--track", track_id).out.splitlines()
        assert last.startswith("if it is not red: " if row == "accepted" else "if it is red: ")
        words = shlex.split(last.partition(": panorama ")[2])
        assert run(*words).status == 0
        assert run("why", "red", "--track", track_id, "--json").json["band"] == other


def test_what_is_uncertain_has_a_command_for_either_answer(library, capsys):
    why = library.why("red", track_id=track(library, "red", "one.mp4"))
    print_why(replace(why, band="uncertain", entity="my van"))
    *_, last = capsys.readouterr().out.splitlines()
    assert last.endswith(
        f"if it is my van: panorama register 'my van' --track {why.track_id};"
        f" if it is not my van: panorama register 'my van' --not --track {why.track_id}"
    )


def test_the_picture_is_there_also_for_who_reads_the_first_line_alone(library, run, tmp_path, monkeypatch):
    def left(why, at):
        raise BrokenPipeError

    monkeypatch.setattr("panorama.cli.why.print_why", left)
    done = run("--library", library.path, "why", "blue", "two.mp4", "--at", "3", "--out", "why.jpg")
    assert done.status == 141 and (tmp_path / "why.jpg").exists()


@pytest.mark.parametrize(
    ("at", "reads"), [("0:03", 3), ("0:03.5", 3.5), ("3.5", 3.5), ("0:00:03", 3), ("1:02:03", 3723)]
)
def test_a_time_is_taken_as_it_is_shown(at, reads):
    """`why` and sheets show 0:03.0, and 0:03.0 was no valid float."""
    assert Seconds().convert(at, None, None) == reads


def test_a_time_that_is_none_says_how_one_is_written(library, run):
    place = ("--library", library.path, "why", "blue", "two.mp4", "--at")
    assert run(*place, "0:03.0").out == run(*place, "3").out != ""
    for wrong in ("0:3", "1:75", "3s", "half"):
        told = run(*place, wrong)
        assert told.status == 2 and "write seconds, 83.5, or minutes and seconds, 1:23.5" in " ".join(
            told.err.split()
        )


def test_a_track_that_was_denied_is_kept_out_and_the_account_says_so(library):
    red, blue = track(library, "red", "two.mp4"), track(library, "blue", "two.mp4")
    rows = "SELECT tracks, band WHERE entity = 'sash' AND score >= 0 AND video = 'two.mp4'"
    sash = thing_picture("blue")
    sash[:, 51:] = thing_picture("green")[:, 51:]
    library.register("sash", sash)
    before = {row.track_id: row for row in library.query(rows)}
    library.register_seen("sash", track_ids=[blue], look_alike=True)
    after = {row.track_id: row for row in library.query(rows)}
    assert (after[red].score, after[red].band) == (before[red].score, before[red].band)
    assert before[blue].band == "uncertain" and after[blue].band == "rejected"
    assert after[blue].score < 0.01 < before[blue].score
    why = library.why("sash", track_id=blue)
    assert why.look_alike is None and why.denied is not None
    assert f"picture of {why.denied.source}, which was marked as not 'sash'" in why.reason
    assert json.loads(json.dumps(why.as_dict()))["denied"]["entity"] == "sash"
    assert library.why("sash", track_id=red).denied is None
    (denied,) = (one for one in library.exemplars("sash") if one.denied)
    library.remove_exemplar(denied.exemplar_id)
    assert {row.track_id: row.score for row in library.query(rows)} == {
        number: row.score for number, row in before.items()
    }
    library.drop("sash")


def test_an_example_without_vectors_is_not_laid_to_the_track(asked):
    """The track was said to be without vectors, and `index`, which was advised, found nothing to do."""
    with panorama.open(asked / "panorama-library") as library:
        library.exemplars("red")[0].picture.unlink()
        tracks = library.query("SELECT track_id FROM tracks").fetchall()
    with Store.open(asked / "panorama-library") as store, store._place.catalog.write() as tx:
        tx.run("DELETE FROM exemplar_vectors")  # as if they were of another model
        tx.run("UPDATE counters SET value = value + 1")
    with panorama.open(asked / "panorama-library") as library:
        with pytest.raises(EntityError, match="no example of 'red' has vectors of color-bands"):
            library.why("red", track_id=tracks[0][0])
        assert library.why("blue", track_id=tracks[0][0]).band == "rejected"
