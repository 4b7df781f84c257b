"""A page about a model: what it was trained on, how well it does, what it looks at, and how to train it again."""
