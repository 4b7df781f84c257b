"""Sums and pairs of packed vectors as explicit SIMD instructions; plain.py has twins and says what they do."""

# mypy: ignore-errors
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from .compile import FAST
from .emit import LaneOps, add_products, elements, emit_columns, joined, lanes_of, turns, weighted_partner, zeros

WORD, FLOAT = ir.IntType(32), ir.FloatType()
PAIR_LANES = 64  # products summed at a time
TABLE_LANES, LOOKUP = 16, "llvm.x86.avx512.permvar.sf.512"


class CodeColumns:
    """Emits the sums over all listed vectors and their pairs, for one range of elements.

    An element is a code, or with halves a byte of two codes. The sums of a range fill one piece of all sums, in any
    order, since only products with them are used: a processor is slow to read what it has just written in other pieces.
    """

    def __init__(self, builder, listed, sets, halves, anew, total):
        self.builder, self.listed, self.sets = builder, listed, sets
        self.halves, self.anew, self.total = halves, anew, total

    def emit(self, position, width):
        b, (places, count, records, codes) = self.builder, self.listed
        slots = [self._slot(sums, position, width) for _, sums in self.sets]
        lanes = slots[0][0].type.pointee.count
        pairs = cgutils.alloca_once(b, ir.VectorType(FLOAT, min(lanes, PAIR_LANES)))
        b.store(zeros(pairs.type.pointee), pairs)
        per_element = count.type(WORD.width // codes.type.pointee.width)
        with turns(b, count, unrolled=False) as index:
            place = b.load(b.gep(places, [index]))
            scale = b.load(b.gep(records, [b.sub(place, place.type(1))]))
            values = [b.fmul(b.load(b.gep(given, [index])), scale, flags=FAST) for given, _ in self.sets]
            start = b.gep(b.gep(codes, [b.mul(place, per_element)]), [position])
            vector, before = self._vector(start, width), [b.load(slot) for slot, _ in slots]
            terms = [b.fmul(vector, lanes_of(b, x, lanes), flags=FAST) for x in values]
            for term, sums, (slot, _) in zip(terms, before, slots):
                b.store(b.fadd(term, sums, flags=FAST), slot)
            if len(values) == 1:
                add_products(b, terms[0], before[0], pairs)
            else:
                add_products(b, vector, weighted_partner(b, before, values), pairs)
        for slot, out in slots:
            b.store(b.load(slot), out, align=4)
        LaneOps(b, (), (), self.total).reduce(b.load(pairs))

    def _slot(self, sums, position, width):
        """Return a register slot, set to 0 or the sums so far, and the place of these sums."""
        b, codes = self.builder, 2 if self.halves else 1
        kind = ir.VectorType(FLOAT, codes * width)
        out = b.bitcast(b.gep(sums, [b.mul(position, position.type(codes))]), kind.as_pointer())
        slot = cgutils.alloca_once(b, kind)
        b.store(zeros(kind) if self.anew else b.load(out, align=4), slot)
        return slot, out

    def _vector(self, start, width):
        """Return codes as floats: bytes, or both halves of bytes, each a two's complement number of 4 bits."""
        b, wide = self.builder, ir.VectorType(WORD, width)
        if self.halves and 2 * width >= TABLE_LANES and has_table_lookup():
            return joined(b, [self._looked_up(b.gep(start, [WORD(at)])) for at in range(0, width, 8)])
        codes = b.load(b.bitcast(start, ir.VectorType(start.type.pointee, width).as_pointer()), align=1)
        if not self.halves:
            return self._floats(b.sext(codes, wide))
        words = b.zext(codes, wide)  # first: the instructions below are for words
        # to the upper end of the word, then back to the lower one with the sign
        return joined(b, [self._floats(b.ashr(b.shl(words, _all(wide, up)), _all(wide, 28))) for up in (28, 24)])

    def _floats(self, words):
        return self.builder.sitofp(words, ir.VectorType(FLOAT, words.type.count))

    def _looked_up(self, start):
        """Return the numbers of the halves of 8 bytes, from a register that holds all sixteen numbers."""
        b, kind, words = self.builder, ir.VectorType(FLOAT, TABLE_LANES), ir.VectorType(WORD, TABLE_LANES)
        eight = b.load(b.bitcast(start, ir.IntType(64).as_pointer()), align=1)
        # all 8 bytes in each pair of lanes, which costs nothing while loading; then each lane has another code lowest
        copies = b.bitcast(lanes_of(b, eight, TABLE_LANES // 2), words)
        places = b.lshr(copies, ir.Constant(words, [4 * (lane // 2) for lane in range(TABLE_LANES)]))
        lookup = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind, words]), LOOKUP)
        table = ir.Constant(kind, [float(code - 16 * (code > 7)) for code in range(16)])
        return b.call(lookup, [table, places])  # which only looks at the lowest 4 bits


def _all(kind, number):
    return ir.Constant(kind, [number] * kind.count)


def has_table_lookup():
    """Tell whether code is compiled for a processor that looks 16 floats up in a register (AVX-512)."""
    if config.CPU_FEATURES is not None or config.CPU_NAME is not None:
        return "+avx512f" in (config.CPU_FEATURES or "").split(",")
    return get_host_cpu_features().get("avx512f", False)


def _emit(builder, held, listed, sets, size, kind):
    """Emit the sums and return the pairs; sets: values, and the sums they go to."""
    (records, codes), (places, count, shift), (anew, halves) = held, listed, kind
    codes = builder.gep(codes, [builder.mul(shift, shift.type(WORD.width // codes.type.pointee.width))])
    total = cgutils.alloca_once_value(builder, ir.Constant(FLOAT, 0.0))
    listed = (places, count, builder.gep(records, [shift]), codes)
    columns = CodeColumns(builder, listed, sets, halves, anew, total)
    emit_columns(builder, columns, builder.lshr(size, size.type(1)) if halves else size)
    return builder.load(total)


def _adder(anew, halves):
    """Make a compiled function that sums listed vectors, overwriting sums if anew."""

    @intrinsic
    def operation(typingctx, records, codes, places, q, values, e, count, shift, sums, j, n):
        at = types.intp

        def codegen(context, builder, signature, args):
            _, _, _, q, _, e, count, shift, _, j, size = args
            arrays = [elements(context, builder, signature, args, place) for place in (0, 1, 2, 4, 8)]
            records, codes, places, values, sums = arrays
            sets = [(builder.gep(values, [e]), builder.gep(sums, [j]))]
            listed = (builder.gep(places, [q]), count, shift)
            return _emit(builder, (records, codes), listed, sets, size, (anew, halves))

        return types.float32(records, codes, places, at, values, at, at, at, sums, at, at), codegen

    return operation


def _twin_adder(anew, halves):
    """Make a compiled function that sums listed vectors twice in one pass."""

    @intrinsic
    def operation(typingctx, records, codes, places, q, values, e, others, count, shift, sums, j, k, n):
        at = types.intp

        def codegen(context, builder, signature, args):
            _, _, _, q, _, e, _, count, shift, _, j, k, size = args
            arrays = [elements(context, builder, signature, args, place) for place in (0, 1, 2, 4, 6, 9)]
            records, codes, places, values, others, sums = arrays
            sets = [(builder.gep(values, [e]), builder.gep(sums, [j]))]
            sets.append((builder.gep(others, [q]), builder.gep(sums, [k])))
            listed = (builder.gep(places, [q]), count, shift)
            return _emit(builder, (records, codes), listed, sets, size, (anew, halves))

        return types.float32(records, codes, places, at, values, at, others, at, at, sums, at, at, at), codegen

    return operation


pair_more_codes, pair_codes = _adder(False, halves=False), _adder(True, halves=False)
pair_more_halves, pair_halves = _adder(False, halves=True), _adder(True, halves=True)
pair_more_codes_twice, pair_codes_twice = _twin_adder(False, halves=False), _twin_adder(True, halves=False)
pair_more_halves_twice, pair_halves_twice = _twin_adder(False, halves=True), _twin_adder(True, halves=True)
