"""Places for containers, and the bytes of a good one."""

import pytest
from containers import HEADER, TENSORS

from rafm.files.container import write_container


@pytest.fixture
def path(tmp_path):
    return tmp_path / "m.rafm"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The bytes of a small file that holds a bit of everything."""
    path = tmp_path_factory.mktemp("good") / "m.rafm"
    write_container(path, TENSORS, HEADER)
    return path.read_bytes()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """A path for tests that write many files in turn."""
    return tmp_path_factory.mktemp("scratch") / "m.rafm"
