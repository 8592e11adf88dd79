"""Runs the networks in a separate process beside the one that indexes: `client` starts it, `server` is it."""
