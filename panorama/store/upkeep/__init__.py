"""A library with dead or forgotten data comes in; the same library without that data goes out."""
