"""Explicit vectors: operations on left[i : i + n] and right[j : j + n], n a multiple of 4, with scalars c and d.

Numba's own vectorisation spends more on alias checks and loop heads than on arithmetic at small ranks; these emit the
vector instructions themselves. Where bounds are to be checked, plain twins of the same names take their place.
"""

# mypy: ignore-errors
import math
from contextlib import contextmanager

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from .cache import kernel

FAST = ("reassoc", "contract", "arcp", "nsz", "afn")  # not nnan, ninf: divergence must stay visible
CONTRACTED = ("contract",)
LARGEST_EXPONENT = 87.3  # exp(-87.3) is about the least normal number of single precision
COARSE_LOG_2 = 355 / 512  # log 2, with few digits: its multiples are exact
PLAIN = bool(config.DISABLE_JIT or config.BOUNDSCHECK)
NARROW = 16  # lanes up to which a loop over some nonzeros is not unrolled: its rests cost more than its turns


MATHS = {"error_model": "numpy", "fastmath": set(FAST)}
entry = kernel(**MATHS)
# Inner functions are inlined and do not count references, which would cost more than the arithmetic at small ranks.
compiled = kernel(forceinline=True, _nrt=False, **MATHS)
as_written = kernel(forceinline=True, _nrt=False, error_model="numpy", fastmath=set(FAST) - {"reassoc"})


def _lanes(builder, scalar, width):
    """Return a vector of equal lanes."""
    kind = ir.VectorType(scalar.type, width)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


def _zeros(kind):
    """Return a vector of zeros."""
    return ir.Constant(kind, [0.0] * kind.count)


class _Lines:
    """Emits one operation for some lanes: loads, arithmetic, stores, and a running sum."""

    def __init__(self, builder, pointers, scalars, total):
        self.builder, self.pointers, self.scalars, self.total = builder, pointers, scalars, total

    def emit(self, step, position, width, add):
        b, kind = self.builder, ir.VectorType(self.total.type.pointee, width)
        pointers = [b.bitcast(b.gep(p, [position]), kind.as_pointer()) for p in self.pointers]
        term = step(b, *pointers, *(_lanes(b, scalar, width) for scalar in self.scalars))
        if term is not None:
            add(term)

    def reduce(self, term):
        """Add the lanes of term to the total."""
        b, scalar = self.builder, self.total.type.pointee
        name = f"llvm.vector.reduce.fadd.v{term.type.count}f{'32' if scalar == ir.FloatType() else '64'}"
        call = cgutils.get_or_insert_function(b.module, ir.FunctionType(scalar, [scalar, term.type]), name)
        lanes = b.call(call, [ir.Constant(scalar, 0.0), term], fastmath=FAST)
        b.store(b.fadd(b.load(self.total), lanes, flags=FAST), self.total)


def _emit_lines(builder, lines, step, size, width):
    """Emit the step over size elements: width lanes at a time, then what is left in halves down to 4."""
    kind = ir.VectorType(lines.total.type.pointee, width)
    bulk = builder.and_(size, size.type(-width))
    with builder.if_then(builder.icmp_signed(">", bulk, size.type(0))):
        acc = cgutils.alloca_once_value(builder, _zeros(kind))

        def add(term):
            builder.store(builder.fadd(builder.load(acc), term, flags=FAST), acc)

        with cgutils.for_range_slice(builder, size.type(0), bulk, size.type(width)) as (position, _):
            lines.emit(step, position, width, add)
        lines.reduce(builder.load(acc))
    with builder.if_then(builder.icmp_signed("!=", bulk, size)):
        while width > 4:
            width //= 2
            with builder.if_then(builder.icmp_signed("!=", builder.and_(size, size.type(width)), size.type(0))):
                lines.emit(step, builder.and_(size, size.type(-2 * width)), width, lines.reduce)


def _blockwise(step):
    """Make a compiled function (left, i, right, j, n, c, d) -> sum of terms from what one step does with some lanes."""

    @intrinsic
    def operation(typingctx, left, i, right, j, n, c, d):
        element = left.dtype
        signature = element(left, types.intp, right, types.intp, types.intp, element, element)

        def codegen(context, builder, signature, args):
            *_, size, c, d = args
            pointers = [_start(context, builder, signature, args, place) for place in (0, 2)]
            return _emit_all(builder, pointers, (c, d), step, size)

        return signature, codegen

    return operation


