"""Search options by trials on validation rows, under a budget of time and size."""
