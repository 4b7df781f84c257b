"""Where threads wait for one another inside compiled code: a counter that only grows.

A thread spins for some microseconds, since most waits are shorter than waking up takes, and then naps, so that a core
that others want is given away.
"""

# mypy: ignore-errors
import ctypes
import platform
import sys

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .vectors import PLAIN, compiled

SPINS = 10_000  # of some ten nanoseconds each
NAP = 20 if sys.platform != "win32" else 0  # microseconds; on Windows the rest of a time slice
LINE = 8  # 64-bit counters in a cache line


def _find_nap() -> int:
    """Return the address of the C library's function that sleeps for some microseconds."""
    found = ctypes.windll.kernel32.Sleep if sys.platform == "win32" else ctypes.CDLL(None).usleep
    return ctypes.cast(found, ctypes.c_void_p).value


binding.add_symbol("rafm_nap", _find_nap())


def _counter(context, builder, signature, args):
    return context.make_array(signature.args[0])(context, builder, args[0]).data


@intrinsic
def _arrive(typingctx, gate):
    """Count one more arrival, after all that was written before."""

    def codegen(context, builder, signature, args):
        place = _counter(context, builder, signature, args)
        builder.atomic_rmw("add", place, ir.IntType(64)(1), "seq_cst")
        return context.get_dummy_value()

    return types.void(gate), codegen


@intrinsic
def _arrived(typingctx, gate):
    """Return how many have arrived, before anything is read after."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_counter(context, builder, signature, args), "seq_cst", 8)

    return types.int64(gate), codegen


@intrinsic
def _pause(typingctx):
    """Tell the core that this is a loop of waiting."""

    def codegen(context, builder, signature, args):
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _nap(typingctx, microseconds):
    """Sleep."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        call = cgutils.get_or_insert_function(builder.module, kind, "rafm_nap")
        builder.call(call, args)
        return context.get_dummy_value()

    return types.void(types.uint32), codegen


if PLAIN:

    @compiled
    def wait_for(gate, arrivals):
        """Do nothing: where bounds are checked there is one thread."""

else:

    @compiled
    def wait_for(gate, arrivals):
        """Arrive, and wait until so many have in all since the gate was new."""
        _arrive(gate)
        spins = 0
        while _arrived(gate) < arrivals:
            spins += 1
            if spins < SPINS:
                _pause()
            else:
                _nap(NAP)
