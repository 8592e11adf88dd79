"""A snapshot and matches enter; the relations that a statement reads stand in DuckDB."""
