"""A report about a model: its training rows, its quality, which features matter, and how to train it again."""
