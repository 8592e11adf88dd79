"""A shorthand enters as it was typed; a plan leaves, made of frozen values, rule by rule."""
