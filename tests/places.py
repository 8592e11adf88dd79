"""Where what tests need lies, beside the checkout or where an environment variable says."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOOTAGE = Path(os.environ.get("PANORAMA_FOOTAGE") or ROOT.parent / "shared" / "footage")
"""Real footage with its truth; it may be absent, and tests that need it then skip."""
NO_FOOTAGE = f"no footage at {FOOTAGE}; set PANORAMA_FOOTAGE"
