"""Stored vectors enter; which of them are near to a query leaves, exactly or by an index."""
