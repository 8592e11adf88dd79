"""Print the cost of each way to run the shipped networks, and how far its answers are from float32.

    python tests/bench/backends.py --footage ../shared/footage --threads 1 2
    python tests/bench/backends.py --footage ../shared/footage --packages Inductor

Each CPU setting runs in its own process: unrestricted, AVX-512 without VNNI (an older server), AVX2 with VNNI
(a laptop), and AVX2 alone. The rows take turns. A turn counts the CPU time of all threads divided by their
number, which other work on the computer hardly changes, or, with --wall, the wall time. "Of int8" is that
time divided by the time of what ships. Start-up lasts from the weights in memory to the first answer. Batches
are 8 frames and 64 crops, from bytes on. Answers are compared with those of float32: the share of regions
that overlap by 0.7, and the mean and least cosine at each exit.

In 8 bits, Panorama ships a graph of its own that OpenVINO runs. OpenVINO's other precisions, its 8 bits as
NNCF makes them, and ONNX Runtime have rows if they are installed. torch.compile and AOTInductor, with
`--packages Inductor`, need a C++ compiler and minutes. ONNX Runtime examines the CPU itself and ignores the
settings, so it has rows for the unrestricted CPU only.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from other_backends import (
    IN_FLOATS,
    PACKAGES,
    FromBytes,
    Pictures,
    Row,
    Run,
    Said,
    in_full,
    others,
    timed_start,
)

from panorama.models.cores import set_num_threads
from panorama.models.embedder import PanoramaNet, squash
from panorama.models.precision import native_bfloat16
from panorama.models.proposer import PanoramaProposer, load_proposer
from panorama.models.proposer_net import SPREAD, ZERO
from panorama.models.weights import open_model
from panorama.regions import iou

SETTINGS = {
    "as it is": {},
    "AVX-512 without VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    "AVX2 with VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI", "ATEN_CPU_CAPABILITY": "avx2"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
CLIPS = ("people-one-by-one", "cars-from-above", "dog", "coffee", "toy-elf", "toy-rabbit")
FRAMES, CROPS, SIDE = 8, 64, 128


def pictures(footage: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Frames of clips that no model was fitted to, as indexing has them, and regions cut from them."""
    frames, crops = [], []
    proposer = load_proposer()
    for clip in CLIPS:
        with av.open(str(footage / "video" / f"{clip}.mp4")) as container:
            for number, frame in enumerate(container.decode(video=0)):
                if number % 60 == 30:
                    frames.append(frame.to_ndarray(format="rgb24", width=416, height=256))
                if number > 500:
                    break
    for frame, regions in zip(frames, proposer.propose(frames), strict=True):
        for x1, y1, x2, y2 in regions.boxes_xyxy[:4].astype(int):
            crops.append(np.ascontiguousarray(frame[y1:y2, x1:x2]))
    return frames, crops


class Asked:
    """A row in the place of a model's own network."""

    def __init__(self, run: Callable[[Pictures], Any]) -> None:
        self._run = run

    def __call__(self, pictures: Pictures) -> Any:
        return self._run(pictures)

    def exits_out(self, pictures: Pictures, _first: int, _last: int) -> Any:
        return self._run(pictures)


def runner(precision: str) -> str:
    """The name of the row of a network as it ships in some precision."""
    return f"{'OpenVINO' if precision == 'int8' else 'torch'}, {precision}"


def agreement(exact: PanoramaProposer, run: Run, frames: list[np.ndarray]) -> float:
    """Share of the regions of either that the other has too, overlapping by 0.7."""
    other = copy.copy(exact)
    other.network = Asked(lambda batch: in_full(run, batch, FRAMES)[0].numpy())  # type: ignore[assignment]
    found = total = 0
    for a, b in zip(exact.propose(frames), other.propose(frames), strict=True):
        total += len(a) + len(b)
        if len(a) and len(b):
            same = iou(a.boxes_xyxy, b.boxes_xyxy) >= 0.7
            found += int(same.any(0).sum() + same.any(1).sum())
    return found / max(total, 1)


def likeness(exact: PanoramaNet, run: Run, crops: list[np.ndarray]) -> str:
    """Mean and least cosine of the vectors of crops with those of `exact`, at each exit."""
    other = copy.copy(exact)
    other.network = Asked(lambda pictures: in_full(run, pictures, CROPS))  # type: ignore[assignment]
    cosine = (exact.embed_all(crops) * other.embed_all(crops)).sum(2)
    return " ".join(f"{exit.mean():.4f}/{exit.min():.4f}" for exit in cosine)


def timed(rows: dict[str, Row], batch: Pictures, turns: int, wall: bool) -> dict[str, list[float]]:
    """Seconds of each row's turns; the rows take turns."""
    clock = time.perf_counter if wall else time.process_time
    share = 1 if wall else torch.get_num_threads()
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    with torch.inference_mode():
        for row in rows.values():
            row.run(batch)
        for _ in range(turns):
            for name, row in rows.items():
                began = clock()
                row.run(batch)
                seconds[name].append((clock() - began) / share)
    return seconds


