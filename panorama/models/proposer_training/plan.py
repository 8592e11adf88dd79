"""A recipe comes in; the check that a proposer can be trained by it, and its values at each step, go out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from panorama.errors import ModelError
from panorama.models.late_proposer import ProposalSettings
from panorama.models.proposer_shape import Shape
from panorama.models.training.entries import MOST_WHOLE, Entry, check_entries, number_from, short, whole_from
from panorama.models.training.optimise import rate_at
from panorama.values import above, is_finite, is_whole, whole

PLAN: dict[str, tuple[str, ...]] = {
    "network": ("widths", "depths", "pyramid"),
    "store": ("seed", "scene_side", "cutout_side", "garments", "objects", "frames_a_clip", "scenes"),
    "phase": (),
    "training": (
        *("seed", "cycles", "parts", "batch", "rate", "matrix_rate", "warm_up", "weight_decay"),
        *("clip", "average", "threads", "log_every", "save_every"),
    ),
}
"""Tables of a recipe that a training needs, and the entries each must have."""

SCENES = ("backdrop", "caltech101", "grocery", "clothing")
"""Sources of which [store.scenes] says how many pictures are kept."""

ENTRIES = {
    "store": {
        **dict.fromkeys(("scene_side", "cutout_side", "frames_a_clip"), whole_from(1)),
        **dict.fromkeys(("seed", "garments", "objects"), whole_from(0)),
        "scenes": Entry(
            f"a table with a whole number of pictures of {', '.join(SCENES)} each",
            lambda value: isinstance(value, dict) and all(whole(0, 2**32)(value.get(n)) for n in SCENES),
        ),
    },
    "training": {
        **dict.fromkeys(("seed", "parts", "warm_up"), whole_from(0)),
        **dict.fromkeys(("batch", "threads", "log_every", "save_every"), whole_from(1)),
        **dict.fromkeys(("rate", "matrix_rate", "weight_decay"), number_from(0)),
        "clip": Entry("a number above 0", above(0)),
        "average": number_from(0, 1),
    },
}
"""What entries must be; the shape of the network is checked by `Shape`."""

CYCLE = {
    "to_step": Entry("a whole number", whole(-MOST_WHOLE, MOST_WHOLE)),  # it lies behind the last one's
    "rate": number_from(0),
    "fall": whole_from(0),
    "end": number_from(0),
    "batch": whole_from(1),
}
"""Entries of each cycle: the step where it ends, its highest rate as a share, the steps of its fall, the
share where that ends, and pictures a step.
"""

_CHANCE = number_from(0, 1)
_SHARES = Entry(
    "a table of shares, one of them above 0",
    lambda value: (
        isinstance(value, dict)
        and all(is_finite(share) and share >= 0 for share in value.values())
        and any(value.values())
    ),
)
_LOSSES = ("score", "box", "hint", "silent")

PHASE = {
    "from_step": whole_from(0),
    "canvases": Entry(
        "a list of heights and widths in pixels, multiples of 32",
        lambda value: isinstance(value, list) and bool(value) and all(map(_is_canvas, value)),
    ),
    "weights": Entry(
        f"a table with a number from 0 for {', '.join(_LOSSES)} each",
        lambda value: isinstance(value, dict) and all(number_from(0).fits(value.get(n)) for n in _LOSSES),
    ),
    **dict.fromkeys(("mosaic", "paste", "warp", "blend"), _CHANCE),
    **dict.fromkeys(("scenes", "things"), _SHARES),
}
"""What each phase says: where it begins, the sizes of its pictures, the weights of its losses, how often
pictures are put together, and of what.
"""


def _is_canvas(size: Any) -> bool:
    return isinstance(size, list) and len(size) == 2 and all(whole(32, 4096)(n) and not n % 32 for n in size)


def check_plan(plan: Mapping[str, Any], what: str) -> None:
    """Check, before any work, that a recipe is complete; `what` names it in error messages.

    Raises:
        ModelError: a table or an entry is missing, the network's shape or the settings of inference are
            impossible, or cycles or phases do not follow each other.
    """
    for table, names in PLAN.items():
        held = plan.get(table)
        missing = [name for name in names if not isinstance(held, dict) or name not in held]
        if not held or missing:
            lacks = f"{', '.join(missing)} in its table {table}" if held and missing else f"the table {table}"
            raise ModelError(f"{what} lacks {lacks}; see embeddings/proposer/recipe.toml")
    for table, allowed in ENTRIES.items():
        check_entries(plan[table], allowed, f"[{table}] of {what}")
    Shape.of(plan, what)
    ProposalSettings.read(plan, what)  # the model that is made is judged with them
    _check_cycles(plan["training"]["cycles"], what)
    _check_phases(plan["phase"], what)


def _check_cycles(cycles: Any, what: str) -> None:
    if not cycles:
        raise ModelError(f"{what} lacks a cycle of its training; see embeddings/proposer/recipe.toml")
    first = 0
    for number, cycle in enumerate(_tables(cycles, "[[training.cycles]]", what), 1):
        if lacks := ", ".join(name for name in ("to_step", "rate", "fall") if name not in cycle):
            raise ModelError(f"{what} lacks {lacks} in cycle {number} of its training")
        check_entries(cycle, CYCLE, f"cycle {number} of the training of {what}")
        if cycle["to_step"] <= first:
            raise ModelError(
                f"{what} ends cycle {number} of its training at step {cycle['to_step']}; it begins at {first}"
            )
        first = cycle["to_step"]


def _check_phases(phases: Any, what: str) -> None:
    """Without a phase at step 0 there is nothing to make the first samples of."""
    before = -1
    for number, phase in enumerate(_tables(phases, "[[phase]]", what), 1):
        if lacks := ", ".join(name for name in PHASE if name not in phase):
            raise ModelError(f"{what} lacks {lacks} in phase {number}; see embeddings/proposer/recipe.toml")
        begins = phase["from_step"]
        if not is_whole(begins) or begins <= before or (number == 1 and begins):
            wanted = "0, as that of the first" if number == 1 else f"a whole number from {before + 1} on"
            raise ModelError(f"from_step in phase {number} of {what} is {wanted}, got {short(begins)}")
        check_entries(phase, PHASE, f"phase {number} of {what}")
        before = begins


def _tables(value: Any, name: str, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
        raise ModelError(f"{what} has {name} as a list of tables, got {value!r:.60}")
    return value


def phase_at(recipe: dict[str, Any], step: int) -> dict[str, Any]:
    """The settings for composing pictures at a step: the last phase that has begun."""
    begun: list[dict[str, Any]] = [phase for phase in recipe["phase"] if phase["from_step"] <= step]
    return begun[-1]


def last_step(training: Mapping[str, Any]) -> int:
    """The number of steps of a training."""
    return int(training["cycles"][-1]["to_step"])


def cycle_at(training: Mapping[str, Any], step: int) -> tuple[int, Mapping[str, Any]]:
    """The first step of the cycle that a step lies in, and the cycle; past the end, the last cycle."""
    first = 0
    for cycle in training["cycles"][:-1]:
        if step < cycle["to_step"]:
            return first, cycle
        first = cycle["to_step"]
    return first, training["cycles"][-1]


def cycles_until(training: Mapping[str, Any], step: int) -> list[dict[str, Any]]:
    """What the first `step` steps depend on of each cycle: of one that has not begun to fall, not its end.

    So a training that is still at its highest rate may be made longer in the same cycle.
    """
    first, found = 0, []
    for cycle in training["cycles"]:
        if first >= step:
            break
        whole = cycle_facts(training, cycle)
        first = cycle["to_step"]
        falls = step - 1 > first - max(1, cycle["fall"])
        later = {"to_step": falls or step > first, "fall": falls, "end": falls}
        found.append({name: value for name, value in whole.items() if later.get(name, True)})
    return found


def cycle_facts(training: Mapping[str, Any], cycle: Mapping[str, Any]) -> dict[str, Any]:
    """All entries of a cycle, also those that it leaves out."""
    batch = cycle.get("batch", training.get("batch"))
    return {"rate": cycle["rate"], "batch": batch, "end": cycle.get("end", 0.0)} | {
        name: cycle[name] for name in ("to_step", "fall")
    }


def share_at(training: Mapping[str, Any], step: int) -> float:
    """Share of the highest rate at a step: each cycle rises, stays and falls to its `end`, by default 0.

    A cycle after one that ended at 0 raises the rate again and builds on what was learnt (warm restarts,
    Loshchilov and Hutter 2017). So a finished training can be made longer.
    """
    first, cycle = cycle_at(training, step)
    highest, end = float(cycle["rate"]), float(cycle.get("end", 0.0))
    if step >= cycle["to_step"]:
        return end
    rise = highest * rate_at(step - first, 2**62, training["warm_up"], 1)
    fallen = rate_at(step - first, cycle["to_step"] - first, 0, cycle["fall"])
    return min(rise, end + (highest - end) * fallen)


def batch_at(training: Mapping[str, Any], step: int) -> int:
    """Pictures per step: from the step's cycle if it has an entry `batch`, else from the training."""
    return int(cycle_at(training, step)[1].get("batch", training["batch"]))
