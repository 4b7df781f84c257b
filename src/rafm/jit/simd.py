"""Vector operations as explicit SIMD instructions."""

# mypy: ignore-errors
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .emit import (
    Columns,
    GradientColumns,
    clear_lanes,
    combine_lanes,
    copy_lanes,
    elements,
    emit_all,
    emit_columns,
    exp_lanes,
    join_lanes,
    lanes_of,
    norm_lanes,
    prefetch_line,
    product_lanes,
    start_of,
)


def _blockwise(step):
    """Make a compiled function (left, i, right, j, n, c, d) -> sum of terms from a step on one vector of lanes."""

    @intrinsic
    def operation(typingctx, left, i, right, j, n, c, d):
        element = left.dtype
        signature = element(left, types.intp, right, types.intp, types.intp, element, element)

        def codegen(context, builder, signature, args):
            *_, size, c, d = args
            pointers = [start_of(context, builder, signature, args, place) for place in (0, 2)]
            return emit_all(builder, pointers, (c, d), step, size)

        return signature, codegen

    return operation


def _adder(anew, pairs=False):
    """Make a compiled function that sums listed vectors into sums, overwriting it if anew.

    The sums stay in registers: at small ranks, loading and storing them would dominate.
    """

    @intrinsic
    def operation(typingctx, records, places, q, values, e, count, shift, sums, j, n):
        element, at = records.dtype, types.intp
        signature = element(records, places, at, values, at, at, at, sums, at, at)

        def codegen(context, builder, signature, args):
            _, _, q, _, e, count, shift, _, j, size = args
            records, places, values, sums = (elements(context, builder, signature, args, k) for k in (0, 1, 3, 7))
            total = cgutils.alloca_once_value(builder, ir.Constant(records.type.pointee, 0.0))
            listed = (builder.gep(places, [q]), builder.gep(values, [e]), count, builder.gep(records, [shift]))
            columns = Columns(builder, listed, builder.gep(sums, [j]), total, (anew, pairs))
            emit_columns(builder, columns, size)
            return builder.load(total)

        return signature, codegen

    return operation


def _twin_adder(anew, pairs=False):
    """Make a compiled function that sums listed vectors twice in one pass; see plain.py."""

    @intrinsic
    def operation(typingctx, records, places, q, values, e, others, count, shift, sums, j, k, n):
        element, at = records.dtype, types.intp
        signature = element(records, places, at, values, at, others, at, at, sums, at, at, at)

        def codegen(context, builder, signature, args):
            _, _, q, _, e, _, count, shift, _, j, k, size = args
            arrays = (elements(context, builder, signature, args, place) for place in (0, 1, 3, 5, 8))
            records, places, values, others, sums = arrays
            total = cgutils.alloca_once_value(builder, ir.Constant(records.type.pointee, 0.0))
            listed = (builder.gep(places, [q]), builder.gep(values, [e]), count, builder.gep(records, [shift]))
            more = (builder.gep(others, [q]), builder.gep(sums, [k]), size)
            columns = Columns(builder, listed, builder.gep(sums, [j]), total, (anew, pairs), more)
            emit_columns(builder, columns, size)
            return builder.load(total)

        return signature, codegen

    return operation


@intrinsic
def sum_gradients(typingctx, sums, places, shift, cs, ds, count, vector, o, out, n):
    """Sum the gradients of a vector over listed rows; return the sum of their squared norms. See plain.py."""

    def codegen(context, builder, signature, args):
        _, _, shift, _, _, count, _, o, _, size = args
        sums, places, cs, ds, vector, out = (elements(context, builder, signature, args, k) for k in (0, 1, 3, 4, 6, 8))
        total = cgutils.alloca_once_value(builder, ir.Constant(sums.type.pointee, 0.0))
        listed = (places, cs, ds, count, builder.gep(sums, [shift]))
        emit_columns(builder, GradientColumns(builder, listed, builder.gep(vector, [o]), out, [total]), size)
        return builder.load(total)

    at = types.intp
    return sums.dtype(sums, places, at, cs, ds, at, vector, at, out, at), codegen


@intrinsic
def sum_weighted_gradients(typingctx, sums, places, shift, other, w, cs, ds, count, vector, o, out, n):
    """Do the same with field weights; return also the inner product of the vector and the sum of c S'. See plain.py."""

    def codegen(context, builder, signature, args):
        _, _, shift, other, w, _, _, count, _, o, _, size = args
        arrays = (elements(context, builder, signature, args, k) for k in (0, 1, 5, 6, 8, 10))
        sums, places, cs, ds, vector, out = arrays
        zero = ir.Constant(sums.type.pointee, 0.0)
        totals = [cgutils.alloca_once_value(builder, zero) for _ in range(2)]
        listed = (places, cs, ds, count, builder.gep(sums, [shift]))
        weighted = (builder.gep(sums, [other]), w)
        columns = GradientColumns(builder, listed, builder.gep(vector, [o]), out, totals, weighted)
        emit_columns(builder, columns, size)
        return context.make_tuple(builder, signature.return_type, [builder.load(total) for total in totals])

    element, at = sums.dtype, types.intp
    both = types.UniTuple(element, 2)
    return both(sums, places, at, at, element, cs, ds, at, vector, at, out, at), codegen


