"""A network's tensors by name enter; its convolutions with their normalisation leave. It needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panorama.errors import ModelError

EPSILON = 1e-5
"""Added to a variance before its root is taken, as torch's normalisations do."""

Floats = NDArray[np.float32]


class Tensors:
    """The tensors of one network, each looked up by its name and its shape.

    Args:
        given: as they were stored, in any floating-point format.
        where: what errors call them: 'the weights of FOLDER'.
    """

    def __init__(self, given: Mapping[str, NDArray[Any]], where: str) -> None:
        self._given = given
        self._where = where
        self._used: set[str] = set()

    def take(self, name: str, *shape: int) -> Floats:
        """One tensor of that shape.

        Raises:
            ModelError: there is none, or it has another shape.
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
        """Weight (outputs, inputs, size, size) and bias (outputs,) of a convolution with its normalisation.

        Args:
            conv, norm: the modules' names.

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
        """Raise ModelError where there is a tensor that the network has no place for."""
        left = {name for name in self._given if not name.endswith("num_batches_tracked")} - self._used
        if left:
            raise ModelError(
                f"{self._where} do not fit the network of its recipe: it has no place for {min(left)}"
            )
