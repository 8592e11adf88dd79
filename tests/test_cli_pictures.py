"""`panorama query --sheet` and `--clips`: what pictures of an answer show, and what is told of them."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from fakes import Thing, thing_picture, write_film, write_picture

from panorama.video import open_video

RED = "SELECT frames WHERE entity = 'red'"


def rows(run, sql, *words):
    done = run("query", sql, "--format", "json", *words)
    assert done.status == 0, done.err
    return done.json


def test_the_sheet_shows_each_hit_in_its_frame_with_its_box(run, asked, tmp_path):
    done = run("query", f"{RED} AND video = 'gate/a.mp4'", "--sheet", "out/hits.png", "--format", "json")
    assert done.status == 0 and "hits drawn in out/hits.png" in done.err
    assert len(done.json) > 20
    sheet = cv2.cvtColor(cv2.imread(str(tmp_path / "out" / "hits.png")), cv2.COLOR_BGR2RGB).astype(np.int16)
    red = (sheet[..., 0] > 150) & (sheet[..., 1] < 100) & (sheet[..., 2] < 100)
    box = (sheet[..., 1] > 180) & (sheet[..., 0] < 120)
    assert red.sum() > 5 * 50 * 25 and box.sum() > 5 * 100
    moments = "SELECT video, start_time, end_time, frame, x1, y1, x2, y2 FROM moments WHERE entity = 'blue'"
    row = rows(run, moments, "--sheet", "moment.png")[0]
    # The film in its tile: 160x120 as 267x200 at (33, 6). The box must lie on the thing, not where it began.
    tile = cv2.imread(str(tmp_path / "moment.png"))[6:206, 33:299]
    centre = [round((row[a] + row[b]) / 2 * 200 / 120) for a, b in (("y1", "y2"), ("x1", "x2"))]
    left = [centre[0], round((row["x1"] + 4) * 200 / 120)]
    right = [centre[0], round((row["x2"] - 4) * 200 / 120)]
    assert all(tile[y, x, 0] > 150 > tile[y, x, 2] for y, x in (centre, left, right))
    for name in ("hits.xyz", "hits"):
        wrong = run("query", RED, "--sheet", name)
        assert (wrong.status, wrong.out) == (2, "")
    wrong = run("query", "SELECT 1 AS one", "--sheet", "hits.jpg")
    assert wrong.status == 1 and "need the columns video and time" in wrong.err
    nothing = run("query", "SELECT frames WHERE entity = 'green'", "--sheet", "none.jpg")
    assert nothing.status == 0 and (tmp_path / "none.jpg").is_file()


def test_a_library_without_videos_makes_an_empty_sheet_and_no_clip(run, tmp_path):
    # A list of no truth values has no type: it ended as a defect of ours.
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    run("index", "bad.mp4", "--model", "color-bands")
    run("register", "red", str(write_picture(tmp_path / "red.png", thing_picture("red"))))
    nothing = run("query", RED, "--sheet", "none.jpg", "--clips", "none")
    assert nothing.status == 0 and "no clip written" in nothing.err, nothing.err
    assert (tmp_path / "none.jpg").is_file()


def test_a_file_for_clips_is_refused_with_the_folder_to_name(run, asked, tmp_path):
    """A folder was made that was called evidence.mp4."""
    done = run("query", RED, "--clips", "clips/evidence.mp4")
    assert (done.status, done.out) == (2, "") and not (tmp_path / "clips").exists()
    assert "clips/evidence.mp4 is named as a file; name a folder, such as clips/evidence" in done.err
    (tmp_path / "day.mp4").mkdir()
    assert "2 clips written to day.mp4" in run("query", RED, "--clips", "day.mp4").err


def test_clips_hold_the_stretches_with_half_a_second_around(run, asked, tmp_path):
    done = run("query", f"{RED} AND time BETWEEN 1 AND 2", "--clips", "clips")
    assert done.status == 0 and "2 clips written to clips" in done.err
    clips = sorted((tmp_path / "clips").iterdir())
    assert [c.name for c in clips] == ["gate-a.mp4-red-000000.50.mp4", "yard-b.mp4-red-000000.50.mp4"]
    with open_video(clips[0]) as reader:
        assert reader.times().seconds[-1] == pytest.approx(1.9, abs=0.15)


def test_every_clip_has_a_name_of_its_own_that_a_file_can_have(run, asked, tmp_path):
    # 'a/b.mp4' and 'a-b.mp4' were written to one file, names in other scripts became '.mp4-red-...'.
    names = ["a/b.mp4", "a-b.mp4", "北門.mp4", "南門.mp4", f"{'n' * 250}.mp4"]
    for number, name in enumerate(names):
        write_film(tmp_path / "w" / name, [Thing("red", 2 + number, 12)], frames=14)
    run("index", "w")
    done = run("query", f"{RED} AND video NOT LIKE 'gate/%' AND video NOT LIKE 'yard/%'", "--clips", "clips")
    assert (done.status, "5 clips written" in done.err) == (0, True), done.err
    clips = sorted(path.name for path in (tmp_path / "clips").iterdir())
    assert clips[:2] == ["a-b.mp4-red-000000.00-2.mp4", "a-b.mp4-red-000000.00.mp4"]
    assert clips[3:] == ["北門.mp4-red-000000.00.mp4", "南門.mp4-red-000000.00.mp4"]
    assert clips[2].endswith("nnn.mp4-red-000000.00.mp4")


def test_a_clip_of_a_moment_or_track_shows_the_box_in_every_frame(run, asked, tmp_path):
    write_film(tmp_path / "solo.mp4", [Thing("blue", 2, 35)])
    run("index", "solo.mp4")
    for target in ("moments", "tracks"):
        where = "entity = 'blue' AND video = 'solo.mp4'"
        done = run("query", f"SELECT {target} WHERE {where}", "--clips", target)
        assert "1 clip written" in done.err
        (clip,) = (tmp_path / target).iterdir()
        with open_video(clip) as reader:
            frames = [frame.rgb().astype(np.int16) for frame in reader.frames()]
        # Drawn in (255, 64, 32), and nothing else in the film is red; the thing comes and goes in the clip.
        boxed = [((f[..., 0] > 150) & (f[..., 1] < 130) & (f[..., 2] < 130)).sum() > 40 for f in frames]
        assert len(frames) > 30 and sum(boxed) >= 25, (target, boxed)


def test_a_clip_of_a_moment_shows_the_boxes_of_all_tracks_that_it_joins(run, asked, tmp_path):
    """Of a dog that ran past in eight tracks, 48 of 253 frames had a box: those of the two best tracks."""
    write_film(tmp_path / "solo.mp4", [Thing("blue", 2, 18), Thing("blue", 20, 38, left=80, top=10)])
    run("index", "solo.mp4")
    where = "entity = 'blue' AND video = 'solo.mp4'"
    assert len(run("query", f"SELECT tracks WHERE {where}", "--json").json) > 1
    (moment,) = run("query", f"SELECT moments WHERE {where}", "--clips", "clips", "--json").json
    (clip,) = (tmp_path / "clips").iterdir()
    with open_video(clip) as reader:
        frames = [frame.rgb().astype(np.int16) for frame in reader.frames()]
    reddish = [(f[..., 0] > 150) & (f[..., 1] < 130) & (f[..., 2] < 130) for f in frames]
    left, right = ([int(f[:, half].sum() > 40) for f in reddish] for half in (np.s_[:70], np.s_[70:]))
    assert sum(left[:18]) >= 12 and sum(right[20:]) >= 12, (moment["track_id"], left, right)
    assert not (sum(left[20:]) or sum(right[:16]))


def test_a_sheet_shows_all_rows_that_fit_in_their_order(run, asked, tmp_path):
    def sheet(sql, name):
        done = run("query", sql, "--sheet", name)
        assert done.status == 0, done.err
        return cv2.imread(str(tmp_path / name)).astype(np.int16), done.err

    # Of one track: thinning would leave five of it.
    assert "20 of 20 hits drawn" in sheet(f"{RED} LIMIT 20", "hits.png")[1]
    red = "SELECT tracks WHERE entity = 'red'"
    both, _ = sheet(f"{red} ORDER BY start_time DESC", "both.png")
    tracks = rows(run, f"{red} ORDER BY start_time DESC")
    assert {row["video"] for row in tracks} == {"yard/b.mp4", "gate/a.mp4"}
    for number, row in enumerate(tracks):
        one, _ = sheet(f"{red} AND track_id = {row['track_id']}", "one.png")
        tile = both[6:206, 6 + number * 326 : 326 + number * 326]
        assert np.array_equal(tile, one[6:206, 6:326]), "the first row is the first picture"
        # The box of the track's best view is drawn, which a row of tracks does not bring.
        assert ((tile[..., 1] > 180) & (tile[..., 2] < 120)).sum() > 100
    likest, _ = sheet("SELECT tracks ORDER BY similarity('album/red/one.png') DESC LIMIT 1", "likest.png")
    assert likest[206:222].max() > 200, "how like it is stands below, where there is no entity to name"


def test_folders_of_what_is_written_are_made_and_those_of_nothing_are_not(run, asked, tmp_path):
    for option, name in (("--out", "o/new/x.csv"), ("--sheet", "s/new/x.jpg"), ("--clips", "c/new")):
        assert run("query", f"{RED} AND time < 1", option, name).status == 0
    assert (tmp_path / "o/new/x.csv").is_file() and (tmp_path / "s/new/x.jpg").is_file()
    assert list((tmp_path / "c/new").iterdir())
    (tmp_path / "mine").mkdir()
    for name in ("none/at/all", "mine"):
        nothing = run("query", f"{RED} AND time > 99", "--clips", name)
        assert nothing.status == 0 and "no clip written" in nothing.err
    assert not (tmp_path / "none").exists() and (tmp_path / "mine").is_dir()


def test_videos_that_moved_away_are_reported_and_the_others_drawn(run, asked, tmp_path):
    (tmp_path / "v" / "gate" / "a.mp4").unlink()
    done = run("query", RED, "--sheet", "hits.jpg", "--clips", "clips")
    assert done.status == 3  # it was 0: a script went on with clips that were not there
    assert run("query", RED, "--sheet", "hits.jpg").status == 0  # with the stored picture
    assert done.err.count("frame: gate/a.mp4") == 1 and "1 clip written" in done.err
    gone = "gate/a.mp4 is gone; if it was moved, index it where it is now\n"
    assert f"  drawn without its frame: {gone}" in done.err and "not drawn" not in done.err
    # What names nothing that the library has a picture of is left out, as before.
    bare = run("query", "SELECT 'gate/a.mp4' AS video, 1.0 AS time", "--sheet", "hits.jpg")
    assert f"0 of 1 hit drawn in hits.jpg\n  not drawn: {gone}" in bare.err and bare.status == 3
    for none in ("'gate/a.mp4' AS video, NULL::DOUBLE", "'nosuch' AS video, 1.0"):  # no file was to be read
        assert run("query", f"SELECT {none} AS time", "--sheet", "hits.jpg", "--clips", "clips").status == 0
    broken = tmp_path / "v" / "yard" / "b.mp4"
    broken.write_bytes(b"no film")
    done_without = run("query", RED, "--clips", "none")
    assert done_without.status == 3 and "no clip written" in done_without.err
    assert run("query", RED, "--clips", "none", "--json").json  # the rows are written all the same
    (clip,) = [line for line in done.err.splitlines() if "not written: gate-a.mp4" in line]
    assert clip.endswith(f": {gone.strip()}")
    strange = run("query", "SELECT 'nosuch' AS video, 1.0 AS time", "--clips", "clips", "--sheet", "s.png")
    assert strange.status == 0 and "no video 'nosuch'" in strange.err