def _elements(context, builder, signature, args, place):
    """Return the pointer to the elements of an array among the arguments."""
    return context.make_array(signature.args[place])(context, builder, args[place]).data


def _start(context, builder, signature, args, place):
    """Return the pointer to where an array among the arguments is to be used from, which is the next argument."""
    return builder.gep(_elements(context, builder, signature, args, place), [args[place + 1]])


def _emit_all(builder, pointers, scalars, step, size):
    """Emit the step over all elements; return the sum of its terms."""
    kind = pointers[0].type.pointee
    total = cgutils.alloca_once_value(builder, ir.Constant(kind, 0.0))
    width = 32 if kind == ir.FloatType() else 16
    _emit_lines(builder, _Lines(builder, pointers, scalars, total), step, size, width)
    return builder.load(total)


def _adder(anew):
    """Make a compiled function that adds up listed vectors, to sums or anew.

    The sums are in registers: at small ranks loading and storing them costs most.
    """

    @intrinsic
    def operation(typingctx, records, places, q, values, e, count, shift, sums, j, n):
        element, at = records.dtype, types.intp
        signature = element(records, places, at, values, at, at, at, sums, at, at)

        def codegen(context, builder, signature, args):
            _, _, q, _, e, count, shift, _, j, size = args
            records, places, values, sums = (_elements(context, builder, signature, args, k) for k in (0, 1, 3, 7))
            total = cgutils.alloca_once_value(builder, ir.Constant(records.type.pointee, 0.0))
            listed = (builder.gep(places, [q]), builder.gep(values, [e]), count, builder.gep(records, [shift]))
            _emit_columns(builder, _Columns(builder, listed, builder.gep(sums, [j]), total, anew), size)
            return builder.load(total)

        return signature, codegen

    return operation


class _Columns:
    """Emits the sum of some lanes of all listed vectors."""

    def __init__(self, builder, listed, sums, total, anew):
        self.builder, self.listed, self.sums, self.total, self.anew = builder, listed, sums, total, anew

    def emit(self, position, width):
        b, (places, values, count, records), kind = self.builder, self.listed, self._kind(width)
        out = b.bitcast(b.gep(self.sums, [position]), kind.as_pointer())
        records, narrow = b.gep(records, [position]), self._kind(min(width, 32))
        sums = cgutils.alloca_once(b, kind)
        squares = cgutils.alloca_once(b, narrow)
        b.store(_zeros(kind) if self.anew else _load(b, out), sums)
        b.store(_zeros(narrow), squares)
        with _turns(b, count, unrolled=width > NARROW) as index:
            place, x = b.load(b.gep(places, [index])), b.load(b.gep(values, [index]))
            vector = _load(b, b.bitcast(b.gep(records, [place]), kind.as_pointer()))
            term = b.fmul(vector, _lanes(b, x, width), flags=FAST)
            b.store(b.fadd(b.load(sums), term, flags=FAST), sums)
            for part in _pieces(b, term, narrow.count):
                b.store(_fma(b, part, part, b.load(squares)), squares)
        b.store(b.load(sums), out, align=4)
        _Lines(b, (), (), self.total).reduce(b.load(squares))

    def _kind(self, width):
        return ir.VectorType(self.total.type.pointee, width)


