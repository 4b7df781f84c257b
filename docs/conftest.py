"""Run the examples of pages in a folder of their own.

docs/extending.md shows files whose doctests run where the files are; tests/test_docs.py tests the page.
"""

import pytest

collect_ignore = ["extending.md"]


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Let a page write files under short names."""
    monkeypatch.chdir(tmp_path)
