"""How long would an epoch of 1.7 billion rows and 120 million features take on 1 to 64 machines? A simulation.

    python -m benchmarks.simulate_cluster [--worker-rows 60000] [--shard-features 3000000] ...

Nothing here was measured on a cluster. What it assumes:

* A step is slots x slot rows, synchronous. A worker (one core) takes 1 / worker-rows seconds per row, measured by
  bench_ray.py; half of the cores of a machine are workers, the others shards. A shard joins and steps shard-features
  features per second.
* Bytes per row are those of `rafm ray plan` (expected distinct features of a slot, as records have them). Workers and
  shards are spread evenly, so (machines - 1) / machines of the traffic is remote; pull and push do not overlap
  with computing, reading and parsing do.
* Stragglers: the time of each worker in each step is multiplied by a lognormal factor (sigma 0.1), and one worker in
  a thousand steps is three times as slow. A step waits for the slowest.
* Each call takes 1 ms; a step has four in a row (step, pull, push, apply).
* Failures: a machine fails once in 30 days. Then all shards reload the last checkpoint (each reads its share at the
  speed of the disk, after 30 s to notice and restart), and the steps since then are repeated. A checkpoint every
  600 s stops training while each machine writes its share.
"""

import argparse

import numpy as np

from rafm.distributed.capacity import Cluster, capacity, zipf_counts
from rafm.options import resolve

CALL_SECONDS, CALLS = 0.001, 4
SIGMA, SLOW_SHARE, SLOW_TIMES = 0.1, 0.001, 3.0
RESTART_SECONDS, CHECKPOINT_SECONDS, FAILURE_DAYS = 30.0, 600.0, 30.0
SAMPLED_STEPS = 2000


def simulate(args, machines, found, held, rng):
    """Return hours per epoch with their parts, from sampled steps."""
    workers = max(1, min(machines * args.cores // 2, args.slots))
    shards = max(1, machines * args.cores - machines * args.cores // 2)
    slot_rows = args.step_rows / args.slots
    slots_each = np.ceil(args.slots / workers)
    compute = slots_each * slot_rows / args.worker_rows
    noise = np.exp(SIGMA * rng.standard_normal((SAMPLED_STEPS, workers)))
    noise = np.where(rng.random(noise.shape) < SLOW_SHARE, SLOW_TIMES, noise)
    slowest = compute * noise.max(axis=1).mean()
    per_row = found["pulled"] + found["pushed"] + found["looked_up"]
    network = args.step_rows * per_row * (machines - 1) / machines / machines / (args.network * 1e9 / 8)
    pushed = found["features_per_slot"] * args.slots  # features that shards join in a step, slot by slot
    apply = pushed / shards / args.shard_features
    step = slowest + network + apply + CALLS * CALL_SECONDS
    seconds = args.rows / args.step_rows * step
    write = held / machines / (args.disk * 1e6)
    seconds *= 1 + write / CHECKPOINT_SECONDS
    failures = machines * seconds / (FAILURE_DAYS * 86400)
    seconds += failures * (RESTART_SECONDS + write + CHECKPOINT_SECONDS / 2)
    parts = {"compute": compute, "stragglers": slowest - compute, "network": network, "apply": apply}
    return {
        "machines": machines,
        "workers": workers,
        "hours": seconds / 3600,
        "failures": failures,
        "shares": {name: value / step for name, value in parts.items()},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1.7e9)
    parser.add_argument("--features", type=float, default=120e6)
    parser.add_argument("--nonzeros", type=float, default=39)
    parser.add_argument("--zipf", type=float, default=1.05)
    parser.add_argument("--ranks", default="1,2,4,8")
    parser.add_argument("--worker-rows", type=float, default=60_000.0, help="rows per second of a worker")
    parser.add_argument("--shard-features", type=float, default=3e6, help="features per second that a shard joins")
    parser.add_argument("--step-rows", type=int, default=65536)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--network", type=float, default=25.0, help="Gbit/s of a machine")
    parser.add_argument("--disk", type=float, default=500.0, help="MB/s of the shared storage, per machine")
    args = parser.parse_args()
    options = resolve(task="binary", ranks=tuple(map(int, args.ranks.split(","))), optimizer="ftrl")
    counts = zipf_counts(args.rows, args.features, args.nonzeros, args.zipf)
    cluster = Cluster(64, args.cores, args.network, args.worker_rows)
    found = capacity(counts, options, args.step_rows, args.slots, cluster)
    held = 4 * found["parameters"] * 2.2  # parameters with FTRL's state
    print(f"{found['features_per_slot']:,.0f} features per slot; ", end="")
    print(f"{found['pulled'] + found['pushed'] + found['looked_up']:,.0f} bytes per row")
    print("machines  workers  hours per epoch  speedup  compute  stragglers  network  apply  failures per epoch")
    first = None
    for machines in (1, 2, 4, 8, 16, 32, 64):
        line = simulate(args, machines, found, held, np.random.default_rng(machines))
        first = first or line["hours"]
        shares = line["shares"]
        print(
            f"{machines:8d} {line['workers']:8d} {line['hours']:16.2f} {first / line['hours']:8.1f} "
            f"{shares['compute']:8.0%} {shares['stragglers']:11.0%} {shares['network']:8.0%} {shares['apply']:6.0%} "
            f"{line['failures']:19.3f}"
        )


if __name__ == "__main__":
    main()
