"""Commands of a page: what they teach, and what they refuse where the library is another by now."""

from __future__ import annotations

import base64
import re
import shlex
import shutil

import pytest
from fakes import Thing, thing_picture, write_film, write_picture
from page_samples import RED, Page

import panorama
from panorama.album import registering


def test_the_commands_tell_the_library_what_the_small_pictures_show(run, asked, paged):
    page = paged(RED)
    yes, no = page.tiles[:2], page.tiles[-1:]
    small = [tile.named("img")[1].attributes["src"] for tile in [*yes, *no]]
    pictures = [base64.b64decode(source.split(",")[1]) for source in small]
    for command, told in (
        (page.command(yes), "red: 3 examples"),
        (page.command(no, no=True), "red: 3 examples and 1 denied"),
    ):
        done = run(*shlex.split(command)[1:])
        assert (done.status, told in done.err) == (0, True), done.err
    with panorama.open() as library:
        known = library.exemplars("red")[1:]
        taken = [int(re.search(r"crop (\d+)$", exemplar.source)[1]) for exemplar in known]
        stored = library.stored_crops(taken)
        assert [stored[crop] for crop in taken] == pictures
        assert [exemplar.negative for exemplar in known] == [False, False, True]
    # And asked again, what was confirmed is accepted.
    bands = {tile.attributes["data-number"]: tile.attributes["data-band"] for tile in paged(RED).tiles}
    assert {bands[tile.attributes["data-number"]] for tile in yes} == {"accepted"}


@pytest.mark.parametrize(
    "words",
    [
        ("--known", "red", "red.png"),
        ("--known", "red", "--track", "{track}"),
        ("--known", "red", "--video", "v/gate/a.mp4", "--at", "1", "--box", "20,10,52,90"),
        ("red", "--not", "--track", "{track}"),
    ],
)
def test_what_is_forgotten_while_pictures_are_embedded_stays_forgotten(run, asked, monkeypatch, words):
    """It was looked up before the pictures were embedded: who was forgotten meanwhile was registered anew."""
    write_picture(asked / "red.png", thing_picture("red"))
    (row, *_) = run("query", RED, "--format", "json").json
    embedded = registering.ready_for

    def meanwhile(*given):
        ready = embedded(*given)
        assert run("forget", "red", "--yes").status == 0
        return ready

    monkeypatch.setattr(registering, "ready_for", meanwhile)
    refused = run("register", *(word.format(track=row["track_id"]) for word in words))
    assert refused.status == 1, refused.err
    assert "no entity 'red'" in refused.err
    assert ("--known registers no new entity" in refused.err) == ("--known" in words)
    assert "red" not in {row["entity"] for row in run("entities", "--json").json}


def test_an_older_page_makes_no_entity_and_no_library_anew(run, asked, paged, monkeypatch):
    """Who had been renamed was there twice, who had been forgotten again; and any library was asked."""
    monkeypatch.setenv("PANORAMA_LIBRARY", "panorama-library")
    page = paged(RED)
    (asked / "elsewhere").mkdir()
    monkeypatch.chdir(asked / "elsewhere")
    words = shlex.split(page.command(page.tiles[:1]))[1:]
    assert run(*words).err.startswith("red: 2 examples\nso small that other things may be accepted")
    library = ["--library", str(asked / "panorama-library")]
    run("rename", "red", "reds", *library)
    refused = run(*words)
    assert refused.status == 1
    assert "no entity 'red'. Did you mean 'reds'" in refused.err and "--known" in refused.err
    run("forget", "reds", "--yes", *library)
    assert run(*words).status == 1
    assert "red" not in {row["entity"] for row in run("entities", "--json", *library).json}
    # Typed by hand it makes one, and says so.
    words.remove("--known")
    assert run(*words).err.startswith("new entity red: 1 example\nso small that")
    # What no library knew when the page was written is made by it.
    page = Page(asked / "review.html")
    unnamed = run(
        "query",
        "SELECT video, track_id, start_time, 'guest' AS entity FROM tracks",
        "--page",
        "p.html",
        *library,
    )
    assert (
        unnamed.status == 0
        and "--known" not in Page(asked / "elsewhere" / "p.html").data["entities"][0]["head"]
    )


