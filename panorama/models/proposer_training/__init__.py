"""Data folders and a recipe enter; a trained proposer leaves as a folder of embeddings/."""
