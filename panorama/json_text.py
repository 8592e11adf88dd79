"""Text of a file that anybody may have written enters; what it holds as JSON leaves, or a ValueError."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def parsed_json(text: str, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The value of a text in JSON.

    Raises:
        ValueError: it is none, or its brackets stand in one another so deep that Python gives up.
    """
    try:
        return json.loads(text, object_pairs_hook=object_pairs_hook)
    except RecursionError as exc:
        raise ValueError("its brackets are nested too deeply") from exc
