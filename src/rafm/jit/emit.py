"""Emit LLVM code of vector operations: the step on one vector of lanes, and the loops over all elements."""

# mypy: ignore-errors
import math
from contextlib import contextmanager

from llvmlite import ir
from numba.core import cgutils

from .compile import FAST

CONTRACTED = ("contract",)
LARGEST_EXPONENT = 87.3  # exp(-87.3) is about the smallest normal float32
COARSE_LOG_2 = 355 / 512  # log 2 to few digits, so that its multiples are exact in float32
WIDE, AHEAD = 64, 128  # lanes summed at a time; elements from these lanes to those to prefetch
LINE = 16  # elements of 4 bytes in a cache line
NARROW = 16  # up to this many lanes loops over nonzeros are not unrolled: the remainder loop would cost more


def lanes_of(builder, scalar, width):
    """Broadcast a scalar to a vector."""
    kind = ir.VectorType(scalar.type, width)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.IntType(32)(0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width))


def zeros(kind):
    """Return a vector of zeros."""
    return ir.Constant(kind, [0.0] * kind.count)


class LaneOps:
    """Emits one operation on a vector of lanes: loads, arithmetic, stores, and a running total."""

    def __init__(self, builder, pointers, scalars, total):
        self.builder, self.pointers, self.scalars, self.total = builder, pointers, scalars, total

    def emit(self, step, position, width, add):
        b, kind = self.builder, ir.VectorType(self.total.type.pointee, width)
        pointers = [b.bitcast(b.gep(p, [position]), kind.as_pointer()) for p in self.pointers]
        term = step(b, *pointers, *(lanes_of(b, scalar, width) for scalar in self.scalars))
        if term is not None:
            add(term)

    def reduce(self, term):
        """Add the lanes of term to the total."""
        b, scalar = self.builder, self.total.type.pointee
        name = f"llvm.vector.reduce.fadd.v{term.type.count}f{'32' if scalar == ir.FloatType() else '64'}"
        call = cgutils.get_or_insert_function(b.module, ir.FunctionType(scalar, [scalar, term.type]), name)
        lanes = b.call(call, [ir.Constant(scalar, 0.0), term], fastmath=FAST)
        b.store(b.fadd(b.load(self.total), lanes, flags=FAST), self.total)


def emit_loop(builder, ops, step, size, width):
    """Emit the step over size elements: width lanes at a time, then the remainder with halved widths down to 4."""
    kind = ir.VectorType(ops.total.type.pointee, width)
    bulk = builder.and_(size, size.type(-width))  # rounds down: widths are powers of two
    with builder.if_then(builder.icmp_signed(">", bulk, size.type(0))):
        acc = cgutils.alloca_once_value(builder, zeros(kind))

        def add(term):
            builder.store(builder.fadd(builder.load(acc), term, flags=FAST), acc)

        with cgutils.for_range_slice(builder, size.type(0), bulk, size.type(width)) as (position, _):
            ops.emit(step, position, width, add)
        ops.reduce(builder.load(acc))
    with builder.if_then(builder.icmp_signed("!=", bulk, size)):
        while width > 4:
            width //= 2
            # The bits of size say which widths the remainder needs.
            with builder.if_then(builder.icmp_signed("!=", builder.and_(size, size.type(width)), size.type(0))):
                ops.emit(step, builder.and_(size, size.type(-2 * width)), width, ops.reduce)


def elements(context, builder, signature, args, place):
    """Return a pointer to the elements of an array argument."""
    return context.make_array(signature.args[place])(context, builder, args[place]).data


def start_of(context, builder, signature, args, place):
    """Return a pointer to the first element to use of an array argument; its index is the next argument."""
    return builder.gep(elements(context, builder, signature, args, place), [args[place + 1]])


def emit_all(builder, pointers, scalars, step, size):
    """Emit the step over all elements; return the sum of its terms."""
    kind = pointers[0].type.pointee
    total = cgutils.alloca_once_value(builder, ir.Constant(kind, 0.0))
    width = 32 if kind == ir.FloatType() else 16
    emit_loop(builder, LaneOps(builder, pointers, scalars, total), step, size, width)
    return builder.load(total)


