"""Exemplars, crops and what was said of them enter; tracks with scores and bands leave."""
