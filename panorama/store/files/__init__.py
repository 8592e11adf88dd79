"""Columns and pictures enter; files of a library leave, found, locked and replaced whole."""
