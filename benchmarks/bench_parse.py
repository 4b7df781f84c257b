"""How many MB/s of libsvm text do we parse, compared with scikit-learn's loader, and with only splitting it?

    python -m benchmarks.bench_parse [megabytes of each file]

benchmarks.bench.parse says how: three generated files, both sides in one process.
"""

from __future__ import annotations

from benchmarks.arguments import numbers_asked_for
from benchmarks.bench.child import call


def main(megabytes: float) -> None:
    """Print two lines per file."""
    print(f"{'rows':>18} {'':>8} {'rafm MB/s':>10} {'sklearn MB/s':>14} {'times':>8} {'split MB/s':>12} {'slower':>8}")
    for line in call("parse", "time_parsing", 3600, threads=2, megabytes=megabytes)["lines"]:
        for clock in ("elapsed", "cpu"):
            ours, theirs, splitting = (line[who][clock] for who in ("rafm", "sklearn", "split"))
            speeds = f"{ours:10.1f} {theirs:14.1f} {ours / theirs:8.1f} {splitting:12.1f} {splitting / ours:8.2f}"
            print(f"{line['rows']:>18} {clock:>8} {speeds}")


if __name__ == "__main__":
    main(*numbers_asked_for(__doc__, megabytes=30.0))
