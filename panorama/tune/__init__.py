"""Footage comes in; the settings that index it most cheaply go out, and the measurements behind them."""

from panorama.tune.report import TuneReport
from panorama.tune.search import MARGIN, SAMPLE_SECONDS, tune

__all__ = ["MARGIN", "SAMPLE_SECONDS", "TuneReport", "tune"]
