"""Panorama answers SQL over video archives, for things that no model was trained on."""
