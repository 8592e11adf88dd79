"""A library and its truth come in; figures of its answers and models go out, and bands from its tracks."""
