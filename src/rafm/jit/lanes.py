"""Emit vector instructions for operations that are written once, as formulas: see vectors.py.

At small ranks Numba's auto-vectorisation spends more time on alias checks and loop prologues than on arithmetic, and it
would load and store sums over listed vectors for each of them, instead of keeping them in registers. A formula is
emitted for many lanes at a time, then for the remainder with halved lanes down to 4. Uncompiled, it runs on all
elements at once, see lanes_plain.py; with bounds checked, an index out of bounds is an IndexError here too.
"""

# mypy: ignore-errors
import math
from contextlib import contextmanager
from inspect import Parameter, Signature

from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import FAST

INT, WORD, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
CONTRACTED = ("contract",)
LARGEST_EXPONENT = 87.3  # exp(-87.3) is about the smallest normal float32
COARSE_LOG_2 = 355 / 512  # log 2 to few digits, so that its multiples are exact in float32
TABLE_LANES = 16
NARROW = 16  # up to this many lanes loops over listed vectors are not unrolled: the remainder loop would cost more


class Value:
    """A number, or lanes of numbers, in the code that is emitted; integers too."""

    def __init__(self, builder, value):
        self.builder, self.value = builder, value

    def _with(self, other, of_floats, of_integers):
        """Combine with another value or a constant; a number is broadcast to lanes."""
        one, other = self.value, other.value if isinstance(other, Value) else other
        if not hasattr(other, "type"):
            scalar = one.type.element if isinstance(one.type, ir.VectorType) else one.type
            other = ir.Constant(scalar, other)
        for kind in (one.type, other.type):
            if isinstance(kind, ir.VectorType):
                one, other = (broadcast(self.builder, each, kind.count) for each in (one, other))
        scalar = one.type.element if isinstance(one.type, ir.VectorType) else one.type
        if isinstance(scalar, ir.IntType):
            return Value(self.builder, getattr(self.builder, of_integers)(one, other))
        return Value(self.builder, getattr(self.builder, of_floats)(one, other, flags=FAST))

    def __add__(self, other):
        return self._with(other, "fadd", "add")

    def __sub__(self, other):
        return self._with(other, "fsub", "sub")

    def __mul__(self, other):
        return self._with(other, "fmul", "mul")

    def __truediv__(self, other):
        return self._with(other, "fdiv", "sdiv")

    def plus(self, other):
        """Add without fast-math flags, so that the sum rounds alike in any context."""
        return Value(self.builder, self.builder.fadd(self.value, other.value))


def broadcast(builder, scalar, width):
    """Return lanes that hold a scalar each; lanes stay as they are."""
    if isinstance(scalar.type, ir.VectorType):
        return scalar
    kind = ir.VectorType(scalar.type, width)
    single = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, WORD(0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(WORD, width), [0] * width))


class Register:
    """A value that a loop changes; LLVM keeps it in registers."""

    def __init__(self, builder, value):
        self.builder, self.slot = builder, cgutils.alloca_once(builder, value.value.type)
        self.set(value)

    def get(self):
        return Value(self.builder, self.builder.load(self.slot))

    def set(self, value):
        self.builder.store(value.value, self.slot)


class Vector:
    """The lanes of a vector in an array."""

    def __init__(self, builder, pointer, width):
        self.builder, self.width = builder, width
        self.pointer = builder.bitcast(pointer, ir.VectorType(pointer.type.pointee, width).as_pointer())
        self.align = 4 if pointer.type.pointee != BYTE else 1  # vectors are only aligned to elements

    def get(self):
        return Value(self.builder, self.builder.load(self.pointer, align=self.align))

    def set(self, value):
        self.builder.store(value.value, self.pointer, align=self.align)


class Array:
    """An array argument: its elements and, where bounds are checked, its size."""

    def __init__(self, pointer, size):
        self.pointer, self.size = pointer, size


