"""Photographs that show far more than the entity are told of when they are registered, as is what is left."""

from __future__ import annotations

import shlex
import weakref
from pathlib import Path

import cv2
import numpy as np
import pytest
from fakes import Thing, scene, write_film, write_picture
from numpy.typing import NDArray

import panorama
import panorama.album.given_pictures as given_pictures
from panorama.album.whole_pictures import main_part
from panorama.crops import encode_jpeg
from panorama.errors import BadImage, ModelError, UsageError
from panorama.regions import DETECTOR, Regions

Rgb = NDArray[np.uint8]


def photograph(*things: Thing) -> Rgb:
    """A scene (480, 640, 3) with things four times as large as they are there, on uneven ground."""
    large = np.kron(scene(20, things), np.ones((4, 4, 1), np.uint8))
    uneven = np.random.default_rng(1).integers(0, 100, (480, 640, 1), np.uint8)
    return np.asarray(large // 2 + uneven, np.uint8)


RED = Thing("red", 0, 40, left=20, top=30)
"""Of `photograph`, it fills 160,120,288,248."""


@pytest.fixture
def library(run, tmp_path):
    run("index", "--model", "color-bands", write_film(tmp_path / "a.mp4", [RED]))
    with panorama.open(tmp_path / "panorama-library") as opened:
        yield opened


def region(share: float, score: float) -> tuple[list[float], float]:
    """In a picture of 100 by 100 pixels."""
    return [0, 0, 100, 100 * share], score


@pytest.mark.parametrize(
    ("regions", "part"),
    [
        ([region(0.2, 0.6)], ((0, 0, 100, 20), 0.2)),
        ([region(0.2, 0.6), region(0.3, 0.5), region(0.9, 0.2)], ((0, 0, 100, 20), 0.2)),
        ([region(0.4, 0.6)], None),  # as large as what fills its crop may be found
        ([region(0.2, 0.6), region(0.5, 0.25)], None),  # a part of a thing that nearly fills the picture
        ([region(0.9, 0.9), region(0.1, 0.8)], None),
        ([], None),  # nothing says what it shows
    ],
)
def test_a_picture_shows_far_more_than_a_thing_if_no_region_fills_it(regions, part):
    boxes, scores = [box for box, _ in regions], [score for _, score in regions]
    found = main_part(Regions.of(np.array(boxes), np.array(scores), DETECTOR), (100, 100))
    assert found is None if part is None else found == (part[0], pytest.approx(part[1]))


def test_a_photograph_is_told_of_with_what_to_do_which_works_as_typed(run, library, tmp_path):
    """It found next to nothing, or its surroundings, and nothing was said."""
    write_picture(tmp_path / "photo.png", photograph(RED))
    told = run("register", "car", "photo.png").err
    assert "photo.png seems to show far more than the entity" in told
    assert "at 160,120,288,248, fills 5% of it" in told
    assert run("register", "car", "photo.png", "--find").status == 0
    assert [row["size"] for row in run("exemplars", "car", "--json").json] == ["640x480", "128x128"]
    (remove,) = (line.partition("panorama ")[2] for line in told.splitlines() if "--remove" in line)
    assert run(*shlex.split(remove)).status == 0
    assert [row["size"] for row in run("exemplars", "car", "--json").json] == ["128x128"]


def test_what_was_cut_out_or_is_small_is_not_told_of(run, library, tmp_path, monkeypatch):
    cut = photograph(Thing("red", 0, 40, left=0, top=0, side=100))[:400, :400]
    write_picture(tmp_path / "cut.png", cut)
    assert run("register", "cut", "cut.png").err == "new entity cut: 1 example\n"
    monkeypatch.setattr(type(library), "proposer", property(lambda self: pytest.fail("not needed")))
    write_picture(tmp_path / "small.png", photograph(RED)[::2, ::2])
    assert run("register", "small", "small.png").err == "new entity small: 1 example\n"


def test_look_alikes_are_not_told_of_but_albums_and_sql_are(run, library, tmp_path):
    photo, other = photograph(RED), photograph(Thing("blue", 0, 40, left=50, top=30))
    write_picture(tmp_path / "album" / "car" / "1.png", photo)
    write_picture(tmp_path / "album" / "car" / "not" / "1.png", other)
    (car,) = library.register_album(tmp_path / "album")
    (told,) = car.warnings
    assert "far more than the entity" in told and "/car/1.png" in told
    found = library.query("CREATE ENTITY 'van' FROM 'album/car/1.png'", picture_root=tmp_path)
    assert [line.startswith("album/car/1.png seems to show far more") for line in found.warnings] == [True]


def test_of_many_photographs_the_first_five_are_told_of(library):
    photos = [photograph(Thing("red", 0, 40, left=20 + i, top=30)) for i in range(7)]
    told = library.register("car", photos).warnings
    assert [line.startswith(f"array {i} seems") for i, line in enumerate(told[:5], 1)] == [True] * 5
    assert told[5] == "and 2 more pictures like that"


def test_a_box_is_of_the_file_if_a_margin_was_cut_off(library):
    wide = cv2.copyMakeBorder(photograph(RED), 0, 0, 100, 100, cv2.BORDER_CONSTANT, value=(255, 255, 255))
    margin, whole = library.register("car", [np.asarray(wide, np.uint8)]).warnings
    assert "margin" in margin and "at 260,120,388,248," in whole


def test_a_box_is_of_the_file_if_a_transparent_margin_was_cut_off(library):
    """It counted pixels of what was left, while --box counts those of the file."""
    opaque = np.dstack([photograph(RED), np.full((480, 640), 255, np.uint8)])
    clear = cv2.copyMakeBorder(opaque, 50, 0, 100, 100, cv2.BORDER_CONSTANT, value=(0, 0, 0, 0))
    (whole,) = library.register("car", [np.asarray(clear, np.uint8)]).warnings
    assert "at 260,170,388,298," in whole


def test_a_proposer_that_is_gone_keeps_nobody_from_registering(library, monkeypatch):
    def gone(self: object) -> None:
        raise ModelError("no proposer at models/mine")

    monkeypatch.setattr(type(library), "proposer", property(gone))
    car = library.register("car", [photograph(RED)])
    assert car.exemplars == 1
    assert car.warnings == (
        "whether the examples show more than the entity was not looked at: no proposer at models/mine",
    )


def test_what_find_took_can_be_taken_out_and_what_comes_next_is_named(run, library, tmp_path):
    """The wrong part stayed an example beside the right one, and its box had to be measured."""
    both = photograph(Thing("red", 0, 40, left=20, top=30, side=40), Thing("blue", 0, 40, left=90, top=30))
    write_picture(tmp_path / "photo.png", both)
    told = run("register", "blue car", "photo.png", "--find").err
    first = next(line for line in told.splitlines() if "found and cut out" in line)
    box = first.partition("(next come ")[2].partition(")")[0]
    assert run("register", "blue car", "photo.png", "--box", box).status == 0
    assert run(*shlex.split(first.partition(": panorama ")[2])).status == 0
    (left,) = run("exemplars", "blue car", "--json").json
    assert left["source"] == f"photo.png [{box}]"


@pytest.mark.parametrize("way", [{"find": True}, {"box": (160, 120, 288, 248)}])
def test_a_whole_picture_that_is_an_example_beside_its_part_is_told_of(library, way):
    """With both, all that surrounds the thing was found as well, and nothing was said."""
    photo = photograph(RED)
    library.register("car", [photo])
    library.register("car", [photograph(Thing("red", 0, 40, left=60, top=30))])
    (told,) = (line for line in library.register("car", [photo], **way).warnings if "the whole of" in line)
    whole = library.exemplars("car")[0].exemplar_id
    assert told.startswith("the whole of 1 picture is an example as well")
    assert told.endswith(f"exemplars car --remove {whole}")
    library.remove_exemplar(whole)
    assert not any("the whole of" in line for line in library.register("car", [photo], **way).warnings)


def test_a_picture_beside_a_large_part_of_it_is_not_told_of(library):
    photo = photograph(RED)
    library.register("car", [photo])
    assert library.register("car", [photo], box=(0, 0, 600, 400)).warnings == ()


def with_bars(rgb: Rgb) -> Rgb:
    return np.asarray(cv2.copyMakeBorder(rgb, 150, 150, 0, 0, cv2.BORDER_CONSTANT, value=(0, 0, 0)), np.uint8)


def with_clear_border(rgb: Rgb) -> Rgb:
    opaque = np.dstack([rgb, np.full(rgb.shape[:2], 255, np.uint8)])
    return np.asarray(
        cv2.copyMakeBorder(opaque, 150, 150, 0, 0, cv2.BORDER_CONSTANT, value=(0,) * 4), np.uint8
    )


@pytest.mark.parametrize("way", [{"find": True}, {"box": (160, 270, 288, 398)}])
@pytest.mark.parametrize("around", [with_bars, with_clear_border])
def test_a_whole_picture_whose_margin_was_cut_off_is_told_of_as_well(library, way, around):
    """It is an example without its margin, and was not recognised in the picture with it."""
    photo = around(photograph(RED))
    library.register("car", [photo])
    assert sum("the whole of" in line for line in library.register("car", [photo], **way).warnings) == 1


def test_what_is_found_in_a_look_alike_is_cut_out_if_there_are_only_look_alikes(run, library, tmp_path):
    """It was registered whole, and the command said how to look at what was cut out."""
    write_picture(tmp_path / "photo.png", photograph(RED))
    library.register("car", [photograph(Thing("blue", 0, 40, left=60, top=30))[:300, :400]])
    told = run("register", "car", "--not", "photo.png", "--find").err
    assert "say where the look-alike is, --not IMAGE --box x1,y1,x2,y2" in told
    example, other = library.exemplars("car")
    assert (other.kind, other.width, other.height) == ("look-alike", 128, 128)
    (remove,) = (line.partition("panorama ")[2] for line in told.splitlines() if "--remove" in line)
    assert run(*shlex.split(remove)).status == 0
    assert library.exemplars("car") == [example]
    library.register("car", [photograph(RED)], unlike="photo.png", find=True)  # then it is of the example
    assert [(e.kind, e.width) for e in library.exemplars("car")[1:]] == [
        ("example", 128),
        ("look-alike", 640),
    ]


def test_what_is_found_is_large_enough_and_told_as_it_is_cut(library, monkeypatch):
    """A speck that no example can be was taken, and ended a whole folder; boxes were told a pixel off."""
    found = Regions.of(
        np.array([[9, 9, 13, 12], [20.4, 30.6, 90.4, 80.2], [5, 5, 105, 12.9], [100, 100, 150, 150]]),
        np.array([0.9, 0.8, 0.7, 0.6]),
        DETECTOR,
    )
    monkeypatch.setattr(type(library.proposer), "propose", lambda self, pictures: [found])
    (told, *_) = library.register("car", [photograph(RED)], find=True).warnings
    assert "array 1 [20,30,91,81], 71x51 of 640x480" in told and "(next come 5,5,105,13 and 100,100," in told
    assert (library.exemplars("car")[0].width, library.exemplars("car")[0].height) == (71, 51)
    monkeypatch.setattr(type(library.proposer), "propose", lambda self, pictures: [found[np.array([0])]])
    with pytest.raises(BadImage, match="nothing was found in array 1; give its box"):
        library.register("car", [photograph(RED)], find=True)


def test_pictures_beside_the_folders_of_an_album_are_told_of(library, tmp_path):
    """They belong to no entity, and nothing was said."""
    for i, name in enumerate(("a.png", "b.png", "car/1.png", "van/1.png", "van/not/1.png")):
        write_picture(tmp_path / "album" / name, photograph(RED)[100:300, 100 + i : 300])
    car, van = library.register_album("album")
    assert car.warnings == ("left out of album: 2 pictures in none of its folders, such as a.png",)
    assert van.warnings == ()
    with pytest.raises(UsageError, match=r"album/van/not holds look-alikes .* so album/van is no album"):
        library.register_album("album/van")
    assert [entity.name for entity in library.entities()] == ["car", "van"]


def test_a_sheet_of_examples_replaces_no_example(run, library, tmp_path):
    """The name that the command proposed may be the photograph's."""
    photo = write_picture(tmp_path / "examples.jpg", photograph(RED)).read_bytes()
    told = run("register", "car", "examples.jpg", "--find").err.splitlines()[-1]
    assert told == "to look at what was cut out: panorama exemplars car --sheet examples-2.jpg"
    done = run("exemplars", "car", "--sheet", "examples.jpg")
    assert done.status == 2 and "is the file of an example of car" in done.err
    assert run("exemplars", "car", "--sheet", "examples-2.jpg").status == 0
    # Nor one of another entity, or of a name as parts have.
    write_picture(tmp_path / "photo [1].jpg", photograph(RED))
    told = run("register", "van", "photo [1].jpg", "--find").err.splitlines()[-1]
    assert told.endswith("--sheet examples-2.jpg")
    for sheet in ("examples.jpg", "photo [1].jpg"):
        assert run("exemplars", "van", "--sheet", sheet).status == 2
    assert (tmp_path / "examples.jpg").read_bytes() == photo


@pytest.mark.parametrize("way", [{}, {"find": True}, {"unlike": True}, {"album": True}])
def test_many_photographs_are_not_in_memory_together(library, tmp_path, monkeypatch, way):
    """Each took 36 MB until the last was read: with 700 of a telephone's, the memory of a large computer."""
    photos, held = tmp_path / "photos", set()
    for i in range(6):
        write_picture(photos / "car" / f"{i}.png", photograph(Thing("red", 0, 40, left=20 + i, top=30)))
    read = given_pictures.read_picture

    def counted(path: Path, trim: bool = True) -> given_pictures.Picture:
        picture = read(path, trim)
        held.add(path)
        weakref.finalize(picture.rgb, held.remove, path)
        assert len(held) <= 2  # with the one before, which the loop has not let go of yet
        return picture

    monkeypatch.setattr(given_pictures, "read_picture", counted)
    if "album" in way:
        (car,) = library.register_album(photos)
    elif "unlike" in way:
        car = library.register("car", [photograph(RED)[:300, :400]], unlike=photos / "car")
    else:
        car = library.register("car", photos / "car", **way)
    assert (car.negatives if "unlike" in way else car.exemplars) == 6
    assert not held


def test_a_box_of_many_pictures_is_refused_before_these_are_read(library, tmp_path, monkeypatch):
    for i in range(2):
        write_picture(tmp_path / "photos" / f"{i}.png", photograph(RED))
    monkeypatch.setattr(given_pictures, "read_picture", lambda *given: pytest.fail("read"))
    with pytest.raises(UsageError, match="a box is cut out of one picture; 2 were given"):
        library.register("car", tmp_path / "photos", box=(0, 0, 20, 20))


def test_what_is_kept_of_a_photograph_is_the_picture_that_would_have_been_stored():
    whole = given_pictures.Picture(np.tile(photograph(RED), (2, 3, 1)), "photo.png")
    assert encode_jpeg(whole.kept().rgb) == encode_jpeg(whole.rgb)
    assert (whole.kept().size, whole.kept().kept().size) == ((960, 1920), (960, 1920))
