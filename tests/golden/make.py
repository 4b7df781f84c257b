"""Write the golden model files of all format versions, with what a reader must find in them.

    python tests/golden/make.py [FOLDER]

For each NAME in PLANS, a family or what else a file may hold: `v1-NAME.rafm` (`v2-` with a head), and a `.json`
beside it with every number of the model and the scores of some rows. Nothing is trained: all numbers are drawn, so that
the files do not depend on the kernels. The scores are those of tests/naive.py, with the size of the numbers that add up
to them. Files of a version that was released are never written again; a new version gets new ones.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import naive  # noqa: E402

from rafm.compress.quantise import quantise  # noqa: E402
from rafm.encode.coders import Bins, Buckets, Clock, Lists, LogBins, Number, Words  # noqa: E402
from rafm.encode.column import Column  # noqa: E402
from rafm.encode.encoder import TableEncoder  # noqa: E402
from rafm.encode.spec import ColumnSpec, TableSpec  # noqa: E402
from rafm.encode.strings import StringTable  # noqa: E402
from rafm.kernels.head import Network  # noqa: E402
from rafm.losses import loss_for  # noqa: E402
from rafm.model.file import Saved, save  # noqa: E402
from rafm.model.head import Head, n_inputs  # noqa: E402
from rafm.model.model import Model  # noqa: E402
from rafm.model.parameters import Parameters, States  # noqa: E402
from rafm.plan.fields import FeatureFields  # noqa: E402
from rafm.plan.ranks import RankPlan  # noqa: E402
from rafm.rows.numbering import Numbering  # noqa: E402

PLANS = {
    "rafm": RankPlan("rafm", (2, 3, 7), (12, 11, 6, 2, 0)),
    "fm": RankPlan("fm", (5,), (12, 12, 0)),
    "lr": RankPlan("lr", (), (12, 0)),
    "difacto": RankPlan("difacto", (2, 3, 7), (12, 11, 6, 2, 0)),
    "mrma": RankPlan("mrma", (2, 3), (12, 12, 12, 0)),
    "table": RankPlan("rafm", (2, 3), (9, 9, 4, 0)),
    "ffm": RankPlan("ffm", (3,), (12, 11, 0), n_field_vectors=2),
    "times": RankPlan("fm", (3,), (12, 12, 0)),  # whose encoder has version 2
    "states": RankPlan("rafm", (2, 3), (12, 9, 4, 0)),  # with optimiser state
    "packed": RankPlan("rafm", (2, 3), (12, 9, 4, 0)),  # of 6 bits
    "head": RankPlan("rafm", (2, 3), (12, 11, 5, 0)),
}
# a new name goes last
SEEDS = ("difacto", "fm", "lr", "mrma", "rafm", "table", "ffm", "times", "states", "packed", "head")


def words(*texts: str) -> Words:
    """Return the codes of some texts."""
    return Words(StringTable.of_distinct(pa.array(texts)))


SPECS = {
    "age": ColumnSpec("age", "number"),
    "city": ColumnSpec("city"),
    "hour": ColumnSpec("hour", "datetime", format="%y%m%d%H"),
    "ok": ColumnSpec("ok"),
    "price": ColumnSpec("price", "bins", n_bins=4),
    "query": ColumnSpec("query", "list", separator=" ", scale="1/n", hash_size=8),
    "tags": ColumnSpec("tags", "list", separator="|"),
    "visits": ColumnSpec("visits", "log_bins", min_count=1),
    "zip": ColumnSpec("zip", "ignore"),
}
ENCODER = TableEncoder(
    TableSpec(tuple(SPECS.values()), clicks="clicks", impressions="shown", min_count=2),
    (
        Column(SPECS["age"], "number", Number("age", 41.5, 12.25), False, False),
        Column(SPECS["city"], "text", words("", "Oslo", "R\u00f4me", "\u6771\u4eac"), True, True),
        Column(SPECS["hour"], "number", Clock("hour", "%y%m%d%H"), False, False),
        Column(SPECS["ok"], "boolean", words("false", "true"), False, True),
        Column(SPECS["price"], "number", Bins("price", (0.1, 2.5)), False, False),
        Column(SPECS["query"], "text", Lists(Buckets(8), SPECS["query"]), False, False),
        Column(SPECS["tags"], "list", Lists(words("Oslo", "a"), SPECS["tags"]), True, False),
        Column(SPECS["visits"], "number", LogBins("visits", (-1.0, 0.0, 47.0)), False, True),
    ),
)
TIMES = {"city": ColumnSpec("city"), "when": ColumnSpec("when", "datetime")}
TIMES_ENCODER = TableEncoder(
    TableSpec(tuple(TIMES.values())),
    (
        Column(TIMES["city"], "text", words("Oslo", "Rome"), False, False),
        Column(TIMES["when"], "time", Clock("when", None), False, True, times="aware"),
    ),
)
ENCODERS = {"table": ENCODER, "times": TIMES_ENCODER}


def draw_states(plan: RankPlan, draw: np.random.Generator) -> States:
    """Return the state of AdaGrad: a sum of squares per weight and vector, and scales that are powers of 2."""

    def squares(*shape: int) -> np.ndarray:
        return draw.uniform(1, 3, shape).astype(np.float32)

    n, factors = plan.n_features, [squares(size, 1) for size in plan.sizes[1:-1]]
    scales = np.float32(2) ** draw.integers(-2, 3, n).astype(np.float32)
    return States(squares(4), squares(n, 1), factors, np.array([4], np.float32), scales)


def draw_parameters(plan: RankPlan, draw: np.random.Generator) -> Parameters:
    """Return numbers of every size that training might leave, as float32."""

    def numbers(*shape: int) -> np.ndarray:
        return draw.normal(0, 0.5, shape).astype(np.float32)

    factors = [numbers(size, rank) for size, rank in zip(plan.sizes[1:], plan.block_ranks)]
    mixture = draw.uniform(0.5, 2, (plan.n_features, plan.n_levels)).astype(np.float32)
    return Parameters(numbers(1), numbers(plan.n_features), factors, mixture if plan.family == "mrma" else None)


def draw_head(draw: np.random.Generator) -> Head:
    """Return a head of three fields and four units."""
    n = n_inputs(3)
    shapes = [(n,), (n,), (n, 4), (4,), (4,), (1,)]
    return Head(Network(*(np.abs(draw.normal(0, 0.7, shape)).astype(np.float32) for shape in shapes)), 3)


def make_saved(name: str) -> Saved:
    """Return the model of a name; ids are not in order, and some were never seen."""
    plan, draw = PLANS[name], np.random.default_rng(SEEDS.index(name))
    encoder = ENCODERS.get(name)
    n_inputs = encoder.n_features if encoder else 2**31 + 5 if name == "lr" else 30
    ids = draw.permutation(min(n_inputs, 30))[: plan.n_features].astype(np.int64)
    if name == "lr":
        ids[0] = n_inputs - 1  # needs 8 bytes
    task = "regression" if name in ("fm", "mrma") else "binary"
    model = Model(
        plan=plan,
        numbering=Numbering(ids, n_inputs),
        counts=np.sort(draw.integers(1, 50, plan.n_features))[::-1],
        loss=loss_for(task),
        parameters=draw_parameters(plan, draw),
        n_rows=100,
        history=[{"epoch": 1, "train_loss": 0.5, "valid_log_loss": 0.25, "valid_auc": None}],
        best_epoch=1,
        options={"optimizer": "adagrad", "learning_rate": 0.2, "l2": 0.003, "patience": None, "n_epochs": 1},
        fields=FeatureFields(("user", "item"), np.arange(12, dtype=np.int32) % 3 % 2) if name == "ffm" else None,
    )
    if name == "head":
        fields = FeatureFields(("user", "item", "day"), np.arange(12, dtype=np.int32) % 3)
        model = replace(model, fields=fields, head=draw_head(draw))
    classes = {"table": ["no", "yes"], "rafm": [False, True]}.get(name)
    if name == "states":
        model = replace(model, parameters=replace(model.parameters, states=draw_states(plan, draw)))
    return Saved(quantise(model, 6) if name == "packed" else model, encoder, int(name == "difacto"), classes)


def make_rows(model: Model, draw: np.random.Generator) -> list[dict[int, float]]:
    """Return rows as {id: value}: none, known and unknown features, and for MRMA pairs."""
    known = model.numbering.ids.tolist()
    if model.plan.family == "mrma":
        pairs = [draw.choice(known, 2, replace=False) for _ in range(8)]
        return [{int(i): float(np.float32(draw.normal())) for i in pair} for pair in pairs]
    lengths = [0, 1, 2, 3, 5, 8, len(known), len(known)]
    rows = [{int(i): float(np.float32(draw.normal())) for i in draw.choice(known, n, replace=False)} for n in lengths]
    unknown = next(i for i in range(model.numbering.n_inputs + 1) if i not in known)
    return [*rows, {known[0]: 1.0, unknown: 100.0}]


def naive_score(model: Model, row: dict[int, float]) -> tuple[float, float]:
    """Return the score of a row by the definition of the family, and the size of what adds up to it."""
    plan, found = model.plan, model.parameters.as_floats()
    blocks, levels = found.factors, plan.levels()
    if plan.n_field_vectors:
        blocks, levels = np.split(blocks[0], plan.n_field_vectors, axis=1), levels * plan.n_field_vectors
    none = np.zeros(plan.ranks[0]) if plan.n_field_vectors else None  # in place of a vector
    twin = {
        "family": plan.family,
        "ranks": plan.block_ranks if not plan.n_field_vectors else plan.ranks * plan.n_field_vectors,
        "levels": levels.tolist(),
        "bias": float(found.bias[0]),
        "w": found.weights.astype(float),
        "v": [[*block.astype(float), *[none] * (plan.n_features - len(block))] for block in blocks],
        "mixture": found.mixture,
        **({} if model.fields is None else {"fields": model.fields.numbers}),
    }
    known = naive.numbered((list(row), list(row.values())), model.numbering.ids)
    row = ([i for i, _ in known], [x for _, x in known])
    score, size = naive.score(twin, row), naive.score_size(twin, row)
    if model.head is None:
        return score, size
    account = naive.account(twin, row, model.counts, model.head.n_fields)
    added = naive.network_output(model.head.network._asdict(), account)
    return score + added, size + abs(added)


def contents(saved: Saved) -> dict:
    """Return everything a reader must find, each array as type, shape and the hexadecimal digits of its bytes."""
    model, found = saved.model, saved.model.parameters.as_floats()
    arrays = {"bias": found.bias, "weights": found.weights, "ids": model.numbering.ids, "counts": model.counts}
    arrays |= {f"factors.{level}": block for level, block in enumerate(found.factors, start=1)}
    if found.mixture is not None:
        arrays["mixture"] = found.mixture
    if found.states is not None:
        arrays |= found.states.arrays()
    if model.fields is not None:
        arrays["fields"] = model.fields.numbers
    if model.head is not None:
        arrays |= model.head.arrays()
    columns = saved.encoder.spec.to_dict() if saved.encoder else {}
    return {
        "family": model.plan.family,
        "ranks": list(model.plan.ranks),
        "sizes": list(model.plan.sizes),
        "task": model.loss.task,
        "n_inputs": model.numbering.n_inputs,
        "n_rows": model.n_rows,
        "index_base": saved.index_base,
        "classes": saved.classes,
        "history": model.history,
        "best_epoch": model.best_epoch,
        "options": model.options,
        "columns": columns,
        "features": saved.encoder.feature_names() if saved.encoder else [],
        "arrays": {name: [str(a.dtype), list(a.shape), a.tobytes().hex()] for name, a in arrays.items()},
    }


def golden_path(folder: Path, name: str) -> Path:
    """Return the file of a name; its prefix is the version of its format."""
    return folder / f"v{2 if name == 'head' else 1}-{name}.rafm"


def main(folder: Path) -> None:
    """Write all files."""
    for name in PLANS:
        saved = make_saved(name)
        rows = make_rows(saved.model, np.random.default_rng(0))
        path = golden_path(folder, name)
        save(path, saved)
        scores, sizes = zip(*(naive_score(saved.model, row) for row in rows))
        told = {
            "contents": contents(saved),
            "rows": [[*row.items()] for row in rows],
            "scores": [np.float32(score).tobytes().hex() for score in scores],
            "sizes": [round(float(size), 3) for size in sizes],
        }
        path.with_suffix(".json").write_text(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
