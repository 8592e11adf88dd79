"""`panorama register` and the other commands of the album: what they register, refuse, change and erase."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import cv2
import numpy as np
import pytest
from fakes import Thing, scene, street, thing_picture, write_album, write_film, write_picture, write_street

from panorama.album.registering import video_picture
from panorama.errors import UsageError

SEEN = "SELECT count(*) AS n FROM (SELECT frames WHERE entity = '{}')"


@pytest.fixture
def indexed(run, tmp_path):
    """A library with one film: red for frames 5 to 35, blue below it for 10 to 30."""
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 35, top=10), Thing("blue", 10, 30, top=70)])
    run("index", "a.mp4", "--model", "color-bands")
    for color in ("red", "blue", "green"):
        write_picture(tmp_path / f"{color}.png", thing_picture(color))
    return tmp_path


def entities(run):
    return {r["entity"]: (r["exemplars"], r["negatives"]) for r in run("entities", "--json").json}


def seen(run, name):
    return run("query", SEEN.format(name), "--format", "json").json[0]["n"]


def test_what_is_registered_answers_at_once_on_footage_indexed_before(run, indexed):
    (indexed / "a.mp4").unlink()
    assert run("register", "van", "red.png").status == 0
    assert 28 <= seen(run, "van") <= 36
    assert run("register", "boat", "green.png").status == 0
    assert seen(run, "boat") == 0


def test_files_folders_and_globs_are_examples_and_the_same_picture_counts_once(run, indexed):
    write_album(indexed / "album", "red", "blue")
    done = run("register", "thing", "red.png", "album/blue", "gr*.png", "album/red/one.png")
    assert done.status == 0
    assert done.err == "new entity thing: 3 examples\n"
    assert (done.out, entities(run)) == ("", {"thing": (3, 0)})
    assert run("register", "thing", "red.png").err == "thing: 3 examples\n"
    assert entities(run) == {"thing": (3, 0)}


def test_what_is_left_out_of_a_folder_is_said_with_why(run, indexed):
    """Cameras save raw files beside JPEG: half of the pictures of a thing were passed over without a word."""
    write_album(indexed / "phone", "red", "blue")
    (indexed / "phone" / "red" / "more").mkdir()
    for name in ("a.NEF", "b.nef", "c.mov", "notes.txt", "README", ".DS_Store", "._one.png"):
        (indexed / "phone" / "red" / name).write_bytes(b"nothing that is read")
    why = (
        "2 .nef (cannot be read: save as JPEG or PNG), "
        "1 .mov (video: take an example with --video FILE --at SECONDS --box x1,y1,x2,y2), "
        "1 without suffix 1 .txt (not named as a picture)"
    )
    done = run("register", "van", "phone/red", "--not", "phone/blue")
    more = "1 subfolder (name each one that is meant)"
    assert done.err == f"new entity van: 1 example and 1 look-alike\nleft out of phone/red: {why}, {more}\n"
    told = run("query", "ALTER ENTITY 'van' ADD 'phone/red'").err
    assert "left out of" in told and f"phone/red: {why}, {more}" in told
    (indexed / "phone" / "red" / "more").rename(indexed / "phone" / "red" / "not")
    (indexed / "phone" / "red" / "not" / "x.dng").write_bytes(b"")
    told = run("register", "--album", "phone").err
    assert told.startswith(
        f"new entity blue: 1 example\nnew entity red: 1 example\nleft out of phone/red: {why}\nleft out of"
    )
    assert told.endswith("phone/red/not: 1 .dng (cannot be read: save as JPEG or PNG)\n")
    (indexed / "phone" / "red" / "one.png").unlink()
    assert "holds no image" in run("register", "van", "phone/red").err
    assert "2 .nef (cannot be read" in run("register", "van", "phone/red").err


def test_kinds_of_pictures_that_browsers_save_count_in_a_folder(run, indexed):
    """They were read where they were named, and passed over in a folder."""
    (indexed / "saved").mkdir()
    (indexed / "red.png").rename(indexed / "saved" / "a.gif")  # what a file is its bytes say
    (indexed / "blue.png").rename(indexed / "saved" / "b.jfif")
    assert run("register", "thing", "saved").err == "new entity thing: 2 examples\n"


def test_not_takes_all_images_that_follow_it(run, indexed):
    done = run("register", "van", "red.png", "--not", "blue.png", "green.png")
    assert (done.status, entities(run)) == (0, {"van": (1, 2)})
    assert run("register", "car", "--not", "blue.png", "--find", "scene.png").status == 1
    assert run("register", "new", "--not", "blue.png").status == 2
    assert run("register", "van", "--not").status == 2
    refused = run("register", "van", "blue.png").err
    assert "both an exemplar and a look-alike" in refused
    assert entities(run) == {"van": (1, 2)}
    _, command = refused.strip().split("first: panorama ")
    assert run(*shlex.split(command)).status == 0
    assert run("register", "van", "blue.png").status == 0
    assert entities(run) == {"van": (2, 1)}


def test_box_cuts_the_picture_and_find_proposes_the_region(run, indexed):
    picture = scene(20, [Thing("red", 0, 40, left=20, top=30)])
    write_picture(indexed / "scene.png", picture)
    assert run("register", "boxed", "scene.png", "--box", "40,30,72,62").status == 0
    told = run("register", "found", "scene.png", "--find")
    assert told.status == 0
    # What it takes for the thing was not said; of a landscape it was a bush.
    assert "cut out: scene.png [40,30,72,62], 32x32 of 160x120 pixels; if that is something else" in told.err
    for name in ("boxed", "found"):
        row = run("exemplars", name, "--json").json[0]
        assert row["size"] == "32x32"
        assert row["source"] == "scene.png [40,30,72,62]"
    assert run("register", "grey", "red.png", "--find", "--box", "0,0,9,9").status == 2
    assert run("register", "two", "red.png", "blue.png", "--box", "0,0,9,9").status == 2
    for box in ("40,30,72", "40,30,40,62", "100,0,200,50", "a,b,c,d"):
        done = run("register", "boxed2", "scene.png", "--box", box)
        assert done.status == 2 and done.err.startswith("BadBox: ")
    for shares in ("0.25,0.25,0.45,1", "25%, 25%, 45%, 100%"):
        told = run("register", "boxed2", "scene.png", "--box", shares).err
        assert "in pixels of the 160x120 picture, of which that would be 40,30,72,120;" in told
    assert set(entities(run)) == {"boxed", "found"}


def test_what_find_cut_out_is_shown_by_the_command_that_register_names(run, indexed):
    """Nothing showed which part had been cut out; the command that was named had NAME for the name."""
    for number in range(7):
        picture = scene(20, [Thing("red", 0, 40, side=32 + number)])
        write_picture(indexed / "scenes" / f"{number}.png", picture)
    done = run("register", "my van", "scenes", "--find")
    assert "and out of 2 more pictures" in done.err and "NAME" not in done.err
    (line,) = (line for line in done.err.splitlines() if line.startswith("to look at what was cut out: "))
    assert line.endswith("panorama exemplars 'my van' --sheet examples.jpg")
    shown = run(*shlex.split(line.partition("panorama ")[2]))
    assert shown.status == 0 and "7 of 7 pictures drawn in examples.jpg" in shown.err
    sheet = cv2.imread("examples.jpg")
    tile = np.s_[6:206, 6:326, :]
    assert sheet[tile][90:110, 150:170, 2].min() > 150 > sheet[tile][90:110, 150:170, 0].max(), "red (BGR)"
    assert sheet.shape == (2 * (200 + 34 + 6) + 6, 4 * (320 + 6) + 6, 3)
    assert "--sheet" not in run("register", "whole", "red.png").err


def test_a_sheet_of_examples_has_what_is_left_and_says_what_cannot_be_read(run, indexed):
    run("register", "van", "red.png", "blue.png", "--not", "green.png")
    rows = run("exemplars", "van", "--json").json
    done = run("exemplars", "van", "--remove", rows[0]["exemplar"], "--sheet", "van.png", "--json")
    assert "2 of 2 pictures drawn in van.png" in done.err and len(done.json) == 2
    (first, *_) = sorted((indexed / "panorama-library" / "album").rglob("*.jpg"))
    first.write_bytes(b"no picture")
    done = run("exemplars", "van", "--sheet", "van.png")
    assert done.status == 3 and "1 of 2 pictures drawn" in done.err
    assert re.search(r"exemplar \d+: its stored picture cannot be read: ", done.err)
    before = run("exemplars", "van", "--json").out
    for bad in ("van.gif", "a.mp4"):
        refused = run("exemplars", "van", "--remove", rows[1]["exemplar"], "--sheet", bad)
        assert refused.status == 2 and run("exemplars", "van", "--json").out == before, "nothing was removed"


def test_drop_takes_the_yes_of_the_commands_beside_it(run, indexed):
    run("register", "van", "red.png")
    done = run("drop", "van", "--yes")
    assert done.status == 0 and "dropped van" in done.err and entities(run) == {}


def test_where_nothing_is_registered_it_is_said_how_the_first_thing_is(run, indexed):
    """An error sent to `panorama entities`, which printed a header and nothing below it."""
    for words, status in (
        (("entities",), 0),
        (("query", "SELECT moments WHERE entity = 'blue van'"), 1),
        (("query", "SELECT count(*) FROM sightings WHERE entity = 'blue van'"), 0),
        (("query", "DROP ENTITY 'blue van'"), 1),
        (("exemplars", "blue van"), 1),
    ):
        done = run(*words)
        name = "NAME" if words == ("entities",) else "'blue van'"
        assert done.status == status and "nothing is registered yet" in done.err, done.err
        assert f"panorama register {name} PICTURE..." in done.err
        assert "See: panorama entities" not in done.err


def test_a_place_in_a_video_is_an_example_by_file_or_by_name(run, indexed):
    where = ["--at", "1.5", "--box", "20,10,52,42"]
    assert run("register", "van", "--video", "a.mp4", *where).status == 0
    (indexed / "elsewhere").mkdir()
    (indexed / "a.mp4").rename(indexed / "elsewhere" / "a.mp4")
    run("index", "elsewhere")
    assert run("register", "van2", "--video", "a.mp4", *where).status == 0
    assert 28 <= seen(run, "van2") <= 36
    assert run("register", "x", "--video", "a.mp4", "--at", "1.5").status == 2
    assert "--video FILE --at SECONDS --box" in run("register", "x", "--video", "a.mp4").err
    assert run("register", "x", "--video", "a.mp4", "--box", "1,1,20,20").status == 2
    late = run("register", "x", "--video", "a.mp4", "--at", "60", "--box", "1,1,20,20")
    assert late.status == 2 and "3.900 s" in late.err
    lost = run("register", "x", "--video", "b.mp4", *where)
    assert lost.status == 1
    told = "there is no file b.mp4, and no video of that name. Did you mean 'a.mp4'? See: panorama videos"
    assert lost.err == f"VideoOpenError: {told}\n"


@pytest.mark.parametrize(("rate", "last"), [(10, 4.4), (1, 40.0)])
def test_a_place_in_a_video_may_be_as_late_as_its_last_frame_is_shown(tmp_path, rate, last):
    """Of one frame a second, half of the last second that a moment reaches over was refused."""
    film = write_street(tmp_path / "a.mp4", [street(1)] * 40, rate)
    box = "20,10,52,42"
    assert video_picture(film, last, box).source == f"{film} at {39 / rate:.3f} s [{box}]"
    with pytest.raises(UsageError, match=f"{39 / rate:.3f} s, got {last + 0.1:g}"):
        video_picture(film, last + 0.1, box)


def test_not_before_a_place_in_a_video_makes_a_look_alike_of_it(run, indexed):
    """`--not --video ...` lost its --not: what was denied became an example, and was found from then on."""
    where = ["--video", "a.mp4", "--at", "1.5", "--box", "20,70,52,102"]
    run("register", "van", "red.png")
    assert run("register", "van", "--not", *where).err.startswith("van: 1 example and 1 look-alike\n")
    assert run("register", "van", *where[:4], "--box", "20,10,52,42", "--not").status == 0
    assert entities(run) == {"van": (1, 2)}
    fresh = run("register", "bus", "--not", *where)
    assert fresh.status == 2 and "give an example of it" in fresh.err
    assert run("register", "van", "--not", "--find", "red.png").status == 2
    assert run("register", "van", "--not", "red.png", *where).status == 2
    assert entities(run) == {"van": (1, 2)}


def test_a_denial_of_the_only_example_says_that_there_is_none_now(run, tmp_path):
    """It went from the examples to the look-alikes without a word, and the entity was found no more."""
    write_film(tmp_path / "a.mp4", [Thing("red", 5, 35)])
    run("index", "a.mp4", "--model", "color-bands")
    asked = ("register", "van", "--video", "a.mp4", "--at", "1.5", "--box", "20,70,52,102")
    told = "'van' has no example, so nothing matches it; add one: panorama register van IMAGE..."
    assert told not in run(*asked).err
    denied = run(*asked, "--not")
    assert denied.status == 0 and "van: 0 examples and 1 look-alike" in denied.err and told in denied.err
    assert told not in run(*asked).err


def test_tracks_and_crops_of_an_answer_are_examples_or_denied(run, indexed):
    run("register", "red", "red.png")
    run("register", "blue", "blue.png")
    track = "SELECT track_id FROM sightings WHERE entity = '{}'"
    red, blue = (run("query", track.format(name), "--json").json[0]["track_id"] for name in ("red", "blue"))
    crop = run("query", f"SELECT crop_id FROM crops WHERE track_id = {blue}", "--json").json[0]["crop_id"]
    told = run("register", "van", "--track", str(red)).err.splitlines()
    assert told[0] == "new entity van: 1 example" and len(told) == 2
    assert told[1].startswith("so small that other things may be accepted for it: a.mp4 at ")
    assert run("register", "van", "--not", "--crop", str(crop)).err == "van: 1 example and 1 denied\n"
    assert 28 <= seen(run, "van") <= 36
    yes, no = run("exemplars", "van", "--json").json
    assert (yes["kind"], no["kind"]) == ("example", "denied")
    more = run("register", "van", "--not", "green.png")
    assert more.err == "van: 1 example, 1 look-alike and 1 denied\n"
    assert entities(run)["van"] == (1, 2)
    assert yes["source"].startswith("a.mp4 at ") and no["source"].endswith(f" s, crop {crop}")
    for words, told in (
        (["--track", "5"], "no track 5"),
        (["--crop", "5"], "no crop 5"),
        (["--track", str(red), "red.png"], "register images separately"),
        (["--track", str(red), "--box", "0,0,9,9"], "register images separately"),
        (["--track", str(red), "--known"], "no entity 'x'."),
        (["red.png", "--known"], "no entity 'x'."),
        (["red.png", "--skip-gone"], "--skip-gone goes with --track and --crop"),
    ):
        done = run("register", "x", *words)
        assert done.status in (1, 2) and told in done.err
    assert "x" not in entities(run)


def test_a_box_is_taken_as_an_answer_has_it(run, indexed):
    """Boxes of answers have decimals, and were refused: four whole numbers."""
    run("register", "red", "red.png")
    row = run("query", "SELECT moments WHERE entity = 'red'", "--json").json[0]
    box = ",".join(f"{row[corner] + 0.25:.3f}" for corner in ("x1", "y1", "x2", "y2"))
    done = run("register", "van", "--video", "a.mp4", "--at", str(row["frame"] / 10), "--box", box)
    assert (done.status, entities(run)["van"]) == (0, (1, 0))
    rounded = ",".join(str(round(row[corner] + 0.25)) for corner in ("x1", "y1", "x2", "y2"))
    assert run("exemplars", "van", "--json").json[0]["source"].endswith(f"[{rounded}]")
    for wrong in ("nan,0,9,9", "0,0,inf,9", "0.2,0,0.4,9"):
        assert run("register", "x", "red.png", "--box", wrong).err.startswith("BadBox: ")


def test_an_album_is_registered_whole_or_not_at_all(run, indexed):
    album = write_album(indexed / "album", "blue", "green", "red")
    write_picture(album / "red" / "not" / "b.png", thing_picture("purple"))
    (album / "green" / "two.jpg").write_bytes(b"")
    done = run("register", "--album", "album")
    assert done.status == 1 and "two.jpg is empty" in done.err
    assert entities(run) == {}
    (album / "green" / "two.jpg").unlink()
    write_picture(album / "green" / "not" / "same.png", thing_picture("green"))
    done = run("register", "--album", "album")
    assert done.status == 1 and "both an exemplar and a look-alike" in done.err
    assert entities(run) == {}
    (album / "green" / "not" / "same.png").unlink()
    assert run("register", "--album", "album").status == 0
    assert entities(run) == {"blue": (1, 0), "green": (1, 0), "red": (1, 1)}
    (album / "hollow").mkdir()
    done = run("register", "--album", "album")
    assert done.status == 1 and "hollow holds no image; add one" in done.err
    (album / "hollow").rmdir()
    above = run("register", "--album", ".")
    assert above.status == 1 and "album holds no image; is album the album?" in above.err
    assert run("register", "--album", "album", "name").status == 2
    assert run("register", "--album", "nosuch").status == 2


def test_pictures_that_cannot_serve_are_refused_in_one_line(run, indexed):
    (indexed / "film.mp4").write_bytes(b"no picture")
    (indexed / "empty.jpg").touch()
    (indexed / "text.jpg").write_text("no picture")
    write_picture(indexed / "blank.png", np.full((64, 64, 3), 90, np.uint8))
    write_picture(indexed / "tiny.png", thing_picture("red", 4))
    (indexed / "hollow").mkdir()
    write_album(indexed / "kept", "red", "blue")
    (indexed / "films").mkdir()
    (indexed / "a $(x).webm").write_bytes(b"no picture")
    for name in ("b.mkv", "a.mp4", ".hidden.mp4"):
        (indexed / "films" / name).write_bytes(b"no picture")
    reasons = {
        "film.mp4": "register NAME --video film.mp4 --at SECONDS --box",
        "films": "no image but 2 videos; cut an example out of a frame: panorama register NAME"
        " --video films/a.mp4 --at SECONDS --box x1,y1,x2,y2",
        "a $(x).webm": "register NAME --video 'a $(x).webm' --at SECONDS --box",
        "empty.jpg": "is empty (0 bytes)",
        "text.jpg": "is not a picture",
        "blank.png": "shows nothing",
        "tiny.png": "4x4 pixels",
        "nosuch.png": "no image at",
        "hollow": "holds no image",
        "kept": "but 2 subfolders have; to register an entity for each: panorama register --album kept",
    }
    whole = (indexed / "red.png").read_bytes()
    (indexed / "cut.png").write_bytes(whole[:33])
    words = [sys.executable, "-m", "panorama", "register", "x", "cut.png"]
    told = subprocess.run(words, cwd=indexed, capture_output=True, text=True).stderr
    assert told.startswith("BadImage: cut.png is damaged or incomplete")
    assert told.count("\n") == 1  # OpenCV is silent
    for name, reason in reasons.items():
        done = run("register", "x", "red.png", name)
        assert done.status == 1
        assert done.err.startswith("BadImage: ") and reason in done.err and name in done.err
        assert done.err.count("\n") == 1
    assert entities(run) == {}
    assert list((indexed / "panorama-library" / "album").rglob("*.jpg")) == []


def test_a_forgotten_name_is_noticed(run, indexed):
    done = run("register", "red.png", "blue.png")
    assert done.status == 2 and "name the entity first" in done.err
    (indexed / "album").mkdir()
    folder = run("register", "album")
    assert folder.status == 2 and "album is a folder: name the entity first" in folder.err
    assert run("register").status == 2
    assert run("register", "  ", "red.png").status == 1
    assert entities(run) == {}


def test_rename_drop_and_removing_an_exemplar(run, indexed):
    run("register", "van", "red.png", "blue.png")
    run("register", "boat", "green.png")
    boat = run("exemplars", "boat", "--json").json[0]["exemplar"]
    assert run("rename", "van", "boat").status == 1
    assert run("rename", "van", "lorry").status == 0
    both = seen(run, "lorry")
    pictures = run("exemplars", "lorry", "--json").json
    blue = next(p["exemplar"] for p in pictures if p["source"] == "blue.png")
    assert run("exemplars", "lorry", "--remove", "9999").status == 2
    left = run("exemplars", "lorry", "--remove", blue, "--json")
    assert [p["source"] for p in left.json] == ["red.png"]
    assert 28 <= seen(run, "lorry") <= 36 < both
    wrong = run("drop", "lorry", "boot")
    assert wrong.status == 1 and "Did you mean 'boat'" in wrong.err
    assert set(entities(run)) == {"boat", "lorry"}
    assert run("exemplars", "boat", "--remove", boat, "--remove", boat).err.count("removed") == 1
    assert run("drop", "lorry ", "boat", " lorry", "boat").err == "dropped lorry\ndropped boat\n"
    assert run("entities", "--json").out.strip() == "[]"


def test_forget_asks_first_and_then_leaves_no_trace(run, indexed, monkeypatch):
    run("register", "my-neighbour", "red.png")
    monkeypatch.setattr("click.termui.visible_prompt_func", lambda text: "n")
    kept = run("forget", "my-neighbour")
    assert kept.status == 1 and "nothing was erased" in kept.err

    def nobody(text):
        raise EOFError

    monkeypatch.setattr("click.termui.visible_prompt_func", nobody)
    alone = run("forget", "my-neighbour")
    assert alone.status == 130 and "nothing was erased; --yes erases without asking\n" in alone.err
    assert set(entities(run)) == {"my-neighbour"}
    assert run("info", "--json").json["forgotten"] == [] and "forgotten" not in run("info").out
    assert run("forget", "my-neighbour", "--with-sightings", "--yes").status == 0
    (told,) = run("info", "--json").json["forgotten"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", told["at"])
    assert told["erased"] == "exemplars, the crops of 1 track"
    assert f"\nforgotten: 1 entity, last at {told['at']}: {told['erased']}\n" in run("info").out
    assert entities(run) == {}
    assert run("query", "SELECT count(*) AS n FROM crops", "--format", "json").json[0]["n"] > 0
    library = indexed / "panorama-library"
    assert not [p for p in library.rglob("*") if p.is_file() and b"my-neighbour" in p.read_bytes()]
    assert run("forget", "my-neighbour", "--yes").status == 1


def test_a_photo_taken_sideways_is_turned_upright(tmp_path):
    import cv2

    from panorama.album.given_pictures import read_picture

    upright = np.zeros((40, 80, 3), np.uint8)
    upright[:, :40] = (255, 0, 0)
    done, data = cv2.imencode(".jpg", cv2.rotate(upright, cv2.ROTATE_90_COUNTERCLOCKWISE)[:, :, ::-1])
    assert done
    # Orientation 6: turn clockwise to show. TIFF header, one entry of tag 0x0112.
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif
    (tmp_path / "phone.jpg").write_bytes(data.tobytes()[:2] + segment + data.tobytes()[2:])
    rgb = read_picture(tmp_path / "phone.jpg").rgb
    assert rgb.shape == (40, 80, 3)
    assert rgb[20, 10, 0] > 200 and rgb[20, 70, 0] < 50