class Columns:
    """Emits the sum over all listed vectors, for one range of lanes, and their squared norms or their pairs.

    With other values and sums, emit both sums in one pass, and the difference of the squared norms, or the pairs with
    field weights. With twice the arithmetic a core cannot run ahead to the loads of the next lanes, so these are
    prefetched. What is summed up besides is that of plain.py.
    """

    def __init__(self, builder, listed, sums, total, kind, others=None):
        self.builder, self.listed, self.sums, self.total = builder, listed, sums, total
        (self.anew, self.pairs), self.others = kind, others

    def emit(self, position, width):
        b, (places, values, count, records), kind = self.builder, self.listed, self._kind(width)
        if self.others is not None:
            return self.emit_both(position, width)
        out = b.bitcast(b.gep(self.sums, [position]), kind.as_pointer())
        records, narrow = b.gep(records, [position]), self._kind(min(width, 32))
        sums = cgutils.alloca_once(b, kind)
        squares = cgutils.alloca_once(b, narrow)
        b.store(zeros(kind) if self.anew else load(b, out), sums)  # LLVM promotes these slots to registers
        b.store(zeros(narrow), squares)
        with turns(b, count, unrolled=width > NARROW) as index:
            place, x = b.load(b.gep(places, [index])), b.load(b.gep(values, [index]))
            vector = load(b, b.bitcast(b.gep(records, [place]), kind.as_pointer()))
            term, before = b.fmul(vector, lanes_of(b, x, width), flags=FAST), b.load(sums)
            b.store(b.fadd(before, term, flags=FAST), sums)
            add_products(b, term, before if self.pairs else term, squares)
        b.store(b.load(sums), out, align=4)
        LaneOps(b, (), (), self.total).reduce(b.load(squares))

    def emit_both(self, position, width):
        b, (places, values, count, records), kind = self.builder, self.listed, self._kind(width)
        records, narrow = b.gep(records, [position]), self._kind(min(width, 32))
        outs = [b.bitcast(b.gep(sums, [position]), kind.as_pointer()) for sums in (self.sums, self.others[1])]
        sums, squares = [cgutils.alloca_once(b, kind) for _ in outs], cgutils.alloca_once(b, narrow)
        for slot, out in zip(sums, outs):
            b.store(zeros(kind) if self.anew else load(b, out), slot)
        b.store(zeros(narrow), squares)
        ahead = self._ahead(position)
        with turns(b, count, unrolled=width > NARROW) as index:
            place = b.load(b.gep(places, [index]))
            x, y = (b.load(b.gep(given, [index])) for given in (values, self.others[0]))
            vector = load(b, b.bitcast(b.gep(records, [place]), kind.as_pointer()))
            for line in range(0, WIDE if width == WIDE else 0, LINE):
                prefetch_line(b, b.gep(b.gep(records, [place]), [b.add(ahead, ahead.type(line))]), write=0)
            before = [b.load(slot) for slot in sums]
            for slot, value in zip(sums, (x, y)):
                b.store(fma(b, vector, lanes_of(b, value, width), b.load(slot)), slot)
            if self.pairs:
                add_products(b, vector, weighted_partner(b, before, (x, y)), squares)
            else:
                share = b.fsub(b.fmul(x, x, flags=FAST), b.fmul(y, y, flags=FAST), flags=FAST)
                add_products(b, b.fmul(lanes_of(b, share, width), vector, flags=FAST), vector, squares)
        for slot, out in zip(sums, outs):
            b.store(b.load(slot), out, align=4)
        LaneOps(b, (), (), self.total).reduce(b.load(squares))

    def _ahead(self, position):
        """Return the distance to the lanes to prefetch, which must be within the vector."""
        b, last = self.builder, self.builder.sub(self.others[2], position.type(WIDE))
        following = b.add(position, position.type(AHEAD))
        return b.sub(b.select(b.icmp_signed("<", following, last), following, last), position)

    def _kind(self, width):
        return ir.VectorType(self.total.type.pointee, width)


