"""Columns and pictures come in; files of a library go out, found, locked and replaced as a whole."""
