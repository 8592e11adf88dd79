"""Pages of answers: what they show and hold, that they reach nothing, and that their commands work."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
import shutil
import subprocess
from dataclasses import replace

import cv2
import numpy as np
import pytest
from fakes import Thing, scene, write_film, write_picture
from page_samples import RED, Page, picture

import panorama
from panorama.answering.calibration import SETTING as CALIBRATION
from panorama.answering.calibration import measured_with
from panorama.errors import EntityError, UsageError
from panorama.lines import clock
from panorama.page.frames import frames_on_page
from panorama.page.tiles import Tile
from panorama.query.matching.promises import SETTING as EVIDENCE
from panorama.query.matching.promises import Evidence
from panorama.shown import hit_frames
from panorama.shown.hits import Hit

NASTY = """<img src=x onerror="alert('1')"> & $(touch pwned) `id` {{tiles}}"""


def test_every_track_is_shown_once_in_the_order_of_the_answer_with_score_and_band(run, paged):
    found = "(SELECT tracks, entity, score, band WHERE entity = 'red' AND score >= 0) ORDER BY score"
    told = run("query", f"FROM {found}", "--json").json
    # Without entity, score and band among the columns the page asks for them itself.
    page = paged(f"SELECT video, track_id, start_time, end_time FROM {found}")
    shown = [tile.attributes for tile in page.tiles]
    assert [int(tile["data-number"]) for tile in shown] == [row["track_id"] for row in told]
    assert all(
        f"track {row['track_id']}" in tile.all_text for tile, row in zip(page.tiles, told, strict=True)
    )
    assert [tile["data-band"] for tile in shown] == [row["band"] for row in told]
    assert [float(tile["data-score"]) for tile in shown] == pytest.approx(
        [row["score"] for row in told], abs=1e-5
    )
    assert {tile["data-entity"] for tile in shown} == {"red"} and len({row["band"] for row in told}) > 1
    assert f"{len(told)} of {len(told)} hits on review.html, " in page.err
    assert re.search(r"\d kB|\d MB", page.err)
    counts = {
        band: [row["band"] for row in told].count(band) for band in ("accepted", "uncertain", "rejected")
    }
    bands = ", ".join(f"{count} {band}" for band, count in counts.items() if count)
    assert f"{len(told)} hits, {bands}, in 2 videos" in page.text


def test_rows_of_a_track_are_one_hit_shown_in_its_best_view(run, paged):
    rows = run("query", "SELECT frames WHERE entity = 'red'", "--json").json
    page = paged("SELECT frames WHERE entity = 'red'")
    tracks = list(dict.fromkeys(row["track_id"] for row in rows))
    assert [int(tile.attributes["data-number"]) for tile in page.tiles] == tracks
    assert f"the answer has {len(rows)} rows" in page.text
    for tile, track in zip(page.tiles, tracks, strict=True):
        mine = [row for row in rows if row["track_id"] == track]
        assert f"{len(mine)} rows" in tile.all_text and mine[0]["video"] in tile.all_text
        sql = f"SELECT frame FROM crops WHERE track_id = {track} ORDER BY quality DESC, crop_id LIMIT 1"
        (best,) = run("query", sql, "--json").json
        (row,) = [row for row in mine if row["frame"] == best["frame"]]
        (box,) = tile.of_class("over")
        x, y, width, height = (float(box.attributes[name]) for name in ("x", "y", "width", "height"))
        assert [x, y, x + width, y + height] == pytest.approx(
            [row[c] for c in ("x1", "y1", "x2", "y2")], abs=0.2
        )
        frame, crop = (picture(image) for image in tile.named("img"))
        assert tile.named("svg")[0].attributes["viewbox"] == "0 0 160 120" and frame.shape == (120, 160, 3)
        middle = frame[round(y + height / 2), round(x + width / 2)]  # BGR
        assert middle[2] > 150 > middle[0] and crop[..., 2].mean() > 150 > crop[..., 0].mean()


@pytest.mark.parametrize("promise", ["WITH RECALL >= 0.5", "with recall >= 0.5 within 60 seconds"])
def test_bands_are_those_of_the_accuracy_that_was_asked_for(run, paged, promise):
    """Rows that a recall accepts stood on the page as uncertain or rejected, as without the recall."""
    with panorama.open() as library:
        key = measured_with(library.embedder)
        strict = [replace(one, low=0.9, high=0.9999).as_dict() for one in library.calibrations]
        library.put_setting(CALIBRATION + key, strict)
        evidence = Evidence((0.3,) * 200, (0.1,) * 200, 200).as_dict()
        library.put_setting(EVIDENCE + key, [evidence] * len(strict))
    plain = run("query", "SELECT tracks, entity, band WHERE entity = 'red' AND score >= 0", "--json").json
    asked = f"SELECT tracks, band WHERE entity = 'red' {promise}"
    done = run("query", asked, "--json")
    assert done.status == 0, done.err
    told = done.json
    assert {row["band"] for row in told} == {"accepted"}
    assert [row["band"] for row in plain].count("accepted") < len(told) < len(plain)
    for sql in (
        f"SELECT tracks WHERE entity = 'red' {promise}",
        f"SELECT video, track_id, start_time FROM ({asked})",
    ):
        page = paged(sql)
        shown = {int(tile.attributes["data-number"]): tile.attributes for tile in page.tiles}
        assert {number: one["data-band"] for number, one in shown.items()} == {
            row["track_id"]: row["band"] for row in told
        }
        for row in told:
            assert float(shown[row["track_id"]]["data-score"]) == pytest.approx(row["score"], abs=1e-5)
        assert f"{len(told)} hits, {len(told)} accepted, in 2 videos" in page.text
    # Of what is named beside it, nothing was promised, and nothing can be.
    beside = f"SELECT tracks WHERE entity = 'red' {promise}"
    beside += " UNION ALL SELECT tracks WHERE entity = 'green' AND score >= 0"
    bands = {(tile.attributes["data-entity"], tile.attributes["data-band"]) for tile in paged(beside).tiles}
    assert ("red", "accepted") in bands and ("green", "rejected") in bands


def test_the_box_of_a_stretch_is_drawn_in_its_own_frame(paged):
    """The box of a moment's best view was drawn into the frame in which the moment begins."""
    stretch, box = "video, start_time, end_time, entity", "x1, y1, x2, y2"
    best, bare, untracked = (
        paged(f"SELECT {stretch}{more} FROM moments WHERE entity = 'red'")
        for more in (", track_id", f", track_id, {box}", f", {box}")
    )
    assert len(best.tiles) == len(bare.tiles) == len(untracked.tiles) > 0
    for there, here in zip(best.tiles, bare.tiles, strict=True):
        assert here.named("img")[0].attributes == there.named("img")[0].attributes
        assert here.of_class("over")[0].attributes == there.of_class("over")[0].attributes
    assert not any(tile.named("svg") for tile in untracked.tiles)


