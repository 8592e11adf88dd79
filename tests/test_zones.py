"""`panorama zones`: which shapes are taken, refused, drawn, renamed, dropped, exported and imported."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fakes import SIZE, Thing, thing_picture, write_film, write_picture
from hypothesis import given, settings
from hypothesis import strategies as st

import panorama
from panorama import zones
from panorama.errors import QueryError, UsageError
from panorama.store import Zone
from panorama.zones import draw_shapes, holding, points_of, read_shapes

SQUARE = ((0.1, 0.1), (0.5, 0.1), (0.5, 0.5), (0.1, 0.5))


@pytest.fixture
def indexed(run: Any, tmp_path: Path) -> Path:
    """A library with the cameras gate (two videos) and yard."""
    for name in ("gate/a.mp4", "gate/b.mp4", "yard/c.mp4"):
        write_film(tmp_path / name, [Thing("red", 5, 35, left=10 + len(name))], frames=38)
    assert run("index", ".", "--model", "color-bands").status == 0
    return tmp_path


def test_zones_are_added_in_pixels_or_percent_and_listed(run: Any, indexed: Path) -> None:
    done = run("zones", "add", "lawn", "--camera", "gate", "--points", "0,60 160,60 160,120 0,120")
    assert (done.status, done.err) == (0, "zone lawn of gate: 4 points\n")
    assert run("zones", "add", "kerb", "--line", "--points", "0%,50% 100%,50%").status == 0
    assert run("zones", "list", "--json").json == [
        {"camera": "", "name": "kerb", "kind": "line", "points": "0%,50% 100%,50%"},
        {"camera": "gate", "name": "lawn", "kind": "zone", "points": "0%,50% 100%,50% 100%,100% 0%,100%"},
    ]
    assert run("zones").out == run("zones", "list").out
    big = run("zones", "add", "lawn", "--camera", "gate", "--size", "320x240", "--points", "0,0 32,0 32,24")
    assert big.status == 0
    with panorama.open("panorama-library") as library:
        assert [z.points_xy for z in library.zones if z.name == "lawn"] == [((0, 0), (0.1, 0), (0.1, 0.1))]
        zones = library.zones
        assert (len(zones), repr(zones)) == (2, f"Zones({list(zones)})")
    assert repr(zones) == "Zones(LibraryClosed)"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--points", "0,0 10,0"), "zone 'x' has 2 points; a zone has 3 to 200"),
        (("--points", "5,5", "--line"), "line 'x' has 1 point; a line has 2 to 200"),
        (("--points", "0,0 10,10 10,0 0,10"), "edges of zone 'x' cross: 1-2 and 3-4"),
        (("--points", "0,0 10,10 20,20"), "lie on one straight line"),
        (("--points", "0,0 10,0 10,0 5,5"), "points 2 and 3 of zone 'x' are the same"),
        (("--points", "0,0 200,0 0,50"), "point 2 of zone 'x' lies outside the frame, at 125%, 0%"),
        (("--points", "0,0 10%,0 5,5"), "all in percent or all in pixels"),
        (("--points", "0,0 10 5,5"), "points are pairs x,y"),
        (("--points", "0,0 a,b 5,5"), "points are pairs x,y"),
        (("--points", "nan,0 1,1 0,1"), "lies outside the frame, at nan, 0"),
        (("--points", "0,0 9,0 9,9", "--camera", "gat"), "no camera 'gat'. Did you mean 'gate'?"),
        (("--points", "0,0 9,0 9,9", "--size", "wide"), "--size is WIDTHxHEIGHT"),
    ],
)
def test_what_is_no_shape_is_refused_and_changes_nothing(
    run: Any, indexed: Path, arguments: tuple[str, ...], said: str
) -> None:
    run("zones", "add", "x", "--points", "0,0 9,0 9,9")
    before = run("zones", "list").out
    done = run("zones", "add", "x", *arguments)
    assert done.status == 2
    assert said in done.err
    assert run("zones", "list").out == before


def test_pixels_need_a_size_where_videos_have_several() -> None:
    def several() -> tuple[int, int]:
        raise UsageError("several")

    assert points_of("32,24 16,12", (320, 240), several) == [(0.1, 0.1), (0.05, 0.05)]
    assert points_of("10%,20%; 30%,40%", None, several) == [(0.1, 0.2), (0.3, 0.4)]
    with pytest.raises(UsageError, match="several"):
        points_of("32,24 16,12", None, several)


def test_a_shape_drawn_anew_is_asked_at_once_also_where_answers_were_kept(run: Any, indexed: Path) -> None:
    """Engines, matches and cached sightings are kept between queries, here of two that hold the library."""
    run("register", "red", write_picture(indexed / "red.png", thing_picture("red")))
    here = [(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)]
    nowhere = [(0.98, 0.0), (1.0, 0.0), (1.0, 0.02)]
    sql = "SELECT tracks WHERE entity = 'red' AND inside('lawn')"
    with panorama.open("panorama-library") as library, panorama.open("panorama-library") as other:

        def found() -> set[int]:
            (one, again), two = (library.query_many([sql, sql]), other.query(sql))
            rows = two.fetchall()
            assert rows == one.fetchall() == again.fetchall() == library.query(sql).fetchall()
            return {row["video"].split("/")[0] for row in rows}

        library.zones.add("lawn", here)
        assert found() == {"gate", "yard"}
        library.zones.add("lawn", nowhere)
        assert found() == set()
        other.zones.add("lawn", here, camera="gate")
        assert found() == {"gate"}
        library.zones.rename("lawn", "mat", camera="gate")
        assert found() == set()
        library.zones.add("lawn", here)
        assert found() == {"gate", "yard"}
        library.zones.drop("lawn")
        with pytest.raises(QueryError, match="lawn"):
            library.query(sql)


def test_rename_and_drop_take_one_camera_or_all(run: Any, indexed: Path) -> None:
    for camera in ("gate", "yard"):
        run("zones", "add", "door", "--camera", camera, "--points", "0,0 9,0 9,9")
    told = run("zones", "rename", "door", "exit", "--camera", "yard")
    assert (told.status, told.err) == (0, "door of camera 'yard' is now exit\n")
    assert [z["name"] for z in run("zones", "list", "--json").json] == ["door", "exit"]
    assert "one belongs to camera 'yard'" in run("zones", "drop", "exit", "--camera", "gate").err
    assert "Did you mean 'door'" in run("zones", "drop", "dor").err
    assert run("zones", "rename", "door", " ").status == 2
    assert run("zones", "drop", "door").status == run("zones", "drop", "exit").status == 0
    assert run("zones", "list", "--json").json == []


def test_a_name_that_is_taken_is_not_taken_twice(run: Any, indexed: Path) -> None:
    for name in ("door", "exit"):
        run("zones", "add", name, "--camera", "gate", "--points", "0,0 9,0 9,9")
    done = run("zones", "rename", "exit", "door")
    assert (done.status, "camera 'gate' has a zone 'door' already" in done.err) == (2, True)


def test_a_shape_of_several_cameras_is_renamed_for_all_or_none(run: Any, indexed: Path) -> None:
    """Those of the cameras before the one that had the new name already were renamed."""
    for camera in ("gate", "yard"):
        run("zones", "add", "door", "--camera", camera, "--points", "0,0 9,0 9,9")
    run("zones", "add", "exit", "--camera", "yard", "--points", "0,0 9,0 9,9")
    before = run("zones", "export").json
    assert run("zones", "rename", "door", "exit").status == 2
    assert run("zones", "export").json == before


def test_a_shape_whose_camera_has_another_name_is_told_and_can_be_given_to_it(
    run: Any, indexed: Path
) -> None:
    """It held for no video, and a query said that none satisfies _panorama.has_shape."""
    write_picture(indexed / "red.png", thing_picture("red"))
    run("register", "red", "red.png")
    run("zones", "add", "till", "--camera", "gate", "--points", "0%,0% 100%,0% 100%,100% 0%,100%")
    asked = "SELECT tracks WHERE entity = 'red' AND inside('till')"
    assert len(run("query", asked, "--json").json) == 2
    elsewhere = run("query", f"{asked} AND camera = 'yard'")
    said = (
        "satisfies camera = 'yard' AND 'till' is drawn for its camera; see: panorama videos, panorama zones"
    )
    assert said in elsewhere.err and "_panorama" not in elsewhere.err
    told = "zone 'till' belongs to camera 'gate', but no video is left there; cameras: a, b, c"
    assert told in run("clock", "--camera-from", "{camera}").err
    assert told in run("zones").err and run("zones", "list", "--json").json[0]["name"] == "till"
    in_vain = run("query", asked)
    assert told in in_vain.err and "_panorama" not in in_vain.err and "(0 rows)" in in_vain.out
    # Told once where it comes about, not in every night after that.
    assert told not in run("index", ".").err + run("clock", "--camera-from", "{camera}").err

    assert "no camera 'd'" in run("zones", "move", "till", "--to", "d").err
    assert run("zones", "move", "till", "--to", "b").err == "till now belongs to camera 'b'\n"
    assert len(run("query", asked, "--json").json) == 1
    run("zones", "add", "till", "--camera", "c", "--points", "0,0 9,0 9,9")
    several = run("zones", "move", "till", "--to", "a")
    assert several.status == 2 and "camera 'b', camera 'c'; say with --camera" in several.err
    taken = run("zones", "move", "till", "--to", "c", "--camera", "b")
    assert taken.status == 2 and "camera 'c' has a zone 'till' already" in taken.err
    assert run("zones", "move", "till", "--to", "", "--camera", "b").status == 0
    assert {(z["camera"], z["name"]) for z in run("zones", "list", "--json").json} == {
        ("", "till"),
        ("c", "till"),
    }
    # One of every camera is nobody's.
    gone = run("remove", "yard/c.mp4", "gate/a.mp4", "gate/b.mp4").err
    assert "zone 'till' belongs to camera 'c'" in gone and gone.count("but no video is left there") == 1


def test_it_is_said_of_which_cameras_shapes_were_dropped(run: Any, indexed: Path) -> None:
    """`zones drop lawn` took that of a camera and that of all others, and said "dropped lawn"."""
    for camera in (["--camera", "gate"], []):
        run("zones", "add", "lawn", *camera, "--points", "0%,0% 50%,0% 50%,50%")
    done = run("zones", "rename", "lawn", "grass")
    assert done.err == "lawn of 2 cameras: every camera, camera 'gate' is now grass\n"
    assert run("zones", "drop", "grass").err == "dropped grass of 2 cameras: every camera, camera 'gate'\n"
    run("zones", "add", "lawn", "--points", "0%,0% 50%,0% 50%,50%")
    assert run("zones", "drop", "lawn").err == "dropped lawn of every camera\n"


def test_an_export_comes_in_again_as_it_was(run: Any, indexed: Path) -> None:
    run("zones", "add", "lawn", "--camera", "gate", "--points", "0,60 160,60 160,119.5")
    run("zones", "add", "kerb", "--line", "--points", "0%,50% 33.3%,50%")
    before = run("zones", "export").json
    assert run("zones", "export", "shapes.json").status == 0
    assert run("zones", "export", "--out", "again.json").status == 0
    assert Path("again.json").read_text() == Path("shapes.json").read_text()
    for words in (("-",), ("--out", "-")):
        assert run("zones", "export", *words).json == before
    assert not Path("-").exists()  # shapes were written to a file of that name
    refused = run("zones", "export", "shapes.json", "--out", "again.json")
    assert (refused.status, refused.out) == (2, "") and "give one of them" in refused.err
    run("zones", "drop", "lawn")
    assert run("zones", "import", "shapes.json").status == 0
    assert run("zones", "export").json == before == json.loads(Path("shapes.json").read_text())


def test_shapes_drawn_with_labelme_come_in(run: Any, indexed: Path) -> None:
    drawn = {
        "imageWidth": 320,
        "imageHeight": 240,
        "shapes": [
            {"label": "bed", "shape_type": "polygon", "points": [[0, 0], [160, 0], [160, 120]]},
            {"label": "door", "shape_type": "linestrip", "points": [[32, 24], [64, 24], [64, 48]]},
            {"label": "mat", "shape_type": "rectangle", "points": [[32, 24], [64, 48]]},
        ],
    }
    Path("drawn.json").write_text(json.dumps(drawn))
    assert run("zones", "import", "drawn.json", "--camera", "gate").status == 0
    with panorama.open("panorama-library") as library:
        assert list(library.zones) == [
            Zone("gate", "bed", "zone", ((0, 0), (0.5, 0), (0.5, 0.5))),
            Zone("gate", "door", "line", ((0.1, 0.1), (0.2, 0.1), (0.2, 0.2))),
            Zone("gate", "mat", "zone", ((0.1, 0.1), (0.2, 0.1), (0.2, 0.2), (0.1, 0.2))),
        ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 200_000, "is not JSON: its brackets are nested too deeply"),
        ("[1]", "holds no shapes"),
        ('{"imageWidth": 0, "shapes": [{"name": "a", "kind": "line", "points": [[0, 0]]}]}', "is malformed"),
        ('{"shapes": [{"name": "a", "kind": "zone"}]}', "is malformed"),
        ('{"shapes": [{"name": "a", "kind": "circle", "points": [[0, 0]]}]}', "is a 'circle'"),
        ('{"shapes": [{"name": "a", "kind": "line", "points": [[0, 0], [7, 7]]}]}', "outside the frame"),
    ],
)
def test_a_file_without_good_shapes_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "shapes.json").write_text(text)
    with pytest.raises(UsageError, match=said):
        read_shapes(tmp_path / "shapes.json", "")
    with pytest.raises(UsageError, match="cannot be read"):
        read_shapes(tmp_path / "absent.json", "")


def test_shapes_of_one_label_are_refused_because_a_name_is_one_shapes_own(run: Any, indexed: Path) -> None:
    """The last one replaced the others, and nobody was told."""
    points = {"left": [[0, 0], [0.2, 0], [0.2, 1]], "right": [[0.8, 0], [1, 0], [1, 1]]}
    shapes = [{"name": "road", "kind": "zone", "points": points[side]} for side in ("left", "right")]
    Path("roads.json").write_text(json.dumps({"shapes": shapes}))
    done = run("zones", "import", "roads.json", "--camera", "gate")
    assert done.status == 2
    assert "holds 2 shapes 'road' of camera 'gate'; give each a name of its own" in done.err
    assert run("zones", "list", "--json").json == []
    Path("roads.json").write_text(json.dumps({"shapes": [shapes[0], {**shapes[1], "camera": "gate"}]}))
    assert run("zones", "import", "roads.json").status == 0  # of other cameras


def test_shapes_that_an_editor_marked_as_utf8_are_read(tmp_path: Path) -> None:
    """Editors of Windows put a mark before the first character."""
    text = '{"shapes": [{"name": "a", "kind": "line", "points": [[0, 0], [1, 1]]}]}'
    (tmp_path / "shapes.json").write_text(text, encoding="utf-8-sig")
    assert [shape.name for shape in read_shapes(tmp_path / "shapes.json", "")] == ["a"]


def test_show_draws_the_shapes_of_the_camera(run: Any, indexed: Path) -> None:
    run("zones", "add", "lawn", "--camera", "gate", "--points", "0,60 160,60 160,120 0,120")
    run("zones", "add", "kerb", "--line", "--points", "0%,25% 100%,25%")
    done = run("zones", "show", "--camera", "gate", "--out", "zones.png")
    assert (done.status, done.err) == (0, "zones.png: lawn, kerb\n")
    picture = cv2.imread("zones.png")
    assert picture.shape == (SIZE[1], SIZE[0], 3)
    inside, above = picture[100, 120].astype(int), picture[45, 120].astype(int)
    assert np.ptp(inside) > 10 > np.ptp(above)  # the zone is tinted, the grey ground is not
    assert "kerb\n" in run("zones", "show", "--video", "yard/c.mp4", "--out", "z.jpg").err
    assert ".." not in run("zones", "--help").out.split("Commands:")[1]  # nothing is cut off
    (indexed / "gate" / "a.mp4").unlink()
    assert run("zones", "show", "--camera", "gate").status == 0  # there is another one
    assert "say which camera" in run("zones", "show", "--out", "zones.png").err
    assert "Did you mean 'gate/a.mp4'" in run("zones", "show", "--video", "gate/a", "--out", "z.png").err
    assert run("zones", "show", "--camera", "gate", "--out", "zones.xyz").status == 2


def test_show_refuses_a_time_at_which_no_frame_is_shown(run: Any, indexed: Path) -> None:
    """It drew the first or the last frame and said nothing; `register` and `why` refuse such times."""
    show = ("zones", "show", "--video", "gate/a.mp4", "--out", "z.png")
    for seconds in ("9999", "-5"):
        done = run(*show, f"--at={seconds}")
        assert done.status == 2 and f"gate/a.mp4 at 3.700 s, got {seconds}\n" in done.err
    assert not Path("z.png").exists()
    assert run(*show, "--at", "3.8").status == 0  # the last frame is still shown


def test_show_takes_the_path_of_a_video_too(run: Any, indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`why` and `register` did."""
    (indexed / "below").mkdir()
    monkeypatch.chdir(indexed / "below")
    library = ("--library", indexed / "panorama-library")
    done = run("zones", "show", *library, "--video", "../gate/a.mp4", "--out", "z.png")
    assert (done.status, done.err) == (0, "z.png: no shape\n")


