"""Training on positives alone, by the squared loss over all pairs of a context and an item."""
