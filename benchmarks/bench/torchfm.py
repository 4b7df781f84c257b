"""A factorization machine in PyTorch, written in the usual way."""

from __future__ import annotations

import numpy as np

BATCH = 256


class TorchFM:
    """An FM with one embedding table for weights and vectors, with sparse gradients; all values are 1."""

    def __init__(self, n_features: int, rank: int, threads: int, learning_rate: float = 0.1):
        import torch

        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(n_features, 1 + rank, sparse=True)
        torch.nn.init.normal_(self.table.weight, 0, 0.01)
        self.bias = torch.zeros(1, requires_grad=True)
        parameters = [self.table.weight, self.bias]
        # The same initial accumulator as in rafm's AdaGrad.
        self.optimizer = torch.optim.Adagrad(parameters, lr=learning_rate, initial_accumulator_value=1.0)
        self.loss = torch.nn.BCEWithLogitsLoss(reduction="sum")

    def scores(self, ids):  # type: ignore[no-untyped-def]
        """Return bias + sum w + (|sum v|^2 - sum |v|^2) / 2 of every row."""
        found = self.table(ids)
        weights, vectors = found[..., 0], found[..., 1:]
        pairs = vectors.sum(1).square().sum(1) - vectors.square().sum((1, 2))
        return self.bias + weights.sum(1) + pairs / 2

    def epoch(self, table: np.ndarray, labels: np.ndarray, seed: int = 0) -> None:
        """Train on all rows once, in random order."""
        import torch

        order = np.random.default_rng(seed).permutation(len(table))
        for first in range(0, len(order), BATCH):
            some = order[first : first + BATCH]
            self.optimizer.zero_grad()
            self.loss(self.scores(torch.from_numpy(table[some])), torch.from_numpy(labels[some])).backward()
            self.optimizer.step()

    def probabilities(self, table: np.ndarray) -> np.ndarray:
        """Return the probability of a click for every row."""
        import torch

        with torch.no_grad():
            # In parts, to bound the memory of the embeddings.
            parts = [torch.sigmoid(self.scores(torch.from_numpy(some))) for some in np.array_split(table, 64)]
        return torch.cat(parts).numpy()
