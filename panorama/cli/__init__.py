"""The command line: words enter, the Python API is called, tables, JSON and one clear error message leave."""

from panorama.cli.main import main, run

__all__ = ["main", "run"]
