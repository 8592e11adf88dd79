"""Video files enter; each is in the library when it is over, skipped or failed: `run` is where it begins."""
