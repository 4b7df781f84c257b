"""A stream larger than memory: train from a file that is never loaded as a whole, in two ways.

    python examples/larger_than_memory.py

The command spills what exceeds `--memory` to disk and visits all rows in every epoch. In Python, `partial_fit` takes
the stream chunk by chunk and keeps none of it. The file here is small, so that the example is quick.
"""

import random
import subprocess
import sys
import tempfile
from pathlib import Path

from pyarrow.csv import ReadOptions, open_csv, read_csv
from sklearn.metrics import log_loss

from rafm import RaFMClassifier, load

folder = Path(tempfile.mkdtemp())
rng = random.Random(0)
for name, n_rows in (("train.csv", 40_000), ("test.csv", 5_000)):
    with open(folder / name, "w") as file:
        file.write("user,item,click\n")
        for _ in range(n_rows):
            user, item = min(int(rng.paretovariate(0.8)), 2000), min(int(rng.paretovariate(0.6)), 300)
            file.write(f"u{user},i{item},{int(rng.random() < (0.6 if (user * 7 + item * 3) % 5 < 2 else 0.1))}\n")


# The command: many epochs, with at most 1 MB of encoded rows in memory. To train several times, convert first.
train = "rafm train train.csv --label click --memory 1 --l2 0.01 --out spilled.rafm"
subprocess.run([sys.executable, "-m", *train.split()], cwd=folder, check=True, capture_output=True)

# Python: one pass, chunk by chunk.
model = RaFMClassifier(l2=0.01)
for piece in open_csv(folder / "train.csv", ReadOptions(block_size=100_000)):
    model.partial_fit(piece.drop_columns("click"), piece["click"].to_numpy(), classes=[0, 1])

test = read_csv(folder / "test.csv")
rows, clicks = test.drop_columns("click"), test["click"].to_numpy()
for name, trained in (("all epochs, spilled", load(folder / "spilled.rafm")), ("one pass, in pieces", model)):
    print(f"{name}   log loss {log_loss(clicks, trained.predict_proba(rows)):.4f}")