@contextmanager
def _turns(builder, count, unrolled):
    """Emit a loop of so many turns, which the compiler may unroll or not."""
    before, body, after = builder.block, builder.append_basic_block("turn"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", count, count.type(0)), body, after)
    builder.position_at_end(body)
    index = builder.phi(count.type)
    index.add_incoming(count.type(0), before)
    yield index
    following = builder.add(index, count.type(1))
    index.add_incoming(following, builder.block)
    back = builder.cbranch(builder.icmp_signed("<", following, count), body, after)
    if not unrolled:
        back.set_metadata("llvm.loop", _rolled(builder.module))
    builder.position_at_end(after)


def _rolled(module):
    """Return what tells the compiler not to unroll a loop; by LLVM's rule it begins with itself, unlike all others."""
    rule = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    name = module.add_metadata([rule])
    name.operands = (name, rule)
    return name


def _pieces(builder, term, width):
    """Return the lanes of a vector in pieces of so many."""
    if term.type.count == width:
        return [term]
    masks = (range(start, start + width) for start in range(0, term.type.count, width))
    masks = (ir.Constant(ir.VectorType(ir.IntType(32), width), list(mask)) for mask in masks)
    return [builder.shuffle_vector(term, term, mask) for mask in masks]


def _emit_columns(builder, columns, size, width=64):
    """Emit the sums of size elements: width lanes at a time, then what is left in halves down to 4."""
    with cgutils.for_range_slice(builder, size.type(0), builder.and_(size, size.type(-width)), size.type(width)) as (
        position,
        _,
    ):
        columns.emit(position, width)
    while width > 4:
        width //= 2
        with builder.if_then(builder.icmp_signed("!=", builder.and_(size, size.type(width)), size.type(0))):
            columns.emit(builder.and_(size, size.type(-2 * width)), width)


@intrinsic
def _join(typingctx, left, i, right, j, sums, k, n):
    """Set sums to left and right added up; return its squared norm."""

    def codegen(context, builder, signature, args):
        pointers = [_start(context, builder, signature, args, place) for place in (0, 2, 4)]
        return _emit_all(builder, pointers, (), _join_lanes, args[6])

    return left.dtype(left, types.intp, right, types.intp, sums, types.intp, types.intp), codegen


@intrinsic
def _copy(typingctx, left, i, right, j, n):
    """Set left to right."""

    def codegen(context, builder, signature, args):
        pointers = [_start(context, builder, signature, args, place) for place in (0, 2)]
        _emit_all(builder, pointers, (), _copy_lanes, args[4])
        return context.get_dummy_value()

    return types.void(left, types.intp, right, types.intp, types.intp), codegen


@intrinsic
def _exp_neg_abs(typingctx, scores, i, exps, j, logs, k, n):
    """Set exps to exp(-|score|), and logs to log(1 + small)."""

    def codegen(context, builder, signature, args):
        pointers = [_start(context, builder, signature, args, place) for place in (0, 2, 4)]
        _emit_all(builder, pointers, (), _exp_lanes, args[6])
        return context.get_dummy_value()

    return types.void(scores, types.intp, exps, types.intp, logs, types.intp, types.intp), codegen


def _exp_lanes(b, scores, exps, logs):
    size = _call(b, "fabs", _load(b, scores))
    single = size.type.element == ir.FloatType()
    small = _single_exp(b, size) if single else _call(b, "exp", b.fneg(size))
    b.store(small, exps, align=4)
    log = _single_log(b, small) if single else _call(b, "log", b.fadd(_all(small, 1), small))
    b.store(log, logs, align=4)


def _single_exp(b, size):
    """Return exp(-size) = 2^whole exp(rest), by Taylor's series of the rest; what is not a number stays so."""
    size = b.select(b.fcmp_ordered(">", size, _all(size, LARGEST_EXPONENT)), _all(size, LARGEST_EXPONENT), size)
    whole = _call(b, "rint", b.fmul(size, _all(size, -1 / math.log(2))))
    rest = b.fneg(b.fadd(size, b.fmul(whole, _all(size, COARSE_LOG_2))))
    rest = b.fadd(rest, b.fmul(whole, _all(size, COARSE_LOG_2 - math.log(2))))
    kind = ir.VectorType(ir.IntType(32), size.type.count)
    bits = b.add(_call(b, "fptosi.sat", whole, kind), ir.Constant(kind, [127] * kind.count))
    scale = b.bitcast(b.shl(bits, ir.Constant(kind, [23] * kind.count)), size.type)
    return b.fmul(_polynomial(b, rest, [1 / math.factorial(term) for term in range(8)]), scale)


def _single_log(b, small):
    """Return log(1 + small) = 2 atanh(ratio), by its series; the ratio is at most 1/3."""
    ratio = b.fdiv(small, b.fadd(small, _all(small, 2)))
    series = [2 / (2 * term + 1) for term in range(7)]
    return b.fmul(ratio, _polynomial(b, b.fmul(ratio, ratio), series))


def _polynomial(b, x, series):
    """Return series[0] + series[1] x + series[2] x^2 ..."""
    total = _all(x, series[-1])
    for factor in reversed(series[:-1]):
        total = b.fadd(b.fmul(total, x, flags=CONTRACTED), _all(x, factor), flags=CONTRACTED)
    return total


def _all(like, number):
    """Return a vector of equal numbers."""
    return ir.Constant(like.type, [number] * like.type.count)


def _call(b, name, x, kind=None):
    """Return the result of one of LLVM's functions for vectors."""
    kind = kind or x.type
    suffix = f".v{kind.count}i32" if kind != x.type else ""
    suffix += f".v{x.type.count}f{'32' if x.type.element == ir.FloatType() else '64'}"
    call = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [x.type]), f"llvm.{name}{suffix}")
    return b.call(call, [x])


