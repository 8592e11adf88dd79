"""Prints what each way to run the shipped networks costs, and how far its answers are from float32.

    python tests/bench/backends.py --footage ../shared/footage --threads 1 2
    python tests/bench/backends.py --footage ../shared/footage --compiled

Each setting of the processor is a process of its own: as it is, without AVX-512 (a laptop with VNNI), and
with AVX2 alone. Turns of all rows are interleaved; a turn counts the processor time of all threads divided by
their number, which other work on the machine hardly changes, or with --wall the time on the clock. Start-up
is from the weights in memory to the first answer. Batches are those of indexing: 8 frames, 64 crops.

OpenVINO (with NNCF for 8 bits) and ONNX Runtime are rows where they are installed; `--compiled` adds
torch.compile, which needs a C++ compiler and half a minute. ONNX Runtime looks at the processor
itself, so that the settings do not hold it back: its rows are those of the whole processor.
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

import av
import numpy as np
import torch

from panorama.models.embedder import PanoramaNet, squash
from panorama.models.proposer import PanoramaProposer, load_proposer
from panorama.models.proposer_net import prepare
from panorama.models.weights import open_model
from panorama.regions import iou

SETTINGS = {
    "as it is": {},
    "AVX2 with VNNI": {"ONEDNN_MAX_CPU_ISA": "AVX2_VNNI", "ATEN_CPU_CAPABILITY": "avx2"},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"},
}
CLIPS = ("people-one-by-one", "cars-from-above", "dog", "coffee", "toy-elf", "toy-rabbit")
FRAMES, CROPS, SIDE = 8, 64, 128
Row = tuple[Callable[[], object], float]
"""What runs one batch, and the seconds from weights to the first answer."""


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


def agreement(exact: PanoramaProposer, other: PanoramaProposer, frames: list[np.ndarray]) -> float:
    """Share of the regions of either that the other has too, overlapping by 0.7."""
    found = total = 0
    for a, b in zip(exact.propose(frames), other.propose(frames), strict=True):
        total += len(a) + len(b)
        if len(a) and len(b):
            same = iou(a.boxes_xyxy, b.boxes_xyxy) >= 0.7
            found += int(same.any(0).sum() + same.any(1).sum())
    return found / max(total, 1)


def first_answer(make: Callable[[], Callable[[], object]]) -> Row:
    started = time.perf_counter()
    call = make()
    call()
    return call, time.perf_counter() - started


def openvino_call(net: torch.nn.Module, x: np.ndarray, low: bool, samples: list[np.ndarray] | None) -> Row:
    """A network in OpenVINO; with samples, in 8 bits."""
    import openvino

    model = openvino.convert_model(net, example_input=torch.from_numpy(x), input=[[-1, *x.shape[1:]]])
    if samples is not None:
        import nncf

        model = nncf.quantize(model, nncf.Dataset(samples), subset_size=len(samples))
    model.reshape(list(x.shape))

    def make() -> Callable[[], object]:
        facts = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "bf16" if low else "f32",
        }
        request = openvino.Core().compile_model(model, "CPU", facts).create_infer_request()
        return lambda: request.infer([x], share_inputs=True, share_outputs=True)

    return first_answer(make)


def onnx_call(net: torch.nn.Module, x: np.ndarray) -> Row:
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/net.onnx"
        torch.onnx.export(net, (torch.from_numpy(x),), path, dynamo=False, input_names=["x"])

        def make() -> Callable[[], object]:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return lambda: session.run(None, {"x": x})

        return first_answer(make)


def compiled_call(net: torch.nn.Module, x: torch.Tensor) -> Row:
    import torch._inductor.config as inductor

    inductor.freezing = True  # type: ignore[assignment]

    def make() -> Callable[[], object]:
        quick = torch.compile(net)
        return lambda: quick(x)

    with torch.no_grad():
        return first_answer(make)


def others(plain: torch.nn.Module, fast: torch.nn.Module, x: torch.Tensor, compiled: bool) -> dict[str, Row]:
    """What other packages make of a network; `plain` in float32, `fast` as it runs here without 8 bits."""
    dtype = next(fast.parameters()).dtype
    low = dtype == torch.bfloat16
    array = x.contiguous().numpy()
    plain = copy.deepcopy(plain).to(memory_format=torch.contiguous_format)
    samples = [array[i : i + 1] for i in range(len(array))]
    rows: dict[str, Row] = {}
    tries: dict[str, Callable[[], Row]] = {
        "ONNX Runtime, float32": lambda: onnx_call(plain, array),
        "OpenVINO, float32": lambda: openvino_call(plain, array, False, None),
        "OpenVINO, int8": lambda: openvino_call(plain, array, low, samples),
    }
    if low:
        tries["OpenVINO, bfloat16"] = lambda: openvino_call(plain, array, True, None)
    if compiled:
        prepared = x.to(dtype).contiguous(memory_format=torch.channels_last)
        tries[f"torch.compile, {str(dtype).split('.')[1]}"] = lambda: compiled_call(fast, prepared)
    for name, attempt in tries.items():
        try:
            rows[name] = attempt()
        except ImportError as exc:
            print(f"  no row for {name}: {exc}", file=sys.stderr)
    return rows


def timed(rows: dict[str, Row], turns: int, wall: bool) -> dict[str, list[float]]:
    """Seconds of each row's turns; the rows take turns."""
    clock = time.perf_counter if wall else time.process_time
    share = 1 if wall else torch.get_num_threads()
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    with torch.inference_mode():
        for call, _ in rows.values():
            call()
        for _ in range(turns):
            for name, (call, _) in rows.items():
                began = clock()
                call()
                seconds[name].append((clock() - began) / share)
    return seconds


