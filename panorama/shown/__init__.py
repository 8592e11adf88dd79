"""Rows of an answer enter; what people look at leaves: sheets, clips, and why a track was accepted or not."""
