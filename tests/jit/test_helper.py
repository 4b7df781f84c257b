"""Helpers: without wrappers and machine code of their own, yet part of every kernel that calls them."""

import gc

import numpy as np
import pytest

from rafm.jit import compiling, helper
from rafm.jit.cache import kernel
from rafm.jit.versions import is_tested


def twice(x):
    """Return 2 x."""
    return x + x


@pytest.fixture(params=["as copies only", "the usual way"])
def make(request, monkeypatch):
    """Return the decorator, with Numba's own way to compile too, which newer versions get."""
    if request.param == "the usual way":
        monkeypatch.delitem(helper.OPTIONS, "pipeline_class", raising=False)
    return helper.helper(_nrt=False)


def test_kernels_contain_the_helpers_that_they_call(make):
    inner = make(twice)
    outer = make(lambda x: inner(x) + inner(x + 1.0))

    @kernel()
    def fill(values):
        for i in range(values.size):
            values[i] = outer(values[i])

    values = np.arange(3.0)
    fill(values)
    np.testing.assert_array_equal(values, 4 * np.arange(3.0) + 2)


@pytest.mark.skipif(not is_tested(), reason="newer versions of Numba compile helpers like all functions")
def test_a_helper_has_no_machine_code_of_its_own():
    made = helper.helper()(twice)
    assert helper.callable_helper(made)(4) == 8
    [compiled] = made.overloads.values()
    assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) == 0


def test_python_cannot_call_a_helper(make):
    with pytest.raises(TypeError, match="twice is compiled for calls from compiled code only"):
        make(twice)(1)


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_not_collected_while_compiling(is_on):
    during = []

    class Listener(compiling.LogListener):
        def compiled_part(self, kernel, parts, seconds):
            during.append(gc.isenabled())

    before = gc.isenabled()
    try:
        (gc.enable if is_on else gc.disable)()
        with compiling.told_to(Listener()):
            helper.callable_helper(helper.helper()(lambda x: x - 1))(1)
        assert (during, gc.isenabled()) == ([False], is_on)
    finally:
        (gc.enable if before else gc.disable)()
