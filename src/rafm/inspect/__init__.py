"""Inspect data before training: what they contain, and what is wrong with them.

`examine` makes one pass over data of any format, in bounded memory; `report` presents the results.
"""
