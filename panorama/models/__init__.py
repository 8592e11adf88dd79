"""Pictures come in; regions that may hold a thing go out, and vectors that tell whether two show the same."""
