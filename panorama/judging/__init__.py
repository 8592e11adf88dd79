"""A library and a truth enter; how good its answers and models are leaves, and bands from its own tracks."""
