"""A shorthand as typed comes in; a plan of frozen values goes out, made rule by rule."""
