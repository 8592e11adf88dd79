"""The system that this runs on enters; where Panorama cannot run, one clear error leaves."""

from __future__ import annotations

import sys

from panorama.errors import UnsupportedSystem


def check_system() -> None:
    """Nothing, where Panorama can run; called before what cannot even be loaded elsewhere.

    Raises:
        UnsupportedSystem: this is Windows, which has none of the locks by which processes share a library.
    """
    if sys.platform == "win32":
        raise UnsupportedSystem("Panorama needs Linux or macOS; on Windows run it in WSL 2: wsl --install")
