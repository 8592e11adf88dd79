"""Statements enter, Results leave: the language, what matching is asked, what DuckDB is given."""
