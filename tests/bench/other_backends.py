"""A torch network and batches of bytes come in; the same network, run by other packages, goes out.

`backends.py` compares the shipped networks with these. Every row takes the same (B, H, W, 3) bytes,
normalises them itself and returns float32.
"""

from __future__ import annotations

import copy
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from panorama.models.cores import get_num_threads
from panorama.models.proposer_net import ProposerNet

Pictures = NDArray[np.uint8]
Run = Callable[[Pictures], Sequence[Any]]

PACKAGES = ("OpenVINO", "ONNX-Runtime", "Inductor")

IN_FLOATS = {
    "proposer": (".*score/.*", ".*box/.*"),
    "embedder": (".*project/.*", r"__module.net.heads.\d/.*", "__module.net/.*"),
}
"""The last products and what follows, as OpenVINO names them: they stay in float32, as in what ships."""


@dataclass(frozen=True, slots=True)
class Row:
    """One way to run a network.

    Attributes:
        run: from a batch of pictures to the network's outputs.
        start_seconds: from weights, or what was made of them ahead, to the first answer.
    """

    run: Run
    start_seconds: float


class FromBytes(nn.Module):
    """A network with the normalisation of its pictures in front: (B, H, W, 3) bytes enter.

    Args:
        net: takes (B, 3, H, W).
        zero, spread: (3,) the pixel value that is 0, and the difference from it that is 1.
    """

    def __init__(self, net: nn.Module, zero: Tensor, spread: Tensor) -> None:
        super().__init__()
        self.net = net
        dtype = next(net.parameters()).dtype
        self.register_buffer("zero", zero.to(dtype).reshape(3, 1, 1))
        self.register_buffer("spread", spread.to(dtype).reshape(3, 1, 1))

    def forward(self, pictures: Tensor) -> Any:
        return self.net((pictures.permute(0, 3, 1, 2).to(self.zero.dtype) - self.zero) / self.spread)


