"""Training of the embedder: pictures and a recipe enter, a folder of checked weights leaves."""