@pytest.mark.parametrize(
    "words", [("export", "shapes.json"), ("show", "--camera", "gate", "--out", "shapes.png")]
)
def test_what_cannot_be_written_whole_leaves_the_file_that_was_there(
    run: Any, indexed: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    run("zones", "add", "lawn", "--camera", "gate", "--points", "0,60 160,60 160,120 0,120")
    kept = Path(words[-1])
    kept.write_text("what was drawn by hand")
    write = Path.write_bytes

    def full(path: Path, data: Any) -> int:
        write(path, bytes(data)[:20])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(Path, "write_text", lambda path, text, **_: full(path, text.encode()))
    monkeypatch.setattr(cv2, "imwrite", lambda name, _: full(Path(name), b"part of a picture"))
    done = run("zones", *words)
    assert done.status == 1 and f"{kept} cannot be written: No space left on device" in done.err
    assert kept.read_text() == "what was drawn by hand"


def test_the_arrow_of_a_line_points_to_its_right() -> None:
    line = Zone("", "kerb", "line", ((0.1, 0.5), (0.9, 0.5)))
    drawn = draw_shapes(np.zeros((240, 240, 3), np.uint8), [line])
    assert drawn[128:142, 110:130].any() and not drawn[98:112, 110:130].any()


@pytest.mark.parametrize("height", [180, 270, 480, 720, 1080, 2160])
@pytest.mark.parametrize("corner", [(0.0, 0.0), (1.0, 0.5)])
def test_the_name_of_a_shape_stands_on_black_within_the_picture(
    height: int, corner: tuple[float, float]
) -> None:
    """Letters of two widths lay over each other in small pictures; in large ones nothing lay below them."""
    width = height * 16 // 9
    picture = np.full((height, width, 3), 255, np.uint8)
    point = [round(corner[0] * (width - 1)), round(corner[1] * (height - 1))]
    zones._name(picture, "kerb", np.array([point, [width // 2, height - 1]], np.int32), (0, 255, 0))
    rows, columns = np.nonzero((picture != 255).any(axis=2))
    plate = picture[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    edges = [plate[0], plate[-1], plate[:, 0], plate[:, -1]]
    assert not any(edge.any() for edge in edges)  # room on all sides
    black = (plate == 0).all(axis=2).mean()
    assert 0.4 < black < 0.9 and not (plate == 255).all(axis=2).any()
    assert len(plate) == pytest.approx(20 * max(1, height / 480), abs=2)


def test_names_of_shapes_that_begin_at_one_place_stand_below_each_other() -> None:
    """The name of the second lay on that of the first, and its fill over that as well."""
    corner = ((0.0, 0.4), (1.0, 0.4), (1.0, 1.0), (0.0, 1.0))
    shapes = [Zone("", name, "zone", corner) for name in ("lawn", "terrace", "beds")]
    picture = np.full((240, 320, 3), 128, np.uint8)
    drawn = draw_shapes(picture.copy(), shapes)
    alone = [draw_shapes(picture.copy(), [shape]) for shape in shapes]
    black = [int((one == 0).all(axis=2).sum()) for one in (drawn, *alone)]
    assert black[0] == pytest.approx(sum(black[1:]), rel=0.02) and min(black) > 200


def test_the_end_of_a_long_name_is_in_a_narrow_picture() -> None:
    """It was cut off, so that two names were one."""
    shape = ((0.4, 0.2), (0.9, 0.2), (0.9, 0.9))
    first, second = (
        draw_shapes(np.full((480, 240, 3), 128, np.uint8), [Zone("", name, "zone", shape)])
        for name in (f"front garden and drive behind the house, gate {n}" for n in (1, 2))
    )
    assert not np.array_equal(first, second)


def test_a_shape_of_a_camera_stands_before_one_of_every_camera() -> None:
    everywhere, own = Zone("", "door", "zone", SQUARE), Zone("gate", "door", "zone", SQUARE[:3])
    other = Zone("", "mat", "zone", SQUARE)
    assert holding((everywhere, other, own), "gate") == [own, other]
    assert holding((everywhere, other, own), "yard") == [everywhere, other]
    assert holding((everywhere, other, own), "") == [everywhere, other]


def edges_cross(points: tuple[tuple[float, float], ...]) -> bool:
    """Whether two edges that share no point meet, by solving for the place where they do."""
    count = len(points)
    edges = [(np.array(points[i]), np.array(points[(i + 1) % count])) for i in range(count)]
    for i in range(count):
        for j in range(i + 2, count - (i == 0)):
            (a, b), (c, d) = edges[i], edges[j]
            matrix = np.array([b - a, c - d]).T
            if abs(np.linalg.det(matrix)) < 1e-12:
                continue
            s, t = np.linalg.solve(matrix, c - a)
            if -1e-9 < s < 1 + 1e-9 and -1e-9 < t < 1 + 1e-9:
                return True
    return False


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=4, max_size=7, unique=True))
def test_polygons_are_refused_exactly_where_edges_cross(points: list[tuple[int, int]]) -> None:
    """No three points in one line, so that nothing depends on touching or rounding."""
    for i in range(len(points)):
        for j in range(i):
            for k in range(j):
                (a, b), (c, d), (e, f) = points[i], points[j], points[k]
                if (c - a) * (f - b) == (d - b) * (e - a):
                    return
    shares = tuple((x / 1000, y / 1000) for x, y in points)
    try:
        Zone("", "z", "zone", shares)
        refused = False
    except UsageError:
        refused = True
    assert refused == edges_cross(shares)


@pytest.mark.parametrize("corner", [(0.5, 0), (1, 0.5), (0, 0)])
def test_a_polygon_may_not_touch_itself(corner: tuple[float, float]) -> None:
    """At a corner that lies on another edge, or on another corner."""
    with pytest.raises(UsageError, match="cross"):
        Zone("", "z", "zone", ((0, 0), (1, 0), (1, 1), (0.6, 1), corner, (0, 1)))