class GradientColumns:
    """Emits the sum of a vector's gradients z = c S + d v over listed rows, and of their squares; see plain.py.

    With other sums S' and a weight w, z = c (S - w S') + d v, and the products c S'.v are summed too.
    """

    def __init__(self, builder, listed, vector, out, totals, weighted=None):
        self.builder, self.listed, self.vector, self.out = builder, listed, vector, out
        self.totals, self.weighted = totals, weighted

    def emit(self, position, width):
        b, (places, cs, ds, count, sums) = self.builder, self.listed
        kind = ir.VectorType(self.totals[0].type.pointee, width)
        narrow = ir.VectorType(kind.element, min(width, 32))
        at = lambda pointer: load(b, b.bitcast(b.gep(pointer, [position]), kind.as_pointer()))  # noqa: E731
        vector, gradient = at(self.vector), cgutils.alloca_once(b, kind)
        slots = [cgutils.alloca_once(b, narrow) for _ in self.totals]
        for slot in (gradient, *slots):
            b.store(zeros(slot.type.pointee), slot)
        with turns(b, count, unrolled=width > NARROW) as index:
            place, c, d = (b.load(b.gep(given, [index])) for given in (places, cs, ds))
            c, d, direction = lanes_of(b, c, width), lanes_of(b, d, width), at(b.gep(sums, [place]))
            if self.weighted is not None:
                others, w = self.weighted
                taken = at(b.gep(others, [place]))
                product = b.fmul(b.fmul(c, taken, flags=FAST), vector, flags=FAST)
                for part in pieces(b, product, narrow.count):
                    b.store(b.fadd(b.load(slots[1]), part, flags=FAST), slots[1])
                direction = b.fsub(direction, b.fmul(lanes_of(b, w, width), taken, flags=FAST), flags=FAST)
            z = fma(b, c, direction, b.fmul(d, vector, flags=FAST))
            b.store(b.fadd(b.load(gradient), z, flags=FAST), gradient)
            for part in pieces(b, z, narrow.count):
                b.store(fma(b, part, part, b.load(slots[0])), slots[0])
        b.store(b.load(gradient), b.bitcast(b.gep(self.out, [position]), kind.as_pointer()), align=4)
        for slot, total in zip(slots, self.totals):
            LaneOps(b, (), (), total).reduce(b.load(slot))


@contextmanager
def turns(builder, count, unrolled):
    """Emit a loop of count iterations; allow LLVM to unroll it, or not."""
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


def prefetch_line(builder, pointer, write):
    """Emit a prefetch of a cache line, for writing or for reading."""
    pointer, i32 = builder.bitcast(pointer, ir.IntType(8).as_pointer()), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
    call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(call, [pointer, i32(write), i32(3), i32(1)])  # keep in all caches; data, not code


def _rolled(module):
    """Return metadata that forbids unrolling; LLVM requires such a node to refer to itself, which makes it unique."""
    rule = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    name = module.add_metadata([rule])
    name.operands = (name, rule)
    return name


def pieces(builder, term, width):
    """Split a vector into vectors of the given width."""
    if term.type.count == width:
        return [term]
    masks = (range(start, start + width) for start in range(0, term.type.count, width))
    masks = (ir.Constant(ir.VectorType(ir.IntType(32), width), list(mask)) for mask in masks)
    return [builder.shuffle_vector(term, term, mask) for mask in masks]


def add_products(builder, left, right, slot):
    """Add the products of two vectors to a vector of as many lanes, or of fewer."""
    width = slot.type.pointee.count
    for one, other in zip(pieces(builder, left, width), pieces(builder, right, width)):
        builder.store(fma(builder, one, other, builder.load(slot)), slot)


def weighted_partner(builder, sums, values):
    """Return what a vector meets with field weights: S y + S' (x - y), for the sums of x and of y = (1 - t) x."""
    (x, y), width = values, sums[0].type.count
    rest = builder.fsub(x, y)
    share = builder.fmul(sums[0], lanes_of(builder, y, width), flags=FAST)
    return fma(builder, sums[1], lanes_of(builder, rest, width), share)


def joined(builder, parts):
    """Join vectors of the same width, a power of two of them."""
    while len(parts) > 1:
        width = parts[0].type.count
        mask = ir.Constant(ir.VectorType(ir.IntType(32), 2 * width), list(range(2 * width)))
        parts = [builder.shuffle_vector(*pair, mask) for pair in zip(parts[::2], parts[1::2])]
    return parts[0]