@pytest.mark.parametrize("near", [0, 3, 100])
def test_frames_read_on_from_one_another_are_those_read_alone(tmp_path, monkeypatch, near):
    film = write_film(tmp_path / "a.mp4", [Thing("red", 0, 40)])
    monkeypatch.setattr(hit_frames, "NEAR", near)
    places = [
        (30, 3.0),
        (2, 0.2),
        (3, 0.3),
        (None, 1.5),
        (2, 0.2),
        (17, 1.7),
        (None, 0.0),
        (39, 3.9),
        (500, 2.5),
    ]
    hits = [Hit("a.mp4", time, "", None, None, frame=frame) for frame, time in places]
    tiles = [Tile(hit, (hit.video,), 1, hit.time_seconds, hit.time_seconds) for hit in hits]
    found = frames_on_page(tiles, {"a.mp4": str(film)}, {})
    assert found == [frames_on_page([tile], {"a.mp4": str(film)}, {})[0] for tile in tiles]
    for (_, time), frame in zip(places, found, strict=True):
        rgb = cv2.imdecode(np.frombuffer(frame.jpeg, np.uint8), cv2.IMREAD_COLOR)[..., ::-1].astype(int)
        columns = np.flatnonzero(rgb[60, :, 0] - rgb[60, :, 2] > 60)
        assert columns[0] == pytest.approx(10 + round(time * 10), abs=2)


