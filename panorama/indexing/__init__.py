"""Found videos enter; each is in the library when it is over, skipped or failed: it begins in `run`."""
