"""`python -m rafm`."""

from .cli import main

main()