def test_marks_of_a_video_that_was_indexed_anew_are_all_told_and_the_others_taken(run, asked, paged):
    """One of up to two hundred refused the command, and the next was named when it was taken out."""
    page = paged(RED)
    ids = {tile.attributes["data-number"]: tile.of_class("where")[0].text for tile in page.tiles}
    write_film(asked / "v" / "gate" / "a.mp4", [Thing("red", 1, 60, top=60)], frames=61)
    run("index", "v")
    older = ", ".join(number for number, video in ids.items() if video == "gate/a.mp4")
    left = sum(video == "yard/b.mp4" for video in ids.values())
    assert ", " in older and left
    words = shlex.split(page.command(page.tiles))[1:]
    refused = run(*words)
    told = (
        f"no tracks {older} with a stored crop: indexed again or removed since; write the page, or query,"
        " again"
    )
    rest = f"--skip-gone (skip_gone=True) registers the rest, {left} of {len(ids)}"
    assert (refused.status, refused.err) == (2, f"UsageError: {told}; {rest}\n")
    done = run(*words, "--skip-gone")
    skipped = f"skipped {len(ids) - left} of {len(ids)}: {told}"
    assert done.status == 0 and f"red: {1 + left} examples\n{skipped}\n" in done.err, done.err
    nothing_left = run("register", "red", "--track", older.split(", ")[0], "--skip-gone")
    assert nothing_left.status == 2 and "registers the rest" not in nothing_left.err


def test_commands_of_a_page_teach_no_other_library_that_lies_in_its_place(run, asked, paged):
    """Ids are counted: a library made anew gave them to other videos, whose pictures became examples."""
    page = paged(RED)
    videos = {tile.attributes["data-number"]: tile.of_class("where")[0].text for tile in page.tiles}
    shutil.rmtree(asked / "panorama-library")
    write_film(asked / "v" / "gate" / "a.mp4", [Thing("blue", 5, 35)])
    run("index", "v", "--model", "color-bands", "--fps", "10")
    run("register", "red", "album/red/one.png")
    there = {str(row["track_id"]) for row in run("query", "SELECT track_id FROM tracks", "--json").json}
    others = {number for number, video in videos.items() if video == "gate/a.mp4"} & there
    assert others and set(videos) - others <= there
    for no in (False, True):
        refused = run(*shlex.split(page.command(page.tiles, no))[1:])
        assert refused.status == 2 and "; --skip-gone (skip_gone=True) registers the rest, " in refused.err
        told = re.search(r"no tracks? ([\d, ]+) with the picture that was seen: ([^;]+;[^;]+)", refused.err)
        assert set(told[1].split(", ")) == others
        assert told[2] == (
            "the library was made again or restored since, and these numbers now mean others; "
            "write the page, or query, again"
        )
    assert len(run("exemplars", "red", "--json").json) == 1
    # What is the same picture by the same number was seen, whoever indexed it.
    done = run(*shlex.split(page.command(page.tiles))[1:], "--skip-gone")
    taken = run("exemplars", "red", "--json").json[1:]
    assert done.status == 0 and taken and {row["source"][:10] for row in taken} == {"yard/b.mp4"}


def test_commands_of_a_page_of_what_a_backup_does_not_hold_are_refused(run, asked, paged):
    shutil.copytree(asked / "panorama-library", asked / "backup")
    write_film(asked / "v" / "c.mp4", [Thing("red", 2, 30)])
    run("index", "v")
    page = paged(f"FROM ({RED}) WHERE video = 'c.mp4'")
    shutil.rmtree(asked / "panorama-library")
    (asked / "backup").rename(asked / "panorama-library")
    (asked / "v" / "c.mp4").unlink()
    write_film(asked / "v" / "d.mp4", [Thing("blue", 2, 30)])
    run("index", "v")
    tile = page.tiles[0]
    number = tile.attributes["data-number"]
    (there,) = run("query", f"SELECT video FROM tracks WHERE track_id = {number}", "--json").json
    assert there["video"] == "d.mp4"
    refused = run(*shlex.split(page.command([tile]))[1:])
    assert refused.status == 2 and f"no track {number} with the picture that was seen" in refused.err
    # By its number alone it is what the number means now.
    assert run("register", "red", "--track", number).err.startswith("red: 2 examples\nso small that")
    # And no digits are taken for others.
    for wrong in (f"{number}:", f"{number}:123", f"{number}:0123456z", "x", "", f"{2**64}"):
        mistyped = run("register", "red", "--track", wrong)
        assert mistyped.status == 2 and "a track is named by its id, " in mistyped.err
        assert mistyped.err.endswith(f"got {wrong!r}\n")
