"""A network's named tensors come in; convolutions merged with their batch norms go out, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.errors import ModelError

EPSILON = 1e-5
"""Added to a variance before the square root, as torch's batch norm does."""

Floats = NDArray[np.float32]


class Tensors:
    """The tensors of one network, looked up by name and shape.

    Args:
        given: the stored tensors, in any floating-point format.
        where: their name in error messages: 'the weights of FOLDER'.
    """

    def __init__(self, given: Mapping[str, NDArray[Any]], where: str) -> None:
        self._given = given
        self._where = where
        self._used: set[str] = set()

    def take(self, name: str, *shape: int) -> Floats:
        """The tensor with this name, as float32.

        Raises:
            ModelError: it is missing or has another shape.
        """
        if name not in self._given:
            raise ModelError(f"{self._where} do not fit the network of its recipe: they lack {name}")
        found = np.asarray(self._given[name], np.float32)
        if found.shape != shape:
            raise ModelError(
                f"{self._where} do not fit the network of its recipe: {name} is {found.shape}, not {shape}"
            )
        self._used.add(name)
        return found

    def conv(self, conv: str, norm: str, inputs: int, outputs: int, size: int) -> tuple[Floats, Floats]:
        """Weight (outputs, inputs, size, size) and bias (outputs,) of a convolution and its norm, merged.

        Args:
            conv, norm: names of the two modules.

        Raises:
            ModelError: see `take`.
        """
        weight = self.take(f"{conv}.weight", outputs, inputs, size, size)
        gain, shift, mean, variance = (
            self.take(f"{norm}.{part}", outputs) for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = np.asarray(gain / np.sqrt(variance + np.float32(EPSILON)), np.float32)
        return weight * scale[:, None, None, None], shift - mean * scale

    def check_all_used(self) -> None:
        """Raise ModelError if any tensor was never taken; batch norm counters may be left over."""
        left = {name for name in self._given if not name.endswith("num_batches_tracked")} - self._used
        if left:
            raise ModelError(
                f"{self._where} do not fit the network of its recipe: it has no place for {min(left)}"
            )