def child(given: argparse.Namespace) -> None:
    torch.set_num_threads(given.threads[0])
    data = np.load(given.data, allow_pickle=True)
    frames, crops = list(data["frames"]), list(data["crops"])
    batch, cut = np.stack(frames[:FRAMES]), np.stack([squash(c, SIDE) for c in crops[:CROPS]])
    names = ["float32", *(["bfloat16"] if native() else []), "int8"]
    lines = []

    nets = {n: load_proposer_as(n) for n in names}
    rows = {f"torch, {n}": first_answer(lambda n=n: lambda: nets[n]._run(batch)) for n in names}
    fastest = "bfloat16" if native() else "float32"
    x = prepare(torch.from_numpy(batch))
    if not given.own:
        rows |= others(nets["float32"]._net, nets[fastest]._net, x, given.compiled)
    answers = {f"torch, {n}": f"{agreement(nets['float32'], nets[n], frames):.3f}" for n in names}
    lines += report("proposer", rows, answers, given)

    embedders = {n: PanoramaNet(open_model("panoramanet", "embedder"), n) for n in names}
    rows = {f"torch, {n}": first_answer(lambda n=n: lambda: embedders[n]._exits(cut, 1, 3)) for n in names}
    exact = embedders["float32"]
    x = (torch.from_numpy(cut).permute(0, 3, 1, 2).float() / 255 - exact._mean[:, None, None]) / exact._std[0]
    if not given.own:
        rows |= others(exact.trunk, embedders[fastest].trunk, x, given.compiled)
    whole = exact.embed_all(crops)
    for n in names:
        cosine = (whole * embedders[n].embed_all(crops)).sum(2)
        answers[f"torch, {n}"] = " ".join(f"{exit.mean():.4f}/{exit.min():.4f}" for exit in cosine)
    lines += report("embedder", rows, answers, given)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"lines": lines, "peak": peak}))


def native() -> bool:
    from panorama.models.precision import native_bfloat16

    return native_bfloat16()


def load_proposer_as(precision: str) -> PanoramaProposer:
    return PanoramaProposer(open_model("proposer", "proposer"), precision=precision)


def report(
    network: str, rows: dict[str, Row], answers: dict[str, str], given: argparse.Namespace
) -> list[str]:
    seconds = timed(rows, given.turns, given.wall)
    base = np.median(seconds["torch, bfloat16" if "torch, bfloat16" in rows else "torch, float32"])
    medians = {name: float(np.median(values)) for name, values in seconds.items()}
    return [
        f"| {network} | {name} | {medians[name] * 1e3:.1f} | {base / medians[name]:.2f} "
        f"| {rows[name][1]:.2f} | {answers.get(name, '')} |"
        for name in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--footage", type=Path, default=Path("../shared/footage"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--wall", action="store_true", help="the clock instead of processor time")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--own", action="store_true", help="only what ships")
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
        options = [f"--{n}" for n in ("wall", "compiled", "own") if getattr(given, n)]
        for threads in given.threads:
            for setting in given.settings:
                environment = {**os.environ, **SETTINGS[setting], "OMP_NUM_THREADS": str(threads)}
                command = [sys.executable, "-W", "ignore", __file__, "--data", data, *options]
                command += ["--threads", str(threads), "--turns", str(given.turns)]
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
                found = json.loads(done.stdout.splitlines()[-1])
                print(
                    f"\n{setting}, {threads} threads, all in one process of {found['peak']:.0f} MiB at most"
                )
                print("| network | runs in | ms a batch | times as fast | start-up s | answers |")
                print("|---|---|---|---|---|---|")
                print("\n".join(found["lines"]), flush=True)
    return None


if __name__ == "__main__":
    main()
