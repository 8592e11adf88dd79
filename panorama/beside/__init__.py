"""Networks in a process of their own, beside the one that indexes: `models.beside` starts it."""
