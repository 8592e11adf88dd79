"""Index throughput divided by decode-only throughput, stage by stage, and speed as a multiple of real time.

    python tests/bench/index_speed.py ../shared/footage --work /tmp/bench-work --rounds 3
    python tests/bench/index_speed.py ../shared/footage --work /tmp/bench-work --only hd --rounds 2

Groups of clips: `hd`, the fixed cameras at 1920x1080 with sensor noise, looped to `--minutes` each; `fixed`,
the same clips unchanged; `long`, these looped as long as `hd`; `moving`, all other clips unchanged; `hevc`,
the fixed cameras at 1920x1080 in 10-bit HEVC, for which there is no target.

In every round, PyAV alone decodes each group (thread type AUTO, one thread per core). Then the real command
line indexes it at the default settings into an empty library. Decode-only counts just the decoding loop; the
index counts the whole command, from the start of its interpreter to its end. Its start-up is printed beside
it: the same command on a clip of one second. `by core time` is the same ratio for the CPU time of all cores,
which other work on the computer hardly changes.

The index decodes small pictures with one thread and leaves the other cores to later stages.
`decoding with its threads` is the ratio to a loop that decodes with as many threads as the index does.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from footage import copy_packets, fixed_clips, hevc_hd, looped, moving_clips, noisy_hd
from measure import Checkpoint, cores, decode_only, index, machine, say, spread, table

from panorama.video import open_video
from panorama.video.probing import decoder_threads

TARGETS = {"hd": 0.6, "fixed": 0.3, "long": 0.3, "moving": 0.15, "hevc": None}
ENCODED = {"hd": noisy_hd, "hevc": hevc_hd}


def groups_of(footage: Path, work: Path, minutes: float, names: list[str]) -> dict[str, list[Path]]:
    """The files of each group, prepared."""
    out: dict[str, list[Path]] = {}
    for name in names:
        clips = moving_clips(footage) if name == "moving" else fixed_clips(footage)
        if name in ENCODED:
            clips = [ENCODED[name](clip, work) for clip in clips]
        out[name] = [looped(clip, work, minutes) for clip in clips] if name in ("hd", "long") else clips
    return out


def own_threads(file: Path) -> int:
    """Threads that the index decodes a file with."""
    with open_video(file) as video:
        return decoder_threads(video.info.width, video.info.height, cores())


def one_round(files: list[Path], options: list[str]) -> dict[str, Any]:
    """Decode and index a group once; JSON."""
    decoded = decode_only(files, cores())
    by_threads: dict[int, list[Path]] = {}
    for file in files:
        by_threads.setdefault(own_threads(file), []).append(file)
    own = [decode_only(some, count) for count, some in by_threads.items()]
    with tempfile.TemporaryDirectory() as folder:
        made = index(files, Path(folder) / "library", options)
    return {
        "frames": decoded.frames,
        "decode_seconds": decoded.seconds,
        "decode_core_seconds": decoded.core_seconds,
        "own_decode_seconds": sum(part.seconds for part in own),
        "index_seconds": made.seconds,
        "index_core_seconds": made.core_seconds,
        "video_seconds": made.video_seconds,
        "stages": made.stage_seconds,
        "files": [dict(outcome) for outcome in made.outcomes],
    }


def start_up(clip: Path, options: list[str]) -> float:
    """Seconds of the command on one second of video: what it costs before and after the work."""
    with tempfile.TemporaryDirectory() as folder:
        short = copy_packets(clip, Path(folder) / "short.mp4", 1.0, whole_rounds=False)
        return index([short], Path(folder) / "library", options).seconds


def print_groups(results: dict[str, list[dict[str, Any]]], starts: list[float]) -> None:
    start = median(starts)
    rows = []
    for name, rounds in results.items():
        ratios = [r["decode_seconds"] / r["index_seconds"] for r in rounds]
        without = [r["decode_seconds"] / max(r["index_seconds"] - start, 1e-9) for r in rounds]
        rows.append(
            [
                name,
                rounds[0]["frames"],
                spread([r["frames"] / r["decode_seconds"] for r in rounds]),
                spread([r["frames"] / r["index_seconds"] for r in rounds]),
                spread(ratios),
                TARGETS[name] or "",
                spread([r["own_decode_seconds"] / r["index_seconds"] for r in rounds]),
                spread(without),
                spread([r["decode_core_seconds"] / r["index_core_seconds"] for r in rounds]),
                spread([r["video_seconds"] / r["index_seconds"] for r in rounds]),
            ]
        )
    head = ["group", "frames", "decode-only, frames/s", "index, frames/s", "index / decode", "wanted"]
    table(
        f"Index and decode-only throughput, start-up included (it is {spread(starts)} s)",
        [*head, "decoding with its threads", "without start-up", "by core time", "x real time"],
        rows,
    )


def print_stages(results: dict[str, list[dict[str, Any]]]) -> None:
    names = list(dict.fromkeys(s for rounds in results.values() for r in rounds for s in r["stages"]))
    rows = []
    for group, rounds in results.items():
        sums = [max(sum(r["stages"].values()), 1e-9) for r in rounds]
        both = list(zip(rounds, sums, strict=True))
        shares = [median(r["stages"].get(name, 0.0) / total for r, total in both) for name in names]
        busy = spread([total / r["index_seconds"] for r, total in both])
        rows.append([group, *(f"{share:.0%}" for share in shares), busy])
    table(
        "Share of each stage in the time of all stages, which may overlap",
        ["group", *names, "sum / wall"],
        rows,
    )


def print_files(results: dict[str, list[dict[str, Any]]]) -> None:
    rows = []
    for group, rounds in results.items():
        for file in rounds[-1]["files"]:
            busiest = sorted(file["stage_seconds"].items(), key=lambda s: -s[1])[:4]
            seconds = max(file["seconds"], 1e-9)
            rows.append(
                [
                    group,
                    file["video"],
                    file["frames"],
                    f"{file.get('samples', 0)} / {file.get('unchanged', 0)}",
                    file["tracks"],
                    file["crops"],
                    file["frames"] / seconds,
                    file["video_seconds"] / seconds,
                    ", ".join(f"{name} {took:.2f}" for name, took in busiest),
                ]
            )
    head = ["group", "video", "frames", "looked at / unchanged", "tracks", "crops", "frames/s", "x real time"]
    table("Each file of the last round, as the command tells it", [*head, "longest stages, s"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("footage", type=Path)
    parser.add_argument("--work", type=Path, required=True, help="folder for prepared clips; kept")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=5.0, help="least length of looped clips")
    parser.add_argument("--only", choices=TARGETS, nargs="+", default=list(TARGETS))
    parser.add_argument("--options", default="", help="words for `panorama index`, for example '--fps 2'")
    parser.add_argument("--files", action="store_true", help="print a row for every file too")
    parser.add_argument("--prepare", action="store_true", help="make the clips and stop")
    parser.add_argument("--checkpoint", type=Path, help="keep rounds here, and go on from them")
    given = parser.parse_args()
    if shutil.which("ffmpeg") is None and ENCODED.keys() & given.only:
        parser.error("the groups hd and hevc need ffmpeg on the path")
    files = groups_of(given.footage, given.work, given.minutes, given.only)
    if given.prepare:
        return
    options = given.options.split()
    print(f"{machine()}; {given.rounds} rounds, groups in turn; options: {given.options or 'none'}")
    kept = Checkpoint(
        given.checkpoint, {"minutes": given.minutes, "options": options, "footage": str(given.footage)}
    )
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in files}
    starts: list[float] = []
    for number in range(given.rounds):
        part = f"start-up {number}"
        starts.append(kept.known(part) or kept.keep(part, start_up(fixed_clips(given.footage)[-1], options)))
        for name, clips in files.items():
            part = f"{name} {number}"
            done = kept.known(part) or kept.keep(part, one_round(clips, options))
            results[name].append(done)
            say(f"{part}: decode {done['decode_seconds']:.1f} s, index {done['index_seconds']:.1f} s")
    print_groups(results, starts)
    print_stages(results)
    if given.files:
        print_files(results)


if __name__ == "__main__":
    main()