class Lanes:
    """Emits a formula for one range of lanes; what plain twins offer, see lanes_plain.py."""

    def __init__(self, builder, check, slots, position, width, element):
        self.builder, self.check, self.slots = builder, check, slots
        self.position, self.width, self.element = position, width, element

    def zero(self):
        """Return lanes of zeros."""
        return Value(self.builder, ir.Constant(ir.VectorType(self.element, self.width), [0.0] * self.width))

    def register(self, value):
        return Register(self.builder, value)

    def at(self, array, *places):
        """Return the vector at the sum of some places of an array, those that change in a loop last."""
        return Vector(self.builder, self._pointer(array, Value(self.builder, self.position), *places), self.width)

    def item(self, array, *places):
        """Return a single element of an array."""
        return Value(self.builder, self.builder.load(self._pointer(array, *places, count=1)))

    def set_item(self, array, place, number):
        """Set a single element of an array."""
        self.builder.store(number.value, self._pointer(array, place, count=1))

    def add(self, left, right, slot=0):
        """Add the products of two vectors to a sum of terms."""
        b, slot = self.builder, self.slots[slot]
        width = slot.type.pointee.count
        for one, other in zip(pieces(b, left.value, width), pieces(b, right.value, width)):
            b.store(b.fadd(b.fmul(one, other, flags=FAST), b.load(slot), flags=FAST), slot)

    def _pointer(self, array, *places, count=None):
        """Return a pointer to the sum of some places, of which LLVM takes all but the last ones out of a loop."""
        pointer = array.pointer
        for place in places:
            pointer = self.builder.gep(pointer, [place.value])
        self.check(array, places, count or self.width)
        return pointer

    def norm(self, vector):
        """Return the squared norm of a vector that has no more lanes than these."""
        return Value(self.builder, reduced(self.builder, (vector * vector).value))

    def root(self, number):
        """Return the square root of a number."""
        function = {ir.FloatType(): "llvm.sqrt.f32", ir.DoubleType(): "llvm.sqrt.f64"}[self.element]
        kind = ir.FunctionType(self.element, [self.element])
        root = cgutils.get_or_insert_function(self.builder.module, kind, function)
        return Value(self.builder, self.builder.call(root, [number.value]))

    def turns(self, count):
        """Emit a loop of count iterations; LLVM may unroll it, unless there are few lanes."""
        with turns(self.builder, count.value, self.width > NARROW) as index:
            yield Value(self.builder, index)

    def absolute(self, value):
        return Value(self.builder, call(self.builder, "fabs", value.value))

    def exp_neg(self, size):
        """Return exp(-size) for sizes of at least 0."""
        is_single = self.element == ir.FloatType()
        of = _single_exp if is_single else lambda b, x: call(b, "exp", b.fneg(x))
        return Value(self.builder, of(self.builder, size.value))

    def log_1p(self, small):
        """Return log(1 + small) for numbers from 0 to 1."""
        is_single = self.element == ir.FloatType()
        of = _single_log if is_single else lambda b, x: call(b, "log", b.fadd(_all(x, 1), x))
        return Value(self.builder, of(self.builder, small.value))


