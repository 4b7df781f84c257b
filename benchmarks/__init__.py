"""Measurements of speed and memory, beside other libraries; run from a checkout with `python -m benchmarks.NAME`."""
