"""A model's name or folder comes in; its recipe and its tensors go out, checked against their SHA-256."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as parse_arrays

from panorama.content import content_dir
from panorama.errors import ModelError, near, other_model
from panorama.json_text import parsed_json
from panorama.whole_files import write_whole

if TYPE_CHECKING:
    import torch

RECIPE = "recipe.toml"
WEIGHTS = "model.safetensors"
COHORT = "cohort.safetensors"
MODEL = "model"
"""The folder inside that of a proposer's training which the model is written to."""

RESULT = "result.json"
"""What a training measured; a training that did not help writes this and no model."""

HASH_TABLE = "[sha256]"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """One folder of embeddings/, or a user's own: its parsed recipe, which states the digests of its files.

    Attributes:
        path: the folder.
        recipe: the parsed recipe.toml; `recipe["sha256"]` maps file names to hex digests.
    """

    path: Path
    recipe: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The model's name in the recipe."""
        return str(self.recipe["name"])

    @property
    def kind(self) -> str:
        """The kind of model: 'embedder' or 'proposer'."""
        return str(self.recipe["kind"])

    def sha256(self, file: str = WEIGHTS) -> str:
        """The digest that the recipe states for a file of this folder.

        Raises:
            ModelError: the recipe states none.
        """
        digests = self.recipe.get("sha256", {})
        if file not in digests:
            raise ModelError(
                f"{self.path / RECIPE} states no SHA-256 for {file!r}, only for "
                f"{', '.join(digests) or 'none'}; weights are loaded only if they can be checked"
            )
        return str(digests[file])

    def tensors(self, file: str = WEIGHTS) -> dict[str, torch.Tensor]:
        """The tensors of one safetensors file, on the CPU, checked against the recipe's digest.

        Raises:
            ModelError: the file is missing, does not match the digest, or is not a safetensors file.
        """
        # torch takes seconds to import; listing model names does not need it.
        from safetensors.torch import load

        try:
            return dict(load(self._checked(file)))
        except SafetensorError as exc:
            raise ModelError(f"{self.path / file} is not a safetensors file: {exc}") from exc

    def arrays(self, file: str) -> dict[str, NDArray[Any]]:
        """The same as `tensors`, as numpy arrays and without torch if numpy knows their format.

        Raises:
            ModelError: as in `tensors`, or a value is not finite.
        """
        try:
            found = dict(parse_arrays(self._checked(file)))
        except SafetensorError as exc:
            raise ModelError(f"{self.path / file} is not a safetensors file: {exc}") from exc
        except KeyError:  # a format that numpy lacks, such as bfloat16
            found = {name: tensor.float().numpy() for name, tensor in self.tensors(file).items()}
        # In 8 bits, weights that are not finite would give vectors and boxes that look like any others.
        wrong = [name for name, values in found.items() if not np.isfinite(values).all()]
        if wrong:
            raise ModelError(f"{self.path / file} holds values that are not finite numbers, in {min(wrong)}")
        return found

    def _checked(self, file: str) -> bytes:
        stated = self.sha256(file)
        path = self.path / file
        try:
            data = path.read_bytes()
        except OSError as exc:
            raise ModelError(
                f"the weights {path} cannot be read: {exc.strerror}; restore the file, or"
                f" {other_model(self.kind)}"
            ) from exc
        found = hashlib.sha256(data).hexdigest()
        if found != stated:
            raise ModelError(
                f"the weights {path} have SHA-256 {found}, but {RECIPE} states {stated}: the file is damaged "
                f"or was changed; restore it, or record the new digest if the change was meant"
            )
        return data


def model_names(kind: str) -> tuple[str, ...]:
    """Names of the shipped models of one kind ('embedder', 'proposer') that have weights, sorted."""
    found = []
    for recipe in content_dir("embeddings").glob(f"*/{RECIPE}"):
        if (recipe.parent / WEIGHTS).is_file() and read_recipe(recipe).get("kind") == kind:
            found.append(recipe.parent.name)
    return tuple(sorted(found))