class Codes(Lanes):
    """Emits a formula of vectors that are stored as codes; with halves, width is that of bytes, of two codes each."""

    def __init__(self, *arguments, halves=False):
        super().__init__(*arguments)
        self.halves, self.width = halves, self.width * (2 if halves else 1)

    def at(self, array, *places):
        """Return sums, whose range is one piece in any order: a processor is slow to read what it wrote in pieces."""
        position = Value(self.builder, self.position) * (2 if self.halves else 1)
        return Vector(self.builder, self._pointer(array, position, *places), self.width)

    def codes(self, array, *places):
        """Return codes as floats: those at a place of the records, which count elements of 4 bytes."""
        b, width = self.builder, self.width // (2 if self.halves else 1)
        element = array.pointer.type.pointee
        places = [Value(b, self.position), *(place * (32 // element.width) for place in places)]
        start, wide = self._pointer(array, *places, count=width), ir.VectorType(WORD, width)
        if self.halves and self.width >= TABLE_LANES and has_avx512():
            return Value(b, joined(b, [self._looked_up(b.gep(start, [WORD(at)])) for at in range(0, width, 8)]))
        codes = b.load(b.bitcast(start, ir.VectorType(element, width).as_pointer()), align=1)
        if not self.halves:
            return Value(b, b.sitofp(b.sext(codes, wide), ir.VectorType(self.element, width)))
        words, parts = b.zext(codes, wide), []
        for up in (28, 24):  # to the upper end of the word, then back to the lower one with the sign
            signed = b.ashr(b.shl(words, ir.Constant(wide, [up] * width)), ir.Constant(wide, [28] * width))
            parts.append(b.sitofp(signed, ir.VectorType(self.element, width)))
        return Value(b, joined(b, parts))

    def _looked_up(self, start):
        """Return the numbers of the halves of 8 bytes, from a register that holds all sixteen numbers."""
        b, kind, words = self.builder, ir.VectorType(self.element, TABLE_LANES), ir.VectorType(WORD, TABLE_LANES)
        eight = b.load(b.bitcast(start, INT.as_pointer()), align=1)
        # all 8 bytes in each pair of lanes, which costs nothing while loading; then each lane has another code lowest
        copies = b.bitcast(broadcast(b, eight, TABLE_LANES // 2), words)
        places = b.lshr(copies, ir.Constant(words, [4 * (lane // 2) for lane in range(TABLE_LANES)]))
        lookup = ir.FunctionType(kind, [kind, words])
        lookup = cgutils.get_or_insert_function(b.module, lookup, "llvm.x86.avx512.permvar.sf.512")
        table = ir.Constant(kind, [float(code - 16 * (code > 7)) for code in range(16)])
        return b.call(lookup, [table, places])  # which only looks at the lowest 4 bits


class Halves(Codes):
    """Emits a formula of codes of 4 bits."""

    def __init__(self, *arguments):
        super().__init__(*arguments, halves=True)


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


def _rolled(module):
    """Return metadata that forbids unrolling; LLVM requires such a node to refer to itself, which makes it unique."""
    rule = module.add_metadata([ir.MetaDataString(module, "llvm.loop.unroll.disable")])
    name = module.add_metadata([rule])
    name.operands = (name, rule)
    return name


def pieces(builder, term, width):
    """Split a vector into vectors of the given width, or of its own if that is less."""
    if term.type.count <= width:
        return [term]
    masks = (range(start, start + width) for start in range(0, term.type.count, width))
    masks = (ir.Constant(ir.VectorType(WORD, width), list(mask)) for mask in masks)
    return [builder.shuffle_vector(term, term, mask) for mask in masks]


def joined(builder, parts):
    """Join vectors of the same width, a power of two of them."""
    while len(parts) > 1:
        mask = ir.Constant(ir.VectorType(WORD, 2 * parts[0].type.count), [*range(2 * parts[0].type.count)])
        parts = [builder.shuffle_vector(*pair, mask) for pair in zip(parts[::2], parts[1::2])]
    return parts[0]


def call(b, name, x, kind=None):
    """Call an LLVM function on lanes, whose name ends with their type."""
    kind, suffix = kind or x.type, ""
    for each in [kind, x.type] if kind != x.type else [kind]:
        letter = {WORD: "i32", ir.FloatType(): "f32", ir.DoubleType(): "f64"}[each.element]
        suffix += f".v{each.count}{letter}"
    function = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [x.type]), f"llvm.{name}{suffix}")
    return b.call(function, [x])


def reduced(b, lanes):
    """Return the sum of lanes."""
    scalar = lanes.type.element
    name = f"llvm.vector.reduce.fadd.v{lanes.type.count}f{'32' if scalar == ir.FloatType() else '64'}"
    function = cgutils.get_or_insert_function(b.module, ir.FunctionType(scalar, [scalar, lanes.type]), name)
    return b.call(function, [ir.Constant(scalar, 0.0), lanes], fastmath=FAST)


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


def has_avx512():
    """Tell whether code is compiled for 32 long registers, which also serve as tables of 16 floats."""
    if config.CPU_FEATURES is not None or config.CPU_NAME is not None:
        return "+avx512f" in (config.CPU_FEATURES or "").split(",")
    return get_host_cpu_features().get("avx512f", False)


class Loops:
    """Emits a formula over all elements: width lanes at a time, then the remainder with halved lanes down to 4."""

    def __init__(self, builder, check, formula, element, n_terms, kind):
        self.builder, self.check, self.formula, self.element, self.kind = builder, check, formula, element, kind
        self.totals = [cgutils.alloca_once_value(builder, ir.Constant(element, 0.0)) for _ in range(n_terms)]

    def emit(self, size, width, arguments):
        """Emit the loop and the remainder; return the sums of all terms."""
        b = self.builder
        bulk = b.and_(size, size.type(-width))  # rounds down: widths are powers of two
        with b.if_then(b.icmp_signed(">", bulk, size.type(0))):
            slots = self._slots(width)
            with cgutils.for_range_slice(b, size.type(0), bulk, size.type(width)) as (position, _):
                self.formula(self.kind(b, self.check, slots, position, width, self.element), *arguments)
            self._reduce(slots)
        with b.if_then(b.icmp_signed("!=", bulk, size)):
            while width > 4:
                width //= 2
                # The bits of size say which widths the remainder needs.
                with b.if_then(b.icmp_signed("!=", b.and_(size, size.type(width)), size.type(0))):
                    slots, position = self._slots(width), b.and_(size, size.type(-2 * width))
                    self.formula(self.kind(b, self.check, slots, position, width, self.element), *arguments)
                    self._reduce(slots)
        return [b.load(total) for total in self.totals]

    def _slots(self, width):
        lanes = width * (2 if self.kind is Halves else 1)
        kind = ir.VectorType(self.element, min(lanes, 64 if has_avx512() else 32))
        slots = [cgutils.alloca_once(self.builder, kind) for _ in self.totals]
        for slot in slots:
            self.builder.store(ir.Constant(kind, [0.0] * kind.count), slot)
        return slots

    def _reduce(self, slots):
        b = self.builder
        for total, slot in zip(self.totals, slots):
            b.store(b.fadd(b.load(total), reduced(b, b.load(slot)), flags=FAST), total)


def operation(parameters, n_terms, width, kind, formula):
    """Return the compiled operation of a formula; see vectors.operation."""
    names, size = [name.strip("#.") for name in parameters], parameters.index("#n")
    first = names.index("sums" if "sums" in names else "left")  # an array whose elements have the type of the operation

    def typed(typingctx, *given):
        element = given[first].dtype
        written = {"#": types.intp, ".": element}
        result = (types.void, element)[n_terms] if n_terms < 2 else types.UniTuple(element, n_terms)
        return result(*(written.get(name[0], kind) for name, kind in zip(parameters, given))), codegen

    def codegen(context, builder, signature, args):
        def given(name, kind, value):
            if name[0] in "#.":
                return Value(builder, value)
            array = context.make_array(kind)(context, builder, value)
            return Array(array.data, array.nitems)

        def check(array, places, count):
            if not config.BOUNDSCHECK:
                return
            last = INT(count)
            for place in places:
                last = builder.add(last, place.value)
            is_out = builder.icmp_unsigned(">", last, array.size)
            with builder.if_then(is_out, likely=False):
                context.call_conv.return_user_exc(builder, IndexError, ("a vector is out of bounds",))

        arguments = [*map(given, parameters, signature.args, args)]
        element = context.get_data_type(signature.args[first].dtype)
        lanes = width if element == ir.FloatType() else width // 2
        count = arguments.pop(size).value
        count = builder.lshr(count, count.type(1)) if kind is Halves else count
        totals = Loops(builder, check, formula, element, n_terms, kind).emit(count, lanes, arguments)
        if n_terms < 2:
            return totals[0] if totals else context.get_dummy_value()
        return context.make_tuple(builder, signature.return_type, totals)

    def written_out(typingctx, *given):
        return typed(typingctx, *given)

    written_out.__signature__ = Signature([Parameter(name, 1) for name in ("typingctx", *names)])
    return intrinsic(written_out)


# ---- Single instructions that Python has no words for


def _elements(context, builder, signature, args):
    """Return a pointer to the elements of the first argument."""
    return context.make_array(signature.args[0])(context, builder, args[0]).data


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
def match_bytes(typingctx, text, position, byte):
    """Return a bit mask of where the 64 bytes of text from position on equal byte; the lowest bit is the first byte."""

    def codegen(context, builder, signature, args):
        kind = ir.VectorType(ir.IntType(8), 64)
        start = builder.gep(_elements(context, builder, signature, args), [args[1]])
        found = builder.load(builder.bitcast(start, kind.as_pointer()), align=1)
        equal = builder.icmp_unsigned("==", found, broadcast(builder, args[2], 64))
        return builder.bitcast(equal, ir.IntType(64))

    return types.uint64(text, types.intp, types.uint8), codegen


def _prefetch_line(builder, pointer, write):
    """Emit a prefetch of a cache line, for writing or for reading."""
    pointer, i32 = builder.bitcast(pointer, ir.IntType(8).as_pointer()), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
    call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(call, [pointer, i32(write), i32(3), i32(1)])  # keep in all caches; data, not code


def _prefetcher(write):
    """Make a compiled function (array, position) that prefetches a cache line, for writing or for reading."""

    @intrinsic
    def operation(typingctx, array, position):
        def codegen(context, builder, signature, args):
            _prefetch_line(builder, builder.gep(_elements(context, builder, signature, args), [args[1]]), write)
            return context.get_dummy_value()

        return types.void(array, types.intp), codegen

    return operation


prefetch, prefetch_shared = _prefetcher(1), _prefetcher(0)
