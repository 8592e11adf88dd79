"""A directory enters; the parts of a `Library` leave: found, held open, indexed into and told of."""
