"""A stored library comes in; what `panorama.query` needs of it goes out, and then answers."""
