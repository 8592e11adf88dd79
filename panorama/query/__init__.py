"""Statements come in, Results go out: the SQL language, its matching requests and DuckDB's tables."""