class Said(nn.Module):
    """A proposer's network up to what its heads say, as the product asks it."""

    def __init__(self, net: ProposerNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net.said(self.net.features(x)[1])


def timed_start(make: Callable[[], Run], first: Pictures) -> Row:
    """The row of what `make` makes, which is asked once."""
    began = time.perf_counter()
    run = make()
    run(first)
    return Row(run, time.perf_counter() - began)


def others(
    network: str, plain: FromBytes, fast: FromBytes, batch: Pictures, packages: Sequence[str]
) -> Iterator[tuple[str, Row]]:
    """Rows by name, of the packages that are installed.

    Args:
        network: one of `IN_FLOATS`.
        plain: the network in float32; fast: as torch runs it here without 8 bits.
        batch: pictures as many as will be asked at once; those that ranges of 8 bits are measured on.
        packages: those of `PACKAGES` that are wanted.
    """
    dtype = next(fast.parameters()).dtype
    low = dtype == torch.bfloat16
    kind = str(dtype).split(".")[1]
    plain = copy.deepcopy(plain).to(memory_format=torch.contiguous_format)
    tries: dict[str, Callable[[], Row]] = {}
    if "OpenVINO" in packages:
        tries["OpenVINO, float32"] = lambda: openvino_row(plain, batch, False)
        if low:
            tries["OpenVINO, bfloat16"] = lambda: openvino_row(plain, batch, True)
        tries["OpenVINO, int8 of NNCF"] = lambda: openvino_row(plain, batch, low, IN_FLOATS[network])
    # It looks at the processor itself: a setting does not hold it back.
    if "ONNX-Runtime" in packages and "ONEDNN_MAX_CPU_ISA" not in os.environ:
        tries["ONNX Runtime, float32"] = lambda: onnx_row(plain, batch, False)
        tries["ONNX Runtime, int8"] = lambda: onnx_row(plain, batch, True)
    if "Inductor" in packages:
        tries[f"torch.compile, {kind}"] = lambda: compiled_row(fast, batch)
        tries[f"AOTInductor, {kind}"] = lambda: ahead_row(fast, batch)
    for name, attempt in tries.items():
        try:
            yield name, attempt()
        except ImportError as exc:
            print(f"  no row for {name}: {exc}", file=sys.stderr)


def openvino_row(net: FromBytes, batch: Pictures, low: bool, in_floats: Sequence[str] | None = None) -> Row:
    """OpenVINO; with `in_floats` in 8 bits by NNCF, which is given each picture of the batch."""
    import openvino

    model = openvino.convert_model(net, example_input=torch.from_numpy(batch))
    if in_floats is not None:
        import nncf

        samples = nncf.Dataset([batch[i : i + 1] for i in range(len(batch))])
        model.reshape([1, *batch.shape[1:]])
        left = nncf.IgnoredScope(patterns=list(in_floats))
        model = nncf.quantize(model, samples, subset_size=len(batch), ignored_scope=left)
    model.reshape(list(batch.shape))

    def make() -> Run:
        facts = {
            "INFERENCE_NUM_THREADS": get_num_threads(),
            "ENABLE_CPU_PINNING": False,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "bf16" if low else "f32",
        }
        request = openvino.Core().compile_model(model, "CPU", facts).create_infer_request()

        def run(pictures: Pictures) -> Sequence[Any]:
            return list(request.infer([pictures], share_inputs=True, share_outputs=True).values())

        return run

    return timed_start(make, batch)


def onnx_row(net: FromBytes, batch: Pictures, quantise: bool) -> Row:
    """ONNX Runtime; 8 bits by its own static quantisation, one scale for each output channel."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/net.onnx"
        torch.onnx.export(net, (torch.from_numpy(batch),), path, dynamo=False, input_names=["pictures"])
        if quantise:
            path = quantised_onnx(path, batch)

        def make() -> Run:
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = torch.get_num_threads()
            session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            return lambda pictures: session.run(None, {"pictures": pictures})

        return timed_start(make, batch)


def quantised_onnx(path: str, batch: Pictures) -> str:
    """The file of an ONNX network in 8 bits, beside the file given."""
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Batches(CalibrationDataReader):
        def __init__(self) -> None:
            self.left = [{"pictures": batch}]

        def get_next(self) -> dict[str, Pictures] | None:
            return self.left.pop() if self.left else None

    whole = str(Path(path).with_name("shapes.onnx"))
    quant_pre_process(path, whole, skip_symbolic_shape=True)
    nodes = list(onnx.load(whole).graph.node)
    out = str(Path(path).with_name("net8.onnx"))
    quantize_static(
        whole,
        out,
        Batches(),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        nodes_to_exclude=past_the_last_products(nodes),
    )
    return out


def past_the_last_products(nodes: Sequence[Any]) -> list[str]:
    """Names of the nodes that no product follows: the last products, and what becomes of them."""
    before: set[str] = set()  # values that a product still needs
    found = []
    for node in reversed(nodes):  # ONNX keeps them in an order in which they can be computed
        if any(name in before for name in node.output):
            before.update(node.input)
        else:
            found.append(node.name)
            before.update(node.input if node.op_type in ("Conv", "Gemm", "MatMul") else ())
    return found


def compiled_row(net: FromBytes, batch: Pictures) -> Row:
    """torch.compile, its caches empty."""
    settle_inductor()

    def make() -> Run:
        quick = torch.compile(net)
        return without_gradients(lambda pictures: quick(torch.from_numpy(pictures)))

    return timed_start(make, batch)


def ahead_row(net: FromBytes, batch: Pictures) -> Row:
    """AOTInductor: compiled beforehand; its start is the loading of what was made."""
    settle_inductor()
    package = str(Path(tempfile.mkdtemp(dir=os.environ["TORCHINDUCTOR_CACHE_DIR"])) / "net.pt2")
    began = time.perf_counter()
    with torch.no_grad():
        exported = torch.export.export(net, (torch.from_numpy(batch),))
        torch._inductor.aoti_compile_and_package(exported, package_path=package)
    print(f"  AOTInductor compiled in {time.perf_counter() - began:.0f} s", file=sys.stderr)

    def make() -> Run:
        quick = torch._inductor.aoti_load_package(package)
        return without_gradients(lambda pictures: quick(torch.from_numpy(pictures)))

    return timed_start(make, batch)


def without_gradients(run: Run) -> Run:
    """The same, always in one mode: what torch compiled in one it compiles again, unfrozen, in another."""
    return torch.inference_mode()(run)


def settle_inductor() -> None:
    """Weights are constants; instructions are no newer than the setting of the processor allows."""
    import torch._inductor.config as inductor

    inductor.freezing = True  # type: ignore[assignment]
    if os.environ.get("ATEN_CPU_CAPABILITY") == "avx2":
        inductor.cpp.simdlen = 256
        inductor.cpp.march = "haswell"  # or the compiler takes what the processor has


def in_full(run: Run, pictures: Pictures, size: int) -> list[Tensor]:
    """The outputs for any number of pictures of what takes `size` of them at once."""
    parts = []
    for start in range(0, len(pictures), size):
        some = pictures[start : start + size]
        full = np.concatenate([some, np.repeat(some[-1:], size - len(some), axis=0)])
        found = run(full)
        parts.append([torch.as_tensor(np.array(one))[: len(some)].float() for one in found])
    return [torch.cat(column) for column in zip(*parts, strict=True)]
