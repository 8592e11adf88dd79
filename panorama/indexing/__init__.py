"""Found videos come in; each one is in the library at the end, skipped or failed. Start reading in `run`."""
