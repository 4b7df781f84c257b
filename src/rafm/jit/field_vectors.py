"""Vector operations of field-aware models as explicit SIMD instructions: on several vectors of one record at a time."""

# mypy: ignore-errors
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import FAST
from .emit import (
    LaneOps,
    call,
    combine_lanes,
    elements,
    emit_all,
    emit_columns,
    fma,
    lanes_of,
    load,
    norm_lanes,
    start_of,
    turns,
    zeros,
)

FEW = 4  # vectors that step at once


class SpreadColumns:
    """Emits x times listed vectors of one record, next to each other in sums; added to what is there, or anew."""

    def __init__(self, builder, listed, x, sums, size, anew):
        self.builder, self.listed, self.x, self.sums, self.size, self.anew = builder, listed, x, sums, size, anew

    def emit(self, position, width):
        b, (record, shifts, count) = self.builder, self.listed
        kind = ir.VectorType(self.x.type, width).as_pointer()
        x, record, sums = lanes_of(b, self.x, width), b.gep(record, [position]), b.gep(self.sums, [position])
        with turns(b, count, unrolled=True) as index:
            term = b.fmul(load(b, b.bitcast(b.gep(record, [b.load(b.gep(shifts, [index]))]), kind)), x, flags=FAST)
            out = b.bitcast(b.gep(sums, [b.mul(index, self.size)]), kind)
            b.store(term if self.anew else b.fadd(term, load(b, out), flags=FAST), out, align=4)


class GatheredGradients:
    """Emits the addition of c * sums + d * vector to listed vectors of a record's gradient sums; see plain.py."""

    def __init__(self, builder, records, listed, sums, stride, scalars):
        self.builder, self.records, self.listed, self.sums, self.stride = builder, records, listed, sums, stride
        self.scalars = scalars

    def emit(self, position, width):
        b, (shifts, count), (c, d) = self.builder, self.listed, (lanes_of(self.builder, s, width) for s in self.scalars)
        kind = ir.VectorType(self.scalars[0].type, width).as_pointer()
        with turns(b, count, unrolled=True) as index:
            shift = b.add(position, b.load(b.gep(shifts, [index])))
            out, vector = (b.bitcast(b.gep(place, [shift]), kind) for place in self.records)
            given = b.bitcast(b.gep(self.sums, [b.add(position, b.mul(index, self.stride))]), kind)
            gradient = fma(b, c, load(b, given), b.fmul(d, load(b, vector), flags=FAST))
            b.store(b.fadd(load(b, out), gradient, flags=FAST), out, align=4)


class StridedProducts:
    """Emits the sum of the inner products of pairs of vectors, at two places that move by two strides."""

    def __init__(self, builder, left, right, strides, count, total):
        self.builder, self.left, self.right, self.strides, self.count = builder, left, right, strides, count
        self.total = total

    def emit(self, position, width):
        b, kind = self.builder, ir.VectorType(self.total.type.pointee, width)
        products = cgutils.alloca_once(b, kind)
        b.store(zeros(kind), products)
        with turns(b, self.count, unrolled=True) as index:
            pair = []
            for start, stride in zip((self.left, self.right), self.strides):
                place = b.gep(start, [b.add(position, b.mul(index, stride))])
                pair.append(load(b, b.bitcast(place, kind.as_pointer())))
            b.store(fma(b, *pair, b.load(products)), products)
        LaneOps(b, (), (), self.total).reduce(b.load(products))


class AdaGradSteps:
    """Emits AdaGrad steps of listed vectors of a record along c * sums + d * vector; see plain.py."""

    def __init__(self, builder, record, listed, sums, stride, scalars):
        self.builder, self.record, self.listed, self.sums, self.stride = builder, record, listed, sums, stride
        self.c, self.d, self.share, self.rate = scalars

    def emit(self, size, widths=(4, 8, 16)):
        """Emit loops over the vectors that keep each in a register, for each of these sizes, and one for others."""
        b, count = self.builder, self.listed[2]
        if not widths:
            with turns(b, count, unrolled=False) as index:
                self._step_in_parts(*self._places(index), size)
            return
        with b.if_else(b.icmp_signed("==", size, size.type(widths[0]))) as (then, otherwise):
            with then:
                whole = b.and_(count, count.type(-FEW))
                with cgutils.for_range_slice(b, count.type(0), whole, count.type(FEW)) as (first, _):
                    self._step_few([self._places(b.add(first, count.type(k))) for k in range(FEW)], widths[0])
                with turns(b, b.sub(count, whole), unrolled=False) as index:
                    self._step_few([self._places(b.add(whole, index))], widths[0])
            with otherwise:
                self.emit(size, widths[1:])

    def _places(self, index):
        """Return pointers to a listed vector, its state and its sums."""
        b, (shifts, states, _) = self.builder, self.listed
        vector, state = (b.gep(self.record, [b.load(b.gep(given, [index]))]) for given in (shifts, states))
        return vector, state, b.gep(self.sums, [b.mul(index, self.stride)])

    def _sizes_of_steps(self, states, squares):
        """Add mean squares to states; return the step sizes. Roots and quotients of several take as long as of one."""
        b, n = self.builder, len(states)
        before, square = (_lanes(b, numbers) for numbers in (map(b.load, states), squares))
        share, rate = (lanes_of(b, scalar, n) for scalar in (self.share, self.rate))
        after = b.fadd(before, b.fmul(square, share, flags=FAST), flags=FAST)
        for k, state in enumerate(states):
            b.store(b.extract_element(after, ir.IntType(32)(k)), state)
        sizes = b.fdiv(rate, call(b, "sqrt", after))
        return [b.extract_element(sizes, ir.IntType(32)(k)) for k in range(n)]

    def _step_few(self, places, width):
        """Step several vectors, with their loads, roots and quotients at once."""
        b, kind = self.builder, ir.VectorType(self.c.type, width)
        c, d = lanes_of(b, self.c, width), lanes_of(b, self.d, width)
        owns, befores, gradients, squares = [], [], [], []
        for vector, _, sums in places:
            own, other = (b.bitcast(place, kind.as_pointer()) for place in (vector, sums))
            before, total = load(b, own), cgutils.alloca_once(b, self.c.type)
            gradient = fma(b, c, load(b, other), b.fmul(d, before, flags=FAST))
            b.store(ir.Constant(self.c.type, 0.0), total)
            LaneOps(b, (), (), total).reduce(b.fmul(gradient, gradient, flags=FAST))
            owns.append(own), befores.append(before), gradients.append(gradient), squares.append(b.load(total))
        sizes = self._sizes_of_steps([state for _, state, _ in places], squares)
        for own, before, gradient, size in zip(owns, befores, gradients, sizes):
            moved = b.fmul(lanes_of(b, size, width), gradient, flags=FAST)
            b.store(b.fsub(before, moved, flags=FAST), own, align=4)

    def _step_in_parts(self, vector, state, sums, size):
        b, one = self.builder, ir.Constant(self.c.type, 1.0)
        square = emit_all(b, [vector, sums], (self.d, self.c), norm_lanes, size)
        (step,) = self._sizes_of_steps([state], [square])
        kept = b.fsub(one, b.fmul(step, self.d, flags=FAST), flags=FAST)
        emit_all(b, [vector, sums], (kept, b.fneg(b.fmul(step, self.c, flags=FAST))), combine_lanes, size)


