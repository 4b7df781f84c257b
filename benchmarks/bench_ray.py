"""How fast and how large is training on a Ray cluster of this machine, relative to one process?

    python -m benchmarks.bench_ray make DIR --rows 2000000 --features 2000000
    python -m benchmarks.bench_ray run DIR --workers 2 --shards 1

`make` writes rows of ids as Parquet and as a converted file: 12 nonzeros per row, half of them from fields of few
values. `run` trains one epoch of FTRL on them, end to end (counting and training): by wide steps of one process, from
the converted file; by the slots of a cluster in one process, from Parquet (--ray none); by a cluster; and by a cluster
whose shards write the model as a folder of parts (--ways parts). It prints rows per second by the clock and per second
of CPU, peak memory of every process beside what was reserved for it, and bytes per row on the wire; and checks that the
models of the last three are equal.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

NONZEROS, GROUP_ROWS, FILE_ROWS = 12, 1 << 17, 1 << 21
RANKS, CONVERTED, WIDE, PARTS = "4,8", "rows.converted", "wide", "parts"


def make(args):
    """Write the rows, file by file."""
    import pyarrow as pa
    from pyarrow import parquet

    from rafm.read.converted.layout import Conversion
    from rafm.read.converted.writer import write_arrow
    from rafm.rows.checked import Batch, check_batch

    Path(args.folder).mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    small = np.array([10, 50, 200, 1000, 5000, 20000])
    large = np.full(NONZEROS - small.size, args.features // (NONZEROS - small.size) * 5 // 4)
    starts = np.concatenate([[0], np.cumsum([*small, *large])])
    bits = np.random.default_rng(1).normal(size=4096).astype(np.float32)  # hidden weights, by id modulo 4096

    def part(number, first):
        n_rows = min(FILE_ROWS, args.rows - first)
        ids = np.empty((n_rows, NONZEROS), np.int32)
        for f, size in enumerate([*small, *large]):
            skew = 2.0 if f < small.size else 1.15  # low ids are more frequent
            ids[:, f] = starts[f] + np.minimum(size * rng.random(n_rows) ** skew, size - 1)
        scores = bits[ids[:, : small.size] % 4096].sum(axis=1) - 1
        labels = (rng.random(n_rows) < 1 / (1 + np.exp(-scores))).astype(np.float32)
        offsets = np.arange(0, ids.size + 1, NONZEROS, dtype=np.int32)
        table = pa.table({"label": labels, "ids": pa.ListArray.from_arrays(offsets, pa.array(ids.ravel()))})
        parquet.write_table(table, f"{args.folder}/part-{number:04d}.parquet", row_group_size=GROUP_ROWS)
        ones = np.ones(ids.size, np.float32)
        return check_batch(Batch(offsets.astype(np.int64), ids.ravel(), ones, int(starts[-1]), labels))

    parts = (part(number, first) for number, first in enumerate(range(0, args.rows, FILE_ROWS)))
    write_arrow(f"{args.folder}/{CONVERTED}", parts, Conversion("binary"))
    size = sum(file.stat().st_size for file in Path(args.folder).glob("*.parquet"))
    print(f"{args.rows:,} rows of {NONZEROS} nonzeros, ids below {starts[-1]:,}, {size / 2**20:,.0f} MiB of Parquet")


def command(args, address, out):
    """Return the arguments of `train_once`."""
    options = {"optimizer": "ftrl", "l1": 0.001, "l1_weights": 0.05, "ranks": RANKS, "step_rows": args.step_rows}
    given = {"data": args.folder, "address": address, "workers": args.workers, "shards": args.shards}
    return [sys.executable, __file__, "train", json.dumps({**given, "slots": args.slots, "out": out, **options})]


def train_once(given):
    """Train one epoch in this process or on a cluster; print what it took."""
    from rafm.distributed.config import ScalingConfig
    from rafm.distributed.export import FolderExport, gather_model
    from rafm.distributed.inputs import open_training
    from rafm.distributed.planning import plan_slots
    from rafm.distributed.reservations import with_reservations
    from rafm.distributed.run import ClusterJob, ClusterRun
    from rafm.distributed.training import group_of
    from rafm.model.file import Saved, save
    from rafm.options import resolve
    from rafm.read.open import ReadOptions
    from rafm.train.events import EpochFinished, Planned

    ranks = tuple(int(rank) for rank in given["ranks"].split(","))
    chosen = {name: given[name] for name in ("optimizer", "l1", "l1_weights", "step_rows")}
    options = resolve(task="binary", ranks=ranks, n_epochs=1, validation_fraction=0.0, **chosen)
    if given["address"] == WIDE:
        return train_wide(given, options)
    begun = time.time()
    source = open_training(given["data"], ReadOptions("binary")).source
    scaling = ScalingConfig(0 if given["address"] == "none" else given["workers"], given["shards"])
    plan, units = plan_slots(options, source.n_rows, given["slots"]), range(len(source.units))
    marks, last, features = {"opened": time.time() - begun}, None, 0
    scaling, is_folder = with_reservations(scaling, source, units, options, None), given["address"] == PARTS
    collect = FolderExport(given["out"]) if is_folder else gather_model
    with group_of("local" if is_folder else given["address"], scaling) as group:
        marks["started"] = time.time() - begun
        run = ClusterRun(group, ClusterJob(source, options, plan, units, collect=collect))
        for event in run.events():
            if isinstance(event, Planned | EpochFinished):
                marks[type(event).__name__] = time.time() - begun
            features = event.plan.n_features if isinstance(event, Planned) else features
            last = event
    marks["gathered"] = time.time() - begun
    plan = last.model.plan
    if is_folder:
        plan = replace(plan, sizes=(*collect.written.sizes(), 0))
    elif given["out"]:
        save(given["out"], Saved(last.model))
    traffic = vars(run.traffic)
    result = {"rows": source.n_rows, "features": features, "loss": last.model.history[0]["train_loss"]}
    result |= {"parameters": plan.n_parameters, "reserved": [scaling.memory_per_shard, scaling.memory_per_worker]}
    print(json.dumps({**result, "marks": marks, "traffic": traffic}))


def train_wide(given, options):
    """Train one epoch by wide steps in this process."""
    from rafm.read.converted.reader import ArrowRows
    from rafm.train.dispatch import run_recipe
    from rafm.train.events import EpochFinished, Planned

    begun, marks = time.time(), {"started": 0.0}
    for event in run_recipe(ArrowRows(f"{given['data']}/{CONVERTED}"), options):
        if isinstance(event, Planned | EpochFinished):
            marks[type(event).__name__] = time.time() - begun
        last = event
    model = last.model
    found = {"rows": model.n_rows, "features": int(model.plan.n_features), "loss": model.history[0]["train_loss"]}
    print(json.dumps({**found, "marks": marks, "traffic": {"steps": 0}, "parameters": model.plan.n_parameters}))


def family_of(root):
    """Return the ids of a process and of all that it started, from /proc."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = Path("/proc", name, "stat").read_text()
        except OSError:
            continue
        parents[int(name)] = int(text.rpartition(")")[2].split()[1])
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


