"""A path, or none, enters; where the library that is meant lies leaves."""

from __future__ import annotations

import os
from pathlib import Path

DEFAULT_PATH = "panorama-library"
ENVIRONMENT = "PANORAMA_LIBRARY"


def library_path(path: str | Path | None = None) -> Path:
    """The library meant: the path given, else $PANORAMA_LIBRARY, else ./panorama-library."""
    return Path(path or os.environ.get(ENVIRONMENT) or DEFAULT_PATH)