def child(given: argparse.Namespace) -> None:
    """What one setting of the processor prints, as JSON on stdout."""
    torch.set_num_threads(given.threads[0])
    set_num_threads(given.threads[0])
    data = np.load(given.data, allow_pickle=True)
    frames, crops = list(data["frames"]), list(data["crops"])
    # Held back by a setting, oneDNN has no bfloat16 although the processor tells torch of it.
    low = native_bfloat16() and "ONEDNN_MAX_CPU_ISA" not in os.environ
    names = ["float32", *(["bfloat16"] if low else []), "int8"]
    lines = []
    if "proposer" in given.networks:
        lines += proposer_lines(names, frames, given)
    if "embedder" in given.networks:
        lines += embedder_lines(names, crops, given)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"lines": lines, "peak": peak}))


def proposer_lines(names: list[str], frames: list[np.ndarray], given: argparse.Namespace) -> list[str]:
    batch = np.stack(frames[:FRAMES])
    nets = {n: PanoramaProposer(open_model("proposer", "proposer"), precision=n) for n in names}
    rows = {runner(n): timed_start(lambda n=n: lambda some: [nets[n].network(some)], batch) for n in names}
    zero, spread = torch.full((3,), ZERO), torch.full((3,), SPREAD)
    plain, fast = (FromBytes(Said(nets[n].network.net), zero, spread) for n in ("float32", names[-2]))
    rows |= dict(others("proposer", plain, fast, batch, given.packages))
    answers = {n: f"{agreement(nets['float32'], row.run, frames):.3f}" for n, row in rows.items()}
    return report("proposer", rows, answers, batch, given)


def embedder_lines(names: list[str], crops: list[np.ndarray], given: argparse.Namespace) -> list[str]:
    batch = np.stack([squash(crop, SIDE) for crop in crops[:CROPS]])
    nets = {n: PanoramaNet(open_model("panoramanet", "embedder"), n) for n in names}
    rows = {
        runner(n): timed_start(lambda n=n: lambda some: nets[n].network.exits_out(some, 1, 3), batch)
        for n in names
    }
    exact = nets["float32"]
    zero, spread = (torch.from_numpy(part * 255) for part in (exact.mean, exact.std))
    plain, fast = (FromBytes(nets[n].network.trunk, zero, spread) for n in ("float32", names[-2]))
    rows |= dict(others("embedder", plain, fast, batch, given.packages))
    answers = {n: likeness(exact, row.run, crops) for n, row in rows.items()}
    return report("embedder", rows, answers, batch, given)


def report(
    network: str, rows: dict[str, Row], answers: dict[str, str], batch: Pictures, given: argparse.Namespace
) -> list[str]:
    seconds = timed(rows, batch, given.turns, given.wall)
    base = np.median(seconds[runner("int8")])
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return [
        f"| {network} | {name} | {medians[name] * 1e3:.1f} | {medians[name] / base:.2f} "
        f"| {row.start_seconds:.2f} | {answers[name]} |"
        for name, row in rows.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, default=Path("../shared/footage"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--wall", action="store_true", help="the clock instead of processor time")
    parser.add_argument("--networks", nargs="+", choices=IN_FLOATS, default=list(IN_FLOATS))
    parser.add_argument(
        "--packages", nargs="*", choices=PACKAGES, default=PACKAGES[:2], help="none: only what ships"
    )
    parser.add_argument("--data", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.data:
        return child(given)
    frames, crops = pictures(given.footage)
    print(f"{len(frames)} frames, {len(crops)} crops; times of batches of {FRAMES} frames and {CROPS} crops")
    with tempfile.TemporaryDirectory() as folder:
        data = f"{folder}/pictures.npz"
        held = np.empty(len(crops), object)
        held[:] = crops
        np.savez(data, frames=np.stack(frames), crops=held)
        options = ["--wall"] if given.wall else []
        options += ["--networks", *given.networks, "--packages", *given.packages]
        for threads in given.threads:
            for setting in given.settings:
                cache = Path(folder, f"inductor-{len(list(Path(folder).iterdir()))}")  # no spaces, and empty
                cache.mkdir()
                made = {"OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
                environment = {**os.environ, **SETTINGS[setting], **made}
                command = [sys.executable, "-W", "ignore", __file__, "--data", data, *options]
                command += ["--threads", str(threads), "--turns", str(given.turns)]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"\n{setting}, {threads} threads, all in one process of {found['peak']:.0f} MiB at most"
                )
                print("| network | runs in | ms a batch | of int8 | start-up s | answers |")
                print("|---|---|---|---|---|---|")
                print("\n".join(found["lines"]), flush=True)
    return None


if __name__ == "__main__":
    main()
