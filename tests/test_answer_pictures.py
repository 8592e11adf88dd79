"""From Python, an answer is drawn and cut as the command line does, and the same is said beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import cv2
import pytest
from conftest import Ran
from fakes import Thing, write_film

import panorama
from panorama.cameras.listed_videos import resized
from panorama.errors import QueryError, UsageError
from panorama.shown.grid import LINE_HEIGHT
from panorama.shown.hit_facts import HitFacts, SeenPicture
from panorama.shown.hits import Hit, hits_of


@pytest.fixture
def library(asked: Path):
    """Red alone in gate/a.mp4, red and blue in yard/b.mp4."""
    with panorama.open(asked / "panorama-library") as opened:
        yield opened


def test_an_answer_is_drawn_and_cut(library: panorama.Library, tmp_path: Path) -> None:
    answer = library.query("SELECT moments WHERE entity = 'red'")
    assert len(answer) == 2
    sheet = library.sheet(answer, tmp_path / "hits.png")
    assert (sheet.drawn, sheet.failed, sheet.warnings) == (2, [], ())
    two_wide = cv2.imread(str(tmp_path / "hits.png"))
    assert library.sheet(answer, str(tmp_path / "hits.png"), most=1).drawn == 1
    assert cv2.imread(str(tmp_path / "hits.png")).shape[1] < two_wide.shape[1]
    clips = library.clips(answer, tmp_path / "clips")
    assert (clips.drawn, clips.failed) == (2, []) and len(list((tmp_path / "clips").glob("*.mp4"))) == 2


def test_a_row_is_shown_in_the_frame_that_it_names(library: panorama.Library, tmp_path: Path) -> None:
    """Rows of a track without a box were all shown by its best view, under the times of their own."""

    def drawn(sql: str) -> cv2.typing.MatLike:
        library.sheet(library.query(sql), tmp_path / "hits.png")
        return cv2.imread(str(tmp_path / "hits.png"))

    crops = "FROM crops WHERE video = 'yard/b.mp4' ORDER BY crop_id LIMIT 4"
    assert len(library.query(f"SELECT DISTINCT track_id FROM (SELECT track_id {crops})")) < 4
    bare = drawn(f"SELECT video, time, track_id, crop_id {crops}")
    assert (bare == drawn(f"SELECT video, time, track_id, crop_id, frame, x1, y1, x2, y2 {crops}")).all()

    samples = "FROM detections WHERE video = 'yard/b.mp4' ORDER BY track_id, time LIMIT 4"
    bare, placed = (drawn(f"SELECT video, time, frame{more} {samples}") for more in (", track_id", ""))
    assert (bare[6:206] == placed[6:206]).all(), "no box, since that is of another frame"


def test_the_box_of_a_stretch_is_drawn_in_its_own_frame_or_not_at_all(
    library: panorama.Library, tmp_path: Path
) -> None:
    """The box of a moment's best view stood on empty ground, in the frame in which the moment begins."""

    def drawn(columns: str) -> cv2.typing.MatLike:
        answer = library.query(f"SELECT {columns} FROM moments WHERE entity = 'red'")
        library.sheet(answer, tmp_path / "hits.png")
        return cv2.imread(str(tmp_path / "hits.png"))

    stretch, box = "video, start_time, end_time, entity", "x1, y1, x2, y2"
    best, start = drawn(f"{stretch}, track_id"), drawn(stretch)
    assert (drawn(f"{stretch}, track_id, {box}") == best).all()
    assert (drawn(f"{stretch}, {box}") == start).all()  # no track says of which frame the box is
    assert (start[6:206] != best[6:206]).any()


