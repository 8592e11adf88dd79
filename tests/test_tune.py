"""`panorama tune` on short films: what it measures, what it keeps, and what `index` makes of that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Ran
from fakes import ColoredThings, Thing, write_film

import panorama
from panorama.answering.calibration import SETTING, measured_with
from panorama.errors import UsageError
from panorama.indexing.profile import Profile, profile_in, remember
from panorama.indexing.settings import IngestSettings, Work
from panorama.store import Store
from panorama.threads import cores_here
from panorama.tune import MARGIN, tune
from panorama.tune.choice import DENSEST, SPARSEST, USUAL
from panorama.tune.sample import Answers, Stretch, choose_stretches, loss_between, videos_of
from panorama.video import StretchReader, find_videos, open_video

Run = Callable[..., Ran]
QUICK = Profile(IngestSettings(2.0, crops_per_track=2), Work(4, 16), 1, 30.0, 28.0, 0.01)


def films(folder: Path, count: int = 2) -> Path:
    colors = ("red", "green", "blue", "yellow")
    for number in range(count):
        things = [Thing(colors[(number + i) % 4], 12 * i, 12 * i + 25, left=5 + 30 * i) for i in range(2)]
        write_film(folder / f"{number}.mp4", things, frames=40)
    return folder


@pytest.fixture
def library(tmp_path: Path, fake_proposer: ColoredThings) -> panorama.Library:
    library = panorama.open(tmp_path / "library", create=True)
    library.use_model("color-bands")
    return library


def keep(library: panorama.Library, profile: Profile | None) -> None:
    remember(library, profile)


def settings_hashes(library: panorama.Library) -> dict[str, str | None]:
    """The settings under which each video is held."""
    with Store.open(library.path) as store:
        rows = library.videos().to_pylist()
        return {row["video"]: store.known_file(row["uri"]).settings_hash for row in rows}  # type: ignore[union-attr]


def test_a_stretch_begins_at_a_keyframe_and_counts_from_there(tmp_path: Path) -> None:
    film = write_film(tmp_path / "a.mp4", [], frames=40)  # ten frames a second, a keyframe every second
    with StretchReader(open_video(film), 1.5, 1.2) as reader:
        frames = list(reader.frames())
        assert [frame.index for frame in frames] == list(range(12))
        assert frames[0].time_seconds == 0 and frames[-1].time_seconds == pytest.approx(1.1)
        assert frames[0].pts > 0 and frames[0].is_keyframe
        assert len(reader.times()) == 12
        assert (reader.first_frame, reader.start_seconds) == (10, 1.0)


def test_the_sample_lies_in_the_middle_and_shares_its_seconds(tmp_path: Path) -> None:
    found = find_videos([films(tmp_path / "films")])
    stretches, unread = choose_stretches(found, 2.0)
    assert not unread
    assert [(s.path.name, s.start_seconds, s.seconds) for s in stretches] == [
        ("0.mp4", 1.0, 1.0),  # from the last keyframe not after 1.5 s, half a second before the middle one
        ("1.mp4", 1.0, 1.0),
    ]


def test_a_file_that_cannot_be_read_is_left_out_of_the_sample_and_told(tmp_path: Path) -> None:
    folder = films(tmp_path / "films")
    (folder / "0.mp4").write_bytes(b"not a video")
    stretches, unread = choose_stretches(find_videos([folder]), 2.0)
    assert [s.path.name for s in stretches] == ["1.mp4"]
    assert len(unread) == 1 and "0.mp4" in unread[0]


def test_a_sample_is_said_to_be_of_as_many_videos_as_there_are() -> None:
    """Of one file in three places it said "of 3 videos"."""
    places = [Stretch(f"{n}", Path(name), 9.0 * n, 3.0) for n, name in enumerate(["a", "b", "a"])]
    assert videos_of(places[:1]) == "1 video"
    assert videos_of(places) == "2 videos"


def test_bands_of_the_library_decide_in_the_sample_too(tmp_path: Path, library: panorama.Library) -> None:
    """A library had its own, its model shipped none: `tune` ended with "ships with no calibration"."""
    folder = films(tmp_path / "films")
    library.index(folder)
    own = SETTING + measured_with(library.embedder)
    library.put_setting(own, [one.as_dict() for one in library.calibrations])
    library.embedder.folder = tmp_path
    report = tune(library, folder, seconds=8.0, most_loss=0.99)
    assert report.things >= 4


def test_loss_is_what_the_ranking_lacks() -> None:
    truth = frozenset({("a", 0), ("a", 1)})
    dense = Answers({"x": truth, "nowhere": frozenset()}, {"x": {}, "nowhere": {}})

    def loss(scores: dict[tuple[str, int], float]) -> float:
        return loss_between(dense, Answers({}, {"x": scores, "nowhere": {}}))

    assert loss({("a", 0): 0.9, ("a", 1): 0.8, ("a", 2): 0.1}) == pytest.approx(0.0)
    # The second of two hits comes third: precision is 1 and 2/3 at the two steps of recall.
    assert loss({("a", 0): 0.9, ("a", 2): 0.5, ("a", 1): 0.4}) == pytest.approx(1 - (1 + 2 / 3) / 2)


def test_answers_that_hold_nothing_cannot_be_compared() -> None:
    with pytest.raises(UsageError, match="nothing was found in the sample"):
        loss_between(Answers({"x": frozenset()}, {}), Answers({}, {"x": {}}))


def test_a_real_run_tries_both_ends_and_chooses_by_loss(tmp_path: Path, library: panorama.Library) -> None:
    told: list[str] = []
    report = tune(library, films(tmp_path / "films"), seconds=8.0, most_loss=0.05, tell=told.append)
    tried = {trial.settings: trial for trial in report.trials}
    assert {DENSEST, SPARSEST} <= set(tried)
    assert tried[DENSEST].loss == pytest.approx(0.0)
    chosen = report.profile
    assert chosen.loss == tried[chosen.settings].loss <= 0.05
    assert chosen.predicted_speed > 0 and chosen.measured_speed > 0 and chosen.cores == cores_here()
    assert report.things >= 4, "two things in each of two films"
    assert report.decoded.pictures and "array(" not in repr(report)  # a notebook prints it
    assert report.model.dense.counts["frames"] == 80 and report.model.dense.counts["samples"] == 80
    assert report.model.sparse.counts["samples"] == 8
    assert set(report.model.dense.stage_seconds) == {
        "decode", "gate", "propose", "track", "crop", "embed", "write",
    }  # fmt: skip
    steps = [line for line in told if not line.startswith("the measured speeds contradict")]
    assert len(steps) == 2 + len(report.trials), "the sample, every setting once, and the choice in turn"
    assert library.videos().num_rows == 0, "the sample is indexed elsewhere"
    assert report.as_dict()["ratio"] == pytest.approx(report.ratio, abs=1e-3)
    assert any(line.startswith("predicted ") for line in report.lines())


def test_without_a_bound_the_choice_does_no_more_than_the_default(
    tmp_path: Path, library: panorama.Library
) -> None:
    report = tune(library, films(tmp_path / "films"), seconds=8.0)
    tried = {trial.settings: trial.loss for trial in report.trials}
    chosen = report.profile.settings
    assert tried[chosen] <= tried[USUAL] + MARGIN
    assert chosen.samples_per_second <= USUAL.samples_per_second
    assert {s.samples_per_second for s in tried} <= {DENSEST.samples_per_second, 1.0, 2.0, 3.0, 5.0}
    line = "this is the default" if chosen == USUAL else "times as fast"
    assert any(line in told for told in report.lines())


def test_footage_in_which_nothing_happens_is_no_ground_to_choose_on(
    tmp_path: Path, library: panorama.Library
) -> None:
    write_film(tmp_path / "empty.mp4", [], frames=20)
    with pytest.raises(UsageError, match="nothing was found in the sample"):
        tune(library, tmp_path / "empty.mp4", seconds=2.0)


def test_a_moment_is_no_ground_to_choose_on(tmp_path: Path, library: panorama.Library) -> None:
    """Of a film of one frame the lowest rate was kept, as it lost nothing there."""
    write_film(tmp_path / "a.mp4", [Thing("red", 0, 10)], frames=10)
    with pytest.raises(UsageError, match=r"the sample is 1 s of video, too short .* at least 2 s"):
        tune(library, tmp_path / "a.mp4")


def index_with_one_more(
    folder: Path, library: panorama.Library, before: dict[str, str]
) -> tuple[str, dict[str, str]]:
    """Add new.mp4 and index: only that is looked at. The note on the first old one, and all hashes now."""
    write_film(folder / "new.mp4", [Thing("red", 0, 20)], frames=20)
    report = library.index(folder)
    assert [f.status for f in report.files] == ["skipped", "skipped", "indexed"]
    now = settings_hashes(library)
    assert {name: now[name] for name in before} == before
    return str(report.files[0].note), now


def test_new_videos_get_the_profile_and_old_ones_stay_until_asked(
    tmp_path: Path, library: panorama.Library
) -> None:
    folder = films(tmp_path / "films")
    library.index(folder)
    before = settings_hashes(library)
    keep(library, QUICK)
    note, now = index_with_one_more(folder, library, before)
    assert "--redo" in note
    expected = QUICK.settings.hash(ColoredThings().hash)
    assert now["new.mp4"] == expected
    assert [f.status for f in library.index(folder, redo=True).files] == ["indexed", "indexed", "skipped"]
    assert set(settings_hashes(library).values()) == {expected}


def test_a_copy_of_a_video_that_stays_is_not_indexed_again(tmp_path: Path, library: panorama.Library) -> None:
    film = films(tmp_path / "films") / "0.mp4"
    library.index(film)
    keep(library, QUICK)
    (film.parent / "copy.mp4").write_bytes(film.read_bytes())
    report = library.index(film.parent / "copy.mp4")
    assert [f.status for f in report.files] == ["skipped"]
    assert library.videos().num_rows == 2


def test_without_the_profile_videos_that_it_indexed_stay(tmp_path: Path, library: panorama.Library) -> None:
    folder = films(tmp_path / "films")
    keep(library, QUICK)
    library.index(folder)
    keep(library, None)
    assert profile_in(library.snapshot().settings) == Profile()
    assert [f.status for f in library.index(folder).files] == ["skipped", "skipped"]
    assert [f.status for f in library.index(folder, redo=True).files] == ["indexed", "indexed"]


def test_what_was_indexed_with_named_settings_is_not_thrown_away_by_a_later_index(
    tmp_path: Path, library: panorama.Library
) -> None:
    # `index --fps 15` took days; the nightly `index` of the same folder replaced it by five a second.
    folder = films(tmp_path / "films")
    library.index(folder, settings=IngestSettings(samples_per_second=10.0))
    note, now = index_with_one_more(folder, library, settings_hashes(library))
    assert "with other settings; --redo" in note
    assert now["new.mp4"] == IngestSettings().hash(ColoredThings().hash)
    assert [f.status for f in library.index(folder, redo=True).files] == ["indexed", "indexed", "skipped"]
    library.index(folder, settings=IngestSettings(keyframes_only=True))
    assert set(settings_hashes(library).values()) == {now["new.mp4"]}, "a quick look replaces nothing"


def test_a_quick_look_is_still_made_to_be_replaced(tmp_path: Path, library: panorama.Library) -> None:
    folder = films(tmp_path / "films")
    library.index(folder, settings=IngestSettings(keyframes_only=True))
    assert [f.status for f in library.index(folder).files] == ["indexed", "indexed"]


def test_settings_that_are_named_hold_for_all_videos(tmp_path: Path, library: panorama.Library) -> None:
    folder = films(tmp_path / "films")
    library.index(folder)
    keep(library, QUICK)
    named = IngestSettings(samples_per_second=4.0)
    assert [f.status for f in library.index(folder, settings=named).files] == ["indexed", "indexed"]


def test_batches_and_threads_of_another_machine_are_not_taken_over() -> None:
    here = Profile(QUICK.settings, QUICK.work, cores_here())
    assert here.work_here == QUICK.work
    assert Profile(QUICK.settings, QUICK.work, cores_here() + 1).work_here == Work()


def test_the_command_keeps_its_choice_and_forgets_it(run: Run, tmp_path: Path) -> None:
    folder = films(tmp_path / "films")
    assert run("index", folder, "--model", "color-bands").status == 0
    assert run("info").out.splitlines()[-1].startswith(("profile: default: 5 a second", "total:"))
    ran = run("tune", folder, "--seconds", "4", "--loss", "0.5", "--json")
    assert ran.status == 0, ran.err
    chosen = ran.json["profile"]
    assert run("info", "--json").json["profile"] == chosen
    assert chosen["settings"]["samples_per_second"] < 10
    for told in ("the profile is removed; new", "there is no profile; new"):
        ran = run("tune", "--reset")
        assert (ran.status, ran.err[: len(told)]) == (0, told)
    assert run("info", "--json").json["profile"]["cores"] == 0


def test_a_rate_on_the_command_line_goes_before_the_profile(run: Run, tmp_path: Path) -> None:
    folder = films(tmp_path / "films", 1)
    with panorama.open(tmp_path / "panorama-library", create=True) as library:
        library.use_model("color-bands")
        keep(library, QUICK)
    (line,) = run("index", folder, "--json").json_lines
    assert line["samples"] == 8
    (line,) = run("index", folder, "--fps", "10", "--json").json_lines
    assert (line["status"], line["samples"]) == ("indexed", 40)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["films", "--loss", "1.5"], "--loss is a share"),
        (["films", "--loss", "-0.1"], "--loss is a share"),
        (["films", "--loss", "nan"], "--loss is a share"),
        (["films", "--speed", "0"], "--speed is a multiple"),
        (["films", "--seconds", "0"], "--seconds is between"),
        (["films", "--loss", "0.02", "--speed", "30"], "give one aim: --loss or --speed, got 0.02 and 30"),
        (["nowhere.mp4"], "no video to try settings on: nowhere.mp4"),
        (["broken.mp4"], "none of the videos can be read"),
        ([], "give PATHS"),
        (["films", "--reset"], "give PATHS"),
        (["--reset", "--dry-run"], "--reset forgets the profile; leave out --dry-run"),
        (["--reset", "--json"], "leave out --json"),
        (["--reset"], "no library at"),
    ],
)
def test_bad_input_is_told_and_leaves_no_library(
    run: Run, tmp_path: Path, words: list[str], message: str
) -> None:
    films(tmp_path / "films", 1)
    (tmp_path / "broken.mp4").write_bytes(b"not a video")
    ran = run("tune", *words)
    assert ran.status in (1, 2)
    assert message in ran.err
    assert not (tmp_path / "panorama-library").exists()


def test_a_profile_of_another_version_is_refused_and_can_be_forgotten(run: Run, tmp_path: Path) -> None:
    folder = films(tmp_path / "films", 1)
    with panorama.open(tmp_path / "panorama-library", create=True) as library:
        library.use_model("color-bands")
        library.put_setting("profile", {"settings": {"lookahead": 3}, "work": {}})
    assert "tune --reset" in run("index", folder).err
    assert run("tune", "--reset").status == 0
    assert run("index", folder).status == 0