class Watch(threading.Thread):
    """Notes the peak memory and the CPU time of a process and of all that it started."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.names, self.peaks, self.cpu, self.is_over = pid, {}, {}, {}, threading.Event()

    def run(self):
        while not self.is_over.wait(1.0):
            for pid in family_of(self.pid):
                try:
                    self.note(pid)
                except OSError:  # it has just ended
                    continue

    def note(self, pid):
        place = Path("/proc", str(pid))
        words = place.joinpath("cmdline").read_bytes().split(b"\0")
        name = "driver" if pid == self.pid else os.path.basename(words[0].decode())[:28]
        kept = dict(line.split(":", 1) for line in place.joinpath("status").read_text().splitlines())
        ticks = place.joinpath("stat").read_text().rpartition(")")[2].split()[11:13]
        peak = int(kept.get("VmHWM", "0 kB").split()[0]) / 1024
        self.names[pid] = name.removesuffix(".call")
        self.peaks[pid] = max(peak, self.peaks.get(pid, 0.0))  # a process that has just ended has none
        self.cpu[pid] = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def measure(args, address, out=""):
    """Train in a fresh process; return its report, peak memory and CPU seconds by process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RAY_worker_niceness": "0"}
    begun = time.time()
    process = subprocess.Popen(command(args, address, out), stdout=subprocess.PIPE, text=True, env=environment)
    watch = Watch(process.pid)
    watch.start()
    output = process.communicate()[0]
    watch.is_over.set()
    if process.returncode:
        raise SystemExit(process.returncode)
    return json.loads(output.splitlines()[-1]), watch, time.time() - begun


