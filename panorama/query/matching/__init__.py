"""Exemplars, crops and what users said about tracks come in; tracks with scores and bands go out."""
