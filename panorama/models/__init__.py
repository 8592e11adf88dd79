"""Pictures enter; regions that may hold a thing leave, and vectors that tell whether two show one thing."""
