"""Click log from a CSV file: train on the past, choose the epoch on yesterday, test on today.

    python examples/click_log_from_csv.py

The example generates a file in which clicks depend on the pair of user and ad. It is read with Arrow; pandas or polars
work as well.
"""

import csv
import random
import tempfile
from pathlib import Path

from pyarrow import compute
from pyarrow.csv import read_csv
from sklearn.metrics import log_loss, roc_auc_score

from rafm import RaFMClassifier, load


def write_log(path, n_rows=30_000):
    """Write a click log: few users and ads are frequent, most are rare."""
    rng = random.Random(0)
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["day", "user", "ad", "device", "click"])
        for row in range(n_rows):
            user, ad = min(int(rng.paretovariate(0.8)), 2000), min(int(rng.paretovariate(0.6)), 300)
            chance = 0.5 if (user * 7 + ad * 3) % 5 < 2 else 0.1
            day = 1 + row * 7 // n_rows
            out.writerow([day, f"u{user}", f"a{ad}", rng.choice(["phone", "desktop"]), int(rng.random() < chance)])


folder = Path(tempfile.mkdtemp())
write_log(folder / "clicks.csv")
table = read_csv(folder / "clicks.csv")

# Split by time, as the model will be used: it never sees the future.
days, clicks = table["day"], table["click"].to_numpy()
features = table.drop_columns(["day", "click"])


def part(chosen):
    """Return features and labels of the chosen rows."""
    return features.filter(chosen), clicks[chosen.to_numpy()]


past, yesterday = part(compute.less(days, 6)), part(compute.equal(days, 6))
today, today_clicks = part(compute.equal(days, 7))

model = RaFMClassifier(ranks=(2, 8, 32), l2=0.01).fit(*past, eval_set=yesterday)
model.save(folder / "clicks.rafm")

probabilities = load(folder / "clicks.rafm").predict_proba(today)[:, 1]
constant = [past[1].mean()] * len(today_clicks)
print(f"parameters     {model.n_parameters_:,}, best epoch {model.best_epoch_}")
print(f"AUC            {roc_auc_score(today_clicks, probabilities):.3f}")
print(f"log loss       {log_loss(today_clicks, probabilities):.4f}")
print(f"of a constant  {log_loss(today_clicks, constant):.4f}")
