"""A directory comes in; the parts of a `Library` go out: its contents, its models, its store and indexing."""