def emit_columns(builder, columns, size, width=WIDE):
    """Emit the sums of size elements: width lanes at a time, then the remainder with halved widths down to 4."""
    with cgutils.for_range_slice(builder, size.type(0), builder.and_(size, size.type(-width)), size.type(width)) as (
        position,
        _,
    ):
        columns.emit(position, width)
    while width > 4:
        width //= 2
        with builder.if_then(builder.icmp_signed("!=", builder.and_(size, size.type(width)), size.type(0))):
            columns.emit(builder.and_(size, size.type(-2 * width)), width)


def exp_lanes(b, scores, exps, logs):
    size = call(b, "fabs", load(b, scores))
    single = size.type.element == ir.FloatType()
    small = _single_exp(b, size) if single else call(b, "exp", b.fneg(size))
    b.store(small, exps, align=4)
    log = _single_log(b, small) if single else call(b, "log", b.fadd(_all(small, 1), small))
    b.store(log, logs, align=4)


def _single_exp(b, size):
    """Return exp(-size) = 2^whole exp(rest), with a Taylor series for exp(rest); NaN stays NaN."""
    size = b.select(b.fcmp_ordered(">", size, _all(size, LARGEST_EXPONENT)), _all(size, LARGEST_EXPONENT), size)
    whole = call(b, "rint", b.fmul(size, _all(size, -1 / math.log(2))))
    # Subtract whole * log 2 in two parts (Cody and Waite): the first is exact, so the difference keeps its digits.
    rest = b.fneg(b.fadd(size, b.fmul(whole, _all(size, COARSE_LOG_2))))
    rest = b.fadd(rest, b.fmul(whole, _all(size, COARSE_LOG_2 - math.log(2))))
    kind = ir.VectorType(ir.IntType(32), size.type.count)
    # 2^whole as a float32: the exponent, biased by 127, above 23 bits of mantissa.
    bits = b.add(call(b, "fptosi.sat", whole, kind), ir.Constant(kind, [127] * kind.count))
    scale = b.bitcast(b.shl(bits, ir.Constant(kind, [23] * kind.count)), size.type)
    return b.fmul(_polynomial(b, rest, [1 / math.factorial(term) for term in range(8)]), scale)


def _single_log(b, small):
    """Return log(1 + small) = 2 atanh(ratio) by its series, which converges fast: the ratio is at most 1/3."""
    ratio = b.fdiv(small, b.fadd(small, _all(small, 2)))
    series = [2 / (2 * term + 1) for term in range(7)]
    return b.fmul(ratio, _polynomial(b, b.fmul(ratio, ratio), series))


def _polynomial(b, x, series):
    """Return series[0] + series[1] x + series[2] x^2 + ... by Horner's rule."""
    total = _all(x, series[-1])
    for factor in reversed(series[:-1]):
        total = b.fadd(b.fmul(total, x, flags=CONTRACTED), _all(x, factor), flags=CONTRACTED)
    return total


def _all(like, number):
    """Return a constant vector of the same type."""
    return ir.Constant(like.type, [number] * like.type.count)


def call(b, name, x, kind=None):
    """Call an LLVM intrinsic on a vector."""
    kind = kind or x.type
    suffix = f".v{kind.count}i32" if kind != x.type else ""
    suffix += f".v{x.type.count}f{'32' if x.type.element == ir.FloatType() else '64'}"
    call = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [x.type]), f"llvm.{name}{suffix}")
    return b.call(call, [x])


def clear_lanes(b, out):
    b.store(zeros(out.type.pointee), out, align=4)


def copy_lanes(b, out, source):
    b.store(load(b, source), out, align=4)


def join_lanes(b, one, other, out):
    total = b.fadd(load(b, one), load(b, other))  # without fast-math flags, so that it rounds alike in any context
    b.store(total, out, align=4)
    return b.fmul(total, total, flags=FAST)


def product_lanes(b, left, right):
    return b.fmul(load(b, left), load(b, right), flags=FAST)


def load(b, pointer):
    return b.load(pointer, align=4)  # vectors are only aligned to elements


def fma(b, x, y, z):
    return b.fadd(b.fmul(x, y, flags=FAST), z, flags=FAST)


def norm_lanes(b, left, right, c, d):
    gradient = fma(b, c, load(b, left), b.fmul(d, load(b, right), flags=FAST))
    return b.fmul(gradient, gradient, flags=FAST)


def combine_lanes(b, left, right, c, d):
    b.store(fma(b, c, load(b, left), b.fmul(d, load(b, right), flags=FAST)), left, align=4)
