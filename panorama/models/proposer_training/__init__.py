"""Data folders and a recipe come in; a trained proposer goes out as a folder like those of embeddings/."""