@intrinsic
def join(typingctx, left, i, right, j, sums, k, n):
    """Set sums to left + right; return its squared norm."""

    def codegen(context, builder, signature, args):
        pointers = [start_of(context, builder, signature, args, place) for place in (0, 2, 4)]
        return emit_all(builder, pointers, (), join_lanes, args[6])

    return left.dtype(left, types.intp, right, types.intp, sums, types.intp, types.intp), codegen


@intrinsic
def inner(typingctx, left, i, right, j, n):
    """Return the inner product."""

    def codegen(context, builder, signature, args):
        pointers = [start_of(context, builder, signature, args, place) for place in (0, 2)]
        return emit_all(builder, pointers, (), product_lanes, args[4])

    return left.dtype(left, types.intp, right, types.intp, types.intp), codegen


@intrinsic
def copy(typingctx, left, i, right, j, n):
    """Set left to right."""

    def codegen(context, builder, signature, args):
        pointers = [start_of(context, builder, signature, args, place) for place in (0, 2)]
        emit_all(builder, pointers, (), copy_lanes, args[4])
        return context.get_dummy_value()

    return types.void(left, types.intp, right, types.intp, types.intp), codegen


@intrinsic
def exp_neg_abs(typingctx, scores, i, exps, j, logs, k, n):
    """Set exps to exp(-|score|) and logs to log(1 + exp(-|score|))."""

    def codegen(context, builder, signature, args):
        pointers = [start_of(context, builder, signature, args, place) for place in (0, 2, 4)]
        emit_all(builder, pointers, (), exp_lanes, args[6])
        return context.get_dummy_value()

    return types.void(scores, types.intp, exps, types.intp, logs, types.intp, types.intp), codegen


@intrinsic
def clear(typingctx, array, i, n):
    """Set array[i : i + n] to 0."""

    def codegen(context, builder, signature, args):
        emit_all(builder, [start_of(context, builder, signature, args, 0)], (), clear_lanes, args[2])
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp), codegen


combined_norm = _blockwise(norm_lanes)
combine = _blockwise(combine_lanes)
add_listed, sum_listed = _adder(anew=False), _adder(anew=True)
add_listed_twice, sum_listed_twice = _twin_adder(anew=False), _twin_adder(anew=True)
pair_more, pair_listed = _adder(anew=False, pairs=True), _adder(anew=True, pairs=True)
pair_more_twice, pair_listed_twice = _twin_adder(anew=False, pairs=True), _twin_adder(anew=True, pairs=True)


@intrinsic
def trailing_zeros(typingctx, word):
    """Return the number of trailing zero bits, 64 for 0."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.IntType(1)(0))  # the flag: 0 is a defined input

    return types.uint64(types.uint64), codegen


@intrinsic
def count_ones(typingctx, word):
    """Return the number of 1 bits."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def count_below(typingctx, array, n, number):
    """Return how many of array[:n] are less than number; n must be a multiple of 16."""

    def codegen(context, builder, signature, args):
        start, size = elements(context, builder, signature, args, 0), args[1]
        kind, number = ir.VectorType(start.type.pointee, 16), lanes_of(builder, args[2], 16)
        count = cgutils.alloca_once_value(builder, size.type(0))
        with cgutils.for_range_slice(builder, size.type(0), size, size.type(16)) as (position, _):
            found = builder.load(builder.bitcast(builder.gep(start, [position]), kind.as_pointer()), align=4)
            # A comparison gives 16 one-bit lanes: read as an integer, its 1 bits are the count.
            less = builder.bitcast(builder.icmp_signed("<", found, number), ir.IntType(16))
            more = builder.zext(builder.ctpop(less), size.type)
            builder.store(builder.add(builder.load(count), more), count)
        return builder.load(count)

    return types.intp(array, types.intp, array.dtype), codegen


@intrinsic
def match_bytes(typingctx, text, position, byte):
    """Return a bit mask of where the 64 bytes of text from position on equal byte; the lowest bit is the first byte."""

    def codegen(context, builder, signature, args):
        kind = ir.VectorType(ir.IntType(8), 64)
        start = builder.gep(elements(context, builder, signature, args, 0), [args[1]])
        found = builder.load(builder.bitcast(start, kind.as_pointer()), align=1)
        equal = builder.icmp_unsigned("==", found, lanes_of(builder, args[2], 64))
        return builder.bitcast(equal, ir.IntType(64))

    return types.uint64(text, types.intp, types.uint8), codegen


def _prefetcher(write):
    """Make a compiled function (array, position) that prefetches a cache line, for writing or for reading."""

    @intrinsic
    def operation(typingctx, array, position):
        def codegen(context, builder, signature, args):
            prefetch_line(builder, start_of(context, builder, signature, args, 0), write)
            return context.get_dummy_value()

        return types.void(array, types.intp), codegen

    return operation


prefetch, prefetch_shared = _prefetcher(1), _prefetcher(0)
