"""Networks in a process of their own beside the one that indexes: `client` starts it, `server` runs in it."""
