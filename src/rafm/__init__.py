"""Factorization machines that give every feature the rank its data can support."""