def _lanes(builder, numbers):
    """Return a vector of numbers."""
    numbers = list(numbers)
    found = ir.Constant(ir.VectorType(numbers[0].type, len(numbers)), ir.Undefined)
    for k, number in enumerate(numbers):
        found = builder.insert_element(found, number, ir.IntType(32)(k))
    return found


def _spreader(anew):
    """Make a compiled function that puts x times listed vectors of a record next to each other; see plain.py."""

    @intrinsic
    def operation(typingctx, records, o, shifts, count, x, sums, j, n):
        element, at = records.dtype, types.intp

        def codegen(context, builder, signature, args):
            record = start_of(context, builder, signature, args, 0)
            listed = (record, elements(context, builder, signature, args, 2), args[3])
            sums, size = start_of(context, builder, signature, args, 5), args[7]
            emit_columns(builder, SpreadColumns(builder, listed, args[4], sums, size, anew), size)
            return context.get_dummy_value()

        return types.void(records, at, shifts, at, element, sums, at, at), codegen

    return operation


@intrinsic
def strided_products(typingctx, array, i, j, left_stride, right_stride, count, n):
    """Return the sum of inner products of vectors at two places that move by two strides; see plain.py."""

    def codegen(context, builder, signature, args):
        start, (_, i, j, *strides, count, size) = elements(context, builder, signature, args, 0), args
        total = cgutils.alloca_once_value(builder, ir.Constant(start.type.pointee, 0.0))
        left, right = builder.gep(start, [i]), builder.gep(start, [j])
        emit_columns(builder, StridedProducts(builder, left, right, strides, count, total), size)
        return builder.load(total)

    return array.dtype(array, *[types.intp] * 6), codegen


@intrinsic
def add_gradients(typingctx, heads, h, records, o, shifts, first, count, sums, j, stride, c, d, n):
    """Add the gradients c * sums + d * vector of listed vectors of a record to those at h; see plain.py."""

    def codegen(context, builder, signature, args):
        _, _, _, _, _, first, count, _, _, stride, c, d, size = args
        places = [start_of(context, builder, signature, args, place) for place in (0, 2)]
        listed = (builder.gep(elements(context, builder, signature, args, 4), [first]), count)
        sums = builder.gep(start_of(context, builder, signature, args, 7), [builder.mul(first, stride)])
        emit_columns(builder, GatheredGradients(builder, places, listed, sums, stride, (c, d)), size)
        return context.get_dummy_value()

    element, at = heads.dtype, types.intp
    return types.void(heads, at, records, at, shifts, at, at, sums, at, at, element, element, at), codegen


@intrinsic
def adagrad_steps(typingctx, records, o, shifts, states, first, count, sums, j, stride, c, d, share, rate, n):
    """Step listed vectors of a record by AdaGrad, each along c * sums + d * vector; see plain.py."""

    def codegen(context, builder, signature, args):
        _, _, _, _, first, count, _, _, stride, c, d, share, rate, size = args
        record, sums = (start_of(context, builder, signature, args, place) for place in (0, 6))
        lists = (builder.gep(elements(context, builder, signature, args, place), [first]) for place in (2, 3))
        sums = builder.gep(sums, [builder.mul(first, stride)])
        AdaGradSteps(builder, record, (*lists, count), sums, stride, (c, d, share, rate)).emit(size)
        return context.get_dummy_value()

    element, at = records.dtype, types.intp
    numbers = (at, at, sums, at, at, element, element, element, element, at)
    return types.void(records, at, shifts, states, *numbers), codegen


spread, add_spread = _spreader(anew=True), _spreader(anew=False)
