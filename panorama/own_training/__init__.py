"""A user's videos, folders or query come in; an embedder fine-tuned on them goes out, if it helps."""

from panorama.own_training.fine_tuning import DATA_NAME, RECIPE_NAME, OwnData, fine_tune, recipe_text

__all__ = ["DATA_NAME", "RECIPE_NAME", "OwnData", "fine_tune", "recipe_text"]
