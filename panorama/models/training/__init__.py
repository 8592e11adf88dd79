"""Training of the embedder: pictures and a recipe come in, a folder of checked weights goes out."""
