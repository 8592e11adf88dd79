"""Stored vectors and a query come in; the vectors that may be near it go out, found by an index."""
