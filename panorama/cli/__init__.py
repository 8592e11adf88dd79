"""The command line: words come in, the Python API is called, and tables, JSON or one clear error go out."""

from panorama.cli.main import main, run

__all__ = ["main", "run"]
