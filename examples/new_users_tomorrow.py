"""Continue a saved model with new users: train yesterday's model on today's rows.

python examples/new_users_tomorrow.py
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.metrics import log_loss

from rafm import RaFMClassifier, load

rng = np.random.default_rng(0)


def day(first_user, last_user, n_rows=8_000):
    """Return the visits of a day and what was clicked; users come and go."""
    users = first_user + rng.zipf(1.3, n_rows) % (last_user - first_user)
    items = rng.zipf(1.4, n_rows) % 100
    clicked = rng.random(n_rows) < np.where((users * 7 + items * 3) % 5 < 2, 0.6, 0.1)
    return pa.table({"user": [f"u{user}" for user in users], "item": [f"i{item}" for item in items]}), clicked


path = Path(tempfile.mkdtemp()) / "clicks.rafm"
monday, tuesday, wednesday = day(0, 600), day(300, 900), day(300, 900)


def report(name, model):
    """Print how well a model predicts Wednesday, and how many users it has seen."""
    probabilities = model.predict_proba(wednesday[0])[:, 1]
    users = sum(name.startswith("user=") for name in model.encoder_.feature_names())
    print(f"{name:12} log loss {log_loss(wednesday[1], probabilities):.4f}, {users} users")


# Monday: train, and keep the state of the optimiser in the file.
model = RaFMClassifier(l2=0.01, n_epochs=5).fit(*monday)
model.save(path, keep_state=True)
report("of Monday", model)

# Tuesday: load it and train for one pass over the new rows, in order. New users and items become features.
model = load(path)
model.partial_fit(*tuesday)
model.save(path, keep_state=True)
report("of Tuesday", model)
