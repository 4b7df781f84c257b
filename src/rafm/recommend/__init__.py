"""Exact recommendations: the best items of a catalogue for many contexts, and neighbours of a feature."""
