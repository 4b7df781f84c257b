"""Numba kernels over flat arrays: training, scoring, and MRMA's mixture model."""
