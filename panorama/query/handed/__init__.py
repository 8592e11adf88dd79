"""A snapshot and matches come in; the relations that a statement reads go out, as tables in DuckDB."""
