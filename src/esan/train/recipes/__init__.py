"""Recipes: the settings of a training, by name, as TOML, and the numbers that the paper reports."""
