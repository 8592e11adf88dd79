"""A library enters that was written to for long; one without what is dead or forgotten leaves."""
