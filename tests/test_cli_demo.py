"""`panorama demo`: what it says, indexes, leaves alone and proposes to do next."""

from __future__ import annotations

import shlex

import pytest
from fakes import Thing, write_film

FILM = [Thing("red", 5, 35)]


def test_a_demo_says_what_is_no_video_and_makes_nothing(run, tmp_path):
    lost = run("demo", "nosuch.mp4")
    assert (lost.status, list(tmp_path.iterdir())) == (1, [])
    assert lost.err.startswith("VideoError: there is no file nosuch.mp4; name a video")
    (tmp_path / "photos").mkdir()
    assert "photos holds no video" in run("demo", "photos").err


def test_a_demo_of_a_folder_goes_on_without_what_is_damaged(run, tmp_path):
    """It ended with "could not be indexed", though all but one of the videos were."""
    write_film(tmp_path / "own" / "a.mp4", FILM)
    (tmp_path / "own" / "b.mp4").write_text("no video")
    done = run("demo", "own")
    assert (done.status, "failed   own/b.mp4" in done.err) == (0, True)
    assert done.out.startswith("\nSELECT moments WHERE entity = 'most-seen'")
    (tmp_path / "own" / "a.mp4").unlink()
    assert "own could not be indexed; see above" in run("demo", "own").err


def test_a_demo_prints_commands_that_go_on_as_they_stand(run, tmp_path):
    write_film(tmp_path / "a.mp4", FILM)
    done = run("demo", "a.mp4", "--folder", "my demo")
    assert done.status == 0, done.err
    lines = [line.strip() for line in done.err.splitlines() if line.startswith("  panorama ")]
    for line in (line for line in lines if "NAME" not in line):
        words = shlex.split(line)[1:]
        assert run(*words).status == 0, line
    assert len(lines) == 3 and (tmp_path / "my demo" / "hits.jpg").is_file()
    for words in (["--library", "mine", "demo", "a.mp4"], ["demo", "a.mp4", "--library", "mine"]):
        refused = run(*words)
        assert (refused.status, "--folder" in refused.err) == (2, True)
    assert "--library" not in run("demo", "--help").out


def test_demos_of_several_videos_in_one_folder_keep_their_sheets(run, tmp_path):
    """The sheet of the second one took the place of the first one's."""
    place, sheets = tmp_path / "panorama-demo", []
    for name, color in (("a.mp4", "red"), ("b.mp4", "blue")):
        write_film(tmp_path / name, [Thing(color, 5, 35)])
        done = run("demo", name)
        assert done.status == 0, done.err
        sheets.append(done.err.partition("contact sheet of ")[2].splitlines()[0].partition(": ")[2])
    assert len(set(sheets)) == 2 and sorted(place.glob("*.jpg")) == sorted(tmp_path / one for one in sheets)


@pytest.mark.parametrize("name", [f"{'x' * 240}.mp4", f"{'ж' * 120}.mp4"])
def test_a_demo_takes_a_video_with_the_longest_of_names(run, tmp_path, name):
    """The folder of its library had the name and 17 characters more, which no file system takes."""
    write_film(tmp_path / name, FILM)
    done = run("demo", name)
    assert done.status == 0, done.err
    (library,) = (tmp_path / "panorama-demo").glob("library-*")
    assert len(library.name) == len("library--") + 50 + 8
