"""A picture comes in, as bytes or an object of another package; upright pixels and its metadata go out."""
