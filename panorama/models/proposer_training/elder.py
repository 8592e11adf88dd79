"""The network that a narrower one begins with: kept beside the run, and a second teacher while it trains.

The first teacher knows the classes it was taught. The elder has learnt, from everything pasted and drawn, to
see things that have no class; what it sees there and the teacher does not is passed on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from panorama.models.proposer_net import ProposerNet, prepare
from panorama.models.proposer_training.teachers import Answer

ELDER = "elder.safetensors"
"""The file in a run's folder."""


def keep_elder(tensors: Mapping[str, Tensor], network: Mapping[str, Any], path: Path) -> None:
    """Write weights, norms not folded, with the shape of their network (the recipe's table) to a file."""
    held = {name: value.contiguous() for name, value in tensors.items()}
    save_file(held, path, metadata={"network": json.dumps(dict(network))})


class Elder:
    """A trained network of any width, in float32.

    Args:
        path: what `keep_elder` wrote.

    Attributes:
        net: the network, its norms not folded.
    """

    def __init__(self, path: Path) -> None:
        with safe_open(path, "pt") as file:
            network = json.loads(file.metadata()["network"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a dict
        self.net = ProposerNet(network["widths"], network["depths"], network["pyramid"]).eval()
        self.net.load_state_dict({**_counters(self.net), **tensors})
        self.net.to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def join(self, answer: Answer, images: NDArray[np.uint8], share: float) -> Answer:
        """The teacher's answer, and the elder's where it is surer.

        Args:
            images: (B, H, W, 3) uint8 RGB.
            share: by what the elder's objectness is multiplied first, in (0, 1].
        """
        logits, boxes = self.net(prepare(torch.from_numpy(images)))
        scores = logits.sigmoid().numpy() * np.float32(share)
        surer = scores > answer.scores
        return replace(
            answer,
            scores=np.where(surer, scores, answer.scores),
            boxes=np.where(surer[..., None], boxes.numpy(), answer.boxes),
        )


def _counters(net: ProposerNet) -> dict[str, Tensor]:
    """What norms count while they train; exported weights lack it."""
    return {k: v for k, v in net.state_dict().items() if k.endswith("num_batches_tracked")}