@intrinsic
def _clear(typingctx, array, i, n):
    """Set array[i : i + n] to 0."""

    def codegen(context, builder, signature, args):
        _emit_all(builder, [_start(context, builder, signature, args, 0)], (), _clear_lanes, args[2])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


def _clear_lanes(b, out):
    b.store(_zeros(out.type.pointee), out, align=4)


def _copy_lanes(b, out, source):
    b.store(_load(b, source), out, align=4)


def _join_lanes(b, one, other, out):
    total = b.fadd(_load(b, one), _load(b, other))
    b.store(total, out, align=4)
    return b.fmul(total, total, flags=FAST)


def _load(b, pointer):
    return b.load(pointer, align=4)


def _fma(b, x, y, z):
    return b.fadd(b.fmul(x, y, flags=FAST), z, flags=FAST)


def _norm_lanes(b, left, right, c, d):
    gradient = _fma(b, c, _load(b, left), b.fmul(d, _load(b, right), flags=FAST))
    return b.fmul(gradient, gradient, flags=FAST)


def _combine_lanes(b, left, right, c, d):
    b.store(_fma(b, c, _load(b, left), b.fmul(d, _load(b, right), flags=FAST)), left, align=4)


if PLAIN:

    @compiled
    def add_listed(records, places, q, values, e, count, shift, sums, j, n):
        """Add values[e + k] * the vector at places[q + k] + shift to sums, k < count; return their squared norms."""
        total = np.float32(0)
        for k in range(count):
            for f in range(n):
                z = records[places[q + k] + shift + f] * values[e + k]
                sums[j + f] += z
                total += z * z
        return total

    @compiled
    def sum_listed(records, places, q, values, e, count, shift, sums, j, n):
        """Set sums to what add_listed adds; return the same."""
        clear(sums, j, n)
        return add_listed(records, places, q, values, e, count, shift, sums, j, n)

    @compiled
    def combined_norm(left, i, right, j, n, c, d):
        """Return |c * left + d * right|^2."""
        total = np.float32(0)
        for f in range(n):
            z = c * left[i + f] + d * right[j + f]
            total += z * z
        return total

    @compiled
    def combine(left, i, right, j, n, c, d):
        """Set left to c * left + d * right."""
        for f in range(n):
            left[i + f] = c * left[i + f] + d * right[j + f]

    @compiled
    def clear(array, i, n):
        """Set array[i : i + n] to 0."""
        array[i : i + n] = 0

    @compiled
    def copy(left, i, right, j, n):
        """Set left to right."""
        for f in range(n):
            left[i + f] = right[j + f]

    @compiled
    def join(left, i, right, j, sums, k, n):
        """Set sums to left and right added up; return its squared norm."""
        total = np.float32(0)
        for f in range(n):
            sums[k + f] = left[i + f] + right[j + f]
            total += sums[k + f] * sums[k + f]
        return total

    @compiled
    def exp_neg_abs(scores, i, exps, j, logs, k, n):
        """Set exps to exp(-|score|), and logs to log(1 + small)."""
        for f in range(n):
            exps[j + f] = np.exp(-abs(scores[i + f]))
            logs[k + f] = np.log(1 + exps[j + f])

    @compiled
    def prefetch(array, position):
        """Do nothing."""

    prefetch_shared = prefetch

    @compiled
    def trailing_zeros(word):
        """Return how many zero bits are below the lowest one, 64 if there is none."""
        n = np.uint64(0)
        while n < np.uint64(64) and not (word >> n) & np.uint64(1):
            n += np.uint64(1)
        return n

    @compiled
    def count_ones(word):
        """Return how many bits are 1."""
        n = np.uint64(0)
        while word:
            word &= word - np.uint64(1)
            n += np.uint64(1)
        return n

    @compiled
    def count_below(array, n, number):
        """Return how many of the first n numbers are less than the given one; n is a multiple of 16."""
        count = 0
        for k in range(n):
            count += array[k] < number
        return count

    @compiled
    def match_bytes(text, position, byte):
        """Return one bit for each of 64 bytes of text, the first one lowest: whether it is the given byte."""
        bits = np.uint64(0)
        for place in range(64):
            bits |= np.uint64(text[position + place] == byte) << np.uint64(place)
        return bits

