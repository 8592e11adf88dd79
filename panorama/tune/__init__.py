"""Footage enters; the settings that index it cheapest leave, with what was measured to choose them."""

from panorama.tune.report import TuneReport
from panorama.tune.search import MARGIN, SAMPLE_SECONDS, tune

__all__ = ["MARGIN", "SAMPLE_SECONDS", "TuneReport", "tune"]
