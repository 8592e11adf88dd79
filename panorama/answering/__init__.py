"""A library as it is stored enters; what `panorama.query` is given of it, and then answers, leave."""