else:
    combined_norm = _blockwise(_norm_lanes)
    combine = _blockwise(_combine_lanes)
    add_listed, sum_listed = _adder(anew=False), _adder(anew=True)
    copy, join, clear, exp_neg_abs = _copy, _join, _clear, _exp_neg_abs

    @intrinsic
    def trailing_zeros(typingctx, word):
        """Return how many zero bits are below the lowest one, 64 if there is none."""

        def codegen(context, builder, signature, args):
            return builder.cttz(args[0], ir.IntType(1)(0))

        return types.uint64(types.uint64), codegen

    @intrinsic
    def count_ones(typingctx, word):
        """Return how many bits are 1."""

        def codegen(context, builder, signature, args):
            return builder.ctpop(args[0])

        return types.uint64(types.uint64), codegen

    @intrinsic
    def count_below(typingctx, array, n, number):
        """Return how many of the first n numbers are less than the given one; n is a multiple of 16."""

        def codegen(context, builder, signature, args):
            start, size = _elements(context, builder, signature, args, 0), args[1]
            kind, number = ir.VectorType(start.type.pointee, 16), _lanes(builder, args[2], 16)
            count = cgutils.alloca_once_value(builder, size.type(0))
            with cgutils.for_range_slice(builder, size.type(0), size, size.type(16)) as (position, _):
                found = builder.load(builder.bitcast(builder.gep(start, [position]), kind.as_pointer()), align=4)
                less = builder.bitcast(builder.icmp_signed("<", found, number), ir.IntType(16))
                more = builder.zext(builder.ctpop(less), size.type)
                builder.store(builder.add(builder.load(count), more), count)
            return builder.load(count)

        return types.intp(array, types.intp, array.dtype), codegen

    @intrinsic
    def match_bytes(typingctx, text, position, byte):
        """Return one bit for each of 64 bytes of text, the first one lowest: whether it is the given byte."""

        def codegen(context, builder, signature, args):
            kind = ir.VectorType(ir.IntType(8), 64)
            start = builder.gep(_elements(context, builder, signature, args, 0), [args[1]])
            found = builder.load(builder.bitcast(start, kind.as_pointer()), align=1)
            equal = builder.icmp_unsigned("==", found, _lanes(builder, args[2], 64))
            return builder.bitcast(equal, ir.IntType(64))

        return types.uint64(text, types.intp, types.uint8), codegen

    def _prefetcher(write):
        """Make a compiled function (array, position) that asks for a cache line, to write to it or only to read it."""

        @intrinsic
        def operation(typingctx, array, position):
            def codegen(context, builder, signature, args):
                line = builder.gep(_elements(context, builder, signature, args, 0), [args[1]])
                line = builder.bitcast(line, ir.IntType(8).as_pointer())
                i32 = ir.IntType(32)
                kind = ir.FunctionType(ir.VoidType(), [line.type, i32, i32, i32])
                call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
                builder.call(call, [line, i32(write), i32(3), i32(1)])
                return context.get_dummy_value()

            return types.void(array, types.intp), codegen

        return operation

    prefetch, prefetch_shared = _prefetcher(1), _prefetcher(0)
