"""Vector operations of field weights as explicit SIMD instructions: a direction S - w S', and what a step needs of it.

Each takes one pass, because passes over short vectors cost more than arithmetic.
"""

# mypy: ignore-errors
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import FAST
from .emit import LaneOps, elements, emit_all, join_lanes, lanes_of, start_of, zeros

WIDTH = 32  # lanes of float32 at a time


@intrinsic
def direct(typingctx, out, sums, j, k, vector, o, n, w, y, c, d):
    """Set out[:n] to a direction u; return the product of the vector and what it meets, and |c u + d v|^2.

    u = sums[j:] - w * sums[k:], and the vector v meets sums[k:] - y * v. See plain.py.
    """
    element, at = out.dtype, types.intp

    def codegen(context, builder, signature, args):
        target, source = (elements(context, builder, signature, args, place) for place in (0, 1))
        pointers = [target, *(builder.gep(source, [args[place]]) for place in (2, 3))]
        pointers.append(start_of(context, builder, signature, args, 4))
        pair = _emit_pair(builder, pointers, args[7:], _direct_lanes, args[6])
        return context.make_tuple(builder, signature.return_type, pair)

    both = types.UniTuple(element, 2)
    return both(out, sums, at, at, vector, at, at, element, element, element, element), codegen


@intrinsic
def add_direction(typingctx, heads, h, sums, j, k, vector, o, n, w, y, c):
    """Add c * (sums[j:] - w * sums[k:]) to heads[h:]; return the product of vector and sums[k:] - y * vector."""
    element, at = heads.dtype, types.intp

    def codegen(context, builder, signature, args):
        target, source = start_of(context, builder, signature, args, 0), elements(context, builder, signature, args, 2)
        pointers = [target, *(builder.gep(source, [args[place]]) for place in (3, 4))]
        pointers.append(start_of(context, builder, signature, args, 5))
        return emit_all(builder, pointers, args[8:], _add_lanes, args[7])

    return element(heads, at, sums, at, at, vector, at, at, element, element, element), codegen


@intrinsic
def join_twice(typingctx, left, i, right, j, sums, k, n, apart):
    """Set sums to left + right, at the places given and `apart` behind them; return the squared norms of both."""
    element, at = left.dtype, types.intp

    def codegen(context, builder, signature, args):
        pointers = [start_of(context, builder, signature, args, place) for place in (0, 2, 4)]
        pointers += [builder.gep(pointer, [args[7]]) for pointer in pointers]
        pair = _emit_pair(builder, pointers, (), _join_lanes_twice, args[6])
        return context.make_tuple(builder, signature.return_type, pair)

    return types.UniTuple(element, 2)(left, at, right, at, sums, at, at, at), codegen


def _emit_pair(builder, pointers, scalars, step, size):
    """Emit a step that returns two terms over all elements, WIDTH lanes at a time; return the sums of both."""
    kind = pointers[0].type.pointee
    totals = [cgutils.alloca_once_value(builder, ir.Constant(kind, 0.0)) for _ in range(2)]
    width = WIDTH if kind == ir.FloatType() else WIDTH // 2
    bulk, lanes = builder.and_(size, size.type(-width)), ir.VectorType(kind, width)
    with builder.if_then(builder.icmp_signed(">", bulk, size.type(0))):
        slots = [cgutils.alloca_once_value(builder, zeros(lanes)) for _ in totals]
        with cgutils.for_range_slice(builder, size.type(0), bulk, size.type(width)) as (position, _):
            for slot, term in zip(slots, _emit_step(builder, pointers, scalars, step, position, width)):
                builder.store(builder.fadd(builder.load(slot), term, flags=FAST), slot)
        for total, slot in zip(totals, slots):
            LaneOps(builder, (), (), total).reduce(builder.load(slot))
    with builder.if_then(builder.icmp_signed("!=", bulk, size)):
        while width > 4:
            width //= 2
            # The bits of size say which widths the remainder needs.
            with builder.if_then(builder.icmp_signed("!=", builder.and_(size, size.type(width)), size.type(0))):
                position = builder.and_(size, size.type(-2 * width))
                for total, term in zip(totals, _emit_step(builder, pointers, scalars, step, position, width)):
                    LaneOps(builder, (), (), total).reduce(term)
    return [builder.load(total) for total in totals]


def _emit_step(builder, pointers, scalars, step, position, width):
    kind = ir.VectorType(pointers[0].type.pointee, width).as_pointer()
    places = [builder.bitcast(builder.gep(pointer, [position]), kind) for pointer in pointers]
    return step(builder, *places, *(lanes_of(builder, scalar, width) for scalar in scalars))


def _direction(b, left, right, vector, w, y):
    """Return left - w * right, the terms of vector . (right - y * vector), and the vector."""
    taken, own = b.load(right, align=4), b.load(vector, align=4)
    direction = b.fsub(b.load(left, align=4), b.fmul(w, taken, flags=FAST), flags=FAST)
    return direction, b.fmul(own, b.fsub(taken, b.fmul(y, own, flags=FAST), flags=FAST), flags=FAST), own


def _direct_lanes(b, out, left, right, vector, w, y, c, d):
    direction, product, own = _direction(b, left, right, vector, w, y)
    b.store(direction, out, align=4)
    gradient = b.fadd(b.fmul(d, own, flags=FAST), b.fmul(c, direction, flags=FAST), flags=FAST)
    return product, b.fmul(gradient, gradient, flags=FAST)


def _join_lanes_twice(b, left, right, out, *others):
    return join_lanes(b, left, right, out), join_lanes(b, *others)


def _add_lanes(b, out, left, right, vector, w, y, c):
    direction, product, _ = _direction(b, left, right, vector, w, y)
    b.store(b.fadd(b.load(out, align=4), b.fmul(c, direction, flags=FAST), flags=FAST), out, align=4)
    return product