def test_the_page_holds_all_that_it_needs_and_may_reach_nothing(paged):
    page = paged(RED)
    (policy,) = [
        tag.attributes["content"]
        for tag in page.root.named("meta")
        if tag.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:"
    assert rules["base-uri"] == rules["form-action"] == "'none'"
    (style,) = page.root.named("style")
    (script,) = [tag for tag in page.root.named("script") if not tag.attributes]
    for tag, rule in ((style, "style-src"), (script, "script-src")):
        digest = base64.b64encode(hashlib.sha256(tag.text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    for tag in page.root.every():
        # Such a policy would not let them do anything.
        assert not [name for name in tag.attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href"):
            assert (tag.attributes.get(name) or "#").startswith(("data:", "#")), tag
        assert tag.name not in ("iframe", "object", "embed", "form", "base")
    assert not re.search(r"https?:|url\(|@import", page.source)
    ids = [tag.attributes["id"] for tag in page.root.every() if "id" in tag.attributes]
    assert len(ids) == len(set(ids))
    named = set(re.findall(r'\bby\("([\w-]+)"\)', script.text))
    assert named and named <= set(ids)
    assert {
        label.attributes["for"] for label in page.root.named("label") if "for" in label.attributes
    } <= set(ids)
    assert all("alt" in image.attributes for image in page.root.named("img"))


def test_written_again_it_is_the_same_so_that_marks_are_found_again(paged):
    first, again, other = paged(RED), paged(RED), paged(f"{RED} LIMIT 1")
    assert first.source == again.source
    assert first.data["digest"] != other.data["digest"]


def test_a_stored_crop_is_marked_as_that_crop(run, paged):
    page = paged("SELECT crops, entity, band WHERE entity = 'red' AND video = 'gate/a.mp4'")
    crops = run("query", "SELECT crops WHERE entity = 'red' AND video = 'gate/a.mp4'", "--json").json
    assert [(t.attributes["data-kind"], int(t.attributes["data-number"])) for t in page.tiles] == [
        ("crop", row["crop_id"]) for row in crops
    ]
    done = run(*shlex.split(page.command(page.tiles))[1:])
    assert f"red: {1 + len(crops)} examples" in done.err


@pytest.mark.parametrize("name", [NASTY, "-v", "it's", "größe 1"])
def test_names_are_shown_as_they_are_and_quoted_for_the_shell(run, asked, name):
    (asked / "more").mkdir()
    film = """ü "x" 'y' <b>$(touch pwned)&amp;.mp4"""
    (asked / "v" / "gate" / "a.mp4").rename(asked / "more" / film)
    place = "library of $(touch pwned) 'mine' ä"
    run("index", "more", "--model", "color-bands", "--fps", "10", "--library", place)
    run("register", "--library", place, "--", name, "album/red/one.png")
    quoted = name.replace("'", "''")
    sql = f"SELECT moments WHERE entity = '{quoted}' AND score >= 0 AND '{{{{tiles}}}}</pre><script>' <> ''"
    done = run("query", sql, "--page", "review.html", "--library", place)
    assert done.status == 0, done.err
    page = Page(asked / "review.html")
    assert page.root.of_class("sql")[0].inside[0].text == sql
    assert len(page.root.named("script")) == 2 and not page.root.named("b")
    (tile,) = page.tiles
    assert tile.attributes["data-entity"] == name == page.root.named("h1")[0].text
    assert [tag.text for tag in tile.of_class("who")] == [name]
    assert [tag.text for tag in tile.of_class("where")] == [film]
    assert str(asked) not in page.shown
    for no in (False, True):
        command = page.command([tile], no)
        # A real shell takes it apart; what it would call prints its words.
        shell = f"panorama() {{ printf '%s\\0' \"$@\"; }}; {command}"
        words = subprocess.run(["bash", "-c", shell], cwd=asked, capture_output=True, text=True, check=True)
        words = words.stdout.split("\0")[:-1]
        assert name in words and str(asked / place) in words and ("--not" in words) == no
        told = run(*words)
        assert told.status == 0 and "2 examples" in told.err, told.err
        if not no:
            with panorama.open(place) as library:
                library.remove_exemplar(library.exemplars(name)[-1].exemplar_id)
                library.register(name, "album/blue/one.png")
    assert not list(asked.rglob("pwned"))


def test_rows_at_no_time_of_a_video_are_told_and_the_others_shown(run, paged):
    times = "unnest(['1', 'nan', 'inf', NULL]::DOUBLE[]) AS time"
    page = paged(f"SELECT video, {times} FROM videos WHERE video = 'gate/a.mp4'")
    assert "1 of 1 hit on review.html" in page.err
    assert "not shown: gate/a.mp4: no video has the time of the row, inf seconds" in page.err
    assert page.err.count("not shown: gate/a.mp4: the row has no time") == 1


def test_all_videos_of_one_content_stand_on_the_page_and_one_that_is_there_is_shown(run, asked, paged):
    """One of two stood nowhere on it; and where that one was left, the page said that the file was gone."""
    gate, copy = asked / "v" / "gate" / "a.mp4", asked / "v" / "porch" / "x.mp4"
    copy.parent.mkdir()
    shutil.copy(gate, copy)
    run("index", "v")
    rows = run("query", RED, "--json").json
    page = paged(RED)
    named = [tile.of_class("where")[0].text for tile in page.tiles]
    assert set(named) == {"gate/a.mp4, also porch/x.mp4", "yard/b.mp4"}
    assert len(named) == len({row["track_id"] for row in rows}) < len(rows)
    assert "in 3 videos. All rows of a track, in all videos of the same content, are one hit" in page.text
    frames = [tile.named("img")[0].attributes["src"] for tile in page.tiles]
    # Where its file is gone, or another one by now, the copy is shown and marked as before.
    for spoil in (gate.unlink, lambda: write_film(gate, [Thing("blue", 1, 60)], frames=61)):
        spoil()
        again = paged(RED)
        assert {tile.of_class("where")[0].text for tile in again.tiles} == {
            "porch/x.mp4, also gate/a.mp4",
            "yard/b.mp4",
        }
        assert [tile.named("img")[0].attributes["src"] for tile in again.tiles] == frames
        assert page.command(page.tiles) == again.command(again.tiles)
        assert "has changed since it was indexed" not in again.text
    copy.unlink()
    assert paged(RED).text.count("gate/a.mp4, also porch/x.mp4") == named.count(
        "gate/a.mp4, also porch/x.mp4"
    )


def test_a_video_that_is_gone_or_broken_is_told_on_its_tiles(run, asked, paged):
    (asked / "v" / "gate" / "a.mp4").unlink()
    (asked / "v" / "yard" / "b.mp4").write_bytes(b"no film")
    page = paged(RED)
    told = {tile.of_class("where")[0].text: tile.of_class("frame")[0].all_text for tile in page.tiles}
    assert told == {
        "gate/a.mp4": "The file of this video is gone. If it was moved, index it where it is now.",
        "yard/b.mp4": "The file of this video cannot be read at this point.",
    }
    # The stored pictures are still there, and so are the marks.
    assert all(len(tile.named("img")) == 1 and "data-kind" in tile.attributes for tile in page.tiles)
    assert page.err.count("without its frame") == 2
    assert "frame: gate/a.mp4 is gone; if it was moved, index it where it is now\n" in page.err
    assert str(asked) not in page.shown
    strange = paged("SELECT 'nosuch.mp4' AS video, 1.0 AS time")
    assert "The library has no video of this name." in strange.text


def test_a_file_that_was_replaced_is_told_on_the_page_and_to_who_writes_it(run, asked, paged):
    """From Python frames of the other video were shown without a word."""
    with panorama.open() as library:
        result = library.query(RED)
        assert library.page(result, asked / "own.html").warnings == ()
        write_film(asked / "v" / "gate" / "a.mp4", [Thing("blue", 1, 60, top=60)], frames=61)
        report = library.page(result, asked / "own.html")
    (told,) = report.warnings
    assert told.startswith(
        "the file of gate/a.mp4 has changed since it was indexed: pictures are cut from the new file"
    )
    assert told in [tag.text for tag in Page(asked / "own.html").root.of_class("remark")]
    # On the command line once, whatever is written.
    assert paged(RED).err.count(told) == 1
    assert paged(RED, "--sheet", "hits.png", "--clips", "clips").err.count(told) == 1


def test_rows_without_a_track_can_be_looked_at_and_not_be_marked(paged):
    page = paged("SELECT video, time, 'cat' AS entity FROM frames WHERE video = 'gate/a.mp4' AND frame < 2")
    assert len(page.tiles) == 2
    assert not [tile for tile in page.tiles if "data-kind" in tile.attributes or tile.named("button")]
    assert page.text.count("The row names no track") == 2
    bad = paged("SELECT track_id, video, start_time, chr(10) || 'x' AS entity FROM tracks LIMIT 1")
    assert "No entity can have this name" in bad.text and not bad.tiles[0].named("button")


def test_what_names_no_entity_is_given_a_name_on_the_page(paged):
    page = paged("SELECT tracks ORDER BY similarity('album/red/one.png') DESC LIMIT 2")
    assert [tile.attributes["data-entity"] for tile in page.tiles] == ["", ""]
    (named,) = page.data["entities"]
    # It may be a new one.
    assert (named["name"], named["head"].split(" register ")[1], named["tail"]) == ("", "''", "")
    assert page.by_id("name").name == "input"
    assert all("similarity 0." in tile.all_text or "similarity 1." in tile.all_text for tile in page.tiles)


def test_more_hits_than_fit_are_told_with_how_to_get_them(run, paged):
    page = paged(RED, "--page-hits", "2")
    assert len(page.tiles) == 2
    assert "2 of 5 hits on review.html" in page.err and "for all of them: --page-hits 5" in page.err
    assert "the first 2 of 5 hits, in the order of the answer" in page.text
    assert len(paged(RED, "--page-hits", "5").tiles) == 5
    assert run("query", RED, "--page", "x.html", "--page-hits", "0").status == 2


def test_a_page_does_not_call_rows_those_of_a_track_that_are_not(paged):
    """Of one row a track, more than fit, it said that all rows of a track are one hit."""
    assert "All rows of a track" not in paged(RED, "--page-hits", "2").text
    frames = paged("SELECT frames WHERE entity = 'red'", "--page-hits", "2").text
    assert "All rows of a track are one hit; the answer has " in frames
    # A row at no time makes no hit, nor is it one of a track's.
    untimed = paged("SELECT video, start_time FROM tracks UNION ALL SELECT 'gate/a.mp4', NULL")
    assert untimed.tiles and "All rows of a track" not in untimed.text


def test_where_the_entity_is_not_its_name_does_not_stand(paged):
    page = paged("SELECT moments WHERE NOT entity = 'red'")
    assert page.tiles and {tile.attributes["data-entity"] for tile in page.tiles} == {""}
    assert page.root.named("h1")[0].text == "Hits"
    # What names a track is asked about, and without such a column nothing can say otherwise.
    for sql in (
        "SELECT tracks WHERE NOT entity = 'red'",
        "SELECT video, start_time FROM moments WHERE entity = 'red'",
    ):
        page = paged(sql)
        assert page.tiles and {tile.attributes["data-entity"] for tile in page.tiles} == {"red"}


def test_an_empty_answer_says_so(paged):
    page = paged("SELECT frames WHERE entity = 'green'")
    assert not page.tiles and "Nothing was found." in page.text


def test_what_cannot_be_a_page_is_told_before_the_question_is_asked(run, asked):
    wrong = run("query", RED, "--page", "review.pdf")
    assert wrong.status == 2 and "a page is written as .html, .htm, got 'review.pdf'" in wrong.err
    assert wrong.out == ""
    several = run("query", f"{RED}; {RED}", "--page", "review.html")
    assert several.status == 2 and "--page take a single query, got 2" in several.err
    timeless = run("query", "SELECT 1 AS one", "--page", "review.html")
    assert "pictures need the columns video and time" in timeless.err
    (asked / "file").touch()
    barred = run("query", RED, "--page", "file/review.html")
    assert barred.status == 1 and "LibraryWriteError: file/review.html cannot be written" in barred.err
    assert not list(asked.glob("*.html"))


def test_local_time_is_shown_where_it_is_known(run, asked, paged):
    assert not paged(RED).root.of_class("clock")
    run("clock", "gate/a.mp4", "--at", "2026-03-01 10:00:00", "--timezone", "Europe/Berlin")
    page = paged(RED)
    assert {tile.of_class("where")[0].text for tile in page.tiles} == {"gate/a.mp4", "yard/b.mp4"}
    for tile in page.tiles:
        track = f"FROM tracks WHERE track_id = {tile.attributes['data-number']}"
        (row,) = run("query", f"SELECT start_clock, end_clock, start_time, end_time {track}", "--json").json
        shown = f"{clock(row['start_time'])} to {clock(row['end_time'])}"
        told = [tag.text for tag in tile.of_class("when")]
        if row["start_clock"] is None:
            assert told == [shown]
        else:
            first, last = (row[name][:19].replace("T", " ") for name in ("start_clock", "end_clock"))
            assert first.startswith("2026-03-01 10:00:0") and told == [shown, f"{first} - {last[11:]}"]


@pytest.mark.parametrize("rows", ["tracks", "moments"])
def test_a_frame_is_called_by_its_own_time(run, asked, paged, rows):
    """The best view is shown, and it was called by the time at which the track or the moment begins."""
    page = paged(f"SELECT {rows} WHERE entity = 'red'")
    told = run("query", f"SELECT {rows} WHERE entity = 'red'", "--json").json
    behind = []
    for tile, row in zip(page.tiles, told, strict=True):
        best = f"FROM crops WHERE track_id = {row['track_id']} ORDER BY quality DESC, crop_id LIMIT 1"
        (view,) = [row] if rows == "moments" else run("query", f"SELECT frame {best}", "--json").json
        frame = view["frame"]
        sql = f"SELECT time FROM frames WHERE video = '{row['video']}' AND frame = {frame}"
        (shown,) = run("query", sql, "--json").json
        behind.append(shown["time"] - row["start_time"])
        assert f" at {clock(shown['time'])}, " in tile.named("img")[0].attributes["alt"]
        assert tile.attributes["aria-label"].endswith(f" at {clock(shown['time'])}")
        assert clock(row["start_time"]) in tile.of_class("when")[0].text
    assert max(behind) > 0.2


def test_a_name_that_no_entity_can_have_is_refused_and_no_page_is_written(asked):
    with panorama.open("panorama-library") as library:
        result = library.query("SELECT track_id, video, start_time AS time FROM tracks")
        with pytest.raises(EntityError, match="no line breaks or control characters"):
            library.page(result, asked / "own.html", entity="a\0b\nc")
    assert not (asked / "own.html").exists()


def test_of_a_folder_it_is_said_which_picture_is_shown(run, asked, paged):
    """The whole stretch was named, also where somebody listens to what a picture shows."""
    for number in range(6):
        write_picture(
            asked / "v" / "trap" / f"IMG_{number}.png", scene(0, [Thing("red", 0, 1, left=20 + number)])
        )
    run("index", "v", "--model", "color-bands", "--fps", "10")
    trap = "entity = 'red' AND video = 'trap'"
    pictures = run("query", f"SELECT frames, picture WHERE {trap}", "--json").json
    names = {row["frame"]: row["picture"] for row in pictures}
    (row,) = run("query", f"SELECT moments WHERE {trap}", "--json").json
    shown = names[row["frame"]]
    (tile,) = paged(f"SELECT moments, band WHERE {trap}").tiles
    assert tile.attributes["aria-label"] == f"red accepted at {shown}"
    assert tile.named("img")[0].attributes["alt"] == f"red accepted at {shown}, trap"
    assert [tag.text for tag in tile.of_class("when")] == [f"{names[0]} - {names[5]}"]
    assert [tag.text for tag in tile.of_class("shown")] == [f"shown: {shown}"]
    for number, one in enumerate(paged(f"SELECT crops WHERE {trap}").tiles):
        (when,) = one.of_class("when")
        assert when.text in one.attributes["aria-label"] and not one.of_class("shown"), number


def test_of_a_stretch_it_is_said_when_the_frame_shown_is_and_of_several_how_many_they_are(paged):
    """Two moments of one track looked like a single one, over the gap between them."""
    track = (
        "SELECT video, track_id, start_time FROM tracks WHERE video = 'yard/b.mp4' ORDER BY track_id LIMIT 1"
    )
    halves = "unnest([start_time, start_time + {}]) AS start_time"
    asked = f"SELECT video, track_id, {halves} FROM ({track})"
    both = f"SELECT *, start_time + 0.5 AS end_time FROM ({asked})"
    for gap, told in (
        (1.5, "between 0:01.0 and 0:03.0 in 2 stretches, 2 rows"),
        (0.5, "0:01.0 to 0:02.0, 2 rows"),
    ):
        (tile,) = paged(both.format(gap)).tiles
        assert tile.of_class("when")[0].text == told
        (shown,) = tile.of_class("shown")
        assert tile.attributes["aria-label"] == f"at {shown.text.removeprefix('shown: ')}"
    (tile,) = paged(asked.format(1.5)).tiles
    assert tile.of_class("when")[0].text == "0:01.0 to 0:02.5, 2 rows"


def test_from_python_the_answer_is_given_and_the_entity_may_be(asked):
    with panorama.open() as library:
        sql = "SELECT video, track_id, start_time FROM (SELECT tracks WHERE entity = ? AND score >= 0)"
        result = library.query(sql, ["red"])
        report = library.page(result, asked / "own.html", entity="red", most=2)
        assert (report.shown, report.hits, report.failed) == (2, 5, ())
        assert report.size == (asked / "own.html").stat().st_size
        page = Page(asked / "own.html")
        assert {tile.attributes["data-entity"] for tile in page.tiles} == {"red"}
        words = shlex.split(page.command(page.tiles))
        assert words[:3] == ["panorama", "--library", str(library.path)]
        library.page(result, asked / "own.html")
        assert {tile.attributes["data-entity"] for tile in Page(asked / "own.html").tiles} == {""}
        for wrong in ({"result": "SELECT 1"}, {"most": 0}, {"out": ""}):
            with pytest.raises(UsageError):
                library.page(**{"result": result, "out": asked / "own.html", **wrong})
