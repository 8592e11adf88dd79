"""A user's videos, folders or query enter; an embedder fine-tuned on what they show leaves, if it helps."""

from panorama.own_training.fine_tuning import DATA_NAME, RECIPE_NAME, OwnData, fine_tune, recipe_text

__all__ = ["DATA_NAME", "RECIPE_NAME", "OwnData", "fine_tune", "recipe_text"]
