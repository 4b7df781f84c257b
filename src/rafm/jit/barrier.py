"""Where threads wait for one another inside compiled code: each has a counter that only grows, and reads the others'.

A thread spins for some microseconds, since most waits are shorter than waking up takes, and then yields its core at
each turn, so that others who want it get it. Naps are worse: with a busy process next to it, training by two threads
that napped took ten times as long.
"""

# mypy: ignore-errors
import ctypes
import platform
import sys

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import PLAIN, compiled

SPINS = 300  # of some ten nanoseconds each
MONOTONIC = 6 if sys.platform == "darwin" else 1  # the number of a clock that is never set
APART = 512  # counters of 64 bits to a page, which has one of them: see scratch.py


def _add_functions() -> None:
    """Give compiled code the system's ways to let another thread have this core, and to read its clock."""
    if sys.platform == "win32":
        found = ctypes.windll.kernel32.SwitchToThread, ctypes.windll.kernel32.QueryPerformanceCounter
    else:
        library = ctypes.CDLL(None)
        found = library.sched_yield, library.clock_gettime
    for name, function in zip(("rafm_yield", "rafm_clock"), found):
        binding.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)


_add_functions()


def _counter(context, builder, signature, args):
    """Return the address of a thread's counter."""
    return builder.gep(context.make_array(signature.args[0])(context, builder, args[0]).data, [args[1]])


@intrinsic
def _arrive(typingctx, gate, place, turn):
    """Say that this thread has come so far, after all that it wrote before."""

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[2], _counter(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(gate, types.intp, types.int64), codegen


@intrinsic
def _arrived(typingctx, gate, place):
    """Return how far a thread has come, before anything is read after."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_counter(context, builder, signature, args), "acquire", 8)

    return types.int64(gate, types.intp), codegen


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
def _yield(typingctx):
    """Let another thread have this core, if one wants it."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "rafm_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _microseconds(typingctx):
    """Return what a clock shows."""

    def codegen(context, builder, signature, args):
        number, code = ir.IntType(64), ir.IntType(32)
        shown = cgutils.alloca_once(builder, number, 2)
        pointer = number.as_pointer()
        if sys.platform == "win32":
            kind, given = ir.FunctionType(code, [pointer]), [shown]
        else:
            kind, given = ir.FunctionType(code, [code, pointer]), [code(MONOTONIC), shown]
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "rafm_clock"), given)
        first, second = builder.load(shown), builder.load(builder.gep(shown, [number(1)]))
        if sys.platform == "win32":
            return builder.sdiv(first, number(10))  # ticks of a tenth
        return builder.add(builder.mul(first, number(1_000_000)), builder.sdiv(second, number(1000)))

    return types.int64(), codegen


if PLAIN:

    @compiled
    def arrive(gate, thread, turn):
        """Do nothing: where bounds are checked there is one thread."""

    @compiled
    def wait_for_all(gate, threads, turn):
        """Return that nobody was waited for."""
        return 0

else:

    @compiled
    def arrive(gate, thread, turn):
        """Say that a thread has come to the given turn."""
        _arrive(gate, thread * APART, turn)

    @compiled
    def wait_for_all(gate, threads, turn):
        """Wait until all threads have come to the given turn; return the microseconds if it took long."""
        spins, start = 0, 0
        for thread in range(threads):
            while _arrived(gate, thread * APART) < turn:
                spins += 1
                if spins < SPINS:
                    _pause()
                    continue
                if spins == SPINS:
                    start = _microseconds()
                _yield()
        return _microseconds() - start if spins >= SPINS else 0