def test_a_sheet_of_more_tracks_than_fit_shows_those_that_the_statement_puts_first(
    library: panorama.Library, tmp_path: Path, run: Callable[..., Ran]
) -> None:
    """With the worst first it drew the best ones, and said nothing of it."""
    red = "SELECT tracks WHERE entity = 'red' AND score >= 0"

    def drawn(sql: str) -> tuple[cv2.typing.MatLike, str]:
        chosen = library.sheet(library.query(sql), tmp_path / "hits.png", most=2).chosen
        return cv2.imread(str(tmp_path / "hits.png")), chosen

    for order in ("", " DESC"):
        some, chosen = drawn(f"{red} ORDER BY score{order}")
        assert (some == drawn(f"{red} ORDER BY score{order} LIMIT 2")[0]).all()
        assert chosen == "of the first tracks in the answer"
    unordered, chosen = drawn(f"FROM ({red} ORDER BY score)")
    assert (unordered == drawn(f"FROM ({red} ORDER BY score DESC LIMIT 2) ORDER BY score")[0]).all()
    best = "of the tracks with the best scores; with ORDER BY, of the first ones in the answer"
    assert chosen == best and not drawn(f"{red} LIMIT 2")[1]
    many = f"SELECT t.* REPLACE (track_id + 100 * i AS track_id) FROM ({red}) t, range(10) r(i)"
    assert f"24 of 50 hits drawn in many.png\n  {best}\n" in run("query", many, "--sheet", "many.png").err


def test_of_a_file_that_is_another_by_now_it_is_said(library: panorama.Library, tmp_path: Path) -> None:
    """The command line said so, and whoever wrote a sheet from Python was told nothing."""
    answer = library.query("SELECT moments WHERE entity = 'red'")
    write_film(tmp_path / "v" / "yard" / "b.mp4", [Thing("blue", 5, 30)], frames=60)
    for made in (library.sheet(answer, tmp_path / "a.png"), library.clips(answer, tmp_path / "clips")):
        (warning,) = made.warnings
        assert warning.startswith("the file of yard/b.mp4 has changed since it was indexed")
        assert made.drawn == 2


def test_a_film_written_over_with_one_of_the_same_size_and_time_is_said_too(
    library: panorama.Library, tmp_path: Path
) -> None:
    """Recorders write over files of fixed size. Pictures of the new film were shown under the old names."""
    answer = library.query("SELECT moments WHERE entity = 'red'")
    film = tmp_path / "v" / "yard" / "b.mp4"
    before = film.stat()
    write_film(film, [Thing("blue", 5, 10)], frames=10)
    assert film.stat().st_size < before.st_size
    os.truncate(film, before.st_size)
    os.utime(film, ns=(before.st_atime_ns, before.st_mtime_ns))
    for made in (
        library.sheet(answer, tmp_path / "a.png"),
        library.clips(answer, tmp_path / "clips"),
        library.page(answer, tmp_path / "a.html"),
    ):
        (warning,) = made.warnings
        assert warning.startswith("the file of yard/b.mp4 has changed since it was indexed")
    listed = library.videos()
    assert not any(resized(listed)), "listing videos reads nothing of them"


def test_of_a_file_that_is_gone_the_stored_picture_is_drawn(
    library: panorama.Library, tmp_path: Path
) -> None:
    """Its hits were left out, though pages showed the picture that the library keeps of them."""
    (tmp_path / "v" / "gate" / "a.mp4").unlink()
    for sql in ("SELECT moments WHERE entity = 'red'", "SELECT crops WHERE entity = 'red'"):
        answer = library.query(sql)
        made = library.sheet(answer, tmp_path / "hits.png")
        assert (made.drawn, made.failed) == (len(answer), [])
        (told,) = made.without_frame
        assert told.startswith("gate/a.mp4 is gone")
        first = cv2.imread(str(tmp_path / "hits.png"))[6:206, 6:326]  # BGR
        # Red all over, not a frame of it: that is grey around the thing.
        assert first[90:110, 150:170, 2].min() > 150 > first[90:110, 150:170, 0].max()
        assert not (first[..., 1] > 180).any()


