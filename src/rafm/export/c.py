"""Write a model as one C99 file without dependencies: constant tables, followed by program.c."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import resources

import numpy as np

from ..errors import ConfigError
from ..kernels.head import LIMIT
from ..model.file import Saved
from ..model.head import MOST_PAIRED_FIELDS, n_inputs
from ..model.model import Model
from ..model.packed import PackedVectors

MAX_NUMBERS = 1 << 25  # in the file; a compiler takes about a minute for this many
PER_LINE = 16
LINKS = {"identity": 0, "sigmoid": 1, "exp": 2}
KINDS = {32: "float", 16: "int16_t", 8: "int8_t", 6: "int8_t", 4: "uint8_t"}
HEADING = """/* A {family} model in C99, written by `rafm export --to c`.

   int rafm_predict(const int64_t *ids, const float *values, size_t n, double *prediction);

   It needs the math library alone, keeps nothing between calls and may be called from any number of threads. As a
   program, it reads libsvm lines from standard input and prints a prediction for each. */

#include <stddef.h>
#include <stdint.h>

"""


def c_source(saved: Saved) -> Iterator[str]:
    """Yield the text of the file in parts."""
    model, bits = saved.model, saved.model.parameters.bits or 32
    _check_size(model)
    yield HEADING.format(family=model.plan.family)
    for name, value in _settings(saved, bits).items():
        yield f"#define {name} {value}\n"
    yield f"\nstatic const size_t n_features = {model.plan.n_features};\n"
    yield f"static const float bias = {_text(model.parameters.bias[0])};\n"
    yield from _table("float", "weights", model.parameters.weights)
    yield from _numbering(model)
    yield from _vectors(model, bits)
    if model.head is not None:
        yield from _table("float", "log_counts", np.log1p(model.counts).astype(np.float32))
        for name, array in model.head.arrays().items():
            yield from _table("float", name.replace(".", "_"), array.ravel())
    yield "\n" + resources.files(__package__).joinpath("program.c").read_text()


def _check_size(model: Model) -> None:
    """Reject a model that a compiler would choke on."""
    if model.n_parameters > MAX_NUMBERS:
        raise ConfigError(
            f"the model has {model.n_parameters} parameters, but a C file may hold {MAX_NUMBERS}. Make it smaller "
            "first, with compress and max_parameters.",
            key="model",
        )


def _settings(saved: Saved, bits: int) -> dict[str, object]:
    """Return what the program is compiled for."""
    plan = saved.model.plan
    return {
        "N_INPUTS": saved.model.numbering.n_inputs,
        "INDEX_BASE": saved.index_base,
        "DENSE_IDS": int(_is_dense(saved.model)),
        "N_BLOCKS": plan.n_levels,
        "NESTED": int(plan.nested),
        "MIXTURE": int(plan.traits.has_mixture),
        "N_FIELD_WEIGHTS": plan.n_field_weights,
        "BITS": bits,
        "LINK": LINKS[saved.model.loss.link_name],
        **_head_settings(saved.model),
    }


def _head_settings(model: Model) -> dict[str, object]:
    """Return the sizes of the network; without one, it has no fields."""
    if model.head is None:
        return {"HEAD_FIELDS": 0}
    n = model.head.n_fields
    return {
        "HEAD_FIELDS": n,
        "HEAD_PAIRED": int(n <= MOST_PAIRED_FIELDS),
        "HEAD_INPUTS": n_inputs(n),
        "HEAD_UNITS": model.head.n_units,
        "HEAD_LIMIT": float(LIMIT),
    }


def _is_dense(model: Model) -> bool:
    """Return whether a table of all ids is about as small as a list of the known ones."""
    return model.numbering.n_inputs <= 4 * model.plan.n_features


def _numbering(model: Model) -> Iterator[str]:
    """Yield the tables that map ids to feature numbers."""
    ids = model.numbering.ids
    if _is_dense(model):
        yield from _table("int32_t", "numbers", model.numbering.lookup(np.arange(model.numbering.n_inputs)))
    else:
        order = np.argsort(ids)
        yield from _table("int64_t", "sorted_ids", ids[order])
        yield from _table("int32_t", "sorted_numbers", order)


def _vectors(model: Model, bits: int) -> Iterator[str]:
    """Yield the tables of vectors, mixture weights and field weights."""
    plan, found = model.plan, model.parameters
    if not plan.n_levels:
        return
    if found.mixture is None:
        yield from _table("int32_t", "sizes", plan.sizes[1:-1])
    yield from _table("size_t", "ranks", plan.block_ranks)
    tables = [_stored(block, bits) for block in found.factors]
    yield from _table("size_t", "strides", [table.shape[1] for table in tables])
    for level, table in enumerate(tables, start=1):
        yield from _table(KINDS[bits], f"vectors_{level}", table.ravel())
    yield _pointers(KINDS[bits], "blocks", "vectors", plan.n_levels)
    if bits < 32:
        for level, block in enumerate(found.factors, start=1):
            yield from _table("float", f"scales_{level}", block.scales())
        yield _pointers("float", "scales", "scales", plan.n_levels)
    if found.mixture is not None:
        yield from _table("float", "mixture", found.mixture.ravel())
    else:  # without field weights: one table of one element, which is not read
        yield from _table("float", "field_weights", [0] if found.fields is None else found.fields)
        yield from _table("int32_t", "fields", [0] if model.fields is None else model.fields.numbers)


def _stored(block: np.ndarray | PackedVectors, bits: int) -> np.ndarray:
    """Return the vectors of a block as the program reads them."""
    if isinstance(block, PackedVectors):
        return block.codes if bits == 4 else block.integers()
    return block


def _pointers(kind: str, name: str, prefix: str, count: int) -> str:
    listed = ", ".join(f"{prefix}_{level}" for level in range(1, count + 1))
    return f"static const {kind} *const {name}[] = {{{listed}}};\n"


def _table(kind: str, name: str, numbers: Iterable[float]) -> Iterator[str]:
    """Yield the definition of a constant array; C has no empty ones."""
    texts = [*map(_text, np.asarray(numbers).tolist())] or ["0"]
    yield f"static const {kind} {name}[] = {{\n"
    for start in range(0, len(texts), PER_LINE):
        yield ", ".join(texts[start : start + PER_LINE]) + ",\n"
    yield "};\n"


def _text(number: float) -> str:
    """Return a number that reads back as the same float32, or as the same integer."""
    return str(number) if isinstance(number, int) else f"{float(number):.9g}"
