"""A barrier for threads inside compiled code: each thread has a counter that only grows, and reads those of the others.

A thread spins for some microseconds, since most waits are shorter than a wake-up, and then yields its core in every
iteration, so that other processes can use it. Sleeping is worse: beside a busy process, training with two threads
that slept took ten times as long.
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

SPINS = 300  # some ten nanoseconds each
MONOTONIC = 6 if sys.platform == "darwin" else 1  # CLOCK_MONOTONIC
GATE_STRIDE = 512  # 64-bit integers in a page: each thread's counter has a page of its own, see plan/scratch.py


def _add_functions() -> None:
    """Make the system's functions to yield the core and to read the clock callable from compiled code."""
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
    """Store this thread's counter; release order makes all its earlier writes visible first."""

    def codegen(context, builder, signature, args):
        builder.store_atomic(args[2], _counter(context, builder, signature, args), "release", 8)
        return context.get_dummy_value()

    return types.void(gate, types.intp, types.int64), codegen


@intrinsic
def _arrived(typingctx, gate, place):
    """Load a thread's counter; acquire order keeps later reads behind it."""

    def codegen(context, builder, signature, args):
        return builder.load_atomic(_counter(context, builder, signature, args), "acquire", 8)

    return types.int64(gate, types.intp), codegen


@intrinsic
def _add_one(typingctx, gate, place):
    """Add 1 to a counter that threads share; return what it was before."""

    def codegen(context, builder, signature, args):
        one = ir.IntType(64)(1)
        return builder.atomic_rmw("add", _counter(context, builder, signature, args), one, "monotonic")

    return types.int64(gate, types.intp), codegen


@intrinsic
def _pause(typingctx):
    """Tell the core that this is a spin loop, which saves power and helps a hyper-thread on the same core."""

    def codegen(context, builder, signature, args):
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _yield(typingctx):
    """Yield the core to any other thread that is ready to run."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "rafm_yield"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def _microseconds(typingctx):
    """Return the time of a monotonic clock in microseconds."""

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
            return builder.sdiv(first, number(10))  # the performance counter ticks at 10 MHz
        return builder.add(builder.mul(first, number(1_000_000)), builder.sdiv(second, number(1000)))

    return types.int64(), codegen


if PLAIN:

    @compiled
    def arrive(gate, thread, turn):
        """Do nothing: with bounds checks there is a single thread."""

    @compiled
    def wait_for_all(gate, threads, turn):
        """Return 0, the time waited."""
        return 0

    @compiled
    def take_ticket(gate, place):
        """Return a counter and add 1 to it."""
        gate[place] += 1
        return gate[place] - 1

else:
    take_ticket = _add_one

    @compiled
    def arrive(gate, thread, turn):
        """Signal that a thread has arrived at the given turn."""
        _arrive(gate, thread * GATE_STRIDE, turn)

    @compiled
    def wait_for_all(gate, threads, turn):
        """Wait until all threads have arrived at the given turn; return the microseconds waited, 0 if only spinning."""
        spins, start = 0, 0
        for thread in range(threads):
            while _arrived(gate, thread * GATE_STRIDE) < turn:
                spins += 1
                if spins < SPINS:
                    _pause()
                    continue
                if spins == SPINS:  # reading the clock costs more than most waits, so only long ones are timed
                    start = _microseconds()
                _yield()
        return _microseconds() - start if spins >= SPINS else 0