def test_captions_tell_the_time_of_day_where_it_is_known(library: panorama.Library, tmp_path: Path) -> None:
    """Pages did, and sheets only the seconds since the start of a file."""
    answer = library.query("SELECT video, start_time, end_time, entity FROM moments WHERE entity = 'red'")
    library.sheet(answer, tmp_path / "hits.png")
    without = cv2.imread(str(tmp_path / "hits.png"))
    library.date(["gate/a.mp4"], start="2026-03-01 23:59:59", zone="Europe/Berlin")
    library.sheet(answer, tmp_path / "hits.png")
    sheet = cv2.imread(str(tmp_path / "hits.png"))
    assert sheet.shape[0] == without.shape[0] + LINE_HEIGHT
    below = [sheet[206 + 33 : 206 + 33 + LINE_HEIGHT, x : x + 320].max() for x in (6, 332)]
    assert [bright > 100 for bright in below] == [row.video == "gate/a.mp4" for row in answer]
    facts = HitFacts({"a": datetime(2026, 3, 1, 23, 59, 58)})
    hit = Hit("a", 1.0, "red", None, None)
    assert facts.clock([hit]) == "2026-03-01 23:59:59"
    assert facts.clock([replace(hit, end_seconds=1.5)]) == "2026-03-01 23:59:59 - 23:59:59"
    assert facts.clock([replace(hit, end_seconds=3.0)]) == "2026-03-01 23:59:59 - 2026-03-02 00:00:01"
    assert facts.clock([replace(hit, video="b")]) == ""


def test_a_hit_that_ends_as_it_begins_is_of_one_picture() -> None:
    """The picture before it was named, too."""
    facts = HitFacts(pictures={("a", number): SeenPicture(f"{number}.jpg", None) for number in range(9)})
    for begin, end, names in (
        (0.0, 0.0, "0.jpg"),
        (1.0, 1.0, "5.jpg"),
        (1.0, 1.2, "5.jpg"),
        (1.0, 1.6, "5.jpg - 7.jpg"),
    ):
        assert facts.place(Hit("a", begin, "red", None, None, end_seconds=end)) == names


def test_captions_tell_the_track_or_crop_that_register_takes(
    library: panorama.Library, tmp_path: Path
) -> None:
    """Messages ask for `register NAME --track ID`, and no picture said which id a hit has."""
    for more, kind in (("track_id", "track"), ("track_id, crop_id", "crop")):
        row = library.query(f"SELECT video, time, {more} FROM crops LIMIT 1")
        (hit,) = hits_of(row.columns, row.arrow().to_pylist())
        assert hit.thing() == f"{kind} {row.arrow().to_pylist()[0][f'{kind}_id']}"
        library.sheet(row, tmp_path / "hits.png")
        named = cv2.imread(str(tmp_path / "hits.png"))
        library.sheet(library.query("SELECT video, time FROM crops LIMIT 1"), tmp_path / "hits.png")
        bare = cv2.imread(str(tmp_path / "hits.png"))
        assert named.shape[0] == bare.shape[0] + LINE_HEIGHT
        line = named[206 + 34 : 206 + 34 + LINE_HEIGHT, 6:326]
        assert line[:, 200:].max() > 100 > line[:, :200].max(), "at the right end, beside the clock"
    assert Hit("a", 1.0, "red", None, None).thing() == ""


def test_what_cannot_be_drawn_is_refused(library: panorama.Library, tmp_path: Path) -> None:
    answer = library.query("SELECT entity, exemplars FROM entities")
    with pytest.raises(QueryError, match="pictures need the columns video and time"):
        library.sheet(answer, tmp_path / "a.png")
    with pytest.raises(QueryError, match="pictures need the columns video and time"):
        library.clips(answer, tmp_path / "clips")
    with pytest.raises(UsageError, match="most"):
        library.sheet(library.query("SELECT moments"), tmp_path / "a.png", most=-1)


def test_a_sheet_too_large_for_its_format_is_refused_with_what_fits(
    library: panorama.Library, tmp_path: Path
) -> None:
    """It ended in an AttributeError, after all frames had been read."""
    asked = "SELECT video, range / 100.0 AS time FROM videos, range(300) WHERE video LIKE 'gate%'"
    (tmp_path / "v" / "gate" / "a.mp4").unlink()  # a sheet that reads frames would say that it is gone
    told = "hits.webp would be 1310x18006 pixels, and a picture in .webp has at most 16383 a side;"
    with pytest.raises(UsageError, match=f"{told} name a .png file, or draw at most 272 of the 300 hits"):
        library.sheet(library.query(asked), tmp_path / "hits.webp", most=1000)
    answer = library.query(f"{asked} LIMIT 272")
    assert library.sheet(answer, tmp_path / "hits.webp", most=1000).failed
