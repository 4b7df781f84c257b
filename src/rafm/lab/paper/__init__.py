"""The paper, run again: every table and figure of "RaFM: Rank-Aware Factorization Machines" from one command.

    budget (what is run) -> search, tasks (single runs) -> lab (pool and store) -> artefacts (tables, figures) -> page

A run that has been done is never done again: its result is in the store, under a key of everything it depends on.
"""
