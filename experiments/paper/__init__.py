"""Reproduce the paper: every table and figure of "RaFM: Rank-Aware Factorization Machines" with one command.

    budget (what is run) -> search, tasks (single runs) -> lab (pool and store) -> artefacts (tables, figures) -> page

No run is repeated: results are stored under a key of everything that they depend on.
"""
