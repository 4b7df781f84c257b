"""Compiled code: training, scoring and the mixture of MRMA, over flat arrays."""
