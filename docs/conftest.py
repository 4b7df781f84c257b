"""docs/extending.md shows files whose doctests run where the files are; tests/test_docs.py tests the page."""

collect_ignore = ["extending.md"]
