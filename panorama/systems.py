"""The operating system comes in; if Panorama cannot run on it, one clear error goes out."""

from __future__ import annotations

import sys

from panorama.errors import UnsupportedSystem


def check_system() -> None:
    """Do nothing if Panorama can run here; call it before importing modules that fail to load elsewhere.

    Raises:
        UnsupportedSystem: this is Windows, which lacks the locks by which processes share a library.
    """
    if sys.platform == "win32":
        raise UnsupportedSystem("Panorama needs Linux or macOS; on Windows run it in WSL 2: wsl --install")
