"""Rows of an answer come in; sheets and clips go out, and why a track was accepted or not."""
