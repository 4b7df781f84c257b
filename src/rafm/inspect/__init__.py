"""A look at data before training: what is in them, and what is wrong with them.

`examine` reads once, whatever the format, in memory that does not grow with the rows; `report` says what it found.
"""