def show(name, found, watch, seconds):
    """Print one way of training."""
    rows, marks, traffic = found["rows"], found["marks"], found["traffic"]
    train = marks["EpochFinished"] - marks["Planned"]
    total = sum(watch.cpu.values())
    print(
        f"{name}: {seconds:.0f} s in all, counting {marks['Planned'] - marks['started']:.0f} s, training {train:.0f} s"
    )
    print(f"  {rows / train:,.0f} rows/s in training by the clock; {rows / total:,.0f} rows per CPU second in all")
    print(f"  {found['features']:,} features, {found['parameters']:,} parameters, train loss {found['loss']:.6f}")
    if traffic["steps"]:
        floats, ids = 4 * traffic["floats"] / traffic["rows"], traffic["ids"] / traffic["rows"]
        print(
            f"  {traffic['steps']:,} steps; bytes per row pulled and pushed {floats:.0f}, features looked up {ids:.1f}"
        )
    if found.get("reserved", [None])[0]:
        shard, worker = (size / 2**20 for size in found["reserved"])
        print(f"  reserved {shard:,.0f} MiB for each shard, {worker:,.0f} for each worker")
    for pid, peak in sorted(watch.peaks.items(), key=lambda item: -watch.cpu[item[0]])[:6]:
        print(f"  {watch.names[pid]:28s} peak {peak:8,.0f} MiB, CPU {watch.cpu[pid]:7.1f} s", flush=True)


def run(args):
    """Train in one process and on a cluster; compare."""
    folder, ways = Path(args.folder), args.ways.split(",")
    files = {"none": folder / "none.rafm", "local": folder / "local.rafm", PARTS: folder / "model"}
    names = {WIDE: "wide steps of one process", "none": "slots in one process"}
    names["local"] = f"cluster of {args.workers} workers, {args.shards} shards"
    names[PARTS] = f"{names['local']}, which write a folder"
    for way in ways:
        show(names[way], *measure(args, way, str(files.get(way, ""))))
    digests = {way: model_digest(file) for way, file in files.items() if way in ways}
    assert len(set(digests.values())) <= 1, f"the models differ: {digests}"
    print(f"equal models: {', '.join(digests)}")


def model_digest(path):
    """Return the SHA-256 of ids, counts and parameters of a model."""
    from rafm.model.file import load

    model, found = load(path).model, hashlib.sha256()
    for array in (model.numbering.ids, model.counts, *model.parameters.arrays().values()):
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    making = commands.add_parser("make")
    making.add_argument("folder")
    making.add_argument("--rows", type=int, default=2_000_000)
    making.add_argument("--features", type=int, default=2_000_000)
    making.set_defaults(do=make)
    running = commands.add_parser("run")
    running.add_argument("folder")
    running.add_argument("--workers", type=int, default=2)
    running.add_argument("--shards", type=int, default=1)
    running.add_argument("--slots", type=int, default=8)
    running.add_argument("--step-rows", type=int, default=32768)
    running.add_argument(
        "--ways", default="local,none,wide", help="which of local, parts, none and wide, in which order"
    )
    running.set_defaults(do=run)
    once = commands.add_parser("train")
    once.add_argument("given", type=json.loads)
    once.set_defaults(do=lambda args: train_once(args.given))
    args = parser.parse_args()
    args.do(args)


if __name__ == "__main__":
    main()