def open_model(name: str, kind: str, also: tuple[str, ...] = ()) -> ModelFolder:
    """The folder of a shipped model by name, or of a user's model by path.

    Args:
        also: other names that the error message offers.

    Raises:
        ModelError: there is no such model, its recipe is invalid, or it is of another kind.
    """
    folder = content_dir("embeddings") / name
    if os.path.basename(name) != name or not _holds_recipe(folder):  # noqa: PTH119  Path's drops a slash
        folder = Path(name)  # a name with a slash is always a path, even if it ends like a shipped model's
    if not _holds_recipe(folder):
        if told := _why_without_model(folder):
            raise ModelError(told)
        choices = (*model_names(kind), *also)
        here = f"The {kind}s here are {', '.join(choices) or 'none'}; or give a folder that holds a {RECIPE}"
        raise ModelError(f"no {kind} {name!r}.{near(name, choices)} {here}")
    recipe = read_recipe(folder / RECIPE)
    missing = [key for key in ("name", "kind") if key not in recipe]
    if missing:
        raise ModelError(f"{folder / RECIPE} lacks {' and '.join(missing)}")
    if recipe["kind"] != kind:
        raise ModelError(f"{name!r} is a model of kind {recipe['kind']!r}, wanted {kind!r}")
    return ModelFolder(folder, recipe)


def _holds_recipe(folder: Path) -> bool:
    return os.path.isfile(folder / RECIPE)  # noqa: PTH113  unlike Path's, False if the folder is not readable


def _why_without_model(folder: Path) -> str:
    """Why a folder without a visible recipe holds no model, if the folder tells; else ''."""
    try:
        result = parsed_json((folder / RESULT).read_text(encoding="utf-8"))
    except PermissionError as exc:
        return f"the model {folder} cannot be read: {exc.strerror}"
    except (OSError, ValueError):
        trained = folder / MODEL
        told = f"{folder} holds no {RECIPE}; its folder {MODEL!r} does: name {trained}"
        return told if _holds_recipe(trained) else ""
    if not isinstance(result, dict) or result.get("model", "") is not None:
        return ""
    return (
        f"{folder} holds no model: the training data did not help, so none was written. Keep using the model "
        "that you have, or train in a new folder with more pictures of more things"
    )


def read_recipe(path: Path) -> dict[str, Any]:
    """The parsed recipe.

    Raises:
        ModelError: it cannot be read or is not valid TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ModelError(f"the recipe {path} cannot be read: {exc.strerror}") from exc
    except ValueError as exc:  # also of numbers of thousands of digits
        raise ModelError(f"the recipe {path} is not valid TOML: {exc}") from exc


def _without_hashes(text: str) -> str:
    """A recipe without its table of digests; comments in it stay, as they may be about what follows."""
    kept, within = [], False
    for line in text.split("\n"):
        if line.lstrip().startswith("["):
            within = line.partition("#")[0].strip() == HASH_TABLE
        if not within or line.lstrip().startswith("#"):
            kept.append(line)
    return "\n".join(kept).rstrip("\n")


def record_hashes(folder: Path) -> dict[str, str]:
    """Write the digests of a model's weights and cohort into its recipe, as its last table; return them.

    What stands behind an earlier table of digests stays. Other files of the folder, such as a training's
    checkpoint, are not part of the model.
    """
    recipe = folder / RECIPE
    text = _without_hashes(recipe.read_text(encoding="utf-8"))
    present = [folder / name for name in (COHORT, WEIGHTS) if (folder / name).is_file()]
    digests = {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in present}
    lines = [f'"{name}" = "{digest}"' for name, digest in digests.items()]
    write_whole(recipe, "\n".join([text, "", HASH_TABLE, *lines, ""]).encode())
    return digests
